"""`kgqa train kg-cot` and `--method kg-cot` as people use them, and what they refuse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kgqa.questions.base import is_held_out
from tests.methods.reasoners import encoder_folder
from tests.training.conftest import PEOPLE, town_file  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa


@pytest.fixture(scope="module")
def graph(town_file: Path) -> str:  # noqa: F811
    return f"sqlite:///{town_file}"


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = []
    for at in range(PEOPLE - 1):
        rows += [
            {
                "id": f"b{at}",
                "question": f"where was person {at} born",
                "topic_entities": [f"p{at}"],
                "answers": [f"c{at}"],
                "hops": 1,
            },
            {
                "id": f"c{at}",
                "question": f"who is the child of person {at}",
                "topic_entities": [f"p{at}"],
                "answers": [f"p{at + 1}"],
            },
        ]
    file = tmp_path_factory.mktemp("questions") / "q.jsonl"
    lines = [json.dumps(row) for row in rows]
    file.write_text("\n".join([*lines, "no question"]) + "\n", "utf-8")
    return file


def using(reasoner: Path) -> tuple[str, ...]:
    """The flags of somebody who trusts the reasoner's encoder."""
    encoder = json.loads((reasoner / "reasoner.json").read_text("utf-8"))["encoder"]
    return ("--set", f"reasoner={reasoner}", "--set", f"encoder={encoder}")


@pytest.fixture(scope="module")
def reasoner(
    kgqa: Kgqa, graph: str, questions: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A reasoner that the command trained."""
    folder = tmp_path_factory.mktemp("reasoner")
    encoder = encoder_folder(folder / "encoder")
    out = folder / "reasoner"
    small = ("--hidden", "32", "--epochs", "30", "--learning-rate", "5e-3", "--dropout", "0")
    small += ("--set", "checks=1")  # so few questions to check by are soon all right
    named = ("--questions", f"jsonl={questions}", "--encoder", encoder, "--out", out)
    done = kgqa("train", "kg-cot", *named, *small, "--graph", graph, "--json")
    held = sum(is_held_out(f"{kind}{at}") for kind in "bc" for at in range(PEOPLE - 1))
    found = done.json
    assert found["questions"] + found["checked"] == 2 * (PEOPLE - 1) - held
    assert found["folder"] == str(out)
    assert "line 39: not JSON" in done.err
    assert ", hits_at_1 100, " in done.err
    return out


def test_what_was_trained_answers_and_is_measured(
    kgqa: Kgqa, graph: str, reasoner: Path, questions: Path, tmp_path: Path
) -> None:
    flags = ("--method", "kg-cot", *using(reasoner), "--graph", graph)
    asked = kgqa("ask", "where was person 3 born", "--entity", "p3", *flags, "--json").json
    assert asked["method"] == "kg-cot"
    assert asked["answers"][0]["id"] == "c3"
    assert asked["paths"][0]["text"] == "Person 3 -> person.born_in -> City 3"
    assert all(path["grounded"] for path in asked["paths"])
    shown = kgqa("ask", "where was person 3 born", "--entity", "p3", *flags)
    assert "City 3" in shown.out
    # the published settings are the defaults
    command = ("ask", "where was person 3 born", "--entity", "p3", *flags, "--json")
    named = kgqa(*command, "--preset", "kg-cot").json
    assert (named["answers"], named["paths"]) == (asked["answers"], asked["paths"])
    out = tmp_path / "out"
    found = kgqa("eval", "jsonl", questions, *flags, "--out", out, "--json").json
    assert found["grounded_paths"] == 100.0
    assert found["hits_at_1"] > 50.0
    settings = json.loads((out / "run.json").read_text("utf-8"))
    assert settings["reasoner"] == str(reasoner)
    more = kgqa("eval", "jsonl", questions, *flags, "--out", out, "--set", "paths_each=2")
    assert "another paths_each" in more.error


def test_what_a_held_out_question_asks_is_not_trained_on(
    kgqa: Kgqa, graph: str, questions: Path, tmp_path: Path
) -> None:
    encoder = encoder_folder(tmp_path / "encoder")
    common = ("--encoder", encoder, "--hidden", "16", "--epochs", "1", "--out", tmp_path / "w")
    train = ("train", "kg-cot", *common, "--graph", graph, "--json")
    assert "There is nothing to train on" in kgqa(*train).error
    alone = kgqa(*train, "--questions", questions).json
    held = next(at for at in range(PEOPLE - 1) if is_held_out(f"c{at}"))
    asked = {"topic_entities": [f"p{held}"], "answers": [f"p{held + 1}"]}
    name = next(f"again{at}" for at in range(99) if not is_held_out(f"again{at}"))
    again = {"id": name, "question": f"Who is the child of Person {held}", **asked}
    twice = tmp_path / "twice.jsonl"
    twice.write_text(questions.read_text("utf-8") + json.dumps(again) + "\n", "utf-8")
    known = kgqa(*train, "--questions", twice, "--no-resume")
    assert "since they ask what a held-out question asks: 1 of" in known.err
    assert known.json["questions"] == alone["questions"]


def test_choices_and_several_topics(kgqa: Kgqa, graph: str, reasoner: Path) -> None:
    flags = ("--method", "kg-cot", *using(reasoner), "--graph", graph, "--json")
    two = ("--entity", "p3", "--entity", "p8", "--choices", "City 3,City 8,nowhere")
    asked = kgqa("ask", "where was person 3 born", *two, *flags).json
    assert {answer["name"] for answer in asked["answers"][:2]} == {"City 3", "City 8"}
    nowhere = {
        "id": None,
        "name": "nowhere",
        "score": 0.0,
        "grounded": False,
        "paths": [],
        "conditions": [],
    }
    assert asked["answers"][2] == nowhere


def test_a_reasoner_that_cannot_be_used_is_named(
    kgqa: Kgqa, graph: str, reasoner: Path, tmp_path: Path
) -> None:
    asked = ("ask", "where was person 3 born", "--entity", "p3", "--graph", graph)
    flags = ("--method", "kg-cot", "--set")
    assert "is not there" in kgqa(*asked, *flags, f"reasoner={tmp_path / 'none'}").error
    other = kgqa(*asked, *flags, f"reasoner={reasoner}", "--preset", "gcr").error
    assert "The preset gcr is for another method" in other
    assert "is for another method" in kgqa(*asked, "--preset", "kg-cot").error
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "reasoner.json").write_text("{", "utf-8")
    assert "is not JSON" in kgqa(*asked, *flags, f"reasoner={damaged}").error
    assert (
        "It belongs to: kg-cot"
        in kgqa(*asked, "--method", "gcr", "--set", f"reasoner={reasoner}").error
    )
    assert (
        "walks 2 hops at most" in kgqa(*asked, *flags[:-1], *using(reasoner), "--hops", "3").error
    )
    strange = kgqa(*asked, *flags, f"reasoner={reasoner}").error
    assert "not one of this program's own" in strange
    assert "--set encoder=" in strange, "a card alone has no encoder loaded"


def test_what_cannot_be_trained_on_is_said(
    kgqa: Kgqa, graph: str, questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    encoder = encoder_folder(tmp_path / "encoder")
    flags = ("--graph", graph, "--out", out, "--encoder", encoder)
    assert "cannot be read" in kgqa("train", "kg-cot", "--questions", "none", *flags).error
    rog = kgqa("train", "kg-cot", "--questions", f"rog={questions}", *flags)
    assert "each have their own" in rog.error
    other = tmp_path / "q.jsonl"
    row = {"question": "Who?", "topic_entities": ["x"], "answers": ["y"]}
    other.write_text(json.dumps(row), "utf-8")
    assert (
        "of the questions can be trained"
        in kgqa("train", "kg-cot", "--questions", other, *flags).error
    )
    assert not out.exists()

"""`kgqa train` as people use it: question files, a KG alone, what it writes and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kgqa.graph.sqlite import SqliteStore
from kgqa.questions.base import is_held_out
from tests.training.conftest import town_file  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

HELD = next(f"q{at}" for at in range(99) if is_held_out(f"q{at}"))
KEPT = [one for one in (f"q{at}" for at in range(99)) if not is_held_out(one)]


@pytest.fixture
def graph(town_file: Path) -> str:  # noqa: F811
    return f"sqlite:///{town_file}"


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def examples(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def born(id_: str, at: int, **more: Any) -> dict[str, Any]:
    asked = {"id": id_, "question": f"Where was person {at} born?"}
    return {**asked, "topic_entities": [f"p{at}"], "answers": [f"c{at}"], **more}


def test_examples_are_paths_and_no_held_out_question_is_among_them(
    kgqa: Kgqa, graph: str, tmp_path: Path
) -> None:
    same = {**born(KEPT[3], 5), "question": "where was  person 5 born"}
    file = lines(tmp_path / "q.jsonl", *[born(one, 1) for one in KEPT[:2]], born(HELD, 5), same)
    with file.open("a", encoding="utf-8") as more:
        more.write("nonsense\n")
    out = tmp_path / "x" / "examples.jsonl"
    done = kgqa("train", "data", "--questions", file, "--out", out, "--json", "--graph", graph)
    # the second question is the first again; the last asks what the held-out one asks
    assert (done.json["examples"], done.json["held_out"]) == (1, 1)
    assert "q.jsonl, line 5: not JSON" in done.err
    assert "2 examples were left out" in done.err
    [example] = examples(out)
    assert example["question_id"] == KEPT[0]
    assert example["hops"] == [["person.born_in", "City 1"]]
    everything = kgqa(
        *("train", "data", "--questions", file, "--out", out, "--no-held-out", "--json"),
        *("--graph", graph),
    ).json
    assert (everything["examples"], everything["held_out"]) == (2, 0)


def test_names_gold_paths_and_topics_of_another_file(
    kgqa: Kgqa, graph: str, tmp_path: Path
) -> None:
    named = born(KEPT[0], 1, topic_entities=["Person 1"], answers=["City 1"])
    paths = [["person.child", "person.born_in"], ["office.place"]]
    gold = {"id": KEPT[1], "question": "Where was the child of 2 born?", "relation_paths": paths}
    file = lines(tmp_path / "q.jsonl", named, gold)
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps([{"id": KEPT[1], "freebase_ids": ["m.2"], "names": ["Person 2"]}]))
    out = tmp_path / "examples.jsonl"
    flags = ("--questions", file, "--topics", topics, "--out", out, "--graph", graph)
    assert kgqa("train", "data", *flags).code == 0
    assert [example["hops"][-1][1] for example in examples(out)] == ["City 1", "City 3"]
    assert examples(out)[0]["topic_ids"] == ["p1"]


def test_forms_of_benchmarks_are_read(kgqa: Kgqa, graph: str, tmp_path: Path) -> None:
    out = tmp_path / "examples.jsonl"

    def made(form: str, file: Path) -> list[Any]:
        flags = ("--questions", file, "--format", form, "--out", out, "--no-held-out")
        done = kgqa("train", "data", *flags, "--graph", graph)
        assert done.code == 0, done.err
        return [(example["head"], example["hops"]) for example in examples(out)]

    choice = {
        "id": "1",
        "answerKey": "B",
        "question": {
            "stem": "Where does one go?",
            "question_concept": "Person 4",
            "choices": [{"label": "A", "text": "City 9"}, {"label": "B", "text": "City 7"}],
        },
    }
    by_choice = made("commonsenseqa", lines(tmp_path / "c.jsonl", choice))
    assert by_choice == [("Person 4", [["person.office..office.place", "City 7"]])]
    own = {
        "id": "1",
        "question": "Who?",
        "q_entity": ["Ann"],
        "a_entity": ["Bo"],
        "graph": [["Ann", "knows", "Bo"]],
    }
    assert made("rog", lines(tmp_path / "r.jsonl", own)) == [("Ann", [["knows", "Bo"]])]
    text = tmp_path / "pq.txt"
    text.write_text(
        "where ?\tCity 2(City 2/)\tPerson 1#person.child#Person 2#person.born_in#City 2"
        "#<end>#City 2\n"
    )
    by_path = made("pathquestion", text)
    assert by_path == [("Person 1", [["person.child", "Person 2"], ["person.born_in", "City 2"]])]


def test_what_cannot_be_meant_is_said_before_anything_is_loaded(kgqa: Kgqa, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "x")
    assert "nothing to train on" in kgqa("train", "run", *out).error
    file = ("--questions", tmp_path / "q.jsonl")
    assert (
        "--topics"
        in kgqa(
            *("train", "data", *out, *file, "--format", "rog", "--topics", tmp_path / "t.json")
        ).error
    )
    assert "does not exist" in kgqa("train", "run", *out, *file, "--preset", "x").error


@pytest.mark.model
def test_an_adapter_belongs_to_its_model_and_answers(
    kgqa: Kgqa, graph: str, tiny_folder: Path, tmp_path: Path
) -> None:
    file, out = (
        lines(tmp_path / "q.jsonl", *(born(f"q{at}", at) for at in range(15))),
        tmp_path / "a",
    )
    asked = ("--questions", file, "--graph", graph)
    few = ("--epochs", "1", "--model", tiny_folder)
    done = kgqa("train", "run", "--out", out, *few, "--json", *asked).json
    assert done["steps"] == 1
    assert f"held-out loss: {done['held_out_loss']:.4f}" in (out / "README.md").read_text("utf-8")
    card = json.loads((out / "kgqa.json").read_text("utf-8"))
    assert (card["hops"], card["direction"], card["mediators"]) == (2, "out", "collapse")
    ask = ("ask", "Where was Person 3 born?", "--entity", "p3", "--adapter", out, "--k", "2")
    flags = ("--model", tiny_folder, "--graph", graph, "--json")
    assert kgqa(*ask, *flags).json["paths"][0]["grounded"] is True
    again = ("train", "run", *asked, "--out", tmp_path / "b", "--start-from", out)
    assert "was trained for Tiny-Llama" in kgqa(*again).error
    assert "All weights cannot be trained from an adapter's" in kgqa(*again, "--full").error


@pytest.mark.model
def test_the_published_recipe_end_to_end(
    kgqa: Kgqa,
    graph: str,
    tiny_folder: Path,
    town_file: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    file = lines(tmp_path / "q.jsonl", *(born(f"q{at}", at) for at in range(10)))
    out = tmp_path / "Tiny-GCR"
    trained = kgqa(
        *("train", "run", "--preset", "gcr", "--questions", file, "--out", out, "--epochs", "1"),
        *("--model", tiny_folder, "--json", "--graph", graph),
    ).json
    assert trained["steps"] == 1  # 128 examples would be one
    with SqliteStore(town_file) as store:
        assert store.info.name in (out / "README.md").read_text("utf-8")
    card = json.loads((out / "kgqa.json").read_text("utf-8"))
    assert (card["mediators"], card["added_tokens"]) == ("keep", ["<PATH>", "</PATH>"])
    flags = ("--model", out, "--k", "1", "--json", "--graph", graph, "--entity", "p3")
    path = kgqa("ask", "Where was Person 3 born?", *flags).json["paths"][0]
    assert path["grounded"] is True

"""`kgqa train --method dog`: chains to look at, an adapter that asks with them, what is refused."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kgqa.graph.sqlite import SqliteStore
from kgqa.models.adapter import preset
from kgqa.questions.base import is_held_out
from tests.training.conftest import town_file  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("minilm")]


@pytest.fixture
def graph(town_file: Path) -> str:  # noqa: F811
    return f"sqlite:///{town_file}"


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    rows = [
        {
            "id": f"q{at}",
            "question": f"Where was the child of person {at} born?",
            "topic_entities": [f"p{at}"],
            "answers": [f"c{at + 1}"],
        }
        for at in range(12)
    ]
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def long_tiny(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model, which may read a prompt with a graph in it."""
    folder = tmp_path_factory.mktemp("long") / "Tiny-Llama"
    shutil.copytree(tiny_folder, folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = 4096
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_chains_are_shown_and_no_held_out_question_is_among_them(
    kgqa: Kgqa,
    graph: str,
    questions: Path,
    town_file: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    out = tmp_path / "chains.jsonl"
    flags = ("--method", "dog", "--triplets", "6", "--questions", questions, "--out", out)
    done = kgqa("train", "data", *flags, "--json", "--graph", graph).json
    held = sum(is_held_out(f"q{at}") for at in range(12))
    assert (done["examples"], done["held_out"]) == (12 - held, held)
    assert done["data"]["graph of a prompt"] == "at most 6 triplets, chosen by all-MiniLM-L6-v2"
    chains: list[dict[str, Any]] = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(chains) == done["examples"]
    with SqliteStore(town_file) as store:
        relations = store.relations().ids
        for chain in chains:
            assert not is_held_out(chain["question_id"])
            assert len(chain["graph"]) <= 6
            ends = [(step["head"], step["relation"], step["tail"]) for step in chain["steps"]]
            assert {" -> ".join(end) for end in ends} <= set(chain["graph"])
            assert chain["answers"] == [ends[-1][2]]
            # in this KG a name tells the id
            ids = [[f"{name[0].lower()}{name.split()[1]}" for name in end[::2]] for end in ends]
            heads, tails = (store.keys_of([id_[at] for id_ in ids]) for at in (0, 1))
            keys = [relations.index(end[1]) for end in ends]
            assert store.has_edges(heads, np.array(keys), tails).all()


def test_an_adapter_is_trained_and_asked_with_its_prompt(
    kgqa: Kgqa, graph: str, questions: Path, long_tiny: Path, tmp_path: Path
) -> None:
    out = tmp_path / "adapter"
    model = ("--model", long_tiny, "--graph", graph)
    few = ("--triplets", "6", "--epochs", "1", "--rank", "2")
    run = ("train", "run", "--method", "dog", "--questions", questions, "--out", out, *few)
    done = kgqa(*run, *model)
    assert done.code == 0, done.err
    assert f"--method dog --adapter {out}" in done.out
    kept = sum(not is_held_out(f"q{at}") for at in range(12))
    assert f"{kept} examples" in done.out
    card = json.loads((out / "kgqa.json").read_text("utf-8"))
    assert "{graph}" in card["prompt"]
    assert (card["hops"], card["direction"], card["base_model"]) == (2, "out", "Tiny-Llama")
    assert card["triplets"] == 6
    readme = (out / "README.md").read_text("utf-8")
    assert "--method dog --adapter adapter" in readme
    assert "at most 6 triplets, chosen by all-MiniLM-L6-v2" in readme
    ask = ("ask", "Where was Person 3 born?", "--entity", "p3", "--method", "dog", "--json")
    asked = kgqa(*ask, "--adapter", out, "--set", "beams=1", *model).json
    assert asked["method"] == "dog"
    assert asked["kg_llm"]["adapter"] == "adapter"
    assert [path["grounded"] for path in asked["paths"]] == [True]
    more = ("train", "run", "--questions", questions, "--start-from", out, *model)
    error = kgqa(*more, "--out", tmp_path / "b").error
    assert "was trained to write chains" in error


def test_chains_may_begin_with_an_adapter_of_paths(
    kgqa: Kgqa, graph: str, questions: Path, long_tiny: Path, tmp_path: Path
) -> None:
    paths, chains, again = (tmp_path / name for name in ("paths", "chains", "again"))
    common = ("--questions", questions, "--epochs", "0.2", "--rank", "2")
    model = ("--model", long_tiny, "--graph", graph)
    assert kgqa("train", "run", *common, "--out", paths, *model).code == 0
    dog = ("train", "run", "--method", "dog", "--triplets", "6", *common, *model)
    assert kgqa(*dog, "--start-from", paths, "--out", chains).code == 0
    card = json.loads((chains / "kgqa.json").read_text("utf-8"))
    assert card["prompt"] == preset("dog-short").prompt
    # from there on it is asked as it was trained, whatever the preset of a new run would be
    assert kgqa(*dog, "--start-from", chains, "--preset", "dog", "--out", again).code == 0
    assert json.loads((again / "kgqa.json").read_text("utf-8"))["prompt"] == card["prompt"]
    bundled = kgqa(*dog, "--start-from", "freebase", "--out", tmp_path / "c").error
    assert "was trained for SmolLM2-135M-Instruct, and the model is Tiny-Llama" in bundled
    marked = {**json.loads((paths / "kgqa.json").read_text("utf-8")), "added_tokens": ["<PATH>"]}
    (paths / "kgqa.json").write_text(json.dumps(marked), "utf-8")
    error = kgqa(*dog, "--start-from", paths, "--out", tmp_path / "d").error
    assert "between markers of its own" in error


def test_what_has_no_meaning_for_chains_is_refused(
    kgqa: Kgqa, graph: str, questions: Path, tmp_path: Path
) -> None:
    common = ("--questions", questions, "--out", tmp_path / "x", "--graph", graph)
    dog = (*common, "--method", "dog")

    def refused(*flags: object) -> str:
        return kgqa("train", "run", *map(str, flags)).error

    assert "--paths has no meaning" in refused(*dog, "--paths", "best")
    assert "--preset has no meaning" in refused(*dog, "--preset", "gcr")
    assert "The --loss relations is for paths" in refused(*dog, "--loss", "relations")
    assert "Set --method to dog" in refused(*common, "--preset", "dog")
    assert "Set --method to dog" in refused(*common, "--preset", "dog-short")
    assert "--triplets belongs to the method dog" in refused(*common, "--triplets", "4")
    assert "--encoder belongs to the method dog" in refused(*common, "--encoder", "x")
    assert not (tmp_path / "x").exists()

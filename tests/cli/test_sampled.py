"""Tries that hold a sample of the paths: made, used and shown as what they are."""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import QUESTION

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

OBAMA = "m.02mjmr"
FLAGS = ("--sample", "20", "--sample-walk", "random", "--sample-seed", "3")
SET = ("--set", "sample=20", "--set", "sample_walk=random", "--set", "sample_seed=3")
OTHER = (*SET[:-1], "sample_seed=4")
SAMPLE = {"size": 20, "walk": "random", "seed": 3}
IN_WORDS = "at most 20 paths of an entity, by random walks (seed 3)"


@pytest.fixture(scope="session")
def kgqa(kgqa: Kgqa, tiny_folder: Path) -> Kgqa:
    """Commands with a tiny model of random weights: what is answered does not matter here."""
    return partial(kgqa, KGQA_MODEL=tiny_folder)


@pytest.fixture(scope="module")
def sampled(kgqa: Kgqa, plain_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose only index is a sample, of two entities."""
    folder = tmp_path_factory.mktemp("sampled")
    home = shutil.copytree(plain_home, folder / "home")
    entities = folder / "entities.txt"
    entities.write_text(f"{OBAMA}\nApollo 13\n", encoding="utf-8")
    made = kgqa("precompute-tries", "--entities", entities, *FLAGS, "--json", "--home", home)
    assert made.json["sample"] == SAMPLE
    assert (made.json["stored"], made.json["composed"]) == (2, 0)
    assert made.json["paths"] <= 40
    return home


def test_status_and_paths_say_that_it_is_a_sample(kgqa: Kgqa, sampled: Path) -> None:
    status = kgqa("status", "--verify", "--json", "--home", sampled).json
    [index] = status["kgs"][0]["indexes"]
    assert index["sample"] == SAMPLE
    assert not index["fits"]
    assert "sampled paths 20, not none" in index["differs"]
    assert index["faults"] == []
    assert "(a sample)" in kgqa("status", "--home", sampled).out
    paths = kgqa("paths", OBAMA, "--home", sampled)
    assert "20 paths of at most 2 hops" in paths.out
    assert f"a sample: {IN_WORDS}" in paths.out
    [trie] = kgqa("paths", OBAMA, "--json", "--home", sampled).json["tries"]
    assert (trie["sample"], trie["paths"]) == (SAMPLE, 20)


def test_its_trie_is_exported_to_who_asks_for_it(kgqa: Kgqa, sampled: Path, home: Path) -> None:
    command = ("tries", "export", OBAMA, "--limit", "1000", "--json")
    stored = kgqa(*command, *FLAGS, "--home", sampled)
    assert f"The trie is a sample: {IN_WORDS}" in stored.err
    assert (stored.json["source"], stored.json["paths"]) == ("shard", 20)
    assert stored.json["sample"] == SAMPLE
    # where only the whole language is stored, the same sample is made from the graph
    built = kgqa(*command, *FLAGS, "--home", home)
    assert built.json["source"] == "graph"
    assert built.json["lines"] == stored.json["lines"]
    whole = kgqa(*command, "--home", sampled)
    assert (whole.json["source"], whole.json["sample"]) == ("graph", None)
    assert "sampled paths 20, not none" in whole.err
    assert whole.json["paths"] > 20


@pytest.mark.model
def test_an_answer_comes_from_a_sample_only_where_one_was_asked_for(
    kgqa: Kgqa, sampled: Path
) -> None:
    ask = ("ask", QUESTION, "--k", "2", "--json", "--home", sampled)
    some = kgqa(*ask, *SET)
    [use] = [one for one in some.json["constraints"] if one["entity"] == OBAMA]
    assert (use["source"], use["paths"]) == ("shard", 20)
    assert f"The index holds a sample of Barack Obama ({OBAMA}): {IN_WORDS}" in some.err
    whole = kgqa(*ask)
    assert {one["source"] for one in whole.json["constraints"]} == {"composed"}
    assert "a sample" not in whole.err
    other = kgqa(*ask, *OTHER)
    assert {one["source"] for one in other.json["constraints"]} == {"composed"}
    assert "seed 3, not 4" in other.err
    assert "--sample 20 --sample-walk random --sample-seed 4" in other.err


@pytest.mark.model
def test_a_sample_is_measured_as_what_it_is(kgqa: Kgqa, sampled: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "q.jsonl", tmp_path / "out"
    row = {"id": "1", "question": QUESTION, "topic_entities": [OBAMA], "answers": ["Honolulu"]}
    file.write_text(json.dumps(row), encoding="utf-8")
    measure = ("eval", "jsonl", file, "--method", "gcr", "--k", "2", "--home", sampled)
    some = kgqa(*measure, *SET, "--out", out, "--json")
    assert "Answering on the fly" not in some.err
    assert json.loads((out / "run.json").read_text("utf-8"))["sample"] == SAMPLE
    assert some.json["answered"] == 1
    # the same questions over all paths are another run
    assert "another sample" in kgqa(*measure, "--out", out).error
    other = kgqa(*measure, *OTHER)
    assert "--sample 20 --sample-walk random --sample-seed 4" in other.err


def test_questions_with_graphs_of_their_own_have_no_sample(
    kgqa: Kgqa, sampled: Path, tmp_path: Path
) -> None:
    file = tmp_path / "r.jsonl"
    row = {"id": "1", "question": "?", "q_entity": ["a"], "graph": [["a", "r", "b"]]}
    file.write_text(json.dumps({**row, "a_entity": ["b"]}), encoding="utf-8")
    assert "sample=… names an index of a KG" in kgqa("eval", "rog", file, *SET).error


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("sample_walk=random",), "says which paths a sample has"),
        (("sample_seed=0",), "says which paths a sample has"),
        (("sample=5", "sample_walk=depth", "sample_seed=1"), "A seed changes nothing"),
    ],
)
@pytest.mark.parametrize("command", [["precompute-tries"], ["ask", QUESTION]])
def test_options_that_cannot_be_meant_are_said(
    kgqa: Kgqa, sampled: Path, command: list[str], options: tuple[str, ...], said: str
) -> None:
    given = [part for one in options for part in ("--set", one)]
    assert said in kgqa(*command, *given, "--home", sampled).error

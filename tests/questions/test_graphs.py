from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kgqa.graph.model import Kind
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import ground
from kgqa.paths.walk import WalkRules, walk
from kgqa.questions import Question, read_questions
from kgqa.questions.graphs import own_store

if TYPE_CHECKING:
    from pathlib import Path

GRAPH = [
    ["Anna", "job", "m.0job"],
    ["m.0job", "title", "Clerk"],
    ["Anna", "born_in", "Oslo"],
    ["Anna", "born_in", "Oslo"],
    ["Anna", "also", "Oslo"],
    ["Oslo", "code", "m.0gold"],
]
ROW = {"id": "r1", "question": "?", "q_entity": ["Anna"], "a_entity": ["m.0gold"], "graph": GRAPH}


def read(folder: Path, row: dict) -> Question:
    path = folder / "r.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return read_questions(path, "rog").questions[0]


def texts(store, topic: str, rules: WalkRules) -> set[str]:
    table, _ = walk(store, store.keys_of([topic]), rules)
    return {path.text for path in ground(store, table, PathFormat()) if path}


def test_a_question_is_asked_of_its_own_graph(tmp_path: Path) -> None:
    with own_store(read(tmp_path, ROW)) as store:
        assert (store.info.entities, store.info.mediators, store.info.edges) == (4, 1, 5)
        kinds = store.entities(store.keys_of(["m.0job", "m.0gold"])).kinds
        # a nameless node is a mediator, but for one that the question is about
        assert kinds.tolist() == [Kind.MEDIATOR, Kind.ENTITY]
        assert texts(store, "Anna", WalkRules()) == {
            "Anna -> job..title -> Clerk",
            "Anna -> born_in -> Oslo",
            "Anna -> also -> Oslo",
            "Anna -> born_in -> Oslo -> code -> m.0gold",
            "Anna -> also -> Oslo -> code -> m.0gold",
        }
        kept = texts(store, "Anna", WalkRules(mediators="keep"))
        assert "Anna -> job -> m.0job -> title -> Clerk" in kept


def test_two_graphs_are_two_kgs_and_an_empty_one_is_one(tmp_path: Path) -> None:
    versions = []
    for graph in (GRAPH, GRAPH[:2], []):
        with own_store(read(tmp_path, {**ROW, "graph": graph})) as store:
            versions.append(store.info.version)
            assert (store.keys_of(["Anna"]) >= 0).tolist() == [bool(graph)]
    assert len(set(versions)) == 3


def test_a_question_without_a_graph_has_no_store() -> None:
    with pytest.raises(ValueError, match="no graph"), own_store(Question("q", "?", [], [])):
        pass


def test_real_question_graphs_hold_the_paths_that_were_published(
    shared: Path, tmp_path: Path
) -> None:
    """Every path that the published program lists for a real question is walked here too."""
    files = sorted((shared / "gcr_question_graphs").glob("*.json"))[:3]
    if not files:
        pytest.skip(f"there are no files in {shared / 'gcr_question_graphs'}")
    for file in files:
        row = json.loads(file.read_text("utf-8"))
        asked = {"q_entity": row["topic_entities"], "a_entity": row["answers"]}
        line = {"question": row["question"], "graph": row["edges"], **asked}
        with own_store(read(tmp_path, line)) as store:
            rules = WalkRules(mediators="keep")
            topics = store.keys_of(row["topic_entities"])
            table, _ = walk(store, np.unique(topics[topics >= 0]), rules)
            found = {path.text for path in ground(store, table, PathFormat()) if path}
            published = {hop for hop in row["paths_within_2_hops"] if _simple(hop)}
            assert published
            assert published <= found


def _simple(path: str) -> bool:
    """Whether a published path comes to no entity twice; ours never do."""
    nodes = path.split(" -> ")[::2]
    return len(set(nodes)) == len(nodes)

"""Triplets against gold chains by name, and ill triplets by id: whatever a chain claims."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from kgqa.evaluation.figures import summarise
from kgqa.evaluation.graph_metrics import (
    TripletScores,
    ill_triplets,
    triplet_figures,
    triplet_scores,
)
from kgqa.evaluation.record import Record

from kgqa.evaluation.report import figure_rows
from kgqa.graph.model import Kind
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import GroundedPath, Node, PathEdge, ground
from kgqa.paths.triplets import StoreTriplets, as_paths, joined_rows, turned
from tests.graph.tables import entity, tables_of
from tests.trie.language import store_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.graph.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    tables = tables_of(
        [
            *(entity(one, one.upper()) for one in "abcd"),
            entity("m", kind=Kind.MEDIATOR),
            entity("1950", "1950", kind=Kind.VALUE),
        ],
        [
            ("a", "r", "b"),
            ("c", "s^..t", "b"),
            ("a", "p", "m"),
            ("m", "q", "d"),
            ("a", "born", "1950"),
            ("c", "born", "1950"),
        ],
    )
    with store_of(tables, tmp_path) as opened:
        yield opened


def edge(store: SqliteStore, head: str, tail: str) -> PathEdge:
    """The triplet between two entities, read from ``head``."""
    ends = store.keys_of([head, tail]).tolist()
    rows = joined_rows(StoreTriplets(store).around(np.array(sorted(ends))))
    both = np.concatenate([rows, turned(rows)])
    (row,) = both[(both[:, 0] == ends[0]) & (both[:, 4] == ends[1])]
    (path,) = ground(store, as_paths(row[None]), PathFormat())
    assert path is not None
    return path.edges[0]


def chain(*edges: PathEdge) -> GroundedPath:
    return GroundedPath(edges, "")


def test_scores_are_of_distinct_triplets_in_stored_direction(store: SqliteStore) -> None:
    path = chain(edge(store, "a", "b"), edge(store, "b", "c"), edge(store, "b", "a"))
    gold = [("A", "r", "B"), ("C", "s^..t", "b."), ("x", "y", "z")]
    assert triplet_scores(store, gold, path) == TripletScores(1.0, 2 / 3, 4 / 5)
    assert triplet_scores(store, [("B", "r", "A")], path) == TripletScores(0.0, 0.0, 0.0)
    assert triplet_scores(store, gold, None) == TripletScores(0.0, 0.0, 0.0)
    assert triplet_scores(store, [], path) is None
    collapsed = chain(edge(store, "d", "a"))
    assert collapsed.edges[0].inverse
    assert triplet_scores(store, [("a", "p..q", "d")], collapsed) == TripletScores(1.0, 1.0, 1.0)


def test_ill_triplets_are_counted(store: SqliteStore) -> None:
    good = chain(edge(store, "a", "b"), edge(store, "b", "c"), edge(store, "a", "d"))
    assert ill_triplets(store, [good], ["a"]) == (0, 3)
    assert ill_triplets(store, [good], ["c"]) == (1, 3)  # the first touches nothing yet
    through = chain(edge(store, "a", "1950"), edge(store, "1950", "c"))
    assert ill_triplets(store, [through], ["a"]) == (1, 2)  # nothing goes on from a value
    first = edge(store, "a", "b")
    wrong = [
        replace(first, tail=Node("c", "C")),  # its fact ends elsewhere
        replace(first, head=Node("d", "D")),
        replace(first, facts=()),
        replace(first, facts=(replace(first.facts[0], predicate="s^..t"),)),
        replace(first, facts=(replace(first.facts[0], predicate="no such"),)),
        replace(first, tail=Node("no such", "C")),
    ]
    for one in wrong:
        assert ill_triplets(store, [chain(one)], ["a", "d"]) == (1, 1)
    assert ill_triplets(store, [], ["a"]) == (0, 0)


def record(score: float | None, ill: int, written: int, outcome: str = "right") -> Record:
    scores = dict.fromkeys(("f1", "precision", "recall"), score)
    return Record("q", "?", outcome, triplets={**scores, "ill": ill, "written": written})


def test_figures_are_over_questions_with_gold_triplets() -> None:
    other = Record("q", "?", "right")
    broken = Record("q", "", "malformed")
    right, wrong = record(1.0, 0, 3), record(0.0, 1, 5)
    found = triplet_figures([right, wrong, other], "gcr")
    assert found == {"f1": 50.0, "precision": 50.0, "recall": 50.0, "ill": 12.5}
    found = triplet_figures([right, wrong, broken, broken], "gcr")
    assert found is not None
    assert (found["f1"], found["ill"]) == (25.0, 12.5)  # a line that cannot be read is missed
    without = dict.fromkeys(("f1", "precision", "recall"))
    assert triplet_figures([record(None, 0, 4), broken], "dog") == {**without, "ill": 0.0}
    assert triplet_figures([other], "dog") == {**without, "ill": None}
    assert triplet_figures([other, broken], "gcr") is None
    assert triplet_figures([record(0.0, 0, 0)], "gcr") == {
        **dict.fromkeys(without, 0.0),
        "ill": None,
    }


def test_figures_stand_in_the_summary_and_in_the_report() -> None:
    figures = summarise([record(1.0, 0, 2)], kg="k", method="dog", format="2wiki")
    assert figures["triplets"] == {"f1": 100.0, "precision": 100.0, "recall": 100.0, "ill": 0.0}
    assert ("triplets: F1", "100.0", "") in figure_rows(figures)
    assert ("triplets: ill", "0.0", "") in figure_rows(figures)
    bare = summarise([Record("q", "?", "right")], kg="k", method="gcr", format="jsonl")
    assert bare["triplets"] is None
    assert not any("triplets" in title for title, _, _ in figure_rows(bare))

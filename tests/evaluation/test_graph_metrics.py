"""Distances, relation paths, linking and triplets, measured in real stores."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.answers.expand import tails
from kgqa.evaluation.metrics import (
    distance,
    ill_triplets,
    linking_of,
    path_recall,
    relation_path,
    same_spelling,
    triplet_scores,
)
from kgqa.graph.model import Kind
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import GroundedPath, Node, PathEdge, ground
from kgqa.paths.triplets import StoreTriplets, as_paths, joined_rows, turned
from kgqa.paths.walk import WalkRules, walk
from kgqa.questions import Question
from tests.graph.tables import entity, random_tables, tables_of
from tests.trie.language import rules_up_to, store_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kgqa.graph.sqlite import SqliteStore


def test_distance_counts_hops_and_a_collapsed_mediator_is_one(small: SqliteStore) -> None:
    anna = small.keys_of(["e.anna"])
    for end, hops in (("e.oslo", 1), ("e.norway", 1), ("e.clerk", 1), ("e.alone", 2)):
        assert distance(small, anna, small.keys_of([end]), WalkRules()) == hops
    kept = WalkRules(mediators="keep")
    assert distance(small, anna, small.keys_of(["e.clerk"]), kept) == 2
    assert distance(small, anna, small.keys_of(["e.alone"]), kept) is None
    assert distance(small, anna, anna[:0], kept) is None
    assert distance(small, anna[:0], anna, kept) is None


def paths_of(store: SqliteStore, topic: str, rules: WalkRules) -> list:
    table, _ = walk(store, store.keys_of([topic]), rules)
    return [path for path in ground(store, table, PathFormat()) if path]


def test_relation_paths_name_both_halves_of_a_mediator_and_mark_what_is_walked_back(
    small: SqliteStore,
) -> None:
    both = WalkRules(direction="both")
    found = {relation_path(path, {}) for path in paths_of(small, "e.clerk", both)}
    assert {("^title", "^job"), ("^title", "^job", "friend")} <= found
    inverse = {relation_path(path, {"job": "holder"}) for path in paths_of(small, "e.clerk", both)}
    assert ("^title", "holder") in inverse
    assert same_spelling(["^a", "b"], {"a": "c"}) == ("c", "b")


def test_path_recall_is_the_share_of_gold_relation_paths(small: SqliteStore) -> None:
    paths = paths_of(small, "e.anna", WalkRules())
    assert path_recall([("born_in", "in"), ("job", "title")], paths, {}) == 1.0
    assert path_recall([("born_in", "in"), ("job",)], paths, {}) == 0.5
    assert path_recall([("born_in",)], [], {}) == 0.0
    assert path_recall([], paths, {}) is None


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    rules=rules_up_to(3),
)
def test_distances_and_tails_agree_with_the_paths_there_are(seed: int, rules: WalkRules) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        store_of(random_tables(seed), Path(folder)) as store,
    ):
        topics = store.topic_keys()[:3]
        table, _ = walk(store, topics, rules)
        count = store.info.entities + store.info.mediators + store.info.values
        for end in range(count):
            there = table.length[(table.ends() == end)]
            expected = int(there.min()) if len(there) else None
            if end not in topics:
                assert distance(store, topics, np.array([end]), rules) == expected
        some = table.take(np.arange(min(len(table), 10)))
        for row, grounded in enumerate(ground(store, some, PathFormat())):
            assert grounded is not None
            assert int(some.ends()[row]) in tails(store, grounded, rules)


@pytest.mark.parametrize(
    ("text", "topics", "first", "in_linked", "all_linked"),
    [
        ("Where was Anna born?", ["Anna"], True, True, True),
        ("Where was Anna born?", ["Oslo"], False, False, False),
        ("Where was Anna born?", ["Anna", "Oslo"], True, True, False),
        ("Where was Zzyzx born?", ["Anna"], False, False, False),
    ],
)
def test_where_the_given_entity_stands_among_the_candidates(
    small: SqliteStore, text: str, topics: list[str], first: bool, in_linked: bool, all_linked: bool
) -> None:
    found = linking_of(small, Question("q", text, topics, ["Oslo"]))
    assert found is not None
    assert (found["first"], found["in_five"]) == (first, first)
    assert (found["in_linked"], found["all_linked"]) == (in_linked, all_linked)
    assert found["linked"] == found["candidates"][:1]


def test_linking_is_not_measured_without_given_entities(small: SqliteStore) -> None:
    assert linking_of(small, Question("q", "Where was Anna born?", [], ["Oslo"])) is None


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


def scores(precision: float, recall: float, f1: float) -> dict[str, float]:
    return {"precision": precision, "recall": recall, "f1": f1}


def test_scores_are_of_distinct_triplets_in_stored_direction(store: SqliteStore) -> None:
    path = chain(edge(store, "a", "b"), edge(store, "b", "c"), edge(store, "b", "a"))
    gold = [("A", "r", "B"), ("C", "s^..t", "b."), ("x", "y", "z")]
    assert triplet_scores(store, gold, path) == scores(1.0, 2 / 3, 4 / 5)
    assert triplet_scores(store, [("B", "r", "A")], path) == scores(0.0, 0.0, 0.0)
    assert triplet_scores(store, gold, None) == scores(0.0, 0.0, 0.0)
    assert triplet_scores(store, [], path) is None
    collapsed = chain(edge(store, "d", "a"))
    assert collapsed.edges[0].inverse
    assert triplet_scores(store, [("a", "p..q", "d")], collapsed) == scores(1.0, 1.0, 1.0)


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

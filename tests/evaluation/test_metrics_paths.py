from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kgqa.evaluation.graph_metrics import (
    distance,
    path_recall,
    relation_path,
    same_spelling,
)

from kgqa.answers.expand import tails
from kgqa.graph.model import DIRECTIONS
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import ground
from kgqa.paths.walk import WalkRules, walk
from kgqa.progress import Silent
from tests.graph.tables import random_tables


def keys(store: SqliteStore, *ids: str) -> np.ndarray:
    return store.keys_of(ids)


def test_distance_counts_hops_and_a_collapsed_mediator_is_one(small: SqliteStore) -> None:
    anna = keys(small, "e.anna")
    for end, hops in (("e.oslo", 1), ("e.norway", 1), ("e.clerk", 1), ("e.alone", 2)):
        assert distance(small, anna, keys(small, end), WalkRules()) == hops
    kept = WalkRules(mediators="keep")
    assert distance(small, anna, keys(small, "e.clerk"), kept) == 2
    assert distance(small, anna, keys(small, "e.alone"), kept) is None
    assert distance(small, anna, anna[:0], kept) is None
    assert distance(small, anna[:0], anna, kept) is None


def paths_of(store: SqliteStore, topic: str, rules: WalkRules) -> list:
    table, _ = walk(store, keys(store, topic), rules)
    return [path for path in ground(store, table, PathFormat()) if path]


def test_a_relation_path_leads_to_all_its_tails(small: SqliteStore) -> None:
    rules = WalkRules()
    visited = next(p for p in paths_of(small, "e.anna", rules) if p.edges[0].relation == "visited")
    assert set(tails(small, visited, rules).tolist()) == set(
        keys(small, "e.norway", "e.sweden").tolist()
    )


def test_relation_paths_take_mediators_apart_and_mark_what_is_walked_back(
    small: SqliteStore,
) -> None:
    both = WalkRules(direction="both")
    found = {relation_path(path, {}) for path in paths_of(small, "e.clerk", both)}
    assert ("^title", "^job") in found
    assert ("^title", "^job", "friend") in found
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
    hops=st.integers(1, 3),
    direction=st.sampled_from(DIRECTIONS),
    mediators=st.sampled_from(["collapse", "keep"]),
)
def test_distances_and_tails_agree_with_the_paths_there_are(
    seed: int, hops: int, direction, mediators
) -> None:
    rules = WalkRules(hops, direction, mediators)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.sqlite"
        SqliteWriter(path).write(random_tables(seed), Silent())
        with SqliteStore(path, name="random") as store:
            topics = store.topic_keys()[:3]
            table, _ = walk(store, topics, rules)
            count = store.info.entities + store.info.mediators + store.info.values
            for end in range(count):
                wanted = np.array([end])
                there = table.length[(table.ends() == end)]
                expected = int(there.min()) if len(there) else None
                if end not in topics:
                    assert distance(store, topics, wanted, rules) == expected
            some = table.take(np.arange(min(len(table), 10)))
            for row, grounded in enumerate(ground(store, some, PathFormat())):
                assert grounded is not None
                assert int(some.ends()[row]) in tails(store, grounded, rules)

"""The graph in the prompt: near the topic entities, connected to them, best first, in budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kgqa.errors import EmptyLanguageError
from kgqa.graph.model import Kind, keys_array
from kgqa.methods.dog.graph import GraphFilter, neighbourhood
from kgqa.paths.format import PathFormat
from kgqa.paths.triplets import StoreTriplets, joined_rows
from tests.fixtures import LINCOLN, TOLKIEN
from tests.graph.tables import entity, random_tables, tables_of
from tests.trie.language import store_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kgqa.graph.sqlite import SqliteStore
    from kgqa.graph.store import GraphStore
    from kgqa.methods.dog.graph import FilteredGraph
    from kgqa.models.sentence_encoder import SentenceEncoder

FORM = PathFormat()
model = pytest.mark.model


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def graph_of(
    store: GraphStore, one: GraphFilter, question: str, topics: list[int], room: int = 10**6
) -> FilteredGraph:
    return one.graph(store, StoreTriplets(store), question, keys_array(topics), room, words)


def reachable(rows: np.ndarray, topics: set[int]) -> set[int]:
    """What the triplets of ``rows`` lead to from ``topics``, at either end."""
    seen = set(topics)
    while True:
        more = {end for row in rows.tolist() for end in (row[0], row[4]) if seen & {row[0], row[4]}}
        if more <= seen:
            return seen
        seen |= more


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_the_neighbourhood_is_every_triplet_within_so_many_hops(tmp_path: Path, hops: int) -> None:
    found = 0
    for seed in range(12):
        tables = random_tables(seed)
        (tmp_path / str(seed)).mkdir()
        with store_of(tables, tmp_path / str(seed)) as store:
            kinds = tables.nodes["kind"].to_pylist()
            topic = next((key for key, kind in enumerate(kinds) if kind == Kind.ENTITY), None)
            if topic is None:
                continue
            rows, level, notes = neighbourhood(
                store, StoreTriplets(store), keys_array([topic]), hops
            )
            assert notes == []
            expected: dict[tuple[int, ...], int] = {}
            frontier, seen = {topic}, {topic}
            for hop in range(1, hops + 1):
                around = StoreTriplets(store).around(keys_array(sorted(frontier)))
                fresh = set(map(tuple, joined_rows(around).tolist())) - set(expected)
                expected |= dict.fromkeys(fresh, hop)
                ends = {end for row in fresh for end in (row[0], row[4])}
                frontier = {end for end in ends - seen if kinds[end] != Kind.VALUE}
                seen |= frontier
            got = dict(zip(map(tuple, rows.tolist()), level.tolist(), strict=True))
            assert got == expected
            assert len(rows) == len(got)
            found += len(got)
    assert found > 50


def test_a_crowd_is_reported_and_not_read(tmp_path: Path) -> None:
    """An entity with thousands of edges is not read, unless it is the topic entity."""
    crowd = [f"p{one}" for one in range(2_100)]
    tables = tables_of(
        [entity(one, one) for one in ["a", "hub", *crowd]],
        [("a", "in", "hub"), *((one, "in", "hub") for one in crowd)],
    )
    with store_of(tables, tmp_path) as store:
        a, hub = store.keys_of(["a", "hub"]).tolist()
        rows, _, notes = neighbourhood(store, StoreTriplets(store), keys_array([a]), 2)
        assert rows.tolist() == [[a, 0, -1, -1, hub]]
        assert notes == [
            "Not read for the prompt, since they have more than 2,000 edges: 1 of the "
            "entities nearby."
        ]
        rows, _, notes = neighbourhood(store, StoreTriplets(store), keys_array([hub]), 1)
        assert len(rows) == 2_101
        assert notes == []


@model
def test_triplets_are_the_best_with_what_connects_them(
    sample: SqliteStore, encoder: SentenceEncoder
) -> None:
    topics = sample.keys_of([LINCOLN]).tolist()
    question = "Where was the wife of Abraham Lincoln born?"
    graph = graph_of(sample, GraphFilter(encoder, FORM, cap=10**6, most=20), question, topics)
    assert 0 < len(graph.rows) <= 20
    assert len(np.unique(graph.rows, axis=0)) == len(graph.rows)
    ends = set(graph.rows[:, (0, 4)].ravel().tolist())
    assert ends <= reachable(graph.rows, set(topics))
    for count in range(1, len(graph.rows) + 1):  # what leads to a triplet stands before it
        some = graph.rows[:count]
        assert set(some[:, (0, 4)].ravel().tolist()) <= reachable(some, set(topics))
    assert any("people.person.spouse_s" in text for text in graph.texts)
    assert any(text.endswith("people.person.place_of_birth -> Lexington") for text in graph.texts)
    vectors = encoder.encode([question, *(text.replace(" -> ", " ") for text in graph.texts)])
    cosines = vectors[1:] @ vectors[0]
    every, _, _ = neighbourhood(sample, StoreTriplets(sample), keys_array(topics), 2)
    assert len(every) > 100
    assert cosines.mean() > 0.4
    assert graph.notes == ()


@model
def test_budgets_hold_and_a_note_says_what_was_not_compared(
    sample: SqliteStore, encoder: SentenceEncoder
) -> None:
    topics = sample.keys_of([TOLKIEN]).tolist()
    one = GraphFilter(encoder, FORM, cap=25, most=9)
    graph = graph_of(sample, one, "Which books did Tolkien write?", topics)
    assert len(graph.rows) == 9
    assert "25 were compared with the question" in graph.notes[0]
    short = graph_of(sample, one, "Which books did Tolkien write?", topics, room=40)
    assert sum(words([f" {text} |" for text in short.all_texts()])) <= 40
    assert 0 < len(short.rows) < 9
    again = graph_of(
        sample, GraphFilter(encoder, FORM, cap=25, most=9), "Which books did Tolkien write?", topics
    )
    assert again.texts == graph.texts
    with pytest.raises(EmptyLanguageError, match="3 tokens"):
        graph_of(sample, one, "Which books did Tolkien write?", topics, room=3)


@model
def test_an_entity_that_nothing_touches_is_an_error(
    tmp_path: Path, encoder: SentenceEncoder
) -> None:
    tables = tables_of([entity("a", "A"), entity("b", "B"), entity("c", "C")], [("a", "r", "b")])
    with store_of(tables, tmp_path) as store:
        topics = store.keys_of(["c"]).tolist()
        with pytest.raises(EmptyLanguageError, match="No triplet touches"):
            graph_of(store, GraphFilter(encoder, FORM), "Who?", topics)


@model
def test_names_stay_on_one_line(tmp_path: Path, encoder: SentenceEncoder) -> None:
    tables = tables_of(
        [entity("a", "A\nQuestion: x"), entity("b", "B | C"), entity("d", "D")],
        [("a", "r\tr", "b"), ("b", "s", "d")],
    )
    with store_of(tables, tmp_path) as store:
        (a,) = store.keys_of(["a"]).tolist()
        graph = graph_of(store, GraphFilter(encoder, FORM), "Who?", [a])
        assert sorted(graph.all_texts()) == ["A Question: x -> r r -> B | C", "B | C -> s -> D"]

"""What every store must do: one suite, put under each implementation.

A test module derives from ``StoreConformance`` and gives a class-scoped fixture ``make_store``: a
callable that writes a ``GraphTables`` (a KG of the same name is replaced) and returns the open
store; the fixture closes what it opened. The other fixtures are in ``conftest.py``.
``check_against_reference`` compares any store with a plain reading of its tables.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kgqa.errors import EntityNotFoundError, GraphError
from kgqa.graph.model import DIRECTIONS, Kind, keys_array
from kgqa.graph.names import name_form
from kgqa.graph.schema import PropertyGraph
from kgqa.graph.store import GraphStore
from tests.graph.tables import entity, random_tables, tables_of, tricky_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kgqa.graph.model import GraphTables

    MakeStore = Callable[[GraphTables], GraphStore]

__all__ = [
    "Reference",
    "StoreConformance",
    "check_against_reference",
    "entity",
    "random_tables",
    "rows_of",
    "tables_of",
    "tricky_tables",
]


class Reference:
    """A plain reading of tables: loops over Python objects, nothing else."""

    def __init__(self, tables: GraphTables) -> None:
        self.info = tables.info
        self.nodes = tables.nodes.to_pylist()
        self.edges = [
            (row["head"], row["relation"], row["tail"]) for row in tables.edges.to_pylist()
        ]
        self.relations = tables.relations.to_pylist()

    def neighbours(self, keys: Sequence[int], direction: str) -> list[tuple[int, int, int, int]]:
        found = []
        for row, key in enumerate(keys):
            for head, relation, tail in self.edges:
                if direction != "in" and head == key:
                    found.append((row, 2 * relation, tail, self.nodes[tail]["kind"]))
                if direction != "out" and tail == key:
                    found.append((row, 2 * relation + 1, head, self.nodes[head]["kind"]))
        return sorted(found)

    def degree(self, key: int) -> int:
        return sum(key in (head, tail) for head, _, tail in self.edges)

    def find(self, names: Sequence[str]) -> list[tuple[int, int]]:
        forms = {
            key: {name_form(text) for text in (node["name"], *node["aliases"]) if text}
            for key, node in enumerate(self.nodes)
            if node["kind"] == Kind.ENTITY
        }
        return [
            (position, key)
            for position, form in enumerate(map(name_form, names))
            for key, held in forms.items()
            if form and form in held
        ]

    def topics(self) -> list[int]:
        return [
            key
            for key, node in enumerate(self.nodes)
            if node["kind"] == Kind.ENTITY and node["name"] and self.degree(key)
        ]


def rows_of(adjacency: Any) -> list[tuple[int, int, int, int]]:
    """The rows of an ``Adjacency``."""
    columns = (adjacency.row, adjacency.step, adjacency.target, adjacency.kind)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def check_against_reference(store: GraphStore, tables: GraphTables, seed: int = 0) -> None:
    """Compare everything that a store says with a plain reading of what was written."""
    dice = random.Random(seed)
    reference = Reference(tables)
    keys = list(range(len(reference.nodes)))
    assert store.info == reference.info
    assert store.keys_of([node["id"] for node in reference.nodes]).tolist() == keys
    relations = store.relations()
    assert relations.ids == [row["id"] for row in reference.relations]
    assert relations.names == [row["name"] for row in reference.relations]
    assert relations.inverses == [row["inverse"] for row in reference.relations]
    dice.shuffle(keys)
    entities = store.entities(keys_array(keys))
    assert entities.ids == [reference.nodes[key]["id"] for key in keys]
    assert entities.names == [reference.nodes[key]["name"] for key in keys]
    assert entities.kinds.tolist() == [reference.nodes[key]["kind"] for key in keys]
    for key in keys:
        node, details = reference.nodes[key], store.details(key)
        assert (details.id, details.name, details.kind) == (node["id"], node["name"], node["kind"])
        assert sorted(details.aliases) == sorted(node["aliases"])
        assert sorted(details.types) == sorted(node["types"])
        assert details.properties == json.loads(node["properties"] or "{}")
    for direction in DIRECTIONS:
        for frontier in (keys, dice.sample(keys, len(keys) // 2), keys[:1], []):
            got = store.neighbours(keys_array(frontier), direction)
            assert rows_of(got) == reference.neighbours(frontier, direction)
    assert store.degrees(keys_array(keys)).tolist() == [reference.degree(key) for key in keys]
    edges = [*reference.edges, *((tail, rel, head) for head, rel, tail in reference.edges)]
    columns = [keys_array(column) for column in zip(*edges, strict=True)]
    assert store.has_edges(*columns).tolist() == [edge in reference.edges for edge in edges]
    names = [text for node in reference.nodes for text in (node["name"], *node["aliases"]) if text]
    positions, found = store.find_names(names)
    assert list(zip(positions.tolist(), found.tolist(), strict=True)) == reference.find(names)
    assert store.topic_keys().tolist() == reference.topics()


class StoreConformance:
    """The suite. Derive, and give the fixture ``make_store``."""

    random_graphs = 10  # how many random KGs are written and compared
    bounds: tuple[str, ...] = ()  # names of what bounds how much one query asks for
    no_topics = frozenset({"m.12", "m.14", "cvt.1", "cvt.2", '"1950-01-01"^^xsd:date'})

    def expected(self, store: GraphStore, tables: GraphTables) -> GraphTables:
        """What a store must say of ``tables``; a store with less to say overrides it."""
        return tables

    def test_says_what_was_written(self, store: GraphStore, tables: GraphTables) -> None:
        check_against_reference(store, self.expected(store, tables))

    def test_is_a_property_graph(self, store: GraphStore, tables: GraphTables) -> None:
        if not isinstance(store, PropertyGraph):
            return
        reference = Reference(tables)
        keys = keys_array(range(len(reference.nodes)))
        types = {type_ for node in reference.nodes for type_ in node["types"]}
        for type_ in types:
            having = [key for key, node in enumerate(reference.nodes) if type_ in node["types"]]
            assert store.instances(type_).tolist() == having
        entities = [k for k, node in enumerate(reference.nodes) if node["kind"] == Kind.ENTITY]
        assert store.instances("").tolist() == entities
        for name in ("born", "note", "nothing"):
            given = [json.loads(node["properties"] or "{}") for node in reference.nodes]
            expected = [(key, one[name]) for key, one in enumerate(given) if name in one]
            rows, values = store.property_values(keys, name)
            assert list(zip(rows.tolist(), values, strict=True)) == expected
        every = [*range(len(reference.relations))]
        ends = [(h, r, t) for h, r, t in reference.edges if reference.nodes[t]["kind"] != 2]
        for inverse in (False, True):
            facts = store.facts(keys, every, inverse=inverse)
            got = zip(
                facts.row.tolist(), facts.relation.tolist(), facts.other.tolist(), strict=True
            )
            kept = ends if not inverse else [(t, r, h) for h, r, t in reference.edges]
            assert list(got) == sorted(kept)
            assert set(facts.fact.tolist()) == {-1}
        related = {relation.relation for relation in store.schema().relations}
        assert related <= {row["id"] for row in reference.relations}
        assert {type_.name for type_ in store.schema().types} == {"", *types}

    def test_frontiers_and_names_beyond_one_query(
        self, store: GraphStore, tables: GraphTables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in self.bounds:
            monkeypatch.setattr(name, 3)
        check_against_reference(store, self.expected(store, tables))

    def test_is_a_graph_store_with_a_url_without_credentials(self, store: GraphStore) -> None:
        assert isinstance(store, GraphStore)
        assert "://" in store.url
        assert "@" not in store.url

    def test_keys_are_ranks_of_ids_by_code_point(self, store: GraphStore) -> None:
        ids = ["\ufffdlast of two bytes", "😀", "Z", "a", "é"]
        keys = store.keys_of(ids)
        assert keys.dtype == np.int64
        assert [id_ for _, id_ in sorted(zip(keys.tolist(), ids, strict=True))] == sorted(ids)

    def test_an_unknown_id_has_the_key_minus_one(self, store: GraphStore) -> None:
        unknown = ["m.99", "", "m.01 ", "M.01", "m.01\x00", "\udc80", "' OR 1=1 --", "Berlin"]
        assert store.keys_of(unknown).tolist() == [-1] * len(unknown)
        keys = store.keys_of(["m.01", "no", "m.01"]).tolist()
        assert keys[0] == keys[2] >= 0 > keys[1]
        assert store.keys_of([]).shape == (0,)

    def test_entities_come_in_the_order_asked_for_and_may_repeat(self, store: GraphStore) -> None:
        keys = store.keys_of(["m.10", "m.01", "cvt.1", "m.10"])
        entities = store.entities(keys)
        assert entities.ids == ["m.10", "m.01", "cvt.1", "m.10"]
        assert entities.names == ["東京", "Berlin", None, "東京"]
        assert entities.kinds.tolist() == [Kind.ENTITY, Kind.ENTITY, Kind.MEDIATOR, Kind.ENTITY]
        assert entities.keys.tolist() == keys.tolist()
        assert entities.label(2) == "cvt.1"
        assert len(store.entities(keys_array([]))) == 0

    @pytest.mark.parametrize("key", [-1, 10_000])
    def test_an_unknown_key_is_an_error_that_names_it(self, store: GraphStore, key: int) -> None:
        known = int(store.keys_of(["m.01"])[0])
        with pytest.raises(EntityNotFoundError, match=str(key)):
            store.entities(keys_array([known, key]))
        with pytest.raises(EntityNotFoundError, match=str(key)):
            store.details(key)

    def test_details_hold_all_that_is_known(self, store: GraphStore) -> None:
        person, city = store.keys_of(["m.05", "m.01"]).tolist()
        assert store.details(person).properties == {"born": 1950, "note": "a\nb"}
        assert store.details(person).name == 'Bob "Bobby" O\'Neil'
        assert store.details(city).aliases == ["Berlin, Germany"]
        assert sorted(store.details(city).types) == ["a.b", "location.citytown"]

    def test_a_relation_has_a_key_by_its_id_and_a_name(self, store: GraphStore) -> None:
        relations = store.relations()
        assert relations.ids == sorted(relations.ids)
        assert relations.names[relations.ids.index("親")] == "parent"
        assert relations.names[relations.ids.index("self")] == "self"
        assert "never.used" not in relations.ids

    def test_neighbours_are_sorted_columns_with_the_row_of_their_key(
        self, store: GraphStore, reference: Reference
    ) -> None:
        keys = store.keys_of(["m.13", "m.04", "m.12", "m.05"])
        for direction in DIRECTIONS:
            got = store.neighbours(keys, direction)
            assert rows_of(got) == reference.neighbours(keys.tolist(), direction)
            assert {got.row.dtype, got.step.dtype, got.target.dtype} == {np.dtype(np.int64)}
            assert got.kind.dtype == np.uint8
            assert 2 not in got.row  # m.12 has no edge

    def test_a_loop_comes_once_for_each_direction(self, store: GraphStore) -> None:
        key = store.keys_of(["m.13"])
        loop = store.relations().ids.index("self")
        expected = [(0, 2 * loop, int(key[0]), 0), (0, 2 * loop + 1, int(key[0]), 0)]
        assert rows_of(store.neighbours(key, "both")) == expected
        assert rows_of(store.neighbours(key, "out")) == expected[:1]
        assert rows_of(store.neighbours(key, "in")) == expected[1:]
        assert store.degrees(key).tolist() == [1]

    def test_an_empty_frontier_has_no_neighbours(self, store: GraphStore) -> None:
        for direction in DIRECTIONS:
            assert len(store.neighbours(keys_array([]), direction)) == 0
        assert store.degrees(keys_array([])).shape == (0,)
        empty = keys_array([])
        assert store.has_edges(empty, empty, empty).shape == (0,)

    def test_an_edge_is_there_in_its_own_direction_only(self, store: GraphStore) -> None:
        head, tail = store.keys_of(["m.05", "m.01"]).tolist()
        born = store.relations().ids.index("people.person.place_of_birth")
        asked = [
            (head, born, tail),
            (tail, born, head),
            (head, born + 1, tail),
            (head, born, head),
            (-1, born, tail),
            (head, -1, tail),
            (head, born, -1),
            (10_000, born, tail),
            (head, 10_000, tail),
            (head, born, tail),
        ]
        there = store.has_edges(*(keys_array(column) for column in zip(*asked, strict=True)))
        assert there.dtype == np.bool_
        assert there.tolist() == [True, *[False] * 8, True]

    def test_names_match_in_any_case_width_and_punctuation(self, store: GraphStore) -> None:
        names = [
            "berlin",
            "BERLIN germany",
            "full width STRASSE",
            "bob bobby o neil",
            "笑顔",
            "東京",
            " ??? ",
        ]
        positions, keys = store.find_names(names)
        ids = store.entities(keys).ids
        assert list(zip(positions.tolist(), ids, strict=True)) == [
            (0, "m.01"),
            (0, "m.02"),
            (0, "m.03"),
            (1, "m.01"),
            (2, "m.15"),
            (3, "m.05"),
            (4, "m.09"),
            (5, "m.10"),
            (6, "m.11"),
        ]

    def test_mediators_values_and_empty_names_never_match(self, store: GraphStore) -> None:
        nothing = [
            "a named mediator",
            "1950-01-01",
            "",
            "????",
            "!",
            "\udc80",
            "no such name",
            "Ber",
        ]
        positions, keys = store.find_names(nothing)
        assert positions.tolist() == keys.tolist() == []
        assert [len(column) for column in store.find_names([])] == [0, 0]

    def test_a_name_asked_for_twice_is_found_twice(self, store: GraphStore) -> None:
        positions, keys = store.find_names(["Germany", "x", "Deutschland", "germany"])
        assert positions.tolist() == [0, 2, 3]
        assert len(set(keys.tolist())) == 1

    def test_suggestions_hold_what_is_named_so(self, store: GraphStore) -> None:
        ids = store.entities(store.suggest("Berlin", 10)).ids
        assert set(ids[:3]) == {"m.01", "m.02", "m.03"}
        assert store.entities(store.suggest("Deutschland", 1)).ids == ["m.04"]
        assert len(store.suggest("Berlin", 2)) == 2

    def test_what_is_typed_may_be_the_beginning_of_a_name(self, store: GraphStore) -> None:
        ids = store.entities(store.suggest("Berl", 10, prefix=True)).ids
        assert set(ids[:3]) == {"m.01", "m.02", "m.03"}
        assert store.entities(store.suggest("deutschl", 3, prefix=True)).ids == ["m.04"]
        assert not len(store.suggest("zzz Berl", 3, prefix=True))  # every word is asked for

    @pytest.mark.parametrize(
        "text",
        ["", "  ", "???", '"', '"berlin', "berlin*", "AND", "NOT", "a OR", "NEAR(", "name:berlin",
         "berlin^2", "(", "ber~lin~", "/ber/", "\\", "{!x}", "[a TO", "-berlin", "\udc80",
         "a\x00b", "zzzzzz"],
    )  # fmt: skip
    def test_any_text_may_be_typed_for_a_suggestion(self, store: GraphStore, text: str) -> None:
        for prefix in (False, True):
            keys = store.suggest(text, 3, prefix=prefix)
            assert keys.dtype == np.int64
            assert len(keys) <= 3
            assert all(kind == Kind.ENTITY for kind in store.entities(keys).kinds)

    def test_topic_entities_come_in_pages(self, store: GraphStore, reference: Reference) -> None:
        pages: list[int] = []
        while len(page := store.topic_keys(after=pages[-1] if pages else -1, limit=4)):
            assert len(page) <= 4
            pages.extend(page.tolist())
        assert pages == reference.topics()
        ids = set(store.entities(keys_array(pages)).ids)
        assert ids.isdisjoint(self.no_topics)

    def test_random_graphs_read_back_as_they_are(self, make_store: MakeStore) -> None:
        for seed in range(self.random_graphs):
            tables = random_tables(seed)
            if tables.info.edges:
                with make_store(tables) as store:
                    check_against_reference(store, self.expected(store, tables), seed)

    def test_a_closed_store_says_so(self, make_store: MakeStore) -> None:
        with make_store(tables_of([entity("a", "a")], [("a", "r", "a")], name="short")) as store:
            assert store.keys_of(["a"]).tolist() == [0]
        store.close()
        with pytest.raises(GraphError, match="closed"):
            store.keys_of(["a"])

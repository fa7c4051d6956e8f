"""Properties that walks see: values and mediators, the same from a load and from an update."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kgqa.api.check import check
from kgqa.graph.model import EDGE_SCHEMA, ENTITY_SCHEMA, EdgeBatch, EntityBatch, Kind, keys_array
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteChanger, SqliteWriter
from kgqa.loading.facts import entity_values
from kgqa.loading.pipeline import assemble
from kgqa.loading.update import update
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import ground
from kgqa.paths.walk import WalkRules, walk
from kgqa.progress import Silent
from tests.graph.tables import entity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.change import GraphChanger
    from kgqa.graph.model import Batch, GraphTables
    from kgqa.graph.neo4j_store import Neo4jStore
    from kgqa.loading.update import UpdateResult
    from tests.graph.neo4j_server import Neo4jServer

    Store = SqliteStore | Neo4jStore
    Stores = tuple[Callable[[], Store], Callable[[Store], GraphChanger]]

MOVIE = frozenset({"released", "tags", "tagline", "vector"})
ROLE = frozenset({"roles", "rating", "summary"})
LONG = "long " * 60


def movie_batches() -> list[Batch]:
    """A tiny property graph: parallel facts, a list, a long text, an embedding."""
    nodes = [
        entity("keanu", "Keanu Reeves", types=["Person"], properties={"born": "1964-09-02"}),
        entity("tom", "Tom Hanks", types=["Person", "Director"]),
        entity(
            "matrix",
            "The Matrix",
            types=["Movie"],
            properties={
                "released": 1999,
                "tags": ["sf", "action"],
                "tagline": LONG,
                "vector": [i / 7 for i in range(50)],
                "source": "imdb",
            },
        ),
        entity("cloud", "Cloud Atlas", types=["Movie"], properties={"released": 2012}),
    ]
    edges = [
        ("keanu", "ACTED_IN", "matrix", {"roles": ["Neo"]}),
        ("tom", "ACTED_IN", "cloud", {"roles": ["Zachry", "Dr. Goose"]}),
        ("keanu", "ACTED_IN", "cloud", None),
        ("tom", "REVIEWED", "matrix", {"rating": 65, "summary": LONG}),
        ("tom", "REVIEWED", "matrix", {"rating": 90, "_file": "a.csv", "_row": 3}),
        ("tom", "REVIEWED", "matrix", {"rating": 90, "_file": "b.csv", "_row": 9}),
        ("tom", "REVIEWED", "nowhere", {"rating": 1}),
    ]
    plain = [("tom", "DIRECTED", "matrix", None), ("tom", "REVIEWED", "cloud", None)]
    return [
        EntityBatch(pa.RecordBatch.from_pylist(nodes, schema=ENTITY_SCHEMA), MOVIE | {"born"}),
        EdgeBatch(edge_rows(plain)),
        EdgeBatch(edge_rows(edges), ROLE),
    ]


def edge_rows(edges: Sequence[tuple[str, str, str, dict[str, Any] | None]]) -> pa.RecordBatch:
    """Rows of ``EDGE_SCHEMA``."""
    rows = [
        (head, relation, tail, None if given is None else json.dumps(given))
        for head, relation, tail, given in edges
    ]
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=EDGE_SCHEMA)


def loaded(batches: Sequence[Batch], dropped: Counter[str] | None = None) -> GraphTables:
    """The KG of batches."""
    return assemble(
        batches,
        name="movies",
        source="a test",
        direction="both",
        dropped=dropped if dropped is not None else Counter(),
        loader="triples",
    )


@pytest.fixture(scope="module", params=["sqlite", pytest.param("neo4j", marks=pytest.mark.neo4j)])
def written(request: pytest.FixtureRequest) -> Iterator[Callable[[GraphTables], Stores]]:
    """Write a KG into a store of each kind; give what opens it, and what changes it."""
    if request.param == "sqlite":
        folder: Path = request.getfixturevalue("tmp_path_factory").mktemp("facts")

        def to_file(tables: GraphTables) -> Stores:
            path = folder / "graph.sqlite"
            SqliteWriter(path).write(tables, Silent())
            return lambda: SqliteStore(path), SqliteChanger  # type: ignore[return-value]

        yield to_file
        return
    from kgqa.graph.neo4j_change import Neo4jChanger
    from kgqa.graph.neo4j_store import Neo4jStore
    from kgqa.graph.neo4j_write import Neo4jWriter

    with request.getfixturevalue("neo4j_server").connect() as connection:

        def to_server(tables: GraphTables) -> Stores:
            Neo4jWriter(connection).write(tables, Silent())
            return lambda: Neo4jStore(connection, "movies"), Neo4jChanger  # type: ignore[return-value]

        yield to_server
        Neo4jWriter(connection).drop("movies", Silent())


@pytest.fixture
def store(written: Callable[[GraphTables], Stores]) -> Iterator[Store]:
    opening, _ = written(loaded(movie_batches()))
    with opening() as opened:
        yield opened


def paths_of(store: Store, id_: str, hops: int = 1) -> list[str]:
    table, _ = walk(store, store.keys_of([id_]), WalkRules(hops, "both"))
    return sorted({path.text for path in ground(store, table, PathFormat()) if path})


def test_walks_see_properties_and_facts(store: Store) -> None:
    assert paths_of(store, "keanu") == [
        "Keanu Reeves -> ACTED_IN -> Cloud Atlas",
        "Keanu Reeves -> ACTED_IN -> The Matrix",
        "Keanu Reeves -> ACTED_IN..roles -> Neo",
        "Keanu Reeves -> born -> 1964-09-02",
    ]
    assert [path for path in paths_of(store, "matrix") if "^" not in path] == [
        "The Matrix -> released -> 1999",
        "The Matrix -> tags -> action",
        "The Matrix -> tags -> sf",
    ]


def test_the_source_of_a_thing_is_a_fact() -> None:
    given = [entity("tarn", "Tarn", properties={"source": "Mount Ulf"})]
    rows = pa.RecordBatch.from_pylist(given, schema=ENTITY_SCHEMA)
    made = entity_values(EntityBatch(rows, frozenset({"source"})))
    edges = [
        row for batch in made if isinstance(batch, EdgeBatch) for row in batch.rows.to_pylist()
    ]
    assert [(row["head"], row["relation"]) for row in edges] == [("tarn", "source")]


def test_a_fact_is_shown_as_it_was_given(store: Store) -> None:
    found = check(store, "Keanu Reeves -> ACTED_IN -> The Matrix")
    [path] = found.paths
    assert [edge.to_dict()["facts"] for edge in path.edges] == [
        [
            {
                "head": "keanu",
                "predicate": "ACTED_IN",
                "tail": "matrix",
                "properties": {"roles": ["Neo"]},
            }
        ]
    ]
    assert check(store, path)
    assert check(store, "Keanu Reeves -> ACTED_IN..roles -> Neo")
    assert not check(store, "Tom Hanks -> ACTED_IN -> The Matrix")


def test_parallel_facts_stay_apart_and_repeated_ones_do_not(store: Store) -> None:
    keys = store.keys_of(["tom"])
    relation = store.relations().ids.index("REVIEWED")
    facts = store.facts(keys, [relation], inverse=False)
    ids = store.entities(facts.other).ids
    assert ids == ["cloud", "matrix", "matrix"]
    assert (facts.fact >= 0).all()
    rows, values = store.property_values(facts.fact, "rating")
    assert sorted(zip([ids[row] for row in rows.tolist()], values, strict=True)) == [
        ("matrix", 65),
        ("matrix", 90),
    ]
    back = store.facts(store.keys_of(["matrix", "cloud"]), [relation], inverse=True)
    assert sorted(back.fact.tolist()) == sorted(facts.fact.tolist())


def test_the_schema_has_types_properties_and_patterns(store: Store) -> None:
    schema = store.schema()
    types = {
        type_.name: (type_.count, {p.name: p for p in type_.properties}) for type_ in schema.types
    }
    assert {name: count for name, (count, _) in types.items()} == {
        "Person": 2,
        "Movie": 2,
        "Director": 1,
    }
    movie = types["Movie"][1]
    assert (movie["released"].type, movie["released"].count) == ("integer", 2)
    assert movie["tags"].many
    assert movie["tags"].walked
    assert not movie["tagline"].walked
    assert not movie["vector"].walked
    assert types["Person"][1]["born"].type == "date"
    patterns = {(p.relation, p.head, p.tail): p for p in schema.relations}
    assert patterns["ACTED_IN", "Person", "Movie"].count == 3
    assert patterns["REVIEWED", "Director", "Movie"].count == 3
    rating = {p.name: p.type for p in patterns["REVIEWED", "Person", "Movie"].properties}
    assert rating["rating"] == "integer"
    assert ("released", "Movie", "") not in patterns
    assert store.instances("Movie").tolist() == sorted(store.keys_of(["matrix", "cloud"]).tolist())
    assert len(store.instances("")) == 4


def test_what_is_not_walked_is_kept(store: Store) -> None:
    [key] = store.keys_of(["matrix"]).tolist()
    given = store.details(key).properties
    assert given["tagline"] == LONG
    assert len(given["vector"]) == 50
    near = store.neighbours(keys_array([key]), "out")
    assert sorted(store.entities(near.target).ids) == ['"1999"^^xsd:integer', '"action"', '"sf"']
    assert set(near.kind.tolist()) == {int(Kind.VALUE)}


def test_the_order_and_size_of_batches_do_not_matter() -> None:
    batches = movie_batches()
    split: list[Batch] = []
    for batch in reversed(batches):
        assert isinstance(batch, EdgeBatch | EntityBatch)
        split += [type(batch)(batch.rows.slice(n, 1), batch.walked) for n in range(len(batch.rows))]
    dropped = Counter[str]()
    assert loaded(split, dropped).info == loaded(batches).info
    assert dropped["edge with an unknown end"] == 1


class Given:
    """A loader of batches, for an update."""

    name = "triples"

    def __init__(self, *batches: Batch) -> None:
        self._batches = batches

    def read(self, *_: object) -> Iterator[Batch]:
        yield from self._batches


def changed(
    stores: Stores, added: Sequence[Batch], removed: Sequence[Batch], folder: Path
) -> UpdateResult:
    """Change a KG."""
    opening, changer = stores
    with opening() as store:
        return update(
            store,
            changer(store),
            Given(*added),  # type: ignore[arg-type]
            Given(*removed),  # type: ignore[arg-type]
            [folder] if added else [],
            [folder] if removed else [],
            folder,
            Silent(),
        )


def content(stores: Stores) -> tuple[Any, ...]:
    """Nodes, edges and schema of a KG, by ids."""
    with stores[0]() as store:
        there = keys_array(range(store.info.next_key))
        nodes = {key: (id_, *rest) for key, id_, *rest in store.described(there)}
        keys = keys_array(sorted(nodes))
        near, relations = store.neighbours(keys, "out"), store.relations().ids
        edges = sorted(
            (nodes[int(keys[row])][0], relations[step // 2], nodes[target][0])
            for row, step, target in zip(
                near.row.tolist(), near.step.tolist(), near.target.tolist(), strict=True
            )
        )
        described = sorted(
            (id_, name, kind, types, json.loads(text or "{}"))
            for id_, name, kind, types, text in nodes.values()
        )
        schema = re.sub(r"examples=\(.*?\), w", "w", str(store.schema()))  # which are shown
        return described, edges, schema, store.info.reified


@settings(max_examples=25)
@example([], [9]).via("an edge that is left out makes its relation's later edges facts")
@given(st.lists(st.integers(0, 9), max_size=8), st.lists(st.integers(0, 9), max_size=8))
def test_an_update_gives_what_a_load_gives(
    tmp_path_factory: pytest.TempPathFactory, first: list[int], later: list[int]
) -> None:
    """Of facts of one relation, in any split between a load and an update."""
    facts: list[tuple[str, str, str, dict[str, Any] | None]] = [
        ("tom", "LIKES", "matrix", None),
        ("tom", "LIKES", "matrix", {"stars": 5}),
        ("tom", "LIKES", "cloud", {"stars": 5, "tags": ["a", "b"]}),
        ("keanu", "LIKES", "keanu", {"stars": 1}),
        ("keanu", "LIKES", "matrix", {"long": LONG}),
        ("keanu", "KNOWS", "tom", None),
        ("tom", "KNOWS", "keanu", {"_row": 7}),
        ("matrix", "LIKES", "tom", {"stars": 5.5}),
        ("tom", "KNOWS", "keanu", {"since": "1999-01-01"}),
        ("cloud", "KNOWS", "nobody", {"since": "2001-01-01"}),
    ]
    walked = frozenset({"stars", "tags", "long", "since", "source"})
    base = [*movie_batches()[:1], EdgeBatch(edge_rows([("tom", "DIRECTED", "matrix", None)]))]

    def batches(rows: list[int]) -> list[Batch]:
        return [EdgeBatch(edge_rows([facts[row]]), walked) for row in rows]

    def stored(name: str, rows: list[int]) -> Stores:
        path = tmp_path_factory.mktemp(name) / "graph.sqlite"
        SqliteWriter(path).write(loaded([*base, *batches(rows)]), Silent())
        return lambda: SqliteStore(path), SqliteChanger  # type: ignore[return-value]

    folder = tmp_path_factory.mktemp("law")
    whole, grown = stored("whole", [*first, *later]), stored("grown", first)
    if later:
        changed(grown, batches(later), [], folder)
    assert content(grown) == content(whole)
    if set(first) - set(later):
        changed(grown, [], batches(sorted(set(later))), folder)
        described, edges, *_ = content(grown)
        ends = {id_ for head, _, tail in edges for id_ in (head, tail)}
        assert all(id_ in ends or kind == Kind.ENTITY for id_, _, kind, *_ in described)


def test_an_update_changes_properties_and_facts_in_place(
    written: Callable[[GraphTables], Stores], tmp_path: Path
) -> None:
    stores = written(loaded(movie_batches()))

    def batch(released: int) -> EntityBatch:
        row = entity("cloud", properties={"released": released})
        return EntityBatch(pa.RecordBatch.from_pylist([row], schema=ENTITY_SCHEMA), MOVIE)

    role = EdgeBatch(edge_rows([("keanu", "ACTED_IN", "matrix", {"roles": ["The One"]})]), ROLE)
    changed(stores, [batch(2013), role], [], tmp_path)
    with stores[0]() as store:
        assert store.property_values(store.keys_of(["cloud"]), "released")[1] == [2012, 2013]
        assert "Cloud Atlas -> released -> 2013" in paths_of(store, "cloud")
        assert "Keanu Reeves -> ACTED_IN..roles -> The One" in paths_of(store, "keanu")
    changed(stores, [], [batch(2012)], tmp_path)
    with stores[0]() as store:
        assert store.property_values(store.keys_of(["cloud"]), "released")[1] == [2013]
        released = [path for path in paths_of(store, "cloud") if "released" in path]
        assert released == ["Cloud Atlas -> released -> 2013"]
    result = changed(stores, [], [batch(1812), role], tmp_path)
    assert result.missing == ["cloud released 1812"]
    with stores[0]() as store:
        assert "Keanu Reeves -> ACTED_IN..roles -> The One" not in paths_of(store, "keanu")
        assert "Keanu Reeves -> ACTED_IN..roles -> Neo" in paths_of(store, "keanu")


@pytest.mark.neo4j
def test_neo4j_is_asked_by_cypher_as_any_property_graph(neo4j_server: Neo4jServer) -> None:
    from kgqa.graph.neo4j_write import Neo4jWriter

    with neo4j_server.connect() as connection:
        writer = Neo4jWriter(connection)
        writer.write(loaded(movie_batches()), Silent())
        try:
            rows = connection.read(
                "MATCH (p:Person)-[r:ACTED_IN]->(m:Movie) WHERE m.released > 2000 "
                "RETURN p.name AS name, r.roles AS roles ORDER BY name"
            )
            assert [row.values() for row in rows] == [
                ["Keanu Reeves", None],
                ["Tom Hanks", ["Zachry", "Dr. Goose"]],
            ]
            [row] = connection.read(
                "MATCH (:Person)-[r:REVIEWED]->(:Movie {name: 'The Matrix'}) "
                "RETURN count(r) AS reviews, max(r.rating) AS best"
            )
            assert row.values() == [2, 90]
            [row] = connection.read("MATCH (:Person)-[r:ACTED_IN]->() RETURN count(r)")
            assert row.values() == [3]
            [row] = connection.read("MATCH (p:Person {born: date('1964-09-02')}) RETURN p.name")
            assert row.values() == ["Keanu Reeves"]
        finally:
            writer.drop("movies", Silent())

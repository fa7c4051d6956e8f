"""Attached Neo4j databases: the suite of all stores, and that a database is only ever read."""

from __future__ import annotations

import dataclasses
import json
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest
from filelock import FileLock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa import cypher
from kgqa.cypher.attached import (
    attached,
    constraint_statement,
    quoted,
    text_index_statement,
)
from kgqa.errors import (
    EntityNotFoundError,
    GraphError,
    KGNotFoundError,
    KgqaError,
    StoreUnavailableError,
    UsageError,
)
from kgqa.graph import attached_survey
from kgqa.graph.attached import RECORD_NAME, Attachment
from kgqa.graph.attached_store import AttachedStore
from kgqa.graph.attached_survey import IDLESS_END, NO_ID, OUTSIDE, PARALLEL, attach
from kgqa.graph.browser import browser_url
from kgqa.graph.model import GraphTables, Kind, keys_array
from kgqa.graph.neo4j import Neo4jConnection
from kgqa.graph.neo4j_write import Neo4jWriter
from kgqa.graph.open import list_kgs, open_store, open_writer
from kgqa.progress import Silent
from tests.graph.neo4j_server import ask
from tests.graph.store_conformance import (
    StoreConformance,
    rows_of,
)
from tests.graph.tables import random_tables, tables_of, tricky_tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from kgqa.progress import Task
    from tests.graph.neo4j_server import Neo4jServer
    from tests.graph.store_conformance import MakeStore

pytestmark = pytest.mark.neo4j

ID, NAME, ALIASES = "the `id`", "na\\u0060me", "other names"  # odd on purpose
KINDS = {Kind.MEDIATOR: "A `Mediator`", Kind.VALUE: "A \\u0060Value"}
MARK = "KgqaTest"  # nodes of these tests bear it, so that they are found again,
PUT = "KgqaTest `"  # or a label that begins so


class Reader(Neo4jConnection):
    """A connection that can only be read from: kgqa's way to a session that writes is shut."""

    def session(self) -> Any:
        raise AssertionError("a session that writes was asked for")


def run(server: Neo4jServer, text: str, **parameters: Any) -> list[dict[str, Any]]:
    with server.connect() as connection:
        return ask(connection, text, **parameters)


def explained(server: Neo4jServer, text: str, value: list[Any] | None = None) -> Any:
    """The server's own summary of a statement that it does not run."""
    wanted = {part[1:] for part in cypher._PLACES.findall(text) if part.startswith("$")}
    with server.connect() as connection, connection.session() as session:
        return session.run(f"EXPLAIN {text}", dict.fromkeys(wanted, value)).consume()


def index(server: Neo4jServer, *statements: str) -> None:
    """Make indexes that :func:`clean` deletes."""
    for number, statement in enumerate(statements):
        for what in ("CONSTRAINT", "INDEX"):
            statement = statement.replace(f"{what} FOR", f"{what} {quoted(f'test {number}')} FOR")
        run(server, statement)
    run(server, "CALL db.awaitIndexes(60)")


IDS = constraint_statement("TestThing", "uid")


@pytest.fixture
def database(neo4j_server: Neo4jServer) -> Iterator[Neo4jServer]:
    """The server; what a test wrote under MARK, and its indexes, are gone at the end."""
    yield neo4j_server
    clean(neo4j_server)


def clean(server: Neo4jServer) -> None:
    run(
        server,
        "MATCH (n) WHERE any(label IN labels(n) WHERE label = $mark OR label STARTS WITH $put) "
        "DETACH DELETE n",
        mark=MARK,
        put=PUT,
    )
    clean_indexes(server)


def clean_indexes(server: Neo4jServer) -> None:
    for row in run(server, "SHOW CONSTRAINTS YIELD name WHERE name STARTS WITH 'test '"):
        run(server, f"DROP CONSTRAINT {quoted(row['name'])}")
    for row in run(server, "SHOW INDEXES YIELD name WHERE name STARTS WITH 'test '"):
        run(server, f"DROP INDEX {quoted(row['name'])}")


@pytest.fixture
def reader(neo4j_server: Neo4jServer) -> Iterator[Neo4jConnection]:
    with connect(neo4j_server) as connection:
        yield connection


def connect(server: Neo4jServer) -> Reader:
    return Reader(server.uri, server.username, server.password)


def put(server: Neo4jServer, tables: GraphTables, label: str, *, indexed: bool) -> None:
    """Write a KG as somebody else's graph: other labels, other property names, no keys."""
    run(server, f"MATCH (n:{quoted(label)}) DETACH DELETE n")
    if indexed:
        clean_indexes(server)
        index(server, constraint_statement(label, ID), text_index_statement(label, NAME, ALIASES))
    rows = []
    for node in tables.nodes.to_pylist():
        properties = {ID: node["id"], NAME: node["name"], ALIASES: node["aliases"] or None}
        properties |= json.loads(node["properties"] or "{}")
        labels = [label, *([KINDS[node["kind"]]] if node["kind"] else []), *node["types"]]
        rows.append({"labels": labels, "properties": properties})
    run(server, "UNWIND $rows AS r CREATE (n:$(r.labels)) SET n = r.properties", rows=rows)
    ids = tables.nodes["id"].to_pylist()
    types = tables.relations["id"].to_pylist()
    edges = [
        {"head": ids[row["head"]], "type": types[row["relation"]], "tail": ids[row["tail"]]}
        for row in tables.edges.to_pylist()
    ]
    run(
        server,
        f"UNWIND $edges AS e MATCH (h:{quoted(label)}) WHERE h[$id] = e.head "
        f"MATCH (t:{quoted(label)}) WHERE t[$id] = e.tail CREATE (h)-[:$(e.type)]->(t)",
        edges=edges,
        id=ID,
    )


def as_attached(tables: GraphTables) -> GraphTables:
    """What a database can say of a KG: types have no names, nameless entities their ids."""
    nodes = tables.nodes.to_pylist()
    for node in nodes:
        if node["kind"] != Kind.MEDIATOR:
            node["name"] = node["name"] or node["id"]
    relations = [{"id": id_, "name": id_} for id_ in tables.relations["id"].to_pylist()]
    return dataclasses.replace(
        tables,
        nodes=pa.Table.from_pylist(nodes, schema=tables.nodes.schema),
        relations=pa.Table.from_pylist(relations, schema=tables.relations.schema),
    )


def attachment_of(tables: GraphTables, label: str) -> Attachment:
    kinds = set(tables.nodes["kind"].to_pylist())
    return Attachment(
        label=label,
        id_property=ID,
        name_property=NAME,
        alias_property=ALIASES if any(tables.nodes["aliases"].to_pylist()) else None,
        mediator_label=KINDS[Kind.MEDIATOR] if Kind.MEDIATOR in kinds else None,
        value_label=KINDS[Kind.VALUE] if Kind.VALUE in kinds else None,
        direction=tables.info.direction,
    )


class Conformance(StoreConformance):
    """The suite of all stores, as far as a database can say as much."""

    indexed = False

    @pytest.fixture(scope="class")
    @classmethod
    def tables(cls) -> GraphTables:
        return as_attached(tricky_tables())

    @pytest.fixture(scope="class")
    @classmethod
    def make_store(
        cls, neo4j_server: Neo4jServer, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[MakeStore]:
        home = tmp_path_factory.mktemp("home")
        opened: list[GraphStore] = []
        connection = connect(neo4j_server)

        def make(tables: GraphTables) -> GraphStore:
            label = f"{PUT}{tables.info.name}` \\u0060 $id *1..2 {cls.indexed}"
            tables = as_attached(tables)
            put(neo4j_server, tables, label, indexed=cls.indexed)
            folder = home / tables.info.name
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(attached_survey, "_BATCH", 5)
                patch.setattr(attached_survey, "_HEADS", 4)
                found = attach(connection, attachment_of(tables, label), folder, Silent())
            assert found.record.by_reference is not cls.indexed
            opened.append(AttachedStore(connection, found.record, folder))
            return opened[-1]

        yield make
        for store in opened:
            store.close()
        clean(neo4j_server)

    random_graphs = 4
    bounds = ("kgqa.graph.attached_store.CHUNK", "kgqa.graph.sqlite_file._KEYS")
    no_topics = StoreConformance.no_topics - {"m.14"}  # nameless, so named by its id

    def expected(self, store: GraphStore, tables: GraphTables) -> GraphTables:
        """As the database tells it, with the store's own record if that says the same."""
        tables = as_attached(tables)
        mine, theirs = (dataclasses.asdict(each.info) for each in (store, tables))
        for own in ("version", "source", "loader", "licence"):
            del mine[own], theirs[own]
        assert mine == theirs
        return dataclasses.replace(tables, info=store.info)

    def test_a_relation_has_a_key_by_its_id_and_a_name(self, store: GraphStore) -> None:
        relations = store.relations()
        assert relations.ids == relations.names == sorted(relations.ids)
        assert {"親", "self"} < set(relations.ids)


class TestWithoutIndexes(Conformance):
    """Nodes are looked up by element id, suggestions come from the survey."""


class TestWithIndexes(Conformance):
    """Nodes are looked up by the index on ids, suggestions come from the server."""

    indexed = True


FILMS = f"""
CREATE (tom:{MARK}:TestThing {{uid: 1, title: 'Tom', also: 'Thomas'}}),
  (film:{MARK}:TestThing {{uid: 2, title: 'Apollo 13', year: 1995, released: date('1995-06-30')}}),
  (ron:{MARK}:TestThing {{uid: 3, title: 'Ron'}}), (role:{MARK}:TestThing:TestCvt {{uid: 4}}),
  (jim:{MARK}:TestThing {{uid: 5, title: ' '}})
CREATE (ron)-[:DIRECTED]->(film), (tom)-[:PLAYED]->(role), (role)-[:IN]->(film),
  (role)-[:AS]->(jim), (tom)-[:KNOWS]->(ron)
"""
TOM = "MATCH (n:TestThing {uid: 1})"
THING = Attachment("TestThing", "uid", "title", "also", mediator_label="TestCvt")


@pytest.fixture
def films(database: Neo4jServer) -> Neo4jServer:
    """A small graph with whole numbers as ids, written without kgqa."""
    run(database, FILMS)
    return database


@contextmanager
def opened(server: Neo4jServer, folder: Path, how: Attachment = THING) -> Iterator[AttachedStore]:
    with connect(server) as connection:
        found = attach(connection, how, folder, Silent())
        with AttachedStore(connection, found.record, folder) as store:
            yield store


def use(store: GraphStore) -> None:
    """Ask for everything that a store can be asked for."""
    keys = store.topic_keys()
    store.entities(keys)
    for direction in ("out", "in", "both"):
        near = store.neighbours(keys, direction)
    there = store.has_edges(keys[near.row], near.step >> 1, near.target)
    assert there.any()
    for key in keys.tolist():
        store.details(key)
    store.find_names(["Tom"])
    store.suggest("apollo")
    store.degrees(keys)


class TestNothingIsWritten:
    """The database is the same before and after, and the server itself would refuse."""

    @pytest.mark.parametrize("indexed", [False, True])
    def test_the_database_is_the_same_after_attach_and_use(
        self, films: Neo4jServer, tmp_path: Path, indexed: bool
    ) -> None:
        if indexed:
            index(films, IDS, text_index_statement("TestThing", "title", "also"))
        before = snapshot(films)
        with opened(films, tmp_path / "films") as store:
            assert store.record.by_reference is not indexed
            use(store)
        assert snapshot(films) == before

    @pytest.mark.parametrize(
        "statement",
        [
            f"CREATE (:{MARK}:Intruder)",
            "MATCH (n:TestThing) SET n.kgqa = 1",
            "MATCH (n:TestThing) DETACH DELETE n",
            "CREATE INDEX intruder FOR (n:TestThing) ON (n.year)",
            "CREATE CONSTRAINT intruder FOR (n:TestThing) REQUIRE n.uid IS UNIQUE",
            "CREATE FULLTEXT INDEX intruder FOR (n:TestThing) ON EACH [n.title]",
        ],
    )
    def test_the_server_refuses_a_write_on_the_ways_that_are_used(
        self, films: Neo4jServer, reader: Neo4jConnection, statement: str
    ) -> None:
        before = snapshot(films)
        with pytest.raises(GraphError, match=r"read access mode|AccessMode|not allowed"):
            reader.read(statement)
        with pytest.raises(GraphError, match=r"read access mode|AccessMode|not allowed"):
            list(reader.stream(statement))
        assert snapshot(films) == before

    @pytest.mark.parametrize("name", [n for n in cypher.names() if n.startswith("attached_")])
    @pytest.mark.parametrize("by_reference", [False, True])
    def test_every_statement_only_reads(
        self, films: Neo4jServer, name: str, by_reference: bool
    ) -> None:
        text = attached(
            name.removeprefix("attached_"), "TestThing", "uid", by_reference=by_reference
        )
        assert explained(films, text).query_type == "r", "by the server's own judgement"


def snapshot(server: Neo4jServer) -> list[Any]:
    """All that there is to see of a database."""
    return [
        run(server, text)
        for text in (
            "MATCH (n) RETURN labels(n) AS l, count(*) AS c, sum(size(keys(n))) AS k ORDER BY l",
            "MATCH ()-[r]->() RETURN type(r) AS t, count(*) AS c, sum(size(keys(r))) AS k "
            "ORDER BY t",
            "CALL db.labels() YIELD label RETURN label ORDER BY label",
            "CALL db.propertyKeys() YIELD propertyKey RETURN propertyKey ORDER BY propertyKey",
            "SHOW INDEXES YIELD name, type, labelsOrTypes, properties "
            "RETURN name, type, labelsOrTypes, properties ORDER BY name",
            "SHOW CONSTRAINTS YIELD name, type, labelsOrTypes, properties "
            "RETURN name, type, labelsOrTypes, properties ORDER BY name",
        )
    ]


def operators(plan: dict[str, Any]) -> set[str]:
    found = {plan["operatorType"].split("@")[0]}
    return found.union(*(operators(child) for child in plan.get("children", [])))


class TestStatements:
    """Odd names cannot be read as Cypher, and look-ups are no scans."""

    @pytest.mark.parametrize("name", ["neighbours_out", "neighbours_both", "has_edges", "details"])
    @pytest.mark.parametrize("indexed", [False, True])
    def test_a_look_up_never_scans_the_label(
        self, films: Neo4jServer, name: str, indexed: bool
    ) -> None:
        if indexed:
            index(films, IDS)
        text = attached(name, "TestThing", "uid", by_reference=not indexed)
        used = operators(explained(films, text, []).plan)
        assert not [one for one in used if "Scan" in one], used
        assert any("IndexSeek" in one for one in used) is indexed
        assert ("NodeByElementIdSeek" in used) is not indexed

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.one_of(
            st.text(min_size=1, max_size=20).filter(lambda text: "\0" not in text),
            st.text("`\\u0060 {}()$:", min_size=1, max_size=20),
        )
    )
    def test_the_server_reads_a_quoted_name_as_that_name(
        self, reader: Neo4jConnection, name: str
    ) -> None:
        try:
            name.encode()
        except UnicodeEncodeError:
            return
        rows = reader.read(f"RETURN keys({{{quoted(name)}: 1}}) AS found")
        assert rows[0]["found"] == [name]

    def test_what_is_put_in_is_no_place_to_put_something_in(self) -> None:
        text = attached("neighbours_out", "`id` x.`id` = $ids[row]", "`Freebase`")
        assert text.count("```Freebase```") == 2
        assert text.count("```id`` x.``id`` = $ids[row]`") == 2


class TestSurvey:
    """What is taken, what is left out, and what is reported."""

    def test_whole_numbers_are_ids(self, films: Neo4jServer, tmp_path: Path) -> None:
        with opened(films, tmp_path / "films") as store:
            assert store.keys_of(["1", "2", "01", "x"]).tolist() == [0, 1, -1, -1]
            details = store.details(1)
            assert (details.id, details.name) == ("2", "Apollo 13")
            assert details.properties == {"year": 1995, "released": "1995-06-30"}
            assert store.details(0).aliases == ["Thomas"]
            assert store.entities(keys_array([3, 4])).names == [None, "5"]
            assert store.info.mediators == 1
            directed = store.relations().ids.index("DIRECTED")
            near = store.neighbours(keys_array([1]), "in")
            assert (0, 2 * directed + 1, 2, Kind.ENTITY) in rows_of(near)
            assert store.has_edges(*(keys_array([k]) for k in (2, directed, 1))).tolist() == [True]

    def test_numbers_and_texts_sort_as_texts(self, database: Neo4jServer, tmp_path: Path) -> None:
        run(
            database,
            f"UNWIND [10, 9, 'a', -1, '1b'] AS i CREATE (:{MARK}:TestThing {{uid: i, title: 't'}})",
        )
        how = Attachment("TestThing", "uid", "title")
        with opened(database, tmp_path / "x", how) as store:
            assert store.entities(keys_array(range(5))).ids == ["-1", "10", "1b", "9", "a"]
            assert store.topic_keys().tolist() == []

    def test_what_is_left_out_is_counted(
        self, films: Neo4jServer, reader: Neo4jConnection, tmp_path: Path
    ) -> None:
        run(
            films,
            f"MATCH (tom:TestThing {{uid: 1}}), (ron:TestThing {{uid: 3}}) "
            f"CREATE (tom)-[:KNOWS]->(ron), (tom)-[:KNOWS {{since: 1}}]->(ron), "
            f"(tom)-[:LIVES]->(x:{MARK}:Place {{uid: 9}}), (x)-[:HOLDS]->(ron), (x)-[:NEAR]->(x), "
            f"(tom)-[:KNOWS]->(:{MARK}:TestThing {{title: 'no id'}}), "
            f"(:{MARK}:TestThing {{uid: '', title: 'empty id'}})-[:KNOWS]->(ron)",
        )
        notes = Silent()
        found = attach(reader, THING, tmp_path / "films", notes)
        assert found.left_out == {NO_ID: 2, OUTSIDE: 2, IDLESS_END: 2, PARALLEL: 2}
        assert (found.record.info.edges, found.record.info.entities) == (5, 4)
        assert "2 nodes have no 'uid'" in notes.notes[0]
        with AttachedStore(reader, found.record, tmp_path / "films") as store:
            use(store)
            assert store.degrees(store.keys_of(["1"])).tolist() == [2]
            assert "LIVES" not in store.relations().ids

    def test_mediators_by_a_pattern_of_ids(self, films: Neo4jServer, tmp_path: Path) -> None:
        how = dataclasses.replace(THING, mediator_label=None, mediators="[45]")
        with opened(films, tmp_path / "films", how) as store:
            assert store.entities(keys_array([3, 4])).kinds.tolist() == [Kind.MEDIATOR] * 2

    @pytest.mark.parametrize("second", ["1", 1])
    def test_an_id_that_comes_twice_is_an_error_that_names_it(
        self, films: Neo4jServer, reader: Neo4jConnection, tmp_path: Path, second: object
    ) -> None:
        run(films, f"CREATE (:{MARK}:TestThing {{uid: $id, title: 'again'}})", id=second)
        with pytest.raises(GraphError, match=r"'uid' names several nodes.*'1' \(2 nodes\)\."):
            attach(reader, THING, tmp_path / "films", Silent())
        assert list(tmp_path.iterdir()) == []

    def test_advice_can_be_run_as_it_stands(
        self, films: Neo4jServer, reader: Neo4jConnection, tmp_path: Path
    ) -> None:
        first = attach(reader, THING, tmp_path / "films", Silent())
        assert len(first.advice) == 2
        index(films, *first.advice)
        second = attach(reader, THING, tmp_path / "films", Silent())
        assert second.advice == []
        assert second.record.info == first.record.info  # the version too

    def test_the_version_is_that_of_the_content(
        self, database: Neo4jServer, reader: Neo4jConnection, tmp_path: Path
    ) -> None:
        tables = as_attached(random_tables(5))
        labels = {name: f"{PUT}{name}" for name in ("first", "second")}
        put(database, tables, labels["first"], indexed=False)
        backwards = dataclasses.replace(
            tables, edges=tables.edges.take(list(range(len(tables.edges)))[::-1])
        )
        put(database, backwards, labels["second"], indexed=False)

        def version(name: str) -> str:
            how = attachment_of(tables, labels[name])
            return attach(reader, how, tmp_path / name, Silent()).record.info.version

        same = version("first")
        assert version("second") == same
        second = quoted(labels["second"])
        seen = {same}
        for change in (
            f"MATCH (n:{second}) WITH n LIMIT 1 SET n[$name] = 'a new name'",
            f"MATCH (n:{second}) WITH n LIMIT 1 CREATE (n)-[:`a new type`]->(n)",
            f"MATCH (:{second})-[r:`a new type`]->(n) DELETE r",
            f"MATCH (n:{second}) WITH n LIMIT 1 SET n[$id] = 'a new id'",
        ):
            run(database, change, name=NAME, id=ID)
            seen.add(version("second"))
        assert len(seen) == 4  # the new edge came and went

    def test_a_change_meanwhile_is_an_error(self, films: Neo4jServer, tmp_path: Path) -> None:
        class Meddling(Silent):
            @contextmanager
            def task(self, what: str, total: int | None = None, unit: str = "") -> Iterator[Task]:
                if what == "reading edges":
                    run(
                        films,
                        f"MATCH (n:TestThing {{uid: 1}}) CREATE (n)-[:KNOWS]->(:{MARK}:TestThing "
                        "{uid: 77})",
                    )
                with super().task(what, total, unit) as task:
                    yield task

        with connect(films) as connection, pytest.raises(GraphError, match="changed while"):
            attach(connection, THING, tmp_path / "films", Meddling())
        assert list(tmp_path.iterdir()) == []


class TestAGraphThatChangesLater:
    """It is an error that says so, never another graph's path; attaching again mends it."""

    @pytest.mark.parametrize("indexed", [False, True])
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (f"{TOM} CREATE (n)-[:KNOWS]->(:{MARK}:TestThing {{uid: 6}})", "new id 6"),
            (f"{TOM} CREATE (n)-[:KNOWS]->(:{MARK}:TestThing {{uid: '3'}})", "new id '3'"),
            (f"{TOM} CREATE (n)-[:KNOWS]->(:{MARK}:TestThing {{uid: 0.5}})", "new id 0.5"),
            (f"{TOM}, (m:TestThing {{uid: 2}}) CREATE (n)-[:HATES]->(m)", "'HATES'"),
            (f"{TOM} DETACH DELETE n", "a node is gone"),
            (f"{TOM} SET n.uid = 8", "a node is gone"),
            (f"{TOM} REMOVE n:TestThing", "a node is gone"),
        ],
    )  # fmt: skip
    def test_what_is_unknown_is_said(
        self, films: Neo4jServer, tmp_path: Path, change: str, message: str, indexed: bool
    ) -> None:
        if indexed:
            index(films, IDS)
        with opened(films, tmp_path / "films") as store:
            key = store.keys_of(["1"])
            for direction in ("out", "both"):
                assert len(store.neighbours(key, direction)) == 2
            run(films, change)
            for direction in ("out", "both"):
                with pytest.raises(GraphError, match=message) as caught:
                    store.neighbours(key, direction)
                assert "changed since films was attached" in caught.value.message
                assert "kgqa attach films" in caught.value.hint

    def test_a_deleted_end_of_an_edge_is_said(self, films: Neo4jServer, tmp_path: Path) -> None:
        with opened(films, tmp_path / "films") as store:
            knows = store.relations().ids.index("KNOWS")
            edge = [keys_array([number]) for number in (0, knows, 2)]
            assert store.has_edges(*edge).tolist() == [True]
            run(films, "MATCH (:TestThing {uid: 1})-[r:KNOWS]->() DELETE r")
            assert store.has_edges(*edge).tolist() == [False]
            run(films, "MATCH (n:TestThing {uid: 3}) DETACH DELETE n")
            with pytest.raises(GraphError, match="an end of an edge is gone"):
                store.has_edges(*edge)
            with pytest.raises(GraphError, match="0 nodes have the id '3'"):
                store.details(2)

    def test_an_id_that_became_ambiguous_is_said(self, films: Neo4jServer, tmp_path: Path) -> None:
        # an index that is no constraint lets it come to that
        run(films, "CREATE INDEX `test plain` FOR (n:TestThing) ON (n.uid)")
        run(films, "CALL db.awaitIndexes(60)")
        with opened(films, tmp_path / "films") as store:
            assert not store.record.by_reference
            run(films, f"CREATE (:{MARK}:TestThing {{uid: 1}})")
            with pytest.raises(GraphError, match="no longer unique"):
                store.neighbours(store.keys_of(["1"]), "out")

    def test_attaching_again_knows_the_new_graph(self, films: Neo4jServer, tmp_path: Path) -> None:
        with opened(films, tmp_path / "films") as store:
            old = store.info.version
        run(
            films,
            f"MATCH (n:TestThing {{uid: 1}}) CREATE (n)-[:HATES]->(:{MARK}:TestThing {{uid: 6}})",
        )
        with opened(films, tmp_path / "films") as store:
            assert store.info.version != old
            assert len(store.neighbours(store.keys_of(["1"]), "out")) == 3
        assert len(list((tmp_path / "films").glob("*.sqlite"))) == 1  # the older one is gone

    def test_a_failed_attaching_leaves_the_older_one_serving(
        self, films: Neo4jServer, tmp_path: Path
    ) -> None:
        with opened(films, tmp_path / "films"):
            pass
        before = {path.name: path.read_bytes() for path in (tmp_path / "films").iterdir()}
        run(films, f"CREATE (:{MARK}:TestThing {{uid: 1}})")
        with pytest.raises(GraphError, match="several nodes"), opened(films, tmp_path / "films"):
            pass
        assert {path.name: path.read_bytes() for path in (tmp_path / "films").iterdir()} == before


class TestWrongInput:
    """One sentence that says what there is, and nothing left behind."""

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"label": "Nobody"}, GraphError, r"the label 'Nobody'\. Labels there are: "),
            ({"mediator_label": "No"}, GraphError, "has the label 'No'"),
            ({"value_label": "No"}, GraphError, "has the label 'No'"),
            ({"id_property": "mid"}, GraphError,
             r"has the property 'mid'\. Properties there are: also, released, title, uid, year\."),
            ({"name_property": "na`me"}, GraphError, "has the property 'na`me'"),
            ({"alias_property": "aka"}, GraphError, "has the property 'aka'"),
            ({"id_property": "released"}, GraphError, "neither text nor a whole number"),
            ({"label": ""}, UsageError, "'' cannot be a label or property"),
            ({"label": "a\0b"}, UsageError, "cannot be a label or property"),
            ({"mediators": "x"}, UsageError, "not by both"),
            ({"mediators": "(", "mediator_label": None}, UsageError, "cannot be the pattern"),
        ],
    )  # fmt: skip
    def test_is_one_error(
        self,
        films: Neo4jServer,
        reader: Neo4jConnection,
        tmp_path: Path,
        change: dict[str, Any],
        error: type[KgqaError],
        message: str,
    ) -> None:
        how = dataclasses.replace(THING, **change)
        with pytest.raises(error, match=message) as caught:
            attach(reader, how, tmp_path / "films", Silent())
        assert caught.value.hint
        assert list(tmp_path.iterdir()) == []

    def test_a_name_that_is_a_loaded_kg(
        self, films: Neo4jServer, reader: Neo4jConnection, tmp_path: Path
    ) -> None:
        with open_writer(tmp_path, "films") as writer:
            writer.write(tables_of([{**NODE}], [("a", "r", "a")], name="films"), Silent())
        with pytest.raises(UsageError, match="films is a KG that was loaded"):
            attach(reader, THING, tmp_path / "films", Silent())

    def test_a_name_that_is_a_kg_of_that_server(
        self, films: Neo4jServer, reader: Neo4jConnection, tmp_path: Path
    ) -> None:
        with films.connect() as connection:
            writer = Neo4jWriter(connection)
            writer.write(tables_of([{**NODE}], [("a", "r", "a")], name="served"), Silent())
            try:
                with pytest.raises(UsageError, match="served is a KG that was loaded into"):
                    attach(reader, THING, tmp_path / "served", Silent())
            finally:
                writer.drop("served", Silent())
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_cannot_be_written(
        self, films: Neo4jServer, reader: Neo4jConnection, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreUnavailableError, match="cannot be written"):
            attach(reader, THING, tmp_path / "file" / "films", Silent())

    def test_two_at_once_are_refused(
        self, films: Neo4jServer, reader: Neo4jConnection, tmp_path: Path
    ) -> None:
        folder = tmp_path / "films"
        folder.mkdir()
        with (
            FileLock(folder / ".attach.lock"),
            pytest.raises(GraphError, match="Another process is attaching films"),
        ):
            attach(reader, THING, folder, Silent())


NODE: dict[str, Any] = {
    "id": "a", "name": "a", "aliases": [], "kind": 0, "types": [], "properties": None,
}  # fmt: skip


class TestOpening:
    """An attached KG is found by its name, and its record tells no secret."""

    @pytest.fixture
    def home(self, films: Neo4jServer, reader: Neo4jConnection, tmp_path: Path) -> Path:
        attach(reader, THING, tmp_path / "home" / "films", Silent())
        return tmp_path / "home"

    def test_by_name_wherever_the_url_leads(
        self, films: Neo4jServer, home: Path, tmp_path: Path
    ) -> None:
        account = {"username": films.username, "password": films.password}
        for url in (home, tmp_path / "else", tmp_path / "x.sqlite", "bolt://127.0.0.1:1"):
            with open_store(url, "films", home=home, **account) as store:
                assert isinstance(store, AttachedStore)
                use(store)
        with open_store(home, **account) as store:  # the only one there is
            assert store.info.name == "films"

    def test_it_is_listed_without_its_server(self, home: Path) -> None:
        assert [info.name for info in list_kgs(home)] == ["films"]
        faults: list[KgqaError] = []
        infos = list_kgs("bolt://127.0.0.1:1", home=home, faults=faults)
        assert [info.name for info in infos] == ["films"]
        assert [type(fault) for fault in faults] == [StoreUnavailableError]

    def test_of_several_one_must_be_named(self, home: Path) -> None:
        with open_writer(home, "books") as writer:
            writer.write(tables_of([{**NODE}], [("a", "r", "a")], name="books"), Silent())
        assert [info.name for info in list_kgs(home)] == ["books", "films"]
        with pytest.raises(UsageError, match=r"several KGs.*books, films"):
            open_store(home)
        with open_store(home, "books") as store:
            assert store.url.startswith("sqlite")
        with pytest.raises(KGNotFoundError, match="no KG named music"):
            open_store(home, "music")

    def test_its_name_cannot_be_loaded_into(self, home: Path, tmp_path: Path) -> None:
        for url in (home, tmp_path / "x.sqlite"):
            with (
                pytest.raises(UsageError, match="films is attached"),
                open_writer(url, "films", home=home),
            ):
                pass

    def test_no_secret_is_kept(self, films: Neo4jServer, home: Path) -> None:
        if not films.password:
            pytest.skip("the server asks for no password")
        for path in (home / "films").iterdir():
            assert films.password.encode() not in path.read_bytes()

    def test_a_wrong_password_is_said(self, films: Neo4jServer, home: Path) -> None:
        if not films.password:
            pytest.skip("the server asks for no password")
        with open_store(home, "films", username=films.username, password="wr0ng-one") as store:
            with pytest.raises(StoreUnavailableError, match="refused the user name") as caught:
                store.neighbours(keys_array([0]), "out")
            assert "wr0ng" not in str(caught.value)

    @pytest.mark.parametrize(
        "content",
        ["", "{", "[]", "{}", '{"schema": 1}', '{"schema": 99}', "\x00"],
    )
    def test_a_damaged_record_is_said(self, home: Path, content: str) -> None:
        (home / "films" / RECORD_NAME).write_text(content)
        with pytest.raises(GraphError, match=r"attached\.json") as caught:
            open_store(home, "films")
        assert "kgqa attach films" in caught.value.hint
        faults: list[KgqaError] = []
        assert list_kgs(home, faults=faults) == []
        assert len(faults) == 1

    def test_a_record_cannot_lead_out_of_its_folder(self, home: Path) -> None:
        path = home / "films" / RECORD_NAME
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "cache": "../other/attached-1.sqlite"}))
        with pytest.raises(GraphError, match="damaged"):
            open_store(home, "films")

    @pytest.mark.parametrize("damage", ["gone", "empty", "cut", "text", "another"])
    def test_a_damaged_survey_is_said(self, home: Path, damage: str) -> None:
        (path,) = (home / "films").glob("attached-*.sqlite")
        content = path.read_bytes()
        if damage == "gone":
            path.unlink()
        elif damage == "another":
            record = json.loads((home / "films" / RECORD_NAME).read_text())
            record["info"]["version"] = "0" * 64
            (home / "films" / RECORD_NAME).write_text(json.dumps(record))
        else:
            path.write_bytes({"empty": b"", "cut": content[:1000], "text": b"x" * 9000}[damage])
        with pytest.raises(StoreUnavailableError, match=r"attached-.*films") as caught:
            open_store(home, "films")
        assert "kgqa attach films" in caught.value.hint

    def test_it_is_named_after_its_folder(self, films: Neo4jServer, home: Path) -> None:
        shutil.move(home / "films", home / "movies")
        account = {"username": films.username, "password": films.password}
        with open_store(home, "movies", **account) as store:
            assert store.info.name == "movies"
            use(store)

    def test_an_unknown_key_is_said(self, films: Neo4jServer, tmp_path: Path) -> None:
        with opened(films, tmp_path / "films") as store:
            with pytest.raises(EntityNotFoundError, match="key 99"):
                store.neighbours(keys_array([99]), "out")
            assert store.degrees(keys_array([99, 0])).tolist() == [0, 2]


def test_the_browser_draws_edges_of_an_attached_graph(films: Neo4jServer, tmp_path: Path) -> None:
    with opened(films, tmp_path / "films") as store:
        url = browser_url(store, [("1", "KNOWS", "3"), ("3", "DIRECTED", "2")])
    assert url is not None
    (text,) = parse_qs(urlsplit(url).query)["arg"]
    assert len(run(films, text)) == 2

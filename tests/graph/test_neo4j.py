"""Neo4j: the suite of all stores, and what only a server can get wrong."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
import threading
import time
import urllib.request
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kgqa import cypher
from kgqa.errors import GraphError, KGNotFoundError, StoreUnavailableError
from kgqa.graph.browser import MAX_LENGTH, browser_url
from kgqa.graph.model import GraphTables, keys_array
from kgqa.graph.neo4j import Neo4jConnection
from kgqa.graph.neo4j_store import Neo4jStore
from kgqa.graph.neo4j_write import Neo4jWriter, label_for
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.graph.store import CypherStore
from kgqa.progress import Silent
from tests.graph.change_conformance import ChangeConformance
from tests.graph.neo4j_server import CHECKOUT, ask, free_ports
from tests.graph.store_conformance import (
    StoreConformance,
    check_against_reference,
    entity,
    random_tables,
    tables_of,
    tricky_tables,
)
from tests.graph.tables import HOSTILE_CYPHER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from tests.graph.neo4j_server import Neo4jServer
    from tests.graph.store_conformance import MakeStore

pytestmark = pytest.mark.neo4j


@pytest.fixture(scope="class")
def connection(neo4j_server: Neo4jServer) -> Iterator[Neo4jConnection]:
    """A connection; the KGs that a class wrote are dropped at its end."""
    with neo4j_server.connect() as connection:
        before = {info.name for info in connection.list_kgs()}
        yield connection
        for info in connection.list_kgs():
            if info.name not in before:
                Neo4jWriter(connection).drop(info.name, Silent())


@pytest.fixture(scope="class")
def make_store(connection: Neo4jConnection) -> Iterator[MakeStore]:
    opened: list[GraphStore] = []

    def make(tables: GraphTables) -> GraphStore:
        Neo4jWriter(connection).write(tables, Silent())
        opened.append(Neo4jStore(connection, tables.info.name))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


def small(name: str, *heads: str, relation: str = "knows") -> GraphTables:
    """A KG of a few people who know the next one."""
    edges = [(a, relation, b) for a, b in pairwise(heads)]
    return tables_of([entity(head, head.title()) for head in heads], edges, name=name)


def count(connection: Neo4jConnection, label: str) -> int:
    found: int = ask(connection, f"MATCH (n:`{label}`) RETURN count(n) AS n")[0]["n"]
    return found


class TestNeo4jChanges(ChangeConformance):
    seeds = (20,)
    events = 10

    @pytest.fixture(autouse=True)
    def _account(self, neo4j_server: Neo4jServer) -> None:
        self.account = {"username": neo4j_server.username, "password": neo4j_server.password}


class TestNeo4jStore(StoreConformance):
    """The suite of all stores."""

    random_graphs = 3  # each takes a second or two
    bounds = ("kgqa.graph.neo4j_store.CHUNK",)


class TestWhatPeopleSeeInTheDatabase:
    def test_labels_types_and_properties(self, make_store: MakeStore) -> None:
        store = make_store(tricky_tables())
        connection: Neo4jConnection = store.connection  # type: ignore[attr-defined]
        born = ask(
            connection,
            "MATCH (p:Entity:Tricky {id: 'm.05'})-[r:`people.person.place_of_birth`]->(c) "
            "RETURN p.name AS person, c.name AS city, c.aliases AS aliases, labels(c) AS labels",
        )
        assert [row["city"] for row in born] == ["Berlin"]
        assert born[0]["aliases"] == ["Berlin, Germany"]
        assert sorted(born[0]["labels"]) == ["Entity", "Tricky", "a.b", "location.citytown"]
        assert ask(
            connection, "MATCH (n:Tricky {born: 1950}) RETURN n.id AS id, n.note AS note"
        ) == [{"id": "m.05", "note": "a\nb"}]
        assert count(connection, "Tricky`:`Mediator") == 2
        assert ask(connection, "MATCH (v:Value:Tricky) RETURN v.name AS name") == [
            {"name": "1950-01-01"}
        ]
        kinds = ask(
            connection,
            "SHOW INDEXES YIELD type, labelsOrTypes AS on, properties WHERE 'Tricky' IN on",
        )
        assert {("RANGE", "id"), ("RANGE", "key"), ("FULLTEXT", "name")} == {
            (row["type"], row["properties"][0]) for row in kinds
        }
        unique = ask(
            connection, "SHOW CONSTRAINTS YIELD type, labelsOrTypes AS on, properties AS p"
        )
        assert ["id"] in [row["p"] for row in unique if row["on"] == ["Tricky"]]

    def test_a_statement_runs_reading_only(self, make_store: MakeStore) -> None:
        with make_store(tricky_tables()) as store:
            assert isinstance(store, CypherStore)
            text = "MATCH (n:Tricky) RETURN n.id AS id, n.born AS born, n ORDER BY id"
            rows = store.run(text, {}, limit=3)
            assert len(rows) == 3
            assert rows[0]["n"].startswith("4:")
            found = store.run("MATCH (n:Tricky {id: $id}) RETURN n.born AS b", {"id": "m.05"})
            assert found == [{"b": 1950}]
            with pytest.raises(GraphError, match=r"[Ww]rit"):
                store.run("CREATE (:Tricky)", {})
            with pytest.raises(GraphError, match="took longer"):
                store.run("UNWIND range(1, 1000000000) AS n RETURN sum(n)", {}, timeout=0.2)

    def test_properties_of_relationships_are_properties(self, make_store: MakeStore) -> None:
        about = {"weight": 2.5, "seen": "1999-03-31", "sources": ["a", "b"], "rel": "x"}
        edge = ("a", "IsA", "b")
        made = tables_of(
            [entity("a", "a"), entity("b", "b")], [edge], name="weights", about={edge: about}
        )
        with make_store(made) as store:
            rows = store.run(
                "MATCH (:Weights)-[r:IsA]->() WHERE r.weight > 2 AND r.seen < date('2000-01-01') "
                "RETURN r.weight AS weight, r.sources AS sources, r.rel_ AS ours",
                {},
            )
            assert rows == [{"weight": 2.5, "sources": ["a", "b"], "ours": "x"}]

    def test_a_name_too_long_for_an_index_is_found(self, make_store: MakeStore) -> None:
        long = "word " * 4_000 + "end"
        tables = tables_of(
            [entity("a", long), entity("b", "b", long)], [("a", "r", "b")], name="long"
        )
        with make_store(tables) as store:
            assert store.find_names([long.upper(), long + "x"])[1].tolist() == [0, 1]
            assert store.entities(keys_array([0])).names == [long]


class TestEveryStatement:
    @pytest.mark.parametrize("name", cypher.names())
    def test_is_valid_as_it_stands(self, connection: Neo4jConnection, name: str) -> None:
        text = cypher.text(f"{name}.cypher")
        assert text.startswith("//"), "a statement says what it is for"
        body = "\n".join(line for line in text.splitlines() if not line.startswith("//"))
        used = {part for part in cypher._PLACES.findall(body) if part.startswith("$")}
        shown = [line for line in text.splitlines() if line.startswith("// :param ")]
        assert used == {"$" + line.split()[2] for line in shown}
        # EXPLAIN plans a statement and runs nothing; a schema command cannot be explained here.
        if not body.startswith(("CREATE CONSTRAINT", "CREATE FULLTEXT", "DROP")):
            values = ", ".join(
                line.removeprefix("// :param ").replace(" => ", ": ") for line in shown
            )
            given = ask(connection, f"RETURN {{{values}}} AS given")[0]["given"]
            with connection.translated(), connection.session() as session:
                session.run(f"EXPLAIN {body}", given).consume()  # type: ignore[arg-type]


class TestReplacing:
    def test_edges_are_deleted_a_few_at_a_time_however_many_a_node_has(
        self, connection: Neo4jConnection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("kgqa.graph.neo4j_write._DELETED_NODES", 2)
        monkeypatch.setattr("kgqa.graph.neo4j_write._DELETED_EDGES", 3)
        leaves = [f"leaf{number}" for number in range(10)]
        star = tables_of(
            [entity(each, each) for each in ("hub", *leaves)],
            [*(("hub", "has", leaf) for leaf in leaves), ("leaf3", "of", "hub")],
            name="star",
        )
        writer = Neo4jWriter(connection)
        writer.write(star, Silent())
        statements: list[str] = []
        run = type(writer).run

        def counted(self: Any, name: str, *given: Any, **more: Any) -> Any:
            statements.append(name)
            return run(self, name, *given, **more)

        monkeypatch.setattr(type(writer), "run", counted)
        assert writer.drop("star", Silent())
        assert count(connection, "Star") == 0
        # six spans of nodes: four statements empty the hub's, one each of the others
        assert statements.count("delete_edges") == 9

    def test_other_content_replaces_it_and_leaves_nothing_behind(
        self, connection: Neo4jConnection
    ) -> None:
        writer = Neo4jWriter(connection)
        writer.write(small("people", "ann", "bob"), Silent())
        with Neo4jStore(connection, "people") as first:
            assert first.label == "People"
        writer.write(small("people", "ann", "bob", "cid"), Silent())
        with Neo4jStore(connection, "people") as second:
            assert second.keys_of(["cid"]).tolist() == [2]
            assert count(connection, "People") == 0
            assert count(connection, second.label) == 3
        writer.write(small("people", "dan", "eve"), Silent())
        with Neo4jStore(connection, "people") as third:
            assert third.label == "People"
            assert third.keys_of(["ann", "dan"]).tolist() == [-1, 0]
        left = ask(connection, "MATCH (n) WHERE n:KGLoading OR n:KGDropping RETURN count(n) AS n")
        assert left == [{"n": 0}]
        assert [info.name for info in connection.list_kgs()].count("people") == 1

    def test_the_same_content_is_not_written_again(self, connection: Neo4jConnection) -> None:
        tables = small("same", "ann", "bob")
        Neo4jWriter(connection).write(tables, Silent())
        before = connection.meta("same")
        renamed = dataclasses.replace(
            tables, info=dataclasses.replace(tables.info, source="elsewhere")
        )
        progress = Silent()
        Neo4jWriter(connection).write(renamed, progress)
        after = connection.meta("same")
        assert before is not None
        assert after == before | {"source": "elsewhere"}
        assert "already" in progress.notes[0]

    def test_damage_is_repaired_by_loading_again(self, connection: Neo4jConnection) -> None:
        tables = small("hurt", "ann", "bob")
        Neo4jWriter(connection).write(tables, Silent())
        ask(connection, "MATCH (n:Hurt {id: 'bob'}) DETACH DELETE n")
        Neo4jWriter(connection).write(tables, Silent())
        with Neo4jStore(connection, "hurt") as store:
            check_against_reference(store, tables)

    def test_a_first_load_that_stops_shows_nothing(
        self, connection: Neo4jConnection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as broken:
            broken.setattr(Neo4jWriter, "finish", stop)
            with pytest.raises(KeyboardInterrupt):
                Neo4jWriter(connection).write(small("fresh", "ann", "bob"), Silent())
        assert "fresh" not in [info.name for info in connection.list_kgs()]
        with pytest.raises(KGNotFoundError, match="fresh"):
            Neo4jStore(connection, "fresh")
        assert Neo4jWriter(connection).drop("fresh", Silent()) is False
        assert count(connection, "Fresh") == 0

    @pytest.mark.parametrize(
        "steps",
        [
            ("relations", "edges", "finish"),
            pytest.param(("nodes", "names"), marks=pytest.mark.long),
        ],
        ids=["some", "others"],
    )
    def test_a_killed_load_shows_nothing_and_the_next_finishes(
        self, neo4j_server: Neo4jServer, connection: Neo4jConnection, steps: tuple[str, ...]
    ) -> None:
        older, newer = random_tables(1), random_tables(2)
        Neo4jWriter(connection).write(older, Silent())
        for step in steps:
            killed_at(step, neo4j_server)
            assert [i for i in connection.list_kgs() if i.name == "random"] == [older.info]
            with Neo4jStore(connection, "random") as store:
                check_against_reference(store, older)
        Neo4jWriter(connection).write(newer, Silent())
        with Neo4jStore(connection, "random") as store:
            check_against_reference(store, newer)
        left = ask(connection, "MATCH (n) WHERE n:KGLoading OR n:KGDropping RETURN count(n) AS n")
        assert left == [{"n": 0}]
        Neo4jWriter(connection).drop("random", Silent())

    def test_a_store_that_was_replaced_says_so_and_answers_nothing(
        self, connection: Neo4jConnection
    ) -> None:
        Neo4jWriter(connection).write(small("moving", "ann", "bob"), Silent())
        with Neo4jStore(connection, "moving") as store:
            Neo4jWriter(connection).write(small("moving", "ann", "cid"), Silent())
            for call in (
                lambda: store.keys_of(["ann"]),
                lambda: store.neighbours(keys_array([0]), "both"),
                lambda: store.find_names(["ann"]),
                lambda: store.topic_keys(),
                lambda: store.relations(),
            ):
                with pytest.raises(GraphError, match="changed while it was in use"):
                    call()

    def test_of_two_loads_at_once_the_later_wins_and_the_other_says_so(
        self,
        neo4j_server: Neo4jServer,
        connection: Neo4jConnection,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        waiting, go_on = threading.Event(), threading.Event()
        verify = Neo4jWriter._counts
        errors: list[Exception] = []

        def slow(writer: Neo4jWriter, label: str) -> tuple[int, int]:
            if threading.current_thread() is first:
                waiting.set()
                assert go_on.wait(60)
            return verify(writer, label)

        def load() -> None:
            try:
                with neo4j_server.connect() as other:
                    Neo4jWriter(other).write(small("twice", "ann", "bob"), Silent())
            except Exception as error:
                errors.append(error)

        monkeypatch.setattr(Neo4jWriter, "_counts", slow)
        first = threading.Thread(target=load)
        first.start()
        assert waiting.wait(60)
        Neo4jWriter(connection).write(small("twice", "cid", "dan"), Silent())
        go_on.set()
        first.join(60)
        assert len(errors) == 1
        assert isinstance(errors[0], GraphError)
        with Neo4jStore(connection, "twice") as store:
            assert store.keys_of(["ann", "cid"]).tolist() == [-1, 0]

    def test_nodes_that_are_not_ours_are_left_alone(self, connection: Neo4jConnection) -> None:
        ask(connection, "CREATE (:Movie {title: 'not ours'})")
        try:
            Neo4jWriter(connection).write(small("movie", "ann", "bob"), Silent())
            with Neo4jStore(connection, "movie") as store:
                assert store.label != "Movie"
            Neo4jWriter(connection).drop("movie", Silent())
            assert count(connection, "Movie") == 1
        finally:
            ask(connection, "MATCH (n:Movie {title: 'not ours'}) DELETE n")

    def test_names_that_would_share_a_label_do_not(self, connection: Neo4jConnection) -> None:
        for name, person in (("twin", "ann"), ("Twin", "bob"), ("entity", "cid")):
            Neo4jWriter(connection).write(small(name, person, "zoe"), Silent())
        stores = [Neo4jStore(connection, name) for name in ("twin", "Twin", "entity")]
        assert len({store.label for store in stores} | {"Entity"}) == 4
        ids = [store.entities(keys_array([0])).ids[0] for store in stores]
        assert ids == ["ann", "bob", "cid"]
        for store in stores:
            store.close()


_KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from kgqa.graph import neo4j_write
from kgqa.graph.neo4j import Neo4jConnection
from kgqa.progress import Silent
from tests.graph.tables import random_tables

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

step = sys.argv[2]
if step in ("relations", "finish"):
    owner = neo4j_write._Load if step == "relations" else neo4j_write.Neo4jWriter
    setattr(owner, step, die)
else:
    batches = getattr(neo4j_write._Load, step)
    def partly(self, *arguments):
        for count in batches(self, *arguments):
            die()
            yield count
    setattr(neo4j_write._Load, step, partly)
neo4j_write.NODE_BATCH = neo4j_write.EDGE_BATCH = 3
uri, username, password = (os.environ["TEST_" + name] for name in ("URI", "USERNAME", "PASSWORD"))
neo4j_write.Neo4jWriter(Neo4jConnection(uri, username, password)).write(random_tables(2), Silent())
"""


def killed_at(step: str, server: Neo4jServer) -> None:
    """Load in another process that is killed when it reaches a step or after its first batch."""
    account = {
        "TEST_URI": server.uri,
        "TEST_USERNAME": server.username,
        "TEST_PASSWORD": server.password,
    }
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(CHECKOUT), step],
        env=os.environ | account,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    assert done.returncode == -9, done.stderr


class TestInjection:
    def test_a_hostile_label_is_a_label(self, connection: Neo4jConnection) -> None:
        for hostile in HOSTILE_CYPHER:
            with connection.session() as session, session.begin_transaction() as transaction:
                text = f"CREATE (n:`{cypher.escaped(hostile)}`) RETURN labels(n) AS labels"
                assert transaction.run(text).single(strict=True)["labels"] == [hostile]  # type: ignore[arg-type]
                transaction.rollback()

    def test_a_hostile_string_is_a_string(self, connection: Neo4jConnection) -> None:
        listed = ", ".join(cypher.literal(hostile) for hostile in HOSTILE_CYPHER)
        assert ask(connection, f"RETURN [{listed}] AS strings") == [{"strings": HOSTILE_CYPHER}]

    def test_no_id_name_relation_or_kg_is_read_as_cypher(self, connection: Neo4jConnection) -> None:
        name = "kg `) DETACH DELETE n // \\u0060 ' \" {$id} *1..2 `Freebase"
        facts = [(hostile, hostile, "end " + hostile) for hostile in HOSTILE_CYPHER]
        ids = [part for fact in facts for part in (fact[0], fact[2])]
        tables = tables_of([entity(id_, id_) for id_ in ids], facts, name=name)
        Neo4jWriter(connection).write(tables, Silent())
        with Neo4jStore(connection, name) as store:
            assert store.label == label_for(name)
            check_against_reference(store, tables)
            assert store.suggest("freebase").size
            assert sorted(drawn(connection, browser_url(store, facts))) == sorted(facts)
            labels = ask(connection, "CALL db.labels() YIELD label RETURN collect(label) AS found")
            assert label_for(name) in labels[0]["found"]
        Neo4jWriter(connection).drop(name, Silent())
        assert count(connection, cypher.escaped(label_for(name))) == 0


def drawn(connection: Neo4jConnection, url: str | None) -> list[tuple[str, str, str]]:
    """Run what a link puts into Browser's editor; return the edges that it draws."""
    assert url is not None
    text = parse_qs(urlsplit(url).query)["arg"][0]
    with connection.translated(), connection.session() as session:
        graph = session.run(text).graph()  # type: ignore[arg-type]
        return [(r.start_node["id"], r.type, r.end_node["id"]) for r in graph.relationships]


class TestBrowserLinks:
    def test_a_link_draws_just_the_given_edges(self, make_store: MakeStore) -> None:
        store = make_store(tricky_tables())
        connection: Neo4jConnection = store.connection  # type: ignore[attr-defined]
        facts = [
            ("m.05", "people.person.spouse_s", "cvt.1"),
            ("cvt.1", "people.marriage.spouse", "m.09"),
            ("m.05", "people.person.date_of_birth", '"1950-01-01"^^xsd:date'),
        ]
        url = browser_url(store, [*facts, facts[0]])
        assert sorted(drawn(connection, url)) == sorted(facts)
        assert browser_url(store, []) is not None

    def test_a_link_names_server_user_and_database_but_no_password(
        self, make_store: MakeStore, neo4j_server: Neo4jServer
    ) -> None:
        store = make_store(tricky_tables())
        url = browser_url(store, [("m.05", "people.person.spouse_s", "cvt.1")])
        assert url is not None
        assert url.startswith("http://localhost:7474/browser?") or neo4j_server.browser is None
        query = parse_qs(urlsplit(url).query)
        assert query["db"] == ["neo4j"]
        assert query["cmd"] == ["edit"]
        assert f"{neo4j_server.username}@" in query["dbms"][0]
        assert neo4j_server.password not in url
        moved = browser_url(store, [], browser="http://here:99/browser/")
        assert moved is not None
        assert moved.startswith("http://here:99/browser?dbms=")

    def test_a_link_with_too_many_edges_says_so_and_is_served(
        self, make_store: MakeStore, neo4j_server: Neo4jServer
    ) -> None:
        store = make_store(tricky_tables())
        facts = [(f"m.{row}", "people.person.place_of_birth", "m.04") for row in range(2_000)]
        url = browser_url(store, facts, browser=neo4j_server.browser)
        assert url is not None
        assert 0.9 * MAX_LENGTH < len(url) <= MAX_LENGTH
        assert "of 2000 edges" in parse_qs(urlsplit(url).query)["arg"][0]
        if neo4j_server.browser:
            with urllib.request.urlopen(url, timeout=30) as answer:
                assert answer.status == 200

    def test_sqlite_has_no_link(self, tmp_path: Path) -> None:
        SqliteWriter(tmp_path / "g.sqlite").write(small("lite", "a", "b"), Silent())
        with SqliteStore(tmp_path / "g.sqlite") as store:
            assert browser_url(store, []) is None


class TestBadConnections:
    def test_a_server_that_is_down_is_named_at_once(self) -> None:
        (port,) = free_ports(1)
        start = time.monotonic()
        for scheme in ("bolt", "neo4j"):  # which the driver tries half a minute each
            with (
                Neo4jConnection(f"{scheme}://user:hush-hush@localhost:{port}") as connection,
                pytest.raises(StoreUnavailableError) as caught,
            ):
                connection.server_version()
            assert f"{scheme}://localhost:{port}" in str(caught.value)
            assert "NEO4J_URI" in caught.value.hint
            assert "hush" not in str(caught.value)
        assert time.monotonic() - start < 45

    def test_a_wrong_password_is_reported_without_showing_it(
        self, neo4j_server: Neo4jServer
    ) -> None:
        with (
            Neo4jConnection(neo4j_server.uri, "neo4j", "wrong-secret") as connection,
            pytest.raises(StoreUnavailableError, match="password") as caught,
        ):
            connection.list_kgs()
        assert "NEO4J_PASSWORD" in caught.value.hint
        assert "wrong-secret" not in str(caught.value)
        assert caught.value.__cause__ is None

    def test_no_password_where_one_is_wanted(self, neo4j_server: Neo4jServer) -> None:
        with (
            Neo4jConnection(neo4j_server.uri) as connection,
            pytest.raises(StoreUnavailableError, match="password"),
        ):
            connection.server_version()

    def test_a_database_that_is_not_there(self, neo4j_server: Neo4jServer) -> None:
        with Neo4jConnection(
            neo4j_server.uri, neo4j_server.username, neo4j_server.password, "nowhere"
        ) as connection:
            for call in (connection.server_version, connection.list_kgs):
                with pytest.raises(StoreUnavailableError, match="no database nowhere") as caught:
                    call()
                assert "NEO4J_DATABASE" in caught.value.hint

    def test_a_port_that_speaks_something_else(self, neo4j_server: Neo4jServer) -> None:
        if not neo4j_server.browser:
            pytest.skip("the HTTP port of the given server is not known")
        uri = neo4j_server.browser.replace("http://", "bolt://")
        with (
            Neo4jConnection(uri, "neo4j", "x") as connection,
            pytest.raises(StoreUnavailableError, match="No Neo4j answers"),
        ):
            connection.server_version()

    @pytest.mark.parametrize("uri", ["http://localhost:7474", "nonsense", "bolt://[", ""])
    def test_an_address_of_the_wrong_form(self, uri: str) -> None:
        with pytest.raises(StoreUnavailableError, match="not the address"):
            Neo4jConnection(uri, "neo4j", "x").server_version()

    def test_credentials_in_the_url_serve_and_are_not_shown(
        self, neo4j_server: Neo4jServer
    ) -> None:
        from urllib.parse import quote

        who = f"{neo4j_server.username}:{quote(neo4j_server.password, safe='')}@"
        uri = neo4j_server.uri.replace("://", f"://{who}")
        with Neo4jConnection(uri) as connection:
            connection.server_version()
            assert connection.url == neo4j_server.uri
            with pytest.raises(KGNotFoundError) as caught:
                Neo4jStore(connection, "no such kg")
        assert neo4j_server.password not in str(caught.value)

    def test_a_closed_connection_opens_again(self, neo4j_server: Neo4jServer) -> None:
        connection = neo4j_server.connect()
        connection.server_version()
        connection.close()
        connection.close()
        connection.server_version()
        connection.close()


def test_a_refused_load_leaves_nothing(connection: Neo4jConnection) -> None:
    with pytest.raises(GraphError, match="relation id"):
        Neo4jWriter(connection).write(small("bad", "a", "b", relation="a\0b"), Silent())
    assert "bad" not in [info.name for info in connection.list_kgs()]
    assert Neo4jWriter(connection).drop("bad", Silent()) is False


@pytest.mark.parametrize("scheme", ["bolt+s", "bolt+ssc", "neo4j+s", "neo4j+ssc"])
def test_a_server_without_tls_is_told_from_no_server(scheme: str) -> None:
    """Any server that answers a TLS handshake with something else; here, one line."""
    import socket
    import threading

    def answer(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1_000)
                    connection.sendall(b"no TLS here\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, args=(listening,), daemon=True).start()
        place = f"127.0.0.1:{listening.getsockname()[1]}"
        with (
            Neo4jConnection(f"{scheme}://{place}", "neo4j", "x") as connection,
            pytest.raises(StoreUnavailableError, match="does not speak TLS") as caught,
        ):
            connection.server_version()
        listening.shutdown(socket.SHUT_RDWR)
    assert f"{scheme.partition('+')[0]}://{place}" in caught.value.hint

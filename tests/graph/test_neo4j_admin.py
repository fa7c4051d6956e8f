"""Import into Neo4j by its own importer: the same graph as over Bolt, visible only when whole."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kgqa.errors import GraphError, KGNotFoundError, UsageError
from kgqa.graph import neo4j_backend
from kgqa.graph.neo4j import Neo4jConnection
from kgqa.graph.neo4j_admin import Neo4jAdminWriter
from kgqa.graph.neo4j_backend import choose_method
from kgqa.graph.neo4j_home import Neo4jHome
from kgqa.graph.neo4j_store import Neo4jStore
from kgqa.graph.neo4j_write import Neo4jWriter, label_for
from kgqa.graph.open import open_store, open_writer
from kgqa.progress import Silent
from tests.graph import neo4j_server
from tests.graph.neo4j_keeper import JAVA_OPTIONS
from tests.graph.neo4j_server import running_neo4j
from tests.graph.store_conformance import check_against_reference
from tests.graph.tables import entity, random_tables, tables_of, tricky_tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from kgqa.graph.model import GraphTables
    from kgqa.graph.store import GraphWriter

pytestmark = [
    pytest.mark.neo4j,
    pytest.mark.skipif(sys.platform == "win32", reason="the server's programs are for POSIX"),
]
HERE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class OwnNeo4j:
    """A server that tests may stop, restart and switch; ``home`` is its folder."""

    home: Path
    uri: str
    password: str = field(repr=False)

    def connect(self, database: str | None = None) -> Neo4jConnection:
        return Neo4jConnection(self.uri, "neo4j", self.password, database)

    def write(self, tables: GraphTables, **options: Any) -> Silent:
        progress = Silent()
        with self.connect() as connection:
            Neo4jAdminWriter(connection, Neo4jHome(self.home), **options).write(tables, progress)
        return progress

    def databases(self) -> set[str]:
        return Neo4jHome(self.home).databases()


@pytest.fixture(scope="session")
def own_neo4j(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNeo4j]:
    home = tmp_path_factory.mktemp("own") / "a server's home"
    sizes = ("--heap", "400m", "--page-cache", "64m")
    with pytest.MonkeyPatch.context() as patch, running_neo4j(home, *sizes) as exports:
        patch.setenv("JAVA_TOOL_OPTIONS", JAVA_OPTIONS)  # for restarts and the importer too
        uri = shlex.split(exports["NEO4J_URI"])[0]
        yield OwnNeo4j(home, uri, (home / "password").read_text().strip())


@pytest.fixture
def server(own_neo4j: OwnNeo4j) -> Iterator[OwnNeo4j]:
    """The server, without a KG before and after."""
    yield own_neo4j
    with own_neo4j.connect() as connection:
        for info in connection.list_kgs():
            Neo4jWriter(connection).drop(info.name, Silent())
        ask(connection, "MATCH (n) DETACH DELETE n")


def ask(connection: Neo4jConnection, text: str) -> list[list[Any]]:
    return [list(row.values()) for row in neo4j_server.ask(connection, text)]


def everything(connection: Neo4jConnection) -> tuple[Counter[str], str]:
    """Count and hash all nodes and edges, with their labels, properties and value types.

    A load's own id differs from load to load, so each stands as the same word.
    """
    nodes = ask(
        connection,
        "MATCH (n) RETURN labels(n), properties(n), [k IN keys(n) | [k, valueType(n[k])]]",
    )
    edges = ask(
        connection,
        "MATCH (h)-[r]->(t) RETURN h.id, type(r), t.id, properties(r), "
        "[k IN keys(r) | [k, valueType(r[k])]]",
    )
    loads = {row[1]["load"] for row in nodes if "load" in row[1]}
    assert len(loads) == 1
    lines = []
    counts: Counter[str] = Counter()
    for labels, properties, types in nodes:
        counts.update(labels)
        if "load" in properties:
            properties["load"] = "the load"
        lines.append(json.dumps([sorted(labels), properties, sorted(types)], sort_keys=True))
    for head, kind, tail, properties, types in edges:
        counts["edges"] += 1
        lines.append(json.dumps([head, kind, tail, properties, sorted(types)], sort_keys=True))
    return counts, hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


HOSTILE = [
    "a`b", "x`) DETACH DELETE n //", 'it\'s "quoted"', "a,b;c|d", "\\", 'end\\"', "two\nlines",
    "\r", "crlf\r\n", "\x1f", "a\x1fb", "\x1e", "", " lead and trail ", "\ufeffbom", "\uffff",
    "\u2028", "親 -> 😀", "nul\0", "\\u0060", "$x {y}", '"', '""', ",", "\t", "NULL", "null", "-",
]  # fmt: skip


def hostile_tables() -> GraphTables:
    """All that a CSV file, an array or Cypher could get wrong, in names, aliases, ids, edges."""
    ids = [text or "(empty)" for text in HOSTILE if "\0" not in text]
    nodes = [
        entity(id_, text, text, "b" + text, types=[text, "t"], properties={"p": text})
        for id_, text in zip(ids, [text for text in HOSTILE if "\0" not in text], strict=True)
    ]
    nodes += [
        entity("nul", "nul\0in a name", "x\0y"),
        entity("one empty alias", "e", ""),
        entity("only delimiters", "d", "\x1f", types=["\x1f\x1f"]),
        entity("many empty", "m", "", "", "x", types=["", "y"]),
        entity("no name"),
        entity("long", "word " * 900_000),  # longer than the importer's own buffer
    ]
    edges = [(ids[row - 1], relation, id_) for row, id_ in enumerate(ids) for relation in ids]
    tables = tables_of(nodes, edges, [(id_, "name of " + id_) for id_ in ids], name="hostile")
    held = [
        json.dumps({"text": HOSTILE[row % len(HOSTILE)]}, ensure_ascii=bool(row % 2))
        if row % 3
        else None
        for row in range(len(edges))
    ]
    column = pa.array([json.dumps({"raw": text}) if row % 5 == 0 and text else text
                       for row, text in enumerate(held)], pa.string())  # fmt: skip
    edges_table = tables.edges.set_column(3, tables.edges.schema.field("properties"), column)
    return dataclasses.replace(tables, edges=edges_table)


INDEXES = "SHOW INDEXES YIELD name, type, labelsOrTypes, properties, state RETURN *"


def over_bolt(server: OwnNeo4j, tables: GraphTables) -> tuple[tuple[Counter[str], str], list[str]]:
    """Return all that the server holds of a KG after a load over Bolt, and its indexes."""
    with server.connect() as connection:
        Neo4jWriter(connection).write(tables, Silent())
        counts, digest = everything(connection)
        assert counts["edges"] == tables.edges.num_rows
        assert counts["Entity"] == tables.nodes.num_rows
        indexes = sorted(map(str, ask(connection, INDEXES)))
        Neo4jWriter(connection).drop(tables.info.name, Silent())
    return (counts, digest), indexes


def check_the_same(
    server: OwnNeo4j,
    tables: GraphTables,
    held: tuple[Counter[str], str],
    indexes: list[str],
) -> None:
    with server.connect() as connection:
        assert everything(connection) == held
        assert sorted(map(str, ask(connection, INDEXES))) == indexes
        with Neo4jStore(connection, tables.info.name) as store:
            check_against_reference(store, tables)
            assert store.label == label_for(tables.info.name)


def refused_beside_others(server: OwnNeo4j, tables: GraphTables) -> None:
    """Check that an import takes no other KG and no other node away unasked."""
    friends = tables_of([entity("a"), entity("b")], [("a", "r", "b")], name="friends")
    with server.connect() as connection:
        Neo4jWriter(connection).write(friends, Silent())
        ask(connection, "CREATE (:Movie {title: 'not ours'})")
        serving = connection.database
    with pytest.raises(UsageError, match=r"the KG friends and 1 nodes") as caught:
        server.write(tables)
    assert "`replace_database`" in caught.value.hint
    with server.connect() as connection:
        assert connection.database == serving
        assert [info.name for info in connection.list_kgs()] == ["friends"]
        home = choose_method("auto", connection, many_edges(), server.home)
        assert home is None, "auto never takes another KG away"


class TestBothWaysEndInTheSameGraph:
    def test_an_import_where_others_were_then_a_second_kg_over_bolt(self, server: OwnNeo4j) -> None:
        """One import and one restart for all of it: they are what takes the time."""
        tables, second = hostile_tables(), tricky_tables()
        held, indexes = over_bolt(server, tables)
        refused_beside_others(server, tables)
        server.write(tables, replace_database=True)
        with server.connect() as connection:
            assert [info.name for info in connection.list_kgs()] == ["hostile"]
        check_the_same(server, tables, held, indexes)
        with open_writer(server.uri, "tricky", password=server.password, method="bolt") as writer:
            writer.write(second, Silent())
        with server.connect() as connection:
            assert [info.name for info in connection.list_kgs()] == ["hostile", "tricky"]
            for each in (tables, second):
                with Neo4jStore(connection, each.info.name) as store:
                    check_against_reference(store, each)

    @pytest.mark.long  # each restart of a server takes a while
    @pytest.mark.parametrize(
        "tables",
        [
            pytest.param(tricky_tables(), id="tricky"),
            pytest.param(random_tables(11), id="random"),
        ],
    )
    def test_counts_and_a_hash_over_all_nodes_and_edges(
        self, server: OwnNeo4j, tables: GraphTables
    ) -> None:
        held, indexes = over_bolt(server, tables)
        server.write(tables)
        check_the_same(server, tables, held, indexes)


class TestReplacing:
    @pytest.mark.long  # each restart of a server takes a while
    def test_the_new_one_serves_the_old_one_is_gone_and_nothing_else_is_lost(
        self, server: OwnNeo4j
    ) -> None:
        older, newer = random_tables(1), random_tables(2)
        server.write(older)
        with server.connect() as connection:
            before = connection.database
        server.write(newer)
        with server.connect() as connection:
            after = connection.database
            with Neo4jStore(connection, "random") as store:
                check_against_reference(store, newer)
        assert before != after
        assert before not in server.databases()
        progress = server.write(newer)
        assert "already" in progress.notes[0]
        with server.connect() as connection:
            assert connection.database == after
        left = [path.name for path in (server.home / "import").rglob("*.csv")]
        assert left == []
        # what later commands do: no database is named, so the one that serves is meant
        with open_store(server.uri, "random", password=server.password) as store:
            assert store.info == newer.info


class TestFailures:
    @pytest.mark.long  # each restart of a server takes a while
    def test_an_import_that_fails_leaves_the_older_kg_serving(
        self, server: OwnNeo4j, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        older, newer = random_tables(1), random_tables(2)
        with server.connect() as connection:
            Neo4jWriter(connection).write(older, Silent())
            serving = connection.database
        with monkeypatch.context() as broken:
            broken.setattr(
                "kgqa.graph.neo4j_admin.import_options", lambda *_: ["--nodes=/no/such/file.csv"]
            )
            with pytest.raises(GraphError, match="The import failed") as caught:
                server.write(newer)
        assert "import.log" in caught.value.hint
        assert server.password not in str(caught.value)
        with server.connect() as connection:
            assert connection.database == serving
            with Neo4jStore(connection, "random") as store:
                check_against_reference(store, older)

    @pytest.mark.long  # each restart of a server takes a while
    def test_counts_that_differ_switch_the_old_database_back(
        self, server: OwnNeo4j, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        older, newer = random_tables(1), random_tables(2)
        with server.connect() as connection:
            Neo4jWriter(connection).write(older, Silent())
            serving = connection.database
        wrong = dataclasses.replace(
            newer, info=dataclasses.replace(newer.info, edges=newer.info.edges + 1)
        )
        with pytest.raises(GraphError, match="not published"):
            server.write(wrong)
        with server.connect() as connection:
            assert connection.database == serving
            with Neo4jStore(connection, "random") as store:
                check_against_reference(store, older)
        server.write(newer)
        assert len([name for name in server.databases() if name.startswith("kgqa-random")]) == 1

    def test_a_named_database_is_refused(self, server: OwnNeo4j) -> None:
        with server.connect() as connection:
            name = connection.database
        with (
            server.connect(name) as connection,
            pytest.raises(UsageError, match="NEO4J_DATABASE"),
        ):
            Neo4jAdminWriter(connection, Neo4jHome(server.home)).write(random_tables(1), Silent())


_KILLED = """
import os, signal, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from kgqa.graph import neo4j_admin, neo4j_home
from kgqa.graph.neo4j import Neo4jConnection
from kgqa.graph.neo4j_admin import Neo4jAdminWriter
from kgqa.graph.neo4j_home import Neo4jHome
from kgqa.graph.neo4j_write import Neo4jWriter
from kgqa.progress import Silent
from tests.graph.tables import random_tables

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

step, seed = sys.argv[2], int(sys.argv[3])
if step == "files":
    neo4j_admin.ImportFiles.save = die
elif step == "importing":
    def begun(command, **rest):
        rest.pop("timeout"), rest.pop("check")
        process = subprocess.Popen(command, **rest)
        try:
            process.wait(2)
        finally:
            die()
    neo4j_home.subprocess = type("S", (), {"run": begun, "DEVNULL": -3, "STDOUT": -2})
elif step == "imported":
    Neo4jAdminWriter._serve = die
elif step == "stopped":
    Neo4jHome.start = die
elif step == "switched":
    Neo4jAdminWriter._publish = die
elif step == "indexed":
    run = Neo4jWriter.run
    Neo4jWriter.run = lambda self, name, *a, **b: (
        die() if name == "load_publish" else run(self, name, *a, **b)
    )
elif step == "published":
    finish = Neo4jAdminWriter._publish
    Neo4jAdminWriter._publish = lambda self, *a: (finish(self, *a), die())
uri, password = os.environ["TEST_URI"], os.environ["TEST_PASSWORD"]
home = Neo4jHome(Path(os.environ["TEST_HOME"]))
Neo4jAdminWriter(Neo4jConnection(uri, "neo4j", password), home).write(random_tables(seed), Silent())
"""


class TestKilled:
    def killed(self, server: OwnNeo4j, step: str, seed: int) -> None:
        settings = {
            "TEST_URI": server.uri,
            "TEST_PASSWORD": server.password,
            "TEST_HOME": str(server.home),
        }
        done = subprocess.run(
            [sys.executable, "-c", _KILLED, str(HERE), step, str(seed)],
            env=os.environ | settings,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr

    @pytest.mark.long  # each restart of a server takes a while
    def test_at_every_step_nothing_half_loaded_shows_and_the_next_run_finishes(
        self, server: OwnNeo4j
    ) -> None:
        older, newer = random_tables(1), random_tables(2)
        server.write(older)
        for step in ("files", "importing", "imported"):
            self.killed(server, step, 2)
            with server.connect() as connection, Neo4jStore(connection, "random") as store:
                check_against_reference(store, older)
        self.killed(server, "stopped", 2)  # the next run starts the server
        for step in ("switched", "indexed"):
            self.killed(server, step, 2)
            with server.connect() as connection:
                assert connection.list_kgs() == []
                with pytest.raises(KGNotFoundError):
                    Neo4jStore(connection, "random")
        progress = server.write(newer)
        assert any("Going on" in note for note in progress.notes)
        with server.connect() as connection:
            with Neo4jStore(connection, "random") as store:
                check_against_reference(store, newer)
            left = ask(connection, "MATCH (n) WHERE n:KGLoading OR n:KGDropping RETURN count(n)")
            assert left == [[0]]
        assert len([name for name in server.databases() if name.startswith("kgqa-")]) == 1
        self.killed(server, "published", 3)
        with server.connect() as connection, Neo4jStore(connection, "random") as store:
            check_against_reference(store, random_tables(3))
        server.write(random_tables(3))
        assert len([name for name in server.databases() if name.startswith("kgqa-")]) == 1


def many_edges() -> GraphTables:
    """Tables that say that they are large; nothing is written of them."""
    tables = random_tables(1)
    info = dataclasses.replace(tables.info, edges=neo4j_backend.MANY_EDGES + 1)
    return dataclasses.replace(tables, info=info)


class TestChoosing:
    def test_auto_takes_the_importer_for_a_large_kg_alone_in_its_own_server(
        self, server: OwnNeo4j, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(neo4j_backend, "_CHECKOUT", tmp_path)
        with server.connect() as connection:
            assert choose_method("auto", connection, many_edges(), server.home) is not None
            assert choose_method("auto", connection, random_tables(1), server.home) is None
            assert choose_method("auto", connection, many_edges()) is None
            assert choose_method("auto", connection, many_edges(), tmp_path) is None
            assert choose_method("bolt", connection, many_edges(), server.home) is None
            with pytest.raises(UsageError, match="`neo4j_home`"):
                choose_method("admin", connection, many_edges())
            (tmp_path / ".neo4j").symlink_to(server.home)
            assert choose_method("auto", connection, many_edges()) is not None
        with Neo4jConnection("bolt://localhost:1", "neo4j", "x") as other:
            assert choose_method("bolt", other, many_edges()) is None
            with pytest.raises(UsageError, match="is not the one at"):
                choose_method("admin", other, many_edges(), server.home)
        with (
            Neo4jConnection("bolt://example.org:7687", "neo4j", "x") as other,
            pytest.raises(UsageError, match="is not the one at"),
        ):
            choose_method("admin", other, many_edges(), server.home)

    def test_a_folder_that_is_no_home_says_what_one_has(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="bin/neo4j-admin"):
            Neo4jHome(tmp_path)


class TestAServerInAContainer:
    def commands(self, server: OwnNeo4j, folder: Path, tables: GraphTables) -> list[str]:
        """Load, and return the commands that the error names."""
        with (
            pytest.raises(GraphError, match="runs in Docker") as caught,
            self.writer(server, folder, tables) as writer,
        ):
            writer.write(tables, Silent())
        return caught.value.hint.split("`")[1].split(" && ")

    def writer(
        self, server: OwnNeo4j, folder: Path, tables: GraphTables
    ) -> AbstractContextManager[GraphWriter]:
        how = {"password": server.password, "method": "admin", "neo4j_home": folder}
        return open_writer(server.uri, tables.info.name, **how)

    @pytest.fixture
    def folder(self, server: OwnNeo4j, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        (tmp_path / "docker-compose.yml").touch()
        monkeypatch.setenv("KGQA_NEO4J_BOLT_PORT", server.uri.rpartition(":")[2])
        return tmp_path

    def test_its_commands_are_printed_and_not_run(self, server: OwnNeo4j, folder: Path) -> None:
        tables = tricky_tables()
        with server.connect() as connection:
            assert choose_method("auto", connection, many_edges(), folder) is None
            serving = connection.database
        commands = self.commands(server, folder, tables)
        assert commands == self.commands(server, folder, tables)
        to_folder, imported, setting, _ = commands
        assert to_folder == shlex.join(["cd", str(folder)])
        arguments, database = imported.split()[-2:]
        assert (folder / arguments.removeprefix("@/")).read_text().count("/import/kgqa-") > 4
        assert setting == f"echo KGQA_NEO4J_DEFAULT_DATABASE={database} >> .env"
        with server.connect() as connection:
            assert (connection.database, connection.list_kgs()) == (serving, [])

    @pytest.mark.long  # each restart of a server takes a while
    def test_the_load_goes_on_once_they_have_run(self, server: OwnNeo4j, folder: Path) -> None:
        """Their import and restart are run on this machine, in place of a container."""
        tables = tricky_tables()
        *_, arguments, database = self.commands(server, folder, tables)[1].split()
        here = folder / arguments.removeprefix("@/")
        here.write_text(here.read_text().replace("/import/", f"{folder}/import/"))
        local = Neo4jHome(server.home)
        local.import_full(database, [f"@{here}"], folder / "import.log", -1)
        local.switch(database)
        with self.writer(server, folder, tables) as writer:
            writer.write(tables, Silent())
        with server.connect() as connection, Neo4jStore(connection, tables.info.name) as store:
            check_against_reference(store, tables)
        assert not list(here.parent.glob("*.csv*"))

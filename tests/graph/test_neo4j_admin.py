"""Import into Neo4j by its own importer: the same graph as over Bolt, visible only when whole."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shlex
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kgqa.errors import GraphError, UsageError
from kgqa.graph.neo4j import Neo4jConnection
from kgqa.graph.neo4j_admin import ImportWriter
from kgqa.graph.neo4j_files import ImportFiles
from kgqa.graph.neo4j_store import Neo4jStore
from kgqa.graph.neo4j_write import Neo4jWriter, label_for
from kgqa.graph.open import open_writer
from kgqa.progress import Silent
from tests.graph.neo4j_keeper import JAVA_OPTIONS
from tests.graph.neo4j_server import ask as ask_server
from tests.graph.neo4j_server import running_neo4j
from tests.graph.store_conformance import check_against_reference
from tests.graph.tables import entity, random_tables, tables_of, tricky_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kgqa.graph.model import GraphTables

pytestmark = [
    pytest.mark.neo4j,
    pytest.mark.skipif(sys.platform == "win32", reason="the server's programs are for POSIX"),
]


@dataclass(frozen=True)
class OwnNeo4j:
    """A server that tests may restart and switch; ``home`` is its folder."""

    home: Path
    uri: str
    password: str = field(repr=False)

    def connect(self, database: str | None = None) -> Neo4jConnection:
        return Neo4jConnection(self.uri, "neo4j", self.password, database)

    def write(self, tables: GraphTables, **options: Any) -> Silent:
        progress = Silent()
        with self.connect() as connection:
            ImportWriter(connection, self.home, **options).write(tables, progress)
        return progress

    def commands(self, tables: GraphTables, **options: Any) -> list[str]:
        """Load, and return the commands that the error names."""
        with pytest.raises(GraphError, match="are yours to run") as caught:
            self.write(tables, **options)
        return caught.value.hint.split("`")[1].split(" && ")

    def run(self, commands: list[str]) -> None:
        line = " && ".join(commands)
        done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr

    def load(self, tables: GraphTables, **options: Any) -> None:
        """Load, run the commands, and load again."""
        self.run(self.commands(tables, **options))
        self.write(tables, **options)


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
        for kind in ("CONSTRAINT", "INDEX"):  # also of what was never published
            named = ask(
                connection, f"SHOW {kind} YIELD name, labelsOrTypes RETURN name, labelsOrTypes"
            )
            for name in [name for name, labels in named if labels and labels[0][:2] != "KG"]:
                ask(connection, f"DROP {kind} `{name}`")


def ask(connection: Neo4jConnection, text: str) -> list[list[Any]]:
    return [list(row.values()) for row in ask_server(connection, text)]


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
    with pytest.raises(UsageError, match=r"the KG friends and 1 nodes") as caught:
        server.write(tables)
    assert "`replace_database`" in caught.value.hint


def test_an_import_where_others_were_then_a_second_kg_over_bolt(server: OwnNeo4j) -> None:
    """One import and one restart for all of it: they are what takes the time."""
    tables, second = hostile_tables(), tricky_tables()
    held, indexes = over_bolt(server, tables)
    refused_beside_others(server, tables)
    server.load(tables, replace_database=True)
    with server.connect() as connection:
        assert [info.name for info in connection.list_kgs()] == ["hostile"]
    check_the_same(server, tables, held, indexes)
    assert not list((server.home / "import").rglob("*.csv"))
    assert "already" in server.write(tables).notes[0]
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
    [pytest.param(tricky_tables(), id="tricky"), pytest.param(random_tables(11), id="random")],
)
def test_counts_and_a_hash_over_all_nodes_and_edges(server: OwnNeo4j, tables: GraphTables) -> None:
    held, indexes = over_bolt(server, tables)
    server.load(tables)
    check_the_same(server, tables, held, indexes)


def test_until_the_commands_are_run_the_older_kg_serves(server: OwnNeo4j, tmp_path: Path) -> None:
    older, newer = random_tables(1), random_tables(2)
    with server.connect() as connection:
        Neo4jWriter(connection).write(older, Silent())
    commands = server.commands(newer, work=tmp_path)
    assert commands == server.commands(newer, work=tmp_path)
    to_folder, imported, *_ = commands
    assert to_folder == shlex.join(["cd", str(server.home)])
    arguments = shlex.split(imported)[-2].removeprefix("@")
    assert Path(arguments).read_text().count(f"{tmp_path}/kgqa-") > 4
    with server.connect() as connection, Neo4jStore(connection, "random") as store:
        check_against_reference(store, older)


@pytest.mark.long  # each restart of a server takes a while
@pytest.mark.parametrize("step", ["await_indexes", "load_publish"])
def test_a_stop_before_it_is_published_shows_nothing_and_the_next_run_finishes(
    server: OwnNeo4j, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    newer = random_tables(2)
    commands = server.commands(newer)
    server.run(commands)
    run = Neo4jWriter.run
    with monkeypatch.context() as broken:
        broken.setattr(ImportFiles, "remove", lambda self: None)  # as if the process was killed

        def stopped(self: Neo4jWriter, name: str, *given: Any, **parameters: Any) -> Any:
            if name == step:
                raise KeyboardInterrupt
            return run(self, name, *given, **parameters)

        broken.setattr(Neo4jWriter, "run", stopped)
        with pytest.raises(KeyboardInterrupt):
            server.write(newer)
    with server.connect() as connection:
        assert connection.list_kgs() == []
    server.write(newer)
    with server.connect() as connection:
        with Neo4jStore(connection, "random") as store:
            check_against_reference(store, newer)
        left = ask(connection, "MATCH (n) WHERE n:KGLoading OR n:KGDropping RETURN count(n)")
        assert left == [[0]]


@pytest.mark.long  # each restart of a server takes a while
def test_counts_that_differ_are_not_published(server: OwnNeo4j) -> None:
    tables = random_tables(2)
    info = dataclasses.replace(tables.info, edges=tables.info.edges + 1)
    wrong = dataclasses.replace(tables, info=info)
    server.run(server.commands(wrong))
    with pytest.raises(GraphError, match="not published"):
        server.write(wrong)
    with server.connect() as connection:
        assert connection.list_kgs() == []


def test_a_named_database_is_refused(server: OwnNeo4j) -> None:
    with server.connect() as connection:
        name = connection.database
    with (
        server.connect(name) as connection,
        pytest.raises(UsageError, match="NEO4J_DATABASE"),
    ):
        ImportWriter(connection, server.home).write(random_tables(1), Silent())


def test_a_folder_is_named_and_of_a_server(tmp_path: Path) -> None:
    url = "bolt://localhost:1"
    cases: list[tuple[dict[str, Any], str]]
    cases = [({}, "folder of that server"), ({"neo4j_home": tmp_path}, "is not the")]
    for options, said in cases:
        with (
            pytest.raises(UsageError, match=said),
            open_writer(url, "random", method="admin", **options),
        ):
            pass


def test_the_commands_for_a_container(server: OwnNeo4j, tmp_path: Path) -> None:
    (tmp_path / "docker-compose.yml").touch()
    options: dict[str, Any] = {"method": "admin", "neo4j_home": tmp_path}
    options["password"] = server.password
    with (
        pytest.raises(GraphError, match="are yours to run") as caught,
        open_writer(server.uri, "tricky", **options) as writer,
    ):
        writer.write(tricky_tables(), Silent())
    to_folder, imported, setting, _ = caught.value.hint.split("`")[1].split(" && ")
    assert to_folder == shlex.join(["cd", str(tmp_path)])
    arguments, database = imported.split()[-2:]
    assert (tmp_path / arguments.removeprefix("@/")).read_text().count("/import/kgqa-") > 4
    assert setting == f"echo KGQA_NEO4J_DEFAULT_DATABASE={database} >> .env"

"""The embedded store: the suite of all stores, and what only a file can get wrong."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.errors import GraphError, KGNotFoundError, KgqaError, StoreUnavailableError
from kgqa.graph.model import keys_array
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.progress import Silent
from tests.graph.change_conformance import ChangeConformance
from tests.graph.store_conformance import (
    StoreConformance,
    check_against_reference,
    entity,
    random_tables,
    tables_of,
    tricky_tables,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kgqa.graph.model import GraphTables


SLOW = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="class")
def make_store(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[GraphTables], SqliteStore]]:
    folder = tmp_path_factory.mktemp("sqlite")
    opened: list[SqliteStore] = []

    def make(tables: GraphTables) -> SqliteStore:
        path = folder / tables.info.name / "graph.sqlite"
        SqliteWriter(path).write(tables, Silent())
        opened.append(SqliteStore(path))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


class TestSqliteChanges(ChangeConformance):
    pass


@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 65])
def test_every_node_and_name_is_written_whatever_their_number(tmp_path: Path, count: int) -> None:
    ids = [f"e{number:02}" for number in range(count)]
    tables = tables_of([entity(id_, name=f"Name {id_}") for id_ in ids], [("e00", "r", ids[-1])])
    SqliteWriter(tmp_path / "graph.sqlite").write(tables, Silent())
    with SqliteStore(tmp_path / "graph.sqlite") as store:
        keys = keys_array(range(count))
        assert store.entities(keys).ids == ids
        _, named = store.find_names([f"Name {id_}" for id_ in ids])
        assert named.tolist() == keys.tolist()
        found = [store.suggest(id_, limit=1).tolist() for id_ in (ids[0], ids[-1])]
        assert found == [[0], [count - 1]]


class TestSqliteStore(StoreConformance):
    random_graphs = 3  # more of them below
    bounds = ("kgqa.graph.sqlite_file._KEYS", "kgqa.graph.sqlite_file._TEXTS")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kg" / "graph.sqlite"
    SqliteWriter(path).write(tricky_tables(), Silent())
    return path


@given(st.integers(0, 2**32))
@settings(SLOW, max_examples=30)
def test_any_graph_reads_back_as_it_is(tmp_path: Path, seed: int) -> None:
    tables = random_tables(seed)
    SqliteWriter(tmp_path / "any.sqlite").write(tables, Silent())
    with SqliteStore(tmp_path / "any.sqlite") as store:
        check_against_reference(store, tables, seed)


def test_a_path_with_odd_characters(tmp_path: Path) -> None:
    path = tmp_path / "a b?c#d%20é" / "graph.sqlite"
    SqliteWriter(path).write(tricky_tables(), Silent())
    with SqliteStore(path) as store:
        assert store.info.name == "tricky"


def test_writing_again_replaces_and_an_open_store_goes_on(path: Path) -> None:
    newer = tables_of([entity("a", "new"), entity("b")], [("a", "r", "b")])
    with SqliteStore(path) as old:
        SqliteWriter(path).write(newer, Silent())
        assert old.find_names(["Germany"])[1].tolist()
        check_against_reference(old, tricky_tables())
    with SqliteStore(path) as new:
        check_against_reference(new, newer)
    assert [file.name for file in path.parent.iterdir() if "partial" in file.name] == []


class _Stops(Silent):
    """A progress that stops the task as Ctrl-C would."""

    def task(self, what: str, total: int | None = None, unit: str = "") -> object:
        raise KeyboardInterrupt


def test_a_write_that_stops_leaves_the_older_kg(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        SqliteWriter(path).write(random_tables(1), _Stops())
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir() if file.suffix == ".partial") == []


def test_two_writers_at_once_are_refused(path: Path) -> None:
    with (
        FileLock(path.with_name(f".{path.name}.lock")),
        pytest.raises(GraphError, match="Another process") as caught,
    ):
        SqliteWriter(path).write(random_tables(1), Silent())
    assert not isinstance(caught.value, StoreUnavailableError)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailableError, match="file"):
        SqliteWriter(tmp_path / "file" / "kg.sqlite").write(tricky_tables(), Silent())


def test_the_file_is_sound(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_the_store_cannot_write(path: Path) -> None:
    with SqliteStore(path) as store, pytest.raises(KgqaError):
        store.query("DELETE FROM entity")
    with SqliteStore(path) as store:
        check_against_reference(store, tricky_tables())


def test_no_file_says_what_loads_one(tmp_path: Path) -> None:
    with pytest.raises(KGNotFoundError, match="kgqa ingest freebase"):
        SqliteStore(tmp_path / "none.sqlite")


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"hello" * 100])
def test_a_file_that_is_not_sqlite_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.sqlite").write_bytes(content)
    with pytest.raises(StoreUnavailableError, match=r"x\.sqlite is not an SQLite file.*ingest"):
        SqliteStore(tmp_path / "x.sqlite")


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="cannot be read"):
        SqliteStore(tmp_path)


def test_somebody_elses_database_is_no_kg(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as db:
        db.execute("CREATE TABLE entity (key)")
    with pytest.raises(StoreUnavailableError, match="holds no KG"):
        SqliteStore(tmp_path / "x.sqlite")


def test_another_layout_is_refused_by_number(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 77")
    with pytest.raises(GraphError, match=r"layout 77.*kgqa ingest"):
        SqliteStore(path)


def test_a_changed_byte_among_the_edges_is_noticed(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        key, edges = db.execute("SELECT key, edges FROM edges_out ORDER BY key").fetchone()
        changed = bytes([edges[0] ^ 1]) + edges[1:]
        db.execute("UPDATE edges_out SET edges = ? WHERE key = ?", (changed, key))
        db.commit()
    with SqliteStore(path) as store, pytest.raises(StoreUnavailableError, match="damaged"):
        store.neighbours(keys_array([key]), "out")


def test_another_thread_is_reported_to_open_its_own(path: Path) -> None:
    caught: list[BaseException] = []

    def use(store: SqliteStore) -> None:
        try:
            store.keys_of(["m.01"])
        except GraphError as error:
            caught.append(error)

    with SqliteStore(path) as store:
        thread = threading.Thread(target=use, args=(store,))
        thread.start()
        thread.join()
    assert "another thread" in str(caught[0])


def test_a_locked_file_is_unavailable_after_the_timeout(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailableError, match="locked"):
            SqliteStore(path, timeout=0.05)


def test_words_that_begin_alike_are_suggested(path: Path) -> None:
    with SqliteStore(path) as store:
        assert store.entities(store.suggest("Germann", 1)).ids == ["m.04"]

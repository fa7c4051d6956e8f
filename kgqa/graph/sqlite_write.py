"""Writing a whole KG into an SQLite file.

The file is made under another name beside the target, synced, and put in place in one step, so a
reader sees the older KG or the newer one and never a part. What it does not do: change a KG that
is already there, or write parts of one.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from kgqa.errors import GraphError, StoreUnavailableError
from kgqa.graph.model import Kind
from kgqa.graph.sqlite_layout import APPLICATION_ID, EDGE, INDEXES, TABLES, USER_VERSION
from kgqa.graph.names import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from kgqa.graph.model import GraphTables, IntArray
    from kgqa.progress import Progress, Task

_STEP = 5_000  # rows between two signs of progress


class SqliteWriter:
    """Writes a KG to ``path``, whose folder is made if need be. A ``GraphWriter``."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def url(self) -> str:
        """Where the KG will lie."""
        return f"sqlite:///{self.path.as_posix()}"

    def write(self, tables: GraphTables, progress: Progress) -> None:
        """Write the KG and replace the one that lay there.

        Raises StoreUnavailableError where the file cannot be written, GraphError where another
        process is writing it or the disk is full; the older KG then still serves.
        """
        part = self.path.with_name(f".{self.path.name}.partial")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._alone():
                _remove(part)  # left behind by a run that was stopped
                try:
                    _fill(part, tables, progress)
                    _sync(part)
                    part.replace(self.path)
                    _sync(self.path.parent)
                finally:
                    _remove(part)
        except sqlite3.Error as error:
            raise GraphError(
                f"The graph could not be written to {self.path}: {error}.",
                "See that the disk has room; what was there before is unchanged.",
            ) from None
        except OSError as error:
            raise StoreUnavailableError(
                f"The graph could not be written to {self.path}: {error.strerror or error}.",
                "Choose a folder that you may write to with --home; what was there before is "
                "unchanged.",
            ) from None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        # SQLite's own file lock: the same on every system, and gone when the process is
        lock_path = self.path.with_name(f".{self.path.name}.lock")
        with contextlib.closing(sqlite3.connect(lock_path, timeout=0, isolation_level=None)) as db:
            try:
                db.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                raise GraphError(
                    f"Another process is writing {self.path}.", "Wait until it has ended."
                ) from None
            yield


def _remove(path: Path) -> None:
    for name in (path.name, f"{path.name}-journal"):
        path.with_name(name).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no folder, and syncs a new name by itself
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _fill(path: Path, tables: GraphTables, progress: Progress) -> None:
    heads, relations, tails = (
        tables.edges[name].to_numpy() for name in ("head", "relation", "tail")
    )
    kinds = tables.nodes["kind"].to_numpy()
    rows = 2 * len(tables.nodes)
    with (
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db,
        progress.task("writing the graph", total=rows, unit="entities") as task,
    ):
        # a file that is thrown away when anything goes wrong needs no journal
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA cache_size = -65536")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {USER_VERSION}")
        db.executescript(TABLES)
        db.execute("BEGIN")
        db.execute("INSERT INTO meta VALUES (?)", (json.dumps(asdict(tables.info)),))
        db.executemany("INSERT INTO relation VALUES (?, ?, ?)", _relations(tables.relations))
        _insert(
            db,
            "INSERT INTO entity VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            _entities(tables.nodes, _degrees(heads, tails, len(kinds))),
            task,
        )
        for table, near, far in (("edges_out", heads, tails), ("edges_in", tails, heads)):
            statement = f"INSERT INTO {table} VALUES (?, ?, ?)"
            db.executemany(statement, _adjacency(near, relations, far, kinds[far]))
        db.executemany("INSERT INTO edge_properties VALUES (?, ?, ?, ?)", _properties(tables.edges))
        _insert(
            db,
            "INSERT INTO entity_text (rowid, name, aliases) VALUES (?, ?, ?)",
            _texts(tables.nodes),
            task,
        )
        db.executemany("INSERT INTO name_norm VALUES (?, ?)", sorted(_norms(tables.nodes)))
        db.execute(INDEXES)
        db.execute("INSERT INTO entity_text (entity_text) VALUES ('optimize')")
        db.execute("COMMIT")


def _insert(
    db: sqlite3.Connection, statement: str, rows: Iterable[tuple[Any, ...]], task: Task
) -> None:
    def told() -> Iterator[tuple[Any, ...]]:
        done = 0
        for row in rows:
            yield row
            done += 1
            if done == _STEP:
                task.advance(done)
                done = 0
        task.advance(done)

    db.executemany(statement, told())


def _relations(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    columns = (table[name].to_pylist() for name in ("id", "name"))
    return ((key, *row) for key, row in enumerate(zip(*columns, strict=True)))


def _rows(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield (key, columns…) of each node, a batch of Python objects at a time."""
    key = 0
    for batch in table.select(names).to_batches(max_chunksize=_STEP):
        for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
            yield (key, *row)
            key += 1


def _entities(nodes: pa.Table, degrees: IntArray) -> Iterator[tuple[Any, ...]]:
    for key, id_, name, kind, aliases, types, properties in _rows(
        nodes, "id", "name", "kind", "aliases", "types", "properties"
    ):
        shown = (json.dumps(texts or [], ensure_ascii=False) for texts in (aliases, types))
        yield (key, id_, name, kind, int(degrees[key]), *shown, properties)


def _texts(nodes: pa.Table) -> Iterator[tuple[Any, ...]]:
    for key, name, kind, aliases in _rows(nodes, "name", "kind", "aliases"):
        if kind == Kind.ENTITY and (name or aliases):
            # normalised, so that a query's words are split as these are
            yield (key, normalise(name or ""), " ".join(normalise(text) for text in aliases or ()))


def _norms(nodes: pa.Table) -> set[tuple[str, int]]:
    found = {
        (normalise(text), key)
        for key, name, kind, aliases in _rows(nodes, "name", "kind", "aliases")
        if kind == Kind.ENTITY
        for text in (name, *(aliases or ()))
        if text
    }
    return {pair for pair in found if pair[0]}


def _degrees(heads: IntArray, tails: IntArray, count: int) -> IntArray:
    both = np.bincount(heads, minlength=count) + np.bincount(tails, minlength=count)
    loops: IntArray = both - np.bincount(heads[heads == tails], minlength=count)
    return loops


def _adjacency(
    near: IntArray, relations: IntArray, far: IntArray, kinds: IntArray
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (key, CRC-32, packed edges) of each node that has edges on this side."""
    order = np.lexsort((far, relations, near))
    records = np.empty(len(order), dtype=EDGE)
    records["relation"] = relations[order]
    records["kind"] = kinds[order]
    records["target"] = far[order]
    keys, starts = np.unique(near[order], return_index=True)
    for key, start, end in zip(keys, starts, np.append(starts[1:], len(order)), strict=True):
        packed = records[start:end].tobytes()
        yield int(key), crc32(packed), packed


def _properties(edges: pa.Table) -> Iterator[tuple[Any, ...]]:
    kept = edges.filter(edges["properties"].is_valid())
    for batch in kept.to_batches(max_chunksize=_STEP):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

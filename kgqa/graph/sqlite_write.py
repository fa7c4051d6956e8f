"""Writing a whole KG into an SQLite file, made beside the target and put in place in one step."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from filelock import FileLock, Timeout

from kgqa.errors import GraphError, StoreUnavailableError
from kgqa.graph.files import sync
from kgqa.graph.model import Kind
from kgqa.graph.names import normalise
from kgqa.graph.sqlite_file import APPLICATION_ID, EDGE, INDEXES, TABLES, USER_VERSION, prepare

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphSource
    from kgqa.progress import Progress, Task

    Columns = tuple[IntArray, IntArray, IntArray]  # near end, relation, far end

NODE_COLUMNS = ("id", "name", "aliases", "kind", "types", "properties")


class SqliteWriter:
    """Writes a KG to ``path``, whose folder is made if need be. A ``GraphWriter``."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def write(self, source: GraphSource, progress: Progress) -> None:
        """Write the KG and replace the older one. Raises StoreUnavailableError, GraphError."""
        with replacing(self.path) as part:
            _fill(part, source, progress)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the file to be written, which then takes the place of ``path`` in one step.

    One process at a time. Raises StoreUnavailableError, GraphError.
    """
    part = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f".{path.name}.lock"), timeout=0):
            _remove(part)  # left behind by a run that was stopped
            try:
                yield part
                sync(part)
                part.replace(path)
                sync(path.parent)
            finally:
                _remove(part)
    except Timeout:
        raise GraphError(
            f"Another process is writing {path}.", "Wait until it has ended."
        ) from None
    except sqlite3.Error as error:
        raise GraphError(
            f"The graph could not be written to {path}: {error}.",
            "See that the disk has room; what was there before is unchanged.",
        ) from None
    except OSError as error:
        raise StoreUnavailableError(
            f"The graph could not be written to {path}: {error.strerror or error}.",
            "Choose a folder that you may write to with `home`; what was there before is "
            "unchanged.",
        ) from None


def _remove(path: Path) -> None:
    for name in (path.name, f"{path.name}-journal"):
        path.with_name(name).unlink(missing_ok=True)


def _fill(path: Path, source: GraphSource, progress: Progress) -> None:
    info = source.info
    rows = 2 * info.nodes + 2 * info.edges
    with (
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db,
        progress.task("writing the graph", total=rows, unit="rows") as task,
    ):
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        prepare(db, APPLICATION_ID, USER_VERSION, TABLES)
        db.execute("BEGIN")
        db.execute("INSERT INTO meta VALUES (?)", (json.dumps(asdict(info)),))
        relations = source.relations.select(["id", "name", "inverse"]).to_pylist()
        db.executemany(
            "INSERT INTO relation VALUES (?, ?, ?, ?)",
            ((key, *row.values()) for key, row in enumerate(relations)),
        )
        parts = [batch.column("kind").to_numpy() for batch in source.node_batches()]
        kinds = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint8)
        degrees = _write_edges(db, source, kinds, task)
        _write_entities(db, source, degrees, task)
        for batch in source.name_batches():
            pairs = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            db.executemany("INSERT INTO name_norm VALUES (?, ?)", pairs)
        db.execute(INDEXES)
        db.execute("INSERT INTO entity_text (entity_text) VALUES ('optimize')")
        db.execute("COMMIT")


def _write_edges(
    db: sqlite3.Connection, source: GraphSource, kinds: NDArray[np.uint8], task: Task
) -> IntArray:
    degrees = np.zeros(len(kinds), dtype=np.int64)

    def columns_of(batches: Iterator[pa.RecordBatch], near: str, far: str) -> Iterator[Columns]:
        for batch in batches:
            task.advance(len(batch))
            if near == "head":
                kept = batch.filter(batch.column("properties").is_valid())
                rows = zip(*(column.to_pylist() for column in kept.columns), strict=True)
                db.executemany("INSERT INTO edge_properties VALUES (?, ?, ?, ?)", rows)
            ends, others = batch.column(near).to_numpy(), batch.column(far).to_numpy()
            loops = ends == others
            # a loop is counted once, on its way out
            counted = ends if near == "head" else ends[~loops]
            np.add.at(degrees, counted, 1)
            yield ends, batch.column("relation").to_numpy(), others

    sides = (
        ("edges_out", columns_of(source.edge_batches(), "head", "tail")),
        ("edges_in", columns_of(source.incoming_batches(), "tail", "head")),
    )
    for table, columns in sides:
        db.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", _adjacency(columns, kinds))
    return degrees


def _adjacency(
    columns: Iterable[Columns], kinds: NDArray[np.uint8]
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (key, CRC-32, packed edges) of nodes; a batch may end within a node."""
    last, held = -1, b""
    for near, relations, far in columns:
        records = np.empty(len(near), dtype=EDGE)
        records["relation"] = relations
        records["kind"] = kinds[far]
        records["target"] = far
        packed = records.tobytes()
        starts = np.flatnonzero(np.diff(near, prepend=-1))
        ends = np.append(starts[1:], len(near)) * EDGE.itemsize
        for key, start, end in zip(
            near[starts].tolist(), (starts * EDGE.itemsize).tolist(), ends.tolist(), strict=True
        ):
            if key == last:
                held += packed[start:end]
                continue
            if held:
                yield last, crc32(held), held
            last, held = key, packed[start:end]
    if held:
        yield last, crc32(held), held


def _write_entities(
    db: sqlite3.Connection, source: GraphSource, degrees: IntArray, task: Task
) -> None:
    key = 0
    for batch in source.node_batches():
        lists = [batch.column(name).to_pylist() for name in NODE_COLUMNS]
        keys = range(key, key + len(batch))
        rows = map(entity_row, keys, *lists, degrees[key : key + len(batch)].tolist())
        texts = filter(None, map(text_row, keys, *lists[1:4]))
        key += len(batch)
        db.executemany("INSERT INTO entity VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        statement = "INSERT INTO entity_text (rowid, name, aliases) VALUES (?, ?, ?)"
        db.executemany(statement, texts)
        task.advance(2 * len(batch))


def entity_row(
    key: int,
    id_: str,
    name: str | None,
    aliases: Sequence[str] | None,
    kind: int,
    types: Sequence[str] | None,
    properties: str | None,
    degree: int = 0,
) -> tuple[Any, ...]:
    """Return ``NODE_COLUMNS`` of a node as the table ``entity`` holds them."""
    shown = (json.dumps(given, ensure_ascii=False) if given else "[]" for given in (aliases, types))
    return key, id_, name, kind, degree, *shown, properties


def text_row(
    key: int, name: str | None, aliases: Sequence[str] | None, kind: int
) -> tuple[int, str, str] | None:
    """Return an entity's texts as the table ``entity_text`` holds them, None if it has none."""
    if kind != Kind.ENTITY or not (name or aliases):
        return None
    # normalised, so that a query's words are split as these are
    return key, normalise(name or ""), " ".join(normalise(text) for text in aliases or ())

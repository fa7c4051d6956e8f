"""The embedded store: one KG in one SQLite file, read-only, with no server.

A store belongs to the thread that opened it; another thread opens its own. What it does not do:
write (``sqlite_write``), or find out which file a KG lies in (``open``).
"""

from __future__ import annotations

import dataclasses
import json
import struct
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from kgqa.errors import (
    EntityNotFoundError,
    GraphError,
    KGNotFoundError,
    KgqaError,
    StoreUnavailableError,
)
from kgqa.graph.model import Adjacency, Entities, EntityDetails, KGInfo, Kind, Relations, keys_array
from kgqa.graph.sqlite_layout import APPLICATION_ID, EDGE, USER_VERSION
from kgqa.graph.sqlite_reader import SqliteReader

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, Direction, IntArray

_AGAIN = "Load the KG again with `kgqa ingest`."


class SqliteStore(SqliteReader):
    """The KG in the file ``path``. A ``GraphStore``.

    ``name``: what the KG is called here, where that is not what the file says. ``timeout``:
    seconds to wait for another process's lock. Raises KGNotFoundError where there is no file,
    StoreUnavailableError where it is no KG, damaged or may not be read, GraphError where its
    layout is another one's.
    """

    def __init__(self, path: Path, *, name: str | None = None, timeout: float = 5.0) -> None:
        super().__init__(path, "entity", f"The store {path.absolute()}")
        self._relations: Relations | None = None
        _check_file(self.path)
        with self._opening(timeout) as layout:
            self._info = self._read_info(*layout)
        if name is not None:
            self._info = dataclasses.replace(self._info, name=name)

    @property
    def info(self) -> KGInfo:
        """The KG's meta record."""
        return self._info

    @property
    def url(self) -> str:
        """Where the KG lies."""
        return f"sqlite:///{self.path.as_posix()}"

    def entities(self, keys: IntArray) -> Entities:
        """Return ids, names and kinds of ``keys``. Raises EntityNotFoundError."""
        keys = keys_array(keys)
        try:
            rows = self._nodes("t.id, t.name, t.kind", keys)
        except KeyError as unknown:
            raise self._no_key(unknown.args[0]) from None
        return Entities(
            keys=keys,
            ids=[row[1] for row in rows],
            names=[row[2] for row in rows],
            kinds=np.fromiter((row[3] for row in rows), dtype=np.uint8, count=len(rows)),
        )

    def details(self, key: int) -> EntityDetails:
        """Return all that is known of one entity. Raises EntityNotFoundError."""
        rows = self._all(
            "SELECT id, name, kind, aliases, types, properties FROM entity WHERE key = ?",
            [int(key)],
        )
        if not rows:
            raise self._no_key(int(key))
        id_, name, kind, aliases, types, properties = rows[0]
        try:
            return EntityDetails(
                id=id_,
                name=name,
                kind=Kind(kind),
                aliases=json.loads(aliases),
                types=json.loads(types),
                properties=json.loads(properties) if properties else {},
            )
        except ValueError:
            raise self._damaged(f"entity {id_} does not read") from None

    def relations(self) -> Relations:
        """Return all relations; read once and kept."""
        if self._relations is None:
            rows = self._all("SELECT id, name, inverse FROM relation ORDER BY key")
            self._relations = Relations(
                ids=[row[0] for row in rows],
                names=[row[1] for row in rows],
                inverses=[row[2] for row in rows],
            )
        return self._relations

    def neighbours(self, keys: IntArray, direction: Direction) -> Adjacency:
        """Return the edges of ``keys``, sorted by (row, step, target); unknown keys have none."""
        keys = keys_array(keys)
        sides = [
            self._side(keys, side, table)
            for side, table in enumerate(("edges_out", "edges_in"))
            if direction in ("both", ("out", "in")[side])
        ]
        if len(sides) == 1:
            return sides[0]
        row, step, target, kind = (
            np.concatenate([getattr(side, name) for side in sides])
            for name in ("row", "step", "target", "kind")
        )
        order = np.lexsort((target, step, row))
        return Adjacency(row[order], step[order], target[order], kind[order])

    def has_edges(self, heads: IntArray, relations: IntArray, tails: IntArray) -> BoolArray:
        """Return for each (head, relation, tail), in stored direction, whether it is in the KG."""
        heads, relations, tails = (keys_array(column) for column in (heads, relations, tails))
        unique, rows = np.unique(heads, return_inverse=True)
        there = self.neighbours(unique, "out")
        wanted = np.isin(there.target, tails) & np.isin(there.step, relations * 2)
        have = set(
            zip(
                there.row[wanted].tolist(),
                there.step[wanted].tolist(),
                there.target[wanted].tolist(),
                strict=True,
            )
        )
        asked = zip(rows.tolist(), (relations * 2).tolist(), tails.tolist(), strict=True)
        return np.fromiter((edge in have for edge in asked), dtype=np.bool_, count=len(heads))

    def _side(self, keys: IntArray, side: int, table: str) -> Adjacency:
        blobs: list[bytes] = []
        rows: list[int] = []
        for row, crc, packed in self._by_keys("t.crc, t.edges", table, keys):
            if crc32(packed) != crc or len(packed) % EDGE.itemsize:
                raise self._damaged(f"the edges of entity number {keys[row]} changed")
            rows.append(row)
            blobs.append(packed)
        edges: NDArray[np.void] = np.frombuffer(b"".join(blobs), dtype=EDGE)
        counts = [len(packed) // EDGE.itemsize for packed in blobs]
        return Adjacency(
            row=np.repeat(keys_array(rows), counts),
            step=edges["relation"].astype(np.int64) * 2 + side,
            target=edges["target"].astype(np.int64),
            kind=edges["kind"].copy(),
        )

    def _read_info(self, application: int, version: int) -> KGInfo:
        if application != APPLICATION_ID:
            raise StoreUnavailableError(f"{self.path} is an SQLite file, but holds no KG.", _AGAIN)
        if version != USER_VERSION:
            raise GraphError(
                f"{self.path} has layout {version}; this version of kgqa reads {USER_VERSION}.",
                _AGAIN,
            )
        rows = self._all("SELECT info FROM meta")
        try:
            ((text,),) = rows
            return KGInfo(**json.loads(text))
        except (ValueError, TypeError):
            raise self._damaged("its meta record does not read") from None

    def _fault(self, error: sqlite3.Error) -> KgqaError:
        text = str(error)
        if "locked" in text or "busy" in text:
            return StoreUnavailableError(
                f"{self.path} is locked by another program.", "Close that program and try again."
            )
        if "unable to open" in text:
            return StoreUnavailableError(
                f"{self.path} cannot be opened.", "See that you may read the file and its folder."
            )
        return super()._fault(error)

    def _damaged(self, what: str) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self.path} is damaged: {what}.", _AGAIN)

    def _no_key(self, key: int) -> EntityNotFoundError:
        return EntityNotFoundError(
            f"The KG {self._info.name} has no entity number {key}.",
            "Numbers belong to one version of a KG; look the entity up by its id.",
        )


def _check_file(path: Path) -> None:
    """Raise where ``path`` is not there, not SQLite or shorter than its header says."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
            size = file.seek(0, 2)
    except FileNotFoundError:
        raise KGNotFoundError(
            f"There is no KG at {path}.", "Load one with `kgqa ingest freebase`."
        ) from None
    except OSError as error:
        raise StoreUnavailableError(
            f"{path} cannot be read: {error.strerror or error}.",
            "See that it is a file that you may read.",
        ) from None
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise StoreUnavailableError(f"{path} is not an SQLite file.", _AGAIN)
    (page_size,) = struct.unpack_from(">H", header, 16)
    (pages,) = struct.unpack_from(">I", header, 28)
    expected = pages * (65536 if page_size == 1 else page_size)
    if size < expected:
        raise StoreUnavailableError(
            f"{path} is damaged: it has {size:,} of {expected:,} bytes.", _AGAIN
        )

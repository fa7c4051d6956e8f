"""The embedded store: one KG in one SQLite file, read-only, with no server.

A store belongs to the thread that opened it; another thread opens its own. What it does not do:
write (``sqlite_write``), or find out which file a KG lies in (``open``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sqlite3
import struct
from typing import TYPE_CHECKING, Any
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
from kgqa.graph.names import normalise
from kgqa.graph.sqlite_layout import APPLICATION_ID, EDGE, USER_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, Direction, IntArray

_KEYS = 20_000  # keys in one query, as a JSON array
_TEXTS = 500  # texts in one query, as parameters: fewer than any SQLite's bound
_AGAIN = "Load the KG again with `kgqa ingest`."


class SqliteStore:
    """The KG in the file ``path``. A ``GraphStore``.

    ``name``: what the KG is called here, where that is not what the file says. ``timeout``:
    seconds to wait for another process's lock. Raises KGNotFoundError where there is no file,
    StoreUnavailableError where it is no KG, damaged or may not be read, GraphError where its
    layout is another one's.
    """

    def __init__(self, path: Path, *, name: str | None = None, timeout: float = 5.0) -> None:
        self.path = path.absolute()
        self._relations: Relations | None = None
        self._db: sqlite3.Connection | None = None
        _check_file(self.path)
        try:
            self._db = sqlite3.connect(
                f"{self.path.as_uri()}?mode=ro", uri=True, timeout=timeout, isolation_level=None
            )
            self._info = self._read_info()
        except sqlite3.Error as error:
            self.close()
            raise self._fault(error) from None
        except KgqaError:
            self.close()
            raise
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

    def keys_of(self, ids: Sequence[str]) -> IntArray:
        """Return the key of each id, -1 where there is none. Shape: ``[len(ids)]``."""
        found: dict[str, int] = {}
        for some in _chunks(list(dict.fromkeys(filter(_storable, ids))), _TEXTS):
            marks = ",".join("?" * len(some))
            found.update(self._all(f"SELECT id, key FROM entity WHERE id IN ({marks})", some))
        return keys_array([found.get(id_, -1) for id_ in ids])

    def entities(self, keys: IntArray) -> Entities:
        """Return ids, names and kinds of ``keys``. Raises EntityNotFoundError."""
        keys = keys_array(keys)
        rows: list[tuple[str, str | None, int]] = []
        for some in _chunks(keys.tolist(), _KEYS):
            # CROSS JOIN keeps the order of the keys asked for
            part = self._all(
                "SELECT e.id, e.name, e.kind FROM json_each(?) f "
                "CROSS JOIN entity e ON e.key = f.value",
                [json.dumps(some)],
            )
            if len(part) < len(some):
                have = self._all(
                    "SELECT e.key FROM json_each(?) f CROSS JOIN entity e ON e.key = f.value",
                    [json.dumps(some)],
                )
                missing = sorted(set(some) - {key for (key,) in have})
                raise self._no_key(missing[0] if missing else some[0])
            rows.extend(part)
        return Entities(
            keys=keys,
            ids=[row[0] for row in rows],
            names=[row[1] for row in rows],
            kinds=np.fromiter((row[2] for row in rows), dtype=np.uint8, count=len(rows)),
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

    def degrees(self, keys: IntArray) -> IntArray:
        """Return the number of edges that touch each key; an unknown key has none."""
        keys = keys_array(keys)
        degrees = np.zeros(len(keys), dtype=np.int64)
        for start in range(0, len(keys), _KEYS):
            for row, degree in self._all(
                "SELECT f.key, e.degree FROM json_each(?) f CROSS JOIN entity e ON e.key = f.value",
                [json.dumps(keys[start : start + _KEYS].tolist())],
            ):
                degrees[start + row] = degree
        return degrees

    def find_names(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return (position in ``names``, entity key) of every exact match, sorted."""
        positions: dict[str, list[int]] = {}
        for position, name in enumerate(names):
            norm = normalise(name)
            if norm:
                positions.setdefault(norm, []).append(position)
        pairs: list[tuple[int, int]] = []
        for some in _chunks(list(positions), _TEXTS):
            marks = ",".join("?" * len(some))
            for norm, key in self._all(
                f"SELECT norm, key FROM name_norm WHERE norm IN ({marks})", some
            ):
                pairs.extend((position, key) for position in positions[norm])
        pairs.sort()
        return keys_array([pair[0] for pair in pairs]), keys_array([pair[1] for pair in pairs])

    def suggest(self, text: str, limit: int = 5) -> IntArray:
        """Return keys of entities whose name or alias is like ``text``, best first.

        First those that share words with it, then those whose words begin alike.
        """
        # only letters and digits are left, and quotes round them: never FTS syntax
        words = normalise(text).split()
        starts = [word[: max(2, len(word) * 2 // 3)] for word in words]
        found: dict[int, None] = {}
        for terms in ([f'"{word}"' for word in words], [f'"{start}"*' for start in starts]):
            if terms and len(found) < limit:
                rows = self._all(
                    "SELECT t.rowid FROM entity_text t JOIN entity e ON e.key = t.rowid "
                    "WHERE entity_text MATCH ? ORDER BY round(bm25(entity_text, 2.0, 1.0), 3), "
                    "e.degree DESC, e.key LIMIT ?",
                    [" OR ".join(terms), limit],
                )
                found.update(dict.fromkeys(key for (key,) in rows))
        return keys_array(list(found)[: max(limit, 0)])

    def topic_keys(self, after: int = -1, limit: int = 10_000) -> IntArray:
        """Return up to ``limit`` keys above ``after`` of named entities that have an edge."""
        rows = self._all(
            "SELECT key FROM entity WHERE key > ? AND kind = ? AND name IS NOT NULL "
            "AND degree > 0 ORDER BY key LIMIT ?",
            [int(after), int(Kind.ENTITY), max(int(limit), 0)],
        )
        return keys_array([key for (key,) in rows])

    def close(self) -> None:
        """Close the file. Calling it again does nothing."""
        if self._db is not None:
            self._db.close()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _side(self, keys: IntArray, side: int, table: str) -> Adjacency:
        blobs: list[bytes] = []
        rows: list[int] = []
        for start in range(0, len(keys), _KEYS):
            for row, crc, packed in self._all(
                f"SELECT f.key, t.crc, t.edges FROM json_each(?) f "
                f"CROSS JOIN {table} t ON t.key = f.value",
                [json.dumps(keys[start : start + _KEYS].tolist())],
            ):
                if crc32(packed) != crc or len(packed) % EDGE.itemsize:
                    raise self._damaged(f"the edges of entity number {keys[start + row]} changed")
                rows.append(start + row)
                blobs.append(packed)
        edges: NDArray[np.void] = np.frombuffer(b"".join(blobs), dtype=EDGE)
        counts = [len(packed) // EDGE.itemsize for packed in blobs]
        return Adjacency(
            row=np.repeat(keys_array(rows), counts),
            step=edges["relation"].astype(np.int64) * 2 + side,
            target=edges["target"].astype(np.int64),
            kind=edges["kind"].copy(),
        )

    def _read_info(self) -> KGInfo:
        ((application,),) = self._all("PRAGMA application_id")
        ((version,),) = self._all("PRAGMA user_version")
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

    def _all(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        if self._db is None:
            raise GraphError(f"The store {self.path} is closed.")
        try:
            return self._db.execute(statement, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._fault(error) from None
        except UnicodeDecodeError:
            raise self._damaged("a text in it is not UTF-8") from None

    def _fault(self, error: sqlite3.Error) -> KgqaError:
        text = str(error)
        if isinstance(error, sqlite3.ProgrammingError):
            if "closed" in text:
                return GraphError(f"The store {self.path} is closed.")
            if "thread" in text:
                return GraphError(
                    f"The store {self.path} was opened in another thread.",
                    "Open one store in each thread.",
                )
        if "locked" in text or "busy" in text:
            return StoreUnavailableError(
                f"{self.path} is locked by another program.", "Close that program and try again."
            )
        if "unable to open" in text:
            return StoreUnavailableError(
                f"{self.path} cannot be opened.", "See that you may read the file and its folder."
            )
        return self._damaged(text)

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


def _chunks(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _storable(text: str) -> bool:
    """Return whether a text can be in the store at all: a lone surrogate has no UTF-8."""
    with contextlib.suppress(UnicodeEncodeError):
        text.encode()
        return True
    return False

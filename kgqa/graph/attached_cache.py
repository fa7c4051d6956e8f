"""What a survey of an attached database found, kept in one SQLite file: ids, names, degrees.

The database itself is never written to, so what kgqa needs beside it lies here: which key an id
has, the names as they are compared, the number of edges of each entity. It is read in place, a few
rows at a time. What it does not do: hold edges (they stay in the database), or talk to a server.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kgqa.errors import GraphError, KgqaError, StoreUnavailableError
from kgqa.graph.model import Kind, keys_array
from kgqa.graph.names import normalise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray

Value: TypeAlias = "str | int"  # an id in the database's own type

APPLICATION_ID = 0x6B674174  # "kgAt"
USER_VERSION = 1
TABLES = """
CREATE TABLE survey (version TEXT NOT NULL);
CREATE TABLE relation (key INTEGER PRIMARY KEY, type TEXT NOT NULL);
CREATE TABLE node (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    number INTEGER NOT NULL,
    name TEXT,
    kind INTEGER NOT NULL,
    degree INTEGER NOT NULL DEFAULT 0,
    aliases TEXT,
    ref TEXT
);
CREATE TABLE name_norm (norm TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (norm, key))
    WITHOUT ROWID;
CREATE VIRTUAL TABLE node_text USING fts5 (
    name, aliases, content='', tokenize="unicode61 remove_diacritics 2"
);
"""
_TEXTS = 500  # texts in one query, as parameters: fewer than any SQLite's bound
_KEYS = 20_000  # keys in one query, as a JSON array


@dataclass(frozen=True, slots=True)
class Nodes:
    """Columns of some nodes, in the order they were asked for."""

    ids: list[str]
    values: list[Value]  # the ids in the database's own type
    names: list[str | None]
    kinds: NDArray[np.uint8]
    refs: list[str | None]  # element ids, where nodes are looked up by them


class AttachedCache:
    """The survey in the file ``path``, of the KG called ``name`` here. Read-only.

    Belongs to the thread that opened it. Raises StoreUnavailableError where the file is not there
    or damaged, GraphError where it is of another survey than ``version``.
    """

    def __init__(self, path: Path, name: str, version: str) -> None:
        self.path = path.absolute()
        self.name = name
        self._db: sqlite3.Connection | None = None
        if not self.path.is_file():
            raise StoreUnavailableError(
                f"{self.path}, which belongs to the attached KG {name}, is not there.", self._again
            )
        try:
            self._db = sqlite3.connect(
                f"{self.path.as_uri()}?mode=ro", uri=True, isolation_level=None
            )
            ((application,),) = self._all("PRAGMA application_id")
            ((layout,),) = self._all("PRAGMA user_version")
            if (application, layout) != (APPLICATION_ID, USER_VERSION):
                raise self._damaged("it has another layout")
            if self._all("SELECT version FROM survey") != [(version,)]:
                raise self._damaged("it is of another survey")
        except sqlite3.Error as error:
            self.close()
            raise self._damaged(str(error)) from None
        except KgqaError:
            self.close()
            raise

    @property
    def _again(self) -> str:
        return f"Attach it again: `kgqa attach {self.name} …`."

    def types(self) -> list[str]:
        """Return the relationship types; the position is the relation's key."""
        return [type_ for (type_,) in self._all("SELECT type FROM relation ORDER BY key")]

    def keys_of(self, ids: Sequence[str]) -> IntArray:
        """Return the key of each id, -1 where there is none."""
        found = {id_: row[0] for id_, row in self._look_up(filter(_storable, ids)).items()}
        return keys_array([found.get(id_, -1) for id_ in ids])

    def find(self, values: Sequence[Value]) -> tuple[IntArray, NDArray[np.uint8]]:
        """Return (keys, kinds) of ids in the database's own type; the key is -1 where unknown.

        The whole number 5 and the text "5" are different ids.
        """
        wanted = dict.fromkeys(values)
        rows = self._look_up(str(value) for value in wanted)
        found: dict[Value, tuple[int, int]] = {}
        for value in wanted:
            row = rows.get(str(value))
            if row is not None and bool(row[2]) == isinstance(value, int):
                found[value] = (row[0], row[1])
        pairs = [found.get(value, (-1, 0)) for value in values]
        return (
            keys_array([key for key, _ in pairs]),
            np.fromiter((kind for _, kind in pairs), dtype=np.uint8, count=len(pairs)),
        )

    def nodes(self, keys: IntArray) -> Nodes:
        """Return what is kept of ``keys``, in their order. Raises KeyError with the unknown key."""
        rows: list[Any] = []
        for start in range(0, len(keys), _KEYS):
            some = keys[start : start + _KEYS].tolist()
            part = self._all(
                # CROSS JOIN keeps the order of the keys asked for
                "SELECT n.key, n.id, n.number, n.name, n.kind, n.ref FROM json_each(?) f "
                "CROSS JOIN node n ON n.key = f.value",
                [json.dumps(some)],
            )
            if len(part) < len(some):
                raise KeyError(min(set(some) - {row[0] for row in part}))
            rows.extend(part)
        return Nodes(
            ids=[row[1] for row in rows],
            values=[int(row[1]) if row[2] else row[1] for row in rows],
            names=[row[3] for row in rows],
            kinds=np.fromiter((row[4] for row in rows), dtype=np.uint8, count=len(rows)),
            refs=[row[5] for row in rows],
        )

    def aliases(self, key: int) -> list[str]:
        """Return the aliases of a node."""
        rows = self._all("SELECT aliases FROM node WHERE key = ?", [key])
        return list(json.loads(rows[0][0])) if rows and rows[0][0] else []

    def degrees(self, keys: IntArray) -> IntArray:
        """Return the number of edges that touch each key; an unknown key has none."""
        degrees = np.zeros(len(keys), dtype=np.int64)
        for start in range(0, len(keys), _KEYS):
            for row, degree in self._all(
                "SELECT f.key, n.degree FROM json_each(?) f CROSS JOIN node n ON n.key = f.value",
                [json.dumps(keys[start : start + _KEYS].tolist())],
            ):
                degrees[start + row] = degree
        return degrees

    def find_names(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return (position in ``names``, key) of every exact match of normalised names, sorted."""
        positions: dict[str, list[int]] = {}
        for position, name in enumerate(names):
            if norm := normalise(name):
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

    def suggest(self, text: str, limit: int) -> IntArray:
        """Return keys of entities that share words with ``text``, then those that begin alike."""
        # only letters and digits are left, and quotes round them: never FTS syntax
        words = normalise(text).split()
        starts = [word[: max(2, len(word) * 2 // 3)] for word in words]
        found: dict[int, None] = {}
        for terms in ([f'"{word}"' for word in words], [f'"{start}"*' for start in starts]):
            if terms and len(found) < limit:
                rows = self._all(
                    "SELECT t.rowid FROM node_text t JOIN node n ON n.key = t.rowid "
                    "WHERE node_text MATCH ? ORDER BY round(bm25(node_text, 2.0, 1.0), 3), "
                    "n.degree DESC, n.key LIMIT ?",
                    [" OR ".join(terms), limit],
                )
                found.update(dict.fromkeys(key for (key,) in rows))
        return keys_array(list(found)[: max(limit, 0)])

    def topic_keys(self, after: int, limit: int) -> IntArray:
        """Return up to ``limit`` keys above ``after`` of named entities that have an edge."""
        rows = self._all(
            "SELECT key FROM node WHERE key > ? AND kind = ? AND degree > 0 ORDER BY key LIMIT ?",
            [after, int(Kind.ENTITY), max(limit, 0)],
        )
        return keys_array([key for (key,) in rows])

    def close(self) -> None:
        """Close the file. Calling it again does nothing."""
        if self._db is not None:
            self._db.close()

    def _look_up(self, ids: Iterator[str]) -> dict[str, tuple[int, int, int]]:
        """Return (key, kind, number) by id."""
        found: dict[str, tuple[int, int, int]] = {}
        for some in _chunks(list(dict.fromkeys(ids)), _TEXTS):
            marks = ",".join("?" * len(some))
            for id_, *row in self._all(
                f"SELECT id, key, kind, number FROM node WHERE id IN ({marks})", some
            ):
                found[id_] = (row[0], row[1], row[2])
        return found

    def _all(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        if self._db is None:
            raise GraphError(f"The store of {self.name} is closed.")
        try:
            return self._db.execute(statement, parameters).fetchall()
        except sqlite3.ProgrammingError as error:
            if "thread" in str(error):
                raise GraphError(
                    f"The store of {self.name} was opened in another thread.",
                    "Open one store in each thread.",
                ) from None
            raise GraphError(f"The store of {self.name} is closed.") from None
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._damaged(str(error)) from None

    def _damaged(self, what: str) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"{self.path}, which belongs to the attached KG {self.name}, cannot be used: {what}.",
            self._again,
        )


def _chunks(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _storable(text: str) -> bool:
    """Return whether a text can be there at all: a lone surrogate has no UTF-8."""
    with contextlib.suppress(UnicodeEncodeError):
        text.encode()
        return True
    return False

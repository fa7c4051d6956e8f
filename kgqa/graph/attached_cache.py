"""What a survey of an attached database found, kept in one SQLite file: ids, names, degrees.

The database itself is never written to, so what kgqa needs beside it lies here: which key an id
has, the names as they are compared, the number of edges of each entity. It is read in place, a few
rows at a time. What it does not do: hold edges (they stay in the database), or talk to a server.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kgqa.errors import StoreUnavailableError
from kgqa.graph.model import keys_array
from kgqa.graph.sqlite_reader import SqliteReader, text_queries

if TYPE_CHECKING:
    from collections.abc import Sequence
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
BY_ID = "SELECT id, number, key, kind FROM node WHERE id"  # for ``text_queries``


@dataclass(frozen=True, slots=True)
class Nodes:
    """Columns of some nodes, in the order they were asked for."""

    ids: list[str]
    values: list[Value]  # the ids in the database's own type
    names: list[str | None]
    kinds: NDArray[np.uint8]
    refs: list[str | None]  # element ids, where nodes are looked up by them


class AttachedCache(SqliteReader):
    """The survey in the file ``path``, of the KG called ``name`` here.

    Raises StoreUnavailableError where the file is not there or damaged, or of another survey than
    ``version``.
    """

    def __init__(self, path: Path, name: str, version: str) -> None:
        super().__init__(path, "node", f"The store of {name}")
        self.name = name
        if not self.path.is_file():
            raise StoreUnavailableError(
                f"{self.path}, which belongs to the attached KG {name}, is not there.", self._again
            )
        with self._opening() as layout:
            if layout != (APPLICATION_ID, USER_VERSION):
                raise self._damaged("it has another layout")
            if self._all("SELECT version FROM survey") != [(version,)]:
                raise self._damaged("it is of another survey")

    @property
    def _again(self) -> str:
        return f"Attach it again: `kgqa attach {self.name} …`."

    def types(self) -> list[str]:
        """Return the relationship types; the position is the relation's key."""
        return [type_ for (type_,) in self._all("SELECT type FROM relation ORDER BY key")]

    def find(self, values: Sequence[Value]) -> tuple[IntArray, NDArray[np.uint8]]:
        """Return (keys, kinds) of ids in the database's own type; the key is -1 where unknown.

        The whole number 5 and the text "5" are different ids.
        """
        found: dict[Value, tuple[int, int]] = {}
        for query in text_queries(BY_ID, map(str, values)):
            for id_, number, *row in self._all(*query):
                found[value_of(id_, number)] = (row[0], row[1])
        pairs = [found.get(value, (-1, 0)) for value in values]
        return (
            keys_array([key for key, _ in pairs]),
            np.fromiter((kind for _, kind in pairs), dtype=np.uint8, count=len(pairs)),
        )

    def nodes(self, keys: IntArray) -> Nodes:
        """Return what is kept of ``keys``, in their order. Raises KeyError with the unknown key."""
        rows = self._nodes("t.id, t.number, t.name, t.kind, t.ref", keys)
        return Nodes(
            ids=[row[1] for row in rows],
            values=[value_of(row[1], row[2]) for row in rows],
            names=[row[3] for row in rows],
            kinds=np.fromiter((row[4] for row in rows), dtype=np.uint8, count=len(rows)),
            refs=[row[5] for row in rows],
        )

    def aliases(self, key: int) -> list[str]:
        """Return the aliases of a node."""
        rows = self._all("SELECT aliases FROM node WHERE key = ?", [key])
        return list(json.loads(rows[0][0])) if rows and rows[0][0] else []

    def _damaged(self, what: str) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"{self.path}, which belongs to the attached KG {self.name}, cannot be used: {what}.",
            self._again,
        )


def value_of(id_: str, number: int) -> Value:
    """Return an id in the database's own type. ``number``: whether it is a whole number."""
    return int(id_) if number else id_

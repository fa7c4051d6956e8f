"""The survey's cache of an attached database: ids, names, degrees in SQLite; edges stay there."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kgqa.errors import GraphError
from kgqa.graph.files import sync
from kgqa.graph.model import Kind
from kgqa.graph.names import normalise
from kgqa.graph.sqlite_file import prepare, text_queries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from kgqa.graph.model import IntArray
    from kgqa.progress import Task

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


def value_of(id_: str, number: bool) -> Value:
    """Return an id in the database's own type. ``number``: whether it is a whole number."""
    return int(id_) if number else id_


def nodes_of_values(
    ask: Callable[[str, list[str]], Iterable[Any]], values: Sequence[Value]
) -> dict[Value, tuple[int, int]]:
    """Return (key, kind) by id of those ``values`` that are ids; 5 and "5" are different ids."""
    found: dict[Value, tuple[int, int]] = {}
    for query in text_queries("SELECT id, number, key, kind FROM node WHERE id", map(str, values)):
        for id_, number, key, kind in ask(*query):
            found[value_of(id_, number)] = (key, kind)
    return found


# id, is it a whole number, name, kind, aliases, element id if it is needed
Node: TypeAlias = "tuple[str, bool, str | None, Kind, list[str], str | None]"

_SHOWN = 3  # duplicate ids that an error lists
_STEP = 5_000  # rows between two signs of progress
_NODE = "INSERT INTO node (key, id, number, name, kind, aliases, ref) VALUES (?, ?, ?, ?, ?, ?, ?)"


class CacheBuilder:
    """Writes the cache to ``path``: ``add`` nodes, ``sort``, ``add_edges`` by key, ``finish``.

    The version hashes nodes, then edges, in the order of keys. Memory holds one number for each
    node. ``with_text``: keep full text of names too. Raises sqlite3.Error, OSError.
    """

    def __init__(self, path: Path, *, with_text: bool) -> None:
        self.path = path
        self.kinds = dict.fromkeys(Kind, 0)  # how many nodes of each kind; after ``sort``
        self.edges = 0
        self._with_text = with_text
        self._staging = path.with_name(path.name + ".staging")
        self._digest = hashlib.sha256(b"kgqa attached 1\n")
        self._degrees = np.zeros(0, dtype=np.int64)
        self._types: set[str] = set()
        self._db = sqlite3.connect(path, isolation_level=None)
        try:
            prepare(self._db, APPLICATION_ID, USER_VERSION, TABLES)
            self._db.execute("ATTACH ? AS staging", [str(self._staging)])
            self._db.execute("PRAGMA staging.journal_mode = OFF")
            self._db.execute("PRAGMA staging.synchronous = OFF")
            self._db.execute("CREATE TABLE staging.found (id, number, name, kind, aliases, ref)")
            self._db.execute("CREATE TABLE staging.norm (norm TEXT, key INTEGER)")
            self._db.execute("BEGIN")
        except BaseException:
            self._db.close()
            raise

    def __enter__(self) -> CacheBuilder:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()
        self._staging.unlink(missing_ok=True)

    def add(self, nodes: Iterable[Node]) -> None:
        """Take nodes, in any order; a nameless one, unless a mediator, is named by its id."""
        self._db.executemany(
            "INSERT INTO staging.found VALUES (?, ?, ?, ?, ?, ?)",
            (
                (
                    id_,
                    int(number),
                    name or (None if kind == Kind.MEDIATOR else id_),
                    int(kind),
                    json.dumps(sorted(set(aliases)), ensure_ascii=True) if aliases else None,
                    ref,
                )
                for id_, number, name, kind, aliases, ref in nodes
            ),
        )

    def sort(self, id_property: str, task: Task) -> int:
        """Give every node its key; return their number. Raises GraphError if an id comes twice."""
        self._refuse_duplicates(id_property)
        cursor = self._db.execute("SELECT * FROM staging.found ORDER BY id")
        key = 0
        while rows := cursor.fetchmany(_STEP):
            self._db.executemany(_NODE, [(key + place, *row) for place, row in enumerate(rows)])
            self._take_names(rows, key)
            key += len(rows)
            task.advance(len(rows))
        self._db.execute("DROP TABLE staging.found")
        self._db.execute(
            "INSERT OR IGNORE INTO name_norm SELECT norm, key FROM staging.norm ORDER BY norm, key"
        )
        self._db.execute("DROP TABLE staging.norm")
        self._db.execute("CREATE UNIQUE INDEX node_id ON node (id)")
        self._degrees = np.zeros(key, dtype=np.int32)
        return key

    def _refuse_duplicates(self, id_property: str) -> None:
        repeated = "SELECT id, count(*) AS times FROM staging.found GROUP BY id HAVING count(*) > 1"
        ((count,),) = self._db.execute(f"SELECT count(*) FROM ({repeated})").fetchall()
        if count:
            first = self._db.execute(f"{repeated} ORDER BY id LIMIT {_SHOWN}").fetchall()
            shown = ", ".join(f"{id_!r} ({times} nodes)" for id_, times in first)
            more = f" and {count - len(first):,} more" if count > len(first) else ""
            raise GraphError(
                f"The property {id_property!r} names several nodes by the same id: {shown}{more}.",
                "Name a property that is unique with `id_property`.",
            )

    def _take_names(self, rows: Sequence[Any], key: int) -> None:
        norms: set[tuple[str, int]] = set()
        texts: list[tuple[int, str, str]] = []
        for place, (id_, _, name, kind, aliases, _) in enumerate(rows, key):
            others = json.loads(aliases) if aliases else []
            # JSON keeps rows apart whatever stands in a name
            self._digest.update(json.dumps([id_, name, kind, others]).encode("ascii") + b"\n")
            self.kinds[Kind(kind)] += 1
            if kind != Kind.ENTITY:
                continue
            forms = [normalise(text) for text in (name, *others)]
            norms.update((form, place) for form in forms if form)
            if self._with_text:
                # normalised, so that a query's words are split as these are
                texts.append((place, forms[0], " ".join(forms[1:])))
        self._db.executemany("INSERT INTO staging.norm VALUES (?, ?)", norms)
        self._db.executemany("INSERT INTO node_text (rowid, name, aliases) VALUES (?, ?, ?)", texts)

    def nodes(self, start: int, count: int) -> list[tuple[str, bool, str | None]]:
        """Return (id, is it a whole number, element id) of the keys from ``start`` on."""
        rows = self._db.execute(
            "SELECT id, number, ref FROM node WHERE key >= ? ORDER BY key LIMIT ?", [start, count]
        )
        return [(id_, bool(number), ref) for id_, number, ref in rows]

    def keys_of(self, values: Sequence[Value]) -> IntArray:
        """Return the keys of ids in the database's own type, -1 if there is none."""
        found = nodes_of_values(self._db.execute, values)
        return np.fromiter((found.get(value, (-1,))[0] for value in values), np.int64, len(values))

    def add_edges(self, head: int, type_: str, tails: IntArray) -> None:
        """Take all edges of one type out of one head; heads ascending, then types by code point."""
        tails = np.unique(tails)
        self._digest.update(json.dumps([head, type_, tails.tolist()]).encode("ascii") + b"\n")
        self._types.add(type_)
        self.edges += len(tails)
        self._degrees[head] += len(tails)
        self._degrees[tails[tails != head]] += 1

    def finish(self) -> tuple[str, list[str]]:
        """Close the file; return the version (hex SHA-256) and the relationship types by key."""
        types, version = sorted(self._types), self._digest.hexdigest()
        touched = np.flatnonzero(self._degrees)
        degrees = zip(self._degrees[touched].tolist(), touched.tolist(), strict=True)
        self._db.executemany("INSERT INTO relation VALUES (?, ?)", enumerate(types))
        self._db.executemany("UPDATE node SET degree = ? WHERE key = ?", degrees)
        if self._with_text:
            self._db.execute("INSERT INTO node_text (node_text) VALUES ('optimize')")
        self._db.execute("INSERT INTO survey VALUES (?)", [version])
        self._db.execute("COMMIT")
        self._db.close()
        sync(self.path)
        return version, types

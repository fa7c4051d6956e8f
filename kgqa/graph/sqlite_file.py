"""SQLite files of nodes: a KG's file, and what reading it shares with an attached KG's cache.

An entity's edges are one row: a packed, sorted array of ``EDGE`` records with its CRC-32, so a
frontier costs a row an entity and a changed byte is noticed. A file may come from anybody: it is
read only if its tables are the ones that are made here, and only values of their types.
"""

from __future__ import annotations

import contextlib
import sqlite3
from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.closing import Closing
from kgqa.errors import EntityNotFoundError, GraphError, KgqaError, StoreUnavailableError
from kgqa.graph.model import Entities, Kind, Relations, keys_array
from kgqa.graph.names import is_storable, name_form, normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import IntArray, KGInfo

_KEYS = 20_000  # keys in one query, as a JSON array
_TEXTS = 500  # texts in one query, as parameters: fewer than any SQLite's bound

FILE_NAME = "graph.sqlite"
APPLICATION_ID = 0x6B677161  # "kgqa"; stands in the file's header
USER_VERSION = 2  # of this layout; a file of another one is refused

EDGE = np.dtype([("relation", "<u4"), ("kind", "u1"), ("target", "<i8")])
"""One edge as its entity sees it: the relation's key, the other end's ``Kind`` and key."""

TABLES = """
CREATE TABLE meta (info TEXT NOT NULL);
CREATE TABLE entity (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    name TEXT,
    kind INTEGER NOT NULL,
    degree INTEGER NOT NULL,
    aliases TEXT NOT NULL,
    types TEXT NOT NULL,
    properties TEXT
);
CREATE TABLE relation (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    inverse TEXT
);
CREATE TABLE edges_out (key INTEGER PRIMARY KEY, crc INTEGER NOT NULL, edges BLOB NOT NULL);
CREATE TABLE edges_in (key INTEGER PRIMARY KEY, crc INTEGER NOT NULL, edges BLOB NOT NULL);
CREATE TABLE edge_properties (
    head INTEGER NOT NULL,
    relation INTEGER NOT NULL,
    tail INTEGER NOT NULL,
    properties TEXT NOT NULL,
    PRIMARY KEY (head, relation, tail)
) WITHOUT ROWID;
CREATE TABLE name_norm (
    norm TEXT NOT NULL,
    key INTEGER NOT NULL,
    PRIMARY KEY (norm, key)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE entity_text USING fts5 (
    name, aliases, content='', tokenize="unicode61 remove_diacritics 2"
);
"""

INDEXES = "CREATE UNIQUE INDEX entity_id ON entity (id)"


_KINDS = frozenset(map(int, Kind))
_TEXT, _MAYBE, _NUMBER = frozenset({str}), frozenset({str, type(None)}), frozenset({int})
# what a value is by the name of its column: SQLite itself keeps anything in any column
_TYPES = {
    **dict.fromkeys(("id", "norm", "info", "version", "type", "types"), _TEXT),
    **dict.fromkeys(("name", "aliases", "properties", "inverse", "ref"), _MAYBE),
    **dict.fromkeys(("key", "kind", "degree", "number", "crc"), _NUMBER),
    "edges": frozenset({bytes}),
}


class SqliteReader(Closing, ABC):
    """The node tables that a KG's file and an attached KG's survey share, read-only.

    ``table`` holds the nodes (key, id, name, kind, degree), ``<table>_text`` their full text,
    ``name_norm`` the normalised names. ``called``: how errors name the store. Closed by ``close``
    or ``with``.
    """

    def __init__(self, path: Path, table: str, called: str) -> None:
        self.path = path.absolute()
        self._table = table
        self._called = called
        self._db: sqlite3.Connection | None = None
        self.info: KGInfo
        self._relations: Relations | None = None

    @contextlib.contextmanager
    def _opening(self, timeout: float = 5.0) -> Iterator[tuple[int, int]]:
        """Open the file; yield its (application id, layout version) for the caller to check."""
        try:
            self._db = sqlite3.connect(
                f"{self.path.as_uri()}?mode=ro", uri=True, timeout=timeout, isolation_level=None
            )
            ((application,),) = self.query("PRAGMA application_id")
            ((layout,),) = self.query("PRAGMA user_version")
            yield application, layout
        except sqlite3.Error as error:
            self.close()
            raise self._fault(error) from None
        except KgqaError:
            self.close()
            raise

    def _check_tables(self, tables: str) -> None:
        """Raise StoreUnavailableError unless the file has ``tables``, and no view or trigger."""
        query_result = self.query("SELECT type, name, sql FROM sqlite_master WHERE type <> 'index'")
        if any(type_ != "table" for type_, _, _ in query_result):
            raise self._damaged("it has views or triggers")
        have = {name: " ".join(str(sql).split()) for _, name, sql in query_result}
        if odd := [name for name, sql in _created_by(tables).items() if have.get(name) != sql]:
            raise self._damaged(f"its table {odd[0]} is not as it is made")

    def keys_of(self, ids: Sequence[str]) -> IntArray:
        """Return the key of each id, -1 if there is none."""
        counts: dict[str, int] = {}
        for query in text_queries(f"SELECT id, key FROM {self._table} WHERE id", ids):
            counts.update(self.query(*query))
        return keys_array([counts.get(id_, -1) for id_ in ids])

    def entities(self, keys: IntArray) -> Entities:
        """Return ids, names and kinds of ``keys``. Raises EntityNotFoundError."""
        keys = keys_array(keys)
        rows = self._node_rows("t.id, t.name, t.kind", keys)
        return Entities(
            keys=keys,
            ids=[row[1] for row in rows],
            names=[row[2] for row in rows],
            kinds=np.fromiter((row[3] for row in rows), dtype=np.uint8, count=len(rows)),
        )

    def relations(self) -> Relations:
        """Return all relations; cached after the first read."""
        if self._relations is None:
            self._relations = self._read_relations()
        return self._relations

    def degrees(self, keys: IntArray) -> IntArray:
        """Return the number of edges that touch each key; an unknown key has none."""
        keys = keys_array(keys)
        degrees = np.zeros(len(keys), dtype=np.int64)
        for row, degree in self.by_keys("t.degree", self._table, keys):
            degrees[row] = max(degree, 0)  # whatever the file says
        return degrees

    def find_names(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return (position in ``names``, key) of every exact match of normalised names, sorted."""
        positions: dict[str, list[int]] = {}
        for position, name in enumerate(names):
            if norm := name_form(name):
                positions.setdefault(norm, []).append(position)
        pairs: list[tuple[int, int]] = []
        for query in text_queries("SELECT norm, key FROM name_norm WHERE norm", positions):
            for norm, key in self.query(*query):
                pairs.extend((position, key) for position in positions[norm])
        pairs.sort()
        return keys_array([pair[0] for pair in pairs]), keys_array([pair[1] for pair in pairs])

    def suggest(self, text: str, limit: int = 5, *, prefix: bool = False) -> IntArray:
        """Return keys of entities that share words with ``text``, then of those beginning alike.

        ``prefix``: only entities with, for each word of ``text``, a word that begins with it.
        """
        # only letters and digits are left, in quotes: never FTS syntax
        words = normalise(text).split()
        starts = [word[: max(2, len(word) * 2 // 3)] for word in words]
        keys: dict[int, None] = {}
        tries = ([f'"{word}"' for word in words], [f'"{start}"*' for start in starts])
        if prefix and words:  # an implicit AND
            tries = ([" ".join(f'"{word}"*' for word in words)], [])
        for terms in tries:
            if terms and len(keys) < limit:
                texts = f"{self._table}_text"
                rows = self.query(
                    f"SELECT n.key FROM {texts} JOIN {self._table} n ON n.key = {texts}.rowid "
                    f"WHERE {texts} MATCH ? ORDER BY round(bm25({texts}, 2.0, 1.0), 3), "
                    "n.degree DESC, n.id LIMIT ?",
                    [" OR ".join(terms), limit],
                )
                keys.update(dict.fromkeys(key for (key,) in rows))
        return keys_array(list(keys)[: max(limit, 0)])

    def topic_keys(self, after: int = -1, limit: int = 10_000) -> IntArray:
        """Return up to ``limit`` keys above ``after`` of named entities that have an edge."""
        rows = self.query(
            f"SELECT key FROM {self._table} WHERE key > ? AND kind = ? AND name IS NOT NULL "
            "AND degree > 0 ORDER BY key LIMIT ?",
            [int(after), int(Kind.ENTITY), max(int(limit), 0)],
        )
        return keys_array([key for (key,) in rows])

    def close(self) -> None:
        """Close the file. Calling it again does nothing."""
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def _node_rows(self, columns: str, keys: IntArray) -> list[Any]:
        """Return (position, columns) of the nodes of ``keys``. Raises EntityNotFoundError."""
        rows = list(self.by_keys(columns, self._table, keys))
        if len(rows) < len(keys):
            raise self._unknown_key(int(np.delete(keys, [row[0] for row in rows]).min()))
        return rows

    def by_keys(self, columns: str, table: str, keys: IntArray) -> Iterator[Any]:
        """Yield (position in ``keys``, columns) of rows of ``table`` (alias ``t``), by position."""
        for start in range(0, len(keys), _KEYS):
            yield from self.query(
                # CROSS JOIN keeps the order of the keys asked for
                f"SELECT f.key + {start}, {columns} FROM json_each(?) f "
                f"CROSS JOIN {table} t ON t.key = f.value",
                [str(keys[start : start + _KEYS].tolist())],  # as JSON writes them
            )

    def query(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a reading statement; return its rows, with SQLite errors translated."""
        if self._db is None:
            raise GraphError(f"{self._called} is closed.")
        try:
            cursor = self._db.execute(statement, parameters)
            rows = cursor.fetchall()
        except sqlite3.Error as error:
            raise self._fault(error) from None
        except UnicodeDecodeError:
            raise self._damaged("a text in it is not UTF-8") from None
        columns = zip(cursor.description or (), zip(*rows, strict=True), strict=False)  # or no row
        for (column, *_), values in columns:
            if (types := _TYPES.get(column)) and not types.issuperset(map(type, values)):
                raise self._damaged(f"a value of its column {column} is of another type")
            if column == "kind" and not _KINDS.issuperset(values):
                raise self._damaged("a kind in it is unknown")
        return rows

    def _fault(self, error: sqlite3.Error) -> KgqaError:
        """Translate a SQLite error: closed, used in another thread, or damaged."""
        if isinstance(error, sqlite3.ProgrammingError):
            if "closed" in str(error):
                return GraphError(f"{self._called} is closed.")
            if "thread" in str(error):
                return GraphError(
                    f"{self._called} was opened in another thread.",
                    "Open one store in each thread.",
                )
        return self._damaged(str(error))

    def _unknown_key(self, key: int) -> EntityNotFoundError:
        """Return the error of a key that no entity has."""
        return EntityNotFoundError(
            f"The KG {self.info.name} has no entity with key {key}.",
            "Keys belong to one version of a KG; look the entity up by its id.",
        )

    @abstractmethod
    def _read_relations(self) -> Relations:
        """Return all relations."""

    @abstractmethod
    def _damaged(self, what: str) -> StoreUnavailableError:
        """Return the error of a damaged file: what is wrong, and how to repair it."""


@cache
def _created_by(tables: str) -> dict[str, str]:
    """Return the CREATE statement of each table of a script, with FTS's own tables."""
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(tables)
        made = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name: " ".join(sql.split()) for name, sql in made if f" {name} " in tables}


def prepare(db: sqlite3.Connection, application: int, layout: int, tables: str) -> None:
    """Create the tables of a new file, without a journal: on failure it is discarded."""
    # so it needs no journal
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA cache_size = -16384")  # rows come sorted, so more is not faster
    db.execute(f"PRAGMA application_id = {application}")
    db.execute(f"PRAGMA user_version = {layout}")
    db.executescript(tables)


def text_queries(select: str, texts: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield statements, with parameters, for the rows whose last-named column is in ``texts``.

    Texts that cannot be encoded are skipped.
    """
    # Each once, and none that cannot be there.
    wanted = [text for text in dict.fromkeys(texts) if is_storable(text)]
    for start in range(0, len(wanted), _TEXTS):
        some = wanted[start : start + _TEXTS]
        yield f"{select} IN ({','.join('?' * len(some))})", some

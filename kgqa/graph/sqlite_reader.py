"""Reading an SQLite file of nodes: what the embedded store and the survey of a database share.

Both keep a row for each node under its key, normalised names, and full text of names; the tables'
names differ. What it does not do: check whose file it is, or read anything else that is in it.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kgqa.errors import GraphError, KgqaError, StoreUnavailableError
from kgqa.graph.model import Kind, keys_array
from kgqa.graph.names import is_storable, normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import IntArray

_KEYS = 20_000  # keys in one query, as a JSON array
_TEXTS = 500  # texts in one query, as parameters: fewer than any SQLite's bound


class SqliteReader(ABC):
    """The file ``path``, read-only; closed by ``close`` or ``with``.

    ``table`` holds the nodes (key, id, name, kind, degree), ``<table>_text`` the full text of their
    names, ``name_norm`` the names as they are compared. ``called``: what errors call the reader.
    Belongs to the thread that opened it.
    """

    def __init__(self, path: Path, table: str, called: str) -> None:
        self.path = path.absolute()
        self._table = table
        self._called = called
        self._db: sqlite3.Connection | None = None

    @contextlib.contextmanager
    def _opening(self, timeout: float = 5.0) -> Iterator[tuple[int, int]]:
        """Open the file and yield its (application id, layout), for the body to check.

        The file is closed again where the body raises. ``timeout``: seconds to wait for a lock.
        """
        try:
            self._db = sqlite3.connect(
                f"{self.path.as_uri()}?mode=ro", uri=True, timeout=timeout, isolation_level=None
            )
            ((application,),) = self._all("PRAGMA application_id")
            ((layout,),) = self._all("PRAGMA user_version")
            yield application, layout
        except sqlite3.Error as error:
            self.close()
            raise self._fault(error) from None
        except KgqaError:
            self.close()
            raise

    def keys_of(self, ids: Sequence[str]) -> IntArray:
        """Return the key of each id, -1 where there is none. Shape: ``[len(ids)]``."""
        found: dict[str, int] = {}
        for query in text_queries(f"SELECT id, key FROM {self._table} WHERE id", ids):
            found.update(self._all(*query))
        return keys_array([found.get(id_, -1) for id_ in ids])

    def degrees(self, keys: IntArray) -> IntArray:
        """Return the number of edges that touch each key; an unknown key has none."""
        keys = keys_array(keys)
        degrees = np.zeros(len(keys), dtype=np.int64)
        for row, degree in self._by_keys("t.degree", self._table, keys):
            degrees[row] = degree
        return degrees

    def find_names(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return (position in ``names``, key) of every exact match of normalised names, sorted."""
        positions: dict[str, list[int]] = {}
        for position, name in enumerate(names):
            if norm := normalise(name):
                positions.setdefault(norm, []).append(position)
        pairs: list[tuple[int, int]] = []
        for query in text_queries("SELECT norm, key FROM name_norm WHERE norm", positions):
            for norm, key in self._all(*query):
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
                texts = f"{self._table}_text"
                rows = self._all(
                    f"SELECT n.key FROM {texts} JOIN {self._table} n ON n.key = {texts}.rowid "
                    f"WHERE {texts} MATCH ? ORDER BY round(bm25({texts}, 2.0, 1.0), 3), "
                    "n.degree DESC, n.key LIMIT ?",
                    [" OR ".join(terms), limit],
                )
                found.update(dict.fromkeys(key for (key,) in rows))
        return keys_array(list(found)[: max(limit, 0)])

    def topic_keys(self, after: int = -1, limit: int = 10_000) -> IntArray:
        """Return up to ``limit`` keys above ``after`` of named entities that have an edge."""
        rows = self._all(
            f"SELECT key FROM {self._table} WHERE key > ? AND kind = ? AND name IS NOT NULL "
            "AND degree > 0 ORDER BY key LIMIT ?",
            [int(after), int(Kind.ENTITY), max(int(limit), 0)],
        )
        return keys_array([key for (key,) in rows])

    def close(self) -> None:
        """Close the file. Calling it again does nothing."""
        if self._db is not None:
            self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _nodes(self, columns: str, keys: IntArray) -> list[Any]:
        """Return (position, columns) of each key. Raises KeyError with the least unknown key."""
        rows = list(self._by_keys(columns, self._table, keys))
        if len(rows) < len(keys):
            raise KeyError(int(np.delete(keys, [row[0] for row in rows]).min()))
        return rows

    def _by_keys(self, columns: str, table: str, keys: IntArray) -> Iterator[Any]:
        """Yield (position in ``keys``, columns) of the rows of ``table`` (``t``), in that order."""
        for start in range(0, len(keys), _KEYS):
            yield from self._all(
                # CROSS JOIN keeps the order of the keys asked for
                f"SELECT f.key + {start}, {columns} FROM json_each(?) f "
                f"CROSS JOIN {table} t ON t.key = f.value",
                [json.dumps(keys[start : start + _KEYS].tolist())],
            )

    def _all(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        if self._db is None:
            raise GraphError(f"{self._called} is closed.")
        try:
            return self._db.execute(statement, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._fault(error) from None
        except UnicodeDecodeError:
            raise self._damaged("a text in it is not UTF-8") from None

    def _fault(self, error: sqlite3.Error) -> KgqaError:
        if isinstance(error, sqlite3.ProgrammingError):
            if "closed" in str(error):
                return GraphError(f"{self._called} is closed.")
            if "thread" in str(error):
                return GraphError(
                    f"{self._called} was opened in another thread.",
                    "Open one store in each thread.",
                )
        return self._damaged(str(error))

    @abstractmethod
    def _damaged(self, what: str) -> StoreUnavailableError:
        """Return the error that says what is wrong with the file, and what mends it."""


def text_queries(select: str, texts: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield statements, with parameters, that ask for the rows where a column is one of ``texts``.

    ``select`` ends with ``WHERE`` and the column.
    """
    # Each once, and none that cannot be there.
    wanted = [text for text in dict.fromkeys(texts) if is_storable(text)]
    for start in range(0, len(wanted), _TEXTS):
        some = wanted[start : start + _TEXTS]
        yield f"{select} IN ({','.join('?' * len(some))})", some

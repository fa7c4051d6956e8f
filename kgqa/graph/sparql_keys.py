"""Keys of what an endpoint holds: a hash of the id, and the file that leads back from it."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from typing import TYPE_CHECKING

from kgqa.closing import Closing
from kgqa.errors import GraphError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

FILE_NAME = "ids.sqlite"
_AT_ONCE = 500


def key_of(id_: str) -> int:
    """Return the key of an id: 61 bits of its hash, the same in every process."""
    digest = hashlib.blake2b(id_.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> 3


class KeyFile(Closing):
    """A file in the KG's folder that maps keys back to ids, for one thread.

    Raises StoreUnavailableError if the file cannot be used, GraphError if two ids have one key.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        with self._guarded():
            self._db = sqlite3.connect(self._path, isolation_level=None, timeout=30)
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS seen (key INTEGER PRIMARY KEY, id TEXT NOT NULL)"
            )

    def keep(self, ids: Iterable[str]) -> None:
        """Store ids under their keys. Raises GraphError if an id's key is that of another id."""
        pairs = [(key_of(id_), id_) for id_ in dict.fromkeys(ids)]
        with self._guarded():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?)", pairs)
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
        known = self.ids_of([key for key, _ in pairs])
        for key, id_ in pairs:
            if known.get(key) != id_:
                raise GraphError(
                    f"Two ids of this KG have the same key: {id_} and {known.get(key)}.",
                    "Leave one of them out by `skip`, and please report it.",
                )

    def ids_of(self, keys: Sequence[int]) -> dict[int, str]:
        """Return the stored ids by key; unknown keys are missing."""
        known: dict[int, str] = {}
        with self._guarded():
            for start in range(0, len(keys), _AT_ONCE):
                some = list(keys[start : start + _AT_ONCE])
                marks = ",".join("?" * len(some))
                query = f"SELECT key, id FROM seen WHERE key IN ({marks})"
                known |= dict(self._db.execute(query, some).fetchall())
        return known

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Translate SQLite errors into StoreUnavailableError."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreUnavailableError(
                f"{self._path} cannot be used: {error}.",
                "Delete it, and attach the endpoint again: `kgqa attach`.",
            ) from None

    def close(self) -> None:
        """Close the file. Closing twice does nothing."""
        self._db.close()

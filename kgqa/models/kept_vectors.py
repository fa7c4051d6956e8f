"""A cache of text vectors in a KG's folder, so that an encoder reads each relation path once.

A vector depends on the text and the encoder alone, so a change of the KG makes none wrong, and
texts stand only as hashes. Whether a file was made by the present encoder is seen from one text's
vector, which is computed and compared; a file of another encoder, or a damaged one, is replaced.
Nothing here fails a question: what cannot be read or written is computed.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

T = TypeVar("T")

MOST_VECTORS = 50_000  # of a KG
_PROBE = "x is the capital of y"
_SAME = 1e-3  # at most apart, on whatever machine
_AT_ONCE = 500  # texts of a statement
_WAIT_S = 2.0  # for another process that writes
_TABLE = "CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID"


class KeptVectors:
    """A SQLite file of text vectors, filled by ``encode``; for one thread."""

    def __init__(self, file: Path, encode: Callable[[Sequence[str]], Vectors]) -> None:
        self._file = file
        self._encode = encode
        self._works: bool | None = None  # None: not yet looked at
        self._bytes = 0  # of a vector

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return the vector of each text, ``[len(texts), width]``; encode and store new ones.

        If the file cannot be used, all are encoded.
        """
        if self._works is None:
            self._works = self._begin()
        known = self._read(texts) if self._works else {}
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            made = dict(zip(new, self._encode(new), strict=True))
            known |= made
            if self._works:
                self._try(lambda store: _write(store, made))
        return np.stack([known[text] for text in texts]) if texts else self._encode([])

    def _begin(self) -> bool:
        """Create the file unless one of the same encoder exists; return whether it can be used.

        A file of another encoder is deleted.
        """
        probe = self._encode([_PROBE])[0]
        self._bytes = probe.astype(np.float32).nbytes
        known = self._read([_PROBE]).get(_PROBE) if self._file.is_file() else None
        if known is None or np.abs(known - probe).max() > _SAME:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)
            return self._try(lambda store: _write(store, {_PROBE: probe})) is not None
        return True

    def _read(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Return the stored vectors of ``texts`` by text; missing and damaged ones are left out."""
        named = {_hash(text): text for text in texts}
        vectors = {}
        for key, value in (self._try(lambda store: _stored(store, list(named))) or {}).items():
            if isinstance(value, bytes) and len(value) == self._bytes:
                vector = np.frombuffer(value, np.float32)
                if abs(float(vector @ vector) - 1.0) < _SAME:
                    vectors[named[key]] = vector
        return vectors

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run ``work`` on the file; after an error give up caching and return None."""
        try:
            with closing(sqlite3.connect(self._file, timeout=_WAIT_S)) as store, store:
                store.execute("PRAGMA synchronous = OFF")  # what is lost is computed again
                store.execute(_TABLE)
                return work(store)
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            logging.getLogger("kgqa").debug("vectors are not kept in %s: %s", self._file, error)
            self._works = False
            return None


def _hash(text: str) -> bytes:
    """Return the first 16 bytes of a text's SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _stored(store: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, object]:
    """Return the stored vectors of ``keys``, by key; missing ones are left out."""
    found: dict[bytes, object] = {}
    for start in range(0, len(keys), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]
        marks = ",".join("?" * len(some))
        found.update(
            store.execute(f"SELECT text, vector FROM vectors WHERE text IN ({marks})", some)
        )
    return found


def _write(store: sqlite3.Connection, made: dict[str, Vectors]) -> int:
    """Store vectors up to MOST_VECTORS; return how many were stored."""
    (count,) = store.execute("SELECT count(*) FROM vectors").fetchone()
    rows = [(_hash(text), vector.astype(np.float32).tobytes()) for text, vector in made.items()]
    kept = rows[: max(MOST_VECTORS - count, 0)]
    store.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", kept)
    return len(kept)

"""Calls of a general LLM that have been answered before, in one SQLite file.

A call is the server's URL without credentials, the model, the messages and the parameters; all of
them decide the key, and no API key or credentials are kept. Several threads and processes may
use one file. It never forgets: for fresh answers leave the cache out, or remove the file.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgqa.errors import GeneralModelError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FILE_NAME = "general-calls.sqlite"
_VERSION = 1
_WAIT_S = 30.0  # for another process that writes
_TABLE = """
CREATE TABLE IF NOT EXISTS calls (
    key TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    text TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class Completion:
    """What the model wrote, and how many tokens that took as the server counts them."""

    text: str
    prompt_tokens: int
    completion_tokens: int


def call_key(
    url: str, model: str, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any]
) -> str:
    """Return the key of a call: hex SHA-256 of all that decides its answer."""
    content = [_VERSION, url.rstrip("/"), model, list(messages), dict(parameters)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class CallCache:
    """The answers of earlier calls. Use it in ``with``, or close it.

    Raises GeneralModelError if the file cannot be used, now or later.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(
                path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None
        try:
            self._file.execute(_TABLE)
        except sqlite3.Error as error:
            self._file.close()
            raise self._unusable(error) from None

    def get(self, key: str) -> Completion | None:
        """Return what was answered to the call, None if it was not made yet."""
        with self._lock:
            try:
                row = self._file.execute(
                    "SELECT text, prompt_tokens, completion_tokens FROM calls WHERE key = ?", (key,)
                ).fetchone()
            except sqlite3.Error as error:
                raise self._unusable(error) from None
        return None if row is None else Completion(*row)

    def put(self, key: str, model: str, answer: Completion) -> None:
        """Keep the answer to a call; it is on disk when this returns. The first one stays."""
        row = (key, model, answer.text, answer.prompt_tokens, answer.completion_tokens)
        with self._lock:
            try:
                self._file.execute(
                    "INSERT OR IGNORE INTO calls "
                    "(key, model, text, prompt_tokens, completion_tokens) VALUES (?, ?, ?, ?, ?)",
                    row,
                )
            except (sqlite3.Error, UnicodeEncodeError) as error:
                raise self._unusable(error) from None

    def __len__(self) -> int:
        with self._lock:
            return int(self._file.execute("SELECT count(*) FROM calls").fetchone()[0])

    def close(self) -> None:
        """Close the file. Calling it again does nothing."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> CallCache:
        """Return the cache itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def _unusable(self, error: Exception) -> GeneralModelError:
        return GeneralModelError(
            f"The file of the general model's earlier calls, {self.path}, cannot be used: {error}.",
            "Remove it, check that the disk has room, or set `cache_calls` to false.",
        )

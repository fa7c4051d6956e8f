"""Surveys of attached databases that are brought up to date while questions are answered."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from kgqa.errors import KgqaError
from kgqa.graph.attached_survey import survey_database
from kgqa.progress import Silent

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.attached import Attachment
    from kgqa.graph.neo4j import Neo4jConnection

_PAUSE = 10.0  # times the last one's duration that are between two surveys, and at least so long
_LEAST = 2.0
_LOG = logging.getLogger(__name__)
_WAIT = 30.0  # seconds
_running: dict[Path, threading.Thread] = {}
_lock = threading.Lock()
_next: dict[Path, float] = {}  # when the next survey of a folder may begin


def refresh_in_background(connection: Neo4jConnection, record: Attachment, folder: Path) -> None:
    """Begin a survey in a thread of its own, unless one is under way or has just been made."""
    with _lock:
        if time.monotonic() < _next.get(folder, 0.0):
            return
        _next[folder] = float("inf")
    thread = threading.Thread(
        target=_run, args=(connection, record, folder), name="kgqa survey", daemon=True
    )
    connection.acquire()
    with _lock:
        _running[folder] = thread
    thread.start()


def finish_refresh(folder: Path) -> None:
    """Wait for the survey of a folder that is under way, if one is."""
    thread = _running.get(folder)
    if thread is not None:
        thread.join(_WAIT)


def _run(connection: Neo4jConnection, record: Attachment, folder: Path) -> None:
    began = time.monotonic()
    try:
        with FileLock(folder / ".attach.lock", timeout=0):
            survey_database(connection, record, folder, Silent())
    except (KgqaError, Timeout, sqlite3.Error, OSError) as error:
        _LOG.info("The survey of %s was not brought up to date: %s", folder.name, error)
    finally:
        connection.release()
        ended = time.monotonic()
        with _lock:
            _running.pop(folder, None)
            _next[folder] = ended + max(_LEAST, _PAUSE * (ended - began))

"""Attaching a Neo4j database as it is: one survey of it, and the record that it leaves in the home.

Nothing is written to the database, neither data nor schema; what would make it quicker (an index, a
constraint) is told as a statement for the user to run. What this does not do: read the database
(``neo4j_survey``), or answer questions about the graph afterwards (``neo4j_attached``).
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from kgqa.errors import GraphError, StoreUnavailableError, UsageError
from kgqa.graph.attached_build import CacheBuilder
from kgqa.graph.attached_record import RECORD_NAME, AttachedRecord
from kgqa.graph.neo4j_survey import Survey
from kgqa.graph.sqlite_layout import FILE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.graph.attached_record import Attachment
    from kgqa.graph.neo4j import Neo4jConnection
    from kgqa.progress import Progress


@dataclass(frozen=True, slots=True)
class Attached:
    """What an attaching found. ``advice``: statements that would make indexes that are missing."""

    record: AttachedRecord
    left_out: dict[str, int]
    advice: list[str]
    seconds: float


def attach(
    connection: Neo4jConnection,
    attachment: Attachment,
    folder: Path,
    progress: Progress,
) -> Attached:
    """Survey a database and record it in ``folder``; the KG is named after the folder.

    An older record of that name serves until the new one is in place. Raises UsageError where the
    name is taken or an option cannot be meant, StoreUnavailableError where the server or the
    folder cannot be used, GraphError where the database holds no such graph or changes meanwhile.
    """
    began = time.monotonic()
    survey = Survey(connection, attachment, progress)
    if (folder / FILE_NAME).exists():
        raise UsageError(
            f"{folder.name} is a KG that was loaded into {folder}.", "Choose another name."
        )
    with _folder_alone(folder):
        if folder.name in {info.name for info in connection.list_kgs()}:
            raise UsageError(
                f"{folder.name} is a KG that was loaded into {connection.url}.",
                "It needs no attaching; choose another name for another part of the database.",
            )
        survey.check()
        path = folder / f"attached-{secrets.token_hex(4)}.sqlite"
        try:
            with CacheBuilder(path, with_text=survey.text_index is None) as builder:
                record = survey.run(builder, folder.name)
            record.write(folder)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        _tidy(folder, path.name)
    return Attached(record, dict(survey.left_out), survey.advice(), time.monotonic() - began)


@contextlib.contextmanager
def _folder_alone(folder: Path) -> Iterator[None]:
    """Hold the KG's folder for one attaching, and turn its errors into ours."""
    made = not folder.exists()
    lock = FileLock(folder / ".attach.lock", timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock:
            yield
    except Timeout:
        raise GraphError(
            f"Another process is attaching {folder.name}.", "Wait until it has ended."
        ) from None
    except (sqlite3.Error, OSError) as error:
        if isinstance(error, GraphError):  # a StoreUnavailableError is an OSError too
            raise
        raise StoreUnavailableError(
            f"The survey cannot be written to {folder}: {error}.",
            "See that the disk has room and that you may write there, or choose another --home.",
        ) from None
    finally:
        if made:  # a failed attaching leaves no empty folder behind
            with contextlib.suppress(OSError):
                if {path.name for path in folder.iterdir()} <= {".attach.lock"}:
                    (folder / ".attach.lock").unlink(missing_ok=True)
                    folder.rmdir()


def _tidy(folder: Path, kept: str) -> None:
    """Delete the files of older surveys and of ones that were stopped."""
    for pattern in ("attached-*.sqlite*", f".{RECORD_NAME}.partial"):
        for path in folder.glob(pattern):
            if path.name != kept:
                with contextlib.suppress(OSError):
                    path.unlink()

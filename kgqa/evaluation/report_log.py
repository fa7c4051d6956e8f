"""A run's folder: what it was run with (``run.json``) and a line per question (``results.jsonl``).

A run that was stopped goes on from it: questions that have a line are not asked again, a last line
that was cut is. A folder serves one run at a time, and only one with the same settings. What it
does not do: make figures.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from kgqa.errors import DataError, UsageError
from kgqa.evaluation.report_record import record_from_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import BinaryIO, Self

    from kgqa.evaluation.report_record import Record

RUN = "run.json"
RESULTS = "results.jsonl"
_LOCK = ".lock"
_OTHER = "Name another folder with --out, or take this one away."


class RunLog:
    """A run's folder, open for writing. Use it in ``with``."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self._settings = json.loads(json.dumps(dict(settings)))
        self._file: BinaryIO | None = None
        self._lock = FileLock(folder / _LOCK)
        self.done: dict[str, Record] = {}

    def __enter__(self) -> Self:
        """Open the folder and read what an earlier run left: ``done``, by id.

        Raises UsageError where it cannot be written, holds a run with other settings, or is in use;
        DataError where it holds a line that is no line of a run.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(
                f"Another run is writing to {self.folder}.", "Wait until it has ended."
            ) from None
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            self._check_settings()
            self._open()
        except OSError as error:
            self._close()
            raise self._unwritable(error) from None
        except BaseException:
            self._close()
            raise
        return self

    def write(self, record: Record) -> None:
        """Add a line; it is on disk when this returns. Raises UsageError."""
        if self._file is None:
            raise RuntimeError("the log is not open")
        self.done[record.id] = record
        line = json.dumps(record.to_json(), ensure_ascii=False) + "\n"
        try:
            self._file.write(line.encode("utf-8", "replace"))
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._lock.release()

    def _check_settings(self) -> None:
        path = self.folder / RUN
        if not path.exists():
            if (self.folder / RESULTS).exists():
                raise UsageError(
                    f"The folder {self.folder} has results, but no {RUN} that says of what run.",
                    _OTHER,
                )
            part = path.with_name(f".{RUN}.partial")
            part.write_text(json.dumps(self._settings, indent=1, ensure_ascii=False), "utf-8")
            part.replace(path)
            return
        there = read_settings(self.folder)
        for name in [*self._settings, *there]:
            old, new = there.get(name), self._settings.get(name)
            if old != new:
                raise UsageError(
                    f"The folder {self.folder} holds a run with another {name}: "
                    f"{_said(old)}, not {_said(new)}.",
                    _OTHER,
                )

    def _open(self) -> None:
        path = self.folder / RESULTS
        self._file = path.open("a+b")
        self._file.seek(0)
        whole, self.done = _read(self._file.read(), path)
        self._file.seek(whole)
        self._file.truncate()
        self._file.seek(0, os.SEEK_END)

    def _unwritable(self, error: OSError) -> UsageError:
        return UsageError(
            f"The results cannot be written to {self.folder}: {error.strerror or error}.",
            "Name another folder with --out.",
        )


def read_settings(folder: Path) -> dict[str, Any]:
    """Return what the run in ``folder`` was run with. Raises DataError."""
    path = folder / RUN
    try:
        settings = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise DataError(
            f"The folder {folder} holds no run: {path.name} cannot be read ({why}).",
            "Give a folder that `kgqa eval … --out DIR` wrote.",
        ) from None
    if not isinstance(settings, dict):
        raise DataError(f"{path} is no JSON object.", "Give a folder that `kgqa eval` wrote.")
    return settings


def read_run(folder: Path) -> dict[str, Record]:
    """Return the records in ``folder``, by id, in their order; a cut last line is left out.

    Raises DataError.
    """
    path = folder / RESULTS
    try:
        return _read(path.read_bytes(), path)[1]
    except OSError as error:
        raise DataError(
            f"The folder {folder} holds no run: {path.name} cannot be read ({error.strerror}).",
            "Give a folder that `kgqa eval … --out DIR` wrote.",
        ) from None


def _read(raw: bytes, path: Path) -> tuple[int, dict[str, Record]]:
    """Return how many bytes are whole lines, and their records."""
    whole = raw.rfind(b"\n") + 1
    done: dict[str, Record] = {}
    for number, line in enumerate(raw[:whole].split(b"\n")[:-1], 1):
        try:
            row = json.loads(line.decode("utf-8"))
            if not isinstance(row, dict):
                raise ValueError("no JSON object")
            record = record_from_json(row)
        except ValueError:
            raise DataError(
                f"{path}, line {number} is no line of a run.",
                "Take the line away, and the question is answered anew.",
            ) from None
        done[record.id] = record
    return whole, done


def _said(value: object) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)

"""A run's folder, ``run.json`` and a line per question (``results.jsonl``); it resumes."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from kgqa.errors import DataError, UsageError
from kgqa.evaluation.record import Record
from kgqa.graph.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

RUN = "run.json"
RESULTS = "results.jsonl"
_LOCK = ".lock"
_OTHER = "Name another folder with `out`, or remove this one."
_NO_RUN = "Give a folder that `kgqa eval` wrote."


@dataclass(frozen=True, slots=True)
class ResultLog:
    """The results of a run, open for writing; ``done`` has every record by its id."""

    folder: Path
    done: dict[str, Record]
    _file: BinaryIO

    def write(self, record: Record) -> None:
        """Add a line; it is on disk when this returns. Raises UsageError."""
        line = json.dumps(record.model_dump(), ensure_ascii=False) + "\n"
        try:
            self._file.write(line.encode("utf-8", "replace"))
            self._file.flush()
        except OSError as error:
            raise _unwritable(self.folder, error) from None
        self.done[record.id] = record


@contextmanager
def open_log(folder: Path, settings: Mapping[str, Any]) -> Iterator[ResultLog]:
    """Open a run's folder, with what an earlier run left. Raises UsageError, DataError."""
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(folder / _LOCK, timeout=0))
            _check_settings(folder, json.loads(json.dumps(dict(settings))))
            path = folder / RESULTS
            file = stack.enter_context(path.open("a+b"))
            file.seek(0)
            whole, done = _read(file.read(), path)
            file.truncate(whole)
            file.seek(0, os.SEEK_END)
        except Timeout:
            raise UsageError(
                f"Another run is writing to {folder}.", "Wait until it has ended."
            ) from None
        except OSError as error:
            raise _unwritable(folder, error) from None
        yield ResultLog(folder, done, file)


def read_settings(folder: Path) -> dict[str, Any]:
    """Return what the run in ``folder`` was run with. Raises DataError."""
    path = folder / RUN
    try:
        settings = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise _no_run(path, error) from None
    except ValueError:
        raise DataError(f"{path} is not JSON.", _NO_RUN) from None
    if not isinstance(settings, dict):
        raise DataError(f"{path} is not a JSON object.", _NO_RUN)
    return settings


def read_run(folder: Path) -> dict[str, Record]:
    """Return the records in ``folder`` by id, in order, whole lines only. Raises DataError."""
    path = folder / RESULTS
    try:
        return _read(path.read_bytes(), path)[1]
    except OSError as error:
        raise _no_run(path, error) from None


def _read(raw: bytes, path: Path) -> tuple[int, dict[str, Record]]:
    whole = raw.rfind(b"\n") + 1
    done: dict[str, Record] = {}
    for number, line in enumerate(raw[:whole].split(b"\n")[:-1], 1):
        try:
            record = Record.model_validate_json(line)
        except ValueError:
            raise DataError(
                f"{path}, line {number} is not a line of a run.",
                "Remove the line, and the question is answered again.",
            ) from None
        done[record.id] = record
    return whole, done


def _check_settings(folder: Path, settings: dict[str, Any]) -> None:
    path = folder / RUN
    if not path.exists():
        if (folder / RESULTS).exists():
            raise UsageError(f"The folder {folder} has results, but no {RUN} beside them.", _OTHER)
        write_whole(path, json.dumps(settings, indent=1, ensure_ascii=False).encode())
        return
    there = read_settings(folder)
    for name in [*settings, *there]:
        old, new = there.get(name), settings.get(name)
        if old != new:
            raise UsageError(
                f"The folder {folder} holds a run with another {name}: "
                f"{_shown(old)}, not {_shown(new)}.",
                _OTHER,
            )


def _shown(value: object) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


def _no_run(path: Path, error: OSError) -> DataError:
    return DataError(
        f"The folder {path.parent} holds no run: {path.name} cannot be read ({error.strerror}).",
        _NO_RUN,
    )


def _unwritable(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"The results cannot be written to {folder}: {error.strerror or error}.",
        "Name another folder with `out`.",
    )

"""Checkpoints of training runs: one run a folder, and only the run that wrote them goes on.

A checkpoint is resumed only by a run that would have made it: same model, data and settings.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from kgqa.errors import DataError, UsageError
from kgqa.graph.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

RUN_FILE = "run.json"
STEP_FILE = "trainer_state.json"  # what a checkpoint gets last; its "global_step" is the step
_NAMES = {
    "examples": "set of examples",
    "start from": "adapter to start from",
    "prompt": "prompt",
}


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Hold the folder ``out`` for one run. Raises UsageError if another one has it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with FileLock(out / ".lock", timeout=0):
            yield
    except Timeout:
        raise UsageError(
            f"Another run is training into {out}.",
            "Wait until it has ended, or name another `out`.",
        ) from None
    except FileExistsError:
        raise UsageError(
            f"{out} is not a folder.", "Name a folder for the result as `out`."
        ) from None


def checkpoint_to_resume(
    folder: Path, record: Mapping[str, Any], *, resume: bool
) -> tuple[Path | None, int | None]:
    """Return the last whole checkpoint in ``folder`` and its step, None if there is none.

    Makes the folder, with ``record`` in it; what was cut short is removed, and everything if
    ``resume`` is False. Raises DataError, which names what differs, if they are of another run.
    """
    if not resume and folder.is_dir():
        shutil.rmtree(folder)
    found = []
    for path in folder.glob("checkpoint-*") if folder.is_dir() else ():
        number = path.name.removeprefix("checkpoint-")
        if number.isdecimal() and _is_whole(path):
            found.append((int(number), path))
        else:
            shutil.rmtree(path)
    if found:
        _check_same(folder, record)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / RUN_FILE, (json.dumps(record, indent=2) + "\n").encode())
    if not found:
        return None, None
    step, path = max(found)
    return path, step


def drop_checkpoints(folder: Path) -> None:
    """Remove all of a run's checkpoints; one that is left in part is not taken for a whole one."""
    for checkpoint in folder.glob("checkpoint-*"):
        (checkpoint / STEP_FILE).unlink(missing_ok=True)
    shutil.rmtree(folder)


def _is_whole(checkpoint: Path) -> bool:
    try:
        return "global_step" in json.loads((checkpoint / STEP_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return False


def _check_same(folder: Path, record: Mapping[str, Any]) -> None:
    try:
        before = json.loads((folder / RUN_FILE).read_text("utf-8"))
        assert isinstance(before, dict)
    except (OSError, ValueError, AssertionError):
        before = {}
    other = [name for name in record if before.get(name) != record[name]]
    if not other:
        return
    said = ", ".join(
        _NAMES.get(name) or f"{name} ({before.get(name)}, not {record[name]})" for name in other
    )
    what = f"another {said}" if before else "unknown settings"
    raise DataError(
        f"The checkpoints in {folder} are of a run with {what}.",
        "Give the same options and files to go on with it, another `out`, or set `resume` to false "
        "to start again.",
    )


def digest_of(items: Any) -> str:
    """Return what data is known by in a run's record: hex SHA-256 of its JSON."""
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()

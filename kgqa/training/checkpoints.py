"""The checkpoint of a training run: only the run that wrote it goes on from it.

It is one file in the folder of the run, which appears whole or not at all, and is resumed only by a
run that would have made it: same model, data and settings.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError

from kgqa.errors import DataError, ModelError, UsageError
from kgqa.graph.files import sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from kgqa.progress import Progress
    from kgqa.training.loop import Fit
    from kgqa.training.options import FitSettings

FILE = "checkpoint.pt"
_NAMES = {
    "examples": "set of examples",
    "start from": "adapter to start from",
    "prompt": "prompt",
}
_UNREADABLE = (OSError, EOFError, LookupError, TypeError, ValueError, RuntimeError, UnpicklingError)


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


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Make what libraries raise when they cannot write a ModelError, in a ``with``."""
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:  # PyTorch's is a RuntimeError
        raise ModelError(
            f"The model cannot be written to {folder}: {str(error).partition(chr(10))[0]}.",
            "See that the disk has room; the same command then goes on from its last checkpoint.",
        ) from None


class Checkpoint:
    """The checkpoint in the folder ``out`` of a run that is known by ``record`` and its settings.

    ``step``: that of the one which the run goes on from, None if there is none. Raises DataError,
    which names what differs, if it is of another run, or damaged.
    """

    def __init__(
        self, out: Path, record: Mapping[str, Any], settings: FitSettings, progress: Progress
    ) -> None:
        self._file = out / FILE
        self._record = {**record, **settings.fixed()}
        self._every = settings.checkpoint_every
        self._found: dict[str, Any] = {}
        self.step: int | None = None
        if not settings.resume:
            self._file.unlink(missing_ok=True)
        if self._file.exists():
            with self._reading():
                self._found = torch.load(self._file, map_location="cpu", weights_only=True)
                before, self.step = self._found["record"], self._found["fit"]["reached"]["step"]
            self._check_same(before)
            progress.note(f"Going on from step {self.step}, the last checkpoint in {out}.")

    def take_up(
        self, fit: Fit[Any], take: Callable[[Mapping[str, Any]], None] = lambda _: None
    ) -> None:
        """Bring ``fit`` to where the run was stopped; ``take`` gets what was kept beside it."""
        if self._found:
            with self._reading():
                take(self._found["beside"])
                fit.restore(self._found["fit"])
            self._found = {}

    def after_step(self, fit: Fit[Any], beside: Mapping[str, Any] | None = None) -> None:
        """Write the checkpoint if it is time to. Raises ModelError if that fails."""
        if not self._every or fit.step % self._every:
            return
        # renamed when it is whole: a run that is killed while it writes goes on from the one before
        part = self._file.with_suffix(".part")
        state = {"record": self._record, "fit": fit.state(), "beside": dict(beside or {})}
        with writing_to(self._file.parent):
            torch.save(state, part)
            sync(part)
            part.replace(self._file)

    def drop(self) -> None:
        """Remove the checkpoint: the run has ended."""
        for file in (self._file, self._file.with_suffix(".part")):
            file.unlink(missing_ok=True)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except _UNREADABLE as error:
            why = str(error).partition("\n")[0][:120]
            raise DataError(
                f"The checkpoint {self._file} is damaged: {why}.",
                "Set `resume` to false to start again.",
            ) from None

    def _check_same(self, before: Mapping[str, Any]) -> None:
        other = [name for name, value in self._record.items() if before.get(name) != value]
        if other:
            said = ", ".join(
                _NAMES.get(name) or f"{name} ({before.get(name)}, not {self._record[name]})"
                for name in other
            )
            raise DataError(
                f"The checkpoint {self._file} is of a run with another {said}.",
                "Give the same options and files to go on with it, another `out`, or set `resume` "
                "to false to start again.",
            )


def digest_of(items: Any) -> str:
    """Return what data is known by in a run's record: hex SHA-256 of its JSON."""
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()

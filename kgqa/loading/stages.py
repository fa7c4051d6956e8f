"""The stages of a load and what each left, so that a stopped load goes on where it was.

A stage's record is written after all its files are, so a stage is done or it is not. A load of
other sources or options, or by another version of these stages, begins anew. What it does not do:
the work of a stage.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgqa.loaders.blocks import STDIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.loaders.base import Loader

NAMES = ("scan", "names", "edges")
_FORMAT = 1  # of the stages' files
_RECORD = "stages.json"


class Stages:
    """The stages that are done, in ``folder``; all else that lies there belongs to one of them."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self._fingerprint = fingerprint
        self._done: dict[str, dict[str, Any]] = {}
        try:
            told = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
            if told["fingerprint"] == fingerprint:
                self._done = told["done"]
        except (OSError, ValueError, KeyError, TypeError):
            pass  # there is none, or none that can be used
        if not self._done:
            self.clear()
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def last(self) -> str | None:
        """The last stage that is done."""
        return next((name for name in reversed(NAMES) if name in self._done), None)

    def record(self, name: str) -> dict[str, Any] | None:
        """Return what a stage left, None where it is not done."""
        return self._done.get(name)

    def finish(self, name: str, record: dict[str, Any]) -> None:
        """Write down that a stage is done; its files must be whole by now."""
        self._done[name] = record
        part = self.folder / f".{_RECORD}.part"
        told = {"fingerprint": self._fingerprint, "done": self._done}
        with part.open("w", encoding="utf-8") as file:
            json.dump(told, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.folder / _RECORD)

    def clear(self) -> None:
        """Remove everything."""
        if self.folder.exists():
            shutil.rmtree(self.folder)


def fingerprint(loader: Loader, sources: Sequence[Path]) -> str:
    """Return what tells one load from another: loader, options, files with sizes and times."""
    options = getattr(loader, "options", None)
    told: list[object] = [_FORMAT, loader.name, repr(options)]
    files = (getattr(options, name) for name in getattr(options, "__dataclass_fields__", ()))
    for source in (*(each for each in files if isinstance(each, Path)), *sources):
        if source == STDIN:
            told.append(os.urandom(16).hex())  # what came by it cannot be had again
        told += [_state(path) for path in _files(source)]
    return hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()


def _files(source: Path) -> Iterator[Path]:
    if source.is_dir():
        yield from sorted(path for path in source.rglob("*") if path.is_file())
    elif source.exists():
        yield source


def _state(path: Path) -> tuple[str, int, int]:
    found = path.stat()
    return str(path.absolute()), found.st_size, found.st_mtime_ns

"""The stages of a load and what each left, so that a stopped load goes on where it was.

A stage is recorded after all its files are written, so it is done or it is not. A load of other
sources or options, or by another version of these stages, starts from the beginning.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from pydantic import BaseModel, Field, ValidationError

from kgqa.loaders.base import Report
from kgqa.loaders.blocks import STDIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.loaders.base import Loader
    from kgqa.registry import Options

StageName = Literal["scan", "edges"]
NAMES: tuple[StageName, ...] = get_args(StageName)
_FORMAT = 5  # of the stages' files
_BLOCK = 1 << 20
_RECORD = "stages.json"


class StageRecord(BaseModel):
    """The file ``stages.json``. ``report``: what the stages that are ``done`` saw and left out.

    ``files``: size and CRC-32 of each file that the last of them left.
    """

    fingerprint: str
    done: list[StageName] = []
    files: dict[str, tuple[int, int]] = {}
    report: Report = Field(default_factory=Report)


class Stages:
    """The stages that are done, in ``folder``; all else that lies there belongs to one of them."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self.damaged: Path | None = None  # a file of a stage that is done
        self.record = StageRecord(fingerprint=fingerprint)
        try:
            record = StageRecord.model_validate_json((folder / _RECORD).read_bytes())
            if record.fingerprint == fingerprint:
                files = ((folder / name, state) for name, state in record.files.items())
                self.damaged = next((file for file, was in files if _checked(file) != was), None)
                if self.damaged is None:
                    self.record = record
        except (OSError, ValidationError):
            pass  # there is none, or none that can be used
        if self.last is None:
            self.clear()
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def last(self) -> StageName | None:
        """The last stage that is done."""
        return self.record.done[-1] if self.record.done else None

    def finish(self, name: StageName, *folders: Path) -> None:
        """Write down that a stage is done, with the record; its files must be whole by now.

        ``folders``: where the files lie that the next stage goes on from.
        """
        self.record.done.append(name)
        self.record.files = {
            path.relative_to(self.folder).as_posix(): _checked(path)
            for folder in folders
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        part = self.folder / f".{_RECORD}.part"
        with part.open("w", encoding="utf-8") as file:
            file.write(self.record.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.folder / _RECORD)

    def clear(self) -> None:
        """Remove everything."""
        if self.folder.exists():
            shutil.rmtree(self.folder)


def _checked(path: Path) -> tuple[int, int]:
    """Return size and CRC-32 of a file; (-1, 0) if it cannot be read."""
    crc = size = 0
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                crc, size = zlib.crc32(block, crc), size + len(block)
    except OSError:
        return -1, 0
    return size, crc


def fingerprint(loader: Loader, sources: Sequence[Path]) -> str:
    """Return what tells one load from another: loader, options, files with sizes and times.

    ``loader.identity``, if it has one, stands for what it reads with besides its options.
    """
    options: Options | None = getattr(loader, "options", None)
    parts: list[object] = [_FORMAT, loader.name, repr(options), getattr(loader, "identity", "")]
    named = [value for _, value in options or () if isinstance(value, Path)]
    for source in (*named, *sources):
        if source == STDIN:
            parts.append(os.urandom(16).hex())  # a pipe cannot be read again
        parts += [_state(path) for path in _files(source)]
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def _files(source: Path) -> Iterator[Path]:
    if source.is_dir():
        yield from sorted(path for path in source.rglob("*") if path.is_file())
    elif source.exists():
        yield source


def _state(path: Path) -> tuple[str, int, int]:
    status = path.stat()
    return str(path.absolute()), status.st_size, status.st_mtime_ns

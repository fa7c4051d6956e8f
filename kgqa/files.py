"""Files that are whole or not there, whenever the machine stops; and values as TOML in them."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import tomllib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from kgqa.errors import IngestError
from kgqa.permissions import mask_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOST = 16 << 20  # bytes of a file that people write
_MOST_LINES = 1 << 30  # bytes of a list that is held in memory
_DEEP = re.compile(r"(?<![\w\"'.-])(?:[\w\"'-]+[ \t]*\.[ \t]*){100}")  # a.b.c…, as a key of TOML


@contextmanager
def writing(folder: Path, kg: str) -> Iterator[None]:
    """Lock the KG in ``folder`` against other writing commands, as a context.

    Creates the folder, and removes it on failure if nothing was written. Raises IngestError if
    another command holds the lock.
    """
    made = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / ".ingest.lock"
    try:
        with FileLock(lock, timeout=0):
            yield
    except Timeout:
        raise IngestError(
            f"Another command is writing to {kg}: a load, an update, an index or a training.",
            "Wait until it has ended, or stop it.",
        ) from None
    except BaseException:
        if made and list(folder.iterdir()) == [lock]:  # nothing that a next load goes on from
            lock.unlink(missing_ok=True)
            with suppress(OSError):  # from the inside out, as far as they are empty
                for path in made:
                    path.rmdir()
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically, with the mode of the one it replaces, and flush it to disk.

    Raises OSError.
    """
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    sync(partial)
    if path.exists():
        shutil.copymode(path, partial)
    partial.replace(path)


def own_partial(path: Path) -> Path:
    """Return the path of this process's partial file for ``path``.

    Deletes partial files of killed processes. Raises OSError.
    """
    for left in path.parent.glob(f".{path.name}.*.partial"):
        if not _is_running(left.name.split(".")[-2]):
            left.unlink(missing_ok=True)
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


def _is_running(process: str) -> bool:
    """Return whether another process with this id runs; False for a malformed id."""
    if os.name == "nt":  # where asking would end it
        return True
    try:
        os.kill(int(process), 0)
    except PermissionError:
        return True
    except (ValueError, OSError, OverflowError):
        return False
    return int(process) != os.getpid()


def write_cache(path: Path, content: bytes) -> None:
    """Write a file that can be recomputed, atomically but without waiting for the disk.

    Several processes may write it. It has the permissions of its folder, and a new folder those of
    its parent. Raises OSError.
    """
    path.parent.mkdir(0o777 & ~mask_of(path.parent.parent), parents=True, exist_ok=True)
    partial = own_partial(path)
    try:
        partial.touch(0o666 & ~mask_of(path.parent))
        partial.write_bytes(content)
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's entries, to disk. Raises OSError."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no folder, and syncs a new name by itself
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def stamp_of(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes when the file at a path or its mode changes; None if missing."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode


def read_plain(path: Path, most: int) -> bytes:
    """Read a regular file (no link, device or pipe) of at most ``most`` bytes.

    Raises OSError if it cannot be read, ValueError if it is something else.
    """
    if path.is_symlink():
        raise ValueError("it is a link")
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, os.O_RDONLY | flags)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        if status.st_size > most:
            raise ValueError(f"it has {status.st_size:,} bytes, more than {most:,}")
        return file.read(most)


def check_plain(path: Path) -> None:
    """Raise OSError for a pipe or a device: it may be endless, and cannot be read twice."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is a pipe or a device")


def read_list(path: Path) -> str:
    """Read a text file of lines in UTF-8, without a byte order mark.

    Raises OSError, also for a pipe, a device or a huge file, and UnicodeDecodeError.
    """
    check_plain(path)
    if path.stat().st_size > _MOST_LINES:
        raise OSError(errno.EFBIG, f"it has more than {_MOST_LINES >> 30} GB")
    return path.read_text("utf-8-sig")


def read_settings(path: Path) -> Any:
    """Parse a file of TOML, or of JSON if its name ends so.

    Raises OSError, and ValueError with its fault: it may also be a pipe, a device or a file that
    would take too long to read.
    """
    check_plain(path)
    with path.open("rb") as file:
        content = file.read(_MOST + 1)
    if len(content) > _MOST:
        raise ValueError(f"it has more than {_MOST >> 20} MB")
    text = content.decode("utf-8-sig")
    try:
        if path.suffix == ".json":
            return json.loads(text)
        if _DEEP.search(text):  # which would be read in the square of its length
            raise RecursionError
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def toml_key(name: str) -> str:
    """Format a name as a TOML key, quoted if necessary."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: Any) -> str:
    """Format a text, boolean, list or dict as TOML on one line.

    Empty values of a dict are left out.
    """
    if isinstance(value, dict):
        filled = [f"{toml_key(key)} = {toml_value(each)}" for key, each in value.items() if each]
        return f"{{ {', '.join(filled)} }}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml_value, value))}]"
    # JSON's escapes are those of TOML's basic strings, except for DEL
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")

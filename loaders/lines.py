"""A dump's files as numbered lines of text: plain, gzip or bzip2, told apart by their first bytes.

Counts every line, puts a line that is not UTF-8 into the rejects, takes a byte order mark and
carriage returns off. What it does not do: know what a line should look like.
"""

from __future__ import annotations

import bz2
import zlib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isal import igzip, isal_zlib

from kgqa.errors import DumpMalformedError, DumpNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress

_GZIP, _BZIP2 = b"\x1f\x8b", b"BZh"
_BOM = b"\xef\xbb\xbf"
_DAMAGED: tuple[Any, ...] = (isal_zlib.error, zlib.error, OSError)
_TELL_EVERY = 50_000  # lines between two words to the progress


def find_sources(sources: Sequence[Path], what: str) -> list[Path]:
    """Return the files that ``sources`` name; a folder stands for all its files, sorted by name.

    Raises DumpNotFoundError where one is missing, or a folder is empty.
    """
    found: list[Path] = []
    for source in sources:
        if source == Path("-"):
            found.append(source)
        elif source.is_dir():
            files = sorted(
                path for path in source.iterdir() if path.is_file() and path.name[0] != "."
            )
            if not files:
                raise DumpNotFoundError(
                    f"The folder {source} holds no file.", f"Give the {what} file itself."
                )
            found += files
        elif source.exists():
            found.append(source)
        else:
            raise DumpNotFoundError(
                f"There is no {what} file {source}.", "Check the path; a folder of parts works too."
            )
    if not found:
        raise DumpNotFoundError(f"No {what} file was given.", "Name at least one file.")
    return found


def read_lines(
    source: Path, report: Report, rejects: Rejects, progress: Progress
) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without its line end) of every line that is UTF-8.

    ``report.lines`` counts all of them. Raises DumpNotFoundError, and DumpMalformedError where a
    compressed file is none, is damaged, or ends before its end.
    """
    number = told = 0
    with (
        closing(_open(source)) as stream,
        progress.task(f"reading {source.name}", unit="lines") as task,
    ):
        try:
            for raw in stream:
                number += 1
                if number == 1 and raw.startswith(_BOM):
                    raw = raw[len(_BOM) :]
                try:
                    text = raw.decode()
                except UnicodeDecodeError as error:
                    shown = raw.decode(errors="backslashreplace")
                    rejects.add(source.name, number, f"not UTF-8 ({error.reason})", shown)
                    continue
                yield number, text.rstrip("\r\n")
                if number - told >= _TELL_EVERY:
                    task.advance(number - told)
                    told = number
        except EOFError:
            raise DumpMalformedError(
                f"{source} is cut short: its compressed data ends after line {number}"
                f" ({source.stat().st_size:,} bytes).",
                "Fetch the rest of it and load it again.",
            ) from None
        except _DAMAGED as error:
            raise DumpMalformedError(
                f"{source} cannot be read on after line {number}: {_plain(error)}.",
                "The file is damaged; fetch it again.",
            ) from None
        finally:
            report.lines += number
            task.advance(number - told)


def nothing_read(what: str, sources: Sequence[Path], report: Report) -> DumpMalformedError:
    """Return the error for a load in which no line had the dump's form."""
    names = ", ".join(source.name for source in sources[:3]) + (" …" if len(sources) > 3 else "")
    if not report.lines:
        return DumpMalformedError(f"{names} is empty.", f"Give a {what} file that has lines.")
    common = report.reasons.most_common(1)
    why = f" (mostly: {common[0][0]})" if common else ""
    return DumpMalformedError(
        f"None of the {report.lines:,} lines of {names} has the form of {what}{why}.",
        "Check that the loader fits the file.",
    )


def _open(source: Path) -> IO[bytes]:
    try:
        with source.open("rb") as file:
            start = file.read(3)
    except FileNotFoundError:
        raise DumpNotFoundError(f"There is no file {source}.", "Check the path.") from None
    except OSError as error:
        raise DumpNotFoundError(f"{source} cannot be opened: {_plain(error)}.") from None
    if start.startswith(_GZIP):
        return _open_gzip(source)
    if start.startswith(_BZIP2):
        return bz2.open(source, "rb")
    for ending, form in ((".gz", "gzip"), (".bz2", "bzip2")):
        if source.name.endswith(ending):
            found = f"begins with the bytes {start.hex(' ')}" if start else "is empty"
            raise DumpMalformedError(
                f"{source} is named {ending} but is not {form}: it {found}.",
                f"Fetch it again, or take {ending} off its name if it is plain text.",
            )
    return source.open("rb")


def _open_gzip(source: Path) -> IO[bytes]:
    opener: Any = igzip.open  # carries no types
    stream: IO[bytes] = opener(source, "rb")
    return stream


def _plain(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or "no data"

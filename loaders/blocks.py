"""A dump's files: which they are, and their blocks of whole lines, plain, gzip, bzip2 or zstd.

A block is a few megabytes of UTF-8 that end with a line end, so that what reads them works on
columns and not on lines. The compression is known by a file's first bytes, and so is UTF-16. Byte
order marks and carriage returns before a line end are removed. A file may be standard input
(``-``).
"""

from __future__ import annotations

import bz2
import codecs
import io
import json
import os
import select
import stat
import sys
import time
import zlib
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from isal import igzip, isal_zlib

from kgqa.errors import DumpMalformedError, DumpNotFoundError, KgqaError
from kgqa.files import check_plain
from kgqa.loaders.encodings import CALLED, WESTERN, as_utf8, is_western, wide_encoding
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.graph.model import IntArray
    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress, Task


BLOCK_BYTES = 1 << 23  # fewer cost more calls a line, more leave the processor's caches
LONGEST_LINE = 1 << 24  # bytes; a longer one is rejected unread
STDIN = Path("-")
LINE_FEED = 10
_BOM = b"\xef\xbb\xbf"
_FORMS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
_ENDINGS = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd"}
_BROKEN: tuple[Any, ...] = (isal_zlib.error, zlib.error, OSError, EOFError)
DAMAGED: tuple[Any, ...] = (*_BROKEN, pa.ArrowInvalid, UnicodeDecodeError)
"""What reading damaged bytes raises."""


def find_sources(sources: Sequence[Path], what: str) -> list[Path]:
    """List the files that ``sources`` name; a folder stands for its files, sorted by name.

    Hidden files and subfolders are skipped; ``what``: what the files hold, for the errors. Raises
    DumpNotFoundError if a source is missing, or a folder holds no file.
    """
    paths: list[Path] = []
    for source in sources:
        if source == STDIN:
            paths.append(source)
        elif source.is_dir():
            files = sorted(
                path for path in source.iterdir() if path.is_file() and path.name[0] != "."
            )
            if not files:
                raise DumpNotFoundError(
                    f"The folder {source} holds no file.", f"Give the {what} file itself."
                )
            paths += files
        elif source.exists():
            paths.append(source)
        else:
            raise DumpNotFoundError(
                f"The {what} file {source} does not exist.",
                "Check the path; a folder of parts works too.",
            )
    if not paths:
        raise DumpNotFoundError(f"No {what} file was given.", "Name at least one file.")
    return paths


def nothing_read(
    what: str,
    sources: Sequence[Path],
    report: Report,
    hint: str = "Check that the loader fits the file.",
) -> DumpMalformedError:
    """Return the error of a load in which no line has the dump's form.

    ``what``: what the lines should be, as a noun; ``hint``: unless the lines are not UTF-8.
    """
    names = ", ".join(display_name(source) for source in sources[:3]) + (
        " …" if len(sources) > 3 else ""
    )
    if not report.lines:
        what_is = f"holds nothing that is {what}" if any(map(_has_text, sources)) else "is empty"
        return DumpMalformedError(f"{names} {what_is}.", f"Give a file that holds {what}.")
    common = report.reasons.most_common(1)
    why = f" (mostly: {common[0][0]})" if common else ""
    hint = "Save it as UTF-8." if "not UTF-8" in why else hint
    return DumpMalformedError(
        f"None of the {report.lines:,} lines of {names} has the form of {what}{why}.",
        hint,
    )


def _has_text(path: Path) -> bool:
    """Return whether a file begins with anything but white space."""
    if not path.is_file():
        return False
    with unpacked(path) as stream:
        return bool(stream.read(4_096).removeprefix(b"\xef\xbb\xbf").strip())


def open_file(path: Path) -> io.BufferedReader:
    """Open a file of a dump. Raises DumpNotFoundError, DumpMalformedError for a pipe or device."""
    check_file(path)
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise DumpNotFoundError(f"The file {path} does not exist.", "Check the path.") from None
    except OSError as error:
        raise DumpNotFoundError(f"{path} cannot be opened: {_reason(error)}.") from None


def check_file(path: Path) -> None:
    """Raise DumpMalformedError for a pipe or a device, which may never end."""
    try:
        check_plain(path)
    except OSError as error:
        raise DumpMalformedError(
            f"{path} cannot be read: {_reason(error)}.",
            "Give a file that you may read; triples and RDF can also be piped in, as the source -.",
        ) from None


def ending_of(path: Path) -> str:
    """Return a file name's suffix in lowercase, without the suffix of a compression.

    >>> ending_of(Path("train.TSV.gz"))
    '.tsv'
    """
    path = Path(path.name.lower())
    return Path(path.stem).suffix if path.suffix in _ENDINGS else path.suffix


@dataclass(frozen=True)
class Block:
    """Whole lines of one source. ``first``: the number of its first line, from 1."""

    source: str
    first: int
    lines: int
    data: bytes | memoryview  # each line ends with a line feed

    @cached_property
    def ends(self) -> IntArray:
        """The positions of the line feeds."""
        return np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8) == LINE_FEED)


def read_blocks(
    sources: Sequence[Path],
    report: Report,
    rejects: Rejects,
    progress: Progress,
    size: int | None = None,
    *,
    guess: bool = False,
) -> Iterator[Block]:
    """Read all ``sources`` in order as blocks; progress counts bytes on disk.

    ``size``: bytes of a block, about; ``BLOCK_BYTES`` if it is None. ``guess``: whether files may
    be Windows-1252, with a notice; in a published dump such bytes are damage. ``report.lines``
    counts every line. Raises DumpNotFoundError, and DumpMalformedError if a compressed file is
    damaged, cut short, or not what its name says.
    """
    total = sum(path.stat().st_size for path in sources if path != STDIN and path.exists())
    what = f"reading {display_name(sources[0])}"
    if len(sources) > 1:
        what += f" and {len(sources) - 1} more"
    with progress.task(what, total or None, "bytes") as task:
        clock = _LineRate(task)
        for source in sources:
            western: bool | None = None if guess else False
            for block in _read(source, report, rejects, clock, size or BLOCK_BYTES):
                if western is None and (western := is_western(bytes(block.data))):
                    name = display_name(source)
                    progress.note(f"{name} is not UTF-8, and was read as {CALLED[WESTERN]}.")
                if western:
                    yield replace(block, data=as_utf8(bytes(block.data), WESTERN))
                else:
                    yield block
                clock.tell(block.lines)


def display_name(source: Path) -> str:
    """Return a source's name for messages."""
    return "standard input" if source == STDIN else source.name


class _LineRate:
    """Shows the number of lines read, and their rate, in a progress task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._lines = 0
        self._started = time.monotonic()

    def tell(self, lines: int) -> None:
        """Add ``lines`` to the count, and show it with the rate."""
        self._lines += lines
        rate = self._lines / max(time.monotonic() - self._started, 1e-3)
        self.task.tell(f"{self._lines:,} lines, {rate:,.0f}/s")


class _InterruptiblePipe(io.RawIOBase):
    """A pipe whose reads wait in turns of half a second, so that Ctrl-C is never missed.

    A read that waits in the system misses a Ctrl-C of the moment before it began, and a pipe may be
    silent for as long as its writer likes.
    """

    def __init__(self, raw: io.FileIO) -> None:
        self._raw = raw

    def readinto(self, buffer: Any, /) -> int | None:
        """Wait for data in turns, then read it into ``buffer``."""
        while not select.select([self._raw], [], [], 0.5)[0]:
            pass
        return self._raw.readinto(buffer)

    def readable(self) -> bool:
        """Return True."""
        return True


class _CountedFile(io.BufferedIOBase):
    """A raw file that adds the bytes read from it to a progress task."""

    def __init__(self, file: IO[bytes], task: Task) -> None:
        self._file = file
        self._task = task

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to ``size`` bytes, and advance the task by their number."""
        data = self._file.read(-1 if size is None else size)
        self._task.advance(len(data))
        return data

    def read1(self, size: int = -1, /) -> bytes:
        """Read up to ``size`` bytes, like :meth:`read`."""
        return self.read(size)

    def readable(self) -> bool:
        """Return True."""
        return True


def _read(
    source: Path, report: Report, rejects: Rejects, clock: _LineRate, size: int
) -> Iterator[Block]:
    """Read one source as blocks of whole lines; a line over the limit is rejected."""
    name = display_name(source)
    number, read, rest, skipping = 1, 0, b"", False
    with ExitStack() as stack:
        stream = _Utf8(_open(source, stack, clock.task))
        while True:
            try:
                chunk = stream.read(size)
            except EOFError:
                raise _truncated(source, number + rest.count(b"\n"), read) from None
            except DAMAGED as error:
                why = _reason(error)
                if "runcated" in why or "nd of stream" in why or "ended before" in why:
                    raise _truncated(source, number, read) from None
                raise DumpMalformedError(
                    f"{source} cannot be read on after line {number - 1:,}: {why}.",
                    "The file is damaged; fetch it again.",
                ) from None
            read += len(chunk)
            if number == 1 and read == len(chunk) and chunk.startswith(_BOM):
                chunk = chunk[len(_BOM) :]
            ended = not chunk
            if skipping:
                place = chunk.find(b"\n")
                if place < 0 and not ended:
                    continue
                chunk, skipping = chunk[place + 1 :], False
            data = b"".join((rest, chunk)) if rest else chunk
            if not ended or not data:
                cut = data.rfind(b"\n") + 1
            else:  # the end: the last line may lack its line feed
                data, cut = data + b"\n", len(data) + 1
            rest = data[cut:]
            if cut:
                whole: bytes | memoryview = memoryview(data)[:cut]
                if b"\r" in data:  # one byte is found faster than two
                    whole = data[:cut]
                    while b"\r\n" in whole:
                        whole = whole.replace(b"\r\n", b"\n")
                lines = int(np.count_nonzero(np.frombuffer(whole, dtype=np.uint8) == LINE_FEED))
                report.lines += lines
                yield Block(name, number, lines, whole)
                number += lines
            if len(rest) > LONGEST_LINE:
                shown = rest[:500].decode(errors="backslashreplace")
                rejects.add(name, number, f"line longer than {LONGEST_LINE >> 20} MB", shown)
                report.lines += 1
                number += 1
                rest, skipping = b"", True
            if ended:
                return


class _Utf8:
    """A byte stream converted to UTF-8 from UTF-8, UTF-16 or UTF-32."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._begun = False
        self._decoder: codecs.IncrementalDecoder | None = None

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes of UTF-8, none at the end. Raises UnicodeDecodeError."""
        data = self._stream.read(size)
        if not self._begun:
            self._begun = True
            if encoding := wide_encoding(data):
                self._decoder = codecs.getincrementaldecoder(encoding)()
        if self._decoder is None:
            return data
        text = self._decoder.decode(data, not data)
        while data and not text:
            data = self._stream.read(size)
            text = self._decoder.decode(data, not data)
        return text.encode()


OPENING = 1 << 20  # bytes of a stream that are known before it is read


class ByteStream:
    """A decompressed file for a parser that reads it by itself.

    ``opening``: the first bytes. A read error ends the stream, and is raised by :meth:`check`,
    since a parser may swallow it. Raises DumpNotFoundError, DumpMalformedError.
    """

    def __init__(self, source: Path, report: Report, task: Task) -> None:
        self._source = source
        self._report = report
        self._task = task
        self._stack = ExitStack()
        self._fault: DumpMalformedError | None = None
        self._lines = 0
        self._read = 0
        self._last = b"\n"

    def __enter__(self) -> ByteStream:
        """Open the file."""
        self._stream = _Utf8(_open(self._source, self._stack, self._task))
        parts: list[bytes] = []
        while sum(map(len, parts)) < OPENING and (part := self._next(OPENING)):
            parts.append(part)
        self._rest = self.opening = b"".join(parts).removeprefix(_BOM)
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._stack.close()

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, none at the end or after an error."""
        if self._rest:
            size = len(self._rest) if size < 0 else size
            data, self._rest = self._rest[:size], self._rest[size:]
            return data
        return self._next(size)

    def check(self) -> None:
        """Raise the error that ended the stream, if any."""
        if self._fault is not None:
            raise self._fault

    def _next(self, size: int) -> bytes:
        """Read and count bytes; record an error and return none if the file is damaged."""
        if self._fault is not None:
            return b""
        try:
            data = self._stream.read(size)
        except EOFError:
            self._fault = _truncated(self._source, self._lines + 1, self._read)
            return b""
        except DAMAGED as error:
            self._fault = DumpMalformedError(
                f"{self._source} cannot be read on after line {self._lines:,}: {_reason(error)}.",
                "The file is damaged; fetch it again.",
            )
            return b""
        lines = data.count(b"\n")
        if not data and self._last != b"\n":
            lines, self._last = 1, b"\n"
        elif data:
            self._last = data[-1:]
        self._lines += lines
        self._read += len(data)
        self._report.lines += lines
        return data


def _truncated(source: Path, line: int, read: int) -> DumpMalformedError:
    """Return the error of a file cut short after ``read`` bytes of text, in line ``line``."""
    return DumpMalformedError(
        f"{source} is cut short: its compressed data ends after line {line - 1:,}"
        f" ({read:,} bytes of text).",
        "Fetch the rest of it and load it again.",
    )


@contextmanager
def unpacked(source: Path) -> Iterator[IO[bytes]]:
    """Open a file decompressed, as a context; its compression is detected by its content.

    Raises DumpNotFoundError, DumpMalformedError if the compression is damaged, or not what its name
    says; a parser of the bytes may raise such an error as one of ``DAMAGED``.
    """
    with ExitStack() as stack, Silent().task("") as task:
        stream = _open(source, stack, task)
        try:
            yield stream
        except _BROKEN as error:
            if isinstance(error, KgqaError):
                raise
            raise DumpMalformedError(
                f"{source} is damaged or cut short: {_reason(error)}.", "Fetch it again."
            ) from None


def read_json(path: Path, what: str, most: int, hint: str) -> Any:
    """Parse a file that is one JSON document of at most ``most`` bytes, decompressed.

    ``what`` names the document and ``hint`` says how to give a larger one, in the error. Raises
    DumpMalformedError.
    """
    with unpacked(path) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise DumpMalformedError(
            f"{path.name} is {what} of more than {most >> 20:,} MB, which is read as a whole.", hint
        )
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        said = f"{path.name} is {what} with a fault: {str(error)[:200]}."
        raise DumpMalformedError(said, "Write the file again.") from None


def _open(source: Path, stack: ExitStack, task: Task) -> IO[bytes]:
    """Open a source decompressed by its magic bytes, closed by ``stack``.

    Raises DumpNotFoundError, DumpMalformedError if its name says another compression.
    """
    if source == STDIN:
        raw = cast("io.BufferedReader", sys.stdin.buffer)
        if os.name == "posix" and isinstance(raw.raw, io.FileIO) and not stat.S_ISREG(_mode(raw)):
            raw = io.BufferedReader(_InterruptiblePipe(raw.raw))
    else:
        raw = stack.enter_context(open_file(source))
    start = raw.peek(4)[:4]
    form = next((form for magic, form in _FORMS.items() if start.startswith(magic)), "")
    expected = _ENDINGS.get(source.suffix, "")
    if expected and form != expected:
        begin = f"begins with the bytes {start[:3].hex(' ')}" if start else "is empty"
        raise DumpMalformedError(
            f"{source} is named {source.suffix} but is not {expected}: it {begin}.",
            f"Fetch it again, or take {source.suffix} off its name if it is plain text.",
        )
    counted = cast("IO[bytes]", _CountedFile(raw, task))
    if form == "gzip":
        gzip: Any = igzip.IGzipFile  # carries no types
        return cast("IO[bytes]", stack.enter_context(gzip(fileobj=counted, mode="rb")))
    if form == "bzip2":
        return cast("IO[bytes]", stack.enter_context(bz2.open(counted, "rb")))
    if form == "zstd":
        file = stack.enter_context(pa.PythonFile(counted, mode="r"))
        return cast("IO[bytes]", stack.enter_context(pa.CompressedInputStream(file, "zstd")))
    return counted


def _mode(file: io.BufferedReader) -> int:
    """Return the ``st_mode`` of an open file."""
    return os.fstat(file.fileno()).st_mode


def _reason(error: Exception) -> str:
    """Return the message of a read error."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or "no data"

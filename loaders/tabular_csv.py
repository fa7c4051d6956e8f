"""Delimited files as people have them: dialect, encoding, what stands above the header, quotes.

``pyarrow.csv`` parses. Measured against DuckDB 1.x on a million rows of eight columns: 0.3 s and
170 MB as text, 1.3 s with types, DuckDB 1.2 s and 230 MB. Of a table in which some rows have a
field too many, Arrow gives those rows to a handler with their numbers, while DuckDB's sniffer
takes the whole file for one column; DuckDB keeps the zero of ``01581``, Arrow does not, so all
columns are read as text and typed afterwards. DuckDB would add 65 MB to an installation.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from kgqa.errors import DumpMalformedError, first_line
from kgqa.loaders.blocks import DAMAGED, unpacked
from kgqa.loaders.encodings import CALLED, NOT_WESTERN, WESTERN, above_rows, lines_of, wide_encoding
from kgqa.loaders.tabular_table import MAX_TEXT, Budget, check_size, unique_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import IntArray

    _Broken = tuple[int, str, list[str]]  # number of the row, text, fields

_DELIMITERS = (",", "\t", ";", "|")
_SAMPLE = 1 << 16  # bytes that the dialect is found from
_SPACED = 0.01  # share of fields that begin with a space, below which none is meant to
_BLOCK = 1 << 22  # bytes that the encoding is found from at once
_ABOVE = 50  # lines above a header that are looked at
_FREE = 1 << 28  # bytes that any compressed file may unpack to
_MAX_RATIO = 250  # beyond that, for each byte of the file
_SPAN = 100  # lines that one field may have in a file whose quotes are not in pairs


@dataclass(slots=True)
class Delimited:
    """A table as read: string columns, and the number of each row (the header is row 1).

    ``broken``: number, reason and text of each row that does not fit; ``mended``: how many were
    repaired. ``notes``: sentences on how the file was read.
    """

    columns: pa.Table
    rows: IntArray
    broken: list[tuple[int, str, str]]
    mended: int
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Dialect:
    """How a file is split. ``start``: how many lines precede the header, or the first row."""

    delimiter: str
    header: list[str]
    start: int
    above: list[str]  # those of them that are not empty
    headed: bool = True  # else the header stands in another file

    def is_row(self, line: str) -> bool:
        """Return whether a line splits into a row's fields: prose has a space after a comma."""
        fields = next(csv.reader([line], delimiter=self.delimiter), [])
        spaced = any(name.startswith(" ") for name in self.header)
        return len(fields) == len(self.header) and (
            spaced or self.delimiter != "," or not any(cell.startswith(" ") for cell in fields)
        )


def read_csv(path: Path, header: Sequence[str] | None = None) -> Delimited:
    """Read a delimited file as a table.

    ``header``: the names of the columns if they are in another file, so that all rows are values.
    Raises DumpMalformedError if the table is empty, has no header, or is not text.
    """
    try:
        with unpacked(path) as stream:
            sample = stream.read(_SAMPLE)
        encoding, quoted = _encoding(path, sample)
        dialect = _dialect(path, sample.decode(encoding, errors="replace"), header)
        found = _read(path, encoding, dialect, quoted=quoted)
    except csv.Error as error:
        raise DumpMalformedError(
            f"{path.name} cannot be read as a table: {error}.", "Give a table that is text."
        ) from None
    except UnicodeError:
        raise DumpMalformedError(
            f"{path.name} is damaged: it is not {encoding.upper()}.", "Save it as UTF-8."
        ) from None
    except (pa.ArrowException, *DAMAGED) as error:
        if isinstance(error, DumpMalformedError):
            raise
        straddles = "straddling" in str(error)
        if straddles and len(sample.splitlines()) < 2:
            raise DumpMalformedError(
                f"{path.name} holds one line, and no row below it.",
                "Give a table with a row of names and rows below it.",
            ) from None
        reason = "a row has no end within 16 MB" if straddles else first_line(error)
        raise DumpMalformedError(
            f"{path.name} cannot be read as a table: {reason}.", "Check the file's last rows."
        ) from None
    if encoding in CALLED:
        found.notes.append(f"{path.name} is not UTF-8, and was read as {CALLED[encoding]}.")
    return found


def header_of(path: Path) -> list[str]:
    """Return the column names of a file that holds only one line; [] if it holds more."""
    with unpacked(path) as stream:
        sample = stream.read(_SAMPLE)
    lines = [line for line in lines_of(sample.decode(errors="replace")) if line.strip()]
    if len(lines) != 1:
        return []
    best = max(_DELIMITERS, key=lines[0].count)
    return next(csv.reader(lines, delimiter=best))


def _encoding(path: Path, sample: bytes) -> tuple[str, bool]:
    """Detect a file's encoding, by byte order mark, zero bytes or all its bytes.

    What is not UTF-8 is Windows-1252, in which Excel writes tables, or else Latin-1. The second
    value says whether the file has a quote.
    """
    said = wide_encoding(sample)
    decoder = codecs.getincrementaldecoder("utf8")()
    most = max(_FREE, _MAX_RATIO * path.stat().st_size)
    is_utf8, windows, quoted, size = True, True, False, 0
    with unpacked(path) as stream:
        while part := stream.read(_BLOCK):
            size += len(part)
            if size > most:
                raise DumpMalformedError(
                    f"{path.name} unpacks to more than {_MAX_RATIO} times its size.",
                    "Unpack it, and load what it holds.",
                )
            try:
                if is_utf8 and not said:
                    decoder.decode(part)
            except UnicodeDecodeError:
                is_utf8 = False
            windows &= not any(byte in part for byte in NOT_WESTERN)
            quoted |= b'"' in part
    is_utf8 &= not decoder.getstate()[0]
    return said or ("utf8" if is_utf8 else WESTERN if windows else "latin-1"), quoted


def _dialect(path: Path, sample: str, given: Sequence[str] | None) -> _Dialect:
    """Detect the delimiter that splits the header and most rows alike, and where the header is.

    A header may be preceded by ``sep=;``, as Excel writes it, by comments, and by a title.
    ``given``: the header, if it is in another file. Raises DumpMalformedError.
    """
    sample = sample.removeprefix("\ufeff")
    if not sample.strip():
        raise DumpMalformedError(f"{path.name} is empty.", "Give a table with a row of names.")
    lines = lines_of(sample)
    skipped, said = above_rows(lines, _DELIMITERS)
    delimiters: Sequence[str] = said or _DELIMITERS
    best, records = (-1.0, ","), [[""]]
    text = "\n".join(lines[skipped:])
    for delimiter in delimiters:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
        if len(rows) > 2 and len(sample) >= _SAMPLE:
            rows.pop()  # it may be cut
        if not rows:
            continue
        titles = _title_rows(rows)
        width = len(rows[titles])
        alike = sum(len(row) == width for row in rows[titles:]) / len(rows)
        if (score := (width - 1) * alike) > best[0]:
            best, records = (score, delimiter), rows[titles:]
    if given is not None:
        return _Dialect(best[1], list(given), 0, [], headed=False)
    header = records[0]
    if header == [""]:
        raise DumpMalformedError(f"{path.name} holds nothing but comments.", "Give a table.")
    start = _lines_before(lines, skipped, header, best[1])
    if header[0].startswith("#") and len(header) > 1:
        header = [header[0].lstrip("# ") or "#", *header[1:]]
    above = [line for line in lines[1 if said else 0 : start] if line.strip()]
    return _Dialect(best[1], _check_header(path, header), start, above)


def _title_rows(rows: Sequence[Sequence[str]]) -> int:
    """Count the rows of one field that precede the first row with more fields, the header."""
    width, _ = Counter(map(len, rows)).most_common(1)[0]
    if width < 2:
        return 0
    fields = [sum(1 for cell in row if cell.strip()) for row in rows[:_ABOVE]]
    first = next((n for n, filled in enumerate(fields) if filled > 1), 0)
    return first if len(rows) - first > 1 else 0


def _lines_before(lines: Sequence[str], start: int, header: Sequence[str], delimiter: str) -> int:
    """Return the number of lines before the header, which may itself span lines."""
    for first in range(start, min(start + _ABOVE, len(lines))):
        for last in range(first + 1, min(first + _ABOVE, len(lines)) + 1):
            text = "\n".join(lines[first:last])
            if next(csv.reader(io.StringIO(text), delimiter=delimiter), None) == header:
                return first
            if text.count('"') % 2 == 0:
                break
    return start


def _check_header(path: Path, header: Sequence[str]) -> list[str]:
    """Return a header; raise DumpMalformedError if it holds values instead of names."""
    check_size(path.name, 1, len(header))
    numbers = sum(_is_number(name) for name in header)
    if numbers and (_is_number(header[0]) or numbers == len(header)):
        raise DumpMalformedError(
            f"The first row of {path.name} has values ({', '.join(header)[:60]}) in place of the "
            "columns' names.",
            "Put a row with the names of the columns above it.",
        )
    return list(header)


def _is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read(path: Path, encoding: str, dialect: _Dialect, *, quoted: bool) -> Delimited:
    """Parse a file by Arrow, or line by line if its quotes are not balanced."""
    names, changed = unique_names(dialect.header)
    if quoted and _has_stray_quotes(path, encoding, dialect):  # Arrow ends at one, and says nothing
        found = _read_by_lines(path, encoding, dialect, names)
    else:
        table, rows, broken = _parse(path, encoding, dialect, names)
        found = _repair(table, rows, broken, dialect.delimiter)
    found.notes = _notes_of(path, dialect, changed) + [f"{path.name}: {n}" for n in found.notes]
    return found


def _notes_of(path: Path, dialect: _Dialect, changed: Sequence[str]) -> list[str]:
    """Return notes on renamed columns and on skipped lines above the header."""
    notes = [f"{path.name}: {note}." for note in changed]
    if dialect.above:
        shown = dialect.above[0].strip()[:80]
        notes.append(
            f'{path.name}: {len(dialect.above):,} lines above the header are not read: "{shown}".'
        )
    return notes


def _parse(
    path: Path, encoding: str, dialect: _Dialect, names: Sequence[str]
) -> tuple[pa.Table, IntArray, list[_Broken]]:
    """Parse a file by Arrow; return the table, its row numbers, and rows that do not fit."""
    broken: list[_Broken] = []

    def handle(row: arrow_csv.InvalidRow) -> str:
        """Record a row with a wrong number of fields, and let Arrow skip it."""
        fields = next(csv.reader([row.text], delimiter=dialect.delimiter), [])
        broken.append((row.number, row.text, fields))
        return "skip"

    budget = Budget(path.name)
    with (
        unpacked(path) as stream,
        arrow_csv.open_csv(
            stream,
            arrow_csv.ReadOptions(
                use_threads=False,  # else Arrow does not number the rows
                block_size=MAX_TEXT,  # a longer row is an error
                column_names=list(names),
                skip_rows=dialect.start,
                skip_rows_after_names=int(dialect.headed),
                encoding=encoding,
            ),
            arrow_csv.ParseOptions(
                delimiter=dialect.delimiter, newlines_in_values=True, invalid_row_handler=handle
            ),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        ) as reader,
    ):
        parts: list[pa.RecordBatch] = []
        for batch in reader:
            budget.spend(batch.num_rows * batch.num_columns)
            parts.append(batch)
        table = pa.Table.from_batches(parts, reader.schema)
    first = dialect.start + dialect.headed + 1
    numbers = np.arange(first, first + len(table) + len(broken))
    rows = np.setdiff1d(numbers, np.array([number for number, *_ in broken], dtype=np.int64))
    return table, rows[: len(table)], broken


@contextmanager
def _text_lines(path: Path, encoding: str, dialect: _Dialect) -> Iterator[Iterator[str]]:
    """Open the lines of a file from its header on, with their line ends."""
    encoding = "utf-8-sig" if encoding == "utf8" else encoding
    with unpacked(path) as stream, io.TextIOWrapper(stream, encoding, newline="") as lines:
        for _ in range(dialect.start):
            next(lines, "")
        yield lines


def _has_stray_quotes(path: Path, encoding: str, dialect: _Dialect) -> bool:
    """Return whether a file's quotes are not paired as in RFC 4180.

    Nor are quotes that hold whole rows: each further line of a field would be a row of the table.
    """
    width, mark = len(dialect.header), dialect.delimiter
    limit = csv.field_size_limit(MAX_TEXT)
    try:
        with _text_lines(path, encoding, dialect) as lines:
            for row in csv.reader(lines, delimiter=mark, strict=True):
                for cell in row if width > 2 else ():
                    further = lines_of(cell)[1:] if "\n" in cell else ()
                    if further and all(map(dialect.is_row, further)):
                        return True
    except csv.Error:
        return True
    finally:
        csv.field_size_limit(limit)
    return False


def _read_by_lines(path: Path, encoding: str, dialect: _Dialect, names: Sequence[str]) -> Delimited:
    """Parse a table line by line, dropping unpaired quotes; blank lines are skipped.

    Rows with another number of fields are listed as broken.
    """
    width, mark = len(names), dialect.delimiter
    with _text_lines(path, encoding, dialect) as whole:
        lines = [line.rstrip("\r\n") for line in whole]
    kept: list[list[str]] = []
    rows: list[int] = []
    broken: list[tuple[int, str, str]] = []
    place, strays, is_open = int(dialect.headed), 0, False
    while place < len(lines):
        number, line = dialect.start + place + 1, lines[place]
        row, used = _record_at(lines, place, dialect)
        place += used
        if not line.strip():
            continue
        as_it_is = [cell.strip().strip('"') for cell in line.split(mark)]
        odd = line.count('"') % 2 == 1
        if row is None:
            row, strays, is_open = as_it_is, strays + 1, is_open != odd
        elif is_open and odd and used == 1 and len(as_it_is) == width:
            row, is_open = as_it_is, False  # the other quote of a stray one
        if len(row) == width:
            kept.append(row)
            rows.append(number)
        else:
            broken.append((number, f"{len(row)} fields in place of {width}", line))
    columns = list(zip(*kept, strict=True)) if kept else [()] * width
    table = pa.table([pa.array(cells, pa.string()) for cells in columns], names=list(names))
    notes = [f"{strays:,} rows have a stray quote, which is left out."] if strays else []
    return Delimited(table, np.array(rows, dtype=np.int64), broken, 0, notes)


def _record_at(lines: Sequence[str], place: int, dialect: _Dialect) -> tuple[list[str] | None, int]:
    """Parse the record at line ``place``; return its fields and its number of lines.

    The fields are None, and the number 1, if its quotes are malformed.
    """
    for used in range(1, 1 + min(_SPAN, len(lines) - place)):
        text = "\n".join(lines[place : place + used])
        try:
            row = next(csv.reader(io.StringIO(text), delimiter=dialect.delimiter, strict=True), [])
        except csv.Error as error:
            if "end of data" in str(error):
                continue  # a field that goes on in the next line
            return None, 1
        swallowed = used > 1 and all(map(dialect.is_row, lines[place + 1 : place + used]))
        misfits = swallowed or len(row) != len(dialect.header)
        return (None, 1) if used > 1 and misfits else (row, used)
    return None, 1


def _repair(columns: pa.Table, rows: IntArray, broken: list[_Broken], delimiter: str) -> Delimited:
    """Repair broken rows; return the table, with the irreparable rows and their reasons.

    A field that begins with a space, where hardly a field of a good row does, belongs to the field
    before it: the delimiter between them should have been quoted. A row that ends early lacks the
    last fields, which some programs leave out if they are empty. ``rows``: numbers of the good
    ones.
    """
    count = columns.num_columns
    shares = [pc.mean(pc.starts_with(column, " ")).as_py() or 0.0 for column in columns.columns]
    joins = sum(shares) < _SPACED * count
    mended: list[list[str]] = []
    rejected: list[tuple[int, str, str]] = []
    numbers = [rows]
    short = _ending_early(broken, count, delimiter)
    for number, text, fields in broken:
        row: list[str] = []
        for value in fields:
            if joins and row and value.startswith(" "):
                row[-1] += delimiter + value
            else:
                row.append(value)
        if number in short and len(row) == len(fields):
            row += [""] * (count - len(row))
        if len(row) == count:
            mended.append(row)
            numbers.append(np.array([number]))
        else:
            rejected.append((number, f"{len(fields)} fields in place of {count}", text))
    if mended:
        arrays = [pa.array(cells, pa.string()) for cells in zip(*mended, strict=True)]
        columns = pa.concat_tables([columns, pa.table(arrays, names=columns.column_names)])
        rows = np.concatenate(numbers)
        order = np.argsort(rows, kind="stable")
        columns, rows = columns.take(pa.array(order)), rows[order]
    notes = [f"{len(short):,} rows lack their last fields, which are taken for empty."]
    return Delimited(columns, rows, rejected, len(mended) - len(short), notes if short else [])


def _ending_early(broken: Sequence[_Broken], count: int, delimiter: str) -> set[int]:
    """Return the numbers of the broken rows that lack only their last fields.

    Two consecutive rows that together have one row's fields are a row that was cut, except between
    tabs, where a field has no line ends. ``count``: the fields of a whole row.
    """
    widths = {number: len(fields) for number, _, fields in broken}

    def is_cut(number: int, width: int) -> bool:
        """Return whether a row and a neighbour are the halves of one row."""
        beside = (widths.get(number - 1, count), widths.get(number + 1, count))
        return any(width + other == count + 1 for other in beside)

    least = 2 if delimiter == "\t" else max(2, (count + 1) // 2)
    return {
        number
        for number, width in widths.items()
        if least <= width < count and (delimiter == "\t" or not is_cut(number, width))
    }

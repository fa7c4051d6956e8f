"""Delimited tables: dialect, encoding, and rows that an unquoted delimiter has shifted.

``pyarrow.csv`` parses. Measured against DuckDB 1.x on a million rows of eight columns: 0.3 s and
170 MB as text, 1.3 s with types, DuckDB 1.2 s and 230 MB. Of a table in which some rows have a
field too many, Arrow gives those rows to a handler with their numbers, while DuckDB's sniffer
takes the whole file for one column; DuckDB keeps the zero of ``01581``, Arrow does not, so all
columns are read as text and typed afterwards. DuckDB would add 65 MB to an installation.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from kgqa.errors import DumpMalformedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kgqa.graph.model import IntArray

    _Broken = tuple[int, str, list[str]]  # number of the row, text, fields

_DELIMITERS = (",", "\t", ";", "|")
_SAMPLE = 1 << 16  # bytes that the dialect is found from
_BLOCK = 1 << 24  # bytes; a longer row is an error
_SPACED = 0.01  # share of fields that begin with a space, below which none is meant to


@dataclass(frozen=True, slots=True)
class Delimited:
    """A table as it was read: columns of strings, and the number of each row (the header is row 1).

    ``broken``: number, reason and text of each row that does not fit; ``mended``: how many do now.
    """

    columns: pa.Table
    rows: IntArray
    broken: list[tuple[int, str, str]]
    mended: int
    note: str = ""


def read_csv(path: Path) -> Delimited:
    """Read a table whose first row names its columns.

    Raises DumpMalformedError if it is empty, has no header, or is not text.
    """
    encoding = "utf8"
    with _open(path) as stream:
        sample = stream.read(_SAMPLE)
    if sample[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    note = ""
    try:
        delimiter, header = _dialect(path, sample.decode(encoding, errors="replace"))
        try:
            parsed = _parse(path, encoding, delimiter, header)
        except UnicodeError:  # Arrow's own check of UTF-8; a table of Excel is often in this one
            parsed = _parse(path, "cp1252", delimiter, header)
            note = f"{path.name} is not UTF-8, and was read as Windows-1252."
    except csv.Error as error:
        raise DumpMalformedError(
            f"{path.name} cannot be read as a table: {error}.", "Give a table that is text."
        ) from None
    return replace(_repaired(*parsed, delimiter), note=note)


def _open(path: Path) -> pa.NativeFile:
    endings = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
    return pa.input_stream(str(path), compression=endings.get(path.suffix.lower()))


def _dialect(path: Path, sample: str) -> tuple[str, list[str]]:
    """Return the delimiter that splits the header and most rows alike, and the header."""
    sample = sample.removeprefix("\ufeff")
    if not sample.strip():
        raise DumpMalformedError(f"{path.name} is empty.", "Give a table with a row of names.")
    best, header = (-1.0, ","), [""]
    for delimiter in _DELIMITERS:
        records = [row for row in csv.reader(io.StringIO(sample), delimiter=delimiter) if row]
        if len(records) > 2 and len(sample) >= _SAMPLE:
            records.pop()  # it may be cut
        alike = sum(len(row) == len(records[0]) for row in records) / len(records)
        score = (len(records[0]) - 1) * alike
        if score > best[0]:
            best, header = (score, delimiter), records[0]
    return best[1], _named(path, header)


def _named(path: Path, header: Sequence[str]) -> list[str]:
    """Return names of columns, each once; raise DumpMalformedError if they are values."""
    numbers = sum(_is_number(name) for name in header)
    if numbers and (_is_number(header[0]) or numbers == len(header)):
        raise DumpMalformedError(
            f"The first row of {path.name} has values ({', '.join(header)[:60]}) in place of the "
            "columns' names.",
            "Put a row with the names of the columns above it.",
        )
    names: dict[str, None] = {}
    for place, given in enumerate(header, 1):
        name = given.strip() or f"column {place}"
        while name in names:
            name += " 2"
        names[name] = None
    return list(names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parse(
    path: Path, encoding: str, delimiter: str, header: list[str]
) -> tuple[pa.Table, IntArray, list[_Broken]]:
    broken: list[_Broken] = []

    def handle(row: arrow_csv.InvalidRow) -> str:
        fields = next(csv.reader([row.text], delimiter=delimiter), [])
        broken.append((row.number, row.text, fields))
        return "skip"

    try:
        with _open(path) as stream:
            table = arrow_csv.read_csv(
                stream,
                arrow_csv.ReadOptions(
                    use_threads=False,  # else Arrow does not number the rows
                    block_size=_BLOCK,
                    column_names=header,
                    skip_rows_after_names=1,
                    encoding=encoding,
                ),
                arrow_csv.ParseOptions(
                    delimiter=delimiter, newlines_in_values=True, invalid_row_handler=handle
                ),
                arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False
                ),
            )
    except (pa.ArrowInvalid, OSError) as error:
        if "UTF8" in str(error):
            raise UnicodeError from None
        reason = str(error).splitlines()[0]
        raise DumpMalformedError(
            f"{path.name} cannot be read as a table: {reason}.", "Check the file's last rows."
        ) from None
    numbers = np.arange(2, 2 + len(table) + len(broken))
    rows = np.setdiff1d(numbers, np.array([number for number, *_ in broken], dtype=np.int64))
    return table, rows[: len(table)], broken


def _repaired(
    columns: pa.Table, rows: IntArray, broken: list[_Broken], delimiter: str
) -> Delimited:
    """Return a table with the broken rows that can be mended, and the others with the reason.

    A field that begins with a space, where hardly a field of a good row does, belongs to the field
    before it: the delimiter between them should have been quoted.
    """
    count = columns.num_columns
    shares = [pc.mean(pc.starts_with(column, " ")).as_py() or 0.0 for column in columns.columns]
    joins = sum(shares) < _SPACED * count
    mended: list[list[str]] = []
    rejected: list[tuple[int, str, str]] = []
    numbers = [rows]
    for number, text, fields in broken:
        row: list[str] = []
        for field in fields:
            if joins and row and field.startswith(" "):
                row[-1] += delimiter + field
            else:
                row.append(field)
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
    return Delimited(columns, rows, rejected, len(mended))

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
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from kgqa.errors import DumpMalformedError
from kgqa.loaders.tabular_values import NULLS, as_json, value_type

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kgqa.graph.model import IntArray
    from kgqa.graph.schema import ValueType

_DELIMITERS = (",", "\t", ";", "|")
_SAMPLE = 1 << 16  # bytes that the dialect is found from
_BLOCK = 1 << 24  # bytes; a longer row is an error
_MOST_EXCESS = 2  # fields too many that all ways of joining are tried for
_FEW = 200  # distinct values up to which a column is a closed set
_SPACED = 0.01  # share of fields that begin with a space, below which none is meant to


@dataclass(frozen=True, slots=True)
class Broken:
    """A row with too many or too few fields: its number (the header is row 1), and its text."""

    row: int
    text: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delimited:
    """A table as it was read: columns of strings, the number of each row, rows that do not fit."""

    columns: pa.Table
    rows: IntArray
    broken: list[Broken]
    delimiter: str = ","
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
    return Delimited(*parsed, delimiter, note)


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
) -> tuple[pa.Table, IntArray, list[Broken]]:
    broken: list[Broken] = []

    def handle(row: arrow_csv.InvalidRow) -> str:
        fields = next(csv.reader([row.text], delimiter=delimiter), [])
        broken.append(Broken(row.number, row.text, tuple(fields)))
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
    rows = np.setdiff1d(numbers, np.array([row.row for row in broken], dtype=np.int64))
    return table, rows[: len(table)], broken


def repaired(found: Delimited) -> tuple[pa.Table, IntArray, list[tuple[Broken, str]]]:
    """Return a table with the broken rows that can be mended, and the others with the reason.

    A field that was split at an unquoted delimiter is joined again, where the types of the columns
    and the values that good rows have leave one way to do so. A field that begins with a space,
    where no field of a good row does, belongs to the field before it.
    """
    if not found.broken:
        return found.columns, found.rows, []
    count = found.columns.num_columns
    columns = [_Column(column) for column in found.columns.columns]
    spaced = sum(column.spaced for column in columns) / count
    fixed: list[list[str]] = []
    numbers: list[int] = []
    rejected: list[tuple[Broken, str]] = []
    for row in found.broken:
        reason = f"{len(row.fields)} fields in place of {count}"
        excess = len(row.fields) - count
        chosen = None
        if excess > 0 and len(found.columns):
            chosen = _joined(
                row.fields, excess, columns, found.delimiter, spaces_join=spaced < _SPACED
            )
            reason += "" if chosen else ", and no one way to join some of them fits the columns"
        if chosen is None:
            rejected.append((row, reason))
        else:
            fixed.append(chosen)
            numbers.append(row.row)
    if not fixed:
        return found.columns, found.rows, rejected
    arrays = [pa.array(cells, pa.string()) for cells in zip(*fixed, strict=True)]
    table = pa.concat_tables([found.columns, pa.table(arrays, names=found.columns.column_names)])
    rows = np.concatenate([found.rows, np.array(numbers, dtype=np.int64)])
    order = np.argsort(rows, kind="stable")
    return table.take(pa.array(order)), rows[order], rejected


class _Column:
    """What the good rows say of a column."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        texts = pc.unique(column)
        there = texts.filter(pc.invert(pc.is_in(texts, value_set=pa.array(NULLS))))
        self.kind: ValueType = value_type(there)
        self.spaced: float = pc.mean(pc.starts_with(column, " ").cast(pa.int8())).as_py() or 0.0
        repeats = len(texts) <= min(_FEW, len(column) // 2)
        self._known = frozenset(texts.to_pylist()) if repeats else frozenset()

    def fits(self, text: str) -> bool:
        text = text.strip()
        if self.kind == "text" or text in NULLS:
            return True
        return not as_json(pa.array([text]), self.kind)[1][0]

    def knows(self, text: str) -> bool:
        return text in self._known


def _joined(
    fields: tuple[str, ...],
    excess: int,
    columns: Sequence[_Column],
    delimiter: str,
    *,
    spaces_join: bool,
) -> list[str] | None:
    """Return the fields of a row with as many joined as are too many, None if that is a guess."""
    spaced = [place for place, text in enumerate(fields) if place and text.startswith(" ")]
    if spaces_join and len(spaced) == excess:
        row = _join(fields, spaced, delimiter)
        if all(column.fits(text) for column, text in zip(columns, row, strict=True)):
            return row
    if excess > _MOST_EXCESS:
        return None
    ways: list[tuple[int, list[str]]] = []
    for places in combinations(range(1, len(fields)), excess):
        row = _join(fields, places, delimiter)
        if all(column.fits(text) for column, text in zip(columns, row, strict=True)):
            known = sum(column.knows(text) for column, text in zip(columns, row, strict=True))
            ways.append((known, row))
    ways.sort(key=lambda way: -way[0])
    if not ways or (len(ways) > 1 and ways[0][0] == ways[1][0]):
        return None
    return ways[0][1]


def _join(fields: tuple[str, ...], places: Sequence[int], delimiter: str) -> list[str]:
    """Return the fields, those at ``places`` joined with the ones before them."""
    row: list[str] = []
    for place, text in enumerate(fields):
        if place in places:
            row[-1] += delimiter + text
        else:
            row.append(text)
    return row

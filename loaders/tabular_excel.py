"""Workbooks as Excel writes them: a table each sheet, with what people put round it.

The size that a sheet declares is not believed. What is above the header, merged cells, errors,
formulas that were never calculated and hidden sheets are read as far as they can be, and said.
"""

from __future__ import annotations

import re
import zipfile
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.errors import DumpMalformedError, UsageError, first_line
from kgqa.loaders.tabular_table import (
    Budget,
    Table,
    arrow_table,
    check_size,
    typed,
    unique_names,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    Row = tuple[int, list[Any]]  # number, cells

_MAX_UNPACKED = 1 << 29  # bytes of XML
_ERROR = re.compile(r"#(DIV/0!|N/A|NAME\?|NULL!|NUM!|REF!|VALUE!|GETTING_DATA|SPILL!|CALC!|FIELD!)")
_MAX_ROWS = 1 << 20
_HEADED = 20  # rows that the header is looked for in
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell ref="([A-Z]+)(\d+):([A-Z]+)(\d+)"')
_UNCALCULATED = re.compile(
    rb"<(?:\w+:)?f(?:\s[^>]*)?(?:/>|>[^<]*</(?:\w+:)?f>)\s*(?:<(?:\w+:)?v\s*/>|<v></v>)?\s*</(?:\w+:)?c>"
)


def read_excel(path: Path) -> Iterator[Table]:
    """Yield the sheets of a workbook as tables.

    Raises DumpMalformedError; UsageError if openpyxl is missing.
    """
    try:
        import openpyxl
    except ImportError:
        raise UsageError(
            f"{path.name} is read with the package openpyxl, which is not installed.",
            "pip install 'kgqa[excel]', or save the sheets as CSV.",
        ) from None
    _check_unpacked(path)
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        with closing(book), zipfile.ZipFile(path) as archive:
            several = len(book.sheetnames) > 1
            budget = Budget(path.name)
            for sheet in book.worksheets:
                name = sheet.title if several else path.name.split(".")[0]
                source = f"{path.name}, sheet {sheet.title}" if several else path.name
                marks = _Marks.of(archive, getattr(sheet, "_worksheet_path", ""))
                yield from _read_sheet(sheet, name, source, marks, budget)
    except (DumpMalformedError, MemoryError):
        raise
    except Exception as error:  # openpyxl raises what its XML parser and its own checks raise
        raise DumpMalformedError(
            f"{path.name} cannot be read as a workbook: {first_line(error)}.",
            "Open it in a spreadsheet program, and save it again.",
        ) from None


def _check_unpacked(path: Path) -> None:
    """Raise DumpMalformedError if a file is not a zip archive, or unpacks to too much."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, EOFError):
        raise DumpMalformedError(
            f"{path.name} is not a workbook, or only a part of one.",
            "Open it in a spreadsheet program, and save it as .xlsx or CSV.",
        ) from None
    if size > _MAX_UNPACKED:
        raise DumpMalformedError(
            f"{path.name} unpacks to {size >> 20:,} MB, and a workbook may have "
            f"{_MAX_UNPACKED >> 20:,}.",
            "Save its sheets as CSV, and load these.",
        )


@dataclass(slots=True)
class _Marks:
    """A sheet's merged cells (first and last row and column, from 0), and uncalculated formulas."""

    merged: list[tuple[int, int, int, int]] = field(default_factory=list)
    uncalculated: int = 0

    @classmethod
    def of(cls, archive: zipfile.ZipFile, part: str) -> _Marks:
        """Read the marks from the sheet's XML file ``part`` in the archive; none without it."""
        if part.lstrip("/") not in archive.namelist():
            return cls()
        text = archive.read(part.lstrip("/"))
        merged = [
            (int(top) - 1, int(bottom) - 1, _column_index(left), _column_index(right))
            for left, top, right, bottom in _MERGED.findall(text)
        ]
        return cls(merged, len(_UNCALCULATED.findall(text)))


def _column_index(letters: bytes) -> int:
    """Convert a column's letters to its index: ``A`` is 0."""
    number = 0
    for letter in letters:
        number = number * 26 + letter - ord("A") + 1
    return number - 1


def _read_sheet(
    sheet: Any, name: str, source: str, marks: _Marks, budget: Budget
) -> Iterator[Table]:
    """Read one sheet as a table: trim it, fill merged cells, find the header, note faults."""
    sheet.reset_dimensions()  # it may claim a million empty rows
    rows: list[Row] = []
    errors = 0
    for number, cells in enumerate(sheet.iter_rows(values_only=True)):
        budget.spend(0)
        if number >= _MAX_ROWS:
            break  # no spreadsheet program writes one
        row = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
        for place, cell in enumerate(row):
            if isinstance(cell, str) and (not cell or _ERROR.fullmatch(cell)):
                errors += bool(cell)
                row[place] = None
        while row and row[-1] is None:
            row.pop()
        if row:
            check_size(source, 1, len(row))
            budget.spend(len(row))
            rows.append((number, row))
    _fill_merged(rows, marks, budget)
    top = _header_row(rows)
    if len(rows) < top + 2:
        return
    width = max(len(row) for _, row in rows[top:])
    check_size(source, len(rows), width)
    given = ["" if cell is None else str(cell) for cell in rows[top][1]]
    used = [
        place
        for place in range(width)
        if given[place : place + 1] not in ([], [""])
        or any(len(row) > place and row[place] is not None for _, row in rows[top + 1 :])
    ]
    header = [given[place] if place < len(given) else "" for place in used]
    names, notes = unique_names(header)
    data = rows[top + 1 :]
    columns = {
        called: [row[place] if place < len(row) else None for _, row in data]
        for called, place in zip(names, used, strict=True)
    }
    table = arrow_table(name, source, typed(columns), np.array([n for n, _ in data]) + 1)
    said = [f"{source}: {note}" for note in notes]
    if sheet.sheet_state != "visible":
        said.append(f"{source} is hidden, and is read, too")
    for _, row in rows[:top]:
        text = " ".join(str(cell) for cell in row if cell is not None)
        said.append(f'{source}: above the header, not read: "{text[:80]}"')
    if marks.merged:
        said.append(
            f"{source} has {len(marks.merged):,} merged cells: each row that one spans has its "
            "value"
        )
    if errors:
        said.append(f"{source}: {errors:,} cells hold an error such as #DIV/0!, and are missing")
    if marks.uncalculated:
        said.append(
            f"{source}: {marks.uncalculated:,} formulas have no stored value, and are missing; "
            "open the workbook in a spreadsheet program and save it"
        )
    table.notes += [f"{sentence}." for sentence in said]
    yield table


def _fill_merged(rows: list[Row], marks: _Marks, budget: Budget) -> None:
    """Copy the value of a merged cell to each row that it spans."""
    at = dict(rows)
    last = max(at, default=0)
    for top, bottom, left, _ in marks.merged:
        value = at[top][left] if top in at and left < len(at[top]) else None
        if value is None:
            continue
        for number in range(top + 1, min(bottom, last) + 1):
            budget.spend(1)
            if (row := at.get(number)) is not None:
                row += [None] * (left + 1 - len(row))
                row[left] = value


def _header_row(rows: Sequence[Row]) -> int:
    """Return the index of the header: the first row about as wide as those below; else 0."""
    widths = [sum(cell is not None for cell in row) for _, row in rows[:_HEADED]]
    for place, width in enumerate(widths):
        below = sorted(widths[place + 1 :])
        if below and (width >= 2 or below[-1] < 2) and 2 * width >= below[len(below) // 2]:
            return place
    return 0

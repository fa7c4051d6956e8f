"""Cells of many types → triples: JSON lines (objects, or arrays of three) and Parquet.

JSON lines are gathered by their keys. ``orjson`` parses them; a line that it refuses, or that has a
number of more digits than it keeps, goes to ``json``, which knows such numbers, NaN, and halves of
surrogate pairs. Of Parquet, strings and integers are read by columns, other types by cells.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kgqa.errors import DumpMalformedError, UsageError, first_line
from kgqa.graph.names import is_storable
from kgqa.loaders.blocks import STDIN, Block
from kgqa.loaders.strings import as_text, each_once, json_strings, json_value, lines_at
from kgqa.loaders.triples_rows import (
    HALF,
    PARTS,
    Columns,
    TriplesPart,
    is_header,
    members_of,
    texts_of,
    written,
)
from kgqa.parallel import mapped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.loaders.base import Report
    from kgqa.loaders.triples_rows import Read
    from kgqa.progress import Progress

    Keys = tuple[str, ...] | None  # None: an array

_LONG_NUMBER = re.compile(rb"\d{19}")  # may be beyond 64 bits
_DIGITS = bytes.maketrans(b"123456789", b"000000000")


@dataclass(slots=True)
class _SameKeys:
    """The JSON objects of a block that have the same keys, as a table."""

    order: Columns | str  # or why they are not triples
    numbers: list[int] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    cells: list[Any] = field(default_factory=list)  # of all lines: row after row

    def add_to(self, part: TriplesPart) -> None:
        """Add the rows to a part."""
        assert isinstance(self.order, Columns)
        part.add_table(
            self.order, self._column, np.array(self.numbers), lambda row: self.lines[row].decode()
        )

    def _column(self, place: int, as_json: bool) -> Read:
        """Return the column at index ``place`` as texts or as JSON, with its faults."""
        assert isinstance(self.order, Columns)
        cells = self.cells[place :: self.order.count]
        return members_of(cells) if as_json else texts_of(cells)


def read_json(block: Block, columns: str | None = None) -> TriplesPart:
    """Parse the JSON lines of a block as triples; lines of another form are rejected.

    ``columns``: the names of an array's values, with commas; head, relation, tail if None.
    """
    part = TriplesPart(block.source)
    array = Columns(columns.split(",") if columns else PARTS)
    careful = b"0" * 19 in bytes(block.data).translate(_DIGITS)
    tables: dict[Keys, _SameKeys] = {None: _SameKeys(array)}
    for number, raw in lines_at(block, np.flatnonzero(part.decodable(block))):
        try:
            value = json.loads(raw) if careful and _LONG_NUMBER.search(raw) else json_value(raw)
        except (ValueError, RecursionError):
            part.reject(number, "no JSON", raw.decode())
            continue
        if isinstance(value, dict):
            keys: Keys = tuple(value)
            values = list(value.values())
        elif isinstance(value, list):
            keys, values = None, value
        else:
            part.reject(number, "neither a JSON object nor an array", raw.decode())
            continue
        table = tables.get(keys)
        if table is None:
            table = tables[keys] = _SameKeys(_columns_of(keys or ()))
        if isinstance(table.order, str):
            part.reject(number, table.order, raw.decode())
        elif len(values) != table.order.count:
            reason = f"{len(values)} fields in place of {table.order.count}"
            part.reject(number, reason, raw.decode())
        else:
            table.numbers.append(number)
            table.lines.append(raw)
            table.cells += values
    for table in tables.values():
        if table.numbers:
            table.add_to(part)
    part.find_ends()
    return part


def _columns_of(keys: tuple[str, ...]) -> Columns | str:
    """Return the columns of objects with these keys; the reason, if they are not triples."""
    if not is_header(keys):
        return "object without head, relation and tail"
    return Columns(keys) if all(map(is_storable, keys)) else HALF


_BATCH_ROWS = 1 << 16
_DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError)


def read_parquet(
    source: Path, report: Report, progress: Progress, columns: str | None = None
) -> Iterator[TriplesPart]:
    """Yield parts of some ten thousand rows each of a Parquet file.

    ``columns`` renames its columns, in their order. ``report.lines`` counts the rows. Raises
    DumpMalformedError if the file is damaged or not Parquet, UsageError if the columns do not fit.
    """
    if source == STDIN:
        raise UsageError(
            "Parquet cannot be read from standard input.", "Save it as a file and name that."
        )
    try:
        file = pq.ParquetFile(source)
    except _DAMAGE as error:
        reason = first_line(error)
        raise DumpMalformedError(f"{source} is not a Parquet file: {reason}.") from None
    with file, progress.task(f"reading {source.name}", file.metadata.num_rows, "rows") as task:
        names = file.schema_arrow.names
        order = Columns(columns.split(",") if columns else names)
        if order.count != len(names):
            raise UsageError(
                f"{source} has {len(names)} columns ({', '.join(names)}), and `columns` names"
                f" {order.count}.",
                "Name all of them in their order, with _ for one that is not wanted.",
            )

        def read(numbered: tuple[int, pa.RecordBatch]) -> tuple[TriplesPart, int]:
            """Convert one numbered batch; also return its number of rows."""
            first, batch = numbered
            return _read(source.name, batch, first, order), len(batch)

        number = 0
        try:
            for part, rows in mapped(read, _with_first_row(file.iter_batches(_BATCH_ROWS))):
                yield part
                number += rows
                report.lines += rows
                task.advance(rows)
        except _DAMAGE as error:
            reason = first_line(error)
            raise DumpMalformedError(
                f"{source} is damaged after row {number}: {reason}.", "Fetch it again."
            ) from None


def _with_first_row(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches with the number of their first row, from 1."""
    number = 1
    for batch in batches:
        yield number, batch
        number += len(batch)


def _read(source: str, batch: pa.RecordBatch, first: int, order: Columns) -> TriplesPart:
    """Convert a batch of rows to a part; ``first``: the number of its first row."""
    part = TriplesPart(source)
    columns = [_check_utf8(column) for column in batch.columns]
    part.add_table(
        order,
        lambda place, as_json: (_json_cells if as_json else _text_cells)(columns[place][0]),
        first + np.arange(len(batch)),
        lambda row: _row_text(batch, row),
        {row: reason for _, wrong in columns for row, reason in wrong.items()},
    )
    part.find_ends()
    return part


def _check_utf8(column: pa.Array) -> Read:
    """Return a column with plain strings, and faults of cells that are not UTF-8."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not _is_text(column.type):
        return column, {}
    raw = column.cast(pa.binary())
    texts, good = as_text(raw.fill_null(b""))
    faults = dict.fromkeys(np.flatnonzero(~good).tolist(), "not UTF-8")
    return texts, faults


def _is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is one of strings."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(kind) for is_kind in kinds)


def _text_cells(column: pa.Array) -> Read:
    """Return a column as ids or names, with faults by row; a missing cell is the empty text."""
    if _is_text(column.type):
        return column, {}
    if pa.types.is_integer(column.type):
        return column.cast(pa.string()).fill_null(""), {}
    return texts_of(column.to_pylist())


def _json_cells(column: pa.Array) -> Read:
    """Return a column as JSON, with faults by row; null for a missing cell."""
    if _is_text(column.type):
        return json_strings(column), {}
    if pa.types.is_integer(column.type):
        return column.cast(pa.string()), {}
    if pa.types.is_floating(column.type):  # as text that the same number is read back from
        texts = column.cast(pa.float64()).cast(pa.string())
        return each_once(texts, lambda text: None if text is None else written(float(text))), {}
    return members_of(column.to_pylist())


def _row_text(batch: pa.RecordBatch, row: int) -> str:
    """Format a row as Python writes a tuple, for a reject."""
    cells: list[Any] = []
    for column in batch.slice(row, 1).columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if _is_text(column.type) and column.null_count == 0:
            cells.append(column.cast(pa.binary())[0].as_py().decode(errors="backslashreplace"))
        else:
            cells.append(column[0].as_py())
    return repr(tuple(cells))

"""Parquet → triples: row groups by columns, and any odd row by itself.

What it does not do: read a file that cannot be sought in, such as standard input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.loaders.blocks import STDIN, mapped
from kgqa.loaders.tables import Columns, written
from kgqa.loaders.triples_part import Part, add_fields
from kgqa.loaders.triples_text import each_once, json_strings, mask_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.graph.model import BoolArray
    from kgqa.loaders.base import Report
    from kgqa.loaders.tables import Row
    from kgqa.progress import Progress

_BATCH_ROWS = 1 << 16


def read_parquet(
    source: Path, report: Report, progress: Progress, columns: str | None = None
) -> Iterator[Part]:
    """Yield what each some ten thousand rows of a Parquet file hold.

    ``columns`` names its columns anew, in their order. ``report.lines`` counts the rows. Raises
    DumpMalformedError where the file is none or damaged, UsageError where the columns do not fit.
    """
    if source == STDIN:
        raise UsageError(
            "Parquet cannot be read from standard input.", "Save it as a file and name that."
        )
    try:
        file = pq.ParquetFile(source)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DumpMalformedError(f"{source} is no Parquet file: {reason}.") from None
    with file, progress.task(f"reading {source.name}", file.metadata.num_rows, "rows") as task:
        names = file.schema_arrow.names
        order = Columns(columns.split(",") if columns else names)
        if order.count != len(names):
            raise UsageError(
                f"{source} has {len(names)} columns ({', '.join(names)}), and --columns names"
                f" {order.count}.",
                "Name all of them in their order, with _ for one that is not wanted.",
            )

        def read(numbered: tuple[int, pa.RecordBatch]) -> tuple[Part, int]:
            first, batch = numbered
            return _read(source.name, batch, first, order), len(batch)

        number = 0
        try:
            for part, rows in mapped(read, _numbered(file.iter_batches(_BATCH_ROWS))):
                yield part
                number += rows
                report.lines += rows
                task.advance(rows)
        except (pa.ArrowInvalid, OSError) as error:
            reason = str(error).splitlines()[0]
            raise DumpMalformedError(
                f"{source} is damaged after row {number}: {reason}.", "Fetch it again."
            ) from None


def _numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    number = 1
    for batch in batches:
        yield number, batch
        number += len(batch)


def _read(source: str, batch: pa.RecordBatch, first: int, order: Columns) -> Part:
    part = Part(source)
    good = np.ones(len(batch), dtype=np.bool_)
    for column in batch.columns:
        good &= _readable(column)
    texts: dict[int, Any] = {place: _strings(batch.column(place)) for place in order.places}
    for column in texts.values():
        if column is None:  # of a type that no id has, or that Python writes in its own way
            good[:] = False
            break
        good &= mask_of(column.is_valid()) & ~mask_of(pc.match_substring(column, "\0"))
    rows = np.flatnonzero(good)

    def text(place: int, mask: BoolArray | None) -> pa.Array:
        return texts[place].take(pa.array(rows if mask is None else rows[mask]))

    def member(place: int, mask: BoolArray) -> pa.Array:
        return _members(batch.column(place).take(pa.array(rows[mask])))

    if len(rows):
        unsure = add_fields(part, order, text, member)
        good[rows[unsure]] = False
    found: list[Row] = []
    careful = np.flatnonzero(~good)
    cells = [_cells(column.take(pa.array(careful))) for column in batch.columns]
    for row, fields in zip(careful.tolist(), zip(*cells, strict=True), strict=True):
        try:
            found.append(order.row([_decoded(cell) for cell in fields]))
        except ValueError as error:
            shown = repr(tuple(_decoded(cell, "backslashreplace") for cell in fields))
            reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
            part.rejects.append((first + row, reason, shown))
    part.add_rows(found)
    part.find_ends()
    return part


class _Raw(bytes):
    """A text that may not be UTF-8: the file says that it is one, and nothing has checked it."""


def _cells(column: pa.Array) -> list[Any]:
    if not _is_text(column.type):
        cells: list[Any] = column.to_pylist()
        return cells
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return [None if cell is None else _Raw(cell) for cell in plain.cast(pa.binary()).to_pylist()]


def _decoded(cell: Any, errors: str = "strict") -> Any:
    return cell.decode(errors=errors) if isinstance(cell, _Raw) else cell


def _readable(column: pa.Array) -> BoolArray:
    """Return which cells are no text that is not UTF-8."""
    good = np.ones(len(column), dtype=np.bool_)
    if _is_text(column.type):
        dictionary = pa.types.is_dictionary(column.type)
        plain = column.cast(column.type.value_type) if dictionary else column
        raw = plain.cast(pa.binary())
        try:
            raw.cast(pa.string())
        except pa.ArrowInvalid:
            for row, cell in enumerate(raw.to_pylist()):
                try:
                    (cell or b"").decode()
                except UnicodeDecodeError:
                    good[row] = False
    return good


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(kind) for is_kind in kinds)


def _strings(column: pa.Array) -> pa.Array | None:
    """Return a column of strings or integers as strings, None where it is of another type."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (_is_text(kind) or pa.types.is_integer(kind)):
        return None
    if pa.types.is_dictionary(column.type):
        column = column.cast(kind)
    return column.cast(pa.string())


def _members(column: pa.Array) -> pa.Array:
    """Return a column as JSON values, null for what is missing."""
    strings = _strings(column)
    if strings is not None:
        return json_strings(strings) if _is_text(column.type) else strings
    if pa.types.is_floating(column.type):  # as text that the same number is read back from
        texts = column.cast(pa.float64()).cast(pa.string())
        return each_once(texts, lambda text: written(float(text)))
    return pa.array([written(cell) for cell in column.to_pylist()], type=pa.string())

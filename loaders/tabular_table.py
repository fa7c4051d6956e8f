"""A table in memory, whatever file it came from, and the bounds that every input has.

A file may claim any size. What is larger than the bounds is refused by its name, before it fills
the memory; the bounds are far above what a graph of one machine is made from.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import DumpMalformedError
from kgqa.loaders.tabular_values import as_cells, count_infinite, why_left_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kgqa.graph.model import IntArray

MAX_TABLES = 2_000  # each is compared with each other
MAX_COLUMNS = 10_000
MAX_CELLS = 400_000_000
MAX_TEXT = 1 << 24  # bytes of one cell
MAX_SECONDS = 600.0  # for a form whose size does not bound the time that reading it takes
_ABOUT = b"kgqa"  # key of a schema's metadata: what a table's source declares
_MOST_NAMED = 5  # columns that a note names


@dataclass(slots=True)
class Table:
    """A table in memory; ``rows``: the number of each row in ``source``.

    ``key``: the declared primary key columns. ``foreign``: column -> (table, column) that it is
    declared to reference; ``a/b`` are two columns together. ``broken``: number, reason and text of
    each row that does not fit. ``left_out``: columns that are not read. ``notes``: sentences for
    the user on how it was read.
    """

    name: str
    source: str
    columns: dict[str, pa.ChunkedArray]
    rows: IntArray
    key: tuple[str, ...] = ()
    foreign: dict[str, tuple[str, str]] = field(default_factory=dict)
    broken: list[tuple[int, str, str]] = field(default_factory=list)
    mended: int = 0
    left_out: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    def compose(self, name: str) -> None:
        """Add the column ``a/b``, made of two or more columns that exist."""
        parts = [self.columns.get(part) for part in name.split("/")]
        texts = [p.combine_chunks() for p in parts if p is not None and p.type == pa.string()]
        if name not in self.columns and len(texts) == len(parts) > 1:
            joined = pc.binary_join_element_wise(*texts, "/")
            self.columns[name] = pa.chunked_array([joined])


@dataclass(slots=True)
class Budget:
    """The cells and the time that reading one input may still use. ``source``: for the error."""

    source: str
    seconds: float = MAX_SECONDS
    cells: int = MAX_CELLS
    _started: float = field(default_factory=time.monotonic)

    def spend(self, cells: int) -> None:
        """Count cells read. Raises DumpMalformedError if they are too many, or time is over."""
        self.cells -= cells
        if self.cells < 0:
            raise DumpMalformedError(
                f"{self.source} has more than {MAX_CELLS:,} cells.", "Split it into several tables."
            )
        if self.expired:
            raise DumpMalformedError(
                f"{self.source} was not read within {self.seconds:g} seconds.",
                "Save the table as CSV or Parquet, and load that.",
            )

    @property
    def expired(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() - self._started > self.seconds


def check_tables(tables: int) -> None:
    """Raise DumpMalformedError if there are more tables than the limit."""
    if tables > MAX_TABLES:
        raise DumpMalformedError(
            f"There are more than {MAX_TABLES:,} tables, the most that are loaded at a time.",
            "Name those that are wanted, or join tables of the same columns.",
        )


def check_size(source: str, rows: int, columns: int) -> None:
    """Raise DumpMalformedError if a table's declared size exceeds the limits."""
    if columns > MAX_COLUMNS:
        raise DumpMalformedError(
            f"{source} has {columns:,} columns, and a table may have {MAX_COLUMNS:,}.",
            "Make rows of its columns, or leave some out.",
        )
    if rows * columns > MAX_CELLS:
        raise DumpMalformedError(
            f"{source} has {rows:,} rows of {columns:,} columns, and a table may have "
            f"{MAX_CELLS:,} cells.",
            "Split it into several tables.",
        )


def unique_names(header: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return unique column names, and a sentence for each that was changed.

    >>> unique_names(["id", "", "id"])
    (['id', 'column 2', 'id 2'], ['column 2 has no name', '2 columns are called "id"'])
    """
    names: dict[str, None] = {}
    notes: dict[str, None] = {}
    for place, given in enumerate(header, 1):
        name = called = given.strip()
        if not called:
            name = called = f"column {place}"
            notes[f"{called} has no name"] = None
        number = 1
        while name in names:
            number += 1
            name = f"{called} {number}"
        if number > 1:
            notes.pop(f'{number - 1} columns are called "{called}"', None)
            notes[f'{number} columns are called "{called}"'] = None
        names[name] = None
    return list(names), list(notes)


def arrow_table(name: str, source: str, table: pa.Table, rows: IntArray | None = None) -> Table:
    """Convert an Arrow table to a :class:`Table`; its metadata may declare keys (:func:`declared`).

    A column without values, or with unreadable ones, and empty rows are left out, with a note; a
    struct becomes a column for each member. ``rows``: the rows' numbers, from 1 if None.
    """
    check_size(source, *table.shape)
    try:
        about = json.loads((table.schema.metadata or {}).get(_ABOUT, b"{}"))
        made = Table(
            name,
            str(about.get("source") or source),
            {},
            np.arange(1, len(table) + 1) if rows is None else rows,
            tuple(about.get("key", ())),
            {column: (to[0], to[1]) for column, to in about.get("foreign", {}).items()},
            notes=[str(note) for note in about.get("notes", ())],
        )
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        raise DumpMalformedError(
            f"{source} declares keys that cannot be read.",
            'Remove the entry "kgqa" from the metadata of its schema.',
        ) from None
    while any(pa.types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()  # ``address.city``
        check_size(source, *table.shape)
    left_out: dict[str, list[str]] = {}
    names, notes = unique_names(table.column_names)
    for column, values in zip(names, table.columns, strict=True):
        cells = as_cells(values)
        if cells is None:
            left_out.setdefault(why_left_out(values), []).append(column)
        elif cells.null_count == len(cells) and len(table):
            left_out.setdefault("no value", []).append(column)
        else:
            made.columns[column] = cells
            if count := count_infinite(values):
                made.notes.append(f"{made.source}: left out, infinite: {count:,} of {column}.")
    made.notes += [f"{made.source}: {note}." for note in notes]
    made.left_out = {column for columns in left_out.values() for column in columns}
    if not len(table):
        made.notes.append(f"{made.source} has no row.")
        left_out = {}
    for reason, columns in left_out.items():
        shown = ", ".join(columns[:_MOST_NAMED]) + (" …" if len(columns) > _MOST_NAMED else "")
        made.notes.append(f"{made.source}: left out, with {reason}: {shown}.")
    _drop_empty_rows(made)
    return made


def _drop_empty_rows(table: Table) -> None:
    """Drop the rows in which no cell has a value, and note their number."""
    columns = table.columns.values()
    if not columns or not all(column.null_count for column in columns):
        return
    filled = reduce(pc.or_, (column.is_valid() for column in columns)).combine_chunks()
    if empty := len(filled) - filled.true_count:
        table.columns = {name: column.filter(filled) for name, column in table.columns.items()}
        table.rows = table.rows[filled.to_numpy(zero_copy_only=False)]
        table.notes.append(f"{table.source}: {empty:,} rows without a value are left out.")


def declared(
    table: pa.Table,
    key: Iterable[str],
    foreign: Mapping[str, tuple[str, str]],
    source: str = "",
    notes: Iterable[str] = (),
) -> pa.Table:
    """Return an Arrow table with metadata that declare its keys, source, and notes."""
    about = {"key": list(key), "foreign": dict(foreign), "source": source, "notes": list(notes)}
    return table.replace_schema_metadata({_ABOUT: json.dumps(about).encode()})


def typed(columns: Mapping[str, list[Any]]) -> pa.Table:
    """Build an Arrow table from lists of Python values; a column of mixed types becomes text.

    Bytes in such a column become null.
    """
    arrays = {}
    for name, values in columns.items():
        try:
            arrays[name] = pa.array(values)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            texts = [None if v is None or isinstance(v, bytes) else _text(v) for v in values]
            arrays[name] = pa.array(texts, pa.string())
    return pa.table(arrays)


def _text(value: object) -> str:
    """Return a value as text, durations in ISO 8601."""
    if isinstance(value, timedelta):
        return f"PT{value.total_seconds():g}S"
    return str(value)

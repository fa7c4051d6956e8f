"""A table: its columns as strings or lists of them, its rows' numbers, and the keys it declares."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.loaders.tabular_values import as_cells

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kgqa.graph.model import IntArray
    from kgqa.loaders.tabular_csv import Broken

_ABOUT = b"kgqa"  # key of a schema's metadata: what a table's source declares


@dataclass(slots=True)
class Table:
    """A table; ``rows``: the number of each row in ``source``.

    ``key``: columns that are declared as the primary key. ``foreign``: column -> (table, column)
    that it is declared to point to; ``a/b`` are two columns together. ``left_out``: columns that
    hold bytes or embeddings.
    """

    name: str
    source: str
    columns: dict[str, pa.ChunkedArray]
    rows: IntArray
    key: tuple[str, ...] = ()
    foreign: dict[str, tuple[str, str]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    broken: list[tuple[Broken, str]] = field(default_factory=list)
    mended: int = 0
    note: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    def compose(self, name: str) -> None:
        """Add the column ``a/b`` made of two or more others, if they are there."""
        parts = [self.columns.get(part) for part in name.split("/")]
        texts = [p.combine_chunks() for p in parts if p is not None and p.type == pa.string()]
        if name not in self.columns and len(texts) == len(parts) > 1:
            joined = pc.binary_join_element_wise(*texts, "/")
            self.columns[name] = pa.chunked_array([joined])


def arrow_table(name: str, source: str, table: pa.Table, rows: IntArray | None = None) -> Table:
    """Return an Arrow table as a table; its metadata may declare keys (see :func:`declared`)."""
    about = json.loads((table.schema.metadata or {}).get(_ABOUT, b"{}"))
    made = Table(
        name,
        about.get("source") or source,
        {},
        np.arange(1, len(table) + 1) if rows is None else rows,
        tuple(about.get("key", ())),
        {column: (to[0], to[1]) for column, to in about.get("foreign", {}).items()},
    )
    for column in table.column_names:
        cells = as_cells(table.column(column))
        if cells is None:
            if table.column(column).null_count < len(table):
                made.left_out.append(column)
        elif cells.null_count < len(cells) or not len(table):
            made.columns[column] = cells
    return made


def declared(
    table: pa.Table,
    key: Iterable[str],
    foreign: Mapping[str, tuple[str, str]],
    source: str = "",
) -> pa.Table:
    """Return an Arrow table whose metadata declare its keys, and where it comes from."""
    about = json.dumps({"key": list(key), "foreign": dict(foreign), "source": source}).encode()
    return table.replace_schema_metadata({_ABOUT: about})


def typed(columns: Mapping[str, list[Any]]) -> pa.Table:
    """Return lists of Python values as a table; a column of several types becomes text."""
    arrays = {}
    for name, values in columns.items():
        try:
            arrays[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            texts = [None if v is None or isinstance(v, bytes) else str(v) for v in values]
            arrays[name] = pa.array(texts, pa.string())
    return pa.table(arrays)

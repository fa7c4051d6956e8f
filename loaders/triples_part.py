"""What a block of triples gives: its edges by columns, the rows read one by one, and the others.

What it does not do: know the form that the block is in.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.model import EDGE_SCHEMA
from kgqa.loaders.triples_text import NO_TEXT, is_text, json_objects

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgqa.graph.model import BoolArray
    from kgqa.loaders.tables import Columns, Row

_RELATION = pa.dictionary(pa.int32(), pa.string())
EDGES = EDGE_SCHEMA.set(1, pa.field("relation", _RELATION, nullable=False))


@dataclass(slots=True)
class Part:
    """What a block holds.

    ``edges``: batches of ``EDGES``. ``ends``: the ids of their ends that are no values, each once.
    ``labels`` (id, text, rank), ``types`` (id, type), ``values`` (id, name) and ``described`` (the
    ids that have a label or a type) come from N-Triples alone.
    """

    source: str
    edges: list[pa.RecordBatch] = field(default_factory=list)
    ends: pa.Array = field(default_factory=lambda: NO_TEXT)
    dropped: Counter[str] = field(default_factory=Counter)
    rejects: list[tuple[int, str, str]] = field(default_factory=list)  # line, reason, text
    labels: list[pa.RecordBatch] = field(default_factory=list)
    types: list[pa.RecordBatch] = field(default_factory=list)
    values: list[pa.RecordBatch] = field(default_factory=list)
    described: pa.Array = field(default_factory=lambda: NO_TEXT)

    def add_rows(self, rows: list[Row]) -> None:
        """Add edges that were read one by one."""
        if rows:
            head, relation, tail, about = (
                pa.array(column, type=pa.string()) for column in zip(*rows, strict=True)
            )
            self.add_columns(head, relation, tail, about)

    def add_columns(
        self, head: pa.Array, relation: pa.Array, tail: pa.Array, properties: pa.Array
    ) -> None:
        """Add edges by columns of strings."""
        if len(head):
            columns = [head, relation.dictionary_encode(), tail, properties]
            self.edges.append(pa.RecordBatch.from_arrays(columns, schema=EDGES))

    def find_ends(self) -> None:
        """Set ``ends`` to those of all edges."""
        if self.edges:
            ends = [batch.column(name) for batch in self.edges for name in ("head", "tail")]
            self.ends = pc.unique(pa.chunked_array(ends))


def add_fields(
    part: Part,
    columns: Columns,
    text: Callable[[int, BoolArray | None], pa.Array],
    member: Callable[[int, BoolArray], pa.Array],
) -> BoolArray:
    """Add the rows whose three parts are texts; return which rows were left for a closer look.

    ``text(place, None)`` gives a column of strings, ``member(place, mask)`` a property's JSON for
    some rows.
    """
    parts = [text(place, None) for place in columns.places]
    good = is_text(parts[0]) & is_text(parts[1]) & is_text(parts[2])
    if not good.all():
        parts = [column.filter(pa.array(good)) for column in parts]
    names = [name for _, name in columns.others]
    if len(set(names)) < len(names):  # of two equal names the last value stays: see Columns.row
        return np.ones(len(good), dtype=np.bool_)
    members = [member(place, good) for place, _ in columns.others]
    head, relation, tail = parts
    part.add_columns(head, relation, tail, json_objects(names, members, len(head)))
    return ~good

"""What a block of triples gives: edges, the ends of edges, and the lines that are not triples."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.model import EDGE_SCHEMA
from kgqa.loaders.delimited import lines_at, undecodable, why_undecodable
from kgqa.loaders.strings import NO_TEXT, has_nul, is_text, json_objects
from kgqa.loaders.tables import PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.loaders.blocks import Block
    from kgqa.loaders.tables import Columns

    Read = tuple[pa.Array, Mapping[int, str]]  # a column, and what is wrong with some of its rows

BLANK = "blank line or comment"
_RELATION = pa.dictionary(pa.int32(), pa.string())
EDGES = EDGE_SCHEMA.set(1, pa.field("relation", _RELATION, nullable=False))


@dataclass(slots=True)
class Part:
    """What a block holds.

    ``edges``: batches of ``EDGES``. ``ends``: the ids of their ends that are not values, each once.
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

    def add_table(
        self,
        columns: Columns,
        text: Callable[[int], Read],
        member: Callable[[int], Read],
        numbers: IntArray,
        line: Callable[[int], str],
        faults: Mapping[int, str] | None = None,
    ) -> None:
        """Add the rows of a table, of which ``columns`` says what stands in which column.

        ``text`` returns a column as ids or names, ``member`` as JSON, null for what is missing;
        both with what is wrong with some rows. ``faults``: rows that are wrong anyway. ``line``
        returns a row as it stands in the file, for a reject; a blank one is counted.
        """
        reasons = dict(faults or {})
        parts: list[Any] = []
        by_name: dict[str, Any] = {}
        for place in columns.places:
            column, wrong = text(place)
            parts.append(column)
            reasons = {**wrong, **reasons}
        for place, name in columns.others:  # of two equal names the last one counts
            column, wrong = member(place)
            by_name[name] = pc.coalesce(column, by_name[name]) if name in by_name else column
            reasons = {**wrong, **reasons}
        for column in parts:
            for row in np.flatnonzero(has_nul(column)).tolist():
                reasons.setdefault(row, "NUL character")
        for name, column in zip(PARTS, parts, strict=True):
            for row in np.flatnonzero(~is_text(column)).tolist():
                reasons.setdefault(row, f"{name} is empty")
        good = np.ones(len(numbers), dtype=np.bool_)
        if reasons:
            for row, reason in sorted(reasons.items()):
                self.reject(int(numbers[row]), reason, line(row))
                good[row] = False
            kept = pa.array(good)
            parts = [column.filter(kept) for column in parts]
            by_name = {name: column.filter(kept) for name, column in by_name.items()}
        head, relation, tail = parts
        self.add_edges(head, relation, tail, json_objects(by_name, len(head)))

    def add_edges(
        self, head: pa.Array, relation: pa.Array, tail: pa.Array, properties: pa.Array
    ) -> None:
        """Add edges by columns of strings."""
        if len(head):
            columns = [head, relation.dictionary_encode(), tail, properties]
            self.edges.append(pa.RecordBatch.from_arrays(columns, schema=EDGES))

    def reject(self, number: int, reason: str, line: str) -> None:
        """Reject a line, or count it if it is blank."""
        if line.strip():
            self.rejects.append((number, reason, line))
        else:
            self.dropped[BLANK] += 1

    def decodable(self, block: Block, ends: IntArray, wanted: BoolArray | None = None) -> BoolArray:
        """Return which lines of a block, or of those ``wanted``, are UTF-8; reject the others."""
        good = np.ones(len(ends), dtype=np.bool_) if wanted is None else wanted.copy()
        bad = undecodable(block, ends)
        bad = bad[good[bad]]
        for number, raw in lines_at(block, ends, bad):
            shown = raw.decode(errors="backslashreplace")
            self.rejects.append((number, why_undecodable(raw), shown))
        good[bad] = False
        return good

    def find_ends(self) -> None:
        """Set ``ends`` to those of all edges that are not values."""
        if self.edges:
            ends = [batch.column(name) for batch in self.edges for name in ("head", "tail")]
            self.ends = pc.unique(pa.chunked_array(ends))
        if self.values:
            values = pc.unique(pa.chunked_array([batch.column("id") for batch in self.values]))
            self.ends = self.ends.filter(pc.invert(pc.is_in(self.ends, value_set=values)))

"""Rows gathered into Arrow batches of the graph's schemas. Knows no dump."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kgqa.graph.model import (
    EDGE_SCHEMA,
    ENTITY_SCHEMA,
    RELATION_SCHEMA,
    EdgeBatch,
    EntityBatch,
    Kind,
    RelationBatch,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypeAlias

    EntityRow: TypeAlias = tuple[
        str, str | None, Sequence[str] | None, Kind, Sequence[str] | None, str | None
    ]
    EdgeRow: TypeAlias = tuple[str, str, str, str | None]

BATCH_ROWS = 50_000


def entity_batches(rows: Iterable[EntityRow]) -> Iterator[EntityBatch]:
    """Yield batches of (id, name, aliases, kind, types, properties as JSON)."""
    for columns in _columns(rows, ENTITY_SCHEMA):
        yield EntityBatch(columns)


def relation_batches(
    rows: Iterable[tuple[str, str] | tuple[str, str, str | None]],
) -> Iterator[RelationBatch]:
    """Yield batches of (id, name), or (id, name, inverse)."""
    padded = (row if len(row) == 3 else (*row, None) for row in rows)
    for columns in _columns(padded, RELATION_SCHEMA):
        yield RelationBatch(columns)


def edge_batches(rows: Iterable[EdgeRow]) -> Iterator[EdgeBatch]:
    """Yield batches of (head, relation, tail, properties as JSON)."""
    for columns in _columns(rows, EDGE_SCHEMA):
        yield EdgeBatch(columns)


def _columns(rows: Iterable[tuple[object, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    gathered: list[tuple[object, ...]] = []
    for row in rows:
        gathered.append(row)
        if len(gathered) == BATCH_ROWS:
            yield _batch(gathered, schema)
            gathered = []
    if gathered:
        yield _batch(gathered, schema)


def _batch(rows: list[tuple[object, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

"""Batches of the graph's schemas from the columns that a loader has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
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
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    Column: TypeAlias = "pa.Array | Sequence[object]"


def entity_batch(ids: Column, **columns: Column) -> EntityBatch:
    """Return entities with some of the columns of ``ENTITY_SCHEMA``; the others are null.

    Their kind is ``ENTITY`` if no ``kind`` is given.
    """
    kinds = np.full(len(ids), Kind.ENTITY, dtype=np.uint8)
    return EntityBatch(_batch(ENTITY_SCHEMA, {"id": ids, "kind": pa.array(kinds), **columns}))


def edge_batch(heads: Column, relation: str, tails: Column) -> EdgeBatch:
    """Return edges of one relation, without properties."""
    relations = pa.repeat(pa.scalar(relation), len(heads))
    return EdgeBatch(_batch(EDGE_SCHEMA, {"head": heads, "relation": relations, "tail": tails}))


def relation_batch(names: Mapping[str, str]) -> RelationBatch:
    """Return relations by their names, without inverses."""
    return RelationBatch(_batch(RELATION_SCHEMA, {"id": list(names), "name": list(names.values())}))


def _batch(schema: pa.Schema, columns: Mapping[str, Column]) -> pa.RecordBatch:
    count = len(columns[schema.names[0]])
    arrays = []
    for each in schema:
        column = columns.get(each.name)
        if column is None:
            column = pa.nulls(count, each.type)
        elif not isinstance(column, pa.Array):
            column = pa.array(column, type=each.type)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

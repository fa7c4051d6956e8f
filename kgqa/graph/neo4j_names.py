"""Normalised names grouped as Neo4j keeps them: one node a name, with the keys that bear it.

What this does not do: normalise (``names``) or look up (``neo4j_store``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.model import NAME_SCHEMA
from kgqa.graph.neo4j_store import NAME_BYTES, indexed_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kgqa.graph.write import GraphSource

GROUPED_SCHEMA = pa.schema([("norm", pa.string()), ("keys", pa.list_(pa.int64()))])


def grouped_names(source: GraphSource) -> Iterator[pa.RecordBatch]:
    """Yield ``GROUPED_SCHEMA``: each name once, with its keys ascending.

    A name that is too long for an index stands there as its hash.
    """
    left = NAME_SCHEMA.empty_table()
    for batch in source.name_batches():
        new_rows = pa.Table.from_batches([batch]).select(NAME_SCHEMA.names).cast(NAME_SCHEMA)
        rows = pa.concat_tables([left, new_rows]).combine_chunks()
        if not rows.num_rows:
            continue
        norms = rows.column("norm").chunk(0)
        new = pc.not_equal(norms.slice(1), norms.slice(0, len(norms) - 1)).to_numpy(
            zero_copy_only=False
        )
        starts = np.concatenate(([0], np.flatnonzero(new) + 1))
        # the last name may go on in the next batch
        left = rows.slice(int(starts[-1]))
        if len(starts) > 1:
            yield _grouped(rows.slice(0, int(starts[-1])), starts)
    if left.num_rows:
        yield _grouped(left, np.asarray([0, left.num_rows]))


def _grouped(rows: pa.Table, starts: np.ndarray) -> pa.RecordBatch:
    """Group rows; ``starts`` says where each name begins, and last where all ends."""
    norms = rows.column("norm").combine_chunks().take(pa.array(starts[:-1]))
    long = pc.greater(pc.binary_length(norms), NAME_BYTES)
    if pc.any(long).as_py():
        hashes = [indexed_name(norm) for norm in norms.filter(long).to_pylist()]
        norms = pc.replace_with_mask(norms, long, pa.array(hashes, pa.string()))
    keys = rows.column("key").combine_chunks()
    lists = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), keys)
    return pa.RecordBatch.from_arrays([norms, lists], schema=GROUPED_SCHEMA)

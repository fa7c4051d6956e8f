"""How a KG lies in Neo4j: labels, names grouped by their norm, and a check of what it can hold."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import GraphError
from kgqa.graph.model import NAME_SCHEMA, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.graph.write import GraphSource

NAME_BYTES = 1_000  # Neo4j indexes no value above about 8 kB; longer names are kept by their hash
MAX_TYPES = 65_535  # relationship types that one Neo4j database can hold
MAX_ID_BYTES = 8_000  # an index entry of Neo4j holds a little more
MIN_VERSION = (5, 26)
KIND_LABELS: dict[int, list[str]] = {
    Kind.ENTITY: [],
    Kind.MEDIATOR: ["Mediator"],
    Kind.VALUE: ["Value"],
}
GROUPED_SCHEMA = pa.schema([("norm", pa.string()), ("keys", pa.list_(pa.int64()))])
# Labels that mean something else here, so that no KG is named by them.
RESERVED_LABELS = (
    *("Entity", "Mediator", "Value"),
    *("KGMeta", "KGName", "KGRelation", "KGLoading", "KGDropping"),
)
_SHOWN_DOMAINS = 8


def label_for(kg: str) -> str:
    """Return the label that a KG's nodes have if no other KG has it.

    >>> label_for("freebase"), label_for("fb15k-237")
    ('Freebase', 'Fb15k-237')
    """
    return kg[:1].upper() + kg[1:]


def indexed_name(name: str) -> str:
    """Return the form of a normalised name that the index holds: itself, or its hash if long."""
    data = name.encode("utf-8")
    # No normalised name holds a colon, so a hash is never taken for one.
    return name if len(data) <= NAME_BYTES else "sha256:" + hashlib.sha256(data).hexdigest()


def grouped_names(source: GraphSource) -> Iterator[pa.RecordBatch]:
    """Yield ``GROUPED_SCHEMA``: each name (hashed if too long) once, with its keys ascending."""
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
    norms = rows.column("norm").combine_chunks().take(pa.array(starts[:-1]))
    long = pc.greater(pc.binary_length(norms), NAME_BYTES)
    if pc.any(long).as_py():
        hashes = [indexed_name(norm) for norm in norms.filter(long).to_pylist()]
        norms = pc.replace_with_mask(norms, long, pa.array(hashes, pa.string()))
    keys = rows.column("key").combine_chunks()
    lists = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), keys)
    return pa.RecordBatch.from_arrays([norms, lists], schema=GROUPED_SCHEMA)


def check_version(version: tuple[int, int], url: str) -> None:
    """Raise GraphError if the server is too old to be written to."""
    if version < MIN_VERSION:
        raise GraphError(
            f"Neo4j at {url} is version {version[0]}.{version[1]}.",
            "Loading needs 5.26 or newer.",
        )


def check_relations(source: GraphSource, others: int, url: str) -> None:
    """Raise GraphError if one database cannot hold the relations beside ``others`` types."""
    ids = source.relations.column("id")
    if len(ids) + others > MAX_TYPES:
        beside = f" and {url} {others:,} other relationship types" if others else ""
        raise GraphError(
            f"{source.info.name} has {len(ids):,} relations{beside}; one Neo4j database holds "
            f"{MAX_TYPES:,}. The domains with the most: {_domains(ids.to_pylist())}.",
            "Leave some of these domains out of the load, or use the embedded store.",
        )
    for chunk in ids.chunks:
        _check_ids("relation", chunk)


def check_entities(source: GraphSource) -> None:
    """Raise GraphError if an entity's id cannot be held by an index."""
    for batch in source.node_batches():
        _check_ids("entity", batch.column("id"))


def _domains(relations: Sequence[str]) -> str:
    counts = Counter(relation.partition(".")[0] for relation in relations)
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN_DOMAINS]
    return ", ".join(f"{name[:60]} ({count:,})" for name, count in most)


def _check_ids(what: str, ids: pa.Array) -> None:
    length = pc.binary_length(ids)
    wrong = pc.or_(pc.equal(length, 0), pc.greater(length, MAX_ID_BYTES))
    wrong = pc.or_(wrong, pc.match_substring(ids, "\0"))
    if pc.any(wrong).as_py():
        value = ids.filter(wrong)[0].as_py()
        raise GraphError(
            f"The {what} id {value[:60]!r} cannot be written to Neo4j: it is empty, "
            f"longer than {MAX_ID_BYTES:,} bytes or holds a NUL character.",
            "Leave it out of the load, or use the embedded store.",
        )

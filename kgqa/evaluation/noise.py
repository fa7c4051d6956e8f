"""A graph with some of its edges removed or falsified, to measure what answers lose by it.

The changed graph has the nodes, relations and names of the one it was made of. A falsified edge
keeps its head and its relation and gets another tail: one that the relation has elsewhere, so that
it looks like a fact and is not (an edge that the graph holds is never written as a false one).
Which edges are changed is drawn by a seed; those of a smaller share are among those of a larger
one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from kgqa.errors import UsageError
from kgqa.graph.model import ENTITY_SCHEMA, KEYED_EDGE_SCHEMA, RELATION_SCHEMA, GraphTables

if TYPE_CHECKING:
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore

Change: TypeAlias = Literal["removed", "falsified"]
_FRONTIER = 5_000  # nodes whose edges are read at once
_TRIES = 20  # tails that are drawn for an edge before it stays as it is


def noisy_tables(store: GraphStore, change: Change, share: float, seed: int = 0) -> GraphTables:
    """Return the graph of ``store`` with ``share`` (0 to 1) of its edges changed, to be written.

    An edge whose relation has no other tail that would make it false stays as it is; ``source``
    says how many were changed. The KG's name is the store's with the change behind it, as in
    ``freebase-removed-20``. Reads the whole graph into memory. Raises UsageError for an
    unknown change or a share outside of 0 to 1, GraphError.
    """
    if change not in ("removed", "falsified"):
        raise UsageError(f"Edges cannot be '{change}'.", "They are removed or falsified.")
    if not 0.0 <= share <= 1.0:
        raise UsageError(f"A share of edges is from 0 to 1, not {share}.")
    nodes, relations = _nodes(store), _relations(store)
    edges = edges_of(store, len(nodes))
    random = np.random.default_rng(seed)
    chosen = np.sort(random.permutation(len(edges))[: round(share * len(edges))])
    every, number = len(edges), len(chosen)
    if change == "removed":
        edges = np.delete(edges, chosen, axis=0)
    else:
        before = edges
        edges = _falsified(before, chosen, random)
        number = int((edges != before).any(axis=1).sum())
    edges = np.unique(edges, axis=0)  # sorted by head, relation, tail
    content = json.dumps([store.info.version, change, share, seed])
    info = replace(
        store.info,
        name=f"{store.info.name}-{change}-{100 * share:g}",
        source=f"{store.info.source}, {number:,} of {every:,} edges {change} (seed {seed})",
        version=hashlib.sha256(content.encode()).hexdigest(),
        edges=len(edges),
    )
    columns = [*edges.T, pa.nulls(len(edges), pa.string())]
    return GraphTables(info, nodes, relations, pa.table(columns, schema=KEYED_EDGE_SCHEMA))


def edges_of(store: GraphStore, nodes: int) -> IntArray:
    """Return every edge of a store whose keys are 0 to ``nodes`` - 1: (head, relation, tail).

    Shape ``[edges, 3]``, sorted.
    """
    parts = [np.empty((0, 3), np.int64)]
    for start in range(0, nodes, _FRONTIER):
        keys = np.arange(start, min(start + _FRONTIER, nodes), dtype=np.int64)
        found = store.neighbours(keys, "out")
        parts.append(np.stack([keys[found.row], found.step // 2, found.target], axis=1))
    return np.concatenate(parts)


def _falsified(edges: IntArray, chosen: IntArray, random: np.random.Generator) -> IntArray:
    """Return ``edges`` with other tails at the rows ``chosen``."""
    changed = edges.copy()
    order = np.argsort(edges[:, 1], kind="stable")
    starts = np.searchsorted(edges[order, 1], np.arange(edges[:, 1].max(initial=-1) + 2))
    taken = set(map(tuple, edges.tolist()))
    for row in chosen.tolist():
        head, relation, tail = edges[row].tolist()
        first, last = int(starts[relation]), int(starts[relation + 1])
        for _ in range(_TRIES):
            other = int(edges[order[random.integers(first, last)], 2])
            if other not in (tail, head) and (head, relation, other) not in taken:
                taken.add((head, relation, other))
                changed[row, 2] = other
                break
    return changed


def _nodes(store: GraphStore) -> pa.Table:
    info = store.info
    total = info.entities + info.mediators + info.values
    found = store.entities(np.arange(total, dtype=np.int64))
    details = [store.details(key) for key in range(total)]
    return pa.table(
        [
            found.ids,
            found.names,
            [one.aliases for one in details],
            found.kinds,
            [one.types for one in details],
            [json.dumps(one.properties) if one.properties else None for one in details],
        ],
        schema=ENTITY_SCHEMA,
    )


def _relations(store: GraphStore) -> pa.Table:
    known = store.relations()
    return pa.table([known.ids, known.names, known.inverses], schema=RELATION_SCHEMA)

"""Facts with an identity in a change: which stored ones a triple means, and what becomes one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa

from kgqa.graph.model import EDGE_SCHEMA, EdgeBatch, Kind, keys_array
from kgqa.graph.schema import fact_id, read_fact_id
from kgqa.loading.facts import fact_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from kgqa.graph.change import GraphChanger
    from kgqa.graph.store import GraphStore

    Triple = tuple[str, str, str]

_CHUNK = 20_000  # nodes whose edges are read at once


def fact_edges(
    store: GraphStore, edges: Mapping[Triple, list[str]], reified: Collection[str]
) -> dict[Triple, list[Triple]]:
    """Return the stored edges of the facts that some of ``edges`` mean, which are to be removed.

    An edge with properties (JSON) means the fact that has these, another one all between its ends.
    """
    asked = [edge for edge in edges if edge[1] in reified]
    heads = sorted({head for head, _, _ in asked})
    keys = store.keys_of(heads)
    there = keys[keys >= 0]
    near = store.neighbours(there, "out")
    kept = near.kind == Kind.MEDIATOR
    nodes = np.unique(near.target[kept])
    ids = store.entities(nodes).ids
    between: dict[Triple, list[int]] = {}
    by_id = dict(zip(ids, nodes.tolist(), strict=True))
    for id_, key in by_id.items():
        if (fact := read_fact_id(id_)) is not None:
            between.setdefault(fact, []).append(key)
    found: dict[Triple, list[Triple]] = {}
    for edge in asked:
        facts = between.get(edge, [])
        if edges[edge]:
            own = {fact_id(*edge, fact_number(orjson.loads(text))) for text in edges[edge]}
            facts = [by_id[id_] for id_ in sorted(own & by_id.keys())]
        if facts:
            found[edge] = list(_touching(store, facts))
    return found


def _touching(store: GraphStore, keys: list[int]) -> Iterator[Triple]:
    near = store.neighbours(keys_array(keys), "both")
    own, others = store.entities(keys_array(keys)).ids, store.entities(near.target).ids
    relations = store.relations().ids
    for row, step, other in zip(near.row.tolist(), near.step.tolist(), others, strict=True):
        ends = (other, own[row]) if step % 2 else (own[row], other)
        yield ends[0], relations[step // 2], ends[1]


def plain_edges(
    store: GraphStore, changer: GraphChanger, relations: Collection[str]
) -> Iterator[EdgeBatch]:
    """Yield all stored edges of ``relations``, which so far have no properties that are walked."""
    known = store.relations().ids
    numbers = [key for key, id_ in enumerate(known) if id_ in relations]
    if not numbers:
        return
    for start in range(0, store.info.next_key, _CHUNK):
        keys = np.arange(start, min(start + _CHUNK, store.info.next_key), dtype=np.int64)
        near = store.neighbours(keys, "out")
        kept = np.isin(near.step // 2, numbers)
        heads, steps, tails = keys[near.row[kept]], near.step[kept] // 2, near.target[kept]
        if not len(heads):
            continue
        edges = list(zip(heads.tolist(), steps.tolist(), tails.tolist(), strict=True))
        columns = [
            store.entities(heads).ids,
            [known[step] for step in steps.tolist()],
            store.entities(tails).ids,
            changer.properties(edges),
        ]
        arrays = [pa.array(column, pa.string()) for column in columns]
        yield EdgeBatch(pa.RecordBatch.from_arrays(arrays, schema=EDGE_SCHEMA))

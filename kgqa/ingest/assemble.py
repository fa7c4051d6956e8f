"""Batches of a loader, in any order, become one sorted KG.

Here ids become keys, repeated rows become one, and the content gets its version. All of it is
independent of the order and the size of the batches, so the same dump always gives the same KG.
What it does not do: read files, or decide what an entity or a relation is; it holds the whole KG
in memory.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.model import (
    EDGE_SCHEMA,
    ENTITY_SCHEMA,
    RELATION_SCHEMA,
    EdgeBatch,
    EntityBatch,
    GraphTables,
    KGInfo,
    Kind,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable

    from kgqa.graph.model import Batch, Direction, IntArray

UNKNOWN_END = "edge with an unknown end"
NO_RELATION = "edge without a relation"
REPEATED = "repeated edge"
NO_ID = "entity without an id"
UNUSED_RELATION = "relation without an edge"

# name, aliases, kind, types, properties: one row of an entity, as a loader gave it
_Row: TypeAlias = "tuple[str | None, list[str] | None, int, list[str] | None, str | None]"


def assemble(
    batches: Iterable[Batch],
    *,
    name: str,
    source: str,
    direction: Direction,
    dropped: Counter[str],
    loader: str = "",
    licence: str = "",
) -> GraphTables:
    """Return the KG that ``batches`` describe.

    An id that comes again is one entity: its aliases and types are united; of several names the
    first by code point stays and the others become aliases; a mediator or value in one row is one
    in all. Of several edges with the same ends and relation one stays: the one with the greatest
    ``weight``, else the first by the text of its properties. What is left out (edges whose head or
    tail never came as an entity, repeated edges, relations that no edge uses) is counted into
    ``dropped`` by reason.

    ``KGInfo.entities``, ``mediators`` and ``values`` count the nodes of each kind.
    """
    entities: dict[str, list[_Row]] = {}
    relation_names: dict[str, set[str]] = {}
    edges: list[pa.RecordBatch] = []
    for batch in batches:
        if isinstance(batch, EntityBatch):
            _collect_entities(batch.rows, entities, dropped)
        elif isinstance(batch, EdgeBatch):
            edges.append(batch.rows)
        else:
            columns = (batch.rows.column(field.name).to_pylist() for field in RELATION_SCHEMA)
            for relation, label in zip(*columns, strict=True):
                relation_names.setdefault(relation, set()).add(label)
    nodes = _nodes(entities)
    del entities
    edge_table, relation_ids = _edges(
        pa.Table.from_batches(edges, schema=EDGE_SCHEMA), nodes["id"], dropped
    )
    relations = pa.table(
        [relation_ids, [_relation_name(id_, relation_names) for id_ in relation_ids]],
        schema=RELATION_SCHEMA,
    )
    unused = len(relation_names.keys() - set(relation_ids))
    if unused:
        dropped[UNUSED_RELATION] += unused
    kinds = np.bincount(nodes["kind"].to_numpy(), minlength=len(Kind))
    info = KGInfo(
        name=name,
        source=source,
        version=_version(nodes, relations, edge_table),
        direction=direction,
        entities=int(kinds[Kind.ENTITY]),
        mediators=int(kinds[Kind.MEDIATOR]),
        values=int(kinds[Kind.VALUE]),
        relations=len(relations),
        edges=len(edge_table),
        loader=loader,
        licence=licence,
    )
    return GraphTables(info=info, nodes=nodes, relations=relations, edges=edge_table)


def _collect_entities(
    rows: pa.RecordBatch, into: dict[str, list[_Row]], dropped: Counter[str]
) -> None:
    columns = [rows.column(field.name).to_pylist() for field in ENTITY_SCHEMA]
    for id_, *row in zip(*columns, strict=True):
        if not id_:
            dropped[NO_ID] += 1
            continue
        into.setdefault(id_, []).append(tuple(row))


def _nodes(entities: dict[str, list[_Row]]) -> pa.Table:
    ids = sorted(entities)
    merged = [_merge(entities[id_]) for id_ in ids]
    columns = [list(column) for column in zip(*merged, strict=True)] or [[]] * 5
    arrays = [
        pa.array(column, type=field.type)
        for column, field in zip([ids, *columns], ENTITY_SCHEMA, strict=True)
    ]
    return pa.table(arrays, schema=ENTITY_SCHEMA)


def _merge(rows: list[_Row]) -> _Row:
    names = sorted({name for name, *_ in rows if name})
    name = names[0] if names else None
    aliases = {alias for _, given, *_ in rows for alias in given or () if alias}
    aliases.update(names)
    aliases.discard(name or "")
    types = {type_ for *_, given, _ in rows for type_ in given or () if type_}
    kind = max(row[2] for row in rows)
    return name, sorted(aliases), kind, sorted(types), _merge_properties({row[4] for row in rows})


def _merge_properties(texts: set[str | None]) -> str | None:
    given = sorted(text for text in texts if text)
    if len(given) < 2:
        return given[0] if given else None
    merged: dict[str, Any] = {}
    for text in given:
        for key, value in json.loads(text).items():
            merged.setdefault(key, value)
    return json.dumps(merged, ensure_ascii=False, sort_keys=True)


def _relation_name(id_: str, names: dict[str, set[str]]) -> str:
    told = sorted(name for name in names.get(id_, ()) if name and name != id_)
    return told[0] if told else id_


def _edges(
    table: pa.Table, ids: pa.ChunkedArray, dropped: Counter[str]
) -> tuple[pa.Table, list[str]]:
    """Return the edges with keys for ids, sorted and unique, and the sorted ids of relations."""
    known = ids.combine_chunks()
    relation = table["relation"]
    related = pc.fill_null(pc.greater(pc.binary_length(relation), 0), False).to_numpy()
    heads, tails = _rank(table["head"], known), _rank(table["tail"], known)
    ended = (heads >= 0) & (tails >= 0)
    for reason, count in (
        (NO_RELATION, np.count_nonzero(~related)),
        (UNKNOWN_END, np.count_nonzero(related & ~ended)),
    ):
        if count:
            dropped[reason] += int(count)
    kept = np.flatnonzero(related & ended)
    relation = relation.take(pa.array(kept))
    relation_ids: list[str] = sorted(pc.unique(relation).to_pylist())
    relations = _rank(relation, pa.array(relation_ids, type=pa.string()))
    heads, tails = heads[kept], tails[kept]
    order = np.lexsort((tails, relations, heads))
    heads, relations, tails, kept = heads[order], relations[order], tails[order], kept[order]
    first = np.ones(len(kept), dtype=np.bool_)
    first[1:] = (np.diff(heads) != 0) | (np.diff(relations) != 0) | (np.diff(tails) != 0)
    starts = np.flatnonzero(first)
    if len(starts) < len(kept):
        dropped[REPEATED] += len(kept) - len(starts)
    chosen = _choose(table["properties"], kept, starts)
    columns = {
        "head": heads[starts],
        "relation": relations[starts],
        "tail": tails[starts],
        "properties": table["properties"].take(pa.array(chosen)),
    }
    return pa.table(columns), relation_ids


def _rank(values: pa.ChunkedArray, known: pa.Array) -> IntArray:
    """Return the position of each value in ``known``, -1 where it is not there (or null)."""
    found = pc.index_in(values, value_set=known, skip_nulls=True)
    ranks: IntArray = pc.fill_null(found, -1).to_numpy().astype(np.int64)
    return ranks


def _choose(properties: pa.ChunkedArray, rows: IntArray, starts: IntArray) -> IntArray:
    """Return for each group of equal edges (``rows`` from each start on) the row that stays."""
    chosen = rows[starts].copy()
    if properties.null_count == len(properties):
        return chosen
    ends = np.append(starts[1:], len(rows))
    for group in np.flatnonzero(ends - starts > 1):
        same = rows[starts[group] : ends[group]]
        texts = properties.take(pa.array(same)).to_pylist()
        chosen[group] = min(zip(texts, same, strict=True), key=lambda pair: _preference(pair[0]))[1]
    return chosen


def _preference(text: str | None) -> tuple[float, str]:
    if text is None:
        return float("inf"), ""
    weight = json.loads(text).get("weight")
    return (-weight if isinstance(weight, int | float) else 0.0), text


def _version(nodes: pa.Table, relations: pa.Table, edges: pa.Table) -> str:
    """Return the SHA-256 of what the KG says, in hex. Properties are not part of it."""
    digest = hashlib.sha256(b"kgqa graph 1\n")
    for table, names in (
        (nodes, ("id", "name", "aliases", "kind", "types")),
        (relations, ("id", "name")),
    ):
        digest.update(b"%d\n" % len(table))
        for batch in table.select(names).to_batches(max_chunksize=10_000):
            columns = (batch.column(name).to_pylist() for name in names)
            # JSON keeps rows apart whatever stands in a name
            lines = [json.dumps(row, separators=(",", ":")) for row in zip(*columns, strict=True)]
            digest.update("\n".join([*lines, ""]).encode("ascii"))
    digest.update(b"%d\n" % len(edges))
    for name in ("head", "relation", "tail"):
        digest.update(edges[name].to_numpy().astype("<i8").tobytes())
    return digest.hexdigest()

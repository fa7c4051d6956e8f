"""The edges stage: ids become keys, repeated edges become one, all are sorted.

What it does not do: names.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kgqa.loaders.blocks import mapped
from kgqa.loading.columns import Buckets, gathered

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.loading.ids import IdTable
    from kgqa.loading.spool import Spool

UNKNOWN_END = "edge with an unknown end"
NAMELESS_END = "edge to or from a nameless node"
REPEATED = "repeated edge"
_ROWS = 1 << 19  # edges that are sorted at once, about

Keyed = tuple["IntArray", "IntArray", "IntArray", "pa.Array | None"]


class EdgeTable:
    """The edges of a KG, by keys: ``relations`` are the sorted ids of those that have an edge."""

    def __init__(self, spool: Spool, ids: IdTable, folder: Path, dropped: Counter[str]) -> None:
        self._nodes = len(ids)
        self._dropped = dropped
        names = spool.scanned.relations
        order = sorted(range(len(names)), key=names.__getitem__)
        rank = np.empty(len(names), dtype=np.int64)
        rank[order] = np.arange(len(names))
        used = np.zeros(len(names), dtype=np.bool_)

        def ranked(batch: pa.RecordBatch) -> tuple[Keyed, int]:
            heads, tails = ids.keys_of(batch.column("head")), ids.keys_of(batch.column("tail"))
            relations = rank[batch.column("relation").to_numpy()]
            good = (heads >= 0) & (tails >= 0)
            about = batch.column("properties") if "properties" in batch.schema.names else None
            lost = len(good) - int(good.sum())
            if lost:
                heads, relations, tails = heads[good], relations[good], tails[good]
                about = None if about is None else about.filter(pa.array(good))
            return (heads, relations, tails, about), lost

        estimate = sum(_rows_in(spool, name) for name in spool.edge_files())
        span = max(1, int(self._nodes / max(1, estimate / _ROWS)) + 1)
        self._plain = Buckets(folder / "edges", self._nodes, span)
        self._about = Buckets(folder / "edges-about", self._nodes, span)
        for name in spool.edge_files():
            reason = NAMELESS_END if name.startswith("edges-mid") else UNKNOWN_END
            chunks = gathered(spool.read(name), rows=_ROWS)
            for (heads, relations, tails, about), lost in mapped(ranked, chunks):
                if lost:
                    dropped[reason] += lost
                used[np.unique(relations)] = True
                columns = {"head": heads, "relation": relations.astype(np.int32), "tail": tails}
                if about is None:
                    self._plain.add(heads, pa.RecordBatch.from_pydict(columns))
                else:
                    rows = pa.RecordBatch.from_pydict({**columns, "properties": about})
                    self._about.add(heads, rows)
        self.relations = [names[place] for place, there in zip(order, used, strict=True) if there]
        self._final = np.cumsum(used) - 1

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield (head, relation, tail, properties), sorted and unique; relation and keys as int64.

        The column of properties is there only where a row of the batch has some.
        """
        for rows, repeated in mapped(self._bucket, range(self._plain.count)):
            if repeated:
                self._dropped[REPEATED] += repeated
            if len(rows):
                yield rows

    def _bucket(self, bucket: int) -> tuple[pa.RecordBatch, int]:
        plain, about = self._plain.take(bucket), self._about.take(bucket)
        held = plain + about
        heads, relations, tails = (
            np.concatenate([batch.column(name).to_numpy() for batch in held] or [_NOTHING])
            for name in ("head", "relation", "tail")
        )
        relations = self._final[relations]
        if not about:
            columns = sorted_edges(heads, relations, tails)
            rows = pa.RecordBatch.from_arrays([pa.array(c) for c in columns], names=_NAMES)
            return rows, len(heads) - len(columns[0])
        order = np.lexsort((tails, relations, heads))
        starts = np.flatnonzero(_firsts(heads[order], relations[order], tails[order]))
        texts = pa.chunked_array(
            [pa.nulls(len(batch), pa.string()) for batch in plain]
            + [batch.column("properties") for batch in about]
        ).combine_chunks()
        chosen = _choose(texts, order, starts)
        kept = [pa.array(column[chosen]) for column in (heads, relations, tails)]
        rows = pa.RecordBatch.from_arrays(
            [*kept, texts.take(pa.array(chosen))], names=[*_NAMES, "properties"]
        )
        return rows, len(order) - len(starts)


_NAMES = ["head", "relation", "tail"]
_NOTHING = np.empty(0, dtype=np.int64)


def sorted_edges(
    heads: IntArray, relations: IntArray, tails: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return three columns sorted by the first, the second, the third, without repeated rows."""
    if not len(heads):
        return heads, relations, tails
    low = int(heads.min())
    widths = [int(column.max()).bit_length() for column in (heads - low, relations, tails)]
    if sum(widths) <= 63:  # as one number each, which sorts many times faster
        packed = ((heads - low) << (widths[1] + widths[2])) | (relations << widths[2]) | tails
        packed.sort()
        first = np.ones(len(packed), dtype=np.bool_)
        np.not_equal(packed[1:], packed[:-1], out=first[1:])
        if not first.all():
            packed = packed[first]
        return (
            (packed >> (widths[1] + widths[2])) + low,
            (packed >> widths[2]) & ((1 << widths[1]) - 1),
            packed & ((1 << widths[2]) - 1),
        )
    order = np.lexsort((tails, relations, heads))
    heads, relations, tails = heads[order], relations[order], tails[order]
    first = _firsts(heads, relations, tails)
    return heads[first], relations[first], tails[first]


def _firsts(heads: IntArray, relations: IntArray, tails: IntArray) -> BoolArray:
    first = np.ones(len(heads), dtype=np.bool_)
    first[1:] = (np.diff(heads) != 0) | (np.diff(relations) != 0) | (np.diff(tails) != 0)
    return first


def _choose(texts: pa.Array, order: IntArray, starts: IntArray) -> IntArray:
    """Return for each group of equal edges (``order`` from each start on) the row that stays."""
    chosen = order[starts].copy()
    ends = np.append(starts[1:], len(order))
    for group in np.flatnonzero(ends - starts > 1).tolist():
        same = order[starts[group] : ends[group]]
        found = texts.take(pa.array(same)).to_pylist()
        chosen[group] = min(zip(found, same, strict=True), key=lambda pair: _preference(pair[0]))[1]
    return chosen


def _preference(text: str | None) -> tuple[float, str]:
    if text is None:
        return float("inf"), ""
    weight = json.loads(text).get("weight")
    return (-weight if isinstance(weight, int | float) else 0.0), text


def _rows_in(spool: Spool, name: str) -> int:
    return sum(len(batch) for batch in spool.read(name))

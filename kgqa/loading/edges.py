"""The edges stage: ids become keys, repeated edges become one, all are sorted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kgqa.graph.literals import members
from kgqa.graph.mids import decode_mids
from kgqa.loaders.base import lose
from kgqa.loading.columns import Buckets, gathered
from kgqa.loading.spool import UNKNOWN_END, Spool
from kgqa.parallel import mapped

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.loading.nodes import IdTable

NAMELESS_END = "edge to or from a nameless node"
REPEATED = "repeated edge"
_ROWS = 1 << 19  # edges that are sorted at once, about
_MOST_JOINED = 1 << 22  # edges whose ends are looked up at once
_NAMES = ["head", "relation", "tail"]
_NOTHING = np.empty(0, dtype=np.int64)


class EdgeTable:
    """The edges of a KG by keys; ``relations``: the sorted ids of relations that have an edge."""

    def __init__(self, spool: Spool, ids: IdTable, folder: Path, dropped: Counter[str]) -> None:
        """Convert a scan's edges to keys; those without a known end are left out and counted.

        ``folder``: for the buckets' files; ``dropped``: counts by reason, which are added to.
        """
        self._dropped, self._ids = dropped, ids
        names = spool.scanned.relations
        order = sorted(range(len(names)), key=names.__getitem__)
        rank = np.argsort(np.array(order, dtype=np.int64))
        used = np.zeros(len(names), dtype=np.bool_)

        def keyed(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int, str]:
            """Convert ids to keys; return the edges, how many lack an end, and one of these."""
            heads, tails = (ids.keys_of(batch.column(end)) for end in ("head", "tail"))
            relations = rank[batch.column("relation").to_numpy()].astype(np.int32)
            columns = {"head": heads, "relation": relations, "tail": tails}
            if "properties" in batch.schema.names:
                columns["properties"] = batch.column("properties")
            rows = pa.RecordBatch.from_pydict(columns)
            good = (heads >= 0) & (tails >= 0)
            lost = len(good) - int(np.count_nonzero(good))
            if not lost:
                return rows, 0, ""
            first = int(np.argmin(good))
            head, tail = (
                _first_id(batch.column(end)[first : first + 1]) for end in ("head", "tail")
            )
            relation = names[batch.column("relation")[first].as_py()]
            return rows.filter(pa.array(good)), lost, f"{head} {relation} {tail}"

        rows_there = sum(len(batch) for name in spool.edge_files() for batch in spool.read(name))
        span = max(1, int(len(ids) / max(1, rows_there / _ROWS)) + 1)
        # each look-up hashes all ids, so few of them are made where ids are many
        joined = min(max(_ROWS, len(ids.texts)), _MOST_JOINED)
        self._plain = Buckets(folder / "edges", len(ids), span)
        self._about = Buckets(folder / "edges-about", len(ids), span)
        for name in spool.edge_files():
            reason = NAMELESS_END if name.startswith("edges-mid") else UNKNOWN_END
            buckets = self._about if name.endswith("-about") else self._plain
            for rows, lost, example in mapped(keyed, gathered(spool.read(name), rows=joined)):
                lose(dropped, reason, lost, example)
                used[np.unique(rows.column("relation").to_numpy())] = True
                buckets.add(rows.column("head").to_numpy(), rows)
        self.relations = [names[place] for place, there in zip(order, used, strict=True) if there]
        self._final = np.cumsum(used) - 1

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield (head, relation, tail, properties), sorted and unique; keys are int64.

        Repeated edges are counted as dropped. A batch without properties lacks their column.
        """
        for rows, repeated, example in mapped(self._sorted_bucket, range(self._plain.count)):
            lose(self._dropped, REPEATED, repeated, example)
            if len(rows):
                yield rows

    def _sorted_bucket(self, bucket: int) -> tuple[pa.RecordBatch, int, str]:
        """Sort and deduplicate a bucket; also return how many edges repeated, and one as text."""
        plain, about = self._plain.take(bucket), self._about.take(bucket)
        heads, relations, tails = (
            np.concatenate([rows.column(name).to_numpy() for rows in plain + about] or [_NOTHING])
            for name in _NAMES
        )
        relations = self._final[relations]
        if not about:
            columns = [pa.array(column) for column in sorted_edges(heads, relations, tails)]
            rows = pa.RecordBatch.from_arrays(columns, names=_NAMES)
            repeated = len(heads) - len(rows)
            example = ""
            if repeated and REPEATED not in self._dropped:
                order = np.lexsort((tails, relations, heads))
                example = self._repeated(*(column[order] for column in (heads, relations, tails)))
            return rows, repeated, example
        order = np.lexsort((tails, relations, heads))
        starts = np.flatnonzero(_first_of_runs(heads[order], relations[order], tails[order]))
        texts = pa.chunked_array(
            [pa.nulls(len(batch), pa.string()) for batch in plain]
            + [batch.column("properties") for batch in about]
        ).combine_chunks()
        chosen, united = _choose(texts, order, starts)
        columns = [pa.array(column[chosen]) for column in (heads, relations, tails)]
        properties = texts.take(pa.array(chosen))
        if united:
            held = properties.to_pylist()
            for group, text in united.items():
                held[group] = text
            properties = pa.array(held, pa.string())
        columns.append(properties)
        rows = pa.RecordBatch.from_arrays(columns, names=[*_NAMES, "properties"])
        sorted_ = (column[order] for column in (heads, relations, tails))
        repeated = len(order) - len(rows)
        return rows, repeated, self._repeated(*sorted_) if repeated else ""

    def _repeated(self, heads: IntArray, relations: IntArray, tails: IntArray) -> str:
        """Return the first repeated edge of sorted columns, as text with ids."""
        place = int(np.argmin(_first_of_runs(heads, relations, tails)))
        head, tail = (self._ids.texts_of(key, key + 1)[0] for key in (heads[place], tails[place]))
        return f"{head} {self.relations[relations[place]]} {tail}"


def _first_id(ends: pa.Array) -> str:
    """Return the first of a column of ids, text or mids, as text."""
    return str((decode_mids(ends.to_numpy()) if pa.types.is_integer(ends.type) else ends)[0])


def sorted_edges(
    heads: IntArray, relations: IntArray, tails: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Sort three columns by the first, second and third; drop repeated rows."""
    if not len(heads):
        return heads, relations, tails
    low = int(heads.min())
    widths = [int(column.max()).bit_length() for column in (heads - low, relations, tails)]
    if sum(widths) <= 63:  # as one number each, which sorts many times faster
        packed = ((heads - low) << (widths[1] + widths[2])) | (relations << widths[2]) | tails
        packed.sort()  # np.unique is many times slower
        packed = packed[np.diff(packed, prepend=-1) != 0]
        return (
            (packed >> (widths[1] + widths[2])) + low,
            (packed >> widths[2]) & ((1 << widths[1]) - 1),
            packed & ((1 << widths[2]) - 1),
        )
    order = np.lexsort((tails, relations, heads))
    order = order[_first_of_runs(heads[order], relations[order], tails[order])]
    return heads[order], relations[order], tails[order]


def _first_of_runs(heads: IntArray, relations: IntArray, tails: IntArray) -> BoolArray:
    """Return which rows of sorted columns differ from the row before."""
    first = np.ones(len(heads), dtype=np.bool_)
    first[1:] = (np.diff(heads) != 0) | (np.diff(relations) != 0) | (np.diff(tails) != 0)
    return first


def _choose(texts: pa.Array, order: IntArray, starts: IntArray) -> tuple[IntArray, dict[int, str]]:
    """Choose which row of each group of equal edges to keep; also merge named graphs.

    A group is the rows ``order`` from each of ``starts`` on. ``texts``: the properties of each row.
    The second value has, by group, the merged properties of an edge that is in several named
    graphs.
    """
    chosen = order[starts].copy()
    united: dict[int, str] = {}
    ends = np.append(starts[1:], len(order))
    for group in np.flatnonzero(ends - starts > 1).tolist():
        same = order[starts[group] : ends[group]]
        held = texts.take(pa.array(same)).to_pylist()
        chosen[group] = min(zip(held, same, strict=True), key=lambda pair: preference(pair[0]))[1]
        if (text := in_graphs(held)) is not None:
            united[group] = text
    return chosen, united


def in_graphs(held: list[str | None]) -> str | None:
    """Merge the properties of an edge in several named graphs; None if it has other properties.

    None, too, if all properties are equal, and need no merging.

    >>> in_graphs(['{"graph": "b"}', '{"graph": "a"}', None])
    '{"graph": ["a", "b"]}'
    >>> in_graphs(['{"graph": "b"}', '{"weight": 1}']) is None
    True
    """
    different = set(held) - {None}
    if len(different) < 2:
        return None
    given = [json.loads(text) for text in different if text]
    if any(each.keys() != {"graph"} for each in given):
        return None
    graphs = {graph for each in given for graph in members(each["graph"])}
    return json.dumps({"graph": sorted(map(str, graphs))}, ensure_ascii=False)


def preference(text: str | None) -> tuple[float, str]:
    """Return the sort key of equal edges' properties (JSON): highest weight first, None last."""
    if text is None:
        return float("inf"), ""
    weight = json.loads(text).get("weight")
    return (-weight if isinstance(weight, int | float) else 0.0), text

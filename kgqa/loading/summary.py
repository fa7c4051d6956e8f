"""What a load took for what: types, relations, properties, and what it left out, with examples."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.literals import common_type, members, read_value, value_type
from kgqa.graph.model import Kind
from kgqa.loaders.graph_files import OBSOLETE
from kgqa.loaders.ntriples import OF_PROPERTY
from kgqa.loaders.strings import BLANK
from kgqa.loaders.tabular import SKIPPED
from kgqa.loaders.triples_table import COUNT_LINE, HEADER, SEPARATOR
from kgqa.loading.edges import REPEATED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray
    from kgqa.graph.schema import ValueType
    from kgqa.loaders.base import Report
    from kgqa.loading.files import GraphFiles

UNUSED_RELATION = "relation without an edge"
_NO_LOSS = {  # reasons that lose no fact, or what the data themselves call void
    *(BLANK, COUNT_LINE, HEADER, SEPARATOR, OF_PROPERTY, REPEATED, UNUSED_RELATION),
    *(OBSOLETE, SKIPPED),
}
_DESCRIBED = 5_000  # nodes whose properties are looked at
_VALUES = 200  # of a property, whose types are looked at
_VALUE = re.compile(r"'[^']*'|(?<=row )\d+")
_SHARE = 0.05  # of the lines: more that is left out is a warning


@dataclass(slots=True)
class _Seen:
    """Kinds, types and properties found in one pass over the nodes."""

    kinds: IntArray
    counts: Counter[str] = field(default_factory=Counter)
    described: dict[str, set[str]] = field(default_factory=dict)


def summary_of(graph: GraphFiles, report: Report, *, filtered: bool) -> dict[str, Any]:
    """Summarise as JSON what a load produced and left out, the most frequent first.

    ``types``: name, count, and how the loader found them; ``relations``: name, count, types of the
    ends; ``properties``: name, count (None for a property that is not walked), type; ``left_out``:
    reason, count, an example; ``warnings``: sentences on losses above 5 % of the lines.
    ``filtered``: whether the loader leaves facts out by rules, which does not count as a loss.
    """
    seen = _node_statistics(graph)
    relations, properties = _edges_of(graph, seen)
    walked = {*graph.relations.column("id").to_pylist(), *(each["name"] for each in properties)}
    properties += [
        {"name": name, "count": None, "type": common_type(sorted(types))}  # type: ignore[arg-type]
        for name, types in sorted(seen.described.items())
        if name not in walked
    ]
    types = [
        {"name": name, "count": count, "found": report.taken.get(name, "")}
        for name, count in seen.counts.most_common()
    ]
    left_out = [*_losses(report.reasons, report, True), *_losses(+report.dropped, report, False)]
    return {
        "types": types,
        "relations": relations,
        "properties": properties,
        "left_out": left_out,
        "warnings": _warnings(left_out, report.lines, filtered=filtered),
    }


def _losses(reasons: Counter[str], report: Report, rejected: bool) -> list[dict[str, Any]]:
    """Return what was left out by reason; reasons that differ in a quoted value are one.

    ``rejected``: whether these are rejected lines, not dropped items.
    """
    kinds: dict[str, dict[str, Any]] = {}
    for reason, count in reasons.most_common():
        kind = _VALUE.sub("…", reason)
        example = report.examples.get(reason, "")
        empty = {"reason": kind, "count": 0, "example": example, "rejected": rejected}
        kinds.setdefault(kind, empty)["count"] += count
    return sorted(kinds.values(), key=lambda each: -int(each["count"]))


def _warnings(left_out: list[dict[str, Any]], lines: int, *, filtered: bool) -> list[str]:
    """Return sentences on losses above a threshold share of the ``lines``.

    ``filtered``: the loader leaves facts out by rules, so only rejected lines are losses.
    """
    said = []
    for each in left_out:
        share = each["count"] / max(1, lines)
        is_loss = each["rejected"] or (not filtered and each["reason"] not in _NO_LOSS)
        if is_loss and share > _SHARE:
            example = f" ({each['example']})" if each["example"] else ""
            verb = "rejected" if each["rejected"] else "left out"
            said.append(
                f"{share:.0%} of {lines:,} lines were {verb}: {each['reason']}{example}."
                if share <= 1
                else f"{each['count']:,} were {verb}: {each['reason']}{example}."
            )
    return said


def _node_statistics(graph: GraphFiles) -> _Seen:
    """Scan the nodes for kinds, types and properties."""
    info = graph.info
    count = info.entities + info.mediators + info.values
    seen = _Seen(np.zeros(count, np.int64))
    start = looked = 0
    for batch in graph.node_batches():
        end = start + len(batch)
        seen.kinds[start:end] = batch.column("kind").to_numpy()
        for each in pc.value_counts(pc.list_flatten(batch.column("types"))).to_pylist():
            seen.counts[each["values"]] += each["counts"]
        start = end
        texts = batch.column("properties").drop_null()
        for text in texts[:: max(1, len(texts) * 10 // _DESCRIBED)].to_pylist():
            looked += 1
            for name, value in json.loads(text).items() if looked <= _DESCRIBED else ():
                if name[:1] != "_":
                    kinds = map(value_type, members(value))
                    seen.described.setdefault(name, set()).update(kinds)
    return seen


def _edges_of(graph: GraphFiles, seen: _Seen) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the relations between entities, and those to values, with counts and types."""
    size = len(graph.relations)
    names = graph.relations.column("name").to_pylist()
    counts, to_values = np.zeros(size, np.int64), np.zeros(size, np.int64)
    ends = {end: np.full(size, -1, np.int64) for end in ("head", "tail")}
    values = np.empty((0, 2), np.int64)  # a relation and a value, some of each
    for batch in graph.edge_batches():
        heads, relations, tails = (
            batch.column(name).to_numpy() for name in ("head", "relation", "tail")
        )
        from_thing = seen.kinds[heads] != Kind.MEDIATOR
        value = seen.kinds[tails] == Kind.VALUE
        counts += np.bincount(relations[from_thing & ~value], minlength=size)
        to_values += np.bincount(relations[value], minlength=size)
        for end, keys, chosen in (
            ("head", heads, from_thing & ~value),
            ("tail", tails, seen.kinds[tails] == Kind.ENTITY),
        ):
            ends[end][relations[chosen][::-1]] = keys[chosen][::-1]
        given = np.stack([relations[value], tails[value]], axis=1).astype(np.int64)
        values = _sample_of_each(np.concatenate([values, given]))
    at_ends = _ends_of(graph, np.concatenate([*ends.values(), values[:, 1]]))
    kinds: dict[int, set[ValueType]] = {}
    for relation, key in values.tolist():
        kinds.setdefault(relation, set()).add(read_value(at_ends[key][0])[1])

    def class_of(end: str, at: int) -> str:
        """Return the most frequent type of an example edge's end."""
        _, types = at_ends.get(int(ends[end][at]), ("", ()))
        return max(types or ("",), key=lambda name: (seen.counts[name], name))

    related = [
        {
            "name": names[at],
            "count": int(counts[at]),
            "head": class_of("head", at),
            "tail": class_of("tail", at),
        }
        for at in np.argsort(-counts, kind="stable").tolist()
        if counts[at]
    ]
    valued = [
        {
            "name": names[at],
            "count": int(to_values[at]),
            "type": common_type(sorted(kinds[at])),
        }
        for at in np.argsort(-to_values, kind="stable").tolist()
        if to_values[at]
    ]
    return related, valued


def _sample_of_each(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return about ``_VALUES`` evenly drawn distinct rows of each relation (first column)."""
    values = values[np.lexsort((values[:, 1], values[:, 0]))]
    values = values[np.flatnonzero(np.any(np.diff(values, axis=0, prepend=-1), axis=1))]
    _, starts, counts = np.unique(values[:, 0], return_index=True, return_counts=True)
    rank = np.arange(len(values)) - np.repeat(starts, counts)
    every = np.repeat(-(-counts // _VALUES), counts)
    kept: NDArray[np.int64] = values[rank % every == 0]
    return kept


def _ends_of(graph: GraphFiles, keys: IntArray) -> dict[int, tuple[str, list[str]]]:
    """Return (id, types) of nodes by key; keys of -1 are skipped."""
    wanted = np.unique(keys[keys >= 0])
    ends: dict[int, tuple[str, list[str]]] = {}
    start = 0
    for batch in graph.node_batches() if len(wanted) else ():
        mine = wanted[(wanted >= start) & (wanted < start + len(batch))]
        rows = batch.select(["id", "types"]).take(pa.array(mine - start))
        columns = (column.to_pylist() for column in rows.columns)
        ends |= zip(mine.tolist(), zip(*columns, strict=True), strict=True)
        start += len(batch)
    return ends

"""The names stage: what a scan says of ids becomes one row for each node, sorted by id.

Names, aliases and types of an id come together here, whatever the order they came in.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.model import ALIAS, ENTITY_SCHEMA, OWN_ID, Kind
from kgqa.loaders.blocks import mapped
from kgqa.loading.columns import Buckets, gathered

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray
    from kgqa.loading.ids import IdTable
    from kgqa.loading.spool import Spool

NAMELESS = "nameless"
UNKNOWN_NAME = "name of an unknown entity"
UNKNOWN_TYPE = "type of an unknown entity"
_SPAN = 1 << 16  # nodes that are sorted at once
_NOTHING = np.empty(0, dtype=np.int64)


class NodeTable:
    """The nodes of a KG: kinds in memory (a byte each), the rest built a bucket at a time."""

    def __init__(self, spool: Spool, ids: IdTable, folder: Path, dropped: Counter[str]) -> None:
        self._ids = ids
        self.kinds: NDArray[np.uint8] = np.zeros(len(ids), dtype=np.uint8)
        self._names = Buckets(folder / "names", len(ids), _SPAN)
        self._types = Buckets(folder / "types", len(ids), _SPAN)
        self._properties = Buckets(folder / "properties", len(ids), _SPAN)
        types = spool.scanned.types
        order = sorted(range(len(types)), key=types.__getitem__)
        self._type_rank = np.argsort(np.array(order, dtype=np.int64))
        self._type_names = pa.array([types[place] for place in order], type=pa.string())
        self._add_entities(spool)
        self.kinds[len(ids.texts) :] = Kind.MEDIATOR  # a mid that has no name
        self._add_values(spool)
        self._add_names(spool, dropped)
        self._add_types(spool, dropped)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield ``ENTITY_SCHEMA`` in the order of the ids."""
        starts = range(0, len(self._ids), _SPAN)
        yield from mapped(self._bucket, range(len(starts)))

    def _add_entities(self, spool: Spool) -> None:
        for batch in gathered(spool.read("entities")):
            keys = self._ids.keys_of(batch.column("id"))
            np.maximum.at(self.kinds, keys, batch.column("kind").to_numpy())
            some = np.flatnonzero(batch.column("properties").is_valid())
            _add(self._properties, keys[some], text=batch.column("properties").take(some))

    def _add_values(self, spool: Spool) -> None:
        for batch in gathered(spool.read("values")):
            keys = self._ids.keys_of(batch.column("id"))
            kept = np.flatnonzero(keys >= 0)
            kept = kept[np.unique(keys[kept], return_index=True)[1]]
            self.kinds[keys[kept]] = Kind.VALUE
            ranks = np.zeros(len(kept), dtype=np.int64)
            _add(self._names, keys[kept], text=batch.column("name").take(kept), rank=ranks)

    def _add_names(self, spool: Spool, dropped: Counter[str]) -> None:
        for form in ("text", "mid"):
            for batch in gathered(spool.read(f"names-{form}")):
                keys = self._ids.keys_of(batch.column("id"))
                ranks, texts = batch.column("rank").to_numpy(), batch.column("text")
                kept = np.flatnonzero(keys >= 0)
                if unknown := len(keys) - len(kept):
                    dropped[UNKNOWN_NAME] += unknown
                    keys, ranks, texts = keys[kept], ranks[kept], texts.take(kept)
                if form == "mid":
                    self.kinds[keys[ranks < ALIAS]] = Kind.ENTITY
                _add(self._names, keys, text=texts, rank=ranks)

    def _add_types(self, spool: Spool, dropped: Counter[str]) -> None:
        hidden = np.zeros(len(self._type_rank) + 1, dtype=np.bool_)
        hidden[spool.scanned.hidden_types] = True
        nameless = [_NOTHING]
        for form in ("text", "mid"):
            for batch in gathered(spool.read(f"types-{form}")):
                keys, types = self._ids.keys_of(batch.column("id")), batch.column("type").to_numpy()
                if form == "mid":
                    nameless.append(np.unique(batch.column("id").to_numpy()[keys < 0]))
                elif unknown := int(np.count_nonzero(keys < 0)):
                    dropped[UNKNOWN_TYPE] += unknown
                kept = (keys >= 0) & (types >= 0) & ~hidden[types]
                _add(self._types, keys[kept], type=types[kept])
        if untyped := len(np.unique(np.concatenate(nameless))):
            dropped[NAMELESS] += untyped

    def _bucket(self, bucket: int) -> pa.RecordBatch:
        start = bucket * _SPAN
        end = min(start + _SPAN, len(self._ids))
        names, aliases = _named(self._names.take(bucket), start, end - start)
        types = self._types_of(self._types.take(bucket), start, end - start)
        properties = _properties(self._properties.take(bucket), start, end - start)
        columns = [self._ids.texts_of(start, end), names, aliases, pa.array(self.kinds[start:end])]
        return pa.RecordBatch.from_arrays([*columns, types, properties], schema=ENTITY_SCHEMA)

    def _types_of(self, held: list[pa.RecordBatch], start: int, count: int) -> pa.Array:
        if not held:
            return _lists(_NOTHING, self._type_names[:0], count)
        table = pa.Table.from_batches(held)
        rows = table["key"].to_numpy() - start
        packed = rows * len(self._type_rank) + self._type_rank[table["type"].to_numpy()]
        rows, ranks = np.divmod(np.unique(packed), len(self._type_rank))
        return _lists(rows, self._type_names.take(ranks), count)


def _add(buckets: Buckets, keys: IntArray, **columns: Any) -> None:
    buckets.add(keys, pa.RecordBatch.from_pydict({"key": keys, **columns}))


def _lists(rows: IntArray, values: pa.Array, count: int) -> pa.Array:
    """Return lists for ``count`` rows; ``rows`` (sorted) says which row each value belongs to."""
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _named(held: list[pa.RecordBatch], start: int, count: int) -> tuple[pa.Array, pa.Array]:
    """Return name and aliases of each row: the text of the lowest rank, and all the others."""
    if not held:
        return pa.nulls(count, pa.string()), _lists(_NOTHING, pa.array([], pa.string()), count)
    table = pa.Table.from_batches(held).group_by(["key", "text"], use_threads=False)
    table = table.aggregate([("rank", "min")])
    rows, ranks = table["key"].to_numpy() - start, table["rank_min"].to_numpy()
    texts = table["text"].combine_chunks()
    chosen = np.full(count, -1, dtype=np.int64)
    # Most rows have one text; only for the others are texts compared.
    alone = (np.bincount(rows, minlength=count)[rows] == 1) & (ranks < ALIAS)
    chosen[rows[alone]] = np.flatnonzero(alone)
    rest = np.flatnonzero(~alone)
    key, text = ("key", "ascending"), ("text", "ascending")
    rest = rest[pc.sort_indices(table.take(rest), [key, ("rank_min", "ascending"), text])]
    best = np.ones(len(rest), dtype=np.bool_)
    best[1:] = rows[rest[1:]] != rows[rest[:-1]]
    best &= ranks[rest] < ALIAS
    chosen[rows[rest[best]]] = rest[best]
    others = rest[~best & (ranks[rest] != OWN_ID)]
    others = others[pc.sort_indices(table.take(others), [key, text])]
    return _taken(texts, chosen), _lists(rows[others], texts.take(others), count)


def _taken(texts: pa.Array, places: IntArray) -> pa.Array:
    return texts.take(pa.array(places, mask=places < 0))


def _properties(held: list[pa.RecordBatch], start: int, count: int) -> pa.Array:
    if not held:
        return pa.nulls(count, pa.string())
    table = pa.Table.from_batches(held)
    rows, texts = table["key"].to_numpy() - start, table["text"].combine_chunks()
    chosen = np.full(count, -1, dtype=np.int64)
    chosen[rows] = np.arange(len(rows))
    found = _taken(texts, chosen)
    several = np.bincount(rows, minlength=count) > 1
    if not several.any():
        return found
    given: dict[int, set[str]] = {}
    for place in np.flatnonzero(several[rows]).tolist():
        given.setdefault(int(rows[place]), set()).add(texts[place].as_py())
    merged = pa.array([merge_properties(given[row]) for row in sorted(given)], type=pa.string())
    return pc.replace_with_mask(found, pa.array(several), merged)


def merge_properties(texts: set[str]) -> str:
    """Return several JSON objects as one; of two values of a key the first text's stays."""
    given = sorted(texts)
    if len(given) == 1:
        return given[0]
    merged: dict[str, Any] = {}
    for text in given:
        for key, value in json.loads(text).items():
            merged.setdefault(key, value)
    return json.dumps(merged, ensure_ascii=False, sort_keys=True)

"""The names stage: what a scan says of ids becomes one row for each node, sorted by id.

Names, aliases and types of an id come together here, whatever the order they came in. What it does
not do: edges.
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

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.loading.ids import IdTable
    from kgqa.loading.spool import Spool

NAMELESS = "nameless"
UNKNOWN_NAME = "name of an unknown entity"
UNKNOWN_TYPE = "type of an unknown entity"
_SPAN = 1 << 16  # nodes that are sorted at once
_NO_MORE = np.empty(0, dtype=np.int64)


class NodeTable:
    """The nodes of a KG: kinds in memory (a byte each), the rest made a bucket at a time."""

    def __init__(self, spool: Spool, ids: IdTable, folder: Path, dropped: Counter[str]) -> None:
        self._ids = ids
        self._types = np.array(spool.scanned.types, dtype=object)
        self.kinds: NDArray[np.uint8] = np.zeros(len(ids), dtype=np.uint8)
        self._names = Buckets(folder / "names", len(ids), _SPAN)
        self._typed = Buckets(folder / "types", len(ids), _SPAN)
        self._about = Buckets(folder / "properties", len(ids), _SPAN)
        self._type_rank, self._type_names = _ranked(spool.scanned.types)
        self._hidden = np.zeros(len(self._types) + 1, dtype=np.bool_)
        self._hidden[spool.scanned.hidden_types] = True
        self._take(spool, dropped)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield ``ENTITY_SCHEMA`` in the order of the ids."""
        starts = range(0, len(self._ids), _SPAN)
        yield from mapped(self._bucket, range(len(starts)))

    # -- taking in ---------------------------------------------------------------------------

    def _take(self, spool: Spool, dropped: Counter[str]) -> None:
        for batch in gathered(spool.read("entities")):
            keys = self._ids.keys_of(batch.column("id"))
            np.maximum.at(self.kinds, keys, batch.column("kind").to_numpy())
            there = batch.column("properties").is_valid()
            mask = there.to_numpy(zero_copy_only=False)
            self._add(self._about, keys[mask], text=batch.column("properties").filter(there))
        border = len(self._ids.texts)
        self.kinds[border:] = Kind.MEDIATOR
        for batch in gathered(spool.read("values")):
            keys = self._ids.keys_of(batch.column("id"))
            kept = np.flatnonzero(keys >= 0)
            kept = kept[np.unique(keys[kept], return_index=True)[1]]
            self.kinds[keys[kept]] = Kind.VALUE
            ranks = np.zeros(len(kept), dtype=np.int64)
            self._add(self._names, keys[kept], text=batch.column("name").take(kept), rank=ranks)
        for form in ("text", "mid"):
            for batch in gathered(spool.read(f"names-{form}")):
                keys = self._ids.keys_of(batch.column("id"))
                kept = np.flatnonzero(keys >= 0)
                if len(kept) < len(keys):
                    dropped[UNKNOWN_NAME] += len(keys) - len(kept)
                ranks = batch.column("rank").to_numpy()[kept]
                if form == "mid":
                    self.kinds[keys[kept][ranks < ALIAS]] = Kind.ENTITY
                texts = batch.column("text")
                if len(kept) < len(keys):
                    texts = texts.take(kept)
                self._add(self._names, keys[kept], text=texts, rank=ranks)
        untyped = 0
        nameless = []
        for form in ("text", "mid"):
            for batch in gathered(spool.read(f"types-{form}")):
                keys = self._ids.keys_of(batch.column("id"))
                types = batch.column("type").to_numpy()
                if form == "mid":
                    nameless.append(np.unique(batch.column("id").to_numpy()[keys < 0]))
                elif unknown := int(np.count_nonzero(keys < 0)):
                    dropped[UNKNOWN_TYPE] += unknown
                kept = (keys >= 0) & (types >= 0) & ~self._hidden[types]
                self._add(self._typed, keys[kept], type=types[kept])
        if nameless and (untyped := len(np.unique(np.concatenate(nameless)))):
            dropped[NAMELESS] += untyped

    def _add(self, buckets: Buckets, keys: IntArray, **columns: Any) -> None:
        rows = pa.RecordBatch.from_pydict({"key": pa.array(keys), **columns})
        buckets.add(keys, rows)

    # -- putting together --------------------------------------------------------------------

    def _bucket(self, bucket: int) -> pa.RecordBatch:
        start = bucket * _SPAN
        end = min(start + _SPAN, len(self._ids))
        kinds = self.kinds[start:end]
        names, aliases = _named(self._names.take(bucket), start, end - start)
        types = self._types_of(self._typed.take(bucket), start, end - start)
        properties = _properties(self._about.take(bucket), start, end - start)
        ids = self._ids.texts_of(start, end)
        columns = [ids, names, aliases, pa.array(kinds), types, properties]
        return pa.RecordBatch.from_arrays(columns, schema=ENTITY_SCHEMA)

    def _types_of(self, held: list[pa.RecordBatch], start: int, count: int) -> pa.Array:
        if not held:
            return _lists(_NO_MORE, self._type_names.slice(0, 0), count)
        rows = np.concatenate([batch.column("key").to_numpy() for batch in held]) - start
        types = self._type_rank[np.concatenate([b.column("type").to_numpy() for b in held])]
        packed = np.unique(rows * len(self._types) + types)
        rows, types = np.divmod(packed, len(self._types))
        return _lists(rows, self._type_names.take(pa.array(types)), count)


def _ranked(texts: list[str]) -> tuple[IntArray, pa.Array]:
    """Return the rank of each text, and the texts in that order."""
    order = sorted(range(len(texts)), key=texts.__getitem__)
    ranks = np.empty(len(texts), dtype=np.int64)
    ranks[order] = np.arange(len(texts))
    return ranks, pa.array([texts[place] for place in order], type=pa.string())


def _lists(rows: IntArray, values: pa.Array, count: int) -> pa.Array:
    """Return lists for ``count`` rows; ``rows`` (sorted) says which row each value belongs to."""
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _named(held: list[pa.RecordBatch], start: int, count: int) -> tuple[pa.Array, pa.Array]:
    """Return name and aliases of each row: the text of the lowest rank, and all the others."""
    nothing = pa.array([], type=pa.string())
    if not held:
        return pa.nulls(count, pa.string()), _lists(_NO_MORE, nothing, count)
    table = pa.Table.from_batches(held).combine_chunks()
    rows = table["key"].to_numpy() - start
    ranks = table["rank"].to_numpy()
    texts = table["text"].combine_chunks()
    chosen = np.full(count, -1, dtype=np.int64)
    # Most rows have one text, perhaps more than once; only for the others need texts be compared.
    several = np.bincount(rows, minlength=count)[rows] > 1
    rest = np.flatnonzero(several)
    if len(rest):
        rest = _without_repeats(rest, rows, ranks, texts)
        several[:] = False
        several[rest[np.bincount(rows[rest], minlength=count)[rows[rest]] > 1]] = True
        singles = np.concatenate([rest[~several[rest]], np.flatnonzero(_alone(rows, count))])
    else:
        singles = np.arange(len(rows))
    named = singles[ranks[singles] < ALIAS]
    chosen[rows[named]] = named
    rest = np.concatenate([np.flatnonzero(several), singles[ranks[singles] >= ALIAS]])
    if not len(rest):
        return _taken(texts, chosen), _lists(_NO_MORE, nothing, count)
    encoded = texts.take(pa.array(rest)).dictionary_encode()
    order_of = np.empty(len(encoded.dictionary), dtype=np.int64)
    order_of[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(order_of))
    text_rank = order_of[encoded.indices.to_numpy()]
    order = np.lexsort((text_rank, ranks[rest], rows[rest]))
    rest, text_rank = rest[order], text_rank[order]
    first = np.ones(len(rest), dtype=np.bool_)
    first[1:] = rows[rest][1:] != rows[rest][:-1]
    heads = first & (ranks[rest] < ALIAS)
    chosen[rows[rest[heads]]] = rest[heads]
    others = np.flatnonzero(~heads & (ranks[rest] != OWN_ID))
    packed = np.sort(rows[rest[others]] * len(order_of) + text_rank[others])
    place_of = np.empty(len(order_of), dtype=np.int64)
    place_of[text_rank] = rest
    aliases = texts.take(pa.array(place_of[packed % len(order_of)]))
    return _taken(texts, chosen), _lists(packed // len(order_of), aliases, count)


def _alone(rows: IntArray, count: int) -> BoolArray:
    """Return which entries are the only one of their row."""
    alone: BoolArray = np.bincount(rows, minlength=count)[rows] == 1
    return alone


def _without_repeats(
    places: IntArray, rows: IntArray, ranks: IntArray, texts: pa.Array
) -> IntArray:
    """Return ``places`` without those whose row has the same text at a lower rank, or before."""
    codes = texts.take(pa.array(places)).dictionary_encode().indices.to_numpy().astype(np.int64)
    packed = rows[places] * (int(codes.max()) + 1) + codes
    order = np.lexsort((ranks[places], packed))
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = np.diff(packed[order]) != 0
    return places[order[first]]


def _taken(texts: pa.Array, places: IntArray) -> pa.Array:
    return texts.take(pa.array(places, mask=places < 0))


def _properties(held: list[pa.RecordBatch], start: int, count: int) -> pa.Array:
    if not held:
        return pa.nulls(count, pa.string())
    table = pa.Table.from_batches(held).combine_chunks()
    rows = table["key"].to_numpy() - start
    texts = table["text"].combine_chunks()
    counts = np.bincount(rows, minlength=count)
    chosen = np.full(count, -1, dtype=np.int64)
    chosen[rows] = np.arange(len(rows))
    found = _taken(texts, chosen)
    for row in np.flatnonzero(counts > 1).tolist():
        given = {texts[place].as_py() for place in np.flatnonzero(rows == row).tolist()}
        mask = np.zeros(count, dtype=np.bool_)
        mask[row] = True
        merged = pa.array([merge_properties(given)], type=pa.string())
        found = pc.replace_with_mask(found, pa.array(mask), merged)
    return found


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

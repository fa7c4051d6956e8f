"""The nodes of a KG: their sorted ids, and the names stage, which gives each node its row.

The key of an id is its rank. Text ids are Arrow strings, mids are numbers: 8 bytes each. Every text
id comes before every mid (in Freebase the only text ids are values, which begin with a quote).
Names, aliases and types of an id come together here, whatever the order they came in.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import IngestError
from kgqa.graph.literals import members
from kgqa.graph.mids import decode_mids
from kgqa.graph.model import ALIAS, ENTITY_SCHEMA, FALLBACK, Kind
from kgqa.graph.names import iri_names
from kgqa.loaders.base import keep_example, lose
from kgqa.loaders.ntriples import OTHER, OTHER_LANGUAGE, RANKS
from kgqa.loading.columns import Buckets, gathered
from kgqa.loading.spool import (
    CALLED_BY_ID,
    CALLED_BY_IRI,
    MEDIATOR_IF_NAMELESS,
    UNLESS_RELATION,
    Spool,
)
from kgqa.parallel import mapped

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Set
    from pathlib import Path

    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray

_TEXT = pa.large_string()  # a string array ends at 2 GB
_GATHER = 1 << 22  # rows between two times that repeated ids are taken out
_NO_MIDS = np.empty(0, dtype=np.int64)
NAMELESS = "nameless"
UNKNOWN_NAME = "name of an unknown entity"
UNKNOWN_TYPE = "type of an unknown entity"
_NO_TAG = OTHER + 1  # a node without a name
_FEW = 1_000  # nodes whose names in other languages are held for an example
_SPAN = 1 << 16  # nodes that are sorted at once
_NOTHING = np.empty(0, dtype=np.int64)


class IdTable:
    """The sorted ids of all nodes. ``texts``: a string array; ``mids``: Freebase's as numbers."""

    def __init__(self, texts: pa.Array, mids: IntArray) -> None:
        self.texts = texts
        self.mids = mids
        if len(texts) and len(mids) and texts[-1].as_py() >= decode_mids(mids[:1])[0].as_py():
            raise IngestError(
                f"The id {texts[-1].as_py()!r} would stand among mids.",
                "This is a fault of the loader, which mixes ids of two kinds.",
            )

    def __len__(self) -> int:
        return len(self.texts) + len(self.mids)

    def keys_of(self, ids: pa.Array) -> IntArray:
        """Return the key of each id (strings, or int64 for mids), -1 for an unknown one."""
        if ids.type == pa.int64():
            codes = ids.to_numpy()
            if not len(self.mids):
                return np.full(len(codes), -1, dtype=np.int64)
            places = np.searchsorted(self.mids, codes)
            places[places == len(self.mids)] = 0
            return np.where(self.mids[places] == codes, places + len(self.texts), -1)
        ranks = pc.index_in(ids.cast(_TEXT), value_set=self.texts, skip_nulls=True)
        keys: IntArray = pc.fill_null(ranks, -1).to_numpy().astype(np.int64)
        return keys

    def texts_of(self, start: int, end: int) -> pa.Array:
        """Return the ids of keys ``start`` up to (without) ``end`` as strings."""
        border = len(self.texts)
        texts = self.texts[start:end].cast(pa.string())
        mids = self.mids[max(start - border, 0) : max(end - border, 0)]
        return pa.concat_arrays([texts, decode_mids(mids)]) if len(mids) else texts


def collect_ids(spool: Spool) -> IdTable:
    """Collect the ids of all nodes of a scan.

    A text id is a node if an entity batch has it, or if it is a value and the tail of an edge with
    a known head; a mid is a node if it has a name, or a mediator's type.
    """
    mids = _united(_mid_columns(spool), _NO_MIDS, lambda held: np.unique(np.concatenate(held)))

    def ids(*, unless: bool) -> pa.Array:
        """Return the ids of entities that are always nodes, or (``unless``) unless relations."""

        def chosen(batch: pa.RecordBatch) -> pa.Array:
            """Return the ids of a batch's rows with that setting."""
            is_unless = pc.greater_equal(batch.column("kind"), UNLESS_RELATION)
            return batch.column("id").filter(pc.equal(is_unless, unless))

        return _unique_texts(map(chosen, spool.read("entities")))

    entities, described = ids(unless=False), ids(unless=True)
    relations = pa.array([*spool.scanned.relations, *spool.scanned.properties], _TEXT)
    described = described.filter(pc.invert(pc.is_in(described, value_set=relations)))
    entities = _unique_texts([entities, described]) if len(described) else entities
    values = _unique_texts(batch.column("id") for batch in spool.read("values"))
    if len(values):
        values = values.filter(pc.is_in(values, value_set=_known_tails(spool, entities, mids)))
    return IdTable(_unique_texts([entities, values]), mids)


def _known_tails(spool: Spool, entities: pa.Array, mids: IntArray) -> pa.Array:
    """Return the text ids that are tails of edges with a known head.

    ``entities`` and ``mids``: the known heads, as texts and as numbers.
    """
    texts, numbers = IdTable(entities, _NO_MIDS), IdTable(entities.slice(0, 0), mids)

    def tails() -> Iterator[pa.Array]:
        """Yield the tails of edges with a known head, batch by batch."""
        for name in spool.edge_files():
            if not name.removesuffix("-about").endswith("-text"):
                continue
            for batch in gathered(spool.read(name)):
                heads = batch.column("head")
                table = numbers if heads.type == pa.int64() else texts
                known = pa.array(table.keys_of(heads) >= 0)
                yield pc.unique(batch.column("tail").filter(known))

    return _unique_texts(tails())


def _mid_columns(spool: Spool) -> Iterator[IntArray]:
    """Yield the mids that have a name, and those with a mediator's type."""
    if spool.scanned.named_mids:
        for batch in spool.read("names-mid"):
            named = batch.column("rank").to_numpy() < ALIAS  # an alias alone is not a name
            yield batch.column("id").to_numpy()[named]
    mediators = np.zeros(len(spool.scanned.types) + 1, dtype=np.bool_)
    mediators[spool.scanned.mediator_types] = True
    for batch in spool.read("types-mid"):
        yield batch.column("id").to_numpy()[mediators[batch.column("type").to_numpy()]]


def _unique_texts(columns: Iterable[pa.Array]) -> pa.Array:
    """Return the sorted distinct texts of all columns."""
    texts = (column.cast(_TEXT) for column in columns)
    unique = _united(
        texts, pa.array([], _TEXT), lambda held: pc.unique(pa.chunked_array(held, type=_TEXT))
    )
    return unique.take(pc.sort_indices(unique))


def _united(columns: Iterable[Any], known: Any, unite: Callable[[list[Any]], Any]) -> Any:
    """Reduce ``known`` and all columns to one by ``unite``, called whenever many rows are held."""
    held, count = [known], 0
    for column in columns:
        held.append(column)
        count += len(column)
        if count > _GATHER:
            held, count = [unite(held)], 0
    return unite(held)


class NodeTable:
    """The nodes of a KG: kinds in memory (a byte each), other columns built bucket by bucket.

    ``tags``: how many nodes have a name of each :func:`kgqa.loaders.ntriples.preference`.
    """

    tags: list[int]

    def __init__(self, spool: Spool, ids: IdTable, folder: Path, dropped: Counter[str]) -> None:
        """Read entities, values, names and types of a scan into buckets."""
        self._ids = ids
        self.kinds: NDArray[np.uint8] = np.zeros(len(ids), dtype=np.uint8)
        self._names = Buckets(folder / "names", len(ids), _SPAN)
        self._types = Buckets(folder / "types", len(ids), _SPAN)
        self._properties = Buckets(folder / "properties", len(ids), _SPAN)
        self._walked = frozenset(spool.scanned.walked)
        types = spool.scanned.types
        order = sorted(range(len(types)), key=types.__getitem__)
        self._type_rank = np.argsort(np.array(order, dtype=np.int64))
        self._type_names = pa.array([types[place] for place in order], type=pa.string())
        self._add_entities(spool)
        self.kinds[len(ids.texts) :] = Kind.MEDIATOR  # a mid that has no name
        self._add_values(spool)
        named, foreign = self._add_names(spool, dropped)
        self._add_types(spool, dropped)
        sure = np.minimum(self.kinds & 3, Kind.VALUE)
        unsure = (sure == Kind.ENTITY) & ~named
        sure[unsure & (self.kinds & MEDIATOR_IF_NAMELESS > 0)] = Kind.MEDIATOR
        own = unsure & (sure == Kind.ENTITY) & (self.kinds & CALLED_BY_ID > 0)
        by_iri = self.kinds & CALLED_BY_IRI > 0
        self._own = own & ~self._name_by_iris(own & by_iri, 0)
        self._name_by_iris(foreign & by_iri, ALIAS)
        self.kinds = sure

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield ``ENTITY_SCHEMA`` sorted by id."""
        starts = range(0, len(self._ids), _SPAN)
        yield from mapped(self._node_rows, range(len(starts)))

    def _add_entities(self, spool: Spool) -> None:
        """Read entities: their kinds and properties."""
        for batch in gathered(spool.read("entities")):
            keys = self._ids.keys_of(batch.column("id"))
            kinds = batch.column("kind").to_numpy()
            np.bitwise_or.at(self.kinds, keys[keys >= 0], kinds[keys >= 0])
            some = np.flatnonzero(batch.column("properties").is_valid())
            _add(self._properties, keys[some], text=batch.column("properties").take(some))

    def _add_values(self, spool: Spool) -> None:
        """Read value nodes: their kinds and names."""
        for batch in gathered(spool.read("values")):
            keys = self._ids.keys_of(batch.column("id"))
            kept = np.flatnonzero(keys >= 0)
            kept = kept[np.unique(keys[kept], return_index=True)[1]]
            self.kinds[keys[kept]] = Kind.VALUE
            ranks = np.zeros(len(kept), dtype=np.int64)
            _add(self._names, keys[kept], text=batch.column("name").take(kept), rank=ranks)

    def _add_names(self, spool: Spool, dropped: Counter[str]) -> tuple[BoolArray, BoolArray]:
        """Read names; return which nodes have one, and which only one in another language.

        Names of unknown ids, except relations, and further names in other languages are counted as
        dropped.
        """
        named = np.zeros(len(self._ids), dtype=np.bool_)
        fallback = named.copy()
        best = np.full(len(self._ids), _NO_TAG, dtype=np.uint8)
        others: dict[int, list[tuple[int, str]]] = {}  # some in other languages, for an example
        relations = [*spool.scanned.relations, *spool.scanned.properties]
        relations = pa.array(relations, pa.string())
        for form in ("text", "mid"):
            for batch in gathered(spool.read(f"names-{form}")):
                keys = self._ids.keys_of(batch.column("id"))
                ranks, texts = batch.column("rank").to_numpy(), batch.column("text")
                kept = np.flatnonzero(keys >= 0)
                if len(kept) < len(keys):
                    unknown = batch.column("id").filter(pa.array(keys < 0))
                    if form == "text":  # a relation's name is not a node's
                        unknown = unknown.filter(pc.invert(pc.is_in(unknown, value_set=relations)))
                    lose(dropped, UNKNOWN_NAME, len(unknown), _first_text(unknown))
                    keys, ranks, texts = keys[kept], ranks[kept], texts.take(kept)
                if form == "mid":
                    self.kinds[keys[ranks < ALIAS]] = Kind.ENTITY
                first, is_name = ranks < FALLBACK, ranks < ALIAS
                tags = np.minimum(ranks // RANKS, _NO_TAG).astype(np.uint8)
                np.minimum.at(best, keys[is_name], tags[is_name])
                named[keys[first]] = True
                last = np.flatnonzero(~first & is_name)
                fallback[keys[last]] = True
                lose(dropped, OTHER_LANGUAGE, len(last))
                for row in last[: max(0, _FEW - len(others))].tolist():
                    others.setdefault(int(keys[row]), []).append((ranks[row], texts[row].as_py()))
                _add(self._names, keys, text=texts, rank=ranks)
        if taken := int(np.count_nonzero(fallback & ~named)):
            dropped[OTHER_LANGUAGE] -= taken
        lost = (max(held)[1] for key, held in others.items() if named[key] or len(held) > 1)
        keep_example(dropped, OTHER_LANGUAGE, next(lost, ""))
        self.tags = np.bincount(best, minlength=_NO_TAG)[:_NO_TAG].tolist()
        return named | fallback, best == OTHER

    def _name_by_iris(self, chosen: BoolArray, rank: int) -> BoolArray:
        """Name nodes by the last part of their IRIs; return which nodes got a name.

        ``chosen``: a mask of nodes; ``rank``: of these names; as they are written they become
        aliases.
        """
        named = np.zeros(len(chosen), dtype=np.bool_)
        for start in range(0, len(self._ids.texts), _SPAN):
            end = min(start + _SPAN, len(self._ids.texts))
            keys = np.flatnonzero(chosen[start:end])
            if not len(keys):
                continue
            ids = self._ids.texts_of(start, end).take(pa.array(keys)).cast(pa.string())
            words, local = iri_names(ids, codes=rank < ALIAS)
            some = np.flatnonzero(words.is_valid())
            keys = keys[some] + start
            for texts, rank_ in ((words, rank), (local, ALIAS)):
                ranks = np.full(len(keys), rank_, dtype=np.int64)
                _add(self._names, keys, text=texts.take(pa.array(some)), rank=ranks)
            named[keys] = True
        return named

    def _add_types(self, spool: Spool, dropped: Counter[str]) -> None:
        """Read types, except hidden ones; count those of unknown and nameless ids as dropped."""
        hidden = np.zeros(len(self._type_rank) + 1, dtype=np.bool_)
        hidden[spool.scanned.hidden_types] = True
        nameless = [_NOTHING]
        for form in ("text", "mid"):
            for batch in gathered(spool.read(f"types-{form}")):
                keys, types = self._ids.keys_of(batch.column("id")), batch.column("type").to_numpy()
                if form == "mid":
                    nameless.append(np.unique(batch.column("id").to_numpy()[keys < 0]))
                elif len(unknown := batch.column("id").filter(pa.array(keys < 0))):
                    lose(dropped, UNKNOWN_TYPE, len(unknown), _first_text(unknown))
                kept = (keys >= 0) & (types >= 0) & ~hidden[types]
                _add(self._types, keys[kept], type=types[kept])
        untyped = np.unique(np.concatenate(nameless))
        lose(dropped, NAMELESS, len(untyped), _first_text(decode_mids(untyped[:1])))

    def _node_rows(self, bucket: int) -> pa.RecordBatch:
        """Build the rows of ``ENTITY_SCHEMA`` of one bucket."""
        start = bucket * _SPAN
        end = min(start + _SPAN, len(self._ids))
        names, aliases = _named(self._names.take(bucket), start, end - start)
        types = self._types_of(self._types.take(bucket), start, end - start)
        properties = self._properties_of(self._properties.take(bucket), start, end - start)
        ids = self._ids.texts_of(start, end)
        own = pa.array(self._own[start:end])
        names = pc.if_else(own, pc.utf8_trim_whitespace(ids), names) if own.true_count else names
        columns = [ids, names, aliases, pa.array(self.kinds[start:end])]
        return pa.RecordBatch.from_arrays([*columns, types, properties], schema=ENTITY_SCHEMA)

    def _types_of(self, held: list[pa.RecordBatch], start: int, count: int) -> pa.Array:
        """Return the list of types of each of ``count`` nodes from key ``start`` on."""
        if not held:
            return _lists(_NOTHING, self._type_names[:0], count)
        table = pa.Table.from_batches(held)
        rows = table["key"].to_numpy() - start
        packed = rows * len(self._type_rank) + self._type_rank[table["type"].to_numpy()]
        rows, ranks = np.divmod(np.unique(packed), len(self._type_rank))
        return _lists(rows, self._type_names.take(ranks), count)

    def _properties_of(self, held: list[pa.RecordBatch], start: int, count: int) -> pa.Array:
        """Return the merged properties of each of ``count`` nodes from key ``start`` on."""
        if not held:
            return pa.nulls(count, pa.string())
        table = pa.Table.from_batches(held)
        rows, texts = table["key"].to_numpy() - start, table["text"].combine_chunks()
        chosen = np.full(count, -1, dtype=np.int64)
        chosen[rows] = np.arange(len(rows))
        properties = _take_or_null(texts, chosen)
        several = np.bincount(rows, minlength=count) > 1
        if not several.any():
            return properties
        given: dict[int, set[str]] = {}
        for place in np.flatnonzero(several[rows]).tolist():
            given.setdefault(int(rows[place]), set()).add(texts[place].as_py())
        merged = [merge_properties(given[row], self._walked) for row in sorted(given)]
        return pc.replace_with_mask(properties, pa.array(several), pa.array(merged, pa.string()))


def _add(buckets: Buckets, keys: IntArray, **columns: Any) -> None:
    """Add columns, as rows with their keys, to buckets."""
    buckets.add(keys, pa.RecordBatch.from_pydict({"key": keys, **columns}))


def _lists(rows: IntArray, values: pa.Array, count: int) -> pa.Array:
    """Build ``count`` lists of ``values``; ``rows`` (sorted): the list of each value."""
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _named(held: list[pa.RecordBatch], start: int, count: int) -> tuple[pa.Array, pa.Array]:
    """Return each row's name (the text of lowest rank) and its aliases (the others).

    The name is null if all texts are aliases; further names in other languages are dropped.
    """
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
    is_alias = (ranks[rest] < FALLBACK) | (ranks[rest] >= ALIAS)
    others = rest[~best & is_alias]
    others = others[pc.sort_indices(table.take(others), [key, text])]
    return _take_or_null(texts, chosen), _lists(rows[others], texts.take(others), count)


def _take_or_null(texts: pa.Array, places: IntArray) -> pa.Array:
    """Return the texts at ``places``, null for a negative one."""
    return texts.take(pa.array(places, mask=places < 0))


def merge_properties(texts: set[str], walked: Set[str] = frozenset()) -> str:
    """Merge JSON objects; of different values of a key the first text's is kept.

    The distinct values of ``walked`` keys are all kept, as a list.
    """
    given = sorted(texts)
    if len(given) == 1:
        return given[0]
    merged: dict[str, Any] = {}
    for text in given:
        for key, value in json.loads(text).items():
            if key in walked and merged.setdefault(key, value) != value:
                every = [*members(merged[key]), *members(value)]
                merged[key] = list({repr(member): member for member in every}.values())
            merged.setdefault(key, value)
    return json.dumps(merged, ensure_ascii=False, sort_keys=True)


def _first_text(texts: pa.Array) -> str:
    """Return the first text of a column, "" if it is empty."""
    return str(texts[0]) if len(texts) else ""

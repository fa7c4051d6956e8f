"""All ids of a KG, sorted, and where each stands: the key of an id is its rank.

Text ids are Arrow strings, mids are numbers: 8 bytes each. Every text id comes before every mid
(in Freebase the only text ids are values, which begin with a quote). What it does not do: say what
an id names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import IngestError
from kgqa.graph.mids import decode_mids
from kgqa.graph.model import ALIAS
from kgqa.loading.columns import ColumnWriter, gathered, read_columns

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kgqa.graph.model import IntArray
    from kgqa.loading.spool import Spool

_TEXT = pa.large_string()  # a string array ends at 2 GB
_TEXT_SCHEMA = pa.schema([("id", _TEXT)])
_TEXT_FILE, _MID_FILE = "ids.arrow", "mids.npy"
_GATHER = 1 << 22  # rows between two times that repeated ids are taken out


class IdTable:
    """The sorted ids. ``texts``: a string array; ``mids``: numbers of :mod:`kgqa.graph.mids`."""

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

    def save(self, folder: Path) -> None:
        """Write the ids down, for :meth:`load`."""
        with ColumnWriter(folder / _TEXT_FILE, _TEXT_SCHEMA) as writer:
            writer.append(pa.RecordBatch.from_arrays([self.texts], schema=_TEXT_SCHEMA))
        np.save(folder / _MID_FILE, self.mids)

    @classmethod
    def load(cls, folder: Path) -> IdTable:
        """Return the ids that :meth:`save` wrote."""
        [batch] = read_columns(folder / _TEXT_FILE)
        return cls(batch.column("id"), np.load(folder / _MID_FILE))

    def keys_of(self, ids: pa.Array) -> IntArray:
        """Return the key of each id (strings, or int64 for mids), -1 where there is none."""
        if ids.type == pa.int64():
            codes = ids.to_numpy()
            if not len(self.mids):
                return np.full(len(codes), -1, dtype=np.int64)
            places = np.searchsorted(self.mids, codes)
            places[places == len(self.mids)] = 0
            return np.where(self.mids[places] == codes, places + len(self.texts), -1)
        encoded = ids.dictionary_encode()
        unique = encoded.dictionary.cast(_TEXT)
        found = pc.index_in(unique, value_set=self.texts, skip_nulls=True)
        table = np.append(pc.fill_null(found, -1).to_numpy(), -1).astype(np.int64)
        keys: IntArray = table[
            encoded.indices.fill_null(len(table) - 1).to_numpy(zero_copy_only=False)
        ]
        return keys

    def texts_of(self, start: int, end: int) -> pa.Array:
        """Return the ids of the keys from ``start`` up to ``end`` as strings."""
        border = len(self.texts)
        parts = []
        if start < border:
            parts.append(self.texts.slice(start, min(end, border) - start).cast(pa.string()))
        if end > border:
            parts.append(decode_mids(self.mids[max(start - border, 0) : end - border]))
        return pa.concat_arrays(parts) if parts else pa.array([], type=pa.string())


def collect_ids(spool: Spool) -> IdTable:
    """Return the ids of all nodes that a scan found.

    A text id is a node where a batch of entities said so, or as a value that is the tail of an edge
    with a known head; a mid where it is named, or has a mediator's type.
    """
    mids = _unique_numbers(_mid_columns(spool))
    entities = _unique_texts(batch.column("id") for batch in spool.read("entities"))
    known = IdTable(entities, np.empty(0, dtype=np.int64)), IdTable(entities.slice(0, 0), mids)
    values = _unique_texts(batch.column("id") for batch in spool.read("values"))
    used: list[pa.Array] = []
    if len(values):
        for name in spool.edge_files():
            if not name.removesuffix("-about").endswith("-text"):
                continue
            for batch in gathered(spool.read(name)):
                heads = batch.column("head")
                table = known[1] if heads.type == pa.int64() else known[0]
                there = pa.array(table.keys_of(heads) >= 0)
                used.append(pc.unique(batch.column("tail").filter(there)))
        tails = _unique_texts(used)
        values = values.filter(pc.is_in(values, value_set=tails))
    texts = _unique_texts([entities, values])
    return IdTable(texts, mids)


def _mid_columns(spool: Spool) -> Iterable[IntArray]:
    if spool.scanned.named_mids:
        for batch in spool.read("names-mid"):
            named = batch.column("rank").to_numpy() < ALIAS  # an alias alone is no name
            yield batch.column("id").to_numpy()[named]
    mediators = np.zeros(len(spool.scanned.types) + 1, dtype=np.bool_)
    mediators[spool.scanned.mediator_types] = True
    for batch in spool.read("types-mid"):
        yield batch.column("id").to_numpy()[mediators[batch.column("type").to_numpy()]]


def _unique_numbers(columns: Iterable[IntArray]) -> IntArray:
    known = np.empty(0, dtype=np.int64)
    held: list[IntArray] = []
    count = 0
    for column in columns:
        held.append(column)
        count += len(column)
        if count > _GATHER:
            known = np.unique(np.concatenate([known, *held]))
            held, count = [], 0
    return np.unique(np.concatenate([known, *held]))


def _unique_texts(columns: Iterable[pa.Array]) -> pa.Array:
    known = pa.array([], type=_TEXT)
    held: list[pa.Array] = []
    count = 0
    for column in columns:
        held.append(column.cast(_TEXT))
        count += len(column)
        if count > _GATHER:
            known = pc.unique(pa.chunked_array([known, *held], type=_TEXT))
            held, count = [], 0
    known = pc.unique(pa.chunked_array([known, *held], type=_TEXT))
    return known.take(pc.sort_indices(known))

"""All ids of a KG, sorted, and where each stands: the key of an id is its rank.

Text ids are Arrow strings, mids are numbers: 8 bytes each. Every text id comes before every mid
(in Freebase the only text ids are values, which begin with a quote).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import IngestError
from kgqa.graph.mids import decode_mids
from kgqa.graph.model import ALIAS
from kgqa.loading.columns import ColumnWriter, gathered, read_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from kgqa.graph.model import IntArray
    from kgqa.loading.spool import Spool

_TEXT = pa.large_string()  # a string array ends at 2 GB
_TEXT_SCHEMA = pa.schema([("id", _TEXT)])
_TEXT_FILE, _MID_FILE = "ids.arrow", "mids.npy"
_GATHER = 1 << 22  # rows between two times that repeated ids are taken out
_NO_MIDS = np.empty(0, dtype=np.int64)


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
        """Return the key of each id (strings, or int64 for mids), -1 for an unknown one."""
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
        texts = self.texts[start:end].cast(pa.string())
        mids = self.mids[max(start - border, 0) : max(end - border, 0)]
        return pa.concat_arrays([texts, decode_mids(mids)]) if len(mids) else texts


def collect_ids(spool: Spool) -> IdTable:
    """Return the ids of all nodes that a scan found.

    A text id is a node if a batch of entities said so, or as a value that is the tail of an edge
    with a known head; a mid if it is named, or has a mediator's type.
    """
    mids = _merged(_mid_columns(spool), _NO_MIDS, lambda held: np.unique(np.concatenate(held)))
    entities = _unique_texts(batch.column("id") for batch in spool.read("entities"))
    values = _unique_texts(batch.column("id") for batch in spool.read("values"))
    if len(values):
        values = values.filter(pc.is_in(values, value_set=_known_tails(spool, entities, mids)))
    return IdTable(_unique_texts([entities, values]), mids)


def _known_tails(spool: Spool, entities: pa.Array, mids: IntArray) -> pa.Array:
    """Return the text ids that are tails of edges with a known head."""
    texts, numbers = IdTable(entities, _NO_MIDS), IdTable(entities.slice(0, 0), mids)

    def tails() -> Iterator[pa.Array]:
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
    if spool.scanned.named_mids:
        for batch in spool.read("names-mid"):
            named = batch.column("rank").to_numpy() < ALIAS  # an alias alone is no name
            yield batch.column("id").to_numpy()[named]
    mediators = np.zeros(len(spool.scanned.types) + 1, dtype=np.bool_)
    mediators[spool.scanned.mediator_types] = True
    for batch in spool.read("types-mid"):
        yield batch.column("id").to_numpy()[mediators[batch.column("type").to_numpy()]]


def _unique_texts(columns: Iterable[pa.Array]) -> pa.Array:
    """Return the texts of all columns, sorted, each once."""
    texts = (column.cast(_TEXT) for column in columns)
    unique = _merged(
        texts, pa.array([], _TEXT), lambda held: pc.unique(pa.chunked_array(held, type=_TEXT))
    )
    return unique.take(pc.sort_indices(unique))


def _merged(columns: Iterable[Any], known: Any, unite: Callable[[list[Any]], Any]) -> Any:
    """Return all columns as one by ``unite``, which is called whenever many rows are held."""
    held, count = [known], 0
    for column in columns:
        held.append(column)
        count += len(column)
        if count > _GATHER:
            held, count = [unite(held)], 0
    return unite(held)

"""One shard: a Parquet file with a row for each topic entity, by id, and their paths as tries.

A row group has one marisa trie of its rows' paths, in its first row; the shard's first row has the
texts and the dictionary that all of them use (:mod:`kgqa.trie.index.packed`). A file is read whole,
and nothing of it is decoded before its digest is that of the manifest.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kgqa.errors import ShardDamagedError, first_line
from kgqa.files import read_plain
from kgqa.paths.walk import PathTable
from kgqa.trie.arrays import Sequences, dense, joined, offsets_of
from kgqa.trie.index.manifest import REBUILD, ShardRecord
from kgqa.trie.index.marisa import opened, trie_of
from kgqa.trie.index.packed import (
    HOP,
    LISTED,
    Dictionary,
    found_hops,
    read_texts,
    text_list,
    token_bytes,
    token_width,
    tokens_of,
)
from kgqa.trie.stored import JoinedSequences, of_parts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import marisa_trie

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.trie.lexicon import PathLexicon

ROWS_IN_GROUP = 256  # as many as a byte can tell apart
PATHS_IN_GROUP = 1 << 16  # a group with more ends, so that a look-up opens little
SMALL = 8_192  # paths of a shard for which the other layout is written too, and the smaller kept
_RAW = 1 << 24, 100  # bytes of columns before compression: at most so many, and times the file's
_TRIES_KEPT = 1 << 20  # paths of the tries of a shard that are kept opened

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("key", pa.int64(), nullable=False),  # the entity's key in the KG
        pa.field("paths", pa.int64(), nullable=False),
        pa.field("head", pa.int64(), nullable=False),  # the number of its text
        pa.field("trie", pa.binary()),  # in a group's first row: the paths of its rows
        pa.field("names", pa.binary()),  # in the first row: the texts
        pa.field("dictionary", pa.binary()),  # in the first row: relations, tails and hops
    ]
)


@dataclass(frozen=True, slots=True)
class NewShard:
    """A shard before it is written: its bytes, and its manifest record without the file name."""

    record: ShardRecord
    data: bytes


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def encode_shard(
    store: GraphStore, lexicon: PathLexicon, keys: IntArray, table: PathTable
) -> NewShard:
    """Encode the paths in ``table`` of the entities ``keys`` as a shard."""
    ids = store.entities(keys).ids
    by_id = np.array(sorted(range(len(ids)), key=ids.__getitem__), np.int64)
    keys, ids = keys[by_id], [ids[row] for row in by_id.tolist()]
    by_key = np.argsort(keys)
    row = by_key[np.searchsorted(keys[by_key], table.topic)]
    order = np.argsort(row, kind="stable")
    row, hops = row[order], found_hops(table)
    hops = replace(hops, number=hops.number[order])
    counts = np.bincount(row, minlength=len(keys))
    parts = (
        lexicon.heads(store, keys),
        lexicon.relations(store, hops.pairs),
        lexicon.tails(store, hops.tails),
    )
    texts = joined(parts)
    width = token_width(lexicon.encoder.vocab_size)
    each = token_bytes(texts, width)

    def packed(text: IntArray, names: bytes, **compression: Any) -> bytes:
        """Return the shard's Parquet bytes.

        ``text``: text numbers of heads, relations and tails.
        """
        head, relation, tail = np.split(text, np.cumsum([len(part) for part in parts[:-1]]))
        dictionary, coded = Dictionary.packed(hops, relation, tail)
        tries: list[bytes | None] = [None] * len(keys)
        groups = list(_groups(counts))
        starts = offsets_of(counts)
        for first, last in groups:
            mine = slice(int(starts[first]), int(starts[last]))
            tries[first] = trie_of(coded.keys(row[mine] - first, hops.number[mine])).tobytes()
        rest = [None] * (len(keys) - 1)
        columns = [ids, keys, counts, head, tries, [names, *rest], [dictionary, *rest]]
        return _parquet(pa.Table.from_arrays(columns, schema=SCHEMA), groups, **compression)

    trie = trie_of(sorted(set(each)))
    of_trie = np.fromiter(map(trie.__getitem__, each), np.int64, len(each))
    data = packed(of_trie, trie.tobytes(), compression="zstd", compression_level=9)
    # which layout is smaller is not known beforehand, so both of a small shard are made
    if len(table) <= SMALL and len(each) <= LISTED:
        listed = np.arange(len(each))
        small = packed(listed, text_list(texts, width), compression="brotli", compression_level=11)
        data = min(data, small, key=len)
    sha256 = hashlib.sha256(data).hexdigest()
    record = ShardRecord("", ids[0], ids[-1], len(ids), len(table), len(data), sha256)
    return NewShard(record, data)


def _groups(counts: IntArray) -> Iterator[tuple[int, int]]:
    """Divide rows into row groups by their ``counts`` of paths; yield (first row, end row)."""
    start = paths = 0
    for stop, count in enumerate(counts.tolist(), 1):
        paths += count
        if stop - start == ROWS_IN_GROUP or paths >= PATHS_IN_GROUP or stop == len(counts):
            yield start, stop
            start, paths = stop, 0


def _parquet(table: pa.Table, groups: list[tuple[int, int]], **compression: Any) -> bytes:
    """Encode ``table`` as Parquet with one row group for each of ``groups``."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        SCHEMA,
        write_statistics=["id"],
        use_dictionary=False,
        store_schema=False,
        **compression,
    ) as writer:
        for start, stop in groups:
            writer.write_table(table.slice(start, stop - start))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_checked(path: Path, record: ShardRecord) -> bytes:
    """Read a shard's bytes; raise ShardDamagedError unless they match its record."""
    with _Checked(path):
        data = read_plain(path, record.bytes)
        if len(data) != record.bytes:
            raise ValueError(f"it has {len(data):,} bytes, not {record.bytes:,}")
        if hashlib.sha256(data).hexdigest() != record.sha256:
            raise ValueError("its SHA-256 does not fit")
    return data


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


class StoredTrie:
    """An entity's row of a shard: its paths are keys of a marisa trie that begin with its byte.

    Raises ShardDamagedError from whatever meets damage.
    """

    def __init__(self, shard: Shard, row: int, group: int, first: int) -> None:
        self.id = shard.ids[row]
        self.key = int(shard.keys[row])
        self.paths = int(shard.paths[row])
        self.shard = shard
        self.prefix = bytes([row - first])
        self._head = int(shard.heads[row])
        self._read_group = group

    @property
    def trie(self) -> marisa_trie.BinaryTrie:
        """The marisa trie of the row's group, which holds the paths of all rows of the group."""
        return self.shard.trie(self._read_group)

    @property
    def bytes(self) -> int:
        """The row's part of the shard's size in bytes, by number of paths."""
        return self.shard.bytes * self.paths // max(1, int(self.shard.paths.sum()))

    def head(self) -> Sequences:
        """Return the entity's name as a path's head, in tokens."""
        return self.shard.texts([self._head])

    @property
    def table(self) -> PathTable:
        """The id paths of the entity."""
        return self._decoded[1]

    @property
    def sequences(self) -> JoinedSequences:
        """The token sequences of the id paths in ``table``, in the same order."""
        return self._decoded[0]

    @cached_property
    def _decoded(self) -> tuple[JoinedSequences, PathTable]:
        """Return the token sequences and the id paths of the row."""
        with self.shard.checked():
            keys = self.trie.keys(self.prefix)
            # a row that lost paths would narrow the language in silence
            if len(keys) != self.paths:
                raise ValueError(f"{self.id} has {len(keys)} paths, not {self.paths}")
            return self.shard.paths_of(keys, self.key, self.head())


class Shard:
    """An open shard; ``ids``, ``keys``, ``paths`` and ``heads`` have an element for each row.

    Every method raises ShardDamagedError for damaged data.
    """

    def __init__(
        self, folder: Path, record: ShardRecord, *, hops: int, width: int, closing: int
    ) -> None:
        self.path = folder / record.file
        self._hops, self._width, self._closing = hops, width, closing
        self._tries: OrderedDict[int, marisa_trie.BinaryTrie] = OrderedDict()
        self.bytes = record.bytes
        with self.checked():
            self._open(read_checked(self.path, record), record)

    def _open(self, data: bytes, record: ShardRecord) -> None:
        """Check the Parquet file against its record and read its small columns.

        Raises ValueError.
        """
        self._file = pq.ParquetFile(pa.BufferReader(data))
        footer = self._file.metadata
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        sizes = [group.num_rows for group in groups]
        if not self._file.schema_arrow.equals(SCHEMA):
            raise ValueError("it has other columns")
        if footer.num_rows != record.entities or not 0 < min(sizes) <= max(sizes) <= ROWS_IN_GROUP:
            raise ValueError("it has more or fewer rows than it should")
        # before anything is decompressed: a few forged bytes must not become gigabytes
        if sum(group.total_byte_size for group in groups) > _RAW[0] + _RAW[1] * len(data):
            raise ValueError("it is too large")
        small = self._file.read(columns=["id", "key", "paths", "head"], use_threads=False)
        self.ids: list[str] = small["id"].to_pylist()
        self.keys, self.paths, self.heads = (
            small[name].to_numpy() for name in ("key", "paths", "head")
        )
        if (self.paths < 0).any() or self.paths.sum() != record.paths:
            raise ValueError("it has more or fewer paths than it should")
        self._firsts = offsets_of(np.array(sizes, np.int64))
        self._row = {id_: row for row, id_ in enumerate(self.ids)}
        [first] = self._read_group(0, ["names", "dictionary"]).slice(0, 1).to_pylist()
        self._texts = read_texts(first["names"] or b"", self._width)
        self.dictionary = Dictionary(first["dictionary"] or b"", self._texts.count)
        if not 0 <= self.heads.min() <= self.heads.max() < self._texts.count:
            raise ValueError("a head has a text that is not there")

    def find(self, entity_id: str) -> StoredTrie | None:
        """Return an entity's row, None if it is not in the shard."""
        row = self._row.get(entity_id)
        if row is None:
            return None
        group = int(np.searchsorted(self._firsts, row, side="right")) - 1
        return StoredTrie(self, row, group, int(self._firsts[group]))

    def paths_by_id(self, keys: IntArray) -> dict[str, int]:
        """Return the number of paths of each of ``keys`` by id.

        Keys not in the shard are left out.
        """
        rows = np.flatnonzero(np.isin(self.keys, keys)).tolist()
        return {self.ids[row]: int(self.paths[row]) for row in rows}

    def trie(self, group: int) -> marisa_trie.BinaryTrie:
        """Return the marisa trie of a row group; those used last stay open within a limit."""
        if group in self._tries:
            self._tries.move_to_end(group)
            return self._tries[group]
        with self.checked():
            data = self._read_group(group, ["trie"])["trie"][0].as_py()
            paths = int(self.paths[self._firsts[group] : self._firsts[group + 1]].sum())
            trie, _ = opened(data or b"", (1 + HOP * self._hops) ** 2)
            if len(trie) != paths:
                raise ValueError(f"a trie has {len(trie)} paths, not {paths}")
        self._tries[group] = trie
        while len(self._tries) > 1 and sum(map(len, self._tries.values())) > _TRIES_KEPT:
            self._tries.popitem(last=False)
        return trie

    def texts(self, numbers: list[int]) -> Sequences:
        """Return the token ids of the texts with the given numbers."""
        with self.checked():
            return tokens_of(self._texts.read(numbers), self._width)

    def paths_of(
        self, keys: list[bytes], topic: int, head: Sequences
    ) -> tuple[JoinedSequences, PathTable]:
        """Decode an entity's keys to token sequences and id paths. Raises ValueError."""
        known = self.dictionary
        number = known.hops(keys, self._hops)
        there = number >= 0
        relations, relation = dense(known.relation_of(number[there]))
        tails, tail = dense(known.hop_tail[number[there]])
        tokens = of_parts(
            there,
            (head, np.zeros(len(keys), np.int64)),
            (self.texts(known.relation_text[relations].tolist()), relation),
            (self.texts(known.tail_text[tails].tolist()), tail),
            self._closing,
        )
        return tokens, self.table_of(number, topic)

    def table_of(self, number: IntArray, topic: int) -> PathTable:
        """Return an entity's paths as a table, from hop numbers ``[paths, hops]``."""
        length = (number >= 0).sum(axis=1)
        return PathTable(
            np.full(len(number), topic, np.int64), length, self.dictionary.steps(number)
        )

    def _read_group(self, group: int, columns: list[str]) -> pa.Table:
        """Read ``columns`` of a row group."""
        return self._file.read_row_group(group, columns=columns, use_threads=False)

    def checked(self) -> _Checked:
        """Return a context manager that turns errors of malformed data into ShardDamagedError."""
        return _Checked(self.path)


class _Checked:
    """Context manager: re-raises errors of malformed data as ShardDamagedError with the path."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError) and error.strerror:
            error = ValueError(error.strerror)
        if isinstance(error, _MALFORMED) and not isinstance(error, ShardDamagedError):
            reason = first_line(error)
            raise ShardDamagedError(
                f"The index shard {self._path} is damaged: {reason}.", REBUILD
            ) from None


# what numpy, pyarrow and marisa raise when what they are given does not fit together
_MALFORMED: tuple[type[BaseException], ...]
_MALFORMED = (OSError, ValueError, KeyError, IndexError, OverflowError, RuntimeError, MemoryError)
_MALFORMED += (TypeError, AttributeError, pa.ArrowException)

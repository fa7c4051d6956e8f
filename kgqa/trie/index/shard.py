"""One shard: a Parquet file with a row for each topic entity, sorted by id.

A row holds paths as ids, sorted and front-coded, and the token ids of their parts. Numbers are
bytes: the lowest of all, then the next, as many as the largest needs. Nothing is decoded unchecked:
page checksums, the footer's hash in the manifest, and a hash in every row.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kgqa.errors import ShardDamagedError
from kgqa.graph.files import sync
from kgqa.paths.walk import FIRST, MEDIATOR, SECOND, TAIL, PathTable, ordered
from kgqa.trie.arrays import Sequences, offsets_of
from kgqa.trie.index.manifest import REBUILD, ShardRecord
from kgqa.trie.stored import JoinedSequences, ordered_paths, path_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import BoolArray, IntArray

ROWS_IN_GROUP = 32  # small, so that a look-up reads little
PATHS_IN_GROUP = 1 << 16  # a group with more ends, for the same reason
_LEVEL = 9  # of zstd: a tenth smaller than 3, and still faster than the walk
_GROUPS_KNOWN = 256  # row groups of a shard of which all but the large columns are remembered

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("key", pa.int64(), nullable=False),  # the entity's key in this KG version
        pa.field("paths", pa.int64(), nullable=False),
        pa.field("nodes", pa.int64(), nullable=False),  # of the token trie, the root included
        # of each path how many hops it shares with the one above, and how many it has; of each hop
        # that is not shared first and second step and mediator (plus one), and tail
        pa.field("hops", pa.binary(), nullable=False),
        # of each part (head, relations, tails, closing; ascending) how many token ids; the ids
        pa.field("tokens", pa.binary(), nullable=False),
        pa.field("digest", pa.binary(16), nullable=False),
    ]
)
_LARGE = ["hops", "tokens"]
_SMALL = [name for name in SCHEMA.names if name not in _LARGE]
_STEPS = (FIRST, SECOND, MEDIATOR)
_ID = SCHEMA.get_field_index("id")


@dataclass(frozen=True, slots=True)
class StoredTrie:
    """What a row holds, decoded: the paths of one entity, each beside its token sequence."""

    sequences: JoinedSequences
    table: PathTable


def token_width(vocab_size: int) -> int:
    """Return the number of bytes that hold every token id."""
    return 2 if vocab_size <= 1 << 16 else 4


# ── a row ───────────────────────────────────────────────────────────────────────────────────────


def encode_row(
    entity_id: str, key: int, all_of: JoinedSequences, table: PathTable, width: int
) -> dict[str, Any]:
    """Return an entity's row; ``all_of``: tokens of each path, ``width`` bytes a token."""
    nodes = ordered_paths(all_of).nodes
    table = ordered(table)
    shared, there = _front(table)
    own = table.hops[there]
    numbers = (shared, table.length, *(own[:, part] + 1 for part in _STEPS), own[:, TAIL])
    tokens = all_of.parts.tokens.astype(f"<u{width}").tobytes()
    row = {
        "id": entity_id,
        "key": key,
        "paths": len(table),
        "nodes": nodes,
        "hops": b"".join(map(_packed, numbers)),
        "tokens": _packed(all_of.parts.lengths) + tokens,
    }
    return row | {"digest": _digest(row)}


def _front(table: PathTable) -> tuple[IntArray, BoolArray]:
    shared = np.zeros(len(table), np.int64)
    levels = np.arange(table.hops.shape[1])
    if len(table) > 1:
        same = (table.hops[1:] == table.hops[:-1]).all(axis=2)
        same &= levels < np.minimum(table.length[1:], table.length[:-1])[:, None]
        shared[1:] = np.logical_and.accumulate(same, axis=1).sum(axis=1)
    return shared, (levels >= shared[:, None]) & (levels < table.length[:, None])


def decode_row(row: dict[str, Any], hops: int, width: int, where: str) -> StoredTrie:
    """Return the paths of a row. Raises ShardDamagedError if its digest does not fit."""
    if _digest(row) != row["digest"]:
        raise ShardDamagedError(
            f"The checksum of entity {row['id']} in {where} does not fit its content.", REBUILD
        )
    paths = row["paths"]
    packed = _Packed(row["hops"])
    shared, length = packed.take(paths), packed.take(paths)
    levels = np.arange(hops)
    there = (levels >= shared[:, None]) & (levels < length[:, None])
    count = int(there.sum())
    own = np.empty((count, 4), np.int64)
    for part in _STEPS:
        own[:, part] = packed.take(count) - 1
    own[:, TAIL] = packed.take(count)
    # a hop that is shared is the last one of its level that was not
    number = np.zeros((paths, hops), np.int64)
    number[there] = np.arange(count)
    number = np.maximum.accumulate(number, axis=0)
    wide = np.full((paths, hops, 4), -1, np.int64)
    has = levels < length[:, None]
    wide[has] = own[number[has]]
    table = PathTable(np.full(paths, row["key"], np.int64), length, wide)
    parts = path_parts(table)
    tokens = _Packed(row["tokens"])
    offsets = offsets_of(tokens.take(parts.count))
    return StoredTrie(JoinedSequences(parts.number, Sequences(tokens.rest(width), offsets)), table)


def _packed(numbers: IntArray) -> bytes:
    """Return numbers from 0 byte by byte, all lowest first, after a byte with their width."""
    size = (int(numbers.max(initial=0)).bit_length() + 7) // 8
    by_byte = numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :size]
    return bytes([size]) + by_byte.T.tobytes()


class _Packed:
    def __init__(self, data: bytes) -> None:
        self._data = np.frombuffer(data, np.uint8)
        self._at = 0

    def take(self, count: int) -> IntArray:
        """Return the next ``count`` numbers."""
        size = int(self._data[self._at])
        start = self._at + 1
        self._at = start + size * count
        by_byte = np.zeros((count, 8), np.uint8)
        by_byte[:, :size] = self._data[start : self._at].reshape(size, count).T
        return by_byte.view("<u8").ravel().astype(np.int64)

    def rest(self, width: int) -> IntArray:
        """Return what is left, as numbers of ``width`` bytes."""
        return self._data[self._at :].copy().view(f"<u{width}").astype(np.int64)


def _digest(row: dict[str, Any]) -> bytes:
    hasher = hashlib.blake2b(digest_size=16)
    hasher.update(f"{row['id']}\0{row['key']}\0{row['paths']}\0{row['nodes']}\0".encode())
    for name in _LARGE:
        hasher.update(len(row[name]).to_bytes(8, "little"))
        hasher.update(row[name])
    return hasher.digest()


# ── a file ──────────────────────────────────────────────────────────────────────────────────────


def write_shard(folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> ShardRecord:
    """Write a shard under a temporary name, sync and rename it; return its record."""
    temporary = folder / f".{name}.{os.getpid()}"
    with pq.ParquetWriter(
        temporary,
        SCHEMA,
        compression="zstd",
        compression_level=_LEVEL,
        write_statistics=["id"],
        write_page_checksum=True,
        use_dictionary=False,
    ) as writer:
        for group in _groups(rows):
            writer.write_table(pa.Table.from_pylist(group, schema=SCHEMA))
    sync(temporary)
    data = temporary.read_bytes()
    temporary.replace(folder / name)
    return ShardRecord(
        file=name,
        first=rows[0]["id"],
        last=rows[-1]["id"],
        entities=len(rows),
        paths=sum(row["paths"] for row in rows),
        nodes=sum(row["nodes"] for row in rows),
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        footer_sha256=hashlib.sha256(data[-_footer_size(data[-8:]) :]).hexdigest(),
    )


def _groups(rows: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    start = paths = 0
    for stop, row in enumerate(rows, 1):
        paths += row["paths"]
        if stop - start == ROWS_IN_GROUP or paths >= PATHS_IN_GROUP or stop == len(rows):
            yield list(rows[start:stop])
            start, paths = stop, 0


def _footer_size(end: bytes) -> int:
    return 8 + int.from_bytes(end[:4], "little")


def _id_range(statistics: Any) -> tuple[str, str]:
    """Return the first and the last id of a row group; Parquet keeps none of very long ones."""
    if statistics is None or not statistics.has_min_max:
        return "", chr(0x10FFFF)
    return statistics.min, statistics.max


class Shard:
    """An opened shard. Raises ShardDamagedError from every method that meets damage."""

    def __init__(self, folder: Path, record: ShardRecord) -> None:
        self.path = folder / record.file
        self._small_of = lru_cache(maxsize=_GROUPS_KNOWN)(self._read_small)
        try:
            self._check_footer(record)
            self._file = pq.ParquetFile(self.path, page_checksum_verification=True)
            groups = self._file.metadata
            self._ranges = [
                _id_range(groups.row_group(group).column(_ID).statistics)
                for group in range(groups.num_row_groups)
            ]
        except (OSError, ValueError, pa.ArrowException, AttributeError) as error:
            raise self._damaged(error) from None

    def _check_footer(self, record: ShardRecord) -> None:
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size != record.bytes:
                raise ValueError(f"it has {size} bytes, not {record.bytes}")
            file.seek(max(size - 8, 0))
            file.seek(max(size - _footer_size(file.read()), 0))
            if hashlib.sha256(file.read()).hexdigest() != record.footer_sha256:
                raise ValueError("the checksum of its footer does not fit")

    def read(self, entity_id: str) -> dict[str, Any] | None:
        """Return the row of an entity as it is stored, None if it is not in the shard."""
        for group, (low, high) in enumerate(self._ranges):
            if not low <= entity_id <= high:
                continue
            try:
                small, at = self._small_of(group)
                number = at.get(entity_id)
                if number is None:
                    continue
                large = self._read_group(group, _LARGE)
                return small[number] | {name: large[name][number].as_py() for name in _LARGE}
            except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
                raise self._damaged(error) from None
        return None

    def _read_small(self, group: int) -> tuple[list[dict[str, Any]], dict[str, int]]:
        rows: list[dict[str, Any]] = self._read_group(group, _SMALL).to_pylist()
        return rows, {row["id"]: number for number, row in enumerate(rows)}

    def _read_group(self, group: int, columns: list[str]) -> pa.Table:
        return self._file.read_row_group(group, columns=columns, use_threads=False)

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows as they are stored."""
        try:
            rows: list[dict[str, Any]] = self._file.read().to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise self._damaged(error) from None
        return rows

    def ids(self) -> list[str]:
        """Return the ids of all rows."""
        try:
            ids: list[str] = self._file.read(columns=["id"])["id"].to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise self._damaged(error) from None
        return ids

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _damaged(self, what: object) -> ShardDamagedError:
        return ShardDamagedError(f"The index shard {self.path} is damaged: {what}.", REBUILD)

"""One shard: a Parquet file with a row for each topic entity, sorted by id.

A row holds the marisa trie of the entity's token sequences (fixed-width big-endian ids) and what
each sequence grounds to, stored by marisa's key id. Nothing reaches ``frombytes`` unchecked, for a
changed byte can give wrong keys, hang or crash the process: Parquet's page checksums are verified,
the footer's hash stands in the manifest, and every row carries a hash of its own content.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import marisa_trie
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kgqa.errors import ShardDamagedError
from kgqa.paths.walk import PathTable
from kgqa.trie.arrays import Sequences, unique_sequences
from kgqa.trie.index.manifest import ShardRecord

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kgqa.graph.model import IntArray

ROWS_IN_GROUP = 32  # small, so that a look-up reads little

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("key", pa.int64(), nullable=False),  # the entity's key in this KG version
        pa.field("paths", pa.int64(), nullable=False),
        pa.field("nodes", pa.int64(), nullable=False),  # of the token trie, the root included
        pa.field("trie", pa.binary(), nullable=False),
        pa.field("first_path", pa.list_(pa.int32()), nullable=False),  # by key id, n + 1 entries
        pa.field("length", pa.list_(pa.int8()), nullable=False),  # hops of each path
        pa.field("hops", pa.list_(pa.int64()), nullable=False),  # 4 for each hop of each path
        pa.field("digest", pa.binary(16), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class StoredTrie:
    """What a row holds, decoded: the paths of one entity, each beside its token sequence."""

    sequences: Sequences
    table: PathTable


def token_width(vocab_size: int) -> int:
    """Return the number of bytes that hold every token id."""
    return 2 if vocab_size <= 1 << 16 else 4


def encode_row(
    entity_id: str, key: int, all_of: Sequences, table: PathTable, width: int
) -> dict[str, Any]:
    """Return the row of one entity; ``all_of`` has the token sequence of each path of ``table``."""
    distinct, number = unique_sequences(all_of)
    raw = distinct.tokens.astype(f">u{width}").tobytes()
    bounds = (distinct.offsets * width).tolist()
    keys = [raw[start:stop] for start, stop in pairwise(bounds)]
    trie = marisa_trie.BinaryTrie(keys)
    key_id = np.array([trie.key_id(item) for item in keys], np.int64)[number]
    order = np.argsort(key_id, kind="stable")
    table = table.take(order)
    first = np.searchsorted(key_id[order], np.arange(len(keys) + 1))
    there = np.arange(table.hops.shape[1])[None, :] < table.length[:, None]
    row = {
        "id": entity_id,
        "key": key,
        "paths": len(table),
        "nodes": _nodes(distinct),
        "trie": trie.tobytes(),
        "first_path": first.astype(np.int32),
        "length": table.length.astype(np.int8),
        "hops": table.hops[there].ravel(),
    }
    return row | {"digest": _digest(row)}


def _nodes(distinct: Sequences) -> int:
    wide = distinct.matrix()
    same = wide[1:] == wide[:-1]
    shared = np.where(same.all(axis=1), wide.shape[1], same.argmin(axis=1)) if len(wide) > 1 else 0
    return 1 + int(np.diff(distinct.offsets).sum() - np.sum(shared))


def decode_row(row: dict[str, Any], hops: int, width: int, where: str) -> StoredTrie:
    """Return the paths of a row. Raises ShardDamagedError where its digest does not fit."""
    columns: dict[str, Any] = {
        "first_path": np.asarray(row["first_path"], np.int32),
        "length": np.asarray(row["length"], np.int8),
        "hops": np.asarray(row["hops"], np.int64),
    }
    if _digest(row | columns) != row["digest"]:
        raise ShardDamagedError(
            f"The checksum of entity {row['id']} in {where} does not fit its content.",
            "Build it again: kgqa precompute-tries --rebuild",
        )
    trie = marisa_trie.BinaryTrie()
    trie.frombytes(row["trie"])
    length = columns["length"].astype(np.int64)
    first = columns["first_path"].astype(np.int64)
    wide = np.full((len(length), hops, 4), -1, np.int64)
    wide[np.arange(hops)[None, :] < length[:, None]] = columns["hops"].reshape(-1, 4)
    table = PathTable(np.full(len(length), row["key"], np.int64), length, wide)
    keys = [trie.restore_key(number) for number in range(len(trie))]
    sizes = np.array([len(key) // width for key in keys], np.int64)
    tokens = np.frombuffer(b"".join(keys), f">u{width}").astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    of_path = np.repeat(np.arange(len(keys)), np.diff(first))
    return StoredTrie(_repeat(tokens, starts, sizes, of_path), table)


def _repeat(tokens: IntArray, starts: IntArray, sizes: IntArray, pick: IntArray) -> Sequences:
    from kgqa.paths.walk import ranges

    lengths = sizes[pick]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Sequences(tokens[ranges(starts[pick], lengths)], offsets)


def _digest(row: dict[str, Any]) -> bytes:
    hasher = hashlib.blake2b(digest_size=16)
    hasher.update(f"{row['id']}\0{row['key']}\0{row['paths']}\0{row['nodes']}\0".encode())
    hasher.update(row["trie"])
    for name, kind in (("first_path", "<i4"), ("length", "<i1"), ("hops", "<i8")):
        hasher.update(np.ascontiguousarray(row[name], kind).tobytes())
    return hasher.digest()


def write_shard(folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> ShardRecord:
    """Write a shard under a temporary name, sync and rename it; return its record."""
    table = pa.Table.from_pylist(list(rows), schema=SCHEMA)
    temporary = folder / f".{name}.{os.getpid()}"
    pq.write_table(
        table,
        temporary,
        row_group_size=ROWS_IN_GROUP,
        compression="zstd",
        write_statistics=["id"],
        write_page_checksum=True,
        use_dictionary=False,
    )
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
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
        footer_sha256=hashlib.sha256(_footer(data[-8:], data)).hexdigest(),
    )


def _footer(end: bytes, data: bytes) -> bytes:
    length = int.from_bytes(end[:4], "little")
    return data[-8 - length :]


def _id_range(statistics: Any) -> tuple[str, str]:
    """Return the first and the last id of a row group; Parquet keeps none of very long ones."""
    if statistics is None or not statistics.has_min_max:
        return "", chr(0x10FFFF)
    return statistics.min, statistics.max


class Shard:
    """An opened shard. Raises ShardDamagedError from every method that meets damage."""

    def __init__(self, folder: Path, record: ShardRecord, hops: int, width: int) -> None:
        self._path = folder / record.file
        self._hops = hops
        self._width = width
        self._check_footer(record)
        try:
            self._file = pq.ParquetFile(self._path, page_checksum_verification=True)
            groups = self._file.metadata
            self._ranges = [
                _id_range(groups.row_group(group).column(0).statistics)
                for group in range(groups.num_row_groups)
            ]
        except (OSError, pa.ArrowException, AttributeError) as error:
            raise self._damaged(error) from None

    def _check_footer(self, record: ShardRecord) -> None:
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - 8, 0))
                end = file.read()
                length = int.from_bytes(end[:4], "little")
                file.seek(max(size - 8 - length, 0))
                footer = file.read()
        except OSError as error:
            raise self._damaged(error) from None
        if size != record.bytes:
            raise self._damaged(f"it has {size} bytes, not {record.bytes}")
        if hashlib.sha256(footer).hexdigest() != record.footer_sha256:
            raise self._damaged("the checksum of its footer does not fit")

    def look_up(self, entity_id: str) -> StoredTrie | None:
        """Return the paths of an entity, None where it is not in the shard."""
        for group, (low, high) in enumerate(self._ranges):
            if not low <= entity_id <= high:
                continue
            try:
                ids = self._file.read_row_group(group, columns=["id"])["id"].to_pylist()
                if entity_id not in ids:
                    continue
                rows = self._file.read_row_group(group).slice(ids.index(entity_id), 1)
                columns = {name: rows[name][0] for name in rows.column_names}
                row = {
                    name: value.values.to_numpy()
                    if isinstance(value, pa.ListScalar)
                    else value.as_py()
                    for name, value in columns.items()
                }
            except (OSError, pa.ArrowException, UnicodeDecodeError, AttributeError) as error:
                raise self._damaged(error) from None
            return decode_row(row, self._hops, self._width, str(self._path))
        return None

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
        return ShardDamagedError(
            f"The index shard {self._path} is damaged: {what}.",
            "Build it again: kgqa precompute-tries --rebuild",
        )

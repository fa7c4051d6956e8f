"""What an index holds, as one hash: equal for indexes that give the same answers.

How its entities are spread over shards does not matter, so runs that were stopped, or went over the
entities in parts, compare equal to one that did all at once. What it does not do: look for damage
(:meth:`kgqa.trie.index.reader.TrieIndex.verify` does); a row counts by the digest it carries.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from kgqa.errors import ShardDamagedError

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.trie.index.manifest import Manifest


def content_hash(folder: Path, manifest: Manifest) -> str:
    """Return the hex SHA-256 of the rows, in the order of ids, and of who is composed.

    What the index was made for counts too. Raises ShardDamagedError where a shard cannot be read.
    """
    rows: list[tuple[str, bytes]] = []
    for shard in manifest.shards:
        path = folder / shard.file
        try:
            table = pq.read_table(path, columns=["id", "digest"], partitioning=None)
        except (OSError, pa.ArrowException) as error:
            raise ShardDamagedError(
                f"The index shard {path} is damaged: {error}.",
                "Build it again: kgqa precompute-tries --rebuild",
            ) from None
        rows += zip(table["id"].to_pylist(), table["digest"].to_pylist(), strict=True)
    head = [asdict(manifest.key), manifest.cap, manifest.token_width, sorted(manifest.composed)]
    digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
    for entity, of_row in sorted(rows):
        digest.update(f"{len(entity)} {entity} ".encode() + of_row)
    return digest.hexdigest()

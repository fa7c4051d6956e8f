"""An index of a KG that was changed: the rows that are still right serve the new version."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from kgqa.trie.index.manifest import read_manifest
from kgqa.trie.index.shard import Shard, write_shard

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.model import IntArray


def rebase_index(folder: Path, version: str, dropped_keys: IntArray) -> tuple[int, int]:
    """Give the index in ``folder`` the KG version ``version``, without the rows of some entities.

    Those are composed until they are computed again; whether an entity has too many paths to be
    stored is found anew, too. Returns how many rows are kept and how many were dropped. Stopped
    anywhere, the index is the old one or the new one. Raises ShardDamagedError, OSError.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        return 0, 0
    before = manifest.entities
    gone = set(dropped_keys.tolist())
    number = 1 + max((int(shard.file[6:-8]) for shard in manifest.shards), default=-1)
    shards, old = [], []
    for shard in manifest.shards:
        with closing(Shard(folder, shard)) as opened:
            rows = opened.rows()
        kept = [row for row in rows if row["key"] not in gone]
        if len(kept) == len(rows):
            shards.append(shard)
            continue
        old.append(shard.file)
        if kept:
            shards.append(write_shard(folder, f"shard-{number:05}.parquet", kept))
            number += 1
    key = replace(manifest.key, kg_version=version)
    composed = () if len(dropped_keys) else manifest.composed
    manifest = replace(manifest, key=key, shards=tuple(shards), composed=composed)
    manifest.write(folder)
    for name in old:
        (folder / name).unlink(missing_ok=True)
    return manifest.entities, before - manifest.entities

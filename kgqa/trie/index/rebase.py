"""An index of a KG that was changed: the rows that are still right serve the new version."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kgqa.errors import ShardDamagedError
from kgqa.trie.index.manifest import read_manifest
from kgqa.trie.index.reader import TrieIndex
from kgqa.trie.index.writer import only_run, writing

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.model import IntArray


def rebase_index(folder: Path, version: str, dropped_keys: IntArray) -> tuple[int, int]:
    """Give the index in ``folder`` the KG version ``version``, without the rows of some entities.

    Those are composed until they are computed again; whether an entity has too many paths to be
    stored is found again, too. No shard is written: the manifest lists what was dropped, and a
    damaged shard is left out. All other entities must have kept their keys, and the steps of their
    paths their numbers. Returns how many rows are kept and how many were dropped. Stopped anywhere,
    the index is the old one or the new one. Raises IndexFault.
    """
    with only_run(folder):
        manifest = read_manifest(folder)
        if manifest is None:
            return 0, 0
        shards = []
        with TrieIndex(folder, manifest) as index:
            for record in manifest.shards if len(dropped_keys) else ():
                try:
                    lost = index.shard(record).paths_by_id(dropped_keys)
                except ShardDamagedError:
                    continue
                kept = replace(record, dropped=record.dropped | lost)
                if len(kept.dropped) < kept.entities:
                    shards.append(kept)
        changed = replace(manifest, key=replace(manifest.key, kg_version=version))
        if len(dropped_keys):
            changed = replace(changed, shards=tuple(shards), composed=())
        with writing(folder):
            changed.write(folder)
    return changed.entities, manifest.entities - changed.entities

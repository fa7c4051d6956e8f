"""Opening a trie index for a question; one that does not fit exactly is refused with the reason."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING

from kgqa.closing import Closing
from kgqa.errors import IndexMissingError, IndexStaleError, ShardDamagedError
from kgqa.trie.index.manifest import (
    MANIFEST,
    REBUILD,
    SCHEMA_VERSION,
    IndexKey,
    Manifest,
    ShardRecord,
    index_folder,
    read_manifest,
)
from kgqa.trie.index.shard import Shard, StoredTrie, read_checked

if TYPE_CHECKING:
    from pathlib import Path


_KNOWN_PATHS = 1 << 20  # paths of the tries that are kept, about 100 bytes each once decoded
_OPENED = 1 << 27  # bytes of the shards that are kept
_BUILD = "Build it: kgqa precompute-tries"


def all_manifests(tries: Path) -> list[tuple[Path, Manifest | ShardDamagedError]]:
    """Return every index folder under ``<home>/<kg>/tries`` with its manifest or the error.

    Folders without a manifest of this format version are left out.
    """
    manifests: list[tuple[Path, Manifest | ShardDamagedError]] = []
    for folder in sorted(path for path in tries.glob("*") if path.is_dir()):  # no lock files
        try:
            manifest = read_manifest(folder)
        except ShardDamagedError as error:
            manifests.append((folder, error))
        else:
            if manifest is not None:
                manifests.append((folder, manifest))
    return manifests


def open_index(tries: Path, key: IndexKey) -> TrieIndex:
    """Open the index for ``key``, to be closed by the caller.

    Raises IndexStaleError if others exist but none fits, IndexMissingError, ShardDamagedError.
    """
    folder = index_folder(tries, key)
    manifest = read_manifest(folder)
    if manifest is not None and manifest.key == key:
        return TrieIndex(folder, manifest)
    others = [other for _, other in all_manifests(tries) if isinstance(other, Manifest)]
    if not others:
        _refuse_other_formats(tries, key)
        raise IndexMissingError(f"The KG {key.kg} has no trie index.", _BUILD)
    nearest = min((key.differences(other.key) for other in others), key=len)
    raise IndexStaleError(
        f"The trie index of the KG {key.kg} does not fit: it has {'; '.join(nearest)}.", _BUILD
    )


def _refuse_other_formats(tries: Path, key: IndexKey) -> None:
    """Raise IndexStaleError if an index under ``tries`` was written in another format version.

    Unreadable manifests are skipped.
    """
    for path in sorted(tries.glob(f"*/{MANIFEST}")):
        try:
            schema = json.loads(path.read_text("utf-8"))["schema"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if schema != SCHEMA_VERSION:
            raise IndexStaleError(
                f"The trie index of the KG {key.kg} in {path.parent} has format {schema}; this "
                f"kgqa reads format {SCHEMA_VERSION}.",
                _BUILD,
            )


class TrieIndex(Closing):
    """An index open for reading, known to fit."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self._composed = frozenset(manifest.composed)
        self._shards: OrderedDict[str, Shard] = OrderedDict()
        self._known: OrderedDict[str, StoredTrie] = OrderedDict()
        self._known_paths = 0

    def is_composed(self, entity_id: str) -> bool:
        """Return whether the entity has too many paths to be stored."""
        return entity_id in self._composed

    def look_up(self, entity_id: str, key: int) -> StoredTrie | None:
        """Return the stored trie of an entity, None if the index does not store one.

        ``key``: the KG's key of the entity. Raises ShardDamagedError, also for a row with another
        key.
        """
        trie = self._known.get(entity_id)
        if trie is None:
            trie = self._find(entity_id)
            if trie is None:
                return None
            self._known[entity_id] = trie
            self._known_paths += 1 + trie.paths
            while self._known_paths > _KNOWN_PATHS and len(self._known) > 1:
                self._known_paths -= 1 + self._known.popitem(last=False)[1].paths
        self._known.move_to_end(entity_id)
        if trie.key != key:
            raise ShardDamagedError(
                f"The index shard {trie.shard.path} is damaged: the key of {entity_id} is "
                f"{trie.key}, not {key}.",
                REBUILD,
            )
        return trie

    def _find(self, entity_id: str) -> StoredTrie | None:
        """Return the row of an entity id from the shard that covers it.

        None if it is absent or dropped.
        """
        for record in self.manifest.shards:
            if record.first <= entity_id <= record.last and entity_id not in record.dropped:
                values = self.shard(record).find(entity_id)
                if values is not None:
                    return values
        return None

    def shard(self, record: ShardRecord) -> Shard:
        """Return the shard of ``record``, opened unless it is; old ones are closed to bound memory.

        Raises ShardDamagedError.
        """
        if record.file not in self._shards:
            manifest = self.manifest
            self._shards[record.file] = Shard(
                self.folder,
                record,
                hops=manifest.key.hops,
                width=manifest.token_width,
                closing=manifest.closing,
            )
            while len(self._shards) > 1 and sum(s.bytes for s in self._shards.values()) > _OPENED:
                self._shards.popitem(last=False)
        self._shards.move_to_end(record.file)
        return self._shards[record.file]

    def stored_ids(self) -> set[str]:
        """Return the ids of all stored entities, without dropped ones. Raises ShardDamagedError."""
        return {
            entity
            for record in self.manifest.shards
            for entity in self.shard(record).ids
            if entity not in record.dropped
        }

    def verify(self) -> list[str]:
        """Read all shards; return an error sentence for each that is damaged, [] if none is."""
        faults = []
        for record in self.manifest.shards:
            try:
                read_checked(self.folder / record.file, record)
            except ShardDamagedError as error:
                faults.append(error.message)
        return faults

    def close(self) -> None:
        """Close all shards."""
        self._shards.clear()
        self._known.clear()
        self._known_paths = 0

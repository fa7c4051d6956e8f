"""Opening an index for a question: it fits exactly, or it is refused by name."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from kgqa.errors import IndexMissingError, IndexStaleError, ShardDamagedError
from kgqa.trie.index.manifest import (
    MANIFEST,
    SCHEMA_VERSION,
    Manifest,
    index_folder,
    read_manifest,
)
from kgqa.trie.index.shard import Shard, StoredTrie, decode_row

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.trie.index.manifest import IndexKey, ShardRecord

_DECODED_PATHS = 1 << 20  # paths of the tries that are kept decoded, about 100 bytes each
_OPENED = 128  # shards kept open: a process may have no more than a few hundred files
_BUILD = "Build it: kgqa precompute-tries"


def all_manifests(tries: Path) -> list[tuple[Path, Manifest | ShardDamagedError]]:
    """Return every index under ``<home>/<kg>/tries`` with its manifest, or what is wrong."""
    found: list[tuple[Path, Manifest | ShardDamagedError]] = []
    for folder in sorted(path for path in tries.glob("*") if path.is_dir()):  # no lock files
        try:
            manifest = read_manifest(folder)
        except ShardDamagedError as error:
            found.append((folder, error))
        else:
            if manifest is not None:
                found.append((folder, manifest))
    return found


def open_index(tries: Path, key: IndexKey) -> TrieIndex:
    """Return the fitting index. Raises IndexStaleError, IndexMissingError, ShardDamagedError."""
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


class TrieIndex:
    """A fitting index, opened for reading."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self._composed = frozenset(manifest.composed)
        self._shards: OrderedDict[str, Shard] = OrderedDict()
        self._decoded: OrderedDict[str, StoredTrie | None] = OrderedDict()
        self._decoded_paths = 0

    def is_composed(self, entity_id: str) -> bool:
        """Return whether the entity has too many paths to be stored."""
        return entity_id in self._composed

    def look_up(self, entity_id: str) -> StoredTrie | None:
        """Return the stored paths of an entity, None without any. Raises ShardDamagedError."""
        if entity_id in self._decoded:
            self._decoded.move_to_end(entity_id)
            return self._decoded[entity_id]
        row, found = self._find(entity_id), None
        if row is not None:
            width = self.manifest.token_width
            found = decode_row(row[1], self.manifest.key.hops, width, str(row[0]))
        self._decoded[entity_id] = found
        self._decoded_paths += _weight(found)
        while self._decoded_paths > _DECODED_PATHS and len(self._decoded) > 1:
            self._decoded_paths -= _weight(self._decoded.popitem(last=False)[1])
        return found

    def read(self, entity_id: str) -> dict[str, Any] | None:
        """Return an entity's row undecoded (paths, nodes, bytes). Raises ShardDamagedError."""
        found = self._find(entity_id)
        return None if found is None else found[1]

    def _find(self, entity_id: str) -> tuple[Path, dict[str, Any]] | None:
        for record in self.manifest.shards:
            if record.first <= entity_id <= record.last:
                shard = self._open(record)
                row = shard.read(entity_id)
                if row is not None:
                    return shard.path, row
        return None

    def _open(self, record: ShardRecord) -> Shard:
        if record.file not in self._shards:
            self._shards[record.file] = Shard(self.folder, record)
            if len(self._shards) > _OPENED:
                self._shards.popitem(last=False)[1].close()
        self._shards.move_to_end(record.file)
        return self._shards[record.file]

    def stored_ids(self) -> set[str]:
        """Return the ids of all stored entities."""
        return {entity for record in self.manifest.shards for entity in self._open(record).ids()}

    def verify(self) -> list[str]:
        """Return a sentence for each shard whose bytes are not those that were written."""
        faults = []
        for record in self.manifest.shards:
            path = self.folder / record.file
            try:
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                faults.append(f"The index shard {path} cannot be read: {error.strerror}.")
                continue
            if digest != record.sha256:
                faults.append(f"The index shard {path} is damaged: its SHA-256 does not fit.")
        return faults

    def close(self) -> None:
        """Close all opened shards."""
        for shard in self._shards.values():
            shard.close()
        self._shards.clear()

    def __enter__(self) -> TrieIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _weight(stored: StoredTrie | None) -> int:
    return 1 if stored is None else 1 + len(stored.table)

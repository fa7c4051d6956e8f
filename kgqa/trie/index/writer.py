"""Writing an index in steps that may be interrupted at any time and resumed.

A shard is written, synced and renamed, the folder synced, and then the manifest names it. What that
does not name is swept away by the next run.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from kgqa.errors import IndexFault, KgqaError, ShardDamagedError
from kgqa.files import sync, write_whole
from kgqa.trie.index.manifest import (
    MANIFEST,
    IndexKey,
    Manifest,
    index_folder,
    read_manifest,
)
from kgqa.trie.index.packed import token_width
from kgqa.trie.index.reader import TrieIndex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import IntArray
    from kgqa.trie.index.shard import NewShard
    from kgqa.trie.lexicon import PathLexicon


class IndexWriter:
    """Writes the index for ``key`` and replaces a stale one. Raises IndexFault if it cannot.

    The caller must hold the KG's write lock (:mod:`kgqa.files`).
    """

    def __init__(
        self,
        tries: Path,
        key: IndexKey,
        lexicon: PathLexicon,
        *,
        cap: int,
        tokenizer_name: str,
        rebuild: bool = False,
    ) -> None:
        self.folder = index_folder(tries, key)
        self.manifest = Manifest(
            key,
            cap,
            token_width(lexicon.encoder.vocab_size),
            lexicon.closing,
            tokenizer_name=tokenizer_name,
        )
        self._rebuild = rebuild
        with _named_if_unwritable(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._take_over()

    def _take_over(self) -> None:
        """Continue an index with the same settings or start a new one; delete stray files.

        Raises ShardDamagedError if one of its shards is damaged.
        """
        fresh = self.manifest
        try:
            manifest = read_manifest(self.folder)
        except ShardDamagedError:
            manifest = None

        def settings(of: Manifest) -> object:
            """Return the settings that two manifests must share."""
            return of.key, of.cap, of.token_width, of.closing

        if manifest is None or self._rebuild or settings(manifest) != settings(fresh):
            # first the manifest, so that none ever names a shard that has gone
            fresh.write(self.folder)
            sync(self.folder.parent)
            manifest = fresh
        self.manifest = manifest
        with TrieIndex(self.folder, manifest) as index:
            faults = index.verify()
        if faults:
            raise ShardDamagedError(
                faults[0], "Build the index again: kgqa precompute-tries --rebuild"
            )
        named = {shard.file for shard in manifest.shards} | {MANIFEST}
        for path in self.folder.iterdir():
            if path.name in named:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def done(self) -> set[str]:
        """Return the ids of all entities that the index covers, stored or composed."""
        with TrieIndex(self.folder, self.manifest) as index:
            return index.stored_ids() | set(self.manifest.composed)

    def add(self, new: Sequence[NewShard], composed: Sequence[str]) -> None:
        """Write the shards of a unit and record its composed entities, in one manifest update.

        Raises IndexFault.
        """
        shards = self.manifest.shards
        number = 1 + max((int(shard.file[6:-8].split("-")[0]) for shard in shards), default=-1)
        with _named_if_unwritable(self.folder):
            for part, shard in enumerate(new):
                name = f"shard-{number:05}{f'-{part}' if part else ''}.parquet"
                write_whole(self.folder / name, shard.data)
                shards = (*shards, replace(shard.record, file=name))
            # names of the shards are on disk before a manifest that mentions them
            if new:
                sync(self.folder)
            composed = tuple(sorted({*self.manifest.composed, *composed}))
            manifest = replace(self.manifest, shards=shards, composed=composed)
            manifest.write(self.folder)
            self.manifest = manifest


@contextmanager
def _named_if_unwritable(folder: Path) -> Iterator[None]:
    """Turn an OSError inside ``with`` into an error that names the index folder."""
    try:
        yield
    except KgqaError:
        raise
    except OSError as error:
        raise IndexFault(
            f"The index {folder} cannot be written: {error.strerror or error}.",
            "What is written already is kept: make room or give the permission, and run the "
            "same command again.",
        ) from None


def rebase_index(folder: Path, version: str, dropped_keys: IntArray) -> tuple[int, int]:
    """Update the index in ``folder`` to the KG version ``version``; drop the rows of some entities.

    The dropped entities are composed on the fly until they are computed again; which of them have
    too many paths to be stored is also computed again. No shard is written: the manifest lists the
    dropped rows, and a damaged shard is left out. All other entities must have kept their keys, and
    the steps of their paths their numbers. Returns the numbers of rows kept and dropped. An
    interruption leaves either the old index or the new one. Raises IndexFault.
    """
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
    with _named_if_unwritable(folder):
        changed.write(folder)
    return changed.entities, manifest.entities - changed.entities

"""Writing an index so that it can be stopped anywhere and continued, by one run at a time.

A shard is written, synced and renamed, the folder synced, and then the manifest names it. What that
does not name is swept away by the next run.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from kgqa.errors import IndexFault, KgqaError, ShardDamagedError
from kgqa.graph.files import sync
from kgqa.trie.index.manifest import (
    MANIFEST,
    IndexKey,
    Manifest,
    index_folder,
    read_manifest,
)
from kgqa.trie.index.reader import TrieIndex
from kgqa.trie.index.shard import write_shard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.trie.check import JoinCheck


class IndexWriter:
    """The one run that writes the index for ``key``, in ``with``; a stale one is dropped.

    Raises IndexFault if another run writes it, or there is no space or permission.
    """

    def __init__(
        self,
        tries: Path,
        key: IndexKey,
        *,
        cap: int,
        token_width: int,
        tokenizer_name: str,
        rebuild: bool = False,
    ) -> None:
        self.folder = index_folder(tries, key)
        self.manifest = Manifest(key, cap, token_width, tokenizer_name=tokenizer_name)
        self._rebuild = rebuild
        self._lock = FileLock(tries / f".{key.folder}.lock", timeout=0)

    def __enter__(self) -> IndexWriter:
        with self._writing():
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.acquire()
            except Timeout:
                raise IndexFault(
                    f"Another run is writing the index {self.folder}.", "Wait for it to end."
                ) from None
            try:
                self._take_over()
            except BaseException:
                self._lock.release()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _take_over(self) -> None:
        fresh = self.manifest
        try:
            found = read_manifest(self.folder)
        except ShardDamagedError:
            found = None
        settings = (fresh.key, fresh.cap, fresh.token_width)
        if found is None or self._rebuild or (found.key, found.cap, found.token_width) != settings:
            # first the manifest, so that none ever names a shard that has gone
            fresh.write(self.folder)
            sync(self.folder.parent)
            found = fresh
        self.manifest = found
        with TrieIndex(self.folder, found) as index:
            faults = index.verify()
        if faults:
            raise ShardDamagedError(
                faults[0], "Build the index again: kgqa precompute-tries --rebuild"
            )
        named = {shard.file for shard in found.shards} | {MANIFEST}
        for path in self.folder.iterdir():
            if path.name in named:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def done(self) -> set[str]:
        """Return the ids of all entities that the index already answers for."""
        with TrieIndex(self.folder, self.manifest) as index:
            return index.stored_ids() | set(self.manifest.composed)

    def add(self, rows: Sequence[dict[str, Any]], composed: Sequence[str]) -> None:
        """Add a shard of ``rows`` (sorted by id), and entities to be composed on the fly."""
        shards = self.manifest.shards
        with self._writing():
            if rows:
                number = 1 + max((int(shard.file[6:-8]) for shard in shards), default=-1)
                shards = (*shards, write_shard(self.folder, f"shard-{number:05}.parquet", rows))
                sync(self.folder)
            self._enter(shards=shards, composed=tuple(sorted({*self.manifest.composed, *composed})))

    def record_joining(self, check: JoinCheck) -> None:
        """Enter in the manifest whether the tokenizer would write whole paths otherwise."""
        with self._writing():
            self._enter(joining=check)

    def _enter(self, **changed: Any) -> None:
        manifest = replace(self.manifest, **changed)
        manifest.write(self.folder)
        self.manifest = manifest

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except KgqaError:
            raise
        except OSError as error:
            raise IndexFault(
                f"The index {self.folder} cannot be written: {error.strerror or error}.",
                "What is written already is kept: make room or give the permission, and run the "
                "same command again.",
            ) from None

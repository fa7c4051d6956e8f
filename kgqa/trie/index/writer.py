"""Writing an index so that it can be stopped anywhere and gone on with.

A shard is written, synced and renamed, and only then entered in the manifest. What the manifest
does not name is swept away by the next run. Two runs at once are told.
"""

from __future__ import annotations

import dataclasses
import shutil
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from kgqa.errors import IndexFault, ShardDamagedError
from kgqa.trie.index.manifest import MANIFEST, IndexKey, Manifest, index_folder, read_manifest
from kgqa.trie.index.reader import TrieIndex
from kgqa.trie.index.shard import write_shard

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from kgqa.trie.check import JoinCheck


class IndexWriter:
    """The one run that writes the index for ``key``; use it in ``with``.

    An index in its place that was made for another KG version or cap, or is damaged, is dropped.
    Raises IndexFault where another run writes the same index.
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
        self._fresh = Manifest(key, cap, token_width, tokenizer_name=tokenizer_name)
        self._rebuild = rebuild
        self._lock = FileLock(tries / f".{key.folder}.lock", timeout=0)
        self.manifest = self._fresh

    def __enter__(self) -> IndexWriter:
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def _take_over(self) -> None:
        try:
            found = read_manifest(self.folder)
        except ShardDamagedError:
            found = None
        fresh = self._fresh
        fits = found is not None and (found.key, found.cap, found.token_width) == (
            fresh.key,
            fresh.cap,
            fresh.token_width,
        )
        if found is None or not fits or self._rebuild:
            shutil.rmtree(self.folder)
            self.folder.mkdir()
            fresh.write(self.folder)
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
            if path.name not in named:
                path.unlink()

    def done(self) -> set[str]:
        """Return the ids of all entities that the index already answers for."""
        with TrieIndex(self.folder, self.manifest) as index:
            return index.stored_ids() | set(self.manifest.composed)

    def add(self, rows: Sequence[dict[str, Any]], composed: Sequence[str]) -> None:
        """Add a shard of ``rows`` (sorted by id), and entities to be composed on the fly."""
        shards = self.manifest.shards
        if rows:
            number = 1 + max((int(shard.file[6:-8]) for shard in shards), default=-1)
            shards = (*shards, write_shard(self.folder, f"shard-{number:05}.parquet", rows))
        self.manifest = Manifest(
            key=self.manifest.key,
            cap=self.manifest.cap,
            token_width=self.manifest.token_width,
            shards=shards,
            composed=tuple(sorted({*self.manifest.composed, *composed})),
            tokenizer_name=self.manifest.tokenizer_name,
            joining=self.manifest.joining,
        )
        self.manifest.write(self.folder)

    def record_joining(self, check: JoinCheck) -> None:
        """Enter in the manifest where the tokenizer would write whole paths otherwise."""
        self.manifest = dataclasses.replace(self.manifest, joining=check)
        self.manifest.write(self.folder)

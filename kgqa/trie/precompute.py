"""Precomputing tries: topic entities without one are divided into units that give whole shards.

The shards of a unit depend on its entities alone and are entered together and in order, so a
stopped run goes on and writes the same files. Nothing here imports a model library, so that workers
start at once and stay small.
"""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kgqa.errors import IndexFault, WorkerError
from kgqa.graph.model import keys_array
from kgqa.paths.walk import PathTable, WalkRules, joined_tables, walk
from kgqa.progress import Progress, Rate
from kgqa.trie.index.shard import NewShard, encode_shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.parallel import Executor
    from kgqa.trie.index.writer import IndexWriter
    from kgqa.trie.lexicon import PathLexicon

    Resources = Callable[[], tuple[GraphStore, PathLexicon]]

UNIT = 512  # entities of a work unit, and so of a shard, unless they have very many paths
_TOGETHER = 16, 512  # entities that are walked at once, at first and at most
_WALKED = 1 << 18  # paths that a walk should find; the next one has as many entities as that needs
_REMEMBERED = 200_000  # names after which those that were read are forgotten
PATHS_IN_SHARD = 1 << 20  # a unit with more gets several shards


@dataclass(frozen=True, slots=True)
class PrecomputeResult:
    """The totals of the whole index after a run: the JSON of ``kgqa precompute-tries``."""

    entities: int
    stored: int
    composed: int
    paths: int
    bytes: int
    shards: int
    seconds: float
    added: int  # entities of this run
    without_paths: int  # asked for, but with nothing to walk to


def all_topics(store: GraphStore) -> IntArray:
    """Return the keys of all named entities that have an edge, ascending."""
    parts: list[IntArray] = []
    after = -1
    while len(part := store.topic_keys(after)):
        parts.append(part)
        after = int(part[-1])
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def precompute(
    resources: Resources,
    writer: IndexWriter,
    *,
    topics: IntArray | None = None,
    executor: Executor,
    unit: int = UNIT,
    progress: Progress,
) -> PrecomputeResult:
    """Compute and write the tries of ``topics`` that ``writer`` lacks (None: all named entities).

    ``resources`` opens a store and makes a lexicon in every worker, and must be picklable for other
    processes. ``executor`` runs units of ``unit`` entities. Raises IndexFault and WorkerError;
    errors of the store propagate.
    """
    began = time.monotonic()
    key = writer.manifest.key
    store, _ = resources()
    with store:
        settings = UnitSettings(key.rules, writer.manifest.cap, store.info.version)
        todo = all_topics(store) if topics is None else np.unique(topics)
        todo = np.setdiff1d(todo, store.keys_of(sorted(writer.done())))
    units = [todo[start : start + unit] for start in range(0, len(todo), unit)]
    results = executor.run(partial(open_worker, resources, settings), units)
    without = 0
    with closing(results), progress.task("precomputing tries", len(todo), "entities") as task:
        rate = Rate(task, "entities")
        for result, keys in zip(results, units, strict=True):
            if isinstance(result, WorkerError):
                raise result
            writer.add(result.shards, result.composed)
            without += result.without_paths
            rate.advance(len(keys))
    manifest = writer.manifest
    return PrecomputeResult(
        entities=manifest.entities + len(manifest.composed),
        stored=manifest.entities,
        composed=len(manifest.composed),
        paths=manifest.paths,
        bytes=manifest.bytes,
        shards=len(manifest.shards),
        seconds=time.monotonic() - began,
        added=len(todo),
        without_paths=without,
    )


@dataclass(frozen=True, slots=True)
class UnitSettings:
    """Settings shared by all units of a run; entity keys are of ``kg_version``."""

    rules: WalkRules
    cap: int
    kg_version: str


@dataclass(frozen=True, slots=True)
class Unit:
    """The result of a work unit: shards, and the ids of entities with more paths than the cap."""

    shards: list[NewShard]
    composed: list[str]
    without_paths: int


@contextmanager
def open_worker(
    resources: Resources, settings: UnitSettings
) -> Iterator[Callable[[IntArray], Unit]]:
    """Open a store and a lexicon in a ``with``; yield a function from entity keys to a unit."""
    store, lexicon = resources()
    with store:
        worker = PrecomputeWorker(store, lexicon)
        yield lambda topics: worker.work(topics, settings)


class PrecomputeWorker:
    """Builds units one after another with one store and one lexicon, in bounded memory."""

    def __init__(self, store: GraphStore, lexicon: PathLexicon) -> None:
        self.store = store
        self._lexicon = lexicon

    def work(self, topics: IntArray, settings: UnitSettings) -> Unit:
        """Return the shards of ``topics``, and the ids of those with too many paths.

        A topic without a path has a row in a shard, too. Raises IndexFault if the KG's version
        changed.
        """
        version = self.store.info.version
        if version != settings.kg_version:
            raise IndexFault(
                f"The graph {self.store.url} holds version {version[:12]} of the KG, not "
                f"{settings.kg_version[:12]}, for which this run was started.",
                "Every worker must read the same graph. If it was loaded again meanwhile, run the "
                "same command again.",
            )
        shards: list[NewShard] = []
        composed: list[str] = []
        without = 0
        held: list[tuple[IntArray, PathTable]] = []
        for keys, table, over in self._walks(topics, settings):
            composed += self.store.entities(over).ids if len(over) else []
            without += len(keys) - len(np.unique(table.topic))
            for part in _parts(keys, table):
                if held and _size(held) + len(part[1]) > PATHS_IN_SHARD:
                    shards.append(self._shard(held))
                held.append(part)
        if held:
            shards.append(self._shard(held))
        if self._lexicon.names > _REMEMBERED:
            self._lexicon.clear()
        return Unit(shards, composed, without)

    def _walks(
        self, topics: IntArray, settings: UnitSettings
    ) -> Iterator[tuple[IntArray, PathTable, IntArray]]:
        """Yield batches: topics within the cap, their paths, and the topics with too many paths."""
        start, count = 0, _TOGETHER[0]
        while start < len(topics):
            keys = topics[start : start + count]
            start += count
            table, over = walk(self.store, keys, settings.rules, settings.cap)
            yield np.setdiff1d(keys, over, assume_unique=True), table, over
            wanted = _WALKED * len(keys) // max(1, len(table) + settings.cap * len(over))
            count = min(max(wanted, _TOGETHER[0]), 4 * count, _TOGETHER[1])

    def _shard(self, held: list[tuple[IntArray, PathTable]]) -> NewShard:
        """Return the shard of the collected paths, and empty the collection."""
        keys = np.concatenate([keys for keys, _ in held])
        table = joined_tables([table for _, table in held])
        held.clear()
        return encode_shard(self.store, self._lexicon, keys, table)


def _size(held: Iterable[tuple[IntArray, PathTable]]) -> int:
    """Return the number of paths held."""
    return sum(len(table) for _, table in held)


def _parts(keys: IntArray, table: PathTable) -> Iterator[tuple[IntArray, PathTable]]:
    """Yield entities with their paths: all together if these are few, else each entity alone."""
    if len(table) <= PATHS_IN_SHARD // 8:
        if len(keys):
            yield keys, table
        return
    for key in keys.tolist():
        yield keys_array([key]), table.of(key)

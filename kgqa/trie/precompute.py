"""Precomputing tries: the topic entities an index lacks, as work units that give whole shards.

The shards of a unit depend on its entities alone and are entered together and in order, so a
stopped run goes on and writes the same files.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kgqa.errors import WorkerError
from kgqa.parallel import LocalExecutor
from kgqa.progress import Rate
from kgqa.trie.units import UnitSettings, open_worker

if TYPE_CHECKING:
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.parallel import Executor
    from kgqa.progress import Progress
    from kgqa.trie.index.writer import IndexWriter
    from kgqa.trie.units import Resources

UNIT = 512  # entities of a work unit, and so of a shard, unless they have very many paths


@dataclass(frozen=True, slots=True)
class PrecomputeResult:
    """What the whole index holds after a run: the JSON of ``kgqa precompute-tries``."""

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
    workers: int = 1,
    executor: Executor | None = None,
    unit: int = UNIT,
    progress: Progress,
) -> PrecomputeResult:
    """Write the tries of ``topics`` (keys; None: all named entities) that ``writer`` lacks.

    ``resources`` opens a store and makes a lexicon, wherever units run; picklable for another
    process. Units of ``unit`` entities run in ``workers`` processes, or by ``executor``. Raises
    what the store raises, IndexFault, WorkerError.
    """
    began = time.monotonic()
    key = writer.manifest.key
    store, _ = resources()
    with store:
        settings = UnitSettings(key.rules, writer.manifest.cap, store.info.version)
        todo = all_topics(store) if topics is None else np.unique(topics)
        todo = np.setdiff1d(todo, store.keys_of(sorted(writer.done())))
    units = [todo[start : start + unit] for start in range(0, len(todo), unit)]
    results = (executor or LocalExecutor(workers)).run(
        partial(open_worker, resources, settings), units
    )
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

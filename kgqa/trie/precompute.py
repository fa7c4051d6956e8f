"""Precomputing tries: work units of topic entities, walked, tokenised and written as shards.

A unit becomes one shard, so a run that is stopped goes on after its last whole unit. With several
workers each has a store connection and a tokenizer of its own, and only the parent writes.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.errors import IndexFault
from kgqa.graph.model import keys_array
from kgqa.paths.walk import walk
from kgqa.trie.build import path_tokens
from kgqa.trie.check import check_joining, sample_paths
from kgqa.trie.index.shard import encode_row, token_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import WalkRules
    from kgqa.progress import Progress
    from kgqa.trie.index.writer import IndexWriter
    from kgqa.trie.lexicon import PathLexicon

    Resources = Callable[[], tuple[GraphStore, PathLexicon]]

DEFAULT_CAP = 100_000  # paths of one entity that are still stored
UNIT = 512  # entities of a shard
_WALKED_AT_ONCE = 32  # entities; bounds the memory when each is just under the cap


@dataclass(frozen=True, slots=True)
class PrecomputeResult:
    """What a run gave, in the whole index: the JSON of ``kgqa precompute-tries``."""

    entities: int
    stored: int
    composed: int
    paths: int
    bytes: int
    shards: int
    seconds: float
    added: int  # entities of this run
    without_paths: int  # asked for, but with nothing to walk to


@dataclass(frozen=True, slots=True)
class _Unit:
    rows: list[dict[str, Any]]
    composed: list[str]


def all_topics(store: GraphStore) -> IntArray:
    """Return the keys of all named entities that have an edge, ascending."""
    parts: list[IntArray] = []
    after = -1
    while len(part := store.topic_keys(after)):
        parts.append(part)
        after = int(part[-1])
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def build_unit(
    store: GraphStore, lexicon: PathLexicon, topics: Sequence[int], rules: WalkRules, cap: int
) -> _Unit:
    """Return the rows of ``topics`` (ascending keys), and the ids of those that have too many."""
    width = token_width(lexicon.encoder.vocab_size)
    rows: list[dict[str, Any]] = []
    composed: list[str] = []
    for start in range(0, len(topics), _WALKED_AT_ONCE):
        keys = keys_array(topics[start : start + _WALKED_AT_ONCE])
        ids = store.entities(keys).ids
        table, over = walk(store, keys, rules, cap)
        too_many = set(over.tolist())
        for key, entity_id in zip(keys.tolist(), ids, strict=True):
            if key in too_many:
                composed.append(entity_id)
                continue
            mine = table.of(key)
            # an entity without a path gets an empty row, so that a later run need not look again
            rows.append(encode_row(entity_id, key, path_tokens(store, mine, lexicon), mine, width))
    lexicon.clear()
    return _Unit(rows, composed)


def precompute(
    resources: Resources,
    writer: IndexWriter,
    rules: WalkRules,
    *,
    cap: int,
    topics: IntArray | None = None,
    workers: int = 1,
    unit: int = UNIT,
    progress: Progress,
) -> PrecomputeResult:
    """Write the tries of ``topics`` (keys; None: all named entities) that ``writer`` lacks.

    ``resources`` opens a store and makes a lexicon; it is called once in every worker process and
    must be picklable where ``workers`` is above 1. Raises what the store raises, and IndexFault
    where a worker process dies.
    """
    began = time.monotonic()
    store, lexicon = resources()
    with store:
        _check_joining(store, lexicon, writer, rules, progress)
        keys = all_topics(store) if topics is None else np.unique(topics)
        done = store.keys_of(sorted(writer.done()))
        todo = np.setdiff1d(keys, done).tolist()
        units = [todo[start : start + unit] for start in range(0, len(todo), unit)]
        without = 0
        with progress.task("precomputing tries", len(todo), "entities") as task:
            made = (
                (build_unit(store, lexicon, keys, rules, cap) for keys in units)
                if workers == 1
                else _in_processes(resources, units, rules, cap, workers)
            )
            for keys_of_unit, result in zip(units, made, strict=True):
                writer.add(result.rows, result.composed)
                without += sum(row["paths"] == 0 for row in result.rows)
                task.advance(len(keys_of_unit))
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


def _check_joining(
    store: GraphStore,
    lexicon: PathLexicon,
    writer: IndexWriter,
    rules: WalkRules,
    progress: Progress,
) -> None:
    """Record once for an index where the tokenizer would write whole paths otherwise."""
    if writer.manifest.joining is not None:
        return
    check = check_joining(lexicon, sample_paths(store, rules, lexicon.form))
    lexicon.clear()
    writer.record_joining(check)
    note = check.note()
    if note:
        progress.note(note)


_worker: tuple[GraphStore, PathLexicon] | None = None


def _start_worker(resources: Resources) -> None:
    global _worker
    _worker = resources()


def _work(topics: list[int], rules: WalkRules, cap: int) -> _Unit:
    assert _worker is not None  # the initializer has run
    return build_unit(*_worker, topics, rules, cap)


def _in_processes(
    resources: Resources, units: list[list[int]], rules: WalkRules, cap: int, workers: int
) -> Iterator[_Unit]:
    """Yield the result of each unit in order; a few units ahead are in the works, not all."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _start_worker, (resources,)) as pool:
        ahead: deque[Future[_Unit]] = deque()
        try:
            for topics in units:
                ahead.append(pool.submit(_work, topics, rules, cap))
                if len(ahead) > 2 * workers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        except BrokenProcessPool:
            raise IndexFault(
                "A worker process ended before its work was done.",
                "What was written is kept: run the same command again, perhaps with fewer workers.",
            ) from None

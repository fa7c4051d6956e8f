"""Graphs and indexes for the tests of precomputing, and runs in processes of their own.

    python -m tests.trie.precomputed SPEC

SPEC is a JSON object: ``graph`` and ``tries`` say what is precomputed into where, ``workers`` and
``address`` how. ``step``, ``event`` and ``delay`` say when the process kills itself with SIGKILL:
at the event of that number of that step, and so many seconds later, or never without a step.
Printed as JSON: what was added, and the number of events of each step.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.parallel import LocalExecutor
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from kgqa.progress import Silent
from kgqa.trie.index import IndexKey, IndexWriter, index_folder, manifest, open_index, writer
from kgqa.trie.lexicon import PathLexicon
from kgqa.trie.precompute import PrecomputeResult, precompute
from tests.graph.tables import entity, tables_of
from tests.trie.language import CharacterEncoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgqa.trie.index import TrieIndex
    from kgqa.trie.index.shard import StoredTrie
    from kgqa.trie.lexicon import TokenEncoder

FORM = PathFormat()
RULES = WalkRules()
CHARACTERS = CharacterEncoder()
CAP = 60  # some entities have more
KEY = IndexKey("kg", "v1", "characters", FORM.fingerprint, 2, "out", "collapse")
CHECKOUT = Path(__file__).parents[2]


def write_graph(path: Path, nodes: int, seed: int = 7) -> None:
    """A random graph with short names, some of them shared, and a few hubs."""
    choose = random.Random(seed)
    width = len(str(nodes))
    ids = [f"e{at:0{width}}" for at in range(nodes)]
    edges = {
        (choose.choice(ids), f"r{choose.randrange(3)}", choose.choice(ids))
        for _ in range(2 * nodes)
    }
    edges |= {
        (hub, "r0", choose.choice(ids))
        for hub in choose.sample(ids, nodes // 50)
        for _ in range(40)
    }
    named = [entity(id_, f"n{at % (nodes - nodes // 10)}") for at, id_ in enumerate(ids)]
    SqliteWriter(path).write(tables_of(named, sorted(edges)), Silent())


def resources(graph: Path, encoder: TokenEncoder = CHARACTERS) -> tuple[SqliteStore, PathLexicon]:
    return SqliteStore(graph), PathLexicon(encoder, FORM)


def build(
    graph: Path,
    tries: Path,
    *,
    key: IndexKey = KEY,
    cap: int = CAP,
    encoder: TokenEncoder = CHARACTERS,
    make: Callable[..., Any] | None = None,
    unit: int = 256,
    rebuild: bool = False,
    writer: type[IndexWriter] = IndexWriter,
    **options: Any,
) -> PrecomputeResult:
    """Precompute; return the result."""
    tries.mkdir(parents=True, exist_ok=True)
    with writer(
        tries,
        key,
        PathLexicon(encoder, FORM),
        cap=cap,
        tokenizer_name=encoder.fingerprint,
        rebuild=rebuild,
    ) as index:
        make = make or partial(resources, graph, encoder)
        given = {"progress": Silent(), "executor": LocalExecutor()} | options
        return precompute(make, index, unit=unit, **given)


def content(tries: Path) -> tuple[list[tuple[str, bytes]], tuple[str, ...]]:
    """The rows of the index under ``tries`` in the order of ids, and who is composed."""
    rows = []
    with open_index(tries, KEY) as index:
        for row in stored(index):
            paths = sorted(
                (row.table.hops[number].tobytes(), row.sequences[number])
                for number in range(row.paths)
            )
            rows.append((row.id, hashlib.sha256(repr((row.key, paths)).encode()).digest()))
        return sorted(rows), index.manifest.composed


def stored(index: TrieIndex) -> list[StoredTrie]:
    """Every row of an index, by id."""
    found = []
    for record in index.manifest.shards:
        ids = set(index.shard(record).ids) - record.dropped.keys()
        found += [row for id_ in ids if (row := index.shard(record).find(id_)) is not None]
    return sorted(found, key=lambda row: row.id)


def files(tries: Path) -> dict[str, bytes]:
    """All files of the index under ``tries``."""
    return {path.name: path.read_bytes() for path in index_folder(tries, KEY).iterdir()}


class Moments:
    """Counts the events of each step; kills the process at the one that was asked for."""

    def __init__(self, step: str | None, event: int, delay: float) -> None:
        self.counts: Counter[str] = Counter()
        self._moment = (step, event)
        self._delay = delay

    def happen(self, step: str) -> None:
        """Count an event."""
        place = (step, self.counts[step])
        self.counts[step] += 1
        if place == self._moment:
            if not self._delay:
                _kill()
            threading.Timer(self._delay, _kill).start()

    def watch(self, owner: Any, name: str, step: str) -> None:
        """Count an event before and one after each call."""
        plain = getattr(owner, name)

        @functools.wraps(plain)
        def watched(*given: Any, **named: Any) -> Any:
            self.happen(f"before {step}")
            result = plain(*given, **named)
            self.happen(f"after {step}")
            return result

        setattr(owner, name, watched)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _watch_renames(moments: Moments) -> None:
    plain = Path.replace

    def replace(path: Path, target: Path) -> Path:
        step = f"{'manifest' if target.name == manifest.MANIFEST else 'shard'} rename"
        moments.happen(f"before {step}")
        found = plain(path, target)
        moments.happen(f"after {step}")
        return found

    Path.replace = replace  # type: ignore[assignment,method-assign]


def main() -> None:
    """Do what the first argument says."""
    spec = json.loads(sys.argv[1])
    moments = Moments(spec.get("step"), spec.get("event", 0), spec.get("delay", 0.0))
    moments.watch(writer, "write_whole", "shard")
    _watch_renames(moments)
    plain = IndexWriter._take_over

    def take_over(index: IndexWriter) -> None:
        moments.happen("start")
        plain(index)
        if "hold" in spec:  # until somebody has tried to run beside
            Path(spec["hold"]).touch()
            while Path(spec["hold"]).exists():
                time.sleep(0.01)

    IndexWriter._take_over = take_over  # type: ignore[method-assign]
    options: dict[str, Any] = {"executor": LocalExecutor(spec.get("workers", 1))}
    if "address" in spec:
        from kgqa.cluster import RayExecutor

        options["executor"] = RayExecutor(spec["address"], spec.get("workers"))
    if "make" in spec:
        from tests.trie import ray_nodes

        options["make"] = ray_nodes.resources_of(spec)
    result = build(
        Path(spec["graph"]),
        Path(spec["tries"]),
        unit=spec.get("unit", 256),
        rebuild=spec.get("rebuild", False),
        **options,
    )
    print(json.dumps({"added": result.added, "events": moments.counts}))


if __name__ == "__main__":
    main()

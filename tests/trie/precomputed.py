"""Graphs and indexes for the tests of precomputing, and runs in processes of their own.

    python -m tests.trie.precomputed SPEC

SPEC is a JSON object: ``graph`` and ``tries`` say what is precomputed into where, ``workers`` and
``address`` on which Ray, and ``make`` how those workers misbehave (see ``ray_nodes``).
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.parallel import LocalExecutor
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from kgqa.progress import Silent
from kgqa.trie.index import IndexKey, IndexWriter, index_folder, open_index
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
    **options: Any,
) -> PrecomputeResult:
    """Precompute; return the result."""
    index = IndexWriter(
        tries,
        key,
        PathLexicon(encoder, FORM),
        cap=cap,
        tokenizer_name=encoder.fingerprint,
        rebuild=rebuild,
    )
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


def main() -> None:
    """Do what the first argument says."""
    from kgqa.cluster import RayExecutor
    from tests.trie import ray_nodes

    spec = json.loads(sys.argv[1])
    executor = RayExecutor(spec["address"], spec["workers"])
    make = ray_nodes.resources_of(spec)
    build(Path(spec["graph"]), Path(spec["tries"]), executor=executor, make=make)


if __name__ == "__main__":
    main()

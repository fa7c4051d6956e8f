"""The graphs, the tokenizer and the decoder-like walks that the index is measured with."""

from __future__ import annotations

import csv
import functools
import os
import random
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pyarrow as pa

from benchmarks.common import worked
from kgqa.graph.model import EDGE_SCHEMA, ENTITY_SCHEMA, EdgeBatch, EntityBatch, Kind
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.loading.pipeline import assemble
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from kgqa.progress import Silent
from kgqa.trie import composed
from kgqa.trie.composed import ComposedConstraint
from kgqa.trie.lexicon import PathLexicon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kgqa.graph.model import GraphTables
    from kgqa.graph.store import GraphStore
    from kgqa.models.tokenizer import HFEncoder
    from kgqa.trie.constraint import Constraint
    from kgqa.trie.tokens import TokenEncoder

Triple = tuple[str, str, str]


def tables_of(kg: str, triples: Iterable[Triple], names: dict[str, str] | None) -> GraphTables:
    """Return triples as a KG; without ``names`` an id is its own name."""
    rows = sorted(set(triples))
    heads, relations, tails = (list(column) for column in zip(*rows, strict=True))
    ids = sorted({*heads, *tails})
    edges = pa.table({"head": heads, "relation": relations, "tail": tails})
    edges = edges.append_column("properties", pa.nulls(len(rows), pa.string()))
    called = [names.get(id_, id_) if names else id_ for id_ in ids]
    nodes = [
        {"id": id_, "name": name, "kind": Kind.ENTITY}
        for id_, name in zip(ids, called, strict=True)
    ]
    batches: list[EntityBatch | EdgeBatch] = [
        EntityBatch(pa.RecordBatch.from_pylist(nodes, schema=ENTITY_SCHEMA)),
        *map(EdgeBatch, edges.cast(EDGE_SCHEMA).to_batches()),
    ]
    return assemble(batches, name=kg, source=kg, direction="out", dropped=Counter())


def write_store(path: Path, tables: GraphTables) -> Path:
    """Write a KG into an embedded store."""

    SqliteWriter(path).write(tables, Silent())
    return path


def fb15k237(data: Path) -> GraphTables:
    """Read FB15k-237, all three parts, names joined; relations written as Freebase does."""
    triples: list[Triple] = []
    for part in ("train", "valid", "test"):
        for line in (data / "fb15k237" / f"{part}.txt").read_text("utf-8").splitlines():
            head, relation, tail = line.split("\t")
            triples.append((head, relation.strip("/").replace("./", "..").replace("/", "."), tail))
    lines = (data / "fb15k237" / "entity2text.txt").read_text("utf-8").splitlines()
    names = dict(line.split("\t", 1) for line in lines)
    return tables_of("fb15k237", triples, names)


def subgraph(data: Path) -> GraphTables:
    """Read the Freebase subgraph, its nameless nodes kept as they are."""
    with (data / "freebase_subgraph" / "triples.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return tables_of("subgraph", ((row[0], row[1], row[2]) for row in rows), None)


def hub(data: Path, tails: int) -> GraphTables:
    """Return a hub, entity ``hub``, with so many ``tails`` of one relation, each of its own name.

    Names are real ones of three graphs; more are made of the first words and the rests of those.
    """
    names: dict[str, None] = {}
    for file, separator in (
        ("fb13/triples_named.tsv", "\t"),
        ("metaqa/kb.txt", "|"),
        ("freebase_subgraph/mid2name.tsv", "\t"),
    ):
        for line in (data / file).read_text("utf-8").splitlines():
            first, *_, last = line.split(separator)
            names[last.replace("_", " ")] = None
            names |= {} if file.endswith("mid2name.tsv") else {first.replace("_", " "): None}
    real = sorted(filter(None, names))
    choose = random.Random(tails)
    choose.shuffle(real)
    parts = [name.partition(" ") for name in real if " " in name]
    chosen = dict.fromkeys(real[:tails])
    while len(chosen) < tails:
        chosen["".join((*choose.choice(parts)[:2], choose.choice(parts)[2]))] = None
    called = {"hub": "Hub", **{f"m.{at:07}": name for at, name in enumerate(chosen)}}
    return tables_of("hub", (("hub", "has", id_) for id_ in called if id_ != "hub"), called)


@functools.cache
def encoder_at(cache: Path) -> HFEncoder:
    """Load the offline model's tokenizer, once a process."""
    from kgqa.models.kg_llm import load_encoder  # brings torch, which workers do without

    return load_encoder(None, None, cache=cache, progress=Silent()).encoder


def new_lexicon(cache: Path) -> PathLexicon:
    """Return a lexicon that has not met a name."""
    return PathLexicon(encoder_at(cache), PathFormat())


def resources(graph: Path, encoder: TokenEncoder) -> tuple[GraphStore, PathLexicon]:
    """Open what a worker process needs."""
    return SqliteStore(graph), PathLexicon(encoder, PathFormat())


def start(make: Callable[[], tuple[GraphStore, PathLexicon]]) -> None:
    """Do what a worker process does before its first path."""
    store, lexicon = make()
    with store:
        lexicon.encoder.encode(["a name"])


def peak_mb() -> float:
    """Return the most memory that this process has held, in MB; since it began, not its parent."""
    status = Path("/proc/self/status").read_text("ascii")
    return next(int(one.split()[1]) for one in status.splitlines() if "VmHWM" in one) / 1_024


def hub_costs(
    make: Callable[[], tuple[GraphStore, PathLexicon]], rounds: int, beams: int
) -> dict[str, float]:
    """Return what ten beams to their ends cost in a graph of :func:`hub`, in CPU milliseconds.

    ``first``: every name new; ``after``: the same again; ``peak_mb``. With more than one round also
    ``whole``: all names tokenised whole at once, as a tokenizer needs that joins words.
    """
    store, lexicon = make()
    times: dict[str, list[float]] = {}
    with store:
        lexicon.encoder.encode(["a name"])
        key = store.keys_of(["hub"])

        def ask() -> dict[str, int]:
            constraint = ComposedConstraint(store, key, WalkRules(1), lexicon)
            return beam_walk(constraint, beams, 1)

        for _ in range(rounds):
            lexicon.clear()
            first_ms, seen = worked(ask)
            times.setdefault("first", []).append(first_ms)
            times.setdefault("after", []).extend(worked(ask)[0] for _ in range(3))
            if rounds > 1:
                lexicon.clear()
                with mock.patch.object(composed, "_MANY", sys.maxsize):
                    whole_ms, whole = worked(ask)
                times.setdefault("whole", []).append(whole_ms)
                assert whole == seen
    return {name: statistics.median(column) for name, column in times.items()} | {
        "peak_mb": peak_mb()
    }


def beam_walk(constraint: Constraint, beams: int, seed: int) -> dict[str, int]:
    """Ask what a decoder of ``beams`` asks, its choices random, until every beam has ended."""
    choose = random.Random(seed)
    states, steps, moves, ended, groundings = [constraint.start()], 0, 0, 0, 0
    while states and ended < beams:
        found = constraint.expand(states)
        steps += 1
        moves += len(found.token)
        below = found.state.tolist()
        states = choose.sample(below, min(beams - ended, len(below)))
        ends = constraint.is_end(states).tolist()
        for state, end in zip(states, ends, strict=True):
            if end:
                ended += 1
                groundings += len(constraint.ground(state))
        states = [state for state, end in zip(states, ends, strict=True) if not end]
    return {"steps": steps, "moves": moves, "ended": ended, "groundings": groundings}


def states_along(constraint: Constraint, paths: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return for each step the states of the paths that are not at their end yet."""
    at = dict.fromkeys(range(len(paths)), constraint.start())
    steps: list[list[int]] = []
    while at:
        steps.append(list(at.values()))
        found = constraint.expand(steps[-1])
        rows, tokens, below = found.row.tolist(), found.token.tolist(), found.state.tolist()
        to = {(row, token): state for row, token, state in zip(rows, tokens, below, strict=True)}
        depth = len(steps)
        at = {
            beam: to[row, paths[beam][depth - 1]]
            for row, beam in enumerate(at)
            if depth < len(paths[beam])
        }
    return steps


def drop_from_page_cache(path: Path) -> None:
    """Ask the kernel to forget a file, so that it is read from the disk again."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

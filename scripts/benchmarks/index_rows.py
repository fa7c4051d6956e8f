"""The rows of the index benchmark, each of which prints what it saw and returns figures."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import kgqa
from benchmarks.common import timed, worked
from benchmarks.index_graphs import (
    beam_walk,
    drop_from_page_cache,
    encoder_at,
    fb15k237,
    hub,
    hub_costs,
    new_lexicon,
    resources,
    start,
    states_along,
    subgraph,
    tables_of,
    write_store,
)
from benchmarks.index_published import PublishedTrie, path_texts
from kgqa.graph.open import open_store, open_writer
from kgqa.graph.sqlite import SqliteStore
from kgqa.models.tokenizer import bare_encoder
from kgqa.paths.walk import WalkRules, walk
from kgqa.progress import Silent
from kgqa.trie.composed import ComposedConstraint
from kgqa.trie.index import IndexKey, IndexWriter, open_index
from kgqa.trie.index.constraint import LARGE, MarisaConstraint
from kgqa.trie.index.shard import encode_shard
from kgqa.trie.precompute import all_topics, precompute
from kgqa.trie.stored import path_tokens, stored_constraint

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.trie.lexicon import PathLexicon

BEAMS = 10
SEED = 5
CAP = 100_000
SCRIPT = Path(__file__).resolve().parent.parent / "bench_index"


class Bench:
    """The rows, each of which prints what it saw and returns figures; goals by their names."""

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        self.data: Path = options.shared / "data"
        self.cache: Path = options.cache
        self.quick: bool = options.quick
        self.neo4j: bool = options.neo4j
        self.scratch = scratch
        self._fb: Path | None = None

    @property
    def fb(self) -> Path:
        """FB15k-237 in a store."""
        if self._fb is None:
            self._fb = write_store(self.scratch / "fb15k237.sqlite", fb15k237(self.data))
        return self._fb

    def build(self) -> dict[str, Any]:
        """One question's trie, from its edges."""
        rules = WalkRules(2, "out", "keep")
        encoder = encoder_at(self.cache)
        rows, same, size, paths, ratios_known = [], 0, 0, 0, []
        for file in sorted((self.data / "gcr_question_graphs").glob("*.json")):
            question = json.loads(file.read_text("utf-8"))
            topic = question["topic_entities"][0]
            edges: dict[str, list[tuple[str, str]]] = {}
            for head, relation, tail in sorted({tuple(edge) for edge in question["edges"]}):
                edges.setdefault(head, []).append((relation, tail))
            triples = [(head, relation, tail) for head, relation, tail in question["edges"]]
            tables = tables_of(file.stem, triples, None)
            graph = write_store(self.scratch / f"{file.stem}.sqlite", tables)
            with SqliteStore(graph) as store:
                key = store.keys_of([topic])
                lexicon = new_lexicon(self.cache)

                def ours(lexicon: PathLexicon = lexicon, store: Any = store, key: Any = key) -> Any:
                    table, _ = walk(store, key, rules)
                    return stored_constraint([(path_tokens(store, table, lexicon), table)])

                def published(
                    edges: Any = edges, topic: str = topic, closing: int = lexicon.closing
                ) -> PublishedTrie:
                    return PublishedTrie(path_texts(edges, topic, 2), encoder, closing)

                first_ms, _ = worked(ours)
                known, theirs = [], []
                for _ in range(2 if self.quick else 5):
                    their_ms, trie = worked(published)
                    our_ms, constraint = worked(ours)
                    theirs.append(their_ms)
                    known.append(our_ms)
                table, _ = walk(store, key, rules)
                tokens = path_tokens(store, table, lexicon)
                language = {tuple(tokens[number]) for number in range(len(tokens))}
                same += language == trie.language()
                stored = encode_shard(store, lexicon, key, table).record
            size += stored.bytes
            paths += len(table)
            times = [statistics.median(theirs), first_ms, statistics.median(known)]
            ratios_known.append(times[0] / times[2])
            rows.append([file.stem, len(table), constraint.trie.nodes, *times, stored.bytes])
            print(
                f"  {file.stem:<12} {len(table):>5} paths {constraint.trie.nodes:>6} nodes; "
                f"published {times[0]:7.1f} ms, ours {times[2]:6.1f} ms ({ratios_known[-1]:.1f}x), "
                f"with every name new {first_ms:6.1f} ms ({times[0] / first_ms:.1f}x); "
                f"{stored.bytes / len(table):.1f} bytes a path",
                flush=True,
            )
        new = float(np.median([row[3] / row[4] for row in rows]))
        print(f"  with every name new to the tokenizer: {new:.1f}x (median)")
        return {
            "rows": rows,
            "build_speedup_names_new": new,
            "build_speedup": float(np.median(ratios_known)),
            "build_same_language": same,
            "bytes_a_path_questions": size / paths,
        }

    def allowed(self) -> dict[str, Any]:
        """What ten beams may write, a step."""
        sizes = [1_000, 10_000, 100_000] if self.quick else [1_000, 10_000, 100_000, 1_000_000]
        rules = WalkRules(3 if not self.quick else 2, "both")
        choose = random.Random(SEED)
        seeded = np.random.default_rng(SEED)
        with SqliteStore(self.fb) as store:
            keys = store.topic_keys().tolist()
            table = None
            while table is None or len(table) < sizes[-1]:
                found, _ = walk(store, np.array([choose.choice(keys)]), rules, 3 * sizes[-1])
                table = found
            order = seeded.permutation(len(table))
            lexicon = new_lexicon(self.cache)
            rows, figures = [], {}
            for size in sizes:
                part = table.take(np.sort(order[:size]))
                tokens = path_tokens(store, part, lexicon)
                made_ms, constraint = worked(stored_constraint, [(tokens, part)])
                chosen = [tokens[row] for row in seeded.integers(0, size, BEAMS).tolist()]
                steps = states_along(constraint, chosen)
                rounds = []
                for _ in range(20):
                    ms, _ = worked(list, map(constraint.expand, steps))
                    rounds.append(ms / len(steps))
                ours = statistics.median(rounds)
                line = f"  {size:>9,} paths: ours {1000 * ours:7.1f} us a step"
                if size <= 10_000:
                    texts = (encoder_at(self.cache).decode(tokens[i][:-1]) for i in range(size))
                    trie = PublishedTrie(list(texts), encoder_at(self.cache), lexicon.closing)
                    asked = [
                        [ids[:depth] for ids in chosen if len(ids) > depth]
                        for depth in range(len(steps))
                    ]
                    prefixes = [prefix for step in asked for prefix in step]
                    theirs, _ = worked(list, map(trie.allowed, prefixes))
                    theirs /= len(steps)
                    figures[f"allowed_speedup_{size // 1000}k"] = theirs / ours
                    line += f", published {theirs:8.2f} ms ({theirs / ours:,.0f}x)"
                print(
                    f"{line}; {constraint.trie.nodes:,} nodes made in {made_ms:,.0f} ms", flush=True
                )
                rows.append([size, constraint.trie.nodes, ours])
        steps_ms = [row[2] for row in rows]
        return {"rows": rows, **figures, "allowed_flatness": max(steps_ms) / min(steps_ms)}

    def lookup(self) -> dict[str, Any]:
        """An index of many entities, looked up."""
        rules = WalkRules(2, "both")
        graph = write_store(self.scratch / "subgraph.sqlite", subgraph(self.data))
        with SqliteStore(graph) as store:
            topics = store.topic_keys(limit=1 << 30)
            count = 1_000 if self.quick else 10_000
            topics = np.sort(np.random.default_rng(SEED).permutation(topics)[:count])
        result, key = self.index(graph, rules, topics, workers=1)
        tries = self.scratch / "tries"
        with open_index(tries, key) as index:
            shards = index.manifest.shards
            sizes = {
                id_: (int(paths), int(entity))
                for record in shards
                for shard in [index.shard(record)]
                for id_, entity, paths in zip(shard.ids, shard.keys, shard.paths, strict=True)
            }
            files = [index.folder / record.file for record in shards]
        print(
            f"  {result['stored']:,} entities, {result['paths']:,} paths, {result['bytes']:,} "
            f"bytes ({result['bytes'] / result['paths']:.2f} a path), {result['shards']} shards",
            flush=True,
        )

        def near(paths: int, count: int) -> list[tuple[str, int]]:
            ids = sorted(sizes, key=lambda id_: (abs(sizes[id_][0] - paths), id_))[:count]
            return [(id_, sizes[id_][1]) for id_ in ids]

        def read(index: Any, id_: str, entity: int) -> Any:
            stored = index.look_up(id_, entity)
            return stored, stored.trie.keys(stored.prefix)

        def cold(id_: str, entity: int) -> None:
            with open_index(tries, key) as index:
                read(index, id_, entity)

        def arrays(index: Any, id_: str, entity: int) -> Any:
            stored = index.look_up(id_, entity)
            return stored_constraint([(stored.sequences, stored.table)])

        def lazily(index: Any, id_: str, entity: int) -> Any:
            manifest = index.manifest
            stored = index.look_up(id_, entity)
            return MarisaConstraint([stored], manifest.key.hops, manifest.closing)

        def decoded(make: Any, index: Any, id_: str, entity: int, seed: int) -> None:
            beam_walk(make(index, id_, entity), BEAMS, seed)

        times: dict[str, list[float]] = {"cold": [], "warm": []}
        for id_, entity in near(400, 50):
            for file in files:
                drop_from_page_cache(file)
            times["cold"].append(worked(cold, id_, entity)[0])
        for id_, entity in near(400, 50):
            with open_index(tries, key) as index:
                read(index, *near(400, 50)[0])
                read(index, id_, entity)  # its shard is opened now, and its group's trie
                index._known.clear()
                times["warm"].append(worked(read, index, id_, entity)[0])
        for paths in (4_000, 40_000, 70_000):
            for seed, (id_, entity) in enumerate(near(paths, 10)):
                with open_index(tries, key) as index:
                    index.look_up(id_, entity).trie  # noqa: B018 - opened, as in a session
                    of = {"arrays": arrays, "lazily": lazily}
                    for name, make in of.items():
                        index._known.clear()
                        took = worked(make, index, id_, entity)[0]
                        times.setdefault(f"first {paths} {name}", []).append(took)
                        index._known.clear()
                        took = worked(decoded, make, index, id_, entity, seed)[0]
                        times.setdefault(f"decoded {paths} {name}", []).append(took)
            (id_, _), *_ = near(paths, 1)
            said = ", ".join(
                f"{what} {statistics.median(times[f'{what} {paths} {name}']):.1f} ms by {name}"
                for what in ("first", "decoded")
                for name in ("arrays", "lazily")
            )
            print(f"  {sizes[id_][0]:,} paths and their like: {said}", flush=True)
        form = "arrays" if LARGE > 4_000 else "lazily"
        figures: dict[str, Any] = {
            "index": result,
            "times": times,
            "bytes_a_path_subgraph": result["bytes"] / result["paths"],
            "lookup_cold_ms": statistics.median(times["cold"]),
            "lookup_warm_ms": statistics.median(times["warm"]),
            "first_constraint_ms": statistics.median(times[f"first 4000 {form}"]),
            "large_constraint_ms": statistics.median(times["decoded 70000 lazily"]),
        }
        print(
            f"  at 400 paths: cold {figures['lookup_cold_ms']:.2f} ms (opening included), warm "
            f"{figures['lookup_warm_ms']:.3f} ms",
            flush=True,
        )
        return figures

    def bundled(self) -> dict[str, Any]:
        """The size of the bundled sample's index."""
        home = Path(self.scratch / "home")
        kg = kgqa.ingest("freebase", home=home, progress=Silent())
        with SqliteStore(home / kg.name / "graph.sqlite", name=kg.name) as store:
            topics = all_topics(store)
        result, _ = self.index(home / kg.name / "graph.sqlite", WalkRules(), topics, workers=1)
        figures = {"bytes_a_path_sample": result["bytes"] / result["paths"]}
        print(
            f"  {result['stored']:,} entities, {result['paths']:,} paths: "
            f"{figures['bytes_a_path_sample']:.2f} bytes a path",
            flush=True,
        )
        return figures

    def index(
        self, graph: Path, rules: Any, topics: IntArray, workers: int, unit: int = 512
    ) -> tuple[dict[str, Any], Any]:
        """Precompute ``topics`` into an index under the scratch folder; return result and key."""
        lexicon = new_lexicon(self.cache)
        with SqliteStore(graph) as store:
            info = store.info
        key = IndexKey.of(info, lexicon.encoder, lexicon.form, rules)
        tries = self.scratch / "tries"
        tries.mkdir(exist_ok=True)
        make = self.resources(graph)
        with IndexWriter(tries, key, lexicon, cap=CAP, tokenizer_name="bench") as writer:
            made = precompute(
                make, writer, topics=topics, workers=workers, unit=unit, progress=Silent()
            )
        return dataclasses.asdict(made), key

    def resources(self, graph: Path) -> functools.partial[tuple[GraphStore, PathLexicon]]:
        """Return what opens a store and a lexicon, here or in a worker."""
        encoder = encoder_at(self.cache)
        return functools.partial(resources, graph, bare_encoder(encoder) or encoder)

    def precompute(self) -> dict[str, Any]:
        """A sample of all entities by two workers, as a process of its own for its memory."""
        count = 50 if self.quick else 500
        command = [sys.executable, str(SCRIPT), "--sample", str(count), "--graph", str(self.fb)]
        command += ["--shared", str(self.data.parent), "--cache", str(self.cache)]
        command += ["--quick"] if self.quick else []
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        figures: dict[str, Any] = json.loads(done.stdout)
        made, start = figures["made"], figures["start_seconds"]
        working = made["seconds"] - start
        print(
            f"  {count} of FB15k-237's entities (seeded): {made['stored']} stored with "
            f"{made['paths']:,} paths, {made['composed']} over the cap; {made['seconds']:.1f} s, "
            f"of which {start:.1f} s until a worker starts: {made['paths'] / working:,.0f} paths/s "
            f"({made['paths'] / made['seconds']:,.0f} with the start); {figures['worker_mb']:.0f} "
            f"MB the largest worker; {made['bytes'] / made['paths']:.2f} bytes a path",
            flush=True,
        )
        figures["precompute_paths_a_second"] = made["paths"] / working
        figures["precompute_worker_mb"] = figures["worker_mb"]
        figures["bytes_a_path_fb15k237"] = made["bytes"] / made["paths"]
        return figures

    def composed(self) -> dict[str, Any]:
        """The largest hub, composed."""
        figures = self._composed(lambda: SqliteStore(self.fb), "sqlite")
        if self.neo4j:
            figures |= self._on_neo4j()
        return figures

    def _composed(self, open_store: Callable[[], GraphStore], where: str) -> dict[str, Any]:
        measured = worked if where == "sqlite" else timed
        with open_store() as store:
            keys = store.topic_keys(limit=1 << 30)
            hub = keys[[int(np.argmax(store.degrees(keys)))]]
            name = store.entities(hub).label(0)
            lexicon = new_lexicon(self.cache)

            def ask(hops: int, beams: int, seed: int) -> dict[str, int]:
                rules = WalkRules(hops, "both")
                constraint = ComposedConstraint(store, hub, rules, lexicon)
                return beam_walk(constraint, beams, seed)

            rows, first = [], []
            for seed in range(3 if self.quick else 10):
                lexicon.clear()
                first.append(measured(ask, 3, BEAMS, seed)[0])
            for hops, beams in ((3, BEAMS), (2, BEAMS), (4, BEAMS), (3, 1), (3, 40)):
                times: list[float] = []
                seen: dict[str, int] = {}
                for seed in range(3 if self.quick else 10):
                    ask(hops, beams, seed)  # the names on its way are known now
                    ms, seen = measured(ask, hops, beams, seed)
                    times.append(ms)
                rows.append([hops, beams, statistics.median(times)])
                print(
                    f"  {where}: {name}, L = {hops}, K = {beams}: {rows[-1][2]:.1f} ms "
                    f"(last: {seen['steps']} steps, {seen['moves']:,} moves, {seen['ended']} ends)",
                    flush=True,
                )
        print(f"  {where}: L = 3, K = 10 with every name new: {statistics.median(first):.1f} ms")
        return {
            f"composed_{where}_rows": rows,
            f"composed_{where}_names_new_ms": statistics.median(first),
            f"composed_{where}_ms": rows[0][2],
        }

    def hub(self) -> dict[str, Any]:
        """Many tails of one relation, in a process without a model library."""
        figures: dict[str, Any] = {}
        for tails, rounds in ((10_000, 3),) if self.quick else ((100_000, 3), (1_000_000, 1)):
            graph = write_store(self.scratch / f"hub{tails}.sqlite", hub(self.data, tails))
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                found = pool.submit(hub_costs, self.resources(graph), rounds, BEAMS).result()
            figures |= {f"hub_{tails}_{name}": value for name, value in found.items()}
            whole = f" (all names whole: {found['whole']:,.0f})" if "whole" in found else ""
            print(
                f"  {tails:,} tails, K = 10: {found['first']:,.0f} ms the first time{whole}, "
                f"{found['after']:,.0f} ms after; {found['peak_mb']:,.0f} MB",
                flush=True,
            )
        if not self.quick:
            figures["hub_first_ms"] = figures["hub_100000_first"]
            figures["hub_after_ms"] = figures["hub_100000_after"]
            figures["hub_million_mb"] = figures["hub_1000000_peak_mb"]
        return figures

    def _on_neo4j(self) -> dict[str, Any]:
        """Start a Neo4j of its own, load the graph, measure, stop it."""
        script = SCRIPT.parent / "neo4j"
        home = self.scratch / "neo4j"
        jars = Path(os.environ.get("KGQA_NEO4J_HOME") or script.parent.parent / ".neo4j") / "jars"
        place = ["--home", str(home), "--jars", str(jars)]
        env = {name: value for name, value in os.environ.items() if not name.startswith("NEO4J_")}
        ports = ["--bolt-port", "17688", "--http-port", "17475", "--heap", "1g"]
        done = subprocess.run(
            [sys.executable, str(script), "start", *place, *ports],
            env=env,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            print(f"  no Neo4j: {done.stderr.strip().splitlines()[-1:]}")
            return {}
        try:
            uri = re.search(r"^export NEO4J_URI=(.*)$", done.stdout, re.MULTILINE)
            assert uri
            password = (home / "password").read_text().strip()
            with open_writer(uri[1], "fb15k237", password=password) as writer:
                writer.write(fb15k237(self.data), Silent())
            return self._composed(
                lambda: open_store(uri[1], "fb15k237", password=password), "neo4j"
            )
        finally:
            subprocess.run([sys.executable, str(script), "stop", *place], env=env, check=False)


def sample(graph: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Precompute a seeded sample by two workers (quick: here); report their peak memory."""
    with SqliteStore(graph) as store:
        topics = store.topic_keys(limit=1 << 30)
    chosen = np.sort(np.random.default_rng(SEED).permutation(topics)[: options.sample])
    workers, whose = (1, resource.RUSAGE_SELF) if options.quick else (2, resource.RUSAGE_CHILDREN)
    started = 0.0
    with tempfile.TemporaryDirectory(prefix="kgqa-bench-") as scratch:
        bench = Bench(options, Path(scratch))
        if not options.quick:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                started, _ = timed(pool.submit(start, bench.resources(graph)).result)
        made, _ = bench.index(graph, WalkRules(2, "both"), chosen, workers=workers, unit=64)
    peak = resource.getrusage(whose).ru_maxrss
    megabytes = peak / (1 << 10 if sys.platform != "darwin" else 1 << 20)
    return {"made": made, "start_seconds": started / 1_000, "worker_mb": megabytes}

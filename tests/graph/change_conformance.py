"""The law of changes: a changed KG is what a load of the changed triples gives.

A test module derives from ``ChangeConformance`` and gives the fixture ``make_store`` of
``StoreConformance``. Graphs and changes are N-Triples, drawn by seed: edges, literals, labels,
other labels, types, and nodes that are mediators while they have no label.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from kgqa.graph.model import keys_array
from kgqa.graph.neo4j_store import Neo4jStore
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteChanger, SqliteWriter
from kgqa.loaders import make_loader
from kgqa.loaders.base import Rejects, Report
from kgqa.loading.pipeline import assemble, type_relations_of
from kgqa.loading.update import update
from kgqa.paths.affected import affected
from kgqa.paths.walk import WalkRules, walk
from kgqa.progress import Silent
from tests.graph.neo4j_server import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kgqa.graph.change import GraphChange, GraphChanger
    from kgqa.graph.model import Direction, GraphTables
    from kgqa.graph.store import GraphStore
    from kgqa.loading.update import UpdateResult
    from tests.graph.store_conformance import MakeStore

LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
OTHER = "<http://www.w3.org/2004/02/skos/core#altLabel>"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
WORDS = ("Ada", "Ada Birch", "birch", "Bo-Lindt", "猫", "Straße", "x")


def changer_of(store: GraphStore) -> GraphChanger:
    """What changes the KG of a store."""
    if isinstance(store, SqliteStore):
        return SqliteChanger(store)
    from kgqa.graph.neo4j_change import Neo4jChanger

    assert isinstance(store, Neo4jStore)
    return Neo4jChanger(store)


def triples_loader() -> Any:
    """The loader of all of these graphs."""
    return make_loader("triples", form="ntriples", mediators="m", direction="out")


def loaded(lines: Sequence[str], name: str, folder: Path) -> GraphTables:
    """What a load of N-Triples gives."""
    file = folder / f"{name}.nt"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    loader, report = triples_loader(), Report()
    batches = loader.read([file], report, Rejects(folder / "rejects.tsv", report), Silent())
    direction: Direction = loader.direction
    return assemble(
        batches,
        name=name,
        source="lines",
        direction=direction,
        dropped=Counter(),
        loader="triples",
        type_relations=type_relations_of(loader),
    )


def change(
    store: GraphStore,
    added: Sequence[str],
    removed: Sequence[str],
    folder: Path,
    before: Callable[[GraphChange], None] = lambda _: None,
) -> UpdateResult:
    """Add lines of N-Triples to the KG in a store, and remove others."""
    files = []
    for name, lines in (("added", added), ("removed", removed)):
        files.append(folder / f"{name}.nt")
        files[-1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    result = update(
        store,
        changer_of(store),
        triples_loader(),
        triples_loader(),
        [files[0]] if added else [],
        [files[1]] if removed else [],
        folder,
        Silent(),
        before=before,
    )
    store.refresh()
    return result


def random_line(dice: random.Random) -> str:
    """One line: an edge more often than anything else."""
    node = dice.choice([f"<n{dice.randint(0, 9)}>", f"<n{dice.randint(0, 9)}>", "<m0>", "<m1>"])
    kind = dice.choices(("edge", "value", "label", "other", "type"), (12, 2, 2, 1, 1))[0]
    if kind == "edge":
        far = dice.choice([f"<n{dice.randint(0, 9)}>", f"<n{dice.randint(0, 9)}>", "<m0>", "<m1>"])
        return f"{node} <r{dice.randint(0, 3)}> {far} ."
    if kind == "value":
        return f'{node} <r{dice.randint(0, 3)}> "{dice.randint(1, 3)}" .'
    if kind == "label":
        return f'{node} {LABEL} "{dice.choice(WORDS)}" .'
    if kind == "other":
        return f'<n0> {OTHER} "{dice.choice(WORDS)} too" .'
    return f"{node} {TYPE} <t{dice.randint(0, 1)}> ."


def one_label_each(lines: Sequence[str]) -> list[str]:
    """Without a second label of a node: which of several is its name is a matter of order."""
    seen: set[str] = set()
    kept = []
    for line in dict.fromkeys(lines):
        if LABEL in line:
            if line.split()[0] in seen:
                continue
            seen.add(line.split()[0])
        kept.append(line)
    return kept


def random_change(dice: random.Random, lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Lines to be added to those that are there, and lines to be removed, some not there."""
    # the first one says that a node is there: the other labels of one that is not are forgotten
    removed = dice.sample(lines[1:], min(len(lines) - 1, dice.randint(0, 8)))
    removed += [x for _ in range(dice.randint(0, 2)) if (x := random_line(dice)) != lines[0]]
    gone = set(removed)
    labelled = {line.split()[0] for line in lines if LABEL in line and line not in gone}
    new = [random_line(dice) for _ in range(dice.randint(0, 8))]
    added = [x for x in one_label_each(new) if LABEL not in x or x.split()[0] not in labelled]
    return added, removed


def step(ids: Sequence[str], number: int) -> str:
    """A step by its relation's id."""
    return "" if number < 0 else ids[number // 2] + "^" * (number % 2)


def content(store: GraphStore) -> dict[str, Any]:
    """Everything that a store says, by ids: what must not depend on keys."""
    info = store.info
    ids = [
        *(f"n{number}" for number in range(10)),
        *("m0", "m1", "t0", "t1"),
        *(f'"{number}"' for number in range(1, 4)),
    ]
    keys = store.keys_of(ids)
    there = keys[keys >= 0]
    names = dict(zip(there.tolist(), store.entities(there).ids, strict=True))
    relations = store.relations()
    near = store.neighbours(there, "both")
    found = store.find_names([*WORDS, *(f"{one} too" for one in WORDS), *ids])
    paths = {}
    for rules in (WalkRules(2, "out"), WalkRules(2, "both", "keep")):
        table, _ = walk(store, there, rules)
        hops = [
            tuple(
                (step(relations.ids, a), names.get(b), step(relations.ids, c), names[d])
                for a, b, c, d in path[:length].tolist()
            )
            for path, length in zip(table.hops, table.length, strict=True)
        ]
        topics = [names[key] for key in table.topic.tolist()]
        paths[rules.fingerprint] = Counter(zip(topics, hops, strict=True))
    entities = store.entities(there)
    details = [store.details(key) for key in there.tolist()]
    return {
        "counts": (info.entities, info.mediators, info.values, info.relations, info.edges),
        "ids": sorted(names.values()),
        "nodes": {e.id: (e.name, e.kind, sorted(e.aliases), sorted(e.types)) for e in details},
        "kinds": sorted(zip(entities.ids, entities.kinds.tolist(), strict=True)),
        "degrees": dict(zip(names.values(), store.degrees(there).tolist(), strict=True)),
        "edges": Counter(
            (names[there[row]], relations.ids[step // 2], step % 2, names[target], kind)
            for row, step, target, kind in zip(
                *(c.tolist() for c in (near.row, near.step, near.target, near.kind)), strict=True
            )
        ),
        "names": sorted((place, names[key]) for place, key in zip(*map(list, found), strict=True)),
        "suggested": {
            text: sorted(names[key] for key in store.suggest(text, 100).tolist())
            for text in ("ada", "birch lindt", "猫", "strass", "n3")
        },
        "topics": sorted(names[key] for key in store.topic_keys().tolist()),
        "relations": sorted(
            (id_, name, inverse)
            for id_, name, inverse in zip(
                relations.ids, relations.names, relations.inverses, strict=True
            )
            if id_
        ),
        "paths": paths,
    }


def texts_of_paths(store: GraphStore, rules: WalkRules) -> dict[int, Counter[Any]]:
    """The paths of every node, by its key, as names and relations."""
    keys = keys_array(range(store.info.next_key))
    nodes = store.keys_of([*(f"n{number}" for number in range(10)), "m0", "m1"])
    table, _ = walk(store, nodes[nodes >= 0], rules)
    there = store.entities(nodes[nodes >= 0])
    near = dict(zip(there.keys.tolist(), there.names, strict=True))
    found: dict[int, Counter[Any]] = {int(key): Counter() for key in keys}
    for topic, hops, length in zip(table.topic.tolist(), table.hops, table.length, strict=True):
        path = hops[:length].tolist()
        found[topic][str([(*hop, near.get(hop[3])) for hop in path])] += 1
    return found


RULES = (WalkRules(2, "out"), WalkRules(1, "in"), WalkRules(2, "both", "keep"))


class ChangeConformance:
    """What a change must do to a store that can be changed."""

    seeds: Sequence[int] = range(6)
    events = 60  # of a change, at least, at which a process can end
    account: Mapping[str, str] = MappingProxyType({})  # of the server, if it is one

    def test_a_changed_kg_is_what_a_load_of_the_changed_triples_gives(
        self, make_store: MakeStore, tmp_path: Path
    ) -> None:
        for seed in self.seeds:
            self.check(make_store, tmp_path, seed)

    def test_a_change_that_is_killed_is_seen_whole_or_not_at_all(
        self, make_store: MakeStore, tmp_path: Path
    ) -> None:
        self.check_killed(make_store, tmp_path, 1)

    @pytest.mark.long
    def test_that_at_many_moments(self, make_store: MakeStore, tmp_path: Path) -> None:
        self.check_killed(make_store, tmp_path, 25)

    @pytest.mark.long
    def test_that_law_for_many_graphs(self, make_store: MakeStore, tmp_path: Path) -> None:
        for seed in range(100, 100 + 12 * len(self.seeds)):
            self.check(make_store, tmp_path, seed)

    def check_killed(self, make_store: MakeStore, folder: Path, moments: int) -> None:
        dice = random.Random(7)
        lines = one_label_each([f"<n0> {TYPE} <t0> .", *(random_line(dice) for _ in range(60))])
        added = [f"<n{number}> <r7> <n1> ." for number in range(9)]
        removed = lines[1::6]
        (folder / "added.nt").write_text("\n".join(added), encoding="utf-8")
        (folder / "removed.nt").write_text("\n".join(removed), encoding="utf-8")
        tables = loaded(lines, "killed", folder)
        secrets = {f"KILLED_{name.upper()}": value for name, value in self.account.items()}
        for event in sorted(dice.sample(range(self.events), min(moments, self.events))):
            store = make_store(tables)
            old, version = content(store), store.info.version
            command = [sys.executable, "-m", "tests.graph.killed_change", store.url]
            done = subprocess.run(
                [*command, "killed", str(folder), str(event)],
                env=os.environ | secrets,
                cwd=CHECKOUT,
                capture_output=True,
                text=True,
            )
            assert done.returncode == -signal.SIGKILL, done.stderr
            store.refresh()
            seen, is_new = content(store), store.info.version != version
            change(store, added, removed, folder)
            new = content(store)
            assert new != old
            assert seen == (new if is_new else old), event

    def check(self, make_store: MakeStore, folder: Path, seed: int) -> None:
        dice = random.Random(seed)
        lines = one_label_each(
            [
                f"<n0> {TYPE} <t0> .",
                "<n0> <r0> <n1> .",
                *(random_line(dice) for _ in range(dice.randint(1, 40))),
            ]
        )
        changed = make_store(loaded(lines, "changed", folder))
        for _ in range(2):  # keys of the first change are there in the second
            added, removed = random_change(dice, lines)
            gone = set(removed)
            lines = list(dict.fromkeys([*(x for x in lines if x not in gone), *added]))
            if not any("<r" in line for line in lines):
                return  # without an edge nothing is loaded
            keys = changed.info.next_key
            before = {rules: texts_of_paths(changed, rules) for rules in RULES}
            reached: dict[WalkRules, set[int]] = {}

            def find(
                planned: GraphChange,
                store: GraphStore = changed,
                reached: dict[WalkRules, set[int]] = reached,
            ) -> None:
                for rules in RULES:
                    reached[rules] = set(affected(store, planned, rules).tolist())

            change(changed, added, removed, folder, find)
            path = folder / "fresh.sqlite"
            SqliteWriter(path).write(loaded(lines, "fresh", folder), Silent())
            fresh = SqliteStore(path)
            with fresh:
                was, wanted = content(changed), content(fresh)
                for text in (*WORDS, "n3"):
                    _, named = fresh.find_names([text])
                    alike = changed.entities(changed.suggest(text, 100)).ids
                    assert set(fresh.entities(named).ids) <= set(alike), (seed, text)
            if type(changed) is not type(fresh):  # whose full texts differ
                del was["suggested"], wanted["suggested"]
            for part, value in wanted.items():
                assert was[part] == value, (seed, part)
            assert changed.info.next_key >= keys
            for rules in RULES:
                after = texts_of_paths(changed, rules)
                for key, paths in before[rules].items():
                    if key not in reached[rules]:
                        assert after[key] == paths, (seed, key)

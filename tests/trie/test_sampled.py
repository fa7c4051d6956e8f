"""An index of a sample: all of it is in the graph, and it never serves for the whole language."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.answers.answer import TopicEntity
from kgqa.errors import IndexStaleError
from kgqa.graph.model import keys_array
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.methods.grounding import choose_constraint
from kgqa.paths.ground import ground
from kgqa.paths.sample import WALKS, Sample
from kgqa.progress import Silent
from kgqa.trie.index import open_index
from kgqa.trie.index.constraint import MarisaConstraint
from kgqa.trie.lexicon import PathLexicon
from kgqa.trie.stored import stored_constraint
from tests.graph.tables import entity, tables_of
from tests.trie import precomputed
from tests.trie.language import (
    CharacterEncoder,
    brute_force,
    graphs,
    id_paths,
    language,
    rules_of,
    store_of,
    tokens_of,
)
from tests.trie.precomputed import FORM, KEY, RULES

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.trie.index import IndexKey, TrieIndex
    from kgqa.trie.precompute import PrecomputeResult

NODES = 90
HUB = "e000"
SAMPLE = Sample(20, "random", 5)


def key_of(sample: Sample | None, full: IndexKey = KEY) -> IndexKey:
    if sample is None:
        return full
    return replace(full, walk=sample.walk, sample=sample.size, seed=sample.seed)


def build(
    graph: Path, tries: Path, sample: Sample | None, full: IndexKey = KEY, **options: object
) -> PrecomputeResult:
    cap = 100_000 if sample is None else sample.size
    settings: dict = {"unit": 20} | options
    return precomputed.build(graph, tries, key=key_of(sample, full), cap=cap, **settings)


def content(index: TrieIndex) -> dict[str, list]:
    return {trie.id: sorted(id_paths(trie.table)) for trie in precomputed.stored(index)}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hub with far more paths than a sample has, and entities with fewer."""
    choose = random.Random(23)
    nodes = [entity(f"e{at:03}", f"name {at % 70}") for at in range(NODES)]
    edges = {(HUB, "r", f"e{at:03}") for at in range(1, NODES, 2)}
    edges |= {
        (f"e{at:03}", f"r{choose.randrange(3)}", f"e{choose.randrange(NODES):03}")
        for at in range(1, NODES)
        for _ in range(2)
    }
    path = tmp_path_factory.mktemp("graph") / "graph.sqlite"
    SqliteWriter(path).write(tables_of(nodes, sorted(edges)), Silent())
    return path


@settings(
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    tables=graphs(),
    rules=rules_of,
    sample=st.builds(Sample, st.integers(1, 9), st.sampled_from(WALKS)),
)
def test_a_sampled_index_holds_paths_of_the_graph_as_many_as_wanted_or_all(
    tables, rules, sample, tmp_path
) -> None:
    """On disk and read again: tokens and groundings are those of the paths, each in the store."""
    lexicon = PathLexicon(CharacterEncoder(), FORM)
    full = replace(KEY, hops=rules.hops, direction=rules.direction, mediators=rules.mediators)
    store_of(tables, tmp_path).close()
    path = tmp_path / "graph.sqlite"
    result = build(path, tmp_path / "tries", sample, full, unit=3, rebuild=True)
    assert result.composed == 0
    with (
        SqliteStore(path) as store,
        open_index(tmp_path / "tries", key_of(sample, full)) as index,
    ):
        assert index.manifest.key.sampled == sample
        topics = store.topic_keys()
        for topic, one in zip(topics.tolist(), store.entities(topics).ids, strict=True):
            expected = brute_force(tables, topic, rules)
            trie = index.look_up(one, topic)
            assert trie is not None
            found = id_paths(trie.table)
            assert len(found) == len(set(found)) == min(sample.size, len(expected))
            assert set(found) <= expected
            assert all(ground(store, trie.table, FORM))
            if found:
                read = language(stored_constraint([(trie.sequences, trie.table)]))
                assert read == language(MarisaConstraint([trie], rules.hops, lexicon.closing))
                for tokens, paths in read.items():
                    assert {tokens_of(tables, one, lexicon) for one in paths} == {tokens}
                assert sorted(p for paths in read.values() for p in paths) == sorted(found)


def test_neither_units_nor_workers_nor_a_second_run_change_a_sample(
    graph: Path, tmp_path: Path
) -> None:
    key = key_of(SAMPLE)
    build(graph, tmp_path / "one", SAMPLE, unit=7)
    build(graph, tmp_path / "two", SAMPLE, workers=2)
    build(graph, tmp_path / "part", SAMPLE, topics=keys_array([5, 0, 60]))
    assert build(graph, tmp_path / "part", SAMPLE).added < NODES
    found = []
    for folder in ("one", "two", "part"):
        with open_index(tmp_path / folder, key) as index:
            found.append(content(index))
    assert found[0] == found[1] == found[2]
    assert len(found[0][HUB]) == SAMPLE.size


@pytest.mark.parametrize(
    ("has", "wanted", "named"),
    [
        (SAMPLE, None, "sampled paths 20, not none"),
        (None, SAMPLE, "sampled paths none, not 20"),
        (SAMPLE, Sample(20, "random", 6), "seed 5, not 6"),
        (SAMPLE, Sample(21, "random", 5), "sampled paths 20, not 21"),
        (Sample(20, "depth"), Sample(20, "breadth"), "walk depth, not breadth"),
    ],
)
def test_a_sample_serves_only_who_asked_for_it(
    graph: Path, tmp_path: Path, has: Sample | None, wanted: Sample | None, named: str
) -> None:
    build(graph, tmp_path, has, topics=keys_array([0]))
    with pytest.raises(IndexStaleError, match=named):
        open_index(tmp_path, key_of(wanted))
    open_index(tmp_path, key_of(has)).close()


def test_a_sample_and_the_whole_stand_side_by_side(graph: Path, tmp_path: Path) -> None:
    build(graph, tmp_path, None)
    build(graph, tmp_path, SAMPLE)
    with open_index(tmp_path, KEY) as whole, open_index(tmp_path, key_of(SAMPLE)) as sampled:
        everything, some = content(whole), content(sampled)
        assert whole.manifest.key.sampled is None
    assert everything.keys() == some.keys()
    assert set(some[HUB]) < set(everything[HUB])
    for one, paths in everything.items():
        assert set(some[one]) <= set(paths)
        if len(paths) <= SAMPLE.size:
            assert some[one] == paths


def test_a_constraint_of_a_sample_says_that_it_is_one(graph: Path, tmp_path: Path) -> None:
    build(graph, tmp_path, SAMPLE)
    with SqliteStore(graph) as store, open_index(tmp_path, key_of(SAMPLE)) as index:
        lexicon = PathLexicon(CharacterEncoder(), FORM)
        few = next(one for one, paths in content(index).items() if 0 < len(paths) < SAMPLE.size)
        notes = {}
        for one in (HUB, few):
            topic = TopicEntity(int(store.keys_of([one])[0]), one, one, 1.0)
            choice = choose_constraint(store, [topic], RULES, lexicon, index)
            assert [use.source for use in choice.uses] == ["shard"]
            notes[one] = choice.notes
    (note,) = notes[HUB]
    assert "a sample" in note
    assert "at most 20 paths of an entity, by random walks (seed 5)" in note
    assert notes[few] == ()  # it has all of its paths

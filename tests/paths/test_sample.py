"""A sample of paths is some of the paths, the ones it says, and always the same ones."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.errors import UsageError
from kgqa.graph.model import Kind, keys_array
from kgqa.paths import sample as module
from kgqa.paths.sample import WALKS, Sample, sample_walk
from kgqa.paths.walk import WalkRules, walk
from tests.graph.tables import entity, tables_of
from tests.trie.language import brute_force, graphs, id_paths, rules_of, store_of

if TYPE_CHECKING:
    from kgqa.graph.model import GraphTables
    from tests.trie.language import IdPath

SLOW = settings(
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
sizes = st.integers(1, 12)


def in_order(path: IdPath) -> tuple:
    """What paths are ordered by: a path stands before those that go on from it."""
    return tuple((first, second, tail, mediator) for first, mediator, second, tail in path[1])


@SLOW
@given(tables=graphs(), rules=rules_of, size=sizes)
def test_the_first_paths_are_the_first(tables, rules, size, tmp_path) -> None:
    with store_of(tables, tmp_path) as store:
        topics = store.topic_keys()
        deep = sample_walk(store, topics, rules, Sample(size, "depth"))
        broad = sample_walk(store, topics, rules, Sample(size, "breadth"))
    for topic in topics.tolist():
        paths = sorted(brute_force(tables, topic, rules), key=in_order)
        assert id_paths(deep.of(topic)) == paths[:size]
        by_length = sorted(paths, key=lambda path: len(path[1]))[:size]
        assert id_paths(broad.of(topic)) == sorted(by_length, key=in_order)


@SLOW
@given(tables=graphs(), rules=rules_of, size=sizes, seed=st.integers(0, 1 << 62))
def test_random_walks_are_paths_none_twice_as_many_as_wanted_or_all(
    tables, rules, size, seed, tmp_path
) -> None:
    sample = Sample(size, "random", seed)
    with store_of(tables, tmp_path) as store:
        topics = store.topic_keys()
        table = sample_walk(store, topics, rules, sample)
        again = sample_walk(store, topics[::-1], rules, sample)
        for topic in topics.tolist():
            expected = brute_force(tables, topic, rules)
            found = id_paths(table.of(topic))
            assert len(found) == len(set(found)) == min(size, len(expected))
            assert set(found) <= expected
            # neither the other entities of a batch nor their order make a difference
            alone = sample_walk(store, keys_array([topic]), rules, sample)
            assert id_paths(alone) == found == id_paths(again.of(topic))


@SLOW
@given(tables=graphs(), rules=rules_of, size=sizes, seed=st.integers(0, 99))
def test_a_smaller_sample_is_part_of_a_larger_one(tables, rules, size, seed, tmp_path) -> None:
    with store_of(tables, tmp_path) as store:
        topics = store.topic_keys()
        small = sample_walk(store, topics, rules, Sample(size, "random", seed))
        large = sample_walk(store, topics, rules, Sample(size + 3, "random", seed))
    assert set(id_paths(small)) <= set(id_paths(large))


@SLOW
@given(tables=graphs(), rules=rules_of, size=sizes, walk_by=st.sampled_from(WALKS))
def test_the_batches_that_bound_the_memory_change_nothing(
    tables, rules, size, walk_by, tmp_path
) -> None:
    sample = Sample(size, walk_by)
    with store_of(tables, tmp_path) as store, pytest.MonkeyPatch.context() as patch:
        topics = store.topic_keys()
        expected = id_paths(sample_walk(store, topics, rules, sample))
        patch.setattr(module, "_JOINED", 3)
        patch.setattr(module, "_BLOCK", 1)
        patch.setattr(module, "_GROWTH", 2)
        assert id_paths(sample_walk(store, topics, rules, sample)) == expected


# a fork of 1 and 3 hops, each with another way on: short paths and quiet turns are likelier
FORK: GraphTables = tables_of(
    [entity(name, name.upper()) for name in "abcdefg"],
    [("a", "r", "b"), ("a", "s", "c"), ("c", "r", "d"), ("c", "r", "e"), ("c", "s", "e")],
)


def chances(tables: GraphTables, topic: int, rules: WalkRules) -> dict[IdPath, float]:
    """How likely one walk is to be each path: by the definition, step by step."""
    paths = brute_force(tables, topic, rules)
    found: dict[IdPath, float] = {}

    def go(at: IdPath, chance: float) -> None:
        depth = len(at[1])
        on = [path for path in paths if len(path[1]) == depth + 1 and path[1][:depth] == at[1]]
        ends = 0.0 if not depth else 1 / (rules.hops - depth + 1) if on else 1.0
        if depth:
            found[at] = chance * ends
        for path in on:
            go(path, chance * (1 - ends) / len(on))

    go((topic, ()), 1.0)
    return found


def test_a_walk_is_as_likely_as_it_is_said_to_be(tmp_path) -> None:
    """Seeds are fixed, so this does not fail by chance."""
    draws = 4000
    rules = WalkRules(3)
    expected = chances(FORK, 0, rules)
    assert sum(expected.values()) == pytest.approx(1)
    first: Counter[IdPath] = Counter()
    pairs: Counter[frozenset[IdPath]] = Counter()
    with store_of(FORK, tmp_path) as store:
        for seed in range(draws):
            two = id_paths(sample_walk(store, keys_array([0]), rules, Sample(2, "random", seed)))
            pairs[frozenset(two)] += 1
            one = id_paths(sample_walk(store, keys_array([0]), rules, Sample(1, "random", seed)))
            first[one[0]] += 1
    assert set(first) == set(expected)
    for path, chance in expected.items():
        assert first[path] / draws == pytest.approx(chance, abs=0.03)
    # two at once are one after the other, the first not put back
    for one, chance in expected.items():
        for other, second in expected.items():
            if one < other:
                both = chance * second / (1 - chance) + second * chance / (1 - second)
                assert pairs[frozenset([one, other])] / draws == pytest.approx(both, abs=0.03)


def test_another_seed_gives_another_sample_of_a_hub(tmp_path) -> None:
    choose = random.Random(3)
    nodes = [entity(f"e{at:03}", f"name {at}") for at in range(300)]
    edges = {("e000", f"r{choose.randrange(3)}", f"e{at:03}") for at in range(1, 300)}
    edges |= {(f"e{at:03}", "s", f"e{choose.randrange(300):03}") for at in range(1, 300)}
    rules = WalkRules(2)
    with store_of(tables_of(nodes, sorted(edges)), tmp_path) as store:
        hub = keys_array([0])
        everything, _ = walk(store, hub, rules)
        found = [
            set(id_paths(sample_walk(store, hub, rules, Sample(50, "random", seed))))
            for seed in range(2)
        ]
    assert found[0] != found[1]
    assert all(len(one) == 50 and one < set(id_paths(everything)) for one in found)


def test_walks_end_at_values(tmp_path) -> None:
    nodes = [entity("a", "A"), entity("v", "1970", kind=Kind.VALUE), entity("w", "W")]
    tables = tables_of(nodes, [("a", "r", "v"), ("v", "r", "w")])
    with store_of(tables, tmp_path) as store:
        for walk_by in WALKS:
            table = sample_walk(store, keys_array([0]), WalkRules(3), Sample(9, walk_by))
            assert table.length.tolist() == [1]


def test_entities_without_a_path_have_none(tmp_path) -> None:
    tables = tables_of([entity("a", "A"), entity("b", "B")], [("a", "r", "b")])
    with store_of(tables, tmp_path) as store:
        for walk_by in WALKS:
            sample = Sample(5, walk_by)
            assert len(sample_walk(store, keys_array([1]), WalkRules(2), sample)) == 0
            assert len(sample_walk(store, keys_array([]), WalkRules(2), sample)) == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"size": 0}, "at least one path"),
        ({"size": 5, "walk": "sideways"}, "'sideways'"),
        ({"size": 5, "walk": "random", "seed": -1}, "-1"),
        ({"size": 5, "walk": "random", "seed": 1 << 63}, "2\\^63"),
        ({"size": 5, "walk": "depth", "seed": 7}, "changes nothing of a depth-first sample"),
    ],
)
def test_what_cannot_be_meant_is_said(wrong: dict, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Sample(**wrong)

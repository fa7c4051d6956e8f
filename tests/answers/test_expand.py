"""A relation path leads to all its tails, each with a path that the store holds."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.answers.expand import expanded, paths_along, tails
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import ground, ground_each
from kgqa.paths.walk import FIRST, SECOND, WalkRules, walk
from tests.graph.tables import random_tables
from tests.trie.language import rules_up_to, store_of

if TYPE_CHECKING:
    from kgqa.graph.sqlite import SqliteStore

FORM = PathFormat()
RULES = WalkRules()
JAMAICA = "m.03_r3"


def paths_of(store: SqliteStore, topic: str, rules: WalkRules = RULES):
    table, _ = walk(store, store.keys_of([topic]), rules)
    return [path for path in ground(store, table, FORM) if path]


def languages(sample: SqliteStore):
    """A path of the sample's whose relation path has several tails."""
    return next(
        path
        for path in paths_of(sample, JAMAICA)
        if len(path.edges) == 1 and path.edges[0].relation == "location.country.languages_spoken"
    )


def test_an_expanded_relation_path_gives_every_tail_a_path_of_its_own(sample) -> None:
    decoded = languages(sample)
    found = paths_along(sample, decoded, RULES, most=100)
    assert found is not None
    assert len(found) > 1
    (walked,) = expanded(sample, [(decoded, decoded.text, found)], FORM)
    assert len(walked) == len(found) - 1, "the decoded path itself is not walked again"
    every = {
        path.tail.id
        for path in paths_of(sample, JAMAICA)
        if path.relation_path == decoded.relation_path
    }
    assert {decoded.tail.id, *(one.grounding.tail.id for one in walked)} == every
    for one in walked:
        row = one.to_dict()
        assert row["expanded"] is True
        assert row["score"] is None, "no model scored it"
        assert row["source"] == decoded.text
        assert row["edges"][-1]["facts"], "an expanded answer shows its facts, too"
        assert one.grounding.head == decoded.head


def test_a_relation_path_with_too_many_tails_is_not_cut_in_silence(sample) -> None:
    decoded = languages(sample)
    whole = paths_along(sample, decoded, RULES, most=100)
    assert whole is not None
    assert paths_along(sample, decoded, RULES, most=len(whole)) is not None
    assert paths_along(sample, decoded, RULES, most=len(whole) - 1) is None
    assert paths_along(sample, decoded, RULES, most=100, most_paths=1) is None


def test_a_path_of_more_hops_than_the_rules_allow_leads_nowhere(sample) -> None:
    long = next(path for path in paths_of(sample, JAMAICA) if len(path.edges) == 2)
    found = paths_along(sample, long, WalkRules(hops=1), most=100)
    assert found is not None
    assert not len(found)


def test_an_edge_that_the_store_lacks_is_not_shown(sample) -> None:
    decoded = languages(sample)
    found = paths_along(sample, decoded, RULES, most=100)
    assert found is not None
    found.hops[:, 0, FIRST] = 2 * (len(sample.relations()) - 1)
    assert expanded(sample, [(decoded, decoded.text, found)], FORM) == [[]]


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    rules=rules_up_to(3),
)
def test_expanding_finds_the_tails_of_exactly_the_walks_with_the_same_steps(
    seed: int, rules: WalkRules
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        store_of(random_tables(seed), Path(folder)) as store,
    ):
        table, _ = walk(store, store.topic_keys()[:3], rules)
        some = table.take(np.arange(min(len(table), 10)))
        for row, grounded in enumerate(ground(store, some, FORM)):
            assert grounded is not None
            found = paths_along(store, grounded, rules, most=1000)
            steps = table.hops[:, :, (FIRST, SECOND)]
            same = (
                (table.topic == some.topic[row])
                & (table.length == some.length[row])
                & (steps == some.hops[row][:, (FIRST, SECOND)]).all(axis=(1, 2))
            )
            ends = set(table.ends()[same].tolist())
            assert found is not None
            assert found.ends().tolist() == sorted(ends)
            assert ends <= set(tails(store, grounded, rules).tolist())
            assert all(one is not None for one in ground(store, found, FORM))


def test_paths_of_several_tables_are_looked_up_at_once(sample, monkeypatch) -> None:
    short, long = (walk(sample, sample.keys_of([JAMAICA]), WalkRules(hops))[0] for hops in (1, 2))
    expected = [ground(sample, table, FORM) for table in (short, short.take(np.arange(0)), long)]
    asked = []
    has_edges = sample.has_edges
    monkeypatch.setattr(
        sample, "has_edges", lambda *columns: asked.append(len(columns[0])) or has_edges(*columns)
    )
    given = ground_each(sample, [short, short.take(np.arange(0)), long], FORM)
    assert given == expected
    assert len(asked) == 1
    assert ground_each(sample, [], FORM) == []

"""SQLite and Neo4j give the same triplets round entities, the same graphs and the same chains."""

from __future__ import annotations

import random

import pytest

from kgqa.graph.model import keys_array
from kgqa.methods.dog.graph import neighbourhood
from kgqa.paths.triplets import StoreTriplets
from kgqa.trie.precompute import all_topics
from tests.methods.dog_models import opening_model
from tests.methods.test_dog_chains import write

pytestmark = [pytest.mark.neo4j, pytest.mark.model]


@pytest.mark.parametrize("entered", [False, True])
def test_triplets_are_the_same(sample, in_neo4j, entered: bool) -> None:
    keys = keys_array(sorted(random.Random(4).sample(all_topics(sample).tolist(), 300)))
    ours, theirs = (StoreTriplets(one, entered=entered).around(keys) for one in (sample, in_neo4j))
    assert [rows.tolist() for rows in ours] == [rows.tolist() for rows in theirs]
    assert sum(map(len, ours)) > 1_000


def test_graphs_and_chains_are_the_same(sample, in_neo4j, kg_llm) -> None:
    llm = opening_model(kg_llm, 1)
    found = []
    for store in (sample, in_neo4j):
        chains = []
        for key in random.Random(5).sample(all_topics(sample).tolist(), 4):
            rows, level, notes = neighbourhood(store, StoreTriplets(store), keys_array([key]), 2)
            _, paths = write(store, llm, [key], beams=2, steps=3)
            shown = [
                (one.text, round(one.score, 3), one.groundings) for one in paths if one is not None
            ]
            chains.append((rows.tolist(), level.tolist(), notes, shown))
        found.append(chains)
    assert found[0] == found[1]
    assert any(shown for *_, shown in found[0])

"""SQLite and Neo4j hold the same KG and give the same links, paths, chains and answers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from kgqa.answers.answer import TopicEntity
from kgqa.graph.model import keys_array
from kgqa.linking.linker import link
from kgqa.methods.base import LinkedQuestion
from kgqa.methods.dog.graph import neighbourhood
from kgqa.paths.triplets import StoreTriplets
from kgqa.paths.walk import WalkRules, walk
from kgqa.trie.precompute import all_topics
from tests.fixtures import LINCOLN, TOLKIEN
from tests.methods.dog_models import opening_model
from tests.methods.given import about, answered, gcr, kg_cot
from tests.methods.reasoners import encoder_folder, random_reasoner, tiny_encoder
from tests.methods.test_dog_chains import write
from tests.trie.language import id_paths

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.neo4j

QUESTIONS = [
    "Where was J. R. R. Tolkien born?",
    "who is the wife of abraham lincoln",
    "Which films did Tom Hanks act in?",
    "what is the capital of canada",
    "Who played Forrest Gump?",
]


def test_the_content_is_the_same(sample, in_neo4j) -> None:
    assert in_neo4j.info.version == sample.info.version
    keys = all_topics(sample)
    assert all_topics(in_neo4j).tolist() == keys.tolist()
    ours, theirs = sample.entities(keys), in_neo4j.entities(keys)
    assert (ours.ids, ours.names) == (theirs.ids, theirs.names)
    assert in_neo4j.relations() == sample.relations()
    assert in_neo4j.degrees(keys).tolist() == sample.degrees(keys).tolist()


@pytest.mark.parametrize("direction", ["out", "both"])
def test_the_paths_of_two_hundred_entities_are_the_same(sample, in_neo4j, direction) -> None:
    chosen = sorted(random.Random(3).sample(all_topics(sample).tolist(), 200))
    rules = WalkRules(hops=2, direction=direction)
    cap = 20_000
    ours, over = walk(sample, keys_array(chosen), rules, cap)
    theirs, also_over = walk(in_neo4j, keys_array(chosen), rules, cap)
    assert over.tolist() == also_over.tolist()
    assert len(ours) > 10_000
    assert sorted(id_paths(ours)) == sorted(id_paths(theirs))


@pytest.mark.parametrize("question", QUESTIONS)
def test_links_and_answers_are_the_same(sample, in_neo4j, random_llm, question: str) -> None:
    found = []
    for store in (sample, in_neo4j):
        candidates = link(store, question)
        best = candidates[0]
        topic = TopicEntity(best.key, best.id, best.name, best.score)
        answer = answered(store, gcr(random_llm), LinkedQuestion(question, (topic,)))
        found.append(
            (
                [
                    (candidate.id, candidate.name, candidate.score, candidate.mention)
                    for candidate in candidates
                ],
                [(path.text, round(path.score, 3), path.groundings) for path in answer.paths],
                [(ranked.id, ranked.name) for ranked in answer.answers],
            )
        )
    assert found[0] == found[1]


@pytest.mark.parametrize("entered", [False, True])
def test_triplets_are_the_same(sample, in_neo4j, entered: bool) -> None:
    keys = keys_array(sorted(random.Random(4).sample(all_topics(sample).tolist(), 300)))
    ours, theirs = (StoreTriplets(one, entered=entered).around(keys) for one in (sample, in_neo4j))
    assert [rows.tolist() for rows in ours] == [rows.tolist() for rows in theirs]
    assert sum(map(len, ours)) > 1_000


@pytest.mark.model
def test_graphs_and_chains_are_the_same(sample, in_neo4j, kg_llm) -> None:
    llm = opening_model(kg_llm, 1)
    found = []
    for store in (sample, in_neo4j):
        chains = []
        for key in random.Random(5).sample(all_topics(sample).tolist(), 4):
            rows, level, notes = neighbourhood(store, StoreTriplets(store), keys_array([key]), 2)
            _, paths = write(store, llm, [key], beams=2, steps=3)
            shown = [
                (path.text, round(path.score, 3), path.groundings)
                for path in paths
                if path is not None
            ]
            chains.append((rows.tolist(), level.tolist(), notes, shown))
        found.append(chains)
    assert found[0] == found[1]
    assert any(shown for *_, shown in found[0])


def test_answers_of_a_reasoner_are_the_same(sample, in_neo4j, tmp_path: Path) -> None:
    encoder = tiny_encoder(encoder_folder(tmp_path / "tiny"))
    method = kg_cot(random_reasoner(sample, WalkRules(), encoder, seed=4), k=8, paths_each=3)
    for id_ in (TOLKIEN, LINCOLN):
        found = []
        for store in (sample, in_neo4j):
            answer = answered(store, method, about(store, id_))
            found.append(
                (
                    [
                        (ranked.id, round(ranked.score, 6))
                        for ranked in (*answer.answers, *answer.others)
                    ],
                    [(path.text, path.groundings) for path in answer.paths],
                    [one.grounding for one in answer.expanded],
                )
            )
        assert found[0] == found[1]

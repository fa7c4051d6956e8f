"""SQLite and Neo4j hold the same KG and give the same entities, paths, links and answers."""

from __future__ import annotations

import random

import pytest

from kgqa.answers.answer import TopicEntity
from kgqa.graph.model import keys_array
from kgqa.linking.linker import link
from kgqa.methods.base import LinkedQuestion
from kgqa.paths.walk import WalkRules, walk
from kgqa.trie.precompute import all_topics
from tests.methods.given import answered, gcr
from tests.trie.language import id_paths

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
                [(one.id, one.name, one.score, one.mention) for one in candidates],
                [(path.text, round(path.score, 3), path.groundings) for path in answer.paths],
                [(one.id, one.name) for one in answer.answers],
            )
        )
    assert found[0] == found[1]

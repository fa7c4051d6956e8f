"""Dense retrieval: the nearest of all paths, each in the graph, and a vote over their ends."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from kgqa.errors import EmptyLanguageError
from kgqa.methods.retrieval import Retrieval, in_words, topic_paths
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from tests.fixtures import LINCOLN, TOLKIEN
from tests.methods.given import Given, about, answered, options_of, topic

if TYPE_CHECKING:
    from kgqa.answers.answer import Answer
    from kgqa.graph.sqlite import SqliteStore
    from kgqa.methods.base import LinkedQuestion
    from kgqa.models.sentence_encoder import SentenceEncoder

pytestmark = pytest.mark.model
FORM = PathFormat()


def ask(
    store: SqliteStore, encoder: SentenceEncoder, question: LinkedQuestion, **more: int
) -> Answer:
    method = Retrieval(options_of(Retrieval.Options, **more), Given(encoder=encoder))
    return answered(store, method, question)


def test_the_nearest_paths_are_those_of_highest_cosine(
    sample: SqliteStore, encoder: SentenceEncoder
) -> None:
    asking = about(sample, LINCOLN, question="Where was Abraham Lincoln born?")
    answer = ask(sample, encoder, asking, k=4)
    every = topic_paths(sample, asking.topics, WalkRules(), FORM, cap=100_000)
    vectors = encoder.encode([asking.question, *(in_words(group[0]) for group in every.groups)])
    texts = [group[0].text for group in every.groups]
    cosines = dict(zip(texts, (vectors[1:] @ vectors[0]).tolist(), strict=True))
    best = sorted(cosines.values(), reverse=True)[:4]
    assert [cosines[path.text] for path in answer.paths] == pytest.approx(best, abs=1e-5)
    scores = [path.score for path in answer.paths]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] - scores[1] == pytest.approx(20 * (best[0] - best[1]), abs=1e-3)
    assert sum(map(math.exp, scores)) <= 1.0 + 1e-9
    ends = {one.tail.id for path in answer.paths for one in path.groundings}
    assert {one.id for one in answer.answers} == ends
    assert all(one.grounded for one in answer.answers)
    assert (answer.method, answer.kg_llm.model, answer.forward_passes) == ("retrieval", "none", 0)


def test_a_note_says_that_there_is_a_sample(sample: SqliteStore, encoder: SentenceEncoder) -> None:
    answer = ask(sample, encoder, about(sample, TOLKIEN), k=50, cap=5)
    assert len(answer.paths) <= 5
    assert "at most 5 paths" in answer.notes[0]


def test_of_choices_only_choices_are_answers(sample: SqliteStore, encoder: SentenceEncoder) -> None:
    paths = topic_paths(sample, [topic(sample, LINCOLN)], WalkRules(), FORM, cap=100_000)
    tails = list(dict.fromkeys(group[0].tail.id for group in paths.groups))[:2]
    choices = (*tails, "no such thing")
    answer = ask(sample, encoder, about(sample, LINCOLN, choices=choices))
    assert {one.id for one in answer.answers if one.grounded} == set(tails)
    assert {one.tail.id for path in answer.paths for one in path.groundings} <= set(tails)


def test_all_paths_are_there_or_a_sample_and_a_note(sample: SqliteStore) -> None:
    topics = [topic(sample, TOLKIEN), topic(sample, LINCOLN), topic(sample, TOLKIEN)]
    found = topic_paths(sample, topics, WalkRules(), FORM, cap=100_000)
    assert found.notes == ()
    texts = [group[0].text for group in found.groups]
    assert len(set(texts)) == len(texts)
    lengths = [len(group[0].edges) for group in found.groups]
    assert lengths == sorted(lengths)
    for text, group in zip(texts, found.groups, strict=True):
        assert {one.text for one in group} == {text}
        assert {one.head.id for one in group} <= {TOLKIEN, LINCOLN}
    number = sum(len(group) for group in found.groups)
    few = topic_paths(sample, topics, WalkRules(), FORM, cap=3)
    assert sum(len(group) for group in few.groups) == 6 < number
    assert {group[0].text for group in few.groups} <= set(texts)
    assert len(few.notes) == 2
    assert all("at most 3 paths" in note and "seed 0" in note for note in few.notes)
    assert topic_paths(sample, topics, WalkRules(), FORM, cap=3) == few
    with pytest.raises(EmptyLanguageError):
        topic_paths(sample, [], WalkRules(), FORM, cap=3)


def test_predicates_are_read_as_words(sample: SqliteStore) -> None:
    found = topic_paths(sample, [topic(sample, TOLKIEN)], WalkRules(), FORM, cap=100_000)
    for group in found.groups:
        words = in_words(group[0])
        relations = words.split(" -> ")[1::2]
        assert not any(mark in relation for relation in relations for mark in "._/^")
        assert "  " not in words

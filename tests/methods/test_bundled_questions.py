"""The bundled adapter answers the bundled questions, with and without a given topic entity."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from kgqa.answers.answer import TopicEntity
from kgqa.evaluation.metrics import strict_scores
from kgqa.linking.linker import link, topic_entities
from kgqa.methods.base import LinkedQuestion
from kgqa.questions import Question, read_questions
from tests.fixtures import SAMPLE
from tests.methods.given import answered, gcr

if TYPE_CHECKING:
    from kgqa.graph.sqlite import SqliteStore
    from kgqa.models.kg_llm import KgLLM

pytestmark = pytest.mark.model


def topics_of(store: SqliteStore, question: Question, linked: bool) -> list[TopicEntity]:
    if linked:
        found = topic_entities(link(store, question.question))
        return [TopicEntity(one.key, one.id, one.name, one.score) for one in found]
    keys = store.keys_of(question.topic_entities)
    entities = store.entities(keys)
    return [
        TopicEntity(int(key), entities.ids[row], entities.label(row), 1.0)
        for row, key in enumerate(keys)
    ]


def right_first(store: SqliteStore, llm: KgLLM, linked: bool, number: int | None) -> list[bool]:
    """Whether the first answer is right, for ``number`` seeded questions or all."""
    questions = [
        question
        for question in read_questions(SAMPLE / "questions.jsonl").questions
        if question.answers
    ]
    if number is not None:
        questions = random.Random(2).sample(questions, number)
    method = gcr(llm, k=10, score_rule=None)
    right = []
    for question in questions:
        topics = topics_of(store, question, linked)
        answer = answered(store, method, LinkedQuestion(question.question, tuple(topics)))
        assert not answer.notes, "every decoded path is grounded"
        scores = strict_scores([ranked.id or "" for ranked in answer.answers], question.answers)
        right.append(scores.hits_at_1 == 1.0)
    return right


def test_most_of_a_seeded_few_are_answered_rightly(sample, kg_llm) -> None:
    right = right_first(sample, kg_llm, linked=False, number=4)
    assert sum(right) >= 3, right


@pytest.mark.long
@pytest.mark.parametrize(("linked", "share"), [(False, 0.8), (True, 0.6)])
def test_the_share_of_right_first_answers(sample, kg_llm, linked: bool, share: float) -> None:
    right = right_first(sample, kg_llm, linked, number=None)
    assert sum(right) / len(right) >= share

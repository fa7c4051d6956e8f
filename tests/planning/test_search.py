"""What a plan's score takes off for what the question does not ask."""

from __future__ import annotations

import pytest

from kgqa.graph.schema import EntityType, GraphSchema, Property, RelationPattern
from kgqa.models.plan_scorer import load_plan_scorer
from kgqa.planning.evidence import Reading
from kgqa.planning.schema_parts import SchemaParts
from kgqa.planning.search import PlanSearch
from kgqa.queries.text import parse_plan
from kgqa.understanding.literals import stated

PARTS = SchemaParts(
    GraphSchema(
        tuple(
            EntityType(name, 9, (Property("name", "text"), Property("height", "integer")))
            for name in ("Lighthouse", "Keeper", "Harbour")
        ),
        (
            RelationPattern("TENDS", "Keeper", "Lighthouse", 9),
            RelationPattern("GUARDS", "Lighthouse", "Harbour", 9),
        ),
    )
)
QUESTION = "Which keepers tend the highest lighthouse?"


def search(hop: float, word: float) -> PlanSearch:
    texts, refs = PARTS.read(QUESTION, [])
    scores = load_plan_scorer().read(QUESTION, texts)._replace(unasked=(hop, word))
    return PlanSearch(Reading(QUESTION, PARTS, refs, scores, stated(QUESTION), []))


@pytest.mark.model
def test_a_hop_and_a_word_that_nobody_asked_for_cost_a_plan() -> None:
    free, dear = search(0.0, 0.0), search(2.0, 0.5)
    before = {one.plan: one.score for one in free.plans(500)}
    after = {one.plan: one.score for one in dear.plans(500)}
    assert before.keys() == after.keys()
    assert any(before[plan] != score for plan, score in after.items())
    for plan, score in after.items():
        hops, words = dear.unasked(plan)
        assert score == pytest.approx(before[plan] - 2.0 * hops - 0.5 * words)


@pytest.mark.model
def test_words_of_a_plan_are_asked_if_the_question_has_them() -> None:
    plan = parse_plan("Keeper TENDS> Lighthouse GUARDS> Harbour | give Keeper")
    assert search(0.0, 0.0).unasked(plan) == (2, 2)  # guards, harbour
    assert search(0.0, 0.0).unasked(parse_plan("Keeper | give Keeper")) == (0, 0)

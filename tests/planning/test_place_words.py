"""The words of a question are looked up once for a property, not once for each plan."""

from __future__ import annotations

import pytest

from kgqa.graph.schema import EntityType, GraphSchema, Property, RelationPattern
from kgqa.models.plan_scorer import load_plan_scorer
from kgqa.planning.evidence import QuestionReading
from kgqa.planning.question_words import Mentions, measured
from kgqa.planning.schema_parts import SchemaParts
from kgqa.planning.search import PlanSearch
from kgqa.understanding.literals import stated

CLASSES = 25
RELATIONS = 80


def schema() -> GraphSchema:
    names = [f"{kind} {noun}" for kind in ("old", "new", "red", "far", "big")
             for noun in ("ship", "port", "crane", "crew", "lock")]  # fmt: skip
    columns = ("length", "weight", "price", "age", "height", "speed", "depth")
    held = tuple(Property(name, "integer", False, 9) for name in columns)
    relations = tuple(
        RelationPattern(f"serves {at}", names[at % CLASSES], names[(at * 7 + 1) % CLASSES], 9)
        for at in range(RELATIONS)
    )
    return GraphSchema(tuple(EntityType(name, 9, held) for name in names), relations)


@pytest.mark.model
def test_a_property_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = SchemaParts(schema())
    looked_up = 0
    find = Mentions._found

    def counted(self: Mentions, name: str, owner: str) -> list[int]:
        nonlocal looked_up
        looked_up += 1
        return find(self, name, owner)

    monkeypatch.setattr(Mentions, "_found", counted)
    question = "Which old ship that serves a new port has the greatest length?"
    texts, refs = parts.read(question, [])
    scores = load_plan_scorer().read(question, texts)
    measured.cache_clear()
    reading = QuestionReading(question, parts, refs, scores, stated(question), [])
    assert PlanSearch(reading).plans()
    asked = measured.cache_info()
    known = len(parts.properties) + len(parts.classes) + len(parts.hops)
    assert asked.hits + asked.misses < 20 * known  # millions, if each plan asks again
    assert looked_up < 4 * known

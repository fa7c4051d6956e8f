"""The class of a table's rows, where the question's noun is called like nothing in the graph."""

from __future__ import annotations

import pytest

from kgqa.graph.schema import EntityType, GraphSchema, Property, RelationPattern
from kgqa.models.plan_scorer import load_plan_scorer
from kgqa.planning.evidence import QuestionReading
from kgqa.planning.schema_parts import SchemaParts
from kgqa.understanding.literals import stated

FARE = (Property("fare", "float", False, 9),)
TABLE = GraphSchema(
    (EntityType("Titanic", 9, FARE), EntityType("Town", 3, ())),
    (RelationPattern("embark town", "Titanic", "Town", 9),),
)
UNTYPED = GraphSchema(
    (EntityType("planet", 9, FARE), EntityType("person", 9, FARE)),
    (
        RelationPattern("climate", "planet", "", 9),
        RelationPattern("homeworld", "person", "planet", 9),
    ),
)


def read(schema: GraphSchema, question: str) -> tuple[QuestionReading, dict[str, list[float]]]:
    """Return a reading, and the odds of classes as the scorer gives them."""
    parts = SchemaParts(schema)
    texts, refs = parts.read(question, [])
    scores = load_plan_scorer().read(question, texts)
    reading = QuestionReading(question, parts, refs, scores, stated(question), [])
    odds = {ref: list(map(float, row)) for ref, row in zip(refs, scores.parts, strict=True)
            if isinstance(ref, str)}  # fmt: skip
    return reading, odds


@pytest.mark.model
def test_passengers_are_the_rows_of_the_only_table() -> None:
    reading, _ = read(TABLE, "How many passengers embarked at Cherbourg?")
    assert reading.of_rows == "Titanic"
    assert min(reading.classes["Titanic"]) > 0
    assert read(TABLE, "Which towns are there?")[0].of_rows == ""


@pytest.mark.model
def test_things_of_no_class_are_not_rows() -> None:
    reading, odds = read(UNTYPED, "Which aliens have blue eyes?")
    assert reading.of_rows == ""
    assert list(reading.classes[""]) == pytest.approx(odds[""])


@pytest.mark.model
def test_the_non_of_a_property_denies_nothing() -> None:
    shares = (Property("share_non_citizen", "float", False, 9), *FARE)
    schema = GraphSchema((EntityType("State", 9, shares),), ())
    reading, _ = read(schema, "Which states have a share of non-citizens above 0.1?")
    assert not reading.denied(3)
    reading, _ = read(schema, "Which states have no fare?")
    assert reading.denied(1)

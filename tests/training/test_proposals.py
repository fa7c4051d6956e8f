"""Lists of plans as the planner proposes them, over graphs filled with made values."""

from __future__ import annotations

from random import Random

import pytest

from kgqa.queries.text import parse_plan
from scripts.planner.chains import ChainSchema
from scripts.planner.cypher_chains import chain_of
from scripts.planner.plan_words import plan_words
from scripts.planner.proposals import Filled, plan_text, proposals
from tests.training.test_plan_chains import SCHEMA


@pytest.mark.parametrize(
    "cypher",
    [
        "MATCH (p:Person)-[:ACTED_IN]->(f:Film) WHERE f.boxOffice > 5 RETURN p.name",
        "MATCH (p:Person)-[:DIRECTED]->(f:Film) WITH p, count(f) AS n ORDER BY n DESC LIMIT 3 "
        "RETURN p",
        "MATCH (p:Person)-[r:ACTED_IN]->(f:Film) WHERE r.roles = 'Neo' RETURN f.title",
        "MATCH (f:Film) RETURN avg(f.boxOffice)",
    ],
)
def test_gold_becomes_a_plan_of_the_same_words(cypher: str) -> None:
    schema = ChainSchema.of_json(SCHEMA)
    chain = chain_of(cypher, schema)
    assert chain is not None
    assert plan_words(parse_plan(plan_text(chain, schema))) == chain.words()


def test_the_planner_proposes_plans_of_which_one_is_gold() -> None:
    schema = ChainSchema.of_json(SCHEMA)
    chain = chain_of("MATCH (f:Film) RETURN avg(f.boxOffice)", schema)
    assert chain is not None
    values = {("Film", "title"): ["The Sea"], ("Person", "name"): ["Ann Lee", "Bo Ray"]}
    filled = Filled(schema, Random(1), values, {("Film", "boxOffice"): (5, 900)})
    (found,) = proposals([("What is the average box office?", chain)], schema, filled, "films")
    assert found["right"]
    assert len(found["plans"]) == len(found["scores"]) > 2
    assert all(row for row in found["features"]), "each plan's score is of weights"

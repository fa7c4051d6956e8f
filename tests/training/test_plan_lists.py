"""What a ranker of whole plans learns from: gold plans, and others that differ from them."""

import json
from pathlib import Path
from random import Random

import pytest

from kgqa.planning.plan_words import plan_words
from kgqa.queries.text import parse_plan
from scripts.planner.chains import ChainSchema
from scripts.planner.cypher_chains import chain_of
from scripts.planner.plan_lists import Others, PlanLists

SCHEMA = {
    "node_props": {
        "Person": [{"property": "name", "type": "STRING"}],
        "Film": [
            {"property": "title", "type": "STRING"},
            {"property": "boxOffice", "type": "INTEGER"},
        ],
    },
    "rel_props": {"ACTED_IN": [{"property": "roles", "type": "LIST"}]},
    "relationships": [
        {"start": "Person", "type": "ACTED_IN", "end": "Film"},
        {"start": "Person", "type": "DIRECTED", "end": "Film"},
    ],
}
BEST = (
    "MATCH (p:Person)-[:ACTED_IN]->(f:Film) WHERE f.title CONTAINS 'Sea' "
    "RETURN p.name, count(f) AS films ORDER BY films DESC LIMIT 3"
)


@pytest.mark.parametrize(
    ("cypher", "plan"),
    [
        (
            BEST,
            'Person ACTED_IN> Film | Film.title contains "Sea" | desc count Film | limit 3 '
            "| give Person.name",
        ),
        (
            "MATCH (f:Film) WHERE f.boxOffice > 5 RETURN avg(f.boxOffice)",
            "Film | Film.boxOffice > 5 | give average Film.boxOffice",
        ),
        (
            "MATCH (f:Film)<-[:DIRECTED]-(p:Person) WITH p, count(f) AS n WHERE n > 2 RETURN p",
            "Person DIRECTED> Film | count Film > 2 | give Person",
        ),
    ],
)
def test_gold_has_the_words_of_its_plan(cypher: str, plan: str) -> None:
    chain = chain_of(cypher, ChainSchema.of_json(SCHEMA))
    assert chain is not None
    words, expected = chain.words(), plan_words(parse_plan(plan))
    assert words.removesuffix(" , count of film") == expected


@pytest.mark.parametrize(
    "cypher",
    [
        "MATCH (p:Person)--(f:Film) RETURN p",
        "MATCH (p:Person) MATCH (f:Film) RETURN p",
        "MATCH (p:Person) WHERE p.age > 3 RETURN p",
        "MATCH (p:Person) WHERE p.name = 'a' OR p.name = 'b' RETURN p",
        "RETURN 1",
    ],
)
def test_what_is_no_chain(cypher: str) -> None:
    assert chain_of(cypher, ChainSchema.of_json(SCHEMA)) is None


def test_others_differ_in_each_kind() -> None:
    schema = ChainSchema.of_json(SCHEMA)
    chain = chain_of(BEST, schema)
    assert chain is not None
    kinds = Others(Random(1), "the 3 people in most 'Sea' films", chain, schema).kinds()
    for kind in kinds:
        assert {one.words() for one in kind} - {chain.words()}
    patterns = {one.words().partition(" ;")[0] for one in kinds[0]}
    assert "film < directed < person" in patterns  # a sibling
    assert {"person", "film"} & patterns  # a hop too few


def test_lists(tmp_path: Path) -> None:
    schemas = {"films": SCHEMA, "aside": SCHEMA}
    (tmp_path / "schemas.json").write_text(json.dumps(schemas))
    rows = [
        {"database": name, "question": "Who plays in most 'Sea' films?", "cypher": BEST}
        for name in schemas
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = [PlanLists(tmp_path, ("aside",), Random(1)) for _ in range(2)]
    several = [[next(lists) for _ in range(30)] for lists in (one.lists() for one in made)]
    assert several[0] == several[1]  # by the seed alone
    for listed in several[0]:
        assert listed.plans[0] not in listed.plans[1:]
        assert all(" ; give " in plan or plan.startswith("give") for plan in listed.plans)
    assert {len(made[0].checks[name]) for name in ("databases", "domains")} == {1, 40}

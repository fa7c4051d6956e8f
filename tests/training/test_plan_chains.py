"""Gold plans of questions with Cypher, as chains."""

import pytest

from kgqa.queries.text import parse_plan
from scripts.planner.chains import ChainSchema
from scripts.planner.cypher_chains import chain_of
from scripts.planner.plan_words import plan_words

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

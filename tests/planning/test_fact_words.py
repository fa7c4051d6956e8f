"""What questions say of facts: both ways, when they held, how often, how much, first and last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kgqa
from kgqa.graph.schema import EntityType, GraphSchema, Property, RelationPattern
from kgqa.planning.fact_words import FactWords
from kgqa.queries.check import SchemaIndex
from kgqa.queries.text import parse_plan
from tests.graph.neo4j_server import ask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.graph.neo4j_server import Neo4jServer

NODES = {
    "Player": ["Kai Lund", "Bea Ost", "Ned Fry"],
    "Club": ["FC Halm", "Orsk United"],
    "Town": ["Elm", "Fir", "Gale", "Hop"],
    "Vet": ["Dora Lim", "Sam Ode"],
    "Horse": ["Comet", "Dash"],
}
EDGES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("Kai Lund", "PLAYS_FOR", "FC Halm", {"from": 2010, "to": 2014}),
    ("Kai Lund", "PLAYS_FOR", "Orsk United", {"from": 2015}),
    ("Bea Ost", "PLAYS_FOR", "FC Halm", {"from": 2012}),
    ("Ned Fry", "PLAYS_FOR", "FC Halm", {"from": 2016, "to": 2019}),
    ("Elm", "TWINNED_WITH", "Fir", {}),
    ("Gale", "TWINNED_WITH", "Elm", {}),
    ("Dora Lim", "TREATED", "Comet", {"on": "2021-03-01", "hours": 9}),
    ("Dora Lim", "TREATED", "Comet", {"on": "2022-04-02", "hours": 4}),
    ("Sam Ode", "TREATED", "Comet", {"on": "2020-01-01", "hours": 7}),
    ("Dora Lim", "TREATED", "Dash", {"on": "2023-05-05", "hours": 1}),
]


@pytest.fixture(scope="module")
def fields(
    neo4j_server: Neo4jServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kgqa.KG]:
    home = tmp_path_factory.mktemp("home")
    made = "UNWIND $names AS name CREATE (n {name: name}) SET n:$($type)"
    joined = (
        "MATCH (a {name: $one}), (b {name: $other}) CREATE (a)-[e:$($relation)]->(b) SET e = $more "
        "FOREACH (day IN [x IN [$more.on] WHERE x IS NOT NULL] | SET e.on = date(day))"
    )
    remove = f"MATCH (n:{'|'.join(NODES)}) DETACH DELETE n"
    with neo4j_server.connect() as connection:
        ask(connection, remove)
        for type_, names in NODES.items():
            ask(connection, made, names=names, type=type_)
        for one, relation, other, more in EDGES:
            ask(connection, joined, one=one, relation=relation, other=other, more=more)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NEO4J_USERNAME", neo4j_server.username)
            patch.setenv("NEO4J_PASSWORD", neo4j_server.password)
            kg = kgqa.attach(neo4j_server.uri, kg="fields", home=home, only=list(NODES))
        with kg:
            yield kg
        ask(connection, remove)


@pytest.mark.model
@pytest.mark.neo4j
@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which towns are twinned with Elm?", {"Fir", "Gale"}),
        ("How many towns are twinned with Elm?", {"2"}),
        ("Which town is twinned with no other?", {"Hop"}),
        ("Which town is twinned with the most towns?", {"Elm"}),
        ("Who plays for FC Halm?", {"Bea Ost"}),
        ("How many players play for FC Halm?", {"1"}),
        ("Who played for FC Halm in 2013?", {"Kai Lund", "Bea Ost"}),
        ("Who no longer plays for FC Halm?", {"Kai Lund", "Ned Fry"}),
        ("Who used to play for FC Halm?", {"Kai Lund", "Ned Fry"}),
        ("How many times did Dora Lim treat Comet?", {"2"}),
        ("How many hours did Dora Lim treat Comet?", {"13"}),
        ("When did Dora Lim last treat Comet?", {"2022-04-02"}),
        ("When did Dora Lim first treat Comet?", {"2021-03-01"}),
    ],
)
def test_facts_are_those_that_the_question_means(
    fields: kgqa.KG, question: str, names: set[str]
) -> None:
    answer = fields.ask(question, method="query")
    assert {ranked.name for ranked in answer.answers} == names, answer.notes


SCHEMA = SchemaIndex(
    GraphSchema(
        (EntityType("Cook", 3), EntityType("Inn", 2)),
        (
            RelationPattern(
                "COOKS_AT",
                "Cook",
                "Inn",
                4,
                (Property("since", "date", count=4), Property("until", "date", count=2)),
            ),
            RelationPattern("MARRIED_TO", "Cook", "Cook", 1),
            RelationPattern("BAKED", "Cook", "Inn", 9, (Property("amount", "integer", count=9),)),
        ),
    )
)


@pytest.mark.parametrize(
    ("question", "plan", "meant"),
    [
        (
            "Who cooks at the Rook?",
            'Cook COOKS_AT> Inn | Inn = "Rook"',
            'Cook COOKS_AT> Inn | Inn = "Rook" | COOKS_AT.until missing or >= "2025-03-01"',
        ),
        ("Who has ever cooked at the Rook?", 'Cook COOKS_AT> Inn | Inn = "Rook"', ""),
        ("Who cooked at the Rook?", 'Cook COOKS_AT> Inn | Inn = "Rook"', ""),
        (
            "Who cooked at the Rook in 2013?",
            'Cook COOKS_AT> Inn | Inn = "Rook" | COOKS_AT.since = "2013"',
            'Cook COOKS_AT> Inn | Inn = "Rook" | COOKS_AT.since missing or <= "2013"'
            ' | COOKS_AT.until missing or >= "2013"',
        ),
        (
            "Who started to cook at the Rook in 2013?",
            'Cook COOKS_AT> Inn | Inn = "Rook" | COOKS_AT.since = "2013"',
            "",
        ),
        (
            "Who does not anymore cook at the Rook?",
            'Cook | without Cook COOKS_AT> Inn where Inn = "Rook"',
            'Cook COOKS_AT> Inn | Inn = "Rook" | COOKS_AT.until < "2025-03-01"',
        ),
        (
            "Who is married to Ann?",
            'Cook MARRIED_TO> Cook#2 | Cook#2 = "Ann"',
            'Cook <MARRIED_TO> Cook#2 | Cook#2 = "Ann"',
        ),
        (
            "Who is not married?",
            "Cook | without Cook MARRIED_TO> Cook#2",
            "Cook | without Cook <MARRIED_TO> Cook#2",
        ),
        (
            "Who baked the most for the Rook?",
            'Cook BAKED> Inn | Inn = "Rook" | desc count Inn | limit 1 | give Cook, count Inn',
            'Cook BAKED> Inn | Inn = "Rook" | desc sum BAKED.amount | limit 1'
            " | give Cook, sum BAKED.amount",
        ),
        ("Who baked for the most inns?", "Cook BAKED> Inn | desc count Inn | limit 1", ""),
        (
            "How often did Ann bake for the Rook?",
            'Cook BAKED> Inn | Cook = "Ann" | Inn = "Rook" | give count Cook',
            'Cook BAKED> Inn | Cook = "Ann" | Inn = "Rook" | give count BAKED',
        ),
    ],
)
def test_a_plan_takes_what_the_words_say_of_its_facts(question: str, plan: str, meant: str) -> None:
    read = FactWords(question, question, SCHEMA, "2025-03-01")
    assert str(read.meant(parse_plan(plan))) == str(parse_plan(meant or plan))

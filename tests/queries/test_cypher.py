"""The Cypher of a plan: what people read, and that it gives what the plan means on a real Neo4j."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.errors import PlanError
from kgqa.graph.schema import EntityType, GraphSchema, Property
from kgqa.queries.cypher import cypher_of, quoted
from kgqa.queries.execute import run_plan
from kgqa.queries.plan import Comparison, Hop, HopRef, NodeRef, Plan, PropertyRef, Sort
from kgqa.queries.text import parse_plan
from tests.queries.made import graphs, plans
from tests.queries.memory import Link, MemoryGraph, Thing, schema_of
from tests.queries.shop import SCHEMA
from tests.queries.test_execute import cells, same

if TYPE_CHECKING:
    from kgqa.graph.neo4j import Neo4jConnection


def shown(text: str) -> str:
    return cypher_of(parse_plan(text), SCHEMA)


def test_a_plan_is_shown_as_people_write_it() -> None:
    assert shown(
        "Product <ORDERS Order | Product.unitPrice > 20 | desc count Order | limit 3"
        " | give Product.productName, count Order"
    ).splitlines() == [
        "MATCH (product1:Product)<-[orders3:ORDERS]-(order2:Order)",
        "WHERE product1.unitPrice > 20",
        "WITH product1, count(DISTINCT order2) AS count4",
        "RETURN product1.productName AS `Product.productName`, count4 AS `count Order`",
        "ORDER BY `count Order` DESC, `Product.productName`",
        "LIMIT 3",
    ]


def test_a_part_of_a_text_is_found_in_any_case() -> None:
    found = shown("Product | Product.productName contains 'CHAI' | give count Product")
    assert "toLower(product1.productName) CONTAINS 'chai'" in found


def test_things_of_one_class_are_different() -> None:
    assert "WHERE employee1 <> employee2" in shown("Employee REPORTS_TO> Employee")
    assert "<>" not in shown("Supplier SUPPLIES> Product <ORDERS Order")


def test_what_does_not_fit_is_not_written() -> None:
    with pytest.raises(PlanError, match="The graph has no class Films"):
        shown("Films")


def rows_on_server(
    connection: Neo4jConnection, graph: MemoryGraph, text: str, change: str = ""
) -> list[Any]:
    """Return what a statement gives on a database that is ``graph``, and undo all of it.

    ``change``: what is done to every node ``n`` before.
    """
    with connection.translated(), connection.session() as session:
        transaction = session.begin_transaction()
        try:
            transaction.run("MATCH (n) DETACH DELETE n").consume()
            for key, thing in enumerate(graph.things):
                labels = "".join(f":{quoted(type_)}" for type_ in thing.types)
                transaction.run(f"CREATE (n{labels}) SET n = $p", p={**thing.properties, "_": key})
            for link in graph.links:
                transaction.run(
                    "MATCH (a {_: $a}), (b {_: $b}) "
                    f"CREATE (a)-[r:{quoted(link.relation)}]->(b) SET r = $p",
                    a=link.head,
                    b=link.tail,
                    p=link.properties,
                )
            if change:
                transaction.run(f"MATCH (n) {change}").consume()
            before = transaction.run("MATCH (n) RETURN count(n) AS n").single()
            found = [tuple(map(plain, record.values())) for record in transaction.run(text)]
            assert transaction.run("MATCH (n) RETURN count(n) AS n").single() == before
            return found
        finally:
            transaction.rollback()


def plain(value: Any) -> Any:
    if hasattr(value, "labels"):
        return f"t{value['_']}"
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.neo4j
@given(st.data())
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def test_the_shown_text_gives_what_the_plan_means(neo4j_server: Any, data: st.DataObject) -> None:
    graph = data.draw(graphs())
    plan = data.draw(plans(graph))
    compare(neo4j_server, graph, plan)


@pytest.mark.neo4j
@pytest.mark.long
@given(st.data())
@settings(max_examples=1_500, suppress_health_check=list(HealthCheck))
def test_many_shown_texts_give_what_the_plans_mean(neo4j_server: Any, data: st.DataObject) -> None:
    graph = data.draw(graphs())
    compare(neo4j_server, graph, data.draw(plans(graph)))


def compare(neo4j_server: Any, graph: MemoryGraph, plan: Plan) -> None:
    try:
        text = cypher_of(plan, graph.schema())
    except PlanError as error:
        assert "cannot be written as one statement" in str(error)  # noqa: PT017
        return
    with neo4j_server.connect() as connection:
        found = rows_on_server(connection, graph, text)
    expected = cells(run_plan(plan, graph))
    if not plan.order and plan.limit is None:
        found, expected = sorted(found, key=repr), sorted(expected, key=repr)
    assert same(found, expected), f"{plan}\n{text}\n{found}\n{expected}"


@pytest.mark.neo4j
@pytest.mark.parametrize("descending", [False, True])
def test_rows_that_give_a_list_are_ordered_by_it(neo4j_server: Any, descending: bool) -> None:
    things = [Thing(("Book",), {"tags": tags}) for tags in (["b", "e"], ["c"], ["a", "d"])]
    tags = PropertyRef(NodeRef(0), "tags")
    plan = Plan(("Book",), order=(Sort(tags, descending),), give=(tags,))
    schema = schema_of(things, [], {"tags": "text[]"})
    compare(neo4j_server, MemoryGraph(things, [], schema), plan)


HOSTILE = [
    "MATCH (n) DETACH DELETE n //",
    "a`b",
    'it\'s "x"',
    "RETURN",
    "😀",
    "a\\u0060b",
    "x}) {y:(",
]


@pytest.mark.neo4j
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_only_data(neo4j_server: Any, name: str) -> None:
    things = [Thing((name,), {name: name, "name": "one"}), Thing((name,), {"name": name})]
    graph = MemoryGraph(
        things,
        [Link(0, name, 1, {name: name})],
        schema_of(things, [Link(0, name, 1, {name: name})], {name: "text", "name": "text"}),
    )
    plan = Plan(
        nodes=(name, name),
        hops=(Hop(0, name, 1),),
        where=(
            Comparison(PropertyRef(NodeRef(0), name), "=", (name,)),
            Comparison(PropertyRef(HopRef(0), name), "contains", (name,)),
            Comparison(NodeRef(1), "in", (name,)),
        ),
        give=(PropertyRef(NodeRef(0), name), NodeRef(1)),
    )
    with neo4j_server.connect() as connection:
        text = cypher_of(plan, graph.schema())
        assert rows_on_server(connection, graph, text) == [(name, "t1")]


MEETS = [
    {"name": "Alpha", "at": "2024-01-01T08:00:00Z", "prep": "PT20M", "day": "-0044-03-15"},
    {"name": "Beta", "at": "2024-01-01T09:00:00+09:00", "prep": "PT1H", "day": "0014-08-19"},
    {"name": "Gamma", "at": "2023-12-31T23:30:00-05:00", "prep": "P1D", "day": "-0043-12-07"},
    {"name": "Delta", "at": "2024-01-01T08:00:00.25Z", "prep": "PT60M"},
]
MOMENTS = GraphSchema(
    (
        EntityType(
            "Meet",
            4,
            (
                Property("name", "text"),
                Property("at", "datetime", instants=True),
                Property("day", "date", instants=True),
                Property("prep", "duration"),
            ),
            names=("name",),
        ),
    ),
    (),
)


@pytest.mark.neo4j
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    ("plan", "names"),
    [
        ("Meet | asc Meet.at | give Meet.name", "Beta Gamma Alpha Delta"),
        ('Meet | Meet.at = "2024-01-01T08:00:00Z" | give Meet.name', "Alpha Delta"),
        ('Meet | Meet.at < "2024-01-01T08:00:00Z" | give Meet.name', "Beta Gamma"),
        ('Meet | Meet.at > "2024-01-01T04:45:00Z" | give Meet.name', "Alpha Delta"),
        ('Meet | Meet.at = "2023" | give Meet.name', "Gamma"),
        ('Meet | Meet.at >= "2024-01-01T08:00:01" | give Meet.name', "Beta"),
        ('Meet | Meet.at = "2024-01-01T08:00:00.25Z" | give Meet.name', "Delta"),
        ("Meet | year Meet.at = 2023 | give Meet.name", "Gamma"),
        ("Meet | asc Meet.day | limit 3 | give Meet.name", "Alpha Gamma Beta"),
        ('Meet | Meet.day < "0001" | give Meet.name', "Alpha Gamma"),
        ('Meet | Meet.day = "-0044" | give Meet.name', "Alpha"),
        (
            "Meet | desc Meet.prep | asc Meet.name | limit 4 | give Meet.name",
            "Gamma Beta Delta Alpha",
        ),
        ('Meet | Meet.prep = "PT3600S" | give Meet.name', "Beta Delta"),
        ('Meet | Meet.prep > "PT1H" | give Meet.name', "Gamma"),
        ('Meet | Meet.prep <> "PT1H" | give Meet.name', "Alpha Gamma"),
        ('Meet | Meet.prep in "PT1H", "PT20M" | give Meet.name', "Alpha Beta Delta"),
    ],
)
def test_moments_and_durations_are_compared_as_such(
    neo4j_server: Any, plan: str, names: str, native: bool
) -> None:
    graph = MemoryGraph([Thing(("Meet",), dict(one)) for one in MEETS], [], MOMENTS)
    read = parse_plan(plan)
    found = [str(row[0]) for row in run_plan(read, graph).rows]
    text = cypher_of(read, MOMENTS)
    native_ = "SET n.at = datetime(n.at), n.day = date(n.day), n.prep = duration(n.prep)"
    with neo4j_server.connect() as connection:
        shown = rows_on_server(connection, graph, text, native_ if native else "")
    shown = [row[0] for row in shown]
    wanted = names.split()
    if "sc Meet" not in plan:
        found, shown = sorted(found), sorted(shown)
    assert (found, shown) == (wanted, wanted), text

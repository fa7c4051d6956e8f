"""The Cypher of a plan: what people read, and that it gives what the plan means on a real Neo4j."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.errors import PlanError
from kgqa.queries.cypher import cypher_of, quoted
from kgqa.queries.execute import run_plan
from kgqa.queries.plan import Comparison, Hop, HopRef, NodeRef, Plan, PropertyRef
from kgqa.queries.text import parse_plan
from tests.queries.made import graphs, plans
from tests.queries.memory import Link, MemoryGraph, Thing, schema_of
from tests.queries.shop import SCHEMA
from tests.queries.test_execute import cells, same

if TYPE_CHECKING:
    from kgqa.graph.neo4j import Neo4jConnection


def shown(text: str) -> str:
    return cypher_of(parse_plan(text), SCHEMA).text


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


def test_values_are_parameters_where_it_is_run() -> None:
    plan = parse_plan("Product | Product.productName contains 'CHAI' | give count Product")
    found = cypher_of(plan, SCHEMA, inline=False)
    assert "toLower(product1.productName) CONTAINS $p1" in found.text
    assert found.parameters == {"p1": "chai"}


def test_things_of_one_class_are_different() -> None:
    assert "WHERE employee1 <> employee2" in shown("Employee REPORTS_TO> Employee")
    assert "<>" not in shown("Supplier SUPPLIES> Product <ORDERS Order")


def test_what_does_not_fit_is_not_written() -> None:
    with pytest.raises(PlanError, match="The graph has no class Films"):
        shown("Films")


def rows_on_server(connection: Neo4jConnection, graph: MemoryGraph, text: str) -> list[Any]:
    """Return what a statement gives on a database that is ``graph``, and undo all of it."""
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
        text = cypher_of(plan, graph.schema()).text
    except PlanError as error:
        assert "cannot be written as one statement" in str(error)  # noqa: PT017
        return
    with neo4j_server.connect() as connection:
        found = rows_on_server(connection, graph, text)
    expected = cells(run_plan(plan, graph))
    if not plan.order and plan.limit is None:
        found, expected = sorted(found, key=repr), sorted(expected, key=repr)
    assert same(found, expected), f"{plan}\n{text}\n{found}\n{expected}"


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
        text = cypher_of(plan, graph.schema()).text
        assert rows_on_server(connection, graph, text) == [(name, "t1")]

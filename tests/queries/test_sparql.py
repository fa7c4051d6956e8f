"""The SPARQL of a plan: what people read, and that it gives what the plan means on Oxigraph."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.errors import GraphError, PlanError
from kgqa.graph.sparql_client import SparqlClient
from kgqa.graph.sparql_store import SparqlStore
from kgqa.graph.sparql_survey import SparqlTaken, attach_endpoint
from kgqa.progress import Silent
from kgqa.queries.check import SchemaIndex, check
from kgqa.queries.execute import run_plan
from kgqa.queries.plan import Comparison, NodeRef, Plan, PropertyRef
from kgqa.queries.run import run_shown
from kgqa.queries.sparql import sparql_of
from kgqa.queries.text import parse_plan
from tests.graph.sparql_server import serving
from tests.graph.test_sparql import HOSTILE
from tests.queries.made import KINDS, graphs, plans
from tests.queries.memory import Link, MemoryGraph, Thing, schema_of
from tests.queries.rdf import RECORD, X, plain, triples
from tests.queries.test_execute import cells, same

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kgqa.queries.result import QueryResult


def called(graph: MemoryGraph) -> Callable[[Sequence[str]], list[str]]:
    return lambda texts: [
        f"t{key}" for key, one in enumerate(graph.things) if {f"t{key}", one.name} & set(texts)
    ]


def rows_of(graph: MemoryGraph, text: str, width: list[str]) -> list[Any]:
    """Return what a statement gives in Oxigraph on a graph."""
    pyoxigraph = pytest.importorskip("pyoxigraph")
    store = pyoxigraph.Store()
    store.load(triples(graph).encode(), pyoxigraph.RdfFormat.N_TRIPLES)
    found = store.query(text)
    return [tuple(python(row[name]) for name in width) for row in found]


def python(term: Any) -> Any:
    if term is None:
        return None
    kind = getattr(getattr(term, "datatype", None), "value", "").rpartition("#")[2]
    if kind in ("integer", "decimal", "double"):
        return int(term.value) if kind == "integer" else float(term.value)
    if kind == "boolean":
        return term.value == "true"
    return term.value.removeprefix(X)


def compare(graph: MemoryGraph, plan: Plan) -> bool:
    index = SchemaIndex(graph.schema())
    try:
        found = sparql_of(plan, index, RECORD, called(graph))
    except PlanError as error:
        assert "cannot be written as one statement" in str(error)  # noqa: PT017
        return False
    names = [found.columns[item][1:] for item in plan.give if not isinstance(item, float | int)]
    rows = rows_of(graph, found.text, names)
    expected = cells(run_plan(plan, graph))
    if not plan.order and plan.limit is None:
        rows, expected = sorted(rows, key=repr), sorted(expected, key=repr)
    assert same(rows, expected), f"{plan}\n{found.text}\n{rows}\n{expected}\n{triples(graph)}"
    return True


SHOP = MemoryGraph(
    things := [
        Thing(("Film",), {"name": "Alien", "n": 1979}),
        Thing(("Film",), {"name": "Aliens", "n": 1986}),
        Thing(("Person",), {"name": "Sigourney"}),
    ],
    links := [Link(2, "ACTED_IN", 0), Link(2, "ACTED_IN", 1)],
    schema_of(things, links, KINDS),
)


def test_a_plan_is_shown_as_people_write_it() -> None:
    plan = parse_plan("Film <ACTED_IN Person | Film.n > 1980 | give Person, Film.n")
    assert sparql_of(plan, SHOP.schema(), RECORD, called(SHOP)).text.splitlines() == [
        "PREFIX n1: <http://x.org/>",
        "SELECT DISTINCT ?person ?n2",
        "WHERE {",
        "  ?film a n1:Film .",
        "  ?person a n1:Person .",
        "  ?person n1:ACTED_IN ?film .",
        "  FILTER(isIRI(?film) && isIRI(?person))",
        "  ?film n1:n ?n2 .",
        "  FILTER(?n2 > 1980)",
        "}",
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_only_data(text: str) -> None:
    things = [Thing(("A",), {"name": text or "x"}), Thing(("A",), {"name": "other"})]
    graph = MemoryGraph(things, [], schema_of(things, [], KINDS))
    for operator in ("=", "contains", "starts with"):
        where = (Comparison(PropertyRef(NodeRef(0), "name"), operator, (text,)),)  # type: ignore[arg-type]
        assert compare(graph, Plan(("A",), where=where))
    index = SchemaIndex(schema_of([Thing((text,), {})], [], KINDS))
    if any(mark in text for mark in '<>"{}|^`\\') or min(text) <= " ":
        with pytest.raises(PlanError, match="is not an IRI"):
            sparql_of(Plan((text,)), index, RECORD, called(graph))


@given(st.data())
@settings(max_examples=100, suppress_health_check=list(HealthCheck), deadline=None)
def test_the_shown_text_gives_what_the_plan_means(data: st.DataObject) -> None:
    graph = plain(data.draw(graphs()), KINDS)
    compare(graph, data.draw(plans(graph)))


@pytest.mark.long
@given(st.data())
@settings(max_examples=2_000, suppress_health_check=list(HealthCheck), deadline=None)
def test_many_shown_texts_give_what_the_plans_mean(data: st.DataObject) -> None:
    graph = plain(data.draw(graphs()), KINDS)
    compare(graph, data.draw(plans(graph)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server"), writable=True) as url:
        yield url


def put(server: str, graph: MemoryGraph) -> None:
    address = server.replace("/query", "/store?default")
    headers = {"Content-Type": "application/n-triples"}
    urlopen(Request(address, triples(graph).encode(), headers, method="PUT")).close()


@contextmanager
def served(server: str, home: Path, graph: MemoryGraph) -> Iterator[SparqlStore]:
    """Give the store of an endpoint that holds a graph now."""
    put(server, graph)
    folder = home / "made"
    folder.mkdir()
    replace(RECORD, url=server).write(folder)
    with SparqlClient(server) as client:
        attach_endpoint(client, home, "made", SparqlTaken(), Silent())
    with SparqlStore(SparqlClient(server), folder) as store:
        yield store


def behind(result: QueryResult) -> list[Any]:
    """Return what each row rests on, in no order."""
    found = [result.evidence(row) for row in range(len(result) + len(result.tied))]
    return [
        (
            {(fact.head, fact.predicate, fact.tail) for fact in each.facts},
            {(one.id, one.property, one.value) for one in each.held},
            [
                (
                    one.aggregate,
                    one.size,
                    sorted((getattr(m, "id", m) for m in one.members), key=str),
                )
                for one in each.counted
            ],
            {node.id for node in each.nodes if node.id[0] == "t"},  # without fact nodes
            each.facts_in_all,
        )
        for each in found
    ]


def compare_run(server: str, home: Path, graph: MemoryGraph, plan: Plan) -> None:
    with served(server, home, graph) as store:
        index = SchemaIndex(store.schema())
        try:
            check(plan, index)
        except PlanError:
            return  # what no thing has is not in the endpoint's schema
        given = run_shown(plan, store, index)
        expected = run_plan(plan, graph)
        message = f"{plan}\n{given.sparql}"
        kinds = [SchemaIndex(graph.schema()).kind(plan, one) for one in plan.give]
        listed_ = any(kind is not None and kind.many for kind in kinds)
        for rows, others in (
            (given.rows, expected.rows),
            (given.tied, expected.tied),
            (given.runners_up, expected.runners_up),
        ):
            both = [cells(replace(given, rows=one)) for one in (rows, others)]
            if listed_:  # RDF has no order in a list
                both = [sorted(map(repr, map(sets, one))) for one in both]
                assert both[0] == both[1], message
            else:
                assert same(*both), f"{message}\n{both[0]}\n{both[1]}"
        if not listed_ and not any(hop.repeated for hop in plan.hops):
            both_ = behind(given), behind(expected)
            assert both_[0] == both_[1], f"{message}\n{both_[0]}\n{both_[1]}"


def sets(row: tuple[Any, ...]) -> list[Any]:
    """Return a row with lists in one order; a list of one is its member."""
    return [
        (sorted(cell) if len(cell) > 1 else cell[0]) if isinstance(cell, tuple) else cell
        for cell in row
    ]


@given(st.data())
@settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
def test_an_endpoint_gives_rows_and_facts_as_every_store(
    server: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    graph = plain(data.draw(graphs()), KINDS)
    compare_run(server, tmp_path_factory.mktemp("home"), graph, data.draw(plans(graph)))


@pytest.mark.parametrize(
    "text",
    [
        "Film <ACTED_IN Person | desc count Film | limit 1 | give Person, count Film",
        "Film <ACTED_IN Person",
        "Film | desc Film.n | limit 1 | then Film <ACTED_IN Person | give Person, Film",
        "Film | Film.n > 1900 | give average Film.n",
    ],
)
def test_a_plan_is_one_request_and_all_facts_behind_it_few(
    server: str, tmp_path: Path, text: str
) -> None:
    with served(server, tmp_path, SHOP) as store:
        before = store.client.requests
        result = run_shown(parse_plan(text), store, SchemaIndex(store.schema()))
        assert store.client.requests - before == 1
        assert behind(result)
        assert store.client.requests - before <= 5


def test_rows_that_are_not_what_lies_behind_them_are_an_error(server: str, tmp_path: Path) -> None:
    with served(server, tmp_path, SHOP) as store:
        plan = parse_plan("Film <ACTED_IN Person | give Person, count Film")
        result = run_shown(plan, store, SchemaIndex(store.schema()))
        other = MemoryGraph(things, links[:1], SHOP.schema())
        put(server, other)
        with pytest.raises(GraphError, match="not what the endpoint counted"):
            result.evidence(0)

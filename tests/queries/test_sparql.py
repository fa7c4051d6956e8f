"""The SPARQL of a plan: what people read, and that it gives what the plan means on Oxigraph."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.errors import PlanError
from kgqa.graph.attached import Attachment
from kgqa.graph.sparql_client import SparqlClient
from kgqa.graph.sparql_store import SparqlStore
from kgqa.graph.sparql_survey import SparqlTaken, attach_endpoint
from kgqa.progress import Silent
from kgqa.queries.check import SchemaIndex, check
from kgqa.queries.execute import run_plan
from kgqa.queries.run import run_shown
from kgqa.queries.sparql import sparql_of
from tests.graph.sparql_server import serving
from tests.queries.made import KINDS, graphs, plans
from tests.queries.rdf import RECORD, X, plain, triples
from tests.queries.test_execute import cells, same

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kgqa.queries.plan import Plan
    from kgqa.queries.result import QueryResult
    from tests.queries.memory import MemoryGraph


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


@given(st.data())
@settings(max_examples=200, suppress_health_check=list(HealthCheck), deadline=None)
def test_the_shown_text_gives_what_the_plan_means(data: st.DataObject) -> None:
    graph = plain(data.draw(graphs()), KINDS)
    compare(graph, data.draw(plans(graph)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server"), writable=True) as url:
        yield url


@contextmanager
def served(server: str, home: Path, graph: MemoryGraph) -> Iterator[SparqlStore]:
    """Give the store of an endpoint that holds a graph now."""
    address = server.replace("/query", "/store?default")
    headers = {"Content-Type": "application/n-triples"}
    put = Request(address, triples(graph).encode(), headers, method="PUT")
    urlopen(put).close()
    folder = home / "made"
    folder.mkdir()
    Attachment(server, "", "", language="en", prefix=X).write(folder)
    with SparqlClient(server) as client:
        attach_endpoint(client, home, "made", SparqlTaken(), Silent())
    with SparqlStore(SparqlClient(server), folder) as store:
        yield store


def behind(result: QueryResult) -> list[Any]:
    """Return what each row rests on, in no order."""
    found = [result.evidence(row) for row in range(len(result) + len(result.tied))]
    return [
        (
            {(one.head, one.predicate, one.tail) for one in each.facts},
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

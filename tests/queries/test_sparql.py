"""The SPARQL of a plan: what people read, and that it gives what the plan means on Oxigraph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.errors import PlanError
from kgqa.queries.check import SchemaIndex
from kgqa.queries.execute import run_plan
from kgqa.queries.sparql import sparql_of
from tests.queries.made import KINDS, graphs, plans
from tests.queries.rdf import RECORD, X, plain, triples
from tests.queries.test_execute import cells, same

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kgqa.queries.plan import Plan
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

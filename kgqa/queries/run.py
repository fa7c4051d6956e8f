"""Runs a plan on any kind of store, and returns it in that store's query language as well."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from kgqa.errors import PlanError
from kgqa.graph.open import is_endpoint
from kgqa.queries.check import SchemaIndex
from kgqa.queries.cypher import cypher_of
from kgqa.queries.execute import run_plan
from kgqa.queries.implicit_classes import queryable
from kgqa.queries.result import QueryLimits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kgqa.queries.join import QueryStore
    from kgqa.queries.plan import Plan
    from kgqa.queries.result import QueryResult


def rows_of(plan: Plan, store: QueryStore, limits: QueryLimits | None = None) -> QueryResult:
    """Run ``plan`` on ``store``, on inferred classes if it has none; return the result.

    It has the Cypher or SPARQL if that is one statement. Raises PlanError, TimeLimitError,
    GraphError.
    """
    graph = queryable(store)
    return run_shown(plan, graph, SchemaIndex(graph.schema()), limits, SchemaIndex(store.schema()))


def foresee(
    plans: Iterable[Plan], store: QueryStore, index: SchemaIndex, limits: QueryLimits
) -> None:
    """Have an endpoint store prefetch the rows of several plans; do nothing for other stores."""
    if is_endpoint(store):
        from kgqa.queries import endpoint

        endpoint.foresee(plans, store, index, limits)


def run_shown(
    plan: Plan,
    store: QueryStore,
    index: SchemaIndex,
    limits: QueryLimits | None = None,
    stored: SchemaIndex | None = None,
) -> QueryResult:
    """Run ``plan`` and return the result with its Cypher or SPARQL, if it is one statement.

    ``stored``: the schema that the store itself knows, where ``index`` has more classes. Raises
    PlanError if the plan does not fit the schema, or exceeds the limits; TimeLimitError,
    GraphError.
    """
    limits = limits or QueryLimits()
    if is_endpoint(store):
        from kgqa.queries.endpoint import run_on_endpoint

        until = time.monotonic() + limits.seconds
        return run_on_endpoint(plan, store, index, limits, until)
    result = run_plan(plan, store, index, limits)
    with suppress(PlanError):  # rows are exact on every store
        result = replace(result, cypher=cypher_of(plan, stored or index))
    return result

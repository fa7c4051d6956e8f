"""Runs a plan on a SPARQL endpoint: one statement for its rows, one for the facts behind them.

The endpoint groups, counts, orders and limits (:mod:`kgqa.queries.sparql`); what is equal in an
order is put in the order of every store here. The facts behind the rows that are shown are the
solutions of the plan's pattern for these rows, read at once when they are asked for first; what was
counted has to be what they come to. A plan that is not one statement is grouped here, of solutions
that are one.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.errors import GraphError, PlanError
from kgqa.graph.model import keys_array
from kgqa.queries.check import NUMBERS, SchemaIndex, check
from kgqa.queries.execute import Execution, properties_of
from kgqa.queries.join import HopFacts, Solutions, Solver, unique_rows
from kgqa.queries.plan import Aggregate, HopRef, NodeRef, Plan
from kgqa.queries.result import RUNNERS_UP, Evidence, QueryLimits, QueryResult
from kgqa.queries.sparql import NotOneStatementError, solutions_of, sparql_of
from kgqa.queries.values import sort_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kgqa.graph.model import IntArray
    from kgqa.graph.schema import Value
    from kgqa.graph.sparql_store import SparqlStore
    from kgqa.queries.plan import Item
    from kgqa.queries.sparql import Sparql

_SURE = 100  # rows that every server returns in one reply
_MOST = 1_000_000  # most rows that may tie
_MORE = 20  # factor of rows to fetch again if the last ones tie
_MARKS = ("INF", "-INF", "\U0010ffff")  # placeholders for a missing sort key


def statement_of(plan: Plan, store: SparqlStore) -> str:
    """Translate a plan to SPARQL for the endpoint's own web page. Raises PlanError."""
    return sparql_of(plan, store.schema(), store.record, store.called).text


def run_on_endpoint(
    plan: Plan, store: SparqlStore, index: SchemaIndex, limits: QueryLimits, until: float
) -> QueryResult:
    """Run ``plan`` on an endpoint and return its result, with the SPARQL if one statement gave it.

    ``until``: the time, as of ``time.monotonic``, at which it is given up. Raises PlanError,
    TimeLimitError, GraphError.
    """
    check(plan, index)
    found = _execution(plan, store, index, limits, until)
    text = statement_of(plan, store) if isinstance(found, _SingleStatement) else ""
    return replace(found.result(), sparql=text)


def foresee(
    plans: Iterable[Plan], store: SparqlStore, index: SchemaIndex, limits: QueryLimits
) -> None:
    """Prefetch the rows of several plans at once.

    Plans with a limit, or of several statements, are skipped.
    """
    asked: list[Sparql] = []
    for plan in plans:
        if plan.limit is None:
            with suppress(PlanError):
                asked.append(_every(plan, store, index, limits))
    store.foresee_rows((one.text, _columns(one)) for one in asked)


def _every(plan: Plan, store: SparqlStore, index: SchemaIndex, limits: QueryLimits) -> Sparql:
    """Return the SPARQL of a plan without a limit, unordered.

    It gives at most one row beyond ``limits``.
    """
    limit = limits.rows + plan.skip + 1
    return sparql_of(plan, index, store.record, store.called, limit=limit, bare=True, whole=True)


def _columns(asked: Sparql) -> list[str]:
    """Return the distinct variables of a statement's columns."""
    return list(dict.fromkeys(asked.columns.values()))


def _execution(
    plan: Plan, store: SparqlStore, index: SchemaIndex, limits: QueryLimits, until: float
) -> Execution:
    """Run a plan, as one statement if possible, otherwise from solutions; return the execution.

    ``until``: as for :func:`run_on_endpoint`.
    """
    try:
        return _SingleStatement(plan, store, index, limits, until)
    except NotOneStatementError:
        return _Solved(plan, store, index, limits, until)


class _EndpointSolver(Solver):
    """Solves a plan's pattern with one SPARQL query. ``only``: permitted ids of some nodes."""

    only: dict[int, list[str]]
    store: SparqlStore

    def solve(self, part: Collection[NodeRef | HopRef] | None = None) -> Solutions:
        """Return the solutions of the pattern, or only of the nodes and hops in ``part``.

        Runs one query; more where one statement cannot express it.
        """
        refs = [ref for ref in self.plan.refs if part is None or ref in part]
        only = dict(self.only)
        if self.start is not None:
            only[0] = self.store.entities(self.start).ids
        store = self.store
        try:
            query, nodes = solutions_of(
                self.plan, self.index, store.record, store.called, refs, only
            )
        except NotOneStatementError:
            return super().solve(part)
        rows = store.rows_of(query, list(nodes.values()))
        self._in_limits(len(rows))
        columns: dict[NodeRef | HopRef, IntArray] = {
            ref: keys_array(store.keys_of_terms(row[name[1:]] for row in rows))
            for ref, name in nodes.items()
        }
        for ref in refs:
            if isinstance(ref, HopRef):
                columns[ref] = self._facts_of(ref.hop, columns)
        return Solutions(len(rows), columns)

    def _facts_of(self, number: int, columns: dict[NodeRef | HopRef, IntArray]) -> IntArray:
        """Store the facts of a hop; return each solution's index among them.

        Raises GraphError if the endpoint's data changed meanwhile.
        """
        hop = self._hops[number]
        source, target = columns[NodeRef(hop.source)], columns[NodeRef(hop.target)]
        if not hop.repeated:
            ends = (target, source) if hop.inverse else (source, target)
            pairs, places = unique_rows(ends)
            none = np.full(len(pairs), -1, dtype=np.int64)
            self.facts[number] = HopFacts(pairs[:, 0], pairs[:, 1], none)
            return places
        keys, rows = np.unique(source, return_inverse=True)
        row, other, facts = self._closure(keys, hop, inverse=hop.inverse)
        self.facts[number] = facts
        place = {pair: at for at, pair in enumerate(zip(row.tolist(), other.tolist(), strict=True))}
        found = [place.get(pair, -1) for pair in zip(rows.tolist(), target.tolist(), strict=True)]
        if -1 in found:
            raise changed()
        return keys_array(found)


class _Solved(Execution):
    """Execution of a plan by one query for its solutions; rows are computed from them here.

    ``only``: permitted ids of some nodes.
    """

    store: SparqlStore

    def __init__(
        self,
        plan: Plan,
        store: SparqlStore,
        index: SchemaIndex,
        limits: QueryLimits,
        until: float,
        only: dict[int, list[str]] | None = None,
    ) -> None:
        self.only = only or {}
        self.final: list[int] = []
        self._has_read = False
        super().__init__(plan, store, index, limits, until)

    def execution_of(self, plan: Plan) -> Execution:
        """Return the execution, from solutions, of the plan that this one continues."""
        return _execution(plan, self.store, self.index, self.limits, self.until)

    def solver_of(self, plan: Plan, start: IntArray | None) -> Solver:
        """Return the endpoint solver of a plan's pattern; ``start``: permitted keys of node 0."""
        solver = _EndpointSolver(
            plan, self.store, self.index, self.limits, start=start, until=self.until
        )
        solver.only = self.only
        return solver

    def evidence(self, row: int, limit: int | None) -> Evidence:
        """Return the evidence of row ``row`` of the result. Raises GraphError."""
        if not self._has_read:  # values that the endpoint compared are not read yet
            for ref in properties_of(self.plan):
                self.solver.read_property(ref.name, self._keys_of(ref.owner))
            self._has_read = True
        return super().evidence(row, limit)

    def _keys_of(self, ref: NodeRef | HopRef) -> IntArray:
        """Return the distinct keys that a node or hop has in the solutions and rows."""
        keys = [self.solutions.columns.get(ref, keys_array([]))]
        if ref in self.by:
            column = self.by.index(ref)
            keys.append(keys_array([key[column] for key in self.keys]))
        return np.unique(np.concatenate(keys))


class _SingleStatement(Execution):
    """Execution of a plan as one SPARQL statement that returns its rows."""

    store: SparqlStore

    def start(self) -> IntArray | None:
        """Return None: the plan that this one continues is part of the same statement."""
        return None

    def _solve(self) -> None:
        """Fetch the rows and decode their cells.

        Raises NotOneStatementError if rows are equal once decoded.
        """
        plan = self.plan
        self.by: tuple[Item, ...] = plan.group if self.grouped else plan.give
        asked, rows = self._every() if plan.limit is None else self._first()
        self._asked = asked
        self.fetched = {
            item: self._cells(item, [row.get(name[1:]) for row in rows])
            for item, name in asked.columns.items()
        }
        self.keys = [
            tuple(
                item if isinstance(item, float | int) else self.fetched[item][row]
                for item in self.by
            )
            for row in range(len(rows))
        ]
        if len(set(map(_comparable, self.keys))) < len(rows):
            raise NotOneStatementError  # values with several spellings
        aggregates = [item for item in asked.columns if isinstance(item, Aggregate)]
        self.aggregates = {item: self.fetched[item] for item in aggregates}
        self.kept = list(range(len(rows)))

    def _every(self) -> tuple[Sparql, list[dict[str, Any]]]:
        """Fetch all rows of a plan without a limit, unordered."""
        asked = _every(self.plan, self.store, self.index, self.limits)
        rows = self.store.rows_of(asked.text, _columns(asked))
        self.solver.check_time()
        return asked, rows

    def _first(self) -> tuple[Sparql, list[dict[str, Any]]]:
        """Fetch the first rows within limit, those tied with the last one, and the runners-up.

        Raises PlanError for too many ties.
        """
        last = self.plan.skip + (self.plan.limit or 0)
        wanted = last + RUNNERS_UP + 1 if self.plan.order else last
        while True:
            wanted = min(wanted, _MOST)
            asked = sparql_of(
                self.plan, self.index, self.store.record, self.store.called,
                limit=wanted, whole=wanted > _SURE,
            )  # fmt: skip
            if wanted <= _SURE:
                rows = self.store.client.select(asked.text)
            else:
                names = [*asked.columns.values(), *filter(None, asked.sorts)]
                rows = self.store.rows_of(asked.text, list(dict.fromkeys(names)))
            self.solver.check_time()
            if not self.plan.order or len(rows) < wanted or not self._equal(asked, rows, last - 1):
                return asked, rows
            if wanted >= _MOST:
                raise PlanError(f"More than {_MOST:,} rows tie in this order.")
            wanted *= _MORE

    @staticmethod
    def _equal(asked: Sparql, rows: list[dict[str, Any]], place: int) -> bool:
        """Return whether the last of ``rows`` ties with the one at ``place``, by the sort keys."""
        ends = rows[place], rows[-1]
        return all(ends[0].get(name[1:]) == ends[1].get(name[1:]) for name in asked.sorts)

    def _cells(self, item: Any, terms: list[dict[str, Any] | None]) -> list[Any]:
        """Convert SPARQL terms of an item to cells: node keys, or values; None for no value."""
        if isinstance(item, tuple):  # a sort key
            found = self._cells(item[0], terms)
            return [None if cell in _MARKS or _is_endless(cell) else cell for cell in found]
        if isinstance(item, NodeRef):
            there = [term for term in terms if term is not None]
            if len(there) < len(terms):
                raise GraphError(f"The endpoint {self.store.url} gave a row without a thing.")
            return self.store.keys_of_terms(there)
        kind = self.index.kind(self.plan, item)
        type_ = kind.type if kind is not None else "text"
        cells = [None if term is None else _cell(term["value"], type_) for term in terms]
        if type_ == "date" and any(str(cell)[:1] == "-" for cell in cells):
            raise NotOneStatementError  # years before the first are not in the order of texts
        return cells

    # -- what a row is -----------------------------------------------------------------------

    def _cell(self, item: Item, row: int) -> Any:
        """Return the cell of an item in a row."""
        return item if isinstance(item, float | int) else self.fetched[item][row]

    def _read_ahead(self) -> None:
        """Do nothing: properties were fetched with the rows."""

    def _sort_values(self, item: Item, rows: list[int], descending: bool) -> dict[int, Any]:
        """Return by row its sort key of an item; rows without a value are left out."""
        best = (item, descending)
        cells = self.fetched[best if best in self.fetched else item]
        if isinstance(item, NodeRef):
            names = self._described(set(cells))
            cells = [names[key].name for key in cells]
        return {row: (0, sort_key(cells[row])) for row in rows if cells[row] is not None}

    # -- evidence ----------------------------------------------------------------------------

    def evidence(self, row: int, limit: int | None) -> Evidence:
        """Return the evidence of row ``row`` of the result. Raises GraphError."""
        return self._behind.evidence(row, limit)

    @cached_property
    def _behind(self) -> _Solved:
        """The solutions behind all shown rows, from another query.

        Raises GraphError if that gives other rows.
        """
        only: dict[int, list[str]] = {}
        for column, item in enumerate(self.by):
            if isinstance(item, NodeRef):
                keys = sorted({self.keys[row][column] for row in self.final})
                only[item.node] = self.store.entities(keys_array(keys)).ids
        plan = replace(self.plan, limit=None, skip=0)
        found = _Solved(plan, self.store, self.index, self.limits, math.inf, only)
        places = {_comparable(key): place for place, key in enumerate(found.keys)}
        for row in self.final:
            place = places.get(_comparable(self.keys[row]))
            if place is None:
                raise changed()
            found.final.append(place)
            for item, cells in self.aggregates.items():
                if _comparable([cells[row]]) != _comparable([found.aggregates[item][place]]):
                    raise changed()
        return found


def changed() -> GraphError:
    """Return the error for rows that do not match the facts behind them.

    The endpoint's data must have changed between two queries.
    """
    return GraphError(
        "The facts behind the rows are not what the endpoint counted.",
        "It was changed meanwhile: ask again.",
    )


def _cell(text: str, type_: str) -> Value:
    """Convert a literal's text to a value of its property's type."""
    if type_ == "boolean":
        return text in ("true", "1")
    if type_ not in NUMBERS:
        return text
    try:
        return int(text)
    except ValueError:
        return float(text)


def _is_endless(cell: object) -> bool:
    """Return whether a cell is an infinite number, which marks a missing sort key."""
    return isinstance(cell, float) and math.isinf(cell)


def _comparable(cells: Sequence[Any]) -> tuple[Any, ...]:
    """Return cells for comparison, numbers rounded to what a server's decimals preserve."""
    return tuple(
        (type(cell) is bool, float(f"{cell:.9g}") if isinstance(cell, float) else cell)
        for cell in cells
    )

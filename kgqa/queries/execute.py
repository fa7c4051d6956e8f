"""Runs a plan on a store that returns arrays: the reference semantics of plans.

- The pattern's solutions are found first (:mod:`kgqa.queries.join`), then comparisons, then what
  they are to be ``without``.
- Rows are sets: a row is a combination of what is given, a class by its things, a property by its
  values; rows in which every property given is missing are left out. A list is given whole.
- ``count`` counts different things, facts or values. A sum or an average takes each thing or fact
  that has the property once in a group; of nothing a sum is 0, an average nothing.
- A group in which nothing is counted takes part if it is asked for: in an ascending order by a
  count, or where every comparison of groups holds for it (``count Order < 5``). What is grouped by
  a list is grouped by its members.
- Of several values an ascending order takes the least, a descending one the greatest; none comes
  last. Then rows are in the order of their cells, so that a limit always takes the same ones.
- ``limit`` gives so many rows; others that are equal in the order to the last one are ``tied``.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kgqa.errors import GraphError, PlanError
from kgqa.graph.model import distinct, keys_array
from kgqa.paths.ground import Fact, Node
from kgqa.queries.check import SchemaIndex, check
from kgqa.queries.groups import required, wants_empty
from kgqa.queries.join import (
    HopFacts,
    QueryStore,
    Solutions,
    Solver,
    rows_of_pairs,
    unique_rows,
)
from kgqa.queries.plan import (
    Aggregate,
    HopRef,
    NodeRef,
    Plan,
    PropertyRef,
    leaves,
    owners,
    refs_of,
)
from kgqa.queries.result import (
    RUNNERS_UP,
    Counted,
    Evidence,
    Held,
    QueryLimits,
    QueryResult,
)
from kgqa.queries.values import calculated, order_key, satisfies, sort_key

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kgqa.graph.model import IntArray
    from kgqa.graph.schema import Value
    from kgqa.queries.plan import Item
    from kgqa.queries.result import Cell

_NO_KEY = (1, (-1, ""))  # the sort key of a row without a value


def run_plan(
    plan: Plan,
    store: QueryStore,
    index: SchemaIndex | None = None,
    limits: QueryLimits | None = None,
) -> QueryResult:
    """Run ``plan`` on ``store`` and return its result.

    Raises PlanError if it does not fit the schema, or exceeds the limits; TimeLimitError.
    """
    index = index or SchemaIndex(store.schema())
    limits = limits or QueryLimits()
    check(plan, index)
    until = time.monotonic() + limits.seconds
    return Execution(plan, store, index, limits, until).result()


class _Columns:
    """Encodes items as integer codes over solutions, for grouping; ``members``: groups of lists."""

    def __init__(self, plan: Plan, index: SchemaIndex, solver: Solver) -> None:
        self.plan, self.index, self.solver = plan, index, solver
        self.members: dict[PropertyRef, IntArray] = {}
        self.texts: dict[PropertyRef, list[Value | None]] = {}

    def rows(
        self, items: Sequence[Item], solutions: Solutions
    ) -> tuple[list[tuple[Any, ...]], IntArray]:
        """Return the distinct combinations of values of ``items``, and each solution's index."""
        if not items:
            return [()], np.zeros(solutions.count, dtype=np.int64)
        columns = [self.codes(item, solutions) for item in items]
        codes, back = unique_rows([column for column, _ in columns])
        decoded = [
            [cells[code] for code in column.tolist()]
            for column, (_, cells) in zip(codes.T, columns, strict=True)
        ]
        return list(zip(*decoded, strict=True)), back

    def by_members(self, solutions: Solutions) -> Solutions:
        """Return the solutions repeated for each member of the lists that they are grouped by.

        A solution with an empty list is kept once, with None.
        """
        for item in self.plan.group:
            if isinstance(item, PropertyRef) and self.index.property_of(self.plan, item).many:
                lists, back = self._per_solution(item, solutions)
                codes: dict[Value | None, int] = {}
                coded = [
                    [codes.setdefault(value, len(codes)) for value in dict.fromkeys(list_)]
                    if list_
                    else [codes.setdefault(None, len(codes))]
                    for list_ in lists
                ]
                counts = np.array([len(one) for one in coded], dtype=np.int64)[back]
                column = [code for place in back.tolist() for code in coded[place]]
                places = np.repeat(np.arange(solutions.count), counts)
                self.members = {ref: old[places] for ref, old in self.members.items()}
                solutions = solutions.take(places)
                self.members[item] = keys_array(column)
                self.texts[item] = list(codes)
        return solutions

    def _per_solution(
        self, item: object, solutions: Solutions
    ) -> tuple[list[list[Value]], IntArray]:
        """Return an item's values for its distinct owners, and each solution's index in them."""
        refs = refs_of(item)
        if not refs:
            rows, back = np.zeros((1, 0), dtype=np.int64), np.zeros(solutions.count, dtype=np.int64)
        else:
            rows, back = unique_rows([solutions.columns[ref] for ref in refs])
        return self.solver.values(item, refs, rows), back

    def codes(self, item: Item, solutions: Solutions) -> tuple[IntArray, list[Any]]:
        """Return an integer code of ``item`` for each solution, and the value of each code."""
        if isinstance(item, NodeRef | HopRef):
            keys, back = distinct(solutions.columns[item])
            return back, keys.tolist()
        if isinstance(item, PropertyRef) and item in self.members:
            return self.members[item], self.texts[item]
        lists, back = self._per_solution(item, solutions)
        kind = self.index.kind(self.plan, item)
        whole = kind is not None and kind.many
        codes: dict[tuple[Any, ...], int] = {}
        coded = []
        for list_ in lists:
            cell = (tuple(list_) if whole else list_[0]) if list_ else None
            coded.append(codes.setdefault((type(cell) is bool, cell), len(codes)))
        return keys_array(coded)[back] if coded else keys_array([]), [cell for _, cell in codes]


class Execution:
    """The run of one plan on one store, whose rows it computes.

    Raises PlanError, TimeLimitError, GraphError.
    """

    def __init__(
        self,
        plan: Plan,
        store: QueryStore,
        index: SchemaIndex,
        limits: QueryLimits,
        until: float,
    ) -> None:
        self.plan, self.store, self.index = plan, store, index
        self.limits, self.until = limits, until
        self.solver = self.solver_of(plan, self.start())
        self.grouped = plan.grouped
        self._names: dict[int, Node] = {}
        self.first: int | None = None  # the number of rows returned if there are too many
        self._solve()

    def start(self) -> IntArray | None:
        """Run the plan that this one continues, and return its nodes' keys.

        None if it continues none.
        """
        first = self.plan.first
        if first is None:
            return None
        before = self.execution_of(first)
        chosen = before.ordered()[0][first.skip :][: first.limit]
        return np.unique(keys_array([before.cells(row)[0] for row in chosen]))

    def execution_of(self, plan: Plan) -> Execution:
        """Return the execution of the plan that this one continues."""
        return Execution(plan, self.store, self.index, self.limits, self.until)

    def solver_of(self, plan: Plan, start: IntArray | None) -> Solver:
        """Return the solver of a plan's pattern; ``start``: permitted keys of node 0."""
        return Solver(plan, self.store, self.index, self.limits, start=start, until=self.until)

    # -- rows --------------------------------------------------------------------------------

    def _solve(self) -> None:
        """Solve the pattern, group the solutions to rows, and compute the aggregates."""
        plan, solver = self.plan, self.solver
        solutions = solver.solve()
        self.by: tuple[Item, ...] = plan.group if self.grouped else plan.give
        columns = _Columns(plan, self.index, solver)
        self.solutions = columns.by_members(solutions) if self.grouped else solutions
        self.keys, self.row_of = columns.rows(self.by, self.solutions)
        if self.grouped:
            self._add_empty()
        self.aggregates: dict[Aggregate, list[Value | None]] = {}
        for item in plan.items():
            if isinstance(item, Aggregate) and item not in self.aggregates:
                self.aggregates[item] = self._aggregate(item)
        every = range(len(self.keys))
        sure = not plan.having and any(isinstance(item, NodeRef | HopRef) for item in self.by)
        self.kept = list(every) if sure else [row for row in every if self._is_row(row)]

    def _is_row(self, row: int) -> bool:
        """Return whether a row has some value and satisfies the conditions on groups."""
        plan = self.plan
        cells = [
            cell
            for item, cell in zip(self.by, self.keys[row], strict=True)
            if not isinstance(item, float | int)
        ]
        if cells and all(cell is None for cell in cells):
            return False
        for comparison in plan.having:
            value = self.aggregates[comparison.left][row]  # type: ignore[index]
            kind = self.index.kind(plan, comparison.left)
            type_ = kind.type if kind is not None else ""
            right = comparison.right if isinstance(comparison.right, tuple) else ()
            if not satisfies([] if value is None else [value], comparison, right, type_):
                return False
        return True

    # -- aggregates --------------------------------------------------------------------------

    def _aggregate(self, item: Aggregate) -> list[Value | None]:
        """Return an aggregate's value for each group, None where it has none."""
        if item.kind == "count" and isinstance(item.of, NodeRef | HopRef):
            rows = rows_of_pairs(self.row_of, self.solutions.columns[item.of])
            counts: list[Value | None] = np.bincount(rows, minlength=len(self.keys)).tolist()
            return counts
        sets: list[list[Value]] = [[] for _ in self.keys]
        for group, values in self._by_row(item.of):
            sets[group] += values
        kind = self.index.kind(self.plan, item)
        type_ = kind.type if kind is not None else ""
        return [calculated(item.kind, values, type_) for values in sets]

    def _by_row(self, item: Item) -> list[tuple[int, list[Value]]]:
        """Return (row, values) of an item, where each owner counts once in a row."""
        refs = refs_of(item)
        pairs, _ = unique_rows([self.row_of, *(self.solutions.columns[ref] for ref in refs)])
        if isinstance(item, NodeRef | HopRef):
            return [(row, [key]) for row, key in pairs.tolist()]
        values = self.solver.values(item, refs, pairs[:, 1:])
        return list(zip(pairs[:, 0].tolist(), values, strict=True))

    def _add_empty(self) -> None:
        """Add groups with a count of zero, if the plan includes them."""
        plan = self.plan
        needed = required(plan)
        if needed is None or not wants_empty(plan):
            return
        part = replace(
            plan,
            where=tuple(
                comparison
                for comparison in plan.where
                if needed.issuperset(owners(comparison))
                and not isinstance(comparison.left, Aggregate)
            ),
            group=(),
            order=(),
            limit=None,
            skip=0,
            give=(NodeRef(0),),
            first=None,
        )
        solver = self.solver_of(part, self.solver.start)
        columns = _Columns(plan, self.index, solver)
        solutions = columns.by_members(solver.solve(needed))
        there = set(self.keys)
        self.keys += [key for key in columns.rows(plan.group, solutions)[0] if key not in there]

    # -- order -------------------------------------------------------------------------------

    def cells(self, row: int) -> tuple[Any, ...]:
        """Return the cells of a row: node keys, indices of facts, and values."""
        if not self.grouped:
            return self.keys[row]
        return tuple(self._cell(item, row) for item in self.plan.give)

    def _cell(self, item: Item, row: int) -> Any:
        """Return the cell of an item in a row."""
        if isinstance(item, Aggregate):
            return self.aggregates[item][row]
        if item in self.by:
            return self.keys[row][self.by.index(item)]
        refs = refs_of(item)
        keys = [self.keys[row][self.by.index(ref)] for ref in refs]
        values = self.solver.values(item, refs, keys_array(keys)[None, :])[0]
        kind = self.index.kind(self.plan, item)
        if not values:
            return None
        return tuple(values) if kind is not None and kind.many else values[0]

    def ordered(self) -> tuple[list[int], list[tuple[Any, ...]]]:
        """Return the first rows, as row numbers, in order, and their sort keys.

        They are the rows within the limit, those tied with the last one, and the runners-up. Names
        are read and compared only for ties.
        """
        plan = self.plan
        self._read_ahead()
        rows = list(self.kept)
        if not plan.order and self.first is not None:  # only by key: there are very many
            rows = rows[: plan.skip + self.first]
        if not plan.order:
            wanted = len(rows) if plan.limit is None else plan.skip + plan.limit
            rows = self._by_names(rows, wanted)
            return rows, [()] * len(rows)
        last = len(rows) if plan.limit is None else plan.skip + plan.limit
        last = last if self.first is None else plan.skip + self.first
        rows = self._foremost(rows, last)
        keys = [self._sort_values(sort.by, rows, sort.descending) for sort in plan.order]
        sorts = {row: tuple(key.get(row, _NO_KEY) for key in keys) for row in rows}
        for place in reversed(range(len(plan.order))):
            descending = plan.order[place].descending
            rows.sort(key=lambda row: sorts[row][place][1:], reverse=descending)
            rows.sort(key=lambda row: sorts[row][place][0])
        done: list[int] = []
        start = 0
        while start < len(rows) and len(done) < last + RUNNERS_UP:
            end = start + 1
            while end < len(rows) and sorts[rows[end]] == sorts[rows[start]]:
                end += 1
            tie = start < last and self.first is None  # ties with the last row are returned
            done += self._by_names(
                rows[start:end], end - start if tie else last + RUNNERS_UP - start
            )
            last = max(last, end) if tie and plan.limit is not None else last
            start = end
        return done, [sorts[row] for row in done]

    def _foremost(self, rows: list[int], last: int) -> list[int]:
        """Drop rows that, ordered by a count, come after the first ``last`` and the runners-up.

        All rows are kept if the plan is not ordered by a count.
        """
        sort = self.plan.order[0]
        if not isinstance(sort.by, Aggregate) or sort.by.kind != "count":
            return rows
        if not 0 < last < len(rows):
            return rows
        counts = np.array(self.aggregates[sort.by])[rows]
        if counts.dtype.kind != "i":  # a count from a server may not be an integer
            return rows
        counts = counts if sort.descending else -counts
        equal = int((counts >= _nth(counts, last)).sum())  # ties with the last row are returned
        return [rows[at] for at in np.flatnonzero(counts >= _nth(counts, equal + RUNNERS_UP))]

    def _by_names(self, rows: list[int], most: int) -> list[int]:
        """Return the first ``most`` of ``rows`` (numbers), ordered by their displayed names."""
        if not rows or most <= 0:
            return []
        if all(isinstance(item, NodeRef) for item in self.plan.give):
            cells = list(map(self.cells, rows))
            entities = self.store.entities(
                np.unique(keys_array([one for row in cells for one in row]))
            )
            names = dict(
                zip(
                    entities.keys.tolist(),
                    zip(map(entities.label, range(len(entities.keys))), entities.ids, strict=True),
                    strict=True,
                )
            )
            keyed = [(tuple(names[one] for one in row), at) for at, row in enumerate(cells)]
            return [rows[at] for _, at in heapq.nsmallest(most, keyed)]
        self._names |= self._names_of_nodes(rows)
        return heapq.nsmallest(
            most, rows, key=lambda row: [self._cell_key(cell) for cell in self._shown(row)]
        )

    def _read_ahead(self) -> None:
        """Read the properties that the rows need in batches, not row by row."""
        if not self.grouped:
            return
        for item in self.plan.items():
            refs = refs_of(item)
            if not isinstance(item, Aggregate | NodeRef | HopRef) and set(refs) <= set(self.by):
                places = [self.by.index(ref) for ref in refs]
                rows = [[self.keys[row][place] for place in places] for row in self.kept]
                if rows and refs:
                    self.solver.values(item, refs, np.array(rows, dtype=np.int64))

    def _sort_values(self, item: Item, rows: list[int], descending: bool) -> dict[int, Any]:
        """Return by row the sort key of an item; of several values the greatest or the least.

        ``descending``: the greatest. Rows without a value are left out.
        """
        best = max if descending else min
        keys: dict[int, Any] = {}
        listed: list[tuple[int, Sequence[Any]]]
        if isinstance(item, Aggregate) or (self.grouped and self.by):
            cells = [(row, self._cell(item, row)) for row in rows]
            listed = [(row, one if isinstance(one, tuple) else [one]) for row, one in cells]
        else:
            listed = self._by_row(item)  # type: ignore[assignment]
        if isinstance(item, NodeRef):
            names = self._described({key for _, several in listed for key in several})
            listed = [(row, [names[key].name for key in several]) for row, several in listed]
        kind = self.index.kind(self.plan, item)
        type_ = kind.type if kind is not None else ""
        for row, several in listed:
            for one in several:
                ordered_by = None if one is None else order_key(one, type_)
                if ordered_by is not None:
                    key = (0, ordered_by)
                    keys[row] = best(keys.get(row, key), key)
        return keys

    def _names_of_nodes(self, rows: Sequence[int]) -> dict[int, Node]:
        """Return the displayed nodes of the given rows, by key."""
        nodes = {
            cell
            for row in rows
            for item, cell in zip(self.plan.give, self.cells(row), strict=True)
            if isinstance(item, NodeRef)
        }
        return self._described(nodes)

    def _described(self, nodes: set[int]) -> dict[int, Node]:
        """Return the id and name of each node, by key."""
        entities = self.store.entities(keys_array(sorted(nodes)))
        return {
            key: Node(entities.ids[place], entities.label(place))
            for place, key in enumerate(entities.keys.tolist())
        }

    def _shown(self, row: int) -> tuple[Cell, ...]:
        """Return the cells of a row for display: nodes with names, facts as text."""
        return tuple(
            self._names[cell]
            if isinstance(item, NodeRef)
            else self._fact_text(item, cell)
            if isinstance(item, HopRef)
            else cell
            for item, cell in zip(self.plan.give, self.cells(row), strict=True)
        )

    def _fact_text(self, item: HopRef, place: int) -> str:
        """Return the fact number ``place`` of a hop as text: head, relation, tail."""
        facts = self.solver.facts[item.hop]
        ends = [int(facts.head[place]), int(facts.tail[place])]
        names = self._described(set(ends))
        relation = self.plan.all_hops[item.hop].relation
        return f"{names[ends[0]].name} -> {relation} -> {names[ends[1]].name}"

    @staticmethod
    def _cell_key(cell: Cell) -> tuple[int, Any]:
        """Return the sort key of a displayed cell."""
        if cell is None:
            return 2, ()
        if isinstance(cell, Node):
            return 0, ((0, cell.name), (0, cell.id))
        return 0, tuple(sort_key(one) for one in (cell if isinstance(cell, tuple) else (cell,)))

    def result(self) -> QueryResult:
        """Return the result: rows, rows tied with the last one, and runners-up.

        Raises PlanError for more rows than allowed, unless the limits say how many to return then.
        """
        plan = self.plan
        limit = max(0, len(self.kept) - plan.skip)
        if plan.limit is not None:
            limit = min(plan.limit, limit)
        in_all = limit
        if limit > self.limits.rows and self.limits.first is not None:
            limit = self.first = self.limits.first
        if limit > self.limits.rows:
            raise PlanError(
                f"The plan gives {limit:,} rows, and at most {self.limits.rows:,} are given.",
                f"Add `| limit {self.limits.rows}`.",
            )
        rows, sorts = self.ordered()
        rows, sorts = rows[plan.skip :], sorts[plan.skip :]
        end = limit
        if plan.order and limit == in_all > 0:
            while end < len(rows) and sorts[end] == sorts[limit - 1]:
                end += 1
        rows = rows[: end + RUNNERS_UP]
        self._names |= self._names_of_nodes(rows)
        shown = [self._shown(row) for row in rows]
        self.final = rows[:end]
        return QueryResult(
            plan=plan,
            columns=tuple(map(plan.text_of, plan.give)),
            rows=tuple(shown[:limit]),
            tied=tuple(shown[limit:end]),
            runners_up=tuple(shown[end:]) if plan.order else (),
            source=self,
            names=self._names_of_ids(),
            rows_in_all=in_all if in_all > limit else 0,
        )

    def _names_of_ids(self) -> dict[str, str]:
        """Return by id the names of the entities whose ids the plan contains.

        Unknown ids are left out.
        """
        ids = list(
            dict.fromkeys(
                value
                for plan in (self.plan, self.plan.first)
                if plan is not None
                for one in (
                    *plan.where,
                    *(comparison for part in plan.without for comparison in part.where),
                )
                if isinstance(one.left, NodeRef) and isinstance(one.right, tuple)
                for value in one.right
                if isinstance(value, str)
            )
        )
        keys = self.store.keys_of(ids)
        known = self._described({key for key in keys.tolist() if key >= 0})
        return {
            id_: known[key].name for id_, key in zip(ids, keys.tolist(), strict=True) if key >= 0
        }

    # -- evidence ----------------------------------------------------------------------------

    def evidence(self, row: int, limit: int | None) -> Evidence:
        """Return the evidence of row ``row`` of the result. Raises GraphError if a fact has gone.

        ``limit``: most facts, properties and members of each; None: all.
        """
        number = self.final[row]
        mine = self.solutions.take(np.flatnonzero(self.row_of == number))
        triples: dict[tuple[int, int, int, int], None] = {}
        for ref, places in mine.columns.items():
            if isinstance(ref, NodeRef):
                continue
            relation = self.solver.relations[self.plan.all_hops[ref.hop].relation]
            for head, tail, fact in _stored(self.solver.facts[ref.hop], np.unique(places)):
                triples[head, relation, tail, fact] = None
        chosen = list(triples)[:limit]
        self._verify(chosen)
        held = [
            (owner, ref.name)
            for ref in dict.fromkeys(properties_of(self.plan))
            for owner in self._owners(ref.owner, mine, number)
        ][:limit]
        nodes = {end for head, _, tail, fact in chosen for end in (head, tail, fact)}
        nodes |= {owner for owner, _ in held}
        own = {cell for item, cell in self._given(number) if isinstance(item, NodeRef)}
        counted = {item: self._members(item, mine) for item in self.aggregates}
        for item, (_, members) in counted.items():
            if isinstance(item.of, NodeRef):
                nodes |= set(members[:limit])
        known = self._described({node for node in nodes | own if node >= 0})
        relations = self.store.relations().ids
        return Evidence(
            facts=tuple(
                Fact(known[head].id, relations[relation], known[tail].id)
                for head, relation, tail, _ in chosen
            ),
            held=tuple(
                Held(known[owner].id, name, value)
                for owner, name in held
                for value in self.solver.read.get((name, owner), ())
            ),
            counted=tuple(
                Counted(
                    self.plan.text_of(item),
                    size,
                    tuple(known[one] if isinstance(item.of, NodeRef) else one for one in some),
                )
                for item, (size, members) in counted.items()
                for some in [members[:limit]]
            ),
            nodes=tuple(known[key] for key in sorted(known)),
            facts_in_all=len(triples),
        )

    def _given(self, number: int) -> list[tuple[Item, Any]]:
        """Return the output items of a row with their cells."""
        return list(zip(self.plan.give, self.cells(number), strict=True))

    def _owners(self, ref: NodeRef | HopRef, mine: Solutions, number: int) -> list[int]:
        """Return the keys of the nodes or facts that ``ref`` has in a row.

        [] for facts without a node. ``mine``: the row's solutions; ``number``: of the row.
        """
        if ref not in mine.columns:
            return []
        there = np.unique(mine.columns[ref])
        if isinstance(ref, HopRef):
            there = self.solver.facts[ref.hop].fact[there]
        elif not len(there) and ref in self.by:
            return [self.keys[number][self.by.index(ref)]]
        return [key for key in there.tolist() if key >= 0]

    def _members(self, item: Aggregate, mine: Solutions) -> tuple[int, list[Any]]:
        """Return the size and the members of the set that an aggregate is over, [] for facts.

        ``mine``: the row's solutions.
        """
        if isinstance(item.of, NodeRef | HopRef):
            there = np.unique(mine.columns[item.of]).tolist()
            return len(there), there if isinstance(item.of, NodeRef) else []
        refs = refs_of(item.of)
        columns = [mine.columns[ref] for ref in refs]
        rows = unique_rows(columns)[0] if refs else np.zeros((min(mine.count, 1), 0), np.int64)
        values = [value for one in self.solver.values(item.of, refs, rows) for value in one]
        if item.kind == "count":
            values = list(dict.fromkeys(values))
        return len(values), values

    def _verify(self, triples: list[tuple[int, int, int, int]]) -> None:
        """Raise GraphError unless the store still has all edges of these facts."""
        edges = [
            edge
            for head, relation, tail, fact in triples
            for edge in (
                [(head, relation, tail)]
                if fact < 0
                else [(head, relation, fact), (fact, relation, tail)]
            )
        ]
        if not edges:
            return
        heads, relations, tails = (keys_array(column) for column in zip(*edges, strict=True))
        if not self.store.has_edges(heads, relations, tails).all():
            raise GraphError(
                "A fact behind this row has been removed from the graph.", "Ask the question again."
            )


def _nth(counts: IntArray, number: int) -> int:
    """Return the ``number``-th largest of ``counts``, or the smallest if there are fewer."""
    place = max(0, len(counts) - number)
    return int(np.partition(counts, place)[place])


def _stored(facts: HopFacts, places: IntArray) -> list[tuple[int, int, int]]:
    """Return the (head, tail, fact) triples of the facts at ``places``, -1 for no fact node.

    A repeated relation's fact has one for each relation of its chain.
    """
    if facts.links is not None:
        return [link for place in places.tolist() for link in facts.links[place]]
    columns = (facts.head[places], facts.tail[places], facts.fact[places])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def properties_of(plan: Plan) -> list[PropertyRef]:
    """Return the properties, on nodes and facts of the pattern, that a plan's rows depend on."""
    items = [*plan.give, *plan.group, *(sort.by for sort in plan.order), *plan.where]
    return [leaf for item in items for leaf in leaves(item) if isinstance(leaf, PropertyRef)]

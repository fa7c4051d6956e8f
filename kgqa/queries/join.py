"""Solves the pattern of a plan by joins; a solution has a key for each node, a fact for each hop.

A solution binds every node and hop of the pattern. Along a chain nodes are different, as walks have
it; the chains of a pattern are joined by their common nodes.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kgqa.deadline import check_deadline
from kgqa.errors import PlanError, TimeLimitError
from kgqa.graph.model import distinct, keys_array
from kgqa.graph.schema import PropertyGraph
from kgqa.graph.store import GraphStore
from kgqa.queries.plan import (
    Aggregate,
    Arithmetic,
    Comparison,
    Hop,
    HopRef,
    NodeRef,
    Plan,
    PropertyRef,
    chain_nodes,
    owners,
    refs_of,
)
from kgqa.queries.values import calculated, combined, part_of, satisfies

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.graph.schema import Value
    from kgqa.queries.check import SchemaIndex
    from kgqa.queries.result import QueryLimits


class QueryStore(GraphStore, PropertyGraph, Protocol):
    """A graph store with classes and properties, on which plans run."""


@dataclass(slots=True)
class HopFacts:
    """The facts that match a hop, in stored direction, shape ``[n]``; -1 without a fact node.

    ``links``: of a repeated hop, for each fact the (head, tail, fact) triples of its chain.
    """

    head: IntArray
    tail: IntArray
    fact: IntArray
    links: list[list[tuple[int, int, int]]] | None = None


@dataclass(slots=True)
class Solutions:
    """Solutions of a pattern as columns: keys by node, indices into the hop's facts by hop."""

    count: int
    columns: dict[NodeRef | HopRef, IntArray] = field(default_factory=dict)

    def take(self, places: IntArray | BoolArray) -> Solutions:
        """Return the solutions at ``places``."""
        columns = {ref: column[places] for ref, column in self.columns.items()}
        count = int(places.sum()) if places.dtype == np.bool_ else len(places)
        return Solutions(count, columns)

    def binds(self, refs: Iterable[NodeRef | HopRef]) -> bool:
        """Return whether each of ``refs`` has a column."""
        return self.columns.keys() >= {*refs}


class Solver:
    """Solves the pattern of one plan on one store. ``start``: permitted keys of node 0.

    1. Begin at the node with the fewest estimated candidates.
    2. Expand hops one by one, those first that join two bound nodes.
    3. Filter by every comparison as soon as its operands are bound.
    4. Remove the solutions that a part of ``without`` matches.
    """

    def __init__(
        self,
        plan: Plan,
        store: QueryStore,
        index: SchemaIndex,
        limits: QueryLimits,
        *,
        until: float,
        start: IntArray | None = None,
    ) -> None:
        self.plan, self.store, self.index, self.limits = plan, store, index, limits
        self.start, self.until = start, until
        self._hops = plan.all_hops
        self.facts: dict[int, HopFacts] = {}
        self.relations = {name: key for key, name in enumerate(store.relations().ids) if name}
        self._instances: dict[str, IntArray] = {}
        self.read: dict[tuple[str, int], list[Value]] = {}
        self._apart = {
            (NodeRef(node), NodeRef(other))
            for hops in [plan.hops, *(part.hops for part in plan.without)]
            for nodes in chain_nodes(hops)
            for node in nodes
            for other in nodes
            if node < other
        }

    def solve(self, part: Collection[NodeRef | HopRef] | None = None) -> Solutions:
        """Return the solutions of the pattern, or only of the nodes and hops in ``part``."""
        plan = self.plan
        refs = [ref for ref in plan.refs if part is None or ref in part]
        where = [
            comparison for comparison in plan.where if not isinstance(comparison.left, Aggregate)
        ]
        first = min((ref.node for ref in refs if isinstance(ref, NodeRef)), key=self._estimate)
        keys = self._candidates(first)
        solutions, where = self._compare(Solutions(len(keys), {NodeRef(first): keys}), where)
        solutions = self._join(
            solutions, [ref.hop for ref in refs if isinstance(ref, HopRef)], where
        )
        for number in range(len(plan.without)):
            if solutions.binds(self._outer(number)):
                solutions = self._leave_out(solutions, number)
        return solutions

    def _join(self, solutions: Solutions, left: list[int], where: list[Comparison]) -> Solutions:
        """Expand the hops with numbers in ``left`` one by one; the list is emptied.

        Solutions are filtered by each of ``where`` once its operands are bound.
        """
        while left:
            number = next(
                number
                for both in (True, False)
                for number in left
                if self._known_ends(solutions, number) >= 1 + both
            )
            left.remove(number)
            solutions = self._expand(solutions, number)
            solutions, where = self._compare(solutions, where)
        return solutions

    def _known_ends(self, solutions: Solutions, number: int) -> int:
        """Return how many ends of a hop, 0 to 2, the solutions bind."""
        hop = self._hops[number]
        return solutions.binds([NodeRef(hop.source)]) + solutions.binds([NodeRef(hop.target)])

    # -- where to start ----------------------------------------------------------------------

    def _own(self, node: int) -> list[Comparison]:
        """Return the comparisons of a node's name, id or properties."""
        return [
            comparison
            for comparison in self.plan.where
            if comparison.left == NodeRef(node)
            or (isinstance(comparison.left, PropertyRef) and comparison.left.owner == NodeRef(node))
        ]

    def _estimate(self, node: int) -> float:
        """Return the estimated number of a node's candidates."""
        own = self._own(node)
        if any(
            comparison.left == NodeRef(node) and comparison.operator in ("=", "in")
            for comparison in own
        ):
            return 1
        if node == 0 and self.start is not None:
            return len(self.start)
        class_ = self.plan.nodes[node]
        count: float = self.index.types[class_].count if class_ else self.store.info.nodes
        for comparison in own:
            count *= 0.05 if comparison.operator in ("=", "in") else 0.5
        return count

    def _candidates(self, node: int) -> IntArray:
        """Return the keys that a first node may have, by its name or id, ``start``, or class."""
        for comparison in self._own(node):
            if comparison.left == NodeRef(node) and comparison.operator in ("=", "in"):
                texts = [str(value) for value in comparison.right]  # type: ignore[union-attr]
                if not all(any(map(str.isalnum, text)) for text in texts):
                    break  # names without a word are in no index of names
                keys = np.concatenate([self.store.keys_of(texts), self.store.find_names(texts)[1]])
                keys = np.unique(keys[keys >= 0])
                return keys[self._may_be(node, keys)]
        if node == 0 and self.start is not None:
            return self.start[self._may_be(node, self.start)]
        return self._of_class(self.plan.nodes[node])

    def _of_class(self, class_: str) -> IntArray:
        """Return the keys of the instances of a class, read once; of all entities for ""."""
        if class_ not in self._instances:
            self._instances[class_] = self.store.instances(class_)
        return self._instances[class_]

    def _is_free(self, node: int, *, of_class: bool) -> bool:
        """Return whether neither a class nor ``start`` restricts a node; comparisons may.

        ``of_class``: its class is known to fit.
        """
        return (of_class or not self.plan.nodes[node]) and (node != 0 or self.start is None)

    def _may_be(self, node: int, keys: IntArray, *, of_class: bool = False) -> BoolArray:
        """Return which of ``keys`` the pattern lets a node have, by its class and ``start``.

        ``of_class``: their class is known to fit and not tested.
        """
        class_ = self.plan.nodes[node]
        there = np.ones(len(keys), dtype=np.bool_)
        if class_ and not of_class:
            there = np.isin(keys, self._of_class(class_))
        if node == 0 and self.start is not None:
            there &= np.isin(keys, self.start)
        return there

    # -- hops --------------------------------------------------------------------------------

    def _expand(self, solutions: Solutions, number: int) -> Solutions:
        """Join solutions with the facts of a hop, from an end that is bound; remember the facts.

        Solutions whose new node does not fit, or is not different within its chain, are dropped.
        """
        hop = self._hops[number]
        forward = solutions.binds([NodeRef(hop.source)])
        at, to = (hop.source, hop.target) if forward else (hop.target, hop.source)
        inverse = hop.inverse == forward
        keys, places = distinct(solutions.columns[NodeRef(at)])
        if hop.repeated:
            row, other, facts = self._closure(keys, hop, inverse=inverse)
        else:
            row, other, facts = self._near(keys, hop, inverse=inverse)
        sure = self.index.leads_only_to(hop, self.plan.nodes, to)
        if self._is_free(to, of_class=sure) or not len(other):
            kept = np.arange(len(other))
        else:
            there, back = distinct(other)
            kept = np.flatnonzero(self._may_be(to, there, of_class=sure)[back])
        self.facts[number] = facts
        if keys is solutions.columns[NodeRef(at)]:  # each is of one solution
            self._in_limits(len(kept))
            chosen, source = kept, row[kept]
        else:
            counts = np.bincount(row[kept], minlength=len(keys))
            self._in_limits(int(counts[places].sum()))
            starts = np.cumsum(counts) - counts
            again = counts[places]
            within = np.arange(int(again.sum())) - np.repeat(np.cumsum(again) - again, again)
            chosen = kept[np.repeat(starts[places], again) + within]
            source = np.repeat(np.arange(solutions.count), again)
        reached = solutions.take(source)
        columns, new = reached.columns, other[chosen]
        columns[HopRef(number)] = keys_array(chosen)
        if NodeRef(to) in columns:
            return reached.take(columns[NodeRef(to)] == new)
        columns[NodeRef(to)] = new
        apart = np.ones(reached.count, dtype=np.bool_)
        for one, two in self._apart:
            if NodeRef(to) in (one, two) and reached.binds((one, two)):
                apart &= columns[one] != columns[two]
        return reached if apart.all() else reached.take(apart)

    def _near(
        self, keys: IntArray, hop: Hop, *, inverse: bool
    ) -> tuple[IntArray, IntArray, HopFacts]:
        """Return (row, other end, facts) of a hop's relation out of ``keys``; ``row`` indexes them.

        ``inverse``: against its direction; a hop that is ``either`` goes both ways.
        """
        found: list[tuple[IntArray, ...]] = []
        for back in (inverse, not inverse) if hop.either else (inverse,):
            near = self.store.facts(keys, [self.relations[hop.relation]], inverse=back)
            ends = (near.other, keys[near.row]) if back else (keys[near.row], near.other)
            parts: tuple[IntArray, ...] = (near.row, near.other, *ends, near.fact)
            if found:  # a fact of a thing with itself is found once
                parts = tuple(part[near.other != keys[near.row]] for part in parts)
            found.append(parts)
        if len(found) == 1:
            row, other, head, tail, fact = found[0]
            return row, other, HopFacts(head, tail, fact)
        row, other, head, tail, fact = map(np.concatenate, zip(*found, strict=True))
        at = np.argsort(row, kind="stable")
        return row[at], other[at], HopFacts(head[at], tail[at], fact[at])

    def _closure(
        self, keys: IntArray, hop: Hop, *, inverse: bool
    ) -> tuple[IntArray, IntArray, HopFacts]:
        """Return (row, other end, facts) of a repeated relation, each fact with a shortest chain.

        ``row`` indexes ``keys``; ``inverse``: against the relation's direction.
        """
        relation = [self.relations[hop.relation]]
        links: dict[tuple[int, int], list[tuple[int, int, int]]] = {
            (row, key): [] for row, key in enumerate(keys.tolist())
        }
        frontier = list(links)
        while frontier:
            self._in_limits(len(links))
            at = np.unique(keys_array([key for _, key in frontier]))
            near = self.store.facts(at, relation, inverse=inverse)
            onward: dict[int, list[tuple[int, int]]] = {}
            for row, other, fact in zip(
                near.row.tolist(), near.other.tolist(), near.fact.tolist(), strict=True
            ):
                onward.setdefault(int(at[row]), []).append((other, fact))
            following = []
            for row, key in frontier:
                for other, fact in onward.get(key, ()):
                    if (row, other) not in links:
                        step = (other, key, fact) if inverse else (key, other, fact)
                        links[row, other] = [*links[row, key], step]
                        following.append((row, other))
            frontier = following
        pairs = sorted(pair for pair, chain in links.items() if chain)
        rows = keys_array([row for row, _ in pairs])
        others = keys_array([other for _, other in pairs])
        ends = (others, keys[rows]) if inverse else (keys[rows], others)
        none = np.full(len(pairs), -1, dtype=np.int64)
        return rows, others, HopFacts(*ends, none, [links[pair] for pair in pairs])

    def _in_limits(self, solutions: int) -> None:
        """Raise PlanError for too many solutions, TimeLimitError after too much time."""
        check_deadline()
        if solutions > self.limits.solutions:
            raise PlanError(
                f"The plan's pattern has {solutions:,} solutions or more, and at most "
                f"{self.limits.solutions:,} are read.",
                "Add a condition, or leave out a hop.",
            )
        self.check_time()

    def check_time(self) -> None:
        """Raise TimeLimitError if the plan has run for too long."""
        if time.monotonic() > self.until:
            raise TimeLimitError(
                f"The plan was not done within {self.limits.seconds:g} seconds.",
                "Add a condition, or allow it more time.",
            )

    # -- comparisons -------------------------------------------------------------------------

    def _compare(
        self, solutions: Solutions, where: list[Comparison]
    ) -> tuple[Solutions, list[Comparison]]:
        """Filter solutions by conditions with bound operands; also return the other conditions."""
        later = []
        for comparison in where:
            if solutions.binds(owners(comparison)):
                solutions = solutions.take(self.holds(solutions, comparison))
                self._in_limits(solutions.count)
            else:
                later.append(comparison)
        return solutions, later

    def holds(self, solutions: Solutions, comparison: Comparison) -> BoolArray:
        """Return which solutions satisfy a comparison with bound operands, shape ``[count]``."""
        refs = refs_of(comparison)
        rows, back = unique_rows([solutions.columns[ref] for ref in refs])
        if comparison.affirmed == "is a":
            (class_,) = comparison.right  # type: ignore[misc]
            there = np.isin(rows[:, 0], self._of_class(str(class_)))
            return (~there if comparison.negated else there)[back]
        if isinstance(comparison.left, NodeRef):
            called = self._are_called(rows[:, 0], [str(value) for value in comparison.right])  # type: ignore[union-attr]
            return (~called if comparison.negated else called)[back]
        kind = self.index.kind(self.plan, comparison.left)
        type_ = kind.type if kind is not None else ""
        left = self.values(comparison.left, refs, rows)
        right = (
            [comparison.right] * len(rows)
            if isinstance(comparison.right, tuple)
            else self.values(comparison.right, refs, rows)
        )
        truth = [
            satisfies(values, comparison, others, type_)
            for values, others in zip(left, right, strict=True)
        ]
        return np.array(truth, dtype=np.bool_)[back]

    def _are_called(self, keys: IntArray, texts: Sequence[str]) -> BoolArray:
        """Return which entities have one of ``texts`` as name or id."""
        entities = self.store.entities(keys)
        called = zip(entities.ids, entities.names, strict=True)
        return np.array([id_ in texts or name in texts for id_, name in called], dtype=np.bool_)

    def values(
        self, item: object, refs: Sequence[NodeRef | HopRef], rows: IntArray
    ) -> list[list[Value]]:
        """Return an operand's values for each row; of a list property its members, [] for no value.

        ``refs``: the nodes and hops of the columns of ``rows``.
        """
        match item:
            case PropertyRef(owner, name, part):
                column = rows[:, refs.index(owner)]
                if isinstance(owner, HopRef):
                    column = self.facts[owner.hop].fact[column]
                lists = self.read_property(name, column)
                if part == "size":
                    kind = self.index.property_of(self.plan, item)
                    sizes = [
                        len(list_) if kind.many else len(str(list_[0])) for list_ in lists if list_
                    ]
                    numbers = iter(sizes)
                    return [[next(numbers)] if list_ else [] for list_ in lists]
                if part:
                    parts = [[part_of(value, part) for value in list_] for list_ in lists]
                    return [[value for value in part if value is not None] for part in parts]
                return lists
            case Arithmetic(left, operator, right):
                sides = (self.values(left, refs, rows), self.values(right, refs, rows))
                return [combined(one, operator, two) for one, two in zip(*sides, strict=True)]
            case Aggregate(kind, PropertyRef(NodeRef(node), name)):
                all_values = self.read_property(name, self._of_class(self.plan.nodes[node]))
                one = calculated(kind, [value for values in all_values for value in values])
                return [[] if one is None else [one]] * len(rows)
            case float() | int():
                return [[item]] * len(rows)
        raise TypeError(item)

    def read_property(self, name: str, keys: IntArray) -> list[list[Value]]:
        """Return a property's values for each key, [] for none or key -1.

        Results are remembered.
        """
        asked = [key for key in np.unique(keys).tolist() if key >= 0]
        new = keys_array([key for key in asked if (name, key) not in self.read])
        if len(new):
            for key in new.tolist():
                self.read[name, key] = []
            row, values = self.store.property_values(new, name)
            for place, value in zip(row.tolist(), values, strict=True):
                self.read[name, int(new[place])].append(value)
            self._in_limits(0)
        return [self.read.get((name, key), []) for key in keys.tolist()]

    # -- without -----------------------------------------------------------------------------

    def _outer(self, number: int) -> list[NodeRef | HopRef]:
        """Return the pattern's nodes and hops that a part of ``without`` refers to."""
        part = self.plan.without[number]
        spoken = {NodeRef(end) for hop in part.hops for end in (hop.source, hop.target)}
        spoken |= {ref for comparison in part.where for ref in owners(comparison)}  # type: ignore[misc]
        return [ref for ref in self.plan.refs if ref in spoken]

    def _leave_out(self, solutions: Solutions, number: int) -> Solutions:
        """Remove the solutions that part ``number`` of ``without`` matches."""
        part = self.plan.without[number]
        outer = self._outer(number)
        rows, back = unique_rows([solutions.columns[ref] for ref in outer])
        inner = Solutions(len(rows), dict(zip(outer, rows.T, strict=True)))
        row = HopRef(-1)  # which row each solution goes on from
        inner.columns[row] = np.arange(len(rows))
        inner, where = self._compare(inner, list(part.where))
        inner = self._join(inner, list(self.plan.hops_without(number)), where)
        good = np.ones(len(rows), dtype=np.bool_)
        good[inner.columns[row]] = False
        return solutions.take(good[back])


def unique_rows(columns: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Return the distinct rows ``[n, len(columns)]``, and each input row's index among them."""
    if len(columns) == 1:
        values, back = distinct(columns[0])
        return values[:, None], back
    packed = _packed(columns)
    if packed is None:
        rows, back = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        return rows, back.reshape(-1)
    _, first, back = np.unique(packed, return_index=True, return_inverse=True)
    return np.stack([column[first] for column in columns], axis=1), back


def rows_of_pairs(rows: IntArray, keys: IntArray) -> IntArray:
    """Return the row of each distinct pair ``(rows[i], keys[i])``, ascending."""
    packed = _packed([rows, keys])
    if packed is None:
        return unique_rows([rows, keys])[0][:, 0]
    packed.sort()
    packed = packed[np.append(True, packed[1:] != packed[:-1])] if len(packed) else packed
    return packed // _span(keys) + int(rows.min(initial=0))


def _packed(columns: Sequence[IntArray]) -> IntArray | None:
    """Pack each row into one number of the same order; None if it does not fit 63 bits.

    Single numbers are sorted ten times as fast as rows of several.
    """
    if math.prod(map(_span, columns)) >= 1 << 63:
        return None
    packed = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        packed *= _span(column)
        packed += column - int(column.min(initial=0))
    return packed


def _span(column: IntArray) -> int:
    """Return the size of the range of a column's values and 0."""
    return int(column.max(initial=0)) - int(column.min(initial=0)) + 1

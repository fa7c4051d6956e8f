"""The plans that a question may mean, best first: search over a schema by the plan scorer's odds.

Every plan is put together from what the schema holds, so none can be wrong in kind. A plan's score
is the sum of the log-odds of the roles that it gives to the parts of the schema, the
log-probabilities of what it is as a whole, and how well it accounts for what the question states.
Stages, each with a beam: patterns (classes and hops around what is asked for), conditions, then
aggregate, order, limit and what is given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING

from kgqa.errors import PlanError
from kgqa.linking.asked import asks_best
from kgqa.methods.query_conditions import ConditionSearch, State
from kgqa.methods.query_patterns import PatternSearch
from kgqa.methods.query_reading import MOST_ODDS, Pattern, Place, Reading
from kgqa.methods.query_words import AVERAGE, EACH, NO, TOTAL, asks_who, names_class, superlative
from kgqa.queries.check import NUMBERS, check
from kgqa.queries.groups import wants_empty
from kgqa.queries.plan import (
    Aggregate,
    AggregateKind,
    Comparison,
    HopRef,
    Item,
    NodeRef,
    Operand,
    Plan,
    PropertyRef,
    Sort,
    Without,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PLANS = 12
_TOLD = -8.0  # to give or count what the question names
_OF_EACH = -2.0  # a number of each thing of a class, where the question names one of another
_WHOLE_END = 0.8  # of a relation's facts that end in one class, so that others are of it, too
_LIMITED = -1.2  # log-odds from which a superlative without a number means one
_AFFIRMED = ("=", "<", "<=", ">", ">=", "in", "contains", "starts with", "ends with", "not missing")
_IN_VAIN = -6.0  # a superlative, an average or a negation that a plan has nothing for
_FUNCTIONS: dict[str, AggregateKind] = {
    "sum": "sum",
    "avg": "average",
    "min": "least",
    "max": "most",
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan with its score, larger is better."""

    plan: Plan
    score: float


class PlanSearch:
    """The search for one question."""

    def __init__(self, reading: Reading) -> None:
        self._read = reading

    def plans(self, most: int = PLANS) -> list[Candidate]:
        """Return at most ``most`` plans, the best first; all of them fit the schema."""
        found: dict[str, Candidate] = {}
        conditions = ConditionSearch(self._read)
        for pattern in PatternSearch(self._read).patterns():
            places = list(self._read.places(pattern))
            for state in conditions.conditions(pattern, places):
                for one in self._wholes(pattern, places, state):
                    text = str(one.plan)
                    if text not in found or found[text].score < one.score:
                        found[text] = one
        weighed = [
            replace(one, score=one.score + self._in_vain(one.plan)) for one in found.values()
        ]
        if self._read.plain:
            weighed = [replace(one, plan=self._widened(one.plan)) for one in weighed]
        ranked = sorted(weighed, key=lambda one: (-one.score, str(one.plan)))
        fit = (one for one in ranked if self._fits(one.plan))
        return list(islice(fit, most))

    def _fits(self, plan: Plan) -> bool:
        try:
            check(plan, self._read.parts.index)
        except PlanError:
            return False
        return True

    def _widened(self, plan: Plan) -> Plan:
        """Return a plan without the classes of nodes whose hops say what they are."""
        shares: dict[int, float] = {}
        for number, hop in enumerate(plan.all_hops):
            for node, head in ((hop.source, not hop.inverse), (hop.target, hop.inverse)):
                if number >= len(plan.hops) and node < plan.pattern_size:
                    continue  # what there must not be says nothing of it
                patterns = self._read.parts.index.relations[hop.relation]
                ends = [(one.head if head else one.tail, one.count) for one in patterns]
                mine = sum(count for end, count in ends if end == plan.nodes[node])
                share = mine / max(1, sum(count for _, count in ends))
                shares[node] = max(shares.get(node, 0.0), share)
        given = {one.node for one in (*plan.give, *plan.group) if isinstance(one, NodeRef)}
        given |= {one.of.node for one in plan.items()
                  if isinstance(one, Aggregate) and isinstance(one.of, NodeRef)}  # fmt: skip
        least = 2.0 if wants_empty(plan) else _WHOLE_END
        nodes = [
            "" if node in shares and (node not in given or shares[node] >= least) else name
            for node, name in enumerate(plan.nodes)
        ]
        wide = replace(plan, nodes=tuple(nodes))
        return wide if self._fits(wide) else plan

    def _in_vain(self, plan: Plan) -> float:
        """Return what it costs that a plan leaves out what the question's words ask for."""
        kinds = {item.kind for item in plan.items() if isinstance(item, Aggregate)}
        cost = 0.0
        if asks_best(self._read.question) and not plan.order and not kinds & {"least", "most"}:
            cost += _IN_VAIN
        if AVERAGE.search(self._read.question) and "average" not in kinds:
            cost += _IN_VAIN
        if TOTAL.search(self._read.question) and "sum" not in kinds:
            cost += 0.5 * _IN_VAIN
        denied = plan.without or any(one.operator not in _AFFIRMED for one in plan.where)
        if NO.search(self._read.question) and not denied:
            cost += _IN_VAIN
        return cost

    def _wholes(
        self, pattern: Pattern, places: Sequence[Place], state: State
    ) -> Iterator[Candidate]:
        base = pattern.score + state.score
        for aggregate, odds in self._aggregates(pattern, places, state):
            plain = isinstance(aggregate, NodeRef)
            grouped = not plain and not isinstance(aggregate, _Total)
            score = base + odds
            orders: list[tuple[Item | None, bool, float]] = [
                (None, False, self._read.whole["direction"]["none"])
            ]
            for name, descending in (("desc", True), ("asc", False)):
                logp = self._read.whole["direction"][name]
                if grouped:
                    orders.append((aggregate.item, descending, logp + 0.5))  # type: ignore[union-attr]
                if plain:
                    for place in places:
                        weight = self._read.properties[place.owned][1]
                        worth = superlative(self._read.question, place.property, descending)
                        weight += worth
                        weight += 0.7 if worth > 0 and place.ref.owner == NodeRef(0) else 0
                        if (
                            weight > -4
                            and not place.property.many
                            and place.property.type not in ("boolean", "point", "duration")
                        ):
                            orders.append((place.ref, descending, logp + weight))
            for by, descending, weight in nlargest(4, orders, key=lambda one: one[2]):
                plan = self._plan(pattern, places, state, aggregate, by, descending)
                if plan is not None:
                    told = self._names_itself(state) and not any(
                        isinstance(one, PropertyRef) for one in plan.give
                    )
                    yield Candidate(plan, score + weight + _TOLD * told)
        yield from self._without(pattern, state, base)

    def _aggregates(
        self, pattern: Pattern, places: Sequence[Place], state: State
    ) -> Iterator[tuple[NodeRef | _Total | _Grouped, float]]:
        whole = self._read.whole["aggregate"]
        having = self._read.whole["having"]["no"]
        answer = pattern.nodes[0]
        if state.having is not None:
            assert isinstance(state.having.left, Aggregate)
            weight = max(whole["group"], whole["none"]) + having
            yield _Grouped(NodeRef(0), state.having.left), weight
            return
        yield NodeRef(0), whole["none"] + having
        yield (
            _Total(Aggregate("count", NodeRef(0))),
            whole["count"] + 0.5 * self._read.classes[answer][2] + having,
        )
        for node in range(1, len(pattern.nodes)):
            odds = self._read.classes[pattern.nodes[node]][2]
            yield (
                _Grouped(NodeRef(0), Aggregate("count", NodeRef(node))),
                whole["group"] + odds + having,
            )
        for place in places:
            row = self._read.properties[place.owned]
            if row[2] > -2 and place.ref.owner == NodeRef(0) and not self._is_name(place):
                odds = self._read.classes[answer][2] + row[2]
                yield (
                    _Grouped(place.ref, Aggregate("count", NodeRef(0))),
                    whole["group"] + odds + having - 1,
                )
            if row[3] < -2:
                continue
            for name, kind in _FUNCTIONS.items():
                if place.property.many or (
                    place.property.type not in NUMBERS and name in ("sum", "avg")
                ):
                    continue
                item = Aggregate(kind, place.ref)
                odds = whole[name] + row[3] + having
                each = bool(EACH.search(self._read.question))
                if place.ref.owner != NodeRef(0):
                    apart = (
                        0.0 if each or asks_who(self._read.question) else self._named_apart(state)
                    )
                    yield _Grouped(NodeRef(0), item), odds + apart
                    if not each:
                        yield _Total(item), odds - 0.7
                else:
                    yield _Total(item), odds - 0.7 * each
                    for other in places:
                        if (
                            other.ref.owner == NodeRef(0)
                            and self._read.properties[other.owned][2] > -1
                            and each
                        ):
                            yield (
                                _Grouped(other.ref, item),
                                odds + self._read.properties[other.owned][2],
                            )

    def _named_apart(self, state: State) -> float:
        """Return what it costs to ask about each thing of the first class where another is named.

        "The average rating of Cloud Atlas" is one number, not one of each reviewer.
        """
        named = {
            one.left if isinstance(one.left, NodeRef) else one.left.owner
            for one in state.where
            if one.operator == "=" and isinstance(one.left, NodeRef | PropertyRef)
        }
        return _OF_EACH if named and NodeRef(0) not in named else 0.0

    def _is_name(self, place: Place) -> bool:
        kind, owner, name = place.owned
        return (
            kind == "class"
            and owner in self._read.parts.index.types
            and name in self._read.parts.index.types[owner].names
        )

    def _plan(
        self, pattern: Pattern, places: Sequence[Place], state: State,
        aggregate: NodeRef | _Total | _Grouped, by: Item | None, descending: bool,
    ) -> Plan | None:  # fmt: skip
        limit = self._read.stated.limit
        if limit is None and by is not None:
            odds = self._read.whole["limit"]["yes"] - self._read.whole["limit"]["no"]
            said = self._read.plain and asks_best(self._read.question)
            limit = 1 if odds > _LIMITED or said else None
        where = state.where
        if state.having is not None:
            where = (*where, state.having)
        group: tuple[Operand, ...] = ()
        if isinstance(aggregate, _Total):
            give: list[Item] = [aggregate.item]
            limit = None
        else:
            give = [NodeRef(0)]
            if isinstance(aggregate, _Grouped):
                give, group = [aggregate.by], (aggregate.by,)
            given = [
                place
                for place in places
                if self._read.properties[place.owned][2] > 0.0
                and place.ref not in give
                and not (place.ref.owner == NodeRef(0) and self._is_name(place))
                and (not group or place.ref.owner == group[0])
            ]
            given.sort(key=lambda one: -self._read.properties[one.owned][2])
            if isinstance(aggregate, _Grouped):
                give.append(aggregate.item)
            elif given and self._asks_property(given[0], state):
                give = []
            give += [place.ref for place in given[:3]]
            if isinstance(by, PropertyRef) and by not in give and by.owner == NodeRef(0):
                give.append(by)
        order = () if by is None else (Sort(by, descending),)
        try:
            return Plan(pattern.nodes, pattern.hops, where, (), group, order, limit, tuple(give))
        except PlanError:
            return None

    def _asks_property(self, place: Place, state: State) -> bool:
        """Return whether a property is asked for, not the things that have it."""
        named = self._names_itself(state) and place.ref.owner == NodeRef(0)
        return named or names_class(self._read.question, place.property.name)

    @staticmethod
    def _names_itself(state: State) -> bool:
        """Return whether the question names the things that a plan gives."""
        return any(one.left == NodeRef(0) and one.operator in ("=", "in") for one in state.where)

    def _without(self, pattern: Pattern, state: State, base: float) -> Iterator[Candidate]:
        """Yield the plan whose last hop is what there must not be."""
        if not pattern.hops or state.having is not None:
            return
        last = pattern.hops[-1]
        node = len(pattern.nodes) - 1
        head, tail = pattern.nodes[last.source], pattern.nodes[last.target]
        if last.inverse:
            head, tail = tail, head
        odds = self._read.hops.get((head, last.relation, tail), (0.0, 0.0, -MOST_ODDS))[2]
        whole = self._read.whole["without"]["yes"] - self._read.whole["without"]["no"]
        inner = tuple(
            one
            for one in state.where
            if _owner(one) in (NodeRef(node), HopRef(len(pattern.hops) - 1))
        )
        outer = tuple(one for one in state.where if one not in inner)
        score = (
            base
            + odds
            + whole
            + self._read.whole["aggregate"]["none"]
            + self._read.whole["direction"]["none"]
        )
        if NO.search(self._read.question):
            score += 2.0
        without = (Without((last,), inner),)
        for give, extra in (
            ((NodeRef(0),), 0.0),
            (
                (Aggregate("count", NodeRef(0)),),
                self._read.whole["aggregate"]["count"] - self._read.whole["aggregate"]["none"],
            ),
        ):
            counting = isinstance(give[0], Aggregate)
            limit = None if counting else self._read.stated.limit
            try:
                plan = Plan(pattern.nodes, pattern.hops[:-1], outer, without, (), (), limit, give)
            except PlanError:
                continue
            yield Candidate(plan, score + extra)


@dataclass(frozen=True, slots=True)
class _Total:
    item: Aggregate


@dataclass(frozen=True, slots=True)
class _Grouped:
    by: NodeRef | PropertyRef
    item: Aggregate


def _owner(one: Comparison) -> object:
    return one.left.owner if isinstance(one.left, PropertyRef) else None

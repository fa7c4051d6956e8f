"""Completes a pattern with conditions to plans: aggregates, orders, limits and output columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kgqa.errors import PlanError
from kgqa.lexicon.english import words
from kgqa.paths.words import relation_phrase
from kgqa.planning.conditions import says_opposite
from kgqa.planning.evidence import is_id
from kgqa.planning.negation import absence, denies_verb, with_last
from kgqa.planning.orders import OrderSearch
from kgqa.planning.place_words import KnownPlaces
from kgqa.planning.question_words import (
    DATE_PART,
    MOST,
    NO,
    ORDERED,
    PREPOSITION,
    TOTAL,
    asks_one,
    asks_order,
    is_year,
    names_class,
    ordinal,
)
from kgqa.planning.two_step_plans import best_first, counted_after
from kgqa.queries.check import NUMBERS
from kgqa.queries.plan import (
    Aggregate,
    AggregateKind,
    Arithmetic,
    Comparison,
    Hop,
    HopRef,
    Item,
    NodeRef,
    Plan,
    PropertyRef,
    Sort,
    Without,
    owners,
)
from kgqa.queries.values import DATES
from kgqa.understanding.asked import asks_best
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.planning.conditions import ConditionState
    from kgqa.planning.evidence import Pattern, Place, QuestionReading
    from kgqa.planning.place_words import PlaceWords

WEIGHTS = weights("planning")
HOW_MANY = re.compile(
    rf"\W*{PREPOSITION}(?:how many|count|number of|what is the (?:number|count))\b", re.I
)
_DIFFERENT = re.compile(r"different|distinct|unique|diverse|diversity|variety|various")
_AGGREGATED = re.compile(r"average|mean|total|sum|combined|highest|lowest|maximum|minimum|overall")
_ASKS_NUMBER = re.compile(r"\W*what(?:'s| is| was) the (?:\w+ ){0,2}?", re.I)
_QUANTITY = re.compile(r"quantity|qty|units|amount|copies|count", re.I)
_AMOUNT = re.compile(r"total|amount|sum|paid|value|price|cost|fee", re.I)
_AMOUNTS = 3  # amount properties tried as a revenue
_SHOWN = 3  # properties output besides
_PRICE = re.compile(r"price|cost|rate|fee", re.I)
SHOWN_WITH = re.compile(r"\b(?:with|and|including)(?: all)? (?:their|its|his|her)\b", re.I)
_OF_WHAT = {"of", "for", "in", "by", "per"}
_FUNCTIONS: dict[str, AggregateKind] = {
    "sum": "sum",
    "avg": "average",
    "min": "least",
    "max": "most",
}


@dataclass(frozen=True, slots=True)
class ScoredPlan:
    """A plan with its score (larger is better); ``nouns``: the names of its classes.

    ``vain``: the part of the score that is a penalty for words that the plan ignores. ``denied``:
    how many of its comparisons are negated because the question denies them.
    """

    plan: Plan
    score: float
    nouns: tuple[str, ...] = ()
    vain: float = 0.0
    denied: int = 0


class WholeSearch:
    """Generates the complete plans of one reading for a pattern with conditions.

    1. Choose an aggregate, with or without groups (:meth:`_aggregates`).
    2. Choose an order and its direction (:class:`OrderSearch`), also one that applies the limit
       before a join.
    3. Choose the output columns.
    4. Negate the last hops, where the question has a "no".
    """

    def __init__(self, reading: QuestionReading) -> None:
        self._read = reading
        self._known = KnownPlaces(reading)
        self._orders = OrderSearch(reading, self._known)
        self._before_no = self._named_before_no()
        self._best = not reading.plain and asks_order(reading.mentions.words)

    def wholes(
        self, pattern: Pattern, places: Sequence[Place], state: ConditionState
    ) -> Iterator[ScoredPlan]:
        """Yield the complete plans of a pattern with conditions."""
        base = pattern.score + state.score
        if state.absent:
            yield from self._without(pattern, places, state, base)
            return
        for aggregate, odds in self._aggregates(pattern, places, state):
            plain = isinstance(aggregate, NodeRef)
            number = aggregate.item if isinstance(aggregate, _Grouped) else None
            # "how many games" of one entity is a value
            counted = self._counts_named(aggregate, places, state)
            score = base + (odds + WEIGHTS["named_thing_given"] * counted)
            orders = self._orders.orders(places, state, number, plain=plain)
            for by, descending, weight in orders:
                plan = self._plan(pattern, places, state, aggregate, by, descending)
                if plan is None:
                    continue
                alone = self._names_itself(state) and (  # a single entity gives no groups
                    number is not None
                    or by is not None
                    or not any(isinstance(one, PropertyRef) for one in plan.give)
                )
                worth = score + weight + WEIGHTS["named_thing_given"] * alone
                worth += WEIGHTS["number_of_named_thing"] * (
                    plain and self._gives_number(plan, places, state)
                )
                yield from self._in_steps(plan, state, worth)
        yield from self._without(pattern, places, state, base)

    def _counts_named(
        self, aggregate: NodeRef | _Total | _Grouped, places: Sequence[Place], state: ConditionState
    ) -> bool:
        """Return whether a total counts a named entity, or its single values."""
        if not isinstance(aggregate, _Total) or aggregate.item.kind != "count":
            return False
        named = {_owner(one) for one in state.where if one.operator == "=" and (
            isinstance(one.left, NodeRef) or one.left in state.names)}  # fmt: skip
        of = aggregate.item.of
        return getattr(of, "owner", of) in named and not any(
            place.ref == of and place.property.many for place in places
        )

    def _in_steps(self, plan: Plan, state: ConditionState, score: float) -> Iterator[ScoredPlan]:
        """Yield a plan and the plans in two steps that the question may mean by it.

        ``score``: that of all of them.
        """
        how_many = HOW_MANY.match(self._read.question)
        counted = counted_after(plan) if state.having and how_many else None
        if counted is not None:
            yield ScoredPlan(counted, score)
            if names_class(self._read.question, counted.nodes[0]):
                return  # how many authors have more than two books: no list of them
        yield ScoredPlan(plan, score)
        if two := best_first(plan):
            yield ScoredPlan(two, score)
            if how_many and len(two.give) == 1:
                count = Aggregate("count", two.give[0])  # type: ignore[arg-type]
                yield ScoredPlan(replace(two, give=(count,)), score)

    def _near(self, words: re.Pattern[str], place: Place, known: PlaceWords) -> float:
        """Score whether a property is mentioned within five words after ``words``, as "average".

        Negative if only another property is, 0 if none is.
        """
        near, theirs = known.after(words, 5)
        mine = near & {*self._read.words_of(place)}
        between = self._read.mentions.words[min(theirs) + 1 : min(mine)] if mine else []
        if mine and not _OF_WHAT & {*between}:  # the price, of "the average price of books listed"
            return WEIGHTS["aggregate_said"]
        return WEIGHTS["aggregate_of_other"] if theirs else 0.0

    def _aggregates(
        self, pattern: Pattern, places: Sequence[Place], state: ConditionState
    ) -> Iterator[tuple[NodeRef | _Total | _Grouped, float]]:
        """Yield the possible outputs with scores: the nodes themselves, a total, or groups."""
        whole = self._read.whole["aggregate"]
        having = self._read.whole["having"]["no"]
        answer = pattern.nodes[0]
        if state.having is not None:
            yield from self._compared(state.having.left, places, having)
            return
        yield NodeRef(0), whole["none"] + having
        yield (
            _Total(Aggregate("count", NodeRef(0))),
            whole["count"] + WEIGHTS["count_of_answers"] * self._read.classes[answer][2] + having,
        )
        yield from self._per_answer(pattern, whole["group"], having)
        yield from self._by_part(pattern, places)
        yield from self._revenue(pattern, places)
        for place in places:
            yield from self._counted(answer, place, places)
            yield from self._calculated(place, places)

    def _per_answer(
        self, pattern: Pattern, group: float, having: float
    ) -> Iterator[tuple[_Grouped, float]]:
        """Yield the counts of each other node for each requested one: the cuisines of each town.

        ``group``, ``having``: the odds of a grouping, and of no condition on it.
        """
        for node, name in enumerate(pattern.nodes):
            if node == 0:
                continue
            odds = self._read.classes[name][2]
            mine = {*self._read.class_words(name)}
            said = bool(self._read.mentions.after(MOST, 1) & mine)  # "the most cuisines"
            first = said and node == pattern.nodes.index(name)
            yield (
                _Grouped(NodeRef(0), Aggregate("count", NodeRef(node))),
                group + odds + having + WEIGHTS["most_of_class"] * first,
            )

    def _counted(
        self, answer: str, place: Place, places: Sequence[Place]
    ) -> Iterator[tuple[_Total | _Grouped, float]]:
        """Yield the counts of a property's values, and of what has each of them.

        ``answer``: the requested class.
        """
        having = self._read.whole["having"]["no"]
        group = self._read.whole["aggregate"]["group"]
        odds, owner = self._read.properties[place.owned][2], place.ref.owner
        called = self._read.asks_for(place)
        if called and place.property.type == "text":
            yield from ((one, worth + having) for one, worth in self._counts(place, places))
        if isinstance(owner, HopRef) and called and not place.property.many:
            yield _Grouped(place.ref, Aggregate("count", owner)), group + having + odds
        known = self._known.of(places)
        if owner != NodeRef(0) and self._near(_DIFFERENT, place, known) > 0:
            yield _Grouped(NodeRef(0), Aggregate("count", place.ref)), group + having
        of_rows = self._is_of_rows(place)
        grouping = place.of_answer and (of_rows or not self._read.is_name(place))
        asked = self._orders.by_nothing and called
        if grouping and (odds > -2 or asked or of_rows or self._is_of_each(place)):
            odds = self._read.classes[answer][2] + max(odds, -2)
            if of_rows and self._read.mentions.after(MOST, 1) & {*self._read.class_words(answer)}:
                odds += WEIGHTS["most_of_class"]  # who has the most of them
            yield _Grouped(place.ref, Aggregate("count", NodeRef(0))), group + odds + having - 1

    def _is_of_rows(self, place: Place) -> bool:
        """Return whether a property is the name that several rows of a lone table have."""
        return place.owned == ("class", self._read.parts.rows, self._read.parts.repeated)

    def _calculated(
        self, place: Place, places: Sequence[Place]
    ) -> Iterator[tuple[_Total | _Grouped, float]]:
        """Yield the sums, averages and extremes of a property; none if the question hints at none.

        Where it asks for a sum, "how many copies" or "the most points", only the sums.
        """
        odds, known = self._read.properties[place.owned][3], self._known.of(places)
        whole, having = self._read.whole["aggregate"], self._read.whole["having"]["no"]
        near = self._near(_AGGREGATED, place, known)
        most = self._is_most_of_facts(place, known)
        if most:
            near = WEIGHTS["aggregate_said"]
        if self._is_in_total(place):
            near, most = WEIGHTS["aggregate_said"], True
        total = place.is_number and self._read.asks_for(place)
        if total and HOW_MANY.match(self._read.question):
            # "how many copies": not how many things have them
            near = WEIGHTS["sum_of_how_many"] * len(relation_phrase(place.property.name).split())
            most = not self._read.asks_average
        elif odds < -2 and near <= 0:
            return
        if is_id(place) or place.property.many:
            return
        for name, kind in _FUNCTIONS.items():
            fits = place.is_number or not (name in ("sum", "avg") or place.property.unordered)
            if not fits or (most and name != "sum"):
                continue
            worth = whole[name] + odds
            if most:
                worth = max(whole[one] for one in ("sum", "count", "group")) + max(odds, -2)
            worth += having + near
            worth += WEIGHTS["sum_of_unmentioned_facts"] * (name == "sum" and self._summed(place))
            yield from self._of_whom(Aggregate(kind, place.ref), place, places, worth, near)

    def _is_in_total(self, place: Place) -> bool:
        """Return whether a number is asked for "in total": "what did the stays cost altogether"."""
        if not place.is_number or is_id(place) or not TOTAL.search(self._read.bare):
            return False
        return bool(self._read.words_of(place)) or self._read.measures(place)

    def _is_most_of_facts(self, place: Place, known: PlaceWords) -> bool:
        """Return whether "the most" is about a number of others than the requested nodes.

        "The most expensive on average" is left out.
        """
        return (
            place.is_number
            and not place.of_answer
            and place.owned[2] not in known.answer_names
            and not self._read.asks_average
            and bool(self._read.mentions.after(MOST, 2) & {*self._read.words_of(place)})
        )

    def _of_whom(
        self, item: Aggregate, place: Place, places: Sequence[Place], odds: float, near: float
    ) -> Iterator[tuple[_Total | _Grouped, float]]:
        """Yield an aggregate of the property ``place`` as a total and for each of its groups.

        ``odds``: its score; ``near``: how well a word such as "average" says it.
        """
        each = bool(self._read.each_words)
        if not place.of_answer:
            yield _Grouped(NodeRef(0), item), odds
            if not each:
                asked = _ASKS_NUMBER.match(self._read.question) and near > 0
                yield (
                    _Total(item),
                    odds + (WEIGHTS["total_asked"] if asked else WEIGHTS["total_of_other_class"]),
                )
            return
        yield _Total(item), odds + WEIGHTS["total_beside_each"] * each
        for other in places:
            asked = self._best and self._read.asks_for(other) and not self._read.is_name(other)
            if (each or asked) and other.of_answer and other.ref != place.ref:
                by = self._read.properties[other.owned][2]
                if by > -1 or asked or self._is_of_each(other):
                    yield _Grouped(other.ref, item), odds + max(by, -1)

    def _is_of_each(self, place: Place) -> bool:
        """Return whether "each" or "per" is said of a property."""
        return bool(self._read.of_each & {*self._read.words_of(place)})

    def _compared(
        self, number: Item, places: Sequence[Place], having: float
    ) -> Iterator[tuple[_Grouped, float]]:
        """Yield the groupings, with scores, of a condition on the aggregate ``number``.

        The groups are the requested nodes, or values of a requested property if nodes are counted.
        ``having``: score of such a condition.
        """
        assert isinstance(number, Aggregate)
        whole = self._read.whole["aggregate"]
        by: list[NodeRef | PropertyRef] = [NodeRef(0)]
        if number.of == NodeRef(0):
            own = (place for place in places if place.of_answer)
            by = [one.ref for one in own if self._read.asks_for(one) or self._is_of_rows(one)]
        kinds = ["group", "none", *(kind for kind in ("avg", "sum")
                                    if _FUNCTIONS[kind] == number.kind)]  # fmt: skip
        odds = max(whole[kind] for kind in kinds) + having
        yield from ((_Grouped(ref, number), odds) for ref in by)

    def _counts(
        self, asked: Place, places: Sequence[Place]
    ) -> Iterator[tuple[_Total | _Grouped, float]]:
        """Yield counts of the text property ``asked``, or its value with the highest count.

        "Which president had the most appointees?", over rows with both columns. If the text is the
        name of its node, nodes are counted.
        """
        whole = self._read.whole["aggregate"]
        called = asked.of_answer and self._read.is_name(asked)
        if HOW_MANY.match(self._read.question):
            total = Aggregate("count", NodeRef(0) if called else asked.ref)
            yield _Total(total), whole["count"]
        near = self._read.mentions.after(MOST, 1)
        for other in places:
            same = asked.of_answer and other.of_answer and other.ref != asked.ref
            if same and other.property.type == "text" and near & {*self._read.words_of(other)}:
                most = Aggregate("count", NodeRef(0) if self._read.is_name(other) else other.ref)
                yield _Grouped(asked.ref, most), whole["group"]

    def _summed(self, place: Place) -> bool:
        """Return whether "the most points" is a sum over facts whose class is not mentioned."""
        owner = place.ref.owner
        if not isinstance(owner, NodeRef) or owner == NodeRef(0) or place.owned[0] != "class":
            return False
        near = self._read.mentions.after(MOST, 2)
        named_ = self._read.class_words(place.owned[1])
        return bool(near & {*self._read.words_of(place)}) and not named_

    def _by_part(
        self, pattern: Pattern, places: Sequence[Place]
    ) -> Iterator[tuple[_Grouped, float]]:
        """Yield numbers grouped by a part of a date: orders per month."""
        if not (match := DATE_PART.search(self._read.question)):
            return
        part = next(group for group in match.groups() if group).lower().replace("annual", "year")
        whole, row = self._read.whole, self._read.properties
        for place in places:
            type_, examples = place.property.type, place.property.examples
            if type_ in DATES:
                by = replace(place.ref, part=part)  # type: ignore[arg-type]
            elif part == "year" and type_ == "integer" and examples and all(map(is_year, examples)):
                by = place.ref
            else:
                continue
            odds = whole["having"]["no"] + max(row[place.owned][1:3])
            count = Aggregate("count", NodeRef(0))
            yield (
                _Grouped(by, count),
                max(whole["aggregate"][one] for one in ("count", "group")) + odds,
            )
            for other in places:
                if other.is_number and not is_id(other) and other.ref != by:
                    for name in ("sum", "avg"):
                        weight = whole["aggregate"][name] + row[other.owned][3] + odds
                        yield _Grouped(by, Aggregate(_FUNCTIONS[name], other.ref)), weight

    def _revenue(
        self, pattern: Pattern, places: Sequence[Place]
    ) -> Iterator[tuple[_Total | _Grouped, float]]:
        """Yield sums of quantity times price, or of an amount, if the schema names no revenue."""
        if not self._read.revenue:
            return
        found = [
            (many.ref, price.ref, many.ref.owner == price.ref.owner)
            for many in places for price in places
            if _QUANTITY.search(many.property.name) and _PRICE.search(price.property.name)
            and many.ref != price.ref and {many.property.type, price.property.type} <= {*NUMBERS}
        ]  # fmt: skip
        amounts = [one for one in places if not found and one.is_number and not one.of_answer
                   and _AMOUNT.search(one.property.name)]  # fmt: skip
        for place in amounts[:_AMOUNTS]:
            odds = WEIGHTS["revenue"] - self._read.whole["hops"][str(min(len(pattern.hops), 3))]
            yield _Grouped(NodeRef(0), Aggregate("sum", place.ref)), odds
            yield _Total(Aggregate("sum", place.ref)), odds + WEIGHTS["revenue_in_all"]
        for many, price, together in found:
            if together or not any(one == many and same for one, _, same in found):
                item = Aggregate("sum", Arithmetic(many, "*", price))
                odds = WEIGHTS["revenue"] - self._read.whole["hops"][str(min(len(pattern.hops), 3))]
                yield _Total(item), odds
                yield _Grouped(NodeRef(0), item), odds

    def _plan(
        self, pattern: Pattern, places: Sequence[Place], state: ConditionState,
        aggregate: NodeRef | _Total | _Grouped, by: Item | None, descending: bool,
    ) -> Plan | None:  # fmt: skip
        """Build the plan of one choice of aggregate, order and direction.

        None if it is malformed.
        """
        where = state.where if state.having is None else (*state.where, state.having)
        group = (aggregate.by,) if isinstance(aggregate, _Grouped) else ()
        order = () if by is None else (Sort(by, descending),)
        skip = ordinal(self._read.question) - 1 if by is not None else 0
        limit = None if isinstance(aggregate, _Total) else self._limit(by)
        give = self._columns(pattern, places, state, aggregate, by)
        try:
            return Plan(
                pattern.nodes, pattern.hops, where, (), group, order,
                1 if skip else limit, tuple(give), skip=skip,
            )  # fmt: skip
        except PlanError:
            return None

    def _limit(self, by: Item | None) -> int | None:
        """Return how many rows the question asks for in the order ``by``; None for all."""
        limit, question = self._read.stated.limit, self._read.question
        if limit is not None or by is None or ORDERED.search(question):
            return limit
        odds = self._read.whole["limit"]["yes"] - self._read.whole["limit"]["no"]
        said = asks_best(question) and (self._read.plain or asks_one(question))
        return 1 if odds > WEIGHTS["limit_of_one"] or said else None

    def _columns(
        self, pattern: Pattern, places: Sequence[Place], state: ConditionState,
        aggregate: NodeRef | _Total | _Grouped, by: Item | None,
    ) -> list[Item]:  # fmt: skip
        """Return the output columns of a plan.

        They are the aggregate with its groups or the nodes, the properties asked for, and that of
        the order ``by``.
        """
        if isinstance(aggregate, _Total):
            return [aggregate.item]
        if isinstance(aggregate, NodeRef) and pattern.nodes[0] in self._read.parts.value_nodes:
            held = [one for one in places if one.ref.owner == aggregate]
            held.sort(key=lambda one: not one.is_number)
            return [one.ref for one in held]
        group = aggregate.by if isinstance(aggregate, _Grouped) else None
        given = self._asked_beside(pattern, places, state, group)
        give: list[Item] = [NodeRef(0) if group is None else group]
        if isinstance(aggregate, _Grouped):
            give.append(aggregate.item)
        elif given and self._asks_property(given[0], state):
            give = []
        elif not state.having:
            give += self._nodes_beside(pattern, state)
        give += [place.ref for place in given[:_SHOWN]]
        if isinstance(by, PropertyRef) and by not in give and by.owner == NodeRef(0):
            give.append(by)
        return give

    def _asked_beside(
        self, pattern: Pattern, places: Sequence[Place], state: ConditionState, group: Item | None
    ) -> list[Place]:
        """Return the properties that the question asks for, the likeliest first.

        ``group``: what the plan's rows are groups of; properties of others are left out then, and
        always names of the requested nodes and conditions that are true.
        """
        shown = self._known.of(places).once("shown", partial(self._showable, places))
        named = [{*self._read.words_of(place)} for place in places if place.owned in state.used]
        named += [{*self._read.class_words(name)} for name in pattern.nodes[1:]]
        given = [
            place
            for place in shown
            if self._read.asks_for(place) or not self._is_of_other(place, named)
            if not any(one.left == place.ref and one.right == (True,) for one in state.where)
            and not (place.of_answer and self._read.is_name(place))
            and not self._is_of_hop(pattern, place)
            and (group is None or place.ref.owner == group)
        ]
        given.sort(
            key=lambda one: (not self._read.asks_for(one), -self._read.properties[one.owned][2])
        )
        if given and self._read.asks_for(given[0]):  # nothing beside it that nobody mentions
            given = [one for one in given if self._read.asks_for(one) or self._read.words_of(one)]
        return given

    def _is_of_other(self, place: Place, named: Sequence[set[int]]) -> bool:
        """Return whether all words that mention a property name something else.

        ``named``: the positions of the words for that. "Its bank's country is Malta" asks for no
        further country.
        """
        words = {*self._read.words_of(place)}
        return bool(words) and any(words <= other for other in named)

    def _nodes_beside(self, pattern: Pattern, state: ConditionState) -> list[NodeRef]:
        """Return the nodes that the question lists as columns; compared ones are left out."""
        compared = {one.left for one in state.where}
        return [
            NodeRef(hop.target)
            for hop in pattern.hops
            if self._is_beside(self._read.mentions.of(hop.relation))
            and NodeRef(hop.target) not in compared
            and pattern.nodes[hop.target] not in self._read.parts.value_nodes
        ]

    def _showable(self, places: Sequence[Place]) -> list[Place]:
        """Return the properties that a plan may output for each node."""
        return [
            place
            for place in places
            if self._read.properties[place.owned][2] > 0
            or self._read.asks_for(place)
            or (place.of_answer and self._is_beside(self._read.words_of(place)))
        ]

    def _is_beside(self, words: Sequence[int]) -> bool:
        """Return whether any of ``words`` (positions) is in the question's list of columns."""
        match = SHOWN_WITH.search(self._read.question)
        return match is not None and max(words, default=-1) > self._read.mentions.at(match.start())

    def _is_of_hop(self, pattern: Pattern, place: Place) -> bool:
        """Return whether an output column names a relation, and a property only in part.

        ``place``: the property.
        """
        mentions, words = self._read.mentions, {*self._read.words_of(place)}
        if mentions.share(place.property.name, place.owned[1]) == 1 or not self._is_beside(
            sorted(words)
        ):
            return False
        said = (hop.relation for hop in pattern.hops if mentions.share(hop.relation) == 1)
        return any(words <= {*mentions.of(one)} for one in said)

    def _asks_property(self, place: Place, state: ConditionState) -> bool:
        """Return whether the question asks for the value of ``place``, not for nodes with it."""
        named = self._names_itself(state) and place.of_answer
        return named or self._read.asks_for(place)

    def _gives_number(self, plan: Plan, places: Sequence[Place], state: ConditionState) -> bool:
        """Return whether a plan outputs a numeric property of a named node: "how many games"."""
        asked = HOW_MANY.match(self._read.question) and self._names_itself(state)
        return bool(asked) and any(
            place.ref == plan.give[0] and place.of_answer and self._read.asks_for(place)
            for place in places
        )

    def _names_itself(self, state: ConditionState) -> bool:
        """Return whether the question names the nodes that a plan outputs."""
        named = ("=",) if self._read.choice else ("=", "in")
        return any(
            one.operator in named and (one.left == NodeRef(0) or one.left in state.names)
            for one in state.where
        )

    def _named_before_no(self) -> tuple[set[str], set[str]]:
        """Return the ids and texts named before a negation: its subjects, and all others.

        In "games that Ann did not win" Ann is the subject; in "games by Ann that did not win" the
        games are.
        """
        mentions, subjects, others = self._read.mentions, set[str](), set[str]()
        no = min(self._read.denied(1), default=0)
        for value in self._read.values:
            first, last = mentions.at(value.start), mentions.at(value.end - 1)
            if last < no - 1:
                before = [word for word in mentions.words[:first] if word not in ("the", "a", "an")]
                is_of = before[-1:] and before[-1] in words("prepositions")
                is_subject = not is_of and denies_verb(self._read.question, value.end)
                (subjects if is_subject else others).update(*value.fields.values())
        return subjects, others

    def _without(
        self, pattern: Pattern, places: Sequence[Place], state: ConditionState, base: float
    ) -> Iterator[ScoredPlan]:
        """Yield plans whose last hop or hops are negated; none if there is nothing to negate.

        ``base``: the score of pattern and conditions.
        """
        denied = any(one.operator == "missing" for one in state.where)  # of "no website"
        if not pattern.hops or state.having is not None or denied:
            return
        split = self._denied_last(pattern, state)
        if split is None:
            return
        if state.absent:
            places = list(self._read.places(split[0]))
        pattern, state, start = split
        inside: set[object] = {NodeRef(hop.target) for hop in pattern.hops[start:]}
        inside |= {HopRef(hop) for hop in range(start, len(pattern.hops))}
        inner = tuple(one for one in state.where if _owner(one) in inside)
        outer = tuple(one for one in state.where if one not in inner)
        if not state.absent:  # "never a cancelled trip" denies the trip alone
            inner = tuple(map(self._affirmed, inner))
        asked = [place.ref for place in places if place.of_answer and self._read.asks_for(place)]
        score = self._denied(pattern.hops[start:], inner, base)
        score += WEIGHTS["named_thing_given"] * (
            not asked and self._names_itself(replace(state, where=outer))
        )
        none = self._read.whole["aggregate"]["none"] + self._read.whole["having"]["no"]
        given: list[tuple[Item, float]] = [(asked[0] if asked else NodeRef(0), 0.0)]
        given += [
            (one.item, odds - none)
            for one, odds in self._aggregates(pattern, places, state)
            if isinstance(one, _Total)
        ]
        without = (Without(pattern.hops[start:], inner),)
        for item, extra in given:
            limit = None if isinstance(item, Aggregate) else self._read.stated.limit
            try:
                plan = Plan(
                    pattern.nodes, pattern.hops[:start], outer, without, (), (), limit, (item,)
                )
            except PlanError:
                continue
            yield ScoredPlan(plan, score + extra)

    def _affirmed(self, one: Comparison) -> Comparison:
        """Return a comparison, of a flag that is false since the question denies it: true.

        A flag whose opposite the question has stays false.
        """
        left = one.left
        if one.right != (False,) or not isinstance(left, PropertyRef):
            return one
        if says_opposite(self._read.question, left.name):
            return one
        return replace(one, right=(True,))

    def _denied_last(
        self, pattern: Pattern, state: ConditionState
    ) -> tuple[Pattern, ConditionState, int] | None:
        """Return a pattern with the hops to negate last, its conditions, and the first such hop.

        None if the absent nodes cannot be separated from the others.
        """
        start = len(pattern.hops) - 1
        if not state.absent:
            while start and self._only_leads_on(pattern, start, state):
                start -= 1  # clients without a card: by way of their accounts
            return pattern, state, start
        kept = {owner.node for each in state.where for owner in owners(each)
                if isinstance(owner, NodeRef)} - state.absent  # fmt: skip
        last = absence(pattern.hops, state.absent, kept)
        if last is None:
            return None
        start = len(pattern.hops) - len(last)
        pattern, where = with_last(pattern, state.where, last)
        return pattern, replace(state, where=where, absent=frozenset()), start

    def _denied(self, hops: Sequence[Hop], inner: Sequence[Comparison], base: float) -> float:
        """Return the score of a plan that negates ``hops`` with the conditions ``inner``.

        ``base``: the score of pattern and conditions.
        """
        relations = {hop.relation for hop in hops}
        odds = max(
            row[2] for (_, relation, _), row in self._read.hops.items() if relation in relations
        )
        if any(self._read.denied(3) & {*self._read.mentions.of(one)} for one in relations):
            odds = max(odds, 0.0)
        whole = self._read.whole["without"]["yes"] - self._read.whole["without"]["no"]
        score = base + odds + whole
        score += self._read.whole["aggregate"]["none"] + self._read.whole["direction"]["none"]
        subjects, others = self._before_no
        absent = {id_ for one in inner if isinstance(one.right, tuple) for id_ in one.right}
        if absent & subjects:
            score += WEIGHTS["denied_subject"]
        elif absent & others:
            score += WEIGHTS["denied_bystander"]
        score += WEIGHTS["denied_other_relation"] * self._denies_another(relations)
        if NO.search(self._read.bare):
            score += WEIGHTS["hop_denied"]
        return score

    def _denies_another(self, relations: set[str]) -> bool:
        """Return whether the question denies a relation, and not all of ``relations``.

        In "on display in the hall that nobody restored" no word of the display stands after the
        "nobody", but that of another relation.
        """
        mentions, no = self._read.mentions, min(self._read.denials, default=-1)
        said = {name: {*mentions.of(name)} for (_, name, _), one in self._read.said.items() if one}
        after = {name for name, words in said.items() if max(words, default=-1) > no >= 0}
        return bool(after - relations if not relations & after else relations & said.keys() - after)

    def _only_leads_on(self, pattern: Pattern, hop: int, state: ConditionState) -> bool:
        """Return whether a hop only continues the hop before it, from a node named after the "no".

        The node has no condition, and the relation before it no words of its own.
        """
        before, this, read = pattern.hops[hop - 1], pattern.hops[hop], self._read
        no = min(read.denied(1), default=0)
        return (
            before.target == this.source
            and all(at >= no > 0 for at in read.class_words(pattern.nodes[this.source]))
            and {*read.mentions.of(before.relation)}
            <= {*read.class_words(pattern.nodes[before.source])}
            and all(_owner(one) != NodeRef(this.source) for one in state.where)
        )


@dataclass(frozen=True, slots=True)
class _Total:
    """An aggregate over all solutions."""

    item: Aggregate


@dataclass(frozen=True, slots=True)
class _Grouped:
    """An aggregate for each group."""

    by: NodeRef | PropertyRef
    item: Aggregate


def _owner(one: Comparison) -> object:
    """Return the node or fact that the left side of a comparison is about."""
    return one.left.owner if isinstance(one.left, PropertyRef) else one.left

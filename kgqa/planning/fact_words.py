"""Adapts plans to words about facts: when they hold, in which direction, and how many.

A relation that holds both ways is walked both ways. "Works" asks for facts that have not ended,
"worked in 2016" for those whose time has that year in it, "no longer works" for those that ended.
Between two things there may be several facts: "how many times" counts them, "how many hours" adds
up what they say, "last" takes the latest, and "bought the most" adds up a quantity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from kgqa.errors import PlanError
from kgqa.lexicon.english import words
from kgqa.lexicon.lemmas import stem
from kgqa.lexicon.tokens import tokens
from kgqa.paths.words import holds_both_ways, relation_phrase
from kgqa.planning.question_words import says
from kgqa.planning.time_spans import are_years
from kgqa.queries.check import NUMBERS
from kgqa.queries.plan import (
    Aggregate,
    Comparison,
    HopRef,
    NodeRef,
    Plan,
    PropertyRef,
    Sort,
)
from kgqa.queries.sentence import PAST_VERBS
from kgqa.queries.values import DATES
from kgqa.understanding.asked import asks_how_much, asks_times, asks_which_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kgqa.graph.schema import Property
    from kgqa.queries.check import SchemaIndex
    from kgqa.queries.plan import Operator

_YEAR = 4  # digits


@dataclass(frozen=True, slots=True)
class ValidityDates:
    """The properties that hold the begin and the end of a fact, where it has them."""

    begin: Property | None
    end: Property | None


@dataclass(frozen=True)
class FactWords:
    """Adapts plans to what a question says about facts.

    ``bare``: the question without names; ``today``: as YYYY-MM-DD.
    """

    question: str
    bare: str
    index: SchemaIndex
    today: str

    @cached_property
    def _silent(self) -> bool:
        """Whether no relation of the graph has properties or a symmetric name to adapt to."""
        return not asks_times(self.question) and not any(
            relation.properties
            or (relation.head == relation.tail and holds_both_ways(relation.relation))
            for relation in self.index.schema.relations
        )

    @cached_property
    def _said(self) -> set[str]:
        """The words of the question without names."""
        return {token.word for token in tokens(self.bare)}

    def meant(self, plan: Plan) -> Plan:
        """Return ``plan`` adapted to the question's words about facts.

        Unchanged if none applies.
        """
        if self._silent or plan.first is not None or not plan.all_hops:
            return plan
        try:
            for change in (self._both_ways, self._when, self._amount, self._place, self._quantity):
                plan = change(plan)
        except PlanError:
            return plan
        return plan

    def _both_ways(self, plan: Plan) -> Plan:
        """Return the plan with hops of symmetric relations matched in both directions."""

        def walked(hop: int) -> bool:
            """Return whether a hop's relation is symmetric within one class."""
            one = plan.all_hops[hop]
            same = plan.nodes[one.source] == plan.nodes[one.target]
            return same and not one.repeated and holds_both_ways(one.relation)

        either = [
            replace(hop, inverse=False, either=True) if walked(at) else hop
            for at, hop in enumerate(plan.all_hops)
        ]
        if not any(hop.either for hop in either):
            return plan
        without, at = [], len(plan.hops)
        for part in plan.without:
            without.append(replace(part, hops=tuple(either[at : at + len(part.hops)])))
            at += len(part.hops)
        return replace(plan, hops=tuple(either[: len(plan.hops)]), without=tuple(without))

    def _when(self, plan: Plan) -> Plan:
        """Return the plan restricted to facts that hold when the question says; else unchanged."""
        said = self._said
        ended = bool(said & {"anymore", "formerly", "former"}) or "used to" in self.bare.lower()
        if ended and len(plan.without) == 1 and not plan.hops:  # a fact that ended did exist
            part = plan.without[0]
            plan = replace(plan, hops=part.hops, where=(*plan.where, *part.where), without=())
        for number, hop in enumerate(plan.hops):
            span = span_of(self.index.hop_properties(hop, plan.nodes))
            if span.end is None:
                continue
            owners = {
                PropertyRef(HopRef(number), one.name) for one in (span.begin, span.end) if one
            }
            about = [one for one in plan.where if one.left in owners]
            end = PropertyRef(HopRef(number), span.end.name)
            patterns = self.index.patterns(hop, plan.nodes)
            open_ = any(
                property_.count < pattern.count
                for pattern in patterns
                for property_ in pattern.properties
                if property_.name == span.end.name
            )
            if len(about) == 1 and about[0].operator == "=":
                plan = self._within(plan, number, span, about[0])
            elif not about and ended:
                plan = _with(plan, Comparison(end, "<", (self._day(span.end),)))
            elif not about and open_ and self._is_present(hop.relation, said):
                operator: Operator = "missing or >="
                plan = _with(plan, Comparison(end, operator, (self._day(span.end),)))
        return plan

    def _within(self, plan: Plan, number: int, span: ValidityDates, one: Comparison) -> Plan:
        """Return the plan with the time of the condition ``one`` within the span of a fact.

        ``number``: of the hop. Unchanged if facts have no begin, or the question asks when they
        begin or end.
        """
        assert span.end is not None
        assert isinstance(one.right, tuple)
        if self._said & (words("begun") | words("over")) or span.begin is None:
            return plan
        begin, end = (PropertyRef(HopRef(number), each.name) for each in (span.begin, span.end))
        both = (
            Comparison(begin, "missing or <=", one.right),
            Comparison(end, "missing or >=", one.right),
        )
        return replace(plan, where=(*(each for each in plan.where if each != one), *both))

    def _day(self, end: Property) -> str | int:
        """Return today as a date, or as a year if the property ``end`` is a number."""
        return int(self.today[:_YEAR]) if end.type in NUMBERS else self.today

    def _is_present(self, relation: str, said: set[str]) -> bool:
        """Return whether the question asks for present facts, by its words or its verb's tense.

        ``said``: the question's words.
        """
        if said & words("past"):
            return False
        if said & words("present"):
            return True
        verbs = [one for one in self.bare.lower().split() if says([one], relation)]
        return bool(verbs) and not any(verb.endswith("ed") or verb in PAST_VERBS for verb in verbs)

    def _amount(self, plan: Plan) -> Plan:
        """Return a plan that counts facts, or sums a number of facts, if "how many" asks for it.

        Otherwise the plan itself.
        """
        if plan.group or plan.order:
            return plan
        if asks_times(self.question):
            hop = self._hop_said(plan)
            if hop is None or plan.without:
                return plan
            return replace(plan, give=(Aggregate("count", HopRef(hop)),))
        if plan.grouped:
            return plan
        given = plan.give[0]
        if (
            len(plan.give) == 1
            and self._is_fact_number(plan, given)
            and asks_how_much(self.question)
        ):
            return replace(plan, give=(Aggregate("sum", given),))  # type: ignore[arg-type]
        return plan

    def _hop_said(self, plan: Plan) -> int | None:
        """Return the number of the only hop, or of the only one whose relation is mentioned.

        None if several hops remain.
        """
        if len(plan.hops) == 1:
            return 0
        said = [
            at
            for at, hop in enumerate(plan.hops)
            if says(self.bare.lower().split(), relation_phrase(hop.relation))
        ]
        return said[0] if len(said) == 1 else None

    def _is_fact_number(self, plan: Plan, item: object) -> bool:
        """Return whether an item is a numeric property of a fact."""
        if not isinstance(item, PropertyRef) or not isinstance(item.owner, HopRef) or item.part:
            return False
        kind = self.index.kind(plan, item)
        return kind is not None and kind.type in NUMBERS and not kind.many

    def _place(self, plan: Plan) -> Plan:
        """Return the plan with the first or last day of several facts, if the question asks for it.

        Otherwise the plan itself.
        """
        which = asks_which_time(self.bare)
        days = [
            one
            for one in plan.give
            if isinstance(one, PropertyRef)
            and isinstance(one.owner, HopRef)
            and self._is_day(plan, one)
        ]
        if not which or len(days) != 1 or plan.order or plan.grouped:
            return plan
        return replace(plan, give=(days[0],), order=(Sort(days[0], which == "last"),), limit=1)

    def _is_day(self, plan: Plan, item: PropertyRef) -> bool:
        """Return whether a property is a date."""
        kind = self.index.kind(plan, item)
        return kind is not None and kind.type in DATES and not item.part

    def _quantity(self, plan: Plan) -> Plan:
        """Return the plan with a quantity of a named node's facts summed instead of counted.

        Unchanged unless exactly one property is such a quantity.
        """
        named = {
            one.left.owner if isinstance(one.left, PropertyRef) else one.left
            for one in plan.where
            if one.operator in ("=", "in")
        }
        for number, hop in enumerate(plan.hops):
            counted = Aggregate("count", NodeRef(hop.target))
            if NodeRef(hop.target) not in named or counted not in plan.items():
                continue
            there = self.index.hop_properties(hop, plan.nodes)
            many = [
                one
                for one in there.values()
                if one.type in NUMBERS
                and not one.many
                and {*relation_phrase(one.name).split()} & words("quantities")
            ]
            if len(many) == 1:
                total = Aggregate("sum", PropertyRef(HopRef(number), many[0].name))
                give = tuple(total if one == counted else one for one in plan.give)
                order = tuple(
                    replace(one, by=total) if one.by == counted else one for one in plan.order
                )
                return replace(plan, give=give, order=order)
        return plan


def span_of(there: Mapping[str, Property]) -> ValidityDates:
    """Return the properties that hold the begin and the end of a fact, each None if it has none.

    >>> from kgqa.graph.schema import Property
    >>> span_of({"from": Property("from", "date"), "to": Property("to", "date")}).end.name
    'to'
    """
    found: dict[str, Property | None] = {"begins": None, "ends": None}
    for one in there.values():
        said = {stem(word) for word in relation_phrase(one.name).split()}
        timed = one.type in DATES or are_years(one)
        for kind in found:
            if timed and not one.many and found[kind] is None and said & words(kind):
                found[kind] = one
    return ValidityDates(found["begins"], found["ends"])


def _with(plan: Plan, one: Comparison) -> Plan:
    """Return the plan with one more condition."""
    return replace(plan, where=(*plan.where, one))

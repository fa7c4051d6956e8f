"""Sets of conditions that a question's values and literals may express, the best first."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kgqa.graph.moments import length_text
from kgqa.graph.quantities import UNITS
from kgqa.lexicon.english import opposites
from kgqa.lexicon.english import words as english_words
from kgqa.paths.words import relation_phrase
from kgqa.planning.bounds import bound_before, compared
from kgqa.planning.evidence import UNUSED, is_id
from kgqa.planning.negation import OPPOSITE, denies, denies_comparison, denies_itself
from kgqa.planning.question_words import (
    ALIVE,
    AVERAGE,
    COMPARED,
    DEAD,
    DEATH,
    NO,
    PLACE,
    TOTAL,
    is_dated,
    is_year,
    measured,
    names_class,
    place_won,
    stems,
)
from kgqa.planning.schema_parts import ENTITY, FoundValue, Owned
from kgqa.planning.time_spans import begin_and_end
from kgqa.queries.check import NUMBERS, operators
from kgqa.queries.plan import NOT_OF_CLASS, Aggregate, Comparison, NodeRef, PropertyRef, owners
from kgqa.queries.values import DATES
from kgqa.understanding.asked import asks_best, same_or_different, still_or_not
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kgqa.graph.schema import Property
    from kgqa.planning.evidence import Pattern, Place, QuestionReading
    from kgqa.queries.plan import AggregateKind, Operator
    from kgqa.understanding.literals import Stating

WEIGHTS = weights("planning")
CONDITIONS = 6  # states kept: the beam's width
_UNSAID = 2  # distance added for a property that is not mentioned
_NEAR = 9  # distance in words from which a mention is not near
_UNLIKELY = -1  # log-odds below which a flag is not compared unless it is said
_SHARED = 6  # most words between two properties compared with one number
_BESIDE = 40  # most characters between "average" and its number
_IN_A_YEAR = re.compile(
    r"\b(?:in|on|since|before|after|during|until|by|of|season|year|between|from"
    r"|(?:between|from) \d{4} (?:and|to))(?: the)? $",
    re.I,
)
_EQUAL: dict[tuple[bool, bool], Operator] = {  # by whether there are several, and it is denied
    (False, False): "=", (True, False): "in", (False, True): "<>", (True, True): "not in",
}  # fmt: skip
_LIVING: dict[Operator, re.Pattern[str]] = {"missing": ALIVE, "not missing": DEAD}
_ANY = re.compile(r"any|some")
_NOR = re.compile(r"\bnor\b(?: the| an?| in)?\W*$", re.I)
_HAVING = re.compile(r"with|have|has|having|had|includ\w*|known|whose")


@dataclass(frozen=True, slots=True)
class ConditionState:
    """A set of conditions over a pattern, with the properties used and its score."""

    where: tuple[Comparison, ...] = ()
    used: frozenset[Owned] = frozenset()
    names: frozenset[PropertyRef] = frozenset()  # those of ``used`` that are names of their owners
    having: Comparison | None = None
    score: float = 0.0
    absent: frozenset[int] = frozenset()  # nodes that must be absent from the answers
    denied: int = 0  # comparisons negated because of the question

    def also(self, one: Comparison, worth: float, **changes: Any) -> ConditionState:
        """Return the state with the condition ``one`` added, whose score is ``worth``.

        ``changes``: further fields to set.
        """
        return replace(self, where=(*self.where, one), score=self.score + worth, **changes)

    def without(self, node: int) -> ConditionState:
        """Return the state in which a node, with its conditions, must not exist for an answer."""
        return replace(self, absent=self.absent | {node})

    def instead(self, one: Comparison, worth: float) -> ConditionState:
        """Return the state with its last condition replaced by ``one``, whose score is ``worth``.

        The score of the old condition is kept.
        """
        return replace(self, where=(*self.where[:-1], one), score=self.score + worth)


class _Holding(NamedTuple):
    """A property or node of a pattern that a stored value may be a condition on."""

    left: NodeRef | PropertyRef
    node: int  # itself, or the property's
    stored: tuple[str, ...]
    odds: float
    is_name: bool  # whether the value is the name of what has it
    is_entity: bool
    used: frozenset[Owned]  # the properties of the state with the condition
    names: frozenset[PropertyRef]


def _in_time(literal: Stating, value: object, type_: str) -> str:
    """Return a number as the year or duration that it states for a property type, "" otherwise."""
    if type_ in DATES and is_year(value):
        return f"{value}"
    if type_ == "duration" and literal.read and literal.read.unit == "s":
        return length_text(literal.read.amount or 0)
    return ""


def _part(place: Place, part: Literal["size", "month"]) -> Place:
    """Return a part of a property: its number of values, or the month of its date."""
    return replace(place, ref=replace(place.ref, part=part))


def _node_of(owner: object, pattern: Pattern) -> int:
    """Return the node of a property's owner; for a fact, the node that its hop leads to."""
    return owner.node if isinstance(owner, NodeRef) else pattern.hops[owner.hop].target  # type: ignore[attr-defined]


def _first(relation: str) -> str:
    """Return the first word of a relation's name."""
    return relation_phrase(relation).split()[0]


def _steps_at(pattern: Pattern, node: int) -> set[tuple[str, bool]]:
    """Return the relations at a node of a pattern, as (relation, whether the node is its tail)."""
    ends = [
        (hop, hop.inverse if hop.source == node else not hop.inverse)
        for hop in pattern.hops
        if node in (hop.source, hop.target)
    ]
    return {(hop.relation, is_tail) for hop, is_tail in ends}


def _has_condition(state: ConditionState, node: int, pattern: Pattern) -> bool:
    """Return whether a condition is on a node or on the fact of the hop that leads to it."""
    return any(
        _node_of(owner, pattern) == node for one in state.where for owner in owners(one.left)
    )


def _is_another(state: ConditionState, one: _Holding) -> bool:
    """Return whether a node must be another entity already: no thing is both Bonn and Ghent."""
    return any(
        each.left == one.left and each.operator == "=" and not {*one.stored} & {*each.right}
        for each in state.where
        if isinstance(each.right, tuple) and isinstance(one.left, NodeRef)
    )


def _walked_alike(state: ConditionState, pattern: Pattern, node: int) -> bool:
    """Return whether another node with a condition is reached by the same hop as ``node``."""
    into = {hop.target: (hop.source, hop.relation, hop.inverse) for hop in pattern.hops}
    named = {
        owner.node for each in state.where for owner in owners(each) if isinstance(owner, NodeRef)
    }
    return any(into.get(one) == into.get(node) for one in named - {node, 0})


def in_unit(literal: Stating, property_: Property) -> float | int | str:
    """Convert a literal to the unit of a property, in its values or at the end of its name.

    Its value is returned unchanged if either has no unit, or they measure different things.
    """
    last = relation_phrase(property_.name).split()[-1]
    said = last if last in UNITS or property_.form is None else property_.form.unit.casefold()
    unit, times = UNITS.get(said, ("", 1.0))
    read = literal.read
    if not unit or read is None or read.amount is None or read.unit != unit:
        return literal.value
    amount = read.amount / times
    short = round(amount, 9)
    if abs(short - amount) > 4 * math.ulp(amount):  # a third, which no bound may round up
        return amount
    return int(short) if short.is_integer() else short


class ConditionSearch:
    """Generates sets of conditions for the patterns of one reading by beam search.

    For each stored value and each literal of the question, every state is extended by the
    conditions that it may be; the best states are kept.
    """

    def __init__(self, reading: QuestionReading) -> None:
        self._read = reading

    def conditions(self, pattern: Pattern, places: Sequence[Place]) -> list[ConditionState]:
        """Return the best sets of conditions for a pattern, over its properties ``places``."""
        states = [ConditionState()]
        for value in self._read.values:
            states = self._best(self._with_value(state, value, pattern, places) for state in states)
        spans = [(one.start, one.end) for one in self._read.values]
        for literal in self._read.stated.literals:
            if any(start < literal.end and literal.start < end for start, end in spans):
                continue
            states = self._best(
                self._with_literal(state, literal, pattern, places) for state in states
            )
        pairs = [
            (WEIGHTS["properties_compared"], one) for one in self._compared(places)
        ] + self._averaged(places)
        if pairs:
            states = self._best(self._with_pair(state, pairs) for state in states)
        states = self._best(self._with_flags(state, places) for state in states)
        if self._read.beside and not pattern.hops:
            states = self._best(self._with_class(state, pattern) for state in states)
        return states

    def _with_class(self, state: ConditionState, pattern: Pattern) -> Iterator[ConditionState]:
        """Yield ``state``, and the states that require or exclude a second class of the answers.

        The class must be mentioned by words that do not mention the first one.
        """
        yield state
        own = {*self._read.class_words(pattern.nodes[0])}
        for name in sorted(self._read.beside - {pattern.nodes[0]}):
            said = [at for at in self._read.class_words(name) if at not in own]
            if own and said and max(said) > min(own):
                start = self._read.mentions.start_of(max(said))
                denied = denies(self._read.question, start)
                operator: Operator = NOT_OF_CLASS if denied else "is a"
                worth, odds = WEIGHTS["second_class"], self._read.whole["without"]
                if denied:  # as a negated hop
                    worth += max(0.0, odds["yes"] - odds["no"]) + WEIGHTS["comparison_denied"]
                yield state.also(Comparison(NodeRef(0), operator, (name,)), worth)

    @staticmethod
    def _best(options: Iterator[Iterator[ConditionState]]) -> list[ConditionState]:
        """Return the best ``CONDITIONS`` states of all ``options``, best first."""
        every = (state for some in options for state in some)
        return nlargest(CONDITIONS, every, key=lambda one: one.score)

    def _add(
        self, state: ConditionState, place: Place, operator: str, value: object, bonus: float
    ) -> ConditionState:
        """Return the state with a comparison of a property added.

        Its score gains the odds of the property, unless used before, and ``bonus``.
        """
        one = Comparison(place.ref, operator, (value,))  # type: ignore[arg-type]
        worth = self._odds(state, place) + bonus
        return state.also(one, worth, used=state.used | {place.owned})

    def _odds(self, state: ConditionState, place: Place) -> float:
        """Return the log-odds that a property is compared, 0 if the state compares it already."""
        return 0.0 if place.owned in state.used else self._read.properties[place.owned][0]

    def _with_value(
        self, state: ConditionState, value: FoundValue, pattern: Pattern, places: Sequence[Place]
    ) -> Iterator[ConditionState]:
        """Yield the state with a stored value unused, and with each condition that it may be."""
        question = self._read.question
        yield replace(state, score=state.score + self._read.unused(value))
        bound = bound_before(question, value.start) if value.holds else None
        bounded = list(self._with_bound(state, value, bound, pattern, places)) if bound else []
        either = list(self._either(state, value, pattern, places))
        yield from (*bounded, *either)
        if either and _NOR.search(question[: value.start]):
            return  # neither of them, not: not both
        if bound and bounded and (bound["er"] or bound["degree"]):
            return  # "older than Ann" is about no other fact of Ann
        suits = bound is not None and self._suits(bound, value)
        for one in self._holding(state, value, pattern, places):
            worth = one.odds + WEIGHTS["value_held"]
            if bound is not None and not one.node and one.is_name:
                worth += WEIGHTS["bound_itself"]
            elif suits:
                worth += WEIGHTS["bound_elsewhere"]
            if not (one.is_entity and _is_another(state, one)):
                yield from self._with_holding(state, value, one, worth, pattern)

    def _suits(self, bound: re.Match[str], value: FoundValue) -> bool:
        """Return whether a named entity has a property that a comparative phrase may be about."""
        types = self._read.parts.index.types
        return any(
            compared(bound, one, mentioned=False) is not None
            for class_ in dict.fromkeys(class_ for class_, _ in value.holds)
            for one in types[class_].properties
            if (class_, one.name) in value.holds
        )

    def _with_holding(
        self, state: ConditionState, value: FoundValue, one: _Holding, worth: float,
        pattern: Pattern,
    ) -> Iterator[ConditionState]:  # fmt: skip
        """Yield the state with a stored value as the condition ``one``, whose score is ``worth``.

        Nothing if the question denies the value where a plan cannot.
        """
        question, own = self._read.question, not one.node
        denied = denies(question, value.start)
        others = denied and denies_itself(question, value.start)
        if denied and (not others if own and one.is_name
                       else not own and _has_condition(state, one.node, pattern)):  # fmt: skip
            return  # an affirmed condition comes earlier
        if denied and one.is_entity and self._is_alike(value):
            worth += WEIGHTS["denied_at_same_place"] * (
                -1 if own else _walked_alike(state, pattern, one.node)
            )
        operator = _EQUAL[len(one.stored) > 1, denied and own]
        found = Comparison(one.left, operator, one.stored)
        added = state.also(found, worth, used=one.used, names=one.names)
        yield added.without(one.node) if denied and not own else added

    def _holding(
        self, state: ConditionState, value: FoundValue, pattern: Pattern, places: Sequence[Place]
    ) -> Iterator[_Holding]:
        """Yield the properties, then the nodes, that a stored value may be a condition on."""
        shares = {
            place.ref: self._share_before(place, value)
            for place in places if place.owned in value.fields
        }  # fmt: skip
        most = max(shares.values(), default=0.0)
        for place in places:
            if stored := value.fields.get(place.owned):
                node, is_name = _node_of(place.ref.owner, pattern), self._read.is_name(place)
                names = state.names | {place.ref} if is_name and not node else state.names
                odds = self._odds(state, place)
                odds += WEIGHTS["value_named"] * most * (shares[place.ref] == most)
                odds += WEIGHTS["value_of_node"] * self._is_of_node(
                    place.ref.owner, value.start, pattern
                )
                yield _Holding(
                    place.ref, node, stored[:1], odds, is_name,
                    bool(value.things), state.used | {place.owned}, names,
                )  # fmt: skip
        for node, name in enumerate(pattern.nodes):
            if stored := value.entities(name, _steps_at(pattern, node)):
                odds = self._read.properties.get((ENTITY, name, "name"), (0.0,))[0]
                odds += WEIGHTS["preposition_said"] * self._leads_to(node, value, pattern)
                yield _Holding(
                    NodeRef(node), node, stored, odds, True, True, state.used, state.names
                )

    def _leads_to(self, node: int, value: FoundValue, pattern: Pattern) -> int:
        """Return 1 if a preposition before a value is that of the relation to ``node``, else 0.

        -1 if it is that of another relation between the same classes: "to Bonn" is not ``from``.
        Verbs of coming and going do as well: "which trains reach Bonn".
        """
        hop = next((one for one in pattern.hops if one.target == node), None)
        if hop is None or self._read.plain:
            return 0
        said = self._read.direction_before(value.start)
        mine, ends = _first(hop.relation), {pattern.nodes[hop.source], pattern.nodes[node]}
        alike = {_first(one[1]) for one in self._read.hops if {one[0], one[2]} == ends}
        if not said & alike:
            return 0
        return 1 if mine in said else -1

    def _share_before(self, place: Place, value: FoundValue) -> float:
        """Return which part of a property's name the question has right before a value, 0 to 1.

        "The bank's country is Malta" has all of ``bank_country``, "the sender bank in Malta" two
        words of ``sender_bank_country``. 0 for one word of several, which may be a class.
        """
        name, mentions = relation_phrase(place.property.name).split(), self._read.mentions
        first, said = mentions.at(value.start), {*self._read.words_of(place)}
        found = len(said.intersection(mentions.before(first)[-len(name) :]))
        return found / len(name) if found > 1 else 0.0

    def _is_alike(self, value: FoundValue) -> bool:
        """Return whether the question names another entity with one of the value's relations."""
        mine = {step for steps in value.steps.values() for step in steps}
        return any(
            other is not value and mine & {step for steps in other.steps.values() for step in steps}
            for other in self._read.values
        )

    def _with_bound(
        self, state: ConditionState, value: FoundValue, said: re.Match[str], pattern: Pattern,
        places: Sequence[Place],
    ) -> Iterator[ConditionState]:  # fmt: skip
        """Yield the states in which a property of the answers is compared with a named entity's.

        ``value``: the entity; ``said``: the comparative phrase before it. Nothing if it suits no
        property.
        """
        name = pattern.nodes[0]
        for place in places:
            held = value.holds.get((name, place.property.name))
            if not place.of_answer or held is None:
                continue
            mentioned = bool(self._read.words_of(place))
            found = compared(said, place.property, mentioned=mentioned)
            if found is None:
                continue
            added = self._add(state, place, found[0], held, WEIGHTS["value_held"] + found[1])
            if found[0] == "=":
                ids = value.fields.get((ENTITY, name, "name")) or value.things.get(name, ())
                added = added.also(Comparison(NodeRef(0), "<>", tuple(ids)), 0.0)
            yield added

    def _either(
        self,
        state: ConditionState,
        said: FoundValue | Stating,
        pattern: Pattern,
        places: Sequence[Place],
    ) -> Iterator[ConditionState]:
        """Yield the state whose last condition also accepts a stored value or a literal.

        Nothing unless "or" joins the two.
        """
        last = self._either_of(state, said.start, places)
        if last is None or not isinstance(last.right, tuple):
            return
        left, owner = last.left, getattr(last.left, "owner", None)
        stored: Sequence[Any] = ()
        if not isinstance(said, FoundValue):
            if said.operator == "=" and isinstance(left, PropertyRef):
                stored = [str(said.value) if isinstance(last.right[0], str) else said.value]
        elif isinstance(left, NodeRef):
            stored = said.entities(pattern.nodes[left.node], _steps_at(pattern, left.node))
        elif isinstance(left, PropertyRef) and isinstance(owner, NodeRef):
            stored = said.fields.get(("class", pattern.nodes[owner.node], left.name), ())[:1]
        if stored:
            either = Comparison(left, "in", (*last.right, *stored))
            yield state.instead(either, WEIGHTS["value_held"])

    def _either_of(
        self, state: ConditionState, start: int, places: Sequence[Place]
    ) -> Comparison | None:
        """Return the last condition if "or" joins its value to the literal at ``start``, else None.

        So does "and", if the property belongs to the requested class and has a single value.
        """
        ends = [value.end for value in self._read.values if value.end <= start]
        ends += [literal.end for literal in self._read.stated.literals if literal.end <= start]
        last = state.where[-1] if state.where else None
        if not ends or last is None or last.operator not in ("=", "in"):
            return None
        single = any(
            last.left == place.ref and place.of_answer and not place.property.many
            for place in places
        )
        joined = rf"\W*{'(?:n?or|and)?' if single else 'n?or'}(?: the| an?| in)?\W*"
        return last if re.fullmatch(joined, self._read.question[max(ends) : start], re.I) else None

    def _with_literal(
        self, state: ConditionState, literal: Stating, pattern: Pattern, places: Sequence[Place]
    ) -> Iterator[ConditionState]:
        """Yield the state with a literal unused, and with each comparison that it may be."""
        kind = "quoted" if literal.kind == "text" else literal.kind
        if kind == "quoted" and str(literal.value) in self._read.parts.names:
            yield state
            return
        times = WEIGHTS["unused_literal_of_triples"] if self._read.plain else 1.0
        times += WEIGHTS["unused_comparison"] * (literal.operator not in ("=", "contains"))
        times += WEIGHTS["unused_year"] * self._is_in_a_year(literal)
        yield replace(state, score=state.score + times * UNUSED[kind])
        close = self._closeness(literal, places, pattern)
        said = literal.said if literal.said >= 0 else literal.start
        denied = literal.operator in OPPOSITE and denies_comparison(self._read.question, said)
        yield from self._either(state, literal, pattern, places)
        for place in places:
            for meant, operator, value, worth in self._meant(literal, place, close[place.ref]):
                if denied:
                    yield self._with_denied(state, meant, operator, value, worth, pattern)
                    continue
                added = self._add(state, meant, operator, value, worth)
                yield added
                if literal.kind == "number" and meant is place and place.is_number:
                    for other in self._beside(place, literal, places):
                        if other.owned not in state.used:
                            yield self._add(added, other, operator, value, worth)
        if (literal.operator, literal.value) == (">=", 1) and pattern.hops:
            yield state  # a hop is one, at least
        if literal.kind == "number" and state.having is None:
            yield from self._with_number(state, literal, pattern, places, close)

    def _is_in_a_year(self, literal: Stating) -> bool:
        """Return whether a number states a year: "in 1997"."""
        before = self._read.question[: literal.start]
        return is_year(literal.value) and bool(_IN_A_YEAR.search(before))

    def _meant(
        self, literal: Stating, place: Place, near: float
    ) -> Iterator[tuple[Place, str, object, float]]:
        """Yield the comparison that a literal may be at a property; nothing if the two do not suit.

        It is the property or a part of it, the operator, the value, and the score. ``near``: the
        score for the distance of the literal from the property's mention.
        """
        type_, operator = place.property.type, literal.operator
        value = in_unit(literal, place.property)
        dated = WEIGHTS["date_by_type"] + near
        if literal.kind == "text":
            if type_ == "text" and operator in operators(type_):
                lacking = place.owned in self._read.lacking.get(str(value), ())
                near += WEIGHTS["text_in_no_value"] * lacking
                if operator == "=":
                    operator, near = "contains", near + WEIGHTS["text_held_by_none"]
                yield place, operator, value, near
        elif literal.kind == "number" and place.property.many:
            if near > 0:
                yield _part(place, "size"), operator, value, near
        elif literal.kind == "number" and type_ in NUMBERS:
            if self._is_in_a_year(literal):
                dated_ = is_dated(place.property)
                near += WEIGHTS["year_on_date"] if dated_ else WEIGHTS["year_on_other_number"]
            yield place, operator, value, near
        elif literal.kind == "number":
            if when := _in_time(literal, value, type_):
                yield place, operator, when, dated
        elif type_ == "integer" and len(str(value)) == len("2000"):
            yield place, operator, int(str(value)), near
        elif type_ in DATES and len(str(value)) == len("12"):  # a month of any year
            yield _part(place, "month"), operator, int(str(value)), dated
        elif type_ in DATES:
            yield place, operator, value, dated

    def _with_denied(
        self, state: ConditionState, place: Place, operator: str, value: object, worth: float,
        pattern: Pattern,
    ) -> ConditionState:  # fmt: skip
        """Return the state in which a comparison is negated.

        A property of the answers gets the opposite operator; of another node no fact may satisfy
        the comparison.
        """
        worth += WEIGHTS["comparison_denied"]
        if place.of_answer:
            added = self._add(state, place, OPPOSITE[operator], value, worth)
            return replace(added, denied=added.denied + 1)
        added = self._add(state, place, operator, value, worth)
        return added.without(_node_of(place.ref.owner, pattern))

    def _beside(self, place: Place, literal: Stating, places: Sequence[Place]) -> Iterator[Place]:
        """Yield other properties compared with the same number: "a height and a width over 3"."""
        words, first = self._read.mentions.words, self._read.mentions.at(literal.start)
        mine = [at for at in self._read.words_of(place) if first - _SHARED <= at < first]
        for other in places if mine else ():
            if other.ref.owner != place.ref.owner or other.property.type not in NUMBERS:
                continue
            if other.ref == place.ref or other.property.many:
                continue
            named = self._read.mentions.share(other.property.name, other.owned[1]) == 1
            theirs = (at for at in self._read.words_of(other)
                      if at not in mine and not "".join(words[at - 1 : at]).isdigit())  # fmt: skip
            if named and any(
                at < mine[-1] <= at + _SHARED and words[at + 1] == "and" for at in theirs
            ):
                yield other

    def _with_number(
        self, state: ConditionState, literal: Stating, pattern: Pattern, places: Sequence[Place],
        close: Mapping[object, float],
    ) -> Iterator[ConditionState]:  # fmt: skip
        """Yield states that compare a group's average, sum or count with a literal.

        ``close``: scores of the properties for their distance to it.
        """
        start = max(0, literal.start - _BESIDE)
        before = self._read.question[start : literal.start]
        kind: AggregateKind = "average" if AVERAGE.search(before) else "sum"
        said = AVERAGE.search(before) or TOTAL.search(before)
        if said and self._read.mentions.at(start + said.start()) not in self._read.of_whole:
            for place in places:
                if place.is_number and not place.of_answer:
                    number = Aggregate(kind, place.ref)
                    value = in_unit(literal, place.property)
                    one = Comparison(number, literal.operator, (value,))  # type: ignore[arg-type]
                    score = (
                        state.score
                        + self._read.properties[place.owned][3]
                        + WEIGHTS["aggregate_compared"]
                    )
                    yield replace(state, having=one, score=score + close[place.ref])
        read = self._read
        grouped = (bool(read.parts.repeated) and pattern.nodes[0] == read.parts.rows) or any(
            one.of_answer and read.asks_for(one) and not read.is_name(one) for one in places
        )
        for node in range(0 if grouped else 1, len(pattern.nodes)):
            name = pattern.nodes[node]
            number = Aggregate("count", NodeRef(node))
            count = Comparison(number, literal.operator, (literal.value,))  # type: ignore[arg-type]
            after = self._read.question[literal.end : literal.end + 40]
            bonus = WEIGHTS["number_before_class"] * bool(
                name in self._read.classes and self._counts(after, name)
            )
            score = state.score + self._read.classes[name][2] + bonus
            score += self._read.whole["having"]["yes"] - self._read.whole["having"]["no"]
            yield replace(state, having=count, score=score)

    def _counts(self, after: str, name: str) -> bool:
        """Return whether the words after a number name a class: in "3 car models", the last one."""
        rest = after.split(maxsplit=1)[1:]
        last = [
            class_
            for class_ in self._read.classes
            if class_ and rest and names_class(rest[0], class_)
        ]
        return name in last or (names_class(after, name) and not last)

    def _closeness(
        self, literal: Stating, places: Sequence[Place], pattern: Pattern
    ) -> dict[object, float]:
        """Return for each property, by reference, a score for the distance of literal and mention.

        In "born after 1970 and acting in films released before 2000" each year is beside its word.
        A time span is of a duration or an age, if there is one. 0 if nothing is near.
        """
        first = self._read.mentions.at(literal.start)
        last = self._read.mentions.at(literal.end - 1)
        away: dict[object, float] = {}
        for place in places:
            found = [
                first - at if at < first else 1 + WEIGHTS["distance_after"] * (at - last)
                for at in self._read.words_of(place)
                if not first <= at <= last
            ]
            unsaid = 1 - self._read.mentions.share(place.property.name, place.owned[1])
            away[place.ref] = min(found, default=99) + _UNSAID * unsaid
        nearest = min(away.values(), default=99)
        sure = WEIGHTS["literal_near_mention"] * (nearest <= _NEAR)
        close: dict[object, float] = {
            one.ref: (sure if away[one.ref] == nearest else -sure)
            + WEIGHTS["value_named"]
            * (self._is_right_before(one, literal) or self._is_numbered(one, literal))
            + WEIGHTS["value_of_node"] * self._is_of_node(one.ref.owner, literal.start, pattern)
            for one in places
        }
        if nearest > _NEAR and not self._read.plain:  # "reviews mentioning 'soup'"
            owners_ = {one.ref: self._since_owner(one, first, pattern) for one in places}
            nearest = min(owners_.values(), default=99)
            for ref, far in owners_.items():
                close[ref] += WEIGHTS["literal_near_class"] * (far == nearest <= _NEAR)
        if literal.read is not None and literal.read.unit == "s":  # less than 24 months
            lasts = {one.ref for one in places if measured("long age", self._read.called(one))}
            span = WEIGHTS["time_span"] * bool(lasts)
            close = {ref: near + (span if ref in lasts else -span) for ref, near in close.items()}
        return close

    def _since_owner(self, place: Place, first: int, pattern: Pattern) -> int:
        """Return the number of words from a mention of a property's owner to the word ``first``.

        99 if there is none before it.
        """
        before = (first - at for at in self._read.node_words(pattern, place) if at < first)
        return min(before, default=99)

    def _is_of_node(self, owner: object, start: int, pattern: Pattern) -> int:
        """Return whether the value at ``start`` belongs to a node of a class with two: 1, else -1.

        In "clients over 40 who know clients under 30" the first number is of the clients that are
        asked for, the second of the others. 0 if the class is mentioned less than twice before it.
        """
        if not isinstance(owner, NodeRef) or self._read.plain:
            return 0
        name = pattern.nodes[owner.node]
        same = [node for node, one in enumerate(pattern.nodes) if one == name]
        if len(same) < 2 or not name:
            return 0
        same.sort(key=lambda node: pattern.away[node])
        said = sorted({*self._read.class_words(name), *self._read.others_said})
        before = sum(at < self._read.mentions.at(start) for at in said)
        if len(said) < 2 or not before:
            return 0
        return 1 if same[min(before, len(same)) - 1] == owner.node else -1

    def _is_numbered(self, place: Place, literal: Stating) -> bool:
        """Return whether a number's noun is the name of a property: "two room flats"."""
        noun = self._read.mentions.at(literal.end - 1) + 1
        return place.is_number and {noun} <= self._read.numbered_words & {
            *self._read.words_of(place)
        }

    def _is_right_before(self, place: Place, literal: Stating) -> bool:
        """Return whether a property's whole name ends right before a literal's comparing words.

        "An amount less than 500" compares no other number. Of a relation with one number, the
        relation's own name will do.
        """
        mentions, name = self._read.mentions, place.property.name
        before = mentions.last_before(mentions.at(literal.said)) if literal.said > 0 else -1
        if before < 0 or asks_best(mentions.words[before]):
            return False
        if is_year(literal.value) and not is_dated(place.property):
            return False  # the freight "in 1997"
        if place.owned[0] == "relation" and before in mentions.of(place.owned[1]):  # "rated over 4"
            return place.is_number and self._read.parts.is_only_number(place.owned)
        whole = mentions.share(name, place.owned[1]) == 1
        return whole and before in self._read.words_of(place)

    def _compared(self, places: Sequence[Place]) -> list[Comparison]:
        """Return comparisons of two mentioned properties: "more than their budget"; [] if none."""
        found = []
        words = self._read.mentions.words
        fit = [one for one in places if one.property.type in (*NUMBERS, *DATES)]
        said = [
            (one, at) for one in fit if not one.property.many for at in self._read.words_of(one)
        ]
        for right, at in said:
            signs = [
                (place, operator)
                for place in range(max(0, at - 5), at)
                for operator, pattern in COMPARED.items()
                if pattern.match(words[place])
            ]
            if not signs or any(words[one].isdigit() for one in range(signs[-1][0], at)):
                continue
            sign, operator = signs[-1]
            for left, place in said:
                same = left.is_number == right.is_number
                if left.ref != right.ref and same and sign - 7 <= place < sign:
                    found.append(Comparison(left.ref, operator, right.ref))  # type: ignore[arg-type]
        return found + self._alike(places)

    def _alike(self, places: Sequence[Place]) -> list[Comparison]:
        """Return comparisons of two properties: sender and receiver "from the same country".

        Their names, of several words, are said whole and end alike; the longest names count. [] if
        the question does not say that something is the same or different.
        """
        operator = same_or_different(self._read.question)
        if not operator:
            return []
        whole = {
            place: stems(place.property.name)
            for place in places
            if place.property.type not in ("boolean", "point") and not place.property.many
            if " " in relation_phrase(place.property.name)
            if self._read.mentions.share(place.property.name) == 1
        }
        pairs = [
            (len(whole[one]) + len(whole[other]), Comparison(one.ref, operator, other.ref))
            for one, other in combinations(whole, 2)
            if one.property.name != other.property.name
            if one.property.type == other.property.type and whole[one][-1] == whole[other][-1]
        ]
        most = max((size for size, _ in pairs), default=0)
        return [one for size, one in pairs if size == most]

    def _averaged(self, places: Sequence[Place]) -> list[tuple[float, Comparison]]:
        """Return scored comparisons with a property's average: "more than the average salary".

        [] if the question compares with no average.
        """
        said, mentions = self._read.averaged, self._read.mentions
        if said is None:
            return []
        first, last = mentions.at(said.start()), mentions.at(said.end() - 1)
        words = range(max(0, first - 2), first + 1)
        signs = (
            sign for at in words for sign, one in COMPARED.items() if one.match(mentions.words[at])
        )
        operator = next(signs, ">")
        if "or equal" in said.group():
            operator += "="
        close = {*range(last + 1, last + 4)}
        found = []
        for place in places:
            if place.is_number and isinstance(place.ref.owner, NodeRef):
                if place.property.many or is_id(place):
                    continue
                worth = self._read.properties[place.owned][0]
                named = close & {*self._read.words_of(place)}
                worth += WEIGHTS["average_said"] * (
                    1 if named or self._read.measures(place) else -1
                )
                worth += WEIGHTS["properties_compared"]
                number = Aggregate("average", place.ref)
                found.append((worth, Comparison(place.ref, operator, number)))  # type: ignore[arg-type]
        return found

    @staticmethod
    def _with_pair(
        state: ConditionState, pairs: Sequence[tuple[float, Comparison]]
    ) -> Iterator[ConditionState]:
        """Yield the state, then the state with each of the (score, comparison) ``pairs`` added."""
        yield state
        yield from (state.also(one, worth) for worth, one in pairs)

    def _with_flags(
        self, state: ConditionState, places: Sequence[Place]
    ) -> Iterator[ConditionState]:
        """Yield states with conditions without a literal: flags, missing or existing values."""
        yield state
        won = place_won(self._read.question)
        named = {
            one.owned: one for one in reversed(places)
            if one.property.type == "boolean"
            and (self._read.words_of(one) or says_opposite(self._read.question, one.property.name))
        }  # fmt: skip
        used = {name for *_, name in state.used}
        spent = {at for one in places if one.owned in state.used for at in self._read.words_of(one)}
        for place in places:
            if won and place.is_number and PLACE.search(place.property.name):
                odds = self._read.properties[place.owned][0]
                yield self._add(state, place, "=", won, WEIGHTS["place_won"] - odds)
            if place.owned[2] in used:
                continue
            if place.property.type == "boolean":
                if flagged := self._with_flag(state, place, several=len(named) > 1):
                    yield flagged
            else:
                yield from self._with_existence(state, place, spent)
        if len(named) > 1:  # each of them
            every = state
            for place in reversed(named.values()):
                if place.owned[2] not in used:
                    every = self._with_flag(every, place, several=True) or every
            yield every

    def _with_flag(
        self, state: ConditionState, place: Place, *, several: bool
    ) -> ConditionState | None:
        """Return the state that requires a flag to be true or false.

        None if the question does not hint at it. Of ``several`` flags that it names, "no" denies
        the one that it stands before.
        """
        odds, said = self._read.properties[place.owned][0], {*self._read.words_of(place)}
        denied = bool(NO.search(self._read.bare))
        opposite = says_opposite(self._read.question, place.property.name)
        worth = 0.0
        if said or opposite:
            worth = WEIGHTS["flag_said"] - min(0.0, odds) * opposite
        elif odds < _UNLIKELY or denied:  # "not" refers to something else
            return None
        if several:
            denied = bool(self._read.denied(3) & said)
        return self._add(state, place, "=", denied == opposite, worth)

    def _with_existence(
        self, state: ConditionState, place: Place, spent: set[int]
    ) -> Iterator[ConditionState]:
        """Yield the state in which a property must have a value, or none, if the question says so.

        Who is alive has no date of death. ``spent``: positions of words of compared properties.
        """
        read, name = self._read, place.property.name
        if DEATH.search(name):
            for operator, said in _LIVING.items():
                if said.search(read.bare):
                    yield state.also(Comparison(place.ref, operator), WEIGHTS["flag_said"])
        if (lasts := self._lasts(place)) is not None:
            yield state.also(Comparison(place.ref, lasts), WEIGHTS["flag_said"])
        odds, words = read.properties[place.owned][0], {*read.words_of(place)}
        share = read.mentions.share(name, place.owned[1])
        least = {"date": 1 / 2, "datetime": 1 / 2, "text": 1}.get(place.property.type, 2)
        none = bool(read.denied(3) & words) and share >= least
        none |= place.is_number and self._is_denied(place)
        denied = bool(NO.search(read.bare))
        there = 2 * odds > 1 and words - spent and (denied or read.mentions.after(_HAVING) & words)
        if none or there:
            one = self._there(place, there=not denied)
            worth = max(0, odds) + WEIGHTS["flag_said"] if none else 0.0
            yield state.also(one, worth, used=state.used | {place.owned})

    def _lasts(self, place: Place) -> Operator | None:
        """Return the test of the date of an end that the question asks for, None for none.

        "Which staff left?", "who is no longer here?", "who is still here?".
        """
        read = self._read
        name = relation_phrase(place.property.name).split()
        if place.property.type not in DATES or not place.of_answer:
            return None
        ends = begin_and_end(read.parts.index.properties(place.owned[1]).values())
        if not english_words("ends") & {*name} and place.property not in (ends or ())[1:]:
            return None
        if (still := still_or_not(read.question)) is not None:
            return "missing" if still else "not missing"
        last = len(read.mentions.words) - 1
        happened = name == read.mentions.words[last:]  # "which staff left?"
        return "not missing" if happened else None

    def _is_denied(self, place: Place) -> bool:
        """Return whether "no" precedes the substance that a quantity measures: "no alcohol"."""
        noun = relation_phrase(place.property.name).rpartition(" ")[2]
        denied = self._read.denied(1) & {*self._read.mentions.of(noun)}
        # "no flights" denies facts, not a number
        return bool(denied) and not denied <= set().union(*self._read.class_mentions.values())

    def _there(self, place: Place, *, there: bool) -> Comparison:
        """Return the condition that a property has a value; if not ``there``, that it has none.

        A quantity of 0 counts as none.
        """
        if place.is_number and not there:
            return Comparison(place.ref, "missing or <=", (0,))
        if place.is_number and self._read.mentions.after(_ANY, 3) & {*self._read.words_of(place)}:
            return Comparison(place.ref, ">", (0,))
        return Comparison(place.ref, "not missing" if there else "missing")


def says_opposite(question: str, name: str) -> bool:
    """Return whether a question contains the opposite of a flag's name.

    >>> says_opposite("Which books are out of print?", "in_print")
    True
    >>> says_opposite("List unpaid bills", "isPaid"), says_opposite("Who is active?", "active")
    (True, False)
    >>> says_opposite("Which gates are open?", "closed")
    True
    """
    forms = map(re.escape, opposite_names(name))
    return bool(re.search(rf"\b(?:{'|'.join(forms)})\b", question, re.IGNORECASE))


def opposite_names(name: str) -> list[str]:
    """Return everyday names for entities of which the flag ``name`` is false.

    >>> opposite_names("in_print")[-1], "inactive" in opposite_names("is_active")
    ('out of print', True)
    """
    words = relation_phrase(name).lower()
    last = words.rpartition(" ")[2]
    forms = [f"{no}{last}" for no in ("un", "in", "im", "dis", "non", "non-")]
    forms += [*opposites(last), *([last[2:]] if last.startswith("un") else [])]
    return [*forms, f"out of {words[3:]}"] if words.startswith("in ") else forms

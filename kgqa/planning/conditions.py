"""Sets of conditions that a question's values and literals may express, the best first."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from kgqa.graph.moments import length_text
from kgqa.graph.quantities import UNITS
from kgqa.lexicon.english import opposites
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
)
from kgqa.planning.schema_parts import ENTITY, FoundValue, Owned
from kgqa.queries.check import NUMBERS, operators
from kgqa.queries.plan import NOT_OF_CLASS, Aggregate, Comparison, NodeRef, PropertyRef, owners
from kgqa.queries.values import DATES
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kgqa.planning.evidence import Pattern, Place, QuestionReading
    from kgqa.queries.plan import AggregateKind, Operator
    from kgqa.understanding.literals import Stating

WEIGHTS = weights("planning")
CONDITIONS = 6  # states kept: the beam's width
_UNSAID = 2  # distance added for a property that is not mentioned
_NEAR = 9  # distance in words from which a mention is not near
_SHARED = 6  # most words between two properties compared with one number
_BESIDE = 40  # most characters between "average" and its number
_IN_A_YEAR = re.compile(
    r"\b(?:in|on|since|before|after|during|until|by|of|season|year)(?: the)? $", re.I
)
_ANY = re.compile(r"any|some")
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


def _in_time(literal: Stating, value: object, type_: str) -> str:
    """Return a number as the year or duration that it states for a property type, "" otherwise."""
    if type_ in DATES and is_year(value):
        return f"{value}"
    if type_ == "duration" and literal.read and literal.read.unit == "s":
        return length_text(literal.read.amount or 0)
    return ""


def _node_of(owner: object, pattern: Pattern) -> int:
    """Return the node of a property's owner; for a fact, the node that its hop leads to."""
    return owner.node if isinstance(owner, NodeRef) else pattern.hops[owner.hop].target  # type: ignore[attr-defined]


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


def _walked_alike(state: ConditionState, pattern: Pattern, node: int) -> bool:
    """Return whether another node with a condition is reached by the same hop as ``node``."""
    into = {hop.target: (hop.source, hop.relation, hop.inverse) for hop in pattern.hops}
    named = {
        owner.node for each in state.where for owner in owners(each) if isinstance(owner, NodeRef)
    }
    return any(into.get(one) == into.get(node) for one in named - {node, 0})


def in_unit(literal: Stating, name: str) -> float | int | str:
    """Convert a literal to the unit that a property's name ends with, as in ``weight_g``.

    Its value is returned unchanged if either has no unit, or they measure different things.
    """
    unit, times = UNITS.get(relation_phrase(name).split()[-1], ("", 1.0))
    read = literal.read
    if not unit or read is None or read.amount is None or read.unit != unit:
        return literal.value
    amount = round(read.amount / times, 9)
    return int(amount) if amount.is_integer() else amount


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
        odds = 0.0 if place.owned in state.used else self._read.properties[place.owned][0]
        one = Comparison(place.ref, operator, (value,))  # type: ignore[arg-type]
        return state.also(one, odds + bonus, used=state.used | {place.owned})

    def _with_value(
        self,
        state: ConditionState,
        value: FoundValue,
        pattern: Pattern,
        places: Sequence[Place],
    ) -> Iterator[ConditionState]:
        """Yield the state with a stored value unused, and with each condition that it may be."""
        yield replace(state, score=state.score + self._read.unused(value))
        denied = denies(self._read.question, value.start)
        others = denied and denies_itself(self._read.question, value.start)
        bound = bound_before(self._read.question, value.start) if value.holds else None
        if bound is not None:
            yield from self._with_bound(state, value, bound, pattern, places)
        yield from self._either(state, value, pattern, places)
        for place in places:
            if place.owned in value.fields:
                stored = value.fields[place.owned]
                again = WEIGHTS["value_held"]
                itself = self._read.is_name(place) and place.of_answer
                again += WEIGHTS["bound_itself"] * bool(bound and itself)
                own = denied and place.of_answer
                if own and itself and not others:
                    continue
                if denied and value.things and self._is_alike(state, value):
                    node = _node_of(place.ref.owner, pattern)
                    again += WEIGHTS["denied_at_same_place"] * (
                        -1 if own else _walked_alike(state, pattern, node)
                    )
                added = self._add(state, place, "<>" if own else "=", stored[0], again)
                if denied and not own:
                    away = _node_of(place.ref.owner, pattern)
                    if _has_condition(state, away, pattern):
                        continue  # an affirmed condition comes earlier
                    added = added.without(away)
                named_ = {place.ref} if itself else set()
                yield replace(added, names=state.names | named_)
        for node, name in enumerate(pattern.nodes):
            if stored := value.entities(name, _steps_at(pattern, node)):
                ref = NodeRef(node)
                again = WEIGHTS["value_held"]
                own = denied and not node
                if own and not others:
                    continue
                if denied and node and _has_condition(state, node, pattern):
                    continue
                operator = "in" if len(stored) > 1 else "="
                if own:
                    operator = "not in" if len(stored) > 1 else "<>"
                odds = self._read.properties.get((ENTITY, name, "name"), (0.0,))[0]
                odds += WEIGHTS["bound_itself"] * bool(bound and not node)
                one = Comparison(ref, operator, stored)  # type: ignore[arg-type]
                if denied and self._is_alike(state, value):
                    again += WEIGHTS["denied_at_same_place"] * (
                        -1 if own else _walked_alike(state, pattern, node)
                    )
                added = state.also(one, odds + again)
                yield added.without(node) if denied and not own else added

    def _is_alike(self, state: ConditionState, value: FoundValue) -> bool:
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
        for place in places:
            held = value.holds.get((pattern.nodes[0], place.property.name))
            if not place.of_answer or held is None:
                continue
            mentioned = bool(self._read.words_of(place))
            found = compared(said, place.property, mentioned=mentioned)
            if found is not None:
                yield self._add(state, place, found[0], held, WEIGHTS["value_held"] + found[1])

    def _either(
        self, state: ConditionState, value: FoundValue, pattern: Pattern, places: Sequence[Place]
    ) -> Iterator[ConditionState]:
        """Yield the state whose last condition also accepts ``value``.

        Nothing unless "or" joins the two.
        """
        last = self._either_of(state, value.start, places)
        if last is None:
            return
        stored: Sequence[str] = ()
        if isinstance(last.left, NodeRef):
            node = last.left.node
            stored = value.entities(pattern.nodes[node], _steps_at(pattern, node))
        elif isinstance(last.left, PropertyRef) and isinstance(last.left.owner, NodeRef):
            owned = ("class", pattern.nodes[last.left.owner.node], last.left.name)
            stored = value.fields.get(owned, ())[:1]
        if stored:
            right = (*last.right, *stored)  # type: ignore[misc]
            yield state.instead(Comparison(last.left, "in", right), WEIGHTS["value_held"])

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
        joined = rf"\W*{'(?:or|and)?' if single else 'or'}(?: the| an?| in)?\W*"
        return last if re.fullmatch(joined, self._read.question[max(ends) : start], re.I) else None

    def _with_literal(
        self, state: ConditionState, literal: Stating, pattern: Pattern, places: Sequence[Place]
    ) -> Iterator[ConditionState]:
        """Yield the state with a literal unused, and with each comparison that it may be."""
        kind = "quoted" if literal.kind == "text" else literal.kind
        times = WEIGHTS["unused_literal_of_triples"] if self._read.plain else 1.0
        times += WEIGHTS["unused_comparison"] * (literal.operator not in ("=", "contains"))
        if kind == "quoted" and str(literal.value) in self._read.parts.names:
            yield state
            return
        yield replace(state, score=state.score + times * UNUSED[kind])
        close = self._closeness(literal, pattern, places)
        said = literal.said if literal.said >= 0 else literal.start
        denied = literal.operator in OPPOSITE and denies_comparison(self._read.question, said)
        before = self._read.question[: literal.start]
        year = is_year(literal.value) and _IN_A_YEAR.search(before)
        lasts = set()
        if literal.read is not None and literal.read.unit == "s":  # less than 24 months
            lasts = {one.ref for one in places if measured("long age", self._read.called(one))}
        last = self._either_of(state, literal.start, places) if literal.operator == "=" else None
        if last is not None and isinstance(last.left, PropertyRef):
            before_ = last.right if isinstance(last.right, tuple) else ()
            both = (*before_, str(literal.value) if isinstance(before_[0], str) else literal.value)
            yield state.instead(Comparison(last.left, "in", both), WEIGHTS["value_held"])
        for place in places:
            type_, many, near = place.property.type, place.property.many, close[place.ref]
            near += WEIGHTS["time_span"] * bool(lasts) * (1 if place.ref in lasts else -1)
            operator, value = literal.operator, in_unit(literal, place.property.name)
            if denied:
                yield from self._with_denied(state, literal, value, near, pattern, place)
                continue
            if literal.kind == "number":
                if many and near > 0:
                    size = replace(place, ref=replace(place.ref, part="size"))
                    yield self._add(state, size, operator, value, near)
                elif type_ in NUMBERS and not many:
                    timeless = year and not is_dated(place.property)
                    near += WEIGHTS["year_on_other_number"] * bool(timeless)
                    near += WEIGHTS["year_on_date"] * bool(year and not timeless)
                    added = self._add(state, place, operator, value, near)
                    yield added
                    for other in self._beside(place, literal, places):
                        yield self._add(added, other, operator, value, near)
                elif when := _in_time(literal, value, type_):
                    yield self._add(state, place, operator, when, WEIGHTS["date_by_type"] + near)
            elif literal.kind == "date" and len(str(value)) == 2:  # a month of any year
                if type_ in DATES:
                    part = replace(place, ref=replace(place.ref, part="month"))
                    yield self._add(
                        state, part, operator, int(value), WEIGHTS["date_by_type"] + near
                    )
            elif literal.kind == "date":
                if type_ in DATES:
                    yield self._add(state, place, operator, value, WEIGHTS["date_by_type"] + near)
                elif type_ == "integer" and len(str(value)) == 4:
                    yield self._add(state, place, operator, int(value), near)
            elif type_ == "text" and operator in operators(type_):
                near += WEIGHTS["text_in_no_value"] * (
                    place.owned in self._read.lacking.get(str(value), ())
                )
                if operator != "=":
                    yield self._add(state, place, operator, value, near)
                else:
                    yield self._add(
                        state, place, "contains", value, WEIGHTS["text_held_by_none"] + near
                    )
        if (literal.operator, literal.value) == (">=", 1) and pattern.hops:
            yield state  # a hop is one, at least
        if literal.kind == "number" and state.having is None:
            yield from self._with_number(state, literal, pattern, places, close)

    def _with_denied(
        self, state: ConditionState, literal: Stating, value: object, near: float, pattern: Pattern,
        place: Place,
    ) -> Iterator[ConditionState]:  # fmt: skip
        """Yield the state in which a comparison is negated.

        Nothing for a type that does not compare. A property of the answers gets the opposite
        operator; of another node no fact may satisfy the comparison. ``near``: score for its
        distance.
        """
        type_ = place.property.type
        if type_ in DATES and (literal.kind == "date" or is_year(value)):
            value = f"{value}"
        elif type_ not in NUMBERS or not isinstance(value, int | float):
            return
        if place.property.many:
            return
        if place.of_answer:
            added = self._add(
                state, place, OPPOSITE[literal.operator], value, WEIGHTS["comparison_denied"] + near
            )
            yield replace(added, denied=added.denied + 1)
        else:
            added = self._add(
                state, place, literal.operator, value, WEIGHTS["comparison_denied"] + near
            )
            yield added.without(_node_of(place.ref.owner, pattern))

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
            theirs = (at for at in self._read.words_of(other) if at not in mine)
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
        before = self._read.question[max(0, literal.start - _BESIDE) : literal.start]
        kind: AggregateKind = "average" if AVERAGE.search(before) else "sum"
        if kind == "average" or TOTAL.search(before):
            for place in places:
                if place.is_number and not place.of_answer:
                    number = Aggregate(kind, place.ref)
                    value = in_unit(literal, place.property.name)
                    one = Comparison(number, literal.operator, (value,))  # type: ignore[arg-type]
                    score = (
                        state.score
                        + self._read.properties[place.owned][3]
                        + WEIGHTS["aggregate_compared"]
                    )
                    yield replace(state, having=one, score=score + close[place.ref])
        grouped = any(one.of_answer and self._read.asks_for(one) for one in places)
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
        self, literal: Stating, pattern: Pattern, places: Sequence[Place]
    ) -> dict[object, float]:
        """Return for each property, by reference, a score for the distance of literal and mention.

        In "born after 1970 and acting in films released before 2000" each year is beside its word;
        All are 0 if none is near.
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
        if nearest > _NEAR:
            return dict.fromkeys(away, 0.0)
        close: dict[object, float] = {}
        for place in places:
            close[place.ref] = WEIGHTS["literal_near_mention"] * (
                1 if away[place.ref] == nearest else -1
            )
        return close

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
        return found

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
        bare = self._read.bare
        ends = "missing" if ALIVE.search(bare) else "not missing" if DEAD.search(bare) else ""
        denied = bool(NO.search(bare))
        denied_words = self._read.denied(3)
        named = [place for place in places
                 if place.property.type == "boolean" and self._read.words_of(place)]  # fmt: skip
        every = state  # with each of the flags that the question names
        for place in places:
            odds = self._read.properties[place.owned][0]
            if won and place.is_number and PLACE.search(place.property.name):
                yield self._add(state, place, "=", won, WEIGHTS["place_won"] - odds)
            said = self._read.words_of(place)
            flag = place.property.type == "boolean"
            opposite = flag and says_opposite(self._read.question, place.property.name)
            share = self._read.mentions.share(place.property.name, place.owned[1])
            half = place.property.type in ("date", "datetime") and 2 * share >= 1
            none = bool(denied_words & {*said})
            none &= half or (place.property.type == "text" and share == 1)
            none |= place.is_number and self._is_denied(place)
            ended = bool(ends and DEATH.search(place.property.name))
            if any(place.owned[2] == name for *_, name in state.used) or (
                odds < -1 and not ((flag and said) or opposite or none or ended)
            ):
                continue
            if flag and denied and not (said or opposite):
                continue  # "not" refers to something else
            if ended:
                yield state.also(Comparison(place.ref, ends), WEIGHTS["flag_said"])  # type: ignore[arg-type]
            if flag:
                # of several flags, "no" denies the one that it stands before
                denies = bool(denied_words & {*said}) if len(named) > 1 else denied
                holds = denies == opposite
                worth = (
                    WEIGHTS["flag_said"] - min(0.0, odds) * opposite if said or opposite else 0.0
                )
                yield self._add(state, place, "=", holds, worth)
                every = self._add(every, place, "=", holds, worth) if said else every
            elif none or (
                2 * odds > 1 and said and (denied or self._read.mentions.after(_HAVING) & {*said})
            ):
                one = self._there(place, there=not denied)
                worth = max(0, odds) + WEIGHTS["flag_said"] if none else 0.0
                yield state.also(one, worth, used=state.used | {place.owned})
        if len(named) > 1:
            yield every

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

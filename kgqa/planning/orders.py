"""The orders that a plan's output may have: none, by a number of groups, or by a property."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property, partial
from heapq import nlargest
from typing import TYPE_CHECKING

from kgqa.lexicon.english import words as english_words
from kgqa.paths.words import relation_phrase
from kgqa.planning.evidence import MOST_ODDS, is_id
from kgqa.planning.place_words import says_age
from kgqa.planning.question_words import (
    MOST,
    ORDERED,
    is_dated,
    measures,
    ranks_by_nothing,
    superlative,
)
from kgqa.queries.plan import Item, NodeRef, PropertyRef
from kgqa.queries.values import DATES
from kgqa.understanding.asked import asks_best, asks_oldest, took_time
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.planning.conditions import ConditionState
    from kgqa.planning.evidence import Place, QuestionReading
    from kgqa.planning.place_words import KnownPlaces, PlaceWords
    from kgqa.queries.plan import Aggregate

WEIGHTS = weights("planning")
_COORDINATES = english_words("coordinates")
_ORDERS = 4  # orders kept of one output
_FIRST = re.compile(r"\b(?:first|earliest)\b", re.I)
_LAST = re.compile(
    r"\b(?:\w+ed|born|left|came|began|won|built|sold|made) last\b"
    r"(?! (?:\w+day|week|month|year))",
    re.I,
)
_DOWN = re.compile(r"\b(?:desc|decreasing|revers|high|larg|most|top|\w+est\b|first\b|rank)", re.I)
_AGED = re.compile(r"\b(?:young|old|new|lat|earli)est\b|\bmost recent", re.I)
_COMMON = re.compile(r"\bmost (?:common|frequent|popular|diverse|different|distinct)", re.I)


class OrderSearch:
    """Generates the orders of one reading's outputs, each with its direction and score."""

    def __init__(self, reading: QuestionReading, known: KnownPlaces) -> None:
        self._read, self._known = reading, known
        self._best = reading.mentions.of_best - reading.numbered_words
        self._near = self._best if ORDERED.search(reading.question) else set()
        most = reading.mentions.after(MOST, 1)  # "which year has the most visitors?"
        self._most = bool(most) and bool(measures(reading.question))
        self.by_nothing = not reading.plain and ranks_by_nothing(reading.question)

    def orders(
        self,
        places: Sequence[Place],
        state: ConditionState,
        number: Aggregate | None,
        *,
        plain: bool,
    ) -> list[tuple[Item | None, bool, float]]:
        """Return the best orders of an output, as (sort key or None, descending, score).

        ``number``: the aggregate of its groups, if any; ``plain``: nodes are output.
        """
        ordered = bool(self._near & self._known.of(places).said)
        direction = self._read.whole["direction"]
        unordered = direction["none"] + WEIGHTS["order_left_out"] * (plain and ordered)
        orders: list[tuple[Item | None, bool, float]] = [(None, False, unordered)]
        barred = number is not None and self._is_barred(places)
        for name, descending in (("desc", True), ("asc", False)):
            logp = direction[name]
            if ordered and not descending and not _DOWN.search(self._read.question):
                logp += WEIGHTS["rising_order"]
            if number is not None and not barred:
                more = WEIGHTS["few_by_count"] * (self.by_nothing and descending)
                orders.append((number, descending, logp + WEIGHTS["groups_ordered"] + more))
            if plain:
                orders += (
                    (ref, descending, logp + weight)
                    for ref, weight in self._keys(places, state, descending)
                )
        kept = [order for order in orders if not _is_of_one(order[0], state)]
        return nlargest(_ORDERS, kept, key=lambda one: one[2])

    def _is_barred(self, places: Sequence[Place]) -> bool:
        """Return whether "most" is about a property without an order, so no criterion."""
        return any(
            place.property.unordered and self._best & {*self._read.words_of(place)}
            for place in places
        )

    def _keys(
        self, places: Sequence[Place], state: ConditionState, descending: bool
    ) -> Iterator[tuple[PropertyRef, float]]:
        """Yield the sort keys of properties with their scores; those that hardly fit are left out.

        The odds of the direction are not in the scores.
        """
        known = self._known.of(places)
        for place in places:
            ref, weight = known.once(
                ("order", place.ref, descending), partial(self._key, place, known, descending)
            )
            spent = place.owned in state.used or not self._read.words_of(place)
            if spent and place.ref.owner != NodeRef(0) and self.by_nothing:
                weight += WEIGHTS["order_without_criterion"]
            if weight > -4:
                yield ref, weight

    def _key(self, place: Place, known: PlaceWords, descending: bool) -> tuple[PropertyRef, float]:
        """Return the sort key of a property and its score, without the odds of the direction."""
        question = self._read.question
        near = set() if _AGED.search(question) else self._best
        exactly = self._read.measures(place)
        said = exactly or bool(near & {*self._read.words_of(place)})
        weight = self._said(place, known, near, exactly=exactly, said=said)
        if place.property.many:
            many = said and not _COMMON.search(question)
            return replace(place.ref, part="size"), weight if many else -MOST_ODDS
        barred = self._is_of_other(place) or (not said and self._is_beside_age(place, known))
        if barred or self._has_no_best(place) or (is_id(place) and not said):
            return place.ref, -MOST_ODDS
        if _AGED.search(question) and known.aged and says_age(place):
            weight = max(weight, 0.0)  # the question can mean nothing else
        if said and not exactly and known.is_part_of_best(place):
            weight += WEIGHTS["order_by_part_of_name"]
        worth = superlative(question, place.property, descending)
        weight += worth + self._of_best(place) * (worth > 0)
        if self._is_most(place) and not place.of_answer and not exactly:
            # "the most hours" is a sum of hours, "most expensive" is none
            weight += WEIGHTS["order_by_summed"]
        return place.ref, self._dated(place, weight, descending)

    def _is_of_other(self, place: Place) -> bool:
        """Return whether "the most" is about another property than the one that is asked for."""
        return self._most and self._read.asks_for(place) and not self._is_most(place)

    def _is_beside_age(self, place: Place, known: PlaceWords) -> bool:
        """Return whether a property is a time of what the oldest has an age of."""
        return asks_oldest(self._read.question) and says_age(place) and known.is_beside_age(place)

    def _of_best(self, place: Place) -> float:
        """Score an order's property by whether a superlative may be about its owner.

        It is about the class right after it, "who sails the newest boat", else about the answers.
        """
        if not self._named_best:
            return WEIGHTS["superlative_of_answer"] * place.of_answer
        return WEIGHTS["superlative_of_named"] * (1 if place.owned[1] in self._named_best else -1)

    @cached_property
    def _named_best(self) -> set[str]:
        """The classes named right after a superlative."""
        read = self._read
        after = {at + 1 for at, word in enumerate(read.mentions.words) if asks_best(word)}
        return {name for name in read.classes if name and after & {*read.class_words(name)}}

    def _said(
        self, place: Place, known: PlaceWords, near: set[int], *, exactly: bool, said: bool
    ) -> float:
        """Return the score of a sort key by what the question says of it and of other properties.

        ``near``: positions of a superlative's words; ``exactly``, ``said``: whether an adjective
        fits the property's dimension, or it is mentioned at all.
        """
        odds = self._read.properties[place.owned][1]
        beside = place.of_answer and self._is_most(place)  # "the most beer", of beer servings
        stated = self._near & {*self._read.words_of(place)}  # "ordered by rent"
        weight = max(odds, -1) if exactly or stated or (beside and place.is_number) else odds
        if said:
            weight += WEIGHTS["order_said"] * (1 + exactly)
        elif near & known.said or known.measured:
            weight += WEIGHTS["order_unsaid"]
        elif self._read.is_measured:
            weight += WEIGHTS["order_of_other_dimension"]
        return weight

    def _is_most(self, place: Place) -> bool:
        """Return whether a property is mentioned right after "most" or "fewest"."""
        return bool(self._read.mentions.after(MOST, 1) & {*self._read.words_of(place)})

    def _has_no_best(self, place: Place) -> bool:
        """Return whether no value of a property is above others; names in an order are left out."""
        kind, name = place.property.type, relation_phrase(place.property.name).split()
        if kind in ("boolean", "point") or place.property.unordered:
            return True
        if kind in DATES and self._read.parts.lasting and took_time(self._read.question):
            return True  # no date says how long that took
        if _COORDINATES.intersection(name) and not self._best & {*self._read.words_of(place)}:
            return not self._read.measures(place)
        return kind == "text" and not ORDERED.search(self._read.question)

    def _dated(self, place: Place, weight: float, descending: bool) -> float:
        """Return the score ``weight`` of a sort key, raised if it is a date of "first"."""
        when = _LAST if descending else _FIRST
        if not (place.of_answer and when.search(self._read.question) and is_dated(place.property)):
            return weight
        odds = self._read.whole["direction"]
        of_date = odds["none"] - odds["desc" if descending else "asc"] + WEIGHTS["first_by_date"]
        said = bool(self._read.words_of(place))
        return max(weight, of_date) + WEIGHTS["first_by_said_date"] * said


def _is_of_one(by: Item | None, state: ConditionState) -> bool:
    """Return whether an order is by a property of a single named node, and so constant."""
    owner = by.owner if isinstance(by, PropertyRef) else None
    return owner is not None and any(
        one.operator == "=" and one.left == owner for one in state.where
    )

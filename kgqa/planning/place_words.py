"""The mentions of one pattern's properties in a question, computed once for all conditions."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from kgqa.paths.words import relation_phrase
from kgqa.planning.question_words import is_dated
from kgqa.queries.check import NUMBERS
from kgqa.queries.values import DATES

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from kgqa.planning.evidence import Place, QuestionReading

    T = TypeVar("T")

_MOST_KEPT = 64  # patterns remembered


class PlaceWords:
    """The properties of a pattern and the words of a question that mention them."""

    def __init__(self, reading: QuestionReading, places: Sequence[Place]) -> None:
        self._read, self.places = reading, places
        self._near: dict[tuple[re.Pattern[str], int], tuple[set[int], set[int]]] = {}
        self._known: dict[object, object] = {}

    @cached_property
    def said(self) -> set[int]:
        """The positions of words that mention any of the properties."""
        return {at for place in self.places for at in self._read.words_of(place)}

    @cached_property
    def measured(self) -> bool:
        """Whether an adjective of the question fits the dimension of any property."""
        return any(map(self._read.measures, self.places))

    @cached_property
    def aged(self) -> bool:
        """Whether any property is a time or an age."""
        return any(map(says_age, self.places))

    def is_beside_age(self, place: Place) -> bool:
        """Return whether a property is a time, not of a birth, of what has an age, too.

        The oldest winner of a prize is not the one of the earliest year.
        """
        words = {*relation_phrase(place.property.name).split()}
        return place.ref.owner in self._with_age and not words & {"age", "birth", "born"}

    @cached_property
    def _with_age(self) -> set[object]:
        """The nodes and hops with a property that says an age."""
        return {one.ref.owner for one in self.places if _is_age(one)}

    @cached_property
    def answer_names(self) -> set[str]:
        """The names of the requested class's properties."""
        return {place.owned[2] for place in self.places if place.of_answer}

    def is_part_of_best(self, place: Place) -> bool:
        """Return whether another number or date matches more of the superlative's words.

        "The most IMDb votes" asks for ``imdb_vote_count``, not for ``imdb``.
        """
        mine = self._read.mentions.of_best & {*self._read.words_of(place)}
        return any(mine < other for other in self._best)

    @cached_property
    def _best(self) -> list[set[int]]:
        """For each number or date, the positions of superlative words that mention it."""
        best = self._read.mentions.of_best
        kinds = (*NUMBERS, *DATES)
        return [
            best & {*self._read.words_of(one)} for one in self.places if one.property.type in kinds
        ]

    def after(self, words: re.Pattern[str], most: int) -> tuple[set[int], set[int]]:
        """Return the positions up to ``most`` words after a match of ``words``.

        Also those of them that mention any of the properties.
        """
        if (words, most) not in self._near:
            near = self._read.mentions.after(words, most)
            self._near[words, most] = near, near & self.said
        return self._near[words, most]

    def once(self, key: object, make: Callable[[], T]) -> T:
        """Return the result of ``make``, computed once for each key."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]  # type: ignore[return-value]


class KnownPlaces:
    """The :class:`PlaceWords` of the patterns of one reading, each computed once."""

    def __init__(self, reading: QuestionReading) -> None:
        self._read = reading
        self._kept: dict[int, PlaceWords] = {}

    def of(self, places: Sequence[Place]) -> PlaceWords:
        """Return the :class:`PlaceWords` of a pattern's properties, computed once for each list."""
        if id(places) not in self._kept:  # the cache holds ``places``, so the id stays unique
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[id(places)] = PlaceWords(self._read, places)
        return self._kept[id(places)]


def says_age(place: Place) -> bool:
    """Return whether a property is a time or an age."""
    return is_dated(place.property) or _is_age(place)


def _is_age(place: Place) -> bool:
    """Return whether a property says an age."""
    return "age" in relation_phrase(place.property.name).split()

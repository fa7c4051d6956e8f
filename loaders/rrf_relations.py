"""MRREL's relations: which are inverse to which, and which of two is the one that is loaded.

Each fact stands in MRREL twice, once from either end, with inverse names. One of the two names is
canonical, so that a fact is one edge whichever row it was read from. What it does not do: read
files.
"""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# REL says what the second concept is to the first; the words complete "CUI2 … CUI1".
REL_NAMES = {
    "AQ": "allowed qualifier of",
    "QB": "can be qualified by",
    "CHD": "child of",
    "PAR": "parent of",
    "RB": "broader than",
    "RN": "narrower than",
    "RO": "related to",
    "RL": "similar to",
    "RQ": "possibly synonymous with",
    "RU": "related in an unspecified way to",
    "SIB": "sibling of",
    "SY": "synonym of",
}
NOT_RELATED = frozenset({"XR", "DEL"})  # "not related" and deleted: no facts
_REL_INVERSES = {"AQ": "QB", "CHD": "PAR", "RN": "RB"}  # the first of two is the canonical one
_SYMMETRIC = ("RO", "RL", "RQ", "RU", "SIB", "SY")


class Inverses:
    """The inverse of each relation, as a release says or as its rows show."""

    def __init__(self) -> None:
        self._inverse = dict(_REL_INVERSES) | {b: a for a, b in _REL_INVERSES.items()}
        self._inverse |= {name: name for name in _SYMMETRIC}

    def learn_documented(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Take inverses (relation, inverse) as MRDOC states them."""
        for relation, inverse in pairs:
            if relation and inverse:
                self._inverse[relation] = inverse
                self._inverse.setdefault(inverse, relation)

    def learn_from_rows(self, facts: dict[tuple[str, str, str], set[str]]) -> None:
        """Learn the inverses that no document gave from rows that mirror each other.

        ``facts``: (source, first end, second end) → relations stated so. Two relations are inverse
        where each stands in at least half of the other's mirrored rows; where several would do
        (two relations between the same ends), the more frequent and then the more alike in name.
        """
        stated: Counter[str] = Counter()
        mirrored: Counter[tuple[str, str]] = Counter()
        for (source, first, second), relations in facts.items():
            if first == second:
                continue  # a row about one atom mirrors itself: it shows nothing
            stated.update(relations)
            back = facts.get((source, second, first), ())
            mirrored.update((relation, other) for relation in relations for other in back)
        pairs = [
            (-count, -SequenceMatcher(None, one, other).ratio(), one, other)
            for (one, other), count in mirrored.items()
            if one <= other and 2 * count >= max(stated[one], stated[other])
        ]
        for _, _, one, other in sorted(pairs):
            if one not in self._inverse and other not in self._inverse:
                self._inverse[one], self._inverse[other] = other, one

    def of(self, relation: str) -> str | None:
        """Return the inverse of a relation (itself where it is symmetric), None if unknown."""
        return self._inverse.get(relation)

    def canonical(self, head: str, relation: str, tail: str) -> tuple[str, str, str]:
        """Return the one form of a fact: it, or its inverse with the ends exchanged.

        Of two inverse names the shorter is canonical, then the earlier in the alphabet; of a
        symmetric relation's two forms, the one whose head comes first.
        """
        inverse = self._inverse.get(relation)
        if inverse is None:
            return head, relation, tail
        if inverse == relation:
            return (head, relation, tail) if head <= tail else (tail, relation, head)
        if _rank(relation) <= _rank(inverse):
            return head, relation, tail
        return tail, inverse, head


def _rank(relation: str) -> tuple[bool, int, str]:
    return (relation in _REL_INVERSES.values(), len(relation), relation)

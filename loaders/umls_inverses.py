"""MRREL's relations: which are inverse to which, and which of two is the one that is loaded.

Each fact stands in MRREL twice, once from either end, with inverse names. One of the two names is
canonical, so that a fact is one edge whichever row it was read from. A release says in MRDOC which
names are inverse; for others, its rows show it.
"""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import numpy as np

from kgqa.loaders.umls_ids import mix

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

    from kgqa.loaders.umls_ids import Hashes

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

    def learn_from_rows(self, rows: MirroredRows) -> None:
        """Learn the inverses that no document gave from rows that mirror each other.

        Two relations are inverse if each stands in at least half of the other's mirrored rows; if
        several would do (two relations between the same ends), the more frequent and then the more
        alike in name.
        """
        stated, mirrored = rows.counts()
        pairs = [
            (-count, -SequenceMatcher(None, one, other).ratio(), one, other)
            for (one, other), count in mirrored.items()
            if one <= other and 2 * count >= max(stated[one], stated[other])
        ]
        for _, _, one, other in sorted(pairs):
            if one not in self._inverse and other not in self._inverse:
                self._inverse[one], self._inverse[other] = other, one

    def of(self, relation: str) -> str | None:
        """Return the inverse of a relation (itself if it is symmetric), None if unknown."""
        return self._inverse.get(relation)

    def canonical(self, relation: str) -> tuple[str, bool]:
        """Return the name under which facts of ``relation`` are loaded, and if the ends change.

        Of two inverse names the shorter is canonical, then the earlier in the alphabet.
        """
        inverse = self._inverse.get(relation)
        if inverse is None or _rank(relation) <= _rank(inverse):
            return relation, False
        return inverse, True


def _rank(relation: str) -> tuple[bool, int, str]:
    return (relation in _REL_INVERSES.values(), len(relation), relation)


class MirroredRows:
    """Counts how often two relations stand in rows that mirror each other.

    A row is a source, two ends and a relation; rows that say the same count once. Memory is
    bounded: of more than ``most`` rows those are kept whose pair of ends (whichever comes first)
    has a hash below a limit, which is halved as often as it takes. So both rows of a fact are kept
    or neither, and what is kept does not depend on the order of the rows.
    """

    def __init__(self, most: int = 1 << 23) -> None:
        self._most = most
        self._limit = np.uint64(2**64 - 1)
        self._pairs: list[Hashes] = []
        self._said: list[NDArray[np.uint32]] = []  # twice the relation, + 1 from the second end
        self._rows = 0
        self._codes: dict[str, int] = {}

    def add(self, sources: Hashes, first: Hashes, second: Hashes, relations: pa.Array) -> None:
        """Take rows: hashes of source and ends, and the relation (strings)."""
        coded = relations.dictionary_encode()
        names = coded.dictionary.to_pylist()
        codes = np.array([self._codes.setdefault(name, len(self._codes)) for name in names])
        low, high = np.minimum(first, second), np.maximum(first, second)
        pairs = mix(mix(mix(low) ^ high) ^ sources)
        # a row about one atom mirrors itself: it shows nothing
        kept = np.flatnonzero((first != second) & (pairs <= self._limit))
        if not len(kept):
            return
        said = 2 * codes[coded.indices.to_numpy()[kept]] + (first > second)[kept]
        self._pairs.append(pairs[kept])
        self._said.append(said.astype(np.uint32))
        self._rows += len(kept)
        if self._rows > self._most:
            self._gather()
        while self._rows > self._most:
            self._limit >>= np.uint64(1)
            kept = np.flatnonzero(self._pairs[0] <= self._limit)
            self._pairs, self._said = [self._pairs[0][kept]], [self._said[0][kept]]
            self._rows = len(kept)

    def counts(self) -> tuple[Counter[str], Counter[tuple[str, str]]]:
        """Return how often each relation is stated, and each (relation, relation back) mirrored."""
        stated: Counter[str] = Counter()
        mirrored: Counter[tuple[str, str]] = Counter()
        if not self._rows:
            return stated, mirrored
        self._gather()
        names = list(self._codes)
        pairs, said = self._pairs[0], self._said[0]
        relations, back = said >> 1, (said & 1).astype(np.bool_)
        stated.update(
            {names[code]: n for code, n in enumerate(np.bincount(relations).tolist()) if n}
        )
        # Each row meets the rows of its pair that are said from the other end.
        pairs_back, relations_back = pairs[back], relations[back]
        start = np.searchsorted(pairs_back, pairs[~back], side="left")
        many = np.searchsorted(pairs_back, pairs[~back], side="right") - start
        one = np.repeat(relations[~back].astype(np.int64), many)
        within = np.arange(len(one)) - np.repeat(np.cumsum(many) - many, many)
        other = relations_back[np.repeat(start, many) + within]
        met, counts = np.unique(one * len(names) + other, return_counts=True)
        for code, count in zip(met.tolist(), counts.tolist(), strict=True):
            forth, again = names[code // len(names)], names[code % len(names)]
            mirrored[forth, again] += count
            mirrored[again, forth] += count
        return stated, mirrored

    def _gather(self) -> None:
        """Sort what was taken by pair, each row once."""
        pairs, said = np.concatenate(self._pairs), np.concatenate(self._said)
        order = np.lexsort((said, pairs))
        pairs, said = pairs[order], said[order]
        new = np.ones(len(pairs), dtype=np.bool_)
        new[1:] = (pairs[1:] != pairs[:-1]) | (said[1:] != said[:-1])
        self._pairs, self._said = [pairs[new]], [said[new]]
        self._rows = int(np.count_nonzero(new))

"""MRREL: which relations are inverse to which, and its rows as integers and as edges.

Each fact stands in MRREL twice, once from either end, with inverse names. One of the two names is
canonical, so that a fact is one edge whichever row it was read from. A release says in MRDOC which
names are inverse; a bundled list says so of common ones. Facts of any other relation are loaded as
their rows state them. A row takes ten bytes (two concepts and a relation in eight, its source in
two), so that a whole release's rows fit in memory.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kgqa.errors import DumpMalformedError
from kgqa.graph.model import EDGE_SCHEMA, EdgeBatch
from kgqa.loaders.base import data_lines
from kgqa.loaders.umls_ids import CUI_BITS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray
    from kgqa.loaders.umls_ids import Cuis

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
_RELATION_BITS = 63 - 2 * CUI_BITS
_SOURCE_BITS = 15  # and a bit that says whether the row had to be turned round
_TURNED = np.uint16(1 << _SOURCE_BITS)
_CONCEPT = (1 << CUI_BITS) - 1
_AT_ONCE = 1 << 21  # rows that are sorted together
_BATCH_ROWS = 100_000


class Inverses:
    """The inverse of each relation, as a bundled list and a release say."""

    def __init__(self) -> None:
        self._inverse = dict(_REL_INVERSES) | {b: a for a, b in _REL_INVERSES.items()}
        self._inverse |= {name: name for name in _SYMMETRIC}
        listed = (line.partition(" ") for line in data_lines("umls_inverses.txt"))
        self.learn_documented((one, other) for one, _, other in listed)

    def learn_documented(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Take inverses (relation, inverse) as MRDOC states them."""
        for relation, inverse in pairs:
            if relation and inverse:
                self._inverse[relation] = inverse
                self._inverse.setdefault(inverse, relation)

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


class Codes:
    """Numbers of strings of which there are few."""

    def __init__(self, what: str, bits: int) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}
        self._what = what
        self._most = 1 << bits

    def of(self, name: str) -> int:
        """Return the number of ``name``. Raises DumpMalformedError if there are too many."""
        if name not in self._codes:
            if len(self.names) == self._most:
                raise DumpMalformedError(
                    f"MRREL.RRF names more than {self._most:,} {self._what}, the last {name!r}.",
                    "Take a UMLS release in Rich Release Format.",
                )
            self._codes[name] = len(self.names)
            self.names.append(name)
        return self._codes[name]

    def encode(self, names: pa.Array) -> IntArray:
        """Return the numbers of ``names``."""
        coded = names.dictionary_encode()
        codes = np.array([self.of(name) for name in coded.dictionary.to_pylist()], dtype=np.int64)
        found: IntArray = codes[coded.indices.to_numpy()]
        return found


class RelationRows:
    """All rows of MRREL that may become edges, in the order they were added."""

    def __init__(self, cuis: Cuis) -> None:
        self._cuis = cuis
        self._relations = Codes("relations", _RELATION_BITS)
        self._sources = Codes("sources", _SOURCE_BITS)
        self._keys: list[IntArray] = []
        self._from: list[NDArray[np.uint16]] = []

    def add(self, heads: IntArray, relations: pa.Array, tails: IntArray, sources: pa.Array) -> None:
        """Take rows: numbers of concepts, names of relations and of sources."""
        codes = self._relations.encode(relations)
        self._keys.append(_key(heads, codes, tails))
        self._from.append(self._sources.encode(sources).astype(np.uint16))

    def edges(
        self, inverses: Inverses, used: set[str], dropped: Counter[str]
    ) -> Iterator[EdgeBatch]:
        """Yield each fact as one edge, with the sources that state it; the rows are used up.

        Puts the relations of the edges into ``used`` and counts further rows of a fact into
        ``dropped``.
        """
        self._turn(inverses)
        parts = -(-sum(map(len, self._keys)) // _AT_ONCE)
        for part in range(parts):
            yield from self._united(*self._part(part, parts), used, dropped)

    def _turn(self, inverses: Inverses) -> None:
        """Bring all rows into the canonical form of their fact.

        Of a symmetric relation's two forms that is the one whose head comes first.
        """
        names = list(self._relations.names)
        forms = [inverses.canonical(name) for name in names]
        canonical = np.array([self._relations.of(name) for name, _ in forms], dtype=np.int64)
        turned = np.array([turn for _, turn in forms], dtype=np.bool_)
        symmetric = np.array([inverses.of(name) == name for name in names], dtype=np.bool_)
        for place, keys in enumerate(self._keys):
            heads, relations, tails = _parts(keys)
            turn = turned[relations]
            either = np.flatnonzero(symmetric[relations])
            turn[either] = self._cuis.later(heads[either], tails[either])
            self._keys[place] = _key(
                np.where(turn, tails, heads), canonical[relations], np.where(turn, heads, tails)
            )
            self._from[place] |= np.where(turn, _TURNED, np.uint16(0))

    def _part(self, part: int, parts: int) -> tuple[IntArray, NDArray[np.uint16]]:
        """Return the rows of some of the heads, by fact, in their order within each."""
        chosen = [_parts(keys)[0] % parts == part for keys in self._keys]
        keys = np.concatenate([each[some] for each, some in zip(self._keys, chosen, strict=True)])
        said = np.concatenate([each[some] for each, some in zip(self._from, chosen, strict=True)])
        order = np.argsort(keys, kind="stable")
        return keys[order], said[order]

    def _united(
        self, keys: IntArray, said: NDArray[np.uint16], used: set[str], dropped: Counter[str]
    ) -> Iterator[EdgeBatch]:
        new = np.ones(len(keys), dtype=np.bool_)
        new[1:] = keys[1:] != keys[:-1]
        turned = (said & _TURNED) != 0
        for reason, again in (
            ("inverse of a loaded row", ~new & turned),
            ("same relation again", ~new & ~turned),
        ):
            if again.any():
                dropped[reason] += int(np.count_nonzero(again))
        facts = keys[new]
        sets, texts = _sets(np.cumsum(new) - 1, said & ~_TURNED, self._sources.names)
        properties = pa.array(texts, type=pa.string())
        names = pa.array(self._relations.names, type=pa.string())
        used |= {self._relations.names[code] for code in np.unique(_parts(facts)[1]).tolist()}
        for start in range(0, len(facts), _BATCH_ROWS):
            heads, relations, tails = _parts(facts[start : start + _BATCH_ROWS])
            columns = [
                self._cuis.decode(heads),
                names.take(relations),
                self._cuis.decode(tails),
                properties.take(sets[start : start + _BATCH_ROWS]),
            ]
            yield EdgeBatch(pa.RecordBatch.from_arrays(columns, schema=EDGE_SCHEMA))


def _key(heads: IntArray, relations: IntArray, tails: IntArray) -> IntArray:
    return (((heads << _RELATION_BITS) | relations) << CUI_BITS) | tails


def _parts(keys: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    relations = (keys >> CUI_BITS) & ((1 << _RELATION_BITS) - 1)
    return keys >> (CUI_BITS + _RELATION_BITS), relations, keys & _CONCEPT


def _sets(
    facts: IntArray, sources: NDArray[np.uint16], names: list[str]
) -> tuple[IntArray, list[str]]:
    """Return which set of sources states each fact, and the sets as JSON.

    ``facts``: of each row the number of its fact, rising; ``sources``: of each row the place of its
    source in ``names``.
    """
    many = len(names)
    stated = np.sort(facts * many + sources)
    stated = stated[np.diff(stated, prepend=-1) != 0]  # a source that says it twice says it once
    facts, members = stated // many, stated % many
    starts = np.flatnonzero(np.diff(facts, prepend=-1))
    sizes = np.diff(np.append(starts, len(facts)))
    sets: list[tuple[int, ...]] = [(source,) for source in range(many)]
    found: IntArray = members[starts]
    # The sets grow source by source; Python sees each different one once.
    for size in range(1, int(sizes.max(initial=1))):
        more = np.flatnonzero(sizes > size)
        grown, which = np.unique(
            found[more] * many + members[starts[more] + size], return_inverse=True
        )
        found[more] = len(sets) + which
        sets += [(*sets[code // many], code % many) for code in grown.tolist()]
    texts = [json.dumps({"sources": sorted(names[source] for source in some)}) for some in sets]
    return found, texts

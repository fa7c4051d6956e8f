"""MRREL: which relations are inverse to which, and its rows as integers and as edges.

Each fact stands in MRREL twice, once from either end, with inverse names. One of the two names is
canonical, so that a fact is one edge whichever row it was read from. A release says in MRDOC which
names are inverse; a bundled list says so of common ones. Facts of any other relation are loaded as
their rows state them. A row takes twelve bytes, so that a whole release's rows fit in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import DumpMalformedError
from kgqa.loaders.base import data_lines, edge_batch
from kgqa.loaders.strings import mask_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kgqa.graph.model import BoolArray, EdgeBatch, IntArray

_REGULAR = 10**7  # numbers below are the seven digits of a CUI
_NUMBERS = 1 << 25  # of concepts
_FACT = {"head": pa.int32(), "relation": pa.uint16(), "tail": pa.int32()}
_ROWS = pa.schema({**_FACT, "source": pa.uint16()})
_AT_ONCE = 1 << 21  # rows that are united together


class Cuis:
    """Encodes concept ids as numbers: ``C`` and seven digits as digits; others (``CL…``) above."""

    def __init__(self) -> None:
        self._odd: dict[str, int] = {}  # in the order of their numbers

    def encode(self, ids: pa.Array) -> IntArray:
        """Return the number of each concept id (strings without null); new ids get a new one.

        Raises DumpMalformedError if millions of ids are of another form.
        """
        coded = ids.dictionary_encode()
        ids = coded.dictionary
        regular = pc.match_substring_regex(ids, r"\AC[0-9]{7}\z")
        digits = pc.if_else(regular, pc.utf8_slice_codeunits(ids, 1), "0")
        codes: IntArray = digits.cast(pa.int64()).to_numpy().copy()
        odd = np.flatnonzero(~mask_of(regular))
        for place, id_ in zip(odd.tolist(), ids.take(odd).to_pylist(), strict=True):
            codes[place] = _REGULAR + _code(id_, self._odd, "odd concept ids", _NUMBERS - _REGULAR)
        coded_ids: IntArray = codes[coded.indices.to_numpy()]
        return coded_ids

    def decode(self, codes: IntArray) -> pa.Array:
        """Return the concept ids of numbers."""
        digits = pc.utf8_lpad(pa.array(codes).cast(pa.string()), 7, "0")
        ids = pc.binary_join_element_wise("C", digits, "")
        odd = codes >= _REGULAR
        known = pa.array(list(self._odd), type=pa.string())
        return pc.replace_with_mask(ids, pa.array(odd), known.take(codes[odd] - _REGULAR))

    def later(self, first: IntArray, second: IntArray) -> BoolArray:
        """Return which ids ``first`` come after ``second`` in alphabetical order."""
        after: BoolArray = first > second
        odd = np.flatnonzero((first >= _REGULAR) | (second >= _REGULAR))
        after[odd] = pc.greater(self.decode(first[odd]), self.decode(second[odd]))
        return after


class CuiSet:
    """A set of concept numbers: an array of one byte for each possible number."""

    def __init__(self) -> None:
        self._present = np.zeros(_NUMBERS, dtype=np.bool_)

    def __bool__(self) -> bool:
        return bool(self._present.any())

    def has(self, codes: IntArray) -> BoolArray:
        """Return which of ``codes`` are in the set."""
        mask: BoolArray = self._present[codes]
        return mask

    def new(self, codes: IntArray) -> BoolArray:
        """Return which of ``codes`` are not in the set yet (each once), and add them."""
        first = np.zeros(len(codes), dtype=np.bool_)
        first[np.unique(codes, return_index=True)[1]] = True
        first &= ~self.has(codes)
        self._present[codes] = True
        return first


def _code(name: str, known: dict[str, int], what: str, most: int = 1 << 16) -> int:
    """Return the number of a name in ``known``, assigning the next one to a new name.

    ``what``: the names as a noun for the error. Raises DumpMalformedError for more than ``most``.
    """
    number = known.setdefault(name, len(known))
    if number >= most:
        raise DumpMalformedError(
            f"The release has more than {most:,} {what}, the last {name!r}.",
            "Take a UMLS release in Rich Release Format.",
        )
    return number


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
INVERSE, AGAIN = "inverse of a loaded row", "same relation again"


class Inverses:
    """The inverse of each relation, from a bundled list and from a release."""

    def __init__(self) -> None:
        self._inverse = dict(_REL_INVERSES) | {b: a for a, b in _REL_INVERSES.items()}
        self._inverse |= {name: name for name in _SYMMETRIC}
        listed = (line.partition(" ") for line in data_lines("umls_inverses.txt"))
        self.learn_documented((relation, inverse) for relation, _, inverse in listed)

    def learn_documented(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Add inverse pairs (relation, inverse) from MRDOC; skip pairs with an empty name."""
        for relation, inverse in pairs:
            if relation and inverse:
                self._inverse[relation] = inverse
                self._inverse.setdefault(inverse, relation)

    def of(self, relation: str) -> str | None:
        """Return the inverse of a relation (itself if it is symmetric), None if unknown."""
        return self._inverse.get(relation)

    def canonical(self, relation: str) -> tuple[str, bool]:
        """Return the name under which facts of ``relation`` are loaded, and whether ends swap.

        Of two inverse names the shorter is canonical, then the earlier in the alphabet; a relation
        without a known inverse keeps its name.
        """
        inverse = self._inverse.get(relation)
        if inverse is None or _rank(relation) <= _rank(inverse):
            return relation, False
        return inverse, True


def _rank(relation: str) -> tuple[bool, int, str]:
    """Return the sort key of the names of inverse relations; the lowest is canonical."""
    return (relation in _REL_INVERSES.values(), len(relation), relation)


class RelationRows:
    """The rows of MRREL that may become edges, packed as integers, in order of addition."""

    def __init__(self, cuis: Cuis) -> None:
        self._cuis = cuis
        self._relations: dict[str, int] = {}
        self._sources: dict[str, int] = {}
        self._rows: list[pa.RecordBatch] = []

    def add(self, heads: IntArray, relations: pa.Array, tails: IntArray, sources: pa.Array) -> None:
        """Add rows: head and tail concept numbers, names of relations and of sources."""
        numbers = _numbers(relations, self._relations, "relations")
        from_ = _numbers(sources, self._sources, "sources")
        columns = zip((heads, numbers, tails, from_), _ROWS.types, strict=True)
        arrays = [pa.array(column, type=type_) for column, type_ in columns]
        self._rows.append(pa.RecordBatch.from_arrays(arrays, schema=_ROWS))

    def edges(
        self, inverses: Inverses, used: set[str], dropped: Counter[str]
    ) -> Iterator[EdgeBatch]:
        """Yield each fact as one edge with its sources; this empties the rows.

        Adds the edges' relations to ``used``, and counts repeated rows of a fact in ``dropped``.
        """
        self._canonical(inverses)
        names = pa.array(list(self._relations), pa.string())
        parts = -(-sum(map(len, self._rows)) // _AT_ONCE)
        for part in range(parts):
            mine = (pa.array(rows["head"].to_numpy() % parts == part) for rows in self._rows)
            chosen = map(pa.RecordBatch.filter, self._rows, mine)
            facts = pa.Table.from_batches(chosen).group_by(list(_FACT), use_threads=False)
            facts = facts.aggregate(
                [("turned", how) for how in ("first", "sum", "count")] + [("source", "distinct")]
            ).combine_chunks()
            first, turned, rows = (facts[f"turned_{how}"] for how in ("first", "sum", "count"))
            again = pc.sum(turned).as_py() - pc.sum(first).as_py()
            others = pc.sum(rows).as_py() - len(facts) - again
            dropped.update(+Counter({INVERSE: again, AGAIN: others}))
            relations = names.take(facts["relation"].combine_chunks())
            used |= set(pc.unique(relations).to_pylist())
            heads, tails = (self._cuis.decode(facts[end].to_numpy()) for end in ("head", "tail"))
            about = self._sources_json(facts["source_distinct"].combine_chunks())
            yield edge_batch(heads, relations, tails, about)

    def _canonical(self, inverses: Inverses) -> None:
        """Convert all rows to the canonical form of their fact.

        For a symmetric relation, that is the form whose head comes first.
        """
        given = list(self._relations)
        forms = [inverses.canonical(name) for name in given]
        canonical = np.array([_code(n, self._relations, "relations") for n, _ in forms], np.int64)
        inverse = np.array([turn for _, turn in forms], dtype=np.bool_)
        symmetric = np.array([inverses.of(name) == name for name in given], dtype=np.bool_)
        for place, rows in enumerate(self._rows):
            heads, relations, tails, sources = (column.to_numpy() for column in rows.columns)
            turned = inverse[relations]
            either = np.flatnonzero(symmetric[relations])
            turned[either] = self._cuis.later(heads[either], tails[either])
            self._rows[place] = pa.record_batch(
                {
                    "head": np.where(turned, tails, heads),
                    "relation": canonical[relations].astype(np.uint16),
                    "tail": np.where(turned, heads, tails),
                    "source": sources,
                    "turned": turned,
                }
            )

    def _sources_json(self, sources: pa.ListArray) -> pa.Array:
        """Return sets of sources as the JSON of an edge's properties."""
        order = sorted(self._sources)
        rank = np.argsort([self._sources[name] for name in order])
        owners, members = pc.list_parent_indices(sources).to_numpy(), sources.flatten().to_numpy()
        packed = np.sort(owners.astype(np.int64) * len(order) + rank[members])
        quoted = pa.array([json.dumps(name) for name in order], pa.string())
        lists = pa.ListArray.from_arrays(sources.offsets, quoted.take(packed % len(order)))
        return pc.binary_join_element_wise('{"sources": [', pc.binary_join(lists, ", "), "]}", "")


def _numbers(names: pa.Array, known: dict[str, int], what: str) -> IntArray:
    """Return the number of each name in ``known``, assigning numbers to new names.

    ``what``: the names as a noun for the error of too many.
    """
    coded = names.dictionary_encode()
    codes = [_code(name, known, what) for name in coded.dictionary.to_pylist()]
    numbers: IntArray = np.array(codes, dtype=np.int64)[coded.indices.to_numpy()]
    return numbers

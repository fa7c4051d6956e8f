"""A column of N-Triples literals: their texts without escapes, and their ids and names as values.

The same as ``ntriples.parse``, ``values.value_id`` and ``values.value_name`` of each. What it does
not do: say which literals are names.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.loaders.ntriples import unescape
from kgqa.loaders.triples_text import each_once, inside, is_text, mask_of
from kgqa.loaders.values import value_id, value_name

if TYPE_CHECKING:
    from collections import Counter

    from kgqa.graph.model import BoolArray, IntArray

OTHER_LANGUAGE, EMPTY_TEXT = "other language", "empty text"
_SPACE = (  # what Python takes for white space
    r"\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
)
IRI = rf'<[^<>"{_SPACE}]+>'
TEXT = r'"[^"\\\x00\n]*(?:\\(?:[tbnrf"\'\\]|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})[^"\\\x00\n]*)*"'
SUFFIX = rf"(?:@[A-Za-z]+(?:-[A-Za-z0-9]+)*|\^\^{IRI})"
"""What ``ntriples.TRIPLE`` takes, as patterns of Arrow's kernels; a literal is TEXT and SUFFIX."""

_LITERAL = rf"\A(?P<text>{TEXT})(?P<suffix>{SUFFIX}?)\z"
# What may make an escape that is no character: half of a pair, NUL, beyond the last.
_UNSURE = r"\\u[dD][89a-fA-F]|\\u0000|\\U"


@dataclass(frozen=True, slots=True)
class Literals:
    """The literals that are kept: ``rows`` are their places in the column that was given.

    ``odd``: which of those given need a closer look. ``kinds``: (language, datatype) of each
    suffix, ``kind`` which of them a text has.
    """

    odd: BoolArray
    rows: IntArray
    texts: pa.Array
    kinds: list[tuple[str | None, str | None]]
    kind: IntArray

    def values(self, mask: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return ids and names of some texts as values."""
        texts, kind = self.texts.filter(mask), self.kind[mask_of(mask)]
        ends = pa.array([value_id("", *each)[1:] for each in self.kinds], type=pa.string())
        ids = pc.binary_join_element_wise('"', texts, ends.take(pa.array(kind)), "")
        names = texts
        for place in np.unique(kind).tolist():
            datatype = self.kinds[place][1]
            if datatype is not None:
                there = pa.array(kind == place)
                found = each_once(texts.filter(there), partial(value_name, datatype=datatype))
                names = pc.replace_with_mask(names, there, found)
        return ids, names


def read_literals(literals: pa.Array, language: str, dropped: Counter[str]) -> Literals:
    """Return the literals that are texts in ``language``, or in none; count the others."""
    parts = pc.extract_regex(literals, _LITERAL)
    texts, suffixes = parts.field("text"), parts.field("suffix").dictionary_encode()
    kinds = [_kind(suffix) for suffix in suffixes.dictionary.to_pylist()]
    kind = suffixes.indices.to_numpy().astype(np.int64)
    odd = mask_of(pc.match_substring_regex(texts, _UNSURE))
    wanted = np.array([tag in (None, language) for tag, _ in kinds], dtype=np.bool_)[kind]
    dropped[OTHER_LANGUAGE] += int(np.count_nonzero(~wanted & ~odd))
    rows = np.flatnonzero(wanted & ~odd)
    texts = texts.take(pa.array(rows))
    texts = inside(texts, 1, 1)
    escaped = pc.match_substring(texts, "\\")
    if pc.any(escaped).as_py():
        plain = each_once(texts.filter(escaped), unescape)
        texts = pc.replace_with_mask(texts, escaped, plain)
    filled = is_text(texts)
    dropped[EMPTY_TEXT] += int(np.count_nonzero(~filled))
    rows = rows[filled]
    return Literals(odd, rows, texts.filter(pa.array(filled)), kinds, kind[rows])


def _kind(suffix: str) -> tuple[str | None, str | None]:
    """Return language and datatype."""
    if suffix.startswith("@"):
        return suffix[1:], None
    return None, suffix[3:-1] or None

"""Columns of N-Triples literals: their texts, and the ids and names of value nodes.

A literal is split at its last quote, and what follows that quote (a language or a datatype) is
understood once for all literals that share it. Only a text with a backslash or a quote in it is
looked at by itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.loaders.delimited import as_text, spans
from kgqa.loaders.ntriples import SUFFIX, TRIPLE, unescape, why_not
from kgqa.loaders.strings import each_once, has_nul, mask_of, offsets_of

if TYPE_CHECKING:
    from kgqa.graph.model import BoolArray, IntArray

XSD = "http://www.w3.org/2001/XMLSchema#"
OTHER_LANGUAGE = "other language"
_QUOTE = ord('"')
_NUMBERS = frozenset({"decimal", "integer", "int", "long", "float", "double", "nonNegativeInteger"})
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_CLOCK = re.compile(r"(-?\d{4,}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d(?:\.\d+)?)?(Z|[+-]\d\d:\d\d)?")
_MOST_DIGITS = 15  # beyond, a float would change the number


@dataclass(frozen=True, slots=True)
class Literals:
    """The literals of a column that are in the wanted language, or in none.

    ``rows``: their places in the column. ``texts``: without escapes. ``suffixes``: (language,
    datatype) of each suffix, and ``suffix`` which of them a text has. ``foreign``: how many are in
    another language. ``faults``: place and reason of what is not a literal.
    """

    rows: IntArray
    texts: pa.Array
    suffixes: list[tuple[str | None, str | None]]
    suffix: IntArray
    foreign: int
    faults: list[tuple[int, str]]

    def values(self, chosen: BoolArray) -> tuple[pa.Array, pa.Array]:
        """Return ids and names of some texts as values."""
        texts, suffix = self.texts.filter(pa.array(chosen)), self.suffix[chosen]
        ends = pa.array([value_id("", *each)[1:] for each in self.suffixes], type=pa.string())
        ids = pc.binary_join_element_wise('"', texts, ends.take(pa.array(suffix)), "")
        names = texts
        for place, (_, datatype) in enumerate(self.suffixes):
            if is_renamed(datatype) and (suffix == place).any():
                there = pa.array(suffix == place)
                found = each_once(texts.filter(there), partial(value_name, datatype=datatype))
                names = pc.replace_with_mask(names, there, found)
        return ids, names


def read_literals(terms: pa.Array, language: str) -> Literals:
    """Return what is kept of a column of terms (binary) that all start with a quote."""
    places, content = offsets_of(terms)
    starts, ends = places[:-1], places[1:]
    quotes = np.flatnonzero(content[places[0] : places[-1]] == _QUOTE) + places[0]
    last = quotes[np.searchsorted(quotes, ends) - 1] if len(terms) else quotes
    data = pa.py_buffer(content)
    coded = spans(data, last + 1, ends).dictionary_encode()
    understood = [_suffix_of(raw) for raw in coded.dictionary.to_pylist()]
    suffix = coded.indices.to_numpy().astype(np.int64)
    wanted = np.array([each is None or each[0] in (None, language) for each in understood], bool)
    sound = np.array([each is not None for each in understood], dtype=np.bool_)
    if len(terms):
        wanted, sound = wanted[suffix], sound[suffix] & (last > starts)
        wanted |= last <= starts
    rows = np.flatnonzero(wanted)
    texts, decoded = as_text(
        spans(data, starts[rows] + 1, np.maximum(last[rows], starts[rows] + 1))
    )
    good = sound[rows] & decoded & ~has_nul(texts)
    odd = mask_of(pc.match_substring(texts, "\\")) | mask_of(pc.match_substring(texts, '"')) | ~good
    faults: list[tuple[int, str]] = []
    if odd.any():
        changed = []
        for place in np.flatnonzero(odd).tolist():
            row = int(rows[place])
            try:
                changed.append(_text_of(terms[row].as_py()))
                good[place] = True
            except ValueError as error:
                faults.append((row, str(error)))
                changed.append("")
                good[place] = False
        texts = pc.replace_with_mask(texts, pa.array(odd), pa.array(changed, type=pa.string()))
    suffixes = [each or (None, None) for each in understood]
    kept = rows[good]
    foreign = len(terms) - len(rows)
    return Literals(kept, texts.filter(pa.array(good)), suffixes, suffix[kept], foreign, faults)


def _suffix_of(raw: bytes) -> tuple[str | None, str | None] | None:
    """Return language and datatype, None for what is neither."""
    match = SUFFIX.fullmatch(raw.decode(errors="surrogateescape"))
    return (match[1], match[2]) if match else None


def _text_of(term: bytes) -> str:
    """Return the text of one literal. Raises ValueError with the reason why it is not one."""
    try:
        line = f"<s>\t<p>\t{term.decode()}\t."
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 ({error.reason})") from None
    match = TRIPLE.fullmatch(line)
    if match is None:
        raise ValueError(why_not(line))
    return unescape(match[4])


def value_id(text: str, language: str | None, datatype: str | None) -> str:
    """Return the id of a literal: its text in quotes, with its type or language.

    >>> value_id("1968-01-01", None, XSD + "date")
    '"1968-01-01"^^xsd:date'
    """
    if language:
        return f'"{text}"@{language}'
    if not datatype:
        return f'"{text}"'
    short = f"xsd:{datatype.removeprefix(XSD)}" if datatype.startswith(XSD) else f"<{datatype}>"
    return f'"{text}"^^{short}'


def is_renamed(datatype: str | None) -> bool:
    """Return whether people may write a literal of a type otherwise than as its text."""
    kind = (datatype or "").removeprefix(XSD)
    return kind in _NUMBERS or kind == "dateTime"


def value_name(text: str, datatype: str | None) -> str:
    """Return the literal as a person writes it.

    >>> value_name("5.30", XSD + "double"), value_name("2010-05-01T10:00:00Z", XSD + "dateTime")
    ('5.3', '2010-05-01 10:00')
    """
    kind = (datatype or "").removeprefix(XSD)
    if kind in _NUMBERS:
        return _number(text)
    match = _CLOCK.fullmatch(text) if kind == "dateTime" else None
    if match is None:
        return text
    day, minutes, seconds, zone = match.groups()
    seconds = "" if seconds in (None, ":00") else seconds
    zone = "" if zone in (None, "Z", "+00:00") else f" {zone}"
    return f"{day} {minutes}{seconds}{zone}"


def _number(text: str) -> str:
    if not _NUMBER.fullmatch(text):
        return text
    if "e" in text or "E" in text:
        number = float(text)
        if abs(number) >= 10**_MOST_DIGITS or (number and abs(number) < 1e-6):
            return text
        text = f"{number:.{_MOST_DIGITS}g}"
        text = text if "e" not in text else f"{number:.12f}"
    text = text.removeprefix("+")
    return text.rstrip("0").rstrip(".") if "." in text else text

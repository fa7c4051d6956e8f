"""A column of N-Triples literals as value nodes: ids and names, and which are worth a node.

The same as ``values.value_id`` and ``values.value_name`` of each, made by columns. What it does not
do: names of entities.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.loaders.fields import as_text
from kgqa.loaders.ntriples import TRIPLE, unescape, why_not
from kgqa.loaders.values import value_id, value_name

if TYPE_CHECKING:
    from kgqa.graph.model import IntArray

LONGEST_TEXT = 200  # characters of a text that is still a value and no description
_PLAIN = (
    r'^"(?P<text>[^"\\]*)"(?:@(?P<tag>[A-Za-z]+(?:-[A-Za-z0-9]+)*)|\^\^<(?P<type>[^<>"\s]+)>)?$'
)
_LEFT_OUT = "long text, empty text or web address"
_EMPTY, _AT, _QUOTE = (pa.scalar(text, pa.string()) for text in ("", "@", '"'))
_LONGEST = pa.scalar(LONGEST_TEXT, pa.int32())
_XSD_DATE = "http://www.w3.org/2001/XMLSchema#date"


@dataclass(slots=True)
class Values:
    """The literals that are kept: ``rows`` are their places in the column that was given."""

    rows: IntArray
    ids: pa.Array
    names: pa.Array
    dropped: Counter[str] = field(default_factory=Counter)
    rejects: list[tuple[int, str]] = field(default_factory=list)  # place, reason


def read_values(literals: pa.Array, language: str) -> Values:
    """Return the values among ``literals`` (binary, as they stand in the dump)."""
    dropped: Counter[str] = Counter()
    rejects: list[tuple[int, str]] = []
    texts, good = as_text(literals)
    found = pc.extract_regex(texts, pattern=_PLAIN)
    plain = found.is_valid().to_numpy(zero_copy_only=False) & good
    text, tag, kind = (pc.struct_field(found, name) for name in ("text", "tag", "type"))
    tagged = pc.fill_null(pc.not_equal(tag, _EMPTY), False).to_numpy(zero_copy_only=False)
    foreign = (
        plain
        & tagged
        & ~pc.equal(tag, pa.scalar(language, pa.string()))
        .fill_null(False)
        .to_numpy(zero_copy_only=False)
    )
    dropped["other language"] += int(foreign.sum())
    short = pc.less(pc.utf8_length(text), _LONGEST)
    wanted = pc.and_(short, pc.not_equal(pc.utf8_trim_whitespace(text), _EMPTY))
    wanted = pc.and_not(wanted, pc.match_substring_regex(text, "^https?://"))
    kept = wanted.fill_null(False).to_numpy(zero_copy_only=False)
    dropped[_LEFT_OUT] += int((plain & ~foreign & ~kept).sum())
    rows = np.flatnonzero(plain & ~foreign & kept)
    ids, names = _columns(text.take(pa.array(rows)), tag.take(rows), kind.take(rows))
    slow_rows: list[int] = []
    slow: list[tuple[str, str]] = []
    for place in np.flatnonzero(~plain).tolist():
        try:
            value = _by_hand(literals[place].as_py(), language, dropped)
        except ValueError as error:
            rejects.append((place, str(error)))
            continue
        if value:
            slow_rows.append(place)
            slow.append(value)
    if slow:
        rows = np.concatenate([rows, np.array(slow_rows, dtype=np.int64)])
        ids = pa.concat_arrays([ids, pa.array([ident for ident, _ in slow], type=pa.string())])
        names = pa.concat_arrays([names, pa.array([name for _, name in slow], type=pa.string())])
    return Values(rows, ids, names, dropped, rejects)


def _columns(text: pa.Array, tag: pa.Array, kind: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return ids and names of plain literals."""
    kinds = kind.dictionary_encode()
    suffixes = [
        value_id("", None, each or None).removeprefix('""') for each in kinds.dictionary.to_pylist()
    ]
    typed = pa.array(suffixes, type=pa.string()).take(kinds.indices)
    tagged = pc.if_else(
        pc.equal(tag, _EMPTY), _EMPTY, pc.binary_join_element_wise(_AT, tag, _EMPTY)
    )
    ids = pc.binary_join_element_wise(_QUOTE, text, _QUOTE, tagged, typed, _EMPTY)
    names = text
    shown_otherwise = pa.array(
        [bool(each) and each != _XSD_DATE for each in kinds.dictionary.to_pylist()],
        type=pa.bool_(),
    ).take(kinds.indices)
    if pc.any(shown_otherwise).as_py():
        pairs = zip(
            text.filter(shown_otherwise).to_pylist(),
            kind.filter(shown_otherwise).to_pylist(),
            strict=True,
        )
        written = pa.array([value_name(*pair) for pair in pairs], type=pa.string())
        names = pc.replace_with_mask(text, shown_otherwise, written)
    return ids, names


def _by_hand(literal: bytes, language: str, dropped: Counter[str]) -> tuple[str, str] | None:
    """Return (id, name) of a literal, nothing where it is left out. Raises ValueError."""
    try:
        line = f"<s>\t<p>\t{literal.decode()}\t."
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 ({error.reason})") from None
    match = TRIPLE.fullmatch(line)
    if match is None:
        raise ValueError(why_not(line))
    _, _, _, escaped, tag, kind = match.groups()
    if tag is not None and tag != language:
        dropped["other language"] += 1
        return None
    text = unescape(escaped) if len(escaped) < LONGEST_TEXT * 12 else escaped
    if not text.strip() or len(text) >= LONGEST_TEXT or text.startswith(("http://", "https://")):
        dropped[_LEFT_OUT] += 1
        return None
    return value_id(text, tag, kind), value_name(text, kind)

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
from kgqa.loaders.values import XSD, value_id, value_name

if TYPE_CHECKING:
    from kgqa.graph.model import BoolArray, IntArray

LONGEST_TEXT = 200  # characters of a text that is still a value and no description
_LEFT_OUT = "long text, empty text or web address"
_EMPTY, _QUOTE = (pa.scalar(text, pa.string()) for text in ("", '"'))
_NOTHING = pa.array([], type=pa.string())
_LONGEST = pa.scalar(LONGEST_TEXT, pa.int32())
_XSD_DATE = f"{XSD}date"
_SUFFIXES: dict[str, str | None] = {'"': None} | {
    f'"^^<{XSD}{kind}>': f"{XSD}{kind}"
    for kind in ("date", "gYear", "gYearMonth", "dateTime", "integer", "decimal", "double", "float")
}


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
    odd = pc.match_substring(texts, "\\").to_numpy(zero_copy_only=False) | ~good
    left = ~odd
    parts: list[tuple[IntArray, pa.Array, pa.Array]] = []
    # By far the most literals have no suffix, or one of a few.
    for suffix, kind in _SUFFIXES.items():
        there = pc.ends_with(texts, suffix).to_numpy(zero_copy_only=False) & left
        if there.any():
            inside = _inside(texts.filter(pa.array(there)), suffix)
            # a quote within is no plain literal, whatever it is
            plain = pc.invert(pc.match_substring(inside, '"')).to_numpy(zero_copy_only=False)
            rows = np.flatnonzero(there)[plain]
            left[rows] = False
            kept, lost = _kept(inside.filter(pa.array(plain)))
            dropped[_LEFT_OUT] += lost
            text = inside.filter(pa.array(plain)).filter(pa.array(kept))
            name = text
            if kind not in (None, _XSD_DATE):
                written = [value_name(each, kind) for each in text.to_pylist()]
                name = pa.array(written, type=pa.string())
            tail = pa.scalar(value_id("", None, kind)[1:], pa.string())
            ids = pc.binary_join_element_wise(_QUOTE, text, tail, _EMPTY)
            parts.append((rows[kept], ids, name))
    slow_rows: list[int] = []
    slow: list[tuple[str, str]] = []
    for place in np.flatnonzero(odd | left).tolist():
        try:
            value = _by_hand(literals[place].as_py(), language, dropped)
        except ValueError as error:
            rejects.append((place, str(error)))
            continue
        if value:
            slow_rows.append(place)
            slow.append(value)
    ids, names = (
        (pa.array(column, type=pa.string()) for column in zip(*slow, strict=True))
        if (slow)
        else (_NOTHING, _NOTHING)
    )
    parts.append((np.array(slow_rows, dtype=np.int64), ids, names))
    return Values(
        np.concatenate([rows for rows, _, _ in parts]),
        pa.concat_arrays([ids for _, ids, _ in parts]),
        pa.concat_arrays([names for _, _, names in parts]),
        dropped,
        rejects,
    )


def _inside(texts: pa.Array, suffix: str) -> pa.Array:
    """Return what stands between the first quote and the suffix (which begins with a quote)."""
    inside = pc.binary_slice(texts.cast(pa.binary()), 1, -len(suffix.encode()))
    return inside.cast(pa.string())


def _kept(texts: pa.Array) -> tuple[BoolArray, int]:
    """Return which texts are worth a node, and how many are not."""
    wanted = pc.less(pc.utf8_length(texts), _LONGEST)
    wanted = pc.and_(wanted, pc.not_equal(pc.utf8_trim_whitespace(texts), _EMPTY))
    wanted = pc.and_not(wanted, pc.starts_with(texts, "http://"))
    wanted = pc.and_not(wanted, pc.starts_with(texts, "https://"))
    kept: BoolArray = wanted.to_numpy(zero_copy_only=False)
    return kept, len(kept) - int(kept.sum())


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

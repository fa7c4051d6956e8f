"""Columns of text: which are blank, without the blanks round them, as JSON; lines and their spans.

Each gives what Python gives for one text at a time. What it does not do: know what a text is for.
"""

from __future__ import annotations

import codecs
import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray

LINE_FEED = 10
_BLANK, _NOT_ASCII = 0x20, 0x80  # up to the one and from the other on, a byte may be of white space
_SPECIAL = r'["\\\x00-\x1f]'  # what JSON writes otherwise than it is
_INTEGER = r"\A(?:0|-?[1-9][0-9]{0,17})\z"
NO_TEXT = pa.array([], type=pa.string())


def spans(data: pa.Buffer, starts: IntArray, ends: IntArray) -> pa.Array:
    """Return the bytes from each start to its end as a binary column; spans do not overlap."""
    if not len(starts):
        return pa.array([], type=pa.binary())
    offsets = np.empty(2 * len(starts), dtype=np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    every = pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), data]
    )
    return every.take(pa.array(np.arange(0, len(offsets), 2)))


def inside(texts: pa.Array, before: int, after: int = 0) -> pa.Array:
    """Return strings (none null) without some bytes, which are ASCII, at their start and end.

    Of one that has not so many, what is left is any text of it.
    """
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return texts
    places = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    starts = np.minimum(places[:-1] + before, places[1:])
    return spans(data, starts, np.maximum(starts, places[1:] - after)).view(pa.string())


def bad_lines(data: NDArray[np.uint8], ends: IntArray) -> IntArray:
    """Return which lines (``ends``: where the line feed of each is) are not UTF-8."""
    view = data.data
    bad: list[int] = []
    start = 0
    while start < len(data):
        try:
            codecs.utf_8_decode(view[start:], "strict", True)
            break
        except UnicodeDecodeError as error:
            line = int(np.searchsorted(ends, start + error.start))
            bad.append(line)
            start = int(ends[line]) + 1
    return np.array(bad, dtype=np.int64)


def is_utf8(data: pa.Buffer) -> bool:
    """Return whether all of a block is UTF-8."""
    offsets = pa.py_buffer(np.array([0, data.size], dtype=np.int32))
    try:
        pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data]).cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _edges_of(texts: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.uint8], BoolArray]:
    """Return the first and the last byte of each text, and whether there is one."""
    _, offsets, data = texts.buffers()
    if data is None or not data.size:
        nothing = np.zeros(len(texts), dtype=np.uint8)
        return nothing, nothing, np.zeros(len(texts), dtype=np.bool_)
    places = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data, dtype=np.uint8)
    last = len(content) - 1
    firsts = content[np.minimum(places[:-1], last)]
    return firsts, content[np.maximum(places[1:] - 1, 0)], places[1:] > places[:-1]


def mask_of(values: pa.Array) -> BoolArray:
    """Return a boolean column as NumPy has it; a null is False."""
    mask: BoolArray = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return mask


def is_text(texts: pa.Array) -> BoolArray:
    """Return which strings (none null) have a character that is no white space."""
    firsts, _, there = _edges_of(texts)
    unsure = np.flatnonzero(there & ((firsts <= _BLANK) | (firsts >= _NOT_ASCII)))
    if len(unsure):
        trimmed = pc.utf8_trim_whitespace(texts.take(pa.array(unsure)))
        there[unsure] = mask_of(pc.greater(pc.binary_length(trimmed), 0))
    return there


def stripped(texts: pa.Array) -> pa.Array:
    """Return strings (none null) without the white space at their ends."""
    firsts, lasts, there = _edges_of(texts)
    odd = (firsts <= _BLANK) | (firsts >= _NOT_ASCII) | (lasts <= _BLANK) | (lasts >= _NOT_ASCII)
    unsure = there & odd
    if not unsure.any():
        return texts
    mask = pa.array(unsure)
    return pc.replace_with_mask(texts, mask, pc.utf8_trim_whitespace(texts.filter(mask)))


def each_once(texts: pa.Array, change: Callable[[str], str | None]) -> pa.Array:
    """Return ``change`` of each string, called once for equal ones; nulls stay."""
    encoded = texts.dictionary_encode()
    changed = [change(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(changed, type=pa.string()).take(encoded.indices)


def json_strings(texts: pa.Array) -> pa.Array:
    """Return strings as JSON writes them; null for null and for the empty one."""
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    written = pc.binary_join_element_wise('"', texts, '"', "", null_handling="emit_null")
    special = pc.fill_null(pc.match_substring_regex(texts, _SPECIAL), False)
    if pc.any(special).as_py():
        found = [json.dumps(text, ensure_ascii=False) for text in texts.filter(special).to_pylist()]
        written = pc.replace_with_mask(written, special, pa.array(found, type=pa.string()))
    return written


def plain_integers(texts: pa.Array) -> BoolArray:
    """Return which strings are integers as JSON and Python write them."""
    return mask_of(pc.match_substring_regex(texts, _INTEGER))


def json_objects(names: Sequence[str], values: Sequence[pa.Array], count: int) -> pa.Array:
    """Return ``count`` JSON objects of columns of JSON; null where all their members are null."""
    members = []
    for name, column in zip(names, values, strict=True):
        lead = pa.scalar(f", {json.dumps(name, ensure_ascii=False)}: ")
        member = pc.binary_join_element_wise(lead, column, "", null_handling="emit_null")
        members.append(pc.fill_null(member, ""))
    if not members:
        return pa.nulls(count, pa.string())
    joined = pc.binary_join_element_wise(*members, "") if len(members) > 1 else members[0]
    objects = pc.binary_join_element_wise("{", inside(joined, len(", ")), "}", "")
    return pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), objects)

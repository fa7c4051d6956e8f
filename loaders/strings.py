"""Kernels on columns of strings: white space, JSON, slices. Each gives what Python gives for one.

Columns hold no null unless a function says so.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.loaders.delimited import spans

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray

NO_TEXT = pa.array([], type=pa.string())
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
_SPECIAL = r'["\\\x00-\x1f]'  # what JSON escapes


def mask_of(values: pa.Array) -> BoolArray:
    """Return a boolean column as NumPy has it; a null is False."""
    mask: BoolArray = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return mask


def offsets_of(texts: pa.Array) -> tuple[IntArray, NDArray[np.uint8]]:
    """Return where each text starts, and the last one ends, in the bytes that are returned too."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return np.zeros(len(texts) + 1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    places = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return cast("IntArray", places), np.frombuffer(data, dtype=np.uint8)


def inside(texts: pa.Array, before: int, after: int = 0) -> pa.Array:
    """Return strings without some bytes, which are ASCII, at their start and end.

    A shorter one gives the empty text or any part of itself.
    """
    places, content = offsets_of(texts)
    starts = np.minimum(places[:-1] + before, places[1:])
    ends = np.maximum(starts, places[1:] - after)
    return spans(content, starts, ends).cast(pa.string())


def is_text(texts: pa.Array) -> BoolArray:
    """Return which strings have a character that is not white space."""
    return mask_of(pc.greater(pc.binary_length(pc.utf8_trim_whitespace(texts)), 0))


def has_nul(texts: pa.Array) -> BoolArray:
    """Return which strings hold a NUL character."""
    _, content = offsets_of(texts)
    if content.all():
        return np.zeros(len(texts), dtype=np.bool_)
    return mask_of(pc.match_substring(texts, "\0"))


def each_once(texts: pa.Array, change: Callable[[str], str | None]) -> pa.Array:
    """Return ``change`` of each string, called once for equal ones; nulls stay."""
    encoded = texts.dictionary_encode()
    changed = [change(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(changed, type=pa.string()).take(encoded.indices)


def json_strings(texts: pa.Array) -> pa.Array:
    """Return strings (or nulls) as JSON writes them; null for null and for the empty one."""
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    written = pc.binary_join_element_wise('"', texts, '"', "", null_handling="emit_null")
    special = pc.fill_null(pc.match_substring_regex(texts, _SPECIAL), False)
    if pc.any(special).as_py():
        found = [_ENCODE(text) for text in texts.filter(special).to_pylist()]
        written = pc.replace_with_mask(written, special, pa.array(found, type=pa.string()))
    return written


def json_objects(members: Mapping[str, pa.Array], count: int) -> pa.Array:
    """Return ``count`` JSON objects of columns of JSON; null where all their members are null."""
    parts = []
    for name, column in members.items():
        lead = pa.scalar(f", {json.dumps(name, ensure_ascii=False)}: ")
        member = pc.binary_join_element_wise(lead, column, "", null_handling="emit_null")
        parts.append(pc.fill_null(member, ""))
    if not parts:
        return pa.nulls(count, pa.string())
    joined = pc.binary_join_element_wise(*parts, "") if len(parts) > 1 else parts[0]
    objects = pc.binary_join_element_wise("{", inside(joined, len(", ")), "}", "")
    return pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), objects)

"""Freebase's machine ids (``m.02mjmr``, ``g.11b6vh_9k``) as 64-bit numbers that sort as they do.

A number is the id's up to eleven characters in base 38, left-aligned with 0 for "no more".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from kgqa.graph.model import IntArray

LONGEST = 11  # characters after the dot; Freebase's own have up to ten
NO_MID = -1
_ALPHABET = b"0123456789_abcdefghijklmnopqrstuvwxyz"  # in the order of their code points
_BASE = len(_ALPHABET) + 1
_PREFIXES = b"gm"
_UNKNOWN = 255
_DIGIT = np.full(256, _UNKNOWN, dtype=np.uint8)
_DIGIT[np.frombuffer(_ALPHABET, dtype=np.uint8)] = np.arange(1, _BASE, dtype=np.uint8)
_CHARACTER = np.frombuffer(b"\0" + _ALPHABET, dtype=np.uint8)


def encode_mids(values: pa.Array, before: int = 0, after: int = 0) -> IntArray:
    """Encode each Freebase mid as a number; ``NO_MID`` for another value or null.

    ``values``: a binary or string array; ``before`` and ``after``: the number of bytes around the
    mid to skip.

    >>> encode_mids(pa.array(["m.0", "m.00", "m.0_", "en.paris"])).argsort().tolist()
    [3, 0, 1, 2]
    """
    count = len(values)
    if values.type in (pa.string(), pa.binary()):
        width: type[np.signedinteger] = np.int32
    else:
        width = np.int64
    _, offset_buffer, data_buffer = values.buffers()
    if not count or data_buffer is None or not data_buffer.size:
        return np.full(count, NO_MID, dtype=np.int64)
    offsets = np.frombuffer(offset_buffer, dtype=width)[values.offset : values.offset + count + 1]
    data = np.frombuffer(data_buffer, dtype=np.uint8)
    starts = offsets[:-1].astype(np.int64) + before
    ends = offsets[1:].astype(np.int64) - after
    length = ends - starts - 2
    good = (length >= 1) & (length <= LONGEST)
    last = len(data) - 1

    def byte_at(place: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """Return the byte at position ``place`` of every value."""
        return data[np.minimum(np.maximum(starts + place, 0), last)]

    first = byte_at(0)
    good &= ((first == _PREFIXES[0]) | (first == _PREFIXES[1])) & (byte_at(1) == ord("."))
    codes: IntArray = (first == _PREFIXES[1]).astype(np.int64)
    longest = min(LONGEST, int(length.max()))
    for place in range(longest):
        digit = _DIGIT[byte_at(2 + place)]
        digit[place >= length] = 0
        good &= digit != _UNKNOWN
        codes *= _BASE
        codes += digit
    codes *= _BASE ** max(0, LONGEST - max(longest, 0))
    if values.null_count:
        good &= values.is_valid().to_numpy(zero_copy_only=False)
    codes[~good] = NO_MID
    return codes


def decode_mids(codes: IntArray) -> pa.Array:
    """Decode numbers of :func:`encode_mids` into mids."""
    matrix = np.zeros((len(codes), LONGEST + 2), dtype=np.uint8)
    rest = codes.astype(np.int64, copy=True)
    for place in range(LONGEST + 1, 1, -1):
        rest, digit = np.divmod(rest, _BASE)
        matrix[:, place] = _CHARACTER[digit]
    matrix[:, 0] = np.where(rest == 1, _PREFIXES[1], _PREFIXES[0])
    matrix[:, 1] = ord(".")
    there = matrix != 0
    offsets = np.zeros(len(codes) + 1, dtype=np.int32)
    np.cumsum(there.sum(axis=1), out=offsets[1:])
    data = matrix[there]
    return pa.StringArray.from_buffers(
        len(codes), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))
    )

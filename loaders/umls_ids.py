"""Concept ids of a UMLS release as integers.

A CUI is ``C`` and seven digits, and its number is those digits; any other id (some releases have
``CL`` and six digits) gets a number beyond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import DumpMalformedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray

CUI_BITS = 25
_REGULAR = 10**7  # numbers below are seven digits
_LENGTH = 8
_POWERS = 10 ** np.arange(6, -1, -1, dtype=np.int64)


class Cuis:
    """The numbers of concepts."""

    def __init__(self) -> None:
        self._odd: dict[str, int] = {}  # in the order of their numbers

    def encode(self, ids: pa.Array) -> IntArray:
        """Return the number of each id (strings without null).

        Raises DumpMalformedError if millions of ids are of another form.
        """
        codes = np.full(len(ids), -1, dtype=np.int64)
        fitting = np.flatnonzero(pc.equal(pc.binary_length(ids), _LENGTH))
        letters = _letters(ids.take(fitting), _LENGTH)
        regular = letters[:, 0] == ord("C")
        numbers = np.zeros(len(letters), dtype=np.int64)
        for digit in (letters[:, 1:] - np.uint8(ord("0"))).T:  # a character below wraps around
            numbers = numbers * 10 + digit
            regular &= digit <= 9
        codes[fitting] = np.where(regular, numbers, -1)
        odd = np.flatnonzero(codes < 0)
        if len(odd):
            codes[odd] = [self._number(id_) for id_ in ids.take(odd).to_pylist()]
        return codes

    def decode(self, codes: IntArray) -> pa.Array:
        """Return the ids of some numbers."""
        letters = np.empty((len(codes), _LENGTH), dtype=np.uint8)
        letters[:, 0] = ord("C")
        letters[:, 1:] = codes[:, None] // _POWERS % 10 + ord("0")
        offsets = np.arange(len(codes) + 1, dtype=np.int32) * _LENGTH
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters.reshape(-1))]
        ids = pa.Array.from_buffers(pa.string(), len(codes), buffers)
        odd = codes >= _REGULAR
        if odd.any():
            known = pa.array(list(self._odd), type=pa.string())
            ids = pc.replace_with_mask(ids, pa.array(odd), known.take(codes[odd] - _REGULAR))
        return ids

    def later(self, first: IntArray, second: IntArray) -> BoolArray:
        """Return whether each id ``first`` comes after ``second`` in the alphabet."""
        after: BoolArray = first > second
        odd = np.flatnonzero((first >= _REGULAR) | (second >= _REGULAR))
        if len(odd):
            after[odd] = pc.greater(self.decode(first[odd]), self.decode(second[odd]))
        return after

    def _number(self, id_: str) -> int:
        number = self._odd.setdefault(id_, _REGULAR + len(self._odd))
        if number >= 1 << CUI_BITS:
            raise DumpMalformedError(
                f"More than {len(self._odd) - 1:,} concept ids are not C and seven digits, as"
                f" {id_!r}.",
                "Take a UMLS release in Rich Release Format.",
            )
        return number


class CuiSet:
    """A set of concept numbers: a byte for each number there could be."""

    def __init__(self) -> None:
        self._present = np.zeros(_REGULAR, dtype=np.bool_)

    def __bool__(self) -> bool:
        return bool(self._present.any())

    def has(self, codes: IntArray) -> BoolArray:
        """Return which of ``codes`` are in the set."""
        found: BoolArray = self._present[np.minimum(codes, len(self._present) - 1)]
        found &= codes < len(self._present)
        return found

    def new(self, codes: IntArray) -> BoolArray:
        """Return which of ``codes`` come for the first time ever, and put them in."""
        first = np.zeros(len(codes), dtype=np.bool_)
        first[np.unique(codes, return_index=True)[1]] = True
        first &= ~self.has(codes)
        room = len(self._present)
        if (most := int(codes.max(initial=0))) >= room:
            self._present = np.pad(self._present, (0, max(most + 1, 2 * room) - room))
        self._present[codes] = True
        return first


def _letters(texts: pa.Array, length: int) -> NDArray[np.uint8]:
    """Return the bytes of texts that all have ``length`` of them, shape [texts, length]."""
    fixed = texts.cast(pa.binary()).cast(pa.binary(length))
    start, size = fixed.offset * length, len(fixed) * length
    data = np.frombuffer(fixed.buffers()[1] or b"", dtype=np.uint8)[start : start + size]
    return data.reshape(-1, length)

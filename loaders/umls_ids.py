"""Ids of a UMLS release as integers: concepts by number, atoms by hash.

A CUI is ``C`` and seven digits, and its number is those digits; any other id (some releases have
``CL`` and six digits) gets a number beyond. What it does not do: say which concepts there are.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import DumpMalformedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray

    Hashes = NDArray[np.uint64]

CUI_BITS = 25
_REGULAR = 10**7  # numbers below are seven digits
_LENGTH = 8
_POWERS = 10 ** np.arange(6, -1, -1, dtype=np.int64)
_LONGEST = 16  # bytes that are hashed without a look at each id


class Cuis:
    """The numbers of concepts."""

    def __init__(self) -> None:
        self._odd: dict[str, int] = {}
        self._odd_ids: list[str] = []

    def encode(self, ids: pa.Array) -> IntArray:
        """Return the number of each id (strings without null).

        Raises DumpMalformedError where millions of ids are of another form.
        """
        codes = np.full(len(ids), -1, dtype=np.int64)
        full = pc.equal(pc.binary_length(ids), _LENGTH).to_numpy(zero_copy_only=False)
        fitting = ids if full.all() else ids.filter(pa.array(full))
        if len(fitting):
            offsets = np.frombuffer(fitting.buffers()[1], dtype=np.int32)
            begin = int(offsets[fitting.offset])
            data = np.frombuffer(fitting.buffers()[2], dtype=np.uint8)
            letters = data[begin : begin + _LENGTH * len(fitting)].reshape(-1, _LENGTH)
            digits = letters - np.uint8(ord("0"))  # what is less wraps round
            number = np.zeros(len(fitting), dtype=np.int64)
            fine = letters[:, 0] == ord("C")
            for place in range(1, _LENGTH):
                number = number * 10 + digits[:, place]
                fine &= digits[:, place] <= 9
            codes[np.flatnonzero(full)] = np.where(fine, number, -1)
        odd = np.flatnonzero(codes < 0)
        if len(odd):
            codes[odd] = [self._number(id_) for id_ in ids.take(pa.array(odd)).to_pylist()]
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
            given = [self._odd_ids[code - _REGULAR] for code in codes[odd].tolist()]
            ids = pc.replace_with_mask(ids, pa.array(odd), pa.array(given, type=pa.string()))
        return ids

    def later(self, first: IntArray, second: IntArray) -> BoolArray:
        """Return where the id ``first`` comes after ``second`` in the alphabet."""
        after: BoolArray = first > second
        odd = np.flatnonzero((first >= _REGULAR) | (second >= _REGULAR))
        if len(odd):
            texts = (self.decode(codes[odd]) for codes in (first, second))
            after[odd] = pc.greater(*texts).to_numpy(zero_copy_only=False)
        return after

    def _number(self, id_: str) -> int:
        if id_ not in self._odd:
            if _REGULAR + len(self._odd) >= 1 << CUI_BITS:
                raise DumpMalformedError(
                    f"More than {len(self._odd):,} concept ids are not C and seven digits, as"
                    f" {id_!r}.",
                    "Take a UMLS release in Rich Release Format.",
                )
            self._odd[id_] = _REGULAR + len(self._odd)
            self._odd_ids.append(id_)
        return self._odd[id_]


class CuiSet:
    """A set of concept numbers: a byte for each number there could be."""

    def __init__(self) -> None:
        self._there = np.zeros(_REGULAR, dtype=np.bool_)

    def add(self, codes: IntArray) -> None:
        """Put ``codes`` in."""
        if len(codes) and (most := int(codes.max())) >= len(self._there):
            more = np.zeros(max(most + 1, 2 * len(self._there)) - len(self._there), np.bool_)
            self._there = np.concatenate([self._there, more])
        self._there[codes] = True

    def __bool__(self) -> bool:
        return bool(self._there.any())

    def has(self, codes: IntArray) -> BoolArray:
        """Return which of ``codes`` are in the set."""
        found: BoolArray = self._there[np.minimum(codes, len(self._there) - 1)]
        found &= codes < len(self._there)
        return found

    def new(self, codes: IntArray) -> BoolArray:
        """Return at which of ``codes`` one stands for the first time ever, and put them in."""
        first = np.zeros(len(codes), dtype=np.bool_)
        first[np.unique(codes, return_index=True)[1]] = True
        first &= ~self.has(codes)
        self.add(codes)
        return first


def hashes(ids: pa.Array) -> Hashes:
    """Return a 64-bit hash of each id (strings without null), the same in every run."""
    lengths = pc.binary_length(ids).to_numpy().astype(np.int64)
    offsets = np.frombuffer(ids.buffers()[1], dtype=np.int32)[ids.offset :][: len(ids)]
    text = ids.buffers()[2]
    data = b"\0" * _LONGEST if text is None else text.to_pybytes() + b"\0" * _LONGEST
    words: Hashes = np.ndarray((len(data) - 7,), dtype="<u8", buffer=data, strides=(1,))
    hashed = mix(lengths.astype(np.uint64))  # stirred, or a length could undo a letter
    for place in (0, 8):
        within = np.clip(lengths - place, 0, 8).astype(np.uint64) * np.uint64(8)
        kept = np.where(
            within == 64, ~np.uint64(0), (np.uint64(1) << (within & np.uint64(63))) - np.uint64(1)
        )
        hashed = mix(hashed ^ (words[np.minimum(offsets + place, len(words) - 1)] & kept))
    for row in np.flatnonzero(lengths > _LONGEST).tolist():
        digest = hashlib.blake2b(ids[row].as_py().encode(), digest_size=8).digest()
        hashed[row] = int.from_bytes(digest, "little")
    return hashed


def mix(values: Hashes) -> Hashes:
    """Return ``values`` with their bits stirred (a bijection of 64-bit numbers)."""
    values = (values + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Hashes = values ^ (values >> np.uint64(31))
    return mixed

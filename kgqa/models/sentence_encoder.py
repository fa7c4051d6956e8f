"""The interface of sentence encoders, independent of what runs them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from kgqa.errors import ModelError, first_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

Pooling: TypeAlias = Literal["mean", "first"]


class TokenStates(NamedTuple):
    """Token states of texts, joined, and a vector of length 1 for each text.

    ``states`` ``[all tokens, width]``; those of text i are ``states[starts[i] : starts[i + 1]]``.
    ``vectors`` ``[texts, width]``.
    """

    states: NDArray[np.float16]
    starts: NDArray[np.int64]
    vectors: NDArray[np.float32]


class SentenceEncoder(ABC):
    """A model that turns texts into vectors, on one device; for one thread.

    Vectors have length 1, so that the product of two is their cosine. ``width``: the numbers of a
    vector. A text longer than the model was made for is truncated, as the library does.
    """

    name: str
    width: int

    @abstractmethod
    def change(self, changes: Mapping[str, NDArray[np.float32]]) -> None:
        """Add learnt ``changes`` to the weights with these names.

        Raises ValueError for a mismatch.
        """

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vector of each text, ``[len(texts), width]``, float32. Raises ModelError."""
        encoded = np.zeros((len(texts), self.width), np.float32)
        for batch, _, vectors in self._read(texts):
            encoded[batch] = vectors
        if not np.isfinite(encoded).all():
            raise ModelError(f"The sentence encoder {self.name} gives no numbers.")
        return encoded

    def encode_tokens(self, texts: Sequence[str]) -> TokenStates:
        """Return each token's state for each text (float16), and the vectors of :meth:`encode`."""
        vectors = np.zeros((len(texts), self.width), np.float32)
        parts: list[NDArray[np.float16]] = [np.empty((0, self.width), np.float16)] * len(texts)
        for batch, states, pooled in self._read(texts):
            vectors[batch] = pooled
            for place, state in zip(batch, states, strict=True):
                parts[place] = state.astype(np.float16)
        starts = np.cumsum([0, *map(len, parts)])
        none = np.empty((0, self.width), np.float16)
        return TokenStates(np.concatenate([none, *parts]), starts, vectors)

    @abstractmethod
    def _read(
        self, texts: Sequence[str]
    ) -> Iterator[tuple[list[int], list[NDArray[np.float32]], NDArray[np.float32]]]:
        """Encode ``texts`` in batches; yield text indices with their token states and vectors."""


def batches(
    rows: Sequence[Sequence[int]], most: int
) -> Iterator[tuple[list[int], list[Sequence[int]]]]:
    """Yield batches of rows of similar length, as (indices, rows).

    ``most``: tokens of a batch, padding included; a longer row is a batch of its own.
    """
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    start = 0
    while start < len(order):
        end = start + 1
        # in the order of their lengths the last one says how wide the batch is
        while end < len(order) and len(rows[order[end]]) * (end + 1 - start) <= most:
            end += 1
        batch = order[start:end]
        yield batch, [rows[row] for row in batch]
        start = end


def cannot_load(folder: Path, error: Exception) -> ModelError:
    """Return the error for an encoder whose files are invalid."""
    return ModelError(
        f"The sentence encoder in {folder} cannot be loaded: {first_line(error)}.",
        "Name a model of the sentence-transformers library, or leave it out for the offline one.",
    )

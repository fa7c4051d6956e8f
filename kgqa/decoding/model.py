"""Models that run trees of tokens by themselves, and the key-value cache that they write to.

Keys and values of all tokens that a tree of several questions attends to are columns of a cache. A
token's column is its place in one growing buffer for each layer, never moved, and reused when given
back. A token's position is in its key; the mask says who sees whom.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.decoding.arrays import on_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from numpy.typing import NDArray
    from torch import Tensor

_STEP = 16  # widths come in steps, so that kernels and allocators meet few shapes
_LEAST, _LEAST_FIXED = 256, 2_048  # columns of the first buffers


class ColumnCache:
    """A key-value cache of columns, one a token, that trees of tokens share.

    :meth:`take` reserves free columns; :meth:`aim` has the next pass write to them. ``scratch``:
    column 0 is never given out, so that padding can be written to it. ``generation`` changes when
    buffers are replaced by wider ones.
    """

    def __init__(self, *, scratch: bool = False) -> None:
        self._scratch = scratch
        self._least = _LEAST_FIXED if scratch else _LEAST
        self._used = np.zeros(0, bool)
        self.generation = 0
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        self._aimed = np.zeros(0, np.int64)
        self._columns: torch.Tensor | None = None  # the same on the device, once they are needed
        self._width = 0
        self._reserved = 0  # columns that the buffers of every layer have

    @property
    def width(self) -> int:
        """The columns that the next forward pass sees, used or not: a multiple of 16."""
        return self._width

    @property
    def used(self) -> int:
        """The number of columns that are reserved, the scratch column aside."""
        return int(self._used[int(self._scratch) :].sum())

    def take(self, count: int) -> NDArray[np.int64]:
        """Reserve ``count`` free columns for the caller, the lowest first, and return them."""
        # the lowest first: what a pass attends to stays one block, which is read without a copy
        free = np.flatnonzero(~self._used)
        if len(free) < count:
            # half as much again, so that buffers seldom grow; twice where growing costs captures
            more = len(self._used) * 2 if self._scratch else len(self._used) * 3 // 2
            size = max(len(self._used) + count + int(self._scratch), more, self._least)
            self._used = np.concatenate([self._used, np.zeros(size - len(self._used), bool)])
            self._used[: int(self._scratch)] = True
            free = np.flatnonzero(~self._used)
        columns = free[:count].astype(np.int64)
        self._used[columns] = True
        return columns

    def give_back(self, columns: NDArray[np.int64]) -> None:
        """Free columns that :meth:`take` reserved."""
        self._used[columns] = False

    def aim(self, columns: NDArray[np.int64]) -> None:
        """Let the next pass write its tokens to ``columns``, one a token; set :attr:`width`."""
        # columns given back inside the width are masked: none is ever moved
        owned = np.flatnonzero(self._used)
        last = int(owned[-1]) + 1 if len(owned) else 0
        self._width = -(-last // _STEP) * _STEP
        self._aimed, self._columns = columns, None

    def clear(self) -> None:
        """Free all columns and release the memory."""
        self._used = np.zeros(0, bool)
        self._keys, self._values = [], []
        self._width = self._reserved = 0
        self.generation += 1

    def free(self) -> None:
        """Free all columns; keep the memory, and so the addresses that captured passes hold."""
        self._used[int(self._scratch) :] = False

    def reserve(self, layers: int, like: torch.Tensor) -> None:
        """Make the buffers of all ``layers`` wide enough for every column, used or not.

        ``like``: keys of a layer, ``[1, heads, any, size]``, for shape, dtype and device.
        """
        if self._reserved == len(self._used):
            return
        for layer in range(layers):
            for buffers in (self._keys, self._values):
                self._buffer(buffers, layer, len(self._used), like)
        self._reserved = len(self._used)

    def buffers(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a layer's whole buffers of keys and values, ``[1, heads, columns, size]``."""
        return self._keys[layer], self._values[layer]

    def write(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write a layer's new keys and values ``[1, heads, tokens, size]`` to the columns aimed at.

        Returns the layer's keys and values of all columns within the width.
        """
        return (
            self._write(self._keys, keys, layer),
            self._write(self._values, values, layer),
        )

    def _write(self, buffers: list[torch.Tensor], new: torch.Tensor, layer: int) -> torch.Tensor:
        """Write new keys or values to a layer's buffer, grown as needed; return all its columns."""
        buffer = self._buffer(buffers, layer, self._width, new)
        if self._columns is None or self._columns.device != buffer.device:
            self._columns = on_device(self._aimed, buffer.device)
        buffer.index_copy_(2, self._columns, new)
        return buffer[:, :, : self._width]

    def _buffer(
        self, buffers: list[torch.Tensor], layer: int, width: int, like: torch.Tensor
    ) -> torch.Tensor:
        """Return a layer's buffer, replaced by a wider one if it has less than ``width`` columns.

        ``like``: keys or values of a layer, for shape, dtype and device.
        """
        while len(buffers) <= layer:
            buffers.append(like.new_zeros((*like.shape[:2], 0, like.shape[3])))
        buffer = buffers[layer]
        if buffer.shape[2] < width:
            size = max(width, -(-len(self._used) // _STEP) * _STEP)
            # zeros: what is masked must be finite, since zero times infinity is not a number
            wider = like.new_zeros((*like.shape[:2], size, like.shape[3]))
            wider[:, :, : buffer.shape[2]] = buffer
            buffers[layer] = buffer = wider
            self.generation += 1
        return buffer


@dataclass(frozen=True, slots=True)
class AttentionBlock:
    """The attention of one prompt's tokens, those from ``start`` to ``stop`` of a forward pass.

    ``columns``: the cache columns that they may attend to, ascending; ``seen``: the mask,
    ``[stop - start, columns]``. ``adjoining``: the columns are the cache's first ones, without a
    gap.
    """

    start: int
    stop: int
    columns: Tensor
    seen: Tensor
    adjoining: bool

    def of(self, cached: Tensor) -> Tensor:
        """Return this block's columns of a cache tensor ``[1, heads, columns, size]``."""
        if self.adjoining:  # no copy
            return cached[:, :, : len(self.columns)]
        return cached.index_select(2, self.columns)


@dataclass(frozen=True, slots=True)
class FixedBatch:
    """The input of a pass of a fixed shape: tokens of several questions, padded, on the device.

    ``tokens``, ``positions``, ``columns`` (of the cache, to write to): ``[tokens]``. Attention is
    computed over a grid with a row of tokens for each question: ``rows`` are the tokens of the
    grid's places, ``[questions * longest]``, ``places`` the place of each token. ``held``: the
    cache columns that a question's tokens may attend to, ``[questions * columns]``; ``seen``: the
    mask over them, ``[questions, longest, columns]``. Padding attends to the scratch column.
    """

    tokens: Tensor
    positions: Tensor
    columns: Tensor
    places: Tensor
    rows: Tensor
    held: Tensor
    seen: Tensor


class TreeModel(ABC):
    """A model that computes attention over trees of tokens itself, by blocks, without a mask."""

    config: Any

    @property
    @abstractmethod
    def embedding(self) -> Tensor:
        """The token embeddings, ``[tokens, width]``."""

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of weights and hidden states."""
        return self.embedding.dtype

    @abstractmethod
    def states(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        blocks: Sequence[AttentionBlock],
        cache: ColumnCache,
    ) -> Tensor:
        """Return the last hidden states ``[tokens, width]``; write keys and values to ``cache``.

        Tokens of a block attend to the columns of that block alone.
        """

    @abstractmethod
    def reserve(self, cache: ColumnCache) -> None:
        """Make the buffers of ``cache`` wide enough for all its columns, in every layer."""

    @abstractmethod
    def fixed_states(self, batch: FixedBatch, cache: ColumnCache) -> Tensor:
        """Return the last hidden states ``[tokens, width]``; write keys and values to ``cache``.

        It has to make the same calls for the same shapes, with no value that the host must know,
        so that it can be captured as a CUDA graph.
        """

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """Return the logits ``[states, vocabulary]`` of hidden states."""

    def get_input_embeddings(self) -> Any:
        """Return the module whose ``weight`` holds the token vectors, as in transformers."""
        return SimpleNamespace(weight=self.embedding)

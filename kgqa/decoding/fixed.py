"""Forward passes of a few fixed shapes, which a GPU replays.

A short forward pass on a GPU takes as long as its thousand kernels take to be launched, so each
shape is captured once as a CUDA graph. For that tokens and columns are padded to a few sizes, and
keys and values lie in buffers that do not move. What a pass needs goes up in one copy, and nothing
waits for the device before the scores are read. On any other device the same operations run one by
one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakMethod

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kgqa.decoding.model import TreeModel

TOKENS = (16, 32, 64, 128, 256, 512)  # beyond: multiples of the last, which are not captured
_COLUMNS = 256  # the narrowest, doubled as needed
_ROOM = {"cuda": 4096}  # columns at first: more makes what was captured useless
_log = logging.getLogger("kgqa")
_passes: WeakKeyDictionary[TreeModel, FixedForward] = WeakKeyDictionary()


def fixed_forward(model: TreeModel) -> FixedForward:
    """Return the one of ``model``: what was captured serves every engine that runs it."""
    if model not in _passes:
        _passes[model] = FixedForward(model)
    return _passes[model]


class FixedForward:
    """A model with buffers for keys and values, and the forward passes that were captured."""

    def __init__(self, model: TreeModel) -> None:
        self._read: Any = WeakMethod(model.states_under)
        self._device, self._dtype, self._cached = model.device, model.dtype, model.cached
        self._keys = self._values = torch.empty(0)
        self._columns = 0
        self._captured: dict[tuple[int, int], tuple[Any, torch.Tensor, torch.Tensor]] = {}
        self._captures = self._device.type == "cuda"
        self._pool: Any = None

    def run(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        columns: NDArray[np.int64],
        last: int,
        seen: Callable[[int], NDArray[np.bool_]],
        more: NDArray[np.int64],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Run a pass; return the states of ``tokens``, padding after them, and ``more`` up there.

        ``columns``: where their keys go; ``last``: one more than the last column in use;
        ``seen``: which of so many columns each token attends to. The states are overwritten by
        the next pass.
        """
        count = len(tokens)
        size = padded(count, TOKENS)
        width = max(_COLUMNS, 1 << (last - 1).bit_length())
        self._reserve(width)
        ids = np.zeros((3, size), np.int64)
        ids[2] = self._columns  # padding writes beyond what anybody sees, and sees one column
        ids[:, :count] = tokens, positions, columns
        mask = np.zeros((size, width), bool)
        mask[:count] = seen(width)
        mask[count:, 0] = True
        given = self._upload(ids, mask, more)
        inputs, rest = given[: ids.nbytes + mask.nbytes], given[ids.nbytes + mask.nbytes :]
        below = rest.view(torch.int64).view(more.shape)
        if self._captures and size in TOKENS:
            return self._replay(inputs, size, width), below
        return self._through(inputs, size, width), below

    @torch.inference_mode()
    def clear(self) -> None:
        """Forget all keys and values; the buffers stay where they are."""
        self._keys.zero_()
        self._values.zero_()

    def _upload(self, *parts: NDArray[Any]) -> torch.Tensor:
        """Return the bytes of all parts on the device, by one copy that is not waited for."""
        count = sum(part.nbytes for part in parts)
        pinned = self._device.type == "cuda"
        host = torch.empty(count, dtype=torch.uint8, pin_memory=pinned)
        np.concatenate([part.reshape(-1).view(np.uint8) for part in parts], out=host.numpy())
        return host.to(self._device, non_blocking=True)

    def _through(self, inputs: torch.Tensor, size: int, width: int) -> torch.Tensor:
        ids = inputs[: 24 * size].view(torch.int64).view(3, size)
        seen = inputs[24 * size :].view(torch.bool).view(size, width)
        found: torch.Tensor = self._read()(*ids, seen, self._keys, self._values)
        return found

    def _replay(self, inputs: torch.Tensor, size: int, width: int) -> torch.Tensor:
        known = self._captured.get((size, width))
        if known is None:
            try:
                known = self._capture(inputs, size, width)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                _log.warning("Forward passes are not captured as CUDA graphs: %s", error)
                self._captures = False
                return self._through(inputs, size, width)
            self._captured[size, width] = known
        graph, place, states = known
        place.copy_(inputs)
        graph.replay()
        return states

    def _capture(
        self, inputs: torch.Tensor, size: int, width: int
    ) -> tuple[Any, torch.Tensor, torch.Tensor]:
        place = inputs.clone()
        aside: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # libraries set themselves up at the first calls
            for _ in range(2):
                self._through(place, size, width)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            states = self._through(place, size, width)
        self._pool = graph.pool()
        return graph, place, states

    def _reserve(self, width: int) -> None:
        """Make the buffers at least ``width`` columns wide, and one for padding."""
        if width <= self._columns:
            return
        width = max(width, _ROOM.get(self._device.type, 0))
        self._captured.clear()  # they know the old buffers
        layers, heads, size = self._cached
        shape = (layers, heads, width + 1, size)
        # zeros: what is masked must be finite, since zero times infinity is not a number
        keys, values = (torch.zeros(shape, dtype=self._dtype, device=self._device) for _ in "kv")
        if self._columns:
            keys[:, :, : self._columns] = self._keys[:, :, : self._columns]
            values[:, :, : self._columns] = self._values[:, :, : self._columns]
        self._keys, self._values, self._columns = keys, values, width


def padded(count: int, sizes: Sequence[int]) -> int:
    """Return the least of ``sizes`` that holds ``count``, or a multiple of the greatest."""
    wider = -(-count // sizes[-1]) * sizes[-1]
    return next((size for size in sizes if size >= count), wider)

"""Forward passes of a few fixed shapes, so that a GPU can replay each by one call.

The numbers of tokens, of questions, and of the columns that a question attends to are padded to the
next step; the key-value cache stays where it is. All input is one array of small integers: what a
token attends to is two comparisons of places in depth-first order, made on the device.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kgqa.decoding.arrays import on_device
from kgqa.decoding.cuda_graphs import CudaCapture, FixedPasses
from kgqa.decoding.forward import TreeForward
from kgqa.decoding.model import ColumnCache, FixedBatch, TreeModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from numpy.typing import NDArray
    from transformers import PreTrainedModel

    from kgqa.decoding.cuda_graphs import Capture
    from kgqa.decoding.forward import PackedPass
    from kgqa.decoding.scores import Head

# Steps by a third to a half, so that little is computed for padding and graphs are few.
_TOKENS = (16, 32, 64, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072, 4_096)
_QUESTIONS = (1, 2, 4, 8, 16, 32, 64)
_LONGEST = (16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096)
_COLUMNS = (128, 256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 16_384)
_NEVER = np.iinfo(np.int32).max  # where a column begins that no token attends to
_PADDING = -1  # the place of padding, which attends to the scratch column alone

_log = logging.getLogger(__name__)


class FixedShape(NamedTuple):
    """The shape of a pass: tokens, questions, tokens of a question, and columns that it sees."""

    tokens: int
    questions: int
    longest: int
    columns: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """The lengths of the inputs: three a token, its place, two a grid place, three a column."""
        grid, columns = self.questions * self.longest, self.questions * self.columns
        return (*[self.tokens] * 4, grid, grid, columns, columns, columns)


def shape_of(packed: PackedPass) -> FixedShape | None:
    """Return the least shape that a pass fits into, None if it is larger than all shapes."""
    longest = max(len(part.places) for part in packed.parts)
    columns = 1 + max(len(part.columns) for part in packed.parts)
    wanted = (
        (_TOKENS, len(packed.tokens)),
        (_QUESTIONS, len(packed.parts)),
        (_LONGEST, longest),
        (_COLUMNS, columns),
    )
    if any(size > steps[-1] for steps, size in wanted):
        return None
    tokens, questions, most, width = (steps[bisect_left(steps, size)] for steps, size in wanted)
    # one question's grid is its tokens in a row
    return FixedShape(tokens, questions, tokens if questions == 1 else most, width)


def inputs_of(packed: PackedPass, shape: FixedShape) -> NDArray[np.int32]:
    """Return the input of a pass as one array, padded to ``shape``."""
    joined = np.zeros(sum(shape.sizes), np.int32)
    split = _split(joined, shape)
    tokens, positions, columns, grid_of, rows, places, held, begins, ends = split
    count = len(packed.tokens)
    tokens[:count], positions[:count], columns[:count] = (
        packed.tokens,
        packed.positions,
        packed.columns,
    )
    places[:] = _PADDING
    begins[:] = _NEVER
    # a question's first column is the scratch one: padding must attend to something
    begins[:: shape.columns] = _PADDING
    ends[:: shape.columns] = _PADDING + 1
    for number, part in enumerate(packed.parts):
        own, start = len(part.places), number * shape.longest
        run = np.arange(own, dtype=np.int32)
        rows[start : start + own] = run + part.first
        places[start : start + own] = part.places
        grid_of[part.first : part.first + own] = run + start
        seen = slice(number * shape.columns + 1, number * shape.columns + 1 + len(part.columns))
        held[seen], begins[seen], ends[seen] = part.columns, part.begins, part.ends
    return joined


def batch_of(shape: FixedShape, inputs: torch.Tensor) -> FixedBatch:
    """Return the batch that :func:`inputs_of` made, from its tensor on the device."""
    split = _split(inputs, shape)
    tokens, positions, columns, grid_of, rows, places, held, begins, ends = split
    at = places.view(shape.questions, shape.longest, 1)
    begin, end = (each.view(shape.questions, 1, shape.columns) for each in (begins, ends))
    seen = (begin <= at) & (at < end)
    return FixedBatch(
        tokens, positions, columns.long(), grid_of.long(), rows.long(), held.long(), seen
    )


def _split(joined: Any, shape: FixedShape) -> Sequence[Any]:
    """Return the inputs of a pass as views of the array or tensor that holds them all."""
    bounds = accumulate(shape.sizes, initial=0)
    return [joined[start:stop] for start, stop in pairwise(bounds)]


class FixedForward(TreeForward):
    """Runs a model over token trees by passes of fixed shapes; larger ones run as usual.

    ``capture``: how passes are captured, None to run each as usual. ``note`` takes one line of text
    if passes cannot be captured.
    """

    def __init__(
        self, model: TreeModel, capture: Capture | None, note: Callable[[str], None]
    ) -> None:
        super().__init__(model)
        self._own = model
        self.cache = ColumnCache(scratch=True)
        self.passes = FixedPasses(self._fixed, model.device, capture, note)

    def _states(self, packed: PackedPass) -> tuple[torch.Tensor, Head | None]:
        """Return the nodes' last hidden states and the head for logits."""
        shape = shape_of(packed)
        if shape is None:
            return super()._states(packed)
        self._own.reserve(self.cache)
        states = self.passes(
            shape, inputs_of(packed, shape), len(packed.tokens), self.cache.generation
        )
        kept = on_device(np.array(packed.kept, np.int64), self._own.device)
        return states.index_select(0, kept), self._own.logits

    def _fixed(self, shape: Any, inputs: torch.Tensor) -> torch.Tensor:
        """Run a pass of ``shape``; return the last hidden states, padding included."""
        return self._own.fixed_states(batch_of(shape, inputs), self.cache)

    def clear(self) -> None:
        """Forget everything that is cached; keep its memory, to which captured passes write."""
        self.cache.free()

    def release(self) -> None:
        """Drop captured passes and their memory."""
        self.passes.release()


def tree_forward(
    model: PreTrainedModel | TreeModel,
    *,
    fixed: bool | None = None,
    note: Callable[[str], None] = _log.warning,
) -> TreeForward:
    """Return what runs ``model`` over token trees: on CUDA by captured passes of fixed shapes.

    ``fixed``: whether shapes are fixed, if it is not to depend on the device. Models of
    transformers have no fixed shapes.
    """
    cuda = model.device.type == "cuda"
    if not isinstance(model, TreeModel) or not (cuda if fixed is None else fixed):
        return TreeForward(model)
    return FixedForward(model, CudaCapture(model.device) if cuda else None, note)

"""MPNet's forward pass (arXiv 2004.09297) in numpy: BERT's with relative positions.

To each score of attention a bias is added that depends on how far apart two tokens are: distances
fall into buckets, one each for near ones and wider ones, by their logarithm, for those further off.
All layers share these biases.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kgqa.models.bert import Bert, _Layer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kgqa.models.bert import Array

_FURTHEST = 128  # tokens apart, from which all have one bucket
_PADDING = 1  # the token of this id has the position of this number, and others follow it


class MPNet(Bert):
    """An MPNet encoder that returns the hidden states of its last layer."""

    kind = "mpnet"
    _prefix = "mpnet."
    _biases: ClassVar[str] = "encoder.relative_attention_bias.weight"

    def __init__(self, config: Mapping[str, Any], weights: dict[str, Array]) -> None:
        self._relatives: dict[int, Array] = {}
        self._buckets = int(config.get("relative_attention_num_buckets", 32))
        if self._buckets < 4 or weights[self._biases].shape != (
            self._buckets,
            int(config["num_attention_heads"]),
        ):
            raise ValueError("The sizes in its config.json are not those of its weights")
        super().__init__(config, weights)
        self.longest -= _PADDING + 1

    def _placed(
        self, state: Array, rows: Sequence[Sequence[int]], lengths: Sequence[tuple[int, int]]
    ) -> Array:
        """Return the sum of word and position embeddings; padding is not counted as a position."""
        counted = [np.asarray(row) != _PADDING for row in rows]
        position = np.concatenate([np.cumsum(row) * row + _PADDING for row in counted])
        placed: Array = state + self._weights[self._positions][position]
        return placed

    def _relative(self, length: int) -> Array:
        """Return the relative position bias of attention scores, ``[heads, length, length]``."""
        if length not in self._relatives:
            place = np.arange(length)
            bucket = buckets(place[None, :] - place[:, None], self._buckets)
            self._relatives[length] = self._weights[self._biases][bucket].transpose(2, 0, 1)
        return self._relatives[length]

    def change(self, changes: Mapping[str, Array]) -> None:
        """Add ``changes`` to the weights with these names.

        Raises ValueError for another name or shape.
        """
        super().change(changes)
        self._relatives.clear()

    @cached_property
    def _query_scale(self) -> np.float32:  # type: ignore[override]
        """The factor of queries, one over the square root of a head's size."""
        return np.float32((self.width / self._heads) ** -0.5)

    @cached_property
    def _layers(self) -> list[_Layer]:
        """Return the weights of all layers; queries are scaled later."""
        layers = []
        for number in range(self._layer_count):
            at = f"encoder.layer.{number}"
            query, key, value, mixed = (
                self._pair(f"{at}.attention.attn.{name}") for name in ("q", "k", "v", "o")
            )
            layers.append(
                _Layer(
                    (query, key, value),  # as they are: joined they would lie in memory twice
                    mixed,
                    self._pair(f"{at}.attention.LayerNorm"),
                    self._pair(f"{at}.intermediate.dense"),
                    self._pair(f"{at}.output.dense"),
                    self._pair(f"{at}.output.LayerNorm"),
                )
            )
        return layers


def buckets(distance: Any, count: int) -> Any:
    """Return the relative position bucket, of ``count``, of each signed token distance.

    Distances to later tokens are in the second half; in each half the first half of the buckets
    hold one distance each.
    """
    half = count // 2
    near = half // 2
    apart = np.abs(distance)
    far = np.log(np.maximum(apart, 1).astype(np.float32) / np.float32(near))
    far = far / np.float32(np.log(_FURTHEST / near)) * np.float32(half - near)
    wide = np.minimum(near + far.astype(np.int64), half - 1)
    return np.where(apart < near, apart, wide) + half * (distance > 0)

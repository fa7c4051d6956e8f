"""A model that runs trees of tokens itself; one of transformers does so under a mask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from kgqa.decoding.cache import ColumnCache


@dataclass(frozen=True, slots=True)
class Sight:
    """What one question's tokens, those from ``start`` to ``stop``, attend to.

    ``columns``: places in the cache, ascending; ``seen`` ``[stop - start, columns]``.
    """

    start: int
    stop: int
    columns: Tensor
    seen: Tensor

    def of(self, cached: Tensor) -> Tensor:
        """Return these columns of ``[1, heads, columns, size]``."""
        count = len(self.columns)
        if count and int(self.columns[-1]) == count - 1:  # the first ones: no copy
            return cached[:, :, :count]
        return cached.index_select(2, self.columns)


class TreeModel(ABC):
    """A model in float32 on the CPU whose attention is given a question at a time."""

    config: Any
    device = torch.device("cpu")
    dtype = torch.float32

    @property
    @abstractmethod
    def embedding(self) -> Tensor:
        """The vectors of tokens, ``[tokens, width]``."""

    @abstractmethod
    def states(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sights: Sequence[Sight],
        cache: ColumnCache,
    ) -> Tensor:
        """Return the last layer's states ``[tokens, width]``; keys and values go to ``cache``."""

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """Return the logits of states, ``[states, vocabulary]``."""

    def get_input_embeddings(self) -> Any:
        """Return what has the vectors of tokens as ``weight``, as models of transformers do."""
        return SimpleNamespace(weight=self.embedding)

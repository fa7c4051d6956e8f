"""A model that runs trees of tokens itself; one of transformers does so under a mask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from kgqa.decoding.cache import ColumnCache


@dataclass(frozen=True, slots=True)
class AttentionBlock:
    """What one question's tokens, those from ``start`` to ``stop``, attend to.

    ``columns``: places in the cache, ascending; ``seen`` ``[stop - start, columns]``.
    ``adjoining``: the columns are the cache's first ones, without a gap.
    """

    start: int
    stop: int
    columns: Tensor
    seen: Tensor
    adjoining: bool

    def of(self, cached: Tensor) -> Tensor:
        """Return these columns of ``[1, heads, columns, size]``."""
        if self.adjoining:  # no copy
            return cached[:, :, : len(self.columns)]
        return cached.index_select(2, self.columns)


class TreeModel(ABC):
    """A model that is given what each token of a tree attends to, without an adapter for it."""

    config: Any

    @property
    @abstractmethod
    def embedding(self) -> Tensor:
        """The vectors of tokens, ``[tokens, width]``."""

    @property
    def device(self) -> torch.device:
        """Where its weights lie."""
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """The type of its weights and states."""
        return self.embedding.dtype

    @abstractmethod
    def states(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        blocks: Sequence[AttentionBlock],
        cache: ColumnCache,
    ) -> Tensor:
        """Return the last layer's states ``[tokens, width]``; keys and values go to ``cache``.

        A question attends to its own columns alone.
        """

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """Return the logits of states, ``[states, vocabulary]``."""

    def get_input_embeddings(self) -> Any:
        """Return what has the vectors of tokens as ``weight``, as models of transformers do."""
        return SimpleNamespace(weight=self.embedding)

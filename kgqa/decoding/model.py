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
        sights: Sequence[Sight],
        cache: ColumnCache,
    ) -> Tensor:
        """Return the last layer's states ``[tokens, width]``; keys and values go to ``cache``.

        A question attends to its own columns alone, which suits a CPU.
        """

    @abstractmethod
    def states_under(
        self,
        tokens: Tensor,
        positions: Tensor,
        columns: Tensor,
        seen: Tensor,
        keys: Tensor,
        values: Tensor,
    ) -> Tensor:
        """Return the last layer's states ``[tokens, width]``, by operations of fixed shapes.

        All arguments lie on the model's device, which is not waited for. ``seen`` ``[tokens,
        width]``: which of the first columns each token attends to. ``keys``, ``values`` ``[layers,
        key heads, columns, size]``: written at ``columns``.
        """

    @property
    @abstractmethod
    def cached(self) -> tuple[int, int, int]:
        """Layers, key heads, and numbers in a key, which the cache holds for each token."""

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """Return the logits of states, ``[states, vocabulary]``."""

    @property
    @abstractmethod
    def can_pack(self) -> bool:
        """Whether its matrices can be packed (:mod:`kgqa.decoding.kernels`)."""

    @abstractmethod
    def pack(self, tokens: int) -> None:
        """Pack all matrices for about so many tokens at a time."""

    @abstractmethod
    def unpack(self) -> None:
        """Undo :meth:`pack`."""

    def get_input_embeddings(self) -> Any:
        """Return what has the vectors of tokens as ``weight``, as models of transformers do."""
        return SimpleNamespace(weight=self.embedding)

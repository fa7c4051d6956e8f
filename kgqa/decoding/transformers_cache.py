"""A :class:`kgqa.decoding.model.ColumnCache` as models of transformers write to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import DynamicCache

if TYPE_CHECKING:
    import torch

    from kgqa.decoding.model import ColumnCache


class TransformersCache(DynamicCache):
    """A cache of transformers that stores keys and values in a :class:`ColumnCache`."""

    def __init__(self, columns: ColumnCache) -> None:
        super().__init__()
        self._columns = columns

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write a layer's new keys and values ``[1, heads, tokens, size]``; return all columns."""
        return self._columns.write(key_states, value_states, layer_idx)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the cache's width in columns; positions and masks come from the caller."""
        return self._columns.width

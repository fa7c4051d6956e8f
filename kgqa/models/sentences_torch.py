"""A sentence encoder that transformers runs or trains: any architecture and device.

:mod:`kgqa.models.sentences` says when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModel, AutoTokenizer

from kgqa.models.device import pick_device
from kgqa.models.pretrained import LOADING_ERRORS, from_pretrained, quiet
from kgqa.models.sentence_encoder import Pooling, SentenceEncoder, batches, cannot_load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


_TOGETHER = 8_192  # tokens of a batch, padding included


class TorchSentenceEncoder(SentenceEncoder):
    """A sentence encoder over a ``model`` of transformers; for one thread."""

    def __init__(
        self, name: str, model: Any, tokenizer: Any, pooling: Pooling, longest: int | None
    ) -> None:
        self.name = name
        self.model = model
        self.width = int(model.config.hidden_size)
        self._tokenizer = tokenizer
        self._pooling = pooling
        self._longest = longest

    @classmethod
    def load(
        cls, name: str, folder: Path, pooling: Pooling, longest: int | None, device: str | None
    ) -> TorchSentenceEncoder:
        """Load the model in ``folder``. Raises ModelError, UsageError."""
        where = pick_device(device)
        with quiet():
            try:
                tokenizer = from_pretrained(AutoTokenizer, folder)
                model = from_pretrained(AutoModel, folder, dtype=torch.float32)
            except LOADING_ERRORS as error:
                raise cannot_load(folder, error) from error
            model = model.to(where).eval().requires_grad_(False)
        longest = longest or getattr(model.config, "max_position_embeddings", None)
        return cls(name, model, tokenizer, pooling, longest)

    def vectors(self, texts: Sequence[str]) -> torch.Tensor:
        """Return the vectors of :meth:`encode` as a tensor with gradients, for training."""
        vectors: list[torch.Tensor] = [torch.empty(0)] * len(texts)
        for batch, rows in self._batches(texts):
            for place, vector in zip(batch, self._states(rows)[1], strict=True):
                vectors[place] = vector
        return torch.stack(vectors)

    def change(self, changes: Mapping[str, NDArray[np.float32]]) -> None:
        """Add learnt ``changes`` to the weights with these names.

        Raises ValueError for a mismatch.
        """
        weights = dict(self.model.named_parameters())
        for name, change in changes.items():
            if name not in weights or weights[name].shape != change.shape:
                raise ValueError(f"{name} is not a weight of {self.name}, or has another shape")
            weights[name].data += torch.from_numpy(change).to(weights[name])

    def _read(
        self, texts: Sequence[str]
    ) -> Iterator[tuple[list[int], list[NDArray[np.float32]], NDArray[np.float32]]]:
        """Encode ``texts`` in batches; yield text indices with their token states and vectors."""
        for batch, rows in self._batches(texts):
            with torch.inference_mode():
                states, pooled = self._states(rows)
            each = zip(states.cpu().numpy(), rows, strict=True)
            yield batch, [state[: len(row)] for state, row in each], pooled.cpu().numpy()

    def _batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], list[Sequence[int]]]]:
        """Tokenise ``texts``; yield batches of indices and token ids."""
        if not len(texts):
            return
        cut = self._longest is not None
        encoded = self._tokenizer(list(texts), truncation=cut, max_length=self._longest)
        yield from batches(encoded["input_ids"], _TOGETHER)

    def _states(self, rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the padded token states and the unit vectors of a batch."""
        longest = max(map(len, rows))
        ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
        there = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        ids, there = ids.to(self.model.device), there.to(self.model.device)
        states = self.model(input_ids=ids, attention_mask=there).last_hidden_state.float()
        if self._pooling == "first":
            pooled = states[:, 0]
        else:
            weight = there.unsqueeze(-1).float()
            pooled = (states * weight).sum(1) / weight.sum(1)
        return states, torch.nn.functional.normalize(pooled, dim=-1)

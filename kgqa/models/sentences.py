"""Sentences as vectors, by a sentence encoder in the form of the ``sentence-transformers`` library.

The transformer and its pooling (the mean of the tokens, or the first one) are read from the model's
own files; the library itself is not needed. Models with further layers are refused.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from kgqa.errors import ModelError
from kgqa.models.kg_llm import pick_device
from kgqa.models.locate import locate_model
from kgqa.models.offline import MINILM, minilm_folder
from kgqa.models.pretrained import LOADING_ERRORS, first_line, from_pretrained, quiet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kgqa.progress import Progress

KNOWN = (MINILM, f"sentence-transformers/{MINILM}")  # what a card may name by itself
_MODULES = {"Transformer", "Pooling", "Normalize"}
_TOGETHER = 8_192  # tokens of a batch, padding included

Pooling = Literal["mean", "first"]


class TokenStates(NamedTuple):
    """Token states of texts, joined, and a vector of length 1 for each text.

    ``states`` ``[all tokens, width]``; those of text i are ``states[starts[i] : starts[i + 1]]``.
    ``vectors`` ``[texts, width]``.
    """

    states: NDArray[np.float16]
    starts: NDArray[np.int64]
    vectors: NDArray[np.float32]


class SentenceEncoder:
    """A model that makes vectors of texts, on one device. Not for use by several threads.

    Vectors have length 1, so that the product of two is their cosine.
    """

    def __init__(
        self, name: str, model: Any, tokenizer: Any, pooling: Pooling, longest: int | None
    ) -> None:
        self.name = name
        self._model = model
        self._tokenizer = tokenizer
        self._pooling = pooling
        self._longest = longest

    @property
    def width(self) -> int:
        """How many numbers a vector has."""
        return int(self._model.config.hidden_size)

    @property
    def model(self) -> Any:
        """The model itself: what a training changes."""
        return self._model

    def vectors(self, texts: Sequence[str]) -> torch.Tensor:
        """Return what :meth:`encode` does, for a training: gradients flow through it."""
        found: list[torch.Tensor] = [torch.empty(0)] * len(texts)
        for batch, rows in self._batches(texts):
            for place, vector in zip(batch, self._states(rows)[1], strict=True):
                found[place] = vector
        return torch.stack(found)

    def change(self, changes: Mapping[str, torch.Tensor]) -> None:
        """Add to weights of the model, by name, what was learnt. Raises ValueError if none fits."""
        weights = dict(self._model.named_parameters())
        for name, change in changes.items():
            if name not in weights or weights[name].shape != change.shape:
                raise ValueError(f"{name} is not a weight of {self.name}, or has another shape")
            weights[name].data += change.to(weights[name])

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vector of each text, shape ``[len(texts), width]``, float32.

        A text longer than the model was made for is truncated, as the library does.
        """
        found = np.zeros((len(texts), self.width), np.float32)
        for batch, rows in self._batches(texts):
            found[batch] = self._states(rows)[1].cpu().numpy()
        return found

    @torch.inference_mode()
    def encode_tokens(self, texts: Sequence[str]) -> TokenStates:
        """Return the state of each token of each text beside the vectors of :meth:`encode`."""
        vectors = np.zeros((len(texts), self.width), np.float32)
        parts: list[NDArray[np.float16]] = [np.empty((0, self.width), np.float16)] * len(texts)
        for batch, rows in self._batches(texts):
            states, pooled = self._states(rows)
            vectors[batch] = pooled.cpu().numpy()
            small = states.half().cpu().numpy()
            for place, row, state in zip(batch, rows, small, strict=True):
                parts[place] = state[: len(row)].copy()
        starts = np.cumsum([0, *map(len, parts)])
        none = np.empty((0, self.width), np.float16)
        return TokenStates(np.concatenate([none, *parts]), starts, vectors)

    def _batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], list[list[int]]]]:
        """Yield places in ``texts`` and their token ids, texts of like lengths together."""
        if not len(texts):
            return
        cut = self._longest is not None
        rows: list[list[int]] = self._tokenizer(
            list(texts), truncation=cut, max_length=self._longest
        )["input_ids"]
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        start = 0
        while start < len(order):
            end = start + 1
            # in the order of their lengths the last one says how wide the batch is
            while end < len(order) and len(rows[order[end]]) * (end + 1 - start) <= _TOGETHER:
                end += 1
            batch = order[start:end]
            yield batch, [rows[row] for row in batch]
            start = end

    def _states(self, rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tokens' states and the normalised vectors."""
        longest = max(map(len, rows))
        ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
        there = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        ids, there = ids.to(self._model.device), there.to(self._model.device)
        states = self._model(input_ids=ids, attention_mask=there).last_hidden_state.float()
        if self._pooling == "first":
            pooled = states[:, 0]
        else:
            weight = there.unsqueeze(-1).float()
            pooled = (states * weight).sum(1) / weight.sum(1)
        return states, torch.nn.functional.normalize(pooled, dim=-1)


def load_sentence_encoder(
    name: str | None, *, device: str | None, cache: Path, progress: Progress
) -> SentenceEncoder:
    """Load a sentence encoder: a folder or a hub name; None is the offline MiniLM.

    ``device`` and ``cache`` as for :func:`kgqa.models.kg_llm.load_kg_llm`. Raises
    ModelNotFoundError if there is none, ModelError if it cannot be used.
    """
    if name is None or name in KNOWN:
        shown, folder = MINILM, minilm_folder()
    else:
        shown, folder = locate_model(name, cache, progress)
    pooling = _pooling(folder)
    where = pick_device(device)
    with progress.task(f"loading {shown}"), quiet():
        try:
            tokenizer = from_pretrained(AutoTokenizer, folder)
            model = from_pretrained(AutoModel, folder, dtype=torch.float32)
        except LOADING_ERRORS as error:
            raise ModelError(
                f"The sentence encoder in {folder} cannot be loaded: {first_line(error)}.",
                "Name a model of the sentence-transformers library, or leave it out for the "
                "offline one.",
            ) from error
        model = model.to(where).eval().requires_grad_(False)
    positions = getattr(model.config, "max_position_embeddings", None)
    longest = _read(folder / "sentence_bert_config.json").get("max_seq_length") or positions
    return SentenceEncoder(shown, model, tokenizer, pooling, longest)


def encoder_of_card(stated: str, named: str | None, folder: Path) -> str:
    """Return the encoder to load for the model in ``folder``: ``named`` by the user, else its own.

    A card comes from anybody: it has no other folder or hub name loaded than a known one. Raises
    ModelError.
    """
    if named is None and stated not in KNOWN:
        raise ModelError(
            f"The model in {folder} reads questions with the sentence encoder {stated}, which is "
            "not one of this program's own.",
            "If you trust that encoder, name it as `encoder`.",
        )
    return named or stated


def _pooling(folder: Path) -> Pooling:
    """Return how the model's files want tokens to become one vector: their mean if none says it."""
    modules = _read(folder / "modules.json")
    kinds = [str(one.get("type", "")).rpartition(".")[2] for one in modules.get("", [])]
    if odd := sorted(set(kinds) - _MODULES):
        raise ModelError(
            f"The sentence encoder in {folder} has a layer that is not known here: {odd[0]}.",
            "Use one of a transformer and a pooling, all-MiniLM-L6-v2 for instance.",
        )
    stated = _read(folder / "1_Pooling" / "config.json")
    ways = {name.removeprefix("pooling_mode_") for name, on in stated.items() if on is True}
    ways &= {"cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "lasttoken"}
    if not ways or ways == {"mean_tokens"}:
        return "mean"
    if ways == {"cls_token"}:
        return "first"
    raise ModelError(
        f"The sentence encoder in {folder} pools its tokens by {', '.join(sorted(ways))}; only "
        "their mean and the first token are known here.",
        "Use another one, all-MiniLM-L6-v2 for instance.",
    )


def _read(file: Path) -> dict[str, Any]:
    """Return a JSON object; a list stands under ``""``, and a missing file is an empty object."""
    try:
        found = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ModelError(
            f"The file {file} of a sentence encoder cannot be read: {error}."
        ) from None
    if isinstance(found, list):
        return {"": [one for one in found if isinstance(one, dict)]}
    return found if isinstance(found, dict) else {}

"""A graph reasoner on disk: a folder with its weights and its card, which are checked together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save

from kgqa.errors import AdapterMismatchError, ModelError
from kgqa.models.graph_reasoner import GraphReasoner
from kgqa.models.graph_reasoner_card import AGAIN, REASONERS, UNTRAINED, ReasonerCard
from kgqa.models.sentences import encoder_of_card, load_sentence_encoder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kgqa.models.sentence_encoder import SentenceEncoder
    from kgqa.progress import Progress

_WORDS = "vectors_of_texts"  # the tensor of relations' text vectors
# weights whose second dimension is a step, or a direction, and what they are if never trained
_BY_STEP = {"rows": 0.0, "biases": UNTRAINED}
_BY_DIRECTION = {"words": 0.0, "bias_of_words": 0.0, "bias": UNTRAINED}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LoadedReasoner:
    """A reasoner that is ready: its model in eval mode on the CPU, and what encodes questions.

    ``words``: the vectors of the relations' words, ``[n, width]``; None if relations are ids.
    """

    name: str
    card: ReasonerCard
    model: GraphReasoner
    encoder: SentenceEncoder
    words: torch.Tensor | None = None


def save_reasoner(
    folder: Path, model: GraphReasoner, card: ReasonerCard, words: torch.Tensor | None
) -> None:
    """Write weights (float16) and card into ``folder``, which is made. Raises ModelError."""
    state = _trimmed(model.state_dict(), card)
    state = {name: one.detach().half().contiguous() for name, one in state.items()}
    if words is not None:
        state[_WORDS] = words.half().contiguous()
    REASONERS.save(folder, card, save(state))


def load_reasoner(
    name: str,
    *,
    device: str | None,
    cache: Path,
    progress: Progress,
    encoder: str | None = None,
) -> LoadedReasoner:
    """Load the reasoner of a folder or a bundled name, with its encoder.

    ``device``: where the encoder runs; the reasoner itself, a few small matrices, stays on the
    CPU. ``encoder``: what reads questions, if it is not known by its card. Raises what
    :meth:`ModelKind.card` raises, ModelError if the weights are damaged or do not fit the card,
    ModelNotFoundError if the encoder is not available.
    """
    folder = REASONERS.folder(name)
    card = REASONERS.card(folder)
    state, words = _weights(folder, card)
    model = GraphReasoner(card.shape)
    try:
        model.load_state_dict(state)
    except RuntimeError:
        raise ModelError(
            f"The weights {folder / card.weights} are not of the reasoner that its card describes.",
            AGAIN,
        ) from None
    chosen = encoder_of_card(card.encoder, encoder, folder)
    read_by = load_sentence_encoder(chosen, device=device, cache=cache, progress=progress)
    if read_by.width != card.width:
        raise AdapterMismatchError(
            f"The reasoner {folder} was trained with vectors of {card.width} numbers; the encoder "
            f"{read_by.name} gives {read_by.width}.",
            f"Use the encoder it was trained with. {AGAIN}",
        )
    return LoadedReasoner(
        REASONERS.shown(folder), card, model.eval().requires_grad_(False), read_by, words
    )


def _weights(
    folder: Path, card: ReasonerCard
) -> tuple[dict[str, torch.Tensor], torch.Tensor | None]:
    tensors = REASONERS.weights(folder, card.weights)
    state = {name: torch.from_numpy(one) for name, one in tensors.items()}
    words = state.pop(_WORDS, None)
    state = _whole(state, card)
    wanted = (len(card.relations), card.width) if card.relations_by == "text" else None
    if (None if words is None else tuple(words.shape)) != wanted:
        raise ModelError(
            f"The weights {folder / card.weights} hold no vectors for the card's relations.", AGAIN
        )
    return state, words


def _trimmed(state: Mapping[str, torch.Tensor], card: ReasonerCard) -> dict[str, torch.Tensor]:
    """Return the weights without those of a direction that the reasoner never takes."""
    if card.direction == "both":
        return dict(state)
    kept = int(card.direction == "in")
    found = {}
    for name, one in state.items():
        by_step = name in _BY_STEP and card.relations_by == "ids"
        found[name] = one[:, kept::2] if by_step or name in _BY_DIRECTION else one
    return found


def _whole(state: Mapping[str, torch.Tensor], card: ReasonerCard) -> dict[str, torch.Tensor]:
    """Return the weights with those that :func:`_trimmed` left out, as never trained."""
    if card.direction == "both":
        return dict(state)
    kept = int(card.direction == "in")
    found = dict(state)
    for name, low in {**_BY_STEP, **_BY_DIRECTION}.items():
        if name in state and state[name].ndim > 1:
            one = state[name]
            made = one.new_full((one.shape[0], 2 * one.shape[1], *one.shape[2:]), low)
            made[:, kept::2] = one
            found[name] = made
    return found

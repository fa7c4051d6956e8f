"""A graph reasoner on disk: a folder with its weights and its card, which are checked together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from kgqa.errors import AdapterMismatchError, ModelError
from kgqa.models.graph_reasoner import GraphReasoner
from kgqa.models.graph_reasoner_card import AGAIN, REASONERS, ReasonerCard
from kgqa.models.sentences import encoder_of_card, load_sentence_encoder

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.models.sentence_encoder import SentenceEncoder
    from kgqa.progress import Progress


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LoadedReasoner:
    """A reasoner that is ready: its model in eval mode on the CPU, and what encodes questions."""

    name: str
    card: ReasonerCard
    model: GraphReasoner
    encoder: SentenceEncoder


def save_reasoner(folder: Path, model: GraphReasoner, card: ReasonerCard) -> None:
    """Write weights (float16) and card into ``folder``, which is made. Raises ModelError."""
    state = model.state_dict().items()
    REASONERS.save(folder, card, {name: one.numpy(force=True) for name, one in state})


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
    card, tensors, _ = REASONERS.read(folder)
    model = GraphReasoner(card.hops, card.width, card.hidden)
    try:
        model.load_state_dict({name: torch.from_numpy(one) for name, one in tensors.items()})
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
        REASONERS.shown(folder), card, model.eval().requires_grad_(False), read_by
    )

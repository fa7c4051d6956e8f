"""A graph reasoner on disk: a folder with its weights and its card.

``reasoner.json`` says what the reasoner was trained for and how; it is checked when it is read, and
against the weights. A name is a folder, or one of the bundled reasoners.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, field_validator, model_validator
from pydantic.dataclasses import dataclass
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from kgqa.errors import AdapterMismatchError, ModelError, ModelNotFoundError
from kgqa.models.adapter import (
    CONFIG,
    Mediators,
    Walk,
    card_content,
    model_folder,
    read_json_card,
    write_model_folder,
)
from kgqa.models.graph_reasoner import (
    UNTRAINED,
    BetaReads,
    GraphReasoner,
    ReasonerShape,
    RelationsBy,
)
from kgqa.models.sentences import encoder_of_card, load_sentence_encoder

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from kgqa.models.sentences import SentenceEncoder
    from kgqa.progress import Progress

BUNDLED_REASONERS = Path(__file__).parent.parent / "data" / "reasoners"
CARD_FILE = "reasoner.json"
WEIGHTS_FILE = "reasoner.safetensors"
FORMAT_VERSION = 3
_WORDS = "vectors_of_texts"  # the tensor of relations' text vectors
# weights whose second dimension is a step, or a direction, and what they are if never trained
_BY_STEP = {"rows": 0.0, "biases": UNTRAINED}
_BY_DIRECTION = {"words": 0.0, "bias_of_words": 0.0, "bias": UNTRAINED}
_AGAIN = "Train it again with `kgqa train kg-cot`."

_AtLeastOne = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True, kw_only=True, config=CONFIG)
class ReasonerCard:
    """What a reasoner was trained for and how; unusable fields are a ValidationError."""

    hops: _AtLeastOne
    direction: Walk
    mediators: Mediators
    relations_by: RelationsBy
    encoder: Annotated[str, Field(min_length=1)]  # a sentence encoder's name, or its folder
    width: _AtLeastOne
    hidden: _AtLeastOne
    relations: Annotated[tuple[str, ...], Field(min_length=1)]  # ids, in the order of the weights
    texts: tuple[str, ...] = ()  # the relations' words, if they are read by them
    beta_reads: BetaReads = "tokens"
    answer_threshold: Annotated[float, Field(ge=0, le=1)] = 0.5  # part of the first one's score
    described: dict[str, Any] = Field(default_factory=dict)  # data, settings, figures
    format_version: int = FORMAT_VERSION

    @field_validator("relations")
    @classmethod
    def _are_different(cls, relations: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(relations)) < len(relations):
            raise ValueError("it holds a relation twice")
        return relations

    @model_validator(mode="after")
    def _texts_fit(self) -> ReasonerCard:
        wanted = len(self.relations) if self.relations_by == "text" else 0
        if len(self.texts) != wanted:
            raise ValueError(f"there are {len(self.texts)} texts of relations, not {wanted}")
        return self

    @property
    def shape(self) -> ReasonerShape:
        """The sizes of the model."""
        return ReasonerShape(
            hops=self.hops,
            width=self.width,
            hidden=self.hidden,
            relations=len(self.relations) if self.relations_by == "ids" else 0,
            beta_reads=self.beta_reads,
        )

    def to_json(self) -> str:
        """Return the card as it stands in ``reasoner.json``."""
        return json.dumps(card_content(self), indent=1, ensure_ascii=False) + "\n"


@dataclasses.dataclass(frozen=True, slots=True)
class LoadedReasoner:
    """A reasoner that is ready: its model in eval mode on the CPU, and what encodes questions.

    ``words``: the vectors of the card's ``texts``, ``[n, width]``; None if relations are ids.
    """

    name: str
    card: ReasonerCard
    model: GraphReasoner
    encoder: SentenceEncoder
    words: torch.Tensor | None = None


def reasoner_folder(name: str) -> Path:
    """Return the folder of a reasoner: one of that path, else the bundled one of that name."""
    return model_folder(name, BUNDLED_REASONERS)


def bundled_reasoners() -> list[str]:
    """Return the names of the bundled reasoners, sorted."""
    return sorted(one.parent.name for one in BUNDLED_REASONERS.glob(f"*/{CARD_FILE}"))


def read_reasoner_card(folder: Path) -> ReasonerCard:
    """Return the card of a reasoner's folder.

    Raises ModelNotFoundError if there is none, ModelError if it cannot be read or used,
    AdapterMismatchError if it is of another version.
    """
    return read_json_card(
        ReasonerCard,
        folder / CARD_FILE,
        "reasoner",
        version=FORMAT_VERSION,
        older={
            1: lambda card: {**card, "beta_reads": "pooled"},
            2: lambda card: {"answer_threshold" if k == "cut" else k: v for k, v in card.items()},
        },
        missing=f"A reasoner is a folder with {CARD_FILE} and {WEIGHTS_FILE}, as `kgqa train "
        f"kg-cot` writes it; bundled are: {', '.join(bundled_reasoners()) or 'none'}.",
        again=_AGAIN,
    )


def save_reasoner(
    folder: Path, model: GraphReasoner, card: ReasonerCard, words: torch.Tensor | None
) -> None:
    """Write weights (float16) and card into ``folder``, which is made. Raises ModelError."""
    state = _trimmed(model.state_dict(), card)
    state = {name: one.detach().half().contiguous() for name, one in state.items()}
    if words is not None:
        state[_WORDS] = words.half().contiguous()
    write_model_folder(
        folder, {WEIGHTS_FILE: save(state), CARD_FILE: card.to_json().encode()}, "reasoner"
    )


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
    :func:`read_reasoner_card` raises, ModelError if the weights are damaged or do not fit the card,
    ModelNotFoundError if the encoder is not available.
    """
    folder = reasoner_folder(name)
    card = read_reasoner_card(folder)
    state, words = _weights(folder, card)
    model = GraphReasoner(card.shape)
    try:
        model.load_state_dict(state)
    except RuntimeError:
        raise ModelError(
            f"The weights {folder / WEIGHTS_FILE} are not of the reasoner that its card describes.",
            _AGAIN,
        ) from None
    chosen = encoder_of_card(card.encoder, encoder, folder)
    read_by = load_sentence_encoder(chosen, device=device, cache=cache, progress=progress)
    if read_by.width != card.width:
        raise AdapterMismatchError(
            f"The reasoner {folder} was trained with vectors of {card.width} numbers; the encoder "
            f"{read_by.name} gives {read_by.width}.",
            f"Use the encoder it was trained with. {_AGAIN}",
        )
    shown = folder.name if folder.parent == BUNDLED_REASONERS else str(folder)
    return LoadedReasoner(shown, card, model.eval().requires_grad_(False), read_by, words)


def _weights(
    folder: Path, card: ReasonerCard
) -> tuple[dict[str, torch.Tensor], torch.Tensor | None]:
    file = folder / WEIGHTS_FILE
    if not file.is_file():
        raise ModelNotFoundError(f"The reasoner folder {folder} has no {WEIGHTS_FILE}.", _AGAIN)
    try:
        state = {name: one.float() for name, one in load_file(file).items()}
    except (OSError, SafetensorError, ValueError) as error:
        raise ModelError(f"The weights {file} are damaged: {error}.", _AGAIN) from None
    words = state.pop(_WORDS, None)
    state = _whole(state, card)
    wanted = (len(card.texts), card.width) if card.texts else None
    if (None if words is None else tuple(words.shape)) != wanted:
        raise ModelError(f"The weights {file} hold no vectors for the card's relations.", _AGAIN)
    if not all(bool(one.isfinite().all()) for one in state.values()):
        raise ModelError(f"The weights {file} are damaged: not all are numbers.", _AGAIN)
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

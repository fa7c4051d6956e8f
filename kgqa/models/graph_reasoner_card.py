"""The card of a graph reasoner, ``reasoner.json``: its training data and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from kgqa.errors import ModelNotFoundError
from kgqa.models.folders import BUNDLED, CONFIG, MOSTLY, ModelKind, WeightsName, known_part
from kgqa.registry import Direction, Mediators  # noqa: TC001 - pydantic reads them

if TYPE_CHECKING:
    from collections.abc import Sequence

CARD_FILE = "reasoner.json"
FORMAT_VERSION = 4
AGAIN = "Train it again with `kgqa train kg-cot`."

_Size = Annotated[int, Field(ge=1, le=8_192)]  # room is made before the weights are read


@dataclass(frozen=True, slots=True, kw_only=True, config=CONFIG)
class ReasonerCard:
    """A reasoner's training data and settings. Invalid fields raise pydantic's ValidationError."""

    hops: Annotated[int, Field(ge=1, le=32)]
    direction: Direction
    mediators: Mediators
    encoder: Annotated[str, Field(min_length=1)]  # a sentence encoder's name, or its folder
    width: _Size
    hidden: _Size
    relations: Annotated[tuple[str, ...], Field(min_length=1)]  # ids of those it was trained with
    answer_threshold: Annotated[float, Field(ge=0, le=1)] = 0.5  # part of the first one's score
    described: dict[str, Any] = Field(default_factory=dict)  # data, settings, figures
    weights: WeightsName = "reasoner.safetensors"
    format_version: int = FORMAT_VERSION


REASONERS = ModelKind(
    "reasoner",
    ReasonerCard,
    CARD_FILE,
    FORMAT_VERSION,
    BUNDLED / "reasoners",
    again=AGAIN,
    files=f"{CARD_FILE} and weights, as `kgqa train kg-cot` writes them",
)


def suited_reasoner(kg: str, relations: Sequence[str]) -> tuple[str, str]:
    """Return the bundled reasoner that knows most of a KG's ``relations``, and a note.

    The note is "" if it knows most of them. If none knows any, it is the first one. Raises
    ModelNotFoundError if none is bundled.
    """
    cards = {name: REASONERS.card(REASONERS.folder(name)) for name in REASONERS.names()}
    train = "Train one for this KG (kgqa train kg-cot), and name its folder with `reasoner`."
    if not cards:
        raise ModelNotFoundError("No reasoner is bundled.", train)
    known = {name: known_part(card.relations, relations) for name, card in cards.items()}
    best = max(cards, key=lambda name: known[name])
    if known[best] >= MOSTLY:
        return best, ""
    return best, (
        f"The reasoner {best} was trained on another KG, and reads the relations of {kg} by their "
        f"words. {train}"
    )

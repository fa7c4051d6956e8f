"""The card of a graph reasoner, ``reasoner.json``: what it was trained for and how."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator
from pydantic.dataclasses import dataclass

from kgqa.models.folders import BUNDLED, CONFIG, ModelKind, WeightsName
from kgqa.registry import Direction, Mediators  # noqa: TC001 - pydantic reads them

CARD_FILE = "reasoner.json"
FORMAT_VERSION = 3
AGAIN = "Train it again with `kgqa train kg-cot`."

_Size = Annotated[int, Field(ge=1, le=8_192)]  # room is made before the weights are read

UNTRAINED = -20.0  # the logit of what was never trained

RelationsBy: TypeAlias = Literal["ids", "text"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReasonerShape:
    """The sizes of a reasoner: ``hops`` steps, ``width`` of vectors, ``hidden`` units.

    ``relations``: how many it has a row of its own for (``ids``), 0 if it reads their words.
    """

    hops: int
    width: int
    hidden: int = 192
    relations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, config=CONFIG)
class ReasonerCard:
    """What a reasoner was trained for and how; unusable fields are a ValidationError."""

    hops: Annotated[int, Field(ge=1, le=32)]
    direction: Direction
    mediators: Mediators
    relations_by: RelationsBy
    encoder: Annotated[str, Field(min_length=1)]  # a sentence encoder's name, or its folder
    width: _Size
    hidden: _Size
    relations: Annotated[tuple[str, ...], Field(min_length=1)]  # ids, in the order of the weights
    # the relations' words, if they are read by them and their ids do not say them
    texts: tuple[str, ...] = ()
    beta_reads: Literal["tokens"] = "tokens"  # the one way there is to read the number of hops
    answer_threshold: Annotated[float, Field(ge=0, le=1)] = 0.5  # part of the first one's score
    described: dict[str, Any] = Field(default_factory=dict)  # data, settings, figures
    weights: WeightsName = "reasoner.safetensors"
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
        if len(self.texts) not in (0, wanted):
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
        )


REASONERS = ModelKind(
    "reasoner",
    ReasonerCard,
    CARD_FILE,
    FORMAT_VERSION,
    BUNDLED / "reasoners",
    again=AGAIN,
    files=f"{CARD_FILE} and weights, as `kgqa train kg-cot` writes them",
    older={
        2: lambda card: {"answer_threshold" if k == "cut" else k: v for k, v in card.items()},
    },
)

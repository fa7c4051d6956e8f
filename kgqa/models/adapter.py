"""The card of an adapter, ``kgqa.json``: what a KG-LLM was trained to read and to write.

A model without an adapter has one by preset.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator
from pydantic.dataclasses import dataclass

from kgqa.models.folders import (
    BUNDLED,
    CONFIG,
    ModelKind,
    card_content,
    suits,
)
from kgqa.registry import Direction, Mediators  # noqa: TC001 - pydantic reads them

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ScoreRule: TypeAlias = Literal["vocabulary", "allowed"]

CARD_FILE = "kgqa.json"
FORMAT_VERSION = 2
DEFAULT_PROMPT = "Question: {question}\nTopic: {topics}\nPath:"


@dataclass(frozen=True, slots=True, kw_only=True, config=CONFIG)
class AdapterCard:
    """How a model is asked, and what form of path it writes.

    A path's tokens follow the prompt at once: ``start`` (if any), the path, ``end``.
    Raises pydantic's ValidationError if a field has no meaning.
    """

    base_model: str = ""  # name of the model it was trained on; "" fits any
    # with {question} and {topics}, and {graph} if it contains facts; other braces are themselves
    prompt: str = DEFAULT_PROMPT
    reply: str = ""  # what the model's own turn begins with, before the path
    topic_separator: str = ", "
    ask: bool = False  # append "?" to a question that does not end with one
    start: str = ""  # marker token before a path; "" none
    end: str = ""  # marker token after a path; "": the model's end-of-sequence token
    answer: str = ""  # what follows ``end`` if the model writes a hypothesis answer; "": it ends
    added_tokens: tuple[str, ...] = ()  # special tokens that the adapter adds to the tokenizer
    direction: Direction = "out"
    mediators: Mediators = "collapse"
    hops: Annotated[int, Field(ge=1)] = 2
    score_rule: ScoreRule = "allowed"  # probabilities over what is allowed, or the vocabulary
    chat: bool = False  # the prompt is a user turn of the tokenizer's chat template
    # divides the log-probability of a tail beside that of its relation path; infinity: ignore tails
    tail_temperature: Annotated[float, Field(gt=0, strict=False)] = 1 / 0.3
    min_confidence: Annotated[float, Field(ge=0, le=1)] = 0.0  # with less there is no answer
    # relations of the KG that it was measured on, or what stands before their first dot; () any
    calibrated_on: tuple[str, ...] = ()
    # confidence: the log-odds of the evidence times the slope, plus the shift
    calibration_slope: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    calibration_shift: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    triplets: Annotated[int, Field(ge=0)] = 0  # in its prompt's graph, as trained; 0: not known
    format_version: int = FORMAT_VERSION

    @field_validator("prompt")
    @classmethod
    def _has_places(cls, prompt: str) -> str:
        for place in ("{question}", "{topics}"):
            if (count := prompt.count(place)) != 1:
                raise ValueError(f"it must hold {place} exactly once, and does {count} times")
        return prompt

    @field_validator("added_tokens")
    @classmethod
    def _are_different(cls, tokens: tuple[str, ...]) -> tuple[str, ...]:
        if not all(tokens) or len(set(tokens)) != len(tokens):
            raise ValueError("it holds an empty token, or one of them twice")
        return tokens

    @model_validator(mode="after")
    def _path_ends_before_answer(self) -> AdapterCard:
        if self.answer and not self.end:
            raise ValueError("with an answer after the path, a marker must end the path")
        return self

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of all fields: two cards with the same one mean the same."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def suits(self, relations: Sequence[str]) -> bool:
        """Return whether most of these relations are among those that it was measured on."""
        return suits(self.calibrated_on, relations)

    def to_json(self) -> str:
        """Return the card as it stands in ``kgqa.json``."""
        return json.dumps(card_content(self), indent=2, sort_keys=True) + "\n"

    def write(self, folder: Path) -> None:
        """Write ``kgqa.json`` into an adapter folder, which must exist."""
        (folder / CARD_FILE).write_text(self.to_json(), encoding="utf-8")


def _of_version_1(content: dict[str, Any]) -> dict[str, Any]:
    names = {
        "doubt": "min_confidence",
        "slope": "calibration_slope",
        "shift": "calibration_shift",
        "sharpness": "tail_temperature",
    }
    card = {names.get(name, name): value for name, value in content.items()}
    if isinstance(sharpness := content.get("sharpness"), float) and sharpness >= 0:
        card["tail_temperature"] = 1 / sharpness if sharpness else "Infinity"
    return card


ADAPTERS = ModelKind(
    "adapter",
    AdapterCard,
    CARD_FILE,
    FORMAT_VERSION,
    BUNDLED / "adapters",
    again="Train the adapter again with `kgqa train run`.",
    files=f"{CARD_FILE}, adapter_config.json and adapter_model.safetensors, as `kgqa train` writes "
    "them",
    older={1: _of_version_1},
)

"""The card of an adapter, ``kgqa.json``: what a KG-LLM was trained to read and to write.

A model without an adapter has one by preset. :func:`read_json_card` reads any model's card.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import (
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass

from kgqa.errors import AdapterMismatchError, ModelError, ModelNotFoundError
from kgqa.models.coverage import suits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CardT = TypeVar("CardT")

Mediators: TypeAlias = Literal["collapse", "keep"]
Direction: TypeAlias = Literal["out", "in", "both"]
ScoreRule: TypeAlias = Literal["vocabulary", "allowed"]
WeightsName: TypeAlias = Annotated[str, Field(pattern=r"^[\w-]+\.safetensors$")]  # beside its card

BUNDLED_ADAPTERS = Path(__file__).parent.parent / "data" / "adapters"
CARD_FILE = "kgqa.json"
FORMAT_VERSION = 2
# Strict: True is not a number of hops. Infinity is written as text, which JSON has no number for.
CONFIG = ConfigDict(extra="forbid", strict=True, ser_json_inf_nan="strings")
_SHOWN = 3  # faults of a card that one message names
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


def read_card(folder: Path) -> AdapterCard:
    """Return the card of an adapter folder.

    Raises what :func:`read_json_card` raises.
    """
    return read_json_card(
        AdapterCard,
        folder / CARD_FILE,
        "adapter",
        version=FORMAT_VERSION,
        older={1: _of_version_1},
        missing=f"An adapter is a folder with {CARD_FILE}, adapter_config.json and "
        "adapter_model.safetensors, as `kgqa train` writes it, or one that comes with kgqa: "
        f"{', '.join(sorted(one.name for one in BUNDLED_ADAPTERS.iterdir()))}.",
        again="Train the adapter again with `kgqa train run`.",
    )


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


def model_folder(name: str, bundled: Path) -> Path:
    """Return the folder of a model: one of that path, else the one of that name in ``bundled``."""
    folder = Path(name).expanduser()
    ours = bundled / name
    return (
        ours if not folder.exists() and re.fullmatch(r"[\w-]+", name) and ours.is_dir() else folder
    )


def write_card_and_weights(folder: Path, card: Any, card_file: str, weights: bytes) -> None:
    """Write ``card``, which names its weights, and these into ``folder``, which is made.

    Whoever reads sees the model that was there or this one, whenever that is: the card changes in
    one step, and the weights that it named until then stay beside the new ones, until the next.
    Raises ModelError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = [f"{Path(card_file).stem}{end}.safetensors" for end in ("", "-2")]
        with suppress(OSError, ValueError, AttributeError):
            before = json.loads((folder / card_file).read_bytes()).get("weights", names[0])
            names.sort(key=lambda name: name == before)
        content = card_content(card) | {"weights": names[0]}
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        for name, written in ((names[0], weights), (card_file, text.encode())):
            part = folder / f".{name}.partial"
            with part.open("wb") as file:
                file.write(written)
                file.flush()
                os.fsync(file.fileno())
            part.replace(folder / name)
    except OSError as error:
        raise ModelError(f"The model cannot be written to {folder}: {error}.") from None


def read_json_card(
    kind: type[CardT],
    file: Path,
    what: str,
    *,
    version: int,
    older: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]],
    missing: str,
    again: str,
) -> CardT:
    """Return the card in ``file``, which messages call the ``what`` card.

    ``version`` is the ``format_version`` that is read; ``older`` makes of a card of an earlier one
    the next. ``missing`` is the hint if there is no card, ``again`` if it cannot be used.

    Raises ModelNotFoundError if the file does not exist, ModelError if it cannot be read or used,
    AdapterMismatchError for another version (checked first: it may have other fields).
    """
    try:
        content = json.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        fault = f"has no {file.name}" if file.parent.is_dir() else "is not there"
        raise ModelNotFoundError(f"The {what} folder {file.parent} {fault}.", missing) from None
    except json.JSONDecodeError as error:
        raise ModelError(
            f"The {what} card {file} is not JSON: {error.msg}, line {error.lineno}.", again
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"The {what} card {file} cannot be read: {error}.", again) from None
    if not isinstance(content, dict):
        raise ModelError(f"The {what} card {file} is not a JSON object.", again)
    while type(content.get("format_version")) is int and content["format_version"] in older:
        before = content["format_version"]
        content = {**older[before](content), "format_version": before + 1}
    found = content.get("format_version")
    if found is None:
        raise ModelError(f"The {what} card {file} does not say its format_version.", again)
    if type(found) is not int or found != version:
        raise AdapterMismatchError(
            f"The {what} card {file} has format version {found}; this kgqa reads versions up to "
            f"{version}.",
            f"Use the kgqa version that wrote it. {again}",
        )
    try:
        # as JSON text, so that lists of strings become tuples in spite of strict types
        return TypeAdapter(kind).validate_json(json.dumps(content))
    except ValidationError as error:
        faults = "; ".join(_fault(one) for one in error.errors()[:_SHOWN])
        raise ModelError(f"The {what} card {file} is not usable: {faults}.", again) from None


def card_content(card: Any) -> dict[str, Any]:
    """Return the fields of a card as they stand in its JSON file."""
    content: dict[str, Any] = json.loads(TypeAdapter(type(card)).dump_json(card))
    return content


def _fault(error: Any) -> str:
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "unexpected_keyword_argument":
        message = "it is not known"
    elif error["type"] == "missing":
        message = "it is missing"
    name = ".".join(map(str, error["loc"]))
    return f"field {name}: {message}" if name else message

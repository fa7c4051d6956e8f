"""The card of an adapter: what a KG-LLM was trained to read and to write.

Each adapter folder carries it as ``kgqa.json``. A model without an adapter has one too, by preset
(:mod:`kgqa.models.presets`). What this module does not do: load weights.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kgqa.errors import AdapterMismatchError, ModelError, ModelNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Mediators: TypeAlias = Literal["collapse", "keep"]
Walk: TypeAlias = Literal["out", "in", "both"]
ScoreRule: TypeAlias = Literal["vocabulary", "allowed"]

CARD_FILE = "kgqa.json"
FORMAT_VERSION = 1
DEFAULT_PROMPT = "Question: {question}\nTopic: {topics}\nPath:"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterCard:
    """How a model is asked, and what form of path it writes.

    A path's tokens follow the prompt at once: ``start`` (if any), the path, ``end``.
    Raises ModelError where a field has no meaning, AdapterMismatchError where the card is of a
    version that this kgqa does not know.
    """

    base_model: str = ""  # name of the model it was trained on; "" fits any
    # with {question} and {topics}, and {graph} where facts stand in it; other braces are themselves
    prompt: str = DEFAULT_PROMPT
    reply: str = ""  # what the model's own turn begins with, before the path
    topic_separator: str = ", "
    ask: bool = False  # append "?" to a question that does not end with one
    start: str = ""  # marker token before a path; "" none
    end: str = ""  # marker token after a path; "": the model's end-of-sequence token
    answer: str = ""  # what follows ``end`` where the model writes a hypothesis answer; "": it ends
    added_tokens: tuple[str, ...] = ()  # special tokens that the adapter adds to the tokenizer
    direction: Walk = "out"
    mediators: Mediators = "collapse"
    hops: int = 2
    score_rule: ScoreRule = "allowed"  # probabilities over what is allowed, or the vocabulary
    chat: bool = False  # the prompt is a user turn of the tokenizer's chat template
    sharpness: float = 0.3  # how much a tail's own probability counts beside its relation path's
    doubt: float = 0.0  # with a lower confidence there is no answer; 0: always one
    slope: float = 1.0  # of the log-odds of evidence, when a confidence is made of it
    shift: float = 0.0  # added to them
    triplets: int = 0  # of the graph in its prompt, as it was trained; 0: it says nothing of that
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        if self.format_version != FORMAT_VERSION:
            raise AdapterMismatchError(
                f"The adapter card has format version {self.format_version}; "
                f"this kgqa reads version {FORMAT_VERSION}.",
                "Use the kgqa version that wrote it, or train the adapter again.",
            )
        for placeholder in ("{question}", "{topics}"):
            if self.prompt.count(placeholder) != 1:
                raise ModelError(
                    f"The prompt of an adapter card must hold {placeholder} exactly once; "
                    f"this one does so {self.prompt.count(placeholder)} times."
                )
        if self.direction not in ("out", "in", "both"):
            raise ModelError(f'direction is {self.direction!r}; it may be "out", "in" or "both".')
        if self.mediators not in ("collapse", "keep"):
            raise ModelError(f'mediators is {self.mediators!r}; it may be "collapse" or "keep".')
        if self.score_rule not in ("vocabulary", "allowed"):
            raise ModelError(
                f'score_rule is {self.score_rule!r}; it may be "vocabulary" or "allowed".'
            )
        if self.answer and not self.end:
            raise ModelError(
                "The adapter card has an answer after the path, and no marker that ends the path "
                "before it: the path would end the text."
            )
        if not 0.0 <= self.sharpness < math.inf:
            raise ModelError(f"sharpness is {self.sharpness}; it is finite and at least 0.")
        if not 0.0 <= self.doubt <= 1.0:
            raise ModelError(f"doubt is {self.doubt}; it is a confidence from 0 to 1.")
        if not (0.0 < self.slope < math.inf and math.isfinite(self.shift)):
            raise ModelError(
                f"slope is {self.slope} and shift {self.shift}; both are finite, slope above 0."
            )
        if self.triplets < 0:
            raise ModelError(f"triplets is {self.triplets}; it is at least 0.")
        if self.hops < 1:
            raise ModelError(f"hops is {self.hops}; a path has at least one.")
        if not all(self.added_tokens) or len(set(self.added_tokens)) != len(self.added_tokens):
            raise ModelError("added_tokens holds an empty token, or one of them twice.")

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of all fields: two cards with the same one mean the same."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Return the card as it stands in ``kgqa.json``."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"

    def write(self, folder: Path) -> None:
        """Write ``kgqa.json`` into an adapter folder, which must exist."""
        (folder / CARD_FILE).write_text(self.to_json(), encoding="utf-8")


def read_card(folder: Path) -> AdapterCard:
    """Return the card of an adapter folder.

    Raises ModelNotFoundError where there is no folder or no card in it, ModelError where the card
    cannot be read, AdapterMismatchError where it is of another version.
    """
    file = folder / CARD_FILE
    try:
        text = file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        what = f"has no {CARD_FILE}" if folder.is_dir() else "is not there"
        raise ModelNotFoundError(
            f"The adapter folder {folder} {what}.",
            f"An adapter is a folder with {CARD_FILE}, adapter_config.json and "
            "adapter_model.safetensors, as `kgqa train` writes it.",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"The adapter card {file} cannot be read: {error}.") from error
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ModelError(
            f"The adapter card {file} is not JSON: {error.msg}, line {error.lineno}."
        ) from error
    if not isinstance(content, dict):
        raise ModelError(f"The adapter card {file} is not a JSON object.")
    try:
        return card_from(content)
    except ModelError as error:
        raise type(error)(
            f"The adapter card {file} is not usable. {error.message}", error.hint
        ) from None


def card_from(content: Mapping[str, Any]) -> AdapterCard:
    """Return the card with the fields of a JSON object; missing ones have their defaults.

    Raises ModelError where a field is unknown or has the wrong type, AdapterMismatchError where
    the card is of another version (said first: another version may have other fields).
    """
    version = content.get("format_version")
    if version is None:
        raise ModelError("It does not say its format_version.")
    if version != FORMAT_VERSION:
        return AdapterCard(format_version=version)  # raises
    defaults = {field.name: field.default for field in fields(AdapterCard)}
    unknown = sorted(set(content) - set(defaults))
    if unknown:
        raise ModelError(f"It has fields that are not known: {', '.join(unknown)}.")
    values = dict(content)
    for name, value in content.items():
        wanted = type(defaults[name])
        if wanted is tuple:
            if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
                raise ModelError(f"Its field {name} must be a list of strings.")
            values[name] = tuple(value)
        elif type(value) is not wanted:  # exactly: True is no number of hops
            raise ModelError(
                f"Its field {name} must be of type {wanted.__name__}, not {type(value).__name__}."
            )
    return AdapterCard(**values)

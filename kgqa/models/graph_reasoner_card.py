"""A graph reasoner on disk: a folder with its weights and its card.

``reasoner.json`` says what the reasoner was made for (walk rules, relations, encoder) and how; it
is checked when it is read, and against the weights. A name is a folder, or one of the
bundled reasoners.
What this does not do: train, or know a graph.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save

from kgqa.errors import AdapterMismatchError, ModelError, ModelNotFoundError
from kgqa.models.graph_reasoner import UNTRAINED, GraphReasoner, ReasonerShape
from kgqa.models.sentences import load_sentence_encoder

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from kgqa.models.sentences import SentenceEncoder
    from kgqa.progress import Progress

BUNDLED_REASONERS = Path(__file__).parent.parent / "data" / "reasoners"
CARD_FILE = "reasoner.json"
WEIGHTS_FILE = "reasoner.safetensors"
FORMAT_VERSION = 2
_OLDER = {1: {"beta_reads": "pooled"}}  # versions that are read too: what their cards leave out
_WORDS = "vectors_of_texts"  # the tensor of relations' text vectors
# weights whose second dimension is a step, or a direction, and what they are where never trained
_BY_STEP = {"rows": 0.0, "biases": UNTRAINED}
_BY_DIRECTION = {"words": 0.0, "bias_of_words": 0.0, "bias": UNTRAINED}
_AGAIN = "Train it again with `kgqa train kg-cot`."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonerCard:
    """What a reasoner was made for and how. Raises ModelError where a field has no meaning.

    ``relations``: the ids of the relations it was trained with, in the order of its weights; with
    ``relations_by`` "text" ``texts`` holds their words, whose vectors are kept beside the weights.
    ``beta_reads``: what the number of hops is read from, the pooled vector alone or tokens too.
    ``encoder``: a sentence encoder's name, or its folder. ``cut``: answers are entities
    with at least this part of the first one's score. ``described``: data, settings and figures.
    """

    hops: int
    direction: str
    mediators: str
    relations_by: str
    encoder: str
    width: int
    hidden: int
    relations: tuple[str, ...]
    texts: tuple[str, ...] = ()
    beta_reads: str = "tokens"
    cut: float = 0.5
    described: Mapping[str, Any] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        for name, fits, may_be in (
            ("hops", self.hops >= 1, "at least 1"),
            ("direction", self.direction in ("out", "in", "both"), '"out", "in" or "both"'),
            ("mediators", self.mediators in ("collapse", "keep"), '"collapse" or "keep"'),
            ("relations_by", self.relations_by in ("ids", "text"), '"ids" or "text"'),
            ("beta_reads", self.beta_reads in ("pooled", "tokens"), '"pooled" or "tokens"'),
            ("encoder", bool(self.encoder), "a name or a folder"),
            ("width", self.width >= 1, "at least 1"),
            ("hidden", self.hidden >= 1, "at least 1"),
            ("cut", 0.0 <= self.cut <= 1.0, "from 0 to 1"),
            (
                "relations",
                len(set(self.relations)) == len(self.relations) > 0,
                "a list of different ids",
            ),
            (
                "texts",
                len(self.texts) == (len(self.relations) if self.relations_by == "text" else 0),
                'one for each relation where relations_by is "text", else empty',
            ),
        ):
            if not fits:
                shown = str(getattr(self, name))[:60]
                raise ModelError(f"{name} is {shown}; it may be {may_be}.")

    @property
    def shape(self) -> ReasonerShape:
        """The sizes of the model."""
        own = len(self.relations) if self.relations_by == "ids" else 0
        return ReasonerShape(
            hops=self.hops,
            width=self.width,
            hidden=self.hidden,
            relations=own,
            beta_reads="pooled" if self.beta_reads == "pooled" else "tokens",
        )

    def to_json(self) -> str:
        """Return the card as it stands in ``reasoner.json``."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True)
class LoadedReasoner:
    """A reasoner that is ready: its model in eval mode on the CPU, and what encodes questions.

    ``words``: the vectors of the card's ``texts``, ``[n, width]``; None where relations are ids.
    """

    name: str
    card: ReasonerCard
    model: GraphReasoner
    encoder: SentenceEncoder
    words: torch.Tensor | None = None


def reasoner_folder(name: str) -> Path:
    """Return the folder of a reasoner: one of that path, else the bundled one of that name."""
    folder = Path(name).expanduser()
    bundled = BUNDLED_REASONERS / name
    if not folder.exists() and re.fullmatch(r"[\w-]+", name) and bundled.is_dir():
        return bundled
    return folder


def bundled_reasoners() -> list[str]:
    """Return the names of the bundled reasoners, sorted."""
    return sorted(one.parent.name for one in BUNDLED_REASONERS.glob(f"*/{CARD_FILE}"))


def read_reasoner_card(folder: Path) -> ReasonerCard:
    """Return the card of a reasoner's folder.

    Raises ModelNotFoundError where there is none, ModelError where it cannot be read,
    AdapterMismatchError where it is of another version.
    """
    file = folder / CARD_FILE
    try:
        text = file.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        what = f"has no {CARD_FILE}" if folder.is_dir() else "is not there"
        raise ModelNotFoundError(
            f"The reasoner folder {folder} {what}.",
            f"A reasoner is a folder with {CARD_FILE} and {WEIGHTS_FILE}, as `kgqa train kg-cot` "
            f"writes it; bundled are: {', '.join(bundled_reasoners()) or 'none'}.",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"The reasoner card {file} cannot be read: {error}.") from None
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ModelError(f"The reasoner card {file} is not JSON: {error}.", _AGAIN) from None
    if not isinstance(content, dict):
        raise ModelError(f"The reasoner card {file} is not a JSON object.", _AGAIN)
    version = content.get("format_version")
    if type(version) is int and version in _OLDER:
        content = {**content, **_OLDER[version], "format_version": FORMAT_VERSION}
    if content.get("format_version") != FORMAT_VERSION:
        raise AdapterMismatchError(
            f"The reasoner card {file} has format version {version}; this kgqa reads versions "
            f"up to {FORMAT_VERSION}.",
            _AGAIN,
        )
    try:
        return _card(content)
    except ModelError as error:
        raise ModelError(
            f"The reasoner card {file} is not usable. {error.message}", _AGAIN
        ) from None


def save_reasoner(
    folder: Path, model: GraphReasoner, card: ReasonerCard, words: torch.Tensor | None
) -> None:
    """Write weights (float16) and card into ``folder``, which is made. Raises ModelError."""
    state = _trimmed(model.state_dict(), card)
    state = {name: one.detach().half().contiguous() for name, one in state.items()}
    if words is not None:
        state[_WORDS] = words.half().contiguous()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{WEIGHTS_FILE}.part"
        part.write_bytes(save(state))  # with the permissions that the user's files have
        part.replace(folder / WEIGHTS_FILE)
        (folder / CARD_FILE).write_text(card.to_json(), "utf-8")
    except (OSError, SafetensorError) as error:
        raise ModelError(f"The reasoner cannot be written to {folder}: {error}.") from None


def load_reasoner(
    name: str, *, device: str | None, cache: Path, progress: Progress
) -> LoadedReasoner:
    """Load the reasoner of a folder or a bundled name, with its encoder.

    ``device``: where the encoder runs; the reasoner itself, a few small matrices, stays on the
    CPU. Raises what :func:`read_reasoner_card` raises, ModelError where the weights are damaged or
    do not
    fit the card, ModelNotFoundError where the encoder is not to be had.
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
    encoder = load_sentence_encoder(card.encoder, device=device, cache=cache, progress=progress)
    if encoder.width != card.width:
        raise AdapterMismatchError(
            f"The reasoner {folder} was trained with vectors of {card.width} numbers; the encoder "
            f"{encoder.name} gives {encoder.width}.",
            f"Use the encoder it was trained with. {_AGAIN}",
        )
    shown = folder.name if folder.parent == BUNDLED_REASONERS else str(folder)
    return LoadedReasoner(shown, card, model.eval().requires_grad_(False), encoder, words)


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


def _card(content: Mapping[str, Any]) -> ReasonerCard:
    kinds: dict[str, type] = {
        "hops": int,
        "direction": str,
        "mediators": str,
        "relations_by": str,
        "beta_reads": str,
        "encoder": str,
        "width": int,
        "hidden": int,
        "relations": list,
        "texts": list,
        "cut": float,
        "described": dict,
        "format_version": int,
    }
    unknown = sorted(set(content) - set(kinds))
    if unknown:
        raise ModelError(f"It has fields that are not known: {', '.join(unknown)}.")
    values = dict(content)
    for one in fields(ReasonerCard):
        if one.name not in content:
            raise ModelError(f"It has no field {one.name}.")
        value = content[one.name]
        if type(value) is not kinds[one.name]:  # exactly: True is no number of hops
            raise ModelError(f"Its field {one.name} must be of type {kinds[one.name].__name__}.")
        if isinstance(value, list):
            if not all(isinstance(part, str) for part in value):
                raise ModelError(f"Its field {one.name} must be a list of texts.")
            values[one.name] = tuple(value)
    return ReasonerCard(**values)

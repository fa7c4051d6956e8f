"""The plan scorer: which parts of a graph's schema a question uses, and in which role.

A sentence encoder reads the question together with *parts* of the schema in words: classes, hops
(relations with the classes at their ends) and properties. From the states of a part's tokens and of
the question's come log-odds of the part's roles: whether a hop is walked, a property is a
condition, orders, is given, and so on; from the question's alone, what the query is as a whole. A
plan's score is the sum of what its parts' roles are worth, so a schema is read once for a question
and any number of plans are compared by a few additions. The encoder is MiniLM with low-rank changes
(LoRA, arXiv 2106.09685); scoring existing candidates instead of writing plans follows Pangu (arXiv
2212.09736).

A scorer on disk is a folder with ``scorer.json``, its card, and ``scorer.safetensors``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from kgqa.errors import ModelError
from kgqa.models.bert import Bert
from kgqa.models.folders import BUNDLED, CONFIG, ModelKind, WeightsName
from kgqa.models.locate import minilm_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    Array: TypeAlias = NDArray[np.float32]

UNIVERSAL = "universal"
CARD_FILE = "scorer.json"
FORMAT_VERSION = 1

Kind: TypeAlias = Literal["class", "hop", "property"]
KINDS: Final[tuple[Kind, ...]] = ("class", "hop", "property")
ROLES: Final[dict[str, tuple[str, ...]]] = {
    "class": ("used", "answer", "counted"),
    "hop": ("used", "tail", "without"),  # tail: the answer is at its tail
    "property": ("condition", "order", "given", "aggregated"),
}
WHOLE: Final[dict[str, tuple[str, ...]]] = {
    "aggregate": ("none", "count", "group", "sum", "avg", "min", "max"),
    "direction": ("none", "asc", "desc"),
    "having": ("no", "yes"),
    "limit": ("no", "yes"),
    "without": ("no", "yes"),
    "hops": ("0", "1", "2", "3"),
}
_VALUES: Final[dict[str, tuple[str, ...]]] = {**ROLES, **WHOLE}
AT_ONCE = 24  # parts that are read together with the question
_LONGEST = 64  # tokens of a question
_LONGEST_PART = 24  # tokens of a part


class Part(NamedTuple):
    """A class, relation or property of a schema, in words."""

    kind: Kind
    text: str


class PlanScores(NamedTuple):
    """Log-odds ``[parts, roles of its kind]`` of each part; log-probabilities of query kinds."""

    parts: list[Array]
    whole: dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True, config=CONFIG)
class ScorerCard:
    """A plan scorer's training data and temperature."""

    encoder: Annotated[str, Field(min_length=1)]
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)] = 1.0
    described: dict[str, Any] = Field(default_factory=dict)  # data, settings, figures
    weights: WeightsName = "scorer.safetensors"
    format_version: int = FORMAT_VERSION


SCORERS = ModelKind(
    "plan scorer",
    ScorerCard,
    CARD_FILE,
    FORMAT_VERSION,
    BUNDLED / "planners",
    again="Train it again with scripts/train_bundled.",
    files=f"{CARD_FILE} and weights, as scripts/train_bundled writes them",
)


class PartTokens:
    """Tokenises questions and schema parts; remembers the ids of each part."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._kept: dict[str, list[int]] = {}
        start = tokenizer.token_to_id("[CLS]")
        end = tokenizer.token_to_id("[SEP]")
        if start is None or end is None:
            raise ModelError("The plan scorer's encoder is not one of BERT's family.")
        self._start, self._end = start, end

    def joined(
        self, question: str, parts: Sequence[Part]
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Return token ids of a question and parts in one sequence, and the span of each.

        The question's span comes first; long texts are truncated.
        """
        ids = [self._start, *self._ids(question)[:_LONGEST], self._end]
        spans = [(0, len(ids))]
        for part in parts:
            own = self._ids(part.text)[:_LONGEST_PART]
            spans.append((len(ids), len(ids) + len(own)))
            ids += [*own, self._end]
        return ids, spans

    def _ids(self, text: str) -> list[int]:
        """Return the token ids of a text, from memory if possible."""
        if text not in self._kept:
            if len(self._kept) > 50_000:
                self._kept.clear()
            self._kept[text] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return self._kept[text]


class PlanScorer:
    """A loaded plan scorer; for one thread."""

    def __init__(
        self, card: ScorerCard, model: Bert, tokens: PartTokens, heads: Mapping[str, Array]
    ) -> None:
        self.card = card
        self._model = model
        self._tokens = tokens
        self._heads = heads

    def read(self, question: str, parts: Sequence[Part]) -> PlanScores:
        """Score each part in its roles, and the query's aggregate, order, limit and hops.

        Many parts are read in groups, each with the question. Raises ModelError.
        """
        roles: list[Array] = []
        wholes: list[dict[str, Array]] = []
        groups = max(1, -(-len(parts) // AT_ONCE))
        size = -(-len(parts) // groups)
        for start in range(0, max(len(parts), 1), max(size, 1)):
            some = parts[start : start + size]
            ids, spans = self._tokens.joined(question, some)
            states = self._model.states([ids])
            pooled = np.stack([states[first:last].mean(0) for first, last in spans])
            asked, rest = pooled[0], pooled[1:]
            for part, own in zip(some, rest, strict=True):
                both = np.concatenate([own, asked, own * asked])
                roles.append(self._head(part.kind, both))
            both = np.concatenate([asked, states[0]])
            wholes.append({name: self._head(name, both) for name in WHOLE})
        whole = {}
        for name, values in WHOLE.items():
            logits = np.mean([logits_of[name] for logits_of in wholes], 0)
            logits -= np.logaddexp.reduce(logits)
            whole[name] = dict(zip(values, map(float, logits), strict=True))
        return PlanScores(roles, whole)

    @np.errstate(all="ignore")
    def _head(self, name: str, state: Array) -> Array:
        """Apply the two-layer head with this name to a state."""
        wide = self._heads[f"{name}.0.weight"] @ state + self._heads[f"{name}.0.bias"]
        wide = np.maximum(wide, 0)
        out: Array = self._heads[f"{name}.2.weight"] @ wide + self._heads[f"{name}.2.bias"]
        if out.shape != (len(_VALUES[name]),) or not np.isfinite(out).all():
            raise ModelError(f"The plan scorer's weights for {name} are damaged.", SCORERS.again)
        return out


def load_plan_scorer(name: str = UNIVERSAL) -> PlanScorer:
    """Load a plan scorer from a folder or by a bundled name, with its encoder.

    Raises ModelNotFoundError, ModelError, AdapterMismatchError.
    """
    import json

    from safetensors import SafetensorError
    from tokenizers import Tokenizer

    folder = SCORERS.folder(name)
    card, state, changes = SCORERS.read(folder)
    encoder = minilm_folder()
    try:
        config = json.loads((encoder / "config.json").read_text("utf-8"))
        model = Bert.load(config, encoder / "model.safetensors")
        with np.errstate(all="ignore"):  # the results are checked
            model.change({name: up @ down for name, (down, up) in changes.items()})
        heads = {name: tensor for name, tensor in state.items() if re.match(r"\w+\.\d\.", name)}
        tokenizer = Tokenizer.from_file(str(encoder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        scorer = PlanScorer(card, model, PartTokens(tokenizer), heads)
        scorer.read("who?", [Part(kind, kind) for kind in KINDS])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"The weights {folder / card.weights} are damaged: {error}.", SCORERS.again
        ) from None
    return scorer

"""The plan ranker: how well each of several query plans, in words, matches a question.

A cross-encoder: MiniLM with low-rank changes (LoRA, arXiv 2106.09685) reads the question and one
plan as two sentences, and a small head gives a number; a softmax over the plans of one question
makes them odds. Scoring whole plans instead of writing them follows Pangu (arXiv 2212.09736). What
the plan scorer (:mod:`kgqa.models.plan_scorer`) sums up part by part is seen here together: what is
given beside what is counted, a hop too many, the way of an arrow.

A ranker on disk is a folder with ``plans.json``, its card, and ``plans.safetensors``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

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

CARD_FILE = "plans.json"
FORMAT_VERSION = 1
LONGEST_QUESTION: Final = 64  # tokens
LONGEST_PLAN: Final = 96
_HEAD = ("head.0.weight", "head.0.bias", "head.2.weight", "head.2.bias")


@dataclass(frozen=True, slots=True, kw_only=True, config=CONFIG)
class PlanRankerCard:
    """A plan ranker's training data, and the weights that combine it with the plan scorer.

    A plan's score is ``old`` times the sum of its parts' and ``new`` times its log-probability.
    """

    encoder: Annotated[str, Field(min_length=1)]
    old: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=False)] = 1.0
    new: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=False)] = 1.0
    described: dict[str, Any] = Field(default_factory=dict)  # data, settings, figures
    weights: WeightsName = "plans.safetensors"
    format_version: int = FORMAT_VERSION


PLAN_RANKERS = ModelKind(
    "plan ranker",
    PlanRankerCard,
    CARD_FILE,
    FORMAT_VERSION,
    BUNDLED / "planners",
    again="Train it again with python -m scripts.planner.fit_plans.",
    files=f"{CARD_FILE} and weights, as python -m scripts.planner.fit_plans writes them",
)


class PlanRanker:
    """A loaded plan ranker; for one thread."""

    def __init__(
        self,
        card: PlanRankerCard,
        model: Bert,
        tokenizer: Tokenizer,
        head: Mapping[str, Array],
    ) -> None:
        start, end = (tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]"))
        if start is None or end is None:
            raise ModelError("The plan ranker's encoder is not one of BERT's family.")
        self.card = card
        self._start, self._end = start, end
        self._model, self._tokenizer = model, tokenizer
        self._head = [head[name] for name in _HEAD]

    def log_odds(self, question: str, plans: Sequence[str]) -> list[float]:
        """Return each plan's log-probability among ``plans``; equal texts get equal ones.

        ``plans``: in words (:func:`kgqa.planning.plan_words.plan_words`); long texts are truncated.
        Raises ModelError.
        """
        if not plans:
            return []
        texts = list(dict.fromkeys(plans))
        asked = self._ids(question)[:LONGEST_QUESTION]
        rows = [
            [self._start, *asked, self._end, *self._ids(text)[:LONGEST_PLAN], self._end]
            for text in texts
        ]
        places = sorted(range(len(rows)), key=lambda at: len(rows[at]))
        states = self._model.states([rows[at] for at in places])
        sizes = np.array([len(rows[at]) for at in places])
        starts = np.cumsum(sizes) - sizes
        means = np.add.reduceat(states, starts, 0) / sizes[:, None]
        wide, bias, last, shift = self._head
        with np.errstate(all="ignore"):  # results of damaged weights are checked
            inner = np.maximum(np.concatenate([means, states[starts]], 1) @ wide.T + bias, 0)
            logits = (inner @ last.T + shift).reshape(-1)
            logits = logits - np.logaddexp.reduce(logits)
        if len(logits) != len(texts) or not np.isfinite(logits).all():
            raise ModelError("The plan ranker's weights are damaged.", PLAN_RANKERS.again)
        odds = {texts[at]: float(logit) for at, logit in zip(places, logits, strict=True)}
        return [odds[text] for text in plans]

    def _ids(self, text: str) -> list[int]:
        """Return the token ids of a text without special tokens."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def load_plan_ranker(name: str) -> PlanRanker:
    """Load a plan ranker from a folder, with its encoder.

    Raises ModelNotFoundError, ModelError, AdapterMismatchError.
    """
    from safetensors import SafetensorError
    from tokenizers import Tokenizer

    folder = PLAN_RANKERS.folder(name)
    card, state, changes = PLAN_RANKERS.read(folder)
    encoder = minilm_folder()
    try:
        config = json.loads((encoder / "config.json").read_text("utf-8"))
        model = Bert.load(config, encoder / "model.safetensors")
        with np.errstate(all="ignore"):  # the results are checked
            model.change({name: up @ down for name, (down, up) in changes.items()})
        tokenizer = Tokenizer.from_file(str(encoder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        ranker = PlanRanker(card, model, tokenizer, state)
        ranker.log_odds("who?", ["person ; give person", "person"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"The weights {folder / card.weights} are damaged: {error}.", PLAN_RANKERS.again
        ) from None
    return ranker

"""How good one question's answers are, means over a file, and their bootstrap intervals.

Strict scores compare ids exactly. Legacy ones do what the published GCR and RoG programs do, quirks
included: they match text by substrings and flatter.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class StrictScores:
    """One question's scores by exact comparison; ``mrr``: one over the first right rank."""

    hits_at_1: float
    hit_at_k: float
    mrr: float
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True)
class LegacyScores:
    """One question's scores by substring; RoG's ``precision`` and ``f1`` may exceed 1."""

    hit: float
    f1: float
    precision: float
    recall: float
    acc: float


ALL_RIGHT = StrictScores(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


def strict_scores(
    predictions: Sequence[str], gold: Iterable[str], *, k: int | None = None
) -> StrictScores:
    """Return the exact scores of ``predictions`` (best first) against the set ``gold``.

    Repeated predictions count once, at their first rank; ``hit_at_k`` looks at the first ``k`` (all
    by default). Without gold all are 0.
    """
    ranked = list(dict.fromkeys(predictions))
    wanted = set(gold)
    rank = next((place for place, id_ in enumerate(ranked, 1) if id_ in wanted), 0)
    right = len(wanted.intersection(ranked))
    precision = right / len(ranked) if ranked else 0.0
    recall = right / len(wanted) if wanted else 0.0
    return StrictScores(
        hits_at_1=float(rank == 1),
        hit_at_k=float(0 < rank <= (len(ranked) if k is None else k)),
        mrr=1.0 / rank if rank else 0.0,
        precision=precision,
        recall=recall,
        f1=_harmonic(precision, recall),
    )


def normalise_answer(text: str) -> str:
    """Return the form in which the published programs compare answers.

    >>> normalise_answer("The  U.S.A., an   idea")
    'usa idea'
    """
    bare = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLE.sub(" ", bare).split())


def gcr_scores(prediction: str | Sequence[str], gold: Sequence[str]) -> LegacyScores:
    """Return the scores that GCR's program gives; all are 0 without golds.

    Text is one prediction a line, the most frequent first. Recall is the share of golds found
    anywhere, precision of predictions with a gold. An empty gold is found even in an empty text.
    """
    counted = Counter(line for line in _lines(prediction) if line.strip())
    predictions = [line for line, _ in counted.most_common()]
    acc, hit = _found(predictions, gold)
    if not predictions:
        return LegacyScores(hit, 0.0, 0.0, 0.0, acc)
    forms = [normalise_answer(answer) for answer in gold]
    right = sum(any(form in normalise_answer(line) for form in forms) for line in predictions)
    precision = right / len(predictions)
    return LegacyScores(hit, _harmonic(precision, acc), precision, acc, acc)


def rog_scores(prediction: str | Sequence[str], gold: Sequence[str]) -> LegacyScores:
    """Return the scores that RoG's program gives; all are 0 without golds.

    Text is one prediction a line, repeated ones counted; in a list they count once. Precision is
    golds found over predictions, so it and F1 can exceed 1.
    """
    predictions = _lines(prediction)
    if not isinstance(prediction, str):
        predictions = list(dict.fromkeys(predictions))
    acc, hit = _found(predictions, gold)
    if not predictions:
        return LegacyScores(hit, 0.0, 0.0, 0.0, acc)
    precision = acc * len(gold) / len(predictions)
    return LegacyScores(hit, _harmonic(precision, acc), precision, acc, acc)


def mean_percent(shares: Sequence[float]) -> float:
    """Return 100 times the mean, 0 of nothing."""
    return 100.0 * math.fsum(shares) / len(shares) if shares else 0.0


def _lines(prediction: str | Sequence[str]) -> list[str]:
    return prediction.split("\n") if isinstance(prediction, str) else list(prediction)


def _found(predictions: Sequence[str], gold: Sequence[str]) -> tuple[float, float]:
    everything = normalise_answer(" ".join(predictions))
    hits = sum(normalise_answer(answer) in everything for answer in gold)
    return (hits / len(gold) if gold else 0.0), float(hits > 0)


def _harmonic(precision: float, recall: float) -> float:
    both = precision + recall
    return 2.0 * precision * recall / both if both else 0.0


RESAMPLES = 2_000
LEVEL = 0.95
_DRAWN = 4_000_000  # questions drawn at once: what is held in memory


def interval(values: ArrayLike) -> tuple[float, float] | None:
    """Return the 95 % bootstrap interval of the mean of ``values``; the same ones give the same."""
    table = np.asarray(values, np.float64)
    questions = len(table)
    if not questions:
        return None
    random = np.random.default_rng(0)
    block = max(1, _DRAWN // questions)
    means = []
    for start in range(0, RESAMPLES, block):
        rows = min(block, RESAMPLES - start)
        drawn = random.integers(0, questions, (rows, questions))
        drawn += np.arange(rows)[:, None] * questions
        counts = np.bincount(drawn.ravel(), minlength=rows * questions)
        means.append(counts.reshape(rows, questions).astype(np.float64) @ table / questions)
    low, high = np.quantile(np.concatenate(means), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)

"""Two runs over the same questions, question by question.

The difference of each figure has a paired bootstrap interval: both runs are drawn with the same
questions. Questions that only one run has are counted, not compared. What it does not do: judge
whether the two runs differ in one setting alone; the settings that differ are named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.errors import DataError
from kgqa.evaluation.intervals import LEVEL, RESAMPLES, resampled_sums

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kgqa.evaluation.report_record import Record

FIGURES = ("hits_at_1", "hit_at_k", "mrr", "f1", "precision", "recall", "accuracy", "path_recall")


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of both runs over the questions that both have, in percent; ``b`` minus ``a``.

    ``better`` and ``worse`` count the questions on which b scores more or less than a;
    ``p_value`` is the two-sided sign test over them (for Hits@1: McNemar's exact test).
    """

    figure: str
    questions: int
    a: float
    b: float
    difference: float
    low: float
    high: float
    better: int
    worse: int
    p_value: float

    def to_json(self) -> dict[str, Any]:
        """Return the difference as a JSON object."""
        return {
            "questions": self.questions,
            "a": self.a,
            "b": self.b,
            "difference": self.difference,
            "interval": [self.low, self.high],
            "better": self.better,
            "worse": self.worse,
            "p_value": self.p_value,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side. ``right`` counts questions by whose first answer is right."""

    shared: int
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    differences: tuple[Difference, ...]
    right: Mapping[str, int]  # both, only_a, only_b, neither
    settings: Mapping[str, tuple[Any, Any]]  # those that differ

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as the JSON of ``kgqa eval --compare``."""
        return {
            "shared": self.shared,
            "only_a": len(self.only_a),
            "only_b": len(self.only_b),
            "figures": {one.figure: one.to_json() for one in self.differences},
            "right": dict(self.right),
            "settings": {name: list(pair) for name, pair in self.settings.items()},
        }


def compare(
    a: Mapping[str, Record],
    b: Mapping[str, Record],
    settings_a: Mapping[str, Any] | None = None,
    settings_b: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
) -> Comparison:
    """Compare two runs, given as records by question id.

    A figure is compared over the questions for which both runs have it. Raises DataError where no
    question is in both.
    """
    shared = [one for one in a if one in b]
    if not shared:
        raise DataError(
            "The two runs have no question in common.", "Compare runs over the same question file."
        )
    first, second = settings_a or {}, settings_b or {}
    right = {"both": 0, "only_a": 0, "only_b": 0, "neither": 0}
    for one in shared:
        hits = (a[one].hits_at_1 == 1.0, b[one].hits_at_1 == 1.0)
        right[
            {(True, True): "both", (True, False): "only_a", (False, True): "only_b"}.get(
                hits, "neither"
            )
        ] += 1
    differences = []
    for figure in FIGURES:
        pairs = [(getattr(a[one], figure), getattr(b[one], figure)) for one in shared]
        found = [(x, y) for x, y in pairs if x is not None and y is not None]
        if found:
            differences.append(_difference(figure, np.array(found, np.float64), seed))
    return Comparison(
        shared=len(shared),
        only_a=tuple(one for one in a if one not in b),
        only_b=tuple(one for one in b if one not in a),
        differences=tuple(differences),
        right=right,
        settings={
            name: (first.get(name), second.get(name))
            for name in dict.fromkeys([*first, *second])
            if first.get(name) != second.get(name)
        },
    )


def sign_test(better: int, worse: int) -> float:
    """Return the two-sided exact p-value of a sign test: 1 where nothing differs.

    >>> sign_test(5, 0)
    0.0625
    """
    total = better + worse
    if total == 0:
        return 1.0
    # in logarithms: a run of thousands of questions has powers of two that no float holds
    terms = [
        math.lgamma(total + 1)
        - math.lgamma(one + 1)
        - math.lgamma(total - one + 1)
        - total * math.log(2)
        for one in range(min(better, worse) + 1)
    ]
    return min(1.0, round(2 * math.fsum(math.exp(term) for term in terms), 12))


def _difference(figure: str, pairs: np.ndarray[Any, np.dtype[np.float64]], seed: int) -> Difference:
    gain = pairs[:, 1] - pairs[:, 0]
    sums = resampled_sums(gain[:, None], resamples=RESAMPLES, seed=seed)[:, 0] / len(gain)
    low, high = np.quantile(sums, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    better, worse = int((gain > 0).sum()), int((gain < 0).sum())
    a, b = 100 * pairs.mean(axis=0)
    return Difference(
        figure=figure,
        questions=len(pairs),
        a=float(a),
        b=float(b),
        difference=float(b - a),
        low=float(100 * low),
        high=float(100 * high),
        better=better,
        worse=worse,
        p_value=sign_test(better, worse),
    )

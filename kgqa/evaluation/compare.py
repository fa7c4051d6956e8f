"""Two runs over the same questions, question by question, with a paired bootstrap interval."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.errors import DataError
from kgqa.evaluation.metrics import interval
from kgqa.evaluation.record import Record, read_run, read_settings
from kgqa.evaluation.report import TITLES, ReportTable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray


FIGURES = ("hits_at_1", "hit_at_k", "mrr", "f1", "precision", "recall", "accuracy", "path_recall")
_GROUPS = {
    (True, True): "both",
    (True, False): "only_a",
    (False, True): "only_b",
    (False, False): "neither",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of both runs over their common questions, in percent; ``b`` minus ``a``.

    ``better``, ``worse``: questions on which b scores more or less; ``p_value``: their two-sided
    sign test (for Hits@1: McNemar's exact test).
    """

    questions: int
    a: float
    b: float
    difference: float
    interval: tuple[float, float]
    better: int
    worse: int
    p_value: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs compared: ``figures`` of both, ``right`` first answers, ``settings`` that differ."""

    shared: int
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    figures: Mapping[str, Difference]
    right: Mapping[str, int]  # both, only_a, only_b, neither
    settings: Mapping[str, tuple[Any, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as the JSON of ``kgqa eval --compare``."""
        return {**asdict(self), "only_a": len(self.only_a), "only_b": len(self.only_b)}

    def table(self) -> ReportTable:
        """Return a table for display with a row for each figure."""
        rows = [
            (
                TITLES[name],
                f"{figure.a:.1f}",
                f"{figure.b:.1f}",
                f"{figure.difference:+.1f}",
                f"{figure.interval[0]:+.1f} to {figure.interval[1]:+.1f}",
                str(figure.better),
                str(figure.worse),
                "< 0.0001" if figure.p_value < 0.0001 else f"{figure.p_value:.4f}",
            )
            for name, figure in self.figures.items()
        ]
        heads = ("figure", "A", "B", "B - A", "95 % interval", "better", "worse", "p")
        return ReportTable("Differences", heads, rows)


def compare_runs(a: Path, b: Path) -> Comparison:
    """Compare the runs in two folders. Raises DataError, as :func:`compare` does."""
    return compare(read_run(a), read_run(b), read_settings(a), read_settings(b))


def compare(
    a: Mapping[str, Record],
    b: Mapping[str, Record],
    settings_a: Mapping[str, Any] = MappingProxyType({}),
    settings_b: Mapping[str, Any] = MappingProxyType({}),
) -> Comparison:
    """Compare runs (records by id) over their common questions. Raises DataError without any.

    A figure is compared over the questions that have it in both runs.
    """
    shared = [id_ for id_ in a if id_ in b]
    if not shared:
        raise DataError(
            "The two runs have no question in common.", "Compare runs over the same question file."
        )
    right = dict.fromkeys(_GROUPS.values(), 0)
    for id_ in shared:
        right[_GROUPS[a[id_].hits_at_1 == 1.0, b[id_].hits_at_1 == 1.0]] += 1
    figures = {}
    for figure in FIGURES:
        pairs = [(getattr(a[id_], figure), getattr(b[id_], figure)) for id_ in shared]
        both = [(x, y) for x, y in pairs if x is not None and y is not None]
        if both:
            figures[figure] = _difference(np.array(both, np.float64))
    return Comparison(
        shared=len(shared),
        only_a=tuple(id_ for id_ in a if id_ not in b),
        only_b=tuple(id_ for id_ in b if id_ not in a),
        figures=figures,
        right=right,
        settings={
            name: (settings_a.get(name), settings_b.get(name))
            for name in dict.fromkeys([*settings_a, *settings_b])
            if settings_a.get(name) != settings_b.get(name)
        },
    )


def sign_test(better: int, worse: int) -> float:
    """Return the two-sided exact p-value of a sign test: 1 if nothing differs.

    >>> sign_test(5, 0)
    0.0625
    """
    total = better + worse
    if total == 0:
        return 1.0
    # in logarithms: a run of thousands of questions has powers of two that no float holds
    terms = [
        math.lgamma(total + 1)
        - math.lgamma(wins + 1)
        - math.lgamma(total - wins + 1)
        - total * math.log(2)
        for wins in range(min(better, worse) + 1)
    ]
    return min(1.0, round(2 * math.fsum(math.exp(term) for term in terms), 12))


def _difference(pairs: NDArray[np.float64]) -> Difference:
    """Compute one figure's difference, interval and p-value from (a, b) score pairs."""
    gain = pairs[:, 1] - pairs[:, 0]
    low, high = interval(gain) or (0.0, 0.0)
    better, worse = int((gain > 0).sum()), int((gain < 0).sum())
    a, b = 100 * pairs.mean(axis=0)
    return Difference(
        questions=len(pairs),
        a=float(a),
        b=float(b),
        difference=float(b - a),
        interval=(100 * low, 100 * high),
        better=better,
        worse=worse,
        p_value=sign_test(better, worse),
    )

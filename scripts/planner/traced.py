"""Numbers that know by which weights they were made, for the fitting of those weights.

Importing this module traces the planner's weights: it comes before modules that read them.
"""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kgqa.weights import weights

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Traced(float):
    """A number with its derivatives by named weights (forward-mode differentiation).

    Sums, differences and products carry them on; a comparison, ``max`` or ``min`` chooses a number
    with its own. What a plan's score is differentiated to are the plan's features.
    """

    by: NDArray[np.float64]  # ``[weights]``

    def __new__(cls, value: float, by: NDArray[np.float64]) -> Self:
        made = super().__new__(cls, value)
        made.by = by
        return made

    def __add__(self, other: Any) -> Traced:
        by = self.by + other.by if isinstance(other, Traced) else self.by
        return Traced(float(self) + float(other), by)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Traced:
        return self + -other

    def __rsub__(self, other: Any) -> Traced:
        return -self + other

    def __neg__(self) -> Traced:
        return Traced(-float(self), -self.by)

    def __mul__(self, other: Any) -> Traced:
        by = self.by * float(other)
        if isinstance(other, Traced):
            by = by + other.by * float(self)
        return Traced(float(self) * float(other), by)

    __rmul__ = __mul__

    def __reduce__(self) -> Any:
        return Traced, (float(self), self.by)


def log_sigmoid(odds: float) -> float:
    """Return the log-probability of log-odds, traced if these are."""
    value = -math.log1p(math.exp(-odds))
    if not isinstance(odds, Traced):
        return value
    return Traced(value, odds.by * (1 - math.exp(value)))


def features_of(score: float) -> dict[str, float]:
    """Return what each weight counts in a score; {} for a score that no weight changes."""
    if not isinstance(score, Traced):
        return {}
    return {NAMES[at]: round(float(score.by[at]), 4) for at in np.flatnonzero(score.by).tolist()}


_WEIGHTS = weights("planning")
NAMES = [name for name in _WEIGHTS if not name.startswith("noun_")]  # of classes, not of plans
for _row, _name in zip(np.eye(len(NAMES)), NAMES, strict=True):
    _WEIGHTS[_name] = Traced(_WEIGHTS[_name], _row)
importlib.import_module("kgqa.planning.patterns").log_sigmoid = log_sigmoid  # type: ignore[attr-defined]

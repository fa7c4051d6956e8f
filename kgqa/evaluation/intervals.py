"""Bootstrap intervals of means and ratios over questions, drawn with a fixed seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

RESAMPLES = 2_000
LEVEL = 0.95
_DRAWN = 4_000_000  # questions drawn at once: what is held in memory


def resampled_sums(
    values: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0
) -> NDArray[np.float64]:
    """Return sums of ``values`` ``[n, figures]`` over samples of n: ``[resamples, figures]``."""
    table = np.asarray(values, np.float64)
    if table.ndim != 2:
        raise ValueError(f"values are [questions, figures], not {table.shape}")
    questions = len(table)
    if not questions:
        return np.zeros((resamples, table.shape[1]))
    random = np.random.default_rng(seed)
    block = max(1, _DRAWN // questions)
    sums = []
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        drawn = random.integers(0, questions, (rows, questions))
        drawn += np.arange(rows)[:, None] * questions
        counts = np.bincount(drawn.ravel(), minlength=rows * questions)
        sums.append(counts.reshape(rows, questions).astype(np.float64) @ table)
    return np.concatenate(sums)


def interval(
    values: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float] | None:
    """Return the percentile interval of ``sum(values) / sum(weights)``, of means by default."""
    above = np.asarray(values, np.float64)
    below = np.ones_like(above) if weights is None else np.asarray(weights, np.float64)
    if above.shape != below.shape or above.ndim != 1:
        raise ValueError("values and weights are two columns of one length")
    if not below.any():
        return None
    sums = resampled_sums(np.stack([above, below], axis=1), resamples=resamples, seed=seed)
    drawn = sums[:, 1] > 0  # a sample of questions without weight has no ratio
    ratios = sums[drawn, 0] / sums[drawn, 1]
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)

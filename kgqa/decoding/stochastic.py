"""Sampling without replacement: stochastic beam search (Kool et al. 2019).

Log-probabilities get Gumbel noise, drawn from the top down, and the K highest are the sample. A
state's moves are renormalised for drawing; reported scores are the scorer's, and do not rank.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.decoding.options import SampleOptions
from kgqa.decoding.search import (
    Hypothesis,
    Search,
    SearchResult,
    SearchStrategy,
    demand_of,
    extended,
)
from kgqa.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kgqa.decoding.search import Scored
    from kgqa.trie.constraint import Constraint


class SampleSearch(SearchStrategy[SampleOptions]):
    """K different sequences in the order in which they were drawn, the same by the same seed.

    A language smaller than K is returned whole. Dead ends are dropped.
    """

    Options = SampleOptions

    def check(self, k: int, length_penalty: float = 0.0) -> None:
        """Raise UsageError if there is a length penalty."""
        super().check(k, length_penalty)
        if length_penalty != 0.0:
            raise UsageError(
                "A length penalty ranks paths, and a sample is in the order of its drawing.",
                "Leave the length penalty at 0, or use beam search.",
            )

    def start(self, constraint: Constraint, k: int, length_penalty: float = 0.0) -> Search:
        """Return the search that draws ``k`` sequences."""
        self.check(k, length_penalty)
        return _sample(constraint, k, np.random.default_rng(self.options.seed))


def _sample(constraint: Constraint, k: int, noise: np.random.Generator) -> Search:
    kept = [_Drawn(Hypothesis(constraint.start(), (), 0.0), False, 0.0, 0.0)]
    while running := [one for one in kept if not one.ended]:
        scored = yield demand_of([one.hypothesis for one in running])
        kept = [one for one in kept if one.ended]
        kept += _drawn_below(constraint, running, scored, noise)
        kept.sort(key=lambda one: -one.noisy)
        del kept[k:]
    return SearchResult([one.hypothesis for one in kept])


@dataclass(frozen=True, slots=True)
class _Drawn:
    hypothesis: Hypothesis
    ended: bool
    log_share: float  # its log-probability among the sequences of the language
    noisy: float  # the highest of log-probability plus noise among the sequences below it


def _drawn_below(
    constraint: Constraint, running: list[_Drawn], scored: Scored, noise: np.random.Generator
) -> list[_Drawn]:
    moves = scored.moves
    ends = constraint.is_end(moves.state.tolist()).tolist()
    bounds = np.searchsorted(moves.row, np.arange(len(running) + 1)).tolist()
    drawn: list[_Drawn] = []
    for row, parent in enumerate(running):
        first, last = bounds[row], bounds[row + 1]
        if first == last:
            continue
        shares = parent.log_share + _log_shares(scored.scores[first:last])
        noisy = _given_highest(shares + noise.gumbel(size=last - first), parent.noisy)
        drawn += [
            _Drawn(extended(parent.hypothesis, scored, move), ends[move], share, value)
            for move, share, value in zip(
                range(first, last), shares.tolist(), noisy.tolist(), strict=True
            )
        ]
    return drawn


def _log_shares(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    top = scores.max()
    if top == -math.inf:
        return np.full(len(scores), -math.log(len(scores)))
    shares: NDArray[np.float64] = scores - (top + math.log(np.exp(scores - top).sum()))
    return shares


def _given_highest(values: NDArray[np.float64], highest: float) -> NDArray[np.float64]:
    """Return Gumbel ``values`` moved so that their maximum is ``highest``, in their distribution.

    ``-log(exp(-T) - exp(-Z) + exp(-G))`` for a cut at T and a maximum Z, without differences of
    large exponentials.
    """
    top = values.max()
    below = values < top
    moved = np.full(len(values), highest)
    with np.errstate(divide="ignore"):
        # -inf values (impossible moves) stay -inf: log1p(-exp(-inf)) is 0, and so v is +inf
        gap = highest - values[below] + np.log1p(-np.exp(values[below] - top))
    moved[below] = highest - np.maximum(gap, 0.0) - np.log1p(np.exp(-np.abs(gap)))
    return moved

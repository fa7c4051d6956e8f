"""Sampling without replacement: stochastic beam search (Kool et al. 2019).

Every sequence gets its log-probability plus Gumbel noise, and the K highest are a sample without
replacement. The noise is drawn from the top down: a prefix carries the highest noisy value below
it, so a beam of K prefixes holds the K sequences that would come out if all of them were drawn.

Sequences are drawn as sampling token by token under the constraint would draw them: the scores of a
state's moves are renormalised to one. Reported scores stay as the scorer gave them, without noise.
What this does not do: rank by score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.decoding.search import (
    Hypothesis,
    Search,
    SearchResult,
    check_k,
    checked,
    demand_of,
    extended,
)
from kgqa.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kgqa.decoding.search import Scored
    from kgqa.trie.constraint import Constraint


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A prefix or a finished sequence with what decides whether it is kept."""

    hypothesis: Hypothesis
    ended: bool
    log_share: float  # its log-probability among the sequences of the language
    noisy: float  # the highest of log-probability plus noise among the sequences below it


def sample(constraint: Constraint, k: int, *, seed: int, temperature: float = 1.0) -> Search:
    """Draw up to ``k`` different sequences, in the order in which they were drawn.

    The first is a sample from the model under the constraint, the second one from what is left, and
    so on; a language smaller than ``k`` comes whole, in a random order. The same ``seed`` draws the
    same sequences. ``temperature`` flattens (above 1) or sharpens (below 1) each choice of a token.
    A prefix without a continuation that is no end is dropped.

    Raises UsageError where an option cannot be meant, ModelError where scores are not
    log-probabilities.
    """
    check_k(k)
    if not 0.0 < temperature < math.inf:
        raise UsageError(f"The temperature must be above 0, not {temperature:g}.")
    if seed < 0:
        raise UsageError(f"The seed must be at least 0, not {seed}.")
    return _sample(constraint, k, np.random.default_rng(seed), temperature)


def _sample(
    constraint: Constraint, k: int, noise: np.random.Generator, temperature: float
) -> Search:
    kept = [_Drawn(Hypothesis(constraint.start(), (), 0.0), False, 0.0, 0.0)]
    while running := [one for one in kept if not one.ended]:
        prefixes = [one.hypothesis for one in running]
        scored = checked((yield demand_of(prefixes)))
        kept = [one for one in kept if one.ended] + _drawn_below(
            constraint, running, scored, noise, temperature
        )
        kept.sort(key=lambda one: -one.noisy)
        del kept[k:]
    return SearchResult([one.hypothesis for one in kept])


def _drawn_below(
    constraint: Constraint,
    running: list[_Drawn],
    scored: Scored,
    noise: np.random.Generator,
    temperature: float,
) -> list[_Drawn]:
    moves = scored.moves
    ends = constraint.is_end(moves.state.tolist()).tolist()
    bounds = np.searchsorted(moves.row, np.arange(len(running) + 1)).tolist()
    drawn: list[_Drawn] = []
    for row, parent in enumerate(running):
        first, last = bounds[row], bounds[row + 1]
        if first == last:
            continue
        shares = parent.log_share + _log_shares(scored.scores[first:last] / temperature)
        noisy = _given_highest(shares + noise.gumbel(size=last - first), parent.noisy)
        drawn += [
            _Drawn(extended(parent.hypothesis, scored, move), ends[move], share, value)
            for move, share, value in zip(
                range(first, last), shares.tolist(), noisy.tolist(), strict=True
            )
        ]
    return drawn


def _log_shares(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the scores of one state's moves renormalised; all alike where all are impossible."""
    top = scores.max()
    if top == -math.inf:
        return np.full(len(scores), -math.log(len(scores)))
    shares: NDArray[np.float64] = scores - (top + math.log(np.exp(scores - top).sum()))
    return shares


def _given_highest(values: NDArray[np.float64], highest: float) -> NDArray[np.float64]:
    """Return Gumbel ``values`` moved so that their maximum is ``highest``, in their distribution.

    A Gumbel variable cut off at T is ``-log(exp(-T) - exp(-Z) + exp(-G))`` where Z is the maximum
    of what was drawn; written so that no difference of large exponentials is taken.
    """
    top = values.max()
    below = values < top
    moved = np.full(len(values), highest)
    with np.errstate(divide="ignore"):
        # -inf values (impossible moves) stay -inf: log1p(-exp(-inf)) is 0, and so v is +inf
        gap = highest - values[below] + np.log1p(-np.exp(values[below] - top))
    moved[below] = highest - np.maximum(gap, 0.0) - np.log1p(np.exp(-np.abs(gap)))
    return moved

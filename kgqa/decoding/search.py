"""Beam search as a pure function over the log-probabilities of a constraint's edges.

The ranked list is that of Hugging Face ``generate(num_beams=K, num_return_sequences=K,
prefix_allowed_tokens_fn=…)``: at each step the 2 K best continuations of the K running hypotheses
are looked at, an end among the first K is finished, and the search stops when no running hypothesis
can beat the worst of K finished ones. What it does not do: know what scores the edges; a test may
pass a table.

It fails closed: a hypothesis in a state without a continuation that is no end is dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kgqa.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kgqa.trie.constraint import Constraint, Expansion


class Scorer(Protocol):
    """Fills in the log-probabilities of edges."""

    def score(self, states: Sequence[int], moves: Expansion) -> NDArray[np.float64]:
        """Return the log-probability of each move in ``moves``, the expansion of ``states``.

        Shape: ``[len(moves.token)]``.
        """


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished sequence: its end state, its tokens and the sum of their log-probabilities."""

    state: int
    tokens: tuple[int, ...]
    log_probability: float

    def rank_score(self, length_penalty: float) -> float:
        """Return the score that ranks it: the sum divided by length to the power of the penalty."""
        return self.log_probability / math.pow(len(self.tokens), length_penalty)


def beam_search(
    constraint: Constraint, scorer: Scorer, k: int, *, length_penalty: float = 0.0
) -> list[Hypothesis]:
    """Return up to ``k`` finished hypotheses, best first; fewer where the language has fewer.

    ``length_penalty`` 0 ranks by the sum of log-probabilities, 1 by their mean (the default of
    ``generate``). Raises UsageError where ``k`` is below 1.
    """
    if k < 1:
        raise UsageError(f"The number of paths must be at least 1, not {k}.")
    running = [Hypothesis(constraint.start(), (), 0.0)]
    finished: list[Hypothesis] = []
    while running:
        states = [hypothesis.state for hypothesis in running]
        moves = constraint.expand(states)
        if not len(moves.token):
            break
        scores = scorer.score(states, moves)
        totals = np.array([running[row].log_probability for row in moves.row.tolist()]) + scores
        # equal scores keep the order of the moves, so that a search can be repeated
        best = np.argsort(-totals, kind="stable")[: 2 * k]
        ends = constraint.is_end(moves.state[best].tolist())
        onward: list[Hypothesis] = []
        for rank, (move, is_end) in enumerate(zip(best.tolist(), ends.tolist(), strict=True)):
            parent = running[int(moves.row[move])]
            tokens = (*parent.tokens, int(moves.token[move]))
            hypothesis = Hypothesis(int(moves.state[move]), tokens, float(totals[move]))
            if not is_end:
                onward.append(hypothesis)
            elif rank < k:
                finished.append(hypothesis)
        running = onward[:k]
        finished.sort(key=lambda one: -one.rank_score(length_penalty))
        del finished[k:]
        if len(finished) == k and running:
            hopeful = running[0].rank_score(length_penalty)
            if finished[-1].rank_score(length_penalty) >= hopeful:
                break
    return finished

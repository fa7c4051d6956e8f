"""Beam search: the ranked list of Hugging Face ``generate`` under the same constraint.

``generate(num_beams=K, num_return_sequences=K, prefix_allowed_tokens_fn=…)`` looks at the 2 K best
continuations of its K running hypotheses, finishes those that end among the first K, goes on with
the K best that do not end, and stops by a rule that ``early_stopping`` chooses. The same is done
here, on scored moves. What it does not do: know what scores them.

Where it differs, on purpose: ``generate`` fills missing beams with copies at a score of -1e9 and
keeps what a length limit cut off; neither is in the language as a result of its own, so neither is
returned here, and copies never count as finished.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias

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
    from kgqa.decoding.search import Scored
    from kgqa.trie.constraint import Constraint

EarlyStopping: TypeAlias = bool | Literal["never"]


def beam(
    constraint: Constraint,
    k: int,
    *,
    length_penalty: float = 0.0,
    early_stopping: EarlyStopping = False,
    max_new_tokens: int | None = None,
) -> Search:
    """Search for up to ``k`` finished hypotheses, best first; fewer where the language has fewer.

    A hypothesis is ranked by its sum of log-probabilities divided by its length to the power of
    ``length_penalty``: 0 ranks by the sum, 1 (the default of ``generate``) by the mean; the prompt
    is not counted, the closing token is. ``early_stopping`` False stops when the best running
    hypothesis, were it to end at its present length, would not beat the worst of ``k`` finished
    ones; True when there are ``k`` finished ones; "never" is False, but with a ``length_penalty``
    above 0 the running hypothesis may still grow to ``max_new_tokens`` (without a limit: for ever,
    so that the search goes on until no hypothesis runs). ``k`` 1 is ``generate``'s greedy search:
    the first end is the answer whatever the other options say. What has not ended after
    ``max_new_tokens`` is dropped.

    Equal scores: the continuation of the better ranked hypothesis is first, then the smaller token;
    among finished ones the one that finished first. ``generate`` promises no order there.
    A hypothesis in a state without a continuation that is no end is dropped.

    Raises UsageError where an option cannot be meant, ModelError where scores are not numbers.
    """
    check_k(k)
    check_stop(early_stopping, max_new_tokens)
    return _beam(constraint, k, length_penalty, True if k == 1 else early_stopping, max_new_tokens)


def _beam(
    constraint: Constraint,
    k: int,
    length_penalty: float,
    early_stopping: EarlyStopping,
    max_new_tokens: int | None,
) -> Search:
    running = [Hypothesis(constraint.start(), (), 0.0)]
    finished: list[Hypothesis] = []
    steps = 0
    while running and steps != max_new_tokens:
        scored = checked((yield demand_of(running, all_later_below=True)))
        steps += 1
        onward: list[Hypothesis] = []
        for rank, (hypothesis, is_end) in enumerate(candidates(constraint, running, scored, 2 * k)):
            if not is_end:
                onward.append(hypothesis)
            elif rank < k:
                finished.append(hypothesis)
        running = onward[:k]
        finished.sort(key=lambda one: -one.rank_score(length_penalty))
        del finished[k:]
        if len(finished) == k and running:
            if early_stopping is True:
                break
            hopeful = best_hope(running[0], length_penalty, early_stopping, max_new_tokens)
            if finished[-1].rank_score(length_penalty) >= hopeful:
                break
    return SearchResult(finished)


def candidates(
    constraint: Constraint, running: list[Hypothesis], scored: Scored, count: int
) -> list[tuple[Hypothesis, bool]]:
    """Return the ``count`` best continuations of ``running``, best first, and whether each ends.

    ``scored`` answers the demand for ``running`` in its order.
    """
    if not len(scored.scores):
        return []
    totals = np.array([one.log_probability for one in running])[scored.moves.row] + scored.scores
    # a stable order, so that a search can be repeated
    best = np.argsort(-totals, kind="stable")[:count]
    ends = constraint.is_end(scored.moves.state[best].tolist())
    return [
        (extended(running[int(scored.moves.row[move])], scored, move), is_end)
        for move, is_end in zip(best.tolist(), ends.tolist(), strict=True)
    ]


def best_hope(
    best: Hypothesis,
    length_penalty: float,
    early_stopping: EarlyStopping = False,
    max_new_tokens: int | None = None,
) -> float:
    """Return the rank score that the ``best`` running hypothesis is taken to be able to reach."""
    if early_stopping == "never" and length_penalty > 0.0:
        if max_new_tokens is None:
            return 0.0
        return best.log_probability / math.pow(max_new_tokens, length_penalty)
    return best.rank_score(length_penalty)


def check_stop(early_stopping: object, max_new_tokens: int | None) -> None:
    """Raise UsageError where the options of the stop rule cannot be meant."""
    if not isinstance(early_stopping, bool) and early_stopping != "never":
        raise UsageError(f'early_stopping is {early_stopping!r}; it may be False, True or "never".')
    if max_new_tokens is not None and max_new_tokens < 1:
        raise UsageError(f"max_new_tokens must be at least 1, not {max_new_tokens}.")

"""Beam search: the ranked list of Hugging Face ``generate`` under the same constraint.

One difference, on purpose: ``generate`` fills missing beams with copies at a score of -1e9 and
keeps what a length limit cut off; neither is in the language, so neither is returned here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgqa.decoding.options import BeamOptions
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
    from collections.abc import Collection

    from numpy.typing import NDArray

    from kgqa.decoding.search import Scored
    from kgqa.trie.constraint import Constraint


class BeamSearch(SearchStrategy[BeamOptions]):
    """The ranked list of ``generate(num_beams=K)``, as :func:`beam` finds it."""

    Options = BeamOptions

    def start(self, constraint: Constraint, k: int, length_penalty: float = 0.0) -> Search:
        """Return :func:`beam` for ``k`` hypotheses."""
        return beam(constraint, k, length_penalty=length_penalty)


def beam(
    constraint: Constraint,
    k: int,
    *,
    length_penalty: float = 0.0,
    max_new_tokens: int | None = None,
) -> Search:
    """Search for up to ``k`` finished hypotheses, best first; fewer if the language has fewer.

    Ranked by the sum of log-probabilities over length to the power of ``length_penalty``; the
    closing token counts, the prompt does not. Of equal scores: the better ranked hypothesis, then
    the smaller token; of finished ones the first. Dead ends, and what has not ended after
    ``max_new_tokens``, are dropped. Raises UsageError, ModelError (scores that are not
    log-probabilities).
    """
    BeamSearch(BeamOptions()).check(k)
    if max_new_tokens is not None and max_new_tokens < 1:
        raise UsageError(f"`max_new_tokens` must be at least 1, not {max_new_tokens}.")
    return _beam(constraint, k, length_penalty, max_new_tokens)


def _beam(
    constraint: Constraint, k: int, length_penalty: float, max_new_tokens: int | None
) -> Search:
    running = [Hypothesis(constraint.start(), (), 0.0)]
    finished: list[Hypothesis] = []
    steps = 0
    while running and steps != max_new_tokens:
        scored = yield demand_of(running, all_later_below=True)
        steps += 1
        ranked = candidates(constraint, running, scored, 2 * k)
        finished += [one for one, is_end in ranked[:k] if is_end]
        running = [one for one, is_end in ranked if not is_end][:k]
        finished.sort(key=lambda one: -one.rank_score(length_penalty))
        del finished[k:]
        if len(finished) == k and running:
            hope = running[0].rank_score(length_penalty)
            if k == 1 or finished[-1].rank_score(length_penalty) >= hope:
                break
    return SearchResult(finished)


def candidates(
    constraint: Constraint,
    running: list[Hypothesis],
    scored: Scored,
    count: int,
    penalties: NDArray[np.float64] | float = 0.0,
    passed_over: Collection[int] = (),
) -> list[tuple[Hypothesis, bool]]:
    """Return the ``count`` best continuations of ``running``, best first, and whether each ends.

    ``scored`` is in their order. ``penalties`` of moves change the order, not the scores. Ends in
    ``passed_over`` are left out.
    """
    if not len(scored.scores):
        return []
    moves = scored.moves
    totals = np.array([one.log_probability for one in running])[moves.row] + scored.scores
    # a stable order, so that a search can be repeated
    best = np.argsort(penalties - totals, kind="stable")[: count + len(passed_over)]
    ends = constraint.is_end(moves.state[best].tolist())
    return [
        (extended(running[int(moves.row[move])], scored, move), is_end)
        for move, is_end in zip(best.tolist(), ends.tolist(), strict=True)
        if not (is_end and int(moves.state[move]) in passed_over)
    ][:count]

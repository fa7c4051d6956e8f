"""Exact search: the K sequences of highest log-probability, and a proof that there are no better.

The sum over a prefix bounds every sequence below it: once K finished ones are at least as probable
as every open prefix, nothing better exists. A sum divided by a length is not a bound.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

from kgqa.decoding.options import ExactOptions
from kgqa.decoding.search import (
    Certificate,
    ForwardPassesSpentError,
    Hypothesis,
    Search,
    SearchResult,
    SearchStrategy,
    demand_of,
    extended,
)
from kgqa.errors import UsageError

if TYPE_CHECKING:
    from kgqa.trie.constraint import Constraint


class ExactSearch(SearchStrategy[ExactOptions]):
    """The K most probable sequences, best first, with a certificate.

    When its forward passes are spent, it ends with what it has; the certificate then says how far
    an unseen sequence could get (``bound``), and how many are certain. ``width``: open prefixes
    demanded together; it changes what is explored, not what is proven.
    """

    Options = ExactOptions

    def __init__(self, options: ExactOptions, *, width: int = 16) -> None:
        super().__init__(options)
        self.max_forward_passes = options.max_forward_passes
        self._width = width

    def check(self, k: int, length_penalty: float = 0.0) -> None:
        """Raise UsageError if there is a length penalty."""
        super().check(k, length_penalty)
        if length_penalty != 0.0:
            raise UsageError(
                f"Exact search ranks by log-probability and proves it; with a length penalty of "
                f"{length_penalty:g} it could prove nothing.",
                "Leave the length penalty at 0, or use beam search.",
            )

    def start(self, constraint: Constraint, k: int, length_penalty: float = 0.0) -> Search:
        """Return the search for ``k`` hypotheses."""
        self.check(k, length_penalty)
        return _best_first(constraint, k, self._width)


def _best_first(constraint: Constraint, k: int, width: int) -> Search:
    # open prefixes, the most probable first; among equals the one that was found first
    frontier = [(0.0, 0, Hypothesis(constraint.start(), (), 0.0))]
    finished: list[Hypothesis] = []
    demands = found = 0

    def bound() -> float:
        return -frontier[0][0] if frontier else -math.inf

    while True:
        worst = finished[-1].log_probability if len(finished) == k else -math.inf
        wave: list[tuple[float, int, Hypothesis]] = []
        while frontier and len(wave) < width and (len(finished) < k or bound() > worst):
            wave.append(heapq.heappop(frontier))
        if not wave:
            break
        prefixes = [prefix for _, _, prefix in wave]
        try:
            scored = yield demand_of(prefixes)
        except ForwardPassesSpentError:
            for one in wave:  # still open, so that the bound is true
                heapq.heappush(frontier, one)
            break
        demands += 1
        ends = constraint.is_end(scored.moves.state.tolist()).tolist()
        for move, is_end in enumerate(ends):
            hypothesis = extended(prefixes[int(scored.moves.row[move])], scored, move)
            if is_end:
                finished.append(hypothesis)
            else:
                found += 1
                heapq.heappush(frontier, (-hypothesis.log_probability, found, hypothesis))
        finished.sort(key=lambda one: -one.log_probability)
        del finished[k:]
    certain = sum(one.log_probability >= bound() for one in finished)
    proven = certain == len(finished) and (len(finished) == k or not frontier)
    return SearchResult(finished, Certificate(proven, bound(), certain, demands))

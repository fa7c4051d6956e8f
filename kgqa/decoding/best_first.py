"""Exact search: the K sequences of highest log-probability, and a proof that there are no better.

No log-probability is above zero, so the sum over a prefix bounds every sequence that begins with
it. The best open prefixes are scored first; once K finished sequences are at least as probable as
every open prefix, nothing better can exist. What this does not do: rank by anything but the sum,
for a sum divided by a length is no bound.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

from kgqa.decoding.search import (
    Certificate,
    ForwardsSpentError,
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
    from kgqa.trie.constraint import Constraint


def best_first(
    constraint: Constraint,
    k: int,
    *,
    length_penalty: float = 0.0,
    width: int = 16,
    max_demands: int | None = None,
) -> Search:
    """Search for the ``k`` most probable sequences, best first, with a certificate.

    ``width``: how many of the best open prefixes are demanded together, so that a forward over many
    tokens is filled; it changes what is explored, never what is proven. ``max_demands`` ends the
    search after so many demands (each costs a forward at most; a scorer that looks ahead answers
    many without one): the list is then what was found, maybe fewer than ``k``, the certificate says
    that it is not proven, how far an unseen sequence could get (``bound``), and how many
    hypotheses at the head of the list are certain all the same. A ForwardsSpentError that is thrown
    in ends it likewise, in place of an answer.

    Among equally probable sequences at the end of the list any may be the one that is returned; in
    the list the one that was found first is first, and the same search finds the same again.

    Raises UsageError where ``length_penalty`` is not 0 or another option cannot be meant,
    ModelError where scores are not log-probabilities.
    """
    check_k(k)
    if length_penalty != 0.0:
        raise UsageError(
            f"Exact search ranks by log-probability and proves it; with a length penalty of "
            f"{length_penalty:g} it could prove nothing.",
            "Leave the length penalty at 0, or use beam search.",
        )
    if width < 1:
        raise UsageError(f"The width must be at least 1, not {width}.")
    if max_demands is not None and max_demands < 1:
        raise UsageError(f"max_demands must be at least 1, not {max_demands}.")
    return _best_first(constraint, k, width, max_demands)


def _best_first(constraint: Constraint, k: int, width: int, max_demands: int | None) -> Search:
    frontier = _Frontier()
    frontier.add(Hypothesis(constraint.start(), (), 0.0))
    finished: list[Hypothesis] = []
    demands = expanded = 0
    while demands != max_demands:
        worst = finished[-1].log_probability if len(finished) == k else None
        wave = frontier.take(width, worst)
        if not wave:
            break
        try:
            scored = checked((yield demand_of(wave)))
        except ForwardsSpentError:
            for prefix in wave:  # still open, so that the bound is true
                frontier.add(prefix)
            break
        demands += 1
        expanded += len(wave)
        ends = constraint.is_end(scored.moves.state.tolist()).tolist()
        for move, is_end in enumerate(ends):
            hypothesis = extended(wave[int(scored.moves.row[move])], scored, move)
            if is_end:
                finished.append(hypothesis)
            else:
                frontier.add(hypothesis)
        finished.sort(key=lambda one: -one.log_probability)
        del finished[k:]
    bound = frontier.bound()
    certain = sum(one.log_probability >= bound for one in finished)
    proven = certain == len(finished) and (len(finished) == k or not frontier)
    return SearchResult(finished, Certificate(proven, bound, certain, demands, expanded))


class _Frontier:
    """The open prefixes, the most probable first; among equals the one that came first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Hypothesis]] = []
        self._added = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, prefix: Hypothesis) -> None:
        heapq.heappush(self._heap, (-prefix.log_probability, self._added, prefix))
        self._added += 1

    def bound(self) -> float:
        """Return the highest log-probability of an open prefix, ``-inf`` where there is none."""
        return -self._heap[0][0] if self._heap else -math.inf

    def take(self, width: int, worst: float | None) -> list[Hypothesis]:
        """Take out up to ``width`` prefixes, best first; only what can beat ``worst`` if given."""
        taken: list[Hypothesis] = []
        while self._heap and len(taken) < width and (worst is None or self.bound() > worst):
            taken.append(heapq.heappop(self._heap)[2])
        return taken

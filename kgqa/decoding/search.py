"""The seam between searches and what scores their moves.

A search is a generator: it yields the states whose moves it must know (a :class:`Demand`), is sent
their log-probabilities (:class:`Scored`) and returns a :class:`SearchResult`. So a search knows
nothing of models, a table of numbers can stand in for one, and several questions can run in
lockstep and share a forward. What is not here: the searches themselves (``beam``, ``diverse``,
``best_first``, ``stochastic``) and the forward that scores.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kgqa.errors import ModelError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kgqa.trie.constraint import Constraint, Expansion

# What rounding may put a log-probability above zero: sums over a vocabulary are made in single
# precision, of logits that may be in the hundreds.
_ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class Demand:
    """What a search must know before it can go on.

    ``states``: distinct states of the constraint whose moves must be scored now; each is the start
    or was led to by a move that has been scored. ``totals``: the log-probability of each state's
    prefix so far, in the same order, which look-ahead may use. ``all_later_below``: the search
    promises that whatever it demands later is one of these states or lies below one of them, so
    that what was kept for other prefixes may be forgotten.
    """

    states: tuple[int, ...]
    totals: tuple[float, ...]
    all_later_below: bool = False


@dataclass(frozen=True, slots=True)
class Scored:
    """The answer to a demand.

    ``moves``: the expansion of ``Demand.states``, sorted by (row, token). ``scores``: the
    log-probability of each move, shape ``[len(moves.token)]``.
    """

    moves: Expansion
    scores: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A sequence of tokens: the state it leads to and the sum of its log-probabilities."""

    state: int
    tokens: tuple[int, ...]
    log_probability: float

    def rank_score(self, length_penalty: float) -> float:
        """Return the score that ranks it: the sum divided by length to the power of the penalty."""
        return self.log_probability / math.pow(len(self.tokens), length_penalty)


@dataclass(frozen=True, slots=True)
class Certificate:
    """What an exact search can prove about its list.

    ``proven``: no sequence outside the list has a higher log-probability than one in it, and the
    list is shorter than asked only if the language is. ``bound``: the log-probability of the best
    unexplored prefix, which nothing outside the list exceeds; ``-inf`` where nothing is unexplored.
    ``certain``: how many hypotheses at the head of the list no unexplored prefix can beat.
    ``demands`` and ``expanded``: how often the search asked, and for how many states in all.
    """

    proven: bool
    bound: float
    certain: int
    demands: int
    expanded: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Finished hypotheses in the search's order, and a certificate where it can prove its list."""

    hypotheses: list[Hypothesis]
    certificate: Certificate | None = None


class ForwardsSpentError(UsageError):
    """Thrown into a search, at a demand that will not be answered any more.

    A search that can end with what it has catches it and returns; any other ends with this error.
    """


Search: TypeAlias = Generator[Demand, Scored, SearchResult]


class Scorer(Protocol):
    """Fills in the log-probabilities of moves."""

    def score(self, demand: Demand) -> Scored:
        """Return the moves out of ``demand.states`` with their log-probabilities."""


def run(search: Search, scorer: Scorer) -> SearchResult:
    """Drive one search with one scorer to its end and return what it found.

    Raises what the search and the scorer raise; the search is closed then.
    """
    try:
        demand = next(search)
        while True:
            demand = search.send(scorer.score(demand))
    except StopIteration as end:
        result: SearchResult = end.value
        return result
    finally:
        search.close()


def demand_of(prefixes: list[Hypothesis], *, all_later_below: bool = False) -> Demand:
    """Return the demand for the moves out of distinct prefixes."""
    return Demand(
        tuple(prefix.state for prefix in prefixes),
        tuple(prefix.log_probability for prefix in prefixes),
        all_later_below,
    )


def checked(scored: Scored) -> Scored:
    """Return ``scored`` if its scores can be log-probabilities.

    Raises ModelError where one is no number or clearly above zero: a ranking made from it would
    look like any other.
    """
    scores = scored.scores
    if len(scores) != len(scored.moves.token):
        raise ModelError(f"{len(scored.moves.token)} moves came with {len(scores)} scores.")
    # "not below" holds for NaN too
    if len(scores) and not float(scores.max()) < _ROUNDING:
        raise ModelError(
            f"The model gave {scores.max():g} as a log-probability, so nothing can be ranked.",
            "Its weights are damaged, or its numbers too coarse: try float32 or bfloat16.",
        )
    return scored


def extended(parent: Hypothesis, scored: Scored, move: int) -> Hypothesis:
    """Return ``parent`` with one of the scored moves at its end."""
    return Hypothesis(
        int(scored.moves.state[move]),
        (*parent.tokens, int(scored.moves.token[move])),
        parent.log_probability + float(scored.scores[move]),
    )


def check_k(k: int) -> None:
    """Raise UsageError where ``k`` is below 1."""
    if k < 1:
        raise UsageError(f"The number of paths must be at least 1, not {k}.")


def beam_search(
    constraint: Constraint, scorer: Scorer, k: int, *, length_penalty: float = 0.0
) -> list[Hypothesis]:
    """Return the hypotheses of :func:`kgqa.decoding.beam.beam`, driven by ``scorer``.

    Raises UsageError where ``k`` is below 1.
    """
    from kgqa.decoding.beam import beam  # it stands on this module

    return run(beam(constraint, k, length_penalty=length_penalty), scorer).hypotheses

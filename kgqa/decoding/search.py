"""The interface between searches and what scores their moves.

A search is a generator: it yields a :class:`Demand`, is sent :class:`Scored` and returns a
:class:`SearchResult`; so several questions can share a forward pass.

Importing it, with the options of the searches, loads neither numpy nor a model.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from kgqa.errors import ModelError, UsageError
from kgqa.registry import Options, option

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kgqa.trie.constraint import Constraint, Expansion


class BeamOptions(Options):
    """Beam search has no options of its own."""


class DiverseOptions(Options):
    """The options of diverse beam search."""

    groups: int | None = option(None, "Number of groups of beams, 1 to K (default: K).", ge=1)
    diversity_penalty: float = option(
        1.0,
        "Penalty of a token for each hypothesis of an earlier group that has just chosen it.",
        ge=0.0,
    )


class ExactOptions(Options):
    """The options of exact search."""

    max_forward_passes: int | None = option(
        None,
        "Maximum number of forward passes for a question; the search then ends with what it found.",
        ge=1,
    )


class SampleSearchOptions(Options):
    """The options of sampling without replacement."""

    seed: int = option(0, "Seed of the random numbers.", ge=0)


# What rounding may put a log-probability above zero: sums over a vocabulary are made in single
# precision, of logits that may be in the hundreds.
_ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class Demand:
    """A search's request for scores: the prefixes, by state, whose next moves it must know.

    ``states``: distinct; the start, or reached by a scored move. ``all_later_below``: every later
    demand is for these or their descendants, so that other prefixes may be forgotten.
    """

    states: tuple[int, ...]
    all_later_below: bool = False


@dataclass(frozen=True, slots=True)
class Scored:
    """The answer to a demand: the moves and the log-probability of each one.

    ``moves``: the expansion of ``Demand.states``, by (row, token); ``scores``: one a move. Raises
    ModelError if a score is not a log-probability.
    """

    moves: Expansion
    scores: NDArray[np.float64]

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.moves.token):
            raise ModelError(f"{len(self.moves.token)} moves came with {len(self.scores)} scores.")
        if len(self.scores):
            check_log_probability(float(self.scores.max()))


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A sequence of tokens, the constraint state after it, and its summed log-probability."""

    state: int
    tokens: tuple[int, ...]
    log_probability: float

    def rank_score(self, length_penalty: float) -> float:
        """Return the log-probability over the length in tokens to the power ``length_penalty``."""
        return self.log_probability / math.pow(len(self.tokens), length_penalty)


@dataclass(frozen=True, slots=True)
class Certificate:
    """What an exact search has proven about its list of sequences.

    ``proven``: no other sequence is more probable, and the list is short only if the language is.
    ``bound``: the highest log-probability of an unexplored prefix, ``-inf`` without any.
    ``certain``: how many of the first sequences nothing can outrank. ``demands``: the number of
    demands made.
    """

    proven: bool
    bound: float
    certain: int
    demands: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Finished hypotheses in the search's order, with a certificate from exact search."""

    hypotheses: list[Hypothesis]
    certificate: Certificate | None = None


class ForwardPassesSpentError(UsageError):
    """Thrown into a search that used up its forward passes; it may return the paths so far."""


Search: TypeAlias = Generator[Demand, Scored, SearchResult]

OptionsT = TypeVar("OptionsT", bound=Options)


class SearchStrategy(ABC, Generic[OptionsT]):
    """A search algorithm, found by its name in ``kgqa.registry.SEARCHES``.

    A search of another package derives from it, sets ``Options`` and is registered by an entry
    point in the group ``kgqa.searches``. It demands the start first, and then only states that a
    scored move led to; its hypotheses' log-probabilities are sums of the scores that it was sent,
    and they end where ``constraint.is_end`` holds.
    """

    Options: ClassVar[type[Options]]

    max_forward_passes: int | None = None
    """Forward passes that a search may take part in, None for any number.

    Then a ForwardPassesSpentError is thrown into it, and it returns what it has.
    """

    def __init__(self, options: OptionsT) -> None:
        self.options = options

    def check(self, k: int, length_penalty: float = 0.0) -> None:
        """Raise UsageError if the options do not fit ``k`` paths or the length penalty."""
        if k < 1:
            raise UsageError(f"The number of paths must be at least 1, not {k}.")

    @abstractmethod
    def start(self, constraint: Constraint, k: int, length_penalty: float = 0.0) -> Search:
        """Return a search for up to ``k`` finished hypotheses, best first. Raises UsageError."""


class Scorer(Protocol):
    """Computes the log-probabilities of moves, such as by a model."""

    def score(self, demand: Demand) -> Scored:
        """Return the moves out of ``demand.states`` with their log-probabilities."""


def run(search: Search, scorer: Scorer) -> SearchResult:
    """Run a search to completion with one scorer, and close it; errors propagate."""
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
    """Return the demand for the next moves of distinct prefixes."""
    return Demand(tuple(prefix.state for prefix in prefixes), all_later_below)


def check_log_probability(highest: float) -> None:
    """Raise ModelError if the ``highest`` score cannot be a log-probability."""
    if not highest < _ROUNDING:  # holds for NaN too
        raise ModelError(
            f"The model gave {highest:g} as a log-probability, so nothing can be ranked.",
            "Its weights are damaged, or its numbers too coarse: try float32 or bfloat16.",
        )


def extended(parent: Hypothesis, scored: Scored, move: int) -> Hypothesis:
    """Return ``parent`` extended by the token of one move: its number in ``scored.moves``."""
    return Hypothesis(
        int(scored.moves.state[move]),
        (*parent.tokens, int(scored.moves.token[move])),
        parent.log_probability + float(scored.scores[move]),
    )

"""The searches: beam, diverse beams, exact best-first search, and sampling without replacement.

Beam search gives the ranked list of Hugging Face ``generate``, with one difference on purpose: what
``generate`` fills missing beams with (copies at a score of -1e9, prefixes that a length limit cut
off) is not in the language, and is not returned. Diverse beams are kept apart by a Hamming penalty
(Vijayakumar et al. 2016); beyond the method, no sequence is returned twice, and the best prefixes
left behind fill a list that is too short. Exact search: the sum over a prefix bounds every sequence
below it, so once K finished ones are at least as probable as every open prefix, nothing better
exists. Sampling is stochastic beam search (Kool et al. 2019): log-probabilities get Gumbel noise,
drawn from the top down, and the K highest are the sample.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kgqa.decoding.search import (
    BeamOptions,
    Certificate,
    Demand,
    DiverseOptions,
    ExactOptions,
    ForwardPassesSpentError,
    Hypothesis,
    SampleSearchOptions,
    Scored,
    Search,
    SearchResult,
    SearchStrategy,
    demand_of,
    extended,
)
from kgqa.errors import UsageError
from kgqa.trie.constraint import Constraint, Expansion

if TYPE_CHECKING:
    from collections.abc import Collection, Generator

    from numpy.typing import NDArray


class BeamSearch(SearchStrategy[BeamOptions]):
    """Beam search that gives the ranked list of ``generate(num_beams=K)``; see :func:`beam`."""

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

    They are ranked by the sum of log-probabilities over length to the power of ``length_penalty``;
    the closing token counts, the prompt does not. Ties go to the better ranked hypothesis, then to
    the smaller token; among finished ones to the first. Dead ends, and hypotheses without an end
    after ``max_new_tokens``, are dropped. Raises UsageError, ModelError (scores that are not
    log-probabilities).
    """
    BeamSearch(BeamOptions()).check(k)
    if max_new_tokens is not None and max_new_tokens < 1:
        raise UsageError(f"`max_new_tokens` must be at least 1, not {max_new_tokens}.")
    return _beam(constraint, k, length_penalty, max_new_tokens)


def _beam(
    constraint: Constraint, k: int, length_penalty: float, max_new_tokens: int | None
) -> Search:
    """Run beam search as a generator that yields demands and receives their scores."""
    running = [Hypothesis(constraint.start(), (), 0.0)]
    finished: list[Hypothesis] = []
    steps = 0
    while running and steps != max_new_tokens:
        scored = yield demand_of(running, all_later_below=True)
        steps += 1
        # 2 K candidates, as generate takes: K of them may end, and K have to go on
        ranked = candidates(constraint, running, scored, 2 * k)
        finished += [hypothesis for hypothesis, is_end in ranked[:k] if is_end]
        running = [hypothesis for hypothesis, is_end in ranked if not is_end][:k]
        finished.sort(key=lambda hypothesis: -hypothesis.rank_score(length_penalty))
        del finished[k:]
        if len(finished) == k and running:
            hope = running[0].rank_score(length_penalty)
            # generate with early_stopping=False and one beam ends with the first finished sequence
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
    """Return the ``count`` best one-token continuations of ``running``, and whether each ends.

    ``scored`` is in their order. ``penalties`` of moves change the order, not the scores. Ends in
    ``passed_over`` are left out.
    """
    if not len(scored.scores):
        return []
    moves = scored.moves
    totals = (
        np.array([hypothesis.log_probability for hypothesis in running])[moves.row] + scored.scores
    )
    # a stable order, so that a search can be repeated
    best = np.argsort(penalties - totals, kind="stable")[: count + len(passed_over)]
    ends = constraint.is_end(moves.state[best].tolist())
    return [
        (extended(running[int(moves.row[move])], scored, move), is_end)
        for move, is_end in zip(best.tolist(), ends.tolist(), strict=True)
        if not (is_end and int(moves.state[move]) in passed_over)
    ][:count]


class DiverseSearch(SearchStrategy[DiverseOptions]):
    """Diverse beam search: K different hypotheses from groups that avoid each other's tokens.

    Groups share K evenly, the first ones having one more. ``length_penalty`` ranks, as in
    :func:`kgqa.decoding.searches.beam`. Equal scores keep the order of the groups.
    """

    Options = DiverseOptions

    def check(self, k: int, length_penalty: float = 0.0) -> None:
        """Raise UsageError for more groups than paths, or less than one path."""
        super().check(k, length_penalty)
        groups = self.options.groups
        if groups is not None and groups > k:
            raise UsageError(f"{k} paths can be sought in 1 to {k} groups, not in {groups}.")

    def start(self, constraint: Constraint, k: int, length_penalty: float = 0.0) -> Search:
        """Return the search for ``k`` hypotheses."""
        self.check(k, length_penalty)
        groups = self.options.groups or k
        return _diverse_beam(constraint, k, groups, self.options.diversity_penalty, length_penalty)


@dataclass(slots=True)
class _Group:
    """One group of diverse beams: its size, its running and its finished hypotheses."""

    size: int
    running: list[Hypothesis]
    finished: list[Hypothesis] = field(default_factory=list)

    def step(
        self,
        constraint: Constraint,
        scored: Scored,
        chosen: Counter[int],
        penalty: float,
        passed_over: set[int],
    ) -> None:
        """Choose the group's next hypotheses; move those that end to ``finished``.

        A move's score is lowered by ``penalty`` for each time that earlier groups ``chosen`` its
        token; then the group's tokens are added to ``chosen``. Ends in ``passed_over`` are skipped.
        """
        # Hamming diversity counts tokens of the same step alone, whatever their prefixes are
        times = np.array([chosen[token] for token in scored.moves.token.tolist()], np.float64)
        ranked = candidates(
            constraint, self.running, scored, 2 * self.size, penalty * times, passed_over
        )
        self.finished += [hypothesis for hypothesis, is_end in ranked[: self.size] if is_end]
        self.running = [hypothesis for hypothesis, is_end in ranked if not is_end][: self.size]
        chosen.update(hypothesis.tokens[-1] for hypothesis in self.running)

    def settle(self, length_penalty: float) -> None:
        """Keep the ``size`` best finished hypotheses; stop if no running one can beat the worst."""
        self.finished.sort(key=lambda hypothesis: -hypothesis.rank_score(length_penalty))
        del self.finished[self.size :]
        if len(self.finished) == self.size and self.running:
            best = max(self.running, key=lambda hypothesis: hypothesis.log_probability)
            worst = self.finished[-1]
            if worst.rank_score(length_penalty) >= best.rank_score(length_penalty):
                self.running = []


def _diverse_beam(
    constraint: Constraint, k: int, count: int, penalty: float, length_penalty: float
) -> Search:
    """Run diverse beam search with ``count`` groups as a generator of demands."""
    root = Hypothesis(constraint.start(), (), 0.0)
    groups = [_Group(k // count + (number < k % count), [root]) for number in range(count)]
    known: list[tuple[list[Hypothesis], Scored]] = []
    while any(group.running for group in groups):
        wave = list(
            {
                hypothesis.state: hypothesis for group in groups for hypothesis in group.running
            }.values()
        )
        scored = yield demand_of(wave)
        known.append((wave, scored))
        rows = {prefix.state: row for row, prefix in enumerate(wave)}
        chosen: Counter[int] = Counter()
        for group in groups:
            if not group.running:
                continue
            taken = {hypothesis.state for other in groups for hypothesis in other.finished}
            mine = _moves_of(scored, [rows[hypothesis.state] for hypothesis in group.running])
            group.step(constraint, mine, chosen, penalty, taken)
            group.settle(length_penalty)
    finished = [hypothesis for group in groups for hypothesis in group.finished]
    if len(finished) < k:
        finished += yield from _filled(constraint, known, finished, k - len(finished))
    finished.sort(key=lambda hypothesis: -hypothesis.rank_score(length_penalty))
    return SearchResult(finished)


def _moves_of(scored: Scored, rows: list[int]) -> Scored:
    """Return the scored moves of the given ``rows`` only, renumbered in their order."""
    bounds = np.searchsorted(scored.moves.row, np.arange(max(rows) + 2))
    counts = [int(bounds[row + 1] - bounds[row]) for row in rows]
    mine = np.concatenate([np.arange(bounds[row], bounds[row + 1]) for row in rows])
    moves = Expansion(
        np.repeat(np.arange(len(rows)), counts), scored.moves.token[mine], scored.moves.state[mine]
    )
    return Scored(moves, scored.scores[mine])


def _filled(
    constraint: Constraint,
    known: list[tuple[list[Hypothesis], Scored]],
    finished: list[Hypothesis],
    missing: int,
) -> Generator[Demand, Scored, list[Hypothesis]]:
    """Return up to ``missing`` more finished sequences, by beams from discarded hypotheses.

    Every sequence not in ``finished`` begins with a move of ``known`` that no group followed.
    """
    gone = {hypothesis.state for wave, _ in known for hypothesis in wave} | {
        hypothesis.state for hypothesis in finished
    }
    more: list[Hypothesis] = []
    while len(more) < missing:
        hypotheses, running = _left_behind(constraint, known, gone, missing - len(more))
        if not hypotheses and not running:
            break
        more += hypotheses
        while running and len(more) < missing:
            scored = yield demand_of(running)
            known.append((running, scored))
            gone.update(hypothesis.state for hypothesis in running)
            wanted = missing - len(more)
            ranked = candidates(constraint, running, scored, 2 * wanted)
            more += [hypothesis for hypothesis, is_end in ranked[:wanted] if is_end]
            running = [hypothesis for hypothesis, is_end in ranked if not is_end][:wanted]
        gone.update(hypothesis.state for hypothesis in more)
    return more


def _left_behind(
    constraint: Constraint,
    known: list[tuple[list[Hypothesis], Scored]],
    gone: set[int],
    count: int,
) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """Return the ``count`` best moves of ``known`` to states outside ``gone``, as hypotheses.

    Two lists: those that end, and those that can be extended.
    """
    totals = [
        np.array([hypothesis.log_probability for hypothesis in wave])[scored.moves.row]
        + scored.scores
        for wave, scored in known
    ]
    states = np.concatenate([scored.moves.state for _, scored in known])
    origin = np.repeat(np.arange(len(known)), [len(part) for part in totals])
    within = np.concatenate([np.arange(len(part)) for part in totals])
    loose = np.flatnonzero(~np.isin(states, np.array(sorted(gone), np.int64)))
    best = loose[np.argsort(-np.concatenate(totals)[loose], kind="stable")[:count]]
    ended: list[Hypothesis] = []
    open_: list[Hypothesis] = []
    for place, is_end in zip(best.tolist(), constraint.is_end(states[best].tolist()), strict=True):
        wave, scored = known[int(origin[place])]
        move = int(within[place])
        text = extended(wave[int(scored.moves.row[move])], scored, move)
        (ended if is_end else open_).append(text)
    return ended, open_


class ExactSearch(SearchStrategy[ExactOptions]):
    """Best-first search for the K most probable sequences, with a certificate of what is proven.

    When its forward passes are spent, it returns the sequences found so far; the certificate then
    bounds the probability of an unseen sequence (``bound``), and counts the certain ones.
    ``width``: open prefixes demanded together; it changes what is explored, not what is proven.
    """

    Options = ExactOptions

    def __init__(self, options: ExactOptions, *, width: int = 16) -> None:
        super().__init__(options)
        self.max_forward_passes = options.max_forward_passes
        self._width = width

    def check(self, k: int, length_penalty: float = 0.0) -> None:
        """Raise UsageError for a length penalty, or less than one path."""
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
    """Run exact search as a generator; expand the ``width`` most probable prefixes at a time."""
    # open prefixes, the most probable first; among equals the one that was found first
    frontier = [(0.0, 0, Hypothesis(constraint.start(), (), 0.0))]
    finished: list[Hypothesis] = []
    demands = ended = 0

    def bound() -> float:
        """Return the highest log-probability of an open prefix."""
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
            for waiting in wave:  # still open, so that the bound is true
                heapq.heappush(frontier, waiting)
            break
        demands += 1
        ends = constraint.is_end(scored.moves.state.tolist()).tolist()
        for move, is_end in enumerate(ends):
            hypothesis = extended(prefixes[int(scored.moves.row[move])], scored, move)
            if is_end:
                finished.append(hypothesis)
            else:
                ended += 1
                heapq.heappush(frontier, (-hypothesis.log_probability, ended, hypothesis))
        finished.sort(key=lambda kept: -kept.log_probability)
        del finished[k:]
    certain = sum(hypothesis.log_probability >= bound() for hypothesis in finished)
    proven = certain == len(finished) and (len(finished) == k or not frontier)
    return SearchResult(finished, Certificate(proven, bound(), certain, demands))


class SampleSearch(SearchStrategy[SampleSearchOptions]):
    """Sampling of K different sequences without replacement, in drawn order, repeatable by seed."""

    Options = SampleSearchOptions

    def check(self, k: int, length_penalty: float = 0.0) -> None:
        """Raise UsageError for a length penalty, or less than one path."""
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
    """Run stochastic beam search: sample without replacement by top-down Gumbel noise."""
    kept = [_Drawn(Hypothesis(constraint.start(), (), 0.0), False, 0.0, 0.0)]
    while running := [draw for draw in kept if not draw.ended]:
        scored = yield demand_of([draw.hypothesis for draw in running])
        kept = [draw for draw in kept if draw.ended]
        kept += _drawn_below(constraint, running, scored, noise)
        kept.sort(key=lambda drawn: -drawn.noisy)
        del kept[k:]
    return SearchResult([draw.hypothesis for draw in kept])


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A sampled prefix with its Gumbel-perturbed score."""

    hypothesis: Hypothesis
    ended: bool
    log_share: float  # its log-probability among the sequences of the language
    noisy: float  # the highest of log-probability plus noise among the sequences below it


def _drawn_below(
    constraint: Constraint, running: list[_Drawn], scored: Scored, noise: np.random.Generator
) -> list[_Drawn]:
    """Return every one-token continuation of ``running``, with a newly drawn perturbed score."""
    moves = scored.moves
    ends = constraint.is_end(moves.state.tolist()).tolist()
    bounds = np.searchsorted(moves.row, np.arange(len(running) + 1)).tolist()
    drawn: list[_Drawn] = []
    for row, parent in enumerate(running):
        first, last = bounds[row], bounds[row + 1]
        if first == last:
            continue
        # renormalised over what the language allows: a sample is of its sequences, not the model's
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
    """Return scores renormalised to log-probabilities that sum to 1; uniform if all are -inf."""
    top = scores.max()
    if top == -math.inf:
        return np.full(len(scores), -math.log(len(scores)))
    shares: NDArray[np.float64] = scores - (top + math.log(np.exp(scores - top).sum()))
    return shares


def _given_highest(values: NDArray[np.float64], highest: float) -> NDArray[np.float64]:
    """Return Gumbel ``values`` conditioned on a maximum of ``highest``.

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

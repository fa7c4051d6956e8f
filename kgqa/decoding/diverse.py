"""Diverse beam search: groups that are kept apart by a Hamming penalty (Vijayakumar et al. 2016).

The groups choose one after the other; a token loses ``diversity_penalty`` for each hypothesis of an
earlier group that has just chosen it, in that choice and in no score. Beyond the method: no
sequence is returned twice, and the best prefixes left behind fill a list that is too short.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kgqa.decoding.beam import candidates
from kgqa.decoding.options import DiverseOptions
from kgqa.decoding.search import (
    Hypothesis,
    Scored,
    Search,
    SearchResult,
    SearchStrategy,
    demand_of,
    extended,
)
from kgqa.errors import UsageError
from kgqa.trie.constraint import Expansion

if TYPE_CHECKING:
    from collections.abc import Generator

    from kgqa.decoding.search import Demand
    from kgqa.trie.constraint import Constraint


class DiverseSearch(SearchStrategy[DiverseOptions]):
    """K different hypotheses in groups that are kept apart, best first.

    Groups share K evenly, the first ones having one more. ``length_penalty`` ranks, as in
    :func:`kgqa.decoding.beam.beam`. Equal scores keep the order of the groups.
    """

    Options = DiverseOptions

    def check(self, k: int, length_penalty: float = 0.0) -> None:
        """Raise UsageError if there are more groups than paths."""
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
        """Choose among the moves out of the running hypotheses, and count the tokens chosen."""
        times = np.array([chosen[token] for token in scored.moves.token.tolist()], np.float64)
        ranked = candidates(
            constraint, self.running, scored, 2 * self.size, penalty * times, passed_over
        )
        self.finished += [one for one, is_end in ranked[: self.size] if is_end]
        self.running = [one for one, is_end in ranked if not is_end][: self.size]
        chosen.update(one.tokens[-1] for one in self.running)

    def settle(self, length_penalty: float) -> None:
        """Keep the best finished, and stop if no running hypothesis can beat the worst of them."""
        self.finished.sort(key=lambda one: -one.rank_score(length_penalty))
        del self.finished[self.size :]
        if len(self.finished) == self.size and self.running:
            best = max(self.running, key=lambda one: one.log_probability)
            worst = self.finished[-1]
            if worst.rank_score(length_penalty) >= best.rank_score(length_penalty):
                self.running = []


def _diverse_beam(
    constraint: Constraint, k: int, count: int, penalty: float, length_penalty: float
) -> Search:
    root = Hypothesis(constraint.start(), (), 0.0)
    groups = [_Group(k // count + (number < k % count), [root]) for number in range(count)]
    known: list[tuple[list[Hypothesis], Scored]] = []
    while any(group.running for group in groups):
        wave = list({one.state: one for group in groups for one in group.running}.values())
        scored = yield demand_of(wave)
        known.append((wave, scored))
        rows = {prefix.state: row for row, prefix in enumerate(wave)}
        chosen: Counter[int] = Counter()
        for group in groups:
            if not group.running:
                continue
            taken = {one.state for other in groups for one in other.finished}
            mine = _moves_of(scored, [rows[one.state] for one in group.running])
            group.step(constraint, mine, chosen, penalty, taken)
            group.settle(length_penalty)
    finished = [one for group in groups for one in group.finished]
    if len(finished) < k:
        finished += yield from _filled(constraint, known, finished, k - len(finished))
    finished.sort(key=lambda one: -one.rank_score(length_penalty))
    return SearchResult(finished)


def _moves_of(scored: Scored, rows: list[int]) -> Scored:
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
    """Return ``missing`` more sequences, by beams that start from what was left behind.

    Every sequence not ``finished`` begins with a move of ``known`` that nobody followed.
    """
    gone = {one.state for wave, _ in known for one in wave} | {one.state for one in finished}
    more: list[Hypothesis] = []
    while len(more) < missing:
        found, running = _left_behind(constraint, known, gone, missing - len(more))
        if not found and not running:
            break
        more += found
        while running and len(more) < missing:
            scored = yield demand_of(running)
            known.append((running, scored))
            gone.update(one.state for one in running)
            wanted = missing - len(more)
            ranked = candidates(constraint, running, scored, 2 * wanted)
            more += [one for one, is_end in ranked[:wanted] if is_end]
            running = [one for one, is_end in ranked if not is_end][:wanted]
        gone.update(one.state for one in more)
    return more


def _left_behind(
    constraint: Constraint,
    known: list[tuple[list[Hypothesis], Scored]],
    gone: set[int],
    count: int,
) -> tuple[list[Hypothesis], list[Hypothesis]]:
    totals = [
        np.array([one.log_probability for one in wave])[scored.moves.row] + scored.scores
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
        one = extended(wave[int(scored.moves.row[move])], scored, move)
        (ended if is_end else open_).append(one)
    return ended, open_

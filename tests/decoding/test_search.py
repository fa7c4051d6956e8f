"""The interface: who drives a search, what it demands, and what it refuses as a score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kgqa.decoding.search import Hypothesis, Scored, Search, SearchResult, run
from kgqa.decoding.searches import beam
from kgqa.errors import ModelError
from kgqa.registry import SEARCHES
from tests.decoding.languages import EOS, TableScorer, constraint_of, random_language

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgqa.decoding.search import Demand
    from kgqa.registry import Entry
    from kgqa.trie.constraint import Constraint

every_search = pytest.mark.parametrize(
    "search",
    [
        pytest.param(lambda constraint, entry=entry: started(entry, constraint), id=entry.name)
        for entry in SEARCHES.table
    ],
)


def started(entry: Entry, constraint: Constraint) -> Search:
    search: Search = entry.load()(entry.options_model()()).start(constraint, 5)
    return search


@every_search
def test_searches_in_lockstep_find_what_each_finds_alone(
    search: Callable[[Constraint], Search],
) -> None:
    constraints = [constraint_of(random_language(seed, 10 + 20 * seed)) for seed in range(4)]
    alone = [
        run(search(each), TableScorer(each, seed)).hypotheses
        for seed, each in enumerate(constraints)
    ]
    scorers = [TableScorer(each, seed) for seed, each in enumerate(constraints)]
    searches = [search(each) for each in constraints]
    demands = {number: next(each) for number, each in enumerate(searches)}
    together: dict[int, SearchResult] = {}
    while demands:
        for number, demand in list(demands.items()):
            try:
                demands[number] = searches[number].send(scorers[number].score(demand))
            except StopIteration as end:
                together[number] = end.value
                del demands[number]
    assert [together[number].hypotheses for number in range(4)] == alone


@every_search
def test_a_demand_is_for_known_distinct_states(search: Callable[[Constraint], Search]) -> None:
    constraint = constraint_of(random_language(2, 60))
    known = {constraint.start()}

    class Watching(TableScorer):
        def score(self, demand: Demand) -> Scored:
            assert len(set(demand.states)) == len(demand.states) > 0
            assert not constraint.is_end(demand.states).any()
            assert known.issuperset(demand.states)
            scored = super().score(demand)
            known.update(scored.moves.state.tolist())
            return scored

    assert len(run(search(constraint), Watching(constraint, 2)).hypotheses) == 5


@every_search
@pytest.mark.parametrize("score", [np.nan, np.inf, 0.5])
def test_a_score_that_is_no_log_probability_is_an_error_and_no_ranking(
    search: Callable[[Constraint], Search], score: float
) -> None:
    constraint = constraint_of(random_language(1, 20))

    class Broken(TableScorer):
        def score(self, demand: Demand) -> Scored:
            scored = super().score(demand)
            return Scored(scored.moves, np.append(scored.scores[:-1], score))

    with pytest.raises(ModelError, match="log-probability"):
        run(search(constraint), Broken(constraint, 1))


@every_search
def test_moves_of_probability_zero_come_last_but_come(
    search: Callable[[Constraint], Search],
) -> None:
    constraint = constraint_of([[2, EOS], [3, EOS], [4, 5, EOS], [4, 6, EOS]])

    class Impossible(TableScorer):
        def score(self, demand: Demand) -> Scored:
            scored = super().score(demand)
            scored.scores[scored.moves.token == 4] = -np.inf
            return scored

    found = run(search(constraint), Impossible(constraint, 0)).hypotheses
    assert {one.tokens[0] for one in found[:2]} == {2, 3}
    assert {one.tokens for one in found[2:]} == {(4, 5, EOS), (4, 6, EOS)}
    assert all(one.log_probability == -np.inf for one in found[2:])


def test_a_scorer_that_fails_closes_the_search() -> None:
    closed = []

    def search() -> Search:
        try:
            inner = beam(constraint, 2)
            yield next(inner)
        finally:
            closed.append(True)
        return SearchResult([])

    class Failing:
        def score(self, demand: Demand) -> Scored:
            raise KeyboardInterrupt

    constraint = constraint_of([[2, EOS]])
    with pytest.raises(KeyboardInterrupt):
        run(search(), Failing())
    assert closed == [True]


def test_the_rank_score_divides_by_the_length_to_a_power() -> None:
    hypothesis = Hypothesis(0, (1, 2, 3, 4), -6.0)
    scores = [hypothesis.rank_score(penalty) for penalty in (0.0, 0.5, 1.0, 2.0, -1.0)]
    assert scores == pytest.approx([-6.0, -3.0, -1.5, -0.375, -24.0])

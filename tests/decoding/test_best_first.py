"""Exact search finds what trying every path finds, and says so only when it is proven."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest

from kgqa.decoding.search import ExactOptions, ForwardPassesSpentError, Search, SearchResult, run
from kgqa.decoding.searches import ExactSearch, beam
from kgqa.errors import UsageError
from tests.decoding.languages import EOS, Moves, TableScorer, constraint_of, random_language

if TYPE_CHECKING:
    from kgqa.trie.constraint import Constraint


def best_first(constraint: Constraint, k: int, *, width: int = 16) -> Search:
    return ExactSearch(ExactOptions(), width=width).start(constraint, k)


def ended_after(search: Search, scorer: TableScorer, demands: int) -> SearchResult:
    """What the search returns if only so many of its demands are answered."""
    try:
        demand = next(search)
        for _ in range(demands):
            demand = search.send(scorer.score(demand))
        search.throw(ForwardPassesSpentError("spent"))
    except StopIteration as end:
        result: SearchResult = end.value
        return result
    raise AssertionError("the search goes on")


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.long] if case >= 60 else []) for case in range(200)],
)
def test_the_list_is_that_of_trying_every_path(case: int) -> None:
    choose = random.Random(case)
    rows = random_language(case, choose.randrange(1, 200))
    k, width = choose.choice([1, 3, 10, 50]), choose.choice([1, 4, 16, 1000])
    constraint = constraint_of(rows)
    table = TableScorer(constraint, case)
    result = run(best_first(constraint, k, width=width), table)
    totals = {tuple(row): table.total(row) for row in rows}
    expected = sorted(totals.values(), reverse=True)[:k]
    found = result.hypotheses
    assert [one.log_probability for one in found] == pytest.approx(expected)
    assert [totals[one.tokens] for one in found] == pytest.approx(expected)
    assert len({one.tokens for one in found}) == len(found)
    proof = result.certificate
    assert proof is not None
    assert proof.proven
    assert proof.certain == len(found)
    assert proof.bound <= found[-1].log_probability
    assert proof.demands == len(table.demands)
    assert all(len(demand.states) <= width for demand in table.demands)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.long] if case >= 8 else []) for case in range(30)],
)
def test_a_budget_that_ends_is_said_and_what_is_certain_is_true(case: int) -> None:
    rows = random_language(case, 120)
    constraint = constraint_of(rows)
    table = TableScorer(constraint, case)
    totals = sorted((table.total(row) for row in rows), reverse=True)
    unproven = 0
    for budget in range(1, 60, 3):
        result = ended_after(best_first(constraint, 10, width=3), table, budget)
        proof, found = result.certificate, result.hypotheses
        assert proof is not None
        assert proof.demands <= budget
        assert [one.log_probability for one in found[: proof.certain]] == pytest.approx(
            totals[: proof.certain]
        )
        seen = {one.tokens for one in found}
        unseen = [table.total(row) for row in rows if tuple(row) not in seen]
        if len(found) < 10:
            assert max(unseen) <= proof.bound + 1e-9
        if proof.proven:
            assert len(found) == 10
            assert max(unseen) <= found[-1].log_probability + 1e-9
        else:
            unproven += 1
            assert proof.certain < 10
    assert unproven


def test_it_finds_what_a_beam_loses() -> None:
    """The best path begins with a token that is not among the best."""
    first = [(token, token, 0.2) for token in (2, 3, 4, 5)] + [(6, 6, 0.1)]
    rest = {token: [(EOS, 10 + token, 0.1), (7, 20 + token, 0.05)] for token in (2, 3, 4, 5)}
    language = Moves({0: first, **rest, 6: [(EOS, 16, 0.9)]})
    exact = run(best_first(language, 1), language)
    assert [hypothesis.tokens for hypothesis in exact.hypotheses] == [(6, EOS)]
    assert exact.certificate is not None
    assert exact.certificate.proven
    assert run(beam(language, 1), language).hypotheses[0].tokens == (2, EOS)


def test_a_language_smaller_than_asked_comes_whole_and_nothing_is_left_to_explore() -> None:
    constraint = constraint_of([[2, 3, EOS], [2, 4, EOS], [5, EOS]])
    result = run(best_first(constraint, 10), TableScorer(constraint, 0))
    assert len(result.hypotheses) == 3
    assert result.certificate is not None
    assert result.certificate.proven
    assert result.certificate.bound == -math.inf


def test_a_dead_end_is_dropped() -> None:
    language = Moves({0: [(3, 1, 0.9), (4, 2, 0.1)], 1: [], 2: [(EOS, 3, 1.0)]})
    result = run(best_first(language, 2), language)
    assert [hypothesis.tokens for hypothesis in result.hypotheses] == [(4, EOS)]


def test_options_that_cannot_be_meant_are_refused() -> None:
    search = ExactSearch(ExactOptions())
    with pytest.raises(UsageError, match="at least 1"):
        search.start(constraint_of([[2, EOS]]), 0)
    with pytest.raises(UsageError, match="length penalty"):
        search.check(3, 1.0)

"""Samples are different from each other, repeatable, and drawn with the right probabilities."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.decoding.search import SampleSearchOptions, Search, run
from kgqa.decoding.searches import SampleSearch
from kgqa.errors import UsageError
from tests.decoding.languages import EOS, Moves, TableScorer, constraint_of, random_language

if TYPE_CHECKING:
    from kgqa.trie.constraint import Constraint

DRAWS = 4000


def sample(constraint: Constraint, k: int, *, seed: int) -> Search:
    return SampleSearch(SampleSearchOptions(seed=seed)).start(constraint, k)


@given(seed=st.integers(0, 10_000), count=st.integers(1, 40), k=st.integers(1, 12))
@settings(max_examples=80)
def test_samples_differ_and_carry_the_scores_of_the_model(seed: int, count: int, k: int) -> None:
    rows = random_language(seed, count)
    constraint = constraint_of(rows)
    table = TableScorer(constraint, seed)
    found = run(sample(constraint, k, seed=seed), table).hypotheses
    assert len(found) == min(k, count)
    assert len({one.tokens for one in found}) == len(found)
    assert {one.tokens for one in found} <= {tuple(row) for row in rows}
    for one in found:
        assert one.log_probability == pytest.approx(table.total(one.tokens))
    assert run(sample(constraint, k, seed=seed), table).hypotheses == found


def language() -> tuple[Moves, dict[tuple[int, ...], float]]:
    """Paths of different lengths, and the probability of each.

    The scores are those of a model that would write something outside the language half the time,
    so the probabilities are what is left after renormalising at each state.
    """
    moves = Moves(
        {
            0: [(2, 1, 0.3), (3, 2, 0.15), (EOS, 9, 0.05)],
            1: [(4, 3, 0.2), (5, 4, 0.3)],
            2: [(6, 5, 0.25)],
            3: [(EOS, 10, 0.5)],
            4: [(EOS, 11, 0.5)],
            5: [(EOS, 12, 0.5)],
        }
    )
    shares = {(2, 4, EOS): 0.6 * 0.4, (2, 5, EOS): 0.6 * 0.6, (3, 6, EOS): 0.3, (EOS,): 0.1}
    return moves, shares


def chi_square(seen: Counter[Any], expected: dict[Any, float]) -> float:
    assert set(seen) <= set(expected)
    return sum((seen[key] - DRAWS * p) ** 2 / (DRAWS * p) for key, p in expected.items())


def test_the_first_is_a_sample_of_the_language() -> None:
    moves, shares = language()
    seen = Counter(
        run(sample(moves, 1, seed=seed), moves).hypotheses[0].tokens for seed in range(DRAWS)
    )
    assert chi_square(seen, shares) < 21.1  # 3 degrees of freedom, p = 0.0001


def test_the_order_is_that_of_drawing_without_putting_back() -> None:
    moves, shares = language()
    seen = Counter(
        tuple(
            hypothesis.tokens for hypothesis in run(sample(moves, 2, seed=seed), moves).hypotheses
        )
        for seed in range(DRAWS)
    )
    expected = {
        (one, other): shares[one] * shares[other] / (1 - shares[one])
        for one, other in permutations(shares, 2)
    }
    assert chi_square(seen, expected) < 37.4  # 11 degrees of freedom, p = 0.0001


def test_a_dead_end_is_dropped() -> None:
    moves = Moves({0: [(3, 1, 0.9), (4, 2, 0.1)], 1: [], 2: [(EOS, 3, 1.0)]})
    found = run(sample(moves, 2, seed=0), moves).hypotheses
    assert [one.tokens for one in found] == [(4, EOS)]
    assert found[0].log_probability == pytest.approx(math.log(0.1))


def test_options_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        sample(constraint_of([[2, EOS]]), 0, seed=0)
    with pytest.raises(UsageError, match="length penalty"):
        SampleSearch(SampleSearchOptions()).check(3, 1.0)

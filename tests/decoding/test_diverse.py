"""Groups are kept apart, the penalty is in no score, and no path comes twice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.decoding.search import Search, run
from kgqa.decoding.searches import DiverseSearch, beam
from kgqa.errors import UsageError
from kgqa.registry import SEARCHES
from tests.decoding.languages import EOS, Moves, TableScorer, constraint_of, random_language

if TYPE_CHECKING:
    from kgqa.trie.constraint import Constraint


def diverse_beam(
    constraint: Constraint, k: int, *, length_penalty: float = 0.0, **options: Any
) -> Search:
    strategy = DiverseSearch(SEARCHES.options("diverse", options))
    return strategy.start(constraint, k, length_penalty)


@given(
    seed=st.integers(0, 10_000),
    count=st.integers(1, 60),
    k=st.integers(1, 12),
    share=st.integers(1, 4),
    penalty=st.sampled_from([0.0, 0.5, 1.0, 5.0]),
    length_penalty=st.sampled_from([0.0, 1.0]),
)
@settings(max_examples=150)
def test_k_different_paths_come_with_their_true_scores(
    seed: int, count: int, k: int, share: int, penalty: float, length_penalty: float
) -> None:
    rows = random_language(seed, count)
    constraint = constraint_of(rows)
    table = TableScorer(constraint, seed)
    groups = max(1, k // share)
    found = run(
        diverse_beam(
            constraint,
            k,
            groups=groups,
            diversity_penalty=penalty,
            length_penalty=length_penalty,
        ),
        table,
    ).hypotheses
    assert len(found) == min(k, count)
    assert len({one.tokens for one in found}) == len(found)
    assert {one.tokens for one in found} <= {tuple(row) for row in rows}
    for one in found:
        assert one.log_probability == pytest.approx(table.total(one.tokens))
    ranks = [one.rank_score(length_penalty) for one in found]
    assert ranks == sorted(ranks, reverse=True)
    for demand in table.demands:
        assert len(set(demand.states)) == len(demand.states)


@given(seed=st.integers(0, 10_000), count=st.integers(1, 60), k=st.integers(1, 12))
@settings(max_examples=60)
def test_one_group_is_a_beam(seed: int, count: int, k: int) -> None:
    constraint = constraint_of(random_language(seed, count))
    table = TableScorer(constraint, seed)
    plain = run(beam(constraint, k), table).hypotheses
    found = run(diverse_beam(constraint, k, groups=1), table).hypotheses
    assert set(plain) <= set(found)
    if len(plain) == k:
        assert found == plain


def branches(first: float, second: float) -> Moves:
    """Two branches from the start, each with two ends."""
    return Moves(
        {
            0: [(2, 1, first), (3, 2, second)],
            1: [(4, 3, 0.6), (5, 4, 0.4)],
            2: [(6, 5, 0.9), (7, 6, 0.1)],
            **{state: [(EOS, 10 + state, 1.0)] for state in (3, 4, 5, 6)},
        }
    )


@pytest.mark.parametrize(("penalty", "other_branch"), [(1.5, False), (1.7, True)])
def test_the_penalty_decides_when_a_group_leaves_the_best_branch(
    penalty: float, other_branch: bool
) -> None:
    language = branches(0.8, 0.16)  # log 0.8 - log 0.16 is 1.609
    found = run(diverse_beam(language, 2, groups=2, diversity_penalty=penalty), language)
    texts = {hypothesis.tokens for hypothesis in found.hypotheses}
    assert texts == {(2, 4, EOS), (3, 6, EOS) if other_branch else (2, 5, EOS)}
    best = found.hypotheses[0]
    assert best.log_probability == pytest.approx(math.log(0.8 * 0.6))


def test_the_penalty_of_one_step_is_not_carried_to_the_next() -> None:
    """A prefix that a group chose in spite of the penalty goes on with its probability alone.

    The first group runs 2 and 3, and then 3 8 and 2 4. The second pays 1.5 for 2 and runs 2 and 9.
    At the next step 2 5 and 2 6 are its most probable moves; had 2 still to pay, 9 7 would be.
    """
    language = Moves(
        {
            0: [(2, 1, 0.6), (3, 2, 0.3), (9, 3, 0.1)],
            1: [(4, 4, 0.3), (5, 5, 0.3), (6, 6, 0.2), (10, 7, 0.2)],
            2: [(8, 8, 1.0)],
            3: [(7, 9, 0.9), (11, 10, 0.1)],
            **{state: [(EOS, 20 + state, 1.0)] for state in range(4, 11)},
        }
    )
    found = run(diverse_beam(language, 4, groups=2, diversity_penalty=1.5), language).hypotheses
    assert [one.tokens[:-1] for one in found] == [(3, 8), (2, 4), (2, 5), (2, 6)]
    assert [math.exp(one.log_probability) for one in found] == pytest.approx(
        [0.3, 0.18, 0.18, 0.12]
    )


def test_groups_that_follow_one_path_still_bring_k_paths() -> None:
    """Without a penalty every group of one runs after the first; the rest comes from behind."""
    constraint = constraint_of(random_language(11, 40))
    table = TableScorer(constraint, 11)
    found = run(diverse_beam(constraint, 10, diversity_penalty=0.0), table).hypotheses
    assert len({one.tokens for one in found}) == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "at least 1"),
        ({"k": 4, "groups": 5}, "1 to 4 groups"),
        ({"k": 4, "groups": 0}, "groups"),
        ({"k": 4, "diversity_penalty": -1.0}, "penalty"),
        ({"k": 4, "diversity_penalty": math.nan}, "penalty"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        diverse_beam(constraint_of([[2, EOS]]), **options)

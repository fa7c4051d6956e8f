from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.evaluation.metrics import interval

SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=60)


@given(SHARES)
def test_an_interval_holds_within_the_range_of_the_values(shares: list[float]) -> None:
    found = interval(shares)
    assert found is not None
    low, high = found
    assert min(shares) - 1e-9 <= low <= high <= max(shares) + 1e-9
    assert interval(shares) == found  # the seed is fixed


def test_the_interval_of_a_share_is_the_one_of_theory() -> None:
    shares = [1.0] * 300 + [0.0] * 700
    found = interval(shares)
    assert found is not None
    spread = 1.96 * (0.3 * 0.7 / 1000) ** 0.5
    assert found == pytest.approx((0.3 - spread, 0.3 + spread), abs=0.004)


def test_more_questions_make_it_narrower() -> None:
    few, many = (interval([1.0, 0.0] * count) for count in (10, 1_000))
    assert few is not None
    assert many is not None
    assert many[1] - many[0] < (few[1] - few[0]) / 5


def test_many_questions_are_drawn_in_blocks() -> None:
    found = interval([1.0, 0.0] * 2_000)  # more than one block
    assert found == pytest.approx(
        (0.5 - 1.96 * 0.5 / 4_000**0.5, 0.5 + 1.96 * 0.5 / 4_000**0.5), abs=0.002
    )
    assert interval([]) is None

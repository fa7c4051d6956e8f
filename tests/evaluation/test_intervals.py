from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.evaluation.metrics import interval, resampled_sums

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
    found = interval(shares, resamples=5_000)
    assert found is not None
    spread = 1.96 * (0.3 * 0.7 / 1000) ** 0.5
    assert found == pytest.approx((0.3 - spread, 0.3 + spread), abs=0.004)


def test_more_questions_make_it_narrower() -> None:
    few, many = (interval([1.0, 0.0] * count) for count in (10, 1_000))
    assert few is not None
    assert many is not None
    assert many[1] - many[0] < (few[1] - few[0]) / 5


def test_a_ratio_is_drawn_with_its_weights() -> None:
    assert interval([1.0, 0.0, 0.0], [1.0, 0.0, 0.0]) == (1.0, 1.0)
    assert interval([0.0, 0.0], [0.0, 0.0]) is None
    assert interval([]) is None
    with pytest.raises(ValueError, match="one length"):
        interval([1.0], [1.0, 2.0])


def test_columns_are_drawn_together_however_many_there_are() -> None:
    values = np.random.default_rng(1).random((3_000, 2))
    both = resampled_sums(values, resamples=3_000)  # more than one block
    assert both.shape == (3_000, 2)
    assert both[:, :1] == pytest.approx(resampled_sums(values[:, :1], resamples=3_000))
    assert both.mean(axis=0) == pytest.approx(values.sum(axis=0), rel=0.01)

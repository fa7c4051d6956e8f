"""The width of a forward follows what forward passes of some widths took."""

from __future__ import annotations

import itertools

import pytest

from kgqa.decoding.budget import CLOSE, FORWARDS, WIDTHS, by_hand, choose, measure
from kgqa.errors import UsageError
from tests.decoding.languages import tiny_model


def test_where_width_costs_nothing_the_widest_is_chosen() -> None:
    assert choose(dict.fromkeys(WIDTHS, 5.0)) == max(WIDTHS)


def test_where_every_token_costs_the_same_look_ahead_does_not_pay() -> None:
    assert choose({width: float(width) for width in WIDTHS}) == min(FORWARDS)


def test_a_forward_that_is_nearly_free_is_filled() -> None:
    times = {width: 10.0 if width <= 64 else 100.0 for width in WIDTHS}
    assert choose(times) == 64


def test_forwards_are_weighed_against_tokens() -> None:
    """A processor that is no device of wide forward passes: what is least is time, not forward passes."""
    times = {1: 47.0, 16: 87.0, 32: 115.0, 64: 172.0, 96: 215.0, 128: 254.0, 256: 545.0}
    best = choose(times)
    least = min(times[width] * FORWARDS[width] for width in FORWARDS)
    close = [width for width in FORWARDS if times[width] * FORWARDS[width] <= CLOSE * least]
    assert best == max(close)  # times that near are measured no better


def test_more_budget_never_needs_more_forwards() -> None:
    assert all(FORWARDS[a] >= FORWARDS[b] for a, b in itertools.pairwise(sorted(FORWARDS)))
    assert set(WIDTHS) == {1, *FORWARDS}


def test_a_model_is_measured_and_left_as_it_was() -> None:
    ticks = itertools.count()
    budget = measure(tiny_model("llama"), clock=lambda: float(next(ticks)))
    assert budget.tokens == max(WIDTHS)  # by this clock every forward takes a second
    assert set(budget.milliseconds.values()) == {1000.0}


def test_a_budget_below_one_is_refused() -> None:
    assert by_hand(7).tokens == 7
    with pytest.raises(UsageError, match="at least 1"):
        by_hand(0)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kgqa.evaluation.record import Record

from kgqa.errors import DataError
from kgqa.evaluation.compare import compare, sign_test


def run(*hits: float, start: int = 0, **more: float) -> dict[str, Record]:
    return {
        f"q{number}": Record(f"q{number}", "?", "right", hits_at_1=hit, f1=hit, **more)
        for number, hit in enumerate(hits, start)
    }


def test_questions_are_joined_by_id_and_those_of_one_run_counted() -> None:
    a, b = run(1, 1, 0, 0, 1), run(0, 1, 1, 0, start=1)
    found = compare(a, b)  # shared: q1..q4
    assert (found.shared, found.only_a, found.only_b) == (4, ("q0",), ())
    assert found.right == {"both": 0, "only_a": 2, "only_b": 2, "neither": 0}
    hits = found.differences[0]
    assert (hits.figure, hits.a, hits.b, hits.difference) == ("hits_at_1", 50.0, 50.0, 0.0)
    assert (hits.better, hits.worse, hits.p_value) == (2, 2, 1.0)
    assert found.to_json()["only_a"] == 1


def test_the_interval_is_of_the_difference_not_of_the_two_runs() -> None:
    a = run(*([1, 0] * 200))
    b = run(*([1, 0] * 195), *([1, 1] * 5))  # five questions better, none worse
    hits = compare(a, b).differences[0]
    assert hits.difference == pytest.approx(1.25)
    assert 0.0 <= hits.low < 1.25 < hits.high < 3.0  # each run's own would be about ± 5
    assert hits.p_value == 0.0625


def test_equal_runs_do_not_differ() -> None:
    for one in compare(run(1, 0, 1), run(1, 0, 1)).differences:
        assert (one.difference, one.low, one.high, one.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_figures_that_not_every_question_has_are_compared_where_both_do() -> None:
    a, b = run(1, 1, accuracy=1.0), run(1, 1, accuracy=0.0)
    b["q1"] = Record("q1", "?", "right")
    accuracy = next(one for one in compare(a, b).differences if one.figure == "accuracy")
    assert (accuracy.questions, accuracy.difference) == (1, -100.0)
    assert "path_recall" not in {one.figure for one in compare(a, b).differences}


def test_settings_that_differ_are_named() -> None:
    found = compare(run(1), run(1), {"k": 5, "kg": "x"}, {"k": 10, "kg": "x", "hops": 3})
    assert found.settings == {"k": (5, 10), "hops": (None, 3)}


def test_runs_without_a_common_question_are_an_error() -> None:
    with pytest.raises(DataError, match="in common"):
        compare(run(1), run(1, start=5))


def test_sign_test_by_hand() -> None:
    assert sign_test(0, 0) == 1.0
    assert sign_test(5, 0) == 0.0625
    assert sign_test(1, 9) == pytest.approx(22 / 1024)


@given(st.integers(0, 3_000), st.integers(0, 3_000))
def test_sign_test_is_a_probability_and_symmetric(better: int, worse: int) -> None:
    assert 0.0 <= sign_test(better, worse) == sign_test(worse, better) <= 1.0

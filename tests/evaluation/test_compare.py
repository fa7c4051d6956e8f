from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.errors import DataError
from kgqa.evaluation.compare import compare, sign_test
from kgqa.evaluation.record import Record


def run(*hits: float, start: int = 0, **more: float) -> dict[str, Record]:
    return {
        f"q{number}": Record(
            id=f"q{number}", question="?", outcome="right", hits_at_1=hit, f1=hit, **more
        )
        for number, hit in enumerate(hits, start)
    }


def test_questions_are_joined_by_id_and_those_of_one_run_counted() -> None:
    a, b = run(1, 1, 0, 0, 1), run(0, 1, 1, 0, start=1)
    found = compare(a, b)  # shared: q1..q4
    assert (found.shared, found.only_a, found.only_b) == (4, ("q0",), ())
    assert found.right == {"both": 0, "only_a": 2, "only_b": 2, "neither": 0}
    hits = found.figures["hits_at_1"]
    assert (hits.a, hits.b, hits.difference) == (50.0, 50.0, 0.0)
    assert (hits.better, hits.worse, hits.p_value) == (2, 2, 1.0)
    shown = json.loads(json.dumps(found.to_dict()))
    assert (shown["only_a"], shown["only_b"], shown["settings"]) == (1, 0, {})
    assert shown["figures"]["hits_at_1"]["interval"] == list(hits.interval)


def test_the_interval_is_of_the_difference_not_of_the_two_runs() -> None:
    a = run(*([1, 0] * 200))
    b = run(*([1, 0] * 195), *([1, 1] * 5))  # five questions better, none worse
    hits = compare(a, b).figures["hits_at_1"]
    assert hits.difference == pytest.approx(1.25)
    low, high = hits.interval
    assert 0.0 <= low < 1.25 < high < 3.0  # each run's own would be about ± 5
    assert hits.p_value == 0.0625


def test_equal_runs_do_not_differ() -> None:
    for value in compare(run(1, 0, 1), run(1, 0, 1)).figures.values():
        assert (value.difference, value.interval, value.p_value) == (0.0, (0.0, 0.0), 1.0)


def test_figures_that_not_every_question_has_are_compared_where_both_do() -> None:
    a, b = run(1, 1, accuracy=1.0), run(1, 1, accuracy=0.0)
    b["q1"] = Record(id="q1", question="?", outcome="right")
    accuracy = compare(a, b).figures["accuracy"]
    assert (accuracy.questions, accuracy.difference) == (1, -100.0)
    assert "path_recall" not in compare(a, b).figures


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

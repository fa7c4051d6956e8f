"""Scores that sum to at most 1, a cut, and when there is no answer."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.answers.aggregate import AggregateOptions, aggregate, relation_paths
from kgqa.answers.answer import ScoredPath
from kgqa.answers.confidence import ConfidenceOptions, judge
from kgqa.errors import UsageError
from tests.answers.test_aggregate import EVEN, path, scored

PATHS = [
    scored(0.5, path("t", "r", "a")),
    scored(0.2, path("t", "r", "b")),
    scored(0.1, path("t", "s", "c")),
]


def judged(paths: list[ScoredPath], aggregating: AggregateOptions = EVEN, **options):
    found = relation_paths(paths)
    candidates = aggregate(found, paths, aggregating)
    return judge(candidates, found, ConfidenceOptions(**options))


def test_the_answers_are_those_that_weigh_nearly_as_much_as_the_first() -> None:
    assert judged(PATHS, cut=0.5).chosen == 2
    assert judged(PATHS, cut=1.0).chosen == 2, "what weighs the same is chosen with it"
    assert judged(PATHS, cut=0.0).chosen == 3
    sharp = AggregateOptions(sharpness=1.0, support=0.0)
    assert judged(PATHS, sharp, cut=0.5).chosen == 1


def test_scores_are_shares_of_what_was_decoded() -> None:
    found = judged(PATHS)
    assert sum(found.scores) == pytest.approx(0.8)
    assert found.scores[0] == found.scores[1] > found.scores[2]


def test_confidence_is_that_of_what_is_asked_for_not_of_one_tail() -> None:
    assert judged(PATHS).confidence == pytest.approx(0.7)


def test_thin_evidence_is_no_answer() -> None:
    found = judged(PATHS, doubt=0.75)
    assert found.thin
    assert found.chosen == 0
    assert sum(found.scores) == pytest.approx(0.8), "the candidates keep their scores"
    assert not judged(PATHS, doubt=0.65).thin
    nothing = judge([], [], ConfidenceOptions())
    assert nothing.thin
    assert nothing.scores == ()


@pytest.mark.parametrize("options", [{"cut": 1.1}, {"doubt": -0.1}, {"cut": float("nan")}])
def test_thresholds_are_shares(options) -> None:
    with pytest.raises(UsageError, match="share from 0 to 1"):
        ConfidenceOptions(**options)


@given(
    st.lists(
        st.tuples(st.floats(-2000, 0), st.sampled_from("st"), st.sampled_from("rq")),
        min_size=1,
        max_size=12,
    ),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_scores_fall_and_never_sum_to_more_than_one(drawn, cut, doubt) -> None:
    paths = [
        ScoredPath("x", s, "x", (path(h, r, f"e{number}"),))
        for number, (s, h, r) in enumerate(drawn)
    ]
    found = judged(paths, AggregateOptions(), cut=cut, doubt=doubt)
    assert list(found.scores) == sorted(found.scores, reverse=True)
    assert math.fsum(found.scores) <= 1.0 + 1e-9
    assert 0.0 <= found.confidence <= 1.0
    assert found.chosen >= (0 if found.thin else 1)
    assert found.thin == (found.confidence < doubt)

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from kgqa.linking.mentions import QuestionWords
from kgqa.linking.score import WEIGHTS, features_of

DEGREES = st.integers(min_value=0, max_value=10**8)
MATCHES = st.sampled_from(["name", "alias", "form", "partial"])
MENTIONS = st.sampled_from(
    QuestionWords('what is the name of "It" by Stephen King in New York').mentions()
)
SHARES = st.floats(0, 1)


@given(MENTIONS, MATCHES, DEGREES, SHARES, SHARES, SHARES, SHARES, SHARES)
def test_points_explain_the_score(
    mention, match, degree, coverage, inside, beside, fit, spelling
) -> None:
    features = features_of(
        mention,
        match,
        degree,
        coverage=coverage,
        inside=inside,
        beside=beside,
        type_fit=fit,
        spelling=spelling,
    )
    assert 0.0 <= features.score <= 1.0
    assert all(0.0 <= value <= 1.0 for value in features.values().values())
    points = features.points()
    assert points.keys() == WEIGHTS.keys()
    total = math.fsum(points.values())
    assert math.isclose(features.score, min(1.0, max(0.0, total)), abs_tol=1e-3)


@given(MENTIONS, MATCHES, DEGREES, DEGREES)
def test_better_connected_is_never_worse(mention, match, one, other) -> None:
    low, high = sorted((one, other))
    assert features_of(mention, match, low).score <= features_of(mention, match, high).score


@given(MENTIONS, st.integers(min_value=1, max_value=10**8))
def test_name_beats_alias_beats_form_beats_partial(mention, degree) -> None:
    scores = [
        sum(features_of(mention, match, degree).points().values())
        for match in ("name", "alias", "form", "partial")
    ]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 4


def test_what_speaks_for_an_entity_helps_and_what_speaks_against_it_hurts() -> None:
    mention = next(m for m in QuestionWords("where is utica").mentions() if m.form == "utica")
    plain = features_of(mention, "name", 10).score
    assert features_of(mention, "name", 10, beside=1.0).score > plain
    assert features_of(mention, "name", 10, type_fit=1.0).score > plain
    assert features_of(mention, "name", 10, spelling=1.0).score > plain
    assert features_of(mention, "name", 10, inside=1.0).score < plain
    assert features_of(mention, "name", 0).score < plain
    assert features_of(mention, "name", 10, best_known=0.2).score < plain


def test_everyday_word_scores_below_a_rare_one() -> None:
    found = {m.form: m for m in QuestionWords("what name has avatar").mentions()}
    common = features_of(found["name"], "name", 1000).score
    assert common < features_of(found["avatar"], "name", 1).score

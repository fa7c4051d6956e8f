from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kgqa.linking.mentions import mentions
from kgqa.linking.score import folded, partial_coverage, parts_of

DEGREES = st.integers(min_value=0, max_value=10**8)
MATCHES = st.sampled_from(["name", "alias", "form", "partial"])
MENTIONS = st.sampled_from(mentions('what is the name of "It" by Stephen King in New York'))


@given(MENTIONS, MATCHES, DEGREES, st.floats(0, 1), st.booleans(), st.booleans())
def test_score_is_a_share(mention, match, degree, coverage, inside, context) -> None:
    parts = parts_of(mention, match, degree, coverage=coverage, inside=inside, context=context)
    assert 0.0 <= parts.score <= 1.0


@given(MENTIONS, MATCHES, DEGREES, DEGREES)
def test_better_connected_is_never_worse(mention, match, one, other) -> None:
    low, high = sorted((one, other))
    assert parts_of(mention, match, low).score <= parts_of(mention, match, high).score


@given(MENTIONS, DEGREES)
def test_name_beats_alias_beats_form_beats_partial(mention, degree) -> None:
    scores = [
        parts_of(mention, match, degree).score for match in ("name", "alias", "form", "partial")
    ]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 4


@given(MENTIONS, MATCHES, DEGREES)
def test_neighbour_beside_it_helps_and_a_longer_name_round_it_hurts(mention, match, degree) -> None:
    plain = parts_of(mention, match, degree).score
    assert parts_of(mention, match, degree, context=True).score > plain
    assert parts_of(mention, match, degree, inside=True).score < plain


def test_everyday_word_scores_below_a_rare_one() -> None:
    found = {m.form: m for m in mentions("what name has avatar")}
    assert parts_of(found["name"], "name", 1000).score < parts_of(found["avatar"], "name", 1).score


def test_accents_fold_on_latin_letters_only() -> None:
    assert folded("hugo chávez") == "hugo chavez"
    assert folded("が") == "が"
    assert folded("한국") == "한국"


def test_partial_names() -> None:
    assert partial_coverage("obama", "barack obama") == 0.5
    assert partial_coverage("hugo chavez", "hugo chávez") == 1.0
    assert partial_coverage("stephen r covey", "stephen richards covey") > 0.5
    assert partial_coverage("xyzzy smith", "will smith") == 0.0
    assert partial_coverage("john pemberton create", "john c pemberton") == 0.0
    assert partial_coverage("hit", "adolf hitler") == 0.0
    assert partial_coverage("", "anything") == 0.0

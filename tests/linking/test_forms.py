from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.graph.names import normalise
from kgqa.linking.forms import is_abbreviation, other_forms, place_of
from kgqa.linking.words import COMMON, FUNCTION


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("us", "united states of america"),
        ("st louis", "saint louis"),
        ("ny giants", "new york giants"),
        ("peruvian", "peru"),
        ("south korean", "south korea"),
        ("languages", "language"),
        ("carpathian mountain", "carpathian mountains"),
        ("jeffersons", "the jeffersons"),
        ("islamic", "islam"),
        ("battle of alamo", "battle of the alamo"),
        ("hugo chávez", "hugo chavez"),
    ],
)
def test_form_stands_for_name(written: str, meant: str) -> None:
    assert meant in other_forms(written)


def test_question_about_languages_prefers_the_language() -> None:
    plain = other_forms("german")
    about = other_forms("german", language=True)
    assert plain["germany"] > plain["german language"]
    assert about["german language"] > about["germany"]


def test_two_word_demonyms_stand_whole() -> None:
    assert place_of("north korean") == "north korea"
    assert place_of("korean") is None
    assert place_of("south") is None


def test_everyday_abbreviations_are_known() -> None:
    assert is_abbreviation("us")
    assert not is_abbreviation("bus")


@given(st.text(max_size=30).map(normalise))
def test_forms_are_normalised_likely_and_not_the_form_itself(form: str) -> None:
    for other, likelihood in other_forms(form).items():
        assert other == normalise(other)
        assert other != form
        assert 0.0 < likelihood <= 1.0


def test_word_lists_are_normalised_and_apart() -> None:
    assert all(word == normalise(word) for word in FUNCTION | COMMON)
    assert not FUNCTION & COMMON

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.graph.names import normalise
from kgqa.lexicon.vocabulary import COMMON, FUNCTION, same_person
from kgqa.linking.forms import folded, other_forms, partial_coverage


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
    assert "north korea" in other_forms("north korean")
    assert not {"north korea", "south korea"} & other_forms("korean").keys()


@given(st.text(max_size=30).map(normalise))
def test_forms_are_normalised_likely_and_not_the_form_itself(form: str) -> None:
    for other, likelihood in other_forms(form).items():
        assert other == normalise(other)
        assert other != form
        assert 0.0 < likelihood <= 1.0


def test_word_lists_are_normalised_and_apart() -> None:
    assert all(word == normalise(word) for word in FUNCTION | COMMON)
    assert not FUNCTION & COMMON


# ── parts of names ──────────────────────────────────────────────────────────────────────────


def test_accents_fold_on_latin_letters_only() -> None:
    assert folded("hugo chávez") == "hugo chavez"
    assert folded("が") == "が"
    assert folded("한국") == "한국"


@pytest.mark.parametrize(
    ("mention", "name", "share"),
    [
        ("obama", "barack obama", 0.5),
        ("hugo chavez", "hugo chávez", 1.0),
        ("teddy roosevelt", "theodore roosevelt", 1.0),
        ("barack hussein obama", "barack obama", 2 / 3),
        ("stephen r covey", "stephen covey", 2 / 3),
        ("xyzzy smith", "will smith", 0.0),
        ("john pemberton create", "john c pemberton", 0.0),
        ("hit", "adolf hitler", 0.0),
        ("stone brewing", "weston brewing", 0.0),
        ("b750 battery", "battery pack b540", 0.0),
        ("", "anything", 0.0),
    ],
)
def test_share_of_a_name(mention: str, name: str, share: float) -> None:
    assert partial_coverage(mention, name) == pytest.approx(share)


def test_an_initial_stands_for_its_name() -> None:
    assert partial_coverage("stephen r covey", "stephen richards covey") > 0.5


def test_nicknames_go_both_ways_and_join_no_two_names() -> None:
    assert same_person("bill", "william")
    assert same_person("william", "bill")
    assert not same_person("william", "robert")
    assert not same_person("bill", "bob")


@given(st.text(max_size=30).map(normalise), st.text(max_size=30).map(normalise))
def test_any_two_names_have_a_share(mention: str, name: str) -> None:
    assert 0.0 <= partial_coverage(mention, name) <= 1.0
    if mention:
        assert partial_coverage(mention, mention) == 1.0

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.graph.names import normalise
from kgqa.linking.nicknames import same_person
from kgqa.linking.partial import folded, partial_coverage


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

"""Relation paths in words: what the path ranker reads."""

from __future__ import annotations

import pytest

from kgqa.paths.words import relation_path_text, relation_phrase


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("suppliedBy", "supplied by"),
        ("hasXRayImage", "has x ray image"),
        ("is_supplied-by", "is supplied by"),
        ("https://data.example.net/def/approvedBy/", "approved by"),
        ("people.person.place_of_birth", "place of birth"),
        ("lead partner", "lead partner"),
        ("v1.2 release", "v1 2 release"),
        ("出生地", "出生地"),
        ("->", "->"),  # nothing of it is a word
    ],
)
def test_every_style_of_name_becomes_its_words(name: str, words: str) -> None:
    assert relation_phrase(name) == words


def test_a_path_says_which_way_each_relation_is_walked() -> None:
    phrases = ["supplied by", "made of", "office held", "holder"]
    assert relation_path_text([(0, -1)], phrases) == "x supplied by ?"
    assert relation_path_text([(1, -1)], phrases) == "? supplied by x"
    there_and_back = relation_path_text([(1, -1), (2, -1)], phrases, ["Steel", "Tin"])
    assert there_and_back == "y supplied by x, y made of ? such as Steel, Tin"
    through_a_mediator = relation_path_text([(4, 6)], phrases)
    assert through_a_mediator == "x office held holder ?"
    assert relation_path_text([(5, 7)], phrases) == "? office held holder x"
    long = relation_path_text([(0, -1)], phrases, ["n" * 200])
    assert len(long) < 70

"""Names whose words are written as one."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.lexicon import joined
from kgqa.lexicon.joined import split_joined

TABLE = {
    name: sorted(words.split())
    for name, words in tomllib.loads(
        files("kgqa.lexicon").joinpath("joined.toml").read_text("utf-8")
    ).items()
}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("orderdetails", "order details"),
        ("birdstrikes", "bird strikes"),
        ("quantityperunit", "quantity per unit"),
        ("reportsto", "reports to"),
        ("salesrep", "sales rep"),
        ("shipdate", "ship date"),
        ("gametag", "game tag"),
        ("orderno", "order no"),
    ],
)
def test_names_of_databases_in_small_letters_are_read_word_by_word(name: str, words: str) -> None:
    assert split_joined(name) == (*words.split(),)


@pytest.mark.parametrize("name", TABLE["whole"])
def test_words_that_could_be_split_are_not(name: str) -> None:
    assert split_joined(name) == (name,)
    assert split_joined(f"{name}s") == (f"{name}s",)


@pytest.mark.parametrize("name", ["nationality", "discovered", "commander", "", "a", "größe", "x9"])
def test_what_is_not_all_of_known_words_stays_as_it_is(name: str) -> None:
    assert split_joined(name) == (name,)


def test_a_cell_as_long_as_a_book_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its beginnings would be looked up, and kept."""

    def looked_up(word: str) -> str:
        raise AssertionError(len(word))

    monkeypatch.setattr(joined, "stem", looked_up)
    assert split_joined("acgt" * 1_000) == ("acgt" * 1_000,)


@given(st.lists(st.sampled_from(TABLE["parts"]), min_size=1, max_size=3))
def test_no_letter_is_lost(parts: list[str]) -> None:
    name = "".join(parts)
    assert "".join(split_joined(name)) == name


def test_no_word_of_the_tables_is_in_two_of_them() -> None:
    assert not {*TABLE["parts"]} & {*TABLE["whole"]}

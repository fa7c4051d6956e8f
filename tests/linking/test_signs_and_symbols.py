"""Signs and symbols in a question: a number is that number, a name says what it took."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa
from kgqa.linking.signs_and_symbols import as_written, is_other_value, is_taken_for

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = [
    ("Oslo", "record low", "-26"),
    ("Bergen", "record low", "-12"),
    ("C++", "maintained by", "Bjarne"),
    ("Oslo", "located in", "Norway"),
    ("Alpha", "price", "500 EUR"),
]


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    home = tmp_path_factory.mktemp("exact")
    with kgqa.ingest("triples", ROWS, kg="signs", home=home) as made:
        yield made


@pytest.mark.parametrize(
    ("question", "mention", "written"),
    [("Is it -26?", "26", "-26"), ("a C++ team", "C", "C++"), ("the A-26 road", "26", "26")],
)
def test_signs_and_symbols_belong_to_what_is_written(
    question: str, mention: str, written: str
) -> None:
    start = question.index(mention)
    assert as_written(question, start, start + len(mention)) == written


@pytest.mark.parametrize(
    ("text", "name", "other", "taken"),
    [
        ("26", "-26", True, False),
        ("\u221226", "-26", False, False),
        ("23", "23%", False, True),
        ("5000 EUR", "500 EUR", True, False),
        ("1000", "1,000 EUR", False, False),
        ("June 1998", "1998", True, False),
        ("Apollo", "Apollo 13", False, False),
        ("five", "5", False, False),
        ("C", "C#", False, True),
        ("checkout api", "Checkout-API", False, False),
    ],
)
def test_numbers_differ_by_sign_and_names_by_symbols(
    text: str, name: str, other: bool, taken: bool
) -> None:
    assert is_other_value(text, name) == other
    assert is_taken_for(text, name) == taken


def test_yes_is_said_of_the_number_with_its_sign_alone(kg: kgqa.KG) -> None:
    def said(question: str) -> list[str]:
        return [ranked.name for ranked in kg.ask(question, method="rank").answers]

    assert "yes" not in said("Is the record low of Oslo 26?")
    assert said("Is the record low of Oslo -26?") == ["yes"]


def test_no_value_is_a_misspelling_of_another(kg: kgqa.KG) -> None:
    assert kg.ask("What has the price 500 EUR?", method="rank").answers[0].name == "Alpha"
    for question in ("What has the price 5000 EUR?", "What has a price in EUR?"):
        with pytest.raises(kgqa.KgqaError, match="Nothing in the question"):
            kg.ask(question, method="rank")


def test_a_name_with_other_symbols_is_taken_with_a_note(kg: kgqa.KG) -> None:
    answer = kg.ask("Who is C# maintained by?", method="rank")
    assert answer.notes == ('Took "C#" for "C++" ("C++").',)
    assert not kg.ask("Who is C++ maintained by?", method="rank").notes

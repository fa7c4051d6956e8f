"""Texts as numbers: all of a property are read in one way, or are not numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.graph.amounts import NumberTexts, is_amount

if TYPE_CHECKING:
    from decimal import Decimal


def read_as(texts: list[str]) -> NumberTexts:
    known = NumberTexts()
    for text in texts:
        known.add(text)
    return known


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["1,250", "980", "75"], [1250, 980, 75]),
        (["$1,200.50", "$300.00", "$89.99"], [1200.5, 300.0, 89.99]),
        (["45%", "7 %", "12.5%"], [45.0, 7.0, 12.5]),
        (["12 kg", "900 g", "2.5 kg"], [12.0, 0.9, 2.5]),
        (["900 g", "80 g"], [900, 80]),
        (["$157 Billion", "$1.5 Million"], [157e9, 1.5e6]),
        (["$1.2B", "$850M", "$3.05b"], [1.2e9, 850e6, 3.05e9]),
        (["1,200", "(3,450)"], [1200, -3450]),
        (["$1,200", "($3,450)", "$(120)"], [1200, -3450, -120]),
        (["..", "4.5"], [None, 4.5]),
        (["9,5", "10,25", "11"], [9.5, 10.25, 11.0]),
        (["1.234,50 €", "999,99 €"], [1234.5, 999.99]),
        (["3 m", "120 cm"], [3.0, 1.2]),
        (["41", "NA", "n/a", "-", "1,358"], [41, None, None, None, 1358]),
        (["1e-3", "2E5", "1.5"], [0.001, 2e5, 1.5]),
        (["-44", "14"], [-44, 14]),
    ],
)
def test_amounts_are_numbers(texts: list[str], numbers: list[float | None]) -> None:
    form = read_as(texts).form()
    assert form is not None
    assert [form.read(text) for text in texts] == pytest.approx(numbers)


@pytest.mark.parametrize(
    "texts",
    [
        ["007", "011", "42"],
        ["1E5", "2E7", "3E2"],
        ["1.10", "1.1", "1.9"],
        ["1.2.3", "1.10.0"],
        ["NA", "unknown"],
        ["12 apples", "3 pears"],
        ["(1990)", "(2001)"],  # years, no losses
        ["64B", "3B"],
        ["Oak", "Elm", "3"],
    ],
)
def test_codes_and_words_are_no_numbers(texts: list[str]) -> None:
    assert read_as(texts).form() is None


def test_a_version_is_a_code_by_its_name() -> None:
    known = read_as(["1.10", "1.2", "1.9"])
    assert known.form("price") is not None
    assert known.form("latestVersion") is None


@pytest.mark.parametrize(
    ("texts", "unordered"),
    [
        (["12 kg", "900 g", "5 m"], True),
        (["12", "9 kg", "30"], True),
        (["12a", "3", "170", "4"], True),
        (["10115", "01067", "80331"], False),  # of one length: their order is that of the text
        (["$40", "€30", "£50"], True),
        (["10-20", "5-8", "100-120"], True),
        (["3:45", "61:10", "120:00"], True),
        (["2nd", "10th", "1st"], True),
        (["2020-11", "2021-03", "2019"], False),
        (["Oak", "Elm", "3"], False),
    ],
)
def test_what_cannot_be_compared_has_no_order(texts: list[str], *, unordered: bool) -> None:
    known = read_as(texts)
    assert known.form() is None
    assert known.unordered is unordered


@given(st.lists(st.integers(-(10**40), 10**40), min_size=1))
def test_large_integers_stay_exact(numbers: list[int]) -> None:
    texts = [str(number) for number in numbers]
    form = read_as(texts).form()
    assert form is not None
    assert [form.read(text) for text in texts] == numbers


@given(st.lists(st.decimals(0, 10**9, places=2), min_size=1), st.sampled_from(["$", "€", ""]))
def test_thousands_do_not_change_a_number(amounts: list[Decimal], currency: str) -> None:
    texts = [f"{currency}{amount:,.2f}" for amount in amounts]
    form = read_as(texts).form()
    assert form is not None
    assert [form.read(text) for text in texts] == [float(amount) for amount in amounts]


@given(
    st.lists(st.sampled_from(["1.5", "1,250", "9,5", "12 kg", "NA", "007", "1.10", "10-20", "x"]))
)
def test_two_parts_together_are_the_whole(texts: list[str]) -> None:
    whole, half = read_as(texts), len(texts) // 2
    together = read_as(texts[:half])
    together.merge(read_as(texts[half:]))
    assert (together.form(), together.unordered) == (whole.form(), whole.unordered)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("$157 Billion", True), ("44 BC", True), ("1.5", True), ("Area 51", False), ("n/a", False)],
)
def test_a_text_alone_is_an_amount_as_among_others(text: str, is_one: bool) -> None:
    assert is_amount(text) == is_one == bool(read_as([text]).amounts)

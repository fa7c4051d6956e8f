"""A question without the name of its topic entity."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.linking.masking import without_name


@pytest.mark.parametrize(
    ("question", "names", "asked"),
    [
        ("Who runs the Aurora grant?", ["AURORA: The Arctic"], "Who runs the x grant?"),
        ("who do we buy P-1013 from", ["Torque sensor", "P-1013"], "who do we buy x from"),
        ("chez le Ile aux Herons?", ["Île aux Hérons"], "chez le x?"),
        ("What is made in Lyon?", ["Paris"], "What is made in Lyon?"),
        ("Is Mary Ann Evans's house open?", ["Mary Ann Evans"], "Is x's house open?"),
        ("Did Ann Roe teach Bea Roe?", ["Bea Roe"], "Did Ann Roe teach x?"),
        ("a flight from Riga to Riga", ["Riga"], "a flight from x to Riga"),
        ("what of the batery pack B400 in the battery room", ["Battery pack B400"],
         "what of the x in the battery room"),
    ],
)  # fmt: skip
def test_the_words_that_name_the_topic_are_replaced(
    question: str, names: list[str], asked: str
) -> None:
    assert without_name(question, names, "x") == asked


@given(st.text(max_size=60), st.lists(st.text(max_size=12), max_size=3))
def test_what_is_left_stands_as_it_was(question: str, names: list[str]) -> None:
    asked = without_name(question, names, "\0")
    before, _, after = asked.partition("\0")
    assert question.startswith(before)
    assert question.endswith(after)

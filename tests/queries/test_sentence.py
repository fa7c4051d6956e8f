"""Plans in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.queries.sentence import sentence
from kgqa.queries.text import parse_plan
from tests.queries.made import graphs, plans


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ("Movie | give count Movie", "The number of movies."),
        (
            "Country [official language]> * & Country borders> Country#2 | give Country, count *",
            "Country, the number of official languages; where country has official language, and "
            "country borders other country.",
        ),
        (
            "Customer <customer Order | desc count Order | limit 1 | give Customer, count Order",
            "Customer, the number of orders; where order has customer; the first by the number of "
            "orders, most first.",
        ),
        (
            'Person DIRECTED> Movie | Person = "Ron Howard" | give Movie.released',
            'The released of movie; where "Ron Howard" directed movie.',
        ),
        (
            "Customer | without Customer <customer Order | give Customer",
            "Customer; where not (order has customer).",
        ),
        (
            "Order | give month Order.date, count Order",
            "The month of the date, the number of orders.",
        ),
        (
            "Film | desc Film.year | limit 3 | then Film <acted_in Person | give Person",
            "Person; of these: Film; the first 3 by the year, most first; where person acted in "
            "film.",
        ),
        (
            'Employee boss*> Employee | Employee#2 = "Fuller" | give Employee',
            'Employee; where employee has boss "Fuller" (one or more times over).',
        ),
    ],
)
def test_a_plan_in_words(plan: str, words: str) -> None:
    assert sentence(parse_plan(plan)) == words


@given(st.data())
def test_every_plan_has_words(data: st.DataObject) -> None:
    plan: Any = data.draw(plans(data.draw(graphs())))
    words = sentence(plan)
    assert words[0].isupper() or not words[0].isalpha()
    assert words.endswith(".")
    assert plan.limit is None or plan.limit == 1 or f"first {plan.limit}" in words.casefold()

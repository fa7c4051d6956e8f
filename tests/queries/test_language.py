"""Whatever is written in the language of plans is a plan that fits the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kgqa.queries.check import check
from kgqa.queries.language import PlanConstraint, PlanLanguage, PlanLiterals
from kgqa.queries.text import parse_plan
from tests.queries.shop import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

STATED = PlanLiterals(
    numbers=(3, 20, 1.5),
    dates=("1997",),
    texts={
        ("Product", "productName"): ("Chai",),
        ("Supplier", ""): ("Exotic Liquids",),
        ("Order", "shipCountry"): ("UK", "USA"),
    },
    words=("tea",),
)
LANGUAGE = PlanLanguage(SCHEMA, STATED)


class Bytes:
    """Each byte is a token, and 0 ends a text."""

    eos_id, vocab_size, fingerprint = 0, 256, "bytes"

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(text.encode()) for text in texts]


constraint = PlanConstraint(LANGUAGE, Bytes())


def write(text: str) -> list[str]:
    """Return the options that ``text`` is written with."""
    state, taken = LANGUAGE.start(), []
    while not LANGUAGE.is_end(state):
        rest = text[len(state.text) :]
        options = [
            (o, s) for o, s in LANGUAGE.options(state) if rest.startswith(o) and (o or not rest)
        ]
        option, state = max(options, key=lambda one: len(one[0]))
        taken.append(option)
    return taken


def test_a_plan_is_written_option_by_option() -> None:
    text = (
        'Supplier SUPPLIES> Product | Supplier = "Exotic Liquids" | Product.unitPrice > 20'
        " | desc Product.unitPrice | limit 3 | give Product.productName, Supplier"
    )
    assert write(text) == [
        "Supplier", " SUPPLIES> Product", " | Supplier =", ' "Exotic Liquids"',
        " | Product.unitPrice >", " 20", " | desc Product.unitPrice", " | limit 3",
        " | give Product.productName", ", Supplier", "",
    ]  # fmt: skip
    write("Product <ORDERS Order | count Order > 20 | desc count Order | give Product, count Order")
    write("Supplier | without Supplier SUPPLIES> Product | give count Supplier")
    write('Order | Order.orderDate >= "1997" | Order.shipCountry = "UK" | give Order')


def test_a_literal_stands_only_where_it_can_hold() -> None:
    start = next(s for o, s in LANGUAGE.options(LANGUAGE.start()) if o == "Product")
    texts = {option for option, _ in LANGUAGE.options(start)}
    assert " | Product.productName =" in texts
    assert " | Product.tags =" not in texts, "nothing that is stated is a tag"
    assert not any("ORDERS> " in text for text in texts), "products order nothing"
    assert not PlanLanguage(SCHEMA).options(
        next(s for o, s in LANGUAGE.options(start) if o == " | Product.unitPrice >")
    ), "no number is stated"


@given(st.data())
def test_what_is_chosen_is_a_plan_that_fits(data: st.DataObject) -> None:
    state = LANGUAGE.start()
    random = data.draw(st.randoms(use_true_random=False))
    while not LANGUAGE.is_end(state):
        options = LANGUAGE.options(state)
        assert options, f"a dead end: {state}"
        _, state = random.choice(options)
    plan = LANGUAGE.plan(state)
    check(plan, SCHEMA)
    assert str(plan) == str(parse_plan(state.text))


@given(st.data())
def test_tokens_write_what_options_write(data: st.DataObject) -> None:
    state, tokens = constraint.start(), []
    random = data.draw(st.randoms(use_true_random=False))
    while not constraint.is_end([state])[0]:
        moves = constraint.expand([state])
        assert len(moves.token)
        assert (np.diff(moves.token) > 0).all()
        place = random.randrange(len(moves.token))
        tokens.append(int(moves.token[place]))
        state = int(moves.state[place])
    assert len(constraint.expand([state]).token) == 0
    assert tokens[-1] == 0
    assert str(constraint.plan(state)) == str(parse_plan(bytes(tokens[:-1]).decode()))

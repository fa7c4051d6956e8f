"""A plan's text is read and written by one grammar."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.errors import PlanError
from kgqa.queries.plan import Comparison, Hop, NodeRef, Plan, PropertyRef
from kgqa.queries.text import parse_plan

PLANS = [
    "Product <ORDERS Order | desc count Order | limit 5 | give Product.productName, count Order",
    'Supplier SUPPLIES> Product | Supplier.country = "UK" | desc Product.unitPrice | limit 3'
    " | give Product.productName",
    "Employee REPORTS_TO> Employee#2 | give Employee, Employee#2",
    "Person DIRECTED> Movie & Person WROTE> Movie | give Person",
    "Person DIRECTED> Movie <WROTE Person#1 | give Person",
    "Customer | without Customer PURCHASED> Order where Order.freight > 3.5 and Order.a missing"
    " | give Customer",
    "Movie | desc Movie.released | skip 1 | limit 1 | give Movie",
    "Movie | desc Movie.released | limit 3 | then Movie <ACTED_IN Person | give Person.name",
    "Order | by Order.a, Order.b | desc count Order | give Order.a, count Order",
    'FOLLOWS FOLLOWS> FOLLOWS#2 | FOLLOWS>.since >= "1999" | count FOLLOWS> > 2 | give FOLLOWS',
    'Employee REPORTS_TO*> Employee#2 | Employee#2 in "A", "B" | give Employee',
    "* [a | give b]> [by] | [by].[x ]] y] not missing | give *",
    "Order ORDERS> Product | give sum (ORDERS.quantity * (1.0 - ORDERS.discount))",
    "Movie | size Movie.genres > 2 | give Movie, year Movie.day",
]


@pytest.mark.parametrize("text", PLANS)
def test_what_is_read_is_written(text: str) -> None:
    assert str(parse_plan(text)) == text


def test_people_may_write_it_shorter() -> None:
    plan = parse_plan("Employee  REPORTS_TO>Employee|Employee#2.name='Fuller'|LIMIT 2")
    assert str(plan) == (
        'Employee REPORTS_TO> Employee#2 | Employee#2.name = "Fuller" | limit 2 | give Employee'
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Movie | count Movie", "To give a number: `| give Movie | count Movie`"),
        ("Movie | Movie.title = UK", "UK is not in the pattern. The pattern has Movie."),
        ("Movie | Film.x = 1", "at 'Film', after 'Movie |'"),
        ("Movie | limit 0", "The limit of a plan is at least 1"),
        ("Movie ACTED_IN> ", "at its end, after 'Movie ACTED_IN>': expected a class"),
        ("order details", "expected `|` and a further clause"),
        ("Movie | by Movie.year | give Movie, count Movie", "more than one value in a group"),
        ("Movie | by Movie.year", "counts or adds up nothing"),
        ("Movie#3", "the first node has no number"),
        ('Movie | Movie.x = "\\q"', "JSON's escapes"),
        ("", "expected a class"),
        ("Movie | give " + "(" * 99, "parentheses in one another"),
    ],
)
def test_what_cannot_be_read_says_where(text: str, said: str) -> None:
    with pytest.raises(PlanError) as error:
        parse_plan(text)
    assert said in str(error.value)


@given(
    st.text(min_size=1, max_size=9),
    st.text(min_size=1, max_size=9),
    st.one_of(st.text(max_size=9), st.integers(), st.booleans(), st.floats(-1e9, 1e9)),
)
def test_any_name_and_value_is_kept(name: str, relation: str, value: str | float) -> None:
    plan = Plan(
        nodes=(name, name),
        hops=(Hop(0, relation, 1, inverse=True),),
        where=(Comparison(PropertyRef(NodeRef(1), relation), "=", (value,)),),
        give=(PropertyRef(NodeRef(1), name),),
    )
    assert parse_plan(str(plan)) == plan


@given(st.text(alphabet="AB.<>|&*[]#\"'=,()+- 0123gwbyin\\", max_size=40))
def test_anything_else_is_a_sentence(text: str) -> None:
    with contextlib.suppress(PlanError):
        plan = parse_plan(text)
        assert parse_plan(str(plan)) == plan


@pytest.mark.parametrize("text", ["MATCH (n) RETURN n", "SELECT * FROM book", "count Book"])
def test_what_is_no_plan_is_shown_one(text: str) -> None:
    with pytest.raises(PlanError, match="A plan starts with a class, not with") as error:
        parse_plan(text)
    assert "Book | desc Book.price" in error.value.hint

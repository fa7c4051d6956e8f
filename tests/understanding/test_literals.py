"""Values: read whole or not at all, compared as days or amounts, asked for in people's words."""

from __future__ import annotations

import operator
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.errors import UsageError
from kgqa.graph.quantities import read_value
from kgqa.understanding.clock import written_out
from kgqa.understanding.literals import stated, value_conditions

DAYS = st.dates(date(1001, 1, 1), date(2999, 12, 31))
AMOUNTS = st.integers(0, 10**9)
COMPARED = {
    "more than": operator.gt, "over": operator.gt, "at least": operator.ge, "under": operator.lt,
    "fewer than": operator.lt, "at most": operator.le, "no more than": operator.le,
}  # fmt: skip
DATED = {"after": operator.gt, "before": operator.lt, "since": operator.ge, "until": operator.le}


@pytest.mark.parametrize(
    ("question", "day"),
    [
        ("Where was she on 9/5/2016?", "2016-09-05"),
        ("Where was she on 25/12/2016?", "2016-12-25"),
        ("Where was she on 5.9.2016?", "2016-09-05"),
        ("Where was she on 5-9-2016?", "2016-09-05"),
        ("Where was she on Sept 5th, 2016?", "2016-09-05"),
        ("Where was she on 31/31/2016?", None),
        ("Which release is 3.1.2016.4?", None),
    ],
)
def test_a_day_in_numbers_is_one_date(question: str, day: str | None) -> None:
    read = [one.value for one in stated(question).literals if one.kind == "date"]
    assert read == ([] if day is None else [day])


@pytest.mark.parametrize(
    ("words", "operator"),
    [
        ("greater than or equal to 3", ">="), ("equal to or greater than 3", ">="),
        ("less than or equal to 3", "<="), ("equal to or less than 3", "<="),
        ("higher than or equal to 3", ">="), ("no less than 3", ">="), ("below 3", "<"),
        (">= 3", ">="), ("<=3", "<="), ("≥ 3", ">="), ("> 3", ">"), ("< 3", "<"), ("!= 3", "<>"),
        ("= 3", "="),
    ],
)  # fmt: skip
def test_a_bound_may_be_reached_where_the_question_says_so(words: str, operator: str) -> None:
    (one,) = stated(f"Which books have a score {words}?").literals
    assert (one.operator, one.value) == (operator, 3)


@pytest.mark.parametrize(
    ("question", "operator"),
    [
        ("Which reviews mention 'soup'?", "contains"),
        ("Which trips involve a boat called 'Ida'?", "="),
        ("Which trips involve a boat from 'Malta'?", "="),
        ("Which trips include the word 'sea'?", "contains"),
    ],
)
def test_a_quotation_is_part_of_a_text_only_where_that_is_said(
    question: str, operator: str
) -> None:
    assert [one.operator for one in stated(question).literals] == [operator]


@pytest.mark.parametrize("words", ["two hours", "2 hours", "2 h", "120 minutes"])
def test_a_number_in_words_has_its_unit(words: str) -> None:
    (one,) = stated(f"Which films are longer than {words}?").literals
    assert one.read is not None
    assert (one.read.amount, one.read.unit) == (7200, "s")


@pytest.mark.parametrize("words", ["exactly one author", "only one author", "just one author"])
def test_one_is_a_number_where_it_is_stressed(words: str) -> None:
    (one,) = stated(f"Which books have {words}?").literals
    assert (one.operator, one.value) == ("=", 1)
    assert not stated("Which one has an author?").literals


@given(DAYS)
def test_a_date_is_the_same_day_however_it_is_written(day: date) -> None:
    month = day.strftime("%B")
    written = [
        day.isoformat(), f"{day.isoformat()}T00:00:00Z", f"{day.day} {month} {day.year}",
        f"{month} {day.day}, {day.year}", f"{day.day}.{day.month}.{day.year}",
    ]  # fmt: skip
    for text in written:
        value = read_value(text)
        assert value is not None
        assert value.days == (day.toordinal(), day.toordinal()), text
    for text in (f"{month} {day.year}", str(day.year), f"{day.year // 10 * 10}s"):
        value = read_value(text)
        assert value is not None
        assert value.days is not None
        assert value.days[0] <= day.toordinal() <= value.days[1], text


@given(AMOUNTS)
def test_an_amount_is_the_same_however_it_is_written(amount: int) -> None:
    for text in (f"{amount}", f"{amount:,}", f"{amount:,.2f}", f"{amount:,}".replace(",", " ")):
        for around in ("{}", "€{}", "{} EUR", "{} beds"):
            value = read_value(around.format(text))
            assert value is not None
            assert value.amount == amount, around.format(text)


def test_units_of_one_kind_are_compared() -> None:
    for one, other in [
        ("1.5 km", "1500 m"), ("2 t", "2,000 kg"), ("1 h 10 min", "70 minutes"), ("3 hl", "300 l"),
        ("£1.1 million", "1,100,000 GBP"), ("$3k", "3000 USD"), ("€2m", "2000000 euros"),
    ]:  # fmt: skip
        assert read_value(one) == read_value(other)
    assert read_value("5 m") != read_value("5 million")


@pytest.mark.parametrize(
    "name",
    ["INC-2014", "3 Mill Lane", "2–0", "Phase II", "H-5531", "", "km", "12 February 20x4", "1 h x",
     "2021-02-30", "Cold Store 2"],
)  # fmt: skip
def test_a_name_is_no_value(name: str) -> None:
    assert read_value(name) is None


@given(AMOUNTS, AMOUNTS, st.sampled_from(sorted(COMPARED)))
def test_amounts_are_compared_as_the_words_say(mine: int, bound: int, words: str) -> None:
    (one,) = value_conditions(f"Which of x's wards have {words} {bound:,} beds?")
    assert one.words == f"{words} {bound:,} beds"
    value = read_value(f"{mine} beds")
    assert value is not None
    assert one.met_by(value, "amount") == COMPARED[words](mine, bound)


@given(DAYS, DAYS, st.sampled_from(sorted(DATED)))
def test_days_are_compared_as_the_words_say(mine: date, bound: date, words: str) -> None:
    (one,) = value_conditions(f"Which of x's shops opened {words} {bound.strftime('%d %B %Y')}?")
    value = read_value(mine.isoformat())
    assert value is not None
    assert one.met_by(value, "days") == DATED[words](mine, bound)


@pytest.mark.parametrize(
    ("asked", "met", "not_met"),
    [
        ("papers of x between 1990 and 1995", "1995-12-31", "1996-01-01"),
        ("what did x build in the 1920s?", "1929", "1930"),
        ("who joined x in May 2020", "2020-05-31", "2020-06-01"),
        ("which of x's are older than 1980", "1979-06-01", "1980-06-01"),
        ("which were later than 1980", "1981", "1980-06-01"),
    ],
)
def test_a_year_is_all_of_its_days(asked: str, met: str, not_met: str) -> None:
    (one,) = value_conditions(asked)
    values = [read_value(text) for text in (met, not_met)]
    assert [value is not None and one.met_by(value, "days") for value in values] == [True, False]


@pytest.mark.parametrize(
    ("asked", "days", "amount"),
    [
        ("the oldest of x's ships", -1, 1), ("x's youngest player", 1, -1),
        ("Which x trial started earliest?", -1, 0), ("x's most recent case", 1, 0),
        ("the cheapest dish", 0, -1), ("what is the most expensive dish", 0, 1),
        ("which hall has the fewest seats", 0, -1), ("the heaviest cargo", 0, 1),
        ("the least expensive", 0, -1), ("x's first film", -1, 0), ("who left x last?", 1, 0),
    ],
)  # fmt: skip
def test_a_superlative_has_a_direction(asked: str, days: int, amount: int) -> None:
    (one,) = value_conditions(asked)
    assert (one.operator, one.days, one.amount) == (None, days, amount)


@pytest.mark.parametrize(
    "asked",
    [
        "what is x's last name", "who is at least in x", "most of x's friends", "x's guests",
        "the honest man of x", "which forest is x in", "who was first and foremost with x",
        "who in x is 42 Ltd", "at the latest, who is x?", "x. first day?",
        "Who runs the best bakery for x?", "trains last mended at x",
    ],
)  # fmt: skip
def test_what_is_not_surely_a_condition_is_none(asked: str) -> None:
    assert value_conditions(asked) == []


@pytest.mark.parametrize(
    ("asked", "met", "not_met"),
    [
        ("which of x's fairs opened on a Monday?", "2024-01-01", "2024-01-02"),
        ("which of x's fairs open on Mondays?", "2024-01-01", "2024"),
        ("which of x's fairs opened on 13 July?", "13 July 1957", "13 June 1957"),
        ("which of x's fairs opened on July 13th?", "2001-07-13", "2001-07-12"),
        ("which of x's fairs opened in May?", "May 2020", "2020"),
        ("which of x's fairs opened in Q3 2020?", "2020-09-30", "2020-10-01"),
        ("which of x's fairs opened in the fourth quarter of 2020?", "2020-12-31", "2021-01-01"),
        ("which of x's fairs opened before 2020 Q3?", "2020-06-30", "2020-07-01"),
        ("which of x's fairs opened after the nineties?", "2000-01-01", "1999-12-31"),
    ],
)
def test_days_of_weeks_and_quarters(asked: str, met: str, not_met: str) -> None:
    (one,) = value_conditions(asked)
    values = [read_value(text) for text in (met, not_met)]
    assert [value is not None and one.met_by(value, "days") for value in values] == [True, False]


@pytest.mark.parametrize(
    ("question", "literals"),
    [
        ("events in Q4 2020", [("2020-10-01", ">="), ("2021-01-01", "<")]),
        ("events before the 1990s", [("1990", "<")]),
        ("people older than 1980", [(1980, "<")]),
        ("people older than 30", [(30, ">")]),
        ("people no older than 30", [(30, "<=")]),
        ("articles from the year 2022, open on 13 July", [(2022, "=")]),
        ("numbers divisible by 20", [(20, "=")]),
    ],
)
def test_plans_and_conditions_have_one_reading(question: str, literals: list[object]) -> None:
    assert [(literal.value, literal.operator) for literal in stated(question).literals] == literals


@given(DAYS, st.sampled_from(["last month", "this year", "next week", "yesterday", "last quarter"]))
def test_days_are_written_out_from_the_day_of_the_question(day: date, words: str) -> None:
    question, notes = written_out(f"What began {words}?", [], day.isoformat())
    assert [f'Took "{words}" for ' in note and f"today is {day}" in note for note in notes] == [
        True
    ]
    (one,) = value_conditions(question)
    away = {"last month": 31, "this year": 0, "next week": -7, "yesterday": 1, "last quarter": 92}
    near = [day - timedelta(away[words] + more) for more in range(-7, 8)]
    values = [read_value(each.isoformat()) for each in near]
    assert any(value is not None and one.met_by(value, "days") for value in values)


def test_words_of_a_name_and_unknown_zones_are_left() -> None:
    assert written_out("Who made Last Year?", ["Last Year"]) == ("Who made Last Year?", [])
    for wrong in ({"today": "soon"}, {"zone": "Europe/Nowhere"}):
        with pytest.raises(UsageError, match="day or time zone does not exist"):
            written_out("Who came today?", [], **wrong)
    assert "(UTC)" in written_out("Who came today?", [], zone="UTC")[1][0]

"""Numbers of a question that say which property is meant."""

from __future__ import annotations

import pytest

from kgqa.planning.named_numbers import without_named
from kgqa.planning.question_words import Mentions, unsayable
from kgqa.understanding.literals import stated

DEATHS = ("airline", "deaths_85_99", "deaths_00_14")


@pytest.mark.parametrize(
    ("question", "names", "left"),
    [
        ("Which airline had the most deaths between 1985 and 1999?", DEATHS, []),
        ("How many deaths from 2000 to 2014?", DEATHS, []),
        ("Which airlines had over 20 deaths in 1985-1999?", DEATHS, [20]),
        ("Which airline was founded in 1985?", DEATHS, [1985]),
        ("Which shop sold most in 2019?", ("sales_2019", "sales_2020"), []),
        ("Which shop sold most in 2018?", ("sales_2019", "sales_2020"), [2018]),
        ("Which land had the most goals in 2015?", ("goals98", "goals15"), []),
        ("Which land joined in 2015?", ("goals15",), [2015]),
        ("Which shop opened in 2019?", ("opened",), [2019]),
        ('Which film is called "2019"?', ("sales_2019",), ["2019"]),
    ],
)
def test_a_number_in_the_name_of_a_property_is_no_condition(
    question: str, names: tuple[str, ...], left: list[object]
) -> None:
    found = without_named(stated(question), names).literals.literals
    assert [one.value for one in found] == left


def test_the_property_of_the_years_is_the_one_mentioned() -> None:
    asked = Mentions("How many deaths were there from 2000 to 2014?")
    assert asked.share("deaths_00_14") == 1.0
    assert asked.share("deaths_85_99") < 1.0


def test_a_share_that_a_property_holds_needs_no_calculation() -> None:
    assert not unsayable("Which team has the best win percentage?", ["number team : win percent"])
    assert unsayable("What percentage of teams won?", ["number team : wins"]) == "percentage"

"""What of a question may stand in a plan: numbers, dates, values of the graph."""

from __future__ import annotations

from kgqa.planning.value_index import plan_literals
from kgqa.understanding.literals import stated


def test_what_a_question_states_may_stand_in_a_plan() -> None:
    read = plan_literals(stated("the 3 orders since 1997 over 20 with 'tea'"))
    assert read.numbers == (1997, 20, 3)
    assert read.dates == ("1997",)
    assert read.words == ("tea",)

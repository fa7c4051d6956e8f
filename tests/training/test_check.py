"""Path accuracy counts the best paths that take a gold relation path."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import pytest

from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from kgqa.progress import Silent
from kgqa.training.check import HeldOut, PathCheck, held_out_of
from kgqa.training.data import Example

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgqa.models.kg_llm import KgLLM

FORM = PathFormat()


@pytest.mark.model
def test_the_best_path_is_compared_with_the_gold_ones(load_tiny: Callable[[], KgLLM], town) -> None:
    hop = ("person.born_in", "person.child", "person.office..office.place")
    every = {(one,) for one in hop} | set(product(hop, repeat=2))
    question = HeldOut(
        "Where?", ("Person 1",), ("p1",), frozenset(every), partial(nullcontext, town)
    )
    nobody = replace(question, topic_ids=("nobody",))
    llm = load_tiny()

    def right(*questions: HeldOut) -> int:
        rules = WalkRules()
        return PathCheck(llm, questions, lambda _: rules, FORM, Silent()).right()

    assert right(question, question) == 2
    assert right(replace(question, gold=frozenset({("person.age",)}))) == 0
    assert right(question, nobody) == 1  # what fails is wrong, and counts
    # it takes one path, so one of the relation paths alone is right
    assert sum(right(replace(question, gold=frozenset({one}))) for one in every) == 1


def test_the_gold_paths_of_a_question_are_those_of_all_its_examples() -> None:
    one = Example("q", "Who?", ("Ann",), "Ann", (("child", "Bob"),), ("ann",))
    other = replace(one, hops=(("heir", "Bob"),))
    apart = replace(one, question_id="r", question="Whose?")
    questions = held_out_of([one, other, apart], lambda: None)  # type: ignore[arg-type,return-value]
    assert [(two.question, two.gold) for two in questions] == [
        ("Who?", frozenset({("child",), ("heir",)})),
        ("Whose?", frozenset({("child",)})),
    ]

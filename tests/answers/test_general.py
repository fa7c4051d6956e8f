"""The general LLM's prompt is the same for the same paths, and its answers are linked back."""

from __future__ import annotations

import random

from kgqa.answers.general import general_prompt, read_answers
from tests.answers.test_naming import wrote
from tests.fixtures import LINCOLN

PATHS = [
    wrote("Hugo Chávez", 0.5, "Venezuela", "Hugo Chávez"),
    wrote("Atlantis", 0.2, "Venezuela", "Spanish Language", "Latin Script"),
    wrote("Caracas", 0.2, "Venezuela", "Caracas"),
]


def test_the_order_of_paths_does_not_depend_on_the_order_they_come_in() -> None:
    prompt = general_prompt("who {paths} {question}?", PATHS)
    for seed in range(5):
        mixed = PATHS.copy()
        random.Random(seed).shuffle(mixed)
        assert general_prompt("who {paths} {question}?", [*mixed, mixed[0]]) == prompt
    places = [prompt.index(path.text) for path in sorted(PATHS, key=lambda p: (-p.score, p.text))]
    assert places == sorted(places)
    assert "who {paths} {question}?" in prompt
    assert "(suggests: Atlantis)" in prompt, "what the model wrote is put to the general LLM"


def test_answers_are_linked_through_the_paths_first(sample) -> None:
    text = "1. hugo chavez\n* **It is Caracas.**\nSpanish language\nVenezuela\nAbraham Lincoln\nMu"
    found = read_answers(text, PATHS, sample)
    assert [(one.id, one.grounded) for one in found] == [
        ("HugoChávez", True),
        ("Caracas", True),
        ("SpanishLanguage", True),
        ("Venezuela", False),
        (LINCOLN, False),
        (None, False),
    ]
    assert [one.score for one in found] == [1 / (1 + place) for place in range(6)]
    without = read_answers("Abraham Lincoln", PATHS)
    assert [(one.id, one.name, one.grounded) for one in without] == [
        (None, "Abraham Lincoln", False)
    ]


def test_no_answer_is_none(sample) -> None:
    assert read_answers("None.", PATHS, sample) == []
    assert read_answers("\n\n", PATHS, sample) == []
    assert read_answers("Caracas\ncaracas", PATHS, sample)[0].id == "Caracas"

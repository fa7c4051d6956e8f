"""The general LLM's prompt is the same for the same paths, and its answers are linked back."""

from __future__ import annotations

import random

import pytest

from kgqa.answers.choices import AnswerChoice
from kgqa.answers.general import general_prompt, read_answers, read_choice
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
    text = "1. hugo chavez\n* **Caracas.**\nSpanish language\nVenezuela\nAbraham Lincoln\nMu"
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


LEXINGTON = [wrote("Lexington", 0.5, "Mary Todd", "Lexington"), wrote("x", 0.2, "Mary", "USA")]


@pytest.mark.parametrize(
    "said",
    [
        "She was not born in Lexington",
        "She wasn't born in Lexington.",
        "She wasn’t born in Lexington, as far as I know",
        "Not Lexington",
        "Lexington is wrong.",
        "Lexington: incorrect",
        "- ~~Lexington~~",
        "❌ Lexington",
        "!= Lexington",
        "Lexington cannot be the answer",
        "It is unlikely to be Lexington",
        "Anywhere except Lexington",
        "Neither Lexington nor elsewhere",
        "Sie wurde nicht in Lexington geboren",
        "Elle n'est pas née à Lexington",
        "Она не родилась в Lexington",
        "These are not answers:\n- Lexington",
        "Lexington\nLexington is not right after all.",
        "<think>Lexington\nMaybe</think>\nnone",
        "<think>\nLexington",
    ],
)
def test_what_is_denied_is_no_answer(said: str) -> None:
    found = read_answers(said, LEXINGTON)
    assert "Lexington" not in [one.id for one in found]
    assert not any(one.grounded for one in found)


@pytest.mark.parametrize(
    "said",
    ["She lived in Lexington.", "Lexington or so", "Is Lexington meant?", "lexing Lexington ton"],
)
def test_what_a_sentence_mentions_is_marked_and_never_first(said: str) -> None:
    found = read_answers(said, LEXINGTON)
    assert [(one.id, one.mentioned) for one in found] == [(None, False), ("Lexington", True)]
    assert found[0].score > found[1].score
    assert found[1].to_dict()["mentioned"] is True
    named = read_answers(f"{said}\nUSA", LEXINGTON)
    assert [one.id for one in named] == [None, "USA", "Lexington"]
    assert "mentioned" not in named[1].to_dict()
    own_line = read_answers(f"{said}\nLexington", LEXINGTON)
    assert not own_line[1].mentioned


def test_a_part_of_a_name_is_not_the_answer() -> None:
    paths = [wrote("x", 0.5, "Mary Todd", "United States of America")]
    found = read_answers("united", paths)
    assert not found[0].grounded
    assert found[0].name == "united"
    assert all(one.mentioned for one in found[1:])


@pytest.mark.parametrize(
    "said",
    [
        "Lexington", "lexington.", "1. Lexington", "- **Lexington**", "“Lexington”",
        "the Lexington", "Answer: Lexington", "**Answer:** Lexington", "Answers:\n\n- Lexington",
        "<think>Not Lexington?</think>Lexington", "2) 'Lexington'", "Lexington\nLexington, not USA",
    ],
)  # fmt: skip
def test_a_line_that_is_a_name_is_the_answer(said: str) -> None:
    found = read_answers(said, LEXINGTON)
    assert (found[0].id, found[0].grounded, found[0].mentioned) == ("Lexington", True, False)


def test_a_name_that_sounds_like_a_denial_is_a_name() -> None:
    paths = [wrote("x", 0.5, "Coen", "No Country for Old Men"), wrote("x", 0.2, "Coen", "Never")]
    assert read_answers("No Country for Old Men", paths)[0].grounded
    assert read_answers("It is No Country for Old Men", paths)[1].mentioned


def test_a_reply_of_any_length_is_read_in_bounds() -> None:
    found = read_answers("Lexington " * 100_000 + "\n" + "USA\n" * 200_000 + "x\n" * 9, LEXINGTON)
    assert [one.id for one in found] == ["USA"]
    many = "\n".join(f"place {number}" for number in range(100_000))
    assert len(read_answers(many, LEXINGTON)) == 1_000


CHOICES = [AnswerChoice(one, (one,), (1,)) for one in ("Lexington", "USA", "No place", "Vitamin C")]


@pytest.mark.parametrize(
    "said",
    [
        "USA", "usa.", "- **USA**", "1. USA", "“USA”", "'USA'", "the USA", "B) USA", "(b) USA",
        "B. USA",
        "B: USA",
        "[B] *USA*", "Answer: USA", "**Answer:** B) USA", "Final answer: **USA**", "B) **USA**",
        "<think>Lexington\n</think>\nUSA", "I looked at the facts.\nUSA", "USA\nNot Lexington.",
        "USA\nBecause Lexington lies in it.",
        "These are not answers:\n- Lexington\n\nAnswer:\nUSA", "USA\nUSA",
        "Lexington\nLexington is wrong.\nUSA",
    ],
)  # fmt: skip
def test_a_line_that_is_a_choice_chooses_it(said: str) -> None:
    found = read_choice(said, CHOICES, LEXINGTON)
    assert (found[0].name, found[0].mentioned) == ("USA", False)
    assert found[0].score > 0.5
    assert not any(one.mentioned for one in found)


@pytest.mark.parametrize(
    "said",
    [
        "It is USA", "It is the USA.", "The answer is USA, I think.",
        "USA, since it is a country", "Is it USA?",
        "USA or so", "Maybe USA", "I would say: USA",
        "USA (the country)", "Some say USA.\nOthers too.",
        "Of all of these USA fits best",
    ],
)  # fmt: skip
def test_a_choice_that_a_sentence_mentions_is_marked_and_not_chosen(said: str) -> None:
    plain = read_choice("", CHOICES, LEXINGTON)
    assert plain[0].name == "Lexington"
    found = read_choice(said, CHOICES, LEXINGTON)
    assert [(one.name, one.score) for one in found] == [(one.name, one.score) for one in plain]
    assert [one.name for one in found if one.mentioned] == ["USA"]
    said = said.replace("USA", "Lexington")
    assert read_choice(said, CHOICES, LEXINGTON) == plain, "the paths have it first, with no mark"


@pytest.mark.parametrize(
    "said",
    [
        "It is not USA.", "USA is wrong", "~~USA~~", "❌ B) USA",
        "- ~~USA~~", "Neither USA nor Lexington",
        "These are not answers:\n- USA", "USA\nUSA is not right after all.", "It can't be the USA",
        "<think>USA", "Anything except USA", "Maybe USA.\nNo, not USA.",
        "", "none", "USA\nVitamin C",
        "B", "USAF",
    ],
)  # fmt: skip
def test_a_choice_that_is_denied_or_not_the_only_one_is_not_chosen(said: str) -> None:
    assert read_choice(said, CHOICES, LEXINGTON) == read_choice("", CHOICES, LEXINGTON)


def test_a_choice_is_told_from_one_that_is_called_alike() -> None:
    assert read_choice("No place", CHOICES, LEXINGTON)[0].name == "No place"
    assert read_choice("I say No place", CHOICES, LEXINGTON)[0].name == "Lexington"
    alike = [
        AnswerChoice(one, (one,), (1,)) for one in ("Who", "The Who", "C", "Vitamin C", "René")
    ]
    for one in ("Who", "The Who", "C", "Vitamin C", "René"):
        assert read_choice(one, alike, LEXINGTON)[0].name == one
    assert read_choice("Rene", alike, LEXINGTON)[0].name == "René"

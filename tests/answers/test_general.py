"""A general LLM chooses among numbered paths; what is not such a choice is never an answer."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.answers.answer import NO_KG_LLM, Answer, RankedAnswer, ScoredPath, TopicEntity
from kgqa.answers.general import (
    NONE_FITS,
    NOT_KEPT,
    Reply,
    ask_general,
    general_prompt,
    read_numbers,
    reply_schema,
    with_reply,
)
from kgqa.models.general import Completion, GeneralLLM
from tests.answers.test_naming import wrote

PATHS = [
    wrote("Hugo Chávez", 0.5, "Venezuela", "Hugo Chávez"),
    wrote("Atlantis", 0.2, "Venezuela", "Spanish Language", "Latin Script"),
    wrote("Caracas", 0.2, "Venezuela", "Caracas"),
]
OWN = (RankedAnswer("own", "own", 0.4, True),)


def found(paths: list[ScoredPath], question: str = "who?", topic: str = "Venezuela") -> Answer:
    topics = (TopicEntity(0, topic, topic, 1.0, "the republic"),)
    return Answer(
        question=question,
        method="gcr",
        topic_entities=topics,
        paths=tuple(paths),
        answers=OWN,
        kg_llm=NO_KG_LLM,
    )


@pytest.fixture(scope="module")
def general() -> GeneralLLM:
    return GeneralLLM("m", base_url="http://127.0.0.1:9/v1", retries=0)


def said(
    sample: Any, general: GeneralLLM, text: str, choices: tuple[str, ...] = (), own: Any = None
) -> Answer:
    reply = Reply(Completion(text, 1, 1), 0.5)
    return with_reply(sample, own or found(PATHS), general, reply, choices)


def test_the_prompt_is_the_same_whatever_the_order_of_the_paths() -> None:
    prompt = general_prompt(found(PATHS, "who {paths} {question}?"))
    for seed in range(5):
        mixed = PATHS.copy()
        random.Random(seed).shuffle(mixed)
        assert general_prompt(found([*mixed, mixed[0]], "who {paths} {question}?")) == prompt
    assert "who {paths} {question}?" in prompt
    lines = [line for line in prompt.splitlines() if line[:1].isdigit()]
    assert [line.partition(". ")[0] for line in lines] == ["1", "2", "3", "4"]
    assert lines[0].endswith('-> "Hugo Chávez"')
    assert [line.count("->") for line in lines] == [2, 2, 2, 4], "beginnings of paths, too"


def test_numbers_are_the_answers_in_their_order(sample: Any, general: GeneralLLM) -> None:
    prompt = general_prompt(found(PATHS)).splitlines()
    places = [
        next(line.partition(".")[0] for line in prompt if line.endswith(f'"{name}"'))
        for name in ("Latin Script", "Spanish Language", "Caracas")
    ]
    answer = said(sample, general, f'{{"answers": [{", ".join(places)}]}}')
    assert [(ranked.name, ranked.grounded, ranked.score) for ranked in answer.answers] == [
        ("Latin Script", True, 1.0),
        ("Spanish Language", True, 0.5),
        ("Caracas", True, 1 / 3),
    ]
    assert all(ranked.paths for ranked in answer.answers)
    assert answer.notes == ()
    none = said(sample, general, '{"answers": []}')
    assert (none.answers, none.notes) == ((), (NONE_FITS,))


NO_FORM = [
    "", "none", "Hugo Chávez", "1", "[1]", "1. Hugo Chávez", "null", "{}", "true",
    "These people are excluded:\n- Hugo Chávez", 'These are excluded: {"answers": [1]}',
    '{"answers": [1]}\nActually, that is wrong.', "None of the above", '{"answers": [1]} not',
    '<thinking>{"answers": [1]}</thinking>', '[THINK]{"answers": [1]}[/THINK]',
    '<think>{"answers": [1]}', "<think>no</think>\nHugo Chávez", "Ce n'est pas Hugo Chávez",
    '{"answers": [9]}', '{"answers": [0]}', '{"answers": [-1]}', '{"answers": [true]}',
    '{"answers": ["1"]}', '{"answers": [1.0]}', '{"answers": 1}', '{"answers": [1], "not": [1]}',
    '{"answers": [1], "answers": [2]}', '[["answers", [1]]]', '{"excluded": [1]}', "[" * 100_000,
    '{"answers": [' + "1," * 20_000 + "1]}",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_FORM)
def test_nothing_else_is_an_answer(sample: Any, general: GeneralLLM, text: str) -> None:
    answer = said(sample, general, text)
    assert answer.answers == found(PATHS).answers
    assert answer.notes == (NOT_KEPT,)
    assert answer.general_llm is not None


@pytest.mark.parametrize(
    "text",
    [
        '{"answers": [1]}',
        ' {"answers":[1,1]}\n',
        '```json\n{"answers": [1]}\n```',
        '<think>Not 1, "answers": [2]?</think>\n{"answers": [1]}',
        '[THINK]Not 1.[/THINK]{"answers": [1]}',
    ],
)
def test_the_form_may_stand_in_a_fence_or_after_thoughts(
    sample: Any, general: GeneralLLM, text: str
) -> None:
    assert [ranked.name for ranked in said(sample, general, text).answers] == ["Hugo Chávez"]


@given(st.lists(st.integers(-2, 6)), st.text(max_size=9), st.text(max_size=9))
def test_a_reply_is_read_whole_or_not(numbers: list[int], before: str, after: str) -> None:
    text = json.dumps({"answers": numbers})
    fits = all(0 < number <= 4 for number in numbers)
    assert read_numbers(text, 4) == (list(dict.fromkeys(numbers)) if fits else None)
    if before.strip() or after.strip():
        assert read_numbers(f"{before}{text}{after}", 4) is None


CHOICES = ("Hugo Chávez", "Caracas", "Atlantis 9")


def test_a_choice_is_chosen_by_its_number(sample: Any, general: GeneralLLM) -> None:
    answer = said(sample, general, '{"answers": [3]}', CHOICES)
    assert (answer.answers[0].name, answer.answers[0].grounded) == ("Atlantis 9", False)
    assert sum(ranked.score for ranked in answer.answers) <= 1.0 + 1e-9
    assert {ranked.name for ranked in answer.answers} == set(CHOICES)
    for text in ("Caracas", "Caracas, not Hugo Chávez", '{"answers": [1, 2]}', '{"answers": [4]}'):
        kept = said(sample, general, text, CHOICES)
        assert (kept.answers, kept.notes) == (found(PATHS).answers, (NOT_KEPT,))
    assert "1. " + '"Hugo Chávez"' in general_prompt(found(PATHS), CHOICES)


def test_no_name_leaves_the_machine_masked() -> None:
    names = ["Venezuela", "Hugo Chávez", "Spanish Language", "Latin Script", "Caracas"]
    question = "Is hugo chávez of the Republic, or of VENEZUELA?"
    answer = found(PATHS, question)
    for choices in ((), CHOICES):
        prompt = general_prompt(answer, choices, masked=True)
        folded = prompt.casefold()
        assert not [
            name for name in (*names, *choices, "the republic") if name.casefold() in folded
        ]
        assert PATHS[0].edges[0].relation in prompt
        plain = general_prompt(answer, choices)
        assert plain.count("\n") == prompt.count("\n")
    assert "Question: Is E" in prompt


@pytest.mark.model
def test_a_real_server_is_asked_for_numbers_and_its_reply_is_one_or_is_said_to_be_none(
    sample: Any, openai_server: Any
) -> None:
    with GeneralLLM(openai_server.model, base_url=openai_server.base_url) as real:
        for choices in ((), CHOICES):
            answer = found(PATHS)
            reply = ask_general(real, answer, choices, max_tokens=16, masked=True)
            done = with_reply(sample, answer, real, reply, choices)
            kept = read_numbers(reply.written.text, 3 if choices else 4, single=bool(choices))
            assert (NOT_KEPT in done.notes) == (kept is None), reply.written.text
            names = {*CHOICES} if choices else {edge.tail.name for p in PATHS for edge in p.edges}
            assert {ranked.name for ranked in done.answers} <= names | {"own"}
            assert done.general_llm is not None
            assert done.general_llm.completion_tokens <= 16


def test_the_schema_allows_listed_numbers_alone() -> None:
    schema = reply_schema(2)
    assert schema["properties"]["answers"]["items"] == {"type": "integer", "enum": [1, 2]}
    assert schema["additionalProperties"] is False

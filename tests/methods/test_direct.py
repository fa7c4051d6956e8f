"""The baselines without a KG: replies are read, voted on and linked, and nothing is grounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.answers.answer import Answer
from kgqa.errors import GeneralModelError, LinkingError, UsageError
from kgqa.methods.base import LinkedQuestion
from kgqa.methods.direct import (
    ChainOfThought,
    Direct,
    SelfConsistency,
    link_names,
    majority,
    prompt,
    read_lines,
)
from kgqa.models.general import GeneralLLM
from tests.fixtures import TOLKIEN
from tests.methods.given import Given, options_of, topic

if TYPE_CHECKING:
    from kgqa.graph.sqlite import SqliteStore
    from tests.conftest import OpenAIServer


@pytest.mark.parametrize(
    ("text", "marked", "expected"),
    [
        ("- Paris\n2. Rome \n\n* 'Oslo'", False, ["Paris", "Rome", "Oslo"]),
        ("none", False, []),
        ("Paris\nparis\nPARIS.", False, ["Paris"]),
        ("", True, []),
        ("He was born in 1892.\nAnswers:\nBloemfontein\nOrange", True, ["Bloemfontein", "Orange"]),
        ("**Answer:** Bloemfontein", True, ["Bloemfontein"]),
        ("Answers:\nwrong\n\nNo, wait.\nAnswers:\nright", True, ["right"]),
        ("I think it is\nBloemfontein\n", True, ["Bloemfontein"]),
        ("Answers: none", True, []),
    ],
)
def test_replies_are_read(text: str, marked: bool, expected: list[str]) -> None:
    assert read_lines(text, marked=marked) == expected


names = st.lists(st.lists(st.sampled_from(["Paris", "paris", "Rome", "Oslo", "Bonn"])), max_size=6)


@given(names)
def test_the_majority_wins(lists: list[list[str]]) -> None:
    agreed, rest = majority(lists)
    every = {name.casefold() for one in lists for name in one}
    votes = {
        form: sum(form in {name.casefold() for name in one} for one in lists) for form in every
    }
    found = [name.casefold() for name in [*agreed, *rest]]
    assert sorted(found) == sorted(every)  # each name once
    assert [votes[form] for form in found] == sorted(votes.values(), reverse=True)
    if every:
        assert agreed
        least = min(votes[name.casefold()] for name in agreed)
        assert 2 * least >= len(lists) or least == max(votes.values())
        assert all(votes[name.casefold()] < least for name in rest)


def test_names_are_linked_where_the_graph_knows_them(sample: SqliteStore) -> None:
    name = topic(sample, TOLKIEN).name
    found = link_names(sample, [name.upper(), "Nobody of that name"])
    assert [one.id for one in found] == [TOLKIEN, None]
    assert [one.name for one in found] == [name, "Nobody of that name"]
    assert not any(one.grounded for one in found)


def test_choices_stand_in_the_question() -> None:
    assert "- Rome" in prompt("Which?", ["Rome", "Oslo"])
    assert "Answers:" in prompt("Which?", think=True)
    assert "Answers:" not in prompt("Which?")


@pytest.mark.model
@pytest.mark.parametrize("kind", [Direct, ChainOfThought, SelfConsistency])
def test_a_real_model_is_asked(sample: SqliteStore, openai_server: OpenAIServer, kind: Any) -> None:
    questions = [
        LinkedQuestion("What is the capital of France?"),
        LinkingError("the graph could not be read"),
        LinkedQuestion("Which?", choices=("Abraham Lincoln", "Paris")),
    ]
    with GeneralLLM(openai_server.model, base_url=openai_server.base_url) as general:
        more = {"samples": 2} if kind is SelfConsistency else {}
        options = options_of(kind.Options, concurrency=2, answer_tokens=16, **more)
        method = kind(options, Given(general=general))
        found = dict(method.answers(sample, questions))
    assert isinstance(found[1], LinkingError)
    calls = 2 if more else 1
    for number in (0, 2):
        answer = found[number]
        assert isinstance(answer, Answer)
        assert answer.method == kind.name
        assert answer.general_llm is not None
        assert answer.general_llm.calls == calls
        assert 0 < answer.general_llm.completion_tokens <= 16 * calls
        assert answer.paths == ()
        assert not any(one.grounded for one in answer.answers)
    assert isinstance(found[2], Answer)
    assert {one.name for one in found[2].answers} == {"Abraham Lincoln", "Paris"}


def test_a_failed_call_is_a_failed_question(sample: SqliteStore) -> None:
    with GeneralLLM("m", base_url="http://127.0.0.1:9/v1", retries=0) as down:
        options = options_of(SelfConsistency.Options, samples=3)
        method = SelfConsistency(options, Given(general=down))
        found = dict(method.answers(sample, [LinkedQuestion("a"), LinkedQuestion("b")]))
    assert sorted(found) == [0, 1]
    assert all(isinstance(one, GeneralModelError) for one in found.values())


def test_without_a_general_llm_there_is_no_method() -> None:
    with pytest.raises(UsageError, match="none is named"):
        Direct(options_of(Direct.Options), Given())

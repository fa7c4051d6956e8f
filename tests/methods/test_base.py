"""What every method does: several calls at once, and a general LLM that answers from its paths."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kgqa.answers.answer import Answer, Findings, RankedAnswer, ScoredPath
from kgqa.config import load_settings
from kgqa.errors import GeneralModelError, KgqaError, LinkingError, UsageError
from kgqa.graph.model import keys_array
from kgqa.methods.base import LinkedQuestion, Method, map_concurrently
from kgqa.methods.options import MethodOptions
from kgqa.paths.ground import ground
from kgqa.paths.walk import WalkRules, walk
from kgqa.registry import METHODS
from tests.fixtures import LINCOLN, TOLKIEN
from tests.methods.given import Given, about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kgqa.graph.sqlite import SqliteStore
    from tests.conftest import OpenAIServer


def test_never_more_calls_than_were_allowed_and_all_come_back() -> None:
    running, most, seen = 0, 0, threading.Barrier(3)
    lock = threading.Lock()

    def work(item: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if item < 3:
            seen.wait(timeout=60)  # passes only if three really run at once
        with lock:
            running -= 1
        if item == 4:
            raise GeneralModelError("no")
        return item * 10

    found = dict(map_concurrently(range(9), work, 3))
    assert most == 3
    assert isinstance(found.pop(4), GeneralModelError)
    assert found == {item: item * 10 for item in range(9) if item != 4}


def test_a_fault_of_the_program_is_not_taken_for_a_failed_call() -> None:
    with pytest.raises(ZeroDivisionError):
        list(map_concurrently([1, 0], lambda item: 1 // item, 2))


def test_items_are_made_while_calls_wait() -> None:
    """The first call ends only once the second item has been made."""
    made = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        made.set()
        yield 2

    found = list(map_concurrently(items(), lambda item: made.wait(timeout=60), 2))
    assert found == [(1, True), (2, True)] or found == [(2, True), (1, True)]


class Near(Method[MethodOptions]):
    """A few paths of one hop, and no answers of its own."""

    name = "near"

    def answer(self, store: Any, question: LinkedQuestion) -> Findings:
        keys = keys_array([topic.key for topic in question.topics])
        table, _ = walk(store, keys, WalkRules(1, "out"), 1_000)
        paths = [one for one in ground(store, table.take(np.arange(3)), self.form) if one]
        return Findings(
            paths=tuple(ScoredPath(path.text, -1.0, path.tail.name, (path,)) for path in paths)
        )


@pytest.mark.model
def test_a_general_llm_behind_a_method(sample: SqliteStore, openai_server: OpenAIServer) -> None:
    from kgqa.models.general import GeneralLLM

    questions: list[LinkedQuestion | KgqaError] = [
        about(sample, TOLKIEN),
        LinkingError("nothing found"),
        about(sample, LINCOLN),
    ]
    with GeneralLLM(openai_server.model, base_url=openai_server.base_url) as general:
        options = MethodOptions(concurrency=3, answer_tokens=12)
        method = Near(options, Given(general=general))
        found = dict(method.answers(sample, questions))
    assert sorted(found) == [0, 1, 2]
    assert isinstance(found[1], LinkingError)
    for number in (0, 2):
        answer = found[number]
        assert isinstance(answer, Answer)
        assert answer.general_llm is not None
        assert (answer.general_llm.calls, answer.kg_llm.calls) == (1, 0)
        assert 0 < answer.general_llm.completion_tokens <= 12
        ends = {grounding.tail.id for path in answer.paths for grounding in path.groundings}
        assert all(ranked.id in ends for ranked in answer.answers if ranked.grounded)
    with GeneralLLM("m", base_url="http://127.0.0.1:9/v1", retries=0) as down:
        method = Near(MethodOptions(), Given(general=down))
        failed = dict(method.answers(sample, questions))
    assert isinstance(failed[0], GeneralModelError)
    assert isinstance(failed[1], LinkingError)


class Echo(Method[MethodOptions]):
    """The smallest method: the first topic entity is the answer."""

    name = "echo"

    def answer(self, store: Any, question: LinkedQuestion) -> Findings:
        if not question.topics:
            raise LinkingError("Nobody.")
        first = question.topics[0]
        return Findings(answers=(RankedAnswer(first.id, first.name, 1.0, False),))


def test_a_method_is_one_function_of_a_question(sample: SqliteStore) -> None:
    method = Echo(MethodOptions(hops=3), Given(store=sample))
    linked = LinkedQuestion("Who?", about(sample, TOLKIEN).topics, link_seconds=2.5)
    found = dict(method.answers(sample, [linked, LinkedQuestion("Who?"), LinkingError("?")]))
    first = found[0]
    assert isinstance(first, Answer)
    assert (first.method, first.timings.link, first.answers[0].id) == ("echo", 2.5, TOLKIEN)
    assert first.topic_entities == linked.topics
    assert [str(found[number]) for number in (1, 2)] == ["Nobody.", "?"]
    assert method.rules(sample).hops == 3
    shown = method.settings
    assert (shown["method"], shown["hops"], shown["direction"]) == ("echo", 3, "out")
    assert (shown["general_model"], shown["preset"]) == (None, None)


@pytest.mark.parametrize(
    ("method", "given", "match"),
    [
        ("gcr", {"preset": "dog"}, "for another method"),
        ("gcr", {"preset": "kg-cot"}, "for another method"),
        ("ensemble", {"preset": "kg-cot"}, "for another method"),
        ("kg-cot", {"preset": "gcr"}, "for another method"),
        ("dog", {"preset": "gcr"}, "for another method"),
        ("dog", {"direction": "in"}, "`direction` cannot be 'in'"),
        ("gcr", {"length_penalty": 1e308}, "length_penalty"),
        ("gcr", {"length_penalty": math.nan}, "length_penalty"),
        ("gcr", {"time_limit": math.inf}, "time_limit"),
        ("rank", {"answer_threshold": math.nan}, "answer_threshold"),
        ("gcr", {"preset": "nothing"}, "does not exist"),
        ("gcr", {"expand": False, "max_tails": 3}, "`max_tails` has no meaning without `expand`"),
        ("auto", {"expand": False, "min_confidence": 0.3}, "without `expand`"),
        ("gcr", {"search": "exact", "groups": 3}, "`groups` does not belong"),
        ("dog", {"beams": 17}, "`beams`"),
        ("kg-cot", {"model": "m"}, "`model` does not belong"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_anything_is_loaded(
    method: str, given: dict[str, Any], match: str
) -> None:
    def check() -> None:
        options = METHODS.options(method, given)
        options.check(load_settings())

    with pytest.raises(UsageError, match=match):
        check()


@pytest.mark.parametrize("entry", METHODS.table, ids=lambda entry: entry.name)
def test_a_method_is_called_as_the_registry_calls_it(entry: Any) -> None:
    method = entry.load()
    assert method.name == entry.name
    assert method.Options is entry.options_model()
    assert issubclass(method, Method)

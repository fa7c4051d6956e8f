"""The seam of methods: several calls at once, the paths there are, the general LLM behind one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from kgqa.answers.answer import Answer, TopicEntity
from kgqa.errors import EmptyLanguageError, GeneralModelError, KgqaError, LinkingError
from kgqa.methods.all_paths import AllPaths
from kgqa.methods.base import WithGeneralLLM, candidate_paths, several_at_once
from kgqa.methods.gcr import Asking
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from tests.fixtures import LINCOLN, TOLKIEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kgqa.graph.sqlite import SqliteStore
    from kgqa.graph.store import GraphStore
    from tests.conftest import OpenAIServer

FORM = PathFormat()


def topic(store: GraphStore, id_: str) -> TopicEntity:
    key = int(store.keys_of([id_])[0])
    return TopicEntity(key, id_, store.details(key).name or id_, 1.0)


def rules(_: GraphStore) -> WalkRules:
    return WalkRules()


def test_never_more_calls_than_were_allowed_and_all_come_back() -> None:
    running, most, seen = 0, 0, threading.Barrier(3)
    lock = threading.Lock()

    def work(item: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if item < 3:
            seen.wait(timeout=60)  # passes only where three really run at once
        with lock:
            running -= 1
        if item == 4:
            raise GeneralModelError("no")
        return item * 10

    found = dict(several_at_once(range(9), work, 3))
    assert most == 3
    assert isinstance(found.pop(4), GeneralModelError)
    assert found == {item: item * 10 for item in range(9) if item != 4}


def test_a_fault_of_the_program_is_not_taken_for_a_failed_call() -> None:
    with pytest.raises(ZeroDivisionError):
        list(several_at_once([1, 0], lambda item: 1 // item, 2))


def test_items_are_made_while_calls_wait() -> None:
    """The first call ends only once the second item has been made."""
    made = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        made.set()
        yield 2

    found = list(several_at_once(items(), lambda item: made.wait(timeout=60), 2))
    assert found == [(1, True), (2, True)] or found == [(2, True), (1, True)]


def test_all_paths_are_there_or_a_sample_that_is_told(sample: SqliteStore) -> None:
    topics = [topic(sample, TOLKIEN), topic(sample, LINCOLN), topic(sample, TOLKIEN)]
    found = candidate_paths(sample, topics, WalkRules(), FORM, cap=100_000)
    assert found.notes == ()
    assert len(set(found.texts)) == len(found.texts)
    lengths = [len(group[0].edges) for group in found.groups]
    assert lengths == sorted(lengths)
    for text, group in zip(found.texts, found.groups, strict=True):
        assert {one.text for one in group} == {text}
        assert {one.head.id for one in group} <= {TOLKIEN, LINCOLN}
    number = sum(len(group) for group in found.groups)
    few = candidate_paths(sample, topics, WalkRules(), FORM, cap=3, seed=1)
    assert sum(len(group) for group in few.groups) == 6 < number
    assert set(few.texts) <= set(found.texts)
    assert len(few.notes) == 2
    assert all("at most 3 paths" in note and "seed 1" in note for note in few.notes)
    assert candidate_paths(sample, topics, WalkRules(), FORM, cap=3, seed=1) == few
    with pytest.raises(EmptyLanguageError):
        candidate_paths(sample, [], WalkRules(), FORM, cap=3)


def test_a_budget_of_tokens_takes_short_paths_first_and_says_what_is_left_out(
    sample: SqliteStore,
) -> None:
    asking = Asking("Who?", (topic(sample, TOLKIEN),))
    every, some, one = (
        dict(AllPaths(FORM, rules, prompt_tokens=tokens).answers(sample, [asking]))[0]
        for tokens in (10**9, 300, 1)
    )
    assert isinstance(every, Answer)
    assert isinstance(some, Answer)
    assert isinstance(one, Answer)
    assert every.notes == ()
    assert len(one.paths) == 1
    assert 1 < len(some.paths) < len(every.paths)
    assert f"{len(some.paths):,} of {len(every.paths):,} paths fit" in some.notes[-1]
    hops = [len(path.groundings[0].edges) for path in some.paths]
    left = {path.text for path in every.paths} - {path.text for path in some.paths}
    shortest_left = min(text.count(" -> ") // 2 for text in left)
    assert max(hops) <= shortest_left


@pytest.mark.model
def test_a_general_llm_behind_a_method(sample: SqliteStore, openai_server: OpenAIServer) -> None:
    from kgqa.models.general import GeneralLLM

    questions: list[Asking | KgqaError] = [
        Asking("Where was Tolkien born?", (topic(sample, TOLKIEN),)),
        LinkingError("nothing found"),
        Asking("Where was Lincoln born?", (topic(sample, LINCOLN),)),
    ]
    paths = AllPaths(FORM, rules, prompt_tokens=60)
    with GeneralLLM(openai_server.model, base_url=openai_server.base_url) as general:
        method = WithGeneralLLM(paths, general, concurrency=3, max_tokens=12)
        found = dict(method.answers(sample, questions))
    assert sorted(found) == [0, 1, 2]
    assert isinstance(found[1], LinkingError)
    for number in (0, 2):
        answer = found[number]
        assert isinstance(answer, Answer)
        assert answer.general_llm is not None
        assert (answer.general_llm.calls, answer.kg_llm.calls) == (1, 0)
        assert 0 < answer.general_llm.completion_tokens <= 12
        ends = {one.tail.id for path in answer.paths for one in path.groundings}
        assert all(one.id in ends for one in answer.answers if one.grounded)
    with GeneralLLM("m", base_url="http://127.0.0.1:9/v1", retries=0) as down:
        failed = dict(WithGeneralLLM(paths, down).answers(sample, questions))
    assert isinstance(failed[0], GeneralModelError)
    assert isinstance(failed[1], LinkingError)

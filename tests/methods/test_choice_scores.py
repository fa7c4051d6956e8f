"""Multiple choice by decoding: each reachable choice has a path, words alone decide nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from kgqa.answers.answer import Answer, TopicEntity
from kgqa.decoding.engine import Engine
from kgqa.errors import EmptyLanguageError, LinkingError
from kgqa.methods.choice_scores import PRIOR, answer_choices
from kgqa.methods.gcr import Asking, GcrOptions, answer_questions
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from kgqa.trie.lexicon import PathLexicon
from tests.fixtures import LINCOLN, TOLKIEN

if TYPE_CHECKING:
    from kgqa.graph.sqlite import SqliteStore
    from kgqa.methods.searches import SearchOptions
    from kgqa.models.kg_llm import KgLLM

RULES = WalkRules()
CHOICES = ("Bloemfontein", "London", "Atlantis 9")


def asking(store: SqliteStore, question: str, choices: tuple[str, ...] = CHOICES) -> Asking:
    key = int(store.keys_of([TOLKIEN])[0])
    name = store.details(key).name or ""
    return Asking(question, (TopicEntity(key, TOLKIEN, name, 1.0),), choices=choices)


def answered(
    store: SqliteStore,
    llm: KgLLM,
    question: str,
    options: GcrOptions,
    choices: tuple[str, ...] = CHOICES,
) -> Answer:
    lexicon = PathLexicon(llm.encoder, PathFormat())
    asked = asking(store, question, choices)
    return answer_choices(store, llm, lexicon, asked, RULES, options, Engine(llm.model))


@pytest.mark.parametrize("k", [1, 4, 20])
def test_every_choice_that_can_be_reached_has_a_path(
    sample: SqliteStore, random_llm: KgLLM, k: int
) -> None:
    """However few paths are asked for, and whatever the model would rather write."""
    found = answered(sample, random_llm, "Where was he born?", GcrOptions(k=k))
    assert {path.hypothesis for path in found.paths} == {"Bloemfontein", "London"}
    assert len(found.paths) <= max(k, 2)
    assert {one.name for one in found.answers} == set(CHOICES)
    assert sum(one.score for one in found.answers) == pytest.approx(1.0)
    last = found.answers[-1]
    assert (last.name, last.score, last.grounded) == ("Atlantis 9", 0.0, False)
    assert found.notes == ("No path leads to: Atlantis 9.",)
    assert [path.score for path in found.paths] == sorted(p.score for p in found.paths)[::-1]


def test_what_a_path_says_without_a_question_is_taken_off(
    sample: SqliteStore, random_llm: KgLLM
) -> None:
    """Asked nothing, every path counts by the rest of its own log-probability alone."""
    found = answered(sample, random_llm, "", GcrOptions(k=40))
    weight = {"Bloemfontein": 0.0, "London": 0.0}
    top = max(path.score for path in found.paths)
    for path in found.paths:
        weight[path.hypothesis] += math.exp((1 - PRIOR) * (path.score - top))
    total = sum(weight.values())
    for one in found.answers[:2]:
        assert one.score == pytest.approx(weight[one.name] / total, rel=1e-4)


def test_choices_that_no_path_leads_to_are_an_error(sample: SqliteStore, random_llm: KgLLM) -> None:
    with pytest.raises(EmptyLanguageError, match="Atlantis 9"):
        answered(sample, random_llm, "Where?", GcrOptions(), ("Atlantis 9", "Tlon"))


@pytest.mark.parametrize("kind", ["exact", "diverse", "sample"])
def test_other_searches_find_paths_to_each_choice_too(
    sample: SqliteStore, random_llm: KgLLM, kind: str
) -> None:
    from kgqa.methods.searches import SearchOptions

    search: SearchOptions = SearchOptions(kind, groups=5 if kind == "diverse" else None)  # type: ignore[arg-type]
    found = answered(sample, random_llm, "Where?", GcrOptions(k=10, search=search))
    assert {path.hypothesis for path in found.paths} == {"Bloemfontein", "London"}
    assert found.search.kind == kind


def test_questions_with_and_without_choices_come_back_under_their_numbers(
    sample: SqliteStore, random_llm: KgLLM
) -> None:
    lexicon = PathLexicon(random_llm.encoder, PathFormat())
    key = int(sample.keys_of([LINCOLN])[0])
    free = Asking("Who?", (TopicEntity(key, LINCOLN, "Lincoln", 1.0),))
    chosen = asking(sample, "Where?")
    questions = [free, chosen, LinkingError("Nobody."), chosen, free]
    options, engine = GcrOptions(k=3), Engine(random_llm.model, together=2)
    run = answer_questions(
        sample, random_llm, lexicon, iter(questions), RULES, options, engine=engine
    )
    found = dict(run)
    assert sorted(found) == [0, 1, 2, 3, 4]
    assert isinstance(found[2], LinkingError)
    for number, question in enumerate(questions):
        answer = found[number]
        if number != 2:
            assert isinstance(answer, Answer)
            assert isinstance(question, Asking)
            named = {one.name for one in answer.answers}
            assert (named == set(CHOICES)) == bool(question.choices)

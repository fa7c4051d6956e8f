"""Examples lead to answers, mean the question as well as data can tell, and are real paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kgqa.graph.model import Kind
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules, relation_paths_to
from kgqa.progress import Silent
from kgqa.questions.base import is_held_out
from kgqa.training.data import (
    Example,
    TrainingQuestion,
    build_examples,
    without_repeats,
)
from tests.graph.store_conformance import entity, tables_of
from tests.trie.language import store_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.graph.sqlite import SqliteStore

FORM = PathFormat()
RULES = WalkRules()


@pytest.fixture
def family(tmp_path: Path) -> Iterator[SqliteStore]:
    """Ann has two children, by parenthood and by a will that also names her dog's keeper."""
    nodes = [entity(one.lower(), one) for one in ("Ann", "Bob", "Cid", "Dan", "Rome", "Oslo")]
    nodes.append(entity("m", kind=Kind.MEDIATOR))
    edges = [
        ("ann", "person.children", "bob"),
        ("ann", "person.children", "cid"),
        ("ann", "will.heirs", "bob"),
        ("ann", "will.heirs", "cid"),
        ("ann", "will.heirs", "dan"),
        ("ann", "person.marriage", "m"),
        ("m", "marriage.spouse", "dan"),
        ("dan", "person.born_in", "rome"),
        ("bob", "person.born_in", "oslo"),
    ]
    with store_of(tables_of(nodes, edges), tmp_path) as store:
        yield store


def relations_of(example: Example) -> tuple[str, ...]:
    return tuple(relation for relation, _ in example.hops)


def ask(answers: tuple[str, ...], **more) -> TrainingQuestion:
    return TrainingQuestion("q", "Who are Ann's children?", ("ann",), answers, **more)


def test_the_relation_path_whose_tails_are_the_answers_comes_first(family) -> None:
    keys = family.keys_of(["ann", "bob", "cid"])
    found = relation_paths_to(family, keys[:1], keys[1:], RULES, cap=100)
    assert [(round(path.f1, 2), len(path.steps)) for path in found] == [(1.0, 1), (0.8, 1)]
    assert set(found[0].paths.ends().tolist()) == set(keys[1:].tolist())


def test_examples_are_paths_to_answers(family) -> None:
    examples, report = build_examples(family, [ask(("bob", "cid"))], RULES, FORM, progress=Silent())
    assert {example.hops[-1][1] for example in examples} == {"Bob", "Cid"}
    assert examples[0].hops[0][0] == "person.children"
    assert (report.questions, report.used, report.examples) == (1, 1, len(examples))


def test_gold_predicates_decide_between_equal_tails(family) -> None:
    question = ask(("bob", "cid"), predicates=frozenset({"will.heirs"}))
    examples, _ = build_examples(family, [question], RULES, FORM, progress=Silent())
    assert {example.hops[0][0] for example in examples} == {"will.heirs"}


def test_a_mediator_is_one_hop_of_an_example(family) -> None:
    examples, _ = build_examples(family, [ask(("rome",))], RULES, FORM, progress=Silent())
    (by_marriage,) = [e for e in examples if ".." in e.hops[0][0]]
    assert by_marriage.hops == (
        ("person.marriage..marriage.spouse", "Dan"),
        ("person.born_in", "Rome"),
    )


def test_questions_without_a_path_are_named_not_dropped_in_silence(family) -> None:
    questions = [
        TrainingQuestion("far", "?", ("rome",), ("ann",)),
        TrainingQuestion("strange", "?", ("nobody",), ("ann",)),
    ]
    examples, report = build_examples(family, questions, RULES, FORM, progress=Silent())
    assert (examples, report.unreachable, report.unknown) == ([], ["far"], ["strange"])


def test_every_shortest_path_is_an_example_where_that_is_wanted(family) -> None:
    question = ask(("bob", "rome", "dan"))
    examples, _ = build_examples(
        family, [question], RULES, FORM, per_question=None, selection="shortest", progress=Silent()
    )
    assert {(relations_of(example), example.hops[-1][1]) for example in examples} == {
        (("person.children",), "Bob"),
        (("will.heirs",), "Bob"),
        (("will.heirs",), "Dan"),
        (("person.marriage..marriage.spouse",), "Dan"),
        (("will.heirs", "person.born_in"), "Rome"),
        (("person.marriage..marriage.spouse", "person.born_in"), "Rome"),
    }


def test_the_gold_relation_path_comes_before_one_whose_tails_fit_better(family) -> None:
    """`heirs` has a third tail, and is what the question asks for all the same."""
    question = ask(("bob", "cid"), relation_paths=(("will.heirs",),))
    examples, _ = build_examples(family, [question], RULES, FORM, progress=Silent())
    assert {relations_of(example) for example in examples} == {("will.heirs",)}
    spouse = ask(("dan",), relation_paths=(("person.marriage", "marriage.spouse"),))
    examples, _ = build_examples(family, [spouse], RULES, FORM, progress=Silent())
    assert {relations_of(example) for example in examples} == {
        ("person.marriage..marriage.spouse",)
    }


def test_repeats_and_what_held_out_questions_ask_are_left_out() -> None:
    def example(name: str, question: str, tail: str = "Bob") -> Example:
        return Example(name, question, ("Ann",), "Ann", (("person.children", tail),))

    examples = [
        example("1", "Who is Ann's child?"),
        example("2", "who is ann's child"),
        example("3", "Who is Ann's child?", "Cid"),
        example("4", "Who is Ann's heir?"),
    ]
    assert [repeat.question_id for repeat in without_repeats(examples)] == ["1", "3", "4"]
    held = [example("5", "who is Ann's child")]
    assert [repeat.question_id for repeat in without_repeats(examples, held)] == ["4"]


def test_the_held_out_fifth_is_fixed() -> None:
    held = [number for number in range(1_000) if is_held_out(f"WebQTest-{number}")]
    assert 150 < len(held) < 250
    assert held[:3] == [6, 8, 10], "models were trained without these"

"""What the linker made of questions whose topic entities the file gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgqa.evaluation.graph_metrics import linking_of
from kgqa.evaluation.figures import summarise
from kgqa.evaluation.record import bad_entry_record, record_of
from kgqa.questions import BadEntry, Question

from kgqa.errors import LinkingError
from kgqa.evaluation.report import figure_rows
from kgqa.paths.walk import WalkRules

if TYPE_CHECKING:
    from kgqa.evaluation.record import Record

    from kgqa.graph.sqlite import SqliteStore


def asked(text: str, *topics: str) -> Question:
    return Question("q", text, answers=["Oslo"], topic_entities=list(topics))


def recorded(store: SqliteStore, question: Question, *, linked: bool) -> Record:
    failed = LinkingError("nothing")
    return record_of(store, question, failed, WalkRules(), 0.1, linked=linked)


def test_where_the_given_entity_stands(small: SqliteStore) -> None:
    found = linking_of(small, asked("Where was Anna born?", "Anna"))
    assert found is not None
    assert (found["first"], found["in_five"], found["in_linked"], found["all_linked"]) == (
        True,
    ) * 4
    assert found["linked"] == found["candidates"][:1] == ["e.anna"]
    other = linking_of(small, asked("Where was Anna born?", "Oslo"))
    assert other is not None
    assert (other["first"], other["in_linked"]) == (False, False)
    both = linking_of(small, asked("Where was Anna born?", "Anna", "Oslo"))
    assert both is not None
    assert (both["in_linked"], both["all_linked"]) == (True, False)


def test_a_question_that_links_to_nothing_is_missed(small: SqliteStore) -> None:
    found = linking_of(small, asked("Where was Zzyzx born?", "Anna"))
    assert found is not None
    assert found["candidates"] == []
    assert not found["first"]


def test_what_the_file_does_not_give_is_not_measured(small: SqliteStore) -> None:
    assert linking_of(small, asked("Where was Anna born?")) is None


def test_figures_are_shares_of_all_and_only_of_linked_runs(small: SqliteStore) -> None:
    right = recorded(small, asked("Where was Anna born?", "Anna"), linked=True)
    wrong = recorded(small, asked("Where was Anna born?", "Oslo"), linked=True)
    broken = bad_entry_record(BadEntry("questions.jsonl", 3, "no JSON"))
    assert Record(**right.model_dump()) == right
    figures = linking_figures([right, wrong, wrong, broken])
    assert figures is not None
    assert (figures["questions"], figures["first"], figures["topics"]) == (4, 25.0, 1.0)
    low, high = figures["intervals"]["first"]
    assert low <= 25.0 <= high
    summary = summarise([right, wrong], kg="small", method="gcr", format="jsonl")
    assert summary["linking"]["first"] == 50.0
    assert any("linking" in title for title, _, _ in figure_rows(summary))
    given = recorded(small, asked("Where was Anna born?", "Anna"), linked=False)
    assert linking_figures([given, broken]) is None

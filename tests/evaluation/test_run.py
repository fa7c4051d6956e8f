"""A run asks each question of the right graph, and loses none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kgqa.answers.answer import (
    Answer,
    KgLlmUse,
    RankedAnswer,
    ScoredPath,
    Timings,
    TopicEntity,
)
from kgqa.errors import LinkingError
from kgqa.evaluation.run import run_questions
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import ground
from kgqa.paths.walk import WalkRules, walk
from kgqa.progress import Silent
from kgqa.questions.readers import Question, read_questions

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.sqlite import SqliteStore

RULES = WalkRules()


def all_paths(store, questions):
    """Answer with every path of the topic entity, the last question first; one may fail."""
    for number in reversed(range(len(questions))):
        topics = questions[number].topic_entities
        key = store.keys_of(topics[:1])
        if not len(key) or key[0] < 0:
            yield number, LinkingError("Nothing was found.")
            continue
        table, _ = walk(store, key, RULES)
        paths = [path for path in ground(store, table, PathFormat()) if path]
        yield (
            number,
            Answer(
                question=questions[number].question,
                method="gcr",
                topic_entities=(TopicEntity(int(key[0]), topics[0], topics[0], 1.0),),
                answers=tuple(RankedAnswer(p.tail.id, p.tail.name, 1.0, True) for p in paths),
                paths=tuple(ScoredPath(p.text, -1.0, p.tail.name, (p,)) for p in paths),
                kg_llm=KgLlmUse("m", None, 1, 1, 1),
                timings=Timings(decode=0.5),
                forward_passes=1,
            ),
        )


def test_every_question_has_its_record_in_the_order_of_the_file(small: SqliteStore) -> None:
    questions = [
        Question("a", "?", ["e.oslo"], ["Norway"]),
        Question("b", "?", [], ["Norway"]),
        Question("c", "?", ["e.clerk"], ["Norway"]),
    ]
    came = []
    records = run_questions(small, questions, all_paths, lambda _: RULES, Silent(), came.append)
    assert [one.id for one in records] == ["a", "b", "c"]
    assert [one.id for one in came] == ["c", "b", "a"]
    assert [one.outcome for one in records] == ["right", "linking", "not reachable"]
    assert run_questions(small, [], all_paths, lambda _: RULES, Silent()) == []


def test_questions_with_a_graph_are_asked_of_it(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    row = {"question": "?", "q_entity": ["x"], "a_entity": ["y"]}
    graphs = [[["x", "r", "y"]], [["x", "r", "z"]], [["x", "r", "y\u0000"]]]
    path.write_text("".join(json.dumps({**row, "graph": graph}) + "\n" for graph in graphs))
    questions = read_questions(path, "rog").questions
    records = run_questions(None, questions, all_paths, lambda _: RULES, Silent())
    assert [one.outcome for one in records[:2]] == ["right", "not reachable"]
    assert len(records) == 3
    path.write_text("")  # gone while the run goes on: each is a failed question with its reason
    records = run_questions(None, questions, all_paths, lambda _: RULES, Silent())
    assert [one.outcome for one in records] == ["failed"] * 3
    assert "r.jsonl" in records[0].error


def test_a_run_without_a_graph_to_ask_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="need a store"):
        run_questions(None, [Question("a", "?", [], [])], all_paths, lambda _: RULES, Silent())

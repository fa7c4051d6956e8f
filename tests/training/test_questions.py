"""Question files as training reads them: spellings, gold paths, faults."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kgqa.errors import DataError
from kgqa.progress import Silent
from kgqa.training.data import TrainingFile, read_file, read_topics

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.sqlite import SqliteStore


def read(
    path: Path, topics: Path | None = None, form: str = "jsonl"
) -> tuple[TrainingFile, list[str]]:
    progress = Silent()
    return read_file(path, form, topics, progress), progress.notes


def test_entries_that_cannot_be_read_are_noted(town: SqliteStore, tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    row = {"id": 1, "question": "a?", "topic_entities": ["p1"], "answers": ["c1"]}
    path.write_text("\n".join([json.dumps(row), json.dumps({"id": "3"}), "nonsense", ""]))
    file, notes = read(path)
    made = [file.in_graph(town, question) for question in file.questions]
    assert [(one.id, one.topics, one.answers) for one in made] == [("1", ("p1",), ("c1",))]
    assert notes[0] == 'q.jsonl, line 2: "question" is missing - not a question.'
    assert "q.jsonl, line 3: not JSON" in notes[1]


def test_gold_relation_paths_stand_for_answers_and_topics_may_lie_elsewhere(
    town: SqliteStore, tmp_path: Path
) -> None:
    path, beside = tmp_path / "q.jsonl", tmp_path / "topics.json"
    lines = [
        {"id": "a", "question": "a?", "relation_paths": [["p.q.r", "p.q.r"]]},
        {"id": "b", "question": "b?", "relation_paths": [["p.q.r"]]},
        {"id": "a", "question": "again?", "relation_paths": [["p.q.r"]]},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    linked = {
        "id": "a",
        "freebase_ids": ["m.1", "m.2"],
        "pred_tuples_string": [["A", "a"], ["B", "b"]],
    }
    beside.write_text(json.dumps([linked]))
    assert read_topics(beside) == {"a": {"m.1": "A", "m.2": "B"}}
    file, notes = read(path, beside)
    question, other = file.questions
    assert other.topic_entities == []
    assert (question.topic_entities, question.answers) == (["m.1", "m.2"], [])
    assert question.names == {"m.1": "A", "m.2": "B"}
    made = file.in_graph(town, question)
    assert (made.loose, made.predicates) == (True, frozenset())
    assert made.relation_paths == (("p.q.r", "p.q.r"),)
    assert "used in line 1" in notes[0]
    beside.write_text('{"id": "a"}')
    with pytest.raises(DataError, match="Record 1"):
        read_topics(beside)


def test_a_file_without_a_question_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text("{}\n")
    with pytest.raises(DataError, match="holds no question"):
        read(path)
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "missing.jsonl")


def test_gold_queries_of_published_sets_hold_predicates(town: SqliteStore, tmp_path: Path) -> None:
    row = {"id": "1", "question": "b?", "q_entity": ["p1"], "a_entity": ["c1"]}
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({**row, "sparql": "?x ns:a.b.c ns:m.0x ."}))
    file, _ = read(path, form="webqsp-graph")
    made = file.in_graph(town, file.questions[0])
    assert (made.topics, made.answers) == (("p1",), ("c1",))
    assert made.predicates == {"a.b.c"}

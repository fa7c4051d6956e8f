"""A run asks each question of the right graph, and loses none."""

from __future__ import annotations

import json
import os
import signal
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kgqa.answers.answer import SearchUse
from kgqa.errors import LinkingError, UsageError, WorkerError
from kgqa.evaluation import Evaluation, compare_runs, evaluate
from kgqa.evaluation.record import read_run
from kgqa.evaluation.run import Asking, EvaluationWorkers, WorkerRecords
from kgqa.graph.sqlite import SqliteStore
from kgqa.parallel import LocalExecutor
from kgqa.progress import Silent
from kgqa.questions import BadEntry, Question, QuestionFile, read_questions
from tests.evaluation.runs import RULES, answer_of

if TYPE_CHECKING:
    from pathlib import Path


def all_paths(store, questions):
    """Answer with every path of the topic entity, the last question first; one may fail."""
    for number in reversed(range(len(questions))):
        topics = questions[number].topic_entities[:1]
        known = topics and store.keys_of(topics)[0] >= 0
        yield number, answer_of(store, *topics) if known else LinkingError("Nothing was found.")


def run(
    store: SqliteStore | None, questions: list[Question] | QuestionFile, **more: Any
) -> Evaluation:
    file = questions if isinstance(questions, QuestionFile) else QuestionFile(questions)
    return evaluate(store, file, all_paths, lambda _: RULES, {"method": "gcr"}, **more)


QUESTIONS = [
    Question("a", "?", ["e.oslo"], ["Norway"]),
    Question("b", "?", [], ["Norway"]),
    Question("c", "?", ["e.clerk"], ["Norway"]),
]


def test_every_question_has_its_record_in_the_order_of_the_file(small: SqliteStore) -> None:
    bad = BadEntry("q.jsonl", 4, "not JSON")
    found = run(small, QuestionFile(QUESTIONS, [bad]))
    assert [record.id for record in found.records] == ["a", "b", "c", "q.jsonl, line 4"]
    outcomes = ["right", "linking", "not reachable", "malformed"]
    assert [record.outcome for record in found.records] == outcomes
    assert found.figures["hits_at_1"] == 25.0
    assert (found.figures["kg"], found.figures["method"]) == ("small", "gcr")
    assert "q.jsonl, line 4" in found.notes[0]
    assert found.reports == ()
    assert found.tables()[0].title == "Scores"
    assert "questions took" in found.times()
    assert run(small, []).records == []


def test_a_run_with_a_folder_goes_on_and_writes_reports(small: SqliteStore, tmp_path: Path) -> None:
    run(small, QUESTIONS[:2], out=tmp_path)
    progress = Silent()
    found = run(small, QUESTIONS, out=tmp_path, progress=progress)
    assert [record.id for record in found.records] == ["a", "b", "c"]
    assert "2 of 3 questions have been answered before" in found.notes[0]
    assert progress.notes == list(found.notes)
    assert [report.name for report in found.reports] == ["report.md"]
    assert [value.id for value in read_run(tmp_path).values()] == ["b", "a", "c"]  # as they came
    with pytest.raises(UsageError, match="another linked: false, not true"):
        run(small, QUESTIONS, out=tmp_path, linked=True)
    assert compare_runs(tmp_path, tmp_path).shared == 3


def test_questions_with_a_graph_are_asked_of_it(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    row = {"question": "?", "q_entity": ["x"], "a_entity": ["y"]}
    graphs = [[["x", "r", "y"]], [["x", "r", "z"]], [["x", "r", "y\u0000"]]]
    path.write_text("".join(json.dumps({**row, "graph": graph}) + "\n" for graph in graphs))
    file = read_questions(path, "rog")
    found = run(None, file)
    assert [record.outcome for record in found.records[:2]] == ["right", "not reachable"]
    assert len(found.records) == 3
    assert (found.figures["kg"], found.settings["form"]) == ("own", "rog")
    # the file changes while the run goes on: each is a failed question with its reason
    path.write_text("")
    records = run(None, file).records
    assert [record.outcome for record in records] == ["failed"] * 3
    assert "r.jsonl" in records[0].error


def test_a_run_without_a_graph_to_ask_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="need a store"):
        run(None, [Question("a", "?", [], [])])


def test_what_an_exact_search_could_not_prove_is_noted(small: SqliteStore) -> None:
    def answers(store, questions):
        for number, answer in all_paths(store, questions):
            yield number, replace(answer, search=SearchUse("exact", proven=number > 0))

    file = QuestionFile([QUESTIONS[0], QUESTIONS[2]])
    found = evaluate(small, file, answers, lambda _: RULES, {})
    assert "the paths of 1 of 2 questions" in found.notes[0]


@contextmanager
def asking(path, deadly):
    """Ask in a worker, which one question kills; another does so the first time, by a file."""
    if deadly == "opening":
        os.kill(os.getpid(), signal.SIGKILL)
    with SqliteStore(path) as store:
        run = Asking(all_paths, lambda _: RULES, linked=False, k=10)

        def ask(questions):
            for question in questions:
                once = path.parent / f"once-{question.id}"
                if question.id == deadly or (question.question == "once?" and not once.exists()):
                    once.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
            return WorkerRecords(list(run.records(store, questions)), [True, False], ["told"])

        yield ask


def test_workers_give_the_records_of_one_process_and_name_a_question_that_ends_them(
    small: SqliteStore, tmp_path: Path
) -> None:
    kinds = [["e.oslo"], [], ["e.clerk"]]
    questions = [Question(str(n), "?", kinds[n % 3], ["Norway"]) for n in range(40)]
    graph = tmp_path / "small.sqlite"
    graph.write_bytes(small.path.read_bytes())
    alone = run(small, questions)

    def shared(deadly: str, asked: list[Question], out: str) -> Evaluation:
        workers = EvaluationWorkers(LocalExecutor(2), partial(asking, graph, deadly))
        return run(small, asked, out=tmp_path / out, workers=workers)

    def plain(found: Evaluation) -> list[dict[str, Any]]:
        return [record.model_dump(exclude={"seconds"}) for record in found.records]

    shared("", questions[:10], "a")
    found = shared("", [replace(questions[0], question="once?"), *questions[1:]], "a")
    assert plain(found) == plain(alone)
    assert "10 of 40 questions have been answered before" in found.notes[0]
    assert found.notes.count("told") == 1
    assert len(read_run(tmp_path / "a")) == 40

    questions[21] = replace(questions[21], question="once?")
    found = shared("8", questions, "b")
    wrong = [record for record in found.records if record.error and record.outcome == "failed"]
    assert [record.id for record in wrong] == ["8"]
    assert "worker process ended" in wrong[0].error
    assert [one for one in plain(found) if one["id"] not in ("8", "21")] == [
        one for one in plain(alone) if one["id"] not in ("8", "21")
    ]
    assert found.records[21].outcome == alone.records[21].outcome
    assert any("are asked again" in note and "8, " in note for note in found.notes)

    with pytest.raises(WorkerError, match="ended before"):
        shared("opening", questions, "c")
    assert read_run(tmp_path / "c") == {}

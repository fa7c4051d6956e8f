"""A run over a file of questions: a caller's function answers, records are made as it goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from kgqa.answers.answer import Answer
from kgqa.errors import DataError, GraphError, KgqaError
from kgqa.evaluation.figures import summarise
from kgqa.evaluation.log import open_log
from kgqa.evaluation.record import bad_entry_record, failed_record, record_of
from kgqa.evaluation.report import figure_tables, time_sentence, write_reports
from kgqa.graph.store import GraphStore
from kgqa.progress import Silent
from kgqa.questions.base import Question
from kgqa.questions.graphs import own_store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kgqa.evaluation.record import Record
    from kgqa.evaluation.report import ReportTable
    from kgqa.paths.walk import WalkRules
    from kgqa.progress import Progress
    from kgqa.questions.base import QuestionFile

OWN = "own"  # the KG's name if each question has one

Answers: TypeAlias = Callable[
    [GraphStore, Sequence[Question]], Iterator[tuple[int, Answer | KgqaError]]
]
"""Yields the number of each question once, with its answer or its error, in any order."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came out of a run: the JSON of ``kgqa eval``, records (bad entries' last), reports."""

    figures: dict[str, Any]
    records: list[Record]
    settings: dict[str, Any]
    reports: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    def tables(self) -> list[ReportTable]:
        """Return the figures as tables, to be shown."""
        return figure_tables(self.figures)

    def times(self) -> str:
        """Return how long questions took, in a sentence; empty if none was answered."""
        return time_sentence(self.figures)


def evaluate(
    store: GraphStore | None,
    questions: QuestionFile,
    answers: Answers,
    rules: Callable[[GraphStore], WalkRules],
    settings: Mapping[str, Any],
    *,
    out: Path | None = None,
    linked: bool = False,
    k: int | None = 10,
    progress: Progress | None = None,
) -> Evaluation:
    """Ask every question of a file and return the figures over all of them.

    Questions with a graph are asked of that, others of ``store``. ``settings`` say how answers are
    made, with the method's name under ``method``. ``out``: a folder for lines and reports; a
    stopped run goes on from it. ``linked``: look for topic entities even if given, and record how
    that went. ``k``: of Hit@K, None for all. Raises DataError, UsageError and GraphError.
    """
    progress = progress or Silent()
    notes: list[str] = []

    def note(text: str) -> None:
        notes.append(text)
        progress.note(text)

    if questions.bad_entries:
        note(questions.complaint())
    kg = OWN if store is None else store.info.name
    made_with = {
        "form": questions.format,
        "file": questions.path.name if questions.path is not None else None,
        "file_sha256": questions.sha256(),
        "split": questions.split,
        "kg": kg,
        "kg_version": store.info.version if store is not None else None,
        "linked": linked,
        **settings,
    }
    with ExitStack() as stack:
        log = stack.enter_context(open_log(out, made_with)) if out is not None else None
        done: dict[str, Record] = log.done if log is not None else {}

        def keep(record: Record) -> None:
            done[record.id] = record
            if log is not None:
                log.write(record)

        every = len(questions.questions)
        left = [one for one in questions.questions if one.id not in done]
        if len(left) < every:
            note(
                f"{every - len(left):,} of {every:,} questions have been answered before; the run "
                "goes on from there."
            )
        run = _Run(answers, rules, linked, k)
        with progress.task("answering", len(left), "questions") as task:
            for record in run.records(store, left):
                keep(record)
                task.advance()
        if unproven := run.proven.count(False):
            note(
                f"Not proven to be the best: the paths of {unproven:,} of {len(run.proven):,} "
                "questions that were answered now."
            )
        for bad in questions.bad_entries:
            if bad.place not in done:
                keep(bad_entry_record(bad))
        names = [one.id for one in questions.questions]
        records = [done[name] for name in (*names, *(one.place for one in questions.bad_entries))]
        figures = summarise(
            records, kg=kg, method=str(settings.get("method", "")), format=questions.format
        )
        reports = () if out is None else write_reports(out, figures, records, made_with)
    return Evaluation(figures, records, made_with, reports, tuple(notes))


@dataclass(slots=True)
class _Run:
    answers: Answers
    rules: Callable[[GraphStore], WalkRules]
    linked: bool
    k: int | None
    proven: list[bool] = field(default_factory=list)

    def records(self, store: GraphStore | None, questions: Sequence[Question]) -> Iterator[Record]:
        """Yield the record of each question as it is answered, those of the KG first."""
        of_kg = [one for one in questions if one.graph is None]
        if of_kg:
            if store is None:
                raise ValueError("questions without a graph of their own need a store")
            yield from self._asked(store, of_kg)
        for question in questions:
            if question.graph is None:
                continue
            began = time.perf_counter()
            try:
                with own_store(question) as own:
                    records = list(self._asked(own, [question]))
            except (GraphError, DataError) as error:  # a fault of this one graph
                records = [failed_record(question, error, time.perf_counter() - began)]
            yield from records

    def _asked(self, store: GraphStore, questions: Sequence[Question]) -> Iterator[Record]:
        rules = self.rules(store)
        began = time.perf_counter()
        for number, given in self.answers(store, questions):
            spent = time.perf_counter() - began
            if isinstance(given, Answer) and given.search.proven is not None:
                self.proven.append(given.search.proven)
            question = questions[number]
            yield record_of(store, question, given, rules, spent, linked=self.linked, k=self.k)
            began = time.perf_counter()

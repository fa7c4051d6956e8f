"""A run over a file of questions: a caller's function answers, records are made as it goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from kgqa.answers.answer import Answer
from kgqa.errors import DataError, GraphError, KgqaError
from kgqa.evaluation.figures import summarise
from kgqa.evaluation.record import Record, bad_entry_record, failed_record, open_log, record_of
from kgqa.evaluation.report import ReportTable, figure_tables, time_sentence, write_report
from kgqa.graph.store import GraphStore
from kgqa.progress import Progress, Silent
from kgqa.questions.base import Question, QuestionFile
from kgqa.questions.graphs import own_store

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.parallel import Executor, Opened
    from kgqa.paths.walk import WalkRules

OWN = "own"  # the KG's name if each question has one
_UNIT = 16  # questions that a worker is given at most: as many as share forward passes anywhere
_UNITS = 4  # that each worker should get, so that all end at about the same time

Answers: TypeAlias = Callable[
    [GraphStore, Sequence[Question]], Iterator[tuple[int, Answer | KgqaError]]
]
"""Yields the number of each question once, with its answer or its error, in any order."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of a run: the JSON of ``kgqa eval``, records (bad entries' last), reports."""

    figures: dict[str, Any]
    records: list[Record]
    settings: dict[str, Any]
    reports: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    def tables(self) -> list[ReportTable]:
        """Return the figures as tables for display."""
        return figure_tables(self.figures)

    def times(self) -> str:
        """Return a sentence on the questions' running times, "" if none was answered."""
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
    workers: EvaluationWorkers | None = None,
) -> Evaluation:
    """Ask every question of a file; return the figures over all of them.

    Questions with a graph of their own are asked of it, others of ``store``. ``settings`` describe
    how answers are made, with the method's name under ``method``. ``out``: a folder for records and
    reports; a stopped run is continued from it. ``linked``: link topic entities even if given, and
    record how that went. ``k``: of Hit@K, None for all. ``workers`` ask in place of this process,
    which alone writes. Raises DataError, UsageError, GraphError and WorkerError.
    """
    progress = progress or Silent()
    notes: list[str] = []

    def note(text: str) -> None:
        """Keep a note for the report, and show it."""
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
            """Keep a record, and write it to the log."""
            done[record.id] = record
            if log is not None:
                log.write(record)

        every = len(questions.questions)
        left = [question for question in questions.questions if question.id not in done]
        if len(left) < every:
            note(
                f"{every - len(left):,} of {every:,} questions have been answered before; the run "
                "goes on from there."
            )
        run = Asking(answers, rules, linked, k)
        proven = run.proven if workers is None else workers.proven
        asked = run.records(store, left) if workers is None else workers.records(left, note)
        with closing(asked), progress.task("answering", len(left), "questions") as task:
            for record in asked:
                keep(record)
                task.advance()
        if unproven := proven.count(False):
            note(
                f"Not proven to be the best: the paths of {unproven:,} of {len(proven):,} "
                "questions that were answered now."
            )
        for bad in questions.bad_entries:
            if bad.place not in done:
                keep(bad_entry_record(bad))
        names = [question.id for question in questions.questions]
        records = [
            done[name] for name in (*names, *(entry.place for entry in questions.bad_entries))
        ]
        figures = summarise(
            records, kg=kg, method=str(settings.get("method", "")), format=questions.format
        )
        reports = () if out is None else (write_report(out, figures, records, made_with),)
    return Evaluation(figures, records, made_with, reports, tuple(notes))


@dataclass(slots=True)
class Asking:
    """Asks questions in this process and makes their records; see :func:`evaluate`."""

    answers: Answers
    rules: Callable[[GraphStore], WalkRules]
    linked: bool
    k: int | None
    proven: list[bool] = field(default_factory=list)

    def records(
        self, store: GraphStore | None, questions: Sequence[Question]
    ) -> Generator[Record, None, None]:
        """Yield the record of each question as it is answered, those asked of the KG first.

        A question whose own graph cannot be read has the record of a failure.
        """
        of_kg = [question for question in questions if question.graph is None]
        if of_kg:
            if store is None:
                raise ValueError("questions without a graph of their own need a store")
            yield from self._records_of(store, of_kg)
        for question in questions:
            if question.graph is None:
                continue
            began = time.perf_counter()
            try:
                with own_store(question) as own:
                    records = list(self._records_of(own, [question]))
            except (GraphError, DataError) as error:  # a fault of this one graph
                records = [failed_record(question, error, time.perf_counter() - began)]
            yield from records

    def _records_of(self, store: GraphStore, questions: Sequence[Question]) -> Iterator[Record]:
        """Yield the records of questions about one graph."""
        rules = self.rules(store)
        began = time.perf_counter()
        for number, given in self.answers(store, questions):
            spent = time.perf_counter() - began
            if isinstance(given, Answer) and given.search.proven is not None:
                self.proven.append(given.search.proven)
            question = questions[number]
            yield record_of(store, question, given, rules, spent, linked=self.linked, k=self.k)
            began = time.perf_counter()


@dataclass(frozen=True, slots=True)
class WorkerRecords:
    """A worker's records of a batch of questions; ``notes``: messages for the user.

    ``calls``: those made to the general LLM; ``cached``: those answered from the cache instead.
    """

    records: list[Record]
    proven: list[bool]
    notes: list[str]
    calls: int = 0
    cached: int = 0


@dataclass(slots=True)
class EvaluationWorkers:
    """Evaluates questions in worker processes; ``opened`` creates a worker's session."""

    executor: Executor
    opened: Opened[Sequence[Question], WorkerRecords]
    proven: list[bool] = field(default_factory=list)
    calls: int = 0
    cached: int = 0

    def records(
        self, questions: Sequence[Question], note: Callable[[str], None]
    ) -> Generator[Record, None, None]:
        """Yield the record of each question. Raises WorkerError if no worker can work.

        The questions of a lost worker are asked once more, one by one; if a worker ends again, the
        question is recorded as failed. ``note`` is called with each worker's note, once for equal
        ones.
        """
        size = len(questions) // (_UNITS * (self.executor.workers or _UNITS))
        # an empty one comes first: where that is lost, no worker will do any
        units = [(), *_batches_of(questions, max(1, min(_UNIT, size)))] if questions else []
        noted: set[str] = set()
        lost: list[Question] = []
        for again in (False, True):
            with closing(self.executor.run(self.opened, units)) as results:
                for unit, record in zip(units, results, strict=True):
                    if isinstance(record, WorkerRecords):
                        self.proven += record.proven
                        self.cached += record.cached
                        self.calls += record.calls
                        for text in record.notes:
                            if text not in noted:
                                noted.add(text)
                                note(text)
                        yield from record.records
                    elif again:
                        yield failed_record(unit[0], record, 0.0)
                    elif not unit:
                        raise record
                    else:
                        lost += unit
            # once more, one by one: a worker that ran out of memory took innocent questions along
            if not lost or again:
                return
            note(
                f"A worker ended while it was asked {len(lost):,} of the questions; they are asked "
                f"again, one by one: {', '.join(question.id for question in lost[:_UNIT])}."
            )
            units = _batches_of(lost, 1)


def _batches_of(questions: Sequence[Question], size: int) -> list[Sequence[Question]]:
    """Split questions into batches of ``size``."""
    return [questions[start : start + size] for start in range(0, len(questions), size)]

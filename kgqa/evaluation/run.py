"""A run over a file of questions: each is asked, and its record is made while its graph is open.

What it does not do: decide how a question is answered, which the caller passes as a function; make
figures of the records (``metrics_summary``), or keep them (``report_log``).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kgqa.errors import DataError, GraphError
from kgqa.evaluation.report_record import failed_record, record_of
from kgqa.questions.own_graph import own_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kgqa.answers.answer import Answer
    from kgqa.errors import KgqaError
    from kgqa.evaluation.report_record import Record
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import WalkRules
    from kgqa.progress import Progress
    from kgqa.questions.readers import Question

    Answers = Callable[[GraphStore, Sequence[Question]], Iterator[tuple[int, "Answer | KgqaError"]]]


def run_questions(
    store: GraphStore | None,
    questions: Sequence[Question],
    answers: Answers,
    rules: Callable[[GraphStore], WalkRules],
    progress: Progress,
    each: Callable[[Record], None] = lambda record: None,
    *,
    linked: bool = False,
    k: int | None = None,
) -> list[Record]:
    """Ask every question and return the records in order; a failed one has an error.

    Questions are asked of ``store``, those that bring a graph along of that graph, one at a time;
    where all do, ``store`` may be None. ``answers`` yields the number of each of its questions
    once, with its answer or its error, in any order: questions may be decoded together. ``rules``
    says by which walks a graph's paths are found. ``each`` is called with every record as it comes.
    ``linked``: whether topic entities are looked for, and a record says how that went. ``k``: how
    many of the ranked entities Hit@K looks at, all where it is None.
    A record's seconds are the stages of its own answer; where questions share forwards, its share.
    """
    found: dict[int, Record] = {}
    with progress.task("answering", len(questions), "questions") as task:

        def take(number: int, record: Record) -> None:
            each(record)
            found[number] = record
            task.advance()

        asked = [number for number, one in enumerate(questions) if one.graph is None]
        if asked and store is None:
            raise ValueError("questions without a graph of their own need a store")
        if store is not None:
            for place, record in _asked(
                store, [questions[one] for one in asked], answers, rules, linked=linked, k=k
            ):
                take(asked[place], record)
        for number, question in enumerate(questions):
            if question.graph is None:
                continue
            began = time.perf_counter()
            try:
                with own_store(question) as own:
                    found_own = _asked(own, [question], answers, rules, linked=linked, k=k)
                    records = [one for _, one in found_own]
            except (GraphError, DataError) as error:  # a fault of this one graph
                records = [failed_record(question, error, time.perf_counter() - began)]
            take(number, records[0])
    return [found[number] for number in sorted(found)]


def _asked(
    store: GraphStore,
    questions: Sequence[Question],
    answers: Answers,
    rules: Callable[[GraphStore], WalkRules],
    *,
    linked: bool,
    k: int | None,
) -> Iterator[tuple[int, Record]]:
    if not questions:
        return
    walks = rules(store)
    began = time.perf_counter()
    for number, given in answers(store, questions):
        spent = time.perf_counter() - began
        yield number, record_of(store, questions[number], given, walks, spent, linked=linked, k=k)
        began = time.perf_counter()

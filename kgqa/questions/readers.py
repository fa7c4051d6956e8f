"""Question files → questions, every line accounted for.

The forms, by name: ``jsonl`` (the project's own: ``{id, question, topic_entities, answers,
choices?, hops?, type?, relation_paths?}``), and those that benchmarks are published in. A line that
is not of the form is kept as ``Malformed``, so that it is named and counts as unanswered. What it
does not do: look entities up; ids and names stay as they stand in the file.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from kgqa.errors import DataError, UsageError
from kgqa.questions.base import (
    Malformed,
    OwnGraph,
    Question,
    QuestionFile,
    Triple,
    id_of,
    json_lines,
    text_of,
    texts_of,
)
from kgqa.questions.choice import read_commonsenseqa, read_medqa
from kgqa.questions.graphs import read_graph_questions, read_rog
from kgqa.questions.text import read_metaqa, read_pathquestion
from kgqa.questions.twowiki import read_2wiki
from kgqa.questions.webqsp import read_webqsp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kgqa.questions.base import Read

__all__ = [
    "FORMS",
    "Malformed",
    "OwnGraph",
    "Question",
    "QuestionFile",
    "Triple",
    "iter_questions",
    "read_questions",
]


def iter_questions(path: Path, form: str = "jsonl") -> Iterator[Question | Malformed]:
    """Yield the questions of a file, and what is none, in their order; blank lines are none.

    An id that comes again is malformed; a missing one is the line's number. Raises UsageError for a
    form that is not in ``FORMS``, DataError where the file cannot be read.
    """
    if form not in FORMS:
        raise UsageError(
            f"There is no question file form '{form}'.", f"It is one of {', '.join(FORMS)}."
        )
    # a file that is one JSON object, or one list, has no line for each question
    unit = {"webqsp": "question", "2wiki": "entry"}.get(form, "line")
    seen: dict[str, int] = {}
    for number, read in FORMS[form](path):
        if isinstance(read, str):
            yield Malformed(path.name, number, read, unit)
        elif read.id in seen:
            reason = f'the id "{read.id}" was used in {unit} {seen[read.id]}'
            yield Malformed(path.name, number, reason, unit)
        else:
            seen[read.id] = number
            yield read


def read_questions(path: Path, form: str = "jsonl", limit: int | None = None) -> QuestionFile:
    """Return the first ``limit`` questions of a file (all by default), with what is malformed.

    Raises UsageError and DataError as :func:`iter_questions` does, and DataError where the file
    holds no question at all.
    """
    questions: list[Question] = []
    malformed: list[Malformed] = []
    for one in islice(iter_questions(path, form), limit):
        if isinstance(one, Question):
            questions.append(one)
        else:
            malformed.append(one)
    if not questions:
        first = f" {malformed[0]}." if malformed else ""
        raise DataError(
            f"The question file {path} holds no question of the form {form}.{first}",
            'A line looks like {"id": "1", "question": "…", "topic_entities": ["…"], '
            '"answers": ["…"]}.'
            if form == "jsonl"
            else "See that the form named before the file is the file's.",
        )
    return QuestionFile(questions, malformed)


def _read_own(path: Path) -> Iterator[Read]:
    return json_lines(path, _question)


def _question(row: dict[str, Any], number: int) -> Question:
    """Return the question of one line. Raises ValueError that says what is wrong with it."""
    question = text_of(row, "question")
    answers = texts_of(row, "answers")
    if answers is None:
        raise ValueError('"answers" is missing')
    return Question(
        id=id_of(row, "id", number),
        question=question,
        topic_entities=texts_of(row, "topic_entities") or [],
        answers=answers,
        choices=texts_of(row, "choices") or [],
        hops=_hops(row),
        type=text_of(row, "type") if row.get("type") is not None else "",
        relation_paths=_relation_paths(row),
    )


def _hops(row: dict[str, Any]) -> int | None:
    value = row.get("hops")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError('"hops" is no whole number from 0 up')
    return value


def _relation_paths(row: dict[str, Any]) -> list[tuple[str, ...]]:
    value = row.get("relation_paths")
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError('"relation_paths" is no list')
    return list(
        dict.fromkeys(tuple(texts_of({"relation_paths": p}, "relation_paths") or []) for p in value)
    )


FORMS: dict[str, Callable[[Path], Iterator[Read]]] = {
    "jsonl": _read_own,
    "webqsp": read_webqsp,
    "webqsp-graph": read_graph_questions,
    "cwq-graph": read_graph_questions,
    "rog": read_rog,
    "metaqa": read_metaqa,
    "pathquestion": read_pathquestion,
    "commonsenseqa": read_commonsenseqa,
    "medqa": read_medqa,
    "2wiki": read_2wiki,
}

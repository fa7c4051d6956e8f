"""Question files → questions, every line accounted for.

So far the generic form: JSON lines ``{id, question, topic_entities, answers, choices?, hops?}``. A
line that is not of the form is kept as ``Malformed``, so that it is named and counts as unanswered.
What it does not do: look entities up; ids and names stay as they stand in the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kgqa.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

_SHOWN = 5  # malformed lines named in one message


@dataclass(frozen=True, slots=True)
class Question:
    """One question; ``topic_entities`` and ``answers`` are ids or names, as the file has them.

    ``choices`` is empty where it is no multiple-choice question, ``answers`` where the KG cannot
    answer it; ``hops`` is None where not known, 0 where there is no answer to walk to.
    """

    id: str
    question: str
    topic_entities: list[str]
    answers: list[str]
    choices: list[str] = field(default_factory=list)
    hops: int | None = None


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that is no question: where it stands, and what is wrong with it."""

    file: str
    line: int  # counts from 1
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """What a file holds. ``total`` is the denominator of every figure, malformed lines included."""

    questions: list[Question]
    malformed: list[Malformed]

    @property
    def total(self) -> int:
        """How many questions the file asks, readable or not."""
        return len(self.questions) + len(self.malformed)

    def complaint(self) -> str:
        """Return one sentence that names the malformed lines; empty where there is none."""
        if not self.malformed:
            return ""
        shown = "; ".join(str(line) for line in self.malformed[:_SHOWN])
        more = len(self.malformed) - _SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        count = len(self.malformed)
        lines = "1 line is" if count == 1 else f"{count} lines are"
        return f"{lines} malformed and counted as unanswered: {shown}{rest}."


def read_questions(path: Path) -> QuestionFile:
    """Return the questions of a JSON lines file; blank lines are none.

    ``topic_entities`` may be left out (then they are linked), ``answers`` may not; both may be one
    string. An id that comes again is malformed; a missing one is the line's number. Raises
    DataError where the file cannot be read or holds no question at all.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"The question file {path} cannot be read: {error.strerror or error}.",
            "Give a file of JSON lines.",
        ) from None
    questions: list[Question] = []
    malformed: list[Malformed] = []
    seen: dict[str, int] = {}
    # Only \n ends a line: other separators may stand inside a JSON string.
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            question = _question(line, number)
            if question.id in seen:
                raise ValueError(f'the id "{question.id}" was used in line {seen[question.id]}')
        except ValueError as error:
            malformed.append(Malformed(path.name, number, str(error)))
            continue
        seen[question.id] = number
        questions.append(question)
    if not questions:
        first = f" {malformed[0]}." if malformed else ""
        raise DataError(
            f"The question file {path} holds no question.{first}",
            'A line looks like {"id": "1", "question": "…", "topic_entities": ["…"], '
            '"answers": ["…"]}.',
        )
    return QuestionFile(questions, malformed)


def _question(line: bytes, number: int) -> Question:
    """Return the question of one line. Raises ValueError that says what is wrong with it."""
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("no JSON: nested too deeply") from None
    if not isinstance(row, dict):
        raise ValueError("no JSON object")
    text = row.get("question")
    if not isinstance(text, str) or not text.strip():
        raise ValueError('no text in "question"')
    answers = _texts(row, "answers")
    if answers is None:
        raise ValueError('"answers" is missing')
    return Question(
        id=_id(row, number),
        question=text.strip(),
        topic_entities=_texts(row, "topic_entities") or [],
        answers=answers,
        choices=_texts(row, "choices") or [],
        hops=_hops(row),
    )


def _id(row: dict[str, Any], number: int) -> str:
    value = row.get("id", number)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError('"id" is neither text nor a whole number')
    return str(value)


def _texts(row: dict[str, Any], name: str) -> list[str] | None:
    """Return the texts under ``name``, each once, in their order; None where there is no entry."""
    value = row.get(name)
    if value is None:
        return None
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise ValueError(f'"{name}" is no list of texts')
    if not all(one.strip() for one in values):
        raise ValueError(f'an empty text in "{name}"')
    return list(dict.fromkeys(one.strip() for one in values))


def _hops(row: dict[str, Any]) -> int | None:
    value = row.get("hops")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError('"hops" is no whole number from 0 up')
    return value

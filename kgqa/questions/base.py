"""What every question file is read into, and the checks that all forms share.

A reader is a function from a path to pairs of a place (a line's number, from 1) and either a
``Question`` or a sentence that says why there is none. What it does not do: look anything up in a
KG; ids and names stay as they stand in the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kgqa.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Triple: TypeAlias = tuple[str, str, str]
_SHOWN = 5  # malformed lines named in one message


class OwnGraph(Protocol):
    """The graph that a question brings along; it stays in its file until it is asked for."""

    def triples(self) -> list[Triple]:
        """Return its (head, relation, tail), by name. Raises DataError."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question; ``topic_entities`` and ``answers`` are ids or names, as the file has them.

    ``choices`` is empty where it is no multiple-choice question, ``answers`` where the KG cannot
    answer it; ``hops`` is None where not known, 0 where there is no answer to walk to. ``type`` is
    the file's own kind of question. ``relation_paths``: the gold ones, each a sequence of
    predicates in which ``^`` marks one walked against its direction. ``names``: the name that the
    file gives for an id. ``graph``: the question's own graph, None where it is asked of the KG.
    ``gold_triplets``: (head, relation, tail) of the gold chain, by name, as the file has them.
    """

    id: str
    question: str
    topic_entities: list[str]
    answers: list[str]
    choices: list[str] = field(default_factory=list)
    hops: int | None = None
    type: str = ""
    relation_paths: list[tuple[str, ...]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    graph: OwnGraph | None = None
    gold_triplets: list[Triple] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that is no question: where it stands, and what is wrong with it."""

    file: str
    line: int  # counts from 1
    reason: str
    unit: str = "line"  # "question" in a file that is one JSON object

    def __str__(self) -> str:
        return f"{self.file}, {self.unit} {self.line}: {self.reason}"


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
        unit = self.malformed[0].unit
        lines = f"1 {unit} is" if count == 1 else f"{count} {unit}s are"
        return f"{lines} malformed and counted as unanswered: {shown}{rest}."


Read: TypeAlias = "tuple[int, Question | str]"


def raw_lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    r"""Yield (number from 1, byte offset, line) of every line that is not blank.

    Only ``\n`` ends a line: other separators may stand inside a JSON string. Raises DataError where
    the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            offset = 0
            for number, line in enumerate(file, 1):
                bare = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if bare.strip():
                    yield number, offset, bare
                offset += len(line)
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from None


def text_lines(path: Path, parse: Callable[[str, int], Question]) -> Iterator[Read]:
    """Read a file of one question a line; ``parse`` raises ValueError, which says what is wrong."""
    for number, _, line in raw_lines(path):
        try:
            yield number, parse(decoded(line).rstrip("\r\n"), number)
        except ValueError as error:
            yield number, str(error)


def json_lines(path: Path, parse: Callable[[dict[str, Any], int], Question]) -> Iterator[Read]:
    """Read a file of one JSON object a line; ``parse`` raises ValueError."""
    for number, _, line in raw_lines(path):
        try:
            yield number, parse(json_object(line), number)
        except ValueError as error:
            yield number, str(error)


def decoded(line: bytes) -> str:
    """Return a line as text. Raises ValueError where it is no UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start + 1}") from None


def json_object(line: bytes) -> dict[str, Any]:
    """Return the JSON object of a line. Raises ValueError that says why there is none."""
    try:
        row = json.loads(decoded(line))
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("no JSON: nested too deeply") from None
    if not isinstance(row, dict):
        raise ValueError("no JSON object")
    return row


def unreadable(path: Path, why: str) -> DataError:
    """Return the error for a question file that cannot be read."""
    return DataError(
        f"The question file {path} cannot be read: {why}.",
        "Give a file in the form that is named before it.",
    )


def text_of(row: dict[str, Any], name: str) -> str:
    """Return the text under ``name``. Raises ValueError where there is none."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f'no text in "{name}"')
    return value.strip()


def id_of(row: dict[str, Any], name: str, number: int) -> str:
    """Return the id under ``name``, the line's number where there is none."""
    value = row.get(name, number)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f'"{name}" is neither text nor a whole number')
    return str(value)


def texts_of(row: dict[str, Any], name: str) -> list[str] | None:
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


def objects_of(row: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the JSON objects under ``name``. Raises ValueError where it is no list of them."""
    value = row.get(name)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ValueError(f'"{name}" is no list of objects')
    return value

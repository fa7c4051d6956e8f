"""A question, the formats of question files, and reading a file with every entry accounted for.

A format is a class of the registry ``QUESTION_FORMATS``. Entries that it cannot read are kept as
:class:`BadEntry` and count as unanswered. Ids and names stay as they are in the file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias

from kgqa.errors import DataError
from kgqa.files import check_plain
from kgqa.registry import QUESTION_FORMATS
from kgqa.registry import Options as RegistryOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Triple: TypeAlias = tuple[str, str, str]
_MAX_LISTED_ENTRIES = 5  # bad entries that one message names


class OwnGraph(Protocol):
    """The graph that belongs to one question, read from its file when it is needed."""

    def triples(self) -> list[Triple]:
        """Return the graph's (head, relation, tail) triples by name. Raises DataError."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question; ``topic_entities`` and ``answers`` are ids or names, as the file has them.

    ``hops``: None if unknown, 0 without an answer to walk to. ``relation_paths``: gold predicates,
    ``^`` for walked backward. ``names``: the file's, by id. ``graph``: the question's own, if any.
    ``gold_triplets``: (head, relation, tail) names. ``predicates``: of the gold query, unordered.
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
    predicates: list[str] = field(default_factory=list)


Entry: TypeAlias = "tuple[int, Question | str]"
"""The number of an entry, from 1, with its question or the reason why it cannot be read."""


class QuestionFormat:
    """A format of question files; ``unit`` is what it counts: lines or entries."""

    Options: ClassVar[type[RegistryOptions]] = RegistryOptions
    unit: ClassVar[str] = "line"

    def __init__(self, options: RegistryOptions) -> None:
        self.options = options

    def read(self, path: Path) -> Iterator[Entry]:
        """Yield every entry of a file. Raises DataError if the file cannot be read."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class BadEntry:
    """An entry that cannot be read as a question: its number, and the reason."""

    file: str
    number: int  # counts from 1
    reason: str
    unit: str = "line"

    @property
    def place(self) -> str:
        """The position of the entry, in words."""
        return f"{self.file}, {self.unit} {self.number}"

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """The questions of a file (``path``, if any) or split, and the unreadable entries."""

    questions: list[Question]
    bad_entries: list[BadEntry] = field(default_factory=list)
    path: Path | None = None
    format: str = ""
    split: str = "all"

    @property
    def total(self) -> int:
        """The denominator of every figure: all questions of the file, readable or not."""
        return len(self.questions) + len(self.bad_entries)

    def complaint(self) -> str:
        """Return a sentence that lists the bad entries, "" if there are none."""
        count = len(self.bad_entries)
        if not count:
            return ""
        shown = "; ".join(str(entry) for entry in self.bad_entries[:_MAX_LISTED_ENTRIES])
        rest = f"; and {count - _MAX_LISTED_ENTRIES} more" if count > _MAX_LISTED_ENTRIES else ""
        unit = self.bad_entries[0].unit
        entries = f"1 {unit} is" if count == 1 else f"{count} {unit}s are"
        return f"{entries} malformed and counted as unanswered: {shown}{rest}."

    def sha256(self) -> str | None:
        """Return the hash of the file, None without a path. Raises DataError if unreadable."""
        if self.path is None:
            return None
        try:
            check_plain(self.path)
            with self.path.open("rb") as opened:
                return hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            raise unreadable(self.path, error) from None


def iter_questions(
    path: Path, format: str = "jsonl", **options: Any
) -> Iterator[Question | BadEntry]:
    """Yield the questions and bad entries of a file, in their order; blank lines are neither.

    A repeated id makes a bad entry; a missing id is the entry's number. Raises UsageError for an
    unknown format, DataError for an unreadable file.
    """
    reader: QuestionFormat = QUESTION_FORMATS.entry(format).load()(
        QUESTION_FORMATS.options(format, options)
    )
    seen: dict[str, int] = {}
    for number, question in reader.read(path):
        if isinstance(question, str):
            yield BadEntry(path.name, number, question, reader.unit)
            continue
        if not question.id:
            question = replace(question, id=str(number))
        if question.id in seen:
            reason = f'the id "{question.id}" was used in {reader.unit} {seen[question.id]}'
            yield BadEntry(path.name, number, reason, reader.unit)
        else:
            seen[question.id] = number
            yield question


def read_questions(
    path: Path, format: str = "jsonl", limit: int | None = None, **options: Any
) -> QuestionFile:
    """Read up to ``limit`` entries, malformed ones among them.

    Raises DataError if none is a question.
    """
    file = QuestionFile([], [], path, format)
    for entry in islice(iter_questions(path, format, **options), limit):
        if isinstance(entry, Question):
            file.questions.append(entry)
        else:
            file.bad_entries.append(entry)
    if not file.questions:
        first = f" {file.bad_entries[0]}." if file.bad_entries else ""
        raise DataError(
            f"The question file {path} holds no question of the form {format}.{first}",
            'A line looks like {"id": "1", "question": "…", "topic_entities": ["…"], '
            '"answers": ["…"]}.'
            if format == "jsonl"
            else "Check that `format` names the form of this file.",
        )
    return file


def unreadable(path: Path, why: OSError | str) -> DataError:
    """Return the error for a question file that cannot be read."""
    reason = why if isinstance(why, str) else why.strerror or str(why)
    return DataError(
        f"The question file {path} cannot be read: {reason}.",
        "Give a readable file, in the format that `format` names.",
    )


Split: TypeAlias = Literal["all", "validation", "rest"]


def is_held_out(question_id: str) -> bool:
    """Return whether a question belongs to the fifth reserved for validation, by its id's hash."""
    digest = hashlib.sha256(question_id.encode()).digest()
    return int.from_bytes(digest[:4], "big") % 5 == 0


def split_of(file: QuestionFile, split: Split) -> QuestionFile:
    """Return a file's held-out fifth (``validation``) or the rest; ``all``: the file itself.

    Malformed entries stay in both. Raises DataError if no question is left.
    """
    if split == "all":
        return file
    chosen = [
        question
        for question in file.questions
        if is_held_out(question.id) == (split == "validation")
    ]
    if not chosen:
        raise DataError(f"No question of the file is in the split '{split}'.", "Leave out `split`.")
    return replace(file, questions=chosen, split=split)

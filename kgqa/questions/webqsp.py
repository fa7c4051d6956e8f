"""WebQSP as Microsoft publishes it: one JSON object of ``Questions``, or one question a line.

Answers and gold relation paths are those of all parses of a question together, each once; an answer
without an id in Freebase (a date, a number) stands as its text. What it does not do: read SPARQL.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kgqa.questions.base import (
    Question,
    decoded,
    id_of,
    json_object,
    objects_of,
    raw_lines,
    text_of,
    texts_of,
    unreadable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.questions.base import Read


def read_webqsp(path: Path) -> Iterator[Read]:
    """Yield the questions of a WebQSP file. Raises DataError where it cannot be read."""
    whole = _whole(path)
    if whole is not None:
        for number, row in enumerate(whole, 1):
            try:
                if not isinstance(row, dict):
                    raise ValueError("no JSON object")
                yield number, _question(row, number)
            except ValueError as error:
                yield number, str(error)
        return
    for number, _, line in raw_lines(path):
        try:
            yield number, _question(json_object(line), number)
        except ValueError as error:
            yield number, str(error)


def _whole(path: Path) -> list[Any] | None:
    """Return the questions of a file that is one JSON object, None where it is lines."""
    first = next(raw_lines(path), None)
    try:
        if first is None or "QuestionId" in json_object(first[2]):
            return None
    except ValueError:
        pass  # an object over many lines, or a malformed first line
    try:
        with path.open("rb") as file:
            document = json.loads(decoded(file.read().removeprefix(b"\xef\xbb\xbf")))
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from None
    except (ValueError, RecursionError):
        return None
    questions = document.get("Questions") if isinstance(document, dict) else None
    return questions if isinstance(questions, list) else None


def _question(row: dict[str, Any], number: int) -> Question:
    topics: dict[str, None] = {}
    answers: dict[str, None] = {}
    chains: dict[tuple[str, ...], None] = {}
    names: dict[str, str] = {}
    for parse in objects_of(row, "Parses"):
        _take(parse, "TopicEntityMid", "TopicEntityName", topics, names)
        chain = texts_of(parse, "InferentialChain")
        if chain:
            # a predicate may come twice in a chain, which a list of different texts would lose
            chains[tuple(one.strip() for one in parse["InferentialChain"])] = None
        for answer in objects_of(parse, "Answers"):
            _take(answer, "AnswerArgument", "EntityName", answers, names)
    name = "RawQuestion" if row.get("RawQuestion") else "ProcessedQuestion"
    return Question(
        id=id_of(row, "QuestionId", number),
        question=text_of(row, name),
        topic_entities=list(topics),
        answers=list(answers),
        relation_paths=list(chains),
        names=names,
    )


def _take(
    row: dict[str, Any], id_name: str, name_name: str, into: dict[str, None], names: dict[str, str]
) -> None:
    if row.get(id_name) is None:
        return
    found = text_of(row, id_name)
    into[found] = None
    if row.get(name_name):
        names[found] = text_of(row, name_name)

"""WebQSP as Microsoft publishes it; answers and gold paths are those of all parses together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict
from pydantic.alias_generators import to_pascal

from kgqa.files import read_list
from kgqa.questions.base import Entry, Question, QuestionFormat, unreadable
from kgqa.questions.rows import Id, Kind, OptionalText, Row, TextList, question_of, raw_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _PascalRow(Row):
    """A row whose fields have PascalCase names in the file."""

    model_config = ConfigDict(alias_generator=to_pascal)


class _GoldAnswer(_PascalRow):
    """An answer of a parse: its id or value, and its name."""

    answer_argument: OptionalText = None
    entity_name: OptionalText = None


class _Parse(_PascalRow):
    """A semantic parse of a question: topic, relation chain and answers."""

    topic_entity_mid: OptionalText = None
    topic_entity_name: OptionalText = None
    inferential_chain: TextList | None = None
    answers: list[_GoldAnswer]


class _WebQSPRow(_PascalRow):
    """A question of WebQSP with its parses."""

    question_id: Id = ""
    raw_question: Kind = ""
    processed_question: Kind = ""
    parses: list[_Parse]

    def to_question(self) -> Question:
        """Convert the row to a question. Raises ValueError."""
        text = (self.raw_question or self.processed_question).strip()
        if not text:
            raise ValueError('"RawQuestion" and "ProcessedQuestion" are empty')
        topics = [(parse.topic_entity_mid, parse.topic_entity_name) for parse in self.parses]
        given = [answer for parse in self.parses for answer in parse.answers]
        answers = [(answer.answer_argument, answer.entity_name) for answer in given]
        chains = [tuple(parse.inferential_chain or ()) for parse in self.parses]
        return Question(
            id=self.question_id,
            question=text,
            topic_entities=list(dict.fromkeys(id_ for id_, _ in topics if id_)),
            answers=list(dict.fromkeys(id_ for id_, _ in answers if id_)),
            relation_paths=[chain for chain in dict.fromkeys(chains) if chain],
            names={id_: name for id_, name in (*topics, *answers) if id_ and name},
        )


class WebQSP(QuestionFormat):
    """WebQSP; in a file of JSON lines, entries are numbered by line."""

    unit = "question"

    def read(self, path: Path) -> Iterator[Entry]:
        """Yield the questions of a file."""
        entries = _entries(path)
        if entries is not None:
            yield from ((n, question_of(_WebQSPRow, entry)) for n, entry in enumerate(entries, 1))
        else:
            for number, _, line in raw_lines(path):
                yield number, question_of(_WebQSPRow, line)


def _entries(path: Path) -> list[Any] | None:
    """Return the questions of a file that is one JSON document, None if it is JSON lines."""
    try:
        document = json.loads(read_list(path))
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, RecursionError):  # lines: the second one is too much
        return None
    questions = document.get("Questions") if isinstance(document, dict) else None
    return questions if isinstance(questions, list) else None

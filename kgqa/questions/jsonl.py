"""kgqa's own format: JSON lines, each a question with its topic entities and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kgqa.questions.base import Question
from kgqa.questions.rows import Chains, Id, JsonRows, Row, Text, Texts


class _OwnRow(Row):
    """A line; ``relation_paths`` may stand for ``answers``."""

    id: Id = ""
    question: Text
    topic_entities: Texts | None = None
    answers: Texts | None = None
    choices: Texts | None = None
    hops: Annotated[int, Field(strict=True, ge=0)] | None = None
    type: Text | None = None
    relation_paths: Chains | None = None

    def to_question(self) -> Question:
        paths = [tuple(path) for path in self.relation_paths or ()]
        if self.answers is None and not paths:
            raise ValueError('"answers" is missing')
        return Question(
            id=self.id,
            question=self.question,
            topic_entities=self.topic_entities or [],
            answers=self.answers or [],
            choices=self.choices or [],
            hops=self.hops,
            type=self.type or "",
            relation_paths=list(dict.fromkeys(paths)),
        )


class JsonLines(JsonRows):
    """``{id?, question, topic_entities?, answers, choices?, hops?, type?, relation_paths?}``."""

    row = _OwnRow

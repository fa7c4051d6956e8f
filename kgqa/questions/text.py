"""Benchmarks in lines of text: MetaQA and PathQuestion.

MetaQA marks topics in brackets and has types of questions in a file beside (``qa_dev_qtype.txt``),
from which hops and relation paths follow. PathQuestion gives a path.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from kgqa.errors import DataError
from kgqa.files import read_list
from kgqa.questions.base import Entry, Question, QuestionFormat
from kgqa.questions.rows import questions_of_lines, unique

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_TOPIC = re.compile(r"\[(.+)\]")  # greedy: a name may hold brackets of its own
_HOPS = re.compile(r"([1-9])-?hop")
_END = "<end>"
# what a word of a MetaQA type means: the relation from a movie to it
_RELATIONS = {
    "actor": "starred_actors",
    "director": "directed_by",
    "writer": "written_by",
    "genre": "has_genre",
    "language": "in_language",
    "year": "release_year",
    "tag": "has_tags",
    "tags": "has_tags",
    "imdbrating": "has_imdb_rating",
    "imdbvotes": "has_imdb_votes",
}


class MetaQA(QuestionFormat):
    """MetaQA; an id is made of the file's name, the hops and the line's number."""

    def read(self, path: Path) -> Iterator[Entry]:
        """Yield the questions of a file, with their types from the file beside it."""
        types = _question_types(path)
        folder = _HOPS.search(path.absolute().parent.name) or _HOPS.search(path.stem)
        hops_of_file = int(folder[1]) if folder else None

        def question(line: str, number: int) -> Question:
            """Parse a line as a question. Raises ValueError."""
            text, tab, answers = line.partition("\t")
            if not tab:
                raise ValueError("no tab between question and answers")
            topic = _TOPIC.search(text)
            if not topic:
                raise ValueError("no topic entity in brackets")
            wanted = [answer.strip() for answer in answers.split("|")]
            if not all(wanted):
                raise ValueError("an empty answer")
            kind = types[number - 1] if number <= len(types) else ""
            hops = kind.count("_to_") or hops_of_file
            chain = _chain(kind)
            return Question(
                id=f"{path.stem}-{hops or 0}hop-{number}",
                question=f"{text[: topic.start()]}{topic[1]}{text[topic.end() :]}".strip(),
                topic_entities=[topic[1].strip()],
                answers=unique(wanted),
                hops=hops,
                type=kind,
                relation_paths=[chain] if chain else [],
            )

        return questions_of_lines(path, question)


def _question_types(path: Path) -> list[str]:
    """Read the types of questions from the file beside them, [] if it does not exist."""
    beside = path.parent / f"{path.stem}_qtype{path.suffix}"
    if not beside.is_file():
        return []
    try:
        # blank lines stay: types and questions go together by their number
        return [line.strip() for line in read_list(beside).split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"The file of question types {beside} cannot be read: {error}.",
            "Remove it to read the questions without their types.",
        ) from None


def _chain(kind: str) -> tuple[str, ...]:
    """Return the relation path of a type of question.

    >>> _chain("actor_to_movie_to_year")
    ('^starred_actors', 'release_year')
    """
    words = kind.split("_to_")
    steps = []
    for here, there in pairwise(words):
        if here == "movie" and there in _RELATIONS:
            steps.append(_RELATIONS[there])
        elif there == "movie" and here in _RELATIONS:
            steps.append(f"^{_RELATIONS[here]}")
        else:
            return ()
    return tuple(steps)


class PathQuestion(QuestionFormat):
    """PathQuestion: lines of a question, its answers, and a path ``topic#relation#entity…``."""

    def read(self, path: Path) -> Iterator[Entry]:
        """Yield the questions of a file."""
        return questions_of_lines(
            path, lambda line, number: _path_question(line, f"{path.stem}-{number}")
        )


def _path_question(line: str, id_: str) -> Question:
    """Parse a line of PathQuestion. Raises ValueError."""
    fields = line.split("\t")
    if len(fields) != 3:
        raise ValueError(f"{len(fields)} fields with a tab between them, not 3")
    text, answers, gold = (field.strip() for field in fields)
    nodes = gold.split("#")
    if _END not in nodes or nodes.index(_END) % 2 == 0 or nodes.index(_END) < 3:
        raise ValueError("no path topic#relation#entity…#<end>#answer")
    if not text or not all(nodes):
        raise ValueError("an empty question or an empty part of its path")
    steps = nodes[: nodes.index(_END)]
    chain = tuple(steps[1::2])
    first, opening, listed = answers.partition("(")
    if opening and listed.endswith(")"):
        wanted = [answer.strip() for answer in listed[:-1].split("/") if answer.strip()]
    else:
        wanted = [answers]
    if not all((wanted, wanted[0], first.strip())):
        raise ValueError("no answer")
    return Question(
        id=id_,
        question=text,
        topic_entities=[steps[0]],
        answers=unique(wanted),
        hops=len(chain),
        relation_paths=[chain],
    )

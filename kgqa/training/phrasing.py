"""How made questions are worded: by phrases of a file, by relations' names, by a general LLM.

A phrase file says how people put a relation into words. A path of one hop becomes one of its
relation's questions; a longer one asks the last relation's question about the others' noun phrases
("Where was" + "the wife of Abraham Lincoln" + "born?"). A relation without phrases is asked by the
words of its name. What a general LLM writes is checked; if it fails, the question stays as it was.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kgqa.errors import DataError
from kgqa.graph.names import normalise
from kgqa.training.questions import read_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np

    from kgqa.models.general import GeneralLLM
    from kgqa.progress import Progress
    from kgqa.training.data import Example

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_AT_ONCE = 4  # calls that wait for the server together
_LONGEST = 200  # characters of a question
_MOST_TOKENS = 60
_PROMPT = """\
Rewrite a question so that it sounds like one that a person would ask. It asks for what this path \
of a knowledge graph leads to:
{path}

The question: {question}

Keep the name "{topic}" as it is written. Do not name any other entity of the path. Write one \
question on one line and nothing else."""


@dataclass(frozen=True, slots=True)
class Phrases:
    """How a relation is put into words; ``{x}`` stands for the entity."""

    nouns: tuple[str, ...]
    questions: tuple[str, ...]


def read_phrases(path: Path) -> dict[str, Phrases]:
    """Return the phrases of each relation in a tab-separated file; ``#`` starts a comment.

    Raises DataError.
    """
    phrases = {}
    for number, line in enumerate(read_lines(path, "file of phrases"), 1):
        line = line.removesuffix("\r")
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 3 or not all("{x}" in part for f in fields[1:] for part in f.split("|")):
            raise DataError(
                f"Line {number} of {path.name} is not a relation's phrases.",
                "It has three columns: relation, noun phrases, questions; each phrase holds {x}, "
                "and | stands between two.",
            )
        phrases[fields[0]] = Phrases(tuple(fields[1].split("|")), tuple(fields[2].split("|")))
    return phrases


def words_of_relation(label: str) -> Phrases:
    """Return phrases made of the last words of a relation's name.

    A relation walked against its direction (``^``) is asked for what has ``{x}`` there.

    >>> words_of_relation("tv.tv_program.program_creator").nouns[0]
    'the program creator of {x}'
    >>> words_of_relation("^directed_by").nouns[0]
    'what has {x} as directed by'
    """
    halves = label.split("..")
    half = halves[-1]
    if half.startswith("^") and len(halves) > 1 and not halves[0].startswith("^"):
        half = halves[0]  # along the first edge and against the second: the first half says more
    words = _words(half.removeprefix("^")) or label
    if half.startswith("^"):
        return Phrases(
            (f"what has {{x}} as {words}",),
            (f"What has {{x}} as {words}?", f"{{x}} is the {words} of what?"),
        )
    return Phrases(
        (f"the {words} of {{x}}",),
        (f"What is the {words} of {{x}}?", f"Which {words} does {{x}} have?", f"{{x}} {words}"),
    )


def _words(relation: str) -> str:
    last = relation.rsplit(".", 1)[-1].rsplit("/", 1)[-1].rsplit("#", 1)[-1]
    return " ".join(re.split(r"[_\s-]+", _CAMEL.sub(" ", last))).strip().lower()


def question_about(
    name: str,
    labels: tuple[str, ...],
    phrases: Mapping[str, Phrases],
    random: np.random.Generator,
) -> str:
    """Return a question about the entity ``name`` that asks for the end of a relation path."""

    def pick(choices: tuple[str, ...]) -> str:
        return choices[int(random.integers(len(choices)))]

    asked = name
    for label in labels[:-1]:
        asked = pick((phrases.get(label) or words_of_relation(label)).nouns).replace("{x}", asked)
    last = phrases.get(labels[-1]) or words_of_relation(labels[-1])
    question = pick(last.questions).replace("{x}", asked)
    return question.lower() if random.random() < 0.3 else question


@dataclass(frozen=True, slots=True)
class PhrasingReport:
    """What came of the calls: ``malformed`` answers were not used, ``cached`` cost nothing."""

    phrased: int
    malformed: int
    calls: int
    cached: int


def phrased(
    examples: Sequence[Example], general: GeneralLLM, most: int, progress: Progress
) -> tuple[list[Example], PhrasingReport]:
    """Return ``examples``, the first ``most`` of them with questions in other words.

    Raises GeneralModelError if the server fails; a cache of ``general`` keeps what it answered.
    """
    before = general.usage
    asked = examples[:most]
    made: list[Example] = []
    malformed = 0
    with (
        progress.task("phrasing questions", len(asked), "questions") as task,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        # a few at a time: an error ends the run before the server is asked for all the rest
        for start in range(0, len(asked), _AT_ONCE):
            part = asked[start : start + _AT_ONCE]
            answers = pool.map(
                lambda one: general.complete(_prompt(one), max_tokens=_MOST_TOKENS).text, part
            )
            for example, answer in zip(part, answers, strict=True):
                question = checked(answer, example)
                malformed += question is None
                made.append(example if question is None else replace(example, question=question))
                task.advance()
    after = general.usage
    report = PhrasingReport(
        phrased=len(made) - malformed,
        malformed=malformed,
        calls=after.calls - before.calls,
        cached=after.cached - before.cached,
    )
    return [*made, *examples[most:]], report


def checked(answer: str, example: Example) -> str | None:
    """Return the question that a general LLM wrote, None if it does not fit this example."""
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    if len(lines) != 1:
        return None
    question = lines[0].strip("\"'“”` ").removeprefix("Question:").strip()
    if not question or len(question) > _LONGEST:
        return None
    words = f" {normalise(question)} "
    topic = normalise(example.head)
    if not topic or f" {topic} " not in words:
        return None
    rest = words.replace(f" {topic} ", " ", 1)
    for _, tail in example.hops:
        name = normalise(tail)
        if not name or f" {name} " in rest:
            return None
    return question


def _prompt(example: Example) -> str:
    parts = [example.head, *(part for hop in example.hops for part in hop)]
    values = {"path": " -> ".join(parts), "question": example.question, "topic": example.head}
    head, *rest = _PROMPT.split("{")
    # in one pass: a name may itself contain "{question}"
    return head + "".join(values[name] + tail for name, tail in (one.split("}", 1) for one in rest))

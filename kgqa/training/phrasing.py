"""A general LLM puts templated questions into other words.

Each answer is checked: it is one question, holds the topic entity's name and no name of what the
path leads to. One that fails the check is counted and the templated question stays.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kgqa.graph.names import normalise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.models.general import GeneralLLM
    from kgqa.progress import Progress
    from kgqa.training.data import Example

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
    values = {
        "path": " -> ".join(parts),
        "question": example.question,
        "topic": example.head,
    }
    head, *rest = _PROMPT.split("{")
    # in one pass: a name may itself contain "{question}"
    return head + "".join(values[name] + tail for name, tail in (one.split("}", 1) for one in rest))

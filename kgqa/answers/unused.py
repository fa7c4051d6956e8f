"""Which numbers and dates of a question had no part in its answer: said, and less sure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from kgqa.display import said_name

if TYPE_CHECKING:
    from kgqa.answers.answer import Answer

UNSURE = 0.5  # confidence in an answer that passes over a part of the question, at most
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_VALUE = re.compile(
    rf"(?:\b{_MONTH}\.? )?(?<![\w.])\d+(?:[.,:/-]\d+)*(?:st|nd|rd|th)?(?: (?:of )?{_MONTH}\b)?",
    re.IGNORECASE,
)


def with_unused(answer: Answer) -> Answer:
    """Return an answer with a note of the values in its question that nothing shown contains.

    >>> unused_values("Which fair was on 14 July, of those of 2019?", "Fair of 2019")
    ['14 July']
    """
    if not answer.answers:
        return answer
    topics = [text for one in answer.topic_entities for text in (one.name, one.mention, one.id)]
    ranked = [one.name for one in answer.answers]
    ranked += [met.asked for one in answer.answers for met in one.conditions]
    paths = [one.text for one in answer.paths] + [one.text for one in answer.expanded]
    plan = [str(answer.plan)] if answer.plan is not None else []
    shown = "\n".join([*topics, *ranked, *paths, *plan, *answer.notes])
    if not (unused := unused_values(answer.question, shown)):
        return answer
    note = f"Not used for the answer: {', '.join(map(said_name, unused))}."
    sure = None if answer.confidence is None else min(answer.confidence, UNSURE)
    return replace(answer, confidence=sure, notes=(*answer.notes, note))


def unused_values(question: str, shown: str) -> list[str]:
    """Return the values of ``question`` none of whose numbers stands in ``shown``."""
    known = set(re.findall(r"\d+", shown.replace(",", "")))
    return [
        found[0]
        for found in _VALUE.finditer(question)
        if not known & {str(int(one)) for one in re.findall(r"\d+", found[0].replace(",", ""))}
        and not known & set(re.findall(r"\d+", found[0].replace(",", "")))
    ]

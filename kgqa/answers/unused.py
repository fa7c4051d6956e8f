"""Which numbers, dates and kin of a question had no part in its answer: said, and less sure.

Where a question asks whether a value is that one, and the graph has another, it is not yes.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from kgqa.display import NO, NOT_HERE, said_name
from kgqa.graph.names import normalise
from kgqa.graph.quantities import read_value
from kgqa.lexicon.vocabulary import GENDERS
from kgqa.understanding.asked import asks_whether

if TYPE_CHECKING:
    from kgqa.answers.answer import Answer

_MARRIED = frozenset({"wife", "wives", "husband", "husbands"})  # as good as "spouse"
UNSURE = 0.5  # confidence in an answer that passes over a part of the question, at most
_SUBJECT = re.compile(
    r"\W*(?:is|are|was|were)\s+(?!(?:the|an?|it|its|th\w+|he|she|his|her|our|my|your)\b)(.+?)"
    r"\s+(?:the|an?|in|at|on|from|by|\w+\s+of)\b",
    re.IGNORECASE,
)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_VALUE = re.compile(
    rf"(?:\b{_MONTH}\.? )?(?:(?<!\S)[-−])?(?<![\w.])\d+(?:[.,:/-]\d+)*(?:st|nd|rd|th)?"
    rf"(?: (?:of )?{_MONTH}\b)?",
    re.IGNORECASE,
)


def with_unused(answer: Answer) -> Answer:
    """Return an answer with a note of the values in its question that nothing shown contains.

    >>> unused_values("Which fair was on 14 July, of those of 2019?", "Fair of 2019")
    ['14 July']
    """
    if not answer.answers:
        return answer
    best = answer.answers[0].name
    named = " ".join(f"{one.name} {one.mention}" for one in answer.topic_entities)
    if answer.answers[0].id and (subject := unknown_subject(answer.question, named)):
        note = f"{NOT_HERE}: nothing there is called {said_name(subject)}."
        others = (*answer.answers, *answer.others)
        notes = (*answer.notes, note)
        return replace(answer, answers=(), others=others, confidence=None, notes=notes)
    topics = [
        text
        for entity in answer.topic_entities
        for text in (entity.name, entity.mention, entity.id)
    ]
    ranked = [ranked_answer.name for ranked_answer in answer.answers]
    ranked += [met.asked for ranked_answer in answer.answers for met in ranked_answer.conditions]
    paths = [path.text for path in answer.paths] + [path.text for path in answer.expanded]
    plan = [str(answer.plan)] if answer.plan is not None else []
    shown = "\n".join([*topics, *ranked, *paths, *plan, *answer.notes])
    unused = unused_values(answer.question, shown)
    if not (unused or (unused := unused_kin(answer.question, "\n".join([*ranked, *paths[:1]])))):
        return answer
    if asks_whether(answer.question) and (read_value(best) or best[:1].isdigit()):
        note = f"{NO} it is {said_name(best)}, not {', '.join(map(said_name, unused))}."
        others = (*answer.answers, *answer.others)
        return replace(answer, answers=(), others=others, notes=(*answer.notes, note))
    note = f"Not used for the answer: {', '.join(map(said_name, unused))}."
    sure = None if answer.confidence is None else min(answer.confidence, UNSURE)
    return replace(answer, confidence=sure, notes=(*answer.notes, note))


def unknown_subject(question: str, named: str) -> str:
    """Return what "Is x the capital of y?" asks about, if no word of it is ``named``, else "".

    >>> unknown_subject("Is Rio the capital of Brazil?", "Brazil"), unknown_subject("Is y a z", "Y")
    ('Rio', '')
    """
    found = _SUBJECT.match(question) if asks_whether(question) else None
    known = found and {*normalise(found[1]).split()} & {*normalise(named).split()}
    return found[1] if found and not known else ""


def unused_kin(question: str, shown: str) -> list[str]:
    """Return the words of ``question`` for kin of a gender that nothing in ``shown`` has.

    >>> unused_kin("Who is his sister?", "x -> sibling -> Ann"), unused_kin("his mum?", "x")
    (['sister'], [])
    """
    known = {GENDERS.get(word, word) for word in re.findall(r"[a-z]+", shown.lower())}
    words = re.findall(r"[a-z]+", question.lower())
    return [
        one for one in words if one in GENDERS and one not in _MARRIED and GENDERS[one] not in known
    ]


def unused_values(question: str, shown: str) -> list[str]:
    """Return the values of ``question`` none of whose numbers stands in ``shown``."""
    known = _numbers(shown)
    return [
        match[0]
        for match in _VALUE.finditer(question)
        if not known.intersection(_numbers(match[0]))
    ]


def _numbers(text: str) -> set[str]:
    """Return the numbers of a text, without leading zeros; a sign stands before a number.

    >>> sorted(_numbers("-26.10, 07:30, on 13.7.2023"))
    ['-26.1', '13', '2023', '30', '7']
    """
    numerals = re.findall(
        r"(?:(?<!\S)[-−])?(?:(?<![\d.])\d+\.\d+(?![.\d])|\d+)", text.replace(",", "")
    )
    return {f"{Decimal(one.replace('−', '-')).normalize():f}" for one in numerals}

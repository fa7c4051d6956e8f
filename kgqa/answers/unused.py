"""Notes on names, numbers, dates, superlatives and kinship words that an answer ignores.

They lower its confidence. What asks whether something holds is answered by yes, or not at all:
where the graph has another value, it is not yes.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from kgqa.answers.answer import NO as SAID_NO
from kgqa.answers.answer import YES, RankedAnswer
from kgqa.display import NO, NOT_HERE, said_name
from kgqa.graph.names import normalise
from kgqa.graph.quantities import read_value
from kgqa.lexicon.vocabulary import GENDERS
from kgqa.understanding.asked import asks_whether
from kgqa.understanding.literals import short_year
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kgqa.answers.answer import Answer
    from kgqa.understanding.question import Understood

WEIGHTS = weights("answers")
_MARRIED = frozenset({"wife", "wives", "husband", "husbands"})  # equivalent to "spouse"
_CALENDAR = frozenset(map(str.lower, (*calendar.month_name[1:], *calendar.day_name)))
_BEGINNING = 3  # shared first letters of related names: Norway, Norwegian
_BOOLEANS = {"true": YES, "false": SAID_NO}
_ORDERING = ("asc", "desc", "least", "most", "limit")  # words of a plan that ranks
UNSURE = WEIGHTS["unsure"]
_SUBJECT = re.compile(
    r"\W*(?:is|are|was|were)\s+(?!(?:the|an?|it|its|th\w+|he|she|his|her|our|my|your)\b)(.+?)"
    r"\s+(?:the|an?|in|at|on|from|by|\w+\s+of)\b",
    re.IGNORECASE,
)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_SHORT_YEAR = re.compile(r"_(\d\d)(?!\d)")
_VALUE = re.compile(
    rf"(?:\b{_MONTH}\.? )?(?:(?<!\S)[-−])?(?<![\w.])\d+(?:[.,:/-]\d+)*(?:st|nd|rd|th)?"
    rf"(?: (?:of )?{_MONTH}\b)?",
    re.IGNORECASE,
)


def with_unused(answer: Answer, read: Understood) -> Answer:
    """Return the answer with a note on words of the question that it ignores, if there are any.

    Its confidence is then lowered; answers move to ``others`` if they contradict the question or it
    says something of a subject that no fact mentions. ``read``: the parsed question.

    >>> unused_values("Which fair was on 14 July, of those of 2019?", "Fair of 2019")
    ['14 July']
    """
    if not answer.answers:
        return answer
    best = answer.answers[0]
    named = " ".join(f"{entity.name} {entity.mention}" for entity in answer.topic_entities)
    if best.id and (subject := unknown_subject(answer.question, named)):
        return _refused(answer, f"no fact says this of {said_name(subject)}")
    shown, kin = _shown(answer)
    unused = unused_values(answer.question, shown) or unused_kin(answer.question, kin)
    superlatives = unused_superlatives(answer, read)
    if superlatives and answer.plan is not None and answer.plan.is_bare:
        return _refused(answer, f"nothing says which is the {said_name(superlatives[0])}")
    if unused and asks_whether(answer.question) and is_value(best.name):
        note = f"{NO} it is {said_name(best.name)}, not {', '.join(map(said_name, unused))}."
        others = (*answer.answers, *answer.others)
        return replace(answer, answers=(), others=others, notes=(*answer.notes, note))
    passed = unused or unused_names(read.names, shown) or superlatives
    if not passed:
        return answer
    note = f"Not used for the answer: {', '.join(map(said_name, passed))}."
    sure = None if answer.confidence is None else min(answer.confidence, UNSURE)
    return replace(answer, confidence=sure, notes=(*answer.notes, note))


def _shown(answer: Answer) -> tuple[str, str]:
    """Return all that an answer shows as text, and what of it may name a relative."""
    topics = [
        text for topic in answer.topic_entities for text in (topic.name, topic.mention, topic.id)
    ]
    ranked = [one.name for one in answer.answers]
    ranked += [met.asked for one in answer.answers for met in one.conditions]
    paths = [path.text for path in answer.paths] + [path.text for path in answer.expanded]
    plan = [] if answer.plan is None else [str(answer.plan)]
    shown = "\n".join([*topics, *ranked, *paths, *plan, *answer.notes])
    return shown, "\n".join([*ranked, *paths[:1]])


def is_value(name: str) -> bool:
    """Return whether the name of an answer is a value, or begins with a digit."""
    return name[:1].isdigit() or read_value(name) is not None


def as_whether(answer: Answer) -> Answer:
    """Return the answer to a yes-or-no question as "yes", a stored boolean, or without answers.

    It is "yes" if a plan that compares two entities has a result, or if the question names the
    entity that the paths lead to. Answers that are values, other questions and choices are returned
    unchanged.
    """
    if not answer.answers or not asks_whether(answer.question):
        return answer
    best = answer.answers[0]
    if best.name in (YES, SAID_NO) or not (best.id or best.grounded):
        return answer
    whether = RankedAnswer(None, YES, best.score, grounded=True)
    direct = bool(answer.paths) and len(answer.paths[0].groundings[0].edges) == 1
    if best.name in _BOOLEANS and direct:
        return replace(answer, answers=(replace(whether, name=_BOOLEANS[best.name]),))
    if is_value(best.name):
        return answer
    if answer.plan is not None:
        compares = len(answer.plan.where) > 1 and not answer.plan.grouped
        return replace(answer, answers=(whether,)) if compares else answer
    said = {*normalise(answer.question).split()}
    topics = {entity.id for entity in answer.topic_entities}
    if any(
        {*normalise(one.name).split()} <= said and one.id not in topics for one in answer.answers
    ):
        return replace(answer, answers=(whether,))
    return _refused(answer, f"no fact says this; the nearest leads to {said_name(best.name)}")


def _refused(answer: Answer, reason: str) -> Answer:
    """Return an answer with its answers moved to ``others``, and the reason as a note."""
    others, notes = (*answer.answers, *answer.others), (*answer.notes, f"{NOT_HERE}: {reason}.")
    return replace(answer, answers=(), others=others, confidence=None, notes=notes)


def unused_superlatives(answer: Answer, read: Understood) -> list[str]:
    """Return the superlatives of a question if the plan has no order; [] if no plan answered."""
    plan = answer.plan
    if plan is None or {*str(plan).split()} & {*_ORDERING}:
        return []
    return [order.word for order in read.order]


def unknown_subject(question: str, named: str) -> str:
    """Return the subject of "Is x the capital of y?" if it shares no word with ``named``, else "".

    >>> unknown_subject("Is Rio the capital of Brazil?", "Brazil"), unknown_subject("Is y a z", "Y")
    ('Rio', '')
    """
    found = _SUBJECT.match(question) if asks_whether(question) else None
    known = found and {*normalise(found[1]).split()} & {*normalise(named).split()}
    return found[1] if found and not known else ""


def unused_kin(question: str, shown: str) -> list[str]:
    """Return the gendered kinship words of ``question`` with no equivalent in ``shown``.

    >>> unused_kin("Who is his sister?", "x -> sibling -> Ann"), unused_kin("his mum?", "x")
    (['sister'], [])
    """
    known = {GENDERS.get(word, word) for word in re.findall(r"[a-z]+", shown.lower())}
    words = re.findall(r"[a-z]+", question.lower())
    return [
        word
        for word in words
        if word in GENDERS and word not in _MARRIED and GENDERS[word] not in known
    ]


def unused_names(names: Iterable[str], shown: str) -> list[str]:
    """Return those of a question's ``names`` that share no word, or its beginning, with ``shown``.

    Short forms in capitals may stand for other words, and months are said by numbers.

    >>> unused_names(["Oslo", "CEO"], "Salt -> copies -> 44")
    ['Oslo']
    >>> unused_names(["Norwegian"], "Norway -> town -> Oslo")
    []
    """
    known = {word[:_BEGINNING] for word in normalise(shown).split()}
    return [
        name
        for name in names
        if not (name.isupper() or name.lower() in _CALENDAR)
        and not known & {word[:_BEGINNING] for word in normalise(name).split()}
    ]


def unused_values(question: str, shown: str) -> list[str]:
    """Return the values of ``question`` of which no number is in ``shown``.

    >>> unused_values("deaths from 1985 to 1999 in 12 states", "Line.deaths_85_99")
    ['12']
    """
    known = _numbers(shown)
    years = {*_SHORT_YEAR.findall(shown)}  # in the name of a property, the last two digits of each
    return [
        match[0]
        for match in _VALUE.finditer(question)
        if not known.intersection(_numbers(match[0]))
        and not (len(years) > 1 and short_year(match[0]) in years)
    ]


def _numbers(text: str) -> set[str]:
    """Return the numbers in a text without leading zeros, with their sign.

    >>> sorted(_numbers("-26.10, 07:30, on 13.7.2023"))
    ['-26.1', '13', '2023', '30', '7']
    """
    numerals = re.findall(
        r"(?:(?<!\S)[-−])?(?:(?<![\d.])\d+\.\d+(?![.\d])|\d+)", text.replace(",", "")
    )
    return {f"{Decimal(numeral.replace('−', '-')).normalize():f}" for numeral in numerals}

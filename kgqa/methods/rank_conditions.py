"""Conditions of a question on its answers, for path ranking: other entities, dates, numbers.

Which entities the question names beside its topic entities, which relation paths lead only to a
condition, and how well a relation fits one; :mod:`kgqa.answers.conditions` chooses.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.conditions import Narrowed, narrow
from kgqa.errors import LinkingError
from kgqa.graph.names import normalise
from kgqa.lexicon.vocabulary import GENDERS
from kgqa.linking.linker import link
from kgqa.linking.mentions import QuestionWords
from kgqa.methods.rank_words import entity_scores
from kgqa.paths.words import TOPIC
from kgqa.planning.negation import denies_name
from kgqa.planning.question_words import says
from kgqa.understanding.literals import value_conditions
from kgqa.understanding.question import understood
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Mapping, Sequence
    from datetime import date

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.linking.linker import Candidate
    from kgqa.methods.base import LinkedQuestion
    from kgqa.methods.rank_words import RankWords, Weighed
    from kgqa.models.path_ranker import PathRanker
    from kgqa.paths.format import PathFormat
    from kgqa.paths.relation_paths import RelationPaths
    from kgqa.paths.schema import Hop

WEIGHTS = weights("methods")
_WORD = re.compile(r"\w+")
_NAMED = 30  # most such candidates
_OF_A_VALUE = re.compile(
    r"\b(when|how (?!many)\w+|what (year|date|day|time|price))\b", re.IGNORECASE
)
_NOW = re.compile(r"\b(?:is|are|does|do|has|have|now|currently|current|today)\b", re.IGNORECASE)
_THEN = re.compile(
    r"\b(?:was|were|did|had|been|ever|once|former\w*|previous\w*|past|first|last|all|\d{4})\b", re.I
)


def narrowed_by_question(
    words: RankWords,
    ranker: PathRanker,
    form: PathFormat,
    question: str,
    asked: str,
    names: Mapping[int, Sequence[str]],
    named: Sequence[Candidate],
    found: Sequence[RelationPaths],
    weighed: Sequence[Weighed],
    scores: dict[int, float],
    today: Callable[[], date],
) -> tuple[Sequence[Weighed], Narrowed]:
    """Filter the answers ``scores`` by the conditions of ``question``.

    Returns the scores of relation paths, those to a condition merged, and what is left. ``asked``:
    the question with ``x`` for its first topic entity; ``names``: of the topic entities, in the
    order of ``found`` and ``weighed``; ``named``: other entities in the question. If no condition
    is met, everything is returned unchanged. Raises GraphError.
    """
    likeliest = _likeliest_words(words, found, weighed)
    values = [  # the relation's own words state no condition: "first appearance"
        condition
        for condition in value_conditions(asked)
        if condition.operator or condition.words.casefold().split()[0] not in likeliest
    ]
    ends = words.ends if _NOW.search(asked) and not _THEN.search(asked) else ()
    denied = _denied(words.store, asked, named)
    if opposite := _opposite(denied, likeliest):
        return weighed, Narrowed(scores, opposite=opposite)
    named = [one for one in named if one not in denied.values()]
    if not (named or values or ends or denied):
        return weighed, Narrowed(scores)
    beside = np.array(sorted(one.key for one in named), np.int64)
    of_values = bool(values) and not _OF_A_VALUE.search(asked)
    folded = [
        _folded(paths, one, words, beside, of_values)
        for paths, one in zip(found, weighed, strict=True)
    ]

    def fits(about: Candidate | str, steps: Sequence[Hop]) -> Sequence[float]:
        """Return the probability of each of these hops for a question about an entity or text."""
        if not isinstance(about, str):
            about = words.question(question, about.key, {**names, **words.names([about])})
        logits = words.logits(ranker, about, [[step] for step in steps])
        share: list[float] = words.shares(ranker, logits).tolist()
        return share[:-1]

    narrowed = narrow(
        words.store, [one.table for one in found],
        [one.probability[paths.of] for paths, one in zip(found, folded, strict=True)],
        entity_scores(found, folded, names), words.rules, form, named, values, fits, ends,
        today().toordinal() if ends else 0, denied,
    )  # fmt: skip
    if narrowed.rows:
        return folded, narrowed
    return weighed, replace(narrowed, scores=scores, conditions={})


def _likeliest_words(
    words: RankWords, found: Sequence[RelationPaths], weighed: Sequence[Weighed]
) -> set[str]:
    """Return the words of the likeliest relation path out of each topic entity."""
    return {
        word
        for paths, one in zip(found, weighed, strict=True)
        if paths.steps  # a topic entity may have no edge
        for hop in paths.steps[int(np.argmax(one.probability))]
        for word in words.hop(hop).split()
    }


def _opposite(denied: Mapping[str, Candidate | str], likeliest: Collection[str]) -> str:
    """Return the negated words if the likeliest relation path is what they deny, else ""."""
    said = " ".join(likeliest)
    for denial, about in denied.items():
        others = [word for word in denial.split() if word != TOPIC]
        if isinstance(about, str) and all(says([word], said) for word in others):
            return " ".join(others) or TOPIC
    return ""


def narrowed_notes(narrowed: Narrowed, today: Callable[[], date]) -> list[str]:
    """Return notes on conditions that nothing meets, denials, and facts that ended."""
    notes = [f'No answer meets "{words}", so it was left out.' for words in narrowed.left_out]
    for denial, many in narrowed.denied.items():
        notes.append(
            f'Left out {many:,} of which the graph says "{denial}".'
            if many
            else f'Not used for the answer: not "{denial}".'
        )
    if narrowed.over is not False:
        said = "Left out what" if narrowed.over else "All of this"
        notes.append(f"{said} ended before {today()}.")
    return notes


def _denied(
    store: GraphStore, asked: str, named: Sequence[Candidate]
) -> dict[str, Candidate | str]:
    """Return by the words of each negation the entity that they name, else the words again.

    "No longer" is said of facts that ended, and "No. 5" of a number: they are left out.
    """
    denied: dict[str, Candidate | str] = {}
    ended = any(said in asked.lower() for said in ("no longer", "anymore", "any more"))
    for words in () if ended else understood(asked).negations:
        if re.search(r"[^\W\d]{2}", words) or words == TOPIC:
            those = [one for one in named if {*normalise(one.mention).split()} <= {*words.split()}]
            if not those and words != TOPIC:
                those = [one for one in _linked(store, f'"{words}"') if one.match == "name"]
            denied[words] = those[0] if those else words
    return denied


def _folded(
    paths: RelationPaths, weighed: Weighed, words: RankWords, named: IntArray, values: bool
) -> Weighed:
    """Return the scores with relation paths that end at a condition merged into shorter ones.

    A condition is an entity of ``named``, or any value if ``values`` are compared. The probability
    moves to the relation path without its last hop: "which of x's papers appeared in y" is not
    about y.
    """
    ends = paths.table.ends()
    ending = set(paths.of[np.isin(ends, named)].tolist())
    place = {steps: number for number, steps in enumerate(paths.steps)}
    probability = weighed.probability.copy()
    for number, steps in enumerate(paths.steps):
        short = place.get(steps[:-1])
        if short is not None and (number in ending or (values and words.is_value(steps[-1]))):
            probability[short] += probability[number]
            probability[number] = 0.0
    return replace(weighed, probability=probability)


def affirmed(question: LinkedQuestion) -> LinkedQuestion:
    """Return a question without the topic entities that it denies, unless it denies all.

    Yes-or-no questions and choices are returned unchanged.
    """
    if question.is_yes_no or question.choices:
        return question
    topics = tuple(
        topic for topic in question.topics if not denies_name(question.question, topic.mention)
    )
    return replace(question, topics=topics) if topics else question


def named_beside(store: GraphStore, question: str, topics: Container[int]) -> list[Candidate]:
    """Return the entities, other than ``topics`` (keys), that the question certainly names.

    A sister is a female sibling: such a noun names the gender, if the KG has it.
    """
    everyday = QuestionWords(question).is_everyday  # "who directed x": the graph need not be read
    found = [
        one
        for one in ([] if everyday else _linked(store, question))
        if one.features.everyday == 0.0
        and one.features.match >= WEIGHTS["named_match"]
        and (one.match != "partial" or one.features.emphasis > 0.0)
    ]
    for noun in _WORD.finditer(question):
        if gender := GENDERS.get(noun[0].casefold()):
            start, end = noun.span()
            found += [
                replace(one, mention=noun[0], start=start, end=end)
                for one in _linked(store, f'"{gender}"')
                if one.match == "name"
            ]
    return [one for one in found if one.key not in topics]


def _linked(store: GraphStore, question: str) -> list[Candidate]:
    """Return the candidates of entity linking, empty if there are none."""
    try:
        return link(store, question, _NAMED)
    except LinkingError:
        return []

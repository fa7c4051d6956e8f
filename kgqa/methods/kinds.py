"""What kind of thing an entity is: as an answer, and beside one.

The edges that say so, which no path passes through, answer "What is X?".
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.answer import Findings, RankedAnswer, ScoredPath, SearchUse, Timings
from kgqa.graph.literals import is_walked
from kgqa.graph.model import keys_array
from kgqa.graph.names import normalise
from kgqa.methods.query_words import names_class
from kgqa.paths.ground import ground
from kgqa.paths.walk import FIRST, TAIL, WalkRules, walk
from kgqa.paths.words import relation_phrase
from kgqa.queries.check import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.answers.answer import Answer, TopicEntity
    from kgqa.graph.schema import GraphSchema
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat

_ASKING = frozenset({"what", "who", "whats", "whos", "which"})
_FILLER = frozenset(
    {"what", "who", "whats", "whos", "s", "which", "is", "are", "was", "were", "a", "an", "the"}
    | {"kind", "type", "sort", "class", "of", "thing", "things", "exactly", "this", "it"}
)
_DESCRIBED = 10  # answers that are shown with what is known of them
_SURE = 0.97  # that the edge says what is asked; the edge itself is in the graph


def kind_findings(
    store: GraphStore,
    question: str,
    topics: Sequence[TopicEntity],
    form: PathFormat,
    *,
    whether: bool,
) -> Findings | None:
    """Return what answers "What is X?", or "Is X a town?", by X's types; None for what does not.

    ``whether``: whether it asks if its two topic entities are connected.
    """
    if not store.info.type_relations or not (whether or _asks_what(question, topics)):
        return None
    began = time.perf_counter()
    ids = store.relations().ids
    known = [2 * ids.index(one) for one in store.info.type_relations if one in ids]
    table, _ = walk(
        store,
        np.unique(keys_array([topic.key for topic in topics])),
        WalkRules(1, "out", types=True),
    )
    kept = np.isin(table.hops[:, 0, FIRST], known)
    if whether:
        kept &= np.isin(table.hops[:, 0, TAIL], [topic.key for topic in topics])
    paths = [one for one in ground(store, table.take(np.flatnonzero(kept)), form) if one]
    if not paths:
        return None
    tails = {path.tail.id: path.tail.name for path in paths}
    named = {None: "yes"} if whether else tails
    share = 1 / len(named)
    return Findings(
        answers=tuple(RankedAnswer(id_, name, share, True) for id_, name in named.items()),
        paths=tuple(
            ScoredPath(path.text, 0.0, "yes" if whether else path.tail.name, (path,))
            for path in paths
        ),
        timings=replace(Timings(), ground=time.perf_counter() - began),
        search=SearchUse("types"),
        confidence=_SURE,
    )


def asked_class(question: str, schema: GraphSchema) -> str | None:
    """Return the class that a question's first noun names: "Which customers …" → Customer."""
    named = (
        one.name
        for one in schema.types
        if any(names_class(question, name) for name in (one.name, *one.also))
    )
    return max(named, key=len, default=None)  # "ship city", not "ship"


def asks_number(question: str, schema: GraphSchema) -> bool:
    """Return whether a number is called as what a question asks for: "How many units …"."""
    held = [one.properties for one in schema.types] + [one.properties for one in schema.relations]
    names = {one.name for properties in held for one in properties if one.type in NUMBERS}
    return any(names_class(question, relation_phrase(name).partition(" ")[0]) for name in names)


def only_of_class(store: GraphStore, found: Findings, class_: str, least: float) -> Findings | None:
    """Return findings whose answers are of a class; None if no entity found is.

    Of these the ones with ``least`` times the first one's score or more are the answers.
    """
    every = [one for one in (*found.answers, *found.others) if one.id is not None]
    keys = store.keys_of([str(one.id) for one in every]).tolist()
    kept = [
        one
        for one, key in zip(every, keys, strict=True)
        if key >= 0 and class_ in store.details(key).types
    ]
    if not kept:
        return None
    if kept[: len(found.answers)] == list(found.answers):
        return found
    kept.sort(key=lambda one: -one.score)
    best = kept[0].score
    share = best / found.answers[0].score if found.answers[0].score > 0 else 1.0
    answers = tuple(one for one in kept if one.score >= least * best)
    ids = {one.id for one in answers}
    paths = [one for one in found.paths if any(each.tail.id in ids for each in one.groundings)]
    return replace(
        found,
        answers=answers,
        others=tuple(kept[len(answers) :]),
        paths=tuple(paths),
        confidence=None if found.confidence is None else found.confidence * min(1.0, share),
    )


def described(store: GraphStore, answer: Answer) -> Answer:
    """Return an answer whose first entities have their types and properties, without long ones."""
    ids = [one.id for one in answer.answers[:_DESCRIBED] if one.id is not None]
    if not ids:
        return answer
    known = {}
    for id_, key in zip(ids, store.keys_of(ids).tolist(), strict=True):
        if key >= 0:
            of = store.details(key)
            shown = {name: value for name, value in of.properties.items() if is_walked(value)}
            known[id_] = (tuple(of.types), shown)
    answers = [
        replace(one, types=known[one.id][0], properties=known[one.id][1])
        if one.id in known
        else one
        for one in answer.answers
    ]
    return replace(answer, answers=tuple(answers))


def _asks_what(question: str, topics: Sequence[TopicEntity]) -> bool:
    """Return whether a question holds nothing but its topic entity, and words such as "what is"."""
    if len({topic.key for topic in topics}) != 1:
        return False
    words = normalise(question).split()
    topic = topics[0]
    left = set(words) - set(normalise(topic.name).split()) - set(normalise(topic.id).split())
    return bool(words) and words[0] in _ASKING and left <= _FILLER

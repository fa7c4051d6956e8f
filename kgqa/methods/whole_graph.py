"""Whether a question is about a whole graph, so that a plan answers it better than paths do.

Words say it: a number, a superlative, a denial, a list of properties, a bound. So does a topic
entity that is none: the class whose members are asked for, a number, or a unit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from kgqa.display import NOT_HERE
from kgqa.graph.amounts import number_in
from kgqa.graph.names import normalise
from kgqa.graph.quantities import UNITS, read_value
from kgqa.graph.schema import PropertyGraph
from kgqa.lexicon.lemmas import stem
from kgqa.linking.neighbourhood_features import name_stems, stems_of
from kgqa.methods.query import UNSAID, is_count, kind_asked
from kgqa.methods.rank_asked import asked_kind
from kgqa.methods.what_is import asks_number
from kgqa.planning.aggregates import HOW_MANY
from kgqa.planning.bounds import is_bound, shares_value
from kgqa.planning.negation import denies_name
from kgqa.planning.question_words import ALIVE, DEAD, FREQUENT, Mentions, names_class, stems
from kgqa.queries.implicit_classes import queryable
from kgqa.queries.plan import Aggregate, Arithmetic, NodeRef, PropertyRef, owners
from kgqa.understanding.asked import (
    as_colleagues,
    as_superlative,
    asks_best,
    asks_calculated,
    asks_compared,
    asks_denied,
    asks_few,
    asks_repeated,
)
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.answers.answer import Findings, TopicEntity
    from kgqa.graph.schema import GraphSchema
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import LinkedQuestion
    from kgqa.queries.join import QueryStore
    from kgqa.queries.plan import Plan
    from kgqa.queries.result import QueryResult

WEIGHTS = weights("methods")


class Cues(NamedTuple):
    """What of a question's words no path answers.

    ``calculated``: a number; ``best``: a superlative, not of a number; ``repeated``: a relation any
    number of times; ``denied``: a negation or an alternative; ``listed``: several properties;
    ``bounded``: a value, a negation, a flag, or being alive, that things are compared with.
    """

    calculated: bool
    best: bool
    repeated: bool
    denied: bool
    listed: bool
    bounded: bool

    @property
    def beyond(self) -> bool:
        """Whether paths of no length, or of any length, are requested."""
        return self.repeated or self.denied

    @property
    def ranks(self) -> bool:
        """Whether a number or a superlative is asked for."""
        return self.calculated or self.best


def cues_of(question: str, *, listed: bool, flagged: bool) -> Cues:
    """Return the cues of a question.

    ``listed``: whether it lists several properties; ``flagged``: whether it names a flag.
    """
    calculated = asks_calculated(question)
    return Cues(
        calculated,
        not calculated and (asks_best(as_superlative(question)) or asks_few(question)),
        asks_repeated(question),
        asks_denied(question),
        listed,
        flagged or asks_compared(question) or bool(ALIVE.search(question) or DEAD.search(question)),
    )


def without_classes(store: GraphStore, question: LinkedQuestion) -> list[TopicEntity]:
    """Return the topic entities of a question other than classes whose members it asks for.

    Left out are the "mountain" of "the highest mountain" and the "common" of "most common", not an
    airport called Airport.
    """
    text, topics = question.question, question.topics
    classes = _classes_named(store) if topics else set()
    all_of = stems_of(normalise(kind_asked(text))) & frozenset().union(*classes)

    def is_class(topic: TopicEntity) -> bool:
        """Return whether a topic entity is called as a class, and not written as a name."""
        if all_of in classes and stems_of(normalise(topic.mention)) == all_of:
            return True
        name = normalise(topic.name)
        words = stems_of(name)
        written = topic.name[:1].isupper() and topic.name in text
        return words in classes and len(words) == len(name.split()) and not written

    return [one for one in topics if not (_is_frequency(text, one) or is_class(one))]


def without_values(topics: Sequence[TopicEntity]) -> list[TopicEntity]:
    """Return the topic entities without the 50 and the euro of "over 50 EUR"."""
    return [
        one
        for one in topics
        if number_in(one.name) is None and one.name.lower() not in UNITS
        if (read := read_value(one.name)) is None or read.amount is None
    ]


def is_of_classes(topics: Sequence[TopicEntity], values: Sequence[TopicEntity], cues: Cues) -> bool:
    """Return whether no path leads out of what a question names, since it is a class.

    ``topics``: without those called as a class; ``values``: of these, without numbers and units,
    none of which is mentioned by its whole name. "The highest peak" may be linked from Peak Street.
    """
    if not topics:
        return True
    return bool(values) and cues.best and all(one.mention[:1].islower() for one in values)


def is_named(topic: TopicEntity) -> bool:
    """Return whether a question mentions an entity by its whole name, and not by a number."""
    mention = topic.mention or topic.name
    return not topic.mention[:1].isdigit() and _stems(mention) == _stems(topic.name)


def _stems(text: str) -> list[str]:
    """Return the stems of a text's words in order."""
    return [stem(word) for word in normalise(text).split()]


def _is_frequency(question: str, topic: TopicEntity) -> bool:
    """Return whether a topic entity was linked from the "common" of "most common"."""
    said = FREQUENT.search(question)
    return said is not None and topic.mention.islower() and topic.mention in said[0]


def _classes_named(store: GraphStore) -> set[frozenset[str]]:
    """Return the stems of each class's names; empty for a store without a schema."""
    if not isinstance(store, PropertyGraph):
        return set()
    types = queryable(cast("QueryStore", store)).schema().types
    return name_stems(name for type_ in types for name in (type_.name, *type_.also))


def stands_apart(question: str, mention: str) -> bool:
    """Return whether a question compares with a mentioned entity, denies it, or counts its class.

    "How many robots are there?" is about all robots, not about an entity of that name.
    """
    kind = kind_asked(question)
    if kind and HOW_MANY.match(question) and stems(kind) == stems(mention):
        return True
    return is_bound(question, mention) or denies_name(question, mention)


def of_alike(store: GraphStore, question: LinkedQuestion) -> tuple[LinkedQuestion, str | None]:
    """Return a question, and the class of the named entity that the answers share something with.

    One about the colleagues of an entity is asked as one about those in the same place, if its
    class has relations of its own, as people have and a material that they work with has not. None
    for other questions, and without a single class.
    """
    text = as_colleagues(question.question)
    mentions = [one for one in question.topics if shares_value(text, one.mention)]
    if len(mentions) != 1 or not isinstance(store, PropertyGraph):
        return question, None
    key = int(store.keys_of([mentions[0].id])[0])
    types = store.details(key).types if key >= 0 else ()
    schema = store.schema()
    if len(types) != 1 or not any(one.head == types[0] for one in schema.relations):
        return question, None
    return replace(question, question=text), types[0]


def is_unsaid(found: Findings) -> bool:
    """Return whether findings say that no plan can express the question."""
    return any(note.startswith(f"{UNSAID[:-1]}:") for note in found.notes)


def is_not_here(found: Findings) -> bool:
    """Return whether findings say that the graph has no answer."""
    return any(note.startswith(NOT_HERE) for note in found.notes)


def compares(found: Findings, topics: Sequence[TopicEntity]) -> bool:
    """Return whether a plan has a condition on every topic entity."""
    return found.result is not None and all(
        topic.id in found.covers or topic.name in found.covers for topic in topics
    )


def has_calculation(found: Findings) -> bool:
    """Return whether a plan gives what it calculates from several properties, as a duration."""
    return found.result is not None and any(
        isinstance(one, Arithmetic) for one in found.result.plan.give
    )


def gives_said(found: Findings, question: str) -> bool:
    """Return whether a plan gives a property of another thing than is named, in its own words.

    "When is Emma due?" asks for no date of the book, but for one of its loan.
    """
    if found.result is None or not found.result.plan.hops:
        return False
    plan = found.result.plan
    given, named = plan.give[0], {owner for one in plan.where for owner in owners(one.left)}
    if not isinstance(given, PropertyRef) or given.owner in named:
        return False
    return Mentions(question).share(given.name) == 1


def names_alternatives(found: Findings) -> bool:
    """Return whether a plan asks for what has one or the other of several things."""
    return found.result is not None and any(one.operator == "in" for one in found.result.plan.where)


def leaves_out(found: Findings) -> bool:
    """Return whether a plan leaves out a named thing, and so gives the others that are like it."""
    return found.result is not None and any(
        one.operator == "<>" and isinstance(one.left, NodeRef) for one in found.result.plan.where
    )


def outdoes_paths(
    found: Findings,
    question: LinkedQuestion,
    named: Sequence[TopicEntity],
    cues: Cues,
    schema: GraphSchema,
) -> bool:
    """Return whether a plan answers a question about the entities ``named`` better than paths.

    It must state what the cues ask for: an order, what is denied or repeated, a bound, a number of
    other entities than those.
    """
    if found.result is None:
        return False
    plan = found.result.plan
    if cues.best and not (plan.order and plan.where):
        return False
    if cues.beyond and not cues.ranks:
        return _denies_or_repeats(plan) and compares(found, named)
    if cues.bounded and len(plan.where) > len(named):
        return compares(found, named)
    if cues.best or cues.listed:
        return True
    return plan.grouped and not _counts_other(found.result, question, schema)


def _denies_or_repeats(plan: Plan) -> bool:
    """Return whether a plan excludes something, offers alternatives, or repeats a relation."""
    excludes = any(one.operator in ("<>", "not in", "in") for one in plan.where)
    return excludes or bool(plan.without) or any(hop.repeated for hop in plan.hops)


def counts_paths(found: Findings, other: Findings, question: LinkedQuestion, rows: str) -> bool:
    """Return whether a plan's findings ``other`` count the entities that the paths ``found``.

    Also if the counted kind is itself a topic entity, which paths do not count ("How many
    motorcycles do we sell?" about the product line Motorcycles), or if the plan is more confident
    than the paths: a number of cars is not that of their cylinders. ``rows``:
    the class of a lone table's rows, whose name the question need not have.
    """
    assert other.result is not None
    if len(found.answers) > 1 and counts_kind(other.result, question):
        return True
    surer = (other.confidence or 0.0) >= max(WEIGHTS["plan_before_paths"], found.confidence or 0.0)
    if surer and counts_for(other, question, rows):
        return True
    return _counted(other.result, len(found.answers) + 1) == {one.id for one in found.answers}


def sums_paths(found: Findings, other: Findings) -> bool:
    """Return whether a plan's findings ``other`` sum numbers, where the paths give each of them."""
    if other.result is None or len(found.answers) < 2 or len(other.result.rows) != 1:
        return False
    numbers = [number_in(one.name) for one in found.answers if one.id is None]
    total = other.result.rows[0][0]
    if len(numbers) < len(found.answers) or None in numbers or not isinstance(total, int | float):
        return False
    kinds = [one.kind for one in other.result.plan.give if isinstance(one, Aggregate)]
    return kinds == ["sum"]


def asks_for_topic(question: LinkedQuestion) -> bool:
    """Return whether the requested kind of thing is itself a topic entity, as a role is."""
    return any(
        one.mention.islower() and names_class(question.question, one.mention)
        for one in question.topics
    )


def counts_kind(result: QueryResult, question: LinkedQuestion) -> bool:
    """Return whether "how many" names a topic entity, and the plan counts other entities."""
    kind = asked_kind(question.question)
    named = [one.id for one in question.topics if kind and kind == stems_of(normalise(one.mention))]
    ids = _counted(result, len(question.topics) + 1) if named else set()
    return bool(ids) and not ids & {*named}


def counts_for(found: Findings, question: LinkedQuestion, rows: str) -> bool:
    """Return whether a plan counts the requested class with a condition on every topic entity.

    ``found``: the plan's findings; ``rows``: the class of a lone table's rows, whose name the
    question need not have.
    """
    topics = {topic.id for topic in question.topics}
    ids = _counted(found.result, len(topics) + 1) if found.result else set()
    if not found.result or not ids or ids <= topics:
        return False
    classes = _counted_classes(found.result)
    asked = any(one == rows or names_class(question.question, one) for one in classes if one)
    return asked and compares(found, question.topics)


def _counted(result: QueryResult, most: int) -> set[str | None]:
    """Return up to ``most`` ids of the entities that a plan counts, None for counted values.

    Empty if it counts no nodes.
    """
    if not result.rows or not any(is_count(item) for item in result.plan.give):
        return set()
    return set(result.counted_ids(most))


def _counted_classes(result: QueryResult) -> list[str]:
    """Return the classes of the nodes that a plan counts."""
    plan = result.plan
    return [plan.nodes[cast("NodeRef", one.of).node] for one in plan.give if is_count(one)]


def _counts_other(result: QueryResult, question: LinkedQuestion, schema: GraphSchema) -> bool:
    """Return whether a plan counts other entities than the question asks for.

    It does if it counts only named entities, or a class while a property has the requested name:
    "How many pages has Emma?" is not about a number of books.
    """
    topics = {topic.id for topic in question.topics}
    ids = _counted(result, len(topics) + 1)
    if not ids:
        return False
    asked = any(names_class(question.question, one) for one in _counted_classes(result))
    return ids <= topics or (not asked and asks_number(question.question, schema))

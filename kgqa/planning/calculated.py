"""Numbers that a question makes of two properties: a rent per room, the gap between two prices.

No property is called so. The question is planned over a schema in which the class of the two has
their ratio, or their difference, as one more number, and with that number's name in the question;
in the finished plan the two properties stand for it, as dates do for a duration.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kgqa.graph.quantities import UNITS
from kgqa.graph.schema import Property
from kgqa.lexicon.english import english
from kgqa.lexicon.lemmas import stem
from kgqa.paths.words import relation_phrase
from kgqa.planning.question_words import Mentions, stems
from kgqa.queries.check import NUMBERS
from kgqa.queries.values import DATES
from kgqa.understanding.asked import gap_of, listed_by, ratio_of, undone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.schema import EntityType, GraphSchema
    from kgqa.queries.plan import Sign

_AREAS: dict[str, str] = english()["areas"]
_OF_UNITS = UNITS.keys() | {unit for units in _AREAS.values() for unit in units.split()}
_MOST_WORDS = 3  # of a property's name as the question says it


class Calculated(NamedTuple):
    """A question and a schema with a number made of two properties, and what it is made of."""

    question: str
    schema: GraphSchema
    name: str
    made_of: tuple[str, Sign, str]


def calculated(question: str, schema: GraphSchema) -> Calculated | None:
    """Return a question's number that is made of two properties; None if it asks for none.

    >>> from kgqa.graph.schema import EntityType, GraphSchema
    >>> flat = EntityType("Flat", 3, (Property("rent_eur", "float"), Property("rooms", "integer")))
    >>> found = calculated("What is the rent of Quai 7 per room?", GraphSchema((flat,), ()))
    >>> found.question, found.made_of
    ('What is the rent eur to rooms ratio of Quai 7?', ('rent_eur', '/', 'rooms'))
    """
    if ratio := ratio_of(question):
        before, each, after = ratio
        words = before.split(" ")
        for type_ in schema.types:
            for least in _windows(len(words)):
                left = _named(type_, words[least])
                for size in range(min(2, len(each)), 0, -1):
                    right = _named(type_, each[:size])
                    if left and right and left != right:
                        made = f"{relation_phrase(left)} to {relation_phrase(right)} ratio"
                        said = [*words[: least.start], made, *words[least.stop :], *each[size:]]
                        return _with(type_, schema, " ".join(said) + after, left, "/", right, made)
    if gap := gap_of(question):
        for type_ in schema.types:
            left, right = _named(type_, gap.left), _named(type_, gap.right)
            if left and right and left != right:
                made = f"{relation_phrase(left)} to {relation_phrase(right)} {gap.noun}"
                return _with(type_, schema, gap.before + made + gap.after, left, "-", right, made)
    return None


def as_ordered(question: str, schema: GraphSchema) -> str:
    """Rewrite "flats by rent" as an order by a number or date; others are returned unchanged.

    >>> from kgqa.graph.schema import EntityType, GraphSchema
    >>> flats = GraphSchema((EntityType("Flat", 3, (Property("rent_eur", "float"),)),), ())
    >>> as_ordered("Show flats by rent", flats), as_ordered("Show flats by size", flats)
    ('Show flats ordered by rent', 'Show flats by size')
    """
    listed = listed_by(question)
    if listed is None:
        return question
    before, by = listed
    words = by.lower().split()
    said = [stem(one) for one in words]
    ordered = any(
        (one.type in (*NUMBERS, *DATES) and stems(one.name)[-len(said) :] == said)
        or _named(type_, words) == one.name
        for type_ in schema.types
        for one in type_.properties
    )
    return f"{before} ordered by {by}" if ordered else question


def as_denied(question: str, schema: GraphSchema) -> str:
    """Rewrite "unassigned" as "not assigned", if a relation is called so, and no flag.

    >>> from kgqa.graph.schema import EntityType, GraphSchema, RelationPattern
    >>> of_task = RelationPattern("assignee", "Task", "Dev", 3)
    >>> tasks = GraphSchema((EntityType("Task", 3),), (of_task,))
    >>> as_denied("Which tasks are unassigned?", tasks), as_denied("Unpaid tasks?", tasks)
    ('Which tasks are not assigned?', 'Unpaid tasks?')
    """
    verb = undone(question)
    if not verb:
        return question
    said = Mentions(verb)
    own = [(one.name, one.type) for type_ in schema.types for one in type_.properties]
    flagged = any(said.of(name) for name, kind in own if kind == "boolean")
    related = any(said.of(one.relation) for one in schema.relations)
    return question.replace(f"un{verb}", f"not {verb}") if related and not flagged else question


def _windows(size: int) -> list[slice]:
    """Return the slices of up to ``_MOST_WORDS`` of so many words, the last and longest first."""
    return [
        slice(end - length, end)
        for end in range(size, 0, -1)
        for length in range(min(_MOST_WORDS, end), 0, -1)
    ]


def _named(type_: EntityType, words: Sequence[str]) -> str:
    """Return the numeric property of a class that words name, but for its unit; "" for none.

    A unit of measure names the property that is measured in it.
    """
    said = [stem(one.lower()) for one in words]
    phrase = " ".join(said)
    unit = UNITS.get(phrase) or UNITS.get(" ".join(words).lower())
    for one in type_.properties:
        if one.type not in NUMBERS or one.many:
            continue
        own = stems(one.name)
        bare = own[:-1] if own[-1] in _OF_UNITS and len(own) > 1 else own
        if _alike(said, own) or _alike(said, bare) or own[-1] in _AREAS.get(phrase, "").split():
            return one.name
        measured = UNITS.get(own[-1]) or (UNITS.get(one.form.unit.lower()) if one.form else None)
        if unit and measured and unit == measured:
            return one.name
    return ""


def _alike(said: Sequence[str], own: Sequence[str]) -> bool:
    """Return whether words are those of a name: estimated hour, estimate hours."""
    one, other = " ".join(said), " ".join(own)
    same = Mentions(one).share(other) == 1 and Mentions(other).share(one) == 1
    return len(said) == len(own) and same


def _with(
    type_: EntityType, schema: GraphSchema, question: str, left: str, sign: Sign, right: str,
    made: str,
) -> Calculated:  # fmt: skip
    """Return the schema in which a class has one more number, with the question that names it."""
    name = made.replace(" ", "_")
    count = min(one.count for one in type_.properties if one.name in (left, right))
    more = replace(type_, properties=(*type_.properties, Property(name, "float", count=count)))
    types = tuple(more if one is type_ else one for one in schema.types)
    return Calculated(question, replace(schema, types=types), name, (left, sign, right))

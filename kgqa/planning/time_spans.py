"""How long something lasts: the time between two dates, as one more number of what has both.

"The longest project" asks for no property of projects that begin and end on stated days. A question
that asks how long is planned over a schema in which the classes and relations with both dates have
a duration; in the finished plan the difference of the two dates stands for it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from kgqa.errors import PlanError
from kgqa.graph.schema import Property
from kgqa.lexicon.english import english, words
from kgqa.paths.words import relation_phrase
from kgqa.planning.question_words import is_year, measured, stems
from kgqa.queries.check import check
from kgqa.queries.plan import (
    Aggregate,
    Arithmetic,
    Comparison,
    NodeRef,
    Plan,
    PropertyRef,
    Sort,
    Without,
)
from kgqa.queries.values import DATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from kgqa.graph.schema import GraphSchema
    from kgqa.queries.check import SchemaIndex
    from kgqa.queries.plan import Sign

DURATIONS = ("duration_days", "duration_years")  # the unit is read from the name's last word


def with_durations(schema: GraphSchema) -> GraphSchema:
    """Return the schema in which what has a beginning and an end has a duration, too."""
    return replace(
        schema,
        types=tuple(replace(one, properties=_lasting(one.properties)) for one in schema.types),
        relations=tuple(
            replace(one, properties=_lasting(one.properties)) for one in schema.relations
        ),
    )


def _lasting(properties: tuple[Property, ...]) -> tuple[Property, ...]:
    """Return properties with a duration, unless one says it already or the two dates are not there.

    >>> dates = Property("start", "date"), Property("end_date", "date")
    >>> [one.name for one in _lasting(dates)]
    ['start', 'end_date', 'duration_days']
    """
    ends = begin_and_end(properties)
    said = (one.name for one in properties if not words("foreseen") & {*stems(one.name)})
    if ends is None or any(measured("how long", name) for name in said):
        return properties
    name = DURATIONS[ends[0].type not in DATES]
    return (*properties, Property(name, "float", count=min(one.count for one in ends)))


def begin_and_end(properties: Iterable[Property]) -> tuple[Property, Property] | None:
    """Return the dates or years at which something begins and ends, None if it lacks either.

    Of several pairs, the one that is stored as dates, then that with the most values, then the one
    with the shortest names.

    >>> begin_and_end([Property("order_date", "date"), Property("shippedDate", "date")])[1].name
    'shippedDate'
    >>> begin_and_end([Property("start", "date"), Property("review_end", "date")]) is None
    True
    """
    timed = [one for one in properties if not one.many and (one.type in DATES or are_years(one))]
    pairs = [
        pair
        for pair in product(timed, timed)
        if (pair[0].type in DATES) == (pair[1].type in DATES) and _are_ends(*pair)
    ]
    return min(
        pairs,
        key=lambda pair: (
            any(one.as_text for one in pair),
            -min(one.count for one in pair),
            sum(len(one.name) for one in pair),
        ),
        default=None,
    )


def _are_ends(begin: Property, end: Property) -> bool:
    """Return whether the names of two properties say the beginning and the end of one thing."""
    first, last = (
        [word for word in relation_phrase(one.name).split() if word not in words("timed")]
        for one in (begin, end)
    )
    pairs: list[tuple[AbstractSet[str], AbstractSet[str]]] = [(words("begins"), words("ends"))]
    pairs += [({one}, {*others.split()}) for one, others in english()["spans"].items()]
    return any(
        one & begins and other & ends and one - begins == other - ends
        for one, other in (({*first}, {*last}), ({"".join(first)}, {"".join(last)}))
        for begins, ends in pairs
    )


def are_years(property_: Property) -> bool:
    """Return whether a property holds years as integers, as far as its examples say."""
    return (
        property_.type == "integer"
        and bool(property_.examples)
        and all(map(is_year, property_.examples))
    )


def spelt_out(
    plan: Plan, index: SchemaIndex, made_of: Mapping[str, tuple[str, Sign, str]]
) -> Plan | None:
    """Return a plan with the difference of two dates for each duration.

    ``index``: of the schema of :func:`with_durations`. ``made_of``: other numbers, by name, that
    two properties stand for. None for a plan that tests whether there is such a number, which
    nothing stores.
    """
    try:
        spelt = _spelt_out(plan, index, made_of)
        if spelt != plan:
            check(spelt, index)
    except PlanError:
        return None
    return spelt


def _spelt_out(
    plan: Plan, index: SchemaIndex, made_of: Mapping[str, tuple[str, Sign, str]]
) -> Plan:
    """Return a plan with the difference of two dates for each duration. Raises PlanError."""

    def operand(one: Any) -> Any:
        """Return a part of the plan without durations."""
        match one:
            case PropertyRef(owner, name) if name in made_of:
                first, sign, last = made_of[name]
                return Arithmetic(PropertyRef(owner, first), sign, PropertyRef(owner, last))
            case PropertyRef(owner, name) if name in DURATIONS:
                there = (
                    index.properties(plan.nodes[owner.node])
                    if isinstance(owner, NodeRef)
                    else index.hop_properties(plan.all_hops[owner.hop], plan.nodes)
                )
                ends = begin_and_end(there.values())
                if ends is None:
                    raise PlanError("Nothing of the plan both begins and ends.")
                begin, end = (PropertyRef(owner, each.name) for each in ends)
                return Arithmetic(end, "-", begin)
            case Aggregate(kind, of):
                return Aggregate(kind, operand(of))
            case Arithmetic(left, sign, right):
                return Arithmetic(operand(left), sign, operand(right))
            case Comparison(left, sign, right):
                right = right if isinstance(right, tuple) else operand(right)
                return Comparison(operand(left), sign, right)
            case Sort(by, descending):
                return Sort(operand(by), descending)
            case Without(hops, where):
                return Without(hops, tuple(map(operand, where)))
        return one

    changed: dict[str, Any] = {
        name: tuple(map(operand, getattr(plan, name)))
        for name in ("where", "without", "group", "order", "give")
    }
    return replace(plan, **changed, first=plan.first and _spelt_out(plan.first, index, made_of))


def unit_of_times(plan: Plan, index: SchemaIndex) -> str:
    """Return "days" or "years" for a plan that calculates the time between two dates, else ""."""
    items = [one.of if isinstance(one, Aggregate) else one for one in plan.items()]
    for one in items:
        if isinstance(one, Arithmetic) and one.operator == "-":
            kind = index.kind(plan, one.left)
            if kind is not None and (kind.type in DATES or are_years(kind)):
                return "days" if kind.type in DATES else "years"
    return ""

"""Checks a query plan against the schema of a KG; a plan that does not fit is never run.

Operators by type: numbers, dates, durations and text are compared and ordered; ``contains`` and its
kind take text; booleans and points are equal or not; a node is equal to a name or an id. Of a list
every operator asks whether a member fits it, a negated one (``<>``, ``not …``) whether none does.
"""

from __future__ import annotations

import difflib
import itertools
import re
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from kgqa.errors import PlanError
from kgqa.graph.moments import length
from kgqa.graph.schema import Property
from kgqa.queries.plan import (
    OPEN,
    TEXT_OPERATORS,
    Aggregate,
    Arithmetic,
    Comparison,
    HopRef,
    NodeRef,
    Plan,
    PropertyRef,
    quoted_name,
    quoted_value,
)
from kgqa.queries.values import DATES, MOMENTS, interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kgqa.graph.schema import EntityType, GraphSchema, RelationPattern, Value
    from kgqa.queries.plan import Hop

NUMBERS = ("integer", "float")
ORDERED = (*NUMBERS, *MOMENTS, "duration", "text")
_EQUALITY = ("=", "<>", "in", "not in")
_MAX_LISTED_NAMES = 8  # names that an error lists
_CLOCK = r"\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?"
_DATE = re.compile(rf"-?\d{{4,}}(?:-Q[1-4]|-\d\d(?:-\d\d(?:[T ]{_CLOCK})?)?)?")
_TIME = re.compile(_CLOCK)
_WRITTEN = dict.fromkeys(
    DATES,
    'A date is written as "1997-12-31", a month "1997-12", a quarter "1997-Q4", a year "1997".',
) | {"duration": 'A duration is written as ISO 8601 has it: "PT1H30M", "P2D".'}
Kind: TypeAlias = Property
"""What an operand is: the property itself, or one that stands for what is calculated."""


class SchemaIndex:
    """A graph schema indexed by the names of classes, relations and properties."""

    def __init__(self, schema: GraphSchema) -> None:
        self.schema = schema
        self.types: dict[str, EntityType] = {type_.name: type_ for type_ in schema.types}
        self.relations: dict[str, list[RelationPattern]] = {}
        for pattern in schema.relations:
            self.relations.setdefault(pattern.relation, []).append(pattern)

    def said_by(self, type_: str) -> list[str]:
        """Return the relations whose names are stored in a property of relationships of a type.

        Sorted; [] if each relation has a type of its own.
        """
        patterns = self.schema.relations
        return sorted({each.relation for each in patterns if each.stored == type_})

    def properties(self, class_: str) -> dict[str, Property]:
        """Return the properties of a class by name; of all classes for ""."""
        types = [self.types[class_]] if class_ else self.schema.types
        return _by_name(property_ for type_ in types for property_ in type_.properties)

    def patterns(self, hop: Hop, nodes: Sequence[str]) -> list[RelationPattern]:
        """Return the schema's relation patterns that match a hop between these node classes."""
        head, tail = nodes[hop.source], nodes[hop.target]
        if hop.inverse:
            head, tail = tail, head
        return [
            pattern
            for pattern in self.relations.get(hop.relation, [])
            if (head in ("", pattern.head) and tail in ("", pattern.tail))
            or (hop.either and tail in ("", pattern.head) and head in ("", pattern.tail))
        ]

    def leads_only_to(self, hop: Hop, nodes: Sequence[str], to: int) -> bool:
        """Return whether the end of a hop at node ``to`` always has that node's class.

        False if the schema is from a sample.
        """
        if self.schema.sampled or hop.repeated or hop.either:
            return False
        at_source = to == hop.source
        other = nodes[hop.target if at_source else hop.source]
        heads = hop.inverse != at_source  # whether node ``to`` is at the facts' heads
        ends = [
            (relation.head, relation.tail) if heads else (relation.tail, relation.head)
            for relation in self.relations[hop.relation]
        ]
        return {mine for mine, theirs in ends if other in ("", theirs)} == {nodes[to]}

    def hop_properties(self, hop: Hop, nodes: Sequence[str]) -> dict[str, Property]:
        """Return the properties of a hop's facts by name; {} for a repeated relation."""
        if hop.repeated:
            return {}
        return _by_name(
            property_ for pattern in self.patterns(hop, nodes) for property_ in pattern.properties
        )

    def may_be_one(self, class_: str, other: str) -> bool:
        """Return whether some node with a relation may be of both classes; "" is any class.

        If there is one, each of its relations is in the schema with both classes.
        """
        if class_ == other or not class_ or not other:
            return True
        return any(pair in self._together for pair in ((class_, other), (other, class_)))

    @cached_property
    def _together(self) -> set[tuple[str, str]]:
        """Return pairs of classes that the same relation joins to the same class."""
        found: set[tuple[str, str]] = set()
        for patterns in self.relations.values():
            by_other: dict[tuple[bool, str], list[str]] = {}
            for pattern in patterns:
                by_other.setdefault((True, pattern.tail), []).append(pattern.head)
                by_other.setdefault((False, pattern.head), []).append(pattern.tail)
            for classes in by_other.values():
                found.update(itertools.combinations(classes, 2))
        return found

    def property_of(self, plan: Plan, ref: PropertyRef) -> Property:
        """Return the property that ``ref`` names. Raises PlanError if there is none."""
        if isinstance(ref.owner, NodeRef):
            there = self.properties(plan.nodes[ref.owner.node])
        else:
            there = self.hop_properties(plan.all_hops[ref.owner.hop], plan.nodes)
        if ref.name not in there:
            owner = plan.text_of(ref.owner)
            raise PlanError(
                f"{owner} has no property {quoted_name(ref.name)}.",
                _there_is(ref.name, there, "It has no properties."),
            )
        return there[ref.name]

    def kind(self, plan: Plan, item: object) -> Kind | None:
        """Return the type of an item's values as a property, None for nodes and facts.

        Raises PlanError.
        """
        match item:
            case PropertyRef(_, _, part):
                own = self.property_of(plan, item)
                if not part:
                    return own
                if part == "size" and (own.many or own.type == "text"):
                    return Property(own.name, "integer")
                if part != "size" and own.type in (*DATES, "text"):  # dates are kept as text, too
                    return Property(own.name, "integer", many=own.many)
                raise PlanError(
                    f"{plan.text_of(item)}: {own.name} is {_a(own)}, and has no {part}."
                )
            case Arithmetic(left, sign, right):
                kinds = [self.kind(plan, side) for side in (left, right)]
                if sign == "-" and all(
                    one is not None and one.type in DATES and not one.many for one in kinds
                ):
                    return Property("", "float")  # days
                if sign == "-" and any(map(_is_single_date, kinds)):
                    raise PlanError(
                        f"{plan.text_of(item)}: from a date only another date can be subtracted."
                    )
                for side, kind in zip((left, right), kinds, strict=True):
                    if kind is None or kind.many or kind.type not in NUMBERS:
                        raise PlanError(f"{plan.text_of(side)} is not a number to calculate with.")
                return Property("", "float")
            case Aggregate(kind, of):
                found = self.kind(plan, of)
                if kind == "count":
                    return Property("", "integer")
                if found is None:
                    raise PlanError(
                        f"{plan.text_of(item)}: what is not a property can only be counted."
                    )
                if found.many and kind in ("sum", "average"):
                    raise PlanError(f"{plan.text_of(item)}: {found.name} is {_a(found)}.")
                allowed = NUMBERS if kind in ("sum", "average") else ORDERED
                _check_order(plan, of, found)
                if found.type not in allowed:
                    raise PlanError(f"{plan.text_of(item)}: {found.name} is {_a(found)}.")
                return Property("", "float" if kind == "average" else found.type)
            case float() | int():
                return Property("", "float")
        return None


def _is_single_date(kind: Property | None) -> bool:
    """Return whether a property has one date or date-time as its value."""
    return kind is not None and kind.type in DATES and not kind.many


def check(plan: Plan, schema: GraphSchema | SchemaIndex) -> None:
    """Raise PlanError, with suggestions, unless ``plan``, and any it continues, fits the schema."""
    index = schema if isinstance(schema, SchemaIndex) else SchemaIndex(schema)
    if plan.first is not None:
        check(plan.first, index)
    for class_ in plan.nodes:
        if class_ and class_ not in index.types:
            raise PlanError(
                f"The graph has no class {quoted_name(class_)}.",
                _there_is(class_, index.types, "The graph has no classes; `*` is any node."),
            )
    for hop in plan.all_hops:
        _check_hop(plan, hop, index)
    for one in [*plan.where, *(comparison for part in plan.without for comparison in part.where)]:
        _check_comparison(plan, one, index)
    for item in [*plan.give, *plan.group]:
        index.kind(plan, item)
    for sort in plan.order:
        kind = index.kind(plan, sort.by)
        if isinstance(sort.by, HopRef) or (kind is not None and kind.type not in ORDERED):
            raise PlanError(f"Nothing can be ordered by {plan.text_of(sort.by)}.")
        _check_order(plan, sort.by, kind)


def _check_order(plan: Plan, item: object, kind: Property | None) -> None:
    """Raise PlanError if an item to order by has numbers in several units.

    ``kind``: its property, None for a node.
    """
    if kind is not None and kind.unordered:
        raise PlanError(
            f"{plan.text_of(item)} has numbers in its texts that cannot be compared, such as "
            f"{' and '.join(map(quoted_value, kind.examples[:2]))}: nothing can be ordered by it.",
            "Write them in one unit, as numbers alone, and load again.",
        )


def _check_hop(plan: Plan, hop: Hop, index: SchemaIndex) -> None:
    """Raise PlanError, with suggestions, unless the schema has a hop's relation and classes."""
    if hop.relation not in index.relations:
        raise PlanError(
            f"The graph has no relation {quoted_name(hop.relation)}.",
            _there_is(hop.relation, index.relations, "The graph has no relations."),
        )
    source, target = plan.nodes[hop.source], plan.nodes[hop.target]
    if not index.patterns(hop, plan.nodes):
        there = [
            f"{pattern.head or '*'} {quoted_name(hop.relation)}> {pattern.tail or '*'}"
            for pattern in index.relations[hop.relation]
        ]
        name = quoted_name(hop.relation)
        step = f"{'<' * (hop.inverse or hop.either)}{name}{'>' * (hop.either or not hop.inverse)}"
        raise PlanError(
            f"The graph has no {source or '*'} {step} {target or '*'}.",
            f"There is {_listed(there)}.",
        )
    if hop.repeated and source != target:
        raise PlanError(
            f"{quoted_name(hop.relation)}* leads from {source or '*'} to {target or '*'}.",
            "A relation that is repeated leads to the class that it starts from.",
        )


def _check_comparison(plan: Plan, comparison: Comparison, index: SchemaIndex) -> None:
    """Raise PlanError unless a comparison's operator and values fit the type of its left side."""
    kind = index.kind(plan, comparison.left)
    text = plan.text_of(comparison)
    if isinstance(comparison.left, HopRef):
        raise PlanError(f"{text}: compare a property of {plan.text_of(comparison.left)}.")
    if comparison.affirmed in ("<", "<=", ">", ">="):
        _check_order(plan, comparison.left, kind)
    if comparison.operator.endswith("missing"):
        if kind is None or comparison.right != () or isinstance(comparison.left, Arithmetic):
            raise PlanError(f"{text}: only a property can be missing.")
        return
    if comparison.affirmed == "is a":
        class_ = (
            str(comparison.right[0])
            if isinstance(comparison.right, tuple) and comparison.right
            else ""
        )
        if not isinstance(comparison.left, NodeRef) or class_ not in index.types:
            raise PlanError(
                f"{text}: only a thing can be of a class of the graph.",
                _there_is(class_, index.types, "The graph has no classes."),
            )
        return
    if not isinstance(comparison.right, tuple):
        if isinstance(comparison.left, Aggregate):
            raise PlanError(f"{text}: what is counted or added up is compared with a value.")
        if isinstance(comparison.right, Aggregate) and not (
            comparison in plan.where
            and comparison.right.kind == "average"
            and isinstance(comparison.right.of, PropertyRef)
            and isinstance(comparison.right.of.owner, NodeRef)
            and not comparison.right.of.part
        ):
            raise PlanError(f"{text}: it can be compared with the average of a class's property.")
        other = index.kind(plan, comparison.right)
        if kind is None or other is None or kind.many or other.many:
            raise PlanError(f"{text}: only single values are compared with one another.")
        same = kind.type == other.type or (kind.type in NUMBERS and other.type in NUMBERS)
        if (
            not same
            or comparison.operator not in operators(kind.type)
            or comparison.operator.endswith("in")
        ):
            raise PlanError(f"{text}: {_a(kind)} and {_a(other)} are not compared by that.")
        return
    if not comparison.right or (
        len(comparison.right) > 1 and not comparison.operator.endswith("in")
    ):
        raise PlanError(f"{text}: a value is needed{', and only one' if comparison.right else ''}.")
    allowed = _EQUALITY if kind is None else operators(kind.type)
    if comparison.operator not in allowed:
        what = "a thing" if kind is None else _a(kind)
        raise PlanError(f"{text}: not an operator for {what}.", f"There is {_listed(allowed)}.")
    for value in comparison.right:
        if not (isinstance(value, str) if kind is None else fits(value, kind.type)):
            raise PlanError(
                f"{text}: {'a name or an id in quotes' if kind is None else _a(kind)} is needed.",
                _WRITTEN.get(kind.type, "") if kind is not None else "",
            )


def operators(type_: str) -> tuple[str, ...]:
    """Return the comparison operators for properties of a type, without ``missing``."""
    if type_ not in ORDERED:
        return _EQUALITY
    ordered = (*_EQUALITY, "<", "<=", ">", ">=")
    if type_ != "text":
        return (*ordered, *(OPEN + one for one in ("<=", ">", ">=")))
    return (*ordered, *TEXT_OPERATORS, *(f"not {word}" for word in TEXT_OPERATORS))


def fits(value: Value, type_: str) -> bool:
    """Return whether ``value`` can be compared with a property of this type."""
    if type_ == "boolean" or isinstance(value, bool):
        return isinstance(value, bool) and type_ == "boolean"
    if type_ in NUMBERS:
        return isinstance(value, int | float)
    if not isinstance(value, str):
        return False
    if type_ == "duration":
        return length(value) is not None
    pattern = _DATE if type_ in DATES else _TIME if type_ == "time" else None
    if pattern is None:
        return True
    return pattern.fullmatch(value) is not None and interval(value) is not None


def _by_name(properties: Iterable[Property]) -> dict[str, Property]:
    """Return properties by name; of several with one name the first, ``many`` if any of them is."""
    found: dict[str, Property] = {}
    for property_ in properties:
        known = found.setdefault(property_.name, property_)
        if (property_.many, property_.unread) > (known.many, known.unread):  # in another class
            found[property_.name] = replace(
                known, many=known.many or property_.many, unread=known.unread + property_.unread
            )
    return found


def _a(property_: Property) -> str:
    """Return a property's type with its article, for messages: "a list (a number)"."""
    name = {"integer": "a whole number", "float": "a number", "boolean": "true or false"}.get(
        property_.type, f"a {property_.type}"
    )
    return f"a list ({name})" if property_.many else name


def _there_is(name: str, there: Iterable[str], otherwise: str) -> str:
    """Return a hint for an unknown ``name``: similar names, or all names, or ``otherwise``."""
    names = list(there)
    if not names:
        return otherwise
    folded = {known.casefold(): known for known in reversed(names)}
    near = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.7)
    if near:
        return f"Did you mean {' or '.join(quoted_name(folded[known]) for known in near)}?"
    return f"There is {_listed([quoted_name(known) for known in names])}."


def _listed(names: Sequence[str]) -> str:
    """Return names as a list in text; of very many only the first, with the number of others."""
    more = len(names) - _MAX_LISTED_NAMES
    return ", ".join(names[:_MAX_LISTED_NAMES]) + (f" and {more} more" if more > 0 else "")

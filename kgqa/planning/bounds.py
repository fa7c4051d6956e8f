"""Comparisons with another entity's value: "after Low Tide", "cheaper than the Corvin".

The thing is named, and what is compared is the same property of it; the thing itself never answers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kgqa.lexicon.lemmas import stem
from kgqa.planning.question_words import COMPARED, is_dated, measured, stems, superlative
from kgqa.queries.plan import NodeRef, PropertyRef
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.schema import Property, Value
    from kgqa.planning.schema_parts import FoundValue
    from kgqa.queries.plan import Plan


class Bound(NamedTuple):
    """An entity that a plan compares with, by id, and its property with the value."""

    ids: tuple[str, ...]
    property: str
    value: Value


WEIGHTS = weights("planning")
_BOUND = re.compile(
    r"\b(?:(?:(?P<degree>more|less|fewer) (?:\w+ ){0,2}?(?P<of>\w+ )?|(?P<er>\w+er) (?:\w+ ){0,2}?)"
    r"than|(?P<time>after|before|since|until|prior to)"
    r"|(?P<side>above|below|over|under|exceed(?:s|ing)?)|(?:the )?same (?P<same>(?:\w+ ){1,3})as)"
    r" (?:(?:that|those|the \w+) of )?(?:the |an? )?$",
    re.IGNORECASE,
)
_BEFORE = 60  # characters before the name that are searched


def bound_before(question: str, start: int) -> re.Match[str] | None:
    """Return the comparative phrase that ends before the name at ``start``, None if there is none.

    >>> question = "Which lamps are more expensive than the Corvin?"
    >>> bound_before(question, question.index("Corvin")).group()
    'more expensive than the '
    """
    return _BOUND.search(question, max(0, start - _BEFORE), start)


def is_bound(question: str, mention: str) -> bool:
    """Return whether the question mentions an entity only to compare with its value.

    >>> is_bound("Who is older than Ann?", "Ann"), is_bound("Who is Ann older than?", "Ann")
    (True, False)
    """
    said = _before_mention(question, mention)
    return said is not None and not said["same"]


def shares_value(question: str, mention: str) -> bool:
    """Return whether the question asks for what has the same value as a mentioned entity.

    >>> shares_value("Which boats have the same type as Ida?", "Ida")
    True
    >>> shares_value("Which boats are older than Ida?", "Ida")
    False
    """
    said = _before_mention(question, mention)
    return said is not None and bool(said["same"])


def _before_mention(question: str, mention: str) -> re.Match[str] | None:
    """Return the phrase before the first mention of an entity that compares with it, or None."""
    start = question.lower().find(mention.lower()) if mention else -1
    return bound_before(question, start) if start > 0 else None


def bounds_of(plan: Plan, values: Sequence[FoundValue]) -> list[Bound]:
    """Return those of ``values`` whose entity a plan compares with, as bounds."""
    found = []
    for value in values:
        for (class_, name), held in value.holds.items():
            for one in plan.where:
                left = one.left
                if (
                    isinstance(left, PropertyRef)
                    and left.name == name
                    and isinstance(left.owner, NodeRef)
                    and plan.nodes[left.owner.node] in ("", class_)
                    and one.right == (held,)
                ):
                    ids = value.fields.get(("entity", class_, "name"), ())
                    ids = ids or value.things.get(class_, ())
                    found.append(Bound(ids, name, held))
    return found


def compared(
    said: re.Match[str], property_: Property, *, mentioned: bool
) -> tuple[str, float] | None:
    """Return the operator that ``said`` means for a property, and its score.

    None if the phrase does not suit the property. ``mentioned``: whether the question names it.
    """
    words = said.group()
    if said["same"]:
        alike = {*stems(property_.name)} & {stem(one.lower()) for one in said["same"].split()}
        return ("=", WEIGHTS["bound_of_dimension"]) if alike else None
    if property_.type == "text":
        return None
    if said["time"] or re.match(r"(?:later|earli)er?\b", words, re.IGNORECASE):
        if not is_dated(property_):
            return None
        later = COMPARED[">"].search(words) or "since" in words
        return (">" if later else "<"), WEIGHTS["bound_of_dimension"]
    if operator := _by_dimension(_as_best(said), property_):
        return operator, WEIGHTS["bound_of_dimension"]
    high, low = (COMPARED[sign].search(words) for sign in (">", "<"))
    if bool(high) == bool(low):
        return None
    return (">" if high else "<"), WEIGHTS["bound_said"] if mentioned else WEIGHTS["bound_unsaid"]


def _by_dimension(best: str, property_: Property) -> str:
    """Return the operator that a superlative means for a property, "" if it does not suit it."""
    if not best:
        return ""
    down, up = (superlative(best, property_, side) for side in (True, False))
    clearly = is_dated(property_) and abs(down - up) > WEIGHTS["superlative_direction"]
    if down == up or not (clearly or measured(best, property_.name)):
        return ""
    return ">" if down > up else "<"


def _as_best(said: re.Match[str]) -> str:
    """Return the superlative of a comparative adjective, "" for other comparisons."""
    if said["er"]:
        return f"the {said['er'][:-1].lower()}st"
    adjective = said.group().split()[1] if said["degree"] else ""
    if not adjective or adjective == "than":
        return ""
    return f"the {'most' if said['degree'].lower() == 'more' else 'least'} {adjective}"

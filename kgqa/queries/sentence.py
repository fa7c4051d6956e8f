"""Describes a plan as an English sentence, for people who do not read plans."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kgqa.display import said_name
from kgqa.paths.words import relation_phrase
from kgqa.queries.plan import (
    Aggregate,
    Arithmetic,
    Comparison,
    HopRef,
    NodeRef,
    Plan,
    PropertyRef,
    numbered,
    quoted_value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kgqa.queries.plan import Hop

_VERB_ENDS = ("ed", "ing", " in", " by", " of", " to", " at", " from", " with", " on", " for")
_PAST = "wrote taught bought sold led built made won ran drew sang gave took held kept met"
PAST_VERBS = frozenset(_PAST.split())
_OPERATORS = {
    "=": "is", "<>": "is not", "<": "is less than", "<=": "is at most", ">": "is more than",
    ">=": "is at least", "in": "is one of", "not in": "is none of", "missing": "is missing",
    "not missing": "is known", "contains": "contains", "not contains": "does not contain",
    "starts with": "starts with", "not starts with": "does not start with",
    "ends with": "ends with", "not ends with": "does not end with",
    "missing or <=": "is missing or at most", "missing or >": "is missing or more than",
    "missing or >=": "is missing or at least", "is a": "is also a", "is no": "is no",
}  # fmt: skip
_OTHERS = {"#2": "other", "#3": "third", "#4": "fourth"}
_CALCULATED = {"sum": "sum", "average": "average", "least": "least", "most": "greatest"}
_ARITHMETIC = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}


def sentence(plan: Plan, names: Mapping[str, str] | None = None) -> str:
    """Return a complete description of a plan as an English sentence.

    ``names``: of the entities that it names by id.

    >>> from kgqa.queries.text import parse_plan
    >>> sentence(parse_plan("Person ACTED_IN> Movie | desc count Movie | limit 3"))
    'Person; where person acted in movie; the first 3 by the number of movies, most first.'
    >>> sentence(parse_plan('Book author> Author | Author = "a/6" | give Book'), {"a/6": "Greta"})
    'Book; where book has author "Greta".'
    """
    return _Words(plan, names or {}).whole()


def labels(plan: Plan) -> tuple[str, ...]:
    """Return a column label in words for each output of a plan.

    >>> from kgqa.queries.text import parse_plan
    >>> labels(parse_plan("Movie | give Movie.released, count Movie"))
    ('released', 'number of movies')
    """
    words = _Words(plan)
    return tuple(
        relation_phrase(item.name)
        if isinstance(item, PropertyRef) and not item.part
        else words.item(item).removeprefix("the ")
        for item in plan.give
    )


def node_words(plan: Plan, names: Mapping[str, str]) -> list[str]:
    """Return a noun phrase for each node of a plan; ``names``: as in :func:`sentence`."""
    return [_Words(plan, names).item(NodeRef(at)) for at in range(len(plan.nodes))]


class _Words:
    """Writes parts of a plan in English."""

    def __init__(self, plan: Plan, names: Mapping[str, str] | None = None) -> None:
        self._plan, self._names = plan, names or {}
        classes = [relation_phrase(name) if name else "" for name in plan.nodes]
        for hop in plan.hops:  # what "official language" leads to is one
            tail, relation = (
                hop.source if hop.inverse else hop.target,
                relation_phrase(hop.relation),
            )
            classes[tail] = classes[tail] or ("" if _is_verb(relation) else relation)
        classes = [name or "thing" for name in classes]
        self._named: dict[int, str] = {}  # nodes that are one entity
        for comparison in plan.where:
            if isinstance(comparison.left, NodeRef) and comparison.operator == "=" and plan.hops:
                self._named.setdefault(comparison.left.node, self._values(comparison.right))
        others = numbered([name for at, name in enumerate(classes) if at not in self._named])
        others = [
            re.sub(r"^(.+)(#[234])$", lambda one: f"{_OTHERS[one[2]]} {one[1]}", name)
            for name in others
        ]
        rest = iter(others)
        self._nodes = [self._named.get(at) or next(rest) for at in range(len(classes))]

    def whole(self) -> str:
        """Return the plan as one sentence, with the plan that it continues."""
        plan = self._plan
        given = ", ".join(map(self.item, plan.give))
        grouped = [one for one in plan.group if one not in plan.give]
        if grouped:
            given += " for each " + " and ".join(map(self.item, grouped))
        where = [*map(self._hop, plan.hops)]
        where += [
            self._comparison(comparison)
            for comparison in plan.where
            if not self._says_name(comparison)
        ]
        for part in plan.without:
            inner = [*map(self._hop, part.hops), *map(self._comparison, part.where)]
            where.append(f"not ({' and '.join(inner)})")
        text = given
        if plan.first is not None:
            text += f"; of these: {sentence(plan.first, self._names)[:-1]}"
        if where:
            text += f"; where {', and '.join(where)}"
        text += self._order(plan)
        return text[0].upper() + text[1:] + "."

    def _order(self, plan: Plan) -> str:
        """Return a plan's order and limit in words, beginning with ";"; "" if it has neither."""
        limit = plan.limit
        by = [
            f"{self.item(one.by)}, {'most' if one.descending else 'least'} first"
            for one in plan.order
        ]
        first = "" if limit is None else "the first" if limit == 1 else f"the first {limit}"
        if plan.skip:
            after = f"{first or 'all'} after the first {plan.skip}"
            first = f"number {plan.skip + 1}" if limit == 1 else after
        if not by:
            return f"; {first}" if first else ""
        return f"; {first or 'in order'} by {', then '.join(by)}"

    def item(self, item: object) -> str:
        """Return an item or an operand in words."""
        match item:
            case NodeRef(node):
                return self._nodes[node]
            case HopRef(hop):
                return f"fact of {relation_phrase(self._plan.all_hops[hop].relation)}"
            case PropertyRef(owner, name, part):
                alone = len(self._nodes) == 1 and owner == NodeRef(0)
                of = relation_phrase(name) + ("" if alone else f" of {self.item(owner)}")
                return f"the {part} of the {of}" if part else f"the {of}"
            case Arithmetic(left, operator, right):
                return f"({self.item(left)} {_ARITHMETIC[operator]} {self.item(right)})"
            case Aggregate("count", of):
                return f"the number of {plural(self.item(of))}"
            case Aggregate(kind, of):
                return f"the {_CALCULATED[kind]} of {self.item(of)}"
            case _:
                return quoted_value(item)  # type: ignore[arg-type]

    def _says_name(self, comparison: Comparison) -> bool:
        """Return whether a node's phrase already contains the name that a comparison states."""
        left = comparison.left
        return (
            isinstance(left, NodeRef)
            and comparison.operator == "="
            and self._named.get(left.node) == self._values(comparison.right)
        )

    def _values(self, right: object) -> str:
        """Return the right side of a comparison in words; ids of known entities as their names."""
        if not isinstance(right, tuple):
            return self.item(right)
        every = (
            said_name(self._names[one]) if one in self._names else quoted_value(one)
            for one in right
        )
        return " or ".join(dict.fromkeys(every))  # several rows of one name

    def _comparison(self, comparison: Comparison) -> str:
        """Return a comparison in words."""
        right = self._values(comparison.right)
        if comparison.affirmed == "is a":
            right = relation_phrase(str(comparison.right[0]))  # type: ignore[index]
        return f"{self.item(comparison.left)} {_OPERATORS[comparison.operator]} {right}".rstrip()

    def _hop(self, hop: Hop) -> str:
        """Return a hop in words: "movie has director"."""
        ends = self._nodes[hop.source], self._nodes[hop.target]
        head, tail = reversed(ends) if hop.inverse else ends
        relation = relation_phrase(hop.relation)
        often = " (one or more times over)" if hop.repeated else ""
        often += " (one way or the other)" if hop.either else ""
        if _is_verb(relation):
            return f"{head} {relation} {tail}{often}"
        if relation == tail:
            return f"{head} has {tail}{often}"
        return f"{head} has {relation} {tail}{often}"


def _is_verb(relation: str) -> bool:
    """Return whether a relation phrase begins like a verb phrase."""
    first = relation.partition(" ")[0]
    is_verb = first in PAST_VERBS or (first.endswith(("ed", "s")) and not first.endswith("ss"))
    return is_verb or relation.endswith(_VERB_ENDS)


def plural(words: str) -> str:
    """Return the plural of a noun phrase; words that seem to be plural already are unchanged."""
    if words.endswith(("s", "x", "ch", "sh")) or words.startswith(("the ", "fact of ", "(")):
        return words
    return (
        words[:-1] + "ies" if words.endswith("y") and words[-2:-1] not in "aeiou" else words + "s"
    )

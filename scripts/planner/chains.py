"""Plans of one chain over a schema of names, with the text that plan_words gives the same plan."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Field: TypeAlias = (
    "tuple[str, int, str]"  # n or r (a class or a relation), its place, property or ""
)
Pattern: TypeAlias = "tuple[tuple[str, ...], tuple[tuple[str, str], ...]]"  # classes; relation, way
Condition: TypeAlias = "tuple[Field, str, str]"
Item: TypeAlias = "tuple[str | None, Field | None]"  # an aggregate or none, of what

NUMBERS = ("INTEGER", "FLOAT", "LONG", "DOUBLE")
AGGREGATES = {
    "count": "count", "sum": "sum", "avg": "average", "max": "most", "min": "least",
}  # fmt: skip
MOST_CLASSES = 4
_WAYS = {">": "<", "<": ">"}
_NUMBER = re.compile(
    r"(?<![\w.])(-?\d[\d,]*(?:\.\d+)?)(?:\s*(million|billion|thousand|k|m)\b)?", re.IGNORECASE
)
_TIMES = {"million": 10**6, "billion": 10**9, "thousand": 1000, "k": 1000, "m": 10**6}
_WORDS = "zero one two three four five six seven eight nine ten"
_SPELT = {word: str(number) for number, word in enumerate(_WORDS.split())}


class ChainSchema:
    """Classes and relations with the types of their properties, by name."""

    def __init__(
        self,
        classes: dict[str, dict[str, str]],
        relations: Iterable[tuple[str, str, str]],
        facts: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.classes, self.facts = classes, facts
        self.relations = sorted(set(relations))
        self.steps: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        for head, relation, tail in self.relations:
            for name in (head, tail):
                classes.setdefault(name, {})
            self.steps[head].append((relation, ">", tail))
            self.steps[tail].append((relation, "<", head))

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> ChainSchema:
        """Return a schema of ``schemas.json``."""
        classes = {
            name: {one["property"]: one["type"] for one in own if "mbedding" not in one["property"]}
            for name, own in content["node_props"].items()
        }
        relations = [(one["start"], one["type"], one["end"]) for one in content["relationships"]]
        facts = {
            name: {one["property"]: one["type"] for one in own}
            for name, own in content.get("rel_props", {}).items()
        }
        return cls(classes, relations, facts)

    def fields(self, pattern: Pattern) -> list[tuple[Field, str]]:
        """Return the properties of a pattern's classes and relations, with their types."""
        names, hops = pattern
        found = [
            (("n", at, own), type_)
            for at, name in enumerate(names)
            for own, type_ in self.classes.get(name, {}).items()
        ]
        return found + [
            (("r", at, own), type_)
            for at, (relation, _) in enumerate(hops)
            for own, type_ in self.facts.get(relation, {}).items()
        ]


@dataclass(frozen=True, slots=True)
class Chain:
    """A plan; ``order`` is a way with what orders, ``having`` an aggregate with a comparison."""

    pattern: Pattern
    give: Item
    conditions: frozenset[Condition] = frozenset()
    having: tuple[str, Field | None, str, str] | None = None
    order: tuple[str, str | None, Field | None] | None = None
    limit: int | None = None
    also: Item | None = None  # an aggregate that is given, too
    without: str = ""  # a hop that is not there, in words

    def turned(self) -> Chain:
        """Return the plan with its chain in the canonical direction."""
        pattern, flipped = canonical(self.pattern)
        if not flipped:
            return self
        size = len(self.pattern[0])

        def of(field: Field | None) -> Field | None:
            if field is None:
                return None
            kind, at, name = field
            return kind, (size - 1 - at if kind == "n" else size - 2 - at), name

        conditions = frozenset((of(field), op, value) for field, op, value in self.conditions)
        return replace(
            self,
            pattern=pattern,
            give=(self.give[0], of(self.give[1])),
            also=self.also and (self.also[0], of(self.also[1])),
            conditions=conditions,
            order=self.order and (*self.order[:2], of(self.order[2])),
            having=self.having and (self.having[0], of(self.having[1]), *self.having[2:]),
        )

    def words(self) -> str:
        """Return the plan in words."""
        parts = [self._chain()]
        # in the order of the values, as it was trained
        ordered = sorted(self.conditions, key=str)
        parts += [f"where {self._field(field)} {op} {value}" for field, op, value in ordered]
        if self.having:
            kind, field, op, value = self.having
            parts.append(f"having {AGGREGATES[kind]} {self._field(field)} {op} {value}")
        if self.order:
            way, aggregate, field = self.order
            said = "descending" if way == "desc" else "ascending"
            parts.append(f"order {said} {self._item((aggregate, field))}")
        if self.without:
            parts.append(f"without {self.without}")
        if self.limit:
            parts.append(f"limit {self.limit}")
        given = [self._item(one) for one in (self.give, self.also) if one]
        return " ; ".join([*parts, f"give {' , '.join(given)}"])

    def _chain(self) -> str:
        text = self._called(0)
        for at, (relation, way) in enumerate(self.pattern[1], 1):
            text += f" {way} {words_of(relation)} {way} {self._called(at)}"
        return text

    def _called(self, at: int) -> str:
        names = self.pattern[0]
        name = words_of(names[at])
        return name if names.count(names[at]) == 1 else f"{name} {names[: at + 1].count(names[at])}"

    def _field(self, field: Field | None) -> str:
        if field is None:
            return "all"
        kind, at, name = field
        owner = self._called(at) if kind == "n" else words_of(self.pattern[1][at][0])
        return f"{owner} {words_of(name)}" if name else owner

    def _item(self, item: Item) -> str:
        kind, field = item
        return f"{AGGREGATES[kind]} of {self._field(field)}" if kind else self._field(field)


def words_of(name: str) -> str:
    """Return the words of a name.

    >>> words_of("unitPrice"), words_of("ACTED_IN")
    ('unit price', 'acted in')
    """
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).replace("_", " ").lower()
    return " ".join(re.findall(r"[a-z0-9]+", spaced)) or name.lower()


def turned(pattern: Pattern) -> Pattern:
    """Return a pattern read from its other end."""
    names, hops = pattern
    return names[::-1], tuple((relation, _WAYS[way]) for relation, way in hops[::-1])


def canonical(pattern: Pattern) -> tuple[Pattern, bool]:
    """Return a pattern in one of its two directions, and whether it was turned for it."""
    other = turned(pattern)
    return (pattern, False) if pattern <= other else (other, True)


def numbers_in(question: str) -> list[str]:
    """Return the numbers of a question, those to ten also as words."""
    found = []
    for digits, unit in _NUMBER.findall(question):
        plain = digits.replace(",", "")
        found.append(str(int(float(plain) * _TIMES[unit.lower()])) if unit else plain)
    found += [_SPELT[word] for word in re.findall(r"[a-z]+", question.lower()) if word in _SPELT]
    return list(dict.fromkeys(found))

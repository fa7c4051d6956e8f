"""What Cypher that others wrote uses of a schema, and for what: the gold of the plan scorer.

A small reader of the part of Cypher that questions about a graph are answered with: linear
patterns, conditions, groups, an order, what is returned. What it cannot read is None, and counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NODE = r"\(\s*(\w*)\s*((?:[:&|!]\s*`?\w+`?\s*)*)(\{[^{}]*\})?\s*\)"
_RELATION = (
    r"(<?)\s*-\s*(?:\[\s*(\w*)\s*((?:[:|!]+\s*`?\w+`?\s*)*)"
    r"(\*[\d.]*)?\s*(\{[^{}]*\})?\s*\]\s*)?-\s*(>?)"
)
_PATTERN = re.compile(rf"{_NODE}(?:\s*{_RELATION}\s*{_NODE})*")
_STEP = re.compile(rf"\s*{_RELATION}\s*{_NODE}")
_FIRST = re.compile(_NODE)
_CLAUSE = re.compile(
    r"\b(OPTIONAL\s+MATCH|MATCH|WHERE|WITH|RETURN|ORDER\s+BY|LIMIT|SKIP|UNWIND|UNION|CALL)\b"
    r"(?![^'\"]*['\"](?:[^'\"]*['\"][^'\"]*['\"])*[^'\"]*$)",
    re.IGNORECASE,
)
_STARTS_OR_ENDS = re.compile(r"\b(STARTS|ENDS)\s+WITH\b", re.IGNORECASE)
_PROPERTY = re.compile(r"\b(\w+)\.`?(\w+)`?")
_AGGREGATE = re.compile(r"\b(count|sum|avg|min|max|collect|size)\s*[({]", re.IGNORECASE)
_STRING = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_PRESENT = re.compile(r"\b\w+\.`?\w+`?\s+IS\s+NOT\s+NULL\b", re.IGNORECASE)
_NOT_THERE = re.compile(r"\bNOT\s*(?:\(|EXISTS\s*[({])", re.IGNORECASE)
_VARIABLE = re.compile(r"\b[A-Za-z_]\w*")
_INLINE = re.compile(r"`?(\w+)`?\s*:")


Hop: TypeAlias = tuple[str, str, str]
Edge: TypeAlias = tuple[str, set[str], str, str, bool]  # head, types, tail, name, whether denied


@dataclass(slots=True)
class PlanGold:
    """What a query uses of a schema.

    ``classes``: which it names, ``answer`` what it gives, ``counted`` what it counts. ``hops``:
    relation patterns (head, relation, tail) with whether the answer is at their tail;
    ``without``: those that are not to be there. Properties are (owner, name), the owner a class or
    a relation. ``aggregate``: none, count, group (a count for each), sum, avg, min or max.
    """

    classes: set[str] = field(default_factory=set)
    answer: set[str] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)
    hops: dict[Hop, bool] = field(default_factory=dict)
    without: set[Hop] = field(default_factory=set)
    conditions: dict[tuple[str, str], str] = field(default_factory=dict)  # and its text, if text
    order: set[tuple[str, str]] = field(default_factory=set)
    given: set[tuple[str, str]] = field(default_factory=set)
    aggregated: set[tuple[str, str]] = field(default_factory=set)
    aggregate: str = "none"
    direction: str = "none"  # none, asc, desc
    having: bool = False
    limit: bool = False


def plan_gold(cypher: str, relations: Iterable[Hop]) -> PlanGold | None:
    """Return what a query uses; None if it is not one that is read here."""
    try:
        return CypherReader(cypher, list(relations)).read()
    except (KeyError, ValueError, IndexError):
        return None


class CypherReader:
    """Reads one query; what it cannot read raises KeyError, ValueError or IndexError."""

    def __init__(self, cypher: str, relations: list[Hop]) -> None:
        self._text = _STARTS_OR_ENDS.sub(r"\1_WITH", " ".join(cypher.split()))
        self._relations = relations
        self._class: dict[str, set[str]] = {}  # of a variable
        self._edges: list[Edge] = []
        self._alias: dict[str, str] = {}
        self._unnamed = 0
        self._gold = PlanGold()

    def read(self) -> PlanGold | None:
        gold, text = self._gold, self._text
        if re.search(r"\b(UNION|CALL|UNWIND|SKIP)\b|\*", re.sub(r"\(\s*\*\s*\)", "()", text)):
            return None
        self._patterns()
        self._infer()
        returned: list[str] = []
        order = ""
        for clause, body in self._clauses():
            if clause == "WITH":
                self._items(body)
            elif clause == "RETURN":
                returned = self._items(body)
            elif clause == "WHERE":
                self._where(body)
            elif clause == "ORDER" and not order:
                order = body
            elif clause == "LIMIT":
                gold.limit = True
        if not returned:
            return None
        answer = self._returned(returned)
        if order:
            self._ordered(order)
        self._place(answer)
        if gold.aggregate == "count" and any(self._plain(item) for item in returned):
            gold.aggregate = "group"
        return gold if gold.classes and gold.answer else None

    def _clauses(self) -> Iterator[tuple[str, str]]:
        """Yield the first word of each clause, and what follows it."""
        found = list(_CLAUSE.finditer(self._text))
        ends = [match.start() for match in found[1:]] + [len(self._text)]
        for match, end in zip(found, ends, strict=True):
            yield (
                match.group(1).upper().split()[0],
                self._text[match.end() : end].strip().rstrip("};"),
            )

    def _patterns(self) -> None:
        for match in _PATTERN.finditer(self._text):
            first = _FIRST.match(self._text, match.start())
            assert first is not None  # a pattern begins with a node
            before = self._text[max(0, match.start() - 24) : match.start()]
            denied = bool(re.search(r"NOT\s*(?:EXISTS\s*)?[({]?\s*(?:MATCH\s*)?$", before, re.I))
            keyword = re.search(r"(?:MATCH|WHERE|AND|OR|NOT|EXISTS|=)\s*$", before, re.I)
            called = not keyword and re.search(r"\w$", before)
            if match.end() == first.end() and not first[2] and (called or not first[1]):
                continue  # the brackets of a function, or around nothing
            at = self._node(first)
            place = first.end()
            while (step := _STEP.match(self._text, place)) and step.end() <= match.end():
                left, name, types, far, inline, right = step.groups()[:6]
                if far:
                    raise ValueError
                other = self._node(step, 6)
                of = set(re.findall(r"\w+", types or ""))
                head, tail = (other, at) if left and not right else (at, other)
                name = name or f"_r{len(self._edges)}"
                self._edges.append((head, of, tail, name, denied))
                if not left and not right:
                    self._edges.append((tail, of, head, name, denied))
                self._inline(name, inline)
                at, place = other, step.end()

    def _node(self, match: re.Match[str], skip: int = 0) -> str:
        name, labels, inline = match.groups()[skip : skip + 3]
        if not name:
            self._unnamed += 1
            name = f"_n{self._unnamed}"
        known = self._class.setdefault(name, set())
        known.update(re.findall(r"\w+", labels or ""))
        self._inline(name, inline)
        return name

    def _inline(self, name: str, inline: str | None) -> None:
        if inline:
            for part in split_list(inline.strip("{}")):
                if at := _INLINE.match(part.strip()):
                    self._alias.setdefault(f"\0{name}.{at.group(1)}", part)

    def _infer(self) -> None:
        """Give variables without labels the classes that the relations of the schema leave."""
        for _ in range(3):
            for edge in self._edges:
                fits = self._fitting(edge)
                for name, end in ((edge[0], 0), (edge[2], 2)):
                    ends = {relation[end] for relation in fits}
                    if not self._class[name] and len(ends) == 1:
                        self._class[name] |= ends

    def _fitting(self, edge: Edge) -> list[Hop]:
        """Return the relations of the schema that an edge may be, as far as its ends are known."""
        head, types, tail, *_ = edge
        heads, tails = self._class[head], self._class[tail]
        return [
            hop
            for hop in self._relations
            if (not types or hop[1] in types)
            and (not heads or hop[0] in heads)
            and (not tails or hop[2] in tails)
        ]

    def _hops(self, edge: Edge) -> list[Hop]:
        known = self._class[edge[0]] and self._class[edge[2]]
        return self._fitting(edge) if known else []

    def _items(self, body: str) -> list[str]:
        items = []
        for item in split_list(re.sub(r"^\s*DISTINCT\b", "", body, flags=re.I)):
            expression, _, alias = item.partition(" AS " if " AS " in item else " as ")
            items.append(self._resolved(expression))
            if alias.strip():
                self._alias[alias.strip().strip("`")] = items[-1]
        return items

    def _resolved(self, expression: str) -> str:
        return self._alias.get(expression.strip().strip("`"), expression.strip())

    def _owner(self, name: str) -> list[str]:
        if name in self._class:
            return sorted(self._class[name])
        return sorted(
            {hop[1] for edge in self._edges if edge[3] == name for hop in self._hops(edge)}
        )

    def _properties(self, text: str) -> list[tuple[str, str]]:
        return [
            (owner, name)
            for variable, name in _PROPERTY.findall(_STRING.sub("''", text))
            for owner in self._owner(variable)
        ]

    def _where(self, body: str) -> None:
        body = _PRESENT.sub("", body)
        for part in re.split(r"\b(?:AND|OR)\b", body, flags=re.I):
            text = first_string(part)
            for owned in self._properties(part):
                self._gold.conditions[owned] = text
            first = re.match(r"\s*\(?\s*(\w+)\s*[<>=]", part)
            known = self._alias.get(first.group(1), "") if first else ""
            aggregate = _AGGREGATE.search(known) or _AGGREGATE.search(part)
            if aggregate and aggregate.group(1).lower() in ("count", "size", "sum", "avg"):
                self._gold.having = True
                self._aggregated(known or part)

    def _plain(self, item: str) -> bool:
        return not _AGGREGATE.search(item)

    def _aggregated(self, item: str) -> None:
        match = _AGGREGATE.search(item)
        if match is None:
            return
        kind = match.group(1).lower()
        gold, inner = self._gold, item[match.end() :]
        if kind == "collect":
            return
        kind = "count" if kind == "size" else kind
        if gold.aggregate == "none" or kind != "count":
            gold.aggregate = kind
        if kind == "count":
            for name in re.findall(r"\b[A-Za-z_]\w*\b(?!\.)", inner):
                if name in self._class:
                    gold.counted |= self._class[name]
        gold.aggregated |= set(self._properties(inner))

    def _returned(self, items: list[str]) -> str:
        """Read what is returned; return the variable of the first thing that is given."""
        gold = self._gold
        for item in items:
            if self._plain(item):
                gold.given |= set(self._properties(item))
            else:
                self._aggregated(item)
        plain = [_STRING.sub("", item) for item in items if self._plain(item)]
        names = _VARIABLE.findall(" ".join([*plain, *items]))
        answer = next((name for name in names if self._class.get(name)), "")
        gold.answer |= self._class.get(answer, set())
        return answer

    def _ordered(self, body: str) -> None:
        gold, words = self._gold, split_list(body)[0].split()
        last = words[-1].upper()
        if last in ("DESC", "ASC", "DESCENDING", "ASCENDING"):
            words = words[:-1]
        expression = self._resolved(" ".join(words))
        gold.direction = "desc" if last.startswith("DESC") else "asc"
        if self._plain(expression):
            gold.order |= set(self._properties(expression))
        else:
            self._aggregated(expression)
            if gold.aggregate == "count":
                gold.aggregate = "group"

    def _place(self, answer: str) -> None:
        """Note classes and hops, with the side of each hop that is nearer to the answer."""
        gold = self._gold
        for known in self._class.values():
            gold.classes |= known
        away = {answer: 0}
        for _ in self._edges:
            for head, _, tail, *_ in self._edges:
                for here, other in ((head, tail), (tail, head)):
                    if here in away:
                        away[other] = min(away.get(other, 9), away[here] + 1)
        for edge in self._edges:
            head, _, tail, _, denied = edge
            for hop in self._hops(edge):
                if denied:
                    gold.without.add(hop)
                gold.hops.setdefault(hop, away.get(tail, 9) < away.get(head, 9))
        for place, text in self._alias.items():
            if place.startswith("\0"):
                name, _, property_ = place[1:].partition(".")
                for owner in self._owner(name):
                    gold.conditions[owner, property_] = first_string(text)


def first_string(text: str) -> str:
    """Return what the first string literal of a text holds, "" without one."""
    literal = _STRING.search(text)
    return (literal[1] or literal[2] or "") if literal else ""


def split_list(text: str) -> list[str]:
    """Return the parts of a list that are joined by commas outside brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def schema_relations(schema: Mapping[str, Any]) -> list[Hop]:
    """Return the relation patterns of a schema in ``schemas.json``."""
    return [(row["start"], row["type"], row["end"]) for row in schema["relationships"]]

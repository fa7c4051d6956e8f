"""Gold Cypher of one linear MATCH as a plan of one chain."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scripts.planner.chains import MOST_CLASSES, Chain, Condition, Field, Item

if TYPE_CHECKING:
    from scripts.planner.chains import ChainSchema

_LITERAL = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|-?\d+(?:\.\d+)?|(?i:true|false)"
_NODE = re.compile(r"\(\s*(\w*)\s*(?::\s*`?(\w+)`?)?\s*(\{[^}]*\})?\s*\)")
_EDGE = re.compile(r"(<?)-\s*(?:\[\s*(\w*)\s*(?::\s*`?([\w|:]+)`?)?\s*(\{[^}]*\})?\s*\])?\s*-(>?)")
_QUERY = re.compile(
    r"MATCH (?P<pattern>.+?)(?: WHERE (?P<where>.+?))?"
    r"(?: WITH (?P<with>.+?)(?: WHERE (?P<having>.+?))?(?: ORDER BY (?P<order1>.+?))?"
    r"(?: LIMIT (?P<limit1>\d+))?)? RETURN (?:DISTINCT )?(?P<give>.+?)"
    r"(?: ORDER BY (?P<order2>.+?))?(?: LIMIT (?P<limit2>\d+))?",
    re.IGNORECASE,
)
_OPERATORS = r"=|<>|>=|<=|>|<|CONTAINS|STARTS WITH|ENDS WITH"
_COMPARED = re.compile(rf"(.+?)\s*({_OPERATORS})\s*({_LITERAL})", re.IGNORECASE)
_HELD = re.compile(rf"({_LITERAL}) IN (\w+\.\w+)", re.IGNORECASE)
_MISSING = re.compile(r"(\w+\.\w+) IS (NOT )?NULL", re.IGNORECASE)
_AGGREGATE = re.compile(r"(count|sum|avg|max|min)\s*\(\s*(?:DISTINCT\s+)?(.+?)\s*\)", re.IGNORECASE)
_COMMA = re.compile(r",(?![^(]*\))")


class UnsaidError(ValueError):
    """What no plan of one chain says."""


def chain_of(cypher: str, schema: ChainSchema) -> Chain | None:
    """Return the plan of a query; None if it is not one that is read here."""
    try:
        return _Reader(cypher, schema).read()
    except UnsaidError:
        return None


@dataclass
class _Reader:
    cypher: str
    schema: ChainSchema
    names: list[str] = field(default_factory=list)
    hops: list[tuple[str, str]] = field(default_factory=list)
    called: dict[str, tuple[str, int]] = field(default_factory=dict)  # variables
    aliases: dict[str, Item] = field(default_factory=dict)
    conditions: list[tuple[Item, str, str]] = field(default_factory=list)

    def read(self) -> Chain:
        text = re.sub(r"\s+", " ", self.cypher).strip().rstrip(";").strip()
        match = _QUERY.fullmatch(text)
        if match is None or len(re.findall(r"\bMATCH\b", text, re.IGNORECASE)) > 1:
            raise UnsaidError
        self._pattern(re.sub(r"^\w+\s*=\s*", "", match["pattern"]))
        if match["where"]:
            self._compare(match["where"])
        plain, having = list(self.conditions), None
        if match["with"]:
            self._items(match["with"])
            if match["having"]:
                self._compare(match["having"])
        for item, op, value in self.conditions[len(plain) :]:
            if item[0] is None:
                plain.append((item, op, value))
            else:
                having = (item[0], item[1], op, value)
        given = self._items(match["give"])
        order = None
        if by := match["order2"] or match["order1"]:
            first = _COMMA.split(by)[0].strip()
            way = re.search(r"\s+(DESC|ASC)(?:ENDING)?$", first, re.IGNORECASE)
            kind, of = self._item(first[: way.start()] if way else first)
            order = ("desc" if way and way[1].upper() == "DESC" else "asc", kind, of)
        limit = match["limit2"] or match["limit1"]
        if given[0][0] is None and given[0][1] is not None and given[0][1][0] == "r":
            raise UnsaidError
        made = Chain(
            (tuple(self.names), tuple(self.hops)),
            given[0],
            frozenset(self._condition(*one) for one in plain),
            having,
            order,
            int(limit) if limit else None,
        )
        if given[0][0] is None:
            also = next((one for one in given[1:] if one[0]), None)
            made = replace(made, also=also)
        return made.turned()

    def _pattern(self, text: str) -> None:
        place = 0
        inline: list[tuple[str, str]] = []
        while True:
            node = _NODE.match(text, place)
            if node is None or not node[2] or node[2] not in self.schema.classes:
                raise UnsaidError
            name = node[1] or f"_n{len(self.names)}"
            if name in self.called or len(self.names) == MOST_CLASSES:
                raise UnsaidError
            self.called[name] = ("n", len(self.names))
            self.names.append(node[2])
            inline.append((name, node[3] or ""))
            place = node.end()
            if place >= len(text):
                break
            edge = _EDGE.match(text, place)
            if edge is None or not edge[3] or "|" in edge[3]:
                raise UnsaidError
            name = edge[2] or f"_r{len(self.hops)}"
            self.called[name] = ("r", len(self.hops))
            self.hops.append((edge[3], "<" if edge[1] else ">"))
            inline.append((name, edge[4] or ""))
            place = edge.end()
        for at, (relation, way) in enumerate(self.hops):
            ends = self.names[at], relation, self.names[at + 1]
            there = ends in self.schema.relations, ends[::-1] in self.schema.relations
            if not any(there):
                raise UnsaidError
            if not there[way == "<"]:
                self.hops[at] = (relation, "<" if way == ">" else ">")
        for name, properties in inline:
            for own, value in re.findall(rf"`?(\w+)`?\s*:\s*({_LITERAL})", properties):
                self.conditions.append((self._item(f"{name}.{own}"), "=", value))

    def _field(self, text: str) -> Field:
        name, _, own = text.replace("`", "").partition(".")
        if name not in self.called or not re.fullmatch(r"\w*", own):
            raise UnsaidError
        kind, at = self.called[name]
        known = (
            self.schema.classes[self.names[at]]
            if kind == "n"
            else self.schema.facts.get(self.hops[at][0], {})
        )
        if own and own not in known:
            raise UnsaidError
        return kind, at, own

    def _item(self, text: str) -> Item:
        text = text.strip()
        if text in self.aliases:
            return self.aliases[text]
        if match := _AGGREGATE.fullmatch(text):
            kind = match[1].lower()
            return (kind, None) if match[2] == "*" else (kind, self._item(match[2])[1])
        return None, self._field(text)

    def _items(self, text: str) -> list[Item]:
        items = []
        for one in _COMMA.split(text):
            expression, _, alias = re.sub(r" as ", " AS ", one, flags=re.I).partition(" AS ")
            items.append(self._item(expression))
            if alias:
                self.aliases[alias.strip().strip("`")] = items[-1]
        return items

    def _compare(self, text: str) -> None:
        for one in re.split(r" AND ", text, flags=re.IGNORECASE):
            part = one.strip()
            if part.startswith("(") and part.count("(") == part.count(")"):
                part = part.strip("()")
            if match := _COMPARED.fullmatch(part):
                self.conditions.append((self._item(match[1]), match[2].lower(), match[3]))
            elif match := _HELD.fullmatch(part):
                self.conditions.append((self._item(match[2]), "has", match[1]))
            elif match := _MISSING.fullmatch(part):
                if not match[2]:
                    self.conditions.append((self._item(match[1]), "missing", ""))
            else:
                raise UnsaidError

    @staticmethod
    def _condition(item: Item, op: str, value: str) -> Condition:
        if item[1] is None:
            raise UnsaidError
        return item[1], op, value[1:-1] if value[:1] in ("'", '"') else value

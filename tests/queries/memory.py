"""A property graph in memory, and a naive executor of plans over it: loops over lists."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from datetime import date
from types import SimpleNamespace
from typing import Any

import numpy as np

from kgqa.graph.model import Entities, Relations, keys_array
from kgqa.graph.schema import EntityType, Facts, GraphSchema, Property, RelationPattern
from kgqa.queries.plan import Aggregate, Arithmetic, HopRef, NodeRef, Plan, PropertyRef


@dataclass
class Thing:
    types: tuple[str, ...]
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.properties.get("name", "?"))


@dataclass
class Link:
    head: int
    relation: str
    tail: int
    properties: dict[str, Any] = field(default_factory=dict)


def listed(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list) else [value]


class MemoryGraph:
    """Things by key; a link with properties, or a parallel one, has a fact node behind them."""

    def __init__(self, things: list[Thing], links: list[Link], schema: GraphSchema) -> None:
        self.things, self.links, self._schema = things, links, schema
        self._names = sorted(
            {link.relation for link in links} | {p.relation for p in schema.relations}
        )
        self.info = SimpleNamespace(nodes=len(things))

    def schema(self) -> GraphSchema:
        return self._schema

    def relations(self) -> Relations:
        return Relations(self._names, self._names, [None] * len(self._names))

    def keys_of(self, ids: list[str]) -> Any:
        known = {f"t{key}": key for key in range(len(self.things))}
        return keys_array([known.get(id_, -1) for id_ in ids])

    def find_names(self, names: list[str]) -> Any:
        pairs = [
            (place, key)
            for place, name in enumerate(names)
            for key, thing in enumerate(self.things)
            if thing.name.lower() == name.lower()
        ]
        return keys_array([p for p, _ in pairs]), keys_array([k for _, k in pairs])

    def entities(self, keys: Any) -> Entities:
        keys = keys.tolist()
        assert all(0 <= key < len(self.things) + len(self.links) for key in keys)
        ids = [f"t{k}" if k < len(self.things) else f"f{k - len(self.things)}" for k in keys]
        names = [self.things[k].name if k < len(self.things) else None for k in keys]
        return Entities(keys_array(keys), ids, names, np.zeros(len(keys), dtype=np.uint8))

    def instances(self, type_: str) -> Any:
        found = [k for k, one in enumerate(self.things) if not type_ or type_ in one.types]
        return keys_array(found)

    def property_values(self, keys: Any, name: str) -> Any:
        rows, values = [], []
        for row, key in enumerate(keys.tolist()):
            owner = (
                self.things[key] if key < len(self.things) else self.links[key - len(self.things)]
            )
            for value in listed(owner.properties.get(name)):
                rows.append(row)
                values.append(value)
        return keys_array(rows), values

    def facts(self, keys: Any, relations: Any, *, inverse: bool) -> Facts:
        rows = []
        for row, key in enumerate(keys.tolist()):
            for number, link in enumerate(self.links):
                here, there = (link.tail, link.head) if inverse else (link.head, link.tail)
                if here == key and self._names.index(link.relation) in relations:
                    fact = len(self.things) + number
                    rows.append((row, self._names.index(link.relation), there, fact))
        columns = zip(*sorted(rows), strict=True) if rows else [[], [], [], []]
        return Facts(*map(keys_array, columns))

    def has_edges(self, heads: Any, relations: Any, tails: Any) -> Any:
        known = set()
        for number, link in enumerate(self.links):
            fact, relation = len(self.things) + number, self._names.index(link.relation)
            known |= {(link.head, relation, fact), (fact, relation, link.tail)}
        rows = zip(heads.tolist(), relations.tolist(), tails.tolist(), strict=True)
        return np.array([row in known for row in rows], dtype=bool)


def naive(plan: Plan, graph: MemoryGraph) -> list[tuple[Any, ...]]:
    """Return the rows of a plan in order, nodes as ids: written apart from the executor."""
    return [row for row, _, _ in naive_rows(plan, graph)][plan.skip :][: plan.limit]


def naive_rows(
    plan: Plan, graph: MemoryGraph
) -> list[tuple[tuple[Any, ...], list[dict], list[Link]]]:
    """Return all rows in order, each with its solutions and the links of its pattern's hops."""
    return _Naive(plan, graph).rows()


class _Naive:
    def __init__(self, plan: Plan, graph: MemoryGraph) -> None:
        self.plan, self.graph, self.hops = plan, graph, plan.all_hops
        self.first = None
        if plan.first is not None:
            self.first = {int(row[0][1:]) for row in naive(plan.first, graph)}

    # a solution: {("n", node): key, ("h", hop): link numbers}
    def matches(self, hops: list[int], bound: dict, chains: list[list[int]]) -> Any:
        if not hops:
            yield bound
            return
        number = hops[0]
        hop = self.hops[number]
        for end, links in self.steps(bound["n", hop.source], hop):
            if not self.of_class(end, hop.target):
                continue
            if bound.get(("n", hop.target), end) != end:
                continue
            new = {**bound, ("n", hop.target): end, ("h", number): links}
            if all(
                new["n", a] != new["n", b]
                for chain in chains
                for a, b in itertools.combinations(dict.fromkeys(chain), 2)
                if ("n", a) in new and ("n", b) in new
            ):
                yield from self.matches(hops[1:], new, chains)

    def of_class(self, key: int, node: int) -> bool:
        if node == 0 and self.first is not None and key not in self.first:
            return False
        return not self.plan.nodes[node] or self.plan.nodes[node] in self.graph.things[key].types

    def steps(self, key: int, hop: Any) -> Any:
        def onward(at: int) -> list[tuple[int, int]]:
            ways = {hop.inverse, not hop.inverse} if hop.either else {hop.inverse}
            found = {
                ((link.head if back else link.tail), number)
                for number, link in enumerate(self.graph.links)
                for back in ways
                if link.relation == hop.relation and (link.tail if back else link.head) == at
            }
            return sorted(found)

        if not hop.repeated:
            return [(end, (number,)) for end, number in onward(key)]
        seen, frontier = {key}, [key]
        for at in frontier:
            for end, _ in onward(at):
                if end not in seen:
                    seen.add(end)
                    frontier.append(end)
        return [(end, ()) for end in seen - {key}]

    def values(self, item: Any, bound: dict) -> list[Any]:
        match item:
            case NodeRef(node):
                return [bound["n", node]]
            case PropertyRef(owner, name, part):
                if isinstance(owner, NodeRef):
                    value = self.graph.things[bound["n", owner.node]].properties.get(name)
                else:
                    links = bound["h", owner.hop]
                    value = self.graph.links[links[0]].properties.get(name) if links else None
                if part == "size":
                    return [] if value is None else [len(value)]
                if part:
                    months = {"year": lambda t: int(t[:4]), "month": lambda t: int(t[5:7])}
                    months |= {
                        "quarter": lambda t: (int(t[5:7]) + 2) // 3,
                        "day": lambda t: int(t[8:]),
                    }
                    return [months[part](text) for text in listed(value) if text[:4].isdigit()]
                return listed(value)
            case Arithmetic(left, sign, right):
                one, two = self.values(left, bound)[:1], self.values(right, bound)[:1]
                if not one or not two or (sign == "/" and two[0] == 0):
                    return []
                if isinstance(one[0], str):
                    return [float((date.fromisoformat(one[0]) - date.fromisoformat(two[0])).days)]
                a, b = float(one[0]), float(two[0])
                return [{"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else 0}[sign]]
            case Aggregate(_, PropertyRef(NodeRef(node)) as of):
                mine = [key for key in range(len(self.graph.things)) if self.of_class(key, node)]
                found = [value for key in mine for value in self.values(of, {("n", node): key})]
                return [math.fsum(found) / len(found)] if found else []
        return [item]

    def holds(self, one: Any, bound: dict) -> bool:
        if isinstance(one.left, NodeRef):
            key = bound["n", one.left.node]
            if one.operator in ("is a", "is no"):
                return (one.right[0] in self.graph.things[key].types) == (one.operator == "is a")
            called = {f"t{key}", self.graph.things[key].name} & set(one.right)
            return bool(called) == (one.operator in ("=", "in"))
        left = self.values(one.left, bound)
        right = list(one.right) if isinstance(one.right, tuple) else self.values(one.right, bound)
        return truth(left, one.operator, right)

    def solutions(self) -> list[dict]:
        plan = self.plan
        found = [
            s
            for s in self.pattern(range(len(plan.hops)), range(len(self.graph.things)))
            if all(self.holds(c, s) for c in plan.where if not isinstance(c.left, Aggregate))
        ]
        start = len(plan.hops)
        for part in plan.without:
            hops = list(range(start, start + len(part.hops)))
            found = [
                s
                for s in found
                if not any(
                    all(self.holds(c, m) for c in part.where)
                    for m in self.matches(hops, s, self.chains(part.hops))
                )
            ]
            start += len(part.hops)
        return found

    def pattern(self, hops: Any, keys: Any) -> list[dict]:
        return [
            s
            for key in keys
            if self.of_class(key, 0)
            for s in self.matches(list(hops), {("n", 0): key}, self.chains(self.plan.hops))
        ]

    @staticmethod
    def chains(hops: Any) -> list[list[int]]:
        chains: list[list[int]] = []
        for hop in hops:
            if not chains or chains[-1][-1] != hop.source:
                chains.append([hop.source])
            chains[-1].append(hop.target)
        return chains

    def key(self, item: Any, bound: dict) -> Any:
        if isinstance(item, NodeRef):
            return ("node", bound["n", item.node])
        if isinstance(item, HopRef):
            return ("fact", bound["h", item.hop])
        found = self.values(item, bound)
        if not found:
            return None
        if isinstance(item, PropertyRef) and not item.part:
            owner = item.owner
            whole = (
                self.graph.things[bound["n", owner.node]].properties.get(item.name)
                if isinstance(owner, NodeRef)
                else None
            )
            if isinstance(whole, list):
                return tuple(whole)
        return found[0]

    def rows(self) -> list[Any]:
        plan = self.plan
        found = self.solutions()
        groups: dict[Any, list[dict]] = {}
        by = plan.group if plan.grouped else plan.give
        if plan.grouped and not by:
            groups[()] = []
        for s in found:
            keys = [self.key(item, s) for item in by]
            unwound = [
                key
                if plan.grouped and isinstance(key, tuple) and key[0] not in ("node", "fact")
                else [key]
                for key in keys
            ]
            for each in itertools.product(*map(dict.fromkeys, unwound)):
                groups.setdefault(each, []).append(s)
        if plan.grouped and wants_zero(plan):
            for key in self.possible_groups():
                groups.setdefault(key, [])
        rows = []
        for group, members in groups.items():
            if group and all(cell is None for cell in group):
                continue
            if not all(
                truth(listed(self.aggregate(c.left, members)), c.operator, list(c.right))
                for c in plan.where
                if isinstance(c.left, Aggregate)
            ):
                continue
            cells = [self.cell(item, by, group, members) for item in plan.give]
            sorts = [self.sort_value(sort, by, group, members) for sort in plan.order]
            rows.append((sorts, [self.shown(cell) for cell in cells], members))
        rows.sort(key=lambda row: [cell_key(cell, self.graph) for cell in row[1]])
        for place in reversed(range(len(plan.order))):
            there = [row for row in rows if row[0][place] is not None]
            gone = [row for row in rows if row[0][place] is None]
            there.sort(
                key=lambda row: order_key(row[0][place]), reverse=plan.order[place].descending
            )
            rows = there + gone
        return [(tuple(cells), members, self.links(members)) for _, cells, members in rows]

    def links(self, members: list[dict]) -> list[Link]:
        numbers = {n for s in members for at in range(len(self.plan.hops)) for n in s["h", at]}
        return [self.graph.links[number] for number in sorted(numbers)]

    def possible_groups(self) -> list[Any]:
        """Groups of one node: those of its class that satisfy what speaks of it alone."""
        plan = self.plan
        (item,) = plan.group
        assert isinstance(item, NodeRef)
        own = [c for c in plan.where if getattr(c.left, "owner", c.left) == item]
        return [
            (("node", key),)
            for key in range(len(self.graph.things))
            if self.of_class(key, item.node)
            and all(self.holds(c, {("n", item.node): key}) for c in own)
        ]

    def cell(self, item: Any, by: Any, group: Any, members: list[dict]) -> Any:
        if isinstance(item, Aggregate):
            return self.aggregate(item, members)
        if item in by:
            return group[by.index(item)]
        return self.key(item, self.group_bound(item, by, group))

    def group_bound(self, item: Any, by: Any, group: Any) -> dict:
        return {
            ("n", ref.node) if isinstance(ref, NodeRef) else ("h", ref.hop): key[1]
            for ref, key in zip(by, group, strict=True)
            if isinstance(ref, NodeRef | HopRef)
        }

    def aggregate(self, item: Aggregate, members: list[dict]) -> Any:
        refs = sorted({repr(ref): ref for ref in _owners(item.of)}.items())
        once = {
            tuple(s[("n", r.node) if isinstance(r, NodeRef) else ("h", r.hop)] for _, r in refs): s
            for s in members
        }
        if isinstance(item.of, NodeRef | HopRef):
            return len(once)
        values = [value for s in once.values() for value in self.values(item.of, s)]
        match item.kind:
            case "count":
                return len(set(values))
            case "sum":
                return math.fsum(values)
            case "average":
                return math.fsum(values) / len(values) if values else None
            case "least":
                return min(values, default=None)
        return max(values, default=None)

    def sort_value(self, sort: Any, by: Any, group: Any, members: list[dict]) -> Any:
        best = max if sort.descending else min
        if isinstance(sort.by, Aggregate):
            return self.aggregate(sort.by, members)
        if self.plan.grouped:
            if sort.by in by and not isinstance(sort.by, NodeRef):
                return group[by.index(sort.by)]
            members = [self.group_bound(sort.by, by, group)]
        values = [value for s in members for value in self.values(sort.by, s)]
        if isinstance(sort.by, NodeRef):
            values = [self.graph.things[key].name for key in values]
        return best(values, default=None)

    @staticmethod
    def shown(cell: Any) -> Any:
        return f"t{cell[1]}" if isinstance(cell, tuple) and cell[:1] == ("node",) else cell


def _owners(item: Any) -> list[Any]:
    match item:
        case PropertyRef(owner):
            return [owner]
        case Arithmetic(left, _, right):
            return _owners(left) + _owners(right)
        case NodeRef() | HopRef():
            return [item]
    return []


def order_key(value: Any) -> Any:
    return (not isinstance(value, str), value)


def cell_key(cell: Any, graph: MemoryGraph) -> Any:
    if cell is None:
        return (2,)
    if isinstance(cell, str) and cell[:1] == "t" and cell[1:].isdigit():
        return (0, ((0, graph.things[int(cell[1:])].name), (0, cell)))
    return (0, tuple(map(order_key, cell if isinstance(cell, tuple) else (cell,))))


def wants_zero(plan: Plan) -> bool:
    having = [c for c in plan.where if isinstance(c.left, Aggregate)]
    if not plan.group:
        return False
    if having:
        return any(c.left.kind == "count" for c in having) and all(
            truth([0] if c.left.kind in ("count", "sum") else [], c.operator, list(c.right))
            for c in having
        )
    first = plan.order[0] if plan.order else None
    return bool(first and not first.descending and getattr(first.by, "kind", "") == "count")


def truth(left: list[Any], operator: str, right: list[Any]) -> bool:
    if operator == "missing":
        return not left
    if operator == "not missing":
        return bool(left)
    if operator.startswith("missing or "):
        return not left or truth(left, operator.removeprefix("missing or "), right)
    if not left or not right:
        return False
    plain = {"<>": "=", "not in": "in"}.get(operator, operator.removeprefix("not "))
    found = any(one_holds(a, plain, b) for a in left for b in right)
    return found != (plain != operator)


def one_holds(a: Any, operator: str, b: Any) -> bool:
    if operator in ("contains", "starts with", "ends with"):
        a, b = a.lower(), b.lower()
        return {"contains": b in a, "starts with": a.startswith(b), "ends with": a.endswith(b)}[
            operator
        ]
    if isinstance(a, str) and a[:3].isdigit() and a[4:5] == "-" and len(b) < 10:  # a date, a span
        start, end = {4: (b, f"{int(b[:4]) + 1:04}")}.get(len(b)) or (b, b + "~")
        return {
            "=": start <= a < end, "in": start <= a < end, "<": a < start, "<=": a < end,
            ">": a >= end, ">=": a >= start,
        }[operator]  # fmt: skip
    return {
        "=": a == b, "in": a == b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b,
    }[operator]  # fmt: skip


def schema_of(things: list[Thing], links: list[Link], kinds: dict[str, str]) -> GraphSchema:
    """Return the schema; ``kinds``: types of properties, "…[]" of lists."""

    def properties(owners: list[Any]) -> tuple[Property, ...]:
        names = sorted({name for owner in owners for name in owner.properties})
        return tuple(
            Property(name, kinds[name].removesuffix("[]"), many=kinds[name].endswith("[]"))  # type: ignore[arg-type]
            for name in names
        )

    types = sorted({type_ for thing in things for type_ in thing.types})
    patterns = sorted(
        {
            (link.relation, head, tail)
            for link in links
            for head in things[link.head].types
            for tail in things[link.tail].types
        }
    )
    return GraphSchema(
        types=tuple(
            EntityType(
                t,
                sum(t in o.types for o in things),
                properties([o for o in things if t in o.types]),
            )
            for t in types
        ),
        relations=tuple(
            RelationPattern(r, h, t, 1, properties([link for link in links if link.relation == r]))
            for r, h, t in patterns
        ),
    )

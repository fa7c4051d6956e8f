"""Made tables, read by a reader of their own, and plans over them, one feature after another."""

from __future__ import annotations

import csv
from collections import Counter
from typing import TYPE_CHECKING, Any

from kgqa.errors import PlanError
from kgqa.queries.check import DATES, NUMBERS, check
from kgqa.queries.plan import (
    AGGREGATES,
    OPERATORS,
    PARTS,
    Aggregate,
    Arithmetic,
    NodeRef,
    Plan,
    PropertyRef,
    chains_of,
    default_group,
    quoted_value,
)
from kgqa.queries.text import parse_plan
from tests.queries.memory import Link, MemoryGraph, Thing

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from kgqa.graph.schema import GraphSchema, Property
    from kgqa.queries.check import SchemaIndex

CLASSES = {"cities": "City", "customers": "Customer", "employees": "Employee",
           "products": "Product", "orders": "Order"}  # fmt: skip
KEYS = {"city_id": "cities", "customer_id": "customers", "employee_id": "employees",
        "boss_id": "employees", "product_id": "products", "order_id": "orders"}  # fmt: skip
SIGNS = ("+", "-", "*", "/")
SHAPES = ("having", "asc", "desc", "skip", "limit", "without", "without where", "then", "repeated",
          "inverse", "second chain", "by", "properties compared", "named")  # fmt: skip
FEATURES = (*(one for one in OPERATORS if one[:3] != "is "), *AGGREGATES, *PARTS, *SIGNS, *SHAPES)


def write_tables(folder: Path, random: Random) -> None:
    """Write a shop as tables, some cells of them empty."""

    def some(value: Any, share: float = 0.85) -> Any:
        return value if random.random() < share else ""

    def day() -> str:
        return f"{random.randint(1996, 1998)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"

    lines = {(random.randint(100, 139), random.randint(0, 10)) for _ in range(90)}
    tables: dict[str, list[tuple[Any, ...]]] = {
        "cities": [("id", "name"), (1, "London"), (2, "Berlin"), (3, "Lyon"), (4, "Århus")],
        "customers": [
            ("id", "name", "city_id", "since", "vip"),
            *((f"C{n}", f"Customer {chr(65 + n)}", some(random.randint(1, 4)), some(day()),
               random.choice(["true", "false"])) for n in range(14)),
        ],
        "employees": [
            ("id", "name", "born", "boss_id"),
            *((n, f"Emp {chr(65 + n)}", day(), some(random.randint(0, n - 1)) if n else "")
              for n in range(9)),
        ],
        "products": [
            ("id", "name", "price", "stock", "label"),
            *((n, f"Product {chr(65 + n)}", some(random.choice([2.5, 4, 7.25, 9.5])),
               random.randint(0, 9), some(f"{random.choice(['Tea', 'tea', 'Äpfel'])} no. {n}"))
              for n in range(12)),
        ],
        "orders": [
            ("id", "customer_id", "employee_id", "day", "shipped", "freight", "weight"),
            *((100 + n, f"C{random.randint(0, 11)}", random.randint(0, 8), day(), some(day(), 0.8),
               some(random.randint(1, 60) / 4), some(random.randint(1, 15))) for n in range(40)),
        ],
        "order_lines": [
            ("order_id", "product_id", "quantity", "discount"),
            *((*pair, random.randint(1, 20), some(random.choice([0.1, 0.25]), 0.5))
              for pair in sorted(lines)),
        ],
    }  # fmt: skip
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)


def read_tables(folder: Path, schema: GraphSchema) -> tuple[MemoryGraph, list[str]]:
    """Return the graph that the tables say, and the id of each of its things."""
    things: list[Thing] = []
    ids: list[str] = []
    places: dict[tuple[str, str], int] = {}
    rows = {
        name: list(csv.DictReader((folder / f"{name}.csv").read_text("utf-8").splitlines()))
        for name in (*CLASSES, "order_lines")
    }
    for table, class_ in CLASSES.items():
        for row in rows[table]:
            places[table, row["id"]] = len(things)
            ids.append(f"{class_}/{row['id']}")
            own = {name: _cell(text) for name, text in row.items() if name not in KEYS and text}
            thing = Thing((class_,), own)
            things.append(Thing((class_,), own) if "name" in own else _Unnamed(thing))
    links = [
        Link(places[table, row["id"]], name.removesuffix("_id"), places[KEYS[name], row[name]])
        for table in CLASSES
        for row in rows[table]
        for name in row
        if name in KEYS and row[name]
    ]
    for row in rows["order_lines"]:
        ends = [places[KEYS[name], row[name]] for name in ("order_id", "product_id")]
        own = {name: _cell(row[name]) for name in ("quantity", "discount") if row[name]}
        links.append(Link(ends[0], "product", ends[1], own))
    return MemoryGraph(things, links, schema), ids


class _Unnamed(Thing):
    """A row that is called by its class and key."""

    def __init__(self, thing: Thing) -> None:
        super().__init__(thing.types, thing.properties)

    @property
    def name(self) -> str:
        return f"{self.types[0]} {self.properties['id']}"


def _cell(text: str) -> Any:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text, text)


def features(plan: Plan) -> set[str]:
    """Return which of :data:`FEATURES` a plan has."""
    found: set[str] = set()
    compared = [*plan.where, *(one for part in plan.without for one in part.where)]
    items: list[Any] = [*plan.give, *plan.group, *(sort.by for sort in plan.order)]
    for one in compared:
        found |= {one.operator} | ({"named"} if isinstance(one.left, NodeRef) else set())
        items.append(one.left)
        if not isinstance(one.right, tuple):
            found.add("properties compared")
            items.append(one.right)
    while items:
        item = items.pop()
        if isinstance(item, Aggregate):
            found.add(item.kind)
            items.append(item.of)
        elif isinstance(item, Arithmetic):
            found.add(item.operator)
            items += [item.left, item.right]
        elif isinstance(item, PropertyRef) and item.part:
            found.add(item.part)
    shapes = {
        "having": plan.having, "limit": plan.limit, "skip": plan.skip,
        "without": plan.without, "then": plan.first,
        "asc": [one for one in plan.order if not one.descending],
        "desc": [one for one in plan.order if one.descending],
        "without where": [one for one in plan.without if one.where],
        "repeated": [hop for hop in plan.all_hops if hop.repeated],
        "inverse": [hop for hop in plan.all_hops if hop.inverse],
        "second chain": len(chains_of(plan.hops)) > 1,
        "by": plan.group != default_group(plan.give, plan.order, plan.having),
    }  # fmt: skip
    return found | {name for name, there in shapes.items() if there}


class PlanMaker:
    """Makes plans over a graph; their literals are values that it has, most of the time."""

    def __init__(self, graph: MemoryGraph, index: SchemaIndex, random: Random) -> None:
        self.graph, self.index, self.random = graph, index, random

    def plan(self, feature: str) -> Plan:
        """Return a plan that has ``feature``."""
        while True:
            try:
                plan = parse_plan(self._text(feature))
                check(plan, self.index)
            except PlanError:
                continue
            if feature in features(plan):
                return plan

    def _text(self, feature: str) -> str:
        random = self.random
        types = [name for name in self.index.types if name != "City"]
        at = random.choice(types)
        text, nodes, hops = at, [at], []
        for _ in range(random.choice([0, 1, 1, 2, 2, 3]) or feature in SHAPES):
            source = random.randrange(len(nodes)) if feature == "second chain" else len(nodes) - 1
            options = self._hops(nodes[source])
            relation, class_, inverse = random.choice(options)
            star = "*" if feature == "repeated" and relation == "boss" else ""
            nodes.append(class_)
            step = f" <{relation}{star} " if inverse else f" {relation}{star}> "
            again = f" & {_named(nodes, source)}" if source < len(nodes) - 2 else ""
            text += again + step + _named(nodes, len(nodes) - 1)
            if not star:
                hops.append(relation)
        names = [_named(nodes, number) for number in range(len(nodes))]
        places = [
            (f"{name}.{property_.name}", property_, [class_])
            for name, class_ in zip(names, nodes, strict=True)
            for property_ in self.index.types[class_].properties
        ]
        if hops.count("product") == 1:
            (pattern,) = self.index.relations["product"]
            places += [
                (f"product.{property_.name}", property_, ["product"])
                for property_ in pattern.properties
            ]
        parts = [text]
        if feature == "then":
            parts = [
                f"{text} | desc {random.choice(names[:1])} | limit {random.randint(2, 9)}",
                f"then {nodes[0]}{self._step(nodes[0], [nodes[0]])}",
            ]
            parts.append(f"give {nodes[0]}")
            return " | ".join(parts)
        wanted = feature if feature in OPERATORS else ""
        if wanted or random.random() < 0.3:
            parts.append(self._comparison(random.choice(places), wanted or None))
        if feature == "named":
            parts.append(f"{names[0]} = {quoted_value(self._thing(nodes[0]).name)}")
        if feature == "properties compared":
            one, two = random.choice(places), random.choice(places)
            parts.append(f"{one[0]} {random.choice(['<', '>=', '<>'])} {two[0]}")
        if feature.startswith("without"):
            where = ""
            source = random.choice(range(len(nodes)))
            step, class_, name = self._without(nodes, source)
            if feature == "without where":
                own = random.choice(self.index.types[class_].properties)
                where = " where " + self._comparison((f"{name}.{own.name}", own, [class_]), None)
            parts.append(f"without {names[source]}{step}{where}")
        counted = f"count {random.choice([*names, *hops])}"
        numbers = [place for place, one, _ in places if one.type in NUMBERS] or ["1"]
        item = self._item(feature, places, numbers)
        grouped = feature in (*AGGREGATES, "having", "by") or random.random() < 0.3
        if feature in AGGREGATES:
            of = random.choice(numbers if feature != "count" else [*names, *hops, item])
            counted = f"{feature} {of}"
        if feature == "by":
            parts.append(f"by {item}")
        if feature == "having":
            sign = random.choice(["=", "<", "<=", ">", ">="])
            parts.append(f"{counted} {sign} {random.randint(0, 3)}")
        give = (
            [random.choice([item, *names])]
            if feature not in AGGREGATES or random.random() < 0.6
            else []
        )
        if feature in (*PARTS, *SIGNS):
            give = [item]
        if feature == "by":
            give = []
        if grouped:
            give.append(counted)
        if feature in ("asc", "desc", "skip", "limit") or random.random() < 0.3:
            word = feature if feature in ("asc", "desc") else random.choice(["asc", "desc"])
            parts.append(
                f"{word} {random.choice([counted, give[0]] if grouped else [item, *names])}"
            )
        if feature == "skip":
            parts.append(f"skip {random.randint(1, 2)}")
        if feature == "limit" or random.random() < 0.2:
            parts.append(f"limit {random.randint(1, 6)}")
        return " | ".join([*parts, "give " + ", ".join(give)])

    def _hops(self, class_: str) -> list[tuple[str, str, bool]]:
        found = [
            (relation.relation, relation.tail, False)
            for relation in self.index.schema.relations
            if relation.head == class_
        ]
        return found + [
            (relation.relation, relation.head, True)
            for relation in self.index.schema.relations
            if relation.tail == class_
        ]

    def _step(self, class_: str, nodes: list[str]) -> str:
        relation, other, inverse = self.random.choice(self._hops(class_))
        name = _named([*nodes, other], len(nodes))
        return f" <{relation} {name}" if inverse else f" {relation}> {name}"

    def _without(self, nodes: list[str], source: int) -> tuple[str, str, str]:
        relation, class_, inverse = self.random.choice(self._hops(nodes[source]))
        name = _named([*nodes, class_], len(nodes))
        return (f" <{relation} {name}" if inverse else f" {relation}> {name}"), class_, name

    def _thing(self, class_: str) -> Thing:
        return self.random.choice([thing for thing in self.graph.things if class_ in thing.types])

    def _item(self, feature: str, places: list[Any], numbers: list[str]) -> str:
        place = self.random.choice(places)[0]
        if feature in SIGNS:
            return (
                f"({self.random.choice(numbers)} {feature} {self.random.choice([*numbers, '2'])})"
            )
        if feature == "size":
            texts = [place for place, one, _ in places if one.type == "text"]
            return f"size {self.random.choice(texts or [place])}"
        if feature in PARTS:
            dates = [place for place, one, _ in places if one.type in DATES]
            return f"{feature} {self.random.choice(dates or [place])}"
        return str(place)

    def _comparison(self, place: tuple[str, Property, list[str]], operator: str | None) -> str:
        random = self.random
        text, one, (owner,) = place
        if operator is None:
            operator = random.choice(
                ["=", "<>"] + (["<", "<=", ">", ">="] if one.type in (*NUMBERS, *DATES) else [])
            )
        if operator.endswith("missing"):
            return f"{text} {operator}"
        owners: list[Any] = [x for x in self.graph.things if owner in x.types]
        owners = owners or [link for link in self.graph.links if link.relation == owner]
        values = [each.properties[one.name] for each in owners if one.name in each.properties]
        value = random.choice(values)
        if one.type in DATES:
            value = value[: random.choice([4, 7, 10])]
        if operator.endswith("in"):
            return f"{text} {operator} {quoted_value(value)}, {quoted_value(random.choice(values))}"
        if one.type == "text" and operator.removeprefix("not ") in (
            "contains",
            "starts with",
            "ends with",
        ):
            at = {"contains": slice(1, 4), "starts with": slice(0, 3)}.get(
                operator.removeprefix("not "), slice(-3, None)
            )
            value = value[at].upper() if random.random() < 0.5 else value[at]
        return f"{text} {operator} {quoted_value(value)}"


def _named(nodes: list[str], number: int) -> str:
    again = nodes[: number + 1].count(nodes[number])
    return nodes[number] if again == 1 else f"{nodes[number]}#{again}"


def counted(plans: list[Plan]) -> Counter[str]:
    """Return how many of ``plans`` have each feature."""
    return Counter(feature for plan in plans for feature in features(plan))

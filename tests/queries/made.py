"""Made graphs and made plans over them, for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from kgqa.errors import PlanError
from kgqa.queries.check import SchemaIndex, check, operators
from kgqa.queries.plan import (
    Aggregate,
    Arithmetic,
    Comparison,
    Hop,
    HopRef,
    NodeRef,
    Plan,
    PropertyRef,
    Sort,
    Without,
    default_group,
)
from tests.queries.memory import Link, MemoryGraph, Thing, schema_of

KINDS = {
    "name": "text",
    "n": "integer",
    "x": "float",
    "day": "date",
    "flag": "boolean",
    "tags": "text[]",
    "w": "integer",
    "role": "text",
}
VALUES: dict[str, Any] = {
    "text": st.sampled_from(["Ann", "bob", "Ann B", "Ärger", "x"]),
    "integer": st.integers(0, 3),
    "float": st.sampled_from([0.5, 1.0, 2.25]),
    "date": st.sampled_from(["1996-12-31", "1997-01-01", "1997-04-30", "1998-07-05"]),
    "boolean": st.booleans(),
}
LITERALS = VALUES | {"date": st.sampled_from(["1997", "1998", "1997-01-01"])}
RELATIONS = {"LIKES": ("A", "B"), "KNOWS": ("A", "A"), "HAS": ("B", "C")}


NAMES = ["Ann", "bob", "Ann B", "Ärger", "x", "Zoë", "kim", "Lee", "Ann C", "Ö", "y", "Jo", "😀"]


@st.composite
def graphs(draw: Any) -> MemoryGraph:
    names = iter(draw(st.permutations(NAMES)))
    things = []
    for type_ in "ABC":
        for _ in range(draw(st.integers(1, 4))):
            chosen = {
                name: draw(st.lists(VALUES["text"], min_size=1, max_size=2))
                if name == "tags"
                else draw(VALUES[KINDS[name].removesuffix("[]")])
                for name in ("n", "x", "day", "flag", "tags")
                if draw(st.integers(0, 4))
            }
            chosen["name"] = next(names)
            types = (type_, "D") if draw(st.booleans()) else (type_,)
            things.append(Thing(types, chosen))
    links = []
    for _ in range(draw(st.integers(3, 12))):
        relation = draw(st.sampled_from(sorted(RELATIONS)))
        head, tail = (
            draw(st.sampled_from([k for k, one in enumerate(things) if one.types[0] == class_]))
            for class_ in RELATIONS[relation]
        )
        properties = {
            name: draw(VALUES[KINDS[name]]) for name in ("w", "role") if draw(st.booleans())
        }
        links.append(Link(head, relation, tail, properties))
    return MemoryGraph(things, links, schema_of(things, links, KINDS))


@st.composite
def plans(draw: Any, graph: MemoryGraph, *, depth: int = 0) -> Plan:
    """Return a plan that fits the graph's schema."""
    index = SchemaIndex(graph.schema())
    nodes = [draw(st.sampled_from([*index.types, ""]))]
    first = None
    if depth == 0 and draw(st.integers(0, 7)) == 0:
        first = draw(plans(graph, depth=1))
        given = [item for item in first.give if isinstance(item, NodeRef)]
        assume(given)
        counted = bool(first.having) or any(isinstance(s.by, Aggregate) for s in first.order)
        first = Plan(
            first.nodes, first.hops, first.where, first.without, (given[0],) * counted,
            first.order, first.limit, (given[0],), None,
        ) if not first.grouped or first.group == (given[0],) else None  # fmt: skip
        if first is not None:
            nodes = [first.nodes[given[0].node]]

    def hop(sources: list[int]) -> Hop | None:
        source = draw(st.sampled_from(sources))
        options = []
        for pattern in graph.schema().relations:
            for inverse in (False, True):
                here, there = (pattern.head, pattern.tail)[:: -1 if inverse else 1]
                if nodes[source] in ("", here):
                    options.append((pattern.relation, there, inverse))
        if not options:
            return None
        relation, class_, inverse = draw(st.sampled_from(options))
        same = [n for n, c in enumerate(nodes) if c == class_ and n != source and n < size[0]]
        if same and draw(st.integers(0, 4)) == 0:
            target = draw(st.sampled_from(same))
        else:
            nodes.append(class_ if draw(st.integers(0, 5)) else "")
            target = len(nodes) - 1
        repeated = nodes[source] == nodes[target] == "A" and draw(st.integers(0, 2)) == 0
        either = not repeated and draw(st.integers(0, 4)) == 0
        return Hop(source, relation, target, inverse and not either, repeated, either)

    size = [99]
    hops: list[Hop] = []
    for _ in range(draw(st.sampled_from([1, 0, 2, 3, 2, 1]))):
        found = hop(
            [hops[-1].target] if hops and draw(st.integers(0, 3)) else list(range(len(nodes)))
        )
        if found:
            hops.append(found)
    size[0] = len(nodes)
    parts = []
    if draw(st.integers(0, 5)) == 0:
        found = hop(list(range(len(nodes))))
        if found:
            inner = [draw(comparison(index, nodes, [*hops, found], [NodeRef(found.target)]))]
            where = tuple(one for one in inner if one and draw(st.booleans()))
            parts.append(Without((found,), where))
    refs: list[Any] = [*map(NodeRef, range(size[0])), *map(HopRef, range(len(hops)))]
    everything = [*hops, *(h for part in parts for h in part.hops)]
    where = [
        draw(comparison(index, nodes, everything, refs)) for _ in range(draw(st.integers(0, 2)))
    ]
    give: list[Any] = []
    order: list[Sort] = []
    having: list[Comparison] = []
    items = [draw(item(index, nodes, everything, refs)) for _ in range(3)]
    give = items[: draw(st.integers(1, 2))]
    if draw(st.booleans()):
        order = [Sort(items[2], draw(st.booleans()))]
    grouped = draw(st.booleans())
    if grouped:
        counted = draw(aggregate(index, nodes, everything, refs))
        if draw(st.booleans()):
            give = [*give[: draw(st.integers(0, 1))], counted]
        if draw(st.booleans()):
            order = [Sort(counted, draw(st.booleans()))]
        if draw(st.integers(0, 2)) == 0:
            value = draw(st.integers(0, 3))
            operator = draw(st.sampled_from(["=", "<", "<=", ">", ">=", "<>"]))
            having = [Comparison(counted, operator, (value,))]
        if size[0] > 1 and draw(st.booleans()):  # things by how many of others they have
            one, other = draw(st.permutations(range(size[0])))[:2]
            counted = Aggregate("count", NodeRef(other))
            give = [NodeRef(one), counted]
            order = [Sort(counted, draw(st.booleans()))]
            having = [Comparison(counted, "<", (2,))] if draw(st.booleans()) else []
    complete = [one for one in where if one] + having
    try:
        plan = Plan(
            tuple(nodes), tuple(hops), tuple(complete), tuple(parts),
            default_group(give, order, having), tuple(order),
            draw(st.one_of(st.none(), st.integers(1, 4))), tuple(give), first,
            draw(st.integers(0, 2)) if order else 0,
        )  # fmt: skip
        check(plan, index)
    except PlanError:
        assume(False)
    return plan


def _properties(index: SchemaIndex, nodes: list[str], hops: list[Hop], ref: Any) -> list[Any]:
    if isinstance(ref, NodeRef):
        return list(index.properties(nodes[ref.node]).values())
    return list(index.hop_properties(hops[ref.hop], nodes).values())


@st.composite
def item(draw: Any, index: Any, nodes: Any, hops: Any, refs: Any) -> Any:
    ref = draw(st.sampled_from(refs))
    found = _properties(index, nodes, hops, ref)
    if isinstance(ref, NodeRef) and (not found or draw(st.booleans())):
        return ref
    if not found:
        return refs[0]
    chosen = draw(st.sampled_from(found))
    parts = ["", "year", "month", "quarter", "day"] if chosen.type == "date" else [""]
    if chosen.many or chosen.type == "text":
        parts = ["", "size"]
    return PropertyRef(ref, chosen.name, draw(st.sampled_from(parts)))


@st.composite
def aggregate(draw: Any, index: Any, nodes: Any, hops: Any, refs: Any) -> Aggregate:
    ref = draw(st.sampled_from(refs))
    days = [
        PropertyRef(one, p.name)
        for one in refs for p in _properties(index, nodes, hops, one) if p.type == "date"
    ]  # fmt: skip
    if days and draw(st.integers(0, 4)) == 0:
        between = Arithmetic(draw(st.sampled_from(days)), "-", draw(st.sampled_from(days)))
        return Aggregate(draw(st.sampled_from(["sum", "average", "least", "most"])), between)
    numbers = [
        p.name for p in _properties(index, nodes, hops, ref) if p.type in ("integer", "float")
    ]
    if not numbers or draw(st.booleans()):
        return Aggregate("count", ref)
    of: Any = PropertyRef(ref, draw(st.sampled_from(numbers)))
    if draw(st.integers(0, 3)) == 0:
        of = Arithmetic(of, draw(st.sampled_from("+-*/")), draw(st.sampled_from([of, 2.0])))
    return Aggregate(draw(st.sampled_from(["count", "sum", "average", "least", "most"])), of)


@st.composite
def comparison(draw: Any, index: Any, nodes: Any, hops: Any, refs: Any) -> Comparison | None:
    ref = draw(st.sampled_from(refs))
    if isinstance(ref, NodeRef) and draw(st.integers(0, 9)) == 0:
        class_ = draw(st.sampled_from(sorted(index.types)))
        return Comparison(ref, draw(st.sampled_from(["is a", "is no"])), (class_,))
    if isinstance(ref, NodeRef) and draw(st.integers(0, 4)) == 0:
        names = tuple(draw(st.lists(VALUES["text"], min_size=1, max_size=2)))
        return Comparison(ref, draw(st.sampled_from(["in", "not in"])), names)
    found = _properties(index, nodes, hops, ref)
    if not found:
        return None
    chosen = draw(st.sampled_from(found))
    left = PropertyRef(ref, chosen.name)
    operator = draw(st.sampled_from([*operators(chosen.type), "missing", "not missing"]))
    if operator.endswith("missing"):
        return Comparison(left, operator)
    if not operator.endswith("in") and draw(st.integers(0, 5)) == 0 and not chosen.many:
        others = [
            PropertyRef(r, p.name)
            for r in refs
            for p in _properties(index, nodes, hops, r)
            if p.type == chosen.type and not p.many
        ]
        right = draw(st.sampled_from(others))
        average = isinstance(right.owner, NodeRef) and chosen.type in ("integer", "float")
        average = average and draw(st.booleans())
        return Comparison(left, operator, Aggregate("average", right) if average else right)
    many = draw(st.integers(1, 2)) if operator.endswith("in") else 1
    return Comparison(left, operator, tuple(draw(LITERALS[chosen.type]) for _ in range(many)))

"""Writes a plan in words, as input of a model that ranks whole plans.

Names are split into words; a chain of hops stands in one direction, whatever it was planned from,
and its arrows say which way the facts lead; then comparisons, groups, order, limit and what is
given. It leaves out what distinguishes no plans: the quoting of values and names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgqa.paths.words import relation_phrase
from kgqa.queries.plan import Aggregate, Arithmetic, Comparison, HopRef, NodeRef, PropertyRef

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.queries.plan import Hop, Plan

_ANY = "any"


def plan_words(plan: Plan) -> str:
    """Return a plan in words, as the plan ranker reads it.

    >>> from kgqa.queries.text import parse_plan
    >>> plan_words(parse_plan("Product <ORDERS Order | desc count Order | limit 5 | give Product"))
    'order > orders > product ; order descending count of order ; limit 5 ; give product'
    >>> plan_words(parse_plan('Film <made Person <knows Person#2 | Person.bornIn = "York"'))
    'film < made < person 1 < knows < person 2 ; where person 1 born in = York ; give film'
    """
    return _PlanWords(plan).whole()


class _PlanWords:
    """Writes parts of a plan in words, nodes named along its longest chain."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._path = _path(plan)
        walked = [node for node, _ in self._path]
        order = [*walked, *(one for one in range(len(plan.nodes)) if one not in walked)]
        called = [relation_phrase(name) if name else _ANY for name in plan.nodes]
        self._nodes = list(called)
        for name in {one for one in called if called.count(one) > 1}:
            same = [node for node in order if called[node] == name]
            for number, node in enumerate(same, 1):
                self._nodes[node] = f"{name} {number}"

    def whole(self) -> str:
        """Return the whole plan in words."""
        plan = self._plan
        parts = [self._chain()]
        if plan.first is not None:
            parts = [_PlanWords(plan.first).whole(), f"then {parts[0]}"]
        plain = plan.where[: len(plan.where) - len(plan.having)]
        parts += sorted(f"where {self.item(one)}" for one in plain)
        for part in plan.without:
            said = [self._nodes[part.hops[0].source]] if part.hops[0].source else []
            said += [f"{_arrow(hop)} {self._nodes[hop.target]}" for hop in part.hops]
            parts.append(" ".join(["without", *said, *map(self.item, part.where)]))
        parts += [f"having {self.item(one)}" for one in plan.having]
        for sort in plan.order:
            way = "descending" if sort.descending else "ascending"
            parts.append(f"order {way} {self.item(sort.by)}")
        if plan.skip:
            parts.append(f"skip {plan.skip}")
        if plan.limit is not None:
            parts.append(f"limit {plan.limit}")
        ordered = {sort.by for sort in plan.order}
        shown = [plan.give[0]]
        shown += [
            one for one in plan.give[1:] if isinstance(one, Aggregate) and one not in ordered
        ][:1]
        return " ; ".join([*parts, "give " + " , ".join(map(self.item, shown))])

    def _chain(self) -> str:
        """Return the pattern in words: the longest chain, then its branches."""
        texts = [self._nodes[self._path[0][0]]]
        texts += [f"{arrow} {self._nodes[node]}" for node, arrow in self._path[1:]]
        walked = {node for node, _ in self._path}
        for hop in self._plan.hops:
            if not {hop.source, hop.target} <= walked:
                branch = f"{_arrow(hop)} {self._nodes[hop.target]}"
                texts.append(f"& {self._nodes[hop.source]} {branch}")
        return " ".join(texts)

    def item(self, item: object) -> str:
        """Return an item, an operand or a comparison in words."""
        match item:
            case NodeRef(node):
                return self._nodes[node]
            case HopRef(hop):
                return relation_phrase(self._plan.all_hops[hop].relation)
            case PropertyRef(owner, name, part):
                text = f"{self.item(owner)} {relation_phrase(name)}"
                return f"{part} of {text}" if part else text
            case Arithmetic(left, operator, right):
                return f"{self.item(left)} {operator} {self.item(right)}"
            case Aggregate(kind, of):
                counted = kind == "count" and isinstance(of, HopRef | NodeRef)
                return f"{kind} of {self.item(of)}" if counted or kind else self.item(of)
            case Comparison(left, operator, right):
                if isinstance(right, tuple):
                    values = " , ".join(map(_value, right))
                    return f"{self._compared(left)} {operator} {values}".rstrip()
                return f"{self._compared(left)} {operator} {self.item(right)}"
            case _:
                return _value(item)

    def _compared(self, item: object) -> str:
        """Return the left side of a comparison in words."""
        if isinstance(item, Aggregate):
            return f"{item.kind} {self.item(item.of)}"
        return self.item(item)


def _value(value: object) -> str:
    """Return a value as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _arrow(hop: Hop, *, back: bool = False) -> str:
    """Return a hop in words with its direction; ``back``: walked from its target."""
    way = "<" if hop.inverse != back else ">"
    return f"{way} {relation_phrase(hop.relation)} {way}"


def _path(plan: Plan) -> list[tuple[int, str]]:
    """Return the longest chain of hops through node 0 as (node, arrow that leads to it) pairs.

    Of its two directions the one that sorts first.
    """
    sides = _sides(plan.hops)
    left, right = sides[0], sides[1] if len(sides) > 1 else []
    hops = [(hop, True) for hop in reversed(left)] + [(hop, False) for hop in right]
    forward = _walked(hops)
    backward = _walked([(hop, not back) for hop, back in reversed(hops)])
    first, second = (_key(plan, hops), _key(plan, [(hop, not b) for hop, b in reversed(hops)]))
    return forward if first <= second else backward


def _sides(hops: Sequence[Hop]) -> list[list[Hop]]:
    """Return the up to two longest chains of hops from node 0, each by a hop of its own."""

    def longest(start: int, seen: frozenset[int]) -> list[Hop]:
        """Return the longest chain of hops from ``start`` over unseen nodes."""
        chains = [
            [hop, *longest(hop.target, seen | {hop.target})]
            for hop in hops
            if hop.source == start and hop.target not in seen
        ]
        return max(chains, key=len, default=[])

    firsts = [
        [hop, *longest(hop.target, frozenset({0, hop.target}))]
        for hop in hops
        if hop.source == 0 and hop.target != 0
    ]
    return sorted(firsts, key=len, reverse=True)[:2] or [[]]


def _walked(hops: Sequence[tuple[Hop, bool]]) -> list[tuple[int, str]]:
    """Return the nodes along ``hops``, each with the arrow that leads to it, "" for the first.

    ``hops``: each with whether it is walked from its target.
    """
    if not hops:
        return [(0, "")]
    first, back = hops[0]
    path = [(first.target if back else first.source, "")]
    for hop, back in hops:
        path.append((hop.source if back else hop.target, _arrow(hop, back=back)))
    return path


def _key(plan: Plan, hops: Sequence[tuple[Hop, bool]]) -> tuple[object, ...]:
    """Return the sort key of a chain: its classes and relations."""
    nodes = [node for node, _ in _walked(hops)]
    ways = [(hop.relation, "<" if hop.inverse != back else ">") for hop, back in hops]
    return tuple(plan.nodes[node] for node in nodes), tuple(ways)

"""Plans in two steps: select the best few, or the groups that satisfy a number, then continue.

"Tags of the three most viewed questions" is not the three first rows of questions with tags, and
"how many people directed more than two films" counts what a first plan finds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kgqa.errors import PlanError
from kgqa.queries.plan import (
    Aggregate,
    Comparison,
    Hop,
    HopRef,
    NodeRef,
    Plan,
    PropertyRef,
    Without,
    owners,
)


def best_first(plan: Plan) -> Plan | None:
    """Rewrite a plan ordered by another node's property: order and limit its node, then join.

    None if the order is by an output node, or the plan's parts cannot be distinguished.
    """
    by = plan.order[0].by if plan.order else None
    if not isinstance(by, PropertyRef) or not isinstance(by.owner, NodeRef) or plan.grouped:
        return None
    root = by.owner.node
    if root == 0 or plan.without or plan.first is not None or plan.skip or plan.limit is None:
        return None
    inner = [one for one in plan.where if {*owners(one)} == {NodeRef(root)}]
    outer = [one for one in plan.where if one not in inner]
    nodes, hops = _rerooted(plan, root)
    if nodes is None:
        return None
    where = tuple(renumbered(one, nodes, hops) for one in outer)
    order = (replace(plan.order[0], by=replace(by, owner=NodeRef(0))),)
    given = tuple(
        _moved(item, nodes, hops) for item in plan.give if NodeRef(root) not in owners(item)
    )
    chain = tuple(hop for _, hop in sorted(hops.values(), key=lambda one: one[0]))
    names = [plan.nodes[old] for old in sorted(nodes, key=lambda one: nodes[one])]
    try:
        first = Plan(
            (plan.nodes[root],), (),
            tuple(renumbered(one, {root: 0}, {}) for one in inner),
            (), (), order, plan.limit, (NodeRef(0),),
        )  # fmt: skip
        return Plan(tuple(names), chain, where, give=given or (NodeRef(nodes[0]),), first=first)
    except (PlanError, TypeError):
        return None


def counted_after(plan: Plan) -> Plan | None:
    """Return a plan that counts the groups that satisfy the given plan's condition on groups.

    None if it has no such condition, or does not output nodes.
    """
    if not plan.having or not isinstance(plan.give[0], NodeRef) or plan.first is not None:
        return None
    first = plan.give[0]
    try:
        inner = replace(plan, give=(first,), order=(), limit=None, skip=0)
        count = Aggregate("count", NodeRef(0))
        return Plan((plan.nodes[first.node],), give=(count,), first=inner)
    except PlanError:
        return None


def with_hop(plan: Plan, node: int, relation: str, class_: str) -> tuple[Plan, NodeRef]:
    """Return a plan with one more hop out of the pattern node ``node``, and the hop's end node."""
    at, hop = plan.pattern_size, len(plan.hops)
    nodes = {old: old + (old >= at) for old in range(len(plan.nodes))}
    hops = {old: (old + (old >= hop), one) for old, one in enumerate(plan.all_hops)}
    without = tuple(
        Without(
            tuple(replace(one, source=nodes[one.source], target=nodes[one.target])
                  for one in part.hops),
            tuple(renumbered(one, nodes, hops) for one in part.where),
        )
        for part in plan.without
    )  # fmt: skip
    wider = replace(
        plan, nodes=(*plan.nodes[:at], class_, *plan.nodes[at:]), without=without,
        hops=(*plan.hops, Hop(node, relation, at)),
    )  # fmt: skip
    return wider, NodeRef(at)


def _rerooted(plan: Plan, root: int) -> tuple[dict[int, int] | None, dict[int, tuple[int, Hop]]]:
    """Renumber a plan's pattern from node ``root`` on; hops lead away from it.

    Returns new numbers by old node, and (new number, hop) by old hop number; (None, {}) unless it
    is a tree.
    """
    nodes = {root: 0}
    hops: dict[int, tuple[int, Hop]] = {}
    while len(hops) < len(plan.hops):
        before = len(hops)
        for number, hop in enumerate(plan.hops):
            if number in hops or not {hop.source, hop.target} & nodes.keys():
                continue
            forward = hop.source in nodes
            start, end = (hop.source, hop.target) if forward else (hop.target, hop.source)
            if end in nodes:
                return None, {}
            nodes[end] = len(nodes)
            inverse = hop.inverse if forward else not hop.inverse
            new = replace(hop, source=nodes[start], target=nodes[end], inverse=inverse)
            hops[number] = (len(hops), new)
        if len(hops) == before:
            return None, {}
    return nodes, hops


def renumbered(
    one: Comparison, nodes: dict[int, int], hops: dict[int, tuple[int, Hop]]
) -> Comparison:
    """Return a comparison with its nodes and hops renumbered."""
    left, right = (_moved(side, nodes, hops) for side in (one.left, one.right))
    return replace(one, left=left, right=right)


def _moved(item: Any, nodes: dict[int, int], hops: dict[int, tuple[int, Hop]]) -> Any:
    """Return an item with its nodes and hops renumbered."""
    match item:
        case NodeRef(node):
            return NodeRef(nodes[node])
        case HopRef(hop):
            return HopRef(hops[hop][0])
        case PropertyRef(owner, _, _):
            return replace(item, owner=_moved(owner, nodes, hops))
        case Aggregate(_, of):
            return replace(item, of=_moved(of, nodes, hops))
    return item

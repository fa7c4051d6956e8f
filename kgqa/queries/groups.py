"""Empty groups, with a count of zero: when a plan includes them, and which hops are optional."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgqa.queries.plan import Aggregate, Comparison, HopRef, NodeRef, owners
from kgqa.queries.values import satisfies

if TYPE_CHECKING:
    from kgqa.graph.schema import Value
    from kgqa.queries.plan import Plan, Without


def wants_empty(plan: Plan) -> bool:
    """Return whether a plan includes groups with a count of zero.

    It does if its conditions hold for them, or if it is ordered by a count, ascending.
    """
    if not any(True for item in plan.group for _ in owners(item)):
        return False
    counts = [comparison for comparison in plan.having if _is_count(comparison.left)]
    if plan.having:
        return bool(counts) and all(_holds_empty(comparison) for comparison in plan.having)
    return bool(plan.order) and _is_count(plan.order[0].by) and not plan.order[0].descending


def _is_count(item: object) -> bool:
    """Return whether an item is a count."""
    return isinstance(item, Aggregate) and item.kind == "count"


def _holds_empty(comparison: Comparison) -> bool:
    """Return whether a condition on groups holds for an empty group."""
    if not isinstance(comparison.left, Aggregate) or not isinstance(comparison.right, tuple):
        return False
    values: list[Value] = [0] if comparison.left.kind in ("count", "sum") else []
    return satisfies(values, comparison, comparison.right)


def required(plan: Plan) -> set[NodeRef | HopRef] | None:
    """Return the nodes and hops that a group must have; all others may be absent in an empty group.

    None if empty groups are impossible: the counted nodes lie between grouped ones, or are grouped
    themselves.
    """
    groups: set[int] = set()
    for ref in (ref for item in plan.group for ref in owners(item)):
        if isinstance(ref, HopRef):
            return None
        groups.add(ref.node)
    # connected parts of the pattern without the grouped nodes
    part = list(range(plan.pattern_size))

    def root(node: int) -> int:
        """Return the representative of a node's connected part."""
        while part[node] != node:
            node = part[node]
        return node

    for hop in plan.hops:
        if hop.source not in groups and hop.target not in groups:
            part[root(hop.source)] = root(hop.target)

    def part_of_hop(number: int) -> tuple[str, int]:
        """Return the connected part of hop ``number``, itself if it joins two grouped nodes."""
        hop = plan.hops[number]
        for end in (hop.source, hop.target):
            if end not in groups:
                return "node", root(end)
        return "hop", number

    if not groups:
        return None
    counted: set[tuple[str, int]] = set()
    aggregates = [item for item in plan.items() if isinstance(item, Aggregate)]
    for ref in (ref for aggregate in aggregates for ref in owners(aggregate)):
        if isinstance(ref, HopRef):
            counted.add(part_of_hop(ref.hop))
        elif ref.node in groups:
            return None
        else:
            counted.add(("node", root(ref.node)))
    hops = {number for number in range(len(plan.hops)) if part_of_hop(number) not in counted}
    nodes = {*groups, *(end for number in hops for end in plan.hops[number].ends)}
    # the rest must be connected
    joined = {min(nodes)}
    for _ in hops:
        for number in hops:
            ends = set(plan.hops[number].ends)
            if ends & joined:
                joined |= ends
    if joined != nodes or any(_outside(plan, one, nodes) for one in plan.without):
        return None
    return {*map(NodeRef, nodes), *map(HopRef, hops)}


def _outside(plan: Plan, without: Without, nodes: set[int]) -> bool:
    """Return whether a part of ``without`` refers to nodes outside ``nodes``."""
    ends = {end for hop in without.hops for end in hop.ends if end < plan.pattern_size}
    return not ends <= nodes

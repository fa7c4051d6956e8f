"""Which entities' paths a change of the graph may affect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgqa.graph.model import Kind, keys_array

if TYPE_CHECKING:
    from kgqa.graph.change import GraphChange
    from kgqa.graph.model import Direction, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import WalkRules

_BACK: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


def affected(store: GraphStore, change: GraphChange, rules: WalkRules) -> IntArray:
    """Return the keys, ascending, of nodes with a path that ``change`` adds, removes or renames.

    ``store``: the KG before the change, or after it. The search walks backwards from the ends of
    changed edges and from changed nodes: up to its first changed element a path exists in both
    graphs, so one graph is enough. Some nodes may be returned whose paths stay as they are.
    """
    after = {node["key"]: node for node in change.nodes}
    shown = {
        key: [
            (node["name"], node["kind"]) for node in (change.old.get(key), after.get(key)) if node
        ]
        for key in {*after, *change.old}
    }
    mediators = {key for key, both in shown.items() for _, kind in both if kind == Kind.MEDIATOR}
    distance: dict[int, int] = {}  # hops from a node to a change, at least

    def reach(key: int, hops: int) -> None:
        """Record that ``key`` is at most ``hops`` hops before a change."""
        distance[key] = min(hops, distance.get(key, hops))

    for key, both in shown.items():
        if len(both) == 1 or both[0] != both[1]:
            reach(key, 0)
    edges = [
        *change.removed_edges,
        *(edge for edge in change.edges if edge not in change.known_edges),
    ]
    ends = sorted({end for edge in edges for end in (edge[0], edge[2])})
    there = keys_array([key for key in ends if key < change.before.next_key])
    if len(there):
        batch = store.entities(there)
        mediators |= set(there[batch.kinds == Kind.MEDIATOR].tolist())
    collapse = rules.mediators == "collapse"

    def hops_over(key: int) -> int:
        """Return the hops that leaving a node costs: 0 for a mediator, counted on the way in."""
        return 0 if collapse and key in mediators else 1

    for head, _, tail in edges:
        if rules.direction != "in":
            reach(head, hops_over(head))
        if rules.direction != "out":
            reach(tail, hops_over(tail))
    done: set[int] = set()
    for hops in range(rules.hops):
        frontier = [key for key, far in distance.items() if far == hops]
        while frontier:
            done.update(frontier)
            near = store.neighbours(keys_array(frontier), _BACK[rules.direction])
            frontier = []
            kinds = dict(zip(near.target.tolist(), near.kind.tolist(), strict=True))
            for key, kind in kinds.items():
                through = collapse and (kind == Kind.MEDIATOR or key in mediators)
                far = hops + (not through)
                if far < distance.get(key, rules.hops + 1):
                    distance[key] = far
                if through and key not in done:
                    frontier.append(key)
    return np.sort(keys_array([key for key, far in distance.items() if far <= rules.hops]))

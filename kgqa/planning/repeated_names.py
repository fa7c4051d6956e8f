"""Counts by the names of a lone table's rows, where several rows are about one thing.

In a table with a row for each prize the rows of one winner have the same name: "Who has won the
most prizes?" counts the rows of each name, since each row has one prize.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kgqa.queries.plan import Aggregate, NodeRef, Plan, PropertyRef, Sort
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.queries.plan import Item

WEIGHTS = weights("planning")


def repeat(names: Sequence[str | None]) -> bool:
    """Return whether so many rows have another row's name that a name is of several.

    >>> repeat(["Ann", "Bo", "Ann"]), repeat(["Ann", "Bo", "Cy"])
    (True, False)
    """
    called = [name for name in names if name]
    return len({*called}) < WEIGHTS["names_once"] * len(called)


def by_name(plan: Plan, rows: str, name: str) -> Plan:
    """Return a plan that counts by single rows so that it counts the rows of each name.

    ``rows``: the class of the rows; ``name``: the property of their names. Other plans are returned
    unchanged.

    >>> from kgqa.queries.plan import Hop
    >>> most = Aggregate("count", NodeRef(1))
    >>> prizes = Plan(("Prize", "Kind"), (Hop(0, "kind", 1),), order=(Sort(most, True),), limit=1,
    ...               give=(NodeRef(0), most), group=(NodeRef(0),))
    >>> print(by_name(prizes, "Prize", "winner"))
    Prize kind> Kind | desc count Prize | limit 1 | give Prize.winner, count Prize
    """
    if plan.first is not None and plan.first.having:  # only nodes can be counted, not names
        return by_name(
            replace(plan.first, give=(NodeRef(0), *(one.left for one in plan.first.having))),
            rows,
            name,
        )
    counted = [one for one in plan.items() if isinstance(one, Aggregate)]
    if plan.nodes[0] != rows or plan.group != (NodeRef(0),) or not counted:
        return plan
    if any(one.kind != "count" or one.of == NodeRef(0) for one in counted):
        return plan
    called, number = PropertyRef(NodeRef(0), name), Aggregate("count", NodeRef(0))

    def of_name(item: Item) -> Item:
        """Return an item with its row replaced by the name, and its count by that of rows."""
        if isinstance(item, Aggregate):
            return number
        return called if item == NodeRef(0) else item

    return replace(
        plan,
        where=tuple(
            replace(one, left=of_name(one.left)) if isinstance(one.left, Aggregate) else one
            for one in plan.where
        ),
        group=(called,),
        order=tuple(Sort(of_name(one.by), one.descending) for one in plan.order),
        give=tuple(dict.fromkeys(map(of_name, plan.give))),
    )

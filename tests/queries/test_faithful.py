"""What plans give is what the source files say: no row, count or fact false, and none missing."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import kgqa
from kgqa.queries.check import SchemaIndex
from kgqa.queries.plan import Aggregate, NodeRef
from tests.queries.made_files import FEATURES, PlanMaker, counted, read_tables, write_tables
from tests.queries.memory import naive_rows
from tests.queries.test_execute import cells, same, simple_zero

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.queries.plan import Plan
    from tests.queries.memory import MemoryGraph


def check_plans(folder: Path, seed: int, count: int, least: int) -> None:
    """Run ``count`` plans, each feature in ``least`` or more, and compare all that they give."""
    write_tables(folder, Random(seed))
    with kgqa.ingest("tables", folder, kg="shop", home=folder / "home") as kg:
        graph, ids = read_tables(folder, kg.schema())
        maker = PlanMaker(graph, SchemaIndex(kg.schema()), Random(seed))
        plans: list[Plan] = []
        with_rows = 0
        while len(plans) < count:
            plan = maker.plan(FEATURES[len(plans) % len(FEATURES)])
            if simple_zero(plan):
                plans.append(plan)
                with_rows += check_plan(kg, plan, graph, ids)
    there = counted(plans)
    assert min(there[feature] for feature in FEATURES) >= least, there
    assert with_rows >= 0.7 * count


def check_plan(kg: kgqa.KG, plan: Plan, graph: MemoryGraph, ids: list[str]) -> bool:
    """Compare what a plan gives with the files; return whether it gives something."""
    expected = naive_rows(plan, graph)
    result = kg.query(plan)
    rows = [tuple(named(cell, ids) for cell in row) for row, _, _ in expected]
    rows, expected = rows[plan.skip :], expected[plan.skip :]
    limit = len(rows) if plan.limit is None else plan.limit
    assert same(cells(result), rows[:limit]), f"{plan}\n{cells(result)}\n{rows[:limit]}"
    behind: dict[str, list[Any]] = {}  # what rows with the same cells rest on
    for row, (_, members, links) in zip(rows, expected, strict=True):
        counted_ = [
            {ids[member["n", item.of.node]] for member in members}
            for item in aggregates(plan)
            if isinstance(item.of, NodeRef)
        ]
        facts = {(ids[link.head], link.relation, ids[link.tail]) for link in links}
        behind.setdefault(repr(row), []).append((facts, counted_))
    exact = not any(hop.repeated for hop in plan.hops)  # else one chain of several is shown
    for number, row in enumerate(rows[:limit]):
        found = result.evidence(number)
        facts = {(fact.head, fact.predicate, fact.tail) for fact in found.facts}
        things = [
            {node.id for node in one.members}  # type: ignore[union-attr]
            for one, item in zip(found.counted, aggregates(plan), strict=True)
            if isinstance(item.of, NodeRef)
        ]
        true = behind[repr(row)]
        match = [one for one in true if one[1] == things and (one[0] == facts or not exact)]
        assert match, f"{plan}\n{row}\n{facts}\n{things}\n{true}"
        true.remove(match[0])
        for one in found.counted:
            if one.aggregate.startswith("count ") and one.members:
                assert one.size == len(one.members)
    return bool(rows) and not all(cell in (None, 0) for row in rows for cell in row)


def aggregates(plan: Plan) -> list[Aggregate]:
    return list(dict.fromkeys(item for item in plan.items() if isinstance(item, Aggregate)))


def named(cell: Any, ids: list[str]) -> Any:
    if isinstance(cell, str) and cell[:1] == "t" and cell[1:].isdigit():
        return ids[int(cell[1:])]
    return cell


def test_some_plans_say_what_the_files_say(tmp_path: Path) -> None:
    check_plans(tmp_path, 1, 2 * len(FEATURES), 2)


@pytest.mark.long
def test_two_thousand_plans_say_what_the_files_say(tmp_path: Path) -> None:
    check_plans(tmp_path, 2, 2_000, 2_000 // len(FEATURES))

"""What a plan gives is what it means: compared with loops over lists."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kgqa
from kgqa.errors import PlanError, TimeLimitError
from kgqa.paths.ground import Node
from kgqa.queries.execute import run_plan
from kgqa.queries.groups import required, wants_empty
from kgqa.queries.join import rows_of_pairs, unique_rows
from kgqa.queries.result import QueryLimits, QueryResult
from kgqa.queries.text import parse_plan
from tests.queries.made import graphs, plans
from tests.queries.memory import Link, MemoryGraph, Thing, naive, schema_of


def cells(result: QueryResult) -> list[tuple[Any, ...]]:
    return [tuple(c.id if isinstance(c, Node) else c for c in row) for row in result.rows]


def same(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> bool:
    return len(left) == len(right) and all(
        a == b
        or (
            isinstance(a, float) and isinstance(b, int | float) and math.isclose(a, b, abs_tol=1e-9)
        )
        for one, two in zip(left, right, strict=True)
        for a, b in zip(one, two, strict=True)
    )


def simple_zero(plan: Any) -> bool:
    """Whether the naive executor knows the groups without anything counted."""
    if plan.first is not None and not simple_zero(plan.first):
        return False
    if not (plan.grouped and wants_empty(plan)):
        return True
    return required(plan) == {*plan.group} and len(plan.group) == 1 and not plan.without


FILMS = MemoryGraph(
    [
        Thing(("Film",), {"name": "Alien", "year": 1979}),
        Thing(("Film",), {"name": "Aliens", "year": 1986}),
        Thing(("Film",), {"name": "Platoon", "year": 1986}),
        Thing(("Person",), {"name": "Sigourney"}),
        Thing(("Person",), {"name": "Willem"}),
        Thing(("Person",), {"name": "Nobody"}),
    ],
    [
        Link(3, "ACTED_IN", 0, {"role": "Ripley"}),
        Link(3, "ACTED_IN", 1, {"role": "Ripley"}),
        Link(4, "ACTED_IN", 2, {"role": "Elias"}),
    ],
    schema_of(
        [Thing(("Film",), {"name": "", "year": 1}), Thing(("Person",), {"name": ""})],
        [Link(1, "ACTED_IN", 0, {"role": ""})],
        {"name": "text", "year": "integer", "role": "text"},
    ),
)


def run(text: str, limits: QueryLimits | None = None) -> QueryResult:
    return run_plan(parse_plan(text), FILMS, limits=limits)


def test_a_superlative_has_its_ties_and_runners_up() -> None:
    result = run("Film | desc Film.year | limit 1 | give Film.name, Film.year")
    assert result.plain_rows() == [["Aliens", 1986]]
    assert [row[0] for row in result.tied] == ["Platoon"]
    assert [row[0] for row in result.runners_up] == ["Alien"]
    (tied,) = result.to_dict()["tied"]
    assert tied["values"][0] == "Platoon"
    assert tied["properties"][0]["id"] == "t2", "a tied row rests on facts, as the others do"


def test_an_average_that_is_compared_with_is_that_of_the_whole_class() -> None:
    films = run("Person ACTED_IN> Film | Film.year < average Film.year | Film.year < 1985")
    assert [row[0].name for row in films.rows] == ["Sigourney"]  # type: ignore[union-attr]


def test_a_count_lists_what_it_counted_and_its_facts() -> None:
    result = run("Person ACTED_IN> Film | Person = 'Sigourney' | give count Film")
    assert result.value == 2
    found = result.evidence(0)
    (counted,) = found.counted
    assert (counted.aggregate, counted.size) == ("count Film", 2)
    assert [node.name for node in counted.members] == ["Alien", "Aliens"]
    assert [fact.predicate for fact in found.facts] == ["ACTED_IN", "ACTED_IN"]
    assert {fact.head for fact in found.facts} == {"t3"}
    assert result.evidence(0, limit=1).facts_in_all == 2


def test_those_with_none_are_counted_where_few_are_asked_for() -> None:
    assert run(
        "Person ACTED_IN> Film | asc count Film | give Person.name, count Film"
    ).plain_rows() == [
        ["Nobody", 0],
        ["Willem", 1],
        ["Sigourney", 2],
    ]
    assert run("Person ACTED_IN> Film | count Film = 0 | give Person.name").plain_rows() == [
        ["Nobody"]
    ]
    assert len(run("Person ACTED_IN> Film | desc count Film | give Person")) == 2


def test_nothing_is_counted_as_none() -> None:
    assert run("Film | Film.year > 2000 | give count Film, average Film.year").plain_rows() == [
        [0, None]
    ]


def test_limits_end_in_an_error() -> None:
    with pytest.raises(PlanError, match="3 rows, and at most 2"):
        run("Film", QueryLimits(rows=2))
    with pytest.raises(PlanError, match="3 solutions or more"):
        run("Film <ACTED_IN Person", QueryLimits(solutions=2))
    with pytest.raises(TimeLimitError, match="within 0 seconds"):
        run("Film <ACTED_IN Person", QueryLimits(seconds=0))


def test_a_result_is_a_table() -> None:
    table = run("Film | asc Film.name | give Film, Film.year").to_arrow()
    assert table.to_pylist()[0] == {"Film": "Alien", "Film.year": 1979}


def test_a_result_is_json() -> None:
    given = run("Film <ACTED_IN Person | Film = 'Alien' | give Person, ACTED_IN.role").to_dict()
    assert given["columns"] == ["Person", "ACTED_IN.role"]
    (row,) = given["rows"]
    assert row["values"] == [{"id": "t3", "name": "Sigourney"}, "Ripley"]
    assert row["facts"] == [{"head": "t3", "predicate": "ACTED_IN", "tail": "t0"}]


@given(st.data())
def test_rows_are_those_of_the_naive_executor(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    plan = data.draw(plans(graph).filter(simple_zero))
    assert parse_plan(str(plan)) == plan
    result = run_plan(plan, graph)
    expected = naive(plan, graph)
    assert same(cells(result), expected), f"{plan}\n{cells(result)}\n{expected}"
    links = {(f"t{link.head}", link.relation, f"t{link.tail}") for link in graph.links}
    for row, given_cells in enumerate(result.rows):
        found = result.evidence(row)
        assert {(fact.head, fact.predicate, fact.tail) for fact in found.facts} <= links
        values = dict(zip(result.columns, given_cells, strict=True))
        for one in found.counted:
            if one.aggregate.startswith("count ") and one.members:
                assert len(one.members) == one.size == values.get(one.aggregate, one.size)


class CountsNames:
    """A graph that counts of how many entities the names are read."""

    def __init__(self, graph: MemoryGraph) -> None:
        self.graph = graph
        self.named = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.graph, name)

    def entities(self, keys: Any) -> Any:
        self.named += len(keys)
        return self.graph.entities(keys)


MANY = MemoryGraph(
    [Thing(("Film",), {"name": f"Film {key:03d}", "year": 1900 + key}) for key in range(100)]
    + [Thing(("Person",), {"name": "Extra"})],
    [Link(100, "ACTED_IN", key, {}) for key in range(100)],
    schema_of(
        [Thing(("Film",), {"name": "", "year": 1}), Thing(("Person",), {"name": ""})],
        [Link(1, "ACTED_IN", 0, {})],
        {"name": "text", "year": "integer"},
    ),
)


@pytest.mark.parametrize(
    ("plan", "most"),
    [
        ("Film | desc Film.year | limit 2 | give Film", 10),  # two, runners-up, each block once
        ("Film <ACTED_IN Person | desc count Person | limit 1 | give count Film", 0),
        ("Person ACTED_IN> Film | desc count Film | limit 1 | give Person, count Film", 2),
    ],
)
def test_only_rows_that_are_shown_are_named(plan: str, most: int) -> None:
    graph = CountsNames(MANY)
    assert run_plan(parse_plan(plan), graph).rows  # type: ignore[arg-type]
    assert graph.named <= most


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-(1 << 62), 1 << 62)), max_size=9),
    st.sampled_from([1, 1 << 20, 1 << 61]),
)
def test_different_rows_are_those_of_numpy_however_large_their_numbers(
    rows: list[tuple[int, int]], size: int
) -> None:
    columns = [np.array(one, np.int64) for one in zip(*rows, strict=True)] or [
        np.empty(0, np.int64) for _ in range(2)
    ]
    columns[1] = columns[1] % size
    wanted, places = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    found, back = unique_rows(columns)
    assert found.tolist() == wanted.tolist()
    assert back.tolist() == places.reshape(-1).tolist()
    assert rows_of_pairs(*columns).tolist() == wanted[:, 0].tolist()


@pytest.mark.parametrize("order", ["desc count *", "asc count *", "desc count * | asc *#2"])
def test_the_first_of_many_counts_are_those_of_all_in_order(tmp_path: Path, order: str) -> None:
    sizes = [5, 3, 3, 3, 2, 2, 1, 1, 1, 1, 4]
    triples = [
        (f"Person {town}.{number}", "lives in", f"Town {town}")
        for town, size in enumerate(sizes)
        for number in range(size)
    ]
    give = f"* [lives in]> *#2 | {order}{{}} | give *#2, count *"
    with kgqa.ingest("triples", triples, kg="towns", home=tmp_path) as kg:
        every = [(row[0].name, row[1]) for row in kg.query(give.format("")).rows]
        assert sorted(count for _, count in every if count) == sorted(sizes)
        for limit in range(1, len(every) + 2):
            for skip in (0, 2):
                result = kg.query(give.format(f" | skip {skip} | limit {limit}"))
                rows = [*result.rows, *result.tied, *result.runners_up]
                shown = [(row[0].name, row[1]) for row in rows]
                assert shown == every[skip : skip + len(shown)]
                assert len(result.rows) == max(0, min(limit, len(every) - skip))
                after = len(every) - skip - len(result.rows) - len(result.tied)
                assert len(result.runners_up) == min(3, max(0, after))


def test_of_too_many_rows_the_first_are_given_with_their_number() -> None:
    whole = run("Film")
    for text in ("Film", "Film | desc Film.year | give Film"):
        result = run(text, QueryLimits(rows=2, first=2))
        assert len(result) == 2 < len(whole) == result.rows_in_all
        assert {*result.rows} < {*whole.rows}
        assert result.to_dict()["rows_in_all"] == len(whole)
    assert cells(result) == [("t1",), ("t2",)]

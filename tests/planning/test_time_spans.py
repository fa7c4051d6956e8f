"""How long something took is the time between its two dates, where nothing states it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kgqa.graph.schema import EntityType, GraphSchema, Property
from kgqa.planning.time_spans import begin_and_end, with_durations
from tests.fixtures import ingested

if TYPE_CHECKING:
    from collections.abc import Iterator

    import kgqa

REPAIRS = """name,opened,closed,garage,price
Wing 12,2021-01-10,2021-03-15,Berg,1000
Mast 7,2020-05-01,2022-04-30,Lind,5000
Keel 3,2021-06-01,2021-06-20,Berg,800
Hull 9,2022-01-01,2022-12-31,Holt,2000
Rudder 2,2023-02-01,,Lind,1500
"""


@pytest.fixture(scope="module")
def repairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    with ingested(tmp_path_factory.mktemp("repairs"), "repairs", {"repair": REPAIRS}) as kg:
        yield kg


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which repair took the longest?", {"Mast 7"}),
        ("What are the 2 shortest repairs?", {"Keel 3", "Wing 12"}),
        ("Which repairs lasted longer than 100 days?", {"Mast 7", "Hull 9"}),
        ("Which repairs lasted longer than 4 months?", {"Mast 7", "Hull 9"}),
        ("Which repair by Berg was the shortest?", {"Keel 3"}),
        ("How long did Keel 3 take?", {"19"}),
        ("What is the average duration of the repairs?", {"294"}),
        ("Which repairs were opened in 2021?", {"Wing 12", "Keel 3"}),
    ],
)
def test_how_long_is_the_time_between_two_dates(
    repairs: kgqa.KG, question: str, names: set[str]
) -> None:
    answer = repairs.ask(question, method="auto")
    assert {one.name for one in answer.answers} == names, answer.notes


@pytest.mark.model
def test_the_unit_of_a_duration_is_said(repairs: kgqa.KG) -> None:
    assert (
        "The time between two dates is in days." in repairs.ask("How long did Hull 9 take?").notes
    )


def timed(*names: str, type_: str = "date", **more: object) -> list[Property]:
    return [Property(name, type_, **more) for name in names]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "pair"),
    [
        (("start", "end"), ("start", "end")),
        (("beginDate", "finish_date"), ("beginDate", "finish_date")),
        (("check_in", "check_out"), ("check_in", "check_out")),
        (("order_date", "requiredDate", "shippedDate"), ("order_date", "shippedDate")),
        (("review_start", "end"), None),
        (("born", "end"), None),
    ],
)
def test_names_say_what_begins_and_ends(
    names: tuple[str, ...], pair: tuple[str, str] | None
) -> None:
    found = begin_and_end(timed(*names))
    assert (found and tuple(one.name for one in found)) == pair


def test_dates_that_are_stored_as_dates_are_preferred() -> None:
    read = timed("begin_date", "end_date", as_text=True, count=9)
    found = begin_and_end([*read, *timed("begin", "end", type_="datetime", count=7)])
    assert found
    assert [one.name for one in found] == ["begin", "end"]


def test_what_states_its_duration_gets_no_second_one() -> None:
    stated = EntityType("Film", 3, (*timed("start", "end"), Property("runtime", "integer")))
    schema = GraphSchema((stated,), ())
    assert with_durations(schema) == schema


def test_years_are_subtracted_too() -> None:
    years = timed("from_year", "to_year", type_="integer", examples=(1990, 2004))
    (type_,) = with_durations(GraphSchema((EntityType("Reign", 2, tuple(years)),), ())).types
    assert type_.properties[-1].name == "duration_years"

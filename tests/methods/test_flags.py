"""Tables as people have them: columns of 0 and 1, names in one word, numbers in names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa

if TYPE_CHECKING:
    from collections.abc import Iterator

SNACKS = """snackname,salted,nut,wheat,fibrepercent,recalls_01_10,recalls_11_20,goals
Alpine Mix,1,1,0,12.5,0,3,0
Barley Bites,0,0,1,30.1,2,0,1
Corn Curls,1,0,0,4.4,0,0,0
Date Dots,0,1,0,21.0,5,1,1
Elm Crackers,1,0,1,8.2,0,0,0
Fig Folds,0,0,1,17.9,1,0,0
Grain Bars,0,1,1,25.3,0,2,1
Hazel Hoops,1,1,1,9.9,0,0,0
Ivy Rings,0,0,0,2.2,3,0,0
Jam Jots,0,0,0,1.5,0,0,1
Kale Krisps,1,0,0,14.8,0,7,0
Lentil Loops,1,0,0,19.6,4,0,0
"""


@pytest.fixture(scope="module")
def snacks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.QA]:
    folder = tmp_path_factory.mktemp("snacks")
    (folder / "snacks.csv").write_text(SNACKS)
    with kgqa.ingest("tables", folder / "snacks.csv", home=folder / "home") as kg:
        assert {one.name: one.type for one in kg.schema().types[0].properties}["goals"] == "integer"
        yield kg.qa("query")


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("How many snacks contain nut?", {"4"}),
        ("Which salted snacks also have wheat?", {"Elm Crackers", "Hazel Hoops"}),
        ("Which snacks have nuts but no wheat?", {"Alpine Mix", "Date Dots"}),
        ("Which snack has the highest fibre percent?", {"Barley Bites"}),
        ("Which 2 snacks have the lowest fibre percentage?", {"Jam Jots", "Ivy Rings"}),
        ("Which snack had the most recalls between 2001 and 2010?", {"Date Dots"}),
        ("How many recalls did Kale Krisps have from 2011 to 2020?", {"7"}),
        ("Which snacks had more than 2 recalls in 2011-2020?", {"Alpine Mix", "Kale Krisps"}),
    ],
)
def test_questions_of_such_a_table_are_right(
    snacks: kgqa.QA, question: str, names: set[str]
) -> None:
    assert {one.name for one in snacks.ask(question).answers} == names


def test_no_recalls_are_zero_recalls(snacks: kgqa.QA) -> None:
    answer = snacks.ask("Which snacks had no recalls from 2011 to 2020?")
    assert len(answer.answers) == 8
    assert "Kale Krisps" not in {one.name for one in answer.answers}

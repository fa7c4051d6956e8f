"""One table, as it is downloaded: its rows are called by what the question calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = """survived,who,boarding_town,fare,cabin_code,sailed
1,woman,Bremen,80.5,12,1911-04-10
0,man,Bremen,7.25,31,1911-04-10
1,child,Lisbon,21.0,12,1912-05-02
0,man,Lisbon,13.0,45,1911-04-10
1,woman,Lisbon,7.9,31,1912-05-02
0,woman,Bremen,8.1,77,1911-04-10
0,man,Bremen,9.5,45,1911-04-10
1,man,Lisbon,512.3,12,1912-05-02
0,child,Bremen,8.1,31,1911-04-10
0,man,Bremen,10.2,31,1911-04-10
1,woman,Lisbon,30.0,77,1912-05-02
0,man,Bremen,7.9,45,1911-04-10
"""

OFFICES = """president,post,appointee,gender,year
North 1,Treasurer,Ann Lee,Female,1951
North 1,Postmaster,Bo Berg,Male,1951
North 1,Surveyor,Cy Dale,Male,1952
North 2,Treasurer,Di Ford,Female,1961
North 2,Postmaster,Bo Berg,Male,1961
North 2,Surveyor,Ed Gray,Male,1962
South,Treasurer,Fay Hill,Female,1971
South,Treasurer,Gus Ives,Male,1973
South,Postmaster,Hal Jung,Male,1971
South,Postmaster,Ida Kane,Female,1974
South,Surveyor,Ann Lee,Female,1972
South,Surveyor,Jon Lund,Male,1973
South,Harbourmaster,Kit Moor,Male,1971
South,Harbourmaster,Lea Nord,Female,1974
"""
DRINKS = """country,beer_servings,wine_servings,total_litres_of_pure_alcohol,wine,wine_shop_count
Arvany,12,270,6.2,4.1,11
Belmark,310,20,9.8,3.9,35
Cordovia,0,0,0.0,3.2,0
Drevland,95,85,4.4,4.8,20
Elstria,0,0,0.0,2.2,48
"""


@pytest.fixture(scope="module")
def offices(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.QA]:
    folder = tmp_path_factory.mktemp("offices")
    (folder / "office-turnover.csv").write_text(OFFICES)
    with kgqa.ingest("tables", folder / "office-turnover.csv", home=folder / "home") as kg:
        yield kg.qa("query")


@pytest.fixture(scope="module")
def drinks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.QA]:
    folder = tmp_path_factory.mktemp("drinks")
    (folder / "drinks.csv").write_text(DRINKS)
    with kgqa.ingest("tables", folder / "drinks.csv", home=folder / "home") as kg:
        yield kg.qa("query")


@pytest.fixture(scope="module")
def voyage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.QA]:
    folder = tmp_path_factory.mktemp("voyage")
    (folder / "voyage.csv").write_text(ROWS)
    with kgqa.ingest("tables", folder / "voyage.csv", home=folder / "home") as kg:
        yield kg.qa("query")


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("How many passengers survived?", {"5"}),
        ("How many women survived?", {"3"}),
        ("How many passengers boarded in Lisbon?", {"5"}),
        ("How many children were there?", {"2"}),
        ("What was the highest fare?", {"512.3"}),
    ],
)
def test_rows_are_what_the_question_calls_them(
    voyage: kgqa.QA, question: str, names: set[str]
) -> None:
    assert {one.name for one in voyage.ask(question).answers} == names


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Who was Treasurer under South?", {"Fay Hill", "Gus Ives"}),
        ("How many appointees did South have?", {"8"}),
        ("Which president had the most appointees?", {"South"}),
        ("How many women did South appoint?", {"4"}),
    ],
)
def test_rows_about_people_are_called_by_them(
    offices: kgqa.QA, question: str, names: set[str]
) -> None:
    assert {one.name for one in offices.ask(question).answers} == names


def test_the_column_of_names_is_another_name_of_the_rows(
    offices: kgqa.QA, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = next(tmp_path_factory.getbasetemp().glob("offices*")) / "home"
    with kgqa.open(home=home) as kg:
        types = {one.name: (one.named_by, one.also) for one in kg.schema().types}
    assert types["OfficeTurnover"] == ("appointee", ("appointee",))
    assert types["President"] == ("", ())


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which country drinks the most beer?", {"Belmark"}),
        ("How many countries drink no alcohol at all?", {"2"}),
        ("Which country has the most wine shops?", {"Elstria"}),
    ],
)
def test_most_and_no_are_of_the_number_whose_noun_follows(
    drinks: kgqa.QA, question: str, names: set[str]
) -> None:
    assert {one.name for one in drinks.ask(question).answers} == names


def test_the_most_common_is_nobody_called_common(tmp_path: Path) -> None:
    rows = "".join(
        f"Line {n},{'Money' if n < 5 else 'Hotels'},{'Common' if n == 7 else f'Band {n % 3}'}\n"
        for n in range(8)
    )
    (tmp_path / "lyrics.csv").write_text(f"line,theme,artist\n{rows}")
    with kgqa.ingest("tables", tmp_path / "lyrics.csv", home=tmp_path / "home") as kg:
        answer = kg.ask("Which theme is the most common?")
    assert [one.name for one in answer.answers] == ["Money"]


def test_codes_are_never_added_up(voyage: kgqa.QA) -> None:
    answer = voyage.ask("Which boarding town has the most cabins?")
    assert "sum" not in str(answer.plan)

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


FUEL = """mileage,cylinders,horsepower,weight,origin,name
18.0,8,130,3504,usa,ford torino
15.0,8,165,3693,usa,chevrolet malibu
31.0,4,65,1773,japan,toyota corolla
27.0,4,88,2130,japan,datsun pl510
24.0,4,95,2372,japan,toyota corona
26.0,4,46,1835,germany,volkswagen 1131 deluxe sedan
14.0,8,225,3086,usa,buick estate wagon
"""


def asked_of(folder: Path, file: str, rows: str, method: str = "query") -> Iterator[kgqa.QA]:
    (folder / file).write_text(rows)
    with kgqa.ingest("tables", folder / file, home=folder / "home") as kg:
        yield kg.qa(method)


@pytest.fixture(scope="module")
def offices(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.QA]:
    yield from asked_of(tmp_path_factory.mktemp("offices"), "office-turnover.csv", OFFICES)


@pytest.fixture(scope="module")
def drinks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.QA]:
    yield from asked_of(tmp_path_factory.mktemp("drinks"), "drinks.csv", DRINKS)


@pytest.fixture(scope="module")
def voyage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.QA]:
    yield from asked_of(tmp_path_factory.mktemp("voyage"), "voyage.csv", ROWS)


@pytest.fixture(scope="module")
def fuel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.QA]:
    yield from asked_of(tmp_path_factory.mktemp("fuel"), "fuel.csv", FUEL, "auto")


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
        ("How many cars come from Japan?", {"3"}),
        ("How many cars are from Japan?", {"3"}),
        ("Which car is the heaviest?", {"chevrolet malibu"}),
        ("What is the average horsepower of cars with 4 cylinders?", {"73.5"}),
    ],
)
def test_rows_of_a_file_of_another_name_are_what_columns_and_names_are_about(
    fuel: kgqa.QA, question: str, names: set[str]
) -> None:
    answer = fuel.ask(question)
    assert {one.name for one in answer.answers} == names
    assert answer.confidence is not None
    assert answer.confidence > 0.8


def test_rows_are_not_what_nothing_in_them_is_about(fuel: kgqa.QA) -> None:
    answer = fuel.ask("How many singers come from Japan?")
    assert not answer.answers or (answer.confidence or 0.0) < 0.7


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


def test_why_is_asked_of_no_date(tmp_path: Path) -> None:
    rows = (
        "Member,Party,Resignation Date,Reason,Source\n"
        "Ann Lee,A,1/15/2018,Took a job with a bank,Herald\nBo Berg,B,3/2/2017,Groping,Times\n"
        "Cy Dale,A,11/30/2016,Elected to the senate,Times\nDi Ford,A,5/1/2016,Groping,Post\n"
    )
    for qa in asked_of(tmp_path, "resignations.csv", rows, "auto"):
        answer = qa.ask("Why did Bo Berg resign?")
        assert [one.name for one in answer.answers] == ["Groping"]


def test_states_are_called_by_their_codes_and_by_their_names(tmp_path: Path) -> None:
    codes = ["TX", "TX", "CO", "ME", "TX", "CO", "RI", "ME"]
    rows = "".join(f"Field {at},{code}\n" for at, code in enumerate(codes))
    for qa in asked_of(tmp_path, "airports.csv", f"name,state\n{rows}", "auto"):
        answer = qa.ask("How many airports are in Texas?")
        assert [one.name for one in answer.answers] == ["3"]
        answer = qa.ask("Which airports are in Maine?")
        assert {one.name for one in answer.answers} == {"Field 3", "Field 7"}
        answer = qa.ask("In which state is Field 2?")
        assert [one.name for one in answer.answers] == ["CO"]


def test_escapes_of_html_make_no_list_of_a_title(tmp_path: Path) -> None:
    rows = "1,21 &amp; Over,9\n2,Rust &amp; Bone,4\n3,Slate,7\n4,Lamp &amp; Oar,8\n"
    for qa in asked_of(tmp_path, "movies.csv", f"rank,title,budget\n{rows}"):
        answer = qa.ask("Which movie has the biggest budget?")
        assert [one.name for one in answer.answers] == ["21 &amp; Over"]

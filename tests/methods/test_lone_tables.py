"""Questions of people about one table: prizes, a row each, boats with short headers, and dishes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fixtures import ingested

if TYPE_CHECKING:
    from collections.abc import Iterator

    import kgqa

PRIZES = """prize_no,year,category,name,work,age,birth_pl
1,1991,Best novel,Orla Finch,The Long Tide,31,Skarvik
2,1992,Best novel,Tam Okoye,Salt,44,Brae
3,1993,Best poem,Orla Finch,Lantern,33,Skarvik
1,1994,Best poem,Ivo Lindqvist,Ash,27,Hollum
2,1995,Best novel,Ruth Vance,Kestrel,58,Brae
3,1996,Best poem,Orla Finch,Far Field,36,Skarvik
1,1997,Best novel,Tam Okoye,Harbour,49,Brae
2,1998,Best poem,Wim Daal,Mica,62,Hollum
3,1999,Best novel,Ana Reis,Undertow,39,Dunmore
1,2000,Best poem,Sefa Lim,Reed,41,Dunmore
2,2001,Best novel,Karl Moe,Gale,52,Skarvik
3,2002,Best novel,Isa Holt,The Ferry,45,Brae
"""

ON_PRIZES = [
    # each of several rows of one name is meant
    ("Which works did Orla Finch win for?", {"The Long Tide", "Lantern", "Far Field"}),
    ("How old was Tam Okoye?", {"44", "49"}),
    # and counted by the name
    ("Who has won the most prizes?", {"Orla Finch"}),
    ("Who has won more than twice?", {"Orla Finch"}),
    # the value that is asked for, not the row that has it
    ("How old was the oldest winner?", {"62"}),
    ("How many winners were born in Brae?", {"4"}),
]

BOATS = """mfr,model,year,hull_type,hp,msrp,rank,type
Orca,Tern,2014,sloop,18,41000,3,sail
Orca,Gannet 30,2016,sloop,24,67500,2,sail
Orca,Plover,2011,ketch,12,29900,5,sail
Halden,Ruff,2015,yawl,21,54000,4,sail
Halden,Great Skua,2018,ketch,55,129000,1,sail
Halden,Dipper,2009,sloop,9,18500,7,sail
Brigg,Teal 30,2012,yawl,15,33000,6,sail
"""

ON_BOATS = [
    # the column that tells them apart is their name; short headers are words
    ("Which boat has the most horsepower?", {"Great Skua"}),
    ("What is the list price of the Ruff?", {"54000"}),
    ("How much is the cheapest boat?", {"18500"}),
    ("cheapest ketch", {"Plover"}),
    ("Which manufacturer has the most models?", {"Orca", "Halden"}),
    # a number that is part of a name limits nothing
    ("What is the hull type of the Gannet 30?", {"sloop"}),
    # the highest rank is 1
    ("Which boat is ranked highest?", {"Great Skua"}),
]


DISHES = """place,item,calories,sodium_mg,sugar_g
Harbour Grill,Grilled Plaice,420,610,2
Harbour Grill,Smoked Eel Roll,510,1240,4
Harbour Grill,Garden Salad,150,220,6
Mill Kitchen,Barley Stew,380,700,0
Mill Kitchen,Garden Salad,170,260,5
Mill Kitchen,Plum Crumble,640,120,41
Mill Kitchen,Onion Tart,560,810,7
Old Smithy,Lamb Hotpot,720,990,3
Old Smithy,Leek Soup,240,860,0
Old Smithy,Rye Toast,190,330,1
Old Smithy,Honey Ham,480,1500,9
Old Smithy,Pear Sorbet,210,15,38
"""

ON_DISHES = [
    # a column that hardly repeats names the rows, whatever its header
    ("Which item has the most calories?", {"Lamb Hotpot"}),
    ("How much sodium is in the Honey Ham?", {"1500"}),
    ("Which place sells the Leek Soup?", {"Old Smithy"}),
    ("How many items have no sugar?", {"2"}),
]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, kgqa.KG]]:
    """Return the KGs by name."""
    prizes = ingested(tmp_path_factory.mktemp("prizes"), "prizes", {"prizes": PRIZES})
    boats = ingested(tmp_path_factory.mktemp("boats"), "boats", {"boats": BOATS})
    dishes = ingested(tmp_path_factory.mktemp("dishes"), "dishes", {"dishes": DISHES})
    with prizes, boats, dishes:
        yield {"prizes": prizes, "boats": boats, "dishes": dishes}


@pytest.mark.model
@pytest.mark.parametrize(
    ("name", "question", "names"),
    [("prizes", *one) for one in ON_PRIZES]
    + [("boats", *one) for one in ON_BOATS]
    + [("dishes", *one) for one in ON_DISHES],
)
def test_people_get_what_they_ask_of_a_table(
    asked: dict[str, kgqa.KG], name: str, question: str, names: set[str]
) -> None:
    answer = asked[name].ask(question)
    assert {one.name for one in answer.answers} == names, answer.notes


@pytest.mark.model
def test_a_note_names_no_other_row_where_all_of_the_name_are_meant(
    asked: dict[str, kgqa.KG],
) -> None:
    answer = asked["prizes"].ask("Which works did Orla Finch win for?")
    assert not any("Others of that name" in note for note in answer.notes)


@pytest.mark.model
@pytest.mark.parametrize(
    "question", ["Which castle is the cheapest?", "What is the oldest castle?", "busiest boat"]
)
def test_a_superlative_of_something_else_is_not_sure(
    asked: dict[str, kgqa.KG], question: str
) -> None:
    answer = asked["boats"].qa("query").ask(question)
    assert (answer.confidence or 0.0) < 0.5 or not answer.answers, answer.notes


@pytest.mark.model
def test_a_column_type_of_one_value_makes_no_class(asked: dict[str, kgqa.KG]) -> None:
    kinds = [type_.name for type_ in asked["boats"].schema().types]
    assert [kind for kind in kinds if kind.lower() in ("boat", "sail")] == ["Boat"]

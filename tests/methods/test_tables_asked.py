"""Questions that people ask of a few tables: a company's boats, trips, ports and crew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = {
    "ports": """port_id,name,country,berths
P1,Skarvik,Norway,12
P2,Hollum,Netherlands,30
P3,Brae,Scotland,8
P4,Dunmore,Ireland,21
""",
    "vessels": """vessel_id,name,built,capacity,length_m,type
V1,Sea Finch,2004,420,95.5,car ferry
V2,Grey Heron,1998,310,88.0,car ferry
V3,Petrel,2015,640,121.2,cruise ferry
V4,Dunlin,2011,150,42.7,passenger ferry
V5,Kittiwake,1987,90,35.1,passenger ferry
""",
    "staff": """staff_id,name,role,salary,hired,left,vessel_id
S1,Ola Brandt,captain,54000,2009-03-01,,V1
S2,Mia Kuyper,engineer,41000,2015-06-15,,V1
S3,Rhona Orr,captain,58000,2001-01-20,2021-12-31,V3
S4,Tom Daly,steward,27000,2019-05-01,,V3
S5,Sean Byrne,captain,52500,2012-09-10,,V4
S6,Ines Vos,engineer,43500,2010-02-02,2019-02-01,V2
S7,Noor Bakker,mate,35000,2018-04-04,,V5
""",
    "crossings": """id,vessel_id,from_port_id,to_port_id,departure,arrival,passengers,cancelled
C1,V1,P1,P2,2023-03-04 06:00,2023-03-04 11:30,310,no
C2,V1,P2,P1,2023-03-05 06:00,2023-03-05 11:00,280,yes
C3,V2,P3,P4,2023-03-31 22:00,2023-04-01 01:15,90,no
C4,V3,P4,P2,2023-05-02 09:00,2023-05-02 21:00,500,no
C5,V3,P2,P4,2023-05-03 09:00,2023-05-03 20:30,460,no
C6,V4,P3,P1,2023-06-11 08:00,2023-06-11 12:00,60,no
C7,V5,P4,P3,2023-06-12 08:00,2023-06-12 10:00,45,yes
""",
}


@pytest.fixture(scope="module")
def ferries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    folder = tmp_path_factory.mktemp("ferries")
    tables = folder / "tables"
    tables.mkdir()
    for name, text in TABLES.items():
        (tables / f"{name}.csv").write_text(text, encoding="utf-8")
    with kgqa.ingest("tables", tables, kg="ferries", home=folder / "home") as kg:
        yield kg


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "names"),
    [
        # what ended, and what did not
        ("Which staff left?", {"Rhona Orr", "Ines Vos"}),
        ("Who no longer works for us?", {"Rhona Orr", "Ines Vos"}),
        # from and to
        ("How many crossings arrived at Hollum?", {"2"}),
        ("Which crossings left from Dunmore?", {"C4", "C7"}),
        ("Which crossings went from Dunmore to Hollum?", {"C4"}),
        ("Which vessels have sailed to Dunmore?", {"Grey Heron", "Petrel"}),
        # a time that is told by the other noun of a verb
        ("Which crossings departed in March 2023?", {"C1", "C2", "C3"}),
        # one number of each of a thing's facts
        ("How many passengers did the Petrel carry?", {"960"}),
        # a denial of one thing, with a flag
        ("Which vessels have never had a cancelled crossing?", {"Grey Heron", "Petrel", "Dunlin"}),
        # all of them, in an order
        ("List the vessels from oldest to newest",
         {"Sea Finch", "Grey Heron", "Petrel", "Dunlin", "Kittiwake"}),
        # a bound that may be reached
        ("How many crossings carried at most 90 passengers?", {"3"}),
        # a thing's own value, and the others that have it
        ("Which vessels have the same type as the Dunlin?", {"Kittiwake"}),
        # a superlative of what stands after it
        ("Who works on the newest vessel?", {"Rhona Orr", "Tom Daly"}),
        # a role of people, not people of the role's boats
        ("Which captain works on a passenger ferry?", {"Sean Byrne"}),
        # times between two dates
        ("Which crossing took the longest?", {"C4"}),
        ("How many crossings took less than 4 hours?", {"2"}),
    ],
)  # fmt: skip
def test_people_get_what_they_ask_of_tables(
    ferries: kgqa.KG, question: str, names: set[str]
) -> None:
    answer = ferries.ask(question)
    assert {one.name for one in answer.answers} == names, answer.notes

"""Questions that people ask of a few tables: a company's boats, trips, ports and crew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fixtures import ingested

if TYPE_CHECKING:
    from collections.abc import Iterator

    import kgqa

FERRIES = {
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

ON_FERRIES = [
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
]  # fmt: skip

FLATS = """listing,district,rooms,area_sqm,rent_eur,furnished,landlord,pets_allowed,rating
Linden 4a,Altmarkt,2,54,780,yes,Ruth Kober,no,4.5
Muhle 12,Hafen,3,81,1120,no,Jonas Wirth,yes,3.9
Quai 7,Hafen,1,32,610,yes,Jonas Wirth,no,4.8
Kastanie 3,Nordend,4,110,1490,no,Elif Aydin,yes,4.2
Turmweg 9,Altmarkt,3,76,990,no,Ruth Kober,yes,3.1
Seegasse 21,Nordend,2,60,850,yes,Pia Sander,yes,4.0
Bahnhof 2,Westheim,1,28,480,yes,Pia Sander,no,2.7
Ufer 30,Hafen,2,57,890,yes,Karim Lang,no,
"""

ON_FLATS = [
    # a rent is a price, as its unit says
    ("What is the cheapest listing?", {"Bahnhof 2"}),
    ("Show the three most expensive listings", {"Kastanie 3", "Muhle 12", "Turmweg 9"}),
    ("Which listings are cheaper than Seegasse 21?", {"Linden 4a", "Quai 7", "Bahnhof 2"}),
    ("Which landlord has the cheapest listing?", {"Pia Sander"}),
    # flags, said as adjectives and denied, beside a thing
    ("Which furnished listings are in Hafen?", {"Quai 7", "Ufer 30"}),
    ("Which unfurnished listings allow pets?", {"Muhle 12", "Kastanie 3", "Turmweg 9"}),
    ("Which furnished listings in Altmarkt allow pets?", set()),
    ("Does Quai 7 allow pets?", {"no"}),
    # numbers, each of its own property
    ("Which listings have at least 3 rooms?", {"Muhle 12", "Kastanie 3", "Turmweg 9"}),
    ("Which listings have more than 2 rooms and cost less than 1200?",
     {"Muhle 12", "Turmweg 9"}),
    # what the table does not have
    ("Which listing has a balcony?", set()),
    ("Which listings are neither in Hafen nor in Altmarkt?",
     {"Kastanie 3", "Seegasse 21", "Bahnhof 2"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, kgqa.KG]]:
    """Return the KGs by name."""
    ferries = ingested(tmp_path_factory.mktemp("ferries"), "ferries", FERRIES)
    flats = ingested(tmp_path_factory.mktemp("flats"), "flats", {"listings": FLATS})
    with ferries, flats:
        yield {"ferries": ferries, "flats": flats}


@pytest.mark.model
@pytest.mark.parametrize(
    ("name", "question", "names"),
    [("ferries", *one) for one in ON_FERRIES] + [("flats", *one) for one in ON_FLATS],
)
def test_people_get_what_they_ask_of_tables(
    asked: dict[str, kgqa.KG], name: str, question: str, names: set[str]
) -> None:
    answer = asked[name].ask(question)
    assert {one.name for one in answer.answers} == names, answer.notes

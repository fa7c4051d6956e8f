"""Questions that people ask of a few tables: a company's boats, trips, ports and crew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fixtures import ingested

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
    # a number of two properties
    ("What is the rent of Linden 4a per room?", {"390"}),
    ("What is the rent per square metre of Quai 7?", {"19.0625"}),
    ("Which listing has the lowest rent per room?", {"Turmweg 9"}),
    ("Show listings with a rent per room below 380", {"Kastanie 3", "Turmweg 9", "Muhle 12"}),
    # a number before the singular is a condition, not a limit
    ("two room listings", {"Linden 4a", "Seegasse 21", "Ufer 30"}),
    ("Which 3 room listings allow pets?", {"Muhle 12", "Turmweg 9"}),
    ("cheapest two room listing", {"Linden 4a"}),
    # a bound that all are within says nothing
    ("flats under 700", {"Quai 7", "Bahnhof 2"}),
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


@pytest.mark.model
@pytest.mark.parametrize("question", ["Show listings by rent", "listings ordered by rent"])
def test_things_are_listed_by_a_number(asked: dict[str, kgqa.KG], question: str) -> None:
    names = [one.name for one in asked["flats"].ask(question).answers]
    assert names[:3] == ["Bahnhof 2", "Quai 7", "Linden 4a"]
    assert len(names) == 8


WARD = {
    "wards": """ward_id,name,floor,beds
W1,Maple Ward,2,18
W2,Birch Ward,3,24
W3,Cedar Ward,1,12
""",
    "doctors": """doctor_id,name,specialty,ward_id,hired,salary,supervisor_id
D1,Helen Marsh,cardiology,W1,2005-04-01,98000,
D2,Omar Farouk,cardiology,W1,2014-09-15,81000,D1
D3,Yuki Tanaka,surgery,W2,2010-02-01,112000,
D4,Lars Holm,surgery,W2,2019-06-01,87000,D3
D5,Priya Nair,paediatrics,W3,2012-11-20,79000,
""",
    "patients": """patient_id,name,born,city
P1,Agnes Boyle,1941-05-12,Derry
P2,Ben Carver,1978-02-03,Derry
P3,Chloe Dunne,2015-07-21,Strabane
P4,David Ekwueme,1966-11-30,Omagh
""",
    "stays": """stay_id,patient_id,ward_id,doctor_id,admitted,discharged,diagnosis,cost
S1,P1,W1,D1,2024-01-03,2024-01-12,heart failure,8200
S2,P2,W2,D3,2024-01-15,2024-01-18,appendicitis,4100
S3,P3,W3,D5,2024-02-01,2024-02-03,asthma,1500
S4,P4,W1,D2,2024-02-10,2024-02-25,heart attack,15600
S5,P1,W1,D2,2024-03-20,2024-03-24,heart failure,3900
S6,P2,W2,D4,2024-05-09,,hernia,2500
""",
}


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    with ingested(tmp_path_factory.mktemp("ward"), "ward", WARD) as kg:
        yield kg


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "names"),
    [
        # a sum that is asked for after its noun
        ("What did Agnes Boyle's stays cost in total?", {"12100"}),
        # the date that stands before the month is compared, not another one
        ("Which patients were admitted in February?", {"Chloe Dunne", "David Ekwueme"}),
        # what has not ended has no end
        ("Which stays have not ended yet?", {"S6"}),
        ("Which stays are ongoing?", {"S6"}),
        # a year is no amount
        ("What was the total cost of stays in 2024?", {"35800"}),
        # of each row there is one
        ("What is the average cost per stay?", {"5966.666667"}),
        # who shares a place is like the one who is named
        ("Who works with Omar Farouk?", {"Helen Marsh"}),
        ("Who works on the same ward as Omar Farouk?", {"Helen Marsh"}),
        # an average of counts is none of the plans'
        ("How many stays does a patient have on average?", set()),
    ],
)
def test_people_get_what_they_ask_of_a_ward(ward: kgqa.KG, question: str, names: set[str]) -> None:
    assert {one.name for one in ward.ask(question).answers} == names


@pytest.mark.model
def test_the_gap_of_two_columns_is_a_number_of_each_row(tmp_path: Path) -> None:
    rows = """product,list_price,sale_price
Ash Bench,140,99
Birch Desk,420,400
Cane Chair,90,60
Elm Shelf,210,120
"""
    with ingested(tmp_path, "products", {"products": rows}) as kg:
        biggest = kg.ask("Which product has the biggest gap between list price and sale price?")
        assert [one.name for one in biggest.answers] == ["Elm Shelf"]
        of_one = kg.ask("What is the difference between list price and sale price of Ash Bench?")
        assert [one.name for one in of_one.answers] == ["41"]


TRACKER = {
    "developers": """dev_id,name,team,joined
U1,Kira Moss,Backend,2018-03-12
U2,Jon Abel,Frontend,2020-07-01
U3,Tess Quill,Backend,2016-11-21
U4,Ravi Sen,Mobile,2021-02-15
""",
    "components": """component_id,name,owner_id,lines
K1,Checkout,U1,18200
K2,Search,U3,9400
K3,Web Shop,U2,31000
""",
    "bugs": """bug_id,title,component_id,assignee_id,severity,opened,closed,votes,estimate_hours
B-101,Cart loses items,K1,U1,critical,2024-01-08,2024-01-11,14,6
B-102,Slow results,K2,U3,major,2024-01-20,2024-02-19,22,30
B-103,Button overlaps,K3,U2,minor,2024-02-02,,3,1
B-104,Crash on rotate,K3,U4,critical,2024-02-14,,31,12
B-105,Filter ignores size,K2,,major,2024-04-04,,6,5
B-106,Images do not load,K3,U2,major,2024-03-18,2024-04-02,12,10
""",
    "reviews": """review_id,component_id,reviewer_id,started,due
R1,K1,U3,2024-05-02,2024-05-09
R2,K3,U1,2024-05-06,2024-05-20
""",
}


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    with ingested(tmp_path_factory.mktemp("tracker"), "tracker", TRACKER) as kg:
        yield kg


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "names"),
    [
        # what is not done to it
        ("Which bugs are unassigned?", {"Filter ignores size"}),
        # an estimate is no time that passed
        ("Which bug took the longest to close?", {"Slow results"}),
        ("Which bugs took more than 10 days to close?", {"Slow results", "Images do not load"}),
        # one number of each is added up
        ("How many hours are estimated for the Web Shop?", {"23"}),
        ("What is the number of votes per estimated hour of Crash on rotate?", {"2.583333333"}),
        # a date of something that has no name
        ("When is the Web Shop due?", {"2024-05-20"}),
        # what no table has
        ("What is Tess Quill's email?", set()),
    ],
)
def test_people_get_what_they_ask_of_a_tracker(
    tracker: kgqa.KG, question: str, names: set[str]
) -> None:
    assert {one.name for one in tracker.ask(question).answers} == names

"""Tables as people have them: what is found in them, and that no row is lost without its name."""

from __future__ import annotations

import csv
import io
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.loaders import tabular_infer, tabular_values
from kgqa.loaders.tabular_mapping import relation_of
from tests.loaders.tables_read import read_tables

if TYPE_CHECKING:
    from pathlib import Path

SHOP = {
    "customers.csv": "customerID,companyName,city\nALF,Alfreds,Berlin\nANA,Ana Trujillo,México\n",
    "employees.csv": (
        "id,firstName,lastName,birthDate,reportsTo\n"
        "1,Nancy,Davolio,1948-12-08 00:00:00.000,2\n2,Andrew,Fuller,1952-02-19 00:00:00.000,NULL\n"
    ),
    "products.csv": (
        "productID,productName,unitPrice,discontinued\n1,Chai,18.00,0\n2,Chang,19.50,1\n"
    ),
    "orders.csv": (
        "orderID,customerID,employee_id,orderDate,shipCity\n"
        "10248,ALF,1,1996-07-04T10:30:00,Berlin\n10249,ANA,2,1996-07-05T09:00:00,México\n"
        "10250,ALF,1,1996-07-08T00:00:00,Berlin\n"
    ),
    "order-details.csv": "orderID,productID,quantity\n10248,1,12\n10248,2,10\n10250,2,3\n",
}


def test_tables_with_short_names_for_columns_are_linked(tmp_path: Path) -> None:
    school = read_tables(
        tmp_path,
        {
            "Student.csv": "StuID,LName,Fname,Sex,Advisor\n"
            "7,Ek,Ann,F,31\n8,Ek,Bo,M,31\n9,Dal,Cy,M,32\n",
            "Faculty.csv": "FacID,Lname,Fname,Room\n31,Moe,Di,4\n32,Ros,Ed,5\n",
            "Pets.csv": "PetID,PetType\n1,cat\n2,dog\n3,cat\n4,dog\n",
            "Has_Pet.csv": "StuID,PetID\n7,1\n7,2\n8,3\n9,4\n",
            "car_names.csv": "MakeId,Make\n1,lada niva\n2,lada samara\n3,fiat uno\n",
            "cars_data.csv": "Id,mpg\n1,20\n2,30\n3,30\n",
        },
    )
    assert ("Ann Ek", "Di Moe") in school.triples("advisor")
    assert ("Bo Ek", "Pet 3") in school.triples("pet")
    assert ("lada niva", "Car 1") in school.triples("make")
    assert school.properties("Pet/2") == {"PetID": 2, "PetType": "dog"}
    assert school.properties("Student/7")["Sex"] == "F"


def test_abbreviations_of_tables_and_words_are_read(tmp_path: Path) -> None:
    files = {
        "boats.csv": "bt_no,bt_nm,bought\nB1,Heron,2001\nB2,Teal,2003\n",
        "sailors.csv": "slr_id,full_nm,recruited_by\n1,Ada Byng,\n2,Ole Dahl,1\n3,Per Lie,1\n",
        "trips.csv": "trip_id,bt,slr,dt_out\n1,B1,1,2020-01-02\n2,B1,2,2020-03-04\n",
    }
    read = read_tables(tmp_path, files)
    assert read.names("Boat") == {"Heron", "Teal"}
    assert read.triples("boat") == {("Trip 1", "Heron"), ("Trip 2", "Heron")}
    assert read.triples("sailor") == {("Trip 1", "Ada Byng"), ("Trip 2", "Ole Dahl")}
    assert read.triples("recruited by") == {("Ole Dahl", "Ada Byng"), ("Per Lie", "Ada Byng")}


def test_prices_of_one_currency_are_numbers(tmp_path: Path) -> None:
    files = {"items.csv": 'id,name,price,abroad\n1,Pen,"$1,200.50",$3\n2,Ink,$3.00,€4\n3,Pad,,\n'}
    read = read_tables(tmp_path, files)
    assert read.properties("Item/1")["price"] == 1200.5
    assert read.properties("Item/1")["abroad"] == "$3"  # not to be compared with €4
    assert read.mapping.read_text("utf-8").count('unit = "$"') == 1


def test_keys_links_types_and_names_are_found(tmp_path: Path) -> None:
    shop = read_tables(tmp_path, SHOP)
    assert shop.names("Employee") == {"Nancy Davolio", "Andrew Fuller"}
    assert shop.names("Order") == {"Order 10248", "Order 10249", "Order 10250"}
    assert shop.names("City") == {"Berlin", "México"}
    assert ("Order 10249", "Ana Trujillo") in shop.triples("customer")
    assert ("Order 10250", "Nancy Davolio") in shop.triples("employee")
    assert shop.triples("reports to") == {("Nancy Davolio", "Andrew Fuller")}
    assert shop.properties("Product/2") == {
        "productID": 2,
        "productName": "Chang",
        "unitPrice": 19.5,
        "discontinued": True,
    }
    assert shop.properties("Employee/1")["birthDate"] == "1948-12-08"
    assert shop.properties("Order/10248")["orderDate"] == "1996-07-04T10:30:00"
    assert "unitPrice" in shop.walked
    assert not shop.walked & {"productID", "productName"}
    assert not shop.rejects()


def test_what_a_column_is_called_after_goes_before_what_it_may_be(tmp_path: Path) -> None:
    tables = {
        "doctors.csv": "id,name,blood_type\n1,Ada,O-\n2,Bo,A+\n3,Cy,O-\n",
        "departments.csv": "id,name,head_doctor_id\n1,North,2\n2,South,1\n3,West,3\n",
        "diagnoses.csv": "id,name,kind\n1,Flu,viral\n2,Gout,metabolic\n3,Mumps,viral\n",
    }
    read = read_tables(tmp_path, tables)
    assert ("North", "Bo") in read.triples("head doctor")
    assert read.properties("Doctor/1")["blood_type"] == "O-"
    assert read.names("Diagnosis") == {"Flu", "Gout", "Mumps"}


def test_people_are_called_by_forename_and_surname(tmp_path: Path) -> None:
    drivers = {
        "drivers.csv": "driverId,code,forename,surname\n1,HAM,Lewis,Hamilton\n2,SAI,Carlos,Sainz\n"
    }
    assert read_tables(tmp_path, drivers).names("Driver") == {"Lewis Hamilton", "Carlos Sainz"}


def test_a_name_of_one_word_beside_a_surname_is_the_first_name(tmp_path: Path) -> None:
    text = "id,surname,name\n1,Hale,Todd\n2,Hale,Bea\n3,Orr,Todd\n"
    read = read_tables(tmp_path, {"persons.csv": text})
    assert read.names("Person") == {"Todd Hale", "Bea Hale", "Todd Orr"}
    text = "id,surname,name\n1,Hale,Todd Hale\n2,Hale,Bea Hale\n3,Orr,Todd Orr\n"
    read = read_tables(tmp_path, {"people.csv": text})
    assert read.names("Person") == {"Todd Hale", "Bea Hale", "Todd Orr"}


def test_rows_are_called_by_the_column_that_begins_with_their_noun(tmp_path: Path) -> None:
    songs = "".join(
        f"Song {n % 18},Band {n % 4},Song {n % 18} by Band {n % 4},http://x/{n}\n"
        for n in range(19)
    )
    heroes = "".join(f"u{n},Hero {n % 18},{n}\n" for n in range(19))
    read = read_tables(
        tmp_path,
        {
            "song-list.csv": f"Song Clean,Artist,Combined,song url\n{songs}",
            "hero.csv": f"URL,Name/Alias,Year\n{heroes}",
        },
    )
    assert read.names("Song") == {f"Song {n}" for n in range(18)}
    assert read.names("Hero") == {f"Hero {n}" for n in range(18)}


def test_rows_without_a_name_are_called_by_the_people_in_them(tmp_path: Path) -> None:
    people = ["Ann Lee", "Bo Berg", "Cy Dale", "Di Ford", "Ed Gray", "Bo Berg"]
    rows = "".join(f"Post {n % 3},{name},{n}\n" for n, name in enumerate(people))
    slugs = "".join(
        f"{name.lower().replace(' ', '-')}-{n},{name}\n" for n, name in enumerate(people)
    )
    read = read_tables(tmp_path, {"draft.csv": f"ID,Player\n{slugs}"})
    assert read.names("Draft") == {*people}
    read = read_tables(
        tmp_path,
        {"turnover.csv": f"post,holder,day\n{rows}", "visit.csv": f"ward,doctor,day\n{rows}"},
    )
    assert read.names("Turnover") == {*people}
    assert read.names("Visit") == {f"Visit {n}" for n in range(2, 8)}  # a doctor is no visit


@pytest.mark.parametrize("header", ["customerName", "notes"])
def test_a_customer_is_not_called_by_its_contact(tmp_path: Path, header: str) -> None:
    text = (
        f"customerNumber,{header},contactFirstName,contactLastName,jobTitle\n"
        "1,Norr Gifts,Todd,Hale,Sales\n2,Toys & Co,Bea,Orr,Sales\n"
    )
    names = {"customerName": {"Norr Gifts", "Toys & Co"}, "notes": {"Todd Hale", "Bea Orr"}}
    assert read_tables(tmp_path, {"customers.csv": text}).names("Customer") == names[header]


def test_ids_of_a_role_are_of_the_one_table_of_people(tmp_path: Path) -> None:
    shops = {
        "employees.csv": SHOP["employees.csv"],
        "shops.csv": "id,name,seller_id,colour_id\n1,North,1,1\n2,South,2,2\n3,West,2,2\n",
    }
    read = read_tables(tmp_path, shops)
    assert ("South", "Andrew Fuller") in read.triples("seller")
    assert read.names("Colour") == {"Colour 1", "Colour 2"}
    guides = {"guides.csv": shops["employees.csv"], "staff.csv": shops["employees.csv"]}
    (tmp_path / "two").mkdir()
    two = read_tables(tmp_path / "two", {**shops, **guides})
    assert two.names("Seller") == {"Seller 1", "Seller 2"}


def test_the_head_of_a_department_is_one_of_its_people_though_some_ids_are_of_both(
    tmp_path: Path,
) -> None:
    clinic = {
        "department.csv": "DepartmentID,Name,Head\n1,Surgery,2\n2,Skin,4\n",
        "physician.csv": "EmployeeID,Name\n1,Ann\n2,Bob\n3,Cem\n4,Dov\n",
    }
    assert read_tables(tmp_path, clinic).triples("head") == {("Surgery", "Bob"), ("Skin", "Dov")}


def test_ids_are_of_the_table_whose_key_is_called_so_and_pairs_are_of_one_table(
    tmp_path: Path,
) -> None:
    college = {
        "course.csv": "course_id,title,dept_id\n1,Optics,7\n2,Waves,7\n3,Harmony,8\n",
        "department.csv": "dept_id,dept_name\n7,Physics\n8,Music\n",
        "prereq.csv": "course_id,prereq_id\n1,2\n3,2\n",
    }
    read = read_tables(tmp_path, college)
    assert ("Harmony", "Music") in read.triples("department")
    assert read.triples("prereq") == {("Optics", "Waves"), ("Harmony", "Waves")}


def test_a_key_called_after_another_table_points_there(tmp_path: Path) -> None:
    shop = read_tables(
        tmp_path,
        {
            "song.csv": "song_id,title,evolves_from_id\n1,Low Tide,\n2,Ebb,1\n3,Flow,1\n",
            "singer.csv": "singer_id,name\n5,Ann Lee\n6,Bo Ray\n",
            "mood.csv": "mood_id,name\n1,Calm\n2,Wild\n",
            "song_mood.csv": "song_id,mood_id\n1,1\n2,2\n3,1\n",  # each song once
            "song_singer.csv": "singer_id,song_id\n5,1\n5,2\n6,2\n",
        },
    )
    assert ("Low Tide", "Calm") in shop.triples("mood")
    assert ("Ann Lee", "Ebb") in shop.triples("song")
    assert ("Ebb", "Low Tide") in shop.triples("evolves from")


def test_a_table_of_two_links_is_edges_with_properties_that_know_their_row(tmp_path: Path) -> None:
    shop = read_tables(tmp_path, SHOP)
    found = {(head, tail): about for head, said, tail, about in shop.edges if said == "product"}
    assert found["Order/10248", "Product/2"] == {
        "quantity": 10,
        "_file": "order-details.csv",
        "_row": 3,
    }
    assert len(found) == 3


@pytest.mark.parametrize("header", ["source,target", "subject,object", "node1,node2"])
def test_rows_that_have_the_two_ends_of_an_edge_are_edges(tmp_path: Path, header: str) -> None:
    read = read_tables(
        tmp_path,
        {
            "trees.csv": "id,name\n1,Ash\n2,Birch\n3,Cedar\n4,Dogwood\n",
            "pairs.csv": f"{header},distance\n1,2,10\n2,3,20\n1,4,15\n3,4,5\n",
        },
    )
    edges = {(head, tail, about["distance"]) for head, _, tail, about in read.edges}
    assert edges == {
        ("Tree/1", "Tree/2", 10),
        ("Tree/2", "Tree/3", 20),
        ("Tree/1", "Tree/4", 15),
        ("Tree/3", "Tree/4", 5),
    }


def test_lists_classes_and_codes(tmp_path: Path) -> None:
    films = read_tables(
        tmp_path,
        {
            "films.csv": (
                "title,kind,genre,zip\nHeat,feature,crime; thriller,01581\n"
                "Up,animation,family,90210\nBig,feature,comedy; family,00501\n"
                "Jaws,feature,thriller,10001\n"
            )
        },
    )
    assert films.triples("genre") >= {("Heat", "crime"), ("Heat", "thriller"), ("Big", "family")}
    assert films.entities["Film/Up"]["types"] == ["Film", "animation"]
    assert films.properties("Film/Heat")["zip"] == "01581"


def test_ids_of_things_without_a_table_are_things(tmp_path: Path) -> None:
    read = read_tables(
        tmp_path,
        {
            "movies.csv": "movieId,title,genres\n1,Heat,Action|Crime\n2,Up,Family|Comedy\n",
            "ratings.csv": "userId,movieId,rating\n1,1,4.0\n1,2,3.5\n2,1,5.0\n",
        },
    )
    assert read.triples("rating") == {("User 1", "Heat"), ("User 1", "Up"), ("User 2", "Heat")}
    assert {about["rating"] for *_, about in read.edges if "rating" in about} == {4.0, 3.5, 5.0}
    assert ("Heat", "Crime") in read.triples("genres")
    assert read.names("Movie") == {"Heat", "Up"}


def test_a_mapping_can_be_edited_and_given_back(tmp_path: Path) -> None:
    first = read_tables(tmp_path, SHOP)
    text = first.mapping.read_text("utf-8")
    edited = tmp_path / "edited.toml"
    edited.write_text(text, "utf-8")
    assert read_tables(tmp_path, SHOP, mapping=edited).entities == first.entities
    edited.write_text(
        text.replace('relation = "customer"', 'relation = "placed by"').replace(
            'unitPrice = { property = "unitPrice", type = "float" }', "unitPrice = { skip = true }"
        ),
        "utf-8",
    )
    second = read_tables(tmp_path, SHOP, mapping=edited)
    assert ("Order 10249", "Ana Trujillo") in second.triples("placed by")
    assert "unitPrice" not in second.properties("Product/1")
    edited.write_text(text.replace('to = "employees.id"', 'to = "staff.id"'), "utf-8")
    with pytest.raises(UsageError, match=r"points to staff\.id, which is not there"):
        read_tables(tmp_path, SHOP, mapping=edited)
    edited.write_text("[orders]\nkeys = ['x']\n", "utf-8")
    with pytest.raises(UsageError, match=r"does not fit at orders\.keys"):
        read_tables(tmp_path, SHOP, mapping=edited)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('boss = { relation = "boss", to = "people.nope" }', "points to people.nope"),
        ('boss = { relation = "boss", to = "teams.id" }', "points to teams.id"),
        ('boss = { relation = "boss", to = "../x.id" }', "points to ../x.id"),
        ('boss = { relation = "boss" }', "does not say what people.boss points to"),
        ('boss = { relation = "b", to = "people.id", thing = "T" }', "say what people.boss"),
        ('boss = { to = "people.id" }', "does not say how people.boss is related"),
        ("boss = { relation = 5 }", "does not fit at people.columns.boss.relation"),
        ("boss = { skip = [] }", "does not fit at people.columns.boss.skip"),
    ],
)
def test_a_mapping_that_would_lose_a_column_is_refused(
    tmp_path: Path, given: str, said: str
) -> None:
    mapping = tmp_path / "m.toml"
    table = '[people]\ntype = "Person"\nkey = ["id"]\n'
    mapping.write_text(f"{table}[people.columns]\n{given}\n")
    with pytest.raises(UsageError, match=re.escape(said)):
        read_tables(tmp_path, {"people.csv": "id,boss\n1,2\n2,\n"}, mapping=mapping)


@pytest.mark.parametrize(
    ("edge", "said"),
    [
        ('{ head = "a", tail = "b" }', "not of which relation"),
        ('{ relation = "r", head = "a", tail = "b" }', "does not say what links.a points to"),
        ('{ relation = "r", head = "a", tail = "x" }', "names the column 'x'"),
    ],
)
def test_rows_that_are_edges_have_ends_and_a_relation(tmp_path: Path, edge: str, said: str) -> None:
    mapping = tmp_path / "m.toml"
    mapping.write_text(f"[links]\nedge = {edge}\n")
    with pytest.raises(UsageError, match=re.escape(said)):
        read_tables(tmp_path, {"links.csv": "a,b\n1,2\n"}, mapping=mapping)


def test_a_column_of_which_a_mapping_says_nothing_is_reported(tmp_path: Path) -> None:
    mapping = tmp_path / "m.toml"
    mapping.write_text('[people]\ntype = "Person"\nkey = ["id"]\n')
    read = read_tables(tmp_path, {"people.csv": "id,town\n1,Rome\n"}, mapping=mapping)
    assert read.report.dropped == {"column": 1}
    assert read.report.examples["column"] == "town of people.csv"


def test_a_column_that_no_table_has_is_reported(tmp_path: Path) -> None:
    first = read_tables(tmp_path, SHOP)
    edited = tmp_path / "edited.toml"
    text = first.mapping.read_text("utf-8")
    edited.write_text(text.replace("unitPrice = {", "unitPrize = {"), "utf-8")
    with pytest.raises(UsageError, match=r"edited\.toml names columns .* lacks: unitPrize"):
        read_tables(tmp_path, SHOP, mapping=edited)


def test_the_key_is_the_column_that_others_point_to(tmp_path: Path) -> None:
    read = read_tables(
        tmp_path,
        {
            "carriers.csv": "carrier,name\nSK,Skylark\nPE,Petrel\n",
            "planes.csv": "tailnum,model\n" + "".join(f"N{n},M{n % 2}\n" for n in range(17)),
            "flights.csv": "flight,carrier,tailnum\n"
            + "".join(f"{n},{'SK' if n % 2 else 'PE'},N{n}\n" for n in range(20)),
        },
    )
    assert ("Flight 1", "Skylark") in read.triples("carrier")
    assert len(read.triples("tailnum") | read.triples("plane")) == 17
    dangling = [reason for reason in read.report.reasons if "no planes has the tailnum" in reason]
    assert len(dangling) == 3


def test_first_and_last_names_join_under_any_headers(tmp_path: Path) -> None:
    for first, last in (("nameFirst", "nameLast"), ("given_name", "surname"), ("fname", "lname")):
        text = f"id,title,{first},{last}\n1,Agent,Yorik,Cesp\n2,Agent,Bram,Tell\n"
        assert read_tables(tmp_path, {"people.csv": text}).names("Person") == {
            "Yorik Cesp",
            "Bram Tell",
        }


def test_headers_of_neo4j_admin_are_obeyed(tmp_path: Path) -> None:
    graph = read_tables(
        tmp_path,
        {
            "people.csv": (
                "personId:ID(Person),name,born:int,tags:string[],:LABEL\n"
                "p1,Keanu Reeves,1964,a;b,Person;Actor\np2,Carrie-Anne Moss,1967,,Person\n"
            ),
            "movies.csv": "id:ID(Movie),title,:LABEL\nm1,The Matrix,Movie\n",
            "roles.csv": (
                ":START_ID(Person),roles,:END_ID(Movie),:TYPE\n"
                "p1,Neo,m1,ACTED_IN\np2,Trinity,m1,ACTED_IN\np9,Nobody,m1,ACTED_IN\n"
            ),
        },
    )
    assert graph.entities["Person/p1"]["types"] == ["Person", "Actor"]
    assert graph.properties("Person/p1") == {
        "personId": "p1",
        "name": "Keanu Reeves",
        "born": 1964,
        "tags": ["a", "b"],
    }
    assert graph.triples("ACTED_IN") == {
        ("Keanu Reeves", "The Matrix"),
        ("Carrie-Anne Moss", "The Matrix"),
    }
    assert {about["roles"] for *_, about in graph.edges} == {"Neo", "Trinity"}
    [reject] = graph.rejects()
    assert (reject[0], reject[1]) == ("roles.csv", "4")
    assert "'p9'" in reject[2]


def test_headers_of_neo4j_admin_are_obeyed_where_a_relation_joins_things_of_one_table(
    tmp_path: Path,
) -> None:
    graph = read_tables(
        tmp_path,
        {
            "people.csv": ":ID,:LABEL,name:string,born:int\nP1,Person,Ann,1970\nP2,Person,Bo,\n",
            "firms.csv": ":ID,:LABEL,name:string\nF1,Firm,Acme\nF2,Firm,Bolt\n",
            "children.csv": ":START_ID,:END_ID,:TYPE\nP1,P2,HAS_CHILD\n",
            "owners.csv": ":START_ID,:END_ID,:TYPE\nF1,F2,OWNS\n",
        },
    )
    assert graph.names("Person") == {"Ann", "Bo"}
    assert graph.names("Firm") == {"Acme", "Bolt"}
    assert graph.triples("HAS_CHILD") == {("Ann", "Bo")}
    assert graph.triples("OWNS") == {("Acme", "Bolt")}
    assert graph.properties("P1")["born"] == 1970


def test_tables_of_labels_and_of_relations_as_graph_databases_export_them(tmp_path: Path) -> None:
    graph = read_tables(
        tmp_path,
        {
            "CITY.csv": "CITY,POPULATION\nParis,2100000\nLyon,520000\nRome,2800000\n",
            "COUNTRY.csv": "COUNTRY,CODE\nFrance,FR\nItaly,IT\n",
            "LOCATED_IN.csv": "CITY,COUNTRY\nParis,France\nLyon,France\nRome,Italy\nOslo,Norway\n",
        },
    )
    assert graph.triples("located in") == {
        ("Paris", "France"),
        ("Lyon", "France"),
        ("Rome", "Italy"),
    }
    assert {reject[2] for reject in graph.rejects()} == {
        "no CITY has the CITY 'Oslo'",
        "no COUNTRY has the COUNTRY 'Norway'",
    }


def test_parquet_and_sqlite_say_the_same_as_delimited_text(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    text = {
        "towns.csv": "town_id,name,founded\n1,York,1900-01-02\n2,Bath,1910-03-04\n",
        "people.csv": "person_id,name,town_id\n7,Ann Lee,1\n8,Bob Ray,2\n",
    }
    plain = read_tables(tmp_path, text)
    for name, cells in text.items():
        rows = list(csv.DictReader(io.StringIO(cells)))
        columns = {key: [row[key] for row in rows] for key in rows[0]}
        typed = {
            key: pa.array(values).cast(pa.int64()) if key.endswith("_id") else pa.array(values)
            for key, values in columns.items()
        }
        parquet.write_table(pa.table(typed), tmp_path / "a" / name.replace("csv", "parquet"))
    columnar = read_tables(tmp_path, [tmp_path / "a"])
    with closing(sqlite3.connect(tmp_path / "towns.db")) as base, base:
        base.execute("CREATE TABLE towns (town_id INTEGER PRIMARY KEY, name TEXT, founded TEXT)")
        base.execute(
            "CREATE TABLE people (person_id INTEGER PRIMARY KEY, name TEXT,"
            " town_id INTEGER REFERENCES towns(town_id))"
        )
        base.execute(
            "INSERT INTO towns VALUES (1, 'York', '1900-01-02'), (2, 'Bath', '1910-03-04')"
        )
        base.execute("INSERT INTO people VALUES (7, 'Ann Lee', 1), (8, 'Bob Ray', 2)")
    stored = read_tables(tmp_path, [tmp_path / "towns.db"])
    assert plain.triples("town") == {("Ann Lee", "York"), ("Bob Ray", "Bath")}
    for other in (columnar, stored):
        assert other.triples("town") == plain.triples("town")
        assert other.properties("Town/1") == plain.properties("Town/1")


def test_a_key_twice_or_missing_is_rejected_by_its_row(tmp_path: Path) -> None:
    rows = "".join(f"{n},Name {n}\n" for n in range(1, 41))
    mapping = tmp_path / "m.toml"
    mapping.write_text('[people]\ntype = "Person"\nkey = ["id"]\nname = ["name"]\n')
    read = read_tables(
        tmp_path, {"people.csv": f"id,name\n{rows}7,Again\n,Nobody\n"}, mapping=mapping
    )
    assert len(read.entities) == 40
    assert [(row[1], row[2]) for row in read.rejects()] == [
        ("43", "no id"),
        ("42", "the id of row 8 again"),
    ]


@pytest.mark.parametrize(
    "files",
    [
        {"facts.csv": "subject,predicate,object\na,b,c\n"},
        {"facts.tsv": "Ada\tborn in\tLondon\nBob\tborn in\tParis\n"},
        {"facts.nt": "<a> <b> <c> .\n"},
    ],
)
def test_triples_name_their_loader(tmp_path: Path, files: dict[str, str]) -> None:
    with pytest.raises(DumpMalformedError, match="kgqa ingest triples"):
        read_tables(tmp_path, files)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.csv": ""}, "is empty"),
        ({"a.csv": "1,2,3\n4,5,6\n"}, "in place of the columns' names"),
        ({"a.csv": "a,b\n"}, "a row"),
    ],
)
def test_what_is_not_a_table_is_an_error(tmp_path: Path, files: dict[str, str], said: str) -> None:
    with pytest.raises(DumpMalformedError, match=said):
        read_tables(tmp_path, files)


CELLS = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters='"'), max_size=6)
NAMES = st.lists(
    st.sampled_from(["id", "name", "city", "team_id", "kind", "born", "note"]),
    min_size=2,
    unique=True,
)


@given(
    NAMES.flatmap(
        lambda names: st.tuples(
            st.just(names), st.lists(st.tuples(*[CELLS] * len(names)), min_size=1, max_size=12)
        )
    )
)
def test_every_row_is_an_entity_an_edge_or_a_named_reject(
    tmp_path_factory: pytest.TempPathFactory, table: tuple[list[str], list[tuple[str, ...]]]
) -> None:
    names, rows = table
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([names, *rows])
    folder = tmp_path_factory.mktemp("law")
    try:
        read = read_tables(folder, {"players.csv": text.getvalue()})
    except DumpMalformedError:
        return  # a table without a filled cell
    own = [row for row in read.entities.values() if "_row" in (row["properties"] or "")]
    rejected = {row[1] for row in read.rejects()}
    assert len(own) + len(rejected) >= len(rows)
    assert read.report.lines == len(rows)


def test_a_data_dictionary_is_left_out_and_said(tmp_path: Path) -> None:
    files = {
        "people.csv": "id,name,height,salary\n1,Ann,170,10\n2,Bob,180,20\n3,Cid,190,30\n",
        "columns.csv": "table,column,unit\npeople,height,cm\npeople,salary,EUR\npeople,name,\n",
    }
    read = read_tables(tmp_path, files)
    assert {row["name"] for row in read.entities.values()} == {"Ann", "Bob", "Cid"}
    reason = "row of a table that describes the columns of the others"
    assert (read.report.dropped[reason], read.report.examples[reason]) == (3, "columns.csv")


def test_a_year_that_is_called_an_id_is_a_number(tmp_path: Path) -> None:
    text = "team,yearID,wins\nNYA,1920,95\nNYA,1921,98\nBOS,1921,75\n"
    read = read_tables(tmp_path, {"seasons.csv": text})
    assert not read.names("Year")
    assert {read.properties(id_)["year"] for id_ in read.entities if "Season" in id_} == {
        1920,
        1921,
    }


def test_signs_of_measured_values_are_no_relations(tmp_path: Path) -> None:
    files = {
        "isotopes.csv": "id,name\n1,H-3\n2,He-6\n3,Li-8\n",
        "modes.csv": "id,isotope_id,mode_id,relation\n1,1,2,=\n2,2,3,<\n3,3,1,=\n4,2,2,~\n",
    }
    read = read_tables(tmp_path, files)
    assert not {relation for _, relation, _, _ in read.edges} & {"=", "<", "~"}
    assert read.report.rejected == 0


def test_the_key_is_the_text_that_others_point_to_by_another_name(tmp_path: Path) -> None:
    read = read_tables(
        tmp_path,
        {
            "airports.csv": "faa,name\nAAA,Alder\nBBB,Birch\nCCC,Cedar\n",
            "trips.csv": "no,origin\n1,AAA\n2,BBB\n3,AAA\n4,CCC\n",
        },
    )
    assert ("Trip 1", "Alder") in read.triples("origin")


def test_codes_point_to_their_table_where_each_is_used_once(tmp_path: Path) -> None:
    read = read_tables(
        tmp_path,
        {
            "fields.csv": "icao,name\nEX01,Marsh Field\nEX02,High Moor\n",
            "hops.csv": "hop_id,dep\n1,EX01\n2,EX02\n",
        },
    )
    assert ("Hop 1", "Marsh Field") in read.triples("departure")


def test_years_before_and_after_the_year_1_are_numbers(tmp_path: Path) -> None:
    text = "name,year\nHill,44 BC\nFord,218 B.C.\nGate,AD 9\nPass,451\n"
    read = read_tables(tmp_path, {"battles.csv": text})
    assert {read.properties(id_)["year"] for id_ in read.entities} == {-44, -218, 9, 451}


def test_ids_that_are_no_key_of_their_table_are_not_of_its_type(tmp_path: Path) -> None:
    read = read_tables(
        tmp_path,
        {
            "teams.csv": "yearID,teamID,name\n2000,HAL,Herons\n2001,HAL,Herons\n2000,ORS,Owls\n",
            "batting.csv": "playerID,yearID,teamID\nc1,2000,HAL\nc1,2001,HAL\nt1,2000,ORS\n",
        },
    )
    types = [each["types"] for each in read.entities.values()]
    assert types.count(["Team"]) == 3
    assert types.count(["TeamId"]) == 2


def test_things_are_called_by_the_label_of_their_key(tmp_path: Path) -> None:
    """As the query services of Wikidata write tables."""
    at = "http://www.wikidata.org/entity"
    rows = f"{at}/Q1,Torv Museum,Norland\n{at}/Q2,Glass Hall,Sudland\n{at}/Q3,Depot,Norland\n"
    read = read_tables(tmp_path, {"query.csv": f"item,itemLabel,countryLabel\n{rows}"})
    assert read.names("Query") == {"Torv Museum", "Glass Hall", "Depot"}
    assert read.names("Country") == {"Norland", "Sudland"}


def test_eight_digits_are_a_date_where_the_column_says_so(tmp_path: Path) -> None:
    rows = "c1,20240131,20240131\nc2,20231224,20241324\n"
    read = read_tables(tmp_path, {"calendar.csv": f"calendar_id,start_date,end_date\n{rows}"})
    assert read.properties("Calendar/c1") == {
        "calendar_id": "c1",
        "start_date": "2024-01-31",
        "end_date": 20240131,
    }


def test_columns_of_one_kind_of_thing_share_their_things(tmp_path: Path) -> None:
    rows = "".join(
        f"{n},Quay,{'Mill' if n % 2 else 'Quay'},Ulm,{'Graz' if n % 2 else 'Ulm'}\n"
        for n in range(8)
    )
    head = "ride_id,pickup_zone,dropoff_zone,place_of_birth,place_of_death\n"
    read = read_tables(tmp_path, {"rides.csv": head + rows})
    assert read.names("Zone") == {"Quay", "Mill"}
    assert read.names("Place") == {"Ulm", "Graz"}
    assert ("Ride 1", "Mill") in read.triples("dropoff zone")


def test_ids_without_a_table_are_called_by_the_names_beside_them(tmp_path: Path) -> None:
    rows = "1,C1,Ann Lee,P-10,Lamp\n2,C2,Bob Ray,P-11,Desk\n3,C1,Ann Lee,P-10,Lamp\n"
    rows += "4,C3,Cid Voss,P-11,Desk\n"
    head = "order_id,customer_id,customer_name,product_code,product_name\n"
    read = read_tables(tmp_path, {"orders.csv": head + rows})
    assert read.names("Customer") == {"Ann Lee", "Bob Ray", "Cid Voss"}
    assert read.triples("product") >= {("Order 2", "Desk"), ("Order 3", "Lamp")}
    assert read.entities["Customer/C1"]["aliases"] == ["C1"]
    again = read_tables(tmp_path, {"orders.csv": head + rows}, mapping=read.mapping)
    assert again.entities == read.entities


def test_a_number_that_is_a_key_names_the_relation_by_its_table(tmp_path: Path) -> None:
    metals = "metal_number,name\n3,Ore\n5,Tin\n7,Zinc\n"
    grades = "grade_id,metal_number,level\n1,3,8\n2,3,9\n3,5,7\n4,7,6\n"
    read = read_tables(tmp_path, {"alloys.csv": metals, "grades.csv": grades})
    assert ("Grade 4", "Zinc") in read.triples("alloy")


def test_the_relation_of_a_table_of_edges_is_said_in_words_not_codes(tmp_path: Path) -> None:
    nodes = "id\tname\tcategory\nX:1\tAlra\tx:Gene\nX:2\tBent\tx:Gene\nX:3\tCole\tx:Gene\n"
    edges = "subject\tobject\tpredicate\trelation\n"
    edges += "X:1\tX:2\tx:acts_on\tRO:0024\nX:2\tX:3\tx:blocks\tRO:HOM07\n"
    read = read_tables(tmp_path, {"g_nodes.tsv": nodes, "g_edges.tsv": edges})
    assert read.triples("acts_on") == {("Alra", "Bent")}
    assert read.triples("blocks") == {("Bent", "Cole")}


def test_one_form_of_dates_holds_for_all_rows_of_a_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgqa.loaders.tabular_rows._SLICE", 2)  # the first two fit two forms
    rows = "1,01/04/2021\n2,02/04/2021\n3,25/12/2020\n"
    read = read_tables(tmp_path, {"loans.csv": f"id,due\n{rows}"})
    assert read.properties("Loan/1")["due"] == "2021-04-01"
    assert read.properties("Loan/3")["due"] == "2020-12-25"
    assert 'form = "%d/%m/%Y"' in read.mapping.read_text("utf-8")
    assert not read.rejects()


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["6/17/47", "3/29/51"], 'years of two digits ("6/17/47")'),
        (["03/04/2021", "05/06/2021"], '"%d/%m/%Y" or "%m/%d/%Y"'),
    ],
)
def test_dates_that_can_be_read_in_two_ways_stay_text_and_are_said(
    tmp_path: Path, cells: list[str], said: str
) -> None:
    text = "".join(f"{n},{cell}\n" for n, cell in enumerate(cells))
    read = read_tables(tmp_path, {"ships.csv": f"id,launched\n{text}"})
    assert read.properties("Ship/0")["launched"] == cells[0]
    assert any(said in note for note in read.notes)


def test_rows_are_called_by_words_not_by_numbers_that_are_their_key(tmp_path: Path) -> None:
    read = read_tables(
        tmp_path,
        {
            "buoy.csv": "buoy,position,depth\n001,Gull Rock,12\n002,Long Sand,30\n",
            "ward.csv": "ward,description\nW-7,Cardiology\nW-9,Surgery\n",
            "machine.csv": "machine,operator\nA-1,Ida Lorn\nB-2,Jon Arden\n",
            "station.csv": "code,station\nS1,Old Quay\nS2,Hartley\n",
            "line.csv": "line,from_station\nRed,S1\nBlue,S2\nGold,S1\n",
        },
    )
    assert read.names("Buoy") == {"Gull Rock", "Long Sand"}
    assert read.names("Ward") == {"Cardiology", "Surgery"}
    assert read.names("Machine") == {"A-1", "B-2"}
    assert ("Blue", "Hartley") in read.triples("from station")


@pytest.mark.parametrize(
    "rows",
    ["Otter,Weasels\nLynx,Cats\nCats,Beasts\n", "Otter,Weasels\nOtter,Swimmers\nLynx,Cats\n"],
)
def test_what_is_above_all_rows_is_of_their_kind(tmp_path: Path, rows: str) -> None:
    read = read_tables(tmp_path, {"taxon.csv": f"child,parent\n{rows}"})
    pairs = {tuple(row.split(",")) for row in rows.splitlines()}
    assert read.triples("parent") == pairs
    assert read.names("Taxon") == {name for pair in pairs for name in pair}
    assert len(read.entities) == len(read.names("Taxon"))


def test_edges_keep_their_columns_and_few_nodes_their_kinds(tmp_path: Path) -> None:
    read = read_tables(
        tmp_path,
        {
            "nodes.tsv": "id\tname\tkind\nG1\tSOX\tGene\nD1\tgout\tDisease\nC1\tZinc\tCompound\n",
            "edges.tsv": "source\trelation\ttarget\tevidence\tsince\nC1\ttreats\tD1\ttrial\t2010\n"
            "G1\tcauses\tD1\ttrial\t2012\n",
        },
    )
    assert read.entities["G1"]["types"] == ["Gene"]
    assert [(about["evidence"], about["since"]) for *_, about in read.edges] == [
        ("trial", 2010),
        ("trial", 2012),
    ]


def test_people_have_two_names_under_headers_of_other_languages(tmp_path: Path) -> None:
    read = read_tables(
        tmp_path, {"kunden.csv": "Kundennr;Vorname;Nachname;Ort\n1;Grete;Amsel;Ulm\n"}
    )
    assert {row["name"] for row in read.entities.values()} == {"Grete Amsel"}


def test_a_measure_called_as_its_table_is_no_key(tmp_path: Path) -> None:
    read = read_tables(tmp_path, {"scores.csv": "team,score\nFoxes,3\nHares,4\n"})
    assert read.names("Score") == {"Foxes", "Hares"}
    assert read.properties("Score/Hares")["score"] == 4


def test_edges_without_a_relation_join_the_numbers_of_a_list_of_nodes(tmp_path: Path) -> None:
    read = read_tables(
        tmp_path,
        {
            "nodes.csv": "Id,Label\n1,Ada\n2,Bea\n3,Cleo\n",
            "edges.csv": "Source,Target,Type,Weight\n1,2,Undirected,3\n2,3,Undirected,1\n",
        },
    )
    assert read.triples("edge") == {("Ada", "Bea"), ("Bea", "Cleo")}
    assert [about["Weight"] for *_, about in read.edges] == [3, 1]


def test_ids_of_the_same_table_are_links_by_its_name(tmp_path: Path) -> None:
    rows = "10;Engine;\n11;Piston;10\n12;Ring;11\n"
    read = read_tables(tmp_path, {"parts.csv": f"part_id;part_name;part_of_id\n{rows}"})
    assert read.triples("part of") == {("Piston", "Engine"), ("Ring", "Piston")}


def test_the_third_column_of_edges_is_their_relation_whatever_it_is_called(tmp_path: Path) -> None:
    read = read_tables(
        tmp_path,
        {
            "vertices.csv": "vid,vname\n1,Lord Eck\n2,Castle Rho\n3,Dame Ivy\n",
            "ties.csv": "vid_from,tie,vid_to\n1,rules,2\n3,visited,2\n3,married,1\n",
        },
    )
    assert read.triples("rules") == {("Lord Eck", "Castle Rho")}
    assert read.triples("married") == {("Dame Ivy", "Lord Eck")}


def test_a_table_of_many_columns_takes_no_more_for_each_of_them(
    load: Any, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []

    def never(*_: Any) -> Any:
        raise AssertionError("tried as a date")

    monkeypatch.setattr(tabular_values, "_days", never)
    for columns in (20, 200):
        called: list[str] = []

        def counted(name: str, called: list[str] = called) -> str:
            called.append(name)
            return relation_of(name)

        monkeypatch.setattr(tabular_infer, "relation_of", counted)
        rows = [[f"{row}{column:04}" for column in range(columns)] for row in "ab"]
        header = [f"c{column}_id" for column in range(columns)]
        load("tables", write("wide.csv", *(",".join(row) for row in (header, *rows))))
        counts.append(len(called))
    assert counts[1] < 20 * counts[0]


def test_numbers_that_are_keys_by_chance_are_no_links(tmp_path: Path) -> None:
    """A column called like another table, or like its last word, whose numbers are among its keys.

    The shares of males among species, ranks of attacks, and counts of what joins two kinds.
    """
    keys = "".join(f"{n},g{n}\n" for n in range(1, 9))
    read = read_tables(
        tmp_path,
        {
            "growth_rates.csv": f"id,name\n{keys}",
            "genes.csv": f"id,name\n{keys}",
            "types.csv": f"id,name\n{keys}",
            "warrior_archetypes.csv": "id,name\n" + "".join(f"{n},w{n}\n" for n in range(1, 12)),
            "species.csv": "id,name,gender_rate,growth_rate_id,archetype_id,binds - gene\n"
            + "".join(f"{n},s{n},{n},{n % 4 + 1},{n},{n * 3}\n" for n in range(1, 12)),
        },
    )
    assert read.properties("Species/3")["gender_rate"] == 3
    assert read.properties("Species/3")["binds - gene"] == 9
    assert ("s3", "g4") in read.triples("growth rate")
    assert ("s9", "w9") in read.triples("arche type")
    assert not read.rejects()


def test_numbers_of_one_name_link_where_most_are_there(tmp_path: Path) -> None:
    cars = "".join(f"{plate},c{plate}\n" for plate in range(100, 108))
    trips = "".join(f"{plate},{plate % 7}\n" for plate in range(100, 110)) * 2
    read = read_tables(
        tmp_path, {"cars.csv": f"plate,name\n{cars}", "trips.csv": f"plate,km\n{trips}"}
    )
    assert {car for _, car in read.triples("plate")} == {f"c{n}" for n in range(100, 108)}
    assert len(read.rejects()) == 4


def test_the_only_column_that_a_link_shortens_is_where_it_points(tmp_path: Path) -> None:
    read = read_tables(
        tmp_path,
        {
            "boat_species.csv": "id,name\n" + "".join(f"{n},sp{n}\n" for n in range(1, 9)),
            "parks.csv": "species_id,score\n" + "".join(f"{n},{n * 10}\n" for n in range(1, 7)),
            "boats.csv": "id,name,species_id\n"
            + "".join(f"{n},boat{n},{n}\n" for n in range(1, 9)),
        },
    )
    assert ("boat8", "sp8") in read.triples("species")


def test_identifiers_of_two_tables_are_no_link_by_their_header(tmp_path: Path) -> None:
    read = read_tables(
        tmp_path,
        {
            "moves.csv": "id,identifier\n1,sleep\n2,poison\n3,cut\n4,burn\n",
            "ailments.csv": "id,identifier\n1,sleep\n2,poison\n3,burn\n4,unknown\n",
        },
    )
    assert read.names("Ailment") == {"sleep", "poison", "burn", "unknown"}
    assert not read.rejects()


def test_what_a_row_is_a_subclass_of_is_another_row(tmp_path: Path) -> None:
    rows = "X:1,disease,\nX:2,fever,disease\nX:3,flu,fever\nX:3,flu,disease\nX:4,gout,disease\n"
    rows += "".join(f"X:{n},gout {n},gout\n" for n in range(5, 11))
    read = read_tables(tmp_path, {"illness.csv": "id,label,subClassOf\n" + rows})
    assert {("flu", "fever"), ("fever", "disease")} <= read.triples("sub class of")
    assert {row["types"][0] for row in read.entities.values()} == {"Illness"}

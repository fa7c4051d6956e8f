"""Plain triples as classes and properties: what plans over them give."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import kgqa
from kgqa.errors import PlanError
from kgqa.queries.implicit_classes import queryable

if TYPE_CHECKING:
    from pathlib import Path

COUNTRIES = {"Alba": ("Alton", 900, 7), "Brea": ("Brill", 400, 9), "Cora": ("Cole", 100, 2),
             "Dara": ("Dun", 50, 30)}  # fmt: skip
TRIPLES = [
    *((name, "capital", town) for name, (town, *_) in COUNTRIES.items()),
    *((town, "located in", name) for name, (town, *_) in COUNTRIES.items()),
    *((name, "population", str(people)) for name, (_, people, _) in COUNTRIES.items()),
    *((name, "area", f"{area} km²") for name, (_, _, area) in COUNTRIES.items()),
    *((town, "population", "11") for town, *_ in COUNTRIES.values()),
    ("Westham", "located in", "Alba"), ("Westham", "population", "950"),
    ("Alba", "borders", "Brea"), ("Brea", "borders", "Alba"), ("Brea", "borders", "Cora"),
    ("Cora", "borders", "Brea"),
    ("Lee", "length", "70 km"), ("Mole", "length", "120 km"), ("Nene", "length", "9 km"),
    ("Ouse", "length", "33 km"),
    ("Lee", "flows through", "Alba"), ("Mole", "flows through", "Alba"),
    ("Mole", "flows through", "Brea"), ("Nene", "flows through", "Cora"),
    ("Ouse", "flows through", "Brea"),
    ("Alba", "record low", "-26.1"), ("Brea", "record low", "-16"), ("Cora", "record low", "3"),
    *((f"Fair {number}", "held on", f"{number} May 2024") for number in range(1, 6)),
    *((f"Fair {number}", "held at", "Westham") for number in range(1, 6)),
]  # fmt: skip


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> kgqa.KG:
    folder: Path = tmp_path_factory.mktemp("plain")
    return kgqa.ingest("triples", TRIPLES, kg="plain", home=folder)


def test_sets_of_heads_are_classes_and_quantities_are_properties(kg: kgqa.KG) -> None:
    found = {
        frozenset(property_.name for property_ in type_.properties): type_.count
        for type_ in kg.schema().types
    }
    assert found[frozenset({"population", "area", "record low"})] == 4
    assert found[frozenset({"population"})] == 5
    assert found[frozenset({"length"})] == 4
    kinds = {
        property_.name: property_.type
        for type_ in kg.schema().types
        for property_ in type_.properties
    }
    assert kinds["held on"] == "date"
    assert kinds["length"] == "integer"


def test_plans_over_the_classes_give_what_the_triples_say(kg: kgqa.KG) -> None:
    [river] = [type_.name for type_ in kg.schema().types if type_.count == 4 and type_.properties
               and type_.properties[0].name == "length"]  # fmt: skip
    found = kg.query(
        f"[{river}] | desc [{river}].length | limit 2 | give [{river}], [{river}].length"
    )
    assert [(row[0].name, row[1]) for row in found.rows] == [("Mole", 120), ("Lee", 70)]
    assert kg.query('* | *.[held on] > "2024-05-03" | give count *').value == 2
    assert kg.query('* <[flows through] *#2 | * = "Alba" | give average *#2.length').value == 95


def test_negative_numbers_are_values_in_order_of_value(kg: kgqa.KG) -> None:
    rows = kg.query("* | *.[record low] < 5 | asc *.[record low] | give *, *.[record low]").rows
    assert [(row[0].name, row[1]) for row in rows] == [("Alba", -26.1), ("Brea", -16), ("Cora", 3)]
    best = kg.ask("Which country has the lowest record low?").answers
    assert [one.name for one in best] == ["Alba"]


def test_a_class_that_is_no_label_is_never_in_cypher(kg: kgqa.KG) -> None:
    name = kg.schema().types[0].name
    assert not kg.query(f"[{name}] | give count [{name}]").cypher
    with pytest.raises(PlanError):
        kg.cypher(f"[{name}] | give count [{name}]")
    assert "MATCH" in kg.query("* borders> *#2 | give count *").cypher


def test_a_few_things_of_a_kind_are_not_the_classes_of_the_rest(tmp_path: Path) -> None:
    kinds = [("Lee", "kind", "brook"), ("Mole", "kind", "brook")]
    with kgqa.ingest("triples", [*TRIPLES, *kinds], kg="kinds", home=tmp_path) as kg:
        found = {
            frozenset(property_.name for property_ in type_.properties)
            for type_ in kg.schema().types
        }
        assert frozenset({"population", "area", "record low"}) in found
        assert kg.ask("How many brooks are there?").best.name == "2"


def test_a_graph_with_classes_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text("id,name,city\n1,One,Bonn\n2,Two,Bonn\n", "utf-8")
    with kgqa.ingest("tables", tmp_path / "shop.csv", kg="typed", home=tmp_path) as typed:
        assert queryable(typed.store) is typed.store  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("What is the longest river?", ["Mole"]),
        ("How many countries are there?", ["4"]),
        ("How many rivers flow through Alba?", ["2"]),
        ("Which countries have no river?", ["Dara"]),
        ("Which rivers are longer than 50?", ["Lee", "Mole"]),
        ("What is the average length of the rivers?", ["58"]),
    ],
)
def test_whole_graph_questions_are_answered_by_the_default_method(
    kg: kgqa.KG, question: str, answers: list[str]
) -> None:
    assert sorted(ranked.name for ranked in kg.ask(question).answers) == answers


SPANS = {  # type, river, place, length, designer, whether it is listed
    "Oak Bridge": ("Arch bridge", "Ash", "Ayton", 300, "Ann Lee", "yes"),
    "New Bridge": ("Beam bridge", "Ash", "Bly", 640, "Bo Hill", "no"),
    "Mill Bridge": ("Arch bridge", "Elm", "Cray", 420, "Ann Lee", "yes"),
    "King's Crossing": ("Truss bridge", "Elm", "Deal", 900, "Cy Nash", "no"),
    "Old Viaduct": ("Truss bridge", "Fir", "Ely", 150, "Cy Nash", "no"),
}
BRIDGES = [
    *((name, relation, str(value)) for name, values in SPANS.items() for relation, value in
      zip(("bridgeType", "crosses", "location", "length", "designer", "listed"), values,
          strict=True)),
    *((river, "country", "Norland") for river in ("Ash", "Elm", "Fir")),
    *((river, "length", str(length)) for river, length in (("Ash", 80), ("Elm", 95), ("Fir", 60))),
    *((place, "country", "Norland") for _, _, place, *_ in SPANS.values()),
    *((place, "population", str(1000 * at)) for at, (_, _, place, *_) in
      enumerate(SPANS.values(), 1)),
    ("Oak Bridge", "openingYear", "1890"), ("New Bridge", "openingYear", "1990"),
    ("Mill Bridge", "openingYear", "1850"), ("King's Crossing", "openingYear", "1940"),
    ("Old Viaduct", "openingYear", "1970"), ("Mill Bridge", "won award", "Golden Span"),
]  # fmt: skip


@pytest.fixture(scope="module")
def bridges(tmp_path_factory: pytest.TempPathFactory) -> kgqa.KG:
    return kgqa.ingest("triples", BRIDGES, kg="bridges", home=tmp_path_factory.mktemp("bridges"))


def test_what_shares_only_what_all_have_is_of_two_classes(bridges: kgqa.KG) -> None:
    owned = {
        frozenset(property_.name for property_ in type_.properties): type_.count
        for type_ in bridges.schema().types
    }
    assert (owned[frozenset({"length"})], owned[frozenset({"population"})]) == (3, 5)


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        # the type of a bridge type is not a bridge, though its names say so
        ("Which bridge is the longest?", ["King's Crossing"]),
        ("How many bridges cross the Ash?", ["2"]),
        ("How many bridges are not listed?", ["3"]),  # yes and no
        # of two bounds of one property one says nothing
        (
            "Which bridges are longer than 400 and were opened after 1900?",
            ["King's Crossing", "New Bridge"],
        ),
        # nobody asks for the designers of some bridge without one
        ("Which designers have never won an award?", ["Bo Hill", "Cy Nash"]),
        ("Which designers designed more than one bridge?", ["Ann Lee", "Cy Nash"]),
        ("What is the most common bridge type?", ["Arch bridge", "Truss bridge"]),
        ("List each bridge with its length.", sorted(SPANS)),  # no path from "Oak Bridge"
    ],
)
def test_classes_without_types_are_asked_by_their_names(
    bridges: kgqa.KG, question: str, answers: list[str]
) -> None:
    assert sorted(ranked.name for ranked in bridges.ask(question).answers) == answers


def test_one_thread_takes_no_view_of_another_away(kg: kgqa.KG, tmp_path: Path) -> None:
    """A server asks each KG in threads of its own, each with its own store."""
    mine = queryable(kg.store)
    others: list[object] = []

    def ask() -> None:
        with kgqa.open("other", home=tmp_path) as other:
            others.append(queryable(other.store))

    kgqa.ingest("triples", TRIPLES, kg="other", home=tmp_path).close()
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert others
    assert others[0] is not mine
    assert queryable(kg.store) is mine

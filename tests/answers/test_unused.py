"""A number or a date of a question that had no part in its answer is said, and makes it unsure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa
from kgqa.answers.unused import UNSURE, unused_names, unused_values
from kgqa.display import REFUSED
from kgqa.understanding.question import understood

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("question", "shown", "unused"),
    [
        ("What was held on 14 July?", "Fair -> held on -> 2023-07-13", ["14 July"]),
        ("What was held on July 13?", "Fair -> held on -> 2023-07-13", []),
        ("Who directed Apollo 13?", "Apollo 13 -> directed by -> Ron Howard", []),
        ("Who won in 1999 and 2001?", "x -> won -> 2001", ["1999"]),
        ("What costs 5,000 or more?", "Car -> price -> 5000", []),
        ("Is it 07:30?", "x -> at -> 7", []),
        ("Is it 26?", "x -> low -> -26", ["26"]),
        ("Is it -26?", "x -> low -> −26", []),
        ("Who made C4 and A-26?", "x", ["26"]),
        ("How many are there?", "x", []),
    ],
)
def test_values_that_nothing_shown_contains(question: str, shown: str, unused: list[str]) -> None:
    assert unused_values(question, shown) == unused


def test_an_answer_says_what_it_passes_over(tmp_path: Path) -> None:
    rows = [
        ("Fair", "held on", "2023-07-13"),
        ("Fair", "held in", "Town"),
        ("Fete", "held in", "X"),
    ]
    kg = kgqa.ingest("triples", rows, kg="fairs", home=tmp_path)
    plain = kg.ask("Where is the Fair held?", method="rank")
    assert (plain.best and plain.best.name, plain.notes) == ("Town", ())
    dated = kg.ask("Where is the Fair of 1987 held?", method="rank")
    assert dated.best is not None
    assert dated.notes == ('Not used for the answer: "1987".',)
    assert plain.confidence is not None
    assert dated.confidence is not None
    assert dated.confidence <= UNSURE < plain.confidence


def test_of_an_unknown_thing_nothing_is_said(tmp_path: Path) -> None:
    rows = [("Peru", "part of", "South America"), ("Peru", "capital", "Lima")]
    kg = kgqa.ingest("triples", rows, kg="places", home=tmp_path)
    for asked in ("Is Rio the capital of Peru?", "is Rio part of Peru"):
        answer = kg.ask(asked, method="rank")
        assert (answer.answers, answer.confidence) == ((), None)
        assert answer.notes == ('Not in this graph: no fact says this of "Rio".',)


def test_of_a_thing_that_is_there_it_is_not_said_that_it_is_not(tmp_path: Path) -> None:
    rows = [("Peru", "capital", "Lima"), ("Brazil", "city", "Rio de Janeiro")]
    kg = kgqa.ingest("triples", rows, kg="places", home=tmp_path)
    answer = kg.ask("Is Rio the capital of Peru?", entities=["Peru"], method="rank")
    assert answer.answers == ()
    assert answer.notes == ('Not in this graph: no fact says this of "Rio".',)


def test_a_name_that_had_no_part_makes_an_answer_unsure(tmp_path: Path) -> None:
    rows = [("Salt", "copies sold", "44"), ("Emma", "copies sold", "12")]
    kg = kgqa.ingest("triples", rows, kg="sales", home=tmp_path)
    answer = kg.ask("How many copies of Salt were sold in Oslo?", method="rank")
    assert answer.notes[-1] == 'Not used for the answer: "Oslo".'
    assert answer.confidence is not None
    assert answer.confidence <= UNSURE


def unused(question: str, shown: str) -> list[str]:
    """The names in a question that share no word with what an answer shows."""
    return unused_names(understood(question).names, shown)


def test_names_of_a_country_s_things_and_short_forms_are_taken() -> None:
    assert unused("Which Norwegian towns are there?", "Norway -> town -> Oslo") == []
    assert unused("Who is the CEO of Salt?", "Salt -> chief executive -> Bo") == []
    assert unused("Who sells Salt in January?", "Salt -> seller -> Bo") == []
    assert unused("Who sells Salt in Oslo?", "Salt -> seller -> Bo") == ["Oslo"]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> kgqa.KG:
    home = tmp_path_factory.mktemp("clinic")
    (home / "drugs.csv").write_text(
        "drug_id,drug,class,maker,prescribed\n"
        "10,Amoxicillin,antibiotic,Orly Labs,true\n"
        "11,Ibuprofen,analgesic,Tarn Works,false\n"
        "12,Warfarin,anticoagulant,Orly Labs,true\n"
    )
    return kgqa.ingest("tables", home / "drugs.csv", kg="clinic", home=home / "kgs")


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("Is Warfarin an anticoagulant?", ["yes"]),
        ("Is Warfarin made by Orly Labs?", ["yes"]),
        ("Is Warfarin prescribed?", ["yes"]),
        ("Is Ibuprofen prescribed?", ["no"]),
        ("Is Warfarin an antibiotic?", []),
        ("Is Ibuprofen made by Orly Labs?", []),
    ],
)
def test_what_asks_whether_is_answered_by_yes_or_not_at_all(
    clinic: kgqa.KG, question: str, answers: list[str]
) -> None:
    answer = clinic.ask(question)
    assert [one.name for one in answer.answers] == answers
    assert answers or any(note.startswith(REFUSED) for note in answer.notes)


@pytest.mark.parametrize("question", ["Which is the best drug?", "What is the largest drug?"])
def test_all_of_a_class_are_no_answer_to_a_superlative(clinic: kgqa.KG, question: str) -> None:
    answer = clinic.ask(question)
    assert not answer.answers
    assert answer.notes[-1].startswith("Not in this graph: nothing says which is the ")


def test_names_are_ordered_only_where_the_question_says_so(clinic: kgqa.KG) -> None:
    first = clinic.ask("Which drug is the first in alphabetical order?")
    assert first.best is not None
    assert first.best.name == "Amoxicillin"

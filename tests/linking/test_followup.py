"""What a question leaves to the ones before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kgqa.linking.followup import StandaloneQuestion, Turn, readings

if TYPE_CHECKING:
    from kgqa.graph.sqlite import SqliteStore

WIFE = Turn("Who is the wife of Barack Obama?", ("m.obama",), ("m.michelle",))
CAPITAL = Turn("What is the capital of Germany?", ("m.germany",), ("m.berlin_wall",))
FILMS = Turn("Which films has Will Smith made?", ("m.smith",), ("m.galaxy_film", "m.it"))


def read(store: SqliteStore, question: str, *turns: Turn) -> StandaloneQuestion:
    return readings(store, question, turns)[0]


@pytest.mark.parametrize(
    ("question", "turn", "meant", "entities"),
    [
        ("Where was she born?", WIFE, "Where was Michelle Obama born?", ("m.michelle",)),
        ("and her children?", WIFE, "Who is the children of Michelle Obama?", ("m.michelle",)),
        ("How large is it?", WIFE, "How large is Barack Obama?", ("m.obama",)),  # not the "who"
        ("What about Hugo Chávez?", WIFE, "Who is the wife of Hugo Chávez?", ("m.chavez",)),
        ("And New York?", CAPITAL, "What is the capital of New York?", ("m.ny",)),
        ("and the mayor?", CAPITAL, "What is the mayor of Berlin Wall?", ("m.berlin_wall",)),
        ("Who built that wall?", CAPITAL, "Who built Berlin Wall?", ("m.berlin_wall",)),
        ("Is it near Paris?", CAPITAL, "Is Berlin Wall near Paris?", ("m.berlin_wall", "m.paris")),
    ],
)
def test_what_is_left_out_is_filled_in(
    store: SqliteStore, question: str, turn: Turn, meant: str, entities: tuple[str, ...]
) -> None:
    one = read(store, question, turn)
    assert (one.question, one.entities) == (meant, entities)
    assert one.said


@pytest.mark.parametrize(
    "question",
    [
        "Who is Paris Hilton?",
        "Who directed The Lord of the Rings, and where was he born?",
        "How many films are there?",
        "Is there a film?",
    ],
)
def test_a_question_that_stands_alone_is_left_as_it_is(store: SqliteStore, question: str) -> None:
    assert readings(store, question, [WIFE]) == [StandaloneQuestion(question)]


def test_without_turns_nothing_is_filled_in(store: SqliteStore) -> None:
    assert readings(store, "Where was she born?", []) == [StandaloneQuestion("Where was she born?")]


def test_another_year(store: SqliteStore) -> None:
    turn = Turn("Who ran New York in 1999?", ("m.ny",), ("m.lewis",))
    assert read(store, "and in 2004?", turn).question == "Who ran New York in 2004?"


def test_which_of_them_keeps_the_answers_before(store: SqliteStore) -> None:
    one = read(store, "Which of these are about Paris?", FILMS)
    assert one.question == "which films are about Paris?"
    assert one.entities == ("m.paris",)
    assert one.among == {"m.galaxy_film", "m.it"}


def test_others_are_not_the_ones_named(store: SqliteStore) -> None:
    one = read(store, "What else did he make?", FILMS)
    assert one.entities == ("m.smith",)
    assert one.apart == {"m.galaxy_film", "m.it"}


def test_the_same_is_not_asked_again(store: SqliteStore) -> None:
    turn = Turn("who runs Lonely Island?", ("m.lonely",), ("m.lewis",))
    assert [reading.question for reading in readings(store, "and who runs it?", [turn])] == [
        "who runs Lewis & Clark?"
    ]


def test_ids_that_the_graph_does_not_have_are_no_answers(store: SqliteStore) -> None:
    forged = Turn("Who is it?", ("m.nobody",), ("m.nothing", "m.michelle"))
    assert read(store, "Where was she born?", forged).entities == ("m.michelle",)
    assert readings(store, "Where was she born?", [Turn("Who?", ("x",), ("y",))]) == [
        StandaloneQuestion("Where was she born?")
    ]

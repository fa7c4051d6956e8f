"""How two things are connected, what they share, and which of them does what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa
from kgqa.understanding.direction import FIRST, SECOND, answer_is_head, head_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TRIPLES = [
    ("Varga Mill", "sells to", "Oster Bakery"),
    ("Oster Bakery", "delivers to", "Hotel Lind"),
    ("Varga Mill", "located in", "Teglas"),
    ("Cooper Ilg", "located in", "Teglas"),
    ("Oster Bakery", "owned by", "Ines Marr"),
    ("Hotel Lind", "head chef", "Paolo Finch"),
    ("Paolo Finch", "trained", "Ines Marr"),
    ("Ruth Abel", "married to", "Paolo Finch"),
    ("Lone Star", "located in", "Orkney"),
]


@pytest.fixture(scope="module")
def trade(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    with kgqa.ingest("triples", TRIPLES, kg="trade", home=tmp_path_factory.mktemp("home")) as kg:
        yield kg


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("How are Varga Mill and Hotel Lind connected?", {"Oster Bakery"}),
        ("What is the connection between Varga Mill and Hotel Lind?", {"Oster Bakery"}),
        ("How is Varga Mill related to Oster Bakery?", {"sells to"}),
        ("Are Varga Mill and Hotel Lind connected?", {"yes"}),
        ("Is Lone Star connected to Hotel Lind?", set()),
        ("What do Varga Mill and Cooper Ilg have in common?", {"Teglas"}),
        ("What do Lone Star and Hotel Lind have in common?", set()),
    ],
)
@pytest.mark.parametrize("method", ["rank", "auto"])
def test_connections(trade: kgqa.KG, method: str, question: str, names: set[str]) -> None:
    answer = trade.ask(question, method=method)
    assert {ranked.name for ranked in answer.answers} == names
    assert names or any(note.startswith("Not in this graph") for note in answer.notes)
    assert all(kgqa_path.groundings for kgqa_path in answer.paths)


def test_a_relation_that_is_called_so_is_asked_for_itself(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    triples = [("Ash", "connected to", "Birch"), ("Birch", "connected to", "Cedar")]
    home = tmp_path_factory.mktemp("home")
    with kgqa.ingest("triples", triples, kg="stops", home=home) as kg:
        assert [
            ranked.name for ranked in kg.ask("Is Ash connected to Birch?", method="rank").answers
        ]
        far = kg.ask("Is Ash connected to Cedar?", method="rank")
    assert far.search.kind != "paths"


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "holds"),
    [
        ("Does Varga Mill sell to Oster Bakery?", True),
        ("Does Oster Bakery sell to Varga Mill?", False),
        ("Is Oster Bakery owned by Ines Marr?", True),
        ("Does Ines Marr own Oster Bakery?", True),
        ("Does Oster Bakery own Ines Marr?", False),
        ("Did Paolo Finch train Ines Marr?", True),
        ("Did Ines Marr train Paolo Finch?", False),
        ("Was Ines Marr trained by Paolo Finch?", True),
        ("Is Paolo Finch the head chef of Hotel Lind?", True),
        ("Is Paolo Finch married to Ruth Abel?", True),
        ("Is Ruth Abel married to Paolo Finch?", True),
    ],
)
def test_the_direction_of_a_fact_decides(trade: kgqa.KG, question: str, holds: bool) -> None:
    answer = trade.ask(question, method="rank")
    assert bool(answer.answers) == holds
    turned = [note for note in answer.notes if note.startswith("The graph has it the other way")]
    assert holds or turned


@pytest.mark.parametrize(
    ("question", "relation", "head"),
    [
        ("Who plays for x?", "PLAYS_FOR", True),
        ("Who wrote x?", "wrote", True),
        ("What is x part of?", "part of", False),
        ("Who is the author of x?", "author", False),
        ("Which books did x author?", "author", True),
        ("Who directed x?", "directed by", False),
        ("Who was x taught by?", "taught", True),
        ("Who are the members of x?", "members", False),
        ("What is the species of x?", "species", False),
        ("Who directed x?", "directors", False),
        ("Who discovered x?", "discoverers", False),
        ("What does x offer?", "offers", False),
        ("Who stars in x?", "stars", None),
        ("What treats x?", "treated with", None),
        ("Who follows x?", "follow", None),
        ("Who is near x?", "near", None),
        ("Who works with x?", "WORKS_WITH", None),
        ("Who plays against x?", "plays against", None),
    ],
)
def test_which_end_of_a_relation_a_question_asks_for(
    question: str, relation: str, head: bool | None
) -> None:
    assert answer_is_head(question, relation) is head


def test_what_a_question_does_not_say_is_not_decided() -> None:
    assert not head_of(f"Is {FIRST} near {SECOND}?", "supplies")
    assert head_of(f"Has {SECOND} been taught by {FIRST}?", "taught") in ("", FIRST)


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "right"),
    [
        ("Who trained Ines Marr?", ["Paolo Finch"]),
        ("Who trained Paolo Finch?", []),
        ("Who did Ines Marr train?", []),
        ("By whom is Oster Bakery owned?", ["Ines Marr"]),
        ("Who sells to Varga Mill?", []),
    ],
)
def test_a_fact_is_no_answer_to_the_question_the_other_way_round(
    trade: kgqa.KG, question: str, right: list[str]
) -> None:
    answer = trade.ask(question)
    assert [ranked.name for ranked in answer.answers] == right
    assert right or any("other way round" in note for note in answer.notes)


@pytest.mark.model
@pytest.mark.parametrize(
    ("relation", "verb"),
    [("hosts", "hosts"), ("owners", "owns"), ("sponsors", "sponsored"), ("coach", "coached")],
)
def test_a_noun_for_who_does_something_is_not_taken_for_the_verb(
    relation: str, verb: str, tmp_path: Path
) -> None:
    triples = [("Spring Fair", relation, "Ann Vole"), ("Spring Fair", "held in", "Tern Hall")]
    with kgqa.ingest("triples", triples, kg="fairs", home=tmp_path) as kg:
        answer = kg.ask(f"Who {verb} the Spring Fair?")
    assert [ranked.name for ranked in answer.answers] == ["Ann Vole"]


@pytest.mark.model
def test_an_answer_by_another_relation_than_the_one_asked_for_is_unsure(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    triples = [("Arlo", "leases", "North Dock"), ("Brem", "owns", "South Dock")]
    with kgqa.ingest("triples", triples, kg="docks", home=tmp_path_factory.mktemp("h")) as kg:
        asked, other = kg.ask("Who leases North Dock?"), kg.ask("Who leases South Dock?")
    assert [ranked.name for ranked in asked.answers] == ["Arlo"]
    assert not other.answers or (other.confidence or 0.0) <= 0.5


FRIENDS = [
    ("Odo", "friend of", "Bea"),
    ("Cyr", "friend of", "Odo"),
    ("Dag", "friend of", "Cyr"),
    ("Odo", "follows", "Dag"),
    ("Bea", "follows", "Cyr"),
]


@pytest.mark.model
@pytest.mark.parametrize("method", ["rank", "auto"])
def test_a_relation_that_holds_both_ways_is_walked_both_ways(
    tmp_path_factory: pytest.TempPathFactory, method: str
) -> None:
    with kgqa.ingest("triples", FRIENDS, kg="friends", home=tmp_path_factory.mktemp("h")) as kg:
        friends = kg.ask("Who are the friends of Odo?", method=method)
        followed = kg.ask("Who follows Cyr?", method=method)
    assert {ranked.name for ranked in friends.answers} == {"Bea", "Cyr"}
    assert any("holds both ways" in note for note in friends.notes)
    assert {ranked.name for ranked in followed.answers} == {"Bea"}

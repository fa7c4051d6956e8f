"""What a question denies is never answered with what it denies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa

if TYPE_CHECKING:
    from collections.abc import Iterator

SHIPS = {  # where each is moored, who owns it, and who repaired it
    "Heron": ("Port Ellen", "Norse Lines", "Bo Lind"),
    "Curlew": ("Port Ellen", "Baltic Freight", "Ada Moe"),
    "Dunlin": ("Port Ellen", "Baltic Freight", None),
    "Plover": ("Stornoway", "Norse Lines", "Bo Lind"),
    "Godwit": ("Stornoway", "Fjord Cargo", None),
    "Avocet": (None, "Baltic Freight", "Ada Moe"),
    "Whimbrel": (None, "Fjord Cargo", None),
}
BUILT = {"Anna Dahl": ("Heron", "Avocet", "Whimbrel"), "Ole Berg": ("Curlew", "Godwit", "Plover")}
FORMERLY = {"Curlew": "Norse Lines", "Godwit": "Norse Lines", "Avocet": "Fjord Cargo"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    triples = []
    for ship, (moored, owner, repairer) in SHIPS.items():
        triples += [(ship, "mooredAt", moored)] if moored else []
        triples += [(ship, "ownedBy", owner)]
        triples += [(ship, "repairedBy", repairer)] if repairer else []
    triples += [(ship, "builtBy", builder) for builder, ships in BUILT.items() for ship in ships]
    triples += [(ship, "formerlyOwnedBy", owner) for ship, owner in FORMERLY.items()]
    with kgqa.ingest("triples", triples, kg="fleet", home=tmp_path_factory.mktemp("fleet")) as kg:
        yield kg


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which ships moored at Port Ellen were never repaired?", {"Dunlin"}),
        ("What is moored at Port Ellen without having been repaired?", {"Dunlin"}),
        ("Which ships at Port Ellen has nobody repaired?", {"Dunlin"}),
        (
            "Which ships moored at Port Ellen were not repaired by Bo Lind?",
            {"Curlew", "Dunlin"},
        ),
        ("Which ships built by Anna Dahl are not moored anywhere?", {"Avocet", "Whimbrel"}),
        ("Which ships by Anna Dahl aren't moored anywhere?", {"Avocet", "Whimbrel"}),
        (
            "Which ships are not owned by Norse Lines?",  # "formerly" is another relation
            {"Curlew", "Dunlin", "Godwit", "Avocet", "Whimbrel"},
        ),
    ],
)
def test_what_is_denied_is_left_out(fleet: kgqa.KG, question: str, names: set[str]) -> None:
    answer = fleet.ask(question)
    assert {one.name for one in answer.answers} == names


PIECES = {  # of a collection: who made each, of what, where it stands, who mended it, its worth
    "Fox Ewer": ("Lena Brox", "pewter", "Long Room", "Kit Sand", 1400),
    "Owl Salt": ("Lena Brox", "pewter", None, None, 900),
    "Tide Bowl": ("Lena Brox", "glass", "Long Room", None, 2600),
    "Reed Chest": ("Amos Tull", "oak", "Long Room", "Kit Sand", 5200),
    "Heath Clock": ("Amos Tull", "oak", "East Gallery", None, 3100),
    "Fen Stool": ("Amos Tull", "oak", None, "Mara Lye", 300),
    "Moth Lamp": ("Vera Kell", "glass", "East Gallery", "Mara Lye", 750),
}


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    triples: list[tuple[str, str, str]] = []
    for piece, (maker, material, room, mender, worth) in PIECES.items():
        triples += [(piece, "madeBy", maker), (piece, "madeFrom", material)]
        triples += [(piece, "onShowIn", room)] if room else []
        triples += [(piece, "mendedBy", mender)] if mender else []
        triples += [(piece, "insuranceValue", f"{worth} EUR")]
    home = tmp_path_factory.mktemp("collection")
    with kgqa.ingest("triples", triples, kg="collection", home=home) as kg:
        yield kg


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("objects on show in the Long Room that nobody mended", {"Tide Bowl"}),
        ("Which objects on show in the Long Room haven't been mended?", {"Tide Bowl"}),
        ("Which objects made by Lena Brox aren't on show?", {"Owl Salt"}),
        ("Which object is worth the most?", {"Reed Chest"}),
        ("What is the most valuable thing in the collection?", {"Reed Chest"}),
        ("Which object is insured for the least?", {"Fen Stool"}),
        ("Which objects of oak were not mended by Mara Lye?", {"Reed Chest", "Heath Clock"}),
    ],
)
def test_things_of_no_class_are_asked_for_as_objects(
    collection: kgqa.KG, question: str, names: set[str]
) -> None:
    assert {one.name for one in collection.ask(question).answers} == names


@pytest.mark.model
def test_the_number_of_what_was_left_out_is_said(fleet: kgqa.KG) -> None:
    answer = fleet.ask("Which ships moored at Port Ellen were never repaired?", method="rank")
    assert 'Left out 2 of which the graph says "repaired".' in answer.notes


@pytest.mark.model
@pytest.mark.parametrize("method", ["rank", "auto"])
@pytest.mark.parametrize(
    "question",
    [
        "Which ships does Norse Lines not own?",
        "ships that Norse Lines does not own",
        "Which ships are not owned by Norse Lines?",
    ],
)
def test_what_the_relation_itself_holds_of_is_no_answer_to_its_denial(
    fleet: kgqa.KG, question: str, method: str
) -> None:
    owned = {ship for ship, (_, owner, _) in SHIPS.items() if owner == "Norse Lines"}
    answer = fleet.ask(question, method=method)
    assert not owned & {one.name for one in answer.answers}


@pytest.mark.model
def test_a_denial_that_no_relation_says_makes_the_answer_unsure(fleet: kgqa.KG) -> None:
    answer = fleet.ask("Which ships moored at Port Ellen are not insured?", method="rank")
    assert answer.confidence == 0.5
    assert 'Not used for the answer: not "insured".' in answer.notes


@pytest.mark.model
@pytest.mark.parametrize(
    "question",
    [
        "Which ships, other than the Dunlin, are moored at Port Ellen?",
        "Which ships are moored at Port Ellen, not counting the Dunlin?",
    ],
)
def test_a_name_that_is_left_out_leaves_the_others(fleet: kgqa.KG, question: str) -> None:
    answer = fleet.ask(question)
    assert {one.name for one in answer.answers} == {"Heron", "Curlew"}


@pytest.mark.model
@pytest.mark.parametrize(
    "question", ["Who no longer owns the Curlew?", "What is No. 5 of the Heron?"]
)
def test_what_denies_no_fact_leaves_nothing_out(fleet: kgqa.KG, question: str) -> None:
    notes = fleet.ask(question, method="rank").notes
    assert not any("Left out" in note or "not " in note.split(":")[0] for note in notes)

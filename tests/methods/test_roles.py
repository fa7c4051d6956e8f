"""A value belongs to what the question names before it, where several things could have it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import kgqa

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTRIES = ["Malta", "Norway", "Peru"]


@pytest.fixture(scope="module")
def couriers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    """Depots handle, send and receive parcels; clients know and review one another."""
    nodes: list[dict[str, Any]] = []
    steps: list[tuple[str, str, str]] = []

    def node(id_: str, label: str, **properties: Any) -> None:
        nodes.append({"type": "node", "id": id_, "labels": [label], "properties": properties})

    for at, name in enumerate(COUNTRIES):
        node(f"c{at}", "Country", name=name)
    for at, name in enumerate(["Harbour Gate", "North Wharf", "Mill Yard", "Stone Quay"]):
        node(f"d{at}", "Depot", name=name, latitude=10.5 + 3 * at, average_delay=at + 1.5)
        steps.append(("COUNTRY", f"d{at}", f"c{at % 3}"))
    for at in range(24):
        sender, receiver = at % 4, at * 5 % 3
        node(
            f"p{at}", "Parcel", weight=100 + 37 * at,
            sender_depot_country=COUNTRIES[sender % 3], receiver_depot_country=COUNTRIES[receiver],
        )  # fmt: skip
        steps += [("PARCELLED", f"d{at % 5 % 3}", f"p{at}"), ("SENDER", f"p{at}", f"d{sender}"),
                  ("RECEIVER", f"p{at}", f"d{receiver}")]  # fmt: skip
    for at, (name, age) in enumerate([("Ada", 61), ("Ben", 24), ("Cleo", 45), ("Dora", 19)]):
        node(f"k{at}", "Client", name=name, age=age)
        node(f"v{at}", "Review", text=["good soup", "slow van", "soup was cold", "fine"][at])
        steps += [("KNOWS", f"k{at}", f"k{(at + 1) % 4}"), ("WROTE", f"k{at}", f"v{at}"),
                  ("RATED", f"k{at}", f"d{at * 3 % 4}")]  # fmt: skip
    rows = nodes + [
        {"type": "relationship", "id": f"r{at}", "label": label, "start": {"id": start},
         "end": {"id": end}, "properties": {"stars": 1 + at % 5} if label == "RATED" else {}}
        for at, (label, start, end) in enumerate(steps)
    ]  # fmt: skip
    home = tmp_path_factory.mktemp("couriers")
    file = home / "couriers.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with kgqa.ingest("graph", file, kg="couriers", home=home / "home") as kg:
        yield kg


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "conditions"),
    [
        (
            "How many parcels have the same sender depot country and receiver depot country?",
            ["Parcel.receiver_depot_country = Parcel.sender_depot_country"],
        ),
        (
            "How many parcels have a different sender depot country and receiver depot country?",
            ["Parcel.receiver_depot_country <> Parcel.sender_depot_country"],
        ),
        (
            "How many parcels have a receiver depot in 'Malta'?",
            ['Parcel.receiver_depot_country = "Malta"'],
        ),
        ("Which clients know someone with an age under 30?", ["Client#2.age < 30"]),
        ("Which clients know clients with an age below 30?", ["Client#2.age < 30"]),
        ("Which clients over 40 know clients under 30?", ["Client.age > 40", "Client#2.age < 30"]),
        ("Which depots are rated below 2.5 by any client?", ["RATED.stars < 2.5"]),
        ("Which countries have depots with an average delay over 3?", ["Depot.average_delay > 3"]),
        ("Which clients wrote reviews mentioning 'soup'?", ['Review.text contains "soup"']),
    ],
)
def test_a_value_is_of_what_is_named_before_it(
    couriers: kgqa.KG, question: str, conditions: list[str]
) -> None:
    plan = couriers.ask(question, method="query").plan
    assert plan is not None
    assert [plan.text_of(one) for one in plan.where] == conditions


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "relations"),
    [
        ("Show the parcels by weight where the sender depot's country is 'Norway'.", []),
        ("Which depots have parcels with a receiver depot country of 'Peru'?", ["RECEIVER"]),
        (
            "Which depot receives the most parcels where the sender depot country is 'Malta'?",
            ["RECEIVER"],
        ),
        (
            "List the top 2 countries by the number of parcels where the sender depot is located.",
            ["COUNTRY", "SENDER"],
        ),
        ("Which parcels were sent from depots in 'Malta'?", ["SENDER", "COUNTRY"]),
    ],
)
def test_a_relation_or_class_is_in_a_plan_for_words_of_its_own(
    couriers: kgqa.KG, question: str, relations: list[str]
) -> None:
    """Parcels are not what was parcelled, and a sender depot's country is one property."""
    plan = couriers.ask(question, method="query").plan
    assert plan is not None
    assert [hop.relation for hop in plan.hops] == relations


@pytest.mark.model
def test_the_best_few_are_not_ordered_by_where_they_are(couriers: kgqa.KG) -> None:
    plan = couriers.ask("What are the top 2 depots?", method="query").plan
    assert plan is None or "latitude" not in str(plan.order)


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which clients are older than Cleo?", {"Ada"}),
        ("Who is older than Cleo?", {"Ada"}),
        ("Which clients know neither Ada nor Ben?", {"Ben", "Cleo"}),
        ("Which clients know Ada or Ben?", {"Ada", "Dora"}),
    ],
)
def test_what_is_compared_or_denied_is_no_condition(
    couriers: kgqa.KG, question: str, names: set[str]
) -> None:
    answer = couriers.ask(question)
    assert {one.name for one in answer.answers} == names, answer.notes

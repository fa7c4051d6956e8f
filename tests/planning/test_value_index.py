"""What of a question may stand in a plan: numbers, dates, values of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kgqa.planning.schema_parts import SchemaParts
from kgqa.planning.value_index import ValueIndex, plan_literals
from kgqa.understanding.literals import stated
from tests.fixtures import ingested

if TYPE_CHECKING:
    from pathlib import Path

CALLS = "call_id,call_type,minutes\n1,CALL,3\n2,SMS,1\n3,CALL,9\n"
CARS = "reg,make,colour\nAB1,Toyota,red\nAB2,Toyota,blue\nAB3,Adam,red\n"
CRIMES = "ref,offence,street\nC-1,Drugs,Low Row\nC-2,Drugs,High Row\nC-3,Robbery,Low Row\n"
ZONES = "zone,post_code\nMitte,0417\nWest,5066\n"
LAMPS = "lamp,height,watts,colour,maker\nCorvin,40,9,red,Ilves\nOslo,55,12,red,Brandt\n"
MAKERS = "maker\nIlves\nBrandt\n"
FILES = {"phone_calls": CALLS, "cars": CARS, "crimes": CRIMES, "zones": ZONES}


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("How many Toyotas are there?", ["Toyotas"]),
        ("Which drug crimes were there?", ["drug"]),
        ("Which drug was it?", []),  # a kind, only before what is of it
        ("How many phone calls were there?", []),  # the class, and not those of the kind CALL
        ("How many robberies were there?", ["robberies"]),
        ("Which zone has the post code 0417?", ["0417"]),
        ("Which zone has the post code 5066?", ["5066"]),
        ("Which zones have more than 5066 trees?", []),  # a number
    ],
)
def test_values_are_found_in_other_numbers(tmp_path: Path, question: str, found: list[str]) -> None:
    with ingested(tmp_path, "case", FILES) as kg:
        index = ValueIndex(kg.store, kg.store.schema())
        values = index.find(question, stated(question).literals)
    assert [question[one.start : one.end] for one in values] == found


@pytest.mark.parametrize(
    ("question", "mention", "found"),
    [
        ("How many crimes were in Low?", "Low", ["Low"]),
        ("How many crimes were in Low Row 7?", "Low Row 7", ["Low Row 7"]),  # longer than "Low Row"
        ("How many crimes were in Low Row?", "Low", ["Low Row"]),
        ("How many crimes were in A. Low?", "Low", []),
        ("How many crimes were in Upper Low?", "Low", []),
        ("how many crimes were in low?", "low", ["low"]),
        ("How many crimes did Low Row or any low have?", "low", ["Low Row"]),  # an adjective
        ("how many crimes had a street?", "street", []),
    ],
)
def test_a_part_of_a_name_is_a_value_where_no_longer_one_is(
    tmp_path: Path, question: str, mention: str, found: list[str]
) -> None:
    with ingested(tmp_path, "case", FILES) as kg:
        schema = kg.store.schema()
        index, parts = ValueIndex(kg.store, schema), SchemaParts(schema)
        whole = index.find(question, stated(question).literals)
        named = {mention: int(kg.store.find_names(["AB1"])[1][0])}
        values = index.with_partly_named(question, named, whole, parts)
    assert [question[one.start : one.end] for one in values] == found


@pytest.mark.parametrize(
    ("question", "read"),
    [
        ("Which lamps are taller than the Corvin?", ["height", "watts"]),
        ("Which lamps have the same colour as the Corvin?", ["colour", "height", "lamp", "watts"]),
        ("Which makers are older than Ilves?", ["maker"]),  # has no number to compare with
        ("Which maker made the Corvin?", []),
    ],
)
def test_texts_of_a_bound_are_read_only_to_find_the_same_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: str, read: list[str]
) -> None:
    with ingested(tmp_path, "case", {"lamps": LAMPS, "makers": MAKERS}) as kg:
        index = ValueIndex(kg.store, kg.store.schema())
        names, values_of = list[str](), type(kg.store).property_values
        monkeypatch.setattr(
            type(kg.store),
            "property_values",
            lambda store, keys, name: names.append(name) or values_of(store, keys, name),
        )
        index.find(question, stated(question).literals)
    assert sorted(names) == read


def test_what_a_question_states_may_stand_in_a_plan() -> None:
    read = plan_literals(stated("the 3 orders since 1997 over 20 with 'tea'"))
    assert read.numbers == (1997, 20, 3)
    assert read.dates == ("1997",)
    assert read.words == ("tea",)

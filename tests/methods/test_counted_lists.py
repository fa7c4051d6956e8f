"""How many there are is the number of what a list has, where nothing states a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa

if TYPE_CHECKING:
    from collections.abc import Iterator

FACILITIES = {
    "Ash Halt": ("toilets", "café"), "Beck": ("toilets",), "Crag": ("café",), "Dene": ("lift",),
    "Elm Road": ("toilets", "lift"),
}  # fmt: skip
LINES = {"S1 Dene Valley": ("Ash Halt", "Beck", "Dene"), "S2 Coast": ("Crag", "Elm Road", "Beck")}


@pytest.fixture(scope="module")
def railway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    triples = [(station, "HAS_FACILITY", each) for station, of in FACILITIES.items() for each in of]
    triples += [(line, "STOPS_AT", station) for line, of in LINES.items() for station in of]
    triples += [("Ida Holm", "DRIVES_ON", "S1 Dene Valley"), ("Pia Lund", "DRIVES_ON", "S2 Coast")]
    home = tmp_path_factory.mktemp("railway")
    with kgqa.ingest("triples", triples, kg="railway", home=home) as kg:
        yield kg


@pytest.mark.model
@pytest.mark.parametrize("method", ["rank", "auto"])
@pytest.mark.parametrize(
    "question", ["How many stations have toilets?", "In how many stations are there toilets?"]
)
def test_a_list_is_counted(railway: kgqa.KG, question: str, method: str) -> None:
    answer = railway.ask(question, method=method)
    assert answer.value == 3
    assert answer.answers


@pytest.mark.model
def test_a_list_that_is_not_there_is_not_counted(railway: kgqa.KG) -> None:
    assert railway.ask("How many children does Ida Holm have?").answers == ()

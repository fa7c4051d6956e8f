"""A noun for those who act, such as "actors", asks for those who did, in plain triples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAYS = {
    "The Salt Road": (2016, "Ilse Varga", "Ben Oster", "140 minutes", ("Kit Arden", "Mara Quill")),
    "Night Ferry": (2019, "Ilse Varga", "Ula Finch", "95 minutes", ("Kit Arden", "Joss Hale")),
    "Paper Crown": (2018, "Tomas Reyl", "Ben Oster", "120 minutes", ("Mara Quill",)),
    "Glass Orchard": (2021, "Dina Moss", "Ula Finch", "160 minutes", ("Pia Renn", "Joss Hale")),
}
BORN = {
    "Kit Arden": ("Lowmere", 1980), "Mara Quill": ("Harrow Bay", 1975),
    "Joss Hale": ("Harrow Bay", 1991), "Pia Renn": ("Lowmere", 1988),
    "Ilse Varga": ("Lowmere", 1960), "Tomas Reyl": ("Harrow Bay", 1955),
    "Dina Moss": ("Lowmere", 1983), "Ben Oster": ("Harrow Bay", 1962),
    "Ula Finch": ("Lowmere", 1971),
}  # fmt: skip


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    triples = []
    for play, (year, writer, director, length, cast) in PLAYS.items():
        triples += [(play, "first performed", str(year)), (play, "performed at", "Old Granary")]
        triples += [(play, "written by", writer), (director, "directed", play)]
        triples += [(play, "running time", length), *((one, "acted in", play) for one in cast)]
    for person, (town, born) in BORN.items():
        triples += [(person, "born in", town), (person, "year of birth", str(born))]
    home = tmp_path_factory.mktemp("theatre")
    with kgqa.ingest("triples", triples, kg="theatre", home=home) as kg:
        yield kg


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which actors were born in Lowmere?", {"Kit Arden", "Pia Renn"}),
        ("Which writers were born in Harrow Bay?", {"Tomas Reyl"}),
        ("Which directors were born in Harrow Bay?", {"Ben Oster"}),
        ("Who was born in Harrow Bay?", {"Mara Quill", "Joss Hale", "Tomas Reyl", "Ben Oster"}),
    ],
)
def test_those_who_did_are_left(theatre: kgqa.KG, question: str, names: set[str]) -> None:
    answer = theatre.ask(question)
    assert {one.name for one in answer.answers} == names
    assert any("are kept" in note for note in answer.notes) == (not question.startswith("Who"))


@pytest.mark.model
@pytest.mark.parametrize("limit", ["two hours", "120 minutes", "2 h"])
def test_a_bound_is_in_the_unit_of_the_values(theatre: kgqa.KG, limit: str) -> None:
    answer = theatre.ask(f"Which plays are longer than {limit}?")
    assert {one.name for one in answer.answers} == {"The Salt Road", "Glass Orchard"}


@pytest.mark.model
def test_a_bound_may_be_the_value_of_a_thing_without_a_class(theatre: kgqa.KG) -> None:
    answer = theatre.ask("Which plays were performed after Paper Crown?")
    assert {one.name for one in answer.answers} == {"Night Ferry", "Glass Orchard"}
    assert 'Compared with "Paper Crown": first performed 2018.' in answer.notes

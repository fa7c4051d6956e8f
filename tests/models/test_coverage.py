"""How much of a KG a model knows, by its relations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kgqa.models.folders import known_part, suits

IDS = st.lists(st.sampled_from(["people.person.born", "film.film.cast", "hasPart", "a.b"]))


def test_relations_are_known_by_id_or_by_domain() -> None:
    relations = ["people.person.born", "film.film.cast", "hasPart", "madeOf"]
    assert known_part(["people", "hasPart"], relations) == 0.5
    assert known_part(["film.film"], relations) == 0.0
    assert known_part([], []) == 1.0


@given(IDS, IDS, IDS)
def test_who_knows_more_suits_what_it_suited(
    known: list[str], more: list[str], relations: list[str]
) -> None:
    part = known_part(known, relations)
    assert part <= known_part([*known, *more], relations) <= 1.0
    assert known_part(relations, relations) == 1.0
    assert suits(known, relations) == (not known or part >= 0.5)

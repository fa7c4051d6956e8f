"""How well a plan's paths fit the question: what the path ranker has learnt counts in plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import kgqa
from kgqa.errors import ModelError
from kgqa.planning.aggregates import ScoredPlan
from kgqa.planning.path_meaning import by_meaning
from kgqa.planning.schema_parts import FoundValue
from kgqa.queries.text import parse_plan

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.planning.evidence import QuestionReading

TEAMS = [
    ("Ada Rook", "member of team", "Harbour"),
    ("Ben Carr", "member of team", "Harbour"),
    ("Cleo Mast", "member of team", "Quarry"),
    ("Harbour", "team lead", "Cleo Mast"),
    ("Quarry", "team lead", "Ada Rook"),
    ("Harbour", "coached by", "Dan Poe"),
    ("Quarry", "coached by", "Ben Carr"),
]


class _Reading:
    """What is read of a reading: the question, and the entities that it names."""

    def __init__(self, question: str, *names: str) -> None:
        self.question = question
        self.values = [
            FoundValue(start, start + len(name), {("entity", "", "name"): (name,)})
            for name in names
            for start in [question.index(name)]
        ]


class _Ranker:
    """A ranker of two words: a path with the first fits, another does not."""

    def __init__(self, fits: str) -> None:
        self.fits, self.read = fits, list[str]()

    def logits(self, questions: list[str], paths: list[str], hops: list[int], kept: Any) -> Any:
        assert len(hops) == len(paths)
        assert kept is None
        self.read += [*questions, *paths]
        rows = [[self.fits in text for text in some] for some in (questions, paths)]
        return np.array([[1.0 + (one and other) for other in rows[1]] for one in rows[0]])


def _ranked(question: str, names: list[str], fits: str, plans: list[str]) -> tuple[Any, _Ranker]:
    ranker = _Ranker(fits)
    scored = [ScoredPlan(parse_plan(plan), 0.0) for plan in plans]
    reading = cast("QuestionReading", _Reading(question, *names))
    folder = cast("Path", type("NoFolder", (), {"is_dir": lambda _: False})())
    return by_meaning(reading, scored, lambda: cast("Any", ranker), folder), ranker


def test_a_path_is_read_from_the_named_entity_to_what_is_given() -> None:
    plans = [
        'Person [member of]> Team | Team = "Harbour" | give Person',
        'Person <[led by] Team | Team = "Harbour" | give Person.born',
    ]
    _, ranker = _ranked("Who is in Harbour?", ["Harbour"], "none", plans)
    assert ranker.read == [
        "Who is in x?",
        "? member of x",
        "x led by y, y born ?",
    ]


def test_the_plan_whose_path_fits_comes_first_and_others_keep_their_order() -> None:
    plans = [
        'Person [member of]> Team | Team = "Harbour" | give Person',
        'Person <[led by] Team | Team = "Harbour" | give Person',
        'Person knows> Team | Team = "Harbour" | give Person',
    ]
    ranked, _ = _ranked("Who? led by Harbour", ["Harbour"], "led by", plans)
    assert [one.plan.hops[0].relation for one in ranked] == ["led by", "member of", "knows"]


def test_the_best_path_adds_nothing_so_that_a_plan_without_a_name_keeps_its_place() -> None:
    plans = [
        'Person <[led by] Team | Team = "Harbour" | give Person',
        "Person | give Person",
        'Person knows> Team | Team = "Harbour" | give Person',
    ]
    ranked, _ = _ranked("Who? led by Harbour", ["Harbour"], "led by", plans)
    assert [one.score for one in ranked[:2]] == [0.0, 0.0]
    assert ranked[2].score < 0


def test_other_entities_are_left_out_of_the_question() -> None:
    plans = [
        'Person [member of]> Team [coached by]> Coach | Team = "Harbour" | Coach = "Dan" '
        "| give Person",
        'Person [led by]> Team | Team = "Harbour" | give Person',
    ]
    _, ranker = _ranked("Who is in Harbour under Dan?", ["Harbour", "Dan"], "none", plans)
    assert {"Who is in x under ?", "Who is in under x?"} <= {*ranker.read}


def test_without_a_named_entity_no_ranker_is_loaded() -> None:
    def load() -> Any:
        raise ModelError("loaded")

    reading = cast("QuestionReading", _Reading("Which teams are there?"))
    plans = [ScoredPlan(parse_plan("Team | give Team"), 1.0)]
    assert by_meaning(reading, plans, load, cast("Path", None)) == plans


@pytest.mark.model
def test_words_that_no_relation_has_find_the_relation_that_is_meant(tmp_path: Path) -> None:
    with kgqa.ingest("triples", TEAMS, kg="teams", home=tmp_path) as kg:
        for question, names in {
            "Who heads Harbour?": {"Cleo Mast"},
            "Who is the boss of Quarry?": {"Ada Rook"},
            "Who instructs Quarry?": {"Ben Carr"},
            "Who plays for Harbour?": {"Ada Rook", "Ben Carr"},
        }.items():
            answer = kg.ask(question, method="query")
            assert {one.name for one in answer.answers} == names, question

"""An answer by itself: its paths, its JSON, and how it is shown."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from kgqa.answers.answer import (
    Answer,
    ExpandedPath,
    Findings,
    RankedAnswer,
    SearchUse,
    Timings,
    TopicEntity,
)
from kgqa.understanding.question import understood
from tests.answers.test_naming import chain, wrote

FOUND = Findings(
    answers=(RankedAnswer("B", "B", 0.5, True), RankedAnswer("D", "D", 0.2, True)),
    others=(RankedAnswer(None, "Atlantis", 0.1, False),),
    paths=(wrote("B", 0.5, "T", "B", "C"), wrote("B", 0.3, "T", "A", "B")),
    expanded=(ExpandedPath(chain("T", "A", "D"), "T -> r -> A -> r -> B"),),
    notes=("Look here.",),
    timings=Timings(decode=1.0),
    forward_passes=3,
    search=SearchUse("exact", True, 2, -math.inf, 4),
)


def answer(question: str = "Who?", found: Findings = FOUND) -> Answer:
    return Answer.of(question, "gcr", (), found, link_seconds=0.25)


def test_an_answer_has_the_paths_that_end_in_it_or_pass_it() -> None:
    one = answer()
    assert one.best is one.answers[0]
    assert one.answers[0].paths == (one.paths[1],), "where one ends, those that pass do not count"
    assert one.answers[1].paths == one.expanded
    assert one.others[0].paths == ()
    assert one.paths_of(RankedAnswer("C", "C", 0.1, True)) == (one.paths[0],)
    assert one.paths_of(RankedAnswer("A", "A", 0.1, True)) == (one.paths[1], *one.expanded)
    assert answer(found=Findings()).best is None


def test_the_json_has_the_places_of_paths_and_no_infinity() -> None:
    given = json.loads(json.dumps(answer().to_dict("http://browser"), allow_nan=False))
    assert [one["paths"] for one in given["answers"]] == [[1], []]
    assert [set(other) for other in given["others"]] == [{"id", "name", "score", "grounded"}]
    assert (given["search"]["bound"], given["search"]["demands"]) == (None, 4)
    assert (given["timings"]["link"], given["timings"]["total"]) == (0.25, 1.25)
    assert (given["forwards"], given["notes"]) == (3, ["Look here."])
    assert given["browser_url"] == "http://browser"
    assert given["expanded"][0]["source"] == "T -> r -> A -> r -> B"


def test_it_can_be_read() -> None:
    text = str(answer())
    assert text.splitlines()[:3] == ["Who?", "1. B  0.500", "     T -> r -> A -> r -> B"]
    twins = tuple(RankedAnswer(id_, "B", 0.5, True) for id_ in ("b1", "b2"))
    assert "1. B (b1)  0.500" in str(answer(found=Findings(answers=twins))), "a name that is shared"
    assert "No answer" in str(answer(found=Findings()))


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"&quot;', "x" * 300])
def test_a_notebook_draws_it_and_no_name_becomes_markup(name: str) -> None:
    found = Findings(
        answers=(RankedAnswer("B", name, 0.5, True),),
        paths=(wrote(name, 0.5, "T", name), wrote(name, 0.1, name, "T", "Other")),
        notes=(name,),
    )
    page = answer(f"Who is {name}?", found)._repr_html_()
    assert "<script" not in page
    assert page.count("<svg") == page.count("</svg>") == 1
    assert page.count("<rect") == 5, "an entity is one box in each column"
    assert "<svg" not in answer(found=Findings())._repr_html_()


def test_the_words_that_say_nothing_of_the_answer_are_residual() -> None:
    assert answer("Who?").residual() == ()
    read = understood("Which writer wrote sad atlases?")
    one = replace(answer(), understood=read)
    assert one.residual() == ("writer", "wrote", "sad", "atlase")
    with_topic = replace(one, topic_entities=(TopicEntity(1, "T", "Atlas of sad writers", 1.0),))
    assert with_topic.residual() == ("wrote",)
    assert with_topic.to_dict()["understood"]["residual"] == ["wrote"]

"""What a question's words say about a plan, and plans in two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa
from kgqa.graph.schema import Property
from kgqa.methods.query import unused
from kgqa.planning.question_words import Mentions, is_dated, superlative, turn, unsayable
from kgqa.planning.two_step_plans import best_first, counted_after
from kgqa.queries.text import parse_plan
from kgqa.understanding.literals import stated

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("question", "relation", "at_tail"),
    [
        ("Who follows Ann?", "FOLLOWS", False),
        ("Whom does Ann follow?", "FOLLOWS", True),
        ("Who has the most followers?", "FOLLOWS", True),
        ("Who reports to Ann?", "REPORTS_TO", False),
        ("To whom does Ann report?", "REPORTS_TO", True),
        ("Which firms are subsidiaries of Orkla?", "HAS_SUBSIDIARY", True),
        ("Which firm has the most subsidiaries?", "HAS_SUBSIDIARY", False),
        ("Who is Ann's manager?", "manager", True),
        ("Who are the parents of Ann?", "parent of", False),
        ("Who was managed by Ann?", "manages", True),
        ("Who blended the most wines?", "blended by", True),
        ("Who has Ann as main auditor?", "audited by", False),
        ("Who has been Ann's auditor?", "audited by", True),
        ("Who has Ann audited?", "audited", True),
        ("Who has audited Ann?", "audited", False),
        ("Who was Ann audited by?", "audited by", True),
        ("Who is audited by Ann?", "auditor", False),
        ("Who did Ann audit?", "auditor", False),
        ("Who audited Ann?", "auditor", True),
        ("Who did Ann audit?", "auditor of", True),
        ("Who is Ann the auditor of?", "auditor", False),
    ],
)
def test_a_relation_is_asked_for_from_either_side(
    question: str, relation: str, at_tail: bool
) -> None:
    assert (turn(question, relation) > 0) == at_tail


def test_the_best_few_come_before_the_hop() -> None:
    plan = parse_plan("Tag <HAS Question | Question.open = true | desc Question.views | limit 3")
    two = best_first(plan)
    assert str(two) == (
        "Question | Question.open = true | desc Question.views | limit 3 "
        "| then Question HAS> Tag | give Tag"
    )
    assert best_first(parse_plan("Tag <HAS Question | desc Tag.name | limit 3")) is None


def test_how_many_counts_the_groups_that_a_number_holds_for() -> None:
    plan = parse_plan("Person DIRECTED> Film | count Film > 2 | give Person, count Film")
    assert str(counted_after(plan)) == (
        "Person DIRECTED> Film | count Film > 2 | then Person | give count Person"
    )


def test_names_are_mentioned_by_their_words() -> None:
    mentions = Mentions("Which orders were shipped after 1997 to London?")
    assert mentions.of("shippedDate") == [3]
    assert mentions.of("order date", owner="order") == []
    assert mentions.at(len("Which orders were shipped after ")) == 5


def test_what_a_plan_has_no_use_for_is_named() -> None:
    question = "Which 3 products with at least one order cost over a million in 'Oslo'?"
    plan = parse_plan("Product | Product.price > 1000000 | limit 3 | give Product")
    assert unused(question, plan, [], stated(question), set()) == ["'Oslo'"]
    assert not unused(question, plan, [], stated(question), {"Oslo"})  # a part of the schema


def test_a_name_written_as_in_the_schema_means_no_other() -> None:
    mentions = Mentions("Those with a rank1Score over 3 and a rank2Score under 2")
    assert mentions.of("rank1Score") == [4]
    assert mentions.of("rank2Score") == [10]
    assert superlative("by age, in ascending order", Property("age", "integer"), False) > 0
    hired = Property("dt_hired", "date")  # the longest is there since the earliest
    assert superlative("Who is there the longest?", hired, False) > 0


def test_what_no_plan_can_say_is_refused(tmp_path: Path) -> None:
    (tmp_path / "films.csv").write_text("id,title,released\n1,Heat,1995\n2,Alien,1979\n")
    with kgqa.ingest("tables", tmp_path, kg="films", home=tmp_path / "home") as kg:
        question = "Which films have a release year divisible by 5?"
        assert unsayable(question, ()) == "divisible"
        answer = kg.ask(question, method="query")
        assert not answer.answers
        assert any("cannot be said as one query" in note for note in answer.notes)
        assert "'divisible'" in kg.ask(question).notes[0]  # auto, too
        assert [
            ranked.name for ranked in kg.ask("Which films were released before 1990?").answers
        ] == ["Alien"]


def test_a_running_time_says_not_when_something_was() -> None:
    assert is_dated(Property("departureTime", "text"))
    assert is_dated(Property("starttime", "text"))
    assert not is_dated(Property("runtime", "integer"))
    assert not is_dated(Property("run_time", "integer"))
    assert not is_dated(Property("sentiment", "float"))


def test_a_property_is_not_said_by_the_words_of_its_class() -> None:
    asked = Mentions("Which fight songs were written by a student?")
    assert asked.of("fight", "FightSong") == []
    assert asked.of("fight") == [1]
    assert Mentions("How many fight songs have the word fight?").of("fight", "FightSong") == [7]
    assert Mentions("Which price is the highest?").of("price", "Price") == [1]

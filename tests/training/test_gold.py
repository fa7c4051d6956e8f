"""Gold relation paths are found as the KG has them: mediators, inverses, merged relations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kgqa.graph.model import Kind
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from kgqa.progress import Silent
from kgqa.training.data import TrainingQuestion, build_examples
from kgqa.training.gold import gold_paths, predicates_of
from tests.graph.store_conformance import entity, tables_of
from tests.trie.language import store_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.graph.sqlite import SqliteStore

FORM = PathFormat()
OUT = WalkRules()


@pytest.fixture
def siblings(tmp_path: Path) -> Iterator[SqliteStore]:
    """Jay and Ron are brothers by a mediator with its own inverse predicates; both are Finns."""
    nodes = [entity(one, one.title()) for one in ("jay", "ron", "finland", "male", "eve", "otto")]
    nodes += [entity("m", kind=Kind.MEDIATOR)]
    edges = [
        ("jay", "person.sibling_s", "m"),
        ("ron", "person.sibling_s", "m"),
        ("m", "relationship.sibling", "jay"),
        ("m", "relationship.sibling", "ron"),
        ("jay", "person.nationality", "finland"),
        ("finland", "country.people", "ron"),
        ("finland", "country.people", "eve"),
        ("finland", "country.people", "jay"),
        ("jay", "person.gender", "male"),
        ("ron", "person.gender", "male"),
        ("jay", "/people/person/spouse_s./people/marriage/spouse", "eve"),
        ("eve", "person.parent", "otto"),
    ]
    with store_of(tables_of(nodes, edges), tmp_path) as store:
        yield store


def walked(store: SqliteStore, *gold: tuple[str, ...], rules: WalkRules = OUT, loose: bool) -> Any:
    names = store.relations().names
    return [
        (
            path.rank,
            tuple(FORM.relation(first, second, names) for first, second in path.steps),
            store.entities(path.tails).ids,
        )
        for path in gold_paths(store, store.keys_of(["jay"]), gold, rules, loose=loose)
    ]


def test_two_identical_halves_are_the_hop_through_their_mediator(siblings) -> None:
    twice = ("relationship.sibling", "relationship.sibling")
    assert walked(siblings, twice, loose=True) == [
        (0, ("person.sibling_s..relationship.sibling",), ["ron"])
    ]
    assert walked(siblings, twice, loose=False) == []


def test_a_predicate_read_backwards_is_walked_by_the_edge_that_there_is(siblings) -> None:
    """`person.nationality` from Finland is walked by `country.people`, only where it holds too."""
    assert walked(siblings, ("country.people", "country.people"), loose=True) == [
        (0, ("person.nationality", "country.people"), ["eve", "ron"])
    ]


def test_directions_that_are_given_are_kept(siblings) -> None:
    both = WalkRules(2, "both")
    assert walked(siblings, ("person.gender", "^person.gender"), rules=both, loose=False) == [
        (0, ("person.gender", "^person.gender"), ["ron"])
    ]
    assert walked(siblings, ("person.gender", "person.gender"), rules=both, loose=False) == []
    assert walked(siblings, ("person.gender", "person.gender"), rules=both, loose=True) == [
        (0, ("person.gender", "^person.gender"), ["ron"])
    ]


def test_a_merged_relation_is_two_predicates(siblings) -> None:
    gold = ("people.person.spouse_s", "people.marriage.spouse", "person.parent")
    merged = "/people/person/spouse_s./people/marriage/spouse"
    assert walked(siblings, gold, loose=False) == [(0, (merged, "person.parent"), ["otto"])]
    assert predicates_of("people.person.spouse_s") == ("people.person.spouse_s",)


def test_mediators_that_are_kept_are_hops(siblings) -> None:
    gold = ("person.sibling_s", "relationship.sibling")
    rules = WalkRules(2, "out", "keep")
    assert walked(siblings, gold, rules=rules, loose=False) == [(0, gold, ["ron"])]


def test_without_answers_the_relation_path_that_others_confirm_is_taken(siblings) -> None:
    """Both lead to Ron; the first one to Eve as well, so the second means the question."""
    question = TrainingQuestion(
        "q",
        "who is jay's brother",
        ("jay",),
        (),
        relation_paths=(
            ("person.nationality", "country.people"),
            ("relationship.sibling", "relationship.sibling"),
            ("no.such", "predicate"),
        ),
        loose=True,
    )
    examples, report = build_examples(siblings, [question], OUT, FORM, progress=Silent())
    assert [example.hops for example in examples] == [
        (("person.sibling_s..relationship.sibling", "Ron"),)
    ]
    assert (report.used, report.unreachable) == (1, [])


def test_without_answers_and_without_a_walk_the_question_is_named(siblings) -> None:
    question = TrainingQuestion("q", "?", ("jay",), (), relation_paths=(("no.such",),), loose=True)
    examples, report = build_examples(siblings, [question], OUT, FORM, progress=Silent())
    assert (examples, report.unreachable) == ([], ["q"])

"""What questions mean, over small graphs: bounds, denials, choices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa
from kgqa.planning.evidence import Pattern
from kgqa.planning.negation import absence, denies, denies_comparison, with_last
from kgqa.queries.plan import Comparison, Hop, NodeRef
from tests.fixtures import ingested

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = {
    "kites": "id,name,price,weight,made\n1,Zephyr,40,900,2011-05-02\n2,Mistral,25,1200,2004-03-09\n"
    "3,Bora,75,400,2019-08-30\n",
    "books": "id,title,pages\n1,Salt Road,310\n2,Nine Bells,120\n3,Low Fire,205\n4,Hush,90\n",
    "genres": "id,name\n1,Novel\n2,Satire\n3,Poetry\n",
    "book_genres": "book_id,genre_id\n1,1\n1,2\n2,2\n3,1\n4,3\n",
    "readers": "id,name\n1,Ada Rook\n2,Ben Carr\n3,Cleo Mast\n",
    "loans": "id,reader_id,book_id,fee\n1,1,1,9\n2,2,2,1\n3,2,3,1\n4,2,4,1\n5,3,1,2\n6,3,2,2\n",
}


HUTS = {
    "huts": "id,name,elev,lat,beds,closed\n1,Grauhorn,2410,46.1,40,true\n"
    "2,Weissjoch,3120,45.2,12,false\n3,Rotsattel,1900,47.7,25,false\n",
    "columns": "id,name,meaning\n1,elev,height above the sea\n2,beds,places to sleep\n",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    with ingested(tmp_path_factory.mktemp("library"), "tables", TABLES) as kg:
        yield kg


@pytest.fixture(scope="module")
def huts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    with ingested(tmp_path_factory.mktemp("huts"), "tables", HUTS) as kg:
        yield kg


@pytest.mark.model
@pytest.mark.parametrize("method", ["query", "auto"])
@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which kites are cheaper than the Zephyr?", {"Mistral"}),
        ("Which kites are more expensive than the Zephyr?", {"Bora"}),
        ("Which kite is heavier than the Zephyr?", {"Mistral"}),
        ("Which kites were made after the Zephyr?", {"Bora"}),
        ("Which books have more pages than Low Fire?", {"Salt Road"}),
        ("Which books are not novels?", {"Nine Bells", "Hush"}),
        ("Which books are satires but not novels?", {"Nine Bells"}),
        ("Which kites were not made before 2010?", {"Zephyr", "Bora"}),
        ("Which kites weren't made after 2010?", {"Mistral"}),
        ("Which has more loans, Ada Rook or Ben Carr?", {"Ben Carr"}),
        ("Which is heavier, Bora or Zephyr?", {"Zephyr"}),
    ],
)
def test_what_is_compared_or_denied(
    library: kgqa.KG, method: str, question: str, names: set[str]
) -> None:
    answer = library.ask(question, method=method)
    assert {ranked.name for ranked in answer.answers} == names, answer.notes


@pytest.mark.model
def test_a_bound_is_said_in_a_note(library: kgqa.KG) -> None:
    answer = library.ask("Which kites are cheaper than the Zephyr?")
    assert any("price 40" in note for note in answer.notes)


@pytest.mark.model
def test_what_must_not_be_of_another_thing_is_an_absence(library: kgqa.KG) -> None:
    plan = library.ask("Which books are not novels?", method="query").plan
    assert plan is not None
    assert plan.without
    assert not any(one.operator in ("<>", "not in") for one in plan.where)


def test_a_value_is_denied_by_the_negator_before_it() -> None:
    question = "Who plays in Halm but has never lived in Orsk?"
    assert not denies(question, question.index("Halm"))
    assert denies(question, question.index("Orsk"))
    assert not denies("Which shops that are not open sell Tea?", 34)


def test_a_comparison_is_denied_up_to_the_next_clause() -> None:
    assert denies_comparison("Which pumps were not checked after 2020?", 29)
    assert not denies_comparison("Which pumps that are not red and cost over 9?", 38)


def test_hops_to_what_must_not_be_there_come_last() -> None:
    hops = (Hop(0, "owns", 1), Hop(0, "has", 2), Hop(1, "lies in", 3))
    pattern = Pattern(("Man", "House", "Dog", "Town"), hops, 0.0, (0, 1, 1, 2))
    where = (Comparison(NodeRef(3), "=", ("Ulm",)), Comparison(NodeRef(2), "=", ("Rex",)))
    last = absence(hops, {3}, {0, 2})
    assert last == {0, 2}
    turned, compared = with_last(pattern, where, last)
    assert turned.nodes == ("Man", "Dog", "House", "Town")
    assert [hop.relation for hop in turned.hops] == ["has", "owns", "lies in"]
    assert [one.left for one in compared] == [NodeRef(3), NodeRef(1)]
    assert absence(hops, {3}, {0, 1}) == {2}
    assert absence(hops, {0}, set()) is None


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which reader spent the most?", {"Ada Rook"}),
        ("Which reader spent the least?", {"Ben Carr"}),
    ],
)
def test_what_is_spent_is_a_sum(library: kgqa.KG, question: str, names: set[str]) -> None:
    answer = library.ask(question)
    assert {ranked.name for ranked in answer.answers} == names
    assert answer.plan is not None
    assert "sum Loan.fee" in str(answer.plan)


@pytest.mark.model
def test_what_is_counted_by_its_kind_is_no_topic(tmp_path_factory: pytest.TempPathFactory) -> None:
    kinds = {"Rin": "Golem", "Tam": "Golem", "Ulf": "Troll", "Ved": "Golem"}
    towns = {"Rin": "Orm", "Tam": "Orm", "Ulf": "Vik"}
    triples = [(name, "species", kind) for name, kind in kinds.items()]
    triples += [(name, "homeworld", town) for name, town in towns.items()]
    triples += [(name, "instance of", "being") for name in kinds]
    home = tmp_path_factory.mktemp("home")
    with kgqa.ingest("triples", triples, kg="beings", home=home) as kg:
        assert [ranked.name for ranked in kg.ask("How many golems are there?").answers] == ["3"]


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("What is the highest hut?", {"Weissjoch"}),
        ("Which hut is the northernmost?", {"Rotsattel"}),
        ("What is the elevation of Rotsattel?", {"1900"}),
        ("How many beds does Weissjoch have?", {"12"}),
        ("What is Grauhorn's elevation?", {"2410"}),
        ("Which huts are open?", {"Weissjoch", "Rotsattel"}),
        ("Which huts are closed?", {"Grauhorn"}),
        ("How many huts are open?", {"2"}),
        ("What is Grauhorn's owner?", set()),
    ],
)
def test_columns_are_found_by_what_people_call_them(
    huts: kgqa.KG, question: str, names: set[str]
) -> None:
    assert {ranked.name for ranked in huts.ask(question).answers} == names

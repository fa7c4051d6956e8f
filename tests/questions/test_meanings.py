from __future__ import annotations

from typing import TYPE_CHECKING

from kgqa.evaluation.metrics import strict_scores
from kgqa.questions import Question
from kgqa.questions.meanings import known_topics, meanings_of
from tests.graph.tables import entity, tables_of
from tests.trie.language import store_of

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.sqlite import SqliteStore


def test_ids_stand_for_themselves_and_names_for_all_that_bear_them(small: SqliteStore) -> None:
    gold = meanings_of(small, ["e.oslo", "bert"], {})
    assert gold.ids == ("e.oslo", "e.bert")
    assert gold.names == ("Oslo", "Bert")
    assert gold.canonical(["e.bert2", "e.oslo", "e.bert", "e.anna"]) == [
        "e.bert",
        "e.oslo",
        "e.anna",
    ]


def test_a_name_as_it_is_written_comes_before_an_alias_like_it(tmp_path: Path) -> None:
    rows = [entity("e.1", "Rome"), entity("e.2", "rome"), entity("e.3", "Lazio", "Rome")]
    with store_of(tables_of(rows, [("e.1", "in", "e.3")]), tmp_path) as store:
        assert set(meanings_of(store, ["Rome"], {}).same) == {"e.1"}
        assert set(meanings_of(store, ["ROME"], {}).same) == {"e.1", "e.2", "e.3"}


def test_either_of_two_entities_of_a_name_is_the_whole_answer(small: SqliteStore) -> None:
    gold = meanings_of(small, ["Bert"], {})
    for predicted in (["e.bert"], ["e.bert2"], ["e.bert2", "e.bert"]):
        assert strict_scores(gold.canonical(predicted), gold.ids).f1 == 1.0


def test_the_files_name_serves_where_the_kg_does_not_know_the_id(small: SqliteStore) -> None:
    gold = meanings_of(
        small, ["m.0nowhere", "m.0lost"], {"m.0nowhere": "Norway", "m.0lost": "Atlantis"}
    )
    assert gold.ids == ("e.norway", "m.0lost")
    assert gold.names == ("Norway", "Atlantis")
    assert gold.unknown == {"m.0lost"}


def test_literals_are_found_by_their_text(small: SqliteStore) -> None:
    assert meanings_of(small, ["1984"], {}).ids == ('"1984"^^xsd:gYear',)


def test_an_alias_and_a_name_of_one_entity_are_one_answer(small: SqliteStore) -> None:
    gold = meanings_of(small, ["Bertie", "Bert"], {})
    assert gold.ids == ("e.bert",)
    assert gold.canonical(["e.bert2"]) == ["e.bert"]
    assert meanings_of(small, [], {}).ids == ()


def test_topics_that_the_kg_does_not_know_are_left_out_if_it_knows_any(small: SqliteStore) -> None:
    names = {"m.1": "Oslo", "m.2": "Atlantis"}
    assert known_topics(small, Question("q", "?", ["m.1", "m.2", "e.anna"], [], names=names)) == [
        "Oslo",
        "e.anna",
    ]
    assert known_topics(small, Question("q", "?", ["m.2"], [], names=names)) == ["m.2"]
    assert known_topics(small, Question("q", "?", [], [])) == []

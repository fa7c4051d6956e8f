"""What a question's line says, over answers whose paths are really those of the small KG."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kgqa.answers.answer import TopicEntity
from kgqa.errors import EmptyLanguageError, GeneralModelError, LinkingError, TimeLimitError
from kgqa.evaluation.record import Record, bad_entry_record, record_of
from kgqa.questions import BadEntry, Question
from tests.evaluation.runs import RULES, answer_of

if TYPE_CHECKING:
    from kgqa.answers.answer import Answer
    from kgqa.errors import KgqaError
    from kgqa.graph.sqlite import SqliteStore


def recorded(store: SqliteStore, given: Answer | KgqaError, *gold: str, **more) -> Record:
    more = {"topic_entities": ["Anna"], **more}
    return record_of(store, Question("q", "where?", answers=list(gold), **more), given, RULES, 0.5)


def test_hit_at_k_looks_at_k_entities_however_many_paths_there_are(small: SqliteStore) -> None:
    given = answer_of(small, "e.anna", BORN, VISITED)
    question = Question("q", "where?", topic_entities=["Anna"], answers=["Norway"])
    for k, hit in ((1, 0.0), (2, 1.0), (None, 1.0)):
        assert record_of(small, question, given, RULES, 0.5, k=k).hit_at_k == hit


VISITED = "Anna -> visited -> Norway"
BORN = "Anna -> born_in -> Oslo"


def test_a_right_answer_by_name_and_its_line(small: SqliteStore) -> None:
    one = recorded(
        small,
        answer_of(small, "e.anna", BORN, VISITED),
        "Oslo",
        relation_paths=[("born_in",), ("job", "title")],
    )
    assert (one.outcome, one.hits_at_1, one.mrr, one.precision, one.f1) == (
        "right",
        1.0,
        1.0,
        0.5,
        pytest.approx(2 / 3),
    )
    assert (one.gold, one.predictions, one.answers) == (
        ["e.oslo"],
        ["e.oslo", "e.norway"],
        ["Oslo", "Norway"],
    )
    assert one.legacy["gcr"]["hit"] == 1.0
    assert (one.path_recall, one.grounded, one.grounded_paths) == (0.5, True, 1.0)
    assert (one.hops, one.reachable, one.seconds, one.forwards) == (1, True, 2.0, 4)
    assert one.paths[0] == {"text": BORN, "score": -1.0, "relation_path": "born_in"}
    assert Record.model_validate_json(one.model_dump_json()) == one


def test_a_shared_name_is_one_answer(small: SqliteStore) -> None:
    one = recorded(small, answer_of(small, "e.anna", "Anna -> friend -> Bert"), "Bert")
    assert (one.outcome, one.f1) == ("right", 1.0)


def test_where_a_question_failed(small: SqliteStore) -> None:
    visited = answer_of(small, "e.anna", VISITED)
    assert recorded(small, visited, "Sweden").outcome == "wrong tail"
    assert recorded(small, visited, "Oslo").outcome == "wrong relation"
    assert recorded(small, visited, "Atlantis").outcome == "not reachable"
    other = answer_of(small, "e.oslo", "Oslo -> in -> Norway")
    assert recorded(small, other, "Sweden").outcome == "linking"
    assert recorded(small, other, "Norway").outcome == "right"  # right however it came
    talked_over = answer_of(small, "e.anna", VISITED, answers=("e.sweden",))
    assert recorded(small, talked_over, "Norway").outcome == "wrong answer"
    assert recorded(small, visited).outcome == "answered in vain"
    silent = replace(visited, answers=(), others=visited.answers)
    assert recorded(small, silent).outcome == "right"
    assert recorded(small, silent).f1 == 1.0
    assert not recorded(small, silent).refused
    held_back = recorded(small, silent, silent.others[0].id)
    assert (held_back.refused, held_back.hits_at_1) == (True, 0.0)
    # a collapsed mediator in the first path
    job = answer_of(small, "e.anna", "Anna -> job..title -> Clerk")
    assert recorded(small, job, "Alone").outcome == "wrong relation"


@pytest.mark.parametrize(
    ("error", "gold", "outcome"),
    [
        (LinkingError("nothing"), "Oslo", "linking"),
        (TimeLimitError("slow"), "Oslo", "failed"),
        (GeneralModelError("down"), "Oslo", "failed"),
        (EmptyLanguageError("none"), "Atlantis", "not reachable"),
    ],
)
def test_a_failed_question_stays_with_its_error(
    small: SqliteStore, error: KgqaError, gold: str, outcome: str
) -> None:
    one = recorded(small, error, gold)
    assert (one.outcome, one.answered, one.error) == (outcome, False, str(error))
    assert (one.hit_at_k, one.legacy["gcr"]["hit"], one.seconds) == (0.0, 0.0, 0.5)


def test_a_topic_that_the_file_does_not_give_is_no_linking_fault(small: SqliteStore) -> None:
    one = recorded(small, answer_of(small, "e.anna", VISITED), "Sweden", topic_entities=[])
    assert one.outcome == "wrong tail"


def test_triplets_are_of_questions_with_gold_ones_and_of_chains(small: SqliteStore) -> None:
    answer = answer_of(small, "e.anna", BORN, VISITED)
    gold = [("Anna", "born_in", "Oslo"), ("Oslo", "in", "Norway")]
    one = recorded(small, answer, "Oslo", gold_triplets=gold)
    assert one.triplets == {
        "f1": pytest.approx(2 / 3),
        "precision": 1.0,
        "recall": 0.5,
        "ill": 0,
        "written": 2,
    }
    assert recorded(small, answer, "Oslo").triplets is None
    chain = recorded(small, replace(answer, method="dog"), "Oslo").triplets
    assert chain == dict.fromkeys(("f1", "precision", "recall")) | {"ill": 0, "written": 2}
    elsewhere = replace(answer, topic_entities=(TopicEntity(0, "e.alone", "Alone", 1.0),))
    strange = recorded(small, elsewhere, "Oslo", gold_triplets=gold).triplets
    assert strange is not None
    assert strange["ill"] == 2  # its paths begin where nothing was asked about
    failed = recorded(small, LinkingError("x"), "Oslo", gold_triplets=gold).triplets
    assert failed == dict.fromkeys(("f1", "precision", "recall"), 0.0) | {"ill": 0, "written": 0}


def test_a_linked_question_has_what_the_linker_made_of_it(small: SqliteStore) -> None:
    asked = Question("q", "Where was Anna born?", ["Anna"], ["Oslo"])
    for linked in (True, False):
        one = record_of(small, asked, LinkingError("x"), RULES, 0.1, linked=linked)
        assert (one.linking is not None) == linked


def test_a_bad_entry_is_a_record_without_a_score() -> None:
    one = bad_entry_record(BadEntry("f.jsonl", 3, "not JSON"))
    assert (one.id, one.outcome, one.answered) == ("f.jsonl, line 3", "malformed", False)
    assert (one.hits_at_1, one.legacy["gcr"]["hit"], one.legacy["rog"]["f1"]) == (0.0, 0.0, 0.0)


def test_accuracy_is_of_the_first_answer_that_is_a_choice(small: SqliteStore) -> None:
    answer = answer_of(small, "e.anna", BORN, VISITED, "Anna -> visited -> Sweden")
    for gold, accuracy in (("Norway", 1.0), ("Sweden", 0.0)):
        one = recorded(small, answer, gold, choices=["Norway", "Sweden", "Atlantis"])
        assert one.accuracy == accuracy
    assert recorded(small, answer, "Norway").accuracy is None
    failed = recorded(small, LinkingError("x"), "Norway", choices=["Norway"])
    assert failed.accuracy == 0.0

"""The figures of a run: every question is in the denominator."""

from __future__ import annotations

import json

from kgqa.evaluation.figures import linking_figures, summarise, triplet_figures
from kgqa.evaluation.record import Record
from tests.evaluation.runs import BAD, RECORDS, RIGHT, figures_of

LINKED = {"candidates": ["e.anna"], "linked": ["e.anna"]}
NO_SCORES = dict.fromkeys(("f1", "precision", "recall"))


def test_every_question_is_in_the_denominator() -> None:
    found = figures_of(*RECORDS)
    assert (found["questions"], found["answered"]) == (4, 2)
    assert found["hits_at_1"] == found["hit"] == found["f1"] == 25.0
    assert found["legacy"]["rog"]["hit"] == 25.0
    assert found["reachable"] == 50.0
    assert found["grounded_paths"] == found["faithful_of_correct"] == 100.0
    assert found["path_recall"] == 100.0  # of the questions that have gold relation paths
    assert found["accuracy"] is None
    outcomes = ("right", "wrong tail", "not reachable", "malformed")
    assert found["outcomes"] == dict.fromkeys(outcomes, 1)
    assert found["by_hop"]["1"]["hits_at_1"] == 100.0
    assert found["by_hop"]["not reachable"]["questions"] == 2
    assert set(found["by_type"]) == {"easy", "hard"}
    low, high = found["intervals"]["hits_at_1"]
    assert 0.0 <= low < 25.0 < high <= 100.0
    assert found["seconds"] == {"p50": 2.0, "p95": 2.9}
    assert found["general_llm"] == RIGHT.general_llm
    json.dumps(found)


def test_a_malformed_line_of_a_multiple_choice_file_is_a_wrong_choice() -> None:
    assert figures_of(RIGHT.model_copy(update={"accuracy": 1.0}), BAD)["accuracy"] == 50.0


def linked(right: bool) -> Record:
    flags = dict.fromkeys(("first", "in_five", "in_linked", "all_linked"), right)
    return Record(id="q", question="?", outcome="right", linking={**LINKED, **flags})


def test_linking_figures_are_of_all_questions_of_linked_runs_only() -> None:
    figures = linking_figures([linked(True), linked(False), linked(False), BAD])
    assert figures is not None
    assert (figures["questions"], figures["first"], figures["topics"]) == (4, 25.0, 1.0)
    low, high = figures["intervals"]["first"]
    assert low <= 25.0 <= high
    assert figures_of(linked(True), linked(False))["linking"]["first"] == 50.0
    assert linking_figures([RIGHT, BAD]) is None


def with_triplets(score: float | None, ill: int, written: int) -> Record:
    found = {**dict.fromkeys(NO_SCORES, score), "ill": ill, "written": written}
    return Record(id="q", question="?", outcome="right", triplets=found)


def test_triplet_figures_are_of_questions_with_gold_triplets() -> None:
    right, wrong = with_triplets(1.0, 0, 3), with_triplets(0.0, 1, 5)
    found = triplet_figures([right, wrong, RIGHT], "gcr")
    assert found == {"f1": 50.0, "precision": 50.0, "recall": 50.0, "ill": 12.5}
    found = triplet_figures([right, wrong, BAD, BAD], "gcr")
    assert found is not None
    assert (found["f1"], found["ill"]) == (25.0, 12.5)  # a line that cannot be read is missed
    assert triplet_figures([RIGHT, BAD], "gcr") is None
    assert triplet_figures([RIGHT], "dog") == {**NO_SCORES, "ill": None}
    assert triplet_figures([with_triplets(None, 0, 4), BAD], "dog") == {**NO_SCORES, "ill": 0.0}
    nothing = triplet_figures([with_triplets(0.0, 0, 0)], "gcr")
    assert nothing == {**dict.fromkeys(NO_SCORES, 0.0), "ill": None}
    summary = summarise([with_triplets(1.0, 0, 2)], kg="k", method="dog", format="2wiki")
    assert summary["triplets"] == {"f1": 100.0, "precision": 100.0, "recall": 100.0, "ill": 0.0}

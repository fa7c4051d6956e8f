"""Records of a small run, for the tests of figures and reports."""

from __future__ import annotations

from typing import Any

from kgqa.evaluation.figures import summarise
from kgqa.evaluation.record import Record, bad_entry_record
from kgqa.questions import BadEntry

RIGHT = Record(
    id="q1",
    question="where?",
    outcome="right",
    type="easy",
    hops=1,
    reachable=True,
    hits_at_1=1.0,
    hit_at_k=1.0,
    mrr=1.0,
    precision=1.0,
    recall=1.0,
    f1=1.0,
    path_recall=1.0,
    legacy={"gcr": {"hit": 1.0}, "rog": {"hit": 1.0}},
    answered=True,
    grounded=True,
    grounded_paths=1.0,
    seconds=1.0,
    forwards=8,
    general_llm={"model": "m", "calls": 2, "prompt_tokens": 10, "completion_tokens": 3},
)
WRONG = Record(
    id="q2",
    question="<script>alert(1)</script> | what?",
    outcome="wrong tail",
    type="hard",
    hops=2,
    reachable=True,
    gold=["e.1"],
    gold_names=["`A`"],
    answers=["B & C"],
    answered=True,
    grounded_paths=1.0,
    gold_relation_paths=["a -> b"],
    paths=[{"text": "x -> <b> -> y", "score": -2.5, "relation_path": "b"}],
    seconds=3.0,
    forwards=10,
)
FAR = Record(
    id="q3", question="who?", outcome="not reachable", error="There is no path.", seconds=0.1
)
BAD = bad_entry_record(BadEntry("f.jsonl", 4, "not JSON"))
RECORDS = [RIGHT, WRONG, FAR, BAD]


def figures_of(*records: Record) -> dict[str, Any]:
    """The figures of a run of these records."""
    return summarise(records, kg="small", method="gcr", format="jsonl")

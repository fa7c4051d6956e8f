"""Records of a small run, and answers with paths that are really those of a KG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgqa.answers.answer import (
    Answer,
    KgLlmUse,
    RankedAnswer,
    ScoredPath,
    Timings,
    TopicEntity,
)
from kgqa.evaluation.figures import summarise
from kgqa.evaluation.record import Record, bad_entry_record
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import ground
from kgqa.paths.walk import WalkRules, walk
from kgqa.questions import BadEntry

if TYPE_CHECKING:
    from kgqa.graph.store import GraphStore

RULES = WalkRules()

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


def answer_of(store: GraphStore, topic: str, *texts: str, answers: tuple[str, ...] = ()) -> Answer:
    """An answer with the paths that have these texts, all without, and their ends as answers."""
    key = store.keys_of([topic])
    table, _ = walk(store, key, RULES)
    grounded = [path for path in ground(store, table, PathFormat()) if path]
    paths = []
    for number, text in enumerate(texts or [path.text for path in grounded]):
        fitting = tuple(path for path in grounded if path.text == text)
        assert fitting, text
        paths.append(ScoredPath(text, -1.0 - number, fitting[0].tail.name, fitting))
    ends = answers or tuple(path.groundings[0].tail.id for path in paths)
    names = store.entities(store.keys_of(ends))
    return Answer(
        question="?",
        method="gcr",
        topic_entities=(TopicEntity(int(key[0]), topic, topic, 1.0),),
        answers=tuple(
            RankedAnswer(one, names.label(row), 1.0, True) for row, one in enumerate(ends)
        ),
        paths=tuple(paths),
        constraints=(),
        kg_llm=KgLlmUse("m", None, 1, 1, 1),
        general_llm=None,
        timings=Timings(decode=2.0),
        forward_passes=4,
    )

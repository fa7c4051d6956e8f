"""Questions as a reasoner is trained on them: keys of topic entities and answers, and hops."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kgqa.graph.model import Kind
from kgqa.paths.walk import TAIL
from kgqa.training.data import GOLD, DataReport, meant_by, near_best

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kgqa.graph.model import IntArray
    from kgqa.methods.kg_cot.hops import HopTable
    from kgqa.paths.walk import WalkRules
    from kgqa.progress import Progress
    from kgqa.training.data import Meant, TrainingQuestion

_NEAR = 0.95  # of the best mark: relation paths that are as good
_LEAST = 0.7  # F1 of the tails against the answers: a relation path with less is not meant

Steps: TypeAlias = "tuple[tuple[int, int], ...]"


@dataclass(frozen=True, slots=True)
class WalkQuestion:
    """A question by keys of the store: where walks start, where they should end.

    ``hops``: how many it takes, 0 if that is not known. ``paths``: the relation paths that it
    means, as steps: the gold ones if a set has them, else those whose tails fit the answers.
    """

    id: str
    question: str
    topics: IntArray
    answers: IntArray
    hops: int = 0
    paths: tuple[Steps, ...] = ()


def is_check(question_id: str, share: float = 0.1) -> bool:
    """Return whether a training question is one that checkpoints are chosen by.

    By a hash of its own, so that the fifth that is never trained on plays no part.
    """
    digest = hashlib.sha256(b"check:" + question_id.encode()).digest()
    return int.from_bytes(digest[:4], "big") < share * 2**32


def walk_questions(
    table: HopTable,
    questions: Iterable[tuple[TrainingQuestion, int]],
    total: int,
    progress: Progress,
) -> tuple[list[WalkQuestion], DataReport]:
    """Return the questions that can be trained on, each with its hops (0: not known), and a report.

    A question without answers has those that most of its gold relation paths lead to. Whether an
    answer can be reached is checked if no gold relation path is known. Raises GraphError.
    """
    store, rules = table.store, table.rules
    report = DataReport()
    usable = []
    relations = store.relations().ids
    mediated = rules.mediators == "collapse" and store.info.mediators > 0
    number = {} if mediated else {name: at for at, name in enumerate(relations)}
    with progress.task("finding answers", total, "questions") as task:
        for question, hops in questions:
            report.questions += 1
            task.advance()
            paths = _spelt(question, rules, number)
            if paths and question.answers:  # what is spelt need not be walked
                question = replace(question, relation_paths=())
            meant = meant_by(store, question, rules)
            topics, answers = np.unique(meant.topics), np.unique(meant.answers)
            if not len(topics) or not len(answers):
                report.unknown.append(question.id)
                continue
            if not paths and not np.isin(answers, _around(table, topics)).any():
                report.unreachable.append(question.id)
                continue
            paths = paths or _fitting(meant)
            lengths = {len(path) for path in paths}
            hops = hops or (lengths.pop() if len(lengths) == 1 else 0)
            asked = question.question
            usable.append(WalkQuestion(question.id, asked, topics, answers, hops, paths))
    report.used = len(usable)
    return usable, report


def _around(table: HopTable, topics: IntArray) -> IntArray:
    reached = frontier = np.unique(topics)
    ends = [np.empty(0, np.int64)]
    for _ in range(table.rules.hops):
        out = table.out_of(frontier)
        tails, first = np.unique(out.hop[:, TAIL], return_index=True)
        ends.append(tails)
        onward = tails[out.kind[first] != Kind.VALUE]
        frontier = np.setdiff1d(onward, reached, assume_unique=True)
        reached = np.union1d(reached, frontier)
        if not len(frontier):
            break
    return np.unique(np.concatenate(ends))


def _spelt(
    question: TrainingQuestion, rules: WalkRules, number: Mapping[str, int]
) -> tuple[Steps, ...]:
    """Return the gold relation paths whose predicates are steps; ``number`` are the relations'."""
    spelt = []
    for path in () if question.loose else question.relation_paths:
        names = [step.removeprefix("^") for step in path]
        if path and len(path) <= rules.hops and all(name in number for name in names):
            keys = (
                2 * number[name] + (name != step) for name, step in zip(names, path, strict=True)
            )
            spelt.append(tuple((key, -1) for key in keys))
    return tuple(dict.fromkeys(spelt))


def _fitting(meant: Meant) -> tuple[Steps, ...]:
    """Return the gold paths that lead to an answer, else those whose tails are most like them."""
    candidates = meant.relation_paths()
    gold = [path for path, mark in candidates if mark >= GOLD or meant.by_paths]
    fitting = near_best([pair for pair in candidates if pair[0].f1 >= _LEAST], near=_NEAR)
    return tuple(dict.fromkeys(path.steps for path in gold or fitting))

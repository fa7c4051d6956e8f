"""Questions as a reasoner is trained on them: keys of topic entities and answers, and hops.

They come from question files (:func:`walk_questions`), or are made from the KG
(:func:`made_questions`): ``templates`` and ``self_made`` put a relation path into words and follow
one walk along it; a reasoner is asked for all that the relation path leads to, so it is followed
again, whole.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kgqa.graph.model import Kind
from kgqa.paths.walk import TAIL, relation_paths_to
from kgqa.training.data import DataReport
from kgqa.training.gold import agreed, gold_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.methods.kg_cot.hops import HopTable
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import RelationPath, WalkRules
    from kgqa.progress import Progress
    from kgqa.training.data import Example, TrainingQuestion

_CAP = 100_000  # paths of a topic entity that are looked at
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


class WalkReport(DataReport):
    """What became of the questions."""

    def __str__(self) -> str:
        """Return the report as a sentence."""
        return (
            f"{self.used:,} of {self.questions:,} questions are used; {len(self.unreachable):,} "
            f"have no path to an answer, {len(self.unknown):,} name entities that are not in the "
            "KG."
        )


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
) -> tuple[list[WalkQuestion], WalkReport]:
    """Return the questions that can be trained on, each with its hops (0: not known), and a report.

    A question without answers has those that most of its gold relation paths lead to
    (:func:`kgqa.training.gold.agreed`). Whether an answer can be reached is checked if no gold
    relation path is known. Raises GraphError.
    """
    store, rules = table.store, table.rules
    report = WalkReport()
    found = []
    relations = store.relations().ids
    mediated = rules.mediators == "collapse" and store.info.mediators > 0
    number = {} if mediated else {name: at for at, name in enumerate(relations)}
    with progress.task("finding answers", total, "questions") as task:
        for one, hops in questions:
            report.questions += 1
            task.advance()
            topics, answers = _keys(store, one, rules)
            if not len(topics) or not len(answers):
                report.unknown.append(one.id)
                continue
            paths = _spelt(one, rules, number)
            if not paths and not np.isin(answers, around(table, topics)).any():
                report.unreachable.append(one.id)
                continue
            paths = paths or _meant(store, one, topics, answers, rules)
            lengths = {len(path) for path in paths}
            hops = hops or (lengths.pop() if len(lengths) == 1 else 0)
            found.append(WalkQuestion(one.id, one.question, topics, answers, hops, paths))
    report.used = len(found)
    return found, report


def around(table: HopTable, topics: IntArray) -> IntArray:
    """Return the keys that walks of the table's rules out of ``topics`` reach."""
    reached = frontier = np.unique(topics)
    found = [np.empty(0, np.int64)]
    for _ in range(table.rules.hops):
        out = table.out_of(frontier)
        tails, first = np.unique(out.hop[:, TAIL], return_index=True)
        found.append(tails)
        onward = tails[out.kind[first] != Kind.VALUE]
        frontier = np.setdiff1d(onward, reached, assume_unique=True)
        reached = np.union1d(reached, frontier)
        if not len(frontier):
            break
    return np.unique(np.concatenate(found))


def _spelt(one: TrainingQuestion, rules: WalkRules, number: Mapping[str, int]) -> tuple[Steps, ...]:
    """Return the gold relation paths whose predicates are steps as they stand.

    That is so if no mediator is collapsed; ``number`` is empty if one may be.
    """
    found = []
    for path in () if one.loose else one.relation_paths:
        names = [step.removeprefix("^") for step in path]
        if path and len(path) <= rules.hops and all(name in number for name in names):
            keys = (
                2 * number[name] + (name != step) for name, step in zip(names, path, strict=True)
            )
            found.append(tuple((key, -1) for key in keys))
    return tuple(dict.fromkeys(found))


def _meant(
    store: GraphStore,
    one: TrainingQuestion,
    topics: IntArray,
    answers: IntArray,
    rules: WalkRules,
) -> tuple[Steps, ...]:
    """Return the relation paths that a question seems to mean, found by walking.

    The gold ones that lead to an answer, else those whose tails, all together, are most like the
    answers.
    """
    gold = gold_paths(store, topics, one.relation_paths, rules, loose=one.loose)
    right = [path.steps for path in gold if np.isin(path.tails, answers).any()]
    if right:
        return tuple(dict.fromkeys(right))
    fitting = [
        path for path in relation_paths_to(store, topics, answers, rules, _CAP) if path.f1 >= _LEAST
    ]

    def mark(path: RelationPath) -> float:
        steps = [step for hop in path.steps for step in hop if step >= 0]
        return path.f1 + sum(relations[step // 2] in one.predicates for step in steps) / len(steps)

    relations = store.relations().ids
    marks = [mark(path) for path in fitting]
    near = [
        path.steps
        for path, marked in zip(fitting, marks, strict=True)
        if marked >= _NEAR * max(marks)
    ]
    return tuple(dict.fromkeys(near))


def _keys(store: GraphStore, one: TrainingQuestion, rules: WalkRules) -> tuple[IntArray, IntArray]:
    topics = np.unique(store.keys_of(one.topics))
    answers = np.unique(store.keys_of(one.answers))
    topics, answers = topics[topics >= 0], answers[answers >= 0]
    if not one.answers and one.relation_paths and len(topics):
        answers = agreed(gold_paths(store, topics, one.relation_paths, rules, loose=one.loose))
    return topics, answers


def made_questions(
    table: HopTable, examples: Sequence[Example], form: PathFormat, progress: Progress
) -> list[WalkQuestion]:
    """Return a question for each example, its answers all the tails of the relation path.

    A relation path is text; of relations that share it all are meant. One that leads nowhere but
    back to the topic entity gives no question. ``form``: what wrote the examples.
    Raises GraphError.
    """
    labels = _Labels(table, form)
    found = []
    with progress.task("made questions", len(examples), "questions") as task:
        for number, example in enumerate(examples):
            topics = table.store.keys_of(example.topic_ids)
            topics = np.unique(topics[topics >= 0])
            ends = _followed(table, labels, topics, example.relations)
            answers = np.unique(np.concatenate([*ends.values(), np.empty(0, np.int64)]))
            if len(answers):
                found.append(
                    WalkQuestion(
                        f"{example.question_id}:{number}",
                        example.question,
                        topics,
                        answers,
                        len(example.relations),
                        tuple(ends),
                    )
                )
            task.advance()
    return found


def _followed(
    table: HopTable, labels: _Labels, topics: IntArray, relations: Sequence[str]
) -> dict[Steps, IntArray]:
    """Return the tails (keys) of each relation path that is called ``relations``."""
    found: dict[Steps, IntArray] = {(): topics}
    for place, relation in enumerate(relations, 1):
        longer: dict[Steps, IntArray] = {}
        for steps, frontier in found.items():
            out = table.out_of(frontier)
            for number in np.unique(out.relation).tolist():
                label, step = labels[number]
                if label == relation:
                    here = out.relation == number
                    if place == len(relations):  # nobody asks for a mediator
                        here &= out.kind != Kind.MEDIATOR
                    tails = np.unique(out.hop[here, TAIL])
                    tails = np.setdiff1d(tails, topics, assume_unique=True)
                    if len(tails):
                        longer[*steps, step] = tails
        found = longer
    return found


class _Labels:
    """The text and the steps of a table's relations by number; walking numbers more of them."""

    def __init__(self, table: HopTable, form: PathFormat) -> None:
        self._table = table
        self._form = form
        self._names = table.store.relations().names
        self._known: list[tuple[str, tuple[int, int]]] = []

    def __getitem__(self, number: int) -> tuple[str, tuple[int, int]]:
        if number >= len(self._known):
            for first, second in self._table.relations()[len(self._known) :].tolist():
                label = self._form.relation(first, second, self._names)
                self._known.append((label, (first, second)))
        return self._known[number]

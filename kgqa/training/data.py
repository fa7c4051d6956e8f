"""Training examples: a question, its topic entities, and a path that leads to an answer.

Every shortest path to an answer is a possible example (GCR, arXiv 2410.13080, sec. 4.2). Here the
relation paths of a question are ranked by how well *all* their tails match the answers and, where a
data set has gold predicates, by how many of theirs are gold; a few paths of the best are taken, so
that no question with a thousand answers drowns the others.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kgqa.paths.shortest import relation_paths_to
from kgqa.trie.lexicon import names_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.paths.shortest import RelationPath
    from kgqa.paths.walk import WalkRules
    from kgqa.progress import Progress


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """A question with ids of its topic entities and answers.

    ``predicates`` are those of its gold relation paths or its gold query, where a set has them.
    """

    id: str
    question: str
    topics: tuple[str, ...]
    answers: tuple[str, ...]
    predicates: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Example:
    """What the model is trained on: the prompt's parts, and a path as names and relations."""

    question_id: str
    question: str
    topics: tuple[str, ...]  # names
    head: str
    hops: tuple[tuple[str, str], ...]  # (relation, tail) texts


@dataclass(slots=True)
class DataReport:
    """What became of the questions."""

    questions: int = 0
    used: int = 0
    examples: int = 0
    unreachable: list[str] = field(default_factory=list)  # question ids without a path
    unknown: list[str] = field(default_factory=list)  # question ids whose topics are not in the KG


def is_held_out(question_id: str, fifth: int = 0) -> bool:
    """Return whether a question belongs to the fixed fifth that is never trained on."""
    digest = hashlib.sha256(question_id.encode()).digest()
    return int.from_bytes(digest[:4], "big") % 5 == fifth


def build_examples(
    store: GraphStore,
    questions: Sequence[TrainingQuestion],
    rules: WalkRules,
    form: PathFormat,
    *,
    per_question: int = 4,
    cap: int = 200_000,
    seed: int = 0,
    progress: Progress,
) -> tuple[list[Example], DataReport]:
    """Return the examples of ``questions``, at most ``per_question`` each, and a report."""
    report = DataReport(questions=len(questions))
    examples: list[Example] = []
    random = np.random.default_rng(seed)
    with progress.task("paths to answers", len(questions), "questions") as task:
        for question in questions:
            made = list(
                _of_question(store, question, rules, form, per_question, cap, random, report)
            )
            report.used += bool(made)
            examples.extend(made)
            task.advance()
    report.examples = len(examples)
    return examples, report


def _of_question(
    store: GraphStore,
    question: TrainingQuestion,
    rules: WalkRules,
    form: PathFormat,
    per_question: int,
    cap: int,
    random: np.random.Generator,
    report: DataReport,
) -> Iterable[Example]:
    topics = store.keys_of(question.topics)
    answers = store.keys_of(question.answers)
    topics, answers = topics[topics >= 0], answers[answers >= 0]
    if not len(topics) or not len(answers):
        report.unknown.append(question.id)
        return
    found = relation_paths_to(store, topics, answers, rules, cap)
    if not found:
        report.unreachable.append(question.id)
        return
    relations = store.relations()

    def meant(path: RelationPath) -> float:
        """How likely the question means this relation path: its tails, and the gold predicates."""
        steps = [step for hop in path.steps for step in hop if step >= 0]
        known = sum(relations.ids[step // 2] in question.predicates for step in steps)
        return path.f1 + known / len(steps)

    found.sort(key=meant, reverse=True)  # stable: shorter ones stay before longer ones
    best = meant(found[0])
    chosen = [path for path in found[:per_question] if meant(path) >= 0.85 * best]
    names = tuple(names_of(store, topics))
    # the best relation path gets what the others leave of the question's share
    shares = [per_question - len(chosen) + 1] + [1] * (len(chosen) - 1)
    for path, share in zip(chosen, shares, strict=True):
        rows = random.permutation(len(path.paths))[:share]
        table = path.paths.take(np.sort(rows))
        head = names_of(store, table.topic[:1])[0]
        for hops, length in zip(table.hops, table.length, strict=True):
            tails = names_of(store, hops[:length, 3])
            steps = hops[:length].tolist()
            texts = tuple(
                (form.relation(first, second, relations.names), tail)
                for (first, _, second, _), tail in zip(steps, tails, strict=True)
            )
            yield Example(question.id, question.question, names, head, texts)

"""Training examples: a question, its topic entities, and a path to an answer.

``shortest`` takes every shortest path to an answer (GCR, arXiv 2410.13080, sec. 4.2). ``best``
ranks the relation paths of a question by how well *all* their tails match the answers and by the
gold relation path or predicates, if a data set has them, and takes a few paths of the best ones.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from itertools import compress
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kgqa.errors import DataError, EntityNotFoundError
from kgqa.graph.names import normalise
from kgqa.linking.resolve import resolve_entity
from kgqa.paths.walk import (
    FIRST,
    SECOND,
    TAIL,
    PathTable,
    RelationPath,
    WalkRules,
    joined_tables,
    relation_paths_to,
)
from kgqa.questions import Question, read_questions
from kgqa.questions.meanings import known_topics, meanings_of
from kgqa.questions.rows import file_lines
from kgqa.training.gold import GoldPath, agreed, gold_paths
from kgqa.trie.lexicon import names_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.progress import Progress
    from kgqa.training.options import Selection

_NEAR = 0.85  # of the best relation path's mark: others that are taken beside it
CAP = 200_000  # paths of a topic entity that are looked at
GOLD = 2.0  # what being the gold relation path adds to the mark, more than all else together


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """A question with ids of its topic entities and answers.

    ``predicates``: those of its gold relation paths or gold query; ``relation_paths``: the gold
    ones, if the data set has them. ``loose``: they state no direction of a predicate. Without
    ``answers`` the tails of the gold relation paths are the answers.
    """

    id: str
    question: str
    topics: tuple[str, ...]
    answers: tuple[str, ...]
    predicates: frozenset[str] = frozenset()
    relation_paths: tuple[tuple[str, ...], ...] = ()
    loose: bool = False


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A question with the path or chain to write, which is :attr:`written`."""

    question_id: str
    question: str
    topics: tuple[str, ...]  # names

    @property
    def written(self) -> tuple[object, ...]:
        """The path or chain, which tells examples of one question apart."""
        raise NotImplementedError


ExampleT = TypeVar("ExampleT", bound=TrainingExample)


@dataclass(frozen=True, slots=True)
class Example(TrainingExample):
    """The parts of a prompt, and a path as names and relations.

    ``topic_ids``: the ids of ``topics``, for decoding the question in its KG.
    """

    head: str
    hops: tuple[tuple[str, str], ...]  # (relation, tail) texts
    topic_ids: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[object, ...]:
        """The path as texts: the head, then each relation with its tail."""
        return self.head, self.hops


@dataclass(slots=True)
class DataReport:
    """Counts of questions by what became of them: used, or the reason why not."""

    questions: int = 0
    used: int = 0
    examples: int = 0
    unreachable: list[str] = field(default_factory=list)  # question ids without a path
    unknown: list[str] = field(default_factory=list)  # question ids whose topics are not in the KG

    def add(self, other: DataReport) -> None:
        """Add the counts of another report."""
        for count in fields(other):
            setattr(self, count.name, getattr(self, count.name) + getattr(other, count.name))

    def __str__(self) -> str:
        """Return the report as a sentence."""
        return (
            f"{self.examples:,} examples of {self.used:,} of {self.questions:,} questions; "
            f"{len(self.unreachable):,} have no path to an answer, {len(self.unknown):,} name "
            "entities that are not in the KG."
        )


def build_examples(
    store: GraphStore,
    questions: Sequence[TrainingQuestion],
    rules: WalkRules,
    form: PathFormat,
    *,
    per_question: int | None = 4,
    selection: Selection = "best",
    seed: int = 0,
    progress: Progress,
) -> tuple[list[Example], DataReport]:
    """Return up to ``per_question`` examples (None: all) of each question, and a report.

    Questions without a path to an answer have none, which the report counts. Raises GraphError.
    """
    report = DataReport(questions=len(questions))
    examples: list[Example] = []
    random = np.random.default_rng(seed)
    with progress.task("paths to answers", len(questions), "questions") as task:
        for question in questions:
            candidates = relation_paths_of(store, question, rules, report)
            tables = _chosen(candidates, per_question, selection, random)
            made = list(_examples(store, question, tables, form))
            report.used += bool(made)
            examples.extend(made)
            task.advance()
    report.examples = len(examples)
    return examples, report


def without_repeats(
    examples: Iterable[ExampleT], held_out: Iterable[ExampleT] = ()
) -> list[ExampleT]:
    """Return the distinct ``examples`` whose questions are not among the held-out ones.

    Two examples are equal if question, topic entities and path are; two questions if text and topic
    entities are, whatever their ids: a data set may hold a question twice.
    """
    kept_apart = {_asked(example) for example in held_out}
    kept: dict[object, ExampleT] = {}
    for example in examples:
        asked = _asked(example)
        if asked not in kept_apart:
            kept.setdefault((asked, example.written), example)
    return list(kept.values())


def _asked(example: TrainingExample) -> tuple[str, tuple[str, ...]]:
    """Return the key that equal questions share: text and topic entities."""
    return normalise(example.question), tuple(sorted(example.topics))


def _chosen(
    candidates: Sequence[tuple[RelationPath, float]],
    per_question: int | None,
    selection: Selection,
    random: np.random.Generator,
) -> list[PathTable]:
    """Return the paths of one question that become examples, best first, a table a relation path.

    ``per_question``: the most paths, None: all. "shortest" gives one table of the shortest paths.
    """
    if not candidates:
        return []
    if selection == "shortest":
        shortest = _shortest([path.paths for path, _ in candidates])
        if per_question is not None and len(shortest) > per_question:
            rows = random.permutation(len(shortest))[:per_question]
            shortest = shortest.take(np.sort(rows))
        return [shortest]
    chosen = near_best(candidates, per_question or len(candidates))
    tables = []
    # the best relation path gets what the others leave of the question's examples
    share = None if per_question is None else per_question - len(chosen) + 1
    for path in chosen:
        rows = random.permutation(len(path.paths))[:share]
        tables.append(path.paths.take(np.sort(rows)))
        share = None if per_question is None else 1
    return tables


def relation_paths_of(
    store: GraphStore, question: TrainingQuestion, rules: WalkRules, report: DataReport
) -> list[tuple[RelationPath, float]]:
    """Return the relation paths to a question's answers with their scores, best first.

    If there is none, ``report`` lists the question as unknown or unreachable.
    """
    meant = meant_by(store, question, rules)
    if not len(meant.topics) or not (len(meant.answers) or meant.by_paths):
        report.unknown.append(question.id)
        return []
    candidates = meant.relation_paths()
    if not candidates:
        report.unreachable.append(question.id)
    return candidates


def near_best(
    candidates: Sequence[tuple[RelationPath, float]], most: int | None = None, near: float = _NEAR
) -> list[RelationPath]:
    """Return those of the first ``most`` relation paths whose score is near the best one's.

    ``near``: as a fraction of it.
    """
    return [path for path, mark in candidates[:most] if mark >= near * candidates[0][1]]


@dataclass(frozen=True, slots=True)
class Meant:
    """A question linked to a KG: keys of its topic entities and answers, and gold paths."""

    store: GraphStore
    question: TrainingQuestion
    rules: WalkRules
    topics: IntArray
    answers: IntArray
    gold: list[GoldPath]

    @property
    def by_paths(self) -> bool:
        """Whether the answers are the tails of the gold relation paths."""
        return bool(self.question.relation_paths) and not self.question.answers

    def relation_paths(self) -> list[tuple[RelationPath, float]]:
        """Return the relation paths to the answers with their scores, best first.

        A score is the F1 of the tails, plus the fraction of predicates that are gold, plus ``GOLD``
        for a gold path that states directions.
        """
        paths: list[RelationPath] = []
        if not self.by_paths:
            paths = relation_paths_to(self.store, self.topics, self.answers, self.rules, CAP)
        rank = {(gold.topic, gold.steps): gold.rank for gold in reversed(self.gold)}
        there = {(path.topic, path.steps) for path in paths}
        for gold in self.gold:  # those that a hub kept the search from
            hit = np.isin(gold.paths.ends(), self.answers)
            if (gold.topic, gold.steps) not in there and hit.any():
                there.add((gold.topic, gold.steps))
                right = len(np.intersect1d(gold.tails, self.answers))
                f1 = 2 * right / (len(gold.tails) + len(np.unique(self.answers)))
                reaching = gold.paths.take(np.flatnonzero(hit))
                paths.append(RelationPath(gold.topic, gold.steps, f1, gold.tails, reaching))
        ids = self.store.relations().ids

        def mark(path: RelationPath) -> float:
            """Return a relation path's score: F1, known predicates, and a bonus if it is gold."""
            steps = [step for hop in path.steps for step in hop if step >= 0]
            known = sum(ids[step // 2] in self.question.predicates for step in steps)
            is_gold = (path.topic, path.steps) in rank and not self.question.loose
            return path.f1 + known / len(steps) + GOLD * is_gold

        def order(pair: tuple[RelationPath, float]) -> tuple[float, int]:
            """Return the sort key of a scored relation path: score, then rank in the gold list."""
            path, marked = pair
            return -marked, rank.get((path.topic, path.steps), len(rank))

        # stable: shorter ones stay before longer ones
        return sorted(((path, mark(path)) for path in paths), key=order)


def meant_by(store: GraphStore, question: TrainingQuestion, rules: WalkRules) -> Meant:
    """Link ``question`` to the KG; without gold answers, its gold paths give them.

    Ids that the KG lacks are dropped. Raises GraphError.
    """
    keys = store.keys_of(question.topics), store.keys_of(question.answers)
    topics, answers = (some[some >= 0] for some in keys)
    gold = gold_paths(store, topics, question.relation_paths, rules, loose=question.loose)
    if question.relation_paths and not question.answers:
        answers = agreed(gold)
    return Meant(store, question, rules, topics, answers, gold)


def _shortest(tables: Sequence[PathTable]) -> PathTable:
    """Return the shortest paths between each topic entity and end."""
    table = joined_tables(tables)
    ends = np.stack([table.topic, table.ends()], axis=1)
    _, pair = np.unique(ends, axis=0, return_inverse=True)
    pair = pair.reshape(-1)
    least = np.full(int(pair.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, pair, table.length)
    return table.take(np.flatnonzero(table.length == least[pair]))


def _examples(
    store: GraphStore, question: TrainingQuestion, tables: Sequence[PathTable], form: PathFormat
) -> Iterator[Example]:
    """Yield an example for each path of ``tables``."""
    if not tables:
        return
    keys = store.keys_of(question.topics)
    known = tuple(compress(question.topics, keys >= 0))
    names = tuple(names_of(store, keys[keys >= 0]))
    relations = store.relations().names
    for table in tables:
        heads = names_of(store, table.topic)
        for head, hops, length in zip(heads, table.hops, table.length, strict=True):
            tails = names_of(store, hops[:length, TAIL])
            texts = tuple(
                (form.relation(int(hop[FIRST]), int(hop[SECOND]), relations), tail)
                for hop, tail in zip(hops[:length], tails, strict=True)
            )
            yield Example(question.id, question.question, names, head, texts, known)


# formats whose gold relation paths, in a question without answers, do not say in which direction
# a predicate is walked
_LOOSE = ("jsonl", "webqsp-graph", "cwq-graph")
_TOPICS = ("topic_entities", "q_entity", "freebase_ids")  # as sets and linkers call them
_MAX_NOTED_ENTRIES = 5  # entries that are noted


@dataclass(frozen=True, slots=True)
class TrainingFile:
    """The questions of a file; ``loose``: its gold relation paths state no directions."""

    questions: list[Question]
    loose: bool = False

    def in_graph(self, store: GraphStore, question: Question) -> TrainingQuestion:
        """Return a question with its entities' ids, found as evaluation finds them.

        Topic entities and answers that the KG lacks are dropped.
        """
        topics = []
        for text in known_topics(store, question):
            try:
                topics.append(resolve_entity(store, text).id)
            except EntityNotFoundError:
                continue  # the report counts the question if none is left
        answers = meanings_of(store, question.answers, question.names)
        loose = self.loose and not question.answers
        steps = {step.removeprefix("^") for path in question.relation_paths for step in path}
        return TrainingQuestion(
            id=question.id,
            question=question.question,
            topics=tuple(dict.fromkeys(topics)),
            answers=tuple(answers.same),
            predicates=frozenset() if loose else frozenset({*steps, *question.predicates}),
            relation_paths=tuple(question.relation_paths),
            loose=loose,
        )


def read_file(path: Path, form: str, topics: Path | None, progress: Progress) -> TrainingFile:
    """Parse a question file; entries that cannot be read are skipped, with notes.

    ``topics``: a file of topic entities, for questions that name none. Raises DataError if a file
    cannot be read or has no question, UsageError for an unknown format.
    """
    file = read_questions(path, form)
    for entry in file.bad_entries[:_MAX_NOTED_ENTRIES]:
        progress.note(f"{entry} - not a question.")
    if (more := len(file.bad_entries) - _MAX_NOTED_ENTRIES) > 0:
        progress.note(f"And {more:,} more entries that are not questions.")
    questions = list(file.questions)
    if topics is not None:
        given = read_topics(topics)
        for place, question in enumerate(questions):
            if not question.topic_entities:
                about = given.get(question.id, {})
                names = {id_: name for id_, name in about.items() if name}
                questions[place] = replace(question, topic_entities=list(about), names=names)
    return TrainingFile(questions, loose=form in _LOOSE)


def read_topics(path: Path) -> dict[str, dict[str, str]]:
    """Parse the topic entities of questions, by question id, from JSON: a list, or lines.

    Entries are ``{id, …}``. The topic entities come by id with their names, as far as the file has
    them (``names``, or the first of each ``pred_tuples_string``, as the ELQ linker writes them);
    else "". Raises DataError.
    """
    lines = file_lines(path, "file of topic entities")
    text = "\n".join(lines)
    hint = 'It holds records like {"id": "1", "topic_entities": ["m.02mjmr"]}.'
    try:
        records = json.loads(text) if text.lstrip().startswith("[") else None
    except (ValueError, RecursionError) as error:
        raise DataError(f"The file of topic entities {path} is not JSON: {error}.", hint) from None
    topics_by_id = {}
    if records is None:
        records = [line for line in lines if line.strip()]
    for number, entry in enumerate(records, 1):
        try:
            record = json.loads(entry) if isinstance(entry, str) else entry
            topics = record[next(name for name in _TOPICS if name in record)]
            names = record.get("names") or [two[0] for two in record.get("pred_tuples_string", [])]
            if len(names) != len(topics):
                names = [""] * len(topics)
            if not all(isinstance(text, str) for text in (*topics, *names)):
                raise TypeError
            topics_by_id[str(record["id"])] = dict(zip(topics, names, strict=True))
        except (
            *(ValueError, TypeError, KeyError, IndexError, AttributeError, StopIteration),
            RecursionError,
        ):
            raise DataError(
                f"Record {number} of the file of topic entities {path} names none.", hint
            ) from None
    return topics_by_id

"""Learning a KG: the universal path ranker, fitted to questions about one KG.

A quarter of the questions is held out first; only if a ranker fitted to the others is better on
them is one fitted to all and kept.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.errors import DataError, EntityNotFoundError, KgqaError
from kgqa.linking.resolve import resolve_entity
from kgqa.methods.rank import RankWords, relation_paths
from kgqa.models.path_ranker import load_path_ranker, ranker_changes, save_path_ranker
from kgqa.paths.walk import WalkRules, relation_paths_to
from kgqa.questions.meanings import known_topics, meanings_of
from kgqa.training.questions import read_file
from kgqa.training.ranker_fit import (
    RankerSettings,
    RankingBatch,
    fit_ranker,
    joined_changes,
    log_likelihood,
)
from kgqa.training.reports import LearnReport

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from kgqa.models.path_ranker import PathRanker
    from kgqa.progress import Progress
    from kgqa.questions import Question
    from kgqa.training.options import LearnOptions

_CAP = 100_000  # paths of a topic entity that gold relation paths are looked for in
_NEARLY = 0.9  # part of the best F1 from which a relation path is right, too
_RIGHT = 0.5  # F1 that the best one has at least; for several topics it may have less
_OTHERS = 48  # relation paths of two hops that a question chooses among
_TOGETHER = 16  # questions of a batch
_LEAST = 8  # questions that something is learnt from
_HELD_OUT = 4  # one of so many
_ROUNDS = 12  # how often each question is seen


@dataclass(frozen=True, slots=True)
class KgQuestion:
    """A question about a topic entity: the relation paths out of it in words, and the right ones.

    ``asked``: without the topic's name; ``gold``: positions in ``paths``, none if the graph has no
    answer.
    """

    asked: str
    paths: tuple[str, ...]
    hops: tuple[int, ...]
    gold: frozenset[int]


def learn(
    store: GraphStore,
    out: Path,
    options: LearnOptions,
    *,
    device: str | None,
    cache: Path,
    progress: Progress,
) -> LearnReport:
    """Fit the ranker that ``options`` start from to their questions, into ``out`` if it is better.

    Raises DataError if there are too few questions that the KG can answer.
    """
    began = time.perf_counter()
    load = partial(load_path_ranker, device=device, cache=cache, progress=progress)
    start = load(options.start_from)
    assert options.questions is not None  # the caller has checked it
    read = read_file(options.questions, options.format, None, progress)
    made, unusable = kg_questions(store, read.questions, start)
    if len(made) < _LEAST:
        raise DataError(
            f"{options.questions} has {len(made)} questions that {store.info.name} can answer; "
            f"{_LEAST} are needed to learn from.",
            "Each names its `answers`, and topic entities that a path leads from to them.",
        )
    order = Random(options.seed).sample(made, len(made))
    held = order[::_HELD_OUT]
    rest = [one for place, one in enumerate(order) if place % _HELD_OUT]
    before = log_likelihood(start, [batch_of(held, None)])
    _, fitted = _fitted(start, rest, options, progress)
    after = log_likelihood(fitted, [batch_of(held, None)])
    kept = after > before
    steps = _steps(made)
    if kept:
        changes, fitted = _fitted(load(options.start_from), made, options, progress)
        described = {"kg": store.info.name, "questions": len(made)}
        card = replace(fitted.card, described=described, refuse_above=start.card.refuse_above)
        every = joined_changes(ranker_changes(options.start_from), changes)
        save_path_ranker(out, card, every)
    return LearnReport(
        folder=out if kept else None,
        questions=len(made),
        unusable=unusable,
        steps=steps,
        before=before,
        after=after,
        seconds=time.perf_counter() - began,
    )


def _fitted(
    start: PathRanker, questions: Sequence[KgQuestion], options: LearnOptions, progress: Progress
) -> tuple[dict[str, Any], PathRanker]:
    """Return the changes, and ``start`` with them."""
    settings = RankerSettings(
        steps=_steps(questions), rank=16, rate=options.learning_rate, seed=options.seed
    )
    batches = _batches(questions, Random(options.seed))
    fitted = fit_ranker(start, batches, settings, progress)
    start.card = fitted.card
    start.forget()
    return fitted.changes, start


def _steps(questions: Sequence[KgQuestion]) -> int:
    return max(1, round(_ROUNDS * len(questions) / _TOGETHER))


def _batches(questions: Sequence[KgQuestion], random: Random) -> Iterator[RankingBatch]:
    while True:
        order = random.sample(questions, len(questions))
        for start in range(0, len(order), _TOGETHER):
            yield batch_of(order[start : start + _TOGETHER], random)


def batch_of(questions: Sequence[KgQuestion], random: Random | None) -> RankingBatch:
    """Return questions as a batch, each with its own candidates; all of them without ``random``."""
    batch = RankingBatch([], [], [], [], [], [])
    place: dict[tuple[str, float], int] = {}
    for one in questions:
        others = [at for at, hops in enumerate(one.hops) if hops > 1 and at not in one.gold]
        drawn = others if random is None else random.sample(others, min(len(others), _OTHERS))
        weight = len(others) / max(len(drawn), 1)
        kept = [at for at, hops in enumerate(one.hops) if hops == 1 or at in one.gold]
        rows = []
        for at, stands_for in [*((at, 1.0) for at in kept), *((at, weight) for at in drawn)]:
            known = place.setdefault((one.paths[at], stands_for), len(batch.paths))
            if known == len(batch.paths):
                batch.paths.append(one.paths[at])
                batch.hops.append(one.hops[at])
                batch.stands_for.append(stands_for)
            rows.append((at, known))
        batch.questions.append(one.asked)
        batch.candidates.append([known for _, known in rows])
        batch.gold.append([known for at, known in rows if at in one.gold])
    return batch


def kg_questions(
    store: GraphStore, questions: Sequence[Question], ranker: PathRanker
) -> tuple[list[KgQuestion], int]:
    """Return what questions are in the KG, one for each topic entity, and how many are unusable.

    Raises GraphError.
    """
    rules = WalkRules(ranker.card.hops, store.info.direction)
    words = RankWords(store, rules)
    found: list[KgQuestion] = []
    unusable = 0
    for question in questions:
        try:
            topics = [resolve_entity(store, one) for one in known_topics(store, question)]
        except (EntityNotFoundError, KgqaError):
            topics = []
        answers = store.keys_of(list(meanings_of(store, question.answers, question.names).same))
        answers = answers[answers >= 0]
        usable = False
        for topic in topics:
            paths, _ = relation_paths(store, topic.key, rules)
            gold = _gold(store, topic.key, answers, rules, several=len(topics) > 1)
            right = frozenset(at for at, steps in enumerate(paths.steps) if steps in gold)
            if not paths.steps or (question.answers and not right):
                continue
            names = [(one.key, one.name, one.id) for one in topics]
            asked = words.question(question.question, topic.key, names)
            texts = tuple(words.path(steps) for steps in paths.steps)
            found.append(KgQuestion(asked, texts, tuple(map(len, paths.steps)), right))
            usable = True
        unusable += not usable
    return found, unusable


def _gold(
    store: GraphStore, topic: int, answers: Any, rules: WalkRules, *, several: bool
) -> set[tuple[tuple[int, int], ...]]:
    """Return the relation paths from ``topic`` that lead to little but the answers."""
    if not len(answers):
        return set()
    found = relation_paths_to(store, np.array([topic]), answers, rules, _CAP)
    if not found or (found[0].f1 < _RIGHT and not several):
        return set()
    return {one.steps for one in found if one.f1 >= _NEARLY * found[0].f1}

"""People's questions as a path ranker is fitted to them: with the paths out of their topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.errors import EntityNotFoundError
from kgqa.linking.resolve import resolve_entity
from kgqa.methods.rank import RankWords
from kgqa.paths.relation_paths import relation_paths
from kgqa.paths.walk import WalkRules, relation_paths_to
from kgqa.questions.meanings import known_topics, meanings_of
from kgqa.training.ranker_fit import RankingBatch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from kgqa.graph.store import GraphStore
    from kgqa.models.path_ranker import PathRanker
    from kgqa.questions import Question

_CAP = 100_000  # paths of a topic entity that gold relation paths are looked for in
_NEARLY = 0.9  # part of the best F1 from which a relation path is right, too
_RIGHT = 0.5  # F1 that the best one has at least; for several topics it may have less
_OTHERS = 48  # relation paths of two hops that a question chooses among


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
        except EntityNotFoundError:
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

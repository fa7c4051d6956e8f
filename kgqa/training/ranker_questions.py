"""People's questions as a path ranker is fitted to them: with the paths out of their topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.linking.resolve import resolve_entity
from kgqa.paths.relation_paths import relation_paths
from kgqa.paths.walk import relation_paths_to
from kgqa.training.data import CAP, meant_by
from kgqa.training.ranker_fit import RankingBatch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kgqa.methods.rank_words import RankWords
    from kgqa.models.path_ranker import PathRanker
    from kgqa.paths.schema import Hop
    from kgqa.training.data import Meant, TrainingQuestion

_NEARLY = 0.9  # part of the best F1 from which a relation path is right, too
_RIGHT = 0.5  # F1 that the best one has at least; for several topics it may have less
_CANDIDATES = 32  # relation paths that a question chooses among, beside its topic's others


@dataclass(frozen=True, slots=True)
class KgQuestion:
    """A question about a topic entity: relation paths out of it in words, and the right ones.

    ``asked``: without the topic's name; ``topic``: its key; ``paths``: words and number of hops of
    each, nearest first; ``gold``: those of them that are right, none if the graph has no answer.
    """

    asked: str
    topic: int
    paths: Mapping[str, int]
    gold: frozenset[str]


def kg_question(
    words: RankWords,
    ranker: PathRanker,
    asked: str,
    topic: int,
    steps: Sequence[Sequence[Hop]],
    gold: Collection[Sequence[Hop]],
) -> KgQuestion:
    """Return the question ``asked`` with its candidates among ``steps``; ``gold`` are right."""
    order = words.nearest(ranker, asked, steps)
    kept = [steps[at] for place, at in enumerate(order) if place < _CANDIDATES or steps[at] in gold]
    paths = {words.path(path): len(path) for path in kept}
    return KgQuestion(
        asked, topic, paths, frozenset(words.path(path) for path in kept if path in gold)
    )


def batch_of(questions: Sequence[KgQuestion]) -> RankingBatch:
    """Return questions as a batch; those about one topic choose among the same relation paths."""
    place: dict[str, int] = {}
    hops: list[int] = []
    among: dict[int, dict[int, None]] = {}
    for question in questions:
        for path, count in question.paths.items():
            if path not in place:
                place[path] = len(hops)
                hops.append(count)
            among.setdefault(question.topic, {})[place[path]] = None
    return RankingBatch(
        paths=list(place),
        hops=hops,
        stands_for=[1.0] * len(place),
        questions=[question.asked for question in questions],
        candidates=[list(among.get(question.topic, ())) for question in questions],
        gold=[[place[path] for path in sorted(question.gold)] for question in questions],
    )


def kg_questions(
    words: RankWords, questions: Sequence[TrainingQuestion], ranker: PathRanker
) -> tuple[list[KgQuestion], int]:
    """Return what questions are in the KG, one for each topic entity, and how many are unusable.

    Raises GraphError.
    """
    store, rules = words.store, words.rules
    made: list[KgQuestion] = []
    unusable = 0
    for question in questions:
        meant, before = meant_by(store, question, rules), len(made)
        names = words.names([resolve_entity(store, topic) for topic in question.topics])
        for topic in meant.topics.tolist():
            paths, _ = relation_paths(store, topic, rules)
            gold = _gold(meant, topic)
            answerable = bool(question.answers or question.relation_paths)
            if not paths.steps or (answerable and not gold.intersection(paths.steps)):
                continue
            asked = words.question(question.question, topic, names)
            made.append(kg_question(words, ranker, asked, topic, paths.steps, gold))
        unusable += len(made) == before
    return made, unusable


def _gold(meant: Meant, topic: int) -> set[tuple[tuple[int, int], ...]]:
    """Return the relation paths from ``topic`` that lead to little but the answers."""
    if not len(meant.answers):
        return set()
    paths = relation_paths_to(meant.store, np.array([topic]), meant.answers, meant.rules, CAP)
    if not paths or (paths[0].f1 < _RIGHT and len(meant.topics) == 1):
        return set()
    return {path.steps for path in paths if path.f1 >= _NEARLY * paths[0].f1}

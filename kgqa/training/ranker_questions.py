"""People's questions as a path ranker is fitted to them: with the paths out of their topics."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.errors import EntityNotFoundError
from kgqa.linking.resolve import resolve_entity
from kgqa.paths.relation_paths import relation_paths
from kgqa.paths.walk import relation_paths_to
from kgqa.questions.meanings import known_topics, meanings_of
from kgqa.training.ranker_fit import RankingBatch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from random import Random

    from kgqa.graph.store import GraphStore
    from kgqa.methods.rank_words import RankWords
    from kgqa.models.path_ranker import PathRanker
    from kgqa.paths.schema import Hop
    from kgqa.paths.walk import WalkRules
    from kgqa.questions import Question

_CAP = 100_000  # paths of a topic entity that gold relation paths are looked for in
_NEARLY = 0.9  # part of the best F1 from which a relation path is right, too
_RIGHT = 0.5  # F1 that the best one has at least; for several topics it may have less
_CANDIDATES = (
    32  # relation paths that a question chooses among, beside its topic's others
)
_NEAREST = 4  # of them that are always among those of a batch; of the others some are drawn
_DRAWN = 12  # of a topic


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
    paths = {words.path(one): len(one) for one in kept}
    return KgQuestion(
        asked, topic, paths, frozenset(words.path(one) for one in kept if one in gold)
    )


def batch_of(questions: Sequence[KgQuestion], random: Random | None) -> RankingBatch:
    """Return questions as a batch; those about one topic choose among the same relation paths.

    These are all that any of them has, or with ``random`` the nearest ones, and some drawn.
    """
    batch = RankingBatch([], [], [], [], [], [])
    for topic in dict.fromkeys(one.topic for one in questions):
        ours = [one for one in questions if one.topic == topic]
        every = {path: hops for one in ours for path, hops in one.paths.items()}
        near = {path: hops for path, hops in every.items() if any(path in one.gold for one in ours)}
        for one in ours:
            wrong = (path for path in one.paths if path not in one.gold)
            near |= {path: every[path] for path in islice(wrong, _NEAREST)}
        far = [path for path in every if path not in near]
        drawn = far if random is None else random.sample(far, min(len(far), _DRAWN))
        place = {path: at for at, path in enumerate((*near, *drawn), len(batch.paths))}
        batch.paths.extend(place)
        batch.hops.extend(every[path] for path in place)
        batch.stands_for.extend([1.0] * len(near) + [len(far) / max(len(drawn), 1)] * len(drawn))
        for one in ours:
            batch.questions.append(one.asked)
            batch.candidates.append([*place.values()])
            batch.gold.append([place[path] for path in sorted(one.gold)])
    return batch


def kg_questions(
    words: RankWords, questions: Sequence[Question], ranker: PathRanker
) -> tuple[list[KgQuestion], int]:
    """Return what questions are in the KG, one for each topic entity, and how many are unusable.

    Raises GraphError.
    """
    store, rules = words.store, words.rules
    found: list[KgQuestion] = []
    unusable = 0
    for question in questions:
        try:
            topics = [resolve_entity(store, one) for one in known_topics(store, question)]
        except EntityNotFoundError:
            topics = []
        answers = store.keys_of(list(meanings_of(store, question.answers, question.names).same))
        answers = answers[answers >= 0]
        names = words.names(topics)
        usable = False
        for topic in topics:
            paths, _ = relation_paths(store, topic.key, rules)
            gold = _gold(store, topic.key, answers, rules, several=len(topics) > 1)
            if not paths.steps or (question.answers and not gold.intersection(paths.steps)):
                continue
            asked = words.question(question.question, topic.key, names)
            found.append(kg_question(words, ranker, asked, topic.key, paths.steps, gold))
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

"""KG-CoT: a small graph model walks, its best paths to the likeliest entities are the evidence.

After KG-CoT (IJCAI 2024). The reasoner (:mod:`kgqa.models.graph_reasoner`) says how likely each
entity round the topic entities is the answer; the ``n`` best paths to each of the ``k`` likeliest
(:mod:`kgqa.methods.kg_cot.paths`) are checked in the store, edge by edge, and shown. With a
general LLM all of them go into one prompt (:class:`kgqa.methods.base.WithGeneralLLM`); without
one the reasoner's own ranking answers. What it does not do: decode text, or train the reasoner.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.answer import Answer, KgLlmUse, RankedAnswer, ScoredPath, SearchUse, Timings
from kgqa.answers.choices import find_choices
from kgqa.answers.expand import ExpandedPath
from kgqa.errors import EmptyLanguageError
from kgqa.graph.model import Kind
from kgqa.methods.base import one_by_one
from kgqa.methods.kg_cot.paths import PathSearch
from kgqa.methods.kg_cot.scores import BoundReasoner, score_questions
from kgqa.methods.kg_cot.walk import FLOOR
from kgqa.paths.ground import ground
from kgqa.paths.walk import PathTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kgqa.answers.choices import AnswerChoice
    from kgqa.errors import KgqaError
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Numbered
    from kgqa.methods.gcr import Asking
    from kgqa.methods.kg_cot.paths import FoundPath
    from kgqa.methods.kg_cot.scores import QuestionScores
    from kgqa.models.graph_reasoner_card import LoadedReasoner
    from kgqa.paths.format import PathFormat
    from kgqa.paths.ground import GroundedPath
    from kgqa.paths.walk import WalkRules

MOST_ANSWERS = 500  # with a path each
_LOW = 1e-6  # the floor of walks where FLOOR left nothing, and where choices are asked for


@dataclass(frozen=True, slots=True)
class KgCot:
    """Answers from the paths of a graph reasoner: a method.

    ``walks`` says which walks of a store are paths; ``k`` is how many of the likeliest entities get
    paths, ``n`` how many each. ``cut``: answers are the entities with at least this part of the
    first one's score; None is the reasoner's own.
    """

    reasoner: LoadedReasoner
    form: PathFormat
    walks: Callable[[GraphStore], WalkRules]
    k: int = 10
    n: int = 1
    cut: float | None = None

    @property
    def name(self) -> str:
        """The method's name."""
        return "kg-cot"

    def rules(self, store: GraphStore) -> WalkRules:
        """Return which walks of ``store`` are paths."""
        return self.walks(store)

    def answers(self, store: GraphStore, questions: Iterable[Asking | KgqaError]) -> Numbered:
        """Yield each question's number with its answer or its error, in their order.

        Raises AdapterMismatchError where the reasoner is of another KG.
        """
        bound = BoundReasoner(self.reasoner, store, self.walks(store))
        return one_by_one(questions, lambda asking: self._answer(bound, asking))

    def _answer(self, bound: BoundReasoner, asking: Asking) -> Answer:
        began = time.perf_counter()
        choices = find_choices(bound.store, asking.choices) if asking.choices else []
        scores = _scores(bound, asking, choices)
        walked = time.perf_counter()
        found = _Found(bound, scores, self.form)
        if choices:
            ends = [key for one in choices for key in one.keys]
            rank = {key: at for at, key in enumerate(scores.node.tolist())}
            shown = sorted({key for key in ends if key in rank}, key=rank.__getitem__)
            paths = found.paths(shown, self.n)
            expanded: list[ExpandedPath] = []
        else:
            chosen = self._chosen(scores)
            paths = found.paths(scores.node[: self.k].tolist(), self.n)
            more = [] if chosen <= self.k else scores.node[self.k : chosen].tolist()
            beyond, expanded = found.expanded(more, paths)
            paths += beyond
        grounded = time.perf_counter()
        answers: Sequence[RankedAnswer]
        others: Sequence[RankedAnswer] = ()
        if choices:
            answers = _ranked_choices(choices, scores, paths)
        else:
            ranked = _ranked(bound.store, scores, max(chosen, self.k), paths, expanded)
            answers = [one for one, place in ranked if place < chosen]
            others = [one for one, place in ranked if place >= chosen]
        return Answer(
            question=asking.question,
            method=self.name,
            topic_entities=asking.topics,
            answers=tuple(answers),
            others=tuple(others),
            paths=tuple(paths),
            expanded=tuple(expanded),
            constraints=(),
            kg_llm=KgLlmUse(self.reasoner.encoder.name, self.reasoner.name, 1, scores.tokens, 0),
            general_llm=None,
            timings=Timings(
                link=asking.link_seconds,
                decode=walked - began,
                ground=grounded - walked,
                answer=time.perf_counter() - grounded,
            ),
            forwards=1,
            search=SearchUse("walk"),
            confidence=float(scores.score[0]),
        )

    def _chosen(self, scores: QuestionScores) -> int:
        """Return how many of the entities are answers: those near the first one."""
        cut = self.reasoner.card.answer_threshold if self.cut is None else self.cut
        near = int((scores.score >= cut * scores.score[0]).sum())
        return min(max(near, 1), MOST_ANSWERS)


def _scores(
    bound: BoundReasoner, asking: Asking, choices: Sequence[AnswerChoice]
) -> QuestionScores:
    """Return what the reasoner says of entities that may be answers. Raises EmptyLanguageError."""
    topics = np.unique(np.array([topic.key for topic in asking.topics], np.int64))
    floors = (_LOW,) if choices else (FLOOR, _LOW)
    ends = np.array([key for one in choices for key in one.keys], np.int64)
    for floor in floors:
        (scores,) = score_questions(bound, [(asking.question, topics)], floor)
        keep = scores.kind != Kind.MEDIATOR
        if choices:
            keep &= np.isin(scores.node, ends)
        if keep.any():
            return scores.only(keep)
    where = "to one of the choices" if choices else "out of the topic entities"
    raise EmptyLanguageError(
        f"The reasoner {bound.reasoner.name} finds no path within {bound.rules.hops} hops {where}.",
        "Name another entity (--entity), allow longer paths (--hops), or use a reasoner that was "
        "trained for this KG (kgqa train kg-cot).",
    )


class _Found:
    """The paths of one question's walk, found and grounded when they are asked for."""

    def __init__(self, bound: BoundReasoner, scores: QuestionScores, form: PathFormat) -> None:
        self._bound = bound
        self._form = form
        self._search = PathSearch(scores.levels, scores.topics)

    def paths(self, nodes: Sequence[int], most: int) -> list[ScoredPath]:
        """Return the ``most`` best paths to each of ``nodes``, in that order.

        Those of one text are one: entities may share a name.
        """
        by_text: dict[str, list[tuple[float, GroundedPath]]] = {}
        for score, path in self._grounded(nodes, most):
            by_text.setdefault(path.text, []).append((score, path))
        return [
            ScoredPath(
                text,
                max(score for score, _ in same),
                same[0][1].tail.name,
                tuple(path for _, path in same),
            )
            for text, same in by_text.items()
        ]

    def expanded(
        self, nodes: Sequence[int], shown: Sequence[ScoredPath]
    ) -> tuple[list[ScoredPath], list[ExpandedPath]]:
        """Return a path to each of ``nodes``: by a relation path that is ``shown``, or by others.

        The first of these as paths of their own; the second stand for a shown one's other tails.
        """
        source = {
            (path.head.id, path.relation_path): one.text
            for one in reversed(shown)
            for path in one.groundings
        }
        beyond: list[ScoredPath] = []
        expanded: list[ExpandedPath] = []
        for score, path in self._grounded(nodes, 1):
            text = source.get((path.head.id, path.relation_path))
            if text is None:
                beyond.append(ScoredPath(path.text, score, path.tail.name, (path,)))
                source[path.head.id, path.relation_path] = path.text
            else:
                expanded.append(ExpandedPath(path, text))
        return beyond, expanded

    def _grounded(self, nodes: Sequence[int], most: int) -> list[tuple[float, GroundedPath]]:
        """Return (log of the score, path) of those of the paths whose edges are in the store."""
        found = [path for node in nodes for path in self._search.best(node, most)]
        checked = ground(self._bound.store, path_table(found, self._bound.rules.hops), self._form)
        return [
            (math.log(max(path.score, 1e-30)), one)
            for path, one in zip(found, checked, strict=True)
            if one is not None
        ]


def path_table(found: Sequence[FoundPath], hops: int) -> PathTable:
    """Return paths as the table that grounding checks; ``hops`` at most each."""
    taken = np.full((len(found), hops, 4), -1, np.int64)
    for row, path in enumerate(found):
        taken[row, : len(path.hops)] = path.hops
    return PathTable(
        np.array([path.topic for path in found], np.int64),
        np.array([len(path.hops) for path in found], np.int64),
        taken,
    )


def _ranked(
    store: GraphStore,
    scores: QuestionScores,
    most: int,
    paths: Sequence[ScoredPath],
    expanded: Sequence[ExpandedPath],
) -> list[tuple[RankedAnswer, int]]:
    """Return the first ``most`` entities that a path ends in, each with its place.

    Scores are shares of what all entities have together.
    """
    ends = {path.tail.id for one in paths for path in one.groundings}
    ends |= {one.grounding.tail.id for one in expanded}
    total = float(scores.score.sum(dtype=np.float64)) or 1.0
    entities = store.entities(scores.node[:most])
    return [
        (
            RankedAnswer(
                entities.ids[row], entities.label(row), float(scores.score[row]) / total, True
            ),
            row,
        )
        for row in range(len(entities))
        if entities.ids[row] in ends
    ]


def _ranked_choices(
    choices: Sequence[AnswerChoice], scores: QuestionScores, paths: Sequence[ScoredPath]
) -> list[RankedAnswer]:
    """Return every choice with its share of the entities' scores; one without a path has 0."""
    of: dict[int, float] = dict(zip(scores.node.tolist(), scores.score.tolist(), strict=True))
    names = {path.tail.id: path.tail.name for one in paths for path in one.groundings}
    weight = [math.fsum(of.get(key, 0.0) for key in one.keys) for one in choices]
    total = math.fsum(weight) or 1.0
    ranked = []
    for number in sorted(range(len(choices)), key=lambda one: -weight[one]):
        choice = choices[number]
        there = [
            (of[key], id_)
            for key, id_ in zip(choice.keys, choice.ids, strict=True)
            if key in of and id_ in names
        ]
        id_ = max(there)[1] if there else None
        name = names[id_] if id_ is not None else choice.text
        share = weight[number] / total if there else 0.0
        ranked.append(RankedAnswer(id_, name, share, id_ is not None))
    return ranked

"""KG-CoT (IJCAI 2024): a graph reasoner walks; the best paths to the likeliest entities are shown.

Every path is checked in the store, edge by edge. With a general LLM all of them go into one prompt;
without one the reasoner's own ranking answers.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.answers.answer import (
    ExpandedPath,
    Findings,
    KgLlmUse,
    RankedAnswer,
    ScoredPath,
    SearchUse,
    Timings,
)
from kgqa.answers.choices import find_choices, rank_by_score
from kgqa.answers.expand import LACKING, lacking
from kgqa.errors import EmptyLanguageError, KgqaError
from kgqa.graph.model import Kind
from kgqa.graph.store import foresee
from kgqa.methods.base import LinkedQuestion, Method
from kgqa.methods.kg_cot.paths import PathSearch
from kgqa.methods.kg_cot.scores import BoundReasoner, score_question
from kgqa.methods.kg_cot.walk import FLOOR
from kgqa.methods.options import KgCotOptions
from kgqa.methods.what_is import DESCRIBED
from kgqa.models.adapter import AdapterCard
from kgqa.paths.ground import ground
from kgqa.paths.walk import PathTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kgqa.answers.choices import AnswerChoice
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Found
    from kgqa.methods.kg_cot.scores import QuestionScores
    from kgqa.methods.resources import Resources
    from kgqa.paths.format import PathFormat
    from kgqa.paths.ground import GroundedPath

MOST_ANSWERS = 500  # with a path each
_LOW = 1e-6  # the floor of walks if FLOOR left nothing, and if there are choices


class KgCot(Method[KgCotOptions]):
    """Answers from the walk of a graph reasoner, by default the one that suits the KG best.

    For one thread: the hops of the last store are cached.
    """

    name = "kg-cot"
    Options = KgCotOptions

    def __init__(
        self, options: KgCotOptions, resources: Resources, *, general: bool = True
    ) -> None:
        super().__init__(options, resources, general=general)
        named = options.reasoner
        if named is None:
            named, note = resources.suited_reasoner()
            if note:
                resources.note(note)
        self.reasoner = resources.reasoner(named, options.encoder)
        card = self.reasoner.card
        self.card = AdapterCard(hops=card.hops, direction=card.direction, mediators=card.mediators)
        threshold = options.answer_threshold
        self.answer_threshold = card.answer_threshold if threshold is None else threshold
        self._bound: BoundReasoner | None = None

    def own_settings(self) -> dict[str, Any]:
        """Return the settings of the reasoner, and the thresholds of entities and answers."""
        return {
            "reasoner": self.reasoner.name,
            "paths_each": self.options.paths_each,
            "answer_threshold": self.answer_threshold,
        }

    def findings(self, store: GraphStore, questions: Iterable[LinkedQuestion | KgqaError]) -> Found:
        """Yield each question's number with its findings or its error, in any order.

        Raises AdapterMismatchError for walks of more hops than the reasoner was trained for.
        """
        self._in(store)
        yield from super().findings(store, questions)

    def _in(self, store: GraphStore) -> BoundReasoner:
        """Return the reasoner bound to a store, the last one if it has not changed."""
        bound, rules = self._bound, self.walks(store)
        if bound is None or bound.store is not store or bound.version != store.info.version:
            bound = self._bound = BoundReasoner(self.reasoner, store, rules)
        return bound

    def answer(self, store: GraphStore, question: LinkedQuestion) -> Findings:
        """Return the likeliest entities, or choices, with the best paths to them."""
        began = time.perf_counter()
        bound, k = self._in(store), self.options.k
        choices = find_choices(store, question.choices) if question.choices else []
        scores = _scores(bound, question, choices)
        if not choices:
            missing = lacking(store, question.topics, scores.node, bound.rules)
            scores = scores.times(LACKING ** missing.astype(np.float64))
        walked = time.perf_counter()
        reached = _Found(bound, scores, self.form)
        answers: Sequence[RankedAnswer]
        others: Sequence[RankedAnswer] = ()
        expanded: list[ExpandedPath] = []
        if choices:
            ends = [key for choice in choices for key in choice.keys]
            rank = {key: at for at, key in enumerate(scores.node.tolist())}
            shown = sorted({key for key in ends if key in rank}, key=rank.__getitem__)
            paths = reached.paths(shown, self.options.paths_each)
            grounded = time.perf_counter()
            of = dict(zip(scores.node.tolist(), scores.score.tolist(), strict=True))
            names = {
                path.tail.id: path.tail.name
                for shown_path in paths
                for path in shown_path.groundings
            }
            answers = rank_by_score(choices, of, names)
        else:
            near = int((scores.score >= self.answer_threshold * scores.score[0]).sum())
            chosen = min(max(near, 1), MOST_ANSWERS)
            foresee(store, scores.node[: min(chosen, DESCRIBED)], "out")
            paths = reached.paths(scores.node[:k].tolist(), self.options.paths_each)
            beyond, expanded = reached.expanded(scores.node[k : max(k, chosen)].tolist(), paths)
            paths += beyond
            grounded = time.perf_counter()
            ranked = _ranked(store, scores, max(chosen, k), paths, expanded)
            answers = [answer for answer, place in ranked if place < chosen]
            others = [answer for answer, place in ranked if place >= chosen]
        return Findings(
            answers=tuple(answers),
            others=tuple(others),
            paths=tuple(paths),
            expanded=tuple(expanded),
            kg_llm=KgLlmUse(self.reasoner.encoder.name, self.reasoner.name, 1, scores.tokens, 0),
            timings=Timings(
                decode=walked - began,
                ground=grounded - walked,
                answer=time.perf_counter() - grounded,
            ),
            forward_passes=1,
            search=SearchUse("walk"),
            confidence=float(scores.score[0]),
        )


def _scores(
    bound: BoundReasoner, question: LinkedQuestion, choices: Sequence[AnswerChoice]
) -> QuestionScores:
    """Return the reasoner's scores without mediators, of the choices only if there are any.

    Raises EmptyLanguageError if no entity, or no choice, is reached.
    """
    topics = np.unique(np.array([topic.key for topic in question.topics], np.int64))
    ends = np.array([key for choice in choices for key in choice.keys], np.int64)
    for floor in (_LOW,) if choices else (FLOOR, _LOW):
        scores = score_question(bound, question.question, topics, floor)
        keep = scores.kind != Kind.MEDIATOR
        if choices:
            keep &= np.isin(scores.node, ends)
        if keep.any():
            return scores.only(keep)
    where = "to one of the choices" if choices else "out of the topic entities"
    raise EmptyLanguageError(
        f"The reasoner {bound.reasoner.name} finds no path within {bound.rules.hops} hops {where}.",
        "Name another `entity`, allow longer paths with `hops`, or use a `reasoner` that was "
        "trained for this KG (kgqa train kg-cot).",
    )


class _Found:
    """Finds and grounds the best paths of one question's walk on demand."""

    def __init__(self, bound: BoundReasoner, scores: QuestionScores, form: PathFormat) -> None:
        self._bound = bound
        self._form = form
        self._search = PathSearch(scores.levels, scores.topics)

    def paths(self, nodes: Sequence[int], most: int) -> list[ScoredPath]:
        """Return up to ``most`` best paths to each of ``nodes``, in their order.

        Paths with the same text are joined: entities may share a name.
        """
        return ScoredPath.joined(self._grounded(nodes, most))

    def expanded(
        self, nodes: Sequence[int], shown: Sequence[ScoredPath]
    ) -> tuple[list[ScoredPath], list[ExpandedPath]]:
        """Return one path to each of ``nodes``, in two lists; without those that the store lacks.

        First those by a relation path that no path of ``shown`` has; second those by a shown one,
        as its further tails.
        """
        source = {
            (path.head.id, path.relation_path): scored.text
            for scored in reversed(shown)
            for path in scored.groundings
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
        """Return up to ``most`` best paths to each of ``nodes`` with log-scores.

        Paths that the store lacks are dropped.
        """
        best = [path for node in nodes for path in self._search.best(node, most)]
        lengths = np.array([len(path.hops) for path in best], np.int64)
        taken = np.full((len(best), self._bound.rules.hops, 4), -1, np.int64)
        for row, path in enumerate(best):
            taken[row, : len(path.hops)] = path.hops
        topics = np.array([path.topic for path in best], np.int64)
        checked = ground(self._bound.store, PathTable(topics, lengths, taken), self._form)
        return [
            (math.log(max(path.score, 1e-30)), grounded)
            for path, grounded in zip(best, checked, strict=True)
            if grounded is not None
        ]


def _ranked(
    store: GraphStore,
    scores: QuestionScores,
    most: int,
    paths: Sequence[ScoredPath],
    expanded: Sequence[ExpandedPath],
) -> list[tuple[RankedAnswer, int]]:
    """Return those of the first ``most`` entities that a path ends in, as answers with their rows.

    Their scores are shares of all entities' scores.
    """
    ends = {path.tail.id for scored in paths for path in scored.groundings}
    ends |= {walked.grounding.tail.id for walked in expanded}
    total = float(scores.score.sum(dtype=np.float64)) or 1.0
    entities = store.entities(scores.node[:most])
    ranked = []
    for row, id_ in enumerate(entities.ids):
        if id_ in ends:
            score = float(scores.score[row]) / total
            ranked.append((RankedAnswer(id_, entities.label(row), score, True), row))
    return ranked

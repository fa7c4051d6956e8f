"""Path ranking: every relation path out of the topic entity, ranked by its words.

On a KG of a user's own a few dozen relation paths leave a topic entity: choosing among them is
all there is to do. A path ranker (:mod:`kgqa.models.path_ranker`) gives each a probability, beside
"none of them"; an entity's is that of the likeliest one that leads to it, and of several topic
entities the product. If a relation that entities of this kind usually have, but the
topic has not, fits best, the answer is "not in this graph".
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.answers.answer import (
    ExpandedPath,
    Findings,
    KgLlmUse,
    RankedAnswer,
    RelationShare,
    ScoredPath,
    SearchUse,
    Timings,
)
from kgqa.answers.choices import find_choices, rank_by_score
from kgqa.answers.conditions import Narrowed, narrow
from kgqa.answers.values import read_value, value_conditions
from kgqa.errors import EmptyLanguageError, LinkingError
from kgqa.linking.linker import link
from kgqa.linking.masking import without_name
from kgqa.methods.base import LinkedQuestion, Method
from kgqa.methods.options import RankOptions
from kgqa.methods.whether import SAYS_IT, YES, connection
from kgqa.models.adapter import AdapterCard
from kgqa.models.path_ranker import UNIVERSAL
from kgqa.paths.ground import ground
from kgqa.paths.phrases import phrases_of
from kgqa.paths.relation_paths import MOST_PATHS, opened, relation_paths
from kgqa.paths.schema import Schema
from kgqa.paths.words import TOPIC, relation_path_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kgqa.answers.answer import TopicEntity
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.linking.linker import Candidate
    from kgqa.methods.resources import Resources
    from kgqa.models.path_ranker import PathRanker
    from kgqa.paths.ground import GroundedPath
    from kgqa.paths.relation_paths import RelationPaths
    from kgqa.paths.schema import Hop
    from kgqa.paths.walk import WalkRules

MOST_RANKED = 400  # relation paths of a topic entity whose words are read as a whole
ANSWER_THRESHOLD = 0.7  # chosen on the graphs of scripts/bench_own
MOST_ANSWERS = 500  # with a path each
MOST_EXPLAINED = 10  # relation paths of a topic entity that an answer keeps
NAMED_MATCH = 0.449  # how well an entity matches words that name it beside the topic entity
_NAMED = 30  # entities that may be named so
_HOW_MANY = re.compile(r"\W*(how many|number of|count)\b", re.IGNORECASE)
_OF_A_VALUE = re.compile(
    r"\b(when|how (?!many)\w+|what (year|date|day|time|price))\b", re.IGNORECASE
)
_NUMBER = re.compile(r"\W*\d[\d.,]*(\s*\S{1,6})?")  # with a unit, perhaps
_FLOOR = 1e-4  # what an entity has of a topic that no path leads from to it


@dataclass(frozen=True, slots=True)
class Weighed:
    """What the ranker says of one topic's relation paths.

    ``probability`` of each; ``absent``: that the graph does not have what is asked for;
    ``missing``: the likeliest relation that the topic has not, in words, if there is one.
    ``likeliest``: the first of all of these.
    """

    probability: NDArray[np.float64]
    absent: float
    missing: str
    likeliest: tuple[RelationShare, ...] = ()


class RankWords:
    """Questions and relation paths of one KG as the ranker reads them. Raises GraphError.

    ``folder``: the KG's, which may hold phrases of its relations.
    """

    def __init__(self, store: GraphStore, rules: WalkRules, folder: Path | None = None) -> None:
        self.store, self.rules = store, rules
        self.version = store.info.version
        self.schema = Schema(store, rules)
        self.every_phrase = phrases_of(store, folder)
        self.phrases = [first for first, *_ in self.every_phrase]

    def path(self, steps: Sequence[Hop]) -> str:
        """Return a relation path in words, with examples of what it leads to."""
        return relation_path_text(steps, self.phrases, self.schema.examples(steps[-1]))

    def bare(self, steps: Sequence[Hop]) -> str:
        """Return a relation path in words alone."""
        return relation_path_text(steps, self.phrases)

    def is_value(self, hop: Hop) -> bool:
        """Return whether a relation leads to values."""
        examples = self.schema.examples(hop)
        return bool(examples) and all(map(read_value, examples))

    def hop(self, hop: Hop) -> str:
        """Return the words of a relation."""
        return " ".join(self.phrases[step // 2] for step in hop if step >= 0)

    def logits(
        self, ranker: PathRanker, asked: str, every: Sequence[Sequence[Hop]]
    ) -> NDArray[np.float32]:
        """Return how well each relation path fits the question ``asked``: its logit.

        Of very many, all but ``MOST_RANKED`` have none, -inf.
        """
        logits = np.full(len(every), -np.inf, np.float32)
        read: Sequence[int] = range(len(every))
        if len(every) > MOST_RANKED:
            read = self.nearest(ranker, asked, every)[:MOST_RANKED]
        texts = [self.path(every[at]) for at in read]
        logits[read] = ranker.logits([asked], texts, [len(every[at]) for at in read])[0]
        return logits

    def nearest(
        self, ranker: PathRanker, asked: str, every: Sequence[Sequence[Hop]]
    ) -> Sequence[int]:
        """Return the places of ``every`` relation path, first what the question may well mean.

        That is seen from the vectors of their hops alone, added up.
        """
        single = list(dict.fromkeys(hop for one in every for hop in one))
        place = {hop: row for row, hop in enumerate(single)}
        vectors = ranker.vectors([self.path([hop]) for hop in single])
        longest = max(map(len, every), default=1)
        rows = [[place[hop] for hop in one] + [-1] * (longest - len(one)) for one in every]
        sums = np.vstack([vectors, np.zeros_like(vectors[:1])])[np.array(rows)].sum(1)
        cosine = sums @ ranker.vectors([asked])[0] / np.linalg.norm(sums, axis=1)
        near = ranker.scaled(cosine, [len(one) for one in every])
        order: list[int] = np.argsort(-near, kind="stable").tolist()
        return order

    def question(self, text: str, topic: int, topics: Sequence[tuple[int, str, str]]) -> str:
        """Return a question with ``x`` in place of ``topic``, without the other topic entities.

        ``topics``: (key, name, id) of all of them.
        """
        for key, name, id_ in topics:
            names = [name, id_, *self.store.details(key).aliases]
            text = without_name(text, names, TOPIC if key == topic else "")
        return text


class Rank(Method[RankOptions]):
    """Answers from relation paths ranked by their words. Not for use by several threads."""

    name = "rank"
    Options = RankOptions

    def __init__(self, options: RankOptions, resources: Resources, *, general: bool = True) -> None:
        super().__init__(options, resources, general=general)
        self.ranker: PathRanker = resources.path_ranker(
            options.ranker or UNIVERSAL, options.encoder
        )
        self.card = AdapterCard(hops=self.ranker.card.hops)
        threshold, refuse = options.answer_threshold, options.refuse_above
        self.answer_threshold = ANSWER_THRESHOLD if threshold is None else threshold
        self.refuse_above = self.ranker.card.refuse_above if refuse is None else refuse
        self._words: RankWords | None = None

    def own_settings(self) -> dict[str, Any]:
        """Return the ranker, and which entities are answers."""
        return {
            "ranker": self.ranker.name,
            "answer_threshold": self.answer_threshold,
            "refuse_above": self.refuse_above,
        }

    def answer(self, store: GraphStore, question: LinkedQuestion) -> Findings:
        """Return the entities that the likeliest relation paths lead to, or the choices."""
        began = time.perf_counter()
        rules, notes = self.walks(store), list[str]()
        found = []
        for topic in question.topics:
            paths, hops = relation_paths(store, topic.key, rules)
            if hops < rules.hops:
                notes.append(
                    f"{topic.name} ({topic.id}) has more than {MOST_PATHS:,} paths, so only those "
                    f"of {hops} hop{'' if hops == 1 else 's'} were ranked."
                )
            found.append(paths)
        walked = time.perf_counter()
        weighed: Sequence[Weighed] = [
            self._weigh(store, question, topic, paths)
            for topic, paths in zip(question.topics, found, strict=True)
        ]
        found = [
            opened(store, paths, one.probability, rules)
            for paths, one in zip(found, weighed, strict=True)
        ]
        notes += self._left_out(store, question.topics, found, weighed)
        if question.whether:
            return self._whether(store, question, found, weighed, notes, walked - began)
        scores = _entity_scores(found, weighed, {topic.key for topic in question.topics})
        choices = find_choices(store, question.choices) if question.choices else []
        if choices:
            ends = {key for one in choices for key in one.keys}
            scores = {key: score for key, score in scores.items() if key in ends}
        if not scores:
            where = "to one of the choices" if choices else "out of the topic entities"
            raise EmptyLanguageError(
                f"No path of at most {rules.hops} hops leads {where}.",
                "Name another `entity`, or allow longer paths with `hops`.",
            )
        narrowed = Narrowed(scores)
        if self.options.conditions and not choices:
            weighed, narrowed = self._narrowed(store, question, found, weighed, narrowed)
            scores = narrowed.scores
        notes += (f'No answer meets "{words}", so it was left out.' for words in narrowed.left_out)
        ranked = time.perf_counter()
        order = sorted(scores, key=lambda key: (-scores[key], key))
        best = scores[order[0]]
        least = self.answer_threshold * best
        chosen = sum(scores[key] >= least for key in order[:MOST_ANSWERS])
        evidence = self._evidence(
            store, found, weighed, order[: max(chosen, self.options.k)], narrowed.rows
        )
        absent = min(one.absent for one in weighed)  # of several topics one may say little
        answers: Sequence[RankedAnswer]
        if choices:
            names = {
                path.tail.id: path.tail.name for paths in evidence.values() for _, path in paths
            }
            answers, chosen = rank_by_score(choices, scores, names), len(choices)
        else:
            answers = [
                RankedAnswer(
                    paths[0][1].tail.id,
                    paths[0][1].tail.name,
                    scores[key],
                    True,
                    conditions=narrowed.conditions.get(key, ()),
                )
                for key, paths in evidence.items()
            ]
            chosen = sum(key in evidence for key in order[:chosen])
            if absent > self.refuse_above and not narrowed.conditions:
                chosen = 0
                notes.append(_not_there(question.topics, weighed))
        if chosen and _is_count(question.question, answers):
            notes.append(f"Counted: {sum(score >= least for score in scores.values()):,}.")
        shown, expanded = _shown(evidence, self.options.k)
        grounded = time.perf_counter()
        return Findings(
            answers=tuple(answers[:chosen]),
            others=tuple(answers[chosen:]),
            paths=tuple(shown),
            expanded=tuple(expanded),
            kg_llm=KgLlmUse(self.ranker.encoder.name, self.ranker.name, 1, 0, 0),
            timings=Timings(
                constraint=walked - began, decode=ranked - walked, ground=grounded - ranked
            ),
            forward_passes=1,
            notes=tuple(notes),
            search=SearchUse("rank"),
            confidence=min(best, 1.0) if chosen else absent,
            relations=tuple(share for one in weighed for share in one.likeliest),
        )

    def _whether(
        self,
        store: GraphStore,
        question: LinkedQuestion,
        found: Sequence[RelationPaths],
        weighed: Sequence[Weighed],
        notes: Sequence[str],
        walked: float,
    ) -> Findings:
        """Return "yes" with the paths between the two topic entities that say it, or no answer."""
        began = time.perf_counter()
        first, second = question.topics
        asked = connection(
            (first.key, second.key),
            [one.table for one in found],
            [one.of for one in found],
            [one.probability for one in weighed],
        )
        paths, likely = found[asked.side], weighed[asked.side].probability
        rows = asked.rows[: self.options.k]
        shown = [
            ScoredPath(path.text, math.log(max(float(likely[paths.of[row]]), 1e-30)), YES, (path,))
            for row, path in zip(
                rows.tolist(), ground(store, paths.table.take(rows), self.form), strict=True
            )
            if path is not None
        ]
        yes = bool(shown) and asked.probability >= SAYS_IT
        said = f"Not in this graph: no path between {first.name} and {second.name} says this."
        return Findings(
            answers=(RankedAnswer(None, YES, asked.probability, True),) if yes else (),
            paths=tuple(shown),
            kg_llm=KgLlmUse(self.ranker.encoder.name, self.ranker.name, 1, 0, 0),
            timings=Timings(constraint=walked, ground=time.perf_counter() - began),
            forward_passes=1,
            notes=tuple(notes) if yes else (*notes, said),
            search=SearchUse("rank"),
            confidence=asked.probability if yes else 1.0 - asked.probability,
            relations=tuple(share for one in weighed for share in one.likeliest),
        )

    def _weigh(
        self,
        store: GraphStore,
        question: LinkedQuestion,
        topic: TopicEntity,
        paths: RelationPaths,
    ) -> Weighed:
        words = self._in(store)
        named = [(one.key, one.name, one.id) for one in question.topics]
        asked = words.question(question.question, topic.key, named)
        missing = words.schema.missing(one[0] for one in paths.steps if len(one) == 1)
        every = [*paths.steps, *((hop,) for hop in missing)]
        share = self._shares(asked, every, words)
        count = len(paths.steps)
        likeliest = words.hop(missing[int(np.argmax(share[count:-1]))]) if missing else ""
        order = np.argsort(-share, kind="stable")[:MOST_EXPLAINED].tolist()
        shares = tuple(
            RelationShare(
                topic.id,
                words.bare(every[at]) if at < len(every) else "none of them",
                float(share[at]),
                count <= at < len(every),
            )
            for at in order
        )
        return Weighed(share[:count], float(share[count:].sum()), likeliest, shares)

    def _shares(
        self, asked: str, every: Sequence[Sequence[Hop]], words: RankWords
    ) -> NDArray[np.float64]:
        """Return the probability of each relation path and, last, of "none of them"."""
        logits = words.logits(self.ranker, asked, every)
        whole = np.append(logits, self.ranker.none).astype(np.float64)
        share: NDArray[np.float64] = np.exp(whole - whole.max())
        share /= share.sum()
        return share

    def _narrowed(
        self,
        store: GraphStore,
        question: LinkedQuestion,
        found: Sequence[RelationPaths],
        weighed: Sequence[Weighed],
        before: Narrowed,
    ) -> tuple[Sequence[Weighed], Narrowed]:
        """Return what the conditions of the question leave, and by which relation paths.

        What was said ``before`` stands if no condition is met.
        """
        words = self._in(store)
        topics = [(one.key, one.name, one.id) for one in question.topics]
        asked = words.question(question.question, topics[0][0], topics)
        likeliest = {
            word
            for paths, one in zip(found, weighed, strict=True)
            for hop in paths.steps[int(np.argmax(one.probability))]
            for word in words.hop(hop).split()
        }
        values = [  # what the relation says itself is none: "first appearance"
            one
            for one in value_conditions(asked)
            if one.operator or one.words.casefold().split()[0] not in likeliest
        ]
        named = _named_beside(store, words.question(question.question, -1, topics), topics)
        if not (named or values):
            return weighed, before
        beside = np.array(sorted(one.key for one in named), np.int64)
        of_values = bool(values) and not _OF_A_VALUE.search(asked)
        folded = [
            _folded(paths, one, words, beside, of_values)
            for paths, one in zip(found, weighed, strict=True)
        ]
        scores = _entity_scores(found, folded, {key for key, _, _ in topics})

        def fits(about: Candidate | str, steps: Sequence[Hop]) -> Sequence[float]:
            if not isinstance(about, str):
                every = [*topics, (about.key, about.name, about.id)]
                about = words.question(question.question, about.key, every)
            share: list[float] = self._shares(about, [[one] for one in steps], words).tolist()
            return share[:-1]

        narrowed = narrow(
            store,
            [one.table for one in found],
            [one.probability[paths.of] for paths, one in zip(found, folded, strict=True)],
            scores,
            self.walks(store),
            self.form,
            named,
            values,
            fits,
        )
        if narrowed.conditions:
            return folded, narrowed
        before.left_out = narrowed.left_out
        return weighed, before

    def _left_out(
        self,
        store: GraphStore,
        topics: Sequence[TopicEntity],
        found: Sequence[RelationPaths],
        weighed: Sequence[Weighed],
    ) -> Iterator[str]:
        """Yield a note for each topic of which likely relation paths were not walked whole."""
        words = self._in(store)
        for topic, paths, one in zip(topics, found, weighed, strict=True):
            likely = self.answer_threshold * one.probability.max(initial=0.0)
            if left := [at for at in paths.closed if one.probability[at] >= likely]:
                missed = ", ".join(words.hop(hop) for hop in paths.steps[left[0]])
                yield (
                    f"{topic.name} ({topic.id}) has too many paths: not all that it leads to by "
                    f'"{missed}" was read.'
                )

    def _in(self, store: GraphStore) -> RankWords:
        known = self._words
        if known is None or known.store is not store or known.version != store.info.version:
            folder = self.resources.settings.kg_folder(store.info.name)
            known = self._words = RankWords(store, self.walks(store), folder)
        return known

    def _evidence(
        self,
        store: GraphStore,
        found: Sequence[RelationPaths],
        weighed: Sequence[Weighed],
        keys: Sequence[int],
        preferred: Sequence[IntArray],
    ) -> dict[int, list[tuple[float, GroundedPath]]]:
        """Return of each entity that has one the best path out of each topic, with its logarithm.

        Of equal ones one of ``preferred``, rows of each topic's table, or the first.

        Every path was checked in the store; the entities stay in their order.
        """
        by_key: dict[int, list[tuple[float, GroundedPath]]] = {key: [] for key in keys}
        wanted = np.array(sorted(by_key), np.int64)
        for number, (paths, one) in enumerate(zip(found, weighed, strict=True)):
            ends = paths.table.ends()
            rows = np.flatnonzero(np.isin(ends, wanted))
            other = ~np.isin(rows, preferred[number]) if preferred else rows < 0
            rows = rows[np.lexsort((rows, other, -one.probability[paths.of[rows]], ends[rows]))]
            _, first = np.unique(ends[rows], return_index=True)
            rows = rows[first]
            for row, path in zip(
                rows.tolist(), ground(store, paths.table.take(rows), self.form), strict=True
            ):
                if path is not None:
                    log = math.log(max(float(one.probability[paths.of[row]]), 1e-30))
                    by_key[int(ends[row])].append((log, path))
        return {key: sorted(one, key=lambda p: -p[0]) for key, one in by_key.items() if one}


def _entity_scores(
    found: Sequence[RelationPaths], weighed: Sequence[Weighed], topics: set[int]
) -> dict[int, float]:
    """Return the score of each entity: that of its likeliest relation path, of topics multiplied.

    A sum over relation paths would prefer what is well connected to what is asked for.

    An entity that not all topics lead to keeps ``_FLOOR`` in place of what it lacks.
    """
    scores: dict[int, float] = {}
    every: list[dict[int, float]] = []
    for paths, one in zip(found, weighed, strict=True):
        keys, at = np.unique(paths.table.ends(), return_inverse=True)
        most = np.zeros(len(keys))
        np.maximum.at(most, at, one.probability[paths.of])
        every.append(dict(zip(keys.tolist(), most.tolist(), strict=True)))
    for key in set().union(*every) - topics:
        scores[key] = math.prod(one.get(key, _FLOOR) for one in every)
    return scores


def _shown(
    evidence: dict[int, list[tuple[float, GroundedPath]]], k: int
) -> tuple[list[ScoredPath], list[ExpandedPath]]:
    """Return the paths of the first ``k`` entities, and of others those of no new relation path."""
    by_text: dict[str, list[tuple[float, GroundedPath]]] = {}
    source: dict[tuple[str, tuple[str, ...]], str] = {}
    expanded: list[ExpandedPath] = []
    for place, paths in enumerate(evidence.values()):
        for score, path in paths:
            kind = path.head.id, path.relation_path
            if place >= k and kind in source:
                expanded.append(ExpandedPath(path, source[kind]))
            else:
                source.setdefault(kind, path.text)
                by_text.setdefault(path.text, []).append((score, path))
    scored = [
        ScoredPath(
            text, max(score for score, _ in same), same[0][1].tail.name, tuple(p for _, p in same)
        )
        for text, same in by_text.items()
    ]
    return scored, expanded


def _folded(
    paths: RelationPaths, weighed: Weighed, words: RankWords, named: IntArray, values: bool
) -> Weighed:
    """Return what is left if no relation path ends in what is only a condition.

    That is an entity of ``named``, and a value, if ``values`` are compared. Its probability is that
    of the relation path before its last hop: "which of x's papers appeared in y" is not about y.
    """
    ends = paths.table.ends()
    ending = set(paths.of[np.isin(ends, named)].tolist())
    place = {steps: number for number, steps in enumerate(paths.steps)}
    probability = weighed.probability.copy()
    for number, steps in enumerate(paths.steps):
        short = place.get(steps[:-1])
        if short is not None and (number in ending or (values and words.is_value(steps[-1]))):
            probability[short] += probability[number]
            probability[number] = 0.0
    return replace(weighed, probability=probability)


def _named_beside(
    store: GraphStore, question: str, topics: Sequence[tuple[int, str, str]]
) -> list[Candidate]:
    """Return what a question, its topic entities' names taken out, surely names beside them."""
    try:
        found = link(store, question, _NAMED)
    except LinkingError:
        return []
    known = {key for key, _, _ in topics}
    return [
        one
        for one in found
        if one.key not in known
        and one.features.everyday == 0.0
        and one.features.match >= NAMED_MATCH
        and (one.match != "partial" or one.features.emphasis > 0.0)
    ]


def _not_there(topics: Sequence[TopicEntity], weighed: Sequence[Weighed]) -> str:
    named = " and ".join(topic.name for topic in topics)
    missing = max(weighed, key=lambda one: one.absent).missing
    like = f', such as "{missing}"' if missing else ""
    return f"Not in this graph: {named} has no fact that answers this{like}."


def _is_count(question: str, answers: Sequence[RankedAnswer]) -> bool:
    """Return whether a question asks for a number, and its first answer is none."""
    return bool(_HOW_MANY.match(question)) and not _NUMBER.fullmatch(answers[0].name)

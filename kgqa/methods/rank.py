"""Path ranking: scores every relation path out of the topic entities by its words.

On a KG of a user's own a few dozen relation paths leave a topic entity: choosing among them is all
there is to do. A path ranker (:mod:`kgqa.models.path_ranker`) gives each a probability, beside
"none of them"; an entity's is that of the likeliest one that leads to it, and of several topic
entities the product. If a relation that the topic has not fits better, one that entities of its
kind usually have or, much better, any other of the KG or one that other KGs have, the answer is
"not in this graph".
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kgqa.answers.answer import (
    YES,
    ExpandedPath,
    Findings,
    KgLlmUse,
    RankedAnswer,
    RelationShare,
    ScoredPath,
    SearchUse,
    Timings,
    TopicEntity,
)
from kgqa.answers.choices import find_choices, rank_by_score
from kgqa.answers.conditions import Narrowed
from kgqa.answers.ranking import calibrated
from kgqa.answers.unused import UNSURE
from kgqa.display import NOT_HERE, first_of, said_entity, said_name
from kgqa.errors import EmptyLanguageError
from kgqa.graph.model import keys_array
from kgqa.graph.names import normalise
from kgqa.graph.store import EndpointStore, foresee, foresee_edges, in_id_order, schema_version
from kgqa.linking.neighbourhood_features import stems_of
from kgqa.methods.base import MOST_ANSWERS, LinkedQuestion, Method
from kgqa.methods.options import RankOptions
from kgqa.methods.rank_asked import (
    adjustment,
    evidence_of,
    foresee_kinds,
    is_other_kind,
    next_said,
    other_role,
    other_value,
    says_a_part,
    says_another,
    says_kind,
    surely_turned,
    turned,
    two_steps,
    which_of_them,
)
from kgqa.methods.rank_conditions import (
    affirmed,
    named_beside,
    narrowed_by_question,
    narrowed_notes,
)
from kgqa.methods.rank_words import RankWords, Weighed, entity_scores, of_one_fact
from kgqa.methods.what_is import DESCRIBED
from kgqa.methods.yes_no import OTHER_WAY, connection, pair_turned
from kgqa.models.adapter import AdapterCard
from kgqa.paths.ground import ground, stored_edges
from kgqa.paths.relation_paths import MOST_PATHS, few_paths, foresee_paths, opened, relation_paths
from kgqa.paths.walk import hops_out_of
from kgqa.paths.words import TOPIC
from kgqa.planning.aggregates import HOW_MANY
from kgqa.understanding.clock import today_of
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date

    from numpy.typing import NDArray

    from kgqa.answers.choices import AnswerChoice
    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.linking.linker import Candidate
    from kgqa.methods.resources import Resources
    from kgqa.models.path_ranker import PathRanker
    from kgqa.paths.ground import GroundedPath
    from kgqa.paths.relation_paths import RelationPaths
    from kgqa.paths.schema import Hop
    from kgqa.paths.walk import PathTable, WalkRules

WEIGHTS = weights("methods")
_NAMED_FIRST = 1_000  # answers of a database among which ties are ordered by name
MOST_EXPLAINED = 10  # relation paths of a topic entity kept in an answer
LEAST_YES = 1e-4
_AHEAD, _PATHS_AHEAD = 500, 20_000  # most edges and paths of a topic entity for prefetching
_LIKELY_AHEAD, _ROWS_AHEAD = 100, 50  # relation paths, and paths of each, to prefetch
MOST_OTHER_RELATIONS = 1_000  # most other relations to compare with
_SURELY = 30  # most that no answer is more probable than the best, as a difference of logits
_NO_LOGIT = -1_000
_HAS, _HAVING = re.compile(r"\b(?:have|has|had)\b", re.IGNORECASE), stems_of("have has had got")
_ENDS = 3  # entities of a first step from which the second one is tried
_NUMBER = re.compile(r"\W*\d[\d.,]*(\s*\S{1,6})?")  # and perhaps a unit


class _Ranking(NamedTuple):
    """A question's relation paths, with their scores, and the entities that they lead to."""

    question: LinkedQuestion
    asked: str  # the question with ``x`` for its first topic entity
    found: Sequence[RelationPaths]  # of each topic entity
    weighed: Sequence[Weighed]
    narrowed: Narrowed
    order: Sequence[int]  # keys of entities, the best first
    evidence: Mapping[int, Sequence[tuple[float, GroundedPath]]]


class _Verdict(NamedTuple):
    """Ranked entities, of which the first ``chosen`` answer, with confidence and notes."""

    answers: Sequence[RankedAnswer]
    chosen: int
    confidence: float
    notes: tuple[str, ...] = ()
    counted: int | None = None


class Rank(Method[RankOptions]):
    """Answers from relation paths ranked by their words; for one thread."""

    name = "rank"
    Options = RankOptions

    def __init__(self, options: RankOptions, resources: Resources, *, general: bool = True) -> None:
        super().__init__(options, resources, general=general)
        self.ranker: PathRanker = resources.path_ranker(options.ranker, options.encoder)
        # A head is fitted to questions most of which have an answer, and finds one everywhere.
        bare = () if self.ranker.head is None else (replace(self.ranker, head=None),)
        self._judges = (*bare, self.ranker)  # the last one finds the missing relation
        self.card = AdapterCard(hops=self.ranker.card.hops)
        threshold, refuse = options.answer_threshold, options.refuse_above
        self.answer_threshold = WEIGHTS["rank_answer"] if threshold is None else threshold
        self.refuse_above = self.ranker.card.refuse_above if refuse is None else refuse
        self._words: RankWords | None = None

    def own_settings(self) -> dict[str, Any]:
        """Return the settings of the ranker, and the answer threshold."""
        return {
            "ranker": self.ranker.name,
            "answer_threshold": self.answer_threshold,
            "refuse_above": self.refuse_above,
        }

    def foreseen(
        self, store: GraphStore, question: LinkedQuestion
    ) -> tuple[Mapping[int, Sequence[str]], Sequence[Candidate]]:
        """Return the names of topic entities by key, and other entities that the question names.

        The latter only if conditions count. An endpoint prefetches the neighbourhoods of both.
        Raises GraphError.
        """
        words = self._in(store)
        topics = keys_array([topic.key for topic in question.topics])
        foresee(store, topics, "both")
        names = words.names(question.topics)
        foresee_paths(store, topics, self.walks(store))
        if not self.options.conditions or question.choices or question.is_yes_no:
            return names, ()
        return names, named_beside(store, words.question(question.question, -1, names), names)

    def look_ahead(self, store: GraphStore, question: LinkedQuestion) -> None:
        """Have an endpoint prefetch what this method needs, along with another's requests.

        Topic entities with very many hops are skipped. Raises GraphError.
        """
        question = affirmed(question)
        names, _ = self.foreseen(store, question)
        rules, words = self.walks(store), self._in(store)
        for topic in question.topics:
            if len(hops_out_of(store, keys_array([topic.key]), rules).row) > _AHEAD:
                continue  # too many: another method may not read their neighbourhoods
            paths = few_paths(store, topic.key, rules, _PATHS_AHEAD)
            if paths is None or not paths.steps:
                continue
            asked = words.question(question.question, topic.key, names)
            foresee_kinds(store, asked, paths)
            order = np.argsort(-words.logits(self.ranker, asked, paths.steps), kind="stable")
            for place in order[:_LIKELY_AHEAD]:
                rows = np.flatnonzero(paths.of == place)[:_ROWS_AHEAD]
                foresee_edges(store, *stored_edges(paths.table.take(rows))[1:])

    def answer(self, store: GraphStore, question: LinkedQuestion) -> Findings:
        """Return the entities, or the choices, that the most probable relation paths lead to."""
        began = time.perf_counter()
        rules, words, question = self.walks(store), self._in(store), affirmed(question)
        names, named = self.foreseen(store, question)
        found, notes = _walked(store, question.topics, rules)
        walked = time.perf_counter()
        asked = [words.question(question.question, topic.key, names) for topic in question.topics]
        weighed = self._weigh_question(words, question, asked, names, found)
        found = [
            opened(store, paths, one.probability, rules)
            for paths, one in zip(found, weighed, strict=True)
        ]
        notes += self._left_out(words, question.topics, found, weighed)
        if question.is_yes_no:
            bare = words.question(question.question, -1, names)  # the question without both names
            any_fact = bool(_HAS.search(bare)) and not stems_of(normalise(bare)) - _HAVING
            return self._yes_or_no(
                store, question, found, weighed, notes, walked - began, any_fact=any_fact
            )
        choices = find_choices(store, question.choices) if question.choices else []
        scores = of_one_fact(store, found, entity_scores(found, weighed, names))
        narrowed = Narrowed(_within_reach(scores, choices, rules))
        if self.options.conditions and not choices:
            weighed, narrowed = narrowed_by_question(
                words, self.ranker, self.form, question.question, asked[0], names, named, found,
                weighed, narrowed.scores, self._today,
            )  # fmt: skip
        notes += narrowed_notes(narrowed, self._today)
        ranked = time.perf_counter()
        order = _best_first(store, narrowed.scores)
        near = _near(narrowed.scores, order, self.answer_threshold)
        foresee(store, keys_array(order[: min(near, DESCRIBED)]), "out")
        evidence = self._evidence(
            store, found, weighed, order[: max(near, self.options.k)], narrowed.rows
        )
        one = _Ranking(question, asked[0], found, weighed, narrowed, order, evidence)
        verdict = self._choice(choices, one) if choices else self._verdict(words, one, near)
        shown, expanded = _shown(evidence, self.options.k)
        grounded = time.perf_counter()
        return Findings(
            answers=tuple(verdict.answers[: verdict.chosen]),
            others=tuple(verdict.answers[verdict.chosen :]),
            paths=tuple(shown),
            expanded=tuple(expanded),
            kg_llm=KgLlmUse(self.ranker.encoder.name, self.ranker.name, 1, 0, 0),
            timings=Timings(
                constraint=walked - began, decode=ranked - walked, ground=grounded - ranked
            ),
            forward_passes=1,
            notes=(*notes, *verdict.notes),
            search=SearchUse("rank"),
            confidence=verdict.confidence,
            relations=tuple(share for one in weighed for share in one.likeliest),
            count=verdict.counted,
        )

    @staticmethod
    def _choice(choices: Sequence[AnswerChoice], one: _Ranking) -> _Verdict:
        """Return the choices of a question, ranked by the scores of their entities."""
        scores = one.narrowed.scores
        tails = (path.tail for paths in one.evidence.values() for _, path in paths)
        answers = rank_by_score(choices, scores, {tail.id: tail.name for tail in tails})
        return _Verdict(answers, len(choices), min(scores[one.order[0]], 1.0))

    def _verdict(self, words: RankWords, one: _Ranking, near: int) -> _Verdict:
        """Return the entities as answers, of which none counts if the graph has no answer.

        ``near``: how many of them score nearly as high as the best.
        """
        scores, absent = one.narrowed.scores, _absent(one.weighed)
        answers = [
            RankedAnswer(
                paths[0][1].tail.id,
                paths[0][1].tail.name,
                scores[key],
                True,
                conditions=one.narrowed.conditions.get(key, ()),
            )
            for key, paths in one.evidence.items()
        ]
        refused = calibrated(absent, *self.ranker.card.refusal)
        if absent > self.refuse_above and not one.narrowed.conditions:
            lacking = _not_there(one.question.topics, one.weighed)
            return _Verdict(answers, 0, refused, (lacking,))
        chosen = sum(key in one.evidence for key in one.order[:near])
        if not chosen:
            return _Verdict(answers, 0, refused)
        least = self.answer_threshold * scores[one.order[0]]
        in_all = sum(score >= least for score in scores.values())
        count = in_all if _is_count(one.question.question, answers) else None
        notes = [f"Counted: {count:,}."] if count is not None else []
        if count is None and in_all > MOST_ANSWERS:
            notes.append(first_of(in_all, chosen))
        likeliest = [
            paths.steps[int(np.argmax(each.probability))]
            for paths, each in zip(one.found, one.weighed, strict=True)
            if paths.steps
        ]
        notes += filter(None, map(words.said_both_ways, likeliest))
        if contradiction := self._contradicted(words, one, likeliest, refused):
            reason, confidence = contradiction
            return _Verdict(answers, 0, confidence, (*notes, reason))
        confidence = self._sureness(one)
        if _is_unsure(words, one, likeliest):
            confidence = min(confidence, UNSURE)
        return _Verdict(answers, chosen, confidence, tuple(notes), count)

    def _sureness(self, one: _Ranking) -> float:
        """Return the probability that the best entity answers the question."""
        order, evidence = one.order, one.evidence
        relations = evidence[order[0]][0][1].relation_path if order[0] in evidence else ()
        score = one.narrowed.scores[order[0]] ** (1 / len(one.weighed))
        signs = evidence_of(score, one.weighed[0].probability, one.asked, relations)
        met = float(bool(one.narrowed.conditions))
        return sureness((*signs, met, 1.0), self.ranker.card.evidence)

    def _contradicted(
        self,
        words: RankWords,
        one: _Ranking,
        likeliest: Sequence[Sequence[Hop]],
        refused: float,
    ) -> tuple[str, float] | None:
        """Return why the likeliest relation paths cannot answer, and how sure that is, or None.

        The first is walked the wrong way, is what the question denies, or leads to another measure.
        ``refused``: the confidence that the graph has no answer.
        """
        first = said_name(one.question.topics[0].name)
        if len(likeliest) == 1 and surely_turned(one.asked, words, likeliest[0]):
            return f"{NOT_HERE}: {OTHER_WAY[:1].lower()}{OTHER_WAY[1:]}.", 1.0 - UNSURE
        if opposite := one.narrowed.opposite:
            said = first if opposite == TOPIC else said_name(opposite)
            return f"No path leads to what is not {said}.", UNSURE
        if lacking := other_value(words, self._vectors, one.asked, likeliest[0][-1]):
            return f"{NOT_HERE}: {first} {lacking}.", max(UNSURE, refused)
        return None

    def _vectors(self, texts: list[str]) -> NDArray[np.float32]:
        """Return text vectors by the encoder without the head, loaded at first use."""
        return self.resources.sentence_encoder(None).encode(texts)

    def _yes_or_no(
        self,
        store: GraphStore,
        question: LinkedQuestion,
        found: Sequence[RelationPaths],
        weighed: Sequence[Weighed],
        notes: Sequence[str],
        walked: float,
        *,
        any_fact: bool,
    ) -> Findings:
        """Return "yes" with the paths between the two topic entities that confirm it, or no answer.

        ``any_fact``: accept any fact between them: "Does the shop have it?".
        """
        began = time.perf_counter()
        first, second = question.topics
        tables = [one.table for one in found]
        words = self._in(store)
        turned_ = pair_turned(
            question.question, words.names(question.topics), (first.key, second.key), tables,
            words.phrases,
        )  # fmt: skip
        asked = connection(
            (first.key, second.key), tables, [one.of for one in found],
            [one.probability for one in weighed], turned_,
        )  # fmt: skip
        paths, likely = found[asked.side], weighed[asked.side].probability
        rows = asked.rows[: self.options.k]
        notes = list(notes)
        if not len(rows) and (stored := self._contrary(store, tables, turned_)):
            notes.append(f"{OTHER_WAY}: {stored}.")
        if any_fact and (paths.table.length[asked.rows] == 1).any():
            rows = asked.rows[paths.table.length[asked.rows] == 1][: self.options.k]
            asked = replace(asked, probability=max(asked.probability, WEIGHTS["any_fact"]))
        shown = [
            ScoredPath(path.text, _log(likely[paths.of[row]]), YES, (path,))
            for row, path in zip(
                rows.tolist(), ground(store, paths.table.take(rows), self.form), strict=True
            )
            if path is not None
        ]
        yes = bool(shown) and asked.probability >= WEIGHTS["says_yes"]
        evidence = max(asked.probability, LEAST_YES)
        sure = calibrated(evidence, WEIGHTS["yes_slope"], WEIGHTS["yes_shift"])
        pair = f"{said_name(first.name)} and {said_name(second.name)}"
        said = f"Not in this graph: no path between {pair} says this."
        return Findings(
            answers=(RankedAnswer(None, YES, asked.probability, True),) if yes else (),
            paths=tuple(shown),
            kg_llm=KgLlmUse(self.ranker.encoder.name, self.ranker.name, 1, 0, 0),
            timings=Timings(constraint=walked, ground=time.perf_counter() - began),
            forward_passes=1,
            notes=tuple(notes) if yes else (*notes, said),
            search=SearchUse("rank"),
            confidence=sure if yes else 1.0 - sure,
            relations=tuple(share for one in weighed for share in one.likeliest),
        )

    def _contrary(
        self, store: GraphStore, tables: Sequence[PathTable], turned_: Sequence[BoolArray]
    ) -> str:
        """Return a fact between two topics that runs against the question, "" if there is none.

        ``turned_``: which paths of each table do.
        """
        contrary = [
            path
            for table, rows in zip(tables, turned_, strict=True)
            for path in ground(store, table.take(np.flatnonzero(rows)[:1]), self.form)
            if path is not None
        ]
        contrary.sort(key=lambda path: path.edges[0].inverse)
        return contrary[0].text if contrary else ""

    def _weigh_question(
        self,
        words: RankWords,
        question: LinkedQuestion,
        asked: Sequence[str],
        names: Mapping[int, Sequence[str]],
        found: Sequence[RelationPaths],
    ) -> Sequence[Weighed]:
        """Return the scores of each topic's relation paths.

        Where a question "how many" has no answer, its list may have one, which is then counted.
        ``asked``: the question with ``x`` for each topic; ``names``: of the topics, by key.
        """

        def weigh(texts: Sequence[str]) -> Sequence[Weighed]:
            return [
                self._weigh_steps(words, text, topic, paths)
                for text, topic, paths in zip(texts, question.topics, found, strict=True)
            ]

        weighed = weigh(asked)
        if HOW_MANY.match(question.question) and _absent(weighed) > self.refuse_above:
            which = HOW_MANY.sub("Which", question.question, count=1)
            listed = weigh([words.question(which, one.key, names) for one in question.topics])
            most = WEIGHTS["listed_instead"] * self.refuse_above
            return listed if _absent(listed) <= most else weighed
        return weighed

    def _weigh_steps(
        self, words: RankWords, asked: str, topic: TopicEntity, paths: RelationPaths
    ) -> Weighed:
        """Return the scores of a topic's relation paths, also for a question in two parts.

        1. Score the first part on relations of the topic entity. If none fits, nothing answers.
        2. Score the whole question on relation paths that begin with the best of these relations.
        3. If that relation alone scores best, test whether its tails have the second part.
        """
        things = [words.hop(step[-1]) for step in paths.steps if not words.is_value(step[-1])]
        asked = which_of_them(asked, things)
        steps = two_steps(asked)
        if steps is None or not paths.steps:
            return self._weigh(words, asked, topic, paths)
        single = np.array([len(step) == 1 for step in paths.steps])
        first = self._weigh(words, steps.first, topic, paths, -WEIGHTS["other_step"] * ~single)
        if first.absent > self.refuse_above:
            lacking = f"{said_name(topic.name)} has no {steps.noun}"
            whole = self._weigh(words, asked, topic, paths)
            return replace(whole, absent=max(whole.absent, first.absent), lacking=lacking)
        best = int(np.argmax(np.where(single, first.probability, 0.0)))
        if not single[best] or first.probability[best] < WEIGHTS["first_step"]:
            return self._weigh(words, asked, topic, paths)
        hop = paths.steps[best][0]
        other = np.array([step[0] != hop for step in paths.steps])
        whole = self._weigh(words, asked, topic, paths, -WEIGHTS["other_step"] * other)
        if paths.steps[int(np.argmax(whole.probability))] != (hop,):
            return whole
        ends = in_id_order(words.store, np.unique(paths.table.ends()[paths.of == best]))[:_ENDS]
        entities = words.store.entities(keys_array(ends.tolist()))
        absent = 1.0
        for row, key in enumerate(entities.keys.tolist()):  # which may lack the rest
            tail = TopicEntity(key, entities.ids[row], entities.label(row), 1.0)
            beyond, _ = relation_paths(words.store, key, replace(words.rules, hops=1))
            absent = min(absent, self._weigh(words, steps.rest, tail, beyond).absent)
        if absent <= max(self.refuse_above, whole.absent):
            return whole
        said = ", ".join(said_name(entities.label(row)) for row in range(len(entities)))
        lacking = f"{said} is the {steps.noun} of {said_name(topic.name)}, and lacks the rest"
        return replace(whole, absent=absent, lacking=lacking)

    def _weigh(
        self,
        words: RankWords,
        asked: str,
        topic: TopicEntity,
        paths: RelationPaths,
        more: NDArray[np.float64] | float = 0.0,
    ) -> Weighed:
        """Return the scores of a topic's relation paths.

        ``asked``: the question with ``x`` for the topic; ``more``: added to the relation paths'
        logits.
        """
        own = {step[0] for step in paths.steps if len(step) == 1}
        every = [*paths.steps, *((hop,) for hop in words.schema.missing(own))]
        count = len(paths.steps)
        added = np.where(
            turned(asked, words, every), np.float32(-WEIGHTS["turned"]), np.float32(0.0)
        )
        added[:count] += adjustment(words, self.ranker, asked, paths) + more
        logits = words.logits(self.ranker, asked, every)
        best = int(np.argmax(logits[:count] + added[:count])) if count else -1
        if count and len(every[best]) == 1 and added[best] <= 0:  # not of the requested type
            after = next_said(asked, words, every[:count], every[best][0])
            alone = words.logits(self.ranker, asked, [every[at][1:] for at in after])
            for at, logit in zip(after, alone.tolist(), strict=True):
                if logit - logits[best] >= WEIGHTS["next_step"]:
                    added[at] += logit - logits[at]
        logits += added
        share = words.shares(self.ranker, logits)
        share[:count] = words.either_way(share[:count], every[:count])
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
        return Weighed(
            share[:count], *self._lacks(words, asked, every, count, logits, added), shares
        )

    def _lacks(
        self,
        words: RankWords,
        asked: str,
        every: Sequence[Sequence[Hop]],
        count: int,
        logits: NDArray[np.float32],
        added: NDArray[np.float32],
    ) -> tuple[float, str]:
        """Return the probability that the graph has no answer, and the missing relation in words.

        Of the relation paths ``every`` the topic has the first ``count``, and similar entities the
        rest. ``logits``: of the ranker alone; ``added``: the adjustments. The relation is "" if
        unknown.
        """
        own = {one[0] for one in every[:count] if len(one) == 1}
        common = words.schema.common(MOST_OTHER_RELATIONS)
        elsewhere = [(hop,) for hop in common if hop not in own]
        few = len(common) < MOST_OTHER_RELATIONS  # else the KG has most of them
        fit = [one for one, more in zip(every[:count], added, strict=False) if more >= 0]
        singles = [words.path(one) for one in fit if len(one) == 1]
        signs = []  # evidence of each ranker
        for ranker in self._judges:
            fits = logits if ranker is self.ranker else words.logits(ranker, asked, every) + added
            beyond = words.logits(ranker, asked, elsewhere)
            unknown = ranker.logit_elsewhere(asked, singles) if few else -math.inf
            there, kin = (one.max(initial=_NO_LOGIT) for one in (fits[:count], fits[count:]))
            other = beyond.max(initial=_NO_LOGIT)
            least = max(other, unknown) - WEIGHTS["other_kg"]  # the best one alone counts
            absent = np.logaddexp.reduce([ranker.none, least, *fits[count:]])
            better = WEIGHTS["no_kin"]
            if len(fits) > count:
                better = min(max(kin - there, -WEIGHTS["worst_kin"]), WEIGHTS["best_kin"])
            signs.append([min(absent - there, _SURELY), better])
        best = int(np.argmax(fits[:count])) if count else None
        unsaid = best is not None and not says_kind(asked, words.path(every[best]))
        odds = lacking_odds([*np.mean(signs, axis=0), unsaid, 1.0], self.ranker.card.lacking)
        missing = ""  # by the last ranker
        if best is not None and (role := other_role(words, self.ranker, asked, every[best][-1])):
            odds, missing = max(odds, WEIGHTS["other_role_odds"]), f"has no {role}"
        elif kin >= least and len(fits) > count:
            hop = every[count + int(np.argmax(fits[count:]))][0]
            missing = f"{_without(words, hop)}, as others of its kind do"
        elif other >= unknown and elsewhere:
            missing = f"{_without(words, elsewhere[int(np.argmax(beyond))][0])}, as other kinds do"
        return math.exp(-np.logaddexp(0.0, -odds)), missing

    def _left_out(
        self,
        words: RankWords,
        topics: Sequence[TopicEntity],
        found: Sequence[RelationPaths],
        weighed: Sequence[Weighed],
    ) -> Iterator[str]:
        """Yield a note for each topic that has likely relation paths not walked completely."""
        for topic, paths, one in zip(topics, found, weighed, strict=True):
            likely = self.answer_threshold * one.probability.max(initial=0.0)
            if left := [at for at in paths.closed if one.probability[at] >= likely]:
                missed = ", ".join(words.hop(hop) for hop in paths.steps[left[0]])
                yield (
                    f"{topic.name} ({topic.id}) has too many paths: not all that it leads to by "
                    f'"{missed}" was read.'
                )

    def _today(self) -> date:
        """Return the date of today by the options."""
        return today_of(self.options.today, self.options.zone)[0]

    def _in(self, store: GraphStore) -> RankWords:
        """Return the words and schema of a store, cached until the store or its schema changes."""
        known = self._words
        if known is None or known.store is not store or known.version != schema_version(store):
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
        """Return by key the best path from each topic, with its log-probability, best first.

        Ties go to ``preferred`` (rows of each topic's table), then to the first row. Paths that the
        store lacks, and keys without a path, are left out; the others keep their order.
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
                    log = _log(one.probability[paths.of[row]])
                    by_key[int(ends[row])].append((log, path))
        return {key: sorted(one, key=lambda p: -p[0]) for key, one in by_key.items() if one}


def _walked(
    store: GraphStore, topics: Sequence[TopicEntity], rules: WalkRules
) -> tuple[list[RelationPaths], list[str]]:
    """Return the relation paths out of each topic entity, and notes on those that are cut off."""
    found, notes = [], []
    for topic in topics:
        paths, hops = relation_paths(store, topic.key, rules)
        if hops < rules.hops:
            notes.append(
                f"{said_entity(topic.name, topic.id)} has more than {MOST_PATHS:,} paths, "
                f"so only those of {hops} hop{'' if hops == 1 else 's'} were ranked."
            )
        found.append(paths)
    return found, notes


def _within_reach(
    scores: dict[int, float], choices: Sequence[AnswerChoice], rules: WalkRules
) -> dict[int, float]:
    """Return the scores of entities, of the choices alone if there are any.

    Raises EmptyLanguageError if none is left.
    """
    if choices:
        ends = {key for choice in choices for key in choice.keys}
        scores = {key: score for key, score in scores.items() if key in ends}
    if not scores:
        where = "to one of the choices" if choices else "out of the topic entities"
        raise EmptyLanguageError(
            f"No path of at most {rules.hops} hops leads {where}.",
            "Name another `entity`, or allow longer paths with `hops`.",
        )
    return scores


def _near(scores: Mapping[int, float], order: Sequence[int], threshold: float) -> int:
    """Return how many entities have at least ``threshold`` of the best one's score."""
    least = threshold * scores[order[0]]
    return sum(scores[key] >= least for key in order[:MOST_ANSWERS])


def _is_unsure(words: RankWords, one: _Ranking, likeliest: Sequence[Sequence[Hop]]) -> bool:
    """Return whether an answer leaves out a part of its question, or may be about something else.

    ``likeliest``: the likeliest relation path out of each topic entity.
    """
    narrowed = one.narrowed
    return bool(
        narrowed.left_out
        or narrowed.over is None
        or None in narrowed.denied.values()
        or any(topic.shared for topic in one.question.topics)
        or all(each.likeliest[0].missing for each in one.weighed)
        or any(says_a_part(one.asked, words, steps) for steps in likeliest)
        or any(says_another(one.asked, words, steps) for steps in likeliest)
        or is_other_kind(one.asked, words, likeliest[0], one.order[0])
    )


def _shown(
    evidence: dict[int, list[tuple[float, GroundedPath]]], k: int
) -> tuple[list[ScoredPath], list[ExpandedPath]]:
    """Return the paths to the first ``k`` entities, and other tails of their relation paths.

    A path to another entity by a new relation path is among the first. Paths of equal text are
    joined.
    """
    shown: list[tuple[float, GroundedPath]] = []
    source: dict[tuple[str, tuple[str, ...]], str] = {}
    expanded: list[ExpandedPath] = []
    for place, paths in enumerate(evidence.values()):
        for score, path in paths:
            kind = path.head.id, path.relation_path
            if place >= k and kind in source:
                expanded.append(ExpandedPath(path, source[kind]))
            else:
                source.setdefault(kind, path.text)
                shown.append((score, path))
    return ScoredPath.joined(shown), expanded


def sureness(signs: Sequence[float], weights: Sequence[float]) -> float:
    """Return the logistic probability that an answer is right, from its evidence ``signs``."""
    return float(1.0 / (1.0 + np.exp(-np.dot(signs, weights))))


def lacking_odds(signs: Sequence[float], weights: Sequence[float]) -> float:
    """Return the log-odds that a topic has no answer, from its evidence ``signs``."""
    return float(np.dot(signs, weights))


def _best_first(store: GraphStore, scores: Mapping[int, float]) -> list[int]:
    """Return the keys of answers by descending score; ties are ordered by id, or by name.

    Loaded KGs and endpoints have ids of the graph's own, whose order stands in place of names. Keys
    of a database are places that it gives to new nodes when old ones are gone: the same graph
    loaded again has others.
    """
    keys = in_id_order(store, keys_array(list(scores))).tolist()
    order = sorted(keys, key=lambda key: -scores[key])
    if store.info.loader != "attach" or isinstance(store, EndpointStore):
        return order
    first = store.entities(keys_array(order[:_NAMED_FIRST]))
    named = {
        key: (-scores[key], first.label(at), first.ids[at])
        for at, key in enumerate(first.keys.tolist())
    }
    return [*sorted(named, key=named.__getitem__), *order[_NAMED_FIRST:]]


def _not_there(topics: Sequence[TopicEntity], weighed: Sequence[Weighed]) -> str:
    """Return the message that the graph has no answer, with what is most probably missing."""
    named = " and ".join(said_name(topic.name) for topic in topics)
    most = max(weighed, key=lambda one: one.absent)
    if most.lacking:
        return f"Not in this graph: {most.lacking}."
    return f"Not in this graph: {named} {most.missing or 'has no fact that answers this'}."


def _without(words: RankWords, hop: Hop) -> str:
    """Return the phrase for an entity that lacks a relation."""
    said = said_name(words.hop(hop))
    return f"is not the {said} of anything" if hop[0] % 2 else f"does not have {said}"


def _absent(weighed: Sequence[Weighed]) -> float:
    """Return the probability that the graph has no answer: any topic may lead to one."""
    return math.prod(one.absent for one in weighed)


def _is_count(question: str, answers: Sequence[RankedAnswer]) -> bool:
    """Return whether a question asks for a number, and its first answer is not one."""
    return bool(HOW_MANY.match(question)) and not _NUMBER.fullmatch(answers[0].name)


def _log(probability: float) -> float:
    """Return the logarithm of a probability, bounded below."""
    return math.log(max(float(probability), 1e-30))

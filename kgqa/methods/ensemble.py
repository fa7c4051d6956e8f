"""Ensembles of methods: votes are combined, or a fast method answers alone if it is confident.

Each member's list of entities is brought to sum 1, and the lists are multiplied, each to the power
of its weight (a logarithmic opinion pool: Genest and Zidek, Statistical Science 1986). A floor
keeps a member that has never encountered an entity from ruling it out. Every path shown is one of a
member's, and was checked in the store there.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard, cast

from kgqa.answers.answer import (
    NO,
    NO_KG_LLM,
    YES,
    Answer,
    Findings,
    KgLlmUse,
    RankedAnswer,
    Timings,
)
from kgqa.answers.ranking import RankingOptions, near_first
from kgqa.deadline import deadline
from kgqa.display import NO_EVIDENCE, NOT_HERE
from kgqa.errors import AdapterMismatchError, KgqaError, ModelNotFoundError
from kgqa.extras import missing_llm_packages, require_llm_packages
from kgqa.graph.model import Kind
from kgqa.graph.schema import PropertyGraph
from kgqa.graph.store import EndpointStore
from kgqa.linking.neighbourhood_features import MOST_CLASSES
from kgqa.linking.resolve import rows_of_name
from kgqa.methods.base import LinkedQuestion, Method
from kgqa.methods.options import (
    AutoOptions,
    EnsembleOptions,
    GcrOptions,
    KgCotOptions,
    QueryOptions,
    RankOptions,
)
from kgqa.methods.query import UNSAID, Query, has_words_of, named_by_kind
from kgqa.methods.rank import Rank
from kgqa.methods.rank_asked import asked_noun
from kgqa.methods.what_is import asked_class, only_agents, only_of_class, without_rows
from kgqa.methods.whole_graph import (
    asks_for_topic,
    compares,
    counts_for,
    counts_kind,
    counts_paths,
    cues_of,
    gives_said,
    has_calculation,
    is_named,
    is_not_here,
    is_of_classes,
    is_unsaid,
    leaves_out,
    names_alternatives,
    of_alike,
    outdoes_paths,
    stands_apart,
    sums_paths,
    without_classes,
    without_values,
)
from kgqa.models.path_ranker import RANKERS, own_ranker
from kgqa.paths.words import relation_phrase
from kgqa.planning.bounds import shares_value
from kgqa.planning.question_words import noun_of_best, says_all
from kgqa.queries.implicit_classes import queryable
from kgqa.queries.plan import NodeRef
from kgqa.understanding.asked import (
    as_choice,
    asks_calculated,
    asks_duration,
    asks_for_one,
    asks_whether,
)
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kgqa.answers.answer import ScoredPath, TopicEntity
    from kgqa.graph.model import KGInfo
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Found
    from kgqa.methods.resources import Resources
    from kgqa.methods.whole_graph import Cues
    from kgqa.paths.walk import WalkRules
    from kgqa.queries.join import QueryStore
    from kgqa.queries.plan import Plan
    from kgqa.queries.result import QueryResult

WEIGHTS = weights("methods")
VOTES = {"gcr": 1.0, "kg-cot": 1.0, "rank": 1.0}
TOGETHER = 16  # questions that each member is given at a time
STALE_FRACTION = 0.2  # part of a KG's edges whose change makes its model stale
_OF_NO_WEIGHT = ("together", "search_options")  # options that do not select gcr
_FEW_RELATIONS = 400  # most relations of a graph whose class nouns are trusted
Planned: TypeAlias = "Callable[[], Findings | KgqaError]"  # the best plan's, computed once


class Ensemble(Method[EnsembleOptions]):
    """Combines gcr and kg-cot by the weighted product of their rankings.

    ``members`` are asked in order; ``weights``: of each member's vote, above 0. ``sure``: the
    confidence from which the first member answers alone; None asks all.
    """

    name = "ensemble"
    Options = EnsembleOptions
    sure: float | None = None

    def __init__(
        self, options: EnsembleOptions, resources: Resources, *, general: bool = True
    ) -> None:
        super().__init__(options, resources, general=general)
        self._makers = self._members()
        self._made: list[Method[Any]] = []
        self.weights: Mapping[str, float] = VOTES

    def _members(self) -> list[Callable[[], Method[Any]]]:
        """Return a factory for each member: a model is loaded only when its vote is needed."""
        from kgqa.methods.gcr import Gcr
        from kgqa.methods.kg_cot.method import KgCot

        reasoner = KgCot(self.options, self.resources, general=False)
        return [partial(Gcr, self.options, self.resources, general=False), lambda: reasoner]

    @property
    def members(self) -> list[Method[Any]]:
        """All members, created if necessary."""
        return [self._member(number) for number in range(len(self._makers))]

    def _member(self, number: int) -> Method[Any]:
        """Return a member, created at first use."""
        while len(self._made) <= number:
            self._made.append(self._makers[len(self._made)]())
        return self._made[number]

    def rules(self, store: GraphStore) -> WalkRules:
        """Return the rules of the member with the longest paths."""
        return max((member.rules(store) for member in self.members), key=lambda rules: rules.hops)

    def own_settings(self) -> dict[str, Any]:
        """Return the members' settings, and those of combining their votes."""
        common = ("method", "general_model", "answer_tokens")
        members = sorted(self.members, key=lambda one: one.name, reverse=True)  # gcr's stand
        merged = {name: one for each in members for name, one in each.settings.items()}
        kept = {name: one for name, one in merged.items() if name not in common}
        return {**kept, "weights": dict(VOTES), "sure": self.sure}

    def findings(self, store: GraphStore, questions: Iterable[LinkedQuestion | KgqaError]) -> Found:
        """Yield each question's number with its findings, in batches.

        A member that fails on a question is left out of its pool, with a note; a question on which
        all fail has the first member's error.
        """
        numbered = enumerate(questions)
        while taken := list(islice(numbered, TOGETHER)):
            yield from self._some(store, taken)

    def _some(
        self, store: GraphStore, taken: Sequence[tuple[int, LinkedQuestion | KgqaError]]
    ) -> Found:
        """Answer a batch of numbered questions: ask member after member until each is decided.

        Yields number and findings, or the error, as soon as a question is decided.
        """
        open_: dict[int, LinkedQuestion] = {}
        for number, question in taken:
            if isinstance(question, KgqaError):
                yield number, question
            else:
                open_[number] = question
        found: dict[int, list[Answer | KgqaError]] = {number: [] for number in open_}
        for number in range(len(self._makers)):
            if not open_:
                break
            member, asked = self._member(number), list(open_)
            last = number == len(self._makers) - 1
            for place, answer in member.answers(store, list(open_.values())):
                one = asked[place]
                found[one].append(answer)
                enough = self._agree(found[one]) if number else self._is_sure(answer)
                if last or enough:  # the first member may answer alone
                    del open_[one]
                    yield one, self._pooled(found[one])

    def _is_sure(self, answer: Answer | KgqaError) -> bool:
        """Return whether the first member's answer is confident enough to stand alone.

        Only for a question with one topic entity; never if ``sure`` is None.
        """
        if self.sure is None or isinstance(answer, KgqaError) or answer.confidence is None:
            return False
        single = len(answer.topic_entities) == 1
        return single and bool(answer.answers) and answer.confidence >= self.sure

    def _agree(self, given: Sequence[Answer | KgqaError]) -> bool:
        """Return whether all members so far give the same answers, so that no further one is asked.

        Only for a question with one topic entity; never if ``sure`` is None. Several answers to a
        question for one are not the same: those of one relation path are equal to both members,
        and gcr, which reads the names of entities, says which of them it is.
        """
        if self.sure is None or len(given) < 2:
            return False
        good = [one for one in given if not isinstance(one, KgqaError) and one.answers]
        named = {frozenset(answer.id or answer.name for answer in one.answers) for one in good}
        single = all(len(one.topic_entities) == 1 for one in good)
        return (
            single
            and len(good) == len(given)
            and len(named) == 1
            and not (asks_for_one(good[0].question) and max(map(len, named)) > 1)
            and max(one.confidence or 0.0 for one in good) >= WEIGHTS["members_agree"]
        )

    def _pooled(self, given: Sequence[Answer | KgqaError]) -> Findings | KgqaError:
        """Return the pooled findings of the members that answered, or the first error if none did.

        ``given``: the members' answers or errors, in their order. The findings have no answers if
        members disagree too much.
        """
        good: list[_Vote] = []
        notes: list[str] = []
        for member, one in zip(self._made, given, strict=False):
            if isinstance(one, KgqaError):
                notes.append(f"{member.name} did not answer: {one.message}")
            else:
                good.append(_Vote(member.name, self.weights.get(member.name, 1.0), one))
        if not good:
            return next(one for one in given if isinstance(one, KgqaError))
        if len(good) == 1:
            notes.append(f"Answered by {good[0].member} alone.")
        answers = [vote.answer for vote in good]
        ranked = pool([(vote.weight, vote.answer) for vote in good])
        confidence = _pooled_confidence(good)
        chosen = self._chosen(answers, ranked, confidence)
        notes += _pooled_notes(good, answered=chosen > 0)
        used = [answer for answer in answers if answer.kg_llm != NO_KG_LLM]
        paths: dict[tuple[object, ...], ScoredPath] = {}  # the first of equal paths
        for path in _all(answers, "paths"):
            paths.setdefault((path.text, path.groundings), path)
        stages = ("constraint", "decode", "ground", "answer")  # linking is done once, for all
        timings = Timings(
            **{stage: sum(getattr(one.timings, stage) for one in answers) for stage in stages}
        )
        return Findings(
            answers=tuple(ranked[:chosen]),
            others=tuple(ranked[chosen:]),
            paths=tuple(paths.values()),
            constraints=tuple(dict.fromkeys(_all(answers, "constraints"))),
            kg_llm=_together([answer.kg_llm for answer in used]),
            timings=timings,
            forward_passes=sum(answer.forward_passes for answer in answers),
            notes=tuple(notes),
            search=(used or answers)[0].search,
            expanded=tuple(_all(answers, "expanded")),
            confidence=confidence,
            relations=tuple(_all(answers, "relations")),
        )

    def _chosen(
        self,
        answers: Sequence[Answer],
        ranked: Sequence[RankedAnswer],
        confidence: float | None,
    ) -> int:
        """Return how many of the pooled entities are answers: 0 if members disagree too much.

        A single member's own threshold applies.
        """
        if len(answers) == 1:
            return len(answers[0].answers)
        first = [answer.best.id or answer.best.name for answer in answers if answer.best]
        if len(first) < len(answers):  # one finds no answer
            apart = len(first) != 1 and len(set(first)) == len(first)
            if apart or (confidence or 0.0) < WEIGHTS["lone_denial"]:
                return 0
        threshold = self.options.answer_threshold
        if threshold is None:
            ranking = RankingOptions(answer_threshold=WEIGHTS["pooled_answer"])
            threshold = ranking.threshold(len(answers[0].topic_entities))
        return near_first([one.score for one in ranked], threshold)


class Auto(Ensemble):
    """Chooses the method that suits the KG and the question; a note names it.

    A KG with its own KG-CoT reasoner: the reasoner answers; if it is not confident, rank is added;
    if the two disagree, gcr as well. Any other KG: relation paths are ranked by their words, by the
    KG's own ranker if ``kgqa learn`` made one, since the confidence of a reasoner from another KG
    means nothing. If an option is set that only gcr has, or the sentence encoder is missing, gcr
    answers.
    """

    name = "auto"
    Options = AutoOptions
    sure = WEIGHTS["reasoner_alone"]
    _query: Query | None = None

    def _members(self) -> list[Callable[[], Method[Any]]]:
        """Return factories for the members that suit the KG and the options."""
        options, resources = cast("AutoOptions", self.options), self.resources
        general = self.general is not None
        if options.reasoner is None and (of_gcr := self._of_gcr()):
            resources.note(f"Answering by gcr, since {of_gcr} is set.")
            return self._gcr(general=general)
        try:
            named, unfit = options.reasoner, ""
            if named is None:
                named, unfit = resources.suited_reasoner()
            if unfit:
                return self._by(self._rank(general=general))
            chosen = options.model_copy(update={"reasoner": named})
            from kgqa.methods.kg_cot.method import KgCot

            reasoner = KgCot(chosen, resources, general=False)
            beside = options.ranker
            if beside is None and resources.store is None and named in RANKERS.names():
                beside = named  # each question has its own graph, as in the reasoner's training
            ranker = Rank(chosen.model_copy(update={"ranker": beside}), resources, general=False)
        except (AdapterMismatchError, ModelNotFoundError) as error:
            if options.reasoner is not None or options.encoder is not None:
                raise
            if missing_llm_packages():  # the error names what to install; gcr would need more
                raise
            resources.note(f"{error.message} Answering by the method gcr.")
            return self._gcr(general=general)
        if missing_llm_packages():
            resources.note(
                "Answering without the method gcr, whose packages are not installed "
                "(pip install 'kgqa[llm]')."
            )
            return [lambda: reasoner, lambda: ranker]

        def last() -> Method[Any]:
            """Create the member gcr, which needs torch."""
            from kgqa.methods.gcr import Gcr  # with torch, when its vote is needed

            return Gcr(options, resources, general=False)

        return [lambda: reasoner, lambda: ranker, last]

    def _gcr(self, *, general: bool) -> list[Callable[[], Method[Any]]]:
        """Return a factory for gcr as the only member."""
        require_llm_packages("The method gcr")
        from kgqa.methods.gcr import Gcr

        return self._by(Gcr(self.options, self.resources, general=general))

    def _of_gcr(self) -> str:
        """Return a phrase for the option set by the user that only gcr has, "" if there is none."""
        settings = self.resources.settings
        if settings.model or settings.adapter:
            return f"the KG-LLM {settings.model or settings.adapter}"
        others = {*KgCotOptions.model_fields, *RankOptions.model_fields, *_OF_NO_WEIGHT}
        names = ["preset", *(field for field in GcrOptions.model_fields if field not in others)]
        given = self.options.given()
        return next((f"`{name}`" for name in names if name in given), "")

    def _by(self, member: Method[Any]) -> list[Callable[[], Method[Any]]]:
        """Return a factory for a single member, whose name the method takes."""
        self.name = member.name
        return [lambda: member]

    def _rank(self, *, general: bool) -> Rank:
        """Create path ranking with the ranker that suits the KG; note if its own is stale."""
        store = self.resources.store
        chosen = cast("AutoOptions", self.options)
        if store is not None and chosen.ranker is None:
            own = own_ranker(self.resources.settings.kg_folder(store.info.name))
            if own is not None and (
                note := staleness_note(RANKERS.card(own).described, store.info)
            ):
                self.resources.note(note)
        return Rank(chosen, self.resources, general=general)

    @property
    def alone(self) -> Method[Any] | None:
        """The only member, None if there are several."""
        return self._member(0) if len(self._makers) == 1 else None

    def findings(self, store: GraphStore, questions: Iterable[LinkedQuestion | KgqaError]) -> Found:
        """Yield each question's number with its findings, in batches.

        Plans answer first, if they are confident; other questions go to paths, and to less
        confident plans if paths have no answer.
        """
        if not self._whole_graph:
            yield from self._by_paths(store, questions)
            return
        numbered = enumerate(questions)
        while taken := list(islice(numbered, TOGETHER)):
            left: list[tuple[int, LinkedQuestion | KgqaError, _Pathwise | None]] = []
            for number, question in taken:  # plans are quick, so they run one at a time
                if isinstance(question, KgqaError) or question.choices:
                    left.append((number, question, None))
                    continue
                one = self._at_once(store, question)
                if isinstance(one, _Pathwise):
                    left.append((number, one.question, one))
                else:
                    yield number, one
            for place, found in self._by_paths(store, [question for _, question, _ in left]):
                number, _, pathwise = left[place]
                if pathwise is not None and isinstance(found, Findings):
                    found = self._after_paths(store, found, pathwise)
                yield number, found

    def _at_once(
        self, store: GraphStore, question: LinkedQuestion
    ) -> Findings | KgqaError | _Pathwise:
        """Return the findings of a plan that answers better than paths, else what is left to them.

        ``question`` has no choices.
        """
        question, like = of_alike(store, question)
        planned = cache(partial(self._planned, store, question))
        if question.is_yes_no:
            return self._compared(store, question) or _Pathwise(question, planned)
        found = (
            self._apart(question, planned)
            or self._of_rows(store, question, planned)
            or self._whole(store, question, planned)
            or self._of_things(store, question, planned)
        )
        if found is not None:
            return found
        class_ = asked_class(question.question, store.schema()) if _has_classes(store) else None
        least = WEIGHTS["plan_without_topics"]
        of_class = self._by_plan(store, question, planned, class_, least) if class_ else None
        if of_class is not None and is_sure(of_class, WEIGHTS["plan_before_paths"]):
            return of_class
        if self._names_nothing(store, question) and isinstance(plan := planned(), Findings):
            return plan
        return _Pathwise(question, planned, class_ or like, of_class)

    def _after_paths(self, store: GraphStore, found: Findings, one: _Pathwise) -> Findings:
        """Return the findings of paths, or those of a plan that answers where they do not."""
        if found.answers and one.class_ is not None:
            mine = only_of_class(store, found, one.class_, WEIGHTS["of_class"])
            found = mine or one.of_class or found
        elif len(found.answers) > 1 and (noun := asked_noun(one.question.question)):
            found = only_agents(store, found, noun) or found
        if found.answers:
            text = one.question.question
            found = without_rows(store, found, text, one.question.topics)
        if found.answers:
            found = self._values_of(store, found, one.plan) or found
            return self._count_of(found, one) or self._order_of(store, found, one) or found
        other = one.of_class
        if other is None or not is_sure(other, WEIGHTS["plan_of_topics"]):
            other = self._by_plan(store, one.question, one.plan)
        return other or self._by_rows(store, one.question, one.plan) or found

    @staticmethod
    def _names_nothing(store: GraphStore, question: LinkedQuestion) -> bool:
        """Return whether every topic entity was linked from a common noun, part of its name.

        Only for a graph with few relations. Of 45 such questions over nine graphs paths answered
        none.
        """
        few = len(store.relations().ids) <= _FEW_RELATIONS  # with more, names are of all kinds
        topics = question.topics
        return few and bool(topics) and all(named_by_kind(question.question, t) for t in topics)

    def _by_paths(
        self, store: GraphStore, questions: Iterable[LinkedQuestion | KgqaError]
    ) -> Found:
        """Answer questions by the members' paths."""
        if self.alone is not None:
            return self.alone.findings(store, questions)
        return super().findings(store, questions)

    def _by_plan(
        self,
        store: GraphStore,
        question: LinkedQuestion,
        planned: Planned,
        class_: str | None = None,
        least: float = WEIGHTS["plan_before_paths"],
    ) -> Findings | None:
        """Return the findings of a plan of at least the confidence ``least``.

        None if there is none, or a path shows the answer better. ``planned``: returns the findings
        of the best plan; ``class_``: the plan must give nodes of this class. Only for a graph with
        few classes: elsewhere a missing path means a missing answer.
        """
        if question.is_yes_no or not _has_classes(store):
            return None
        found = _sure(planned, least)
        if found is None or found.result is None or not found.result.plan.where:
            return None
        plan = found.result.plan
        if self._is_walked(found, found.result, question, class_):
            beyond = class_ is not None or len(plan.hops) > self._furthest(
                cast("GraphStore", store)
            )
            if not plan.hops or not (beyond or _says_class(question.question, plan)):
                return None  # what the question names, or what paths were found not to answer
        if class_ is not None:
            first = plan.give[0]
            if not isinstance(first, NodeRef) or plan.nodes[first.node] != class_:
                return None
        return found

    def _is_walked(
        self, found: Findings, result: QueryResult, question: LinkedQuestion, class_: str | None
    ) -> bool:
        """Return whether a plan only follows relations from named entities, as a path does."""
        plan = result.plan
        if plan.group or plan.order or plan.without or plan.first:
            return False
        named = all(isinstance(one.left, NodeRef) for one in plan.where)
        return named and not (
            counts_kind(result, question) or counts_for(found, question, self._planner.rows)
        )

    @staticmethod
    def _by_rows(store: GraphStore, question: LinkedQuestion, planned: Planned) -> Findings | None:
        """Return the findings of a plan in which an unnamed row joins two topic entities, or None.

        "Does Delta fly to Denver?" asks for a flight with both, not for a relation between them.
        """
        if not question.is_yes_no or not _has_classes(store):
            return None
        found = _sure(planned, WEIGHTS["plan_of_topics"])
        if found is None or found.result is None or not compares(found, question.topics):
            return None
        plan = found.result.plan
        named = {type_.name for type_ in store.schema().types if type_.names or type_.named_by}
        joins = len(plan.nodes) == 3 and len(plan.hops) == 2 and plan.nodes[0] not in named
        return found if joins and all(0 in (hop.source, hop.target) for hop in plan.hops) else None

    def _of_things(
        self, store: GraphStore, question: LinkedQuestion, planned: Planned
    ) -> Findings | None:
        """Return the findings of a confident plan with a condition on every topic entity.

        None if no plan is such. Only for graphs with few classes that state them, as tables
        and databases do, and only for plans beyond one fact, which a path shows with its evidence.
        Paths lead away from a role or a kind that is asked for: "which captain has a crew?".
        """
        if not question.topics or not _has_classes(store):
            return None
        found = _sure(planned, WEIGHTS["plan_of_topics"])
        if found is None or found.result is None or self._nouns:
            return None
        said = gives_said(found, question.question)
        if not (said or asks_for_topic(question) or is_sure(found, WEIGHTS["plan_before_paths"])):
            return None
        plan = found.result.plan
        beyond = len(plan.hops) > 1 or len(plan.where) > len(question.topics)
        beyond |= has_calculation(found) or said
        return found if beyond and compares(found, question.topics) else None

    @staticmethod
    def _of_rows(store: GraphStore, question: LinkedQuestion, planned: Planned) -> Findings | None:
        """Return the findings of a plan about all rows of a name, None if each name has one row.

        "Which films did Tom Hanks win for?" of a table with a row for each prize: paths lead out of
        one of them.
        """
        rows = (rows_of_name(store, topic.key, topic.name) for topic in question.topics)
        if all(len(keys) == 1 for keys in rows):
            return None
        found = _sure(planned, WEIGHTS["plan_without_topics"])
        if found is None or not names_alternatives(found):
            return None
        return found if compares(found, question.topics) else None

    def _values_of(self, store: GraphStore, found: Findings, planned: Planned) -> Findings | None:
        """Return a plan's findings if paths lead to an unnamed node that only holds values.

        None otherwise, or if the plan does not give a value with enough confidence.
        """
        best = found.answers[0]
        if best.id is None or best.name != best.id or not _has_classes(store):
            return None
        other = _sure(planned, WEIGHTS["plan_without_topics"])
        gives_value = other is not None and other.answers[0].id is None
        return (
            other
            if gives_value and self._planner.is_value_node(cast("GraphStore", store), best.id)
            else None
        )

    def _count_of(self, found: Findings, one: _Pathwise) -> Findings | None:
        """Return a plan's findings if it counts the entities that the paths lead to, else None."""
        if not asks_calculated(one.question.question):
            return None
        other = _sure(one.plan, 0.0)
        if other is None or other.result is None:
            return None
        if sums_paths(found, other) and compares(other, one.question.topics):
            return other
        return other if counts_paths(found, other, one.question, self._planner.rows) else None

    def _order_of(self, store: GraphStore, found: Findings, one: _Pathwise) -> Findings | None:
        """Return a plan's findings if the question ranks things, which paths ignored, else None.

        "The top 3 entities by filings with banks in Singapore" are not all things in Singapore.
        Only for graphs that state their classes.
        """
        met = any(answer.conditions for answer in found.answers)
        if met or self._nouns or not self._cues(store, one.question.question).ranks:
            return None
        other = _sure(one.plan, WEIGHTS["plan_of_number"])
        if other is None or other.result is None or not other.result.plan.order:
            return None
        return other if compares(other, one.question.topics) else None

    def _furthest(self, store: GraphStore) -> int:
        """Return the most hops of the paths that are tried before a plan."""
        return (self.alone or self).rules(store).hops

    def _planned(self, store: GraphStore, question: LinkedQuestion) -> Findings | KgqaError:
        """Return the findings of the best plan for a question, or the error that it ends in."""
        try:
            with deadline(question.stop):
                return self._planner.answer(store, question)
        except KgqaError as error:
            return error

    @property
    def _planner(self) -> Query:
        """Return the method that answers by plans, created at first use."""
        if self._query is None:
            day = QueryOptions(today=self.options.today, zone=self.options.zone)
            self._query = Query(day, self.resources, general=False)
        return self._query

    @property
    def _whole_graph(self) -> bool:
        """Whether plans answer questions about the whole graph.

        Not if every question has its own graph, or an option was set that only gcr has.
        """
        return self.resources.store is not None and not self._of_gcr()

    def _whole(
        self, store: GraphStore, question: LinkedQuestion, planned: Planned
    ) -> Findings | KgqaError | None:
        """Return a plan's findings, or its error, if the question is about the whole graph.

        Otherwise None. ``planned``: returns the findings of the best plan for it.
        """
        if question.among:
            found = planned()
            if isinstance(found, Findings) and is_sure(found, WEIGHTS["plan_before_paths"]):
                return found
        topics = without_classes(store, question)
        cues = self._cues(store, question.question)
        if topics and not any(cues):
            return None
        values = without_values(topics)
        named = values if any(map(is_named, values)) else []
        stated = cues._replace(bounded=cues.bounded and not self._nouns)  # things have properties
        if named and not any(stated):
            return None
        found = planned()
        if isinstance(found, KgqaError):
            return question.unlinked or (None if question.topics else found)
        if not self._fits(store, question.question, found, named, values, cues):
            if not question.topics:
                explained = is_unsaid(found) or self._refuses(store, question, found)
                return found if explained else question.unlinked
            if not named and is_of_classes(topics, values, cues):
                return Findings(notes=(UNSAID,), confidence=0.0)
            return question.unlinked
        if not named:
            return found
        schema = queryable(cast("QueryStore", store)).schema()
        return found if outdoes_paths(found, question, named, stated, schema) else None

    @staticmethod
    def _refuses(store: GraphStore, question: LinkedQuestion, found: Findings) -> bool:
        """Return whether a plan's refusal says more than that nothing was linked.

        It does where the question asks for a class that the graph states.
        """
        if found.answers or not found.notes or not _has_classes(store):
            return False
        return asked_class(question.question, store.schema()) is not None

    def _cues(self, store: GraphStore, question: str) -> Cues:
        """Return what of a question's words no path answers."""
        planner = self._planner
        listed, flagged = (
            ask(store, question) for ask in (planner.asks_listed, planner.names_flag)
        )
        return cues_of(question, listed=listed, flagged=flagged)

    def _fits(
        self,
        store: GraphStore,
        question: str,
        found: Findings,
        named: Sequence[TopicEntity],
        topics: Sequence[TopicEntity],
        cues: Cues,
    ) -> bool:
        """Return whether a plan's findings may answer a question about the whole graph.

        It is confident enough, has words of the question, and gives no fact, whose content would be
        the answer. ``named`` and ``topics``: as for :meth:`_least`.
        """
        bound = cues.bounded and compares(found, named) and not asks_whether(question)
        none = is_not_here(found) and (not named or bound)
        sure = is_sure(found, self._least(found, named, topics, cues))
        if not sure or not (found.answers or none) or _gives_mediator(store, found):
            return False
        if found.result is None:
            return True
        ranked = self._planner.rows and not topics and noun_of_best(question)
        if ranked and found.result.plan.order and is_sure(found, WEIGHTS["plan_before_paths"]):
            return True  # of a lone table, whose rows the question calls otherwise
        schema = queryable(cast("QueryStore", store)).schema()
        about = bool(named) and (cues.calculated or cues.denied) and not cues.repeated
        return has_words_of(found.result.plan, question, schema, self._nouns, about=about)

    def _least(
        self,
        found: Findings,
        named: Sequence[TopicEntity],
        topics: Sequence[TopicEntity],
        cues: Cues,
    ) -> float:
        """Return the least confidence of a plan for a question about the whole graph.

        ``named``: the topic entities that it names; ``topics``: also those whose names it has only
        a part of.
        """
        of_topics = WEIGHTS["plan_of_topics"]
        if named:
            if compares(found, named):
                if cues.denied and names_alternatives(found):
                    return WEIGHTS["plan_of_number"]  # a path leads from one of them
                return of_topics if self._nouns else WEIGHTS["plan_without_topics"]
            return WEIGHTS["plan_before_paths"] if cues.best or self._nouns else of_topics
        if cues.ranks or cues.bounded:
            return of_topics if topics and compares(found, topics) else WEIGHTS["plan_of_number"]
        return WEIGHTS["plan_without_topics"]

    @staticmethod
    def _apart(question: LinkedQuestion, planned: Planned) -> Findings | None:
        """Return the findings of a plan that compares with a topic entity, excludes or times it.

        None for other questions. No path leads to what is older than an entity, is not related to
        it, or to the time that it took.
        """
        text = question.question
        apart = any(stands_apart(text, one.mention) for one in question.topics)
        same = any(shares_value(text, one.mention) for one in question.topics)
        if not (apart or same or asks_duration(text)):
            return None
        found = planned()
        if isinstance(found, KgqaError) or not compares(found, without_values(question.topics)):
            return None
        return found if apart or has_calculation(found) or (same and leaves_out(found)) else None

    def _compared(self, store: GraphStore, question: LinkedQuestion) -> Findings | None:
        """Answer "yes" or "no" if a question asks whether the first of two entities has more.

        None for other questions, or if no plan with an order compares the two.
        """
        choice = as_choice(question.question)
        found = self._planned(store, replace(question, question=choice)) if choice else None
        if not isinstance(found, Findings) or not found.result or not found.answers:
            return None
        if not (found.result.plan.order and compares(found, question.topics)):
            return None
        start = question.question.lower().find
        first = min(question.topics, key=lambda one: start((one.mention or one.name).lower()))
        yes = [answer.id for answer in found.answers] == [first.id]
        return replace(found, answers=(RankedAnswer(None, YES if yes else NO, 1.0, grounded=True),))

    @property
    def _nouns(self) -> Mapping[str, str]:
        """Return the everyday names of the planner's classes."""
        return {} if self._query is None else self._query.nouns

    def _some(
        self, store: GraphStore, taken: Sequence[tuple[int, LinkedQuestion | KgqaError]]
    ) -> Found:
        """Yield findings of a batch; rank alone answers yes-or-no questions about two entities.

        For the other questions an endpoint prefetches the data that rank needs.
        """
        whether: dict[int, LinkedQuestion] = {}
        for member in map(self._member, range(2)):  # the third may not be needed
            if isinstance(member, Rank):
                whether = {
                    number: one
                    for number, one in taken
                    if isinstance(one, LinkedQuestion) and one.is_yes_no
                }
                numbers = list(whether)
                for place, found in member.findings(store, whether.values()):
                    yield numbers[place], found
                if isinstance(store, EndpointStore):
                    for number, one in taken:
                        if isinstance(one, LinkedQuestion) and number not in whether:
                            with suppress(KgqaError):  # the members raise it again
                                member.look_ahead(store, one)
        yield from super()._some(store, [one for one in taken if one[0] not in whether])

    def own_settings(self) -> dict[str, Any]:
        """Return the settings of the only member, or of several and of combining their votes."""
        return self.alone.own_settings() if self.alone is not None else super().own_settings()


class _Pathwise(NamedTuple):
    """A question that goes to paths because no plan answered it at once."""

    question: LinkedQuestion
    plan: Planned  # computes its best plan on demand
    class_: str | None = None  # the requested class
    of_class: Findings | None = None  # findings of that class by a plan, if any


class _Vote(NamedTuple):
    """A member's answer, and the weight of its vote."""

    member: str
    weight: float
    answer: Answer


def _pooled_confidence(votes: Sequence[_Vote]) -> float | None:
    """Return the members' confidence by their weights and by themselves; None if none has one.

    A confidence of rank in "Not in this graph" is inverted.
    """
    sure = [
        (vote.weight, sure if vote.answer.answers or vote.member != Rank.name else 1.0 - sure)
        for vote in votes
        if (sure := vote.answer.confidence) is not None
    ]
    return sum(weight * one for weight, one in sure) / sum(one for one, _ in sure) if sure else None


def _pooled_notes(votes: Sequence[_Vote], *, answered: bool) -> list[str]:
    """Return the members' notes, with their names if there are several.

    That one has no answer does not contradict an answer: of such notes one, if nothing answers.
    """
    lacking = (NOT_HERE, NO_EVIDENCE)
    notes = dict.fromkeys(
        note if len(votes) == 1 else f"{vote.member}: {note}"
        for vote in votes
        for note in vote.answer.notes
        if not note.startswith(lacking)
    )
    said = [note for vote in votes for note in vote.answer.notes if note.startswith(lacking)]
    said.sort(key=lambda note: not note.startswith(NOT_HERE))
    return [*notes, *(() if answered else said[:1])]


def is_sure(found: Findings, least: float) -> bool:
    """Return whether findings have at least the confidence ``least``; none counts as 0."""
    return (found.confidence or 0.0) >= least


def _all(answers: Sequence[Answer], name: str) -> Iterator[Any]:
    """Return what all answers have in the field ``name``."""
    return chain.from_iterable(getattr(answer, name) for answer in answers)


def _sure(planned: Planned, least: float) -> Findings | None:
    """Return the findings of a plan that has answers and at least the confidence ``least``."""
    found = planned()
    if isinstance(found, KgqaError) or not found.answers:
        return None
    return found if is_sure(found, least) else None


def _gives_mediator(store: GraphStore, found: Findings) -> bool:
    """Return whether the first answer is a fact, whose content is the answer."""
    given = store.keys_of([answer.id for answer in found.answers[:1] if answer.id])
    return bool((store.entities(given[given >= 0]).kinds == Kind.MEDIATOR).any())


def _says_class(question: str, plan: Plan) -> bool:
    """Return whether a question has all words of the class of a plan's first node."""
    return bool(plan.nodes[0]) and says_all(question, relation_phrase(plan.nodes[0]))


def pool(votes: Sequence[tuple[float, Findings]]) -> list[RankedAnswer]:
    """Return the entities of all findings with their pooled scores, best first.

    ``votes``: findings with their weights. The scores of ``answers`` and ``others`` of each are
    normalised to sum 1; findings without answers are left out. An entity without an id is
    identified by its name. Scores sum to 1; ties are ordered by name, then id.
    """
    shares: list[tuple[float, dict[str, float]]] = []
    known: dict[str, RankedAnswer] = {}
    for weight, found in votes:
        every = {
            answer.id if answer.id is not None else f"\0{answer.name}": answer
            for answer in (*found.answers, *found.others)
        }
        if not every:
            continue
        mass = sum(one.score for one in every.values())
        share = {
            key: one.score / mass if mass > 0 else 1 / len(every) for key, one in every.items()
        }
        shares.append((weight, share))
        for key, one in every.items():
            before = known.setdefault(key, one)
            better = one if one.grounded and not before.grounded else before
            known[key] = replace(better, conditions=before.conditions or one.conditions)
    heavy = sum(weight for weight, _ in shares)
    score = {
        key: math.prod(
            (share.get(key, 0.0) + WEIGHTS["not_found"]) ** (weight / heavy)
            for weight, share in shares
        )
        for key in known
    }
    total = math.fsum(score.values())
    ranked = [replace(one, score=score[key] / total) for key, one in known.items()]
    return sorted(ranked, key=lambda one: (-one.score, one.name, one.id or ""))


def _has_classes(store: GraphStore) -> TypeGuard[PropertyGraph]:
    """Return whether a graph has classes, but no more than ``MOST_CLASSES``."""
    return isinstance(store, PropertyGraph) and 0 < len(store.schema().types) <= MOST_CLASSES


def _together(used: Sequence[KgLlmUse]) -> KgLlmUse:
    """Return the use of several KG-LLMs as one: names joined, counts added; NO_KG_LLM for none."""
    if not used:
        return NO_KG_LLM
    adapters = dict.fromkeys(one.adapter for one in used if one.adapter)
    return KgLlmUse(
        model=" + ".join(dict.fromkeys(one.model for one in used)),
        adapter=" + ".join(adapters) or None,
        calls=sum(one.calls for one in used),
        prompt_tokens=sum(one.prompt_tokens for one in used),
        generated_tokens=sum(one.generated_tokens for one in used),
    )


def staleness_note(learnt: Mapping[str, Any], info: KGInfo) -> str:
    """Return a note if the KG has changed much since its own model was trained, else "".

    ``learnt``: the number of changed edges and of relations then, by name; a missing number is
    taken as the present one.
    """
    changed = info.changed - int(learnt.get("changed", info.changed))
    new = info.next_relation - int(learnt.get("relations", info.next_relation))
    if changed <= 0 or (changed <= STALE_FRACTION * info.edges and new <= 0):
        return ""
    return (
        f"{changed:,} edges of {info.name} were added or removed since that was learnt"
        + (f", and it has {new:,} new relations" if new > 0 else "")
        + f": kgqa learn --kg {info.name}."
    )

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
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, cast

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
from kgqa.graph.amounts import number_in
from kgqa.graph.model import Kind
from kgqa.graph.names import normalise
from kgqa.graph.quantities import UNITS
from kgqa.graph.schema import PropertyGraph
from kgqa.graph.store import EndpointStore
from kgqa.lexicon.lemmas import stem
from kgqa.linking.neighbourhood_features import MOST_CLASSES, name_stems, stems_of
from kgqa.methods.base import LinkedQuestion, Method
from kgqa.methods.options import (
    AutoOptions,
    EnsembleOptions,
    GcrOptions,
    KgCotOptions,
    QueryOptions,
    RankOptions,
)
from kgqa.methods.query import UNSAID, Query, has_words_of, kind_asked, named_by_kind
from kgqa.methods.rank import Rank
from kgqa.methods.rank_asked import asked_kind
from kgqa.methods.what_is import asked_class, asks_number, only_of_class
from kgqa.models.path_ranker import RANKERS, own_ranker
from kgqa.paths.words import relation_phrase
from kgqa.planning.aggregates import HOW_MANY
from kgqa.planning.bounds import is_bound
from kgqa.planning.negation import denies_name
from kgqa.planning.question_words import FREQUENT, names_class, says_all, stems
from kgqa.queries.implicit_classes import queryable
from kgqa.queries.plan import Aggregate, NodeRef
from kgqa.understanding.asked import (
    as_choice,
    as_superlative,
    asks_best,
    asks_calculated,
    asks_compared,
    asks_denied,
    asks_repeated,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kgqa.answers.answer import ScoredPath, TopicEntity
    from kgqa.graph.model import KGInfo
    from kgqa.graph.schema import GraphSchema
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Found
    from kgqa.methods.resources import Resources
    from kgqa.paths.walk import WalkRules
    from kgqa.queries.join import QueryStore
    from kgqa.queries.result import QueryResult

# Chosen on development questions: docs/methods.md.
WEIGHTS = {"gcr": 1.0, "kg-cot": 1.0, "rank": 1.0}
EARLY_EXIT_CONFIDENCE = 0.99
AGREED_CONFIDENCE = 0.8  # confidence from which two agreeing members need no gcr
THRESHOLD = 0.5  # part of the first answer's pooled weight that makes an answer
TOGETHER = 16  # questions that each member is given at a time
FLOOR = 0.01  # score of an entity with a member that did not find it
CALCULATED = 0.5  # least confidence of a plan for a question with a topic entity
GUESSED = 0.35  # and without a topic entity
LIKELY = 0.15  # and for a number, a superlative, or a comparison
SURE_PLAN = 0.8  # least confidence of a plan if paths do not answer
OF_CLASS = 0.7  # part of the best score of the class that makes an answer
STALE_FRACTION = 0.2  # part of a KG's edges whose change makes its model stale
_OF_NO_WEIGHT = ("together", "search_options")  # options that do not select gcr
_FEW_RELATIONS = 400  # most relations of a graph whose class nouns are trusted
# Below this pooled confidence one member that finds no answer is believed, as it is if the others
# do not agree on one.
VETO_CONFIDENCE = 0.3


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
        self.weights: Mapping[str, float] = WEIGHTS

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
        return {**kept, "weights": dict(WEIGHTS), "sure": self.sure}

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

        Only for a question with one topic entity; never if ``sure`` is None.
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
            and max(one.confidence or 0.0 for one in good) >= AGREED_CONFIDENCE
        )

    def _pooled(self, given: Sequence[Answer | KgqaError]) -> Findings | KgqaError:
        """Return the pooled findings of the members that answered, or the first error if none did.

        ``given``: the members' answers or errors, in their order. The findings have no answers if
        members disagree too much.
        """
        good: list[tuple[str, float, Answer]] = []
        notes: list[str] = []
        for member, one in zip(self._made, given, strict=False):
            weight = self.weights.get(member.name, 1.0)
            if isinstance(one, KgqaError):
                notes.append(f"{member.name} did not answer: {one.message}")
            else:
                good.append((member.name, weight, one))
        if not good:
            return next(one for one in given if isinstance(one, KgqaError))
        alone = len(good) == 1
        if alone:
            notes.append(f"Answered by {good[0][0]} alone.")
        notes += dict.fromkeys(
            note if alone else f"{name}: {note}"
            for name, _, one in good
            for note in one.notes
            if not note.startswith((NOT_HERE, NO_EVIDENCE))
        )
        answers = [answer for _, _, answer in good]
        ranked = pool([(weight, answer) for _, weight, answer in good])
        sure = [  # of an answer; rank's confidence in "Not in this graph" is inverted
            (weight, one.confidence if one.answers or name != Rank.name else 1.0 - one.confidence)
            for name, weight, one in good
            if one.confidence is not None
        ]
        confidence = None
        if sure:
            confidence = sum(weight * one for weight, one in sure) / sum(one for one, _ in sure)
        first = [answer.best.id or answer.best.name for answer in answers if answer.best]
        apart = len(first) > 1 and len(set(first)) == len(first)
        if alone:  # its own threshold applies
            chosen = len(answers[0].answers)
        elif len(first) < len(answers) and (
            not first or apart or (confidence or 0.0) < VETO_CONFIDENCE
        ):
            chosen = 0
        else:
            threshold = self.options.answer_threshold
            if threshold is None:
                ranking = RankingOptions(answer_threshold=THRESHOLD)
                threshold = ranking.threshold(len(answers[0].topic_entities))
            chosen = near_first([one.score for one in ranked], threshold)
        if not chosen:  # no answer does not contradict an answer
            said = [note for one in answers for note in one.notes]
            lacking = [note for note in said if note.startswith((NOT_HERE, NO_EVIDENCE))]
            notes += sorted(lacking, key=lambda note: not note.startswith(NOT_HERE))[:1]
        used = [answer for answer in answers if answer.kg_llm != NO_KG_LLM]
        paths: dict[tuple[object, ...], ScoredPath] = {}  # the first of equal paths
        for path in (path for answer in answers for path in answer.paths):
            paths.setdefault((path.text, path.groundings), path)
        stages = ("constraint", "decode", "ground", "answer")  # linking is done once, for all
        timings = Timings(
            **{stage: sum(getattr(one.timings, stage) for one in answers) for stage in stages}
        )
        return Findings(
            answers=tuple(ranked[:chosen]),
            others=tuple(ranked[chosen:]),
            paths=tuple(paths.values()),
            constraints=tuple(
                dict.fromkeys(constraint for answer in answers for constraint in answer.constraints)
            ),
            kg_llm=_together([answer.kg_llm for answer in used]),
            timings=timings,
            forward_passes=sum(answer.forward_passes for answer in answers),
            notes=tuple(notes),
            search=(used or answers)[0].search,
            expanded=tuple(one for answer in answers for one in answer.expanded),
            confidence=confidence,
            relations=tuple(relation for answer in answers for relation in answer.relations),
        )


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
    sure = EARLY_EXIT_CONFIDENCE
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
            left: list[_Pathwise] = []
            for number, question in taken:  # plans are quick, so they run one at a time
                planned_once = cache(partial(self._planned, store, question))
                found = (
                    self._apart(question, planned_once)
                    or self._whole(store, question, planned_once)
                    or self._of_things(store, question, planned_once)
                )
                class_ = self._asked_class(store, question) if found is None else None
                planned = (
                    self._by_plan(store, question, planned_once, class_, GUESSED)
                    if class_
                    else None
                )
                if planned is not None and (planned.confidence or 0.0) >= SURE_PLAN:
                    found = planned
                if found is None and self._names_nothing(store, question):
                    plan = planned_once()
                    found = plan if isinstance(plan, Findings) else None
                if found is not None:
                    yield number, found
                else:
                    left.append(_Pathwise(number, question, planned_once, class_, planned))
            for place, each in self._by_paths(store, [one.question for one in left]):
                one = left[place]
                if isinstance(each, Findings) and each.answers and one.class_ is not None:
                    each = only_of_class(store, each, one.class_, OF_CLASS) or one.planned or each
                if isinstance(each, Findings) and each.answers:
                    each = self._values_of(store, each, one.plan) or each
                    each = _count_of(each, one.question, one.plan, self._planner) or each
                if isinstance(each, Findings) and not each.answers:
                    sure = one.planned and (one.planned.confidence or 0.0) >= CALCULATED
                    other = one.planned if sure else self._by_plan(store, one.question, one.plan)
                    each = other or self._by_rows(store, one.question, one.plan) or each
                yield one.number, each

    def _asked_class(self, store: GraphStore, question: LinkedQuestion | KgqaError) -> str | None:
        """Return the class that a question asks for by name, None if it names none.

        None also for choices, yes-or-no questions, and graphs without classes or with very many.
        """
        if isinstance(question, KgqaError) or question.choices or question.is_yes_no:
            return None
        return asked_class(question.question, store.schema()) if _has_classes(store) else None

    @staticmethod
    def _names_nothing(store: GraphStore, question: LinkedQuestion | KgqaError) -> bool:
        """Return whether every topic entity was linked from a common noun, part of its name.

        Only for a graph with few relations, and not for choices and yes-or-no questions. Of 45 such
        questions over nine graphs paths answered none.
        """
        if isinstance(question, KgqaError) or question.choices or question.is_yes_no:
            return False
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
        question: LinkedQuestion | KgqaError,
        planned: Callable[[], Findings | KgqaError],
        class_: str | None = None,
        least: float = SURE_PLAN,
    ) -> Findings | None:
        """Return the findings of a plan of at least the confidence ``least``.

        None if there is none, or a path shows the answer better. ``planned``: returns the findings
        of the best plan; ``class_``: the plan must give nodes of this class. Only for a graph with
        few classes: elsewhere a missing path means that there is no answer.
        """
        if isinstance(question, KgqaError) or question.choices:
            return None
        if question.is_yes_no or not _has_classes(store):
            return None
        found = planned()
        if isinstance(found, KgqaError):
            return None
        sure = (found.confidence or 0.0) >= least and found.answers
        if not sure or found.result is None or not found.result.plan.where:
            return None
        plan = found.result.plan
        named = all(isinstance(one.left, NodeRef) for one in plan.where)
        walked = named and not (plan.group or plan.order or plan.without or plan.first)
        walked = walked and not _counts_kind(found.result, question)
        walked = walked and not _counts_for(found, question, self._planner.rows)
        if walked and (
            not plan.hops
            or (
                class_ is None
                and len(plan.hops) <= self._furthest(cast("GraphStore", store))
                and not (
                    plan.nodes[0] and says_all(question.question, relation_phrase(plan.nodes[0]))
                )
            )
        ):
            return None  # what the question names, or what paths were found not to answer
        if class_ is not None:
            first = plan.give[0]
            if not isinstance(first, NodeRef) or plan.nodes[first.node] != class_:
                return None
        return found

    @staticmethod
    def _by_rows(
        store: GraphStore,
        question: LinkedQuestion | KgqaError,
        planned: Callable[[], Findings | KgqaError],
    ) -> Findings | None:
        """Return the findings of a plan in which an unnamed row joins two topic entities, or None.

        "Does Delta fly to Denver?" asks for a flight with both, not for a relation between them.
        """
        if isinstance(question, KgqaError) or not question.is_yes_no or not _has_classes(store):
            return None
        found = planned()
        if isinstance(found, KgqaError) or found.result is None or not found.answers:
            return None
        plan = found.result.plan
        named = {type_.name for type_ in store.schema().types if type_.names or type_.named_by}
        joins = len(plan.nodes) == 3 and len(plan.hops) == 2 and plan.nodes[0] not in named
        joins = joins and all(0 in (hop.source, hop.target) for hop in plan.hops)
        sure = (found.confidence or 0.0) >= CALCULATED and _compares(found, question.topics)
        return found if joins and sure else None

    def _of_things(
        self,
        store: GraphStore,
        question: LinkedQuestion | KgqaError,
        planned: Callable[[], Findings | KgqaError],
    ) -> Findings | None:
        """Return the findings of a confident plan with a condition on every topic entity.

        None if there is no such plan. Only for graphs with few classes that state them, as tables
        and databases do, and only for plans beyond one fact, which a path shows with its evidence.
        """
        if isinstance(question, KgqaError) or question.choices or not _has_classes(store):
            return None
        found = planned() if question.topics and not question.is_yes_no else None
        if not isinstance(found, Findings) or self._nouns or not found.answers:
            return None
        plan = found.result.plan if found.result else None
        if plan is None or (len(plan.hops) < 2 and len(plan.where) <= len(question.topics)):
            return None
        sure = (found.confidence or 0.0) >= SURE_PLAN and _compares(found, question.topics)
        return found if sure else None

    def _values_of(
        self, store: GraphStore, found: Findings, planned: Callable[[], Findings | KgqaError]
    ) -> Findings | None:
        """Return a plan's findings if paths lead to an unnamed node that only holds values.

        None otherwise, or if the plan does not give a value with enough confidence.
        """
        best = found.answers[0]
        if best.id is None or best.name != best.id or not _has_classes(store):
            return None
        other = planned()
        if isinstance(other, KgqaError) or self._query is None or not other.answers:
            return None
        sure = (other.confidence or 0.0) >= GUESSED and other.answers[0].id is None
        return (
            other
            if sure and self._query.is_value_node(cast("GraphStore", store), best.id)
            else None
        )

    def _furthest(self, store: GraphStore) -> int:
        """Return the most hops of the paths that are tried before a plan."""
        return (self.alone or self).rules(store).hops

    def _planned(
        self, store: GraphStore, question: LinkedQuestion | KgqaError
    ) -> Findings | KgqaError:
        """Return the findings of the best plan for a question, or the error that it ends in."""
        if isinstance(question, KgqaError):
            return question
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
        self,
        store: GraphStore,
        question: LinkedQuestion | KgqaError,
        planned: Callable[[], Findings | KgqaError],
    ) -> Findings | KgqaError | None:
        """Return a plan's findings, or its error, if the question is about the whole graph.

        Otherwise None. ``planned``: returns the findings of the best plan for it.
        """
        if isinstance(question, LinkedQuestion) and question.is_yes_no:
            return self._compared(store, question)
        if isinstance(question, KgqaError) or question.choices:
            return None
        classes = _classes_named(store) if question.topics else set()
        all_of = stems_of(normalise(kind_asked(question.question))) & frozenset().union(*classes)
        topics = [  # not the "mountain" of "the highest mountain", but "to Airport"
            topic
            for topic in question.topics
            if not _is_frequency(question.question, topic)
            and not (all_of in classes and stems_of(normalise(topic.mention)) == all_of)
            and (
                (words := stems_of(normalise(topic.name))) not in classes
                or len(words) < len(normalise(topic.name).split())
                or (topic.name[:1].isupper() and topic.name in question.question)
            )
        ]
        if question.among:
            found = planned()
            if isinstance(found, Findings) and (found.confidence or 0.0) >= SURE_PLAN:
                return found
        unread: KgqaError | Findings | None = question.unlinked
        if question.topics and not topics:  # no path leads out of a class
            unread = Findings(notes=(UNSAID,), confidence=0.0)
        calculated = asks_calculated(question.question)
        best = not calculated and asks_best(as_superlative(question.question))
        beyond = asks_denied(question.question) or asks_repeated(question.question)  # any path
        compared = asks_compared(question.question)
        listed = self._planner.asks_listed(store, question.question)
        if topics and not (calculated or best or beyond or listed or compared):
            return None
        compared = compared and not self._nouns  # things have properties
        topics = [  # not the 50, nor the euro, of "over 50 EUR"
            topic
            for topic in topics
            if number_in(topic.name) is None and topic.name.lower() not in UNITS
        ]
        named = [topic for topic in topics if _is_named(topic)]
        partly = topics if not named else []
        if topics and not named:  # a word that stands in some name is not a name
            if best and all(topic.mention[:1].islower() for topic in topics):  # but a class
                unread = Findings(notes=(UNSAID,), confidence=0.0)
            topics = []
        elif topics and not (calculated or best or beyond or listed or compared):
            return None
        found = planned()
        if isinstance(found, KgqaError):
            return question.unlinked or (None if question.topics else found)
        least = (SURE_PLAN if best or self._nouns else CALCULATED) if topics else GUESSED
        if topics and _compares(found, topics):
            least = CALCULATED if self._nouns else GUESSED
        elif not topics and (calculated or best or asks_compared(question.question)):
            least = CALCULATED if partly and _compares(found, partly) else LIKELY
        none = not topics and any(note.startswith(NOT_HERE) for note in found.notes)
        if (found.confidence or 0.0) < least or not (found.answers or none):
            unsaid = any(note.startswith(f"{UNSAID[:-1]}:") for note in found.notes)
            return found if unsaid and not question.topics else unread
        given = store.keys_of([answer.id for answer in found.answers[:1] if answer.id])
        if (store.entities(given[given >= 0]).kinds == Kind.MEDIATOR).any():
            return unread  # a fact's content is the answer, not the fact
        result, schema = found.result, queryable(cast("QueryStore", store)).schema()
        plan = None if result is None else result.plan
        about = bool(topics) and (calculated or beyond) and not asks_repeated(question.question)
        if plan and not has_words_of(plan, question.question, schema, self._nouns, about=about):
            return None if about else unread
        if topics and best and not (plan and plan.order and plan.where):
            return None
        if beyond and not (calculated or best) and topics:
            says = plan and (plan.without or any(hop.repeated for hop in plan.hops) or any(
                one.operator in ("<>", "not in", "in") for one in plan.where))  # fmt: skip
            return found if says and _compares(found, topics) else None
        if topics and compared and plan and len(plan.where) > len(topics):
            return found if _compares(found, topics) else None
        if (topics and not best and not listed) and (
            result is None or not result.plan.grouped or _counts_other(result, question, schema)
        ):
            return None
        return found

    def _apart(
        self,
        question: LinkedQuestion | KgqaError,
        planned: Callable[[], Findings | KgqaError],
    ) -> Findings | None:
        """Return the findings of a plan that compares with a topic entity or excludes it.

        None for other questions. No path leads to what is older than an entity, or is not related
        to it.
        """
        if isinstance(question, KgqaError) or question.choices or question.is_yes_no:
            return None
        if not any(_stands_apart(question.question, topic.mention) for topic in question.topics):
            return None
        found = planned()
        if isinstance(found, KgqaError) or not _compares(found, question.topics):
            return None
        return found

    def _compared(self, store: GraphStore, question: LinkedQuestion) -> Findings | None:
        """Answer "yes" or "no" if a question asks whether the first of two entities has more.

        None for other questions, or if no plan with an order compares the two.
        """
        choice = as_choice(question.question)
        found = self._planned(store, replace(question, question=choice)) if choice else None
        if not isinstance(found, Findings) or not found.result or not found.answers:
            return None
        if not (found.result.plan.order and _compares(found, question.topics)):
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

    number: int
    question: LinkedQuestion | KgqaError
    plan: Callable[[], Findings | KgqaError]  # computes its best plan on demand
    class_: str | None  # the requested class
    planned: Findings | None  # findings of that class by a plan, if any


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
            (share.get(key, 0.0) + FLOOR) ** (weight / heavy) for weight, share in shares
        )
        for key in known
    }
    total = math.fsum(score.values())
    ranked = [replace(one, score=score[key] / total) for key, one in known.items()]
    return sorted(ranked, key=lambda one: (-one.score, one.name, one.id or ""))


def _is_frequency(question: str, topic: TopicEntity) -> bool:
    """Return whether a topic entity was linked from the "common" of "most common"."""
    said = FREQUENT.search(question)
    return said is not None and topic.mention.islower() and topic.mention in said[0]


def _is_named(topic: TopicEntity) -> bool:
    """Return whether a question mentions an entity by its whole name, and not by a number."""
    words = [stem(one) for one in normalise(topic.mention or topic.name).split()]
    return topic.mention[:1].isdigit() is False and words == [
        stem(one) for one in normalise(topic.name).split()
    ]


def _stands_apart(question: str, mention: str) -> bool:
    """Return whether a question compares with a mentioned entity, denies it, or counts its class.

    "How many robots are there?" is about all robots, not about an entity of that name.
    """
    kind = kind_asked(question)
    if kind and HOW_MANY.match(question) and stems(kind) == stems(mention):
        return True
    return is_bound(question, mention) or denies_name(question, mention)


def _classes_named(store: GraphStore) -> set[frozenset[str]]:
    """Return the stems of each class's names; empty for a store without a schema."""
    if not isinstance(store, PropertyGraph):
        return set()
    types = queryable(cast("QueryStore", store)).schema().types
    return name_stems(name for type_ in types for name in (type_.name, *type_.also))


def _compares(found: Findings, topics: Sequence[TopicEntity]) -> bool:
    """Return whether a plan has a condition on every topic entity."""
    return found.result is not None and all(
        topic.id in found.covers or topic.name in found.covers for topic in topics
    )


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


def _count_of(
    found: Findings,
    question: LinkedQuestion | KgqaError,
    planned: Callable[[], Findings | KgqaError],
    planner: Query,
) -> Findings | None:
    """Return a plan's findings if it counts the entities that the paths lead to, else None.

    Also if the counted kind is itself a topic entity, which paths do not count ("How many
    motorcycles do we sell?" about the product line Motorcycles), or if the plan is more confident
    than the paths: a number of cars is not that of their cylinders.
    """
    if isinstance(question, KgqaError) or not asks_calculated(question.question):
        return None
    other = planned()
    if isinstance(other, KgqaError) or other.result is None or not other.answers:
        return None
    ids = _counted(other.result, len(found.answers) + 1)
    is_it = len(found.answers) > 1 and _counts_kind(other.result, question)
    surer = (other.confidence or 0.0) >= max(SURE_PLAN, found.confidence or 0.0)
    is_it = is_it or (surer and _counts_for(other, question, planner.rows))
    return other if is_it or ids == {answer.id for answer in found.answers} else None


def _counts_kind(result: QueryResult, question: LinkedQuestion) -> bool:
    """Return whether "how many" names a topic entity, and the plan counts other entities."""
    kind = asked_kind(question.question)
    named = [one.id for one in question.topics if kind and kind == stems_of(normalise(one.mention))]
    ids = _counted(result, len(question.topics) + 1) if named else set()
    return bool(ids) and not ids & {*named}


def _counts_for(found: Findings, question: LinkedQuestion, rows: str) -> bool:
    """Return whether a plan counts the requested class with a condition on every topic entity.

    ``found``: the plan's findings; ``rows``: the class of a lone table's rows, whose name the
    question need not have.
    """
    topics = {topic.id for topic in question.topics}
    ids = _counted(found.result, len(topics) + 1) if found.result else set()
    if not found.result or not ids or ids <= topics:
        return False
    classes = _counted_classes(found.result)
    asked = any(one == rows or names_class(question.question, one) for one in classes if one)
    return asked and _compares(found, question.topics)


def _counted(result: QueryResult, most: int) -> set[str | None]:
    """Return up to ``most`` ids of the entities that a plan counts, None for counted values.

    Empty if it counts no nodes.
    """
    if not result.rows or not any(_counts(item) for item in result.plan.give):
        return set()
    return set(result.counted_ids(most))


def _counted_classes(result: QueryResult) -> list[str]:
    """Return the classes of the nodes that a plan counts."""
    plan = result.plan
    return [plan.nodes[cast("NodeRef", one.of).node] for one in plan.give if _counts(one)]


def _counts(item: object) -> TypeGuard[Aggregate]:
    """Return whether an output item is a count of nodes."""
    counts = isinstance(item, Aggregate) and item.kind == "count"
    return counts and isinstance(cast("Aggregate", item).of, NodeRef)


def _counts_other(result: QueryResult, question: LinkedQuestion, schema: GraphSchema) -> bool:
    """Return whether a plan counts other entities than the question asks for.

    It does if it counts only named entities, or a class while a property has the requested name:
    "How many pages has Emma?" is not about a number of books.
    """
    topics = {topic.id for topic in question.topics}
    ids = _counted(result, len(topics) + 1)
    if not ids:
        return False
    asked = any(names_class(question.question, one) for one in _counted_classes(result))
    return ids <= topics or (not asked and asks_number(question.question, schema))

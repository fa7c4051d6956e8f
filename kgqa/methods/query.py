"""Questions about a whole graph: the best plan that fits the schema is run.

The plan scorer (:mod:`kgqa.models.plan_scorer`) reads the question with the parts of the schema,
:mod:`kgqa.planning.search` puts the best plans together, and what they give decides among them: of
two plans the one that finds something is meant. Rows are the answers; what a number counts is
always given with it.
"""

from __future__ import annotations

import math
import re
import time
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import combinations, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard, cast

import numpy as np

from kgqa.answers.answer import (
    Findings,
    GeneralLlmUse,
    PlanReading,
    RankedAnswer,
    Timings,
)
from kgqa.answers.general import ask_which
from kgqa.deadline import check_deadline
from kgqa.display import NOT_HERE, first_of, said_name
from kgqa.errors import PlanError, TimeLimitError, UsageError
from kgqa.graph.moments import length
from kgqa.graph.names import normalise
from kgqa.graph.quantities import BASES, UNITS
from kgqa.graph.schema import PropertyGraph
from kgqa.graph.store import EndpointStore
from kgqa.lexicon.lemmas import stem
from kgqa.lexicon.vocabulary import FUNCTION
from kgqa.linking.linker import may_name
from kgqa.linking.neighbourhood_features import MOST_CLASSES, stems_of
from kgqa.methods.base import MOST_ANSWERS, LinkedQuestion, Method
from kgqa.methods.options import QueryOptions
from kgqa.paths.ground import Node
from kgqa.paths.words import relation_phrase
from kgqa.planning.aggregates import SHOWN_WITH
from kgqa.planning.bounds import Bound, bounds_of
from kgqa.planning.calculated import as_denied, as_ordered
from kgqa.planning.class_names import class_words, nameless
from kgqa.planning.conditions import opposite_names, says_opposite
from kgqa.planning.evidence import QuestionReading
from kgqa.planning.named_numbers import without_named
from kgqa.planning.path_meaning import MORE_PLANS, by_meaning
from kgqa.planning.question_words import (
    Mentions,
    asked_noun,
    blanked,
    lost,
    measured,
    measures,
    names_class,
    noun_of_best,
    ranks_by_nothing,
    stems,
    unexplained,
    unsayable,
)
from kgqa.planning.repeated_names import by_name, repeat
from kgqa.planning.requested_columns import RequestedColumns, asked_for, giving
from kgqa.planning.schema_parts import FoundValue, SchemaParts, value_nodes
from kgqa.planning.search import PlanSearch
from kgqa.planning.time_spans import spelt_out, unit_of_times
from kgqa.planning.value_index import ValueIndex
from kgqa.queries.check import SchemaIndex
from kgqa.queries.implicit_classes import PlainGraph, queryable
from kgqa.queries.plan import (
    KEYWORDS,
    Aggregate,
    Arithmetic,
    Comparison,
    HopRef,
    NodeRef,
    Plan,
    PropertyRef,
    leaves,
    owners,
)
from kgqa.queries.result import QueryLimits, QueryResult
from kgqa.queries.run import foresee as foresee_rows
from kgqa.queries.run import run_shown
from kgqa.queries.sentence import plural, sentence
from kgqa.understanding.asked import (
    as_of,
    as_superlative,
    asked_of_one,
    asks_best,
    asks_duration,
    had,
)
from kgqa.understanding.clock import today_of
from kgqa.understanding.literals import stated
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set

    from numpy.typing import NDArray

    from kgqa.answers.answer import Answer, TopicEntity
    from kgqa.graph.schema import EntityType, GraphSchema
    from kgqa.graph.store import GraphStore
    from kgqa.methods.resources import Resources
    from kgqa.models.general import GeneralLLM
    from kgqa.models.sentence_encoder import SentenceEncoder
    from kgqa.planning.aggregates import ScoredPlan
    from kgqa.queries.result import Cell
    from kgqa.understanding.literals import Stated, Stating

WEIGHTS = weights("methods")
Run: TypeAlias = "Callable[[Plan], QueryResult | None]"  # None for a plan that fails

_ENDING = re.compile(r"(?:or|er|ed|ing)$")
_TOGETHER = 12  # plans prefetched from an endpoint at once
_OFFERED, _OFFERED_AMONG = 2, 6  # readings offered, and plans tried for them
_COMPARED = 6  # plans whose results are compared with the best one's
_NAMED_ROWS = 8  # rows sampled for a lone table's subject
_COMPARED_NAMES = 10_000  # rows whose names are compared
_MOST_ROWS = 100_000  # most rows of a table that is sampled
UNSAID = "The question cannot be said as one query over this graph's schema."
NOT_SURE = "No reading of the question fits well enough"
NOT_CHOSEN = "The general LLM's reply was not of the form asked for; the first reading is answered."
NONE_MEANT = "The general LLM finds that no reading asks what the question asks."
_OVERVIEW = re.compile(
    r"\W*(?:what(?:'s| is| are)?(?: all)?(?: data| things?)? "
    r"(?:in (?:here|this|the (?:graph|kg|database|data))"
    r"|can i ask|do you know|is this (?:graph|database|kg) about)|what kinds? of things\b.*"
    r"|describe (?:the|this) (?:graph|schema|database|kg)|show (?:me )?the schema)\b",
    re.IGNORECASE,
)
_ALL_OF = re.compile(
    r"\W*(?:which|what|how many|list|show(?: me)?|name|count|give me)(?: different)?(?: all)?"
    r"(?: of)?(?: the)? ((?:[a-z]+ ){0,2}?[a-z]+)"
    r"(?: (?:are there|do (?:we|you) have|exist|there are))?(?: in (?:total|all))?\W*",
    re.IGNORECASE,
)
_ASKED = re.compile(
    r"\W*(?:which|what|list|show me)(?: all)?(?: the)? (?!is |was )([a-z]+s)\b", re.IGNORECASE
)
_HAVING = re.compile(r"\b(?:ha(?:s|ve|ving)|with)\b", re.IGNORECASE)
_MOST_MENTIONED = 4  # most classes tested for shared entities
_ASKS_VALUE = re.compile(
    r"\W*(when|how (?:old|tall|long|far|heavy|big|large|high|deep|much|fast|hot|wide))\b", re.I
)
_LISTED = 8  # most entities named in a sentence
_MEASURED_BY = {"days": "dates", "years": "years"}
_BOUNDS = ("<", "<=", ">", ">=")
_NOUN_WORDS = 3  # most words of the requested noun phrase


class Read(NamedTuple):
    """The plans of a question, best first, each with its result.

    A result is None if the plan failed or was not run, since a better one had a result.
    """

    plans: list[tuple[ScoredPlan, QueryResult | None]]
    unknown: list[str]  # names in the question that nothing in the graph has
    confidence: float
    seconds: tuple[float, float]  # seconds of planning, of execution
    strange: str = ""  # the requested class, if the best plan has none of that name
    general_llm: GeneralLlmUse | None = None
    said: str = ""  # a note on the general LLM's choice
    unsaid: str = ""  # the phrase that no plan can express
    readings: tuple[PlanReading, ...] = ()  # alternative readings offered to the user
    passed: tuple[str, ...] = ()  # words and values that the best plan ignores
    bounds: tuple[Bound, ...] = ()  # entities whose values the best plan compares with
    unit: str = ""  # of the times between two dates that the best plan calculates


class _QuestionParts(NamedTuple):
    """A question's literals, stored values and requested columns, with the schema's parts."""

    asked: RequestedColumns
    literals: Stated
    named: tuple[Stating, ...]  # numbers that belong to a property's name
    found: list[FoundValue]
    parts: SchemaParts

    @property
    def text(self) -> str:
        """The question, without the requested columns."""
        return self.asked.question

    @property
    def bare(self) -> str:
        """The question, blank where it has stored values, and numbers of a property's name.

        Whether these are used, :func:`unused` says.
        """
        return blanked(self.text, [*_spans(self.found), *_spans(self.named)])

    @property
    def values(self) -> set[str]:
        """The stored values as the question writes them, in lower case."""
        return {self.text[one.start : one.end].lower() for one in self.found}


class _Ran(NamedTuple):
    """A plan with its result, None if it failed or was not run, and the score that is left."""

    score: float
    scored: ScoredPlan
    result: QueryResult | None


class Query(Method[QueryOptions]):
    """Answers questions by plans over the schema; see the module."""

    name = "query"
    Options = QueryOptions

    _parts: SchemaParts | None = None
    _values: ValueIndex | None = None
    _version: str = ""
    _rows: NDArray[np.float32] | None = None  # the vector of a lone table's subject
    _last: tuple[tuple[str, str], _QuestionParts] | None = None

    def __init__(
        self, options: QueryOptions, resources: Resources, *, general: bool = True
    ) -> None:
        super().__init__(options, resources, general=general)
        self._chooses: GeneralLLM | None = self.general
        self.general = None  # it only chooses a plan

    def own_settings(self) -> dict[str, Any]:
        """Return the settings of the plan scorer and of the general LLM, if any."""
        chooser: dict[str, Any] = {"scorer": self.options.scorer or "universal"}
        if self._chooses is not None:
            chooser["general_model"] = self._chooses.model
        return {**chooser, "preset": None, "hops": None}

    def answer(self, store: GraphStore, question: LinkedQuestion) -> Findings:
        """Return the rows of the best plan, or an overview of the graph if requested.

        Without a plan or a word: no answer, and a note. Raises GraphError, UsageError.
        """
        if not any(map(str.isalnum, question.question)):
            return Findings(notes=(UNSAID,), confidence=0.0)
        if _OVERVIEW.match(question.question):
            return overview(queryable(_property_graph(store)).schema())
        return self.findings_of(
            self.read(store, question.question, question.among, question.topics)
        )

    def asks_listed(self, store: Any, question: str) -> bool:
        """Return whether a question lists several properties to output.

        False for a graph without classes, or with very many.
        """
        graph = _of_few_classes(store)
        if graph is None:
            return False
        items = self._asked(graph, question)[0].items  # in plain triples one column is a path's end
        return bool(SHOWN_WITH.search(question)) or len(items) > bool(self.nouns)

    def names_flag(self, store: Any, question: str) -> bool:
        """Return whether a question names a yes-or-no property, or its opposite.

        False for a graph without classes, or with very many.
        """
        graph = _of_few_classes(store)
        if graph is None or self.nouns:
            return False
        mentions, properties = Mentions(question), self._of(graph)[0].properties
        return any(
            (mentions.share(name, owner) == 1 and mentions.of(name, owner))
            or says_opposite(question, name)
            for (_, owner, name), (one, _) in properties.items()
            if one.type == "boolean"
        )

    def read(
        self,
        store: GraphStore,
        question: str,
        among: frozenset[str] = frozenset(),
        topics: Sequence[TopicEntity] = (),
    ) -> Read:
        """Return the plans that ``question`` may mean, restricted to the ids ``among`` if any.

        ``topics``: entities that the question names, also by a part of their names. Raises
        GraphError, UsageError.
        """
        began = time.perf_counter()
        graph = queryable(_property_graph(store))
        asked = self._with_parts_of_names(graph, as_of(as_superlative(question)), topics)
        scorer = self.resources.plan_scorer(self.options.scorer)
        plans = self._proposed(graph, asked, among)
        chosen = time.perf_counter()
        run = self._runner(store, graph, asked.parts)
        limits = self._limits()
        foresee_rows((one.plan for one in plans[:_TOGETHER]), graph, asked.parts.index, limits)
        worth = _by_results(plans, asked.bare, run)
        confidence = _agreement(worth, scorer.card.temperature, run)
        unknown, passed = list[str](), list[str]()
        if worth:
            best = worth[0].scored
            part, missing, passed = self._left(graph, asked, best)
            confidence *= part
            if is_all_of(asked.text, best.plan):
                confidence = max(confidence, WEIGHTS["all_of_class"])
            for name in missing:  # names that the graph has are not reported as unknown
                (passed if may_name(store, name) else unknown).append(name)
        ranked, chosen_by, said = self._meant(asked.text, worth, run)
        ran = time.perf_counter()
        strange, unsaid = self._unfit(graph, asked, ranked)
        unsure = chosen_by is None and confidence < self.options.sure_from
        return Read(
            ranked, unknown, confidence, (chosen - began, ran - chosen), strange,
            chosen_by, said, unsaid, readings_of(ranked, run) if unsure else (), tuple(passed),
            tuple(bounds_of(ranked[0][0].plan, asked.found)) if ranked else (),
            unit_of_times(ranked[0][0].plan, asked.parts.index) if ranked else "",
        )  # fmt: skip

    def _with_parts_of_names(
        self, graph: Any, question: str, topics: Sequence[TopicEntity]
    ) -> _QuestionParts:
        """Return a question's parts, with the entities that it names by a part of their names."""
        asked = self._asked(graph, question)
        mentions = {
            one.mention: one.key
            for one in topics
            if one.mention and not named_by_kind(asked.text, one)
        }
        values = self._of(graph)[1]
        found = values.with_partly_named(asked.text, mentions, asked.found, asked.parts)
        return asked._replace(found=found)

    def _proposed(
        self, graph: Any, asked: _QuestionParts, among: frozenset[str]
    ) -> list[ScoredPlan]:
        """Return the plans to run, the best first, restricted to the ids ``among`` if any."""
        parts, question, literals = asked.parts, asked.text, asked.literals
        texts, refs = parts.read(question, asked.found)
        scores = self.resources.plan_scorer(self.options.scorer).read(question, texts)
        reading = QuestionReading(
            question, parts, refs, scores, literals, asked.found,
            today=str(today_of(self.options.today, self.options.zone)[0]),
            beside=_of_two_classes(graph, question, parts),
        )  # fmt: skip
        items = asked.asked.items
        planned = self._planned(graph, reading)[: self.options.plans]
        plans = [replace(one, plan=giving(one.plan, items, parts)) for one in planned]
        if parts.lasting or parts.made_of:
            plans = [meant for one in plans if (meant := _spelt_out(one, parts)) is not None]
        if name := parts.repeated:
            plans = [replace(one, plan=by_name(one.plan, parts.rows, name)) for one in plans]
        if not among:
            return plans
        types = {name for key in graph.keys_of(sorted(among)).tolist() if key >= 0
                 for name in graph.details(key).types}  # fmt: skip
        some = ((one, within(one.plan, among, types)) for one in plans)
        return [replace(one, plan=plan) for one, plan in some if plan is not None]

    def _limits(self) -> QueryLimits:
        """Return the limits that plans are run with."""
        return QueryLimits(seconds=self.options.time_limit, first=MOST_ANSWERS)

    def _runner(self, store: GraphStore, graph: Any, parts: SchemaParts) -> Run:
        """Return a function that runs a plan, each once: None for one that fails."""
        stored = SchemaIndex(_property_graph(store).schema())  # the store's own classes
        limits = self._limits()

        @cache  # results of candidates are compared: each runs once
        def run(plan: Plan) -> QueryResult | None:
            """Run a plan; return None if it fails."""
            result = None
            with suppress(PlanError, TimeLimitError):
                result = run_shown(plan, graph, parts.index, limits, stored=stored)
            return result

        return run

    def _meant(
        self, question: str, worth: Sequence[_Ran], run: Run
    ) -> tuple[list[tuple[ScoredPlan, QueryResult | None]], GeneralLlmUse | None, str]:
        """Return plans with results, first the one that the general LLM chooses, if one is named.

        Also the LLM's use, and a note if it chose none.
        """
        ranked = [(one.scored, one.result) for one in worth]
        if self._chooses is None or not ranked:
            return ranked, None, ""
        masked = self.options.general_masked or self.resources.settings.general_masked
        numbers, use = ask_which(
            self._chooses,
            question,
            [sentence(one.plan) for one, _ in ranked],
            [text for one, _ in ranked for text in _texts(one.plan)] if masked else (),
            self.options.answer_tokens,
        )
        if numbers is None:
            return ranked, use, NOT_CHOSEN
        if not numbers:
            return [], use, NONE_MEANT
        one, result = ranked.pop(numbers[0] - 1)
        return [(one, run(one.plan) if result is None else result), *ranked], use, ""

    def _unfit(
        self,
        graph: Any,
        asked: _QuestionParts,
        ranked: Sequence[tuple[ScoredPlan, QueryResult | None]],
    ) -> tuple[str, str]:
        """Return the requested class or noun that the best plan lacks, and what none can express.

        Both as said, "" if there is none.
        """
        unsaid = unsayable(asked.text, asked.parts.words)
        if not ranked:
            return "", unsaid
        best, result = ranked[0]
        strange = self._strange(asked.text, best, result, asked.parts) or self._lacking(asked, best)
        if strange in asked.values:
            strange = ""  # a value that the graph holds is a kind of thing in it
        noun = stem(strange.rpartition(" ")[2])
        if noun and self._same_noun(graph, asked.text, best.plan, [noun]):
            strange = ""
        if not unsaid and not self.nouns:
            unsaid = given_itself(asked.text, best.plan)
        return strange, unsaid

    def _planned(self, store: GraphStore, reading: QuestionReading) -> list[ScoredPlan]:
        """Return the plans that a question may mean, the best first.

        Their scores say what the plan scorer finds in their parts, and how well the path ranker
        fits their paths from a named entity to the answer.
        """
        plans = PlanSearch(reading).plans(max(MORE_PLANS, self.options.plans))
        folder = self.resources.settings.kg_folder(store.info.name)
        return by_meaning(reading, plans, self.resources.path_ranker, folder)

    def _left(
        self, graph: Any, asked: _QuestionParts, best: ScoredPlan
    ) -> tuple[float, list[str], list[str]]:
        """Return a factor for words that a plan ignores, the unknown names, and these words.

        The factor, at most 1, lowers the confidence. Unknown names are in nothing of the graph.
        """
        question, plan, parts, literals = asked.text, best.plan, asked.parts, asked.literals
        unknown = unknown_names(question, [*asked.found, *literals.literals], parts)
        kind = passed_over(question, plan, best.nouns)
        if kind and kind not in asked.values:
            unknown.append(kind)
        known = [*_names(plan), *best.nouns]
        words = unexplained(asked.bare, known)
        noun = self._same_noun(graph, question, plan, words)
        words = [word for word in words if word != noun]
        unknown += self._unmeasured(question, best, words)
        if plan.is_bare and not plan.group:  # "which flat has a balcony?": all have none
            unknown += [word for word in had(question) if word in words]
        stray = unused(question, plan, asked.found, literals, parts.names)
        part = WEIGHTS["unknown_name"] ** bool(unknown) * WEIGHTS["passed_over"] ** bool(stray)
        part *= WEIGHTS["unexplained_words"] ** bool(words)
        part *= WEIGHTS["passed_over"] ** (best.vain <= WEIGHTS["vain_cues"])
        most = {*map(stem, measures(question))} & {*words}  # which the graph has elsewhere
        part *= WEIGHTS["passed_over"] ** bool(_known(parts) & {word[:5] for word in most})
        if self.nouns:
            return part, unknown, [*stray, *words]
        spans = [*_spans(literals.literals), *units_of(question, literals)]
        rest = lost(unexplained(blanked(asked.bare, spans), known)) - {noun}
        part *= WEIGHTS["lost_word"] ** max(0, len(rest) - 1)
        part *= WEIGHTS["unknown_name"] ** ("same" in rest and not _joins(plan))
        part *= WEIGHTS["passed_over"] ** self._guesses(asked.bare, plan, literals, parts)
        properties = any(isinstance(one, PropertyRef) for one in plan.give)
        if plan.is_bare and not properties and not _HAVING.search(question):
            # a whole class, although the graph has more of the words
            part *= WEIGHTS["passed_over"] ** bool(_known(parts) & {word[:5] for word in words})
        if plan.is_bare and asks_best(asked.bare):
            part *= WEIGHTS["passed_over"]
        if plan.order and isinstance(plan.order[0].by, PropertyRef):
            part *= WEIGHTS["ranked_by_nothing"] ** ranks_by_nothing(question)
            if parts.rows:  # "the oldest castle" of a table of homes
                asked_of = stem(asked_noun(question).partition(" ")[0].lower())
                part *= WEIGHTS["passed_over"] ** (
                    bool({noun_of_best(question), asked_of} & {*words})
                )
        return part, unknown, [*stray, *words]

    def _same_noun(self, graph: Any, question: str, plan: Plan, words: Sequence[str]) -> str:
        """Return the requested noun if it is a synonym of the plan's class, else "".

        ``words``: those of the question that no name of the plan explains, such as "movies" for
        films. A lone table may be named after a file; its rows are then compared by columns and
        names: cars have cylinders and horsepower, and one is a Datsun 610.
        """
        said = asked_noun(question) or noun_of_best(question) or question
        noun = stem(said.partition(" ")[0].lower())
        if noun not in words or not plan.nodes or not plan.nodes[0]:
            return ""
        encoder = self.resources.sentence_encoder(None)
        asked, class_ = encoder.encode([noun, relation_phrase(plan.nodes[0])])
        if float(asked @ class_) >= WEIGHTS["synonym_of_class"]:
            return noun
        if self._parts is None or plan.nodes[0] != self._parts.rows:
            return ""
        if self._rows is None:
            self._rows = _about_rows(graph, self._parts, encoder)
        return noun if float(asked @ self._rows) >= WEIGHTS["subject_of_rows"] else ""

    @staticmethod
    def _guesses(bare: str, plan: Plan, literals: Stated, parts: SchemaParts) -> bool:
        """Return whether a plan searches for a quoted text in a property that is not mentioned.

        ``bare``: the question without stored values.
        """
        mentions = Mentions(blanked(bare, _spans(literals.literals)))
        quoted = {str(literal.value) for literal in literals.literals
                  if literal.kind == "text" and literal.operator == "="}  # fmt: skip
        for one in plan.where:
            left = one.left
            if not isinstance(left, PropertyRef) or not isinstance(left.owner, NodeRef):
                continue
            type_ = parts.index.types.get(plan.nodes[left.owner.node])
            names = (type_.names if type_ is not None else ()) or ("name", "title")
            held = isinstance(one.right, tuple) and bool(quoted & {*map(str, one.right)})
            guessed = held and one.operator == "contains" and left.name not in names
            if guessed and not mentions.of(left.name, plan.nodes[left.owner.node]):
                return True
        return False

    def _asked(self, graph: Any, question: str) -> _QuestionParts:
        """Return a question's parts for planning: literals, stored values and requested columns.

        The last question's are remembered.
        """
        parts, values = self._of(graph)
        last, key = self._last, (self._version, question)
        if last is None or last[0] != key:
            if asks_duration(question):
                parts = parts.with_durations
            schema = parts.index.schema
            question = as_denied(as_ordered(question, schema), schema)
            question, parts = parts.with_calculated(question)
            names = dict.fromkeys(name for *_, name in parts.properties)
            literals, named, others = without_named(stated(question, parts.numbered), names)
            parts = parts.without(others)
            found = _without_bounds(values.find(question, literals.literals), literals)
            asked = asked_for(question, parts, found)
            if asked.question != question:
                literals, named, _ = without_named(stated(asked.question, parts.numbered), names)
                found = values.find(asked.question, literals.literals)
                found = _without_bounds(found, literals)
            literals = _without_limit(asked.question, literals, found)
            last = self._last = key, _QuestionParts(asked, literals, named, found, parts)
        return last[1]

    def _unmeasured(self, question: str, best: ScoredPlan, words: Sequence[str]) -> list[str]:
        """Return the measures that a question sums or maximises and no name of the plan resembles.

        ``words``: those of the question that no name of the plan explains. [] if rows are counted
        or the plan calculates.
        """
        plan = best.plan
        counted = [item.of for item in plan.items() if isinstance(item, Aggregate)]
        rows = self._parts.rows if self._parts else ""
        if rows and any(isinstance(one, NodeRef) and plan.nodes[one.node] in ("", rows)
                        for one in counted):  # fmt: skip
            return []  # passengers are the rows of ``titanic``
        if any(isinstance(item, Arithmetic) for item in [*plan.items(), *counted]):
            return []
        if self.nouns and ("" in best.nouns or any(isinstance(one, NodeRef) for one in counted)):
            return []  # the names of inferred classes are unknown
        known = _known(self._parts) if self._parts else set()
        known |= {_ENDING.sub("", one) for one in known}  # actors, of what is "acted in"
        nouns = [one for one in map(stem, measures(question))
                 if one in words and not known & {one[:5], _ENDING.sub("", one)}]  # fmt: skip
        if not nouns:
            return []
        names = sorted({*map(relation_phrase, [*_names(plan), *best.nouns])} - KEYWORDS)
        vectors = self.resources.sentence_encoder(None).encode([*nouns, *names])
        near = (vectors[len(nouns) :] @ vectors[: len(nouns)].T).max(0, initial=-1.0)
        least = WEIGHTS["synonym_of_class"]
        return [one for one, value in zip(nouns, near.tolist(), strict=True) if value < least]

    def _strange(
        self, question: str, best: ScoredPlan, result: QueryResult | None, parts: SchemaParts
    ) -> str:
        """Return the requested class, as said, if the plan has none of a similar name, else "".

        "Which movies are there?" about a graph without movies has a best plan, too: for another
        class. So has "Which movies have no director?", which finds nothing.
        """
        plan, kind = best.plan, kind_asked(question)
        if any(name and names_class(question, name) for name in plan.nodes):
            return ""
        if not kind or has_words_of(plan, question, parts.index.schema, self.nouns):
            asked = _ASKED.match(question)
            without = plan.without and not self.nouns  # a negated pattern nearly always has matches
            if result is None or (result.rows and not without) or not asked:
                return ""
            kind = asked[1].lower()
        names = [parts.classes.get(name, name).removeprefix("class ") for name in plan.nodes]
        names += [relation_phrase(hop.relation) for hop in plan.all_hops]
        names += [item.name for item in plan.give if isinstance(item, PropertyRef)]
        noun, *known = self.resources.sentence_encoder(None).encode([kind, *names])
        nearest = max(float(noun @ one) for one in known)
        return "" if nearest >= WEIGHTS["synonym_of_class"] else kind

    def _lacking(self, asked: _QuestionParts, best: ScoredPlan) -> str:
        """Return the noun asked of a named entity if the plan outputs something else, else "".

        "What is Bo's salary?" is never answered with Bo, nor with Bo's most similar property.
        """
        plan = best.plan
        noun = asked_of_one(asked.bare, _spans(asked.found))
        if not noun or len(plan.give) != 1 or self._reads_noun(noun, best, asked.parts):
            return ""
        given = plan.give[0]
        counts = isinstance(given, Aggregate) and given.kind == "count"
        if plan.grouped and not counts:
            return ""
        if not counts and (_gives_named(plan) or isinstance(given, HopRef)):
            return noun
        type_ = (
            asked.parts.index.types.get(plan.nodes[given.node])
            if isinstance(given, NodeRef)
            else None
        )
        if type_ is not None and not type_.names:  # no row of a table is a phone number
            return noun
        names = [given.name] if isinstance(given, PropertyRef) else []
        names += [hop.relation for hop in plan.hops] if not names else []
        names += [name for name in best.nouns if name and counts]
        texts = [noun, *map(relation_phrase, names)]
        said, *vectors = self.resources.sentence_encoder(None).encode(texts)
        nearest = max((float(said @ vector) for vector in vectors), default=-1.0)
        return noun if nearest < WEIGHTS["not_the_property"] else ""

    @staticmethod
    def _reads_noun(noun: str, best: ScoredPlan, parts: SchemaParts) -> bool:
        """Return whether the names of a plan explain the last content word of ``noun``."""
        types = [parts.index.types[node] for node in best.plan.nodes if node]
        called = [name for type_ in types for name in type_.names]
        last = [*noun.split(), *unexplained(noun, [])][-1]  # "phone", of a phone number
        return not unexplained(last, [*_names(best.plan), *best.nouns, *called])

    def findings_of(self, read: Read) -> Findings:
        """Return the findings of the best plan that was run.

        Without answers, but with a note, if it does not fit the question or its confidence is too
        low; in the latter case its rows are ``others``.
        """
        timings = Timings(decode=read.seconds[0], ground=read.seconds[1])
        cost: dict[str, Any] = {
            "timings": timings,
            "forward_passes": 1,
            "general_llm": read.general_llm,
        }
        best, result = read.plans[0] if read.plans else (None, None)
        if best is None or result is None:
            return Findings(notes=(read.said or UNSAID,), confidence=0.0, **cost)
        if read.unsaid or read.strange:
            unfit = f"{UNSAID[:-1]}: no plan says {read.unsaid!r}."
            if not read.unsaid:
                unfit = f"{NOT_HERE}: nothing in its schema is called like {read.strange!r}."
            notes = [unfit, f"The nearest reading: {best.plan}"]
            sure = 0.0 if read.unsaid else WEIGHTS["strange_word"]
            return Findings(notes=tuple(notes), confidence=sure, **cost)
        rows = [row for row in (*result.rows, *result.tied) if row[0] is not None or row[1:]]
        answers = tuple(_answer(row, result) for row in rows)
        notes = _notes(read, best.plan, result)
        confidence = None if read.general_llm and not read.said else read.confidence
        readings = read.readings if rows and len(read.readings) > 1 else ()
        others: tuple[RankedAnswer, ...] = ()
        shown: QueryResult | None = result
        if confidence is not None and confidence < self.options.refuse_below:
            notes.insert(0, _not_sure(read))
            answers, others, readings = (), answers, read.readings
            shown = result if rows else None  # an empty result does not answer, either
        return Findings(
            answers=answers,
            others=others,
            notes=tuple(notes),
            confidence=confidence,
            result=shown,
            covers=frozenset(_texts(best.plan)).union(*(one.ids for one in read.bounds)),
            readings=readings,
            **cost,
        )

    def is_value_node(self, store: GraphStore, id_: str) -> bool:
        """Return whether an entity only holds values of another one. Raises GraphError."""
        graph = queryable(_property_graph(store))
        keys = graph.keys_of([id_])
        types = graph.details(int(keys[0])).types if keys[0] >= 0 else ()
        return bool({*types} & self._of(graph)[0].value_nodes.keys())

    @property
    def rows(self) -> str:
        """The class of a lone table's rows, "" for other graphs and before the first question."""
        return self._parts.rows if self._parts else ""

    @property
    def nouns(self) -> Mapping[str, str]:
        """The everyday names of inferred classes; empty for a graph that states its classes."""
        return {} if self._parts is None else self._parts.called.nouns

    def _of(self, store: Any) -> tuple[SchemaParts, ValueIndex]:
        """Return the schema's parts and the value index of a store, computed once a version."""
        version = f"{store.url}\0{store.info.name}\0{store.info.version}"
        if self._parts is None or self._values is None or version != self._version:
            schema = store.schema()
            called = None
            if isinstance(store, PlainGraph):
                folder = self.resources.settings.kg_folder(store.info.name)
                encoder = self.resources.sentence_encoder(None)
                called = class_words(store, schema, encoder, folder)
            self._parts = SchemaParts(schema, called, value_nodes(store, schema))
            self._parts.repeated = _repeated_name(store, self._parts)
            self._values = ValueIndex(store, schema)
            self._rows = None
            self._version = version
        return self._parts, self._values


def _spelt_out(one: ScoredPlan, parts: SchemaParts) -> ScoredPlan | None:
    """Return a plan with two properties for each number made of them, which its nouns then name.

    None if the result is not a plan.
    """
    plan = spelt_out(one.plan, parts.index, parts.made_of)
    if plan is None:
        return None
    if plan == one.plan:
        return one
    made = {leaf for item in plan.give if isinstance(item, Arithmetic) for leaf in leaves(item)}
    give = tuple(item for item in plan.give if item not in made)  # without what it is made of
    nouns = (*one.nouns, *(["duration"] if parts.lasting else []), *parts.made_of)
    return replace(one, plan=replace(plan, give=give), nouns=nouns)


def _without_bounds(found: Sequence[FoundValue], literals: Stated) -> list[FoundValue]:
    """Return stored values without those that a question states as bounds: "over 120 minutes"."""
    bounds = _spans(one for one in literals.literals
                    if one.kind != "text" and one.operator not in ("=", "<>"))  # fmt: skip
    return [
        one
        for one in found
        if one.quoted or not any(start < one.end and one.start < end for start, end in bounds)
    ]


def _without_limit(question: str, literals: Stated, found: Sequence[FoundValue]) -> Stated:
    """Return literals without a limit that is part of a stored value: "the 458 Spider"."""
    if literals.limit is None:
        return literals
    values = [span for span in _spans(found) if not question[slice(*span)].isdigit()]
    if stated(blanked(question, values)).limit == literals.limit:
        return literals
    return replace(literals, limit=None)


def _by_results(plans: Sequence[ScoredPlan], bare: str, run: Run) -> list[_Ran]:
    """Return plans by what their results leave of their scores, best first, with the results.

    A result can only lower a score, so that a plan below the best one is not run. ``bare``: the
    question without stored values.
    """
    worth: list[_Ran] = []
    best = -math.inf
    for one in plans:
        check_deadline()
        if one.score <= best:
            worth.append(_Ran(one.score, one, None))
            continue
        result = run(one.plan)
        score = one.score - _penalty(one, result, bare, run)
        best = max(best, score)
        worth.append(_Ran(score, one, result))
    return sorted(worth, key=lambda one: (-one.score, one.result is None))


def _penalty(one: ScoredPlan, result: QueryResult | None, bare: str, run: Run) -> float:
    """Return what a plan's score loses by its result: an error, nothing, or a lone candidate."""
    if result is None:
        return WEIGHTS["failed_plan"]
    off = WEIGHTS["idle_superlative"] if is_idle(result, run) else 0.0
    off += WEIGHTS["idle_bound"] * has_idle_bound(result, run)
    if not _gives(result):
        unread = one.plan.having or unexplained(bare, [*_names(one.plan), *one.nouns])
        off += WEIGHTS["nothing_found"] if unread else WEIGHTS["nothing_there"]
    return off


def _agreement(worth: list[_Ran], temperature: float, run: Run) -> float:
    """Return the probability of the first plan, and of those near it that give the same.

    The results of these are added to ``worth``.
    """
    same = [True, *(False for _ in worth[1:])]
    best = worth[0] if worth else None
    if best is not None and best.result is not None:
        given, least = _first_column(best.result), best.score - WEIGHTS["near_plan"] * temperature
        near = [one for one in worth[1:] if one.score > least][:_COMPARED]
        for place, one in enumerate(near, 1):
            result = one.result or run(one.scored.plan)
            worth[place] = one._replace(result=result)
            same[place] = result is not None and _first_column(result) == given
    return confidence_of([one.score for one in worth], temperature, same)


def _notes(read: Read, plan: Plan, result: QueryResult) -> list[str]:
    """Return the notes on how a question was read, on its rows, and on unknown names."""
    notes = [f"Read as: {result.sentence} As a plan: {plan}"]
    if all(row == (None,) for row in (*result.rows, *result.tied)):  # an average of nothing
        notes = [f"{NOT_HERE}: nothing fits. {notes[0]}"]
    notes += [read.said] if read.said else []
    if result.tied:
        notes.append(
            f"{len(result.rows) + len(result.tied)} tie: all are shown."
            if len(result) == 1
            else f"{len(result.tied)} more are equal to the last of the first {len(result)}."
        )
    if result.rows_in_all:
        notes.append(first_of(result.rows_in_all, len(result)))
    if counted := counted_words(result):
        notes.append(counted)
    if read.unit:
        notes.append(f"The time between two {_MEASURED_BY[read.unit]} is in {read.unit}.")
    notes += [f"Nothing in the graph is called {said_name(name)}." for name in read.unknown]
    return notes + [
        f"Compared with {said_name(bound.ids[0])}: {relation_phrase(bound.property)} "
        f"{_shown(bound.value)}."
        for bound in read.bounds
        if bound.ids
    ]


def _not_sure(read: Read) -> str:
    """Return the note that no plan fits well enough, with the words that have no place in one."""
    known = {stem(one.lower()) for one in read.unknown}
    strays = [*read.unknown, *(one for one in read.passed if one not in known)]
    left = ", ".join(map(said_name, [*dict.fromkeys(strays)][:_LISTED]))
    lacking = f", and {left} has no place in the best one" if left else ""
    return (
        f"{NOT_SURE}{lacking}: name what it asks for as the graph does, or run the nearest "
        "(kgqa query)."
    )


def _spans(found: Iterable[FoundValue | Stating]) -> list[tuple[int, int]]:
    """Return where values or literals stand in a question."""
    return [(one.start, one.end) for one in found]


def _names_of_rows(store: Any, rows: EntityType) -> list[str]:
    """Return the names of a few rows of a lone table; names without letters are left out.

    [] for a very large table.
    """
    if rows.count > _MOST_ROWS:
        return []
    keys = store.instances(rows.name)
    some = keys[np.linspace(0, len(keys) - 1, _NAMED_ROWS).astype(np.int64)] if len(keys) else keys
    names = store.entities(np.unique(some)).names
    return [name for name in names if name and any(map(str.isalpha, name))]


def _repeated_name(store: Any, parts: SchemaParts) -> str:
    """Return the property of the names of a lone table's rows if several have the same, else ""."""
    rows = parts.index.types.get(parts.rows)
    if rows is None or not rows.named_by:
        return ""
    keys = np.unique(store.instances(rows.name)[:_COMPARED_NAMES])
    return rows.named_by if repeat(store.entities(keys).names) else ""


def _about_rows(store: Any, parts: SchemaParts, encoder: SentenceEncoder) -> NDArray[np.float32]:
    """Return a vector of a lone table's subject: mean of column names plus mean of row names."""
    rows = parts.index.types[parts.rows]
    columns = [rows.name, *(one.name for one in rows.properties)]
    columns += [one.relation for one in parts.index.schema.relations if one.head == rows.name]
    names = _names_of_rows(store, rows)
    vectors = encoder.encode([*map(relation_phrase, columns), *names])
    own = vectors[: len(columns)].mean(axis=0)
    summed: NDArray[np.float32] = own + (vectors[len(columns) :].mean(axis=0) if names else own)
    return summed


def within(plan: Plan, ids: Set[str], types: Set[str]) -> Plan | None:
    """Restrict a plan to the entities ``ids``; None if none of its nodes has one of ``types``.

    The first output node of these types is restricted, otherwise the first one of the pattern.

    >>> print(within(Plan(("Book",)), {"Book/1"}, {"Book"}))
    Book | Book in "Book/1" | give Book
    """
    given = [ref.node for item in plan.give for ref in owners(item) if isinstance(ref, NodeRef)]
    nodes = [one for one in (*given, *range(plan.pattern_size)) if plan.nodes[one] in types]
    if not nodes or plan.first is not None:
        return None
    one = Comparison(NodeRef(nodes[0]), "in", tuple(sorted(ids)))
    return replace(plan, where=(*plan.where, one))


def _of_few_classes(store: Any) -> Any:
    """Return the property graph of a store; None if it has no classes, or very many."""
    graph: Any = queryable(cast("Any", store)) if isinstance(store, PropertyGraph) else None
    few = graph is not None and 0 < len(graph.schema().types) <= MOST_CLASSES
    return graph if few else None


def _of_two_classes(graph: Any, question: str, parts: SchemaParts) -> frozenset[str]:
    """Return the mentioned classes of which two share entities; empty if fewer are mentioned."""
    mentions = Mentions(question)
    said = [type_ for type_ in parts.index.types if mentions.share(type_) == 1]
    if len(said) < 2 or len(said) > _MOST_MENTIONED or isinstance(graph, PlainGraph):
        return frozenset()
    if isinstance(graph, EndpointStore):
        graph.foresee_instances(said)
    keys = {name: graph.instances(name) for name in said}
    pairs = [(one, other) for one, other in combinations(said, 2)
             if len(np.intersect1d(keys[one], keys[other], assume_unique=True))]  # fmt: skip
    return frozenset(name for pair in pairs for name in pair)


def readings_of(
    ranked: Sequence[tuple[ScoredPlan, QueryResult | None]], run: Run
) -> tuple[PlanReading, ...]:
    """Return up to two plans whose results have values and differ, each with its sentence.

    ``ranked``: the best first, each with its result, or None if it is still to ``run``.
    """
    found: list[PlanReading] = []
    given: list[tuple[int, set[object]]] = []
    for one, result in ranked[:_OFFERED_AMONG]:
        check_deadline()
        result = result or run(one.plan)
        if result is None or not _gives(result) or _first_column(result) in given:
            continue
        given.append(_first_column(result))
        found.append(PlanReading(result.sentence, one.plan))
        if len(found) == _OFFERED:
            break
    return tuple(found)


def as_read(answer: Answer, number: int, run: Callable[[Plan], QueryResult]) -> Answer:
    """Return an answer according to its alternative reading ``number``, counted from 1.

    ``run`` runs a plan; its rows replace answers and paths. Raises UsageError for an unknown
    number, PlanError.
    """
    readings = answer.readings
    if not 0 < number <= len(readings):
        raise UsageError(
            f"Reading {number} of this question does not exist: "
            + (f"{len(readings)} are offered." if readings else "it is read in one way."),
            "Ask it without `reading`; the readings that are offered stand with the answer.",
        )
    reading = readings[number - 1]
    result = run(reading.plan)
    return replace(
        answer,
        method=Query.name,
        answers=tuple(_answer(row, result) for row in (*result.rows, *result.tied)),
        others=(),
        paths=(),
        expanded=(),
        relations=(),
        result=result,
        notes=(f"Read as: {result.sentence} As a plan: {reading.plan}",),
        confidence=None,
    )


def units_of(question: str, literals: Stated) -> list[tuple[int, int]]:
    """Return the spans of the units behind a question's numbers."""
    found = []
    for literal in literals.literals:
        rest = question[literal.end :].split()
        unit = rest[0].strip(".,;?!") if rest else ""
        if literal.kind == "number" and unit.lower() in UNITS:
            start = question.index(unit, literal.end)
            found.append((start, start + len(unit)))
    return found


def _values(plan: Plan) -> list[object]:
    """Return the values in all conditions of a plan, also of what it negates or selects first."""
    where = [*plan.where, *(one for part in plan.without for one in part.where)]
    values = [value for one in where if isinstance(one.right, tuple) for value in one.right]
    return values + (_values(plan.first) if plan.first else [])


def _texts(plan: Plan) -> list[str]:
    """Return the texts, names or ids, in all conditions of a plan."""
    return [value for value in _values(plan) if isinstance(value, str)]


def unknown_names(
    question: str, values: Sequence[FoundValue | Stating], parts: SchemaParts
) -> list[str]:
    """Return the capitalised names in a question that are not in ``values`` nor the schema."""
    known, found = _known(parts), []
    for match in re.finditer(r"(?<=[\w,;:] )[A-Z][\w.'-]*(?: [A-Z][\w.'-]*)*", question):
        inside = any(value.start < match.end() and match.start() < value.end for value in values)
        word = match.group().lower()
        if not inside and not {stem(word)[:5], word.rstrip("s")[:5]} & known:
            found.append(match.group())
    return found


def _known(parts: SchemaParts) -> set[str]:
    """Return the stems of a schema's words."""
    return {one[:5] for one in parts.stems}


def unused(
    question: str, plan: Plan, found: Sequence[FoundValue], literals: Stated, names: Set[str]
) -> list[str]:
    """Return the values and numbers in a question that the plan does not use, as written.

    ``names``: the schema's names, which a question may quote; they do not count.
    """
    held = {*map(str, _values(plan))}
    steps = [plan, plan.first] if plan.first else [plan]
    limits = {str(number) for one in steps for number in (one.limit, one.skip + 1)}
    unheld = [
        one
        for one in found
        if not held & {value for values in one.fields.values() for value in values}
        and not held & {str(value) for value in one.holds.values()}
    ]
    numbers = {one for one in held if re.fullmatch(r"-?[\d.]+", one)} - limits
    converted = numbers - {str(literal.value) for literal in literals.literals}  # to other units

    def is_lost(literal: Stating) -> bool:
        """Return whether a literal is not in the plan, nor a part of a stored value."""
        said = str(literal.value)
        if {said, said.lstrip("0")} & {*held, *limits, *names}:
            return False
        if literal.kind == "number" and converted:
            return False
        inside = any(one.start < literal.end and literal.start < one.end for one in found)
        return not inside and (literal.operator, literal.value) != (">=", 1)

    stray = _spans([*unheld, *(one for one in literals.literals if is_lost(one))])
    return [question[start:end] for start, end in stray]


def passed_over(question: str, plan: Plan, nouns: Sequence[str] = ()) -> str:
    """Return the word before the requested noun if the plan does not explain it, else "".

    ``nouns``: other names of the plan's classes.

    >>> passed_over("How many female doctors are there?", Plan(("Doctor",)))
    'female'
    """
    first, _, rest = (asked_noun(question) or question).partition(" ")
    noun = any(name and names_class(rest, name) for name in plan.nodes[:1])
    known = [*_names(plan), *nouns]
    return first if noun and first.lower() in unexplained(first, known) else ""


def has_words_of(
    plan: Plan, question: str, schema: GraphSchema, nouns: Mapping[str, str], *, about: bool = False
) -> bool:
    """Return whether a question mentions a name of the plan, or the plan compares something.

    Synonyms of classes and relations count as names. ``nouns``: of unnamed classes, whose words say
    less, so that an order or a number is enough. ``about``: a condition on the named topic entity
    does not count as comparison.
    """
    if not about and (plan.where or (nouns and (plan.order or plan.grouped or plan.without))):
        return True
    if any(isinstance(one, Aggregate) and isinstance(one.of, Arithmetic) for one in plan.give):
        return True  # its name is unknown
    also = set[str]()
    if nouns:
        ends = _implied(plan, schema)
        if ends & nameless(schema, nouns):
            return True
        also = ends.union(nouns.get(one, "") for one in ends.union(plan.nodes))
    names = _called(plan, schema, also)
    if any(measured(question, one) for one in names):  # "tall", of a height
        return True
    said = {word[:4] for name in names for word in stems_of(relation_phrase(name))}
    return bool({word[:4] for word in stems_of(normalise(question))} & said)


def _implied(plan: Plan, schema: GraphSchema) -> set[str]:
    """Return the classes of a plan's relations, which one over plain triples omits."""
    names = {*plan.nodes, *(hop.relation for hop in plan.all_hops)}
    known = (one for one in schema.relations if one.relation in names)
    return {end for relation in known for end in (relation.head, relation.tail)}


def _called(plan: Plan, schema: GraphSchema, names: Set[str]) -> set[str]:
    """Return ``names`` with those of a plan's classes, relations and properties, and synonyms."""
    items = [*plan.give, *plan.group, *(sort.by for sort in plan.order)]
    every = {*names, *plan.nodes, *(hop.relation for hop in plan.all_hops)}
    every |= {leaf.name for one in items for leaf in leaves(one) if isinstance(leaf, PropertyRef)}
    every |= {name for one in schema.types if one.name in every for name in one.also}
    return every | {name for one in schema.relations if one.relation in every for name in one.also}


def is_all_of(question: str, plan: Plan) -> bool:
    """Return whether a question asks for all members of a class, and a plan lists or counts them.

    >>> is_all_of("List the ship cities", Plan(("ShipCity",))), is_all_of("Ships?", Plan(("Ship",)))
    (True, False)
    """
    kind = kind_asked(question)
    whole = plan.is_bare and not plan.group and not plan.order
    things = all(isinstance(one, NodeRef) or is_count(one) for one in plan.give)
    return bool(kind) and whole and things and stems(plan.nodes[0]) == stems(kind)


def is_count(item: object) -> TypeGuard[Aggregate]:
    """Return whether an output item is a number of entities."""
    return isinstance(item, Aggregate) and item.kind == "count" and isinstance(item.of, NodeRef)


def kind_asked(question: str) -> str:
    """Return the class that a question lists or counts as a whole, "" for other questions.

    >>> kind_asked("Which movies are there?"), kind_asked("List all the ship cities")
    ('movies', 'ship cities')
    >>> kind_asked("Which movies are there from 1999?")
    ''
    """
    match = _ALL_OF.fullmatch(question)
    return match[1].lower() if match else ""


def confidence_of(worth: Sequence[float], temperature: float, same: Sequence[bool]) -> float:
    """Return the softmax probability of the first plan among several; 0 if there are none.

    ``worth``: their scores; ``same``: which plans have the same result as the first; their
    probabilities are added.
    """
    if not worth:
        return 0.0
    parts = [math.exp((one - worth[0]) / temperature) for one in worth]
    agreed = math.fsum(part for part, one in zip(parts, same, strict=True) if one)
    return agreed / math.fsum(parts)


def named_by_kind(question: str, topic: TopicEntity) -> bool:
    """Return whether a topic entity was linked from a single common noun in its name.

    The noun is the requested class, or a plural: in "Which trials are running?" "Pinnacle Trial
    Monitoring" is not meant; in "email of bo" Bo Berg is.
    """
    said, mention = normalise(topic.mention).split(), topic.mention
    if len(said) != 1 or not mention[:1].islower():
        return False
    whole = {stem(word) for word in normalise(topic.name).split() if word not in FUNCTION}
    if whole <= {stem(said[0])}:
        return False
    asked = takewhile(
        lambda word: word not in FUNCTION, normalise(asked_noun(question)).split()[:_NOUN_WORDS]
    )
    return stem(said[0]) != said[0] or said[0] in asked


def given_itself(question: str, plan: Plan) -> str:
    """Return "when" or "how old", as said, if a plan outputs a named entity instead of a value.

    "" for other plans and questions.

    >>> of_ann = Comparison(PropertyRef(NodeRef(0), "name"), "=", ("Ann",))
    >>> given_itself("How old is Ann?", Plan(("Guest",), where=(of_ann,), give=(NodeRef(0),)))
    'How old'
    """
    match = _ASKS_VALUE.match(question)
    return match[1] if match and len(plan.give) == 1 and _gives_named(plan) else ""


def _gives_named(plan: Plan) -> bool:
    """Return whether a plan's first output is a node that one of its conditions is on."""
    given = plan.give[0]
    return isinstance(given, NodeRef) and any(
        ref == given for one in plan.where for ref in owners(one.left)
    )


def overview(schema: GraphSchema) -> Findings:
    """Return an overview of a graph: its types with counts, and example questions."""
    answers = [
        RankedAnswer(None, f"{one.name} ({one.count:,})", 1.0, grounded=True)
        for one in schema.types
    ]
    notes = []
    for type_ in schema.types[:_LISTED]:
        known = ", ".join(said_name(property_.name) for property_ in type_.properties[:_LISTED])
        if known:
            notes.append(f"{said_name(type_.name)} has {known}.")
    for one in schema.relations[:_LISTED]:
        notes.append(
            " ".join(said_name(part or "something") for part in (one.head, one.relation, one.tail))
            + f" ({one.count:,})"
        )
    if not answers:
        answers = [
            RankedAnswer(None, f"{relation.relation} ({relation.count:,})", 1.0, grounded=True)
            for relation in schema.relations
        ]
    if schema.types:
        counted = plural(relation_phrase(schema.types[0].name))
        notes.append(f"Ask for instance: How many {counted} are there?")
    return Findings(answers=tuple(answers), notes=tuple(notes), confidence=1.0)


def counted_words(result: QueryResult) -> str:
    """Return the counted entities of the first row in words: "12 films: A, B, … and 4 more".

    "" if there are none.
    """
    if result.source is None or not len(result) or not result.plan.grouped:
        return ""
    for one in result.evidence(0, _LISTED).counted:
        names = [
            said_name(member.name if isinstance(member, Node) else str(member))
            for member in one.members
        ]
        if names:
            more = one.size - len(names)
            rest = f" and {more:,} more" if more > 0 else ""
            return f"{one.aggregate}: {one.size:,}: {', '.join(names)}{rest}"
    return ""


def _answer(row: tuple[Cell, ...], result: QueryResult) -> RankedAnswer:
    """Return the first cell of a row as an answer; one that is not an entity as text."""
    first = row[0]
    if isinstance(first, Node):
        return RankedAnswer(first.id, first.name, 1.0, grounded=True)
    text = ", ".join(map(str, first)) if isinstance(first, tuple) else _shown(first)
    return RankedAnswer(None, text, 1.0, grounded=True)


def _first_column(result: QueryResult) -> tuple[int, set[object]]:
    """Return the number of all rows if some are missing, else 0, and the first column's values."""
    rows = [*result.rows, *result.tied]
    return result.rows_in_all, {row[0].id if isinstance(row[0], Node) else row[0] for row in rows}


def is_idle(result: QueryResult, run: Run) -> bool:
    """Return whether a superlative decides nothing: only one candidate, or all counts are 1.

    ``run``: runs a plan, None if it fails; a second row is asked for.
    """
    plan = result.plan
    if not plan.order or plan.limit != 1 or plan.skip or plan.first is not None:
        return False
    by = plan.order[0].by
    if isinstance(by, Aggregate) and by in plan.give:
        ones = bool(result.tied) and result.rows[0][plan.give.index(by)] == 1
        return ones and not plan.where  # what a condition leaves may be one of each
    two = None if result.tied else run(replace(plan, limit=2))
    return two is not None and len(two) < 2


def has_idle_bound(result: QueryResult, run: Run) -> bool:
    """Return whether a bound decides nothing, since all values are within it: an area under 700.

    ``run``: runs a plan, None if it fails; one without the bound is asked for.
    """
    plan = result.plan
    for at, one in enumerate(plan.where):
        if one.operator in _BOUNDS and isinstance(one.left, PropertyRef) and not plan.grouped:
            there = replace(one, operator="not missing", right=())
            wide = run(replace(plan, where=(*plan.where[:at], there, *plan.where[at + 1 :])))
            if wide is not None and _first_column(wide) == _first_column(result):
                return True
    return False


def _shown(value: object) -> str:
    """Return a value as text."""
    if value is None:
        return "no value"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _joins(plan: Plan) -> bool:
    """Return whether a plan requires two things to share a node or a property value.

    So does one for the others that have a named thing's value.
    """
    ends = [hop.target for hop in plan.hops]
    compared = any(isinstance(one.right, PropertyRef) for one in plan.where)
    compared |= any(one.operator == "<>" and isinstance(one.left, NodeRef) for one in plan.where)
    turned = {(hop.source, hop.relation, hop.inverse) for hop in plan.hops}
    common = any(
        (hop.target, hop.relation, not hop.inverse) in turned for hop in plan.hops
    )  # to a node and back by one relation
    return compared or common or len(ends) > len({*ends})


def _names(plan: Plan) -> list[str]:
    """Return the names and values in a plan's text, and the opposites of its flags."""
    lasting = any(length(text) is not None for text in _texts(plan))
    return [
        *re.findall(r"[^\W\d][\w/:#.-]*", str(plan)),
        *(" ".join(BASES["s"]).split() if lasting else ()),  # "hours", of PT2H
        *(
            name
            for one in plan.where
            if one.right in ((True,), (False,)) and isinstance(one.left, PropertyRef)
            for name in opposite_names(one.left.name)
        ),
    ]


def _gives(result: QueryResult) -> bool:
    """Return whether a result has a value besides zero counts and missing values."""
    best = [at for at, item in enumerate(result.plan.give)
            if any(item == sort.by for sort in result.plan.order[:1])]  # fmt: skip
    if best and all(row[best[0]] is None for row in result.rows):
        return False  # "the lowest" of entities without the value
    numbers = [at for at, item in enumerate(result.plan.give) if isinstance(item, Aggregate)]
    if numbers:
        return any(row[at] not in (None, 0) for row in result.rows for at in numbers)
    return any(cell is not None for row in result.rows for cell in row)


def _property_graph(store: GraphStore) -> Any:
    """Return the store if it has a schema. Raises UsageError."""
    if not isinstance(store, PropertyGraph):
        raise UsageError(
            f"The KG {store.info.name} cannot be asked as a whole: its store gives no schema.",
            "Name a topic entity, and ask with another method.",
        )
    return store

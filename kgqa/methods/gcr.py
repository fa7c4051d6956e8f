"""Graph-constrained reasoning (GCR, arXiv 2410.13080): decodes K paths constrained by the KG-Trie.

Every path is grounded by id and checked edge by edge, and only then do the paths together, or a
general LLM, become answers.

In multiple choice each choice has its own constraint and its own search, so that none is without a
score, and part of a path's log-probability without the question is subtracted, so that none wins
for its words (domain-conditional pointwise mutual information: Holtzman et al., EMNLP 2021, section
3; figures: docs/results.md). Both are over the whole vocabulary: renormalised over what leads to a
choice, a path that has no rival is sure, whatever it says.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.answers.answer import Findings, KgLlmUse, SearchUse, Timings
from kgqa.answers.choices import choice_paths, find_choices, rank_choices
from kgqa.answers.ranking import RankingOptions, vote, weigh
from kgqa.deadline import deadline
from kgqa.decoding.engine import DecodingRequest
from kgqa.errors import (
    EmptyLanguageError,
    KgqaError,
    ShardDamagedError,
    TimeLimitError,
)
from kgqa.graph.model import keys_array
from kgqa.methods.base import LinkedQuestion, Method, OptionsT
from kgqa.methods.grounding import choose_constraint, composed, ground_all, write_hypotheses
from kgqa.methods.options import GcrOptions
from kgqa.models.profile import engine_for
from kgqa.paths.walk import joined_tables, ordered
from kgqa.registry import SEARCHES
from kgqa.trie.index.manifest import REBUILD, IndexKey
from kgqa.trie.lexicon import PathLexicon
from kgqa.trie.stored import path_tokens, stored_constraint
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kgqa.answers.answer import ScoredPath
    from kgqa.decoding.engine import DecodingOutcome
    from kgqa.decoding.search import Hypothesis, SearchResult, SearchStrategy
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Found
    from kgqa.methods.grounding import ChosenConstraint
    from kgqa.methods.resources import Resources
    from kgqa.models.adapter import AdapterCard
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.walk import PathTable, WalkRules
    from kgqa.trie.index.reader import TrieIndex
    from kgqa.trie.stored import StoredConstraint

WEIGHTS = weights("methods")
PRIOR = WEIGHTS["unasked_path"]


@dataclass(frozen=True, slots=True)
class _Decoding:
    """A question that is being decoded, and the seconds that building its constraint took."""

    number: int
    question: LinkedQuestion
    chosen: ChosenConstraint
    prompt: Sequence[int]
    seconds: float

    @property
    def from_index(self) -> bool:
        """Whether its constraint comes from the trie index."""
        return any(use.source == "shard" for use in self.chosen.uses)


class KgLlmMethod(Method[OptionsT]):
    """Base of methods that use a KG-LLM (:class:`kgqa.methods.options.KgLlmOptions`)."""

    def __init__(self, options: OptionsT, resources: Resources, *, general: bool = True) -> None:
        super().__init__(options, resources, general=general)
        given: Any = options
        self.kg_llm: KgLLM = resources.kg_llm(
            given.model,
            given.adapter,
            options.preset,
            given.quantize,
        )
        self.card = self.kg_llm.card
        self.lexicon = PathLexicon(self.kg_llm.encoder, self.form)

    def use(self, calls: int, prompt_tokens: int, generated_tokens: int) -> KgLlmUse:
        """Return the record of the KG-LLM's use, with calls and tokens."""
        name, adapter = self.kg_llm.name, self.kg_llm.adapter
        return KgLlmUse(name, adapter, calls, prompt_tokens, generated_tokens)

    def own_settings(self) -> dict[str, Any]:
        """Return the settings of the model, its adapter and its loading."""
        return {
            "model": self.kg_llm.name,
            "adapter": self.kg_llm.adapter,
            "quantize": self.kg_llm.quantized,
        }


class Gcr(KgLlmMethod[GcrOptions]):
    """Graph-constrained reasoning; several questions share the engine's forward passes."""

    name = "gcr"
    Options = GcrOptions

    def __init__(self, options: GcrOptions, resources: Resources, *, general: bool = True) -> None:
        self.search = search_of(options)
        self.search.check(options.k, options.length_penalty)
        super().__init__(options, resources, general=general)
        self.score_rule = options.score_rule or self.card.score_rule
        # a general LLM writes the answers, so none are weighed
        self.ranking = (
            None
            if self.general
            else ranking_options(options, self.card, self.score_rule, resources.store)
        )
        self.index = None
        if resources.store is not None:
            key = IndexKey.of(
                resources.store.info,
                self.kg_llm.encoder,
                self.form,
                self.walks(resources.store),
            )
            self.index = resources.index(key, _build_options(options))
        self.engine = engine_for(
            self.kg_llm,
            together=options.together,
            budget=options.budget,
            progress=resources.progress,
        )

    def own_settings(self) -> dict[str, Any]:
        """Return the settings of the model, the search and the ranking of answers."""
        return {
            **super().own_settings(),
            "score_rule": self.score_rule,
            "time_limit": self.options.time_limit,
            "search": self.options.search,
            **self.search.options.model_dump(),
            "weigh": None if self.ranking is None else asdict(self.ranking),
        }

    def findings(self, store: GraphStore, questions: Iterable[LinkedQuestion | KgqaError]) -> Found:
        """Yield each question's number with its findings, as they complete.

        The time of ``decode`` is a question's part of the forward passes, by tokens, without the
        engine's work between them.
        """

        def has_choices(numbered: tuple[int, LinkedQuestion | KgqaError]) -> bool:
            """Return whether a question is multiple choice."""
            return isinstance(numbered[1], LinkedQuestion) and bool(numbered[1].choices)

        rules = self.walks(store)
        for multiple, group in groupby(enumerate(questions), key=has_choices):
            if not multiple:
                yield from self._decoded(store, group, rules, self._index_of(store))
                continue
            for number, question in group:
                assert isinstance(question, LinkedQuestion)
                try:
                    yield number, self._choice(store, question, rules)
                except KgqaError as error:
                    yield number, error

    # ── open questions ──────────────────────────────────────────────────────────────────────

    def _decoded(
        self,
        store: GraphStore,
        questions: Iterator[tuple[int, LinkedQuestion | KgqaError]],
        rules: WalkRules,
        index: TrieIndex | None,
        said: Mapping[int, str] = MappingProxyType({}),
    ) -> Found:
        """Decode questions and yield their findings or errors.

        Questions whose shard is damaged are decoded again without the index. ``said``: what to note
        with the answer to a question, by its number.
        """
        taken: list[_Decoding] = []
        failed: list[tuple[int, KgqaError]] = []
        again: dict[int, tuple[LinkedQuestion, str]] = {}

        def requests() -> Iterator[DecodingRequest]:
            """Yield a decoding request for each question whose constraint can be built."""
            for number, question in questions:
                try:
                    if isinstance(question, KgqaError):
                        raise question
                    active = self._constrained(store, number, question, rules, index)
                    request = self._request(active)
                except KgqaError as error:
                    failed.append((number, error))
                    continue
                if number in said:
                    notes = (said[number], *active.chosen.notes)
                    active = replace(active, chosen=active.chosen._replace(notes=notes))
                taken.append(active)
                yield request

        for place, outcome in self.engine.run(requests()):
            active = taken[place]
            try:
                yield active.number, self._finished(store, rules, active, outcome)
            except ShardDamagedError as error:
                again[active.number] = active.question, f"{error} Answering on the fly."
            except KgqaError as error:
                yield active.number, error
            yield from failed
            failed.clear()
        yield from failed
        if again:
            more = ((number, question) for number, (question, _) in again.items())
            why = {number: note for number, (_, note) in again.items()}
            yield from self._decoded(store, more, rules, None, why)

    def _constrained(
        self,
        store: GraphStore,
        number: int,
        question: LinkedQuestion,
        rules: WalkRules,
        index: TrieIndex | None,
    ) -> _Decoding:
        """Return a question with the constraint of its topic entities and its prompt."""
        began = time.perf_counter()
        with deadline(question.stop):
            chosen = choose_constraint(store, question.topics, rules, self.lexicon, index)
        seconds = time.perf_counter() - began
        prompt = self._prompt(question.question, question)
        return _Decoding(number, question, chosen, prompt, seconds)

    def _request(self, active: _Decoding) -> DecodingRequest:
        """Return the request to decode a question's paths."""
        constraint, options = active.chosen.constraint, self.options
        return DecodingRequest(
            prompt=active.prompt,
            constraint=constraint,
            search=self.search.start(constraint, options.k, options.length_penalty),
            rule=self.score_rule,
            time_limit=options.time_limit,
            stop=active.question.stop,
            max_forward_passes=self.search.max_forward_passes,
            coverage=self.ranking is not None and self.score_rule == "allowed",
        )

    def _index_of(self, store: GraphStore) -> TrieIndex | None:
        """Return the trie index if it belongs to this graph, else None."""
        if self.index is None:
            return None
        key, info = self.index.manifest.key, store.info
        return self.index if (key.kg, key.kg_version) == (info.name, info.version) else None

    def _prompt(self, text: str, question: LinkedQuestion) -> list[int]:
        """Return the prompt's token ids for a question's text and topic entities."""
        return self.kg_llm.prompt_ids(text, [topic.name for topic in question.topics])

    def _finished(
        self, store: GraphStore, rules: WalkRules, active: _Decoding, outcome: DecodingOutcome
    ) -> Findings:
        """Return the findings of a finished search: grounded paths, ranked answers, notes.

        Decoded paths that the graph lacks are left out, with a note. Raises EmptyLanguageError if
        all are, ShardDamagedError if one from the index is.
        """
        result = _result(outcome)
        hypotheses = result.hypotheses
        written = None
        if self.card.answer and hypotheses:
            decoded_paths = [each.tokens for each in hypotheses]
            written = write_hypotheses(self.kg_llm, self.engine.plan, active.prompt, decoded_paths)
        decoded = time.perf_counter()
        paths, notes = ground_all(
            store,
            active.chosen.constraint,
            self.lexicon,
            [topic.key for topic in active.question.topics],
            hypotheses,
            written.texts if written else (),
            outcome.coverage,
        )
        if notes and active.from_index:
            raise ShardDamagedError(f"The index does not fit the graph. {notes[0]}.", REBUILD)
        if not paths:
            raise _nothing_grounded()
        grounded = time.perf_counter()
        if self.ranking is None:
            findings = Findings(answers=tuple(vote(paths, store)))
        else:
            findings = weigh(store, paths, active.question.topics, rules, self.form, self.ranking)
        tokens = sum(len(hypothesis.tokens) for hypothesis in hypotheses)
        search = SearchUse(self.options.search)
        if (proof := result.certificate) is not None:
            proven = (proof.proven, proof.certain, proof.bound, proof.demands)
            search = SearchUse(self.options.search, *proven)
        return replace(
            findings,
            paths=tuple(paths),
            constraints=active.chosen.uses,
            kg_llm=self.use(1, len(active.prompt), tokens + (written.tokens if written else 0)),
            timings=Timings(
                constraint=active.seconds,
                decode=outcome.seconds + (written.seconds if written else 0.0),
                ground=grounded - decoded,
                answer=time.perf_counter() - grounded,
            ),
            forward_passes=outcome.forward_passes + (written.forward_passes if written else 0),
            notes=(*active.chosen.notes, *notes, *findings.notes),
            search=search,
        )

    # ── multiple choice ─────────────────────────────────────────────────────────────────────

    def _choice(self, store: GraphStore, question: LinkedQuestion, rules: WalkRules) -> Findings:
        """Answer a multiple-choice question by decoding paths to each choice in its own search.

        K paths in all, and at least one of each choice that a path leads to. Paths that are
        probable without the question, too, weigh less.
        """
        began = time.perf_counter()
        choices = find_choices(store, question.choices)
        topics = keys_array([topic.key for topic in question.topics])
        table, notes = choice_paths(store, topics, choices, rules)
        prompt = self._prompt(question.question, question)
        constraints = [
            self._stored(store, ordered(mine))
            for choice in choices
            if len(mine := table.take(np.flatnonzero(np.isin(table.ends(), choice.keys))))
        ]
        walked = time.perf_counter()
        outcomes = self._run(self._choice_requests(prompt, constraints, question.stop))
        paths: list[ScoredPath] = []
        tables: list[PathTable] = []
        written: list[Hypothesis] = []
        for constraint, outcome in zip(constraints, outcomes, strict=True):
            hypotheses = _result(outcome).hypotheses
            good, refused = ground_all(store, constraint, self.lexicon, topics, hypotheses)
            paths += good
            notes += refused
            tables += [constraint.ground(hypothesis.state) for hypothesis in hypotheses]
            written += hypotheses
        if not paths:
            raise _nothing_grounded()
        before, prior = self._unasked(store, question, topics, ordered(joined_tables(tables)))
        grounded = time.perf_counter()
        paths = list({(path.text, path.groundings): path for path in paths}.values())
        paths.sort(key=lambda path: (-path.score, path.text))
        weights = [path.score - PRIOR * before.get(path.text, 0.0) for path in paths]
        ran = [*outcomes, prior]
        decoding = sum(outcome.seconds for outcome in ran)
        tokens = sum(len(hypothesis.tokens) for hypothesis in written)
        return Findings(
            answers=tuple(rank_choices(choices, paths, weights)),
            paths=tuple(paths),
            constraints=composed(question.topics),
            kg_llm=self.use(2, 2 * len(prompt), tokens),
            timings=Timings(
                constraint=walked - began,
                decode=decoding,
                ground=max(0.0, grounded - walked - decoding),
                answer=time.perf_counter() - grounded,
            ),
            forward_passes=sum(outcome.forward_passes for outcome in ran),
            notes=tuple(notes),
            search=SearchUse(self.options.search),
        )

    def _stored(self, store: GraphStore, table: PathTable) -> StoredConstraint:
        """Return the constraint of the paths of a table, which is in the trie's order."""
        return stored_constraint([(path_tokens(store, table, self.lexicon), table)])

    def _choice_requests(
        self,
        prompt: list[int],
        constraints: Sequence[StoredConstraint],
        stop: Callable[[], None] | None,
    ) -> Iterator[DecodingRequest]:
        """Yield a decoding request for the constraint of each choice."""
        each = max(1, self.options.k // len(constraints))
        search = search_of(self.options, each)
        for constraint in constraints:
            yield DecodingRequest(
                prompt=prompt,
                constraint=constraint,
                search=search.start(constraint, each, self.options.length_penalty),
                time_limit=self.options.time_limit,
                stop=stop,
                max_forward_passes=search.max_forward_passes,
            )

    def _unasked(
        self, store: GraphStore, question: LinkedQuestion, topics: IntArray, table: PathTable
    ) -> tuple[dict[str, float], DecodingOutcome]:
        """Return the log-probability of each path's text if nothing is asked, and the decoding."""
        constraint = self._stored(store, table)
        search = _strategy("beam").start(constraint, len(table))
        prompt = self._prompt("", question)
        request = DecodingRequest(prompt=prompt, constraint=constraint, search=search)
        (outcome,) = self._run([request])
        said, _ = ground_all(store, constraint, self.lexicon, topics, _result(outcome).hypotheses)
        return {path.text: path.score for path in said}, outcome

    def _run(self, requests: Iterable[DecodingRequest]) -> list[DecodingOutcome]:
        """Run decoding requests and return their outcomes in order."""
        return [outcome for _, outcome in sorted(self.engine.run(requests), key=itemgetter(0))]


def ranking_options(
    options: GcrOptions, card: AdapterCard, score_rule: str, store: GraphStore | None = None
) -> RankingOptions | None:
    """Return the options of ranking answers; None for a plain vote of the decoded paths.

    Calibrated confidences hold only for the score rule "allowed"; the card's minimum only for KGs
    with the relations that it was measured on.
    """
    if not options.expand:
        return None
    chosen = RankingOptions(
        tail_temperature=card.tail_temperature,
        max_tails=options.max_tails or RankingOptions().max_tails,
    )
    if (threshold := options.answer_threshold) is not None:
        chosen = replace(chosen, answer_threshold=threshold, answer_threshold_several=threshold)
    if score_rule != "allowed":
        return chosen
    least = options.min_confidence
    if least is None:
        holds = store is None or card.suits(store.relations().known)
        least = card.min_confidence if holds else 0.0
    return replace(
        chosen, min_confidence=least, slope=card.calibration_slope, shift=card.calibration_shift
    )


def search_of(options: GcrOptions, k: int | None = None) -> SearchStrategy[Any]:
    """Return the search that ``options`` select; ``k``: for so many paths, without its groups."""
    own = options.search_options
    if k is not None and own is not None and getattr(own, "groups", None) is not None:
        own = own.model_copy(update={"groups": None})
    return _strategy(options.search, own)


def _strategy(name: str, own: Any = None) -> SearchStrategy[Any]:
    """Return the search strategy with this name.

    ``own``: its options, None for the default ones.
    """
    strategy: SearchStrategy[Any] = SEARCHES.entry(name).load()(own or SEARCHES.options(name, {}))
    return strategy


def _build_options(options: GcrOptions) -> dict[str, Any]:
    """Return the options that a matching index must be built with; those not set are left out."""
    names = ["model", "adapter", "preset", "hops", "direction", "mediators"]
    given = {name: getattr(options, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def _result(outcome: DecodingOutcome) -> SearchResult:
    """Return a search's result, or raise its error.

    Raises TimeLimitError for an exact search that spent its forward passes without a path.
    """
    result = outcome.found()
    certificate = result.certificate
    if not result.hypotheses and certificate is not None and not certificate.proven:
        raise TimeLimitError(
            f"The exact search found no whole path within {outcome.forward_passes} forward passes.",
            "Allow more with `max_forward_passes`, or set `search` to beam.",
        )
    return result


def _nothing_grounded() -> EmptyLanguageError:
    """Return the error for decoded paths of which none is in the graph."""
    return EmptyLanguageError(
        "No decoded path could be found in the graph again, so none is shown.",
        "Build the index again: kgqa precompute-tries --rebuild",
    )

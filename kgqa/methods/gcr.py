"""Graph-constrained reasoning (GCR, arXiv 2410.13080): decode K paths under the KG-Trie, answer.

The KG-LLM writes under the constraint, every path it wrote is grounded by id and checked edge by
edge, and only then do the paths together, or a general LLM, become answers.

In multiple choice two things would decide for the wrong reason if all paths to all choices were one
language. A choice that none of the K best paths ends in would have no score at all; so each choice
has its own constraint and its own search. And a path is likely for what it says, whatever is asked:
common words, a frequent relation. So part of a path's log-probability without the question is
subtracted (domain-conditional pointwise mutual information: Holtzman et al., EMNLP 2021, section 3;
figures of the part: docs/evaluation.md). Both are over the whole vocabulary: renormalised over what
leads to a choice, a path that has no rival is sure, whatever it says.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.answers.answer import ConstraintUse, Findings, KgLlmUse, SearchUse, Timings
from kgqa.answers.choices import choice_paths, find_choices, rank_choices
from kgqa.answers.ranking import RankingOptions
from kgqa.answers.verdict import vote, weigh
from kgqa.decoding.engine import DecodingRequest
from kgqa.errors import EmptyLanguageError, KgqaError, TimeLimitError, UsageError
from kgqa.graph.model import keys_array
from kgqa.methods.base import LinkedQuestion, Method, OptionsT
from kgqa.methods.grounding import choose_constraint, ground_all
from kgqa.methods.hypotheses import write_hypotheses
from kgqa.methods.options import GcrOptions
from kgqa.models.profile import engine_for
from kgqa.paths.sample import Sample
from kgqa.paths.walk import joined_tables, ordered
from kgqa.registry import SEARCHES
from kgqa.trie.index.manifest import IndexKey
from kgqa.trie.lexicon import PathLexicon
from kgqa.trie.stored import path_tokens, stored_constraint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kgqa.answers.answer import ScoredPath
    from kgqa.answers.choices import AnswerChoice
    from kgqa.decoding.engine import DecodingOutcome
    from kgqa.decoding.search import Certificate, Hypothesis, SearchResult, SearchStrategy
    from kgqa.graph.model import KGInfo
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Found, Resources
    from kgqa.methods.grounding import ChosenConstraint
    from kgqa.models.adapter import AdapterCard
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import PathTable, WalkRules
    from kgqa.trie.constraint import Constraint
    from kgqa.trie.stored import StoredConstraint
    from kgqa.trie.tokens import TokenEncoder

PRIOR = 0.6  # the part of a path's log-probability without the question that is subtracted


@dataclass(frozen=True, slots=True)
class _Decoding:
    """A question that is being decoded, and the seconds that its constraint took."""

    number: int
    question: LinkedQuestion
    chosen: ChosenConstraint
    prompt: Sequence[int]
    seconds: float


class KgLlmMethod(Method[OptionsT]):
    """A method with a KG-LLM; its options are :class:`kgqa.methods.options.KgLlmOptions`."""

    def __init__(self, options: OptionsT, resources: Resources, *, general: bool = True) -> None:
        super().__init__(options, resources, general=general)
        given: Any = options
        self.kg_llm: KgLLM = resources.kg_llm(
            given.model, given.adapter, options.preset, given.quantize
        )
        self.card = self.kg_llm.card
        self.lexicon = PathLexicon(self.kg_llm.encoder, self.form)

    def use(self, calls: int, prompt_tokens: int, generated_tokens: int) -> KgLlmUse:
        """Return what the KG-LLM cost."""
        return KgLlmUse(
            self.kg_llm.name, self.kg_llm.adapter, calls, prompt_tokens, generated_tokens
        )

    def own_settings(self) -> dict[str, Any]:
        """Return the model, its adapter and how it is loaded."""
        return {
            "model": self.kg_llm.name,
            "adapter": self.kg_llm.adapter,
            "quantize": self.kg_llm.quantized,
        }


class Gcr(KgLlmMethod[GcrOptions]):
    """Graph-constrained reasoning; questions share the engine's forward passes."""

    name = "gcr"
    Options = GcrOptions

    def __init__(self, options: GcrOptions, resources: Resources, *, general: bool = True) -> None:
        if options.sample is not None and resources.store is None:
            raise UsageError(
                "`sample` names an index of a KG, and each question has a graph of its own.",
                "Leave out `sample`.",
            )
        super().__init__(options, resources, general=general)
        self.search = search_of(options)
        self.search.check(options.k, options.length_penalty)
        self.score_rule = options.score_rule or self.card.score_rule
        # a general LLM writes the answers, so none are weighed
        self.ranking = (
            None if self.general else ranking_options(options, self.card, self.score_rule)
        )
        self.index = None
        if resources.store is not None:
            key = index_key(
                resources.store.info,
                self.kg_llm.encoder,
                self.form,
                self.walks(resources.store),
                sample_of(options),
            )
            self.index = resources.index(key, _build_options(options))
        self.engine = engine_for(
            self.kg_llm,
            together=options.together,
            budget=options.budget,
            progress=resources.progress,
        )

    @classmethod
    def check(cls, options: Any, settings: Any) -> None:
        """Raise UsageError for options that do not fit together, those of the search among them."""
        super().check(options, settings)
        search_of(options).check(options.k, options.length_penalty)

    def own_settings(self) -> dict[str, Any]:
        """Return the model, the search with its options, and how paths become answers."""
        sample = sample_of(self.options)
        return {
            **super().own_settings(),
            "score_rule": self.score_rule,
            "time_limit": self.options.time_limit,
            "sample": None if sample is None else asdict(sample),
            "search": self.options.search,
            **self.search.options.model_dump(),
            "weigh": None if self.ranking is None else asdict(self.ranking),
        }

    def findings(self, store: GraphStore, questions: Iterable[LinkedQuestion | KgqaError]) -> Found:
        """Yield each question's number with what was found out about it, as they come.

        The seconds of ``decode`` are a question's part of the forward passes by tokens, the
        engine's own work between them not counted.
        """
        rules = self.walks(store)
        for multiple, group in groupby(enumerate(questions), key=_is_multiple_choice):
            if not multiple:
                yield from self._decoded(store, group, rules)
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
    ) -> Found:
        taken: list[_Decoding] = []
        failed: list[tuple[int, KgqaError]] = []
        fits = self.index is not None and _is_of(self.index.manifest.key, store.info)
        index = self.index if fits else None

        def requests() -> Iterator[DecodingRequest]:
            for number, question in questions:
                if isinstance(question, KgqaError):
                    failed.append((number, question))
                    continue
                try:
                    began = time.perf_counter()
                    chosen = choose_constraint(store, question.topics, rules, self.lexicon, index)
                    seconds = time.perf_counter() - began
                    prompt = self._prompt(question.question, question)
                    request = self._request(prompt, chosen.constraint)
                except KgqaError as error:
                    failed.append((number, error))
                    continue
                taken.append(_Decoding(number, question, chosen, prompt, seconds))
                yield request

        for place, outcome in self.engine.run(requests()):
            one = taken[place]
            try:
                yield one.number, self._finished(store, rules, one, outcome)
            except KgqaError as error:
                yield one.number, error
            yield from failed
            failed.clear()
        yield from failed

    def _prompt(self, text: str, question: LinkedQuestion) -> list[int]:
        return self.kg_llm.prompt_ids(text, [topic.name for topic in question.topics])

    def _request(self, prompt: Sequence[int], constraint: Constraint) -> DecodingRequest:
        return DecodingRequest(
            prompt=prompt,
            constraint=constraint,
            search=self.search.start(constraint, self.options.k, self.options.length_penalty),
            rule=self.score_rule,
            time_limit=self.options.time_limit,
            max_forward_passes=self.search.max_forward_passes,
            coverage=self.ranking is not None and self.score_rule == "allowed",
        )

    def _finished(
        self, store: GraphStore, rules: WalkRules, one: _Decoding, outcome: DecodingOutcome
    ) -> Findings:
        result = _result(outcome)
        hypotheses = result.hypotheses
        written = None
        if self.card.answer and hypotheses:
            decoded_paths = [each.tokens for each in hypotheses]
            written = write_hypotheses(self.kg_llm, self.engine.plan, one.prompt, decoded_paths)
        decoded = time.perf_counter()
        paths, notes = ground_all(
            store,
            one.chosen.constraint,
            self.lexicon,
            hypotheses,
            written.texts if written else (),
            outcome.coverage,
        )
        if not paths:
            raise _nothing_grounded()
        grounded = time.perf_counter()
        verdict = None
        if self.ranking is not None:
            topics = one.question.topics
            verdict = weigh(store, paths, topics, rules, self.form, self.ranking)
        answers = verdict.answers if verdict else tuple(vote(paths, store))
        tokens = sum(len(one.tokens) for one in hypotheses)
        return Findings(
            answers=answers,
            paths=tuple(paths),
            constraints=one.chosen.uses,
            kg_llm=self.use(1, len(one.prompt), tokens + (written.tokens if written else 0)),
            timings=Timings(
                constraint=one.seconds,
                decode=outcome.seconds + (written.seconds if written else 0.0),
                ground=grounded - decoded,
                answer=time.perf_counter() - grounded,
            ),
            forward_passes=outcome.forward_passes + (written.forward_passes if written else 0),
            notes=(*one.chosen.notes, *notes, *(verdict.notes if verdict else ())),
            search=_use(self.options.search, result.certificate),
            others=verdict.others if verdict else (),
            expanded=verdict.expanded if verdict else (),
            confidence=verdict.confidence if verdict else None,
        )

    # ── multiple choice ─────────────────────────────────────────────────────────────────────

    def _choice(self, store: GraphStore, question: LinkedQuestion, rules: WalkRules) -> Findings:
        """Return the choices of ``question`` ranked by the paths to them, K paths in all.

        Every choice that a path leads to has at least one. A path's score is the sum of its tokens'
        log-probabilities over the whole vocabulary. Raises EmptyLanguageError if no choice can be
        reached, TimeLimitError if a search takes longer than allowed.
        """
        began = time.perf_counter()
        choices = find_choices(store, question.choices)
        topics = keys_array([topic.key for topic in question.topics])
        table, notes = choice_paths(store, topics, choices, rules)
        constraints = _constraints(store, table, choices, self.lexicon)
        prompt = self._prompt(question.question, question)
        walked = time.perf_counter()
        outcomes = self._run(self._choice_requests(prompt, constraints))
        paths: list[ScoredPath] = []
        tables: list[PathTable] = []
        found: list[Hypothesis] = []
        for constraint, outcome in zip(constraints, outcomes, strict=True):
            hypotheses = _result(outcome).hypotheses
            good, refused = ground_all(store, constraint, self.lexicon, hypotheses)
            paths += good
            notes += refused
            tables += [constraint.ground(one.state) for one in hypotheses]
            found += hypotheses
        if not paths:
            raise _nothing_grounded()
        alone = self._unasked(store, question, ordered(joined_tables(tables)))
        (prior,) = self._run([alone])
        said, _ = ground_all(store, alone.constraint, self.lexicon, _result(prior).hypotheses)
        before = {path.text: path.score for path in said}
        grounded = time.perf_counter()
        paths = list({(path.text, path.groundings): path for path in paths}.values())
        paths.sort(key=lambda path: (-path.score, path.text))
        weights = [path.score - PRIOR * before.get(path.text, 0.0) for path in paths]
        ran = [*outcomes, prior]
        decoding = sum(one.seconds for one in ran)
        answers = rank_choices(choices, paths, weights)
        return Findings(
            answers=tuple(answers),
            paths=tuple(paths),
            constraints=tuple(ConstraintUse(one.id, "composed", None) for one in question.topics),
            kg_llm=self.use(2, 2 * len(prompt), sum(len(one.tokens) for one in found)),
            timings=Timings(
                constraint=walked - began,
                decode=decoding,
                ground=max(0.0, grounded - walked - decoding),
                answer=time.perf_counter() - grounded,
            ),
            forward_passes=sum(one.forward_passes for one in ran),
            notes=tuple(notes),
            search=SearchUse(self.options.search),
        )

    def _choice_requests(
        self, prompt: Sequence[int], constraints: Sequence[StoredConstraint]
    ) -> list[DecodingRequest]:
        per_choice = max(1, self.options.k // len(constraints))
        search = search_of(self.options, per_choice)
        return [
            DecodingRequest(
                prompt=prompt,
                constraint=each,
                search=search.start(each, per_choice, self.options.length_penalty),
                time_limit=self.options.time_limit,
                max_forward_passes=search.max_forward_passes,
            )
            for each in constraints
        ]

    def _unasked(
        self, store: GraphStore, question: LinkedQuestion, table: PathTable
    ) -> DecodingRequest:
        """Return what scores every path of ``table`` when nothing is asked."""
        constraint = stored_constraint([(path_tokens(store, table, self.lexicon), table)])
        search = _strategy("beam").start(constraint, len(table))
        return DecodingRequest(
            prompt=self._prompt("", question), constraint=constraint, search=search
        )

    def _run(self, requests: Sequence[DecodingRequest]) -> list[DecodingOutcome]:
        return [outcome for _, outcome in sorted(self.engine.run(requests), key=lambda one: one[0])]


def ranking_options(
    options: GcrOptions, card: AdapterCard, score_rule: str
) -> RankingOptions | None:
    """Return how paths become answers; None is a vote over the decoded paths alone.

    Confidences are for the score rule "allowed" and hold for no other.
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
    least = card.min_confidence if options.min_confidence is None else options.min_confidence
    return replace(
        chosen, min_confidence=least, slope=card.calibration_slope, shift=card.calibration_shift
    )


def search_of(options: GcrOptions, k: int | None = None) -> SearchStrategy[Any]:
    """Return the search that ``options`` name; of fewer paths ``k`` than they ask for, if set."""
    own = options.search_options
    if k is not None and own is not None and getattr(own, "groups", None) is not None:
        own = own.model_copy(update={"groups": None})
    return _strategy(options.search, own)


def _strategy(name: str, own: Any = None) -> SearchStrategy[Any]:
    strategy: SearchStrategy[Any] = SEARCHES.entry(name).load()(own or SEARCHES.options(name, {}))
    return strategy


def sample_of(options: GcrOptions) -> Sample | None:
    """Return the sample of paths that an index is to hold, None for all of them."""
    if options.sample is None:
        return None
    return Sample(options.sample, options.sample_walk or "breadth", options.sample_seed or 0)


def index_key(
    info: KGInfo,
    encoder: TokenEncoder,
    form: PathFormat,
    rules: WalkRules,
    sample: Sample | None = None,
) -> IndexKey:
    """Return what an index must have been made for; one of a sample fits nothing else."""
    key = IndexKey(
        kg=info.name,
        kg_version=info.version,
        tokenizer=encoder.fingerprint,
        path_format=form.fingerprint,
        **asdict(rules),
    )
    if sample is None:
        return key
    return replace(key, walk=sample.walk, sample=sample.size, seed=sample.seed)


def _is_of(key: IndexKey, info: KGInfo) -> bool:
    return (key.kg, key.kg_version) == (info.name, info.version)


def _build_options(options: GcrOptions) -> dict[str, Any]:
    """Return the options of a build that makes the index which ``options`` use."""
    names = ("model", "adapter", "preset", "hops", "direction", "mediators", "sample")
    given = {name: getattr(options, name) for name in names}
    given |= {"walk": options.sample_walk, "seed": options.sample_seed}
    return {name: value for name, value in given.items() if value is not None}


def _is_multiple_choice(numbered: tuple[int, LinkedQuestion | KgqaError]) -> bool:
    return isinstance(numbered[1], LinkedQuestion) and bool(numbered[1].choices)


def _result(outcome: DecodingOutcome) -> SearchResult:
    """Return the result of a search. Raises what ended it, TimeLimitError if it found no path."""
    result = outcome.found()
    certificate = result.certificate
    if not result.hypotheses and certificate is not None and not certificate.proven:
        raise TimeLimitError(
            f"The exact search found no whole path within {outcome.forward_passes} forward passes.",
            "Allow more with `max_forward_passes`, or set `search` to beam.",
        )
    return result


def _use(kind: str, certificate: Certificate | None) -> SearchUse:
    """Return what is reported of a search that has ended with ``certificate``."""
    if certificate is None:
        return SearchUse(kind)
    return SearchUse(
        kind, certificate.proven, certificate.certain, certificate.bound, certificate.demands
    )


def _nothing_grounded() -> EmptyLanguageError:
    return EmptyLanguageError(
        "No decoded path could be found in the graph again, so none is shown.",
        "Build the index again: kgqa precompute-tries --rebuild",
    )


def _constraints(
    store: GraphStore, table: PathTable, choices: Sequence[AnswerChoice], lexicon: PathLexicon
) -> list[StoredConstraint]:
    """Return a constraint for each choice that a path of ``table`` ends in."""
    ends = table.ends()
    found = []
    for choice in choices:
        mine = ordered(table.take(np.flatnonzero(np.isin(ends, choice.keys))))
        if len(mine):
            found.append(stored_constraint([(path_tokens(store, mine, lexicon), mine)]))
    return found

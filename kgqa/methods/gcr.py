"""Graph-constrained reasoning (GCR, arXiv 2410.13080): decode K paths under the KG-Trie, answer.

The KG-LLM writes under the constraint, every path it wrote is grounded by id and checked edge by
edge, and only then does a vote, or a general LLM (``general_answer``), turn paths into answers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from kgqa.answers.answer import (
    Answer,
    KgLlmUse,
    Timings,
)
from kgqa.answers.general_answer import ask_general, with_reply
from kgqa.answers.vote import vote, weigh
from kgqa.decoding.engine import Job
from kgqa.errors import EmptyLanguageError, KgqaError, TimeLimitError
from kgqa.methods.choice_scores import answer_choices
from kgqa.methods.constraints import Choice, choose_constraint
from kgqa.methods.grounding import ground_all
from kgqa.methods.hypotheses import write_hypotheses
from kgqa.methods.searches import BEAM
from kgqa.models.profile import engine_for

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from kgqa.answers.answer import TopicEntity
    from kgqa.answers.vote import WeighOptions
    from kgqa.decoding.engine import Engine, Outcome, Plan
    from kgqa.decoding.forward import ScoreRule
    from kgqa.graph.store import GraphStore
    from kgqa.methods.searches import SearchOptions
    from kgqa.models.adapter import AdapterCard
    from kgqa.models.general import GeneralLLM
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.index.reader import TrieIndex
    from kgqa.trie.lexicon import PathLexicon


@dataclass(frozen=True, slots=True)
class GcrOptions:
    """How many paths, and how they are scored. ``length_penalty`` as in ``generate``.

    ``score_rule``: log-probabilities over the whole vocabulary, as GCR has them, or renormalised
    over what the constraint allows, as DoG has them (a small model that has not seen a graph's
    every predicate ranks better so). ``time_limit``: seconds that decoding a question may take.
    ``search``: by which search; the score of a path is the sum of its log-probabilities in all.
    ``weigh``: how paths are put together, expanded and cut to answers; None is a vote over the
    decoded paths alone. Its ``doubt`` is for the score rule "allowed" and holds for no other; None
    is what the model's card says.
    Raises UsageError where the options do not fit together.
    """

    k: int = 10
    length_penalty: float = 0.0
    score_rule: ScoreRule = "vocabulary"
    time_limit: float | None = None
    search: SearchOptions = BEAM
    weigh: WeighOptions | None = None

    def __post_init__(self) -> None:
        self.search.check(self.k, self.length_penalty)

    def weighing(self, card: AdapterCard) -> WeighOptions | None:
        """Return ``weigh`` as the score rule allows it and as the model's ``card`` completes it."""
        if self.weigh is None:
            return None
        together, sure = self.weigh.aggregate, self.weigh.confidence
        if together.sharpness is None:
            together = replace(together, sharpness=1 / card.tail_temperature)
        if self.score_rule != "allowed":
            return replace(self.weigh, aggregate=together, confidence=replace(sure, doubt=0.0))
        doubt = card.min_confidence if sure.doubt is None else sure.doubt
        sure = replace(
            sure, doubt=doubt, slope=card.calibration_slope, shift=card.calibration_shift
        )
        return replace(self.weigh, aggregate=together, confidence=sure)

    def measures_coverage(self) -> bool:
        """Return whether it is to be measured how much of its own words the model finds."""
        return self.weigh is not None and self.score_rule == "allowed"


def answer_question(
    store: GraphStore,
    kg_llm: KgLLM,
    lexicon: PathLexicon,
    question: str,
    topics: Sequence[TopicEntity],
    rules: WalkRules,
    options: GcrOptions,
    *,
    index: TrieIndex | None = None,
    general: GeneralLLM | None = None,
    link_seconds: float = 0.0,
    engine: Engine | None = None,
    choices: Sequence[str] = (),
) -> Answer:
    """Return the answers to ``question`` with the grounded paths behind them.

    ``index`` fits ``rules`` and ``lexicon`` or is None; without an ``engine`` one is made; with
    ``choices`` only paths to them are written, and they alone are answers. Raises
    EmptyLanguageError where the topic entities have no path, TimeLimitError where decoding took
    longer than allowed, GeneralModelError where the general LLM fails.
    """
    asked = Asking(question, tuple(topics), index, link_seconds, tuple(choices))
    engine = engine or engine_for(kg_llm, together=1)
    if general is not None:  # which writes the answers, so none are weighed
        options = replace(options, weigh=None)
    found = answer_questions(store, kg_llm, lexicon, [asked], rules, options, engine=engine)
    answer = next(found)[1]
    found.close()
    if isinstance(answer, KgqaError):
        raise answer
    if general is None:
        return answer
    return with_reply(store, answer, general, ask_general(general, answer, choices), choices)


@dataclass(frozen=True, slots=True)
class Asking:
    """A question with its topic entities; ``index`` fits rules and lexicon, or is None.

    ``choices``: where it is multiple choice, what may be answered, by id or name.
    """

    question: str
    topics: tuple[TopicEntity, ...]
    index: TrieIndex | None = None
    link_seconds: float = 0.0
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Taken:
    """A question that is being decoded."""

    number: int
    asking: Asking
    choice: Choice
    prompt: Sequence[int]
    seconds: float  # for the constraint


def answer_questions(
    store: GraphStore,
    kg_llm: KgLLM,
    lexicon: PathLexicon,
    questions: Iterable[Asking | KgqaError],
    rules: WalkRules,
    options: GcrOptions,
    *,
    engine: Engine,
) -> Generator[tuple[int, Answer | KgqaError], None, None]:
    """Yield each question's number with its answer or its error, as they come.

    Questions share the engine's forwards, and are taken from the iterable when there is room. An
    error among them is handed on. The seconds of ``decode`` are a question's share of the forwards
    by tokens, the engine's own work between them not counted.
    """
    for multiple, group in groupby(enumerate(questions), key=_is_multiple_choice):
        if not multiple:
            yield from _decoded(store, kg_llm, lexicon, group, rules, options, engine)
            continue
        for number, asking in group:
            try:
                assert isinstance(asking, Asking)
                yield (
                    number,
                    answer_choices(store, kg_llm, lexicon, asking, rules, options, engine),
                )
            except KgqaError as error:
                yield number, error


def _is_multiple_choice(numbered: tuple[int, Asking | KgqaError]) -> bool:
    return isinstance(numbered[1], Asking) and bool(numbered[1].choices)


def _decoded(
    store: GraphStore,
    kg_llm: KgLLM,
    lexicon: PathLexicon,
    questions: Iterator[tuple[int, Asking | KgqaError]],
    rules: WalkRules,
    options: GcrOptions,
    engine: Engine,
) -> Generator[tuple[int, Answer | KgqaError], None, None]:
    """Yield the answers of questions without choices, which share the engine's forwards."""
    taken: list[_Taken] = []
    failed: list[tuple[int, KgqaError]] = []

    def jobs() -> Iterator[Job]:
        for number, asking in questions:
            if isinstance(asking, KgqaError):
                failed.append((number, asking))
                continue
            try:
                began = time.perf_counter()
                choice = choose_constraint(store, asking.topics, rules, lexicon, asking.index)
                seconds = time.perf_counter() - began
                prompt = kg_llm.prompt_ids(asking.question, [topic.name for topic in asking.topics])
                search = options.search.search(choice.constraint, options.k, options.length_penalty)
            except KgqaError as error:
                failed.append((number, error))
                continue
            taken.append(_Taken(number, asking, choice, prompt, seconds))
            yield Job(
                prompt=prompt,
                constraint=choice.constraint,
                search=search,
                rule=options.score_rule,
                time_limit=options.time_limit,
                max_forwards=options.search.max_forwards,
                coverage=options.measures_coverage(),
            )

    for place, outcome in engine.run(jobs()):
        one = taken[place]
        try:
            answer: Answer | KgqaError = _finished(
                store, kg_llm, lexicon, rules, one, outcome, options, engine.plan
            )
        except KgqaError as error:
            answer = error
        yield one.number, answer
        yield from failed
        failed.clear()
    yield from failed


def _finished(
    store: GraphStore,
    kg_llm: KgLLM,
    lexicon: PathLexicon,
    rules: WalkRules,
    one: _Taken,
    outcome: Outcome,
    options: GcrOptions,
    plan: Plan,
) -> Answer:
    result = outcome.found()
    hypotheses = result.hypotheses
    search = options.search.use(result.certificate)
    if not hypotheses and search.proven is False:
        raise TimeLimitError(
            f"The exact search found no whole path within {outcome.forwards} forwards.",
            "Allow more with --max-forwards, or use --search beam.",
        )
    written = None
    if kg_llm.card.answer and hypotheses:
        decoded_paths = [each.tokens for each in hypotheses]
        written = write_hypotheses(kg_llm, plan, one.prompt, decoded_paths)
    decoded = time.perf_counter()
    texts = written.texts if written else ()
    paths, notes = ground_all(
        store, one.choice.constraint, lexicon, hypotheses, texts, outcome.coverage
    )
    if not paths:
        raise EmptyLanguageError(
            "No decoded path could be found in the graph again, so none is shown.",
            "Build the index again: kgqa precompute-tries --rebuild",
        )
    grounded = time.perf_counter()
    verdict = None
    if (weighing := options.weighing(kg_llm.card)) is not None:
        verdict = weigh(store, paths, one.asking.topics, rules, lexicon.form, weighing)
        answers = list(verdict.answers)
    else:
        answers = vote(paths, store)
    answered = time.perf_counter()
    return Answer(
        question=one.asking.question,
        method="gcr",
        topic_entities=one.asking.topics,
        answers=tuple(answers),
        paths=tuple(paths),
        constraints=one.choice.uses,
        kg_llm=KgLlmUse(
            model=kg_llm.name,
            adapter=kg_llm.adapter,
            calls=1,
            prompt_tokens=len(one.prompt),
            generated_tokens=sum(len(one.tokens) for one in hypotheses)
            + (written.tokens if written else 0),
        ),
        general_llm=None,
        timings=Timings(
            link=one.asking.link_seconds,
            constraint=one.seconds,
            decode=outcome.seconds + (written.seconds if written else 0.0),
            ground=grounded - decoded,
            answer=answered - grounded,
        ),
        forwards=outcome.forwards + (written.forwards if written else 0),
        notes=(*one.choice.notes, *notes, *(verdict.notes if verdict else ())),
        search=search,
        others=verdict.others if verdict else (),
        expanded=verdict.expanded if verdict else (),
        confidence=verdict.confidence if verdict else None,
    )

"""Graph-constrained reasoning (GCR, arXiv 2410.13080): decode K paths under the KG-Trie, answer.

The KG-LLM writes under the constraint, every path it wrote is grounded by id and checked edge by
edge, and only then does a vote, or a general LLM, turn paths into answers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgqa.decoding.forward import ScoreRule, TreeScorer
from kgqa.decoding.search import beam_search
from kgqa.errors import EmptyLanguageError
from kgqa.paths.ground import ground
from kgqa.reasoning.answer import Answer, GeneralLlmUse, KgLlmUse, ScoredPath, Timings
from kgqa.reasoning.constraints import choose_constraint
from kgqa.reasoning.prompts import general_prompt, read_answers
from kgqa.reasoning.vote import vote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.decoding.search import Hypothesis
    from kgqa.graph.store import GraphStore
    from kgqa.models.general import GeneralLLM
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.walk import WalkRules
    from kgqa.reasoning.answer import RankedAnswer, TopicEntity
    from kgqa.trie.constraint import Constraint
    from kgqa.trie.index.reader import TrieIndex
    from kgqa.trie.lexicon import PathLexicon


@dataclass(frozen=True, slots=True)
class GcrOptions:
    """How many paths, and how they are scored. ``length_penalty`` as in ``generate``.

    ``score_rule``: log-probabilities over the whole vocabulary, as GCR has them, or renormalised
    over what the constraint allows, as DoG has them (a small model that has not seen a graph's
    every predicate ranks better so).
    """

    k: int = 10
    length_penalty: float = 0.0
    score_rule: ScoreRule = "vocabulary"


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
) -> Answer:
    """Return the answers to ``question`` with the grounded paths behind them.

    ``index`` fits ``rules`` and ``lexicon`` or is None. Raises EmptyLanguageError where the topic
    entities have no path, GeneralModelError where the general LLM fails.
    """
    began = time.perf_counter()
    choice = choose_constraint(store, topics, rules, lexicon, index)
    constrained = time.perf_counter()
    prompt = kg_llm.prompt_ids(question, [topic.name for topic in topics])
    scorer = TreeScorer(kg_llm.model, prompt, choice.constraint, rule=options.score_rule)
    hypotheses = beam_search(
        choice.constraint, scorer, options.k, length_penalty=options.length_penalty
    )
    decoded = time.perf_counter()
    paths, notes = ground_all(store, choice.constraint, lexicon, hypotheses)
    if not paths:
        raise EmptyLanguageError(
            "No decoded path could be found in the graph again, so none is shown.",
            "Build the index again: kgqa precompute-tries --rebuild",
        )
    grounded = time.perf_counter()
    answers, general_use = _answers(question, paths, general)
    answered = time.perf_counter()
    return Answer(
        question=question,
        method="gcr",
        topic_entities=tuple(topics),
        answers=tuple(answers),
        paths=tuple(paths),
        constraints=choice.uses,
        kg_llm=KgLlmUse(
            model=kg_llm.name,
            adapter=kg_llm.adapter,
            calls=1,
            prompt_tokens=len(prompt),
            generated_tokens=sum(len(one.tokens) for one in hypotheses),
        ),
        general_llm=general_use,
        timings=Timings(
            link=link_seconds,
            constraint=constrained - began,
            decode=decoded - constrained,
            ground=grounded - decoded,
            answer=answered - grounded,
        ),
        forwards=scorer.forwards,
        notes=(*choice.notes, *notes),
    )


def ground_all(
    store: GraphStore,
    constraint: Constraint,
    lexicon: PathLexicon,
    hypotheses: Sequence[Hypothesis],
) -> tuple[list[ScoredPath], list[str]]:
    """Return the hypotheses as paths whose every edge is in the store, and what was refused.

    A path is shown only if its ids are in the store *and* its tokens are those of its ids: an index
    that says something else than the graph is caught here, whatever its checksums say.
    """
    paths: list[ScoredPath] = []
    notes: list[str] = []
    for hypothesis in hypotheses:
        found = ground(store, constraint.ground(hypothesis.state), lexicon.form)
        good = []
        for path in found:
            if path is None:
                continue
            parts = [(edge.relation, edge.tail.name) for edge in path.edges]
            if tuple(lexicon.sequence(path.head.name, parts)) == hypothesis.tokens:
                good.append(path)
        if len(good) < len(found) or not good:
            text = lexicon.encoder.decode(hypothesis.tokens[:-1]).strip()
            notes.append(f"A path that the graph does not hold was left out: {text}")
        if good:
            best = good[0]
            score = hypothesis.log_probability
            paths.append(ScoredPath(best.text, score, best.tail.name, tuple(good)))
    return paths, notes


def _answers(
    question: str, paths: Sequence[ScoredPath], general: GeneralLLM | None
) -> tuple[list[RankedAnswer], GeneralLlmUse | None]:
    if general is None:
        return vote(paths), None
    before = general.usage
    completion = general.complete(general_prompt(question, paths))
    used = GeneralLlmUse(
        model=general.model,
        calls=general.usage.calls - before.calls,
        prompt_tokens=completion.prompt_tokens,
        completion_tokens=completion.completion_tokens,
    )
    return read_answers(completion.text, paths), used

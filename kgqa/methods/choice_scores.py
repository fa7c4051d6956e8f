"""Multiple choice by graph-constrained decoding: each choice by its own best paths.

Two things would decide for the wrong reason if all paths to all choices were one language. A choice
that none of the K best paths ends in would have no score at all; so each choice has its own
constraint and its own search. And a path is likely for what it says, whatever is asked: common
words, a frequent relation. So what a path's probability is without the question is taken off it, in
part (domain-conditional pointwise mutual information: Holtzman et al., EMNLP 2021, section 3;
figures of the part: docs/evaluation.md). Both are over the whole vocabulary: renormalised over what
leads to a choice, a path that has no rival is sure, whatever it says.

What it does not do: find the paths to the choices (``choices``), or ask a general LLM.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.answer import Answer, ConstraintUse, KgLlmUse, SearchUse, Timings
from kgqa.answers.choices import choice_paths, find_choices, rank_choices
from kgqa.decoding.engine import DecodingRequest
from kgqa.errors import EmptyLanguageError, TimeLimitError
from kgqa.graph.model import keys_array
from kgqa.methods.grounding import ground_all
from kgqa.methods.searches import BEAM
from kgqa.paths.walk import PathTable, joined_tables, ordered
from kgqa.trie.build import path_tokens
from kgqa.trie.stored import stored_constraint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.answers.answer import ScoredPath
    from kgqa.answers.choices import AnswerChoice
    from kgqa.decoding.engine import DecodingOutcome, Engine
    from kgqa.decoding.search import Hypothesis
    from kgqa.graph.store import GraphStore
    from kgqa.methods.gcr import Asking, GcrOptions
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.lexicon import PathLexicon
    from kgqa.trie.stored import StoredConstraint

PRIOR = 0.6  # the part of a path's log-probability without the question that is taken off


@dataclass(slots=True)
class _Spent:
    """What searches cost together."""

    forwards: int = 0
    seconds: float = 0.0

    def add(self, outcome: DecodingOutcome) -> None:
        self.forwards += outcome.forward_passes
        self.seconds += outcome.seconds


def answer_choices(
    store: GraphStore,
    kg_llm: KgLLM,
    lexicon: PathLexicon,
    asking: Asking,
    rules: WalkRules,
    options: GcrOptions,
    engine: Engine,
) -> Answer:
    """Return the choices of ``asking`` ranked by the paths to them, K paths in all.

    Every choice that a path leads to has at least one. A path's score is the sum of its tokens'
    log-probabilities over the whole vocabulary; a choice's score is its share. Raises
    EmptyLanguageError where no choice can be reached, TimeLimitError where a search takes longer
    than allowed.
    """
    began = time.perf_counter()
    choices = find_choices(store, asking.choices)
    topics = keys_array([topic.key for topic in asking.topics])
    table, notes = choice_paths(store, topics, choices, rules)
    constraints = _constraints(store, table, choices, lexicon)
    per_choice = max(1, options.k // len(constraints))
    named = [topic.name for topic in asking.topics]
    prompt = kg_llm.prompt_ids(asking.question, named)
    walked = time.perf_counter()
    spent = _Spent()
    search = replace(options.search, groups=None)
    jobs = [
        DecodingRequest(
            prompt=prompt,
            constraint=each,
            search=search.search(each, per_choice, options.length_penalty),
            time_limit=options.time_limit,
            max_forward_passes=options.search.max_forwards,
        )
        for each in constraints
    ]
    paths: list[ScoredPath] = []
    tables: list[PathTable] = []
    tokens = 0
    for number, hypotheses in _found(engine, jobs, spent):
        good, said = ground_all(store, constraints[number], lexicon, hypotheses)
        paths += good
        notes += said
        tables += [constraints[number].ground(one.state) for one in hypotheses]
        tokens += sum(len(one.tokens) for one in hypotheses)
    if not paths:
        raise EmptyLanguageError(
            "No decoded path could be found in the graph again, so none is shown.",
            "Build the index again: kgqa precompute-tries --rebuild",
        )
    before = _without_question(store, kg_llm, lexicon, named, tables, engine, spent)
    grounded = time.perf_counter()
    paths = list({(path.text, path.groundings): path for path in paths}.values())
    paths.sort(key=lambda path: (-path.score, path.text))
    weights = [path.score - PRIOR * before.get(path.text, 0.0) for path in paths]
    answers = rank_choices(choices, paths, weights)
    return Answer(
        question=asking.question,
        method="gcr",
        topic_entities=asking.topics,
        answers=tuple(answers),
        paths=tuple(paths),
        constraints=tuple(ConstraintUse(topic.id, "composed", None) for topic in asking.topics),
        kg_llm=KgLlmUse(kg_llm.name, kg_llm.adapter, 2, 2 * len(prompt), tokens),
        general_llm=None,
        timings=Timings(
            link=asking.link_seconds,
            constraint=walked - began,
            decode=spent.seconds,
            ground=max(0.0, grounded - walked - spent.seconds),
            answer=time.perf_counter() - grounded,
        ),
        forwards=spent.forwards,
        notes=tuple(notes),
        search=SearchUse(options.search.kind),
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


def _without_question(
    store: GraphStore,
    kg_llm: KgLLM,
    lexicon: PathLexicon,
    named: Sequence[str],
    tables: Sequence[PathTable],
    engine: Engine,
    spent: _Spent,
) -> dict[str, float]:
    """Return by text the log-probability of each path of ``tables`` when nothing is asked."""
    table = ordered(joined_tables(tables))
    constraint = stored_constraint([(path_tokens(store, table, lexicon), table)])
    job = DecodingRequest(
        prompt=kg_llm.prompt_ids("", named),
        constraint=constraint,
        search=BEAM.search(constraint, len(table)),
    )
    ((_, hypotheses),) = _found(engine, [job], spent)
    paths, _ = ground_all(store, constraint, lexicon, hypotheses)
    return {path.text: path.score for path in paths}


def _found(
    engine: Engine, jobs: Sequence[DecodingRequest], spent: _Spent
) -> list[tuple[int, tuple[Hypothesis, ...]]]:
    """Return the hypotheses of each job by its number. Raises what ended one of them."""
    outcomes = sorted(engine.run(jobs), key=lambda one: one[0])
    found = []
    for number, outcome in outcomes:
        spent.add(outcome)
        result = outcome.found()
        certificate = result.certificate
        if not result.hypotheses and certificate is not None and not certificate.proven:
            raise TimeLimitError(
                f"The exact search found no whole path within {outcome.forward_passes} forwards.",
                "Allow more with --max-forwards, or use --search beam.",
            )
        found.append((number, tuple(result.hypotheses)))
    return found

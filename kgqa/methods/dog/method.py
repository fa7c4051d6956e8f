"""Decoding on Graphs (DoG, arXiv 2410.18415): think in free text, write triplets from the graph.

A general model is shown a graph that suits the question and thinks about it; every triplet that it
writes is constrained to the growing subgraph round what it has visited, and the chain's last line
is the answer. Every triplet of a chain that is shown has been checked in the store, by id.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from kgqa.answers.answer import Answer, ConstraintUse, KgLlmUse, Timings
from kgqa.answers.choices import find_choices, read_choice
from kgqa.errors import KgqaError, ModelError, UsageError
from kgqa.graph.model import keys_array
from kgqa.methods.base import one_by_one
from kgqa.methods.dog.answers import GraphNames, claimed, ranked, reached
from kgqa.methods.dog.chains import (
    BETWEEN,
    MOST_READINGS,
    THOUGHT,
    TOKENS,
    ChainOptions,
    ChainWriter,
    first_reading,
    score,
    without_end,
)
from kgqa.methods.dog.paths import chain_path
from kgqa.paths.triplets import END, SomeTriplets, StoreTriplets
from kgqa.paths.walk import WalkRules
from kgqa.trie.lexicon import names_of
from kgqa.trie.triplets import TripletLanguage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kgqa.answers.answer import RankedAnswer, ScoredPath
    from kgqa.decoding.engine import Plan
    from kgqa.decoding.spans import Chain
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Numbered
    from kgqa.methods.dog.graph import FilteredGraph, GraphFilter
    from kgqa.methods.gcr import Asking
    from kgqa.models.kg_llm import KgLLM
    from kgqa.trie.lexicon import PathLexicon

Walk: TypeAlias = Literal["filtered", "store"]
Visibility: TypeAlias = Literal["full", "local"]
MOST_BEAMS = 16
_OPENED = "The model ended without a triplet by itself: the first one was opened for it."
_CUT = (
    f"Names of a chain are shared by so many entities that it can be read in more than "
    f"{MOST_READINGS} ways: the first of them, by ids, stand."
)


@dataclass(frozen=True, slots=True)
class DogOptions:
    """How chains are written.

    ``beams``: triplets of each step, and chains. ``steps``: triplets of a chain at most. ``walk``:
    in the graph of the prompt (the paper's setting) or in the whole store. ``visibility``: the
    prompt shows all of that graph, or what touches an entity that was visited, anew at each step.
    ``tokens``: of a chain, ``thought``: of it without a triplet (see
    :class:`kgqa.methods.dog.chains.ChainOptions`). ``time_limit``: seconds of a question. Raises
    UsageError.
    """

    beams: int = 3
    steps: int = 5
    walk: Walk = "filtered"
    visibility: Visibility = "full"
    tokens: int = TOKENS
    thought: int = THOUGHT
    time_limit: float | None = None

    def __post_init__(self) -> None:
        short = self.tokens < 2 or self.thought < 1
        if not 1 <= self.beams <= MOST_BEAMS or self.steps < 1 or short:
            raise UsageError(
                f"{self.beams} beams of {self.steps} steps cannot be written.",
                f"Use 1 to {MOST_BEAMS} --beams and at least one of --steps.",
            )


@dataclass(frozen=True, slots=True)
class Dog:
    """Decoding on Graphs as a :class:`kgqa.methods.base.Method`.

    ``kg_llm``: any instruct model, its card's prompt with a place for the graph. ``lexicon``: of
    its tokenizer, and a path format without markers. ``filter``: chooses the graph of the prompt.
    ``walks``: which walks of a store are paths; of it the direction says whether a mediator's fact
    may be entered against an edge, for triplets are written as they are stored. ``plan``: how the
    model is decoded with.
    """

    kg_llm: KgLLM
    lexicon: PathLexicon
    walks: Callable[[GraphStore], WalkRules]
    filter: GraphFilter
    plan: Plan
    options: DogOptions = field(default_factory=DogOptions)

    @property
    def name(self) -> str:
        """The method's name."""
        return "dog"

    def rules(self, store: GraphStore) -> WalkRules:
        """Return which walks of ``store`` a chain can make: triplets are taken at either end."""
        walks = self.walks(store)
        hops = self.filter.hops if self.options.walk == "filtered" else self.options.steps
        return WalkRules(hops, "both", walks.mediators)

    def answers(self, store: GraphStore, questions: Iterable[Asking | KgqaError]) -> Numbered:
        """Yield each question's number with its answer or its error, in their order."""
        return one_by_one(questions, lambda asking: self._answer(store, asking))

    def _answer(self, store: GraphStore, asking: Asking) -> Answer:
        began = time.perf_counter()
        asked = _with_choices(asking)
        topics = keys_array(list(dict.fromkeys(topic.key for topic in asking.topics)))
        walks = self.walks(store)
        everywhere = StoreTriplets(store, walks.mediators, entered=walks.direction != "out")
        names = list(dict.fromkeys(topic.name for topic in asking.topics))
        graph = self.filter.graph(
            store, everywhere, asking.question, topics, self._room(asked, names), self._sizes
        )
        inside = SomeTriplets(store, graph.rows) if self.options.walk == "filtered" else everywhere
        language = TripletLanguage(store, inside, self.lexicon)
        start = first_reading(store, topics.tolist())
        language.constraint(start.visited)  # raises where there is nothing to walk
        made = time.perf_counter()
        writer = ChainWriter(
            self.kg_llm,
            self.plan,
            store,
            language,
            start,
            lambda visited: self._prompt(asked, names, graph, visited),
            ChainOptions(
                self.options.beams,
                self.options.steps,
                self.options.tokens,
                self.options.thought,
                self.options.time_limit,
            ),
            changing=self.options.visibility == "local",
            names=names_of(store, np.unique(graph.rows[:, (0, END)])),
        )
        chains = writer.write()
        decoded = time.perf_counter()
        notes = [*graph.notes, *dict.fromkeys(note for one in chains for note in one.notes)]
        paths: list[ScoredPath | None] = []
        for chain in chains:
            closing = writer.markers.closing
            path = chain_path(store, self.lexicon, chain, writer.readings(chain), start, closing)
            if path is not None:
                pieces = without_end(chain, self.kg_llm.encoder.decode)
                path = replace(path, written="".join(piece.text for piece in pieces))
                if writer.has_more_readings(chain):
                    notes.append(_CUT)
            paths.append(path)
            if path is None and chain.spans:
                text = BETWEEN.join(span.text for span in chain.spans)
                notes.append(f"A chain that the graph does not hold was left out: {text}")
        grounded = time.perf_counter()
        kept = [
            (chain, path)
            for chain, path in zip(chains, paths, strict=True)
            if path is not None or not chain.spans
        ]
        answers, others, told = self._answers(store, asking, graph, kept, opened=writer.opened)
        return Answer(
            question=asking.question,
            method=self.name,
            topic_entities=asking.topics,
            answers=tuple(answers),
            paths=tuple(path for _, path in kept if path is not None),
            constraints=tuple(ConstraintUse(one.id, "composed", None) for one in asking.topics),
            kg_llm=KgLlmUse(
                model=self.kg_llm.name,
                adapter=self.kg_llm.adapter,
                calls=1,
                prompt_tokens=writer.prompt_tokens,
                generated_tokens=sum(chain.written for chain in chains),
            ),
            general_llm=None,
            timings=Timings(
                link=asking.link_seconds,
                constraint=made - began,
                decode=decoded - made,
                ground=grounded - decoded,
                answer=time.perf_counter() - grounded,
            ),
            forwards=writer.forwards,
            notes=tuple(dict.fromkeys((*notes, *told))),
            others=tuple(others),
        )

    def _answers(
        self,
        store: GraphStore,
        asking: Asking,
        graph: FilteredGraph,
        chains: Sequence[tuple[Chain, ScoredPath | None]],
        *,
        opened: bool,
    ) -> tuple[list[RankedAnswer], list[RankedAnswer], list[str]]:
        """Return the answers, those of other chains alone, and notes."""
        decode = self.kg_llm.encoder.decode
        said = [claimed(without_end(chain, decode)) for chain, _ in chains]
        notes = [_OPENED] if opened else []
        if not any(path for _, path in chains):
            notes.append("The model wrote no triplet, so nothing that it answers is grounded.")
        elif said and said[0] is None:
            notes.append(
                "The best chain has no answer line: what its last triplet reached is the answer."
            )
        if asking.choices:
            first = said[0][0] if said and said[0] else ""
            shown = [path for _, path in chains if path is not None]
            return read_choice(first, find_choices(store, asking.choices), shown), [], notes
        names = GraphNames(store, graph.rows)
        given = []
        for (chain, path), line in zip(chains, said, strict=True):
            if line is not None:
                given.append((score(chain), names.link(line, path)))
            elif path is not None:
                given.append((score(chain), reached(path)))
        return *ranked(given), notes

    def _prompt(
        self, asking: Asking, names: list[str], graph: FilteredGraph, visited: frozenset[int]
    ) -> list[int]:
        local = self.options.visibility == "local"
        texts = graph.touching(visited) if local else graph.all_texts()
        return self.kg_llm.prompt_ids(asking.question, names, BETWEEN.join(texts))

    def _room(self, asking: Asking, names: list[str]) -> int:
        """Return how many tokens the graph may have in the prompt. Raises ModelError for none."""
        longest = getattr(self.kg_llm.model.config, "max_position_embeddings", None)
        if not longest:
            return 1 << 30
        taken = len(self.kg_llm.prompt_ids(asking.question, names)) + self.options.tokens
        if taken >= longest:
            raise ModelError(
                f"The prompt and a chain take {taken:,} tokens, and {self.kg_llm.name} reads "
                f"{longest:,}, so no graph fits.",
                "Ask a shorter question, or use a model with a longer context.",
            )
        return int(longest) - taken

    def _sizes(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self.kg_llm.encoder.encode(texts)]


def _with_choices(asking: Asking) -> Asking:
    """Return the question with its choices in it, as the model is asked."""
    if not asking.choices:
        return asking
    listed = ", ".join(asking.choices)
    return replace(asking, question=f"{asking.question.strip()} Choose one of: {listed}")

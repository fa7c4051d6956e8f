"""Decoding on Graphs (DoG, arXiv 2410.18415): think in free text, write triplets from the graph.

A general model is shown a graph that suits the question; every triplet that it writes is
constrained to the growing subgraph around what it has visited, and the chain's last line is the
answer. Every triplet of a chain that is shown has been checked in the store, by id.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.answers.answer import Findings, KgLlmUse, Timings
from kgqa.answers.choices import chosen_first, find_choices, named_choice, rank_choices
from kgqa.answers.expand import LACKING, lacking
from kgqa.errors import ModelError
from kgqa.graph.model import keys_array
from kgqa.methods.base import Method, path_format
from kgqa.methods.dog.answers import GraphNames, claimed, ranked, reached
from kgqa.methods.dog.chains import (
    BETWEEN,
    MOST_READINGS,
    ChainWriter,
    chain_path,
    first_reading,
    score,
    without_end,
)
from kgqa.methods.dog.graph import TRIPLETS, GraphFilter
from kgqa.methods.grounding import composed
from kgqa.methods.options import DogOptions
from kgqa.models.adapter import preset
from kgqa.models.profile import plan_for
from kgqa.models.prompt import GRAPH
from kgqa.paths.triplets import END, SomeTriplets, StoreTriplets
from kgqa.paths.walk import WalkRules
from kgqa.trie.composed import TripletLanguage
from kgqa.trie.lexicon import PathLexicon, names_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.answers.answer import RankedAnswer, ScoredPath
    from kgqa.decoding.spans import Chain
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import LinkedQuestion
    from kgqa.methods.dog.chains import ChainReading
    from kgqa.methods.dog.graph import FilteredGraph
    from kgqa.methods.resources import Resources
    from kgqa.models.kg_llm import KgLLM

PRESET = "dog"
ADAPTER = "freebase-chains"  # the offline model's, bundled, if nothing else is named
_OPENED = "The model ended without a triplet by itself: the first one was opened for it."
_MORE_READINGS = (
    f"Names of a chain are shared by so many entities that it can be read in more than "
    f"{MOST_READINGS} ways: the first of them, by ids, stand."
)


class Dog(Method[DogOptions]):
    """Decoding on Graphs: an instruct model writes chains of free thoughts and triplets.

    The direction of walks says only whether a mediator's fact may be entered against an edge:
    triplets are written as they are stored.
    """

    name = "dog"
    Options = DogOptions

    def __init__(self, options: DogOptions, resources: Resources, *, general: bool = True) -> None:
        super().__init__(options, resources, general=general)
        self.kg_llm = _load(options, resources)
        self.card = card = self.kg_llm.card
        form = path_format(replace(card, start="", end=""))  # triplets stand in literal markers
        self.lexicon = PathLexicon(self.kg_llm.encoder, form)
        self.filter = GraphFilter(
            resources.sentence_encoder(options.encoder),
            form,
            hops=options.hops or card.hops,
            cap=options.cap,
            most=options.triplets or card.triplets or TRIPLETS,
        )
        self.plan = plan_for(self.kg_llm, progress=resources.progress, budget=options.budget)

    def walks(self, store: GraphStore) -> WalkRules:
        """Return the walk rules of ``store``, with its own direction even under a preset."""
        options = self.options
        return WalkRules(
            options.hops or 2,
            options.direction or store.info.direction,
            options.mediators or "collapse",
        )

    def rules(self, store: GraphStore) -> WalkRules:
        """Return the walk rules of chains: triplets may be entered at either end."""
        hops = self.filter.hops if self.options.walk == "filtered" else self.options.steps
        return WalkRules(hops, "both", self.walks(store).mediators)

    def own_settings(self) -> dict[str, Any]:
        """Return the settings of the model, the prompt's graph and the chains."""
        options = self.options
        written = ("beams", "steps", "walk", "cap", "time_limit")
        return {
            "k": None,
            "preset": options.preset or (None if self.kg_llm.adapter else PRESET),
            "model": self.kg_llm.name,
            "adapter": self.kg_llm.adapter,
            "quantize": self.kg_llm.quantized,
            "score_rule": self.card.score_rule,
            "triplets": self.filter.most,
            "encoder": self.filter.encoder.name,
            **{name: getattr(options, name) for name in written},
        }

    def answer(self, store: GraphStore, question: LinkedQuestion) -> Findings:
        """Write chains; return the answers of the best and of others, with the chains as paths."""
        began = time.perf_counter()
        options = self.options
        text = question.question
        if question.choices:
            text = f"{text.strip()} Choose one of: {', '.join(question.choices)}"
        topics = keys_array(list(dict.fromkeys(topic.key for topic in question.topics)))
        walks = self.walks(store)
        everywhere = StoreTriplets(store, walks.mediators, entered=walks.direction != "out")
        names = list(dict.fromkeys(topic.name for topic in question.topics))
        room = self._room(text, names)
        encode = self.kg_llm.encoder.encode
        graph = self.filter.graph(
            store,
            everywhere,
            question.question,
            topics,
            room,
            lambda texts: list(map(len, encode(texts))),
        )
        inside = SomeTriplets(store, graph.rows) if options.walk == "filtered" else everywhere
        language = TripletLanguage(store, inside, self.lexicon)
        start = first_reading(store, topics.tolist())
        language.constraint(start.visited)  # raises if there is nothing to walk
        built = time.perf_counter()
        prompt = self.kg_llm.prompt_ids(text, names, BETWEEN.join(graph.all_texts()))
        known = names_of(store, np.unique(graph.rows[:, (0, END)]))
        writer = ChainWriter(self.kg_llm, self.plan, store, language, start, prompt, options, known)
        chains = writer.write()
        decoded = time.perf_counter()
        notes = [*graph.notes, *dict.fromkeys(note for chain in chains for note in chain.notes)]
        kept = list(self._grounded(store, writer, chains, start, notes))
        grounded = time.perf_counter()
        if writer.opened:
            notes.append(_OPENED)
        answers, others = self._answers(store, question, graph, kept, notes)
        return Findings(
            answers=tuple(answers),
            paths=tuple(path for _, path in kept if path is not None),
            constraints=composed(question.topics),
            kg_llm=KgLlmUse(
                model=self.kg_llm.name,
                adapter=self.kg_llm.adapter,
                calls=1,
                prompt_tokens=writer.prompt_tokens,
                generated_tokens=sum(chain.written for chain in chains),
            ),
            timings=Timings(
                constraint=built - began,
                decode=decoded - built,
                ground=grounded - decoded,
                answer=time.perf_counter() - grounded,
            ),
            forward_passes=writer.forward_passes,
            notes=tuple(dict.fromkeys(notes)),
            others=tuple(others),
        )

    def _grounded(
        self,
        store: GraphStore,
        writer: ChainWriter,
        chains: Sequence[Chain],
        start: ChainReading,
        notes: list[str],
    ) -> Iterator[tuple[Chain, ScoredPath | None]]:
        """Yield each chain with its path, None for one without a triplet; add to ``notes``.

        Chains with a triplet that the graph does not hold are left out.
        """
        closing = writer.markers.closing
        for chain in chains:
            path = chain_path(store, self.lexicon, chain, writer.readings(chain), start, closing)
            if path is not None:
                pieces = without_end(chain, self.kg_llm.encoder.decode)
                path = replace(path, written="".join(piece.text for piece in pieces))
                if writer.has_more_readings(chain):
                    notes.append(_MORE_READINGS)
            elif chain.spans:
                shown = BETWEEN.join(span.text for span in chain.spans)
                notes.append(f"A chain that the graph does not hold was left out: {shown}")
                continue
            yield chain, path

    def _answers(
        self,
        store: GraphStore,
        question: LinkedQuestion,
        graph: FilteredGraph,
        chains: Sequence[tuple[Chain, ScoredPath | None]],
        notes: list[str],
    ) -> tuple[list[RankedAnswer], list[RankedAnswer]]:
        """Return the answers of the best chain and of others; messages are added to ``notes``."""
        decode = self.kg_llm.encoder.decode
        lines = [claimed(without_end(chain, decode)) for chain, _ in chains]
        if not any(path for _, path in chains):
            notes.append("The model wrote no triplet, so nothing that it answers is grounded.")
        elif lines[0] is None:
            notes.append(
                "The best chain has no answer line: what its last triplet reached is the answer."
            )
        if question.choices:
            first = lines[0][0] if lines and lines[0] else ""
            shown = [path for _, path in chains if path is not None]
            choices = find_choices(store, question.choices)
            ranked_ = rank_choices(choices, shown)
            chosen = named_choice(first, choices)
            return chosen_first(ranked_, chosen) if chosen else ranked_, []
        names = GraphNames(store, graph.rows)
        given = []
        for (chain, path), line in zip(chains, lines, strict=True):
            if line is not None:
                given.append((score(chain), names.link(line, path)))
            elif path is not None:
                given.append((score(chain), reached(path)))
        return self._in_common(store, question, *ranked(given))

    def _in_common(
        self,
        store: GraphStore,
        question: LinkedQuestion,
        answers: list[RankedAnswer],
        others: list[RankedAnswer],
    ) -> tuple[list[RankedAnswer], list[RankedAnswer]]:
        """Return answers and others with those that every topic entity reaches first.

        The scores of all others are lowered; answers that some topic entity does not reach become
        others.
        """
        every = [*answers, *others]
        keys = store.keys_of([answer.id or "" for answer in every])
        missing = lacking(store, question.topics, keys, self.rules(store))
        if not missing.any():
            return answers, others
        order = np.argsort(missing, kind="stable").tolist()
        mine = [at for at in order if not missing[at] and at < len(answers)]
        mine = mine or [at for at in order if not missing[at]]
        total = sum(answer.score for answer in every)
        scores = [answer.score * LACKING**lack for answer, lack in zip(every, missing, strict=True)]
        part = total / sum(scores) if sum(scores) else 0.0
        every = [
            replace(answer, score=part * new) for answer, new in zip(every, scores, strict=True)
        ]
        return [every[at] for at in mine], [every[at] for at in order if at not in mine]

    def _room(self, text: str, names: list[str]) -> int:
        """Return the number of tokens left for the graph in the prompt.

        A model without a length limit has very many. Raises ModelError if none are left.
        """
        longest = getattr(self.kg_llm.model.config, "max_position_embeddings", None)
        if not longest:
            return 1 << 30
        taken = len(self.kg_llm.prompt_ids(text, names)) + self.options.chain_tokens
        if taken >= longest:
            raise ModelError(
                f"The prompt and a chain take {taken:,} tokens, and {self.kg_llm.name} reads "
                f"{longest:,}, so no graph fits.",
                "Ask a shorter question, or use a model with a longer context.",
            )
        return int(longest) - taken


def _load(options: DogOptions, resources: Resources) -> KgLLM:
    """Load the model; the offline one with the bundled adapter for chains.

    An adapter that is named counts if its prompt has a graph in it; the preset dog asks the offline
    model as it comes, too.
    """
    named, adapter = options.preset, options.adapter
    settings = resources.settings
    if not (adapter or settings.adapter or named):
        if options.model or settings.model:
            named = PRESET
        else:
            adapter = ADAPTER
    kg_llm = resources.kg_llm(options.model, adapter, named, options.quantize)
    if GRAPH not in kg_llm.card.prompt:
        kg_llm = kg_llm.with_card(preset(PRESET))
    card = kg_llm.card
    if card.chat and not kg_llm.tokenizer.chat_template:  # a model that only continues a text
        reply = card.reply if card.reply.startswith("\n") else f"\n{card.reply}"
        kg_llm = kg_llm.with_card(replace(card, chat=False, reply=reply))
    return kg_llm

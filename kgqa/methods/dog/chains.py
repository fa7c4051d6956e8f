"""Chains of triplets: written by a beam search over chains, and read back as ids.

The model thinks in free text and opens a triplet when it wants one; a token beam gives the best
triplets that may follow, each a chain of its own, and the best chains go on. If names are shared, a
chain has several *readings* by id, and the next triplet may touch what any of them has visited.

A chain becomes a path of the answer if every triplet of it is in the store. Its edges are the
triplets in their order, each read the way the chain went, so that the tail is what the triplet
reached; an edge begins anywhere the chain has been.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from kgqa.answers.answer import ScoredPath
from kgqa.deadline import deadline
from kgqa.decoding.span_markers import Ending, FreeText, Markers, SpanOptions
from kgqa.decoding.spans import Text, TextForward, Writer
from kgqa.errors import ConstraintError, EmptyLanguageError, ModelError, TimeLimitError
from kgqa.methods.dog.answers import answer_end, idle
from kgqa.methods.grounding import end_tokens
from kgqa.paths.ground import GroundedPath, ground
from kgqa.paths.triplets import END, as_paths, as_rows, lasting, turned
from kgqa.trie.lexicon import names_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kgqa.decoding.engine import DecodingPlan
    from kgqa.decoding.span_markers import Span
    from kgqa.decoding.spans import Chain
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.methods.options import DogOptions
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.ground import PathEdge
    from kgqa.trie.composed import TripletConstraint, TripletLanguage
    from kgqa.trie.lexicon import PathLexicon, TokenEncoder

OPENING, CLOSING = "<", " >"  # literal, for models that were trained with no markers
BETWEEN = " | "  # triplets of a chain, and of a graph
TOKENS = 512  # of a chain, thoughts and triplets together
SPAN_TOKENS = 192  # of a triplet
MOST_READINGS = 256
_STOPS = ("\nQuestion:", "\nGraph:")  # a model that writes a next example has ended


@dataclass(frozen=True, slots=True)
class ChainReading:
    """A chain as ids: its triplets in order, and the entities that it may continue from."""

    triplets: tuple[tuple[int, ...], ...]
    visited: frozenset[int]


def first_reading(store: GraphStore, topics: Iterable[int]) -> ChainReading:
    """Return the reading of an empty chain: only the topic entities are visited."""
    keys = np.unique(np.array(list(topics), np.int64))
    return ChainReading((), frozenset(keys[lasting(store, keys)].tolist()))


def extended(
    store: GraphStore, readings: Sequence[ChainReading], rows: IntArray, most: int = MOST_READINGS
) -> list[ChainReading]:
    """Return each reading extended by each row that touches an entity it has visited.

    Of more than ``most`` the first are kept, by ids: fewer readings allow less, never more. A
    reading that no row touches is dropped.
    """
    ends = np.unique(rows[:, (0, END)])
    lasts = set(ends[lasting(store, ends)].tolist())
    longer = []
    for reading in readings:
        for row in map(tuple, rows.tolist()):
            both = {row[0], row[END]}
            if reading.visited & both:
                longer.append(
                    ChainReading((*reading.triplets, row), reading.visited | (both & lasts))
                )
                if len(longer) == most:
                    return longer
    return longer


class _Known(NamedTuple):
    """The readings of a sequence of spans, which it references so that their ids stay unique.

    ``more``: whether there are more readings. ``names``: casefolded, of the prompt's graph and of
    the triplets.
    """

    spans: tuple[Span, ...]
    readings: list[ChainReading]
    more: bool
    names: frozenset[str]


class ChainWriter:
    """Writes the chains of one question.

    ``language``: the triplets to write. ``names``: known names, besides those of the chain's own
    triplets; a full stop inside one does not end the answer.
    """

    def __init__(
        self,
        kg_llm: KgLLM,
        plan: DecodingPlan,
        store: GraphStore,
        language: TripletLanguage,
        start: ChainReading,
        prompt: list[int],
        options: DogOptions,
        names: Iterable[str] = (),
    ) -> None:
        self._store = store
        self._language = language
        self._options = options
        self._until = time.monotonic() + (options.time_limit or math.inf)
        self._readings: dict[tuple[int, ...], _Known] = {}  # by the ids of a chain's spans
        self._first = _Known((), [start], False, frozenset(name.casefold() for name in names))
        self.markers = markers_of(kg_llm.encoder)
        longest = len(prompt) + options.chain_tokens
        trees = plan.way == "tree" and (plan.limit is None or longest <= plan.limit)
        self.prompt_tokens = len(prompt)
        self._forward = TextForward(kg_llm.model, trees=trees, budget=plan.budget)
        self._prompt = prompt
        freely = SpanOptions(
            self.markers,
            end_tokens=end_tokens(kg_llm),
            tokens=options.chain_tokens,
            spans=options.steps,
            span_tokens=SPAN_TOKENS,
            stop=_STOPS,
            rule=kg_llm.card.score_rule,
            ending=self._ending,
        )
        forced = replace(freely, force_opening=True)
        self._free, self._forced = (
            Writer(self._forward, kg_llm.encoder.decode, self._constraint_for, way)
            for way in (freely, forced)
        )
        self.opened = False

    @property
    def forward_passes(self) -> int:
        """The number of forward passes so far."""
        return self._forward.forward_passes

    def write(self) -> list[Chain]:
        """Write up to ``beams`` complete chains and return them, the best first.

        A chain's score is the sum of the log-probabilities of its triplets. If the model ends
        without a triplet, one is opened for it at the very beginning, and ``opened`` says so.
        Raises TimeLimitError, ModelError if the model gives no numbers or memory runs out,
        GraphError.
        """
        try:
            with deadline(self._check_time):
                return self._written()
        except torch.OutOfMemoryError as error:
            raise ModelError(
                "Memory ran out while chains were written.",
                "Use fewer `beams`, a smaller graph (`triplets`), a smaller or quantized model, or "
                "another `device`.",
            ) from error

    def _written(self) -> list[Chain]:
        """Return the chains; if none has a triplet, write them again with a forced one."""
        chains = self._write(self._free, self._prompt)
        if not any(chain.spans for chain in chains):
            try:
                text, own = chains[0].text, chains[0].prompt  # which need not be run again
                begun = Text(text.tokens[:own], text.columns[:own], text.stamps[:own])
                chains = self._write(self._forced, begun)
                self.opened = True
            except ConstraintError:
                pass  # no triplet fits into the limits: what it wrote by itself stands
        return chains

    def readings(self, chain: Chain) -> list[ChainReading]:
        """Return the readings of a chain's triplets as ids."""
        return self._known(chain.spans).readings

    def has_more_readings(self, chain: Chain) -> bool:
        """Return whether readings of ``chain`` were dropped at any of its triplets."""
        return self._known(chain.spans).more

    def _write(self, writer: Writer, prompt: Sequence[int] | Text) -> list[Chain]:
        """Continue chains by beam search until all have ended."""
        chains = [writer.start(prompt)]
        while any(chain.stop is None for chain in chains):
            onward: list[Chain] = []
            for chain in writer.free(chains):
                if chain.opened is None:
                    onward.append(chain)
                    continue
                onward += writer.branches(chain, self._options.beams)
            chains = sorted(onward, key=lambda chain: -score(chain))[: self._options.beams]
            writer.keep(chains)
        return chains

    def _constraint_for(self, spans: Sequence[Span]) -> TripletConstraint | None:
        """Return the constraint of the triplet after ``spans``, None if no triplet may follow."""
        readings = self._known(tuple(spans)).readings
        visited = frozenset().union(*(reading.visited for reading in readings))
        try:
            return self._language.constraint(visited)
        except EmptyLanguageError:
            return None

    def _known(self, spans: tuple[Span, ...]) -> _Known:
        """Return the readings of ``spans``, computed once."""
        if not spans:
            return self._first
        known = self._readings.get(tuple(map(id, spans)))
        if known is None:
            before = self._known(spans[:-1])
            rows = as_rows(spans[-1].ground())
            # one more than may stand, which tells whether there are more
            readings = extended(self._store, before.readings, rows, MOST_READINGS + 1)
            more = before.more or len(readings) > MOST_READINGS
            ends = names_of(self._store, rows[:1, (0, END)].ravel())  # all rows have these names
            names = before.names.union(name.casefold() for name in ends)
            known = _Known(spans, readings[:MOST_READINGS], more, names)
            self._readings[tuple(map(id, spans))] = known
        return known

    def _ending(self, spans: Sequence[Span], tokens: Sequence[int], text: str) -> Ending | None:
        """Return where free text must end, None if it may go on.

        It ends after an answer line, or because it loops or is too long, which a note says.
        """
        at = answer_end(text, self._known(tuple(spans)).names)
        if at is not None:
            return Ending(at)
        note = idle(tokens, self._options.thought_tokens)
        return None if note is None else Ending(len(text), note)

    def _check_time(self) -> None:
        """Raise TimeLimitError after the time limit."""
        if time.monotonic() > self._until:
            raise TimeLimitError(
                f"The time limit of {self._options.time_limit:g} s passed before the chains had "
                "ended.",
                "Allow more with `time_limit`, or use fewer `beams` or `steps`.",
            )


def chain_path(
    store: GraphStore,
    lexicon: PathLexicon,
    chain: Chain,
    readings: Sequence[ChainReading],
    start: ChainReading,
    closing: Sequence[int],
) -> ScoredPath | None:
    """Return the chain as a path with its readings as groundings, None if none is in the graph.

    A reading is accepted only if each of its triplets is in the store, has the tokens that were
    written, and touches an entity visited before, independently of the constraint. ``closing``: the
    tokens of the closing marker.
    """
    checked = (_grounded(store, lexicon, chain.spans, each, start, closing) for each in readings)
    groundings = [path for path in checked if path is not None]
    if not groundings:
        return None
    best = groundings[0]
    return ScoredPath(best.text, score(chain), best.tail.name, tuple(groundings))


def _grounded(
    store: GraphStore,
    lexicon: PathLexicon,
    spans: Sequence[Span],
    reading: ChainReading,
    start: ChainReading,
    closing: Sequence[int],
) -> GroundedPath | None:
    """Return the grounded path of one reading, None if one of its triplets fails a check."""
    if not spans or len(reading.triplets) != len(spans):
        return None
    rows = np.array(reading.triplets, np.int64)
    visited = set(start.visited)
    back = []
    for head, *_, tail in rows.tolist():
        if head not in visited and tail not in visited:
            return None
        back.append(head not in visited)
        visited |= {head, tail} & reading.visited  # walks end at values
    written = ground(store, as_paths(rows), lexicon.form)
    walked = rows.copy()
    walked[back] = turned(rows[back])
    as_walked = ground(store, as_paths(walked), lexicon.form)
    edges: list[PathEdge] = []
    texts = []
    for span, plain, walk in zip(spans, written, as_walked, strict=True):
        if plain is None or walk is None:
            return None
        parts = [(plain.edges[0].relation, plain.tail.name)]
        tokens = lexicon.sequence(plain.head.name, parts)[:-1]
        if (*tokens, *closing) != span.hypothesis.tokens:
            return None
        texts.append(plain.text)
        edges.append(walk.edges[0])
    return GroundedPath(tuple(edges), BETWEEN.join(texts))


def markers_of(encoder: TokenEncoder) -> Markers:
    """Return the markers ``<`` and ``>`` of triplets; a forced opening begins with a space.

    Raises MarkerMissingError if the tokenizer cannot write them.
    """
    markers = Markers.of(encoder, OPENING, CLOSING)
    return Markers(markers.openings[::-1], markers.closing)


def score(chain: Chain) -> float:
    """Return the sum of the log-probabilities of a chain's triplets; thoughts do not count."""
    return sum(span.hypothesis.log_probability for span in chain.spans)


def without_end(chain: Chain, decode: Callable[[Sequence[int]], str]) -> list[FreeText | Span]:
    """Return a chain's pieces without the token that ended it."""
    pieces = list(chain.pieces)
    if chain.stop == "end token" and isinstance(last := pieces[-1], FreeText):
        pieces[-1] = replace(last, text=last.text.removesuffix(decode(last.tokens[-1:])))
    return pieces

"""Free text with constrained spans: the model writes freely until it opens a span, then only paths.

It fails closed. Spans are data with their end states, no text is parsed, and an opening that no
path can follow is taken back, masked from there on, and noted.

Texts that begin alike share the places of their tokens in the cache. A place that was given back is
known by its stamp, and such a token run again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch

from kgqa.deadline import check_deadline
from kgqa.decoding.forward import (
    DEFAULT_BUDGET,
    DEFAULT_WIDEST,
    PlainForward,
    PromptTree,
    ScoreRule,
    TreeForward,
    WavePart,
)
from kgqa.decoding.search import Demand, Scored, check_log_probability, run
from kgqa.decoding.searches import beam
from kgqa.decoding.span_markers import Ending, FreeText, MarkedConstraint, Span, SpanOptions, Stop
from kgqa.decoding.speculative_tree import NoConstraint, PrefixTree
from kgqa.errors import ConstraintError, EmptyLanguageError, ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray
    from transformers import PreTrainedModel

    from kgqa.trie.constraint import Constraint

_NONE = np.empty(0, np.int64)
_PIECE = 1_024  # tokens of a prompt that are run between two looks at the time


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Tokens, prompt included; ``columns`` of the first in the cache, ``stamps`` of their use."""

    tokens: tuple[int, ...]
    columns: NDArray[np.int64]
    stamps: NDArray[np.int64]

    def extended(self, tokens: Sequence[int]) -> Text:
        """Return the text with ``tokens`` at its end, which are not run yet."""
        return Text((*self.tokens, *tokens), self.columns, self.stamps)


class TextForward:
    """A model with one cache for all texts in generation; for one thread.

    ``trees``: whether the model can run them, else texts are run whole. ``budget``: tokens that
    look-ahead fills.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        trees: bool = True,
        budget: int = DEFAULT_BUDGET,
        widest: int = DEFAULT_WIDEST,
    ) -> None:
        self.budget = budget
        self.widest = widest
        self.forward_passes = 0
        self.tree = TreeForward(model) if trees else None
        self.plain = PlainForward(model)
        self._stamps = _NONE  # of each column, 0 if nobody owns it
        self._last_stamp = 0

    def text(self, tokens: Sequence[int]) -> Text:
        """Return a text of which nothing was run. Raises ModelError if it has no token."""
        if not len(tokens):
            raise ModelError("The prompt has no token, so nothing can be scored after it.")
        return Text(tuple(tokens), _NONE, _NONE)

    @torch.inference_mode()
    def following(self, texts: Sequence[Text]) -> tuple[list[Text], torch.Tensor]:
        """Return the texts, now run, and next log-probabilities ``[texts, vocabulary]``."""
        self.forward_passes += 1
        check_deadline()
        if self.tree is None:
            rows = [text.tokens for text in texts]
            first = min(map(len, rows)) - 1
            logits = self.plain.run(rows, first)
            last = torch.tensor([len(row) - 1 - first for row in rows], device=logits.device)
            picked = logits[torch.arange(len(rows), device=logits.device), last]
            return list(texts), _log_softmax(picked)
        asked = [self._asked(text, NoConstraint(), "vocabulary") for text in texts]
        for tree in asked:  # the last token is run again if it was before: its logits are gone
            tree.columns = tree.columns[: len(tree.prompt) - 1]
            self.begin(tree)
        parts = [WavePart(tree, tree.uncached, [tree.tree.node(tree.tree.start)]) for tree in asked]
        scores = self.tree.run(parts, _log_softmax)
        self.own(np.concatenate([tree.columns for tree in asked]))
        return [self.cached(tuple(tree.prompt), tree.columns) for tree in asked], scores

    def begin(self, asked: PromptTree) -> None:
        """Run all but the last piece of a long prompt. Errors of the limits propagate."""
        check_deadline()
        while self.tree is not None and asked.uncached > _PIECE:
            self.tree.run([WavePart(asked, _PIECE, [])], _log_softmax)
            self.own(asked.columns)
            check_deadline()

    def scorer(self, text: Text, constraint: Constraint, rule: ScoreRule) -> SpanScorer:
        """Return the scorer of a search under ``constraint`` after ``text``."""
        return SpanScorer(self, self._asked(text, constraint, rule))

    def keep(self, texts: Iterable[Text]) -> None:
        """Give back the cache of every token that is not in one of ``texts``."""
        if self.tree is None:
            return
        gone = self._stamps > 0
        for text in texts:
            gone[text.columns[: self._valid(text)]] = False
        columns = np.flatnonzero(gone)
        self.tree.cache.give_back(columns)
        self._stamps[columns] = 0

    def _asked(self, text: Text, constraint: Constraint, rule: ScoreRule) -> PromptTree:
        columns = text.columns[: self._valid(text)]
        return PromptTree(text.tokens, PrefixTree(constraint), rule, columns)

    def _valid(self, text: Text) -> int:
        # a column may have been given back and taken again by another text: the stamp tells
        other = np.flatnonzero(self._stamps[text.columns] != text.stamps)
        return int(other[0]) if len(other) else len(text.columns)

    def own(self, columns: NDArray[np.int64]) -> None:
        """Mark the ``columns`` written in this pass."""
        if not len(columns):
            return
        missing = int(columns.max()) + 1 - len(self._stamps)
        if missing > 0:
            self._stamps = np.concatenate([self._stamps, np.zeros(missing, np.int64)])
        # only columns without a stamp are new; a chain that shares older ones keeps them valid
        new = columns[self._stamps[columns] == 0]
        self._last_stamp += 1
        self._stamps[new] = self._last_stamp

    def cached(self, tokens: tuple[int, ...], columns: NDArray[np.int64]) -> Text:
        """Return the text of ``tokens`` of which the first are cached in ``columns``."""
        return Text(tokens, columns, self._stamps[columns])


class SpanScorer:
    """A scorer for one search after one text, from :meth:`TextForward.scorer`."""

    def __init__(self, forward: TextForward, asked: PromptTree) -> None:
        self._forward = forward
        self._asked = asked
        # a forward pass must run the token whose logits are the first ones wanted
        asked.columns = asked.columns[: len(asked.prompt) - 1]

    def score(self, demand: Demand) -> Scored:
        """Return the moves out of ``demand.states`` with their log-probabilities."""
        asked, tree, forward = self._asked, self._asked.tree, self._forward
        while missing := tree.missing(demand.states):
            forward.begin(asked)
            if forward.tree is None:
                plain = forward.plain
                plain.score(asked, plain.next_batch(asked, missing, forward.widest))
            else:
                states = demand.states
                if asked.uncached and tree.start not in states:
                    states = (tree.start, *states)
                nodes = tree.choose(states, forward.budget)
                forward.tree.score([WavePart(asked, asked.uncached, nodes)])
                forward.own(asked.all_columns())
            forward.forward_passes += 1
        return tree.scored(demand.states)

    def after(self, state: int, tokens: Sequence[int]) -> Text:
        """Return the text extended by the ``tokens`` that lead to ``state``, with its cache."""
        asked, tree = self._asked, self._asked.tree
        while state not in asked.above:  # the last tokens may not have been run
            state = tree.node(state).parent
        columns = np.concatenate([asked.columns, asked.above[state]])
        return self._forward.cached((*asked.prompt, *tokens), columns)


def _log_softmax(logits: torch.Tensor) -> torch.Tensor:
    return logits.float().log_softmax(-1)


ConstraintFor: TypeAlias = "Callable[[Sequence[Span]], Constraint | None]"
"""From the spans before one: its constraint, or None."""


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """A text in generation: its tokens, their cache columns, and its constraint.

    Immutable. ``stop``: None while it may go on. ``opened``: the opening just written. ``draft``:
    free text since the last span. ``no_more``: openings are masked.
    """

    text: Text
    prompt: int
    pieces: tuple[FreeText | Span, ...] = ()
    draft: tuple[int, ...] = ()
    opened: tuple[int, ...] | None = None
    no_more: bool = False
    stop: Stop | None = None
    notes: tuple[str, ...] = ()
    before: Chain | None = field(default=None, repr=False)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans so far, in order."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Span))

    @property
    def written(self) -> int:
        """The tokens after the prompt."""
        return len(self.text.tokens) - self.prompt


class Writer:
    """Continues chains, all with one model and one cache. ``decode`` turns tokens into text."""

    def __init__(
        self,
        forward: TextForward,
        decode: Callable[[Sequence[int]], str],
        constraint_for: ConstraintFor,
        options: SpanOptions,
    ) -> None:
        self._forward = forward
        self._decode = decode
        self._constraint_for = constraint_for
        self._options = options

    def start(self, prompt: Sequence[int] | Text) -> Chain:
        """Return the chain of nothing, or of a forced opening. Raises ConstraintError."""
        begun = prompt if isinstance(prompt, Text) else self._forward.text(prompt)
        chain = Chain(begun, len(begun.tokens))
        options = self._options
        if not options.force_opening:
            return chain
        opening = options.markers.openings[0]
        if options.spans < 1 or options.tokens <= len(opening):
            raise ConstraintError(
                "A span is to be opened first, and the limits leave no room for one.",
                "Allow at least one span, and more tokens.",
            )
        return replace(chain, text=chain.text.extended(opening), opened=opening)

    def free(self, chains: Sequence[Chain]) -> list[Chain]:
        """Return chains, greedily written on to a span or end. Raises ConstraintError."""
        chains_left = list(chains)
        while going := [
            at for at, chain in enumerate(chains_left) if chain.stop is None and not chain.opened
        ]:
            full = [at for at in going if chains_left[at].written >= self._options.tokens]
            for at in full:
                chains_left[at] = self._ended(chains_left[at], "token limit")
            going = [at for at in going if at not in full]
            if not going:
                break
            texts, following = self._forward.following([chains_left[at].text for at in going])
            for at, text, scores in zip(going, texts, following, strict=True):
                chains_left[at] = self._with_token(replace(chains_left[at], text=text), scores)
        return chains_left

    def branches(self, chain: Chain, k: int) -> list[Chain]:
        """Return up to ``k`` chains that went through the open span, best first: never none.

        Without a path: the chain before its opening, now masked, with a note. If that was forced,
        raises EmptyLanguageError or ConstraintError.
        """
        options, opening, number = self._options, chain.opened, len(chain.spans)
        assert opening is not None
        inner = self._language(chain)
        if inner is None:
            return [self._taken_back(chain, f"Span {number + 1} has no path to write.", empty=True)]
        # the closing tokens belong to the search, so that paths are ranked with what ends them
        marked = MarkedConstraint(inner, options.markers.closing)
        room = options.tokens - chain.written
        most = min(options.span_tokens + max(1, len(options.markers.closing)), room)
        scorer = self._forward.scorer(chain.text, marked, options.rule)
        search = beam(marked, k, max_new_tokens=most) if most > 0 else None
        hypotheses = run(search, scorer).hypotheses if search else []
        if not hypotheses:
            note = f"Span {number + 1} has no path of at most {most} tokens."
            return [self._taken_back(chain, note, empty=False)]
        pieces = self._with_draft(chain).pieces
        spans = []
        for hypothesis in hypotheses:
            text = self._decode((*opening, *hypothesis.tokens))
            span = Span(opening, hypothesis, inner, text)
            spans.append(
                Chain(
                    scorer.after(hypothesis.state, hypothesis.tokens),
                    chain.prompt,
                    (*pieces, span),
                    no_more=number + 1 >= options.spans,
                    stop="end token" if hypothesis.tokens[-1] in options.end_tokens else None,
                    notes=chain.notes,
                )
            )
        return spans

    def keep(self, chains: Sequence[Chain]) -> None:
        """Free the cache of texts outside ``chains``; those continue, but slower."""
        self._forward.keep(chain.text for chain in chains)

    def _with_token(self, chain: Chain, scores: torch.Tensor) -> Chain:
        token = self._likeliest(chain, scores)
        drafted = (*chain.draft, token)
        longer = replace(chain, text=chain.text.extended([token]), draft=drafted)
        if token not in self._options.end_tokens and (over := self._over(longer)) is not None:
            notes = (*chain.notes, over.note) if over.note else chain.notes
            return self._ended(replace(longer, notes=notes), "ending", over.at)
        # by tokens, never by text: names and thoughts may spell a marker without opening a span
        opening = self._options.markers.completed(drafted)
        if opening is not None:  # what would open and may not is never allowed
            return replace(longer, draft=drafted[: -len(opening)], opened=opening, before=chain)
        if token in self._options.end_tokens:
            return self._ended(longer, "end token")
        if self._options.stop and self._cut(self._drafted(longer)) is not None:
            return self._ended(longer, "stop string")
        return longer

    def _likeliest(self, chain: Chain, scores: torch.Tensor) -> int:
        options = self._options
        banned = set()
        if chain.no_more or not options.spans or options.tokens - chain.written < 2:
            banned = {
                opening[-1]
                for opening in options.markers.openings
                if options.markers.completed([*chain.draft, opening[-1]]) is not None
            }
        best, tokens = scores.topk(min(1 + len(banned), len(scores)))
        for token, score in zip(tokens.tolist(), best.tolist(), strict=True):
            check_log_probability(score)
            if token not in banned:
                return int(token)
        raise ConstraintError("Every token would open a span, so nothing can be written.")

    def _language(self, chain: Chain) -> Constraint | None:
        try:
            inner = self._constraint_for(chain.spans)
        except EmptyLanguageError:
            return None
        return inner if inner is not None and len(inner.expand([inner.start()]).token) else None

    def _taken_back(self, chain: Chain, note: str, *, empty: bool) -> Chain:
        # a forced opening has nothing before it that could go on without a span
        if chain.before is None:
            if empty:
                raise EmptyLanguageError(
                    "The text must begin with a path, and the constraint holds none.",
                    "Choose another entity.",
                )
            raise ConstraintError(
                f"The text is to begin with a path. {note}", "Allow more tokens for a span."
            )
        notes = (*chain.notes, f"{note} The text goes on without spans.")
        return replace(chain.before, no_more=True, notes=notes)

    def _over(self, chain: Chain) -> Ending | None:
        ending = self._options.ending
        if ending is None:
            return None
        return ending(chain.spans, chain.draft, self._drafted(chain))

    def _ended(self, chain: Chain, stop: Stop, at: int | None = None) -> Chain:
        return replace(self._with_draft(chain, at), stop=stop, before=None)

    def _with_draft(self, chain: Chain, at: int | None = None) -> Chain:
        if not chain.draft:
            return chain
        text = self._drafted(chain)
        cut = min((place for place in (at, self._cut(text)) if place is not None), default=None)
        piece = FreeText(chain.draft, text[:cut])
        return replace(chain, pieces=(*chain.pieces, piece), draft=())

    def _drafted(self, chain: Chain) -> str:
        return self._decode(chain.draft)

    def _cut(self, text: str) -> int | None:
        places = [at for stop in self._options.stop if (at := text.find(stop)) >= 0]
        return min(places, default=None)

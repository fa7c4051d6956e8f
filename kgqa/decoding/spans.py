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

    from kgqa.decoding.scores import ScoreRule
    from kgqa.trie.constraint import Constraint

_NONE = np.empty(0, np.int64)
_PIECE = 1_024  # tokens of a prompt that are run between two looks at the time


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Token ids with the prompt, and the cache columns of the first ones.

    ``stamps``: when each column was written, to notice that it was given to another text.
    """

    tokens: tuple[int, ...]
    columns: NDArray[np.int64]
    stamps: NDArray[np.int64]

    def extended(self, tokens: Sequence[int]) -> Text:
        """Return the text with ``tokens`` appended, not yet run by the model."""
        return Text((*self.tokens, *tokens), self.columns, self.stamps)


class TextForward:
    """Runs a model on texts in generation, which share one key-value cache; for one thread.

    ``trees``: whether the model can run token trees; otherwise texts are run whole. ``budget``:
    tokens of look-ahead in a pass.
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
        """Return a text without cached tokens. Raises ModelError if it is empty."""
        if not len(tokens):
            raise ModelError("The prompt has no token, so nothing can be scored after it.")
        return Text(tuple(tokens), _NONE, _NONE)

    @torch.inference_mode()
    def following(self, texts: Sequence[Text]) -> tuple[list[Text], torch.Tensor]:
        """Run the texts' uncached tokens; return the texts, now cached, and log-probabilities.

        The log-probabilities are of the next token, ``[texts, vocabulary]``. Time limit errors
        propagate.
        """
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
        """Run a long prompt into the cache, all but its last slice. Time limit errors propagate."""
        check_deadline()
        while self.tree is not None and asked.uncached > _PIECE:
            self.tree.run([WavePart(asked, _PIECE, [])], _log_softmax)
            self.own(asked.columns)
            check_deadline()

    def scorer(self, text: Text, constraint: Constraint, rule: ScoreRule) -> SpanScorer:
        """Return the scorer of a search under ``constraint`` after ``text``."""
        return SpanScorer(self, self._asked(text, constraint, rule))

    def keep(self, texts: Iterable[Text]) -> None:
        """Free the cache columns of every token that is not in one of ``texts``."""
        if self.tree is None:
            return
        gone = self._stamps > 0
        for text in texts:
            gone[text.columns[: self._cached_count(text)]] = False
        columns = np.flatnonzero(gone)
        self.tree.cache.give_back(columns)
        self._stamps[columns] = 0

    def _asked(self, text: Text, constraint: Constraint, rule: ScoreRule) -> PromptTree:
        """Return the prompt tree that scores moves of ``constraint`` after ``text``."""
        columns = text.columns[: self._cached_count(text)]
        return PromptTree(text.tokens, PrefixTree(constraint), rule, columns)

    def _cached_count(self, text: Text) -> int:
        """Return how many of the first tokens of ``text`` are still in the cache."""
        # a column may have been given back and taken again by another text: the stamp tells
        other = np.flatnonzero(self._stamps[text.columns] != text.stamps)
        return int(other[0]) if len(other) else len(text.columns)

    def own(self, columns: NDArray[np.int64]) -> None:
        """Stamp those of ``columns`` that have no stamp: the ones that the last pass wrote."""
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
        """Return the text of ``tokens``, the first of which are cached in ``columns``."""
        return Text(tokens, columns, self._stamps[columns])


class SpanScorer:
    """Scores the moves of one search after one text; made by :meth:`TextForward.scorer`."""

    def __init__(self, forward: TextForward, asked: PromptTree) -> None:
        self._forward = forward
        self._asked = asked
        # a forward pass must run the token whose logits are the first ones wanted
        asked.columns = asked.columns[: len(asked.prompt) - 1]

    def score(self, demand: Demand) -> Scored:
        """Return the moves out of ``demand.states``, scored; runs the model for unknown ones."""
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
        """Return the text extended by ``tokens``, which lead to ``state``, with its cache."""
        asked, tree = self._asked, self._asked.tree
        while state not in asked.cached:  # the last tokens may not have been run
            state = tree.node(state).parent
        return self._forward.cached((*asked.prompt, *tokens), asked.columns_to(state))


def _log_softmax(logits: torch.Tensor) -> torch.Tensor:
    """Return log-probabilities of ``logits`` in float32, on their device."""
    return logits.float().log_softmax(-1)


ConstraintFor: TypeAlias = "Callable[[Sequence[Span]], Constraint | None]"
"""From the spans before one: its constraint, or None."""


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """One text in generation: the parts written so far, the open draft, and the state of the end.

    Immutable. ``stop``: why it ended, None while it may continue. ``opened``: the opening marker
    just written. ``draft``: free text since the last span. ``no_more``: openings are masked.
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
    """Continues chains of free text and constrained spans with one model and one cache.

    ``decode`` turns token ids into text.
    """

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
        """Return a chain of the prompt, with an opening marker appended if the options force one.

        Raises ConstraintError if the limits leave no room for a forced span.
        """
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
        """Write each chain greedily until a span opens or the text ends; others stay as they are.

        Raises ConstraintError.
        """
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
        """Search the chain's open span; return 1 to ``k`` chains, one a path, best first.

        If no path fits: one chain, from before the opening, with further openings masked and a
        note. If that opening was forced, raises EmptyLanguageError or ConstraintError.
        """
        options, opening, number = self._options, chain.opened, len(chain.spans)
        assert opening is not None
        inner = self._language(chain)
        if inner is None:
            return [self._unopened(chain, f"Span {number + 1} has no path to write.", empty=True)]
        # the closing tokens belong to the search, so that paths are ranked with what ends them
        marked = MarkedConstraint(inner, options.markers.closing)
        room = options.tokens - chain.written
        most = min(options.span_tokens + max(1, len(options.markers.closing)), room)
        scorer = self._forward.scorer(chain.text, marked, options.rule)
        search = beam(marked, k, max_new_tokens=most) if most > 0 else None
        hypotheses = run(search, scorer).hypotheses if search else []
        if not hypotheses:
            note = f"Span {number + 1} has no path of at most {most} tokens."
            return [self._unopened(chain, note, empty=False)]
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
        """Free the cache of all texts but ``chains``; others can still continue, but slower."""
        self._forward.keep(chain.text for chain in chains)

    def _with_token(self, chain: Chain, scores: torch.Tensor) -> Chain:
        """Append the most probable token.

        The chain ends, or opens a span, if that token says so.
        """
        token = self._likeliest(chain, scores)
        drafted = (*chain.draft, token)
        longer = replace(chain, text=chain.text.extended([token]), draft=drafted)
        if token not in self._options.end_tokens and (over := self._ending_of(longer)) is not None:
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
        """Return the most probable token that opens no span where none is allowed."""
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
        """Return the constraint of the chain's next span, None if no path is left to write."""
        try:
            inner = self._constraint_for(chain.spans)
        except EmptyLanguageError:
            return None
        return inner if inner is not None and len(inner.expand([inner.start()]).token) else None

    def _unopened(self, chain: Chain, note: str, *, empty: bool) -> Chain:
        """Return the chain from before its opening, further openings masked, ``note`` added.

        If the opening was forced, raises EmptyLanguageError if the constraint is ``empty``, else
        ConstraintError.
        """
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

    def _ending_of(self, chain: Chain) -> Ending | None:
        """Return the decision of the ``ending`` option on the chain, None to continue."""
        ending = self._options.ending
        if ending is None:
            return None
        return ending(chain.spans, chain.draft, self._drafted(chain))

    def _ended(self, chain: Chain, stop: Stop, at: int | None = None) -> Chain:
        """Return the chain ended for the reason ``stop``, its draft cut at ``at`` characters."""
        return replace(self._with_draft(chain, at), stop=stop, before=None)

    def _with_draft(self, chain: Chain, at: int | None = None) -> Chain:
        """Return the chain with its draft turned into a piece of free text.

        The text is cut at ``at`` characters or at the first stop string, whichever is earlier.
        """
        if not chain.draft:
            return chain
        text = self._drafted(chain)
        cut = min((place for place in (at, self._cut(text)) if place is not None), default=None)
        piece = FreeText(chain.draft, text[:cut])
        return replace(chain, pieces=(*chain.pieces, piece), draft=())

    def _drafted(self, chain: Chain) -> str:
        """Return the text of the chain's draft."""
        return self._decode(chain.draft)

    def _cut(self, text: str) -> int | None:
        """Return the position of the first stop string in ``text``, None if it has none."""
        places = [at for stop in self._options.stop if (at := text.find(stop)) >= 0]
        return min(places, default=None)

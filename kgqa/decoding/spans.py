"""Free text with constrained spans: the model writes freely until it opens a span, then only paths.

It fails closed. Spans are data with their end states, no text is parsed, and an opening that no
path can follow is taken back, masked from there on, and noted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from kgqa.decoding.pieces import FreeText, MarkedConstraint, Span
from kgqa.decoding.search import check_log_probability, run
from kgqa.decoding.searches import beam
from kgqa.decoding.text import Text
from kgqa.errors import ConstraintError, EmptyLanguageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from kgqa.decoding.pieces import Ending, SpanOptions, Stop
    from kgqa.decoding.text import TextForward
    from kgqa.trie.constraint import Constraint

ConstraintFor: TypeAlias = "Callable[[int, Sequence[Span]], Constraint | None]"
"""From a span's number (the first is 0) and the spans before it: its constraint, or None."""


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """A text that is being written: its tokens, where the cache has them, how it may go on.

    Immutable. ``stop``: None while it may go on. ``opened``: the opening just written, its
    log-probability. ``draft``: free text since the last span. ``no_more``: openings are masked.
    """

    text: Text
    prompt: int
    pieces: tuple[FreeText | Span, ...] = ()
    draft: tuple[tuple[int, float], ...] = ()
    opened: tuple[tuple[int, ...], float] | None = None
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

    @property
    def log_probability(self) -> float:
        """The sum over all pieces."""
        return sum(piece.log_probability for piece in self.pieces)


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
        if options.limits.spans < 1 or options.limits.tokens <= len(opening):
            raise ConstraintError(
                "A span is to be opened first, and the limits leave no room for one.",
                "Allow at least one span, and more tokens.",
            )
        text, total = chain.text, 0.0
        for token in opening:
            (text,), following = self._forward.following([text])
            score = float(following[0, token])
            check_log_probability(score)
            total += score
            text = text.extended([token])
        return replace(chain, text=text, opened=(opening, total))

    def free(self, chains: Sequence[Chain]) -> list[Chain]:
        """Return chains, greedily written on to a span or end. Raises ConstraintError."""
        chains_left = list(chains)
        while going := [
            at for at, chain in enumerate(chains_left) if chain.stop is None and not chain.opened
        ]:
            full = [at for at in going if chains_left[at].written >= self._options.limits.tokens]
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
        raises EmptyLanguageError or ConstraintError; UsageError if no span is open.
        """
        if chain.opened is None:
            raise UsageError("Only a chain that has opened a span can go through one.")
        opening, opening_score = chain.opened
        options, number = self._options, len(chain.spans)
        inner = self._language(chain)
        if inner is None:
            return [self._taken_back(chain, f"Span {number + 1} has no path to write.", empty=True)]
        # the closing tokens belong to the search, so that paths are ranked with what ends them
        marked = MarkedConstraint(inner, options.markers.closing)
        room = options.limits.tokens - chain.written
        most = min(options.limits.span_tokens + max(1, len(options.markers.closing)), room)
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
            span = Span(opening, opening_score, hypothesis, inner, text)
            spans.append(
                Chain(
                    scorer.after(hypothesis.state, hypothesis.tokens),
                    chain.prompt,
                    (*pieces, span),
                    no_more=number + 1 >= options.limits.spans,
                    stop="end token" if hypothesis.tokens[-1] in options.end_tokens else None,
                    notes=chain.notes,
                )
            )
        return spans

    def keep(self, chains: Sequence[Chain]) -> None:
        """Give back the cache of all that is not in ``chains``; others go on, but slower."""
        self._forward.keep(chain.text for chain in chains)

    def _with_token(self, chain: Chain, scores: torch.Tensor) -> Chain:
        token, score = self._likeliest(chain, scores)
        drafted = (*chain.draft, (token, score))
        longer = replace(chain, text=chain.text.extended([token]), draft=drafted)
        if token not in self._options.end_tokens and (over := self._over(longer)) is not None:
            notes = (*chain.notes, over.note) if over.note else chain.notes
            return self._ended(replace(longer, notes=notes), "ending", over.at)
        # by tokens, never by text: names and thoughts may spell a marker without opening a span
        opening = self._options.markers.completed([text for text, _ in drafted])
        if opening is not None:  # what would open and may not is never allowed
            kept, marker = drafted[: -len(opening)], drafted[-len(opening) :]
            total = sum(probability for _, probability in marker)
            return replace(longer, draft=kept, opened=(opening, total), before=chain)
        if token in self._options.end_tokens:
            return self._ended(longer, "end token")
        if self._options.stop and self._cut(self._drafted(longer)) is not None:
            return self._ended(longer, "stop string")
        return longer

    def _likeliest(self, chain: Chain, scores: torch.Tensor) -> tuple[int, float]:
        options = self._options
        banned = set()
        if chain.no_more or not options.limits.spans or options.limits.tokens - chain.written < 2:
            drafted = [token for token, _ in chain.draft]
            banned = {
                opening[-1]
                for opening in options.markers.openings
                if options.markers.completed([*drafted, opening[-1]]) is not None
            }
        best, tokens = scores.topk(min(1 + len(banned), len(scores)))
        for token, score in zip(tokens.tolist(), best.tolist(), strict=True):
            check_log_probability(score)
            if token not in banned:
                return token, score
        raise ConstraintError("Every token would open a span, so nothing can be written.")

    def _language(self, chain: Chain) -> Constraint | None:
        try:
            inner = self._constraint_for(len(chain.spans), chain.spans)
        except EmptyLanguageError:
            return None
        return inner if inner is not None and len(inner.expand([inner.start()]).token) else None

    def _taken_back(self, chain: Chain, note: str, *, empty: bool) -> Chain:
        # a forced opening has nothing before it that could go on without a span
        if chain.before is None:
            if empty:
                raise EmptyLanguageError(
                    "The text is to begin with a path, and there is no path to write.",
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
        return ending(chain.spans, [token for token, _ in chain.draft], self._drafted(chain))

    def _ended(self, chain: Chain, stop: Stop, at: int | None = None) -> Chain:
        return replace(self._with_draft(chain, at), stop=stop, before=None)

    def _with_draft(self, chain: Chain, at: int | None = None) -> Chain:
        if not chain.draft:
            return chain
        tokens = tuple(token for token, _ in chain.draft)
        text = self._drafted(chain)
        cut = min((place for place in (at, self._cut(text)) if place is not None), default=None)
        piece = FreeText(tokens, text[:cut], sum(score for _, score in chain.draft))
        return replace(chain, pieces=(*chain.pieces, piece), draft=())

    def _drafted(self, chain: Chain) -> str:
        return self._decode([token for token, _ in chain.draft])

    def _cut(self, text: str) -> int | None:
        places = [at for stop in self._options.stop if (at := text.find(stop)) >= 0]
        return min(places, default=None)

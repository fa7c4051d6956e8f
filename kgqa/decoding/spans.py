"""Free text with constrained spans: the model writes freely until it opens a span, then only paths.

A :class:`Chain` is a text on its way: free, open (an opening marker was just written) or ended.
:class:`Writer` takes chains on: :meth:`Writer.free` greedily until they open a span or end,
:meth:`Writer.branches` through a span, by any search, each of its hypotheses a chain of its own. So
a beam over chains is a loop around the two; :func:`write` is the plain one, which goes on alone
after the first span.

It fails closed. Inside a span there are only the constraint's moves. Outside, nothing can be taken
for a span: spans are data with their end states, no text is parsed, and an opening that no path can
follow (an empty language, no room left) is taken back and masked from there on, and told.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from kgqa.decoding.beam import beam
from kgqa.decoding.marked import MarkedConstraint
from kgqa.decoding.pieces import FreeText, Span, Written
from kgqa.decoding.search import run
from kgqa.decoding.text import Text
from kgqa.errors import ConstraintError, EmptyLanguageError, ModelError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from kgqa.decoding.pieces import Ending, SpanOptions, Stop
    from kgqa.decoding.search import Search
    from kgqa.decoding.text import TextForward
    from kgqa.trie.constraint import Constraint

SpanSearch: TypeAlias = "Callable[[Constraint, int, int], Search]"
"""From a constraint, how many hypotheses and how many tokens at most: a search."""

ConstraintFor: TypeAlias = "Callable[[int, Sequence[Span]], Constraint | None]"
"""From a span's number (the first is 0) and the spans before it: its constraint, None for none."""


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """A text on its way: what is written, where the cache has it, how it may go on.

    ``stop`` is None while it may go on. ``opened`` is the opening just written and its
    log-probability. ``draft`` is the free text since the last span, with its log-probabilities.
    ``no_more``: openings are masked. Chains are never changed; one may go on in several ways.
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


def beam_in_span(constraint: Constraint, k: int, most: int) -> Search:
    """Search a span by a beam of ``k``: the default."""
    return beam(constraint, k, max_new_tokens=most)


class Writer:
    """Takes chains on, all with one model and one cache.

    ``decode`` turns tokens into text. ``search`` looks for the paths inside a span.
    """

    def __init__(
        self,
        forward: TextForward,
        decode: Callable[[Sequence[int]], str],
        constraint_for: ConstraintFor,
        options: SpanOptions,
        *,
        search: SpanSearch = beam_in_span,
    ) -> None:
        self._forward = forward
        self._decode = decode
        self._constraint_for = constraint_for
        self._options = options
        self._search = search

    def start(self, prompt: Sequence[int] | Text) -> Chain:
        """Return the chain that has written nothing, or only the opening where it is forced.

        A prompt that is a text is not run again where the cache has it. Raises ModelError where the
        prompt is empty, ConstraintError where a forced opening does not fit into the limits.
        """
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
            total += _checked(float(following[0, token]))
            text = text.extended([token])
        return replace(chain, text=text, opened=(opening, total))

    def free(self, chains: Sequence[Chain]) -> list[Chain]:
        """Return the chains as they are when each has opened a span or ended.

        Each takes its likeliest token that it may write; one forward serves all chains. Raises
        ConstraintError where every token is forbidden, ModelError where scores are no numbers.
        """
        found = list(chains)
        while going := [at for at, one in enumerate(found) if one.stop is None and not one.opened]:
            full = [at for at in going if found[at].written >= self._options.limits.tokens]
            for at in full:
                found[at] = self._ended(found[at], "token limit")
            going = [at for at in going if at not in full]
            if not going:
                break
            texts, following = self._forward.following([found[at].text for at in going])
            for at, text, scores in zip(going, texts, following, strict=True):
                found[at] = self._with_token(replace(found[at], text=text), scores)
        return found

    def likeliest(self, chain: Chain, count: int) -> list[tuple[int, float]]:
        """Return the ``count`` likeliest tokens that may follow free text, best first."""
        _, following = self._forward.following([chain.text])
        return self._allowed(chain, following[0], count)

    def branches(self, chain: Chain, k: int) -> list[Chain]:
        """Return up to ``k`` chains that went through the open span, best first: never none.

        Where no path can follow, it is the chain as it was before its opening, which it may not
        write again, with a note. Raises EmptyLanguageError or ConstraintError where the opening was
        forced, UsageError where ``chain`` has not opened a span.
        """
        if chain.opened is None:
            raise UsageError("Only a chain that has opened a span can go through one.")
        opening, opening_score = chain.opened
        number = len(chain.spans)
        constraint = self._language(chain, opening)
        if constraint is None:
            return [self._taken_back(chain, f"Span {number + 1} has no path to write.", empty=True)]
        inner, marked = constraint
        room = self._options.limits.tokens - chain.written
        closing = max(1, len(self._options.markers.closing))
        most = min(self._options.limits.span_tokens + closing, room)
        scorer = self._forward.scorer(chain.text, marked, self._options.rule)
        hypotheses = run(self._search(marked, k, most), scorer).hypotheses if most > 0 else []
        if not hypotheses:
            note = f"Span {number + 1} has no path of at most {most} tokens."
            return [self._taken_back(chain, note, empty=False)]
        pieces = self._with_draft(chain).pieces
        found = []
        for hypothesis in hypotheses:
            text = self._decode((*opening, *hypothesis.tokens))
            span = Span(opening, opening_score, hypothesis, inner, text)
            after = scorer.after(hypothesis.state, hypothesis.tokens)
            ended = hypothesis.tokens[-1] in self._options.end_tokens
            found.append(
                Chain(
                    after,
                    chain.prompt,
                    (*pieces, span),
                    no_more=number + 1 >= self._options.limits.spans,
                    stop="end token" if ended else None,
                    notes=chain.notes,
                )
            )
        return found

    def keep(self, chains: Sequence[Chain]) -> None:
        """Give back the cache of all that is not in ``chains``; others go on, but slower."""
        self._forward.keep(chain.text for chain in chains)

    # ── inside ──────────────────────────────────────────────────────────────────────────────

    def _with_token(self, chain: Chain, scores: torch.Tensor) -> Chain:
        """Return a free chain with its likeliest token, which may open a span or end it."""
        ((token, score),) = self._allowed(chain, scores, 1)
        drafted = (*chain.draft, (token, score))
        longer = replace(chain, text=chain.text.extended([token]), draft=drafted)
        if token not in self._options.end_tokens and (over := self._over(longer)) is not None:
            told = (*chain.notes, over.note) if over.note else chain.notes
            return self._ended(replace(longer, notes=told), "ending", over.at)
        opening = self._options.markers.completed([one for one, _ in drafted])
        if opening is not None:  # what would open and may not is never allowed
            kept, marker = drafted[: -len(opening)], drafted[-len(opening) :]
            total = sum(one for _, one in marker)
            return replace(longer, draft=kept, opened=(opening, total), before=chain)
        if token in self._options.end_tokens:
            return self._ended(longer, "end token")
        if self._options.stop and self._cut(self._drafted(longer)) is not None:
            return self._ended(longer, "stop string")
        return longer

    def _allowed(self, chain: Chain, scores: torch.Tensor, count: int) -> list[tuple[int, float]]:
        options = self._options
        banned = set(options.never)
        drafted = [token for token, _ in chain.draft]
        if chain.no_more or not options.limits.spans or options.limits.tokens - chain.written < 2:
            banned.update(
                opening[-1]
                for opening in options.markers.openings
                if options.markers.completed([*drafted, opening[-1]]) is not None
            )
        best, tokens = scores.topk(min(count + len(banned), len(scores)))
        pairs = zip(tokens.tolist(), best.tolist(), strict=True)
        allowed = [(token, _checked(score)) for token, score in pairs if token not in banned]
        if not allowed:
            raise ConstraintError(
                "Every token is forbidden in free text, so nothing can be written.",
                "Forbid fewer tokens.",
            )
        return allowed[:count]

    def _language(
        self, chain: Chain, opening: tuple[int, ...]
    ) -> tuple[Constraint, MarkedConstraint] | None:
        try:
            inner = self._constraint_for(len(chain.spans), chain.spans)
        except EmptyLanguageError:
            return None
        if inner is None:
            return None
        marked = MarkedConstraint(inner, self._options.markers, opening)
        return None if marked.is_empty else (inner, marked)

    def _taken_back(self, chain: Chain, note: str, *, empty: bool) -> Chain:
        if chain.before is None:
            if empty:
                raise EmptyLanguageError(
                    "The text is to begin with a path, and there is no path to write.",
                    "Choose another entity (--entity).",
                )
            raise ConstraintError(
                f"The text is to begin with a path. {note}", "Allow more tokens for a span."
            )
        told = (*chain.notes, f"{note} The text goes on without spans.")
        return replace(chain.before, no_more=True, notes=told)

    def _over(self, chain: Chain) -> Ending | None:
        ending = self._options.ending
        if ending is None:
            return None
        return ending(chain.spans, [token for token, _ in chain.draft], self._drafted(chain))

    def _ended(self, chain: Chain, stop: Stop, at: int | None = None) -> Chain:
        return replace(self._with_draft(chain, at), stop=stop, before=None)

    def _with_draft(self, chain: Chain, at: int | None = None) -> Chain:
        """Return the chain with its draft as a piece, of whose text the first ``at`` characters."""
        if not chain.draft:
            return chain
        tokens = tuple(token for token, _ in chain.draft)
        text = self._drafted(chain)
        cut = min((one for one in (at, self._cut(text)) if one is not None), default=None)
        piece = FreeText(tokens, text[:cut], sum(score for _, score in chain.draft))
        return replace(chain, pieces=(*chain.pieces, piece), draft=())

    def _drafted(self, chain: Chain) -> str:
        return self._decode([token for token, _ in chain.draft])

    def _cut(self, text: str) -> int | None:
        """Return where the first stop string begins, None where there is none."""
        places = [at for stop in self._options.stop if (at := text.find(stop)) >= 0]
        return min(places, default=None)


def write(
    writer: Writer, prompt: Sequence[int], *, beams: int = 1, chains: int = 1
) -> list[Written]:
    """Write texts with spans to their ends; ``chains`` of them that differ in their first span.

    ``beams``: how wide the search in a span is. The best hypothesis goes on; of the first span the
    ``chains`` best, each alone from there and in that order (GCR: K paths, an answer after each).
    Raises UsageError where a number is below 1, and what :class:`Writer` raises.
    """
    if beams < 1 or chains < 1:
        raise UsageError(f"{beams} beams and {chains} chains: both must be at least 1.")
    found = [writer.start(prompt)]
    while any(chain.stop is None for chain in found):
        found = writer.free(found)
        onward: list[Chain] = []
        for chain in found:
            if chain.opened is None:
                onward.append(chain)
                continue
            first = not chain.spans
            branches = writer.branches(chain, max(beams, chains if first else 1))
            onward += branches[: chains if first else 1]
        found = onward
        writer.keep(found)
    return [
        Written(chain.pieces, chain.stop, chain.notes) for chain in found if chain.stop is not None
    ]


def _checked(score: float) -> float:
    """Return ``score``; raise ModelError where it is no log-probability."""
    if not score < 1e-3:  # holds for NaN too
        raise ModelError(
            f"The model gave {score:g} as a log-probability, so nothing can be chosen.",
            "Its weights are damaged, or its numbers too coarse: try float32 or bfloat16.",
        )
    return score

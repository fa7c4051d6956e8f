"""The parts of a text with constrained spans, and the markers that open and close a span."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from kgqa.errors import MarkerMissingError
from kgqa.trie.constraint import Constraint, Expansion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kgqa.decoding.scores import ScoreRule
    from kgqa.decoding.search import Hypothesis
    from kgqa.paths.walk import PathTable
    from kgqa.trie.lexicon import TokenEncoder


@dataclass(frozen=True, slots=True)
class Markers:
    """Token sequences that open and close a span.

    Any of ``openings`` opens one, by its tokens and never by its text; the first is the one forced.
    ``closing``: instead of the constraint's closing token, unless empty. Raises MarkerMissingError
    without an opening, or for an empty one.
    """

    openings: tuple[tuple[int, ...], ...]
    closing: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.openings or not all(self.openings):
            raise MarkerMissingError(
                "A span of constrained text has no opening marker, so it could never begin.",
                "Name a marker that the tokenizer writes as at least one token.",
            )

    @classmethod
    def of(cls, encoder: TokenEncoder, opening: str, closing: str = "") -> Markers:
        """Return the markers of two strings, ``opening`` also with a leading space.

        Without ``closing``, the constraint's closing token ends a span. Raises MarkerMissingError.
        """
        spellings = [opening]
        if encoder.marker_id(opening) is None or len(encoder.encode([opening])[0]) == 1:
            spellings.append(f" {opening}")
        openings = dict.fromkeys(_tokens(encoder, spelling) for spelling in spellings)
        return cls(tuple(openings), _tokens(encoder, closing) if closing else ())

    def completed(self, written: Sequence[int]) -> tuple[int, ...] | None:
        """Return the longest opening marker that ``written`` ends with, None if there is none."""
        openings = [
            opening for opening in self.openings if tuple(written[-len(opening) :]) == opening
        ]
        return max(openings, key=len, default=None)


def _tokens(encoder: TokenEncoder, marker: str) -> tuple[int, ...]:
    """Return a marker's token ids. Raises MarkerMissingError if they do not decode to it."""
    single = encoder.marker_id(marker)
    tokens = (single,) if single is not None else tuple(encoder.encode([marker])[0])
    if not tokens or encoder.decode(tokens).strip() != marker.strip() or not marker.strip():
        raise MarkerMissingError(
            f"The tokenizer cannot write the marker {marker!r}, so a span could not be held in it.",
            "Use a model that was trained with it, or a marker of ordinary characters.",
        )
    return tokens


class MarkedConstraint:
    """A constraint whose sequences end with the tokens ``closing`` instead of its closing token.

    Without ``closing`` it is the given constraint itself.
    """

    def __init__(self, inner: Constraint, closing: tuple[int, ...]) -> None:
        self._inner = inner
        self._closing = closing
        # states between the first and the last closing token: -1, -2, …
        self._between: list[tuple[int, int]] = []  # the inner end, closing tokens written
        self._numbers: dict[tuple[int, int], int] = {}

    def start(self) -> int:
        """Return the state after the opening marker."""
        return self._inner.start()

    def expand(self, states: Sequence[int]) -> Expansion:
        """Return the moves out of every one of ``states``, closing ones by the closing marker."""
        own = [at for at, state in enumerate(states) if state < 0]
        others = [at for at, state in enumerate(states) if state >= 0]
        row, token, state = (np.empty(0, np.int64) for _ in range(3))
        if others:
            moves = self._inner.expand([states[at] for at in others])
            row = np.array(others, np.int64)[moves.row]
            token, state = moves.token, moves.state
        if self._closing and len(state):
            ends = np.flatnonzero(self._inner.is_end(state.tolist()))
            token, state = token.copy(), state.copy()
            token[ends] = self._closing[0]
            state[ends] = [self._after(end, 1) for end in state[ends].tolist()]
        if own:
            tails = [self._between[-1 - states[at]] for at in own]
            row = np.append(row, own)
            token = np.append(token, [self._closing[done] for _, done in tails])
            state = np.append(state, [self._after(end, done + 1) for end, done in tails])
        order = np.lexsort((token, row))
        return Expansion(row[order], token[order], state[order])

    def is_end(self, states: Sequence[int]) -> NDArray[np.bool_]:
        """Return which of ``states`` stand after the whole closing marker, ``[len(states)]``."""
        inner = np.array([state >= 0 for state in states], bool)
        ends = np.zeros(len(states), bool)
        if inner.any():
            ends[inner] = self._inner.is_end([state for state in states if state >= 0])
        return ends

    def ground(self, state: int) -> PathTable:
        """Return every id path that the text of the end ``state`` stands for."""
        return self._inner.ground(state)

    @property
    def paths(self) -> int | None:
        """The number of id paths, None if they are not counted."""
        return self._inner.paths

    def _after(self, end: int, done: int) -> int:
        """Return the state after ``done`` tokens of the closing marker at the end state ``end``.

        A partly written marker has a negative state; the complete one is ``end`` itself.
        """
        if done == len(self._closing):
            return end
        number = self._numbers.get((end, done))
        if number is None:
            self._between.append((end, done))
            number = self._numbers[end, done] = -len(self._between)
        return number


Stop: TypeAlias = Literal["end token", "stop string", "token limit", "ending"]

EndingFor: TypeAlias = "Callable[[Sequence[Span], Sequence[int], str], Ending | None]"
"""From the spans so far, and the tokens and text after the last: how that is over, None if not."""


@dataclass(frozen=True, slots=True)
class FreeText:
    """Text written without a constraint: its ``tokens``, and its ``text`` up to a stop string."""

    tokens: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Ending:
    """A decision to end free text after its first ``at`` characters, with a ``note`` on why."""

    at: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A decoded path with its opening and closing markers.

    ``hypothesis``: the tokens after the opening, scored by the rule, to an end of ``constraint``.
    """

    opening: tuple[int, ...]
    hypothesis: Hypothesis
    constraint: Constraint = field(repr=False, compare=False)
    text: str

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens of the span with its opening and closing markers."""
        return (*self.opening, *self.hypothesis.tokens)

    def ground(self) -> PathTable:
        """Return every id path that the span stands for."""
        return self.constraint.ground(self.hypothesis.state)


@dataclass(frozen=True, slots=True)
class SpanOptions:
    """Limits and rules of a text with constrained spans.

    ``tokens``: most tokens after the prompt; ``spans``: most spans, each of ``span_tokens`` at
    most, closing included. ``end_tokens`` end the text, and so do ``stop`` strings in free text.
    ``force_opening``: begin with a span. ``rule``: scores of spans. ``ending``: a function called
    after each free token that may end the text; no span opens afterwards.
    """

    markers: Markers
    end_tokens: frozenset[int]
    tokens: int
    spans: int = 0
    span_tokens: int = 256
    stop: tuple[str, ...] = ()
    force_opening: bool = False
    rule: ScoreRule = "vocabulary"
    ending: EndingFor | None = None

"""What a text with constrained spans is made of, and the limits and options it is written under."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from kgqa.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kgqa.decoding.forward import ScoreRule
    from kgqa.decoding.marked import Markers
    from kgqa.decoding.search import Hypothesis
    from kgqa.paths.walk import PathTable
    from kgqa.trie.constraint import Constraint

Stop: TypeAlias = Literal["end token", "stop string", "token limit", "ending"]

EndingFor: TypeAlias = "Callable[[Sequence[Span], Sequence[int], str], Ending | None]"
"""From the spans so far, and the tokens and text after the last: how that is over, None if not."""


@dataclass(frozen=True, slots=True)
class FreeText:
    """Text that nothing constrained. ``text`` ends before a stop string, ``tokens`` hold it."""

    tokens: tuple[int, ...]
    text: str
    log_probability: float


@dataclass(frozen=True, slots=True)
class Ending:
    """Free text is over: its first ``at`` characters stand, and ``note`` says why if need be."""

    at: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A path with its markers.

    ``hypothesis``: the tokens after the opening, scored by the rule, to an end of ``constraint``.
    ``opening_log_probability``: of its tokens over the vocabulary, forced or not.
    """

    opening: tuple[int, ...]
    opening_log_probability: float
    hypothesis: Hypothesis
    constraint: Constraint = field(repr=False, compare=False)
    text: str

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens, markers included."""
        return (*self.opening, *self.hypothesis.tokens)

    @property
    def log_probability(self) -> float:
        """The sum over all tokens."""
        return self.opening_log_probability + self.hypothesis.log_probability

    def ground(self) -> PathTable:
        """Return every id path that the span stands for."""
        return self.constraint.ground(self.hypothesis.state)


@dataclass(frozen=True, slots=True)
class Limits:
    """``tokens`` after the prompt, ``span_tokens`` of each, closing included, and ``spans``."""

    tokens: int = 512
    span_tokens: int = 256
    spans: int = 16

    def __post_init__(self) -> None:
        if self.tokens < 1 or self.span_tokens < 1 or self.spans < 0:
            raise UsageError(
                f"A text of {self.tokens} tokens with {self.spans} spans of {self.span_tokens} "
                "tokens cannot be written.",
                "The limits are at least 1 token, 1 token a span, 0 spans.",
            )


@dataclass(frozen=True, slots=True)
class SpanOptions:
    """How a text with spans is written.

    ``end_tokens`` end it, ``stop`` strings do in free text. ``force_opening``: begin with a span.
    ``rule`` scores spans. ``ending``: asked after each free token, then no span opens any more.
    """

    markers: Markers
    end_tokens: frozenset[int]
    limits: Limits = field(default_factory=Limits)
    stop: tuple[str, ...] = ()
    force_opening: bool = False
    rule: ScoreRule = "vocabulary"
    ending: EndingFor | None = None

    def __post_init__(self) -> None:
        if not all(self.stop):
            raise UsageError("A stop string is empty, so that nothing could be written.")

"""Constraints for people who decode with Hugging Face ``generate``.

:class:`PrefixAllowedTokens` is a ``prefix_allowed_tokens_fn``, :class:`ConstraintLogitsProcessor` a
``LogitsProcessor``; either keeps greedy search, sampling and beam search inside a constraint, for
one prompt or a batch. :func:`accepted` reads what came out. What this does not do: search; the
searches of this package find the same list in fewer forward passes.

Both fail closed. After a finished sequence, and after a prefix that is not in the language, only
the end token may follow; the list of allowed tokens is never empty, since what ``generate`` does
with an empty one has changed between its versions (some allowed everything). ``generate`` asks for
such prefixes all the time, for it fills beams that it lacks with copies and impossible tokens, and
may return them: hence :func:`accepted`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from transformers import LogitsProcessor

from kgqa.errors import ConstraintError, UsageError

if TYPE_CHECKING:
    from kgqa.trie.constraint import Constraint

# The score of an end that closes no sequence of the language: such a hypothesis is beaten by every
# other, and a score is still a number, so that sampling has one token to draw.
_NEVER = -1e9


class PrefixAllowedTokens:
    """A ``prefix_allowed_tokens_fn`` that keeps ``generate`` inside a constraint.

    ``constraint``: one for all prompts, or a list with one for each prompt of the batch.
    ``prompt_length``: columns of ``input_ids``, padding on the left counted. ``eos_token_id``: what
    ``generate`` ends a sequence by; the constraint's closing token may be this one or another.

    Calling it gives a list that is never empty: the tokens that may follow, or only
    ``eos_token_id`` after a finished sequence and after a prefix outside the language. It may serve
    one call of ``generate`` after another, but not two at once.

    Raises UsageError where a prompt has no constraint or a sequence is shorter than the prompt.
    """

    def __init__(
        self,
        constraint: Constraint | Sequence[Constraint],
        *,
        prompt_length: int,
        eos_token_id: int,
    ) -> None:
        _check(prompt_length, eos_token_id)
        self._prefixes = _for_each_prompt(constraint)
        self._prompt = prompt_length
        self._eos = eos_token_id

    def __call__(self, batch_id: int, input_ids: torch.Tensor) -> list[int]:
        """Return the tokens that may follow ``input_ids``, shape ``[columns]``, never none."""
        if len(self._prefixes) > 1 and batch_id >= len(self._prefixes):
            raise UsageError(
                f"There are {len(self._prefixes)} constraints and no prompt number {batch_id + 1}.",
                "Give one constraint, or one for each prompt of the batch.",
            )
        prefixes = self._prefixes[batch_id if len(self._prefixes) > 1 else 0]
        prefix = _after_prompt([input_ids.tolist()], self._prompt)
        return prefixes.allowed(prefix)[0] or [self._eos]


class ConstraintLogitsProcessor(LogitsProcessor):
    """A ``LogitsProcessor`` that keeps ``generate`` inside a constraint.

    Arguments and errors are those of :class:`PrefixAllowedTokens`; rows of the batch are prompts in
    order, each with as many rows as there are beams or sequences to return. It asks the constraint
    for all rows at once, and an end that closes no sequence gets the score -1e9, so that no such
    hypothesis ever outranks one of the language.

    Raises ConstraintError where a constraint allows a token that the model does not have.
    """

    def __init__(
        self,
        constraint: Constraint | Sequence[Constraint],
        *,
        prompt_length: int,
        eos_token_id: int,
    ) -> None:
        _check(prompt_length, eos_token_id)
        self._prefixes = _for_each_prompt(constraint)
        self._prompt = prompt_length
        self._eos = eos_token_id

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Return ``scores``, shape ``[rows, vocabulary]``, with ``-inf`` at all that may not be."""
        rows = len(input_ids)
        share, left = divmod(rows, len(self._prefixes))
        if left:
            raise UsageError(
                f"{rows} sequences cannot be divided among {len(self._prefixes)} constraints.",
                "Give one constraint, or one for each prompt of the batch.",
            )
        after = _after_prompt(input_ids.tolist(), self._prompt)
        kept: torch.Tensor = torch.full_like(scores, -torch.inf)
        for number, prefixes in enumerate(self._prefixes):
            first = number * share
            for row, tokens in enumerate(prefixes.allowed(after[first : first + share]), first):
                if tokens is None:
                    kept[row, self._eos] = _NEVER
                elif tokens:
                    _check_vocabulary(max(tokens), scores.shape[1])
                    kept[row, tokens] = scores[row, tokens]
                else:
                    kept[row, self._eos] = scores[row, self._eos]
        return kept  # type: ignore[return-value]  # a FloatTensor is a Tensor of floats


@dataclass(frozen=True, slots=True)
class Accepted:
    """A sequence of the language: the end state, which grounds it, and its tokens."""

    state: int
    tokens: tuple[int, ...]


def accepted(
    constraint: Constraint, sequences: torch.Tensor | Sequence[Sequence[int]], prompt_length: int
) -> list[Accepted]:
    """Return what of the ``sequences`` of one prompt is in the language, in order, each once.

    ``sequences`` is what ``generate`` returned, shape ``[n, columns]``, prompt first. Left out is
    what a length limit cut off, and what ``generate`` fills its list with where the language has
    fewer sequences than were asked for; what follows a finished sequence is padding and not read.
    """
    rows = sequences.tolist() if isinstance(sequences, torch.Tensor) else sequences
    found: dict[int, Accepted] = {}
    for tokens in _after_prompt(rows, prompt_length):
        state = constraint.start()
        for count, token in enumerate(tokens, 1):
            led = _moved(constraint, [state], [token])[0]
            if led is None:
                break
            state = led
            if constraint.is_end([state])[0]:
                found.setdefault(state, Accepted(state, tokens[:count]))
                break
    return list(found.values())


class _Prefixes:
    """What may follow the prefixes of one constraint.

    States are found from those of the prefixes one token shorter: of the lengths that were asked
    for, the two latest are kept. Any other prefix is walked from the start.
    """

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self._length = -1
        self._shorter: dict[tuple[int, ...], int | None] = {}
        self._latest: dict[tuple[int, ...], int | None] = {}

    def allowed(self, prefixes: Sequence[tuple[int, ...]]) -> list[list[int] | None]:
        """Return the tokens that may follow each prefix; all prefixes have one length.

        An empty list stands for a finished sequence, None for a prefix that is outside of the
        language or cannot be finished.
        """
        states = self._states(prefixes)
        inside = list(dict.fromkeys(state for state in states if state is not None))
        following: dict[int, list[int]] = {state: [] for state in inside}
        ended: set[int] = set()
        if inside:
            moves = self._constraint.expand(inside)
            for row, token in zip(moves.row.tolist(), moves.token.tolist(), strict=True):
                following[inside[row]].append(token)
            ends = self._constraint.is_end(inside).tolist()
            ended = {state for state, is_end in zip(inside, ends, strict=True) if is_end}
        return [
            None if state is None else [] if state in ended else following[state] or None
            for state in states
        ]

    def _states(self, prefixes: Sequence[tuple[int, ...]]) -> list[int | None]:
        """Return the state of each prefix, None where it is not in the language."""
        length = len(prefixes[0])
        if length != self._length:
            one_more = length == self._length + 1
            self._shorter, self._latest = (self._latest if one_more else {}), {}
            self._length = length
        new = [prefix for prefix in dict.fromkeys(prefixes) if prefix not in self._latest]
        if new and length:
            above = [
                self._shorter[prefix[:-1]] if prefix[:-1] in self._shorter else self._walk(prefix)
                for prefix in new
            ]
            led = _moved(self._constraint, above, [prefix[-1] for prefix in new])
            self._latest.update(zip(new, led, strict=True))
        elif new:
            self._latest[()] = self._constraint.start()
        return [self._latest[prefix] for prefix in prefixes]

    def _walk(self, prefix: tuple[int, ...]) -> int | None:
        """Return the state before the last token of ``prefix``."""
        state: int | None = self._constraint.start()
        for token in prefix[:-1]:
            state = _moved(self._constraint, [state], [token])[0]
        return state


def _moved(
    constraint: Constraint, states: Sequence[int | None], tokens: Sequence[int]
) -> list[int | None]:
    """Return where each state gets by its token, None where it may not go."""
    inside = list(dict.fromkeys(state for state in states if state is not None))
    if not inside:
        return [None] * len(states)
    moves = constraint.expand(inside)
    columns = (moves.row.tolist(), moves.token.tolist(), moves.state.tolist())
    led = {(inside[row], token): state for row, token, state in zip(*columns, strict=True)}
    return [
        None if state is None else led.get((state, token))
        for state, token in zip(states, tokens, strict=True)
    ]


def _for_each_prompt(constraint: Constraint | Sequence[Constraint]) -> list[_Prefixes]:
    several = list(constraint) if isinstance(constraint, Sequence) else [constraint]
    if not several:
        raise UsageError("There is no constraint, and without one anything could be written.")
    return [_Prefixes(one) for one in several]


def _after_prompt(rows: Sequence[Sequence[int]], prompt_length: int) -> list[tuple[int, ...]]:
    for row in rows:
        if len(row) < prompt_length:
            raise UsageError(
                f"A sequence of {len(row)} tokens is shorter than its prompt of {prompt_length}.",
                "prompt_length is the number of columns of the input_ids given to generate.",
            )
    return [tuple(row[prompt_length:]) for row in rows]


def _check(prompt_length: int, eos_token_id: int) -> None:
    if prompt_length < 1:
        raise UsageError(f"A prompt has at least one token, not {prompt_length}.")
    if eos_token_id < 0:
        raise UsageError(f"eos_token_id is {eos_token_id}; a token id is at least 0.")


def _check_vocabulary(token: int, width: int) -> None:
    if token >= width:
        raise ConstraintError(
            f"The constraint allows the token {token}, and the model has only {width} tokens.",
            "Make the constraint with the model's own tokenizer.",
        )

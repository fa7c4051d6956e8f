"""Constraints for people who decode with Hugging Face ``generate``.

The processor fails closed: after a finished sequence, or a prefix outside the language, only the
end token may follow. ``generate`` fills missing beams with such prefixes and may return them: hence
:func:`accepted`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from transformers import LogitsProcessor

from kgqa.errors import ConstraintError, UsageError

if TYPE_CHECKING:
    from kgqa.trie.constraint import Constraint

Prompt: TypeAlias = "Mapping[str, Any] | int"
"""What a tokenizer returned for the prompts (a BatchEncoding), or the columns of ``input_ids``."""

# The score of an end that closes no sequence of the language: such a hypothesis is beaten by every
# other, and a score is still a number, so that sampling has one token to draw.
_NEVER = -1e9


class ConstraintLogitsProcessor(LogitsProcessor):
    """A ``LogitsProcessor`` that keeps ``generate`` inside a constraint.

    ``constraint``: one, or one for each prompt of the batch, each of which has as many rows as
    beams. ``prompt``: the BatchEncoding, or the number of columns of ``input_ids``, padding on the
    left included. ``eos_token_id``: a token that ends a sequence. An end that closes no sequence
    scores -1e9, so that it never outranks the language. Raises UsageError if a prompt has no
    constraint, prompts are padded on the right, or a sequence is shorter than the prompt;
    ConstraintError for a token that the model does not have. Serves one call at a time.
    """

    def __init__(
        self, constraint: Constraint | Sequence[Constraint], prompt: Prompt, *, eos_token_id: int
    ) -> None:
        several = list(constraint) if isinstance(constraint, Sequence) else [constraint]
        if not several:
            raise UsageError(
                "The constraint is missing, and without one anything could be written."
            )
        self.columns = _columns(prompt, len(several))
        if self.columns < 1:
            raise UsageError(f"A prompt has at least one token, not {self.columns}.")
        if eos_token_id < 0:
            raise UsageError(f"`eos_token_id` is {eos_token_id}; a token id is at least 0.")
        self.eos = eos_token_id
        self.prefixes = [_Prefixes(each) for each in several]

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Return ``scores``, shape ``[rows, vocabulary]``, with ``-inf`` at forbidden tokens.

        Raises UsageError, ConstraintError.
        """
        after = _after_prompt(input_ids.tolist(), self.columns)
        kept: torch.Tensor = torch.full_like(scores, -torch.inf)
        row = 0
        for prefixes, mine in zip(self.prefixes, _divided(after, len(self.prefixes)), strict=True):
            for tokens in prefixes.allowed(mine):
                # a beam outside the language may only end, at a score that never wins
                if tokens is None:
                    kept[row, self.eos] = _NEVER
                else:
                    allowed = tokens or [self.eos]
                    _check_vocabulary(max(allowed), scores.shape[1])
                    kept[row, allowed] = scores[row, allowed]
                row += 1
        return kept  # type: ignore[return-value]  # a FloatTensor is a Tensor of floats


@dataclass(frozen=True, slots=True)
class Accepted:
    """A sequence of the language: the end state, which grounds it, and its tokens."""

    state: int
    tokens: tuple[int, ...]


def accepted(constraint: Constraint, sequences: Any, prompt: Prompt) -> list[Accepted]:
    """Return the distinct ``sequences`` of one prompt that the constraint accepts, in order.

    ``sequences``: as ``generate`` returned them, ``[n, columns]``, prompt first; ``prompt``: as
    given to the processor. Sequences that a length limit truncated, and filler rows of a batch, are
    left out.
    """
    by_end: dict[int, Accepted] = {}
    for tokens in _after_prompt(_rows(sequences), _columns(prompt, 1)):
        state: int | None = constraint.start()
        for count, token in enumerate(tokens, 1):
            (state,) = _moved(constraint, [state], [token])
            if state is None:
                break
            if constraint.is_end([state])[0]:
                by_end.setdefault(state, Accepted(state, tokens[:count]))
                break
    return list(by_end.values())


class _Prefixes:
    """Constraint states by token prefix, remembered between the calls that ``generate`` makes."""

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self._states: dict[tuple[int, ...], int | None] = {(): constraint.start()}

    def allowed(self, prefixes: Sequence[tuple[int, ...]]) -> list[list[int] | None]:
        """Return the tokens after each prefix.

        [] at an end of the language, None outside it or where nothing follows.
        """
        states = self._found(prefixes)
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

    def _found(self, prefixes: Sequence[tuple[int, ...]]) -> list[int | None]:
        """Return the constraint state after each prefix, None outside the language.

        New prefixes are remembered. An empty one begins a new call of ``generate`` and clears the
        memory.
        """
        # generate begins again with empty prefixes: what an earlier call wrote is of no use
        if () in prefixes:
            self._states = {(): self._states[()]}
        new = [prefix for prefix in dict.fromkeys(prefixes) if prefix not in self._states]
        above = [self._walked(prefix[:-1]) for prefix in new]
        led = _moved(self._constraint, above, [prefix[-1] for prefix in new])
        self._states.update(zip(new, led, strict=True))
        return [self._states[prefix] for prefix in prefixes]

    def _walked(self, prefix: tuple[int, ...]) -> int | None:
        """Return the state after ``prefix``, walked from its longest known prefix.

        None outside the language.
        """
        known = len(prefix)
        while prefix[:known] not in self._states:
            known -= 1
        state = self._states[prefix[:known]]
        for token in prefix[known:]:
            (state,) = _moved(self._constraint, [state], [token])
        return state


def _moved(
    constraint: Constraint, states: Sequence[int | None], tokens: Sequence[int]
) -> list[int | None]:
    """Return the state that each token leads to from its state, None if it is not allowed."""
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


def _columns(prompt: Prompt, constraints: int) -> int:
    """Return how many columns of ``input_ids`` the prompt takes.

    Raises UsageError if it is malformed, padded on the right, or not one for each constraint.
    """
    if isinstance(prompt, int):
        return prompt
    try:
        ids = torch.as_tensor(prompt["input_ids"])
        mask = torch.as_tensor(prompt.get("attention_mask", torch.ones_like(ids)))
    except (KeyError, ValueError, TypeError) as error:
        raise UsageError(
            "The prompt is not what generate takes: one row of `input_ids` for each prompt, all of "
            "one length.",
            'Use tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left").',
        ) from error
    if not bool(mask[..., -1:].all()):
        raise UsageError(
            "The prompts are padded on the right, so a path would follow padding.",
            'Pad them on the left: tokenizer(prompts, …, padding_side="left").',
        )
    if constraints > 1 and len(ids) != constraints:
        raise _unequal(constraints, f"{len(ids)} prompts")
    return int(ids.shape[-1])


def _unequal(constraints: int, what: str) -> UsageError:
    """Return the error for a number of constraints that differs from ``what``, as "3 prompts"."""
    return UsageError(
        f"There are {constraints} constraints and {what}.",
        "Give one constraint, or one for each prompt of the batch.",
    )


def _rows(sequences: Any) -> Sequence[Sequence[int]]:
    """Return the rows of token ids of what ``generate`` returned, whatever its type."""
    written = getattr(sequences, "sequences", sequences)  # with return_dict_in_generate
    rows: Sequence[Sequence[int]] = (
        written.tolist() if isinstance(written, torch.Tensor) else written
    )
    return rows


def _after_prompt(rows: Sequence[Sequence[int]], columns: int) -> list[tuple[int, ...]]:
    """Return each row of token ids without the prompt, its first ``columns`` ids.

    Raises UsageError for a row shorter than the prompt.
    """
    for row in rows:
        if len(row) < columns:
            raise UsageError(
                f"A sequence of {len(row)} tokens is shorter than its prompt of {columns}.",
                "`prompt` is what generate was given, or the number of columns of its input_ids.",
            )
    return [tuple(row[columns:]) for row in rows]


def _divided(rows: Sequence[tuple[int, ...]], count: int) -> list[Sequence[tuple[int, ...]]]:
    """Return the rows in ``count`` equal slices, one for each constraint.

    Raises UsageError if they cannot be divided so.
    """
    size, left = divmod(len(rows), count)
    if left:
        raise _unequal(count, f"{len(rows)} sequences, which cannot be divided among them")
    return [rows[at * size : (at + 1) * size] for at in range(count)]


def _check_vocabulary(token: int, width: int) -> None:
    """Raise ConstraintError for a token outside the model's vocabulary of ``width`` tokens."""
    if token >= width:
        raise ConstraintError(
            f"The constraint allows the token {token}, and the model has only {width} tokens.",
            "Make the constraint with the model's own tokenizer.",
        )

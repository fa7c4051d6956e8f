"""Log-probabilities of moves, from the logits of a forward pass.

Only the logits of moves are gathered, under one log-sum-exp of the vocabulary. What runs on the
device (:func:`gathered`) is apart from what follows on the host (:func:`scores_of`), so that the
host need not wait in between.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
import torch

from kgqa.decoding.arrays import on_device
from kgqa.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

ScoreRule: TypeAlias = Literal["vocabulary", "allowed"]
Head: TypeAlias = "Callable[[torch.Tensor], torch.Tensor]"

# Logits that become float32, and are exponentiated, at a time: copies of 4 MB on a CPU, which its
# caches hold; 128 MB elsewhere, where each further call costs more than memory does.
_LOGITS_AT_ONCE = {"cpu": 1 << 20}
_LOGITS_ELSEWHERE = 1 << 25
# States whose logits are made at a time, if the model lets that be chosen.
_HEADS_AT_ONCE = {"cpu": 24}
_HEADS_ELSEWHERE = 512


def check_highest(token: int, known: int) -> None:
    """Raise ModelError if ``token`` is not below the number of ``known`` tokens."""
    if token >= known:
        raise ModelError(
            f"Token {token} is to be scored, and the model knows only {known}.",
            "The index and the model do not fit: build it again with kgqa precompute-tries.",
        )


class Moves(NamedTuple):
    """Moves out of states of a pass: the number of the state, ascending, and the token of each."""

    row: NDArray[np.int64]
    token: NDArray[np.int64]


def moves_of(allowed: Sequence[Sequence[int]]) -> Moves:
    """Return the moves out of states, given the tokens that are allowed after each."""
    row = np.repeat(np.arange(len(allowed)), list(map(len, allowed)))
    return Moves(row, np.fromiter(chain.from_iterable(allowed), np.int64, len(row)))


def by_rule(
    scores: NDArray[np.float64],
    moves: Moves,
    states: int,
    *,
    given: ScoreRule,
    wanted: ScoreRule,
    coverage: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Convert scores under the rule ``given`` to ``wanted``; also return log-coverage.

    Coverage has shape ``[states]``, ``-inf`` for a state without a move; None unless ``coverage``.
    """
    if wanted == given and not coverage:
        return scores, None
    covered = _log_sums(scores, moves.row, states)
    if wanted == "allowed":
        scores = scores - covered[moves.row]
    return scores, np.minimum(covered, 0.0) if coverage else None


def log_probabilities(
    states: torch.Tensor,
    moves: Moves,
    rule: ScoreRule,
    head: Head | None = None,
) -> NDArray[np.float64]:
    """Return the log-probability of each move under ``rule``. Raises ModelError.

    ``states``: see :func:`gathered`.
    """
    found = gathered(states, moves, rule, head).cpu().numpy()
    return scores_of(found, moves, rule, len(states))


@torch.inference_mode()
def gathered(
    states: torch.Tensor,
    moves: Moves,
    rule: ScoreRule,
    head: Head | None = None,
) -> torch.Tensor:
    """Return the logits of all moves, then, unless the rule is "allowed", each state's log-sum-exp.

    ``states``: logits ``[states, vocabulary]``, or hidden states that ``head`` turns into logits,
    in slices, so that the logits of all states are never held at once. Raises ModelError.
    """
    if not len(moves.token):
        return states.new_empty(0, dtype=torch.float32)
    device = states.device
    where = on_device(np.stack([moves.row, moves.token]), device)
    if head is None:
        size = max(1, _LOGITS_AT_ONCE.get(device.type, _LOGITS_ELSEWHERE) // states.shape[-1])
    else:
        size = _HEADS_AT_ONCE.get(device.type, _HEADS_ELSEWHERE)
    starts = range(0, len(states), size)
    ends = np.searchsorted(moves.row, [*starts, len(states)]).tolist()
    highest, picked, sums = int(moves.token.max()), [], []
    for start, first, last in zip(starts, ends, ends[1:], strict=False):
        some = states[start : start + size]
        logits = some if head is None else head(some)
        check_highest(highest, logits.shape[-1])
        rows, tokens = where[:, first:last]
        picked.append(logits[rows - start, tokens].float())
        if rule == "vocabulary":
            sums.append(logits.float().logsumexp(-1))
    return torch.cat([*picked, *sums])


def scores_of(
    found: NDArray[np.float32], moves: Moves, rule: ScoreRule, states: int
) -> NDArray[np.float64]:
    """Return the log-probability of each move from what :func:`gathered` found for ``states``.

    Raises ModelError.
    """
    if not len(moves.token):
        return np.empty(0)
    both = found.astype(np.float64)
    if not (both < np.inf).all():
        raise ModelError(
            "The model gives no numbers for what it may write.",
            "Its weights or its adapter's are damaged: get them again.",
        )
    own = both[: len(moves.row)]
    total = both[len(own) :] if rule == "vocabulary" else _log_sums(own, moves.row, states)
    scores: NDArray[np.float64] = own - total[moves.row]
    return scores


def _log_sums(
    values: NDArray[np.float64], rows: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    """Return the log-sum-exp of ``values`` with equal ``rows``, ``[count]``.

    -inf for an empty row.
    """
    top = np.full(count, -np.inf)
    np.maximum.at(top, rows, values)
    top[np.isneginf(top)] = 0.0
    total = np.zeros(count)
    np.add.at(total, rows, np.exp(values - top[rows]))
    with np.errstate(divide="ignore"):
        sums: NDArray[np.float64] = top + np.log(total)
    return sums

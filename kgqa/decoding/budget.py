"""How many tokens a forward should score on a device: measured, not guessed.

A wider wave needs fewer forward passes and each takes longer. How long, is measured at load; how many
fewer, is known from real question graphs. The budget is the widest at which their product is close
to its least, and at least the widest that costs no more than 1.3 times a single token: on a GPU,
where a forward reads all weights whatever its width, that is wide; on a CPU it is narrower.

What this module does not do: remember what it measured.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgqa.decoding.forward import Asked, Packed, Part, TreeForward
from kgqa.decoding.wave import NoConstraint, Node, PrefixTree
from kgqa.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from transformers import PreTrainedModel

NEARLY_FREE = 1.3  # times a forward of one token
CLOSE = (
    1.1  # times the least cost; below that, measured times are no reason for more forward passes
)
WIDTHS = (1, 16, 32, 64, 96, 128)
_CONTEXT = 64  # cached tokens that a measured forward attends to
_REPEATS = 3
# Forwards a question by budget, K = 10, over the two-hop tries of real question graphs; only their
# ratios matter. No budget below 16: a wave holds what is demanded, about K tokens, in any case.
FORWARDS: Mapping[int, float] = {16: 23.5, 32: 14.4, 64: 9.7, 96: 7.3, 128: 7.1}


@dataclass(frozen=True, slots=True)
class Budget:
    """``tokens`` that look-ahead fills a forward up to, and what it was chosen by.

    ``milliseconds``: what a forward took by its width; empty where the budget was set by hand.
    """

    tokens: int
    milliseconds: Mapping[int, float]


def by_hand(tokens: int) -> Budget:
    """Return a budget as the user set it. Raises UsageError where it is below 1."""
    if tokens < 1:
        raise UsageError(f"The budget of a forward must be at least 1 token, not {tokens}.")
    return Budget(tokens, {})


def measure(model: PreTrainedModel, *, clock: Callable[[], float] = time.perf_counter) -> Budget:
    """Return the budget for ``model`` where it lies now: a dozen short forward passes."""
    forward = TreeForward(model)
    asked = Asked([0] * _CONTEXT, PrefixTree(NoConstraint()))
    forward.score([Part(asked, _CONTEXT, [])])
    taken: dict[int, float] = {}
    for width in WIDTHS:
        nodes = [Node(number, 0, 0, 1) for number in range(1, width + 1)]
        taken[width] = 1_000 * min(_timed(forward, asked, nodes, clock) for _ in range(_REPEATS))
        if width > min(FORWARDS) and _cost(taken, width) > 2 * _cost(taken, min(FORWARDS)):
            break  # wider ones cannot pay any more
    forward.cache.clear()
    return Budget(choose(taken), taken)


def choose(milliseconds: Mapping[int, float]) -> int:
    """Return the width that serves best, given what forward passes of 1 token and of widths took."""
    limit = NEARLY_FREE * milliseconds[1]
    widths = [width for width in milliseconds if width in FORWARDS]
    free = max((width for width in widths if milliseconds[width] <= limit), default=1)
    costs = {width: _cost(milliseconds, width) for width in widths}
    return max(free, max(width for width in widths if costs[width] <= CLOSE * min(costs.values())))


def _cost(milliseconds: Mapping[int, float], width: int) -> float:
    return milliseconds[width] * FORWARDS[width]


def _timed(
    forward: TreeForward, asked: Asked, nodes: list[Node], clock: Callable[[], float]
) -> float:
    began = clock()
    columns = forward.cache.take(len(nodes))
    packed = Packed([Part(asked, 0, nodes)], columns)
    forward.cache.aim(columns, forward.model.device)
    forward.run(packed)[:, 0].cpu()  # waits for the device
    forward.cache.give_back(columns)
    return clock() - began

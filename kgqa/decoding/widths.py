"""How many tokens a forward pass should take, by the measured time of passes of several widths.

More look-ahead needs fewer passes, each of which takes longer. The width is the largest at which
time times needed passes is close to its least, and at least what costs 1.3 times a single token.
Where questions share a pass, each one's part is chosen in the same way by the time of the whole.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

NEARLY_FREE = 1.3  # times a forward pass of one token
CLOSE = 1.1  # times the least cost; below that, measured times justify no more forward passes
# Forward passes a question by budget, K = 10, over the two-hop tries of real question graphs; only
# their ratios matter. No budget below 16: a wave holds what is demanded, about K tokens, anyway.
FORWARD_PASSES: Mapping[int, float] = {
    16: 21.6,
    32: 14.4,
    64: 9.8,
    96: 7.9,
    128: 6.4,
    256: 4.7,
    512: 3.4,
}


def choose(milliseconds: Mapping[int, float]) -> int:
    """Return the width of a look-ahead pass that makes searches fastest.

    ``milliseconds``: of a pass, by its width in tokens.
    """
    limit = NEARLY_FREE * milliseconds[1]
    widths = [width for width in milliseconds if width in FORWARD_PASSES]
    free = max((width for width in widths if milliseconds[width] <= limit), default=1)
    costs = {width: cost(milliseconds, width) for width in widths}
    return max(free, max(width for width in widths if costs[width] <= CLOSE * min(costs.values())))


def cost(milliseconds: Mapping[int, float], width: int) -> float:
    """Return the relative cost of a search with passes of ``width`` tokens."""
    return milliseconds[width] * FORWARD_PASSES[width]


def part_of(milliseconds: Mapping[int, float], questions: int) -> int:
    """Return the tokens of each of ``questions`` that share a pass, so that all end soonest.

    ``milliseconds``: of a pass, by its width in tokens.
    """
    costs = {
        width: _time(milliseconds, questions * width) * passes
        for width, passes in FORWARD_PASSES.items()
    }
    return max(width for width in costs if costs[width] <= CLOSE * min(costs.values()))


def _time(milliseconds: Mapping[int, float], width: int) -> float:
    """Return the time of a pass of any width: between two measured ones, or beyond the last."""
    widths = sorted(milliseconds)
    above = bisect_left(widths, width)
    if above == len(widths):  # arithmetic alone: every token costs the same
        return milliseconds[widths[-1]] * width / widths[-1]
    if above == 0:
        return milliseconds[widths[0]]
    low, high = widths[above - 1], widths[above]
    part = (width - low) / (high - low)
    return milliseconds[low] + part * (milliseconds[high] - milliseconds[low])

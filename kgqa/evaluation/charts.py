"""Charts of a run as SVG: scores with their intervals, and how far confidences can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kgqa.display import as_html

if TYPE_CHECKING:
    from collections.abc import Sequence

BINS = 10
_SIDE = 260  # pixels of the plot of confidences
_LEFT, _WIDE, _ROW = 180, 420, 26  # of the bars


class Bin(NamedTuple):
    """The questions whose confidence is in one step; ``right`` and ``confidence`` are means."""

    questions: int
    confidence: float
    right: float


def calibration(confident: Sequence[tuple[float, bool]]) -> tuple[list[Bin], float]:
    """Return the bins that hold questions and the expected calibration error, in 0..1.

    ``confident``: each question's confidence, and whether its first answer is right.
    """
    bins = []
    for at in range(BINS):
        inside = [one for one in confident if min(int(one[0] * BINS), BINS - 1) == at]
        if inside:
            means = [sum(column) / len(inside) for column in zip(*inside, strict=True)]
            bins.append(Bin(len(inside), *means))
    off = sum(one.questions * abs(one.confidence - one.right) for one in bins)
    return bins, off / max(len(confident), 1)


def score_chart(rows: Sequence[tuple[str, float, Sequence[float] | None]]) -> str:
    """Return bars of (name, per cent, 95 % interval or None), the interval as a line."""
    parts = [_svg(_LEFT + _WIDE + 60, len(rows) * _ROW)]
    for at, (name, value, interval) in enumerate(rows):
        y = at * _ROW
        end = _LEFT + value / 100 * _WIDE
        parts.append(
            f'<text x="{_LEFT - 10}" y="{y + 17}" text-anchor="end">{as_html(name)}</text>'
            f'<rect class="fill" x="{_LEFT}" y="{y + 5}" width="{end - _LEFT:.1f}" height="16"/>'
            f'<text x="{_LEFT + _WIDE + 10}" y="{y + 17}">{value:.1f}</text>'
        )
        if interval is not None:
            low, high = (_LEFT + one / 100 * _WIDE for one in interval)
            parts.append(
                f'<path class="line" d="M{low:.1f} {y + 13}H{high:.1f}M{low:.1f} {y + 9}v8'
                f'M{high:.1f} {y + 9}v8"/>'
            )
    return "".join([*parts, "</svg>"])


def calibration_chart(bins: Sequence[Bin]) -> str:
    """Return a plot of what was right against what was believed; a dot's area is its questions."""
    most = max(one.questions for one in bins)
    parts = [
        _svg(_SIDE + 60, _SIDE + 50, "-45 -10"),
        f'<path class="line" d="M0 0V{_SIDE}H{_SIDE}"/>'
        f'<path class="weak line" stroke-dasharray="4" d="M0 {_SIDE}L{_SIDE} 0"/>'
        f'<text x="{_SIDE / 2}" y="{_SIDE + 32}" text-anchor="middle">confidence</text>'
        f'<text transform="translate(-32 {_SIDE / 2}) rotate(-90)" text-anchor="middle">'
        "Hits@1</text>",
    ]
    for share in (0, 50, 100):
        at = share / 100 * _SIDE
        parts.append(
            f'<text x="{at}" y="{_SIDE + 16}" text-anchor="middle">{share}</text>'
            f'<text x="-6" y="{_SIDE - at + 4}" text-anchor="end">{share}</text>'
        )
    parts += [
        f'<circle class="fill" cx="{one.confidence * _SIDE:.1f}" '
        f'cy="{(1 - one.right) * _SIDE:.1f}" r="{3 + 13 * (one.questions / most) ** 0.5:.1f}">'
        f"<title>{one.questions} questions, confidence {100 * one.confidence:.0f} %, "
        f"right {100 * one.right:.0f} %</title></circle>"
        for one in bins
    ]
    return "".join([*parts, "</svg>"])


def _svg(width: int, height: int, corner: str = "0 0") -> str:
    return (
        f'<svg role="img" width="{width}" height="{height}" viewBox="{corner} {width} {height}" '
        'font-size="12" fill="currentColor">'
    )

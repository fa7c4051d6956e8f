"""Bars and histograms as inline SVG, drawn from numbers alone.

Each plot carries its numbers as text, so that it can be read without seeing it. What it does not
do: choose what is drawn.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH = 640
_LEFT = 150  # room for a bar's label
_RIGHT = 110  # and for its number
_ROW = 26
_LETTERS = 22  # of a label that fit
_BINS = 30


def bars(
    title: str,
    rows: Sequence[tuple[str, float, str, Sequence[float] | None]],
    most: float | None = None,
) -> str:
    """Return horizontal bars.

    A row is (label, value, what stands beside it, (low, high) or None); ``most`` is the value of a
    full bar, by default the greatest.
    """
    full = most or max((value for _, value, _, _ in rows), default=0.0) or 1.0
    wide = _WIDTH - _LEFT - _RIGHT
    height = _ROW * len(rows) + 6
    parts = []
    for number, (label, value, beside, between) in enumerate(rows):
        top = 3 + number * _ROW
        middle = top + _ROW / 2
        length = wide * min(1.0, value / full)
        parts.append(
            f'<text x="{_LEFT - 8}" y="{middle + 4:.1f}" class="end">{_label(label)}</text>'
            f'<rect x="{_LEFT}" y="{top + 4}" width="{length:.1f}" height="{_ROW - 8}"/>'
        )
        if between is not None:
            low, high = (_LEFT + wide * min(1.0, one / full) for one in between)
            parts.append(
                f'<path class="whisker" d="M{low:.1f} {middle:.1f}H{high:.1f}M{low:.1f} '
                f'{middle - 4:.1f}v8M{high:.1f} {middle - 4:.1f}v8"/>'
            )
        parts.append(
            f'<text x="{_WIDTH - _RIGHT + 8}" y="{middle + 4:.1f}">{escape(beside)}</text>'
        )
    said = "; ".join(f"{label} {beside}" for label, _, beside, _ in rows)
    return _svg(title, said, height, parts)


def histogram(title: str, values: Sequence[float], unit: str) -> str:
    """Return how many of ``values`` (none negative) fall into each of equal steps, as columns.

    The 1 % greatest go into the last column, so that one straggler does not flatten the rest.
    """
    if not len(values):
        return ""
    end = float(np.quantile(values, 0.99)) or 1.0
    counts, edges = np.histogram(np.minimum(values, end), bins=_BINS, range=(0.0, end))
    base, left = 150, 50
    wide = (_WIDTH - left - 20) / _BINS
    tallest = int(counts.max())
    parts = [
        f'<rect x="{left + number * wide:.1f}" y="{base - 130 * count / tallest:.1f}" '
        f'width="{wide - 1:.1f}" height="{130 * count / tallest:.1f}">'
        f"<title>{edges[number]:.2f} to {edges[number + 1]:.2f} {escape(unit)}: {count}</title>"
        "</rect>"
        for number, count in enumerate(counts.tolist())
        if count
    ]
    parts.append(f'<path class="axis" d="M{left} {base}H{_WIDTH - 20}"/>')
    parts.append(f'<text x="{left - 8}" y="24" class="end">{tallest}</text>')
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        place = left + share * _BINS * wide
        parts.append(
            f'<text x="{place:.1f}" y="{base + 18}" class="middle">{share * end:.2f}</text>'
        )
    half, most = np.quantile(values, (0.5, 0.95))
    said = f"half of them at most {half:.2f} {unit}, 95 % at most {most:.2f} {unit}"
    return _svg(title, said, base + 26, parts)


def _label(text: str) -> str:
    if len(text) <= _LETTERS:
        return escape(text)
    return f"<title>{escape(text)}</title>{escape(text[: _LETTERS - 1])}…"


def _svg(title: str, said: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(f"{title}: {said}", quote=True)}">{"".join(parts)}</svg>'
    )

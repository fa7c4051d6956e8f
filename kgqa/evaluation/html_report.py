"""A run's report as one HTML file: no script, no font, no picture from elsewhere.

Bars are inline SVG, with their numbers as text, so that they can be read without seeing them.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.evaluation.record import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kgqa.evaluation.record import Record

_PATHS = 5  # of a failure
_NAMES = 10

_WIDTH = 640  # of a plot
_LEFT = 150  # for a bar's label
_RIGHT = 110  # and for its number
_ROW = 26
_LETTERS = 22  # of a label that fit
_BINS = 12

_STYLE = """
:root{color-scheme:light dark;--bar:#2f6f9f;--line:#8886;--weak:#777}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 0}
td,th{padding:.2rem .8rem .2rem 0;text-align:left;border-bottom:1px solid var(--line)}
svg{width:100%;max-width:640px;height:auto;font-size:13px}
svg rect{fill:var(--bar)}svg text{fill:currentColor}
.end{text-anchor:end}
.whisker{stroke:currentColor;fill:none}
details{border-bottom:1px solid var(--line);padding:.3rem 0}
code{overflow-wrap:anywhere}.weak{color:var(--weak)}
"""


def html_page(
    figures: Mapping[str, Any],
    records: Sequence[Record],
    failures: Sequence[Record],
    settings: Mapping[str, Any],
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[object]]]],
    times: str,
) -> str:
    """Return the page; ``tables`` are (title, heads, rows), ``times`` says how long it took."""
    title = f"{figures['method']} on {settings.get('file') or figures['format']}"
    seconds = [one.seconds for one in records if one.answered and one.seconds is not None]
    failed = [
        (one.value, float(count), str(count), None)
        for one in Outcome
        if (count := figures["outcomes"].get(one.value)) and one is not Outcome.RIGHT
    ]
    plots = {
        "Where questions ended": bars("Where questions failed", failed),
        "By hop": _part_bars("Hits@1 by hop", figures["by_hop"]),
        "By type": _part_bars("Hits@1 by type", figures["by_type"]),
    }
    parts = [
        f"<h1>{_text(title)}</h1>",
        f"<p>{figures['questions']} questions, {figures['answered']} answered; KG "
        f"<b>{_text(figures['kg'])}</b>. Figures are percentages over all questions, with 95 % "
        "bootstrap intervals.</p>",
    ]
    for heading, heads, rows in tables:
        parts += [f"<h2>{_text(heading)}</h2>", _table(heads, rows), plots.get(heading, "")]
    if seconds:
        parts += [
            "<h2>Seconds a question</h2>",
            histogram("Seconds a question", seconds, "s"),
            f"<p>{_text(times)}</p>",
        ]
    if failures:
        parts.append(f"<h2>The worst {len(failures)} failures</h2>")
        parts += [_failure(one) for one in failures]
    shown = [(name, value) for name, value in settings.items() if value is not None]
    parts += ["<h2>Settings</h2>", _table(("setting", "value"), shown)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def bars(
    title: str,
    rows: Sequence[tuple[str, float, str, Sequence[float] | None]],
    most: float | None = None,
) -> str:
    """Return horizontal bars, an empty text for no rows.

    A row is (label, value, what stands beside it, (low, high) or None); ``most`` is the value of a
    full bar, by default the greatest.
    """
    if not rows:
        return ""
    full = most or max(value for _, value, _, _ in rows) or 1.0
    wide = _WIDTH - _LEFT - _RIGHT
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
    in_words = "; ".join(f"{label} {beside}" for label, _, beside, _ in rows)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_ROW * len(rows) + 6}" role="img" '
        f'aria-label="{escape(f"{title}: {in_words}", quote=True)}">{"".join(parts)}</svg>'
    )


def histogram(title: str, values: Sequence[float], unit: str) -> str:
    """Return how many of ``values`` (none negative) fall into each of equal steps, as bars.

    The 1 % greatest go into the last step, so that one straggler does not flatten the rest.
    """
    if not len(values):
        return ""
    end = float(np.quantile(values, 0.99)) or 1.0
    counts, edges = np.histogram(np.minimum(values, end), bins=_BINS, range=(0.0, end))
    steps = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return bars(
        title,
        [
            (f"{low:.2f} to {high:.2f} {unit}", count, str(count), None)
            for low, high, count in steps
        ],
    )


def _text(value: object) -> str:
    return escape(str(value), quote=True)


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{_text(one)}</th>" for one in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _part_bars(title: str, parts: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        (name, one["hits_at_1"], f"{one['hits_at_1']:.1f} % of {one['questions']}", one["interval"])
        for name, one in parts.items()
    ]
    return bars(title, rows, most=100.0)


def _failure(one: Record) -> str:
    paths = "".join(
        f'<li><code>{_text(path["text"])}</code> <span class="weak">{path["score"]:.2f}</span></li>'
        for path in one.paths[:_PATHS]
    )
    gold = "".join(f"<li><code>{_text(path)}</code></li>" for path in one.gold_relation_paths[:3])
    return (
        f"<details><summary>{_text(one.question or one.id)} "
        f'<span class="weak">{_text(one.outcome)}</span></summary>'
        f"<p>Wanted: {_text(', '.join(one.gold_names[:_NAMES])) or '–'}<br>"
        f"Given: {_text(', '.join(one.answers[:_NAMES])) or '–'}"
        + (f"<br>{_text(one.error)}" if one.error else "")
        + f'<br><span class="weak">{_text(one.id)}</span></p>'
        + (f"<p>Gold relation paths</p><ul>{gold}</ul>" if gold else "")
        + (f"<p>Paths</p><ol>{paths}</ol>" if paths else "")
        + "</details>"
    )


def _label(text: str) -> str:
    if len(text) <= _LETTERS:
        return escape(text)
    return f"<title>{escape(text)}</title>{escape(text[: _LETTERS - 1])}…"

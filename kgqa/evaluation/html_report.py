"""A run's report as one HTML file: no script, font or picture from elsewhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kgqa.evaluation.record import Record

_PATHS = 5  # of a failure
_NAMES = 10
_STEPS = 12  # into which seconds fall

_STYLE = """
:root{color-scheme:light dark;--bar:#2f6f9f66;--line:#8886;--weak:#777}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 0}
td,th{padding:.2rem .8rem .2rem 0;text-align:left;border-bottom:1px solid var(--line)}
.bar{min-width:12rem;padding-left:.4rem}
.bar{background:linear-gradient(90deg,var(--bar) var(--wide),transparent var(--wide))}
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
    parts = [
        f"<h1>{_text(title)}</h1>",
        f"<p>{figures['questions']} questions, {figures['answered']} answered; KG "
        f"<b>{_text(figures['kg'])}</b>. Figures are percentages over all questions, with 95 % "
        "bootstrap intervals.</p>",
    ]
    for heading, heads, rows in tables:
        parts += [f"<h2>{_text(heading)}</h2>", table(heads, rows)]
    seconds = [one.seconds for one in records if one.answered and one.seconds is not None]
    if seconds:
        parts += [
            "<h2>Seconds a question</h2>",
            table(("seconds", "questions", "%"), histogram(seconds)),
            f"<p>{_text(times)}</p>",
        ]
    if failures:
        parts.append(f"<h2>The worst {len(failures)} failures</h2>")
        parts += [_failure(one) for one in failures]
    shown = [(name, value) for name, value in settings.items() if value is not None]
    parts += ["<h2>Settings</h2>", table(("setting", "value"), shown)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table; the columns ``%`` and ``Hits@1`` are percentages, drawn as bars."""
    head = "".join(f"<th>{_text(one)}</th>" for one in heads)
    body = "".join(
        f"<tr>{''.join(_cell(one, cell) for one, cell in zip(heads, row, strict=True))}</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def histogram(values: Sequence[float]) -> list[tuple[str, str, str]]:
    """Return (from and to, how many, percent) of equal steps; the top 1 % are in the last."""
    end = float(np.quantile(values, 0.99)) or 1.0
    counts, edges = np.histogram(np.minimum(values, end), bins=_STEPS, range=(0.0, end))
    return [
        (f"{low:.2f} to {high:.2f}", str(count), f"{100 * count / len(values):.1f}")
        for low, high, count in zip(edges[:-1], edges[1:], counts.tolist(), strict=True)
    ]


def _text(value: object) -> str:
    return escape(str(value), quote=True)


def _cell(head: str, value: object) -> str:
    if head in ("%", "Hits@1"):
        return f'<td class="bar" style="--wide:{float(str(value)):.1f}%">{_text(value)}</td>'
    return f"<td>{_text(value)}</td>"


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

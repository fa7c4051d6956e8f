"""A run's report as one HTML file: no script, no font, no picture from elsewhere.

What it does not do: compute figures, or write the file.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from kgqa.evaluation.html_plots import bars, histogram
from kgqa.evaluation.metrics_paths import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kgqa.evaluation.report_record import Record

_PATHS = 5  # of a failure
_NAMES = 10

_STYLE = """
:root{color-scheme:light dark;--bar:#2f6f9f;--line:#8886;--weak:#777}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 0}
td,th{padding:.2rem .8rem .2rem 0;text-align:left;border-bottom:1px solid var(--line)}
svg{width:100%;max-width:640px;height:auto;font-size:13px}
svg rect{fill:var(--bar)}svg text{fill:currentColor}
.end{text-anchor:end}.middle{text-anchor:middle}
.whisker,.axis{stroke:currentColor;fill:none}
details{border-bottom:1px solid var(--line);padding:.3rem 0}
code{overflow-wrap:anywhere}.weak{color:var(--weak)}
"""


def html_report(
    figures: Mapping[str, Any],
    records: Sequence[Record],
    failures: Sequence[Record],
    settings: Mapping[str, Any],
    tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[object]]]],
) -> str:
    """Return the page; ``tables`` maps a heading to its heads and rows."""
    title = f"{figures['method']} on {settings.get('file', figures['format'])}"
    seconds = [one.seconds for one in records if one.answered and one.seconds is not None]
    parts = [
        f"<h1>{_text(title)}</h1>",
        f"<p>{figures['questions']} questions, {figures['answered']} answered; KG "
        f"<b>{_text(figures['kg'])}</b>. Figures are percentages over all questions, with 95 % "
        "bootstrap intervals.</p>",
    ]
    for heading, (heads, rows) in tables.items():
        parts += [f"<h2>{_text(heading)}</h2>", _table(heads, rows)]
        if heading == "Where questions ended":
            parts.append(_outcomes(figures))
    parts += ["<h2>Hits@1 by hop</h2>", _parts("Hits@1 by hop", figures["by_hop"])]
    if figures["by_type"]:
        parts += ["<h2>Hits@1 by type</h2>", _parts("Hits@1 by type", figures["by_type"])]
    if seconds:
        parts += [
            "<h2>Seconds a question</h2>",
            histogram("Seconds a question", seconds, "s"),
            f"<p>Half took {figures['seconds']['p50']:.2f} s or less, 95 % "
            f"{figures['seconds']['p95']:.2f} s or less.</p>",
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


def _text(value: object) -> str:
    return escape(str(value), quote=True)


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{_text(one)}</th>" for one in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _outcomes(figures: Mapping[str, Any]) -> str:
    rows = [
        (one.value, float(count), str(count), None)
        for one in Outcome
        if (count := figures["outcomes"].get(one.value)) and one is not Outcome.RIGHT
    ]
    return bars("Where questions failed", rows) if rows else ""


def _parts(title: str, parts: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        (
            name,
            part["hits_at_1"],
            f"{part['hits_at_1']:.1f} % of {part['questions']}",
            part["interval"],
        )
        for name, part in parts.items()
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

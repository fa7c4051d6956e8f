"""A run's figures as tables for the terminal, as Markdown, and as one HTML file by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.display import as_html, visible
from kgqa.errors import UsageError
from kgqa.evaluation.charts import calibration, calibration_chart, score_chart
from kgqa.evaluation.record import Outcome
from kgqa.graph.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kgqa.evaluation.record import Record

WORST = 50  # failures that a report shows
TITLES = {
    "hits_at_1": "Hits@1",
    "hit_at_k": "Hit@K",
    "mrr": "MRR",
    "accuracy": "accuracy of choices",
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "path_recall": "path recall",
    "reachable": "reachable",
    "hit": "Hit as GCR counts it",
    "grounded_paths": "grounded paths",
    "faithful_of_correct": "grounded of correct",
}
GLOSSARY = {
    "Hits@1": "the first answer is right, compared by id.",
    "Hit@K": "a right answer is among the first K.",
    "MRR": "one divided by the rank of the first right answer.",
    "F1, precision, recall": "of the answers given, for each question, then the mean.",
    "Hit as GCR counts it": "a right answer occurs in the text of any answer given.",
    "GCR …, RoG …": "scores as the published programs count them: by text, and higher.",
    "grounded paths": "the share of the paths shown that are in the graph.",
    "grounded of correct": "of the questions with a right answer, those with a path in the graph.",
    "reachable": "some path leads from a topic entity to a right answer.",
    "path recall": "gold relation paths that are among those found.",
    "confidence": "how likely the method believes its first answer to be right.",
    "calibration error": "the mean distance from the confidence to what was right, over ten steps.",
    "95 % interval": "by bootstrap over the questions.",
    "wrong relation": "the first path's relations lead to no right answer.",
    "wrong tail": "they lead to a right answer, but another of their ends was taken.",
    "wrong answer": "the first path ends in a right answer, and another answer was put first.",
    "answered in vain": "the graph has no answer, and one was given.",
}
"""What the words of a report mean."""
_CHARTED = ("hits_at_1", "hit_at_k", "f1", "accuracy", "grounded_paths", "reachable")
_LINKING = {
    "first": "linking: given entity first",
    "in_linked": "linking: given entity among the linked",
    "all_linked": "linking: all given entities linked",
    "in_five": "linking: given entity in the first five",
}
_TRIPLETS = {
    "f1": "triplets: F1",
    "precision": "triplets: precision",
    "recall": "triplets: recall",
    "ill": "triplets: ill",
}
_PART = ("questions", "Hits@1", "95 % interval", "Hit@K", "F1")


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of a report; every row has a text for each of ``heads``."""

    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def figure_tables(figures: Mapping[str, Any]) -> list[ReportTable]:
    """Return the tables of a run: scores, by hop, by type (if there are types), and outcomes."""
    heads = ("figure", "%", "95 % interval")
    tables = [
        ReportTable("Scores", heads, figure_rows(figures)),
        ReportTable("By hop", ("hops", *_PART), _part_rows(figures["by_hop"])),
        ReportTable("By type", ("type", *_PART), _part_rows(figures["by_type"])),
        ReportTable(
            "Where questions ended",
            ("outcome", "questions", "%"),
            [
                (one.value, str(count), f"{100 * count / figures['questions']:.1f}")
                for one in Outcome
                if (count := figures["outcomes"].get(one.value))
            ],
        ),
    ]
    return [one for one in tables if one.rows]


def figure_rows(figures: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return (figure, percent, 95 % interval) of every figure that the run has."""
    linking, triplets = figures.get("linking") or {}, figures.get("triplets") or {}
    rows = _rows(TITLES, figures)
    rows += [
        (f"{'GCR' if family == 'gcr' else 'RoG'} {name}", f"{value:.1f}", "")
        for family, scores in figures["legacy"].items()
        for name, value in scores.items()
        if (family, name) != ("gcr", "hit")
    ]
    return [*rows, *_rows(_LINKING, linking), *_rows(_TRIPLETS, triplets)]


def time_sentence(figures: Mapping[str, Any]) -> str:
    """Return how long questions took, empty if none was answered."""
    seconds = figures["seconds"]
    if seconds["p50"] is None:
        return ""
    return (
        f"Half of the questions took {seconds['p50']:.2f} s or less, 95 % "
        f"{seconds['p95']:.2f} s or less."
    )


def worst(records: Sequence[Record]) -> list[Record]:
    """Return the failures that are furthest off, in the order of ``records``.

    Those are the ones without a right answer, of them those of the lowest F1, the surest first.
    """
    failed = [at for at, one in enumerate(records) if one.outcome != Outcome.RIGHT]
    failed.sort(
        key=lambda at: (
            records[at].hit_at_k,
            records[at].f1,
            records[at].outcome in (Outcome.MALFORMED, Outcome.UNANSWERABLE),
            -(records[at].paths[0]["score"] if records[at].paths else -1e9),
            records[at].id,
        ),
    )
    return [records[at] for at in sorted(failed[:WORST])]


def markdown(
    figures: Mapping[str, Any], records: Sequence[Record], settings: Mapping[str, Any]
) -> str:
    """Return the report of a run as Markdown."""
    lines = [
        f"# {_cell(figures['method'])} on {_cell(settings.get('file') or figures['format'])}",
        "",
        f"{figures['questions']} questions, {figures['answered']} answered; KG "
        f"`{_cell(figures['kg'])}`. Figures are percentages over all questions. "
        f"{time_sentence(figures)}",
        *_table(("setting", "value"), [(k, v) for k, v in settings.items() if v is not None]),
    ]
    for table in figure_tables(figures):
        lines += [f"## {table.title}", *_table(table.heads, table.rows)]
    shown = worst(records)
    if shown:
        lines += [f"## The worst {len(shown)} failures", ""]
    for one in shown:
        lines += [
            f"- **{_cell(one.question or one.id)}** (`{_cell(one.id)}`, {one.outcome})",
            f"  - wanted: {_cell(', '.join(one.gold_names[:5])) or '–'}",
            f"  - given: {_cell(', '.join(one.answers[:5])) or _cell(one.error) or '–'}",
            *(f"  - `{_cell(_path_text(path))}` ({path['score']:.2f})" for path in one.paths[:3]),
        ]
    return "\n".join(lines).rstrip() + "\n"


def write_reports(
    folder: Path,
    figures: Mapping[str, Any],
    records: Sequence[Record],
    settings: Mapping[str, Any],
) -> tuple[Path, Path]:
    """Write ``report.md`` and ``report.html``; return their paths. Raises UsageError."""
    texts = {
        "report.md": markdown(figures, records, settings),
        "report.html": html_page(figures, records, settings),
    }
    for name, text in texts.items():
        try:
            write_whole(folder / name, text.encode("utf-8", "replace"))
        except OSError as error:
            raise UsageError(
                f"The report {folder / name} cannot be written: {error.strerror or error}.",
                "Name another folder with `out`.",
            ) from None
    return folder / "report.md", folder / "report.html"


def _rows(titles: Mapping[str, str], figures: Mapping[str, Any]) -> list[tuple[str, ...]]:
    intervals = figures.get("intervals") or {}
    return [
        (title, f"{figures[name]:.1f}", _between(intervals.get(name)))
        for name, title in titles.items()
        if figures.get(name) is not None
    ]


def _part_rows(parts: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    return [
        (
            name,
            str(part["questions"]),
            f"{part['hits_at_1']:.1f}",
            _between(part["interval"]),
            f"{part['hit_at_k']:.1f}",
            f"{part['f1']:.1f}",
        )
        for name, part in parts.items()
    ]


def _between(interval: Sequence[float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.1f} to {interval[1]:.1f}"


def _path_text(path: Mapping[str, Any]) -> str:
    """Return a path's text, with marks inside names escaped if there are any."""
    return str(path.get("shown", path["text"]))


def _cell(value: object) -> str:
    text = visible(" ".join(str(value).split()))
    for mark in "\\|`*<[":
        text = text.replace(mark, "\\" + mark)
    return text


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    return [
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
        *(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows),
        "",
    ]


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
svg{max-width:100%}svg .fill{fill:var(--bar)}svg .line{fill:none;stroke:currentColor}
dt{font-weight:600}dd{margin:0 0 .4rem}
"""


def html_page(
    figures: Mapping[str, Any], records: Sequence[Record], settings: Mapping[str, Any]
) -> str:
    """Return the report of a run as one HTML file: no script, font or picture from elsewhere."""
    title = f"{figures['method']} on {settings.get('file') or figures['format']}"
    parts = [
        f"<h1>{as_html(title)}</h1>",
        f"<p>{figures['questions']} questions, {figures['answered']} answered; KG "
        f"<b>{as_html(figures['kg'])}</b>. Figures are percentages over all questions, with 95 % "
        "bootstrap intervals.</p>",
    ]
    parts += _charts(figures, records)
    for one in figure_tables(figures):
        parts += [f"<h2>{as_html(one.title)}</h2>", table(one.heads, one.rows)]
    seconds = [one.seconds for one in records if one.answered and one.seconds is not None]
    if seconds:
        parts += [
            "<h2>Seconds a question</h2>",
            table(("seconds", "questions", "%"), histogram(seconds)),
            f"<p>{as_html(time_sentence(figures))}</p>",
        ]
    if failures := worst(records):
        parts.append(f"<h2>The worst {len(failures)} failures, in the order of the file</h2>")
        parts += [_failure(one) for one in failures]
    shown = [(name, value) for name, value in settings.items() if value is not None]
    parts += ["<h2>Settings</h2>", table(("setting", "value"), shown)]
    words = "".join(f"<dt>{as_html(a)}</dt><dd>{as_html(b)}</dd>" for a, b in GLOSSARY.items())
    parts += ["<h2>Glossary</h2>", f"<dl>{words}</dl>"]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{as_html(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _charts(figures: Mapping[str, Any], records: Sequence[Record]) -> list[str]:
    """Return the scores as bars, and confidences against what was right, if there are any."""
    intervals = figures.get("intervals") or {}
    scores = [
        (TITLES[name], figures[name], intervals.get(name))
        for name in _CHARTED
        if figures.get(name) is not None
    ]
    parts = [score_chart(scores)]
    confident = [
        (one.confidence, one.hits_at_1 == 1.0) for one in records if one.confidence is not None
    ]
    if confident:
        bins, error = calibration(confident)
        parts += [
            "<h2>Confidence</h2>",
            calibration_chart(bins),
            f"<p>{len(confident)} questions have a confidence. On the dashed line it is what came "
            f"true: below it the method is too sure. Expected calibration error: {error:.2f}.</p>",
        ]
    return parts


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table; the columns ``%`` and ``Hits@1`` are percentages, drawn as bars."""
    head = "".join(f"<th>{as_html(one)}</th>" for one in heads)
    body = "".join(
        f"<tr>{''.join(_html_cell(one, cell) for one, cell in zip(heads, row, strict=True))}</tr>"
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


def _html_cell(head: str, value: object) -> str:
    if head in ("%", "Hits@1"):
        return f'<td class="bar" style="--wide:{float(str(value)):.1f}%">{as_html(value)}</td>'
    return f"<td>{as_html(value)}</td>"


def _failure(one: Record) -> str:
    paths = "".join(
        f"<li><code>{as_html(_path_text(path))}</code> "
        f'<span class="weak">{path["score"]:.2f}</span></li>'
        for path in one.paths[:_PATHS]
    )
    gold = "".join(f"<li><code>{as_html(path)}</code></li>" for path in one.gold_relation_paths[:3])
    return (
        f"<details><summary>{as_html(one.question or one.id)} "
        f'<span class="weak">{as_html(one.outcome)}</span></summary>'
        f"<p>Wanted: {as_html(', '.join(one.gold_names[:_NAMES])) or '–'}<br>"
        f"Given: {as_html(', '.join(one.answers[:_NAMES])) or '–'}"
        + (f"<br>{as_html(one.error)}" if one.error else "")
        + f'<br><span class="weak">{as_html(one.id)}</span></p>'
        + (f"<p>Gold relation paths</p><ul>{gold}</ul>" if gold else "")
        + (f"<p>Paths</p><ol>{paths}</ol>" if paths else "")
        + "</details>"
    )

"""A run's figures as rows of a table, and as Markdown; the two files a run's folder ends with.

What it does not do: compute figures (``metrics_summary``) or draw (``html_report``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgqa.errors import UsageError
from kgqa.evaluation.html_report import html_report
from kgqa.evaluation.metrics_linking import TITLES as LINKING_TITLES
from kgqa.evaluation.metrics_paths import Outcome
from kgqa.evaluation.metrics_triplets import TITLES as TRIPLET_TITLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kgqa.evaluation.compare import Comparison
    from kgqa.evaluation.report_record import Record

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


def figure_rows(figures: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return (figure, percent, 95 % interval) of every figure that the run has."""
    rows = []
    for name, title in TITLES.items():
        value = figures.get(name)
        if value is not None:
            between = figures["intervals"].get(name)
            rows.append((title, f"{value:.1f}", _between(between)))
    rows += [
        (f"{family.upper() if family == 'gcr' else 'RoG'} {name}", f"{value:.1f}", "")
        for family, scores in figures["legacy"].items()
        for name, value in scores.items()
        if (family, name) != ("gcr", "hit")
    ]
    linking = figures.get("linking")
    if linking:
        rows += [
            (title, f"{linking[name]:.1f}", _between(linking["intervals"][name]))
            for name, title in LINKING_TITLES.items()
        ]
    triplets = figures.get("triplets") or {}
    rows += [
        (title, f"{triplets[name]:.1f}", "")
        for name, title in TRIPLET_TITLES.items()
        if triplets.get(name) is not None
    ]
    return rows


def part_rows(parts: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return (hop or type, questions, Hits@1, 95 % interval, Hit@K, F1) of each part."""
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


def outcome_rows(figures: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return (outcome, questions, percent) in the order of the stages."""
    total = figures["questions"]
    return [
        (one.value, str(count), f"{100 * count / total:.1f}")
        for one in Outcome
        if (count := figures["outcomes"].get(one.value))
    ]


def comparison_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return (figure, A, B, B - A, 95 % interval, better, worse, p) of each difference."""
    return [
        (
            TITLES.get(one.figure, one.figure),
            f"{one.a:.1f}",
            f"{one.b:.1f}",
            f"{one.difference:+.1f}",
            f"{one.low:+.1f} to {one.high:+.1f}",
            str(one.better),
            str(one.worse),
            "< 0.0001" if one.p_value < 0.0001 else f"{one.p_value:.4f}",
        )
        for one in comparison.differences
    ]


def worst(records: Sequence[Record], number: int = WORST) -> list[Record]:
    """Return the failures that are furthest off: nothing right first, the surest of them first."""
    failed = [one for one in records if one.outcome != Outcome.RIGHT.value]
    return sorted(
        failed,
        key=lambda one: (
            one.hit_at_k,
            one.f1,
            one.outcome in (Outcome.MALFORMED.value, Outcome.NO_GOLD.value),
            -(one.paths[0]["score"] if one.paths else -1e9),
            one.id,
        ),
    )[:number]


def markdown(
    figures: Mapping[str, Any], records: Sequence[Record], settings: Mapping[str, Any]
) -> str:
    """Return the report of a run as Markdown."""
    seconds = figures["seconds"]
    lines = [
        f"# {figures['method']} on {_cell(settings.get('file', figures['format']))}",
        "",
        f"{figures['questions']} questions, {figures['answered']} answered; KG "
        f"`{figures['kg']}`. Figures are percentages over all questions.",
        *_table(("setting", "value"), [(k, v) for k, v in settings.items() if v is not None]),
        "## Scores",
        *_table(("figure", "%", "95 % interval"), figure_rows(figures)),
    ]
    heads = ("questions", "Hits@1", "95 % interval", "Hit@K", "F1")
    lines += ["## By hop", *_table(("hops", *heads), part_rows(figures["by_hop"]))]
    if figures["by_type"]:
        lines += ["## By type", *_table(("type", *heads), part_rows(figures["by_type"]))]
    if seconds["p50"] is not None:
        lines += [
            "## Time",
            "",
            f"Half of the questions took {seconds['p50']:.2f} s or less, 95 % "
            f"{seconds['p95']:.2f} s or less.",
            "",
        ]
    lines += [
        "## Where questions ended",
        *_table(("outcome", "questions", "%"), outcome_rows(figures)),
    ]
    shown = worst(records)
    if shown:
        lines += [f"## The worst {len(shown)} failures", ""]
    for one in shown:
        lines += [
            f"- **{_cell(one.question or one.id)}** (`{_cell(one.id)}`, {one.outcome})",
            f"  - wanted: {_cell(', '.join(one.gold_names[:5])) or '–'}",
            f"  - given: {_cell(', '.join(one.answers[:5])) or _cell(one.error) or '–'}",
            *(f"  - `{_cell(path['text'])}` ({path['score']:.2f})" for path in one.paths[:3]),
        ]
    return "\n".join(lines).rstrip() + "\n"


def write_reports(
    folder: Path,
    figures: Mapping[str, Any],
    records: Sequence[Record],
    settings: Mapping[str, Any],
) -> tuple[Path, Path]:
    """Write ``report.md`` and ``report.html`` to ``folder`` and return their paths.

    Raises UsageError where they cannot be written.
    """
    texts = {
        "report.md": markdown(figures, records, settings),
        "report.html": html_report(
            figures,
            records,
            worst(records),
            settings,
            tables={
                "Scores": (("figure", "%", "95 % interval"), figure_rows(figures)),
                "Where questions ended": (("outcome", "questions", "%"), outcome_rows(figures)),
            },
        ),
    }
    for name, text in texts.items():
        try:
            (folder / name).write_bytes(text.encode("utf-8", "replace"))
        except OSError as error:
            raise UsageError(
                f"The report {folder / name} cannot be written: {error.strerror or error}.",
                "Name another folder with --out.",
            ) from None
    return folder / "report.md", folder / "report.html"


def _between(interval: Sequence[float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.1f} to {interval[1]:.1f}"


def _cell(value: object) -> str:
    """Return a value so that it stays one cell of a table, and no mark-up."""
    text = " ".join(str(value).split())
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

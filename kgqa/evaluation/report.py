"""A run's figures as tables for the terminal, and as Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgqa.display import visible
from kgqa.errors import UsageError
from kgqa.evaluation.record import Outcome, Record
from kgqa.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


WORST = 50  # failures that a report shows
_BINS = 10  # of confidences
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
    """Return a run's tables that have rows: scores, by hop, by type, and outcomes."""
    heads = ("figure", "%", "95 % interval")
    tables = [
        ReportTable("Scores", heads, figure_rows(figures)),
        ReportTable("By hop", ("hops", *_PART), _part_rows(figures["by_hop"])),
        ReportTable("By type", ("type", *_PART), _part_rows(figures["by_type"])),
        ReportTable(
            "Where questions ended",
            ("outcome", "questions", "%"),
            [
                (outcome.value, str(count), f"{100 * count / figures['questions']:.1f}")
                for outcome in Outcome
                if (count := figures["outcomes"].get(outcome.value))
            ],
        ),
    ]
    return [table for table in tables if table.rows]


def figure_rows(figures: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return (figure, percent, 95 % interval) of every figure that the run has."""
    linking, triplets = figures.get("linking") or {}, figures.get("triplets") or {}
    rows = _figure_rows(TITLES, figures)
    rows += [
        (f"{'GCR' if family == 'gcr' else 'RoG'} {name}", f"{value:.1f}", "")
        for family, scores in figures["legacy"].items()
        for name, value in scores.items()
        if (family, name) != ("gcr", "hit")
    ]
    return [*rows, *_figure_rows(_LINKING, linking), *_figure_rows(_TRIPLETS, triplets)]


def time_sentence(figures: Mapping[str, Any]) -> str:
    """Return a sentence on the questions' running times, "" if none was answered."""
    seconds = figures["seconds"]
    if seconds["p50"] is None:
        return ""
    return (
        f"Half of the questions took {seconds['p50']:.2f} s or less, 95 % "
        f"{seconds['p95']:.2f} s or less."
    )


def worst(records: Sequence[Record]) -> list[Record]:
    """Select the worst failures, at most ``WORST``, in the order of ``records``.

    They are questions without a right answer: those that miss Hit@K first, then those of lowest F1,
    then those whose best path scored highest.
    """
    failed = [at for at, record in enumerate(records) if record.outcome != Outcome.RIGHT]
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
    """Format the report of a run as Markdown."""
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
    confident = [
        (record.confidence, record.hits_at_1 == 1.0)
        for record in records
        if record.confidence is not None
    ]
    if confident:
        rows, error = calibration(confident)
        lines += ["## Confidence", *_table(("confidence", "questions", "mean", "Hits@1"), rows)]
        lines += [f"Expected calibration error: {error:.2f}.", ""]
    shown = worst(records)
    if shown:
        lines += [f"## The worst {len(shown)} failures", ""]
    for record in shown:
        lines += [
            f"- **{_cell(record.question or record.id)}** (`{_cell(record.id)}`, {record.outcome})",
            *(f"  - gold: `{_cell(path)}`" for path in record.gold_relation_paths[:3]),
            f"  - wanted: {_cell(', '.join(record.gold_names[:5])) or '–'}",
            f"  - given: {_cell(', '.join(record.answers[:5])) or _cell(record.error) or '–'}",
            *(
                f"  - `{_cell(str(path.get('shown', path['text'])))}` ({path['score']:.2f})"
                for path in record.paths[:3]
            ),
        ]
    lines += ["", "## Glossary", "", *(f"- {word}: {said}" for word, said in GLOSSARY.items())]
    return "\n".join(lines).rstrip() + "\n"


def write_report(
    folder: Path,
    figures: Mapping[str, Any],
    records: Sequence[Record],
    settings: Mapping[str, Any],
) -> Path:
    """Write ``report.md``; return its path. Raises UsageError."""
    file = folder / "report.md"
    try:
        write_whole(file, markdown(figures, records, settings).encode("utf-8", "replace"))
    except OSError as error:
        raise UsageError(
            f"The report {file} cannot be written: {error.strerror or error}.",
            "Name another folder with `out`.",
        ) from None
    return file


def calibration(confident: Sequence[tuple[float, bool]]) -> tuple[list[tuple[str, ...]], float]:
    """Return a row for each tenth of the confidence range, and the expected calibration error.

    ``confident``: each question's confidence, and whether its first answer is right. The rows:
    bounds, questions, mean confidence and share of right answers in percent.
    """
    rows: list[tuple[str, ...]] = []
    off = 0.0
    for at in range(_BINS):
        inside = [pair for pair in confident if min(int(pair[0] * _BINS), _BINS - 1) == at]
        if inside:
            said, right = (sum(column) / len(inside) for column in zip(*inside, strict=True))
            span = f"{at / _BINS:.1f} to {(at + 1) / _BINS:.1f}"
            rows.append((span, str(len(inside)), f"{100 * said:.0f}", f"{100 * right:.0f}"))
            off += len(inside) * abs(said - right)
    return rows, off / max(len(confident), 1)


def _figure_rows(titles: Mapping[str, str], figures: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return (title, percent, interval) of the figures in ``titles`` that exist."""
    intervals = figures.get("intervals") or {}
    return [
        (title, f"{figures[name]:.1f}", _interval_text(intervals.get(name)))
        for name, title in titles.items()
        if figures.get(name) is not None
    ]


def _part_rows(parts: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return the rows of a table of figures by hop count or type."""
    return [
        (
            name,
            str(part["questions"]),
            f"{part['hits_at_1']:.1f}",
            _interval_text(part["interval"]),
            f"{part['hit_at_k']:.1f}",
            f"{part['f1']:.1f}",
        )
        for name, part in parts.items()
    ]


def _interval_text(interval: Sequence[float] | None) -> str:
    """Format an interval, "" for None."""
    return "" if interval is None else f"{interval[0]:.1f} to {interval[1]:.1f}"


def _cell(value: object) -> str:
    """Escape a value as a cell of a Markdown table."""
    text = visible(" ".join(str(value).split()))
    for mark in "\\|`*<[":
        text = text.replace(mark, "\\" + mark)
    return text


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Format rows as lines of a Markdown table."""
    return [
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
        *(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows),
        "",
    ]

"""Questions about a whole graph with the rows of a gold query: execution accuracy.

A line of the file is ``{id, question, cypher, rows, limit, sure, pool}`` as
``docs/queries.md`` describes it. A question is right if the rows given are gold's, refused if none
are given and the method says so, else wrong; the three add up to all questions.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from kgqa.errors import DataError, KgqaError
from kgqa.evaluation.figures import percentiles
from kgqa.evaluation.report import ReportTable, time_sentence
from kgqa.paths.ground import Node
from kgqa.questions.rows import file_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from kgqa.answers.answer import Answer
    from kgqa.graph.store import GraphStore
    from kgqa.progress import Progress

_SHORT = 120  # characters of a property that may stand for its node


def cell_forms(cell: Any) -> frozenset[str]:
    """Return the texts by which a cell may be compared, rounded and lowercase.

    Of a node (a dict), its short properties; of a list, one text.
    """
    if isinstance(cell, dict):
        values = [value for name, value in cell.items() if not name.startswith("_")]
        forms = {form for value in values for form in cell_forms(value)}
        return frozenset(form for form in forms if len(form) <= _SHORT)
    if isinstance(cell, list | tuple):
        inner = sorted(form for member in cell for form in cell_forms(member))
        return frozenset(["[" + "|".join(inner) + "]"])
    if cell is None:
        return frozenset(["null"])
    if isinstance(cell, bool):
        return frozenset([str(cell).lower()])
    text = re.sub(r"\s+", " ", str(cell)).strip().lower()
    try:
        return frozenset(
            [f"{round(float(text), 3):g}" if abs(float(text)) < 1e9 else f"{float(text):.6g}"]
        )
    except ValueError:
        date = re.fullmatch(r"(\d{4}-\d\d-\d\d)[ t](.+?)(?:\.0+)?z?", text)
        return frozenset([f"{date[1]} {date[2]}" if date else text])


def same_rows(given: Sequence[Sequence[Any]], gold: Mapping[str, Any]) -> bool:
    """Return whether rows are right by ``gold``: ``rows`` with ``limit``, ``sure``, ``pool``.

    They are if one of their first n + 1 columns has the values of one of gold's n columns, in any
    order; without gold rows, if there are none. ``sure``: rows that must be among those of a limit;
    ``pool``: those that may be.
    """
    rows = gold["rows"]
    width = len(rows[0]) if rows else 0
    ours = [
        [cell_forms(row[column]) for row in given]
        for column in range(min(width + 1, len(given[0]) if given else 0))
    ]
    if not rows:
        return not given
    open_ = gold.get("limit") and gold.get("pool")
    for column in range(width):
        if open_:
            sure = [cell_forms(row[column]) for row in gold["sure"] or []]
            pool = [cell_forms(row[column]) for row in gold["pool"]]
            if any(_column_matches(cells, sure, [*sure, *pool], len(rows)) for cells in ours):
                return True
        target = [cell_forms(row[column]) for row in rows]
        if any(_all_shared(cells, target) and _all_shared(target, cells) for cells in ours):
            return True
    return False


def _all_shared(some: Iterable[frozenset[str]], by: Sequence[frozenset[str]]) -> bool:
    """Return whether each cell of ``some`` has a form in common with a cell of ``by``."""
    every = frozenset().union(*by) if by else frozenset()
    return all(cells & every for cells in some)


def _column_matches(
    ours: Sequence[frozenset[str]],
    sure: Sequence[frozenset[str]],
    pool: Sequence[frozenset[str]],
    size: int,
) -> bool:
    """Return whether a column has all of ``sure``, nothing outside ``pool``, and the right size.

    Cells are sets of forms; ``size``: the number of gold rows.
    """
    different = len(set(ours))
    return (
        bool(ours)
        and _all_shared(sure, ours)
        and _all_shared(ours, pool)
        and different <= size
        and (different == size or len(ours) == size or different >= len(set(pool)))
    )


def shape_of(cypher: str) -> str:
    """Return the shape of a gold query: its number of hops, and whether it aggregates or orders."""
    hops = len(re.findall(r"-\[[^\]]*\]-|--", cypher))
    parts = [f"{min(hops, 3)} hops"]
    if re.search(r"\b(count|sum|avg|min|max|size)\s*[({]", cypher, re.IGNORECASE):
        parts.append("aggregate")
    elif re.search(r"\border by\b", cypher, re.IGNORECASE):
        parts.append("order")
    if re.search(r"\bnot\b", cypher, re.IGNORECASE) and not re.search(
        r"is not null", cypher, re.IGNORECASE
    ):
        parts.append("not")
    return ", ".join(parts)


QUERY_FORMAT = "text2cypher"
_FIELDS = ("question", "cypher", "rows")


@dataclass(slots=True)
class QueryEvaluation:
    """The result of a run: ``figures`` as JSON, and a record for each question."""

    figures: dict[str, Any]
    records: list[dict[str, Any]] = field(default_factory=list)
    reports: tuple[Path, ...] = ()

    def tables(self) -> list[ReportTable]:
        """Return the figures as tables: in total, and by shape."""
        shares = ("right", "wrong", "refused", "failed", "valid")
        shapes = [
            (shape, str(figure["questions"]), f"{figure['right']:.1f}")
            for shape, figure in self.figures["by_shape"].items()
        ]
        return [
            ReportTable("Rows", shares, [tuple(f"{self.figures[name]:.1f}" for name in shares)]),
            ReportTable("By shape", ("shape", "questions", "right"), shapes),
        ]

    def times(self) -> str:
        """Return a sentence on the questions' running times, "" without questions."""
        return time_sentence(self.figures)


def read_gold(file: Path, limit: int | None = None) -> list[dict[str, Any]]:
    """Read the lines of a file of gold queries, at most ``limit``; blank ones are skipped.

    Raises DataError for a malformed line.
    """
    golds = []
    lines = enumerate(file_lines(file, "file of gold queries"), 1)
    for number, line in islice(((at, line) for at, line in lines if line.strip()), limit):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"Line {number} of {file} is not JSON: {error}.") from None
        if not isinstance(row, dict) or any(name not in row for name in _FIELDS):
            raise DataError(
                f"Line {number} of {file} is not a gold query.", f"Each has {', '.join(_FIELDS)}."
            )
        golds.append(row)
    return golds


def evaluate_queries(
    store: GraphStore,
    gold: Iterable[dict[str, Any]],
    ask: Callable[[str], Answer],
    progress: Progress,
    method: str,
) -> QueryEvaluation:
    """Ask every question, and compare its rows with the gold rows; errors count as failed."""
    rows = list(gold)
    records: list[dict[str, Any]] = []
    with progress.task("answering", len(rows), "questions") as task:
        for row in rows:
            began = time.perf_counter()
            plan, outcome, error = "", "failed", ""
            try:
                answer = ask(row["question"])
                outcome = "refused"
                if answer.answers or (answer.result is not None and not answer.result.rows):
                    plan = "" if answer.result is None else str(answer.result.plan)
                    given = [[_cell(store, cell) for cell in cells] for cells in _rows(answer)]
                    outcome = "right" if same_rows(given, row) else "wrong"
                confidence = answer.confidence
            except KgqaError as problem:
                error, confidence = problem.message, None
            records.append(
                {
                    "id": row.get("id"), "question": row["question"], "outcome": outcome,
                    "plan": plan, "confidence": confidence, "error": error,
                    "shape": shape_of(row["cypher"]), "seconds": time.perf_counter() - began,
                }
            )  # fmt: skip
            task.advance()
    return QueryEvaluation(_figures(records, store.info.name, method), records)


def _figures(records: list[dict[str, Any]], kg: str, method: str) -> dict[str, Any]:
    """Compute the figures of a run, in total and by shape."""

    def share(some: list[dict[str, Any]], *outcomes: str) -> float:
        """Return the percentage of records with one of some outcomes."""
        right = sum(record["outcome"] in outcomes for record in some)
        return round(100 * right / len(some), 1) if some else 0.0

    shapes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        shapes[record["shape"]].append(record)
    return {
        "format": QUERY_FORMAT,
        "kg": kg,
        "method": method,
        "questions": len(records),
        "answered": sum(record["outcome"] in ("right", "wrong") for record in records),
        **{name: share(records, name) for name in ("right", "wrong", "refused", "failed")},
        "valid": share(
            [record for record in records if record["outcome"] != "refused"], "right", "wrong"
        ),
        "by_shape": {
            shape: {"questions": len(some), "right": share(some, "right")}
            for shape, some in sorted(shapes.items(), key=lambda item: -len(item[1]))
        },
        "seconds": percentiles([record["seconds"] for record in records], 50, 95),
    }


def _rows(answer: Answer) -> Sequence[Sequence[Any]]:
    """Return the rows of a plan's result, or those of answers: a name or a number each."""
    if answer.result is not None:
        return answer.result.rows
    if answer.count is not None:
        return [[answer.count]]
    return [[each.name if each.id is None else Node(each.id, each.name)] for each in answer.answers]


def _cell(store: GraphStore, cell: Any) -> Any:
    """Return a cell in the form of gold: a node by its properties, with its name and id."""
    if not isinstance(cell, Node):
        return list(cell) if isinstance(cell, tuple) else cell
    (key,) = store.keys_of([cell.id]).tolist()
    properties = store.details(key).properties if key >= 0 else {}
    return {**properties, "name of it": cell.name, "id of it": cell.id}

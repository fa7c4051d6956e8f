"""Lists of plans as the planner proposes them for questions with known answers.

    python -m scripts.planner.answered --out FILE [--shared DIR] [--of N] [--only NAME …]

The questions are those of the project's own graphs that its rules were written beside
(``tests/data/own``, ``own_later``), and with --shared those of Neo4j's Northwind, OpenFlights and
the elements. A line of FILE is as :mod:`scripts.planner.proposals` writes it: a question with the
plans' words, scores and features, and which of them give what is wanted and no more.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scripts.environment  # noqa: F401
import scripts.planner.traced as traced  # before the planner reads its weights
from kgqa.errors import KgqaError
from kgqa.methods.query import QueryOptions, queryable
from kgqa.methods.resources import Resources
from kgqa.queries.result import Node, QueryLimits
from kgqa.queries.run import run_shown
from scripts.benchmarks.sets import TESTS, are_all, folders, key, northwind, rank_of, real
from scripts.planner.plan_words import plan_words
from scripts.planner.proposals import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    import kgqa
    from kgqa.queries.result import QueryResult
    from scripts.benchmarks.sets import Asked, Row

_LIMITS = QueryLimits(seconds=5.0, first=500)
_GIVEN = ("own", "own_later")
_LOOKED_AT = ("elements", "flights")


def sources(shared: Path | None) -> Iterator[tuple[str, Asked]]:
    """Yield the graphs, each with the name of its set."""
    yield from ((name, asked) for name in _GIVEN for asked in folders(TESTS / name))
    if shared is not None:
        data = shared / "data"
        yield from (("northwind", asked) for asked in northwind(data / "text2cypher"))
        yield from (("real", one) for one in real(data / "real") if one.name in _LOOKED_AT)


def lists(kg: kgqa.KG, rows: list[Row]) -> Iterator[dict[str, Any]]:
    """Yield a list for each question that has an answer and a plan."""
    method = Recorder(QueryOptions(), Resources(kg.home.settings, store=kg.store))
    for row in rows:
        method.proposed = ()
        with suppress(KgqaError):
            method.read(kg.store, row["question"])
        plans = [one.plan for one in method.proposed]
        if not plans or not row["answers"] or method.reading is None:
            continue
        graph, index = queryable(kg.store), method.reading.parts.index  # type: ignore[arg-type]
        right = []
        for at, plan in enumerate(plans):
            with suppress(KgqaError):
                if gives(run_shown(plan, graph, index, _LIMITS), row):
                    right.append(at)
        yield {
            "question": row["question"], "gold": "", "plans": [plan_words(one) for one in plans],
            "right": right, "same": [],
            "scores": [round(float(one.score), 3) for one in method.proposed],
            "features": [traced.features_of(one.score) for one in method.proposed],
        }  # fmt: skip


def gives(result: QueryResult, row: Row) -> bool:
    """Return whether the first column of a result is all that is wanted, and no more."""
    cells = [cells[0] for cells in (*result.rows, *result.tied)]
    given = [{*map(key, (one.id, one.name, one.id.rpartition("/")[2]))}
             if isinstance(one, Node) else {key(one)} for one in cells]  # fmt: skip
    wanted = [{*map(key, forms_of(one))} for one in row["answers"]]
    return bool(given) and are_all(given, wanted)


def forms_of(answer: Any) -> list[Any]:
    """Return the forms of an answer; of a node of Neo4j's its name and its number."""
    if not isinstance(answer, dict):
        return answer if isinstance(answer, list) else [answer]
    labels = [label.lower() for label in answer["_labels"]]
    names = ["companyName", *(f"{label}{end}" for label in labels for end in ("Name", "ID"))]
    return [answer[name] for name in names if name in answer]


def main() -> None:
    """Write the lists."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--shared", type=Path, metavar="DIR")
    parser.add_argument("--of", type=int, default=60, help="questions of a graph")
    parser.add_argument("--only", nargs="*", help="names of graphs")
    given = parser.parse_args()
    with given.out.open("a", encoding="utf-8") as out:
        for name, asked in sources(given.shared):
            if given.only and asked.name not in given.only:
                continue
            rows = sorted(asked.rows, key=rank_of)[: given.of]
            with tempfile.TemporaryDirectory() as home, asked.load(Path(home)) as kg:
                found = [{"database": f"{name}/{asked.name}", **one} for one in lists(kg, rows)]
            out.writelines(json.dumps(one) + "\n" for one in found)
            out.flush()
            first = sum(0 in one["right"] for one in found)
            there = sum(bool(one["right"]) for one in found)
            print(f"{asked.name}: {len(rows)} questions, {len(found)} lists, right in {there}, "
                  f"first in {first}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()

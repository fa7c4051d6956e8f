"""``kgqa query``: a plan over the whole graph, run without a model."""

from __future__ import annotations

import csv
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kgqa.cli.common import Run
from kgqa.display import as_csv_cell
from kgqa.errors import UsageError

if TYPE_CHECKING:
    from kgqa import QueryResult

_MAX_FACTS = 5  # facts that a row is shown with
_ALL = 1_000_000  # types, relations and properties


def query(
    run: Run,
    plan: Annotated[
        str | None,
        typer.Argument(
            help="In quotes, such as 'Movie | desc Movie.released | limit 3'. Without a plan: the "
            "classes, properties and relations that plans are made of."
        ),
    ] = None,
    cypher: Annotated[
        bool, typer.Option("--cypher", help="Print the plan as Cypher; do not run it.")
    ] = False,
    sparql: Annotated[
        bool,
        typer.Option("--sparql", help="Print the plan as SPARQL, for an endpoint; do not run it."),
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the rows as CSV.")] = False,
    facts: Annotated[bool, typer.Option("--facts", help="Show the facts behind each row.")] = False,
    rows: Annotated[int, typer.Option(help="Maximum number of rows.", min=1)] = 10_000,
    seconds: Annotated[float, typer.Option(help="Time limit in seconds.", min=0.1)] = 30.0,
) -> None:
    """Run a plan over the whole graph, without a model."""
    if as_csv and run.as_json:
        raise UsageError("`csv` and `as_json` are two forms of one result.", "Choose one.")
    if cypher and sparql:
        raise UsageError("`cypher` and `sparql` are two languages of one plan.", "Choose one.")
    with run.kg() as kg:
        if plan is None:
            from kgqa.cli.terminal import show_schema

            run.print(lambda: show_schema(kg.about(_ALL)), asdict(kg.schema()))
            return
        if cypher or sparql:
            text = kg.cypher(plan) if cypher else kg.sparql(plan)
            language = "cypher" if cypher else "sparql"
            run.print(lambda: run.say(*text.splitlines()), {"plan": plan, language: text})
            return
        _print(run, kg.query(plan, rows=rows, seconds=seconds), as_csv, facts)


def _print(run: Run, result: QueryResult, as_csv: bool, facts: bool) -> None:
    """Print a result as CSV, JSON or text; ``facts``: with the facts behind each row of text.

    It is then released, so that evidence nobody asked for is not read.
    """
    if as_csv:
        _print_csv(run, result)
        return
    run.print(lambda: _show(run, result, facts), result.to_dict(None) if run.as_json else {})


def _print_csv(run: Run, result: QueryResult) -> None:
    """Print the rows as CSV; a cell that looks like a formula gets an apostrophe."""
    writer, changed = csv.writer(sys.stdout), 0
    for row in ([*result.columns], *result.plain_rows()):
        cells = [as_csv_cell(cell) for cell in row]
        changed += sum(given is not kept for given, kept in zip(row, cells, strict=True))
        writer.writerow(cells)
    if changed:
        run.home.note(
            f"{changed:,} cells begin as a formula of a spreadsheet does, and have an apostrophe "
            "before them; `--json` has all as they are."
        )


def _show(run: Run, result: QueryResult, facts: bool) -> None:
    """Print the rows as a table, with their facts if asked for or if there is one row."""
    from kgqa.cli.terminal import COUNTED, cell_text, say, show_counted, show_next, show_rows

    if not len(result):
        say("No rows.")
        return
    show_rows("", result.columns, [[cell_text(cell) for cell in row] for row in result.rows])
    for number, row in enumerate(result.rows if facts or len(result) == 1 else ()):
        if len(result) > 1:
            say(" · ".join(map(cell_text, row)))
        show_counted(result.evidence(number, COUNTED).counted)
        evidence = result.evidence(number, _MAX_FACTS)
        for fact in evidence.facts:
            say(f"  {fact.head}  {fact.predicate}  {fact.tail}", style="dim")
        if evidence.facts_in_all > len(evidence.facts):
            say(f"  … {evidence.facts_in_all:,} facts in all", style="dim")
    if result.tied:
        tied = ", ".join(cell_text(row[0]) for row in result.tied)
        say(f"  tied: {tied}", style="dim")
    show_next(result)

"""``kgqa eval``: answer a file of questions and measure it, or compare two such runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import kgqa
from kgqa.api.evaluation import EvalOptions, evaluate
from kgqa.api.kg import DEFAULT_METHOD
from kgqa.cli.common import Run, takes_options
from kgqa.errors import UsageError
from kgqa.registry import METHODS, QUESTION_FORMATS

if TYPE_CHECKING:
    from kgqa.api.evaluation import Measured


@takes_options(METHODS, EvalOptions)
def eval(
    run: Run,
    options: dict[str, Any],
    format: Annotated[
        str | None,
        typer.Argument(help=f"One of {', '.join(e.name for e in QUESTION_FORMATS.table)}."),
    ] = None,
    file: Annotated[Path | None, typer.Argument(help="The questions.")] = None,
    method: Annotated[
        str | None, typer.Option(help="Any method; `kgqa options` lists them. [auto]")
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Compare two runs instead: their folders (--out)."),
    ] = None,
) -> None:
    """Answer every question of a file, and print figures as percentages over all of them."""
    if compare is not None:
        if format is not None or options.get("out") is not None:
            raise UsageError(
                "--compare takes the folders of two runs and nothing else.",
                "kgqa eval --compare DIR DIR",
            )
        _compare(run, *compare)
        return
    if format is None or file is None:
        raise UsageError("Missing FORMAT and FILE.", "kgqa eval FORMAT FILE; see kgqa eval --help.")
    method = method or options.pop("method", None) or DEFAULT_METHOD
    evaluation = evaluate(run.home, None, file, format, method, options)
    if evaluation.reports:
        run.note(f"Written: {' and '.join(map(str, evaluation.reports))}.")
    run.print(lambda: _show(evaluation), evaluation.figures)


def _show(measured: Measured) -> None:
    """Print a run's figures and times as tables."""
    from kgqa.cli.terminal import say, show_rows

    figures = measured.figures
    say(
        f"{figures['questions']} questions of the format {figures['format']}, "
        f"{figures['answered']} answered; KG {figures['kg']}"
    )
    for table in measured.tables():
        say()
        show_rows("", table.heads, table.rows)
    if times := measured.times():
        say()
        say(times)


def _compare(run: Run, a: Path, b: Path) -> None:
    """Compare two runs, and print the comparison."""
    comparison = kgqa.compare(a, b)

    def show() -> None:
        """Print the comparison as tables and sentences."""
        from kgqa.cli.terminal import say, show_rows

        table = comparison.table()
        show_rows("", table.heads, table.rows)
        say()
        say(
            f"{comparison.shared} questions in both runs; {len(comparison.only_a)} in A alone, "
            f"{len(comparison.only_b)} in B alone."
        )
        right = comparison.right
        say(
            f"First answer right: both {right['both']}, A alone {right['only_a']}, "
            f"B alone {right['only_b']}, neither {right['neither']}."
        )
        for name, (first, second) in comparison.settings.items():
            say(f"{name}: A {first}, B {second}")

    run.print(show, comparison.to_dict())

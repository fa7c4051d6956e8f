"""How results, progress and notes look on a terminal."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.paths.ground import GroundedPath
    from kgqa.progress import Task
    from kgqa.reasoning.answer import Answer

_EVERY = 10.0  # seconds between two plain lines where stderr is no terminal


class TerminalProgress:
    """Bars on a terminal, plain lines now and then elsewhere; both on stderr."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)

    @contextmanager
    def task(self, what: str, total: int | None = None, unit: str = "") -> Iterator[Task]:
        """Show a task from ``with`` to its end."""
        if not self._console.is_terminal:
            yield _Lines(what, total, unit)
            return
        columns = [SpinnerColumn(), TextColumn("{task.description}")]
        counts = [BarColumn(), MofNCompleteColumn(), TextColumn(unit)] if total else []
        with Bars(*columns, *counts, console=self._console, transient=True) as bars:
            yield _Bar(bars, bars.add_task(what, total=total))

    def note(self, text: str) -> None:
        """Print one line on stderr."""
        self._console.print(Text(text), style="yellow", soft_wrap=True)


class _Bar:
    def __init__(self, bars: Bars, number: Any) -> None:
        self._bars = bars
        self._number = number

    def advance(self, amount: int = 1) -> None:
        self._bars.advance(self._number, amount)


class _Lines:
    def __init__(self, what: str, total: int | None, unit: str) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._done = 0
        self._told = time.monotonic()

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        if time.monotonic() - self._told >= _EVERY:
            self._told = time.monotonic()
            of = f" of {self._total:,}" if self._total else ""
            print(f"{self._what}: {self._done:,}{of} {self._unit}".rstrip(), file=sys.stderr)


def console() -> Console:
    """Return the console that results are printed on: stdout, never cut at its width."""
    return Console(highlight=False, soft_wrap=True)


def show_answer(answer: Answer, browser_url: str | None) -> None:
    """Print a table of answers, and each path on a line, mediators collapsed."""
    out = console()
    topics = ", ".join(f"{topic.name} ({topic.id})" for topic in answer.topic_entities)
    out.print(f"[bold]{escape(answer.question)}[/bold]")
    out.print(f"[dim]topic: {escape(topics)}[/dim]\n")
    if answer.answers:
        table = Table("", "answer", "score", "id", box=None, pad_edge=False)
        for rank, one in enumerate(answer.answers, 1):
            name = one.name if one.grounded else f"{one.name} (in no path)"
            table.add_row(str(rank), Text(name), f"{one.score:.3f}", Text(one.id or "-"))
        out.print(table)
    else:
        out.print("The facts found do not answer the question.")
    out.print("\n[bold]paths[/bold] [dim](each edge is in the graph)[/dim]")
    for path in answer.paths:
        many = (
            f" [dim]({len(path.groundings)} groundings)[/dim]" if len(path.groundings) > 1 else ""
        )
        out.print(f"[dim]{path.score:8.3f}[/dim]  {path_line(path.groundings[0])}{many}")
    served = ", ".join(sorted({use.source for use in answer.constraints}))
    out.print(
        f"\n[dim]{answer.timings.total:.2f} s, {answer.forwards} forwards of "
        f"{escape(answer.kg_llm.model)}, constraint: {served}[/dim]"
    )
    if browser_url:
        out.print(f"[dim]Neo4j Browser:[/dim] {escape(browser_url)}")


def path_line(path: GroundedPath) -> str:
    """Return a path as one line of markup: names plain, relations dim."""
    parts = [escape(path.head.name)]
    for edge in path.edges:
        parts.append(f"[cyan]{escape(edge.relation)}[/cyan]")
        parts.append(escape(edge.tail.name))
    return " -> ".join(parts)


def show_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table of plain values."""
    out = console()
    if title:
        out.print(f"[bold]{escape(title)}[/bold]")
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    out.print(table)

"""The one interface through which a long task reports how far it is.

A library call takes a ``Progress`` and never prints; the command line passes one that draws, tests
and scripts pass :class:`Silent`, the library :class:`Logged`.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager


class Task(Protocol):
    """A running task that is informed of progress."""

    def advance(self, amount: int = 1) -> None:
        """Count ``amount`` more units as done."""

    def tell(self, text: str) -> None:
        """Show a few words beside the task, such as a rate, in place of the former ones."""


class Progress(Protocol):
    """The destination of tasks' progress and of notes."""

    def task(
        self, what: str, total: int | None = None, unit: str = ""
    ) -> AbstractContextManager[Task]:
        """Show a task while its ``with`` block runs; ``total`` is None where it is not known."""

    def note(self, text: str) -> None:
        """Show an informational message to the user."""


class Rate:
    """Advances a task, and shows its average rate beside it."""

    def __init__(self, task: Task, unit: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._task = task
        self._unit = unit
        self._clock = clock
        self._began = clock()
        self._done = 0

    def advance(self, amount: int = 1) -> None:
        """Count ``amount`` more units as done."""
        self._done += amount
        spent = self._clock() - self._began
        if spent > 0:
            rate = self._done / spent
            digits = 0 if rate >= 10 else 2
            self._task.tell(f"{rate:,.{digits}f} {self._unit}/s")
        self._task.advance(amount)


class _NoTask:
    """A task that shows nothing."""

    def advance(self, amount: int = 1) -> None:
        """Do nothing."""
        pass

    def tell(self, text: str) -> None:
        """Do nothing."""
        pass


class Silent:
    """Shows nothing; keeps the notes for the caller."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    @contextmanager
    def task(self, what: str, total: int | None = None, unit: str = "") -> Iterator[Task]:
        """Run a task without showing it."""
        yield _NoTask()

    def note(self, text: str) -> None:
        """Keep the note."""
        self.notes.append(text)


class Logged(Silent):
    """Shows nothing and sends notes to the logger ``kgqa``: the library's default."""

    def note(self, text: str) -> None:
        """Log the note."""
        logging.getLogger("kgqa").info(text)

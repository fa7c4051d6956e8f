"""Long tasks of the server, reported to whoever waits, and its log."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kgqa.display import visible
from kgqa.errors import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kgqa.progress import Task

_LOG = logging.getLogger("kgqa.server")
_STEP = 0.01  # of a task, between two reports


class ServerProgress:
    """A ``Progress`` that passes each line to ``tell``; ``doing``: the running task.

    Tasks run only in the thread of the models.
    """

    def __init__(self, tell: Callable[[str], None] = lambda line: None) -> None:
        self.doing = ""
        self.tell = tell

    @contextmanager
    def task(self, what: str, total: int | None = None, unit: str = "") -> Iterator[Task]:
        """Report a task while its ``with`` block runs."""
        before = self.doing
        try:
            yield _ReportedTask(self, what, total, unit)
        finally:
            self.doing = before

    def note(self, text: str) -> None:
        """Log a note: it is for the server's operator, and may name files."""
        _LOG.info("%s", text)


class _ReportedTask:
    """A task whose percentage is reported in steps."""

    def __init__(self, progress: ServerProgress, what: str, total: int | None, unit: str) -> None:
        self._progress, self._what, self._total, self._unit = progress, what, total, unit
        self._done = self._told = 0
        self._show()

    def advance(self, amount: int = 1) -> None:
        """Count ``amount`` more units as done; report the percentage whenever it grew enough."""
        self._done += amount
        if self._total and self._done - self._told >= _STEP * self._total:
            self._told = self._done
            self._show()

    def tell(self, text: str) -> None:
        """Ignore the text: only the percentage is reported."""
        pass

    def _show(self) -> None:
        """Report the task with its percentage."""
        of = f": {100 * self._done // self._total} %" if self._total else ""
        self._progress.doing = f"{self._what}{of}"
        self._progress.tell(self._progress.doing)


class CleanFormatter(logging.Formatter):
    """A log formatter that removes credentials and escapes control characters.

    A client may send line breaks and terminal escapes: only a record's first line begins at the
    margin.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as lines."""
        lines = without_secrets(super().format(record)).split("\n")
        return "\n  ".join(map(visible, lines))


def log_to_stderr() -> None:
    """Configure the server's log: lines on stderr.

    The root logger gets the handler, too: that of the MCP SDK opens files to format an error, and
    fails when no more can be opened.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(CleanFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger("kgqa").setLevel(logging.INFO)

"""One load in a process of its own that kills itself, with SIGKILL, at a given moment.

    python -m tests.loading.killed SPEC

SPEC is a JSON object: ``dump``, ``home``, ``kg`` and ``graph`` (a URL, or null for the home) say
what is loaded; ``stage``, ``event`` and ``delay`` say when it is killed: at the event of that
number in that stage, and so many seconds later. Without a stage nobody is killed, and the number
of events of each stage is printed as JSON. Events are the ends of batches, of files and of steps
in them. What is held at once is small, so that there are many.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgqa.graph import sqlite_write
from kgqa.graph.open import open_writer
from kgqa.loaders import blocks, make_loader
from kgqa.loading import edges, files, nodes
from kgqa.loading.columns import Buckets, ColumnWriter
from kgqa.loading.pipeline import load
from kgqa.loading.stages import NAMES, StageName, Stages

if TYPE_CHECKING:
    from collections.abc import Iterator

STAGES = (*NAMES, "load")


class Moments:
    """Counts the events of each stage; ends the process at the one that was asked for."""

    def __init__(self, stage: str | None, event: int, delay: float) -> None:
        self.counts: Counter[str] = Counter()
        self.stage = STAGES[0]
        self._moment = (stage, event)
        self._delay = delay
        self._lock = threading.Lock()

    def happen(self) -> None:
        """Count an event."""
        with self._lock:
            place = (self.stage, self.counts[self.stage])
            self.counts[self.stage] += 1
        if place == self._moment:
            if not self._delay:
                self.kill()
            timer = threading.Timer(self._delay, self.kill)
            timer.daemon = True
            timer.start()

    @staticmethod
    def kill() -> None:
        """End the process as nothing can be caught or finished."""
        os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, owner: Any, name: str) -> None:
        """Count an event before and after each call."""
        plain = getattr(owner, name)

        @functools.wraps(plain)
        def watched(*given: Any, **named: Any) -> Any:
            self.happen()
            result = plain(*given, **named)
            self.happen()
            return result

        setattr(owner, name, watched)

    # -- as a Progress -----------------------------------------------------------------------

    @contextmanager
    def task(self, what: str, total: int | None = None, unit: str = "") -> Iterator[Moments]:
        """Count the beginning and the end of a task."""
        self.happen()
        yield self
        self.happen()

    def advance(self, amount: int = 1) -> None:
        """Count a step of a task."""
        self.happen()

    def tell(self, text: str) -> None:
        """Count nothing."""

    def note(self, text: str) -> None:
        """Count nothing."""


def hold_little() -> None:
    """Let a stage hold so little at once that it goes through many batches and spills."""
    blocks.BLOCK_BYTES = 1 << 19
    nodes._SPAN = 1 << 11
    edges._ROWS = 1 << 13
    files._SPAN = 1 << 11
    files._EDGES_AT_ONCE = files._NAMES_AT_ONCE = 1 << 13
    Buckets.__init__.__defaults__ = (1 << 18,)


def main() -> None:
    """Do what the first argument says."""
    spec = json.loads(sys.argv[1])
    moments = Moments(spec.get("stage"), spec.get("event", 0), spec.get("delay", 0.0))
    hold_little()
    plain = Stages.finish

    def finish(stages: Stages, name: StageName, *folders: Path) -> None:
        moments.happen()
        plain(stages, name, *folders)
        moments.happen()
        moments.stage = STAGES[STAGES.index(name) + 1]
        moments.happen()

    Stages.finish = finish  # type: ignore[assignment, method-assign]
    for owner, name in (
        (ColumnWriter, "append"),
        (ColumnWriter, "close"),
        (Buckets, "add"),
        (Buckets, "take"),
        (sqlite_write, "sync"),
        (sqlite_write, "_remove"),
    ):
        moments.watch(owner, name)
    home, kg = Path(spec["home"]), spec["kg"]
    secrets: dict[str, Any] = {}
    secrets |= {name: os.environ.get(f"KILLED_{name.upper()}") for name in ("username", "password")}
    with open_writer(spec["graph"] or home, kg, home=home, **secrets) as writer:
        load(make_loader("freebase"), [Path(spec["dump"])], kg, writer, home / kg, moments)
    print(json.dumps(moments.counts))


if __name__ == "__main__":
    main()

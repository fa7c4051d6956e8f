"""What every benchmark prints: its machine, its command, a line for each goal."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


def print_machine(*packages: str) -> None:
    """Print the machine, the versions of ``packages`` and the command."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"{versions}"
    )
    print("command:", shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]), flush=True)


def print_goals(figures: Mapping[str, Any], goals: Mapping[str, tuple[float, bool]]) -> None:
    """Print a line for each goal that was measured: its target, and whether more is better."""
    for name, (target, at_least) in goals.items():
        if name in figures:
            value = figures[name]
            met = value >= target if at_least else value <= target
            print(f"goal {name} {value:.4g} {target:g} {'met' if met else 'missed'}")


def write_between(place: str, text: str) -> None:
    """Write ``text`` between two comments of a Markdown file; ``place``: FILE#NAME of both."""
    file, _, name = place.partition("#")
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    document = Path(file)
    whole = document.read_text("utf-8")
    if whole.count(begin) != 1 or whole.count(end) != 1 or whole.index(begin) > whole.index(end):
        raise SystemExit(f"{document} has no place for the tables: {begin} and {end}, once each.")
    pattern = re.compile(re.escape(begin) + ".*" + re.escape(end), re.DOTALL)
    document.write_text(pattern.sub(lambda _: f"{begin}\n{text}\n{end}", whole), "utf-8")


def timed(work: Callable[..., T], *given: Any) -> tuple[float, T]:
    """Return the milliseconds that ``work(*given)`` took and what it gave."""
    return _timed(time.perf_counter, work, *given)


def worked(work: Callable[..., T], *given: Any) -> tuple[float, T]:
    """Return the milliseconds of CPU, of all threads, that it took, and what it gave.

    On an idle machine one thread takes as long; on a busy one only this can be compared.
    """
    return _timed(time.process_time, work, *given)


def _timed(clock: Callable[[], float], work: Callable[..., T], *given: Any) -> tuple[float, T]:
    began = clock()
    result = work(*given)
    return 1_000 * (clock() - began), result

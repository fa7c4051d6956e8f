"""What benchmarks share: their arguments, their machine, goals, JSON, a Neo4j of their own."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")


def arguments(about: str | None, *, shared: bool, quick: str = "") -> argparse.ArgumentParser:
    """Return a parser with ``--shared`` (needed if ``shared``), ``--quick`` and ``--json``."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shared", type=Path, required=shared, help="the folder that holds data/")
    if quick:
        parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", type=Path, help="write all figures here")
    return parser


def folder_of(shared: Path, name: str) -> Path:
    """Return the folder of a data set in ``shared``; end with a sentence if it is not there."""
    folder = shared / "data" / name
    if not folder.is_dir():
        raise SystemExit(f"There is no folder {folder}; --shared names the wrong one.")
    return folder


def write_json(file: Path | None, figures: Mapping[str, Any]) -> None:
    """Write all figures, with the command and the machine, if a file is named."""
    if file is not None:
        whole = {**figures, "command": sys.argv, "machine": platform.platform()}
        file.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


@contextmanager
def neo4j_server(work: Path) -> Iterator[tuple[str, str, int]]:
    """Start a Neo4j in ``work``; give its URL, password and process, and stop it afterwards."""
    script = Path(__file__).resolve().parents[1] / "neo4j"
    home = work / "neo4j"
    jars = Path(os.environ.get("KGQA_NEO4J_HOME") or script.parents[1] / ".neo4j") / "jars"
    place = ["--home", str(home), "--jars", str(jars)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("NEO4J_")}
    command = [sys.executable, str(script)]
    ports = ["--bolt-port", "17688", "--http-port", "17475", "--heap", "1g"]
    done = subprocess.run(
        [*command, "start", *place, *ports], env=env, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"no Neo4j: {done.stderr.strip()}")
    try:
        uri = re.search(r"^export NEO4J_URI=(\S+)$", done.stdout, re.MULTILINE)
        process = re.search(r"\(process (\d+)\)", done.stdout + done.stderr)
        assert uri
        assert process
        yield uri[1], (home / "password").read_text().strip(), int(process[1])
    finally:
        subprocess.run([*command, "stop", *place], env=env, check=False)


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

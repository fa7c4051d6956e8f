"""What benchmarks share: arguments, machine, goals, JSON, asking, a Neo4j of their own."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from importlib import metadata
from itertools import islice
from pathlib import Path
from shutil import copy
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kgqa import KG
    from kgqa.answers.answer import Answer
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore

T = TypeVar("T")


def arguments(
    about: str | None, *, shared: bool = False, quick: str = "", out: str = ""
) -> argparse.ArgumentParser:
    """Return a parser with ``--json``, or with ``--out`` where ``out`` says what is written there.

    With ``--shared`` if ``shared``, and with ``--quick`` if ``quick`` says what it does.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if shared:
        parser.add_argument("--shared", type=Path, required=True, help="the folder with data/")
    if quick:
        parser.add_argument("--quick", action="store_true", help=quick)
    if out:
        parser.add_argument("--out", type=Path, required=True, help=f"the folder of {out}")
    else:
        parser.add_argument("--json", type=Path, help="write all figures here")
    return parser


def folder_of(shared: Path, name: str) -> Path:
    """Return the folder of a data set in ``shared``; end with a sentence if it is not there."""
    folder = shared / "data" / name
    if not folder.is_dir():
        raise SystemExit(f"There is no folder {folder}; --shared names the wrong one.")
    return folder


def finish(
    figures: Mapping[str, Any],
    goals: Mapping[str, tuple[float, bool]],
    file: Path | None,
    /,
    **more: Any,
) -> None:
    """Print the goals, and write all figures, the command and the machine if a file is named."""
    print_goals(figures, goals)
    if file is not None:
        whole = {**figures, **more, "command": sys.argv, "machine": platform.platform()}
        file.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


@contextmanager
def neo4j_server(work: Path, dump: Path | None = None) -> Iterator[tuple[str, int]]:
    """Start a Neo4j in ``work``; give its URL and process, and stop it afterwards.

    It serves the database ``dump`` if one is given. Name and password stand in the environment.
    """
    script = Path(__file__).resolve().parents[1] / "neo4j"
    home = work / "neo4j"
    jars = Path(os.environ.get("KGQA_NEO4J_HOME") or script.parents[1] / ".neo4j") / "jars"
    env = {name: value for name, value in os.environ.items() if not name.startswith("NEO4J_")}
    with socket.socket() as bolt, socket.socket() as http:
        for probe in (bolt, http):
            probe.bind(("127.0.0.1", 0))
        ports = [str(probe.getsockname()[1]) for probe in (bolt, http)]

    def run(command: str, *words: str) -> str:
        place = ["--home", str(home), "--jars", str(jars)]
        line = [sys.executable, str(script), command, *place, *words]
        done = subprocess.run(line, env=env, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"scripts/neo4j {command} failed: {done.stderr.strip()}")
        return done.stdout + done.stderr

    where = ["--bolt-port", ports[0], "--http-port", ports[1], "--heap", "1g"]
    try:
        printed = run("start", *where)
        if dump is not None:  # the first start makes the folder
            run("stop")
            copy(dump, work / "neo4j.dump")
            load = ("database", "load", "neo4j", f"--from-path={work}")
            run("admin", *load, "--overwrite-destination=true")
            printed = run("start", *where)
        process = re.search(r"\(process (\d+)\)", printed)
        assert process
        password = (home / "password").read_text().strip()
        os.environ |= {"NEO4J_USERNAME": "neo4j", "NEO4J_PASSWORD": password}
        yield f"bolt://localhost:{ports[0]}", int(process[1])
    finally:
        run("stop")


def ask(
    kg: KG, rows: Sequence[Mapping[str, Any]], method: str, *, linked: bool, **given: Any
) -> list[Answer]:
    """Return the answer to each question; one that failed has an error.

    ``linked``: topic entities are found by the linker, not those of the question.
    """
    from kgqa import Question

    asked = [
        Question(
            id=row["id"],
            question=row["question"],
            topic_entities=[] if linked else row["topic_entities"],
            answers=row.get("answers", []),
        )
        for row in rows
    ]
    with kg.qa(method=method, **given) as session:
        return list(session.batch(asked))


@contextmanager
def question_graph(file: Path) -> Iterator[tuple[dict[str, Any], GraphStore, IntArray]]:
    """Load a file of data/gcr_question_graphs; give it, its graph, and the key of its topic."""
    import kgqa

    question = json.loads(file.read_text("utf-8"))
    triples = sorted({tuple(edge) for edge in question["edges"]})
    with (
        tempfile.TemporaryDirectory() as home,
        kgqa.ingest("triples", triples, kg="question", home=home) as kg,
    ):
        yield question, kg.store, kg.store.keys_of(question["topic_entities"])


@contextmanager
def served(home: Path, *flags: str) -> Iterator[tuple[str, int]]:
    """Run `kgqa serve` in ``home``; give its URL and its process, which is killed afterwards."""
    command = [sys.executable, "-m", "kgqa", "serve", "--port", "0", "--json", "--home", str(home)]
    with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())["url"], server.pid
        finally:
            server.kill()


def json_lines(file: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in file.read_text("utf-8").split("\n") if line.strip()]


def print_misses(misses: Iterable[tuple[Mapping[str, Any], Answer, Any]], most: int) -> None:
    """Print up to ``most`` questions with what was answered and wanted."""
    for row, answer, wanted in islice(misses, most):
        shown = [(round(path.score, 2), path.text) for path in answer.paths[:3]]
        best = answer.best.name if answer.best else None
        got = answer.error or f"{best} {shown} {answer.notes}"
        print(f"  - {row['kind']}: {row['question']} | {wanted} | {got}")


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


def with_between(document: Path, name: str, text: str) -> str:
    """Return a Markdown file with ``text`` between its comments ``name: begin`` and ``: end``."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    whole = document.read_text("utf-8")
    if whole.count(begin) != 1 or whole.count(end) != 1 or whole.index(begin) > whole.index(end):
        raise SystemExit(f"{document} has no place for the text: {begin} and {end}, once each.")
    before, after = whole.partition(begin)[0], whole.partition(end)[2]
    return f"{before}{begin}\n{text}\n{end}{after}"


def worked(work: Callable[..., T], *given: Any) -> tuple[float, T]:
    """Return the milliseconds of CPU, of all threads, that it took, and what it gave.

    On an idle machine one thread takes as long; on a busy one only this can be compared.
    """
    began = time.process_time()
    result = work(*given)
    return 1_000 * (time.process_time() - began), result

"""What happens around a running server: its KG goes, its disk is full, its database dies.

Each request gets an answer or a sentence, nothing false is said, and when the fault is over the
server goes on by itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

import kgqa
from kgqa.graph.neo4j import Neo4jConnection
from kgqa.progress import Silent
from tests.cli.test_struck import mount
from tests.graph.neo4j_server import CHECKOUT, ask, jars_folder, running_neo4j
from tests.server.conftest import QUESTION, TRIPLES, Reply, Served, ready, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(sys.platform != "linux", reason="faults are made by means of Linux"),
]

OTHER = [("checkout-api", "onCallEngineer", "Eve Novak"), *TRIPLES[1:]]


def load(home: Path, triples: list[tuple[str, str, str]], **given: Any) -> None:
    kgqa.ingest("triples", triples, kg="kg", home=home, progress=Silent(), **given).close()


def best(server: Served, question: str = QUESTION, kg: str | None = None) -> str | None:
    """The answer; None for a named error, which is the only other thing that may come."""
    reply = server.post("/api/ask", {"question": question, "method": "rank", "kg": kg})
    if reply.status == 200:
        return str(reply.json["answers"][0]["name"])
    named(reply)
    return None


def named(reply: Reply) -> None:
    assert reply.status in (404, 503, 504), reply.text
    assert "should not" not in reply.text
    assert reply.json["error"]["message"]


def until(seen: Callable[[], object], wanted: object, *others: object) -> None:
    """Wait until ``seen`` is what is wanted; until then it may be one of ``others``."""
    end = time.monotonic() + 120
    while (found := seen()) != wanted:
        assert found in others, found
        assert time.monotonic() < end, found
        time.sleep(0.2)


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.long)])
def test_a_kg_that_is_deleted_and_loaded_again(
    tmp_path: Path, model_cache: Path, workers: str
) -> None:
    load(tmp_path, TRIPLES)
    statement = {"statement": "checkout-api -> onCallEngineer -> Ada Birch"}
    with (
        serving(tmp_path, model_cache, "--workers", workers) as server,
        kgqa.open("kg", home=tmp_path) as opened,
    ):
        ready(server)
        assert best(server) == "Ada Birch"
        assert server.post("/api/check", statement).json["found"]
        kgqa.delete("kg", home=tmp_path)
        until(lambda: best(server), None, "Ada Birch")
        named(server.post("/api/check", statement))
        with pytest.raises(kgqa.KgqaError, match="no KG"):
            opened.check(statement["statement"])
        load(tmp_path, OTHER)
        assert not opened.check(statement["statement"])
        until(lambda: best(server), "Eve Novak", None)
        until(lambda: server.post("/api/check", statement).json.get("found"), False, None)


def test_a_full_disk(tmp_path: Path, model_cache: Path) -> None:
    """Of the data folder and the log: questions are answered, what cannot be kept is said."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount(disk, 64 << 20)
    judged = {"question": QUESTION, "topic_entities": ["checkout-api"], "answers": ["Ada Birch"]}
    try:
        load(disk / "home", TRIPLES)
        with (
            (disk / "log").open("w") as log,
            serving(disk / "home", model_cache, "--workers", "1", stderr=log) as server,
        ):
            ready(server)
            assert server.post("/api/approved", judged).status == 200
            with (disk / "full").open("wb", buffering=0) as full:
                for size in (1 << 20, 1 << 12, 1):
                    while take(full, size):
                        pass
            for number in range(3):
                asked = {"question": QUESTION, "method": "rank", "k": 5 + number}
                reply = server.post("/api/ask", asked)
                assert reply.json["answers"][0]["name"] == "Ada Birch"
            large = {**judged, "answers": ["x" * 1_000] * 200}
            reply = server.post("/api/approved", large)
            assert reply.status == 400
            assert "cannot be kept" in reply.json["error"]["message"]
            (disk / "full").unlink()
            assert server.post("/api/approved", {**judged, "question": "later"}).status == 200
            kept = server.get("/api/approved").text.splitlines()
            assert [json.loads(line)["question"] for line in kept] == [QUESTION, "later"]
    finally:
        subprocess.run(["umount", str(disk)], check=True, timeout=60)


def take(full: Any, size: int) -> bool:
    try:
        return bool(full.write(b"x" * size))
    except OSError:
        return False


@contextmanager
def stopped_at_the_end(process: int) -> Iterator[None]:
    """End a process, which may hang and then hears nothing else."""
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@pytest.mark.long
@pytest.mark.neo4j
def test_a_database_that_dies_in_a_question_and_comes_back(
    tmp_path: Path, model_cache: Path
) -> None:
    """One that holds a KG, and another KG of which is attached as it is."""
    place = tmp_path / "neo4j"
    with running_neo4j(place) as exports:
        account = {name: exports[name] for name in ("NEO4J_URI", "NEO4J_USERNAME")}
        account["NEO4J_PASSWORD"] = (place / "password").read_text().strip()
        state = json.loads((place / "run" / "server.json").read_text())
        with pytest.MonkeyPatch.context() as patch:
            for name, value in account.items():
                patch.setenv(name, value)
            load(tmp_path / "home", TRIPLES)
            connection = Neo4jConnection(*account.values())
            ask(connection, "CREATE (:Ship {name: 'Lark'})-[:BUILT_IN]->(:Town {name: 'Aven'})")
            connection.close()
            taken: dict[str, Any] = {"home": tmp_path / "home", "only": ["Ship", "Town"]}
            kgqa.attach(kg="live", progress=Silent(), **taken).close()
        questions = (("kg", QUESTION, "Ada Birch"), ("live", "where was Lark built in?", "Aven"))
        flags = ("--workers", "2", "--cache-mb", "0", "--time-limit", "30")
        with (
            stopped_at_the_end(state["pid"]),
            serving(tmp_path / "home", model_cache, *flags, **account) as server,
        ):
            ready(server)

            def answers() -> list[str | None]:
                return [best(server, question, kg) for kg, question, _ in questions]

            asking = {"question": QUESTION, "method": "rank", "kg": "kg"}
            right: list[str | None] = [answer for _, _, answer in questions]
            assert answers() == right
            os.kill(state["pid"], signal.SIGSTOP)  # it hangs, and holds all that is asked
            for path in ("/api/ask", "/api/kgs"):
                time.sleep(6)  # until the list of KGs is not believed any more
                hung = server.post(path, asking) if path == "/api/ask" else server.get(path)
                assert hung.status in (503, 504), hung.text
            os.kill(state["pid"], signal.SIGCONT)
            for kg, question, answer in questions:
                until(lambda q=question, kg=kg: best(server, q, kg), answer, None)  # type: ignore[misc]
            os.kill(state["pid"], signal.SIGSTOP)  # so that it dies with questions
            with ThreadPoolExecutor() as pool:
                asked = [pool.submit(best, server, q, kg) for kg, q, _ in questions]
                time.sleep(2)
                assert not any(future.done() for future in asked)
                os.kill(state["pid"], signal.SIGKILL)
                assert [future.result(120) for future in asked] == [None, None]
            refused = server.post("/api/ask", asking)
            assert "No Neo4j answers" in refused.json["error"]["message"], refused.text
            assert account["NEO4J_PASSWORD"] not in refused.text
            ports = ["--bolt-port", str(state["bolt_port"]), "--http-port", str(state["http_port"])]
            command = [sys.executable, "scripts/neo4j", "start", "--home", str(place), *ports]
            again = [*command, "--jars", str(jars_folder())]
            subprocess.run(again, cwd=CHECKOUT, check=True, capture_output=True, timeout=300)
            for at, (kg, question, answer) in enumerate(questions):
                until(lambda q=question, kg=kg: best(server, q, kg), answer, None)  # type: ignore[misc]
                assert answers()[: at + 1] == right[: at + 1]

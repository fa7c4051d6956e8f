"""Clients that leave, lie and hang: no place, connection or memory is theirs for long."""

from __future__ import annotations

import json
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kgqa.server.app import REQUEST_SECONDS
from tests.server.conftest import QUESTION, Served, ready, serving
from tests.server.test_workers import below

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = "asks", "leaves", "leaves a stream", "half", "too long", "no json", "chat", "no reader"


@pytest.fixture(scope="module")
def few(home: Path, model_cache: Path) -> Iterator[Served]:
    """A server with few places."""
    flags = ("--workers", "2", "--max-queue", "8", "--max-connections", "64", "--cache-mb", "0")
    with serving(home, model_cache, *flags, "--time-limit", "60") as server:
        ready(server)
        yield server


def memory(server: Served) -> float:
    """The memory of a server's processes in MB, what they share counted once."""
    found = 0
    for one in (server.process.pid, *below(server.process.pid)):
        lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        found += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return found / 1024


def behave(server: Served, kind: str, number: int) -> tuple[str, int]:
    """Be a client of a kind; return the kind and the status of the answer, 0 if none is read."""
    host, _, port = server.url.rpartition("/")[2].partition(":")
    body = {"question": f"{QUESTION} {number}", "k": 1 + number % 5}
    length, path = None, "/api/ask"
    match kind:
        case "leaves a stream":
            body["stream"] = True
        case "too long":
            length = 5_000_000
        case "half":
            length = 1_000
        case "chat":
            path = "/v1/chat/completions"
            body = {"model": "services", "messages": [], "stream_options": "x"}
    sent = b"[[[" if kind == "no json" else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {length or len(sent)}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=120) as client:
        client.sendall(head.encode() + sent)
        if kind in ("leaves", "leaves a stream", "half"):
            time.sleep(random.Random(number).random() / 10)
            return kind, 0
        if kind == "no reader":
            time.sleep(0.2)
            return kind, 0
        said = client.recv(1 << 16)
    return kind, int(said.split()[1]) if said else -1


def many(server: Served, count: int, seed: int) -> list[tuple[str, int]]:
    kinds = random.Random(seed).choices(KINDS, k=count)
    with ThreadPoolExecutor(16) as pool:
        return list(
            pool.map(lambda one: behave(server, *reversed(one)), enumerate(kinds, seed * 10_000))
        )


def settled(server: Served) -> None:
    """Wait until no question waits or runs."""
    end = time.monotonic() + 90
    while (state := server.get("/ready").json)["waiting"] or state["running"]:
        assert time.monotonic() < end, state
        time.sleep(0.1)


def tried(server: Served, count: int, seed: int) -> None:
    """Have clients of all kinds at once; each that listens gets its events."""
    for kind, status in many(server, count, seed):
        match kind:
            case "asks":
                assert status in (200, 429), (kind, status)
            case "too long":
                assert status == 413
            case "no json" | "chat":
                assert status == 400
    settled(server)
    asked = server.post("/api/ask", {"question": QUESTION})
    assert asked.status == 200, asked.text


def test_places_are_freed_whatever_clients_do(few: Served) -> None:
    for number in range(12):  # more than there are places
        assert behave(few, "chat", number) == ("chat", 400)
    tried(few, 48, 1)


@pytest.mark.long
def test_two_thousand_clients_leave_the_memory_as_it_was(few: Served) -> None:
    for seed in range(2, 6):  # caches of names and vectors fill
        tried(few, 200, seed)
    before = memory(few)
    for seed in range(10, 20):
        tried(few, 200, seed)
    time.sleep(REQUEST_SECONDS)
    assert memory(few) == pytest.approx(before, rel=0.05)


@pytest.mark.long
def test_a_connection_in_use_is_kept(few: Served) -> None:
    host, _, port = few.url.removeprefix("http://").rstrip("/").partition(":")
    with closing(HTTPConnection(host, int(port), timeout=10)) as connection:
        end = time.monotonic() + 1.5 * REQUEST_SECONDS
        while time.monotonic() < end:
            connection.request("GET", "/health")
            reply = connection.getresponse()
            assert reply.read()
            assert reply.status == 200
            time.sleep(1)

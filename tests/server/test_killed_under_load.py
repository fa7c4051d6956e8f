"""A server that is killed while many ask it and two write: nothing false is said, nothing is lost.

Each reply that came is whole and in the graph; the data folder is that of whole updates; the server
that starts again answers, and the processes of the one that was killed end.
"""

from __future__ import annotations

import http.client
import itertools
import os
import random
import shutil
import signal
import threading
import time
import urllib.error
from typing import TYPE_CHECKING, Any

import pytest

import kgqa
from kgqa.errors import KgqaError
from tests.server.conftest import TRIPLES, Served, ready, serving
from tests.server.test_workers import QUESTIONS, below, command, scores

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.model

PAIRS = [
    [(f"{who}-api", "onCallEngineer", f"{who} Both"), (f"{who} Both", "ledBy", f"{who} Two")]
    for who in ("first", "second")
]
KNOWN = {*TRIPLES, *itertools.chain(*PAIRS)}
CLIENTS = 6


class Load:
    """Clients that ask and writers that add and remove, until ``over`` is set."""

    def __init__(self, server: Served, files: list[Path]) -> None:
        self.server = server
        self.files = files
        self.over = threading.Event()
        self.whole = 0
        self.written = 0
        self.wrong: list[str] = []
        work = [(self._ask, at) for at in range(CLIENTS)] + [(self._write, at) for at in (0, 1)]
        self.threads = [threading.Thread(target=self._run, args=one) for one in work]

    def __enter__(self) -> Load:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(60)

    def _run(self, work: Any, number: int) -> None:
        try:
            work(number)
        except Exception as error:
            self.wrong.append(repr(error))

    def _ask(self, number: int) -> None:
        for question in itertools.cycle(QUESTIONS[number:] + QUESTIONS[:number]):
            if self.over.is_set():
                return
            try:
                reply = self.server.post("/api/ask", {"question": question})
                said = reply.json
            except (OSError, urllib.error.URLError, http.client.HTTPException):
                self.over.wait(0.01)  # it was killed: an incomplete reply does not count
                continue
            if reply.status != 200:
                assert said["error"]["message"], reply.text
                continue
            self.whole += 1
            for path in said["paths"]:
                for fact in (fact for edge in path["edges"] for fact in edge["facts"]):
                    assert (fact["head"], fact["predicate"], fact["tail"]) in KNOWN, reply.text

    def _write(self, number: int) -> None:
        while not self.over.is_set():
            try:
                with kgqa.open("services", home=self.server.home) as kg:
                    kg.update(self.files[number])
                    kg.update(remove=self.files[number])
                self.written += 1
            except KgqaError as error:  # one of two writes at a time
                if "Another command" not in str(error):
                    raise


def assert_whole(home: Path) -> None:
    """The data folder holds whole updates, and everything else."""
    with kgqa.open("services", home=home) as kg:
        for pair in PAIRS:
            assert len({there(kg, one) for one in pair}) == 1, pair
        assert all(kg.check(triple) for triple in TRIPLES)


def there(kg: kgqa.KG, triple: tuple[str, str, str]) -> bool:
    try:
        return bool(kg.check(triple))
    except KgqaError:  # a name that is gone
        return False


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.long)])
def test_a_server_that_is_killed_under_load(
    home: Path, model_cache: Path, tmp_path: Path, kills: int
) -> None:
    dice = random.Random(34)
    mine = tmp_path / "home"
    shutil.copytree(home, mine)
    files = [tmp_path / f"pair{number}.tsv" for number in (0, 1)]
    for file, pair in zip(files, PAIRS, strict=True):
        file.write_text("".join("\t".join(one) + "\n" for one in pair))
    for at in range(kills):
        flags = ("--cache-mb", dice.choice(["0", "8"]), "--workers", str(1 + at % 2))
        with serving(mine, model_cache, *flags) as server:
            if at % 5 != 4:  # of five one is killed while it loads its models
                ready(server)
            with Load(server, files) as load:
                time.sleep(dice.uniform(0, 2))
                while at % 5 != 4 and not (load.whole and load.written) and not load.wrong:
                    time.sleep(0.01)
                started = below(server.process.pid)
                if started and at % 2:  # a worker goes first
                    os.kill(dice.choice(started), signal.SIGKILL)
                    time.sleep(dice.uniform(0, 0.3))
                server.process.kill()
                server.process.wait()
            assert not load.wrong
        end = time.monotonic() + 60
        while any(map(command, started)):
            assert time.monotonic() < end, "a process outlives its server"
            time.sleep(0.05)
        assert_whole(mine)
    with kgqa.open("services", home=mine) as kg:
        for file in files:
            kg.update(remove=file)
        right = {one: kg.ask(one).to_dict() for one in QUESTIONS[:3]}
    with serving(mine, model_cache) as server:
        ready(server)
        for question, answer in right.items():
            said = server.post("/api/ask", {"question": question}).json
            near = pytest.approx(scores(answer, "answers", "name"), rel=1e-3)
            assert scores(said, "answers", "name") == near

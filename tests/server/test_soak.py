"""A server that is asked, searched, judged and updated for long holds no more than at first.

KGQA_SOAK_MINUTES is how long: 3 by default.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import psutil
import pytest

import kgqa
from kgqa.progress import Silent
from tests.server.conftest import TRIPLES, Served, ready, serving
from tests.server.test_workers import QUESTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.model,
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read as Linux tells it"),
]

MINUTES = float(os.environ.get("KGQA_SOAK_MINUTES", "3"))
WARM = 600  # requests, after which each worker has loaded all that it uses
# than in the second quarter: the cache of answers, 4 MB, and as much again for each process and
# its threads, whose allocators keep what was freed
MORE_MEMORY, MORE_FILES, MORE_THREADS = 32 << 20, 24, 12


def held(server: Served) -> tuple[int, int, int]:
    """The memory, files and threads of a server and its processes.

    Memory is what is in no file, each page shared by forks counted once: the pages of libraries
    are its own or shared according to what else the machine runs, hundreds of megabytes of them.
    """
    root = psutil.Process(server.process.pid)
    every = [root, *root.children(recursive=True)]
    return (
        sum(memory(process.pid) for process in every),
        sum(process.num_fds() for process in every),
        sum(process.num_threads() for process in every),
    )


def memory(process: int) -> int:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:")) << 10


def work(server: Served, home: Path, extra: Path) -> list[Callable[[int], Any]]:
    """What clients do, each by the number of the turn."""

    def update(at: int) -> None:
        with kgqa.open("kg", home=home, progress=Silent()) as kg:
            kg.update(**({"remove": extra} if at % 2 else {"add": extra}))
        time.sleep(2)

    def look_up(at: int) -> Any:
        paths = ("/api/kgs", "/api/status", "/metrics", "/api/paths?entity=checkout-api&hops=2")
        return server.get(paths[at % len(paths)])

    def judge(at: int) -> Any:
        time.sleep(1)
        judged = {"question": f"who {at % 50}?", "topic_entities": [], "answers": ["Ada Birch"]}
        return server.post("/api/approved", judged)

    return [
        lambda at: server.post("/api/ask", {"question": QUESTIONS[at % len(QUESTIONS)]}),
        lambda at: server.post("/api/ask", {"question": f"what is {at} of Payments", "k": 3}),
        lambda at: server.post("/api/query", {"plan": f"* ownedBy> * | limit {1 + at % 9}"}),
        look_up,
        judge,
        update,
    ]


def test_nothing_grows(tmp_path: Path, model_cache: Path) -> None:
    home, extra = tmp_path / "home", tmp_path / "more.tsv"
    extra.write_text("new-api\townedBy\tPayments\n")
    kgqa.ingest("triples", TRIPLES, kg="kg", home=home, progress=Silent()).close()
    over, wrong, done = threading.Event(), list[str](), list[int]()
    samples: list[tuple[int, int, int]] = []

    def client(does: Callable[[int], Any]) -> None:
        for at in itertools.count():
            if over.is_set():
                return
            try:
                reply = does(at)
                if reply is not None and reply.status not in (200, 422):
                    wrong.append(f"{does} {at}: {reply.text[:500]}")
            except Exception as error:
                wrong.append(f"{does} {at}: {error!r}")
            done.append(at)

    with serving(home, model_cache, "--workers", "2", "--cache-mb", "4") as server:
        ready(server)
        with suppress(TimeoutError):  # the first look at what is installed takes seconds
            server.get("/api/status")
        threads = [
            threading.Thread(target=client, args=[does]) for does in work(server, home, extra)
        ]
        for one in threads:
            one.start()
        while len(done) < WARM and not wrong:
            time.sleep(1)
        end = time.monotonic() + 60 * MINUTES
        while time.monotonic() < end and not wrong:
            time.sleep(5)
            samples.append(held(server))
        over.set()
        for one in threads:
            one.join(120)
    assert not wrong, wrong[:3]
    quarter = max(1, len(samples) // 4)
    first, last = samples[quarter : 2 * quarter], samples[-quarter:]  # after it has warmed up
    # what is shared with a process that is only being started counts less for that moment
    before, after = (
        [int(median(sample[place] for sample in part)) for place in range(3)]
        for part in (first, last)
    )
    print(f"{len(done):,} requests in {MINUTES:g} min; bytes, files, threads: {before} {after}")
    print("MiB:", *(sample[0] >> 20 for sample in samples))
    for was, now, more in zip(before, after, (MORE_MEMORY, MORE_FILES, MORE_THREADS), strict=True):
        assert now <= was + more, (before, after)

"""Work units on this machine: in this process, or in several that each have a store of their own.

The processes are started anew, not forked: a fork would share open connections and threads. What
they import holds no model library (:mod:`kgqa.trie.units`).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import TYPE_CHECKING

from kgqa.errors import IndexFault
from kgqa.trie.units import Worker

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from concurrent.futures import Future

    from kgqa.graph.model import IntArray
    from kgqa.trie.units import Job, Resources, Unit

_AHEAD = 2  # units for each worker that are made or wait to be fetched


class LocalEngine:
    """Runs units in ``workers`` processes, or in this one where that is 1."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers

    def run(
        self, resources: Resources, units: Iterable[IntArray], job: Job
    ) -> Generator[Unit, None, None]:
        """Yield the result of each unit, in order.

        ``resources`` is called once in every process and must be picklable where there are several.
        Raises IndexFault where a process dies.
        """
        if self.workers == 1:
            return _here(resources, units, job)
        return _in_processes(resources, units, job, self.workers)


def _here(resources: Resources, units: Iterable[IntArray], job: Job) -> Generator[Unit, None, None]:
    store, lexicon = resources()
    with store:
        worker = Worker(store, lexicon)
        for topics in units:
            yield worker.work(topics, job)


_resources: Resources | None = None
_worker: Worker | None = None


def _start_worker(resources: Resources) -> None:
    global _resources
    # Ctrl-C reaches the whole group: the parent tells it once, a worker just ends
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the processes are the parallelism
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _resources = resources


def _end_with_parent() -> None:
    """Leave when the parent has: one that was killed cannot tell its workers to."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _work(topics: IntArray, job: Job) -> Unit:
    global _worker
    assert _resources is not None  # the initializer has run
    if _worker is None:  # here, so that its error reaches the user as a unit's does
        _worker = Worker(*_resources())
    return _worker.work(topics, job)


def _in_processes(
    resources: Resources, units: Iterable[IntArray], job: Job, workers: int
) -> Generator[Unit, None, None]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _start_worker, (resources,)) as pool:
        ahead: deque[Future[Unit]] = deque()
        try:
            for topics in units:
                ahead.append(pool.submit(_work, topics, job))
                if len(ahead) > _AHEAD * workers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        except BrokenProcessPool:
            raise IndexFault(
                "A worker process ended before its work was done.",
                "What was written is kept: run the same command again, perhaps with fewer workers.",
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)

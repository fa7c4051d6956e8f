"""Work on many items at a time, in threads and in processes of this machine, results in order.

Processes are spawned: a fork would share connections and threads. What one of them needs for its
items (a store, models) is opened there, once, by a picklable function that returns a context; what
that gives is called with each item. A process that ends before its item is done loses this item
alone. Nothing here imports a library that is large, so that processes start at once.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from multiprocessing import connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from kgqa.errors import WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    Opened: TypeAlias = "Callable[[], AbstractContextManager[Callable[[_T], _R]]]"

_T = TypeVar("_T")
_R = TypeVar("_R")


class Executor(Protocol):
    """Where items are processed; see :class:`LocalExecutor` and :mod:`kgqa.cluster`."""

    workers: int | None  # None: as many as there are

    def run(
        self, opened: Opened[_T, _R], items: Iterable[_T]
    ) -> Generator[_R | WorkerError, None, None]:
        """Yield the result of each item, in order, or a WorkerError if its worker was lost.

        ``opened``: a context that yields the function for items; it is called in each worker, and
        must be picklable. Raises what the work raises, and WorkerError if no worker can run.
        """


class LocalExecutor:
    """Processes items in ``workers`` processes, or in this one if that is 1."""

    def __init__(self, workers: int = 1) -> None:
        self.workers: int | None = workers
        self._count = workers

    def run(
        self, opened: Opened[_T, _R], items: Iterable[_T]
    ) -> Generator[_R | WorkerError, None, None]:
        """Yield the result of each item, in order, or a WorkerError if its process ended.

        One worker is this process itself.
        """
        if self._count == 1:
            with opened() as work:
                yield from map(work, items)
        else:
            with processes(opened, self._count) as work_there:
                yield from mapped(work_there, items, self._count, ahead=2)


def mapped(
    work: Callable[[_T], _R], items: Iterable[_T], workers: int | None = None, ahead: int = 1
) -> Generator[_R, None, None]:
    """Yield ``work(item)`` in the order of the items, computed by ``workers`` threads.

    For work in NumPy and Arrow, which release the interpreter lock, or in another process.
    ``workers``: None for up to 8, by the number of CPUs; ``ahead``: the number of items for each
    thread that run or wait to be fetched.
    """
    workers = workers or max(1, min(8, os.cpu_count() or 1))
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[_R]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > ahead * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


@contextmanager
def processes(opened: Opened[_T, _R], count: int) -> Iterator[Callable[[_T], _R | WorkerError]]:
    """Start ``count`` processes, as a context; yields a function that processes an item in one.

    As many threads may call it at once. A process that ended is replaced.
    """
    context = multiprocessing.get_context("spawn")
    threads = max(1, (os.cpu_count() or 1) // count)
    free: SimpleQueue[ProcessPoolExecutor] = SimpleQueue()

    def process() -> ProcessPoolExecutor:  # a pool of one, so that it is known what ended it
        """Start one worker process."""
        return ProcessPoolExecutor(1, context, _start_process, (opened, threads))

    def work(item: _T) -> _R | WorkerError:
        """Process an item in a free process; return a WorkerError if the process ended."""
        pool = free.get()
        try:
            result: _R = pool.submit(_process_item, item).result()
            return result
        except BrokenProcessPool:
            pool = process()
            return WorkerError(
                "A worker process ended before its work was done.",
                "What was written is kept: run the same command again, perhaps with fewer "
                "`workers`.",
            )
        finally:
            free.put(pool)

    for _ in range(count):
        free.put(process())
    try:
        yield work
    finally:
        while not free.empty():
            free.get().shutdown(cancel_futures=True)


_opened: Callable[[], AbstractContextManager[Callable[[Any], Any]]] | None = None
_held: tuple[ExitStack, Callable[[Any], Any]] | None = None


def _start_process(opened: Opened[Any, Any], threads: int) -> None:
    """Initialise a worker process: signals, number of threads, watching its parent."""
    global _opened
    # Ctrl-C reaches the whole group: the parent reports it once, a worker just ends
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # read when NumPy or torch is loaded
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the processes are the parallelism
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _opened = opened


def _end_with_parent() -> None:
    """Exit when the parent process has ended: a killed parent cannot stop its workers."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _process_item(item: Any) -> Any:
    """Process an item in this worker process, opening its context at the first one."""
    global _held
    assert _opened is not None  # the initializer has run
    if _held is None:  # opened here, so that its error reaches the user as an item's does
        stack = ExitStack()
        _held = stack, stack.enter_context(_opened())
    return _held[1](item)

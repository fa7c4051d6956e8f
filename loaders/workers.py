"""Blocks worked on by several processes, for sources that are worth starting them.

Threads share one interpreter, and much of the work on a block holds it. A block goes to a worker
through shared memory, and what comes back is small. What it does not do: read blocks.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.shared_memory import SharedMemory
from typing import TYPE_CHECKING, Any, TypeVar

from kgqa.errors import IngestError
from kgqa.loaders.blocks import BLOCK_BYTES, STDIN, Block, mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future
    from pathlib import Path

WORTH_IT = 64 << 20  # bytes of sources (of standard input nobody knows) for which workers start
_R = TypeVar("_R")

_work: Callable[[Block], Any]
_rooms: dict[str, SharedMemory]


def worked(
    work: Callable[[Block], _R],
    blocks: Iterable[Block],
    sources: Sequence[Path],
    workers: int | None = None,
) -> Iterator[_R]:
    """Yield ``work(block)`` in the order of the blocks, by processes where that is worth it.

    ``work`` is sent to each worker once and must be picklable, as its results. Raises IngestError
    where a worker died.
    """
    count = workers or max(1, min(16, os.cpu_count() or 1))
    known = sum(path.stat().st_size for path in sources if path != STDIN and path.is_file())
    if count < 2 or (known < WORTH_IT and STDIN not in sources):
        yield from mapped(work, blocks, workers)
        return
    free: deque[SharedMemory] = deque()
    rooms: list[SharedMemory] = []
    waiting: deque[tuple[Future[_R], SharedMemory]] = deque()
    pool = ProcessPoolExecutor(
        count,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(work,),
    )
    try:
        for block in blocks:
            size = len(block.data)
            if free and free[0].size >= size:
                room = free.popleft()
            else:
                room = SharedMemory(create=True, size=max(size, 2 * BLOCK_BYTES))
                rooms.append(room)
            _buffer(room)[:size] = block.data
            told = (room.name, size, block.source, block.first, block.lines)
            waiting.append((pool.submit(_run, *told), room))
            if len(waiting) > count + 1:
                future, room = waiting.popleft()
                yield future.result()
                free.append(room)
        while waiting:
            yield waiting.popleft()[0].result()
    except BrokenProcessPool:
        raise IngestError(
            "A process that read the dump was ended from outside, perhaps for want of memory.",
            "Load it again; the load goes on after its last finished stage.",
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for room in rooms:
            room.close()
            room.unlink()


def _start(work: Callable[[Block], Any]) -> None:
    global _work, _rooms
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    _work, _rooms = work, {}


def _run(name: str, size: int, source: str, first: int, lines: int) -> Any:
    room = _rooms.get(name)
    if room is None:
        room = _rooms[name] = SharedMemory(name=name)
    data = _buffer(room)[:size].toreadonly()
    try:
        return _work(Block(source, first, lines, data))
    finally:
        data.release()


def _buffer(room: SharedMemory) -> memoryview:
    assert room.buf is not None  # it is until it is closed
    return room.buf

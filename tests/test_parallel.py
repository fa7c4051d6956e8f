"""Results come in order from threads and processes; a process that ends loses its item alone."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kgqa.errors import UsageError, WorkerError
from kgqa.parallel import LocalExecutor, mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def test_mapped_keeps_the_order_and_does_not_run_ahead() -> None:
    taken = []

    def numbers() -> Iterator[int]:
        for number in range(50):
            taken.append(number)
            yield number

    results = mapped(lambda number: number * number, numbers(), workers=2)
    for number in range(50):
        assert next(results) == number * number
        assert len(taken) <= number + 4  # those worked on, and no more
    assert list(results) == []


def test_mapped_raises_what_the_work_raises() -> None:
    def work(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return number

    results = mapped(work, range(10), workers=2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)


@contextmanager
def opened(base: int) -> Iterator[Callable[[int], tuple[int, int, str]]]:
    def work(number: int) -> tuple[int, int, str]:
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 9:
            raise UsageError("nine", "ten")
        return base + number, os.getpid(), os.environ["OMP_NUM_THREADS"]

    yield work


def test_processes_share_the_cores_and_one_that_is_killed_loses_its_item_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    found = list(LocalExecutor(2).run(partial(opened, 100), range(9)))
    assert isinstance(found[3], WorkerError)
    done = [one for one in found if not isinstance(one, WorkerError)]
    assert [number for number, _, _ in done] == [100, 101, 102, 104, 105, 106, 107, 108]
    assert 2 <= len({process for _, process, _ in done} - {os.getpid()}) <= 3
    assert {threads for _, _, threads in done} == {str(max(1, (os.cpu_count() or 1) // 2))}
    with pytest.raises(UsageError, match="nine ten"):
        list(LocalExecutor(2).run(partial(opened, 100), [9, 1]))


def test_one_worker_is_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert list(LocalExecutor(1).run(partial(opened, 1), [4])) == [(5, os.getpid(), "1")]

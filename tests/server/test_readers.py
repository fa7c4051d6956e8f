"""Look-ups and plans: no client and no KG holds up another, and what nobody waits for ends."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import kgqa
from kgqa.deadline import check_deadline
from kgqa.errors import GraphError
from kgqa.progress import Silent
from kgqa.server.faults import BusyError
from kgqa.server.guard import Client, asking
from kgqa.server.options import ServeOptions
from kgqa.server.readers import THREADS
from kgqa.server.sessions import LOOK_UPS, Sessions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.api import KG


@pytest.fixture
def made(home: Path) -> Iterator[Sessions]:
    from kgqa.api import Home

    sessions = Sessions(lambda kg, **shared: Home(home, kg=kg, **shared), ServeOptions())
    yield sessions
    for readers in sessions._readers.values():  # no model is loaded, so no worker runs
        readers.stop()


class Slow:
    """Work that goes on until it is let go, or its limit ends it."""

    def __init__(self) -> None:
        self.begun, self.let_go, self.ended = (threading.Semaphore(0) for _ in range(3))

    def __call__(self, _: KG) -> str:
        self.begun.release()
        try:
            while not self.let_go.acquire(timeout=0.01):
                check_deadline()
            return "slow"
        finally:
            self.ended.release()


async def begun(slow: Slow, times: int = 1) -> None:
    for _ in range(times):
        assert await asyncio.to_thread(slow.begun.acquire, timeout=60)


def look_up(kg: KG) -> int:
    return kg.info.edges


def test_a_look_up_does_not_wait_for_plans(made: Sessions) -> None:
    async def run() -> None:
        slow = Slow()
        plans = [asyncio.ensure_future(made.read(None, slow, plan=True)) for _ in range(6)]
        await begun(slow, THREADS)
        assert await made.read(None, look_up) > 0
        slow.let_go.release(6)
        assert await asyncio.gather(*plans) == ["slow"] * 6

    asyncio.run(run())


def test_the_load_of_one_kg_does_not_hold_up_another(tmp_path: Path) -> None:
    from kgqa.api import Home

    for name in ("busy", "quiet"):
        kgqa.ingest("triples", [("Ada", "knows", "Bo")], kg=name, home=tmp_path).close()
    made = Sessions(lambda kg, **shared: Home(tmp_path, kg=kg, **shared), ServeOptions())

    async def run() -> None:
        slow = Slow()
        busy = [asyncio.ensure_future(made.read("busy", slow)) for _ in range(3 * THREADS)]
        busy += [asyncio.ensure_future(made.read("busy", slow, plan=True)) for _ in range(6)]
        await begun(slow, THREADS)
        assert await made.read("quiet", look_up) == 1
        assert await made.read("quiet", look_up, plan=True) == 1
        assert not any(one.done() for one in busy)
        slow.let_go.release(len(busy))
        assert await asyncio.gather(*busy) == ["slow"] * len(busy)

    try:
        asyncio.run(run())
    finally:
        for readers in made._readers.values():
            readers.stop()


def test_a_client_does_not_wait_for_all_that_another_asked_before(made: Sessions) -> None:
    order: list[str] = []

    def noted(name: str) -> Any:
        def work(_: KG) -> None:
            order.append(name)

        return work

    async def run() -> None:
        slow = Slow()
        asking.set(Client(key="-" * 16, name="many"))
        held = [asyncio.ensure_future(made.read(None, slow)) for _ in range(THREADS)]
        await begun(slow, THREADS)
        waiting = [asyncio.ensure_future(made.read(None, noted("many"))) for _ in range(5)]
        await asyncio.sleep(0)
        asking.set(Client(key="-" * 16, name="few"))
        waiting.append(asyncio.ensure_future(made.read(None, noted("few"))))
        while sum(len(readers._waiting) for readers in made._readers.values()) < 6:
            await asyncio.sleep(0.01)
        slow.let_go.release()  # one thread does the rest: two may note out of turn what they took
        await asyncio.gather(*waiting)
        slow.let_go.release(THREADS - 1)
        await asyncio.gather(*held)

    asyncio.run(run())
    assert order == ["few", *["many"] * 5]


def test_the_look_ups_of_one_client_leave_room_for_another(made: Sessions) -> None:
    async def run() -> None:
        slow, most = Slow(), made.options.max_queue
        asking.set(Client(key="-" * 16, name="many"))
        plans = [asyncio.ensure_future(made.read(None, slow, plan=True)) for _ in range(most)]
        await begun(slow, THREADS)
        with pytest.raises(BusyError):
            await made.read(None, look_up)
        asking.set(Client(key="-" * 16, name="few"))
        assert await made.read(None, look_up) > 0
        slow.let_go.release(most)
        await asyncio.gather(*plans)

    asyncio.run(run())


def test_what_nobody_waits_for_ends(made: Sessions) -> None:
    async def run() -> None:
        slow = Slow()
        abandoned = asyncio.ensure_future(made.read(None, slow, plan=True))
        await begun(slow)
        abandoned.cancel()
        assert await asyncio.to_thread(slow.ended.acquire, timeout=60)
        assert await made.read(None, look_up, plan=True) > 0

    asyncio.run(run())


def test_look_ups_have_a_keys_limits(made: Sessions) -> None:
    async def run() -> None:
        slow = Slow()
        asking.set(Client(key="-" * 16, name="one", questions=1))
        first = asyncio.ensure_future(made.read(None, slow))
        await begun(slow)
        with pytest.raises(BusyError):
            await made.read(None, look_up)
        asking.set(Client(key="-" * 16, name="other", per_minute=1))
        for _ in range(LOOK_UPS):
            await made.read(None, look_up)
        with pytest.raises(BusyError):
            await made.read(None, look_up)
        slow.let_go.release()
        assert await first == "slow"

    asyncio.run(run())


def test_what_meets_a_change_of_its_kg_is_done_again(tmp_path: Path) -> None:
    from kgqa.api import Home

    file = tmp_path / "more.tsv"
    file.write_text("b\tr\tc\n")
    kgqa.ingest("triples", [("a", "r", "b")], kg="kg", home=tmp_path, progress=Silent()).close()
    changed = []

    def count(kg: KG) -> int:
        if not changed:
            with kgqa.open("kg", home=tmp_path) as other:
                changed.append(other.update(file))
            raise GraphError("A fact is no longer there.")
        return kg.info.edges

    def fail(_: KG) -> None:
        raise GraphError("It is damaged.")

    async def run(sessions: Sessions) -> None:
        assert await sessions.read(None, count) == 2
        with pytest.raises(GraphError, match="damaged"):
            await sessions.read(None, fail)

    sessions = Sessions(lambda kg, **shared: Home(tmp_path, kg=kg, **shared), ServeOptions())
    try:
        asyncio.run(run(sessions))
    finally:
        for readers in sessions._readers.values():
            readers.stop()


def test_an_error_ends_its_request_alone(made: Sessions) -> None:
    def fail(_: KG) -> None:
        raise ZeroDivisionError

    async def run() -> None:
        for _ in range(THREADS + 1):
            with pytest.raises(ZeroDivisionError):
                await made.read(None, fail)
        assert await made.read(None, look_up) > 0

    asyncio.run(run())

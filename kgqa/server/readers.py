"""Look-ups and plans, which need no model: threads for each KG, shared fairly among clients.

Each KG has threads of its own, so that the load of one does not hold up another; plans, which may
take long, have other threads than look-ups. Of what waits, the next is that of the client with the
least running. Work that nobody waits for any more ends at its next look at the time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kgqa.deadline import deadline
from kgqa.errors import GraphError, KgqaError, TimeLimitError
from kgqa.server.faults import RefusedError, StoppingError
from kgqa.server.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgqa.api import KG

THREADS = 2  # of a KG, for plans, and as many for look-ups
_PASS_ON = 5.0  # seconds that what runs is given when the server ends


@dataclass(eq=False, slots=True)
class _Reading:
    """A client's work on a KG; its result or error is passed to the event loop."""

    work: Callable[[KG], Any]
    client: str
    end: float
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]
    gone: bool = False

    def check(self) -> None:
        """Raise if the client has gone, or the time limit is over."""
        if self.gone:
            raise RefusedError(499, "The client went away.")
        if time.monotonic() > self.end:
            raise TimeLimitError("The time for this request is over.", "Ask for less.")

    def finish(self, result: Any, error: BaseException | None) -> None:
        """Pass the result or error to the event loop; callable from any thread.

        Nothing happens if the loop has ended or the reading was cancelled.
        """

        def pass_on() -> None:
            """Set the result or error in the loop's thread."""
            if not self.done.done():
                if error is None:
                    self.done.set_result(result)
                else:
                    self.done.set_exception(error)

        with suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(pass_on)


@dataclass(eq=False)
class Readers:
    """A pool of threads for one KG and one kind of work; ``opened`` opens the KG in a thread.

    ``is_replaced``: returns whether the store has a newer version than the open KG.
    """

    name: str
    opened: Callable[[], KG]
    is_replaced: Callable[[KG], bool]
    _waiting: list[_Reading] = field(default_factory=list)
    _turns: Turns = field(default_factory=Turns)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _threads: list[threading.Thread] = field(default_factory=list)
    _idle: int = 0
    _stopping: bool = False

    async def read(self, work: Callable[[KG], Any], client: str, seconds: float) -> Any:
        """Run ``work`` on the KG in a thread, started if none is idle; return its result.

        ``client``: its name, for taking turns; ``seconds``: the time limit. Raises the work's
        error, StoppingError, TimeoutError.
        """
        loop = asyncio.get_running_loop()
        reading = _Reading(work, client, time.monotonic() + seconds, loop, loop.create_future())
        with self._changed:
            if self._stopping:
                raise StoppingError
            self._waiting.append(reading)
            if not self._idle and len(self._threads) < THREADS:
                thread = threading.Thread(target=self._run, name=f"kgqa {self.name}", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()
        try:
            async with asyncio.timeout(seconds):
                return await reading.done
        finally:
            with self._changed:
                reading.gone = True
                if reading in self._waiting:
                    self._waiting.remove(reading)

    def stop(self) -> None:
        """Refuse waiting work, let running work finish briefly, and close the KG."""
        with self._changed:
            self._stopping = True
            waiting, self._waiting = self._waiting, []
            self._changed.notify_all()
        for reading in waiting:
            reading.finish(None, StoppingError())
        end = time.monotonic() + _PASS_ON
        for thread in self._threads:
            thread.join(timeout=max(0.0, end - time.monotonic()))

    def _next(self) -> _Reading | None:
        """Wait for work and return the next client's, None when stopping."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting or self._stopping)
            self._idle -= 1
            if self._stopping:
                return None
            reading = min(self._waiting, key=lambda one: self._turns.claim(one.client))
            self._waiting.remove(reading)
            self._turns.begin(reading.client)
            return reading

    def _run(self) -> None:
        """Process work in this thread until stopped, keeping the KG open."""
        kg: KG | None = None
        while (reading := self._next()) is not None:
            result, error = None, None
            try:
                reading.check()
                if kg is not None and self.is_replaced(kg):
                    stale, kg = kg, None
                    stale.close()
                kg = kg or self.opened()
                with deadline(reading.check):
                    result = _run_once_consistently(reading.work, kg)
            except BaseException as raised:  # reported to the client, and the thread goes on
                error = raised
            with self._changed:
                self._turns.end(reading.client)
            reading.finish(result, error)
        if kg is not None:
            with suppress(KgqaError):
                kg.close()


def _run_once_consistently(work: Callable[[KG], Any], kg: KG) -> Any:
    """Run ``work`` on a KG; run it once more if it failed because the KG changed meanwhile."""
    before = "" if kg.is_live else kg.info.version
    try:
        return work(kg)
    except GraphError:
        if not before or kg.info.version == before:
            raise
        return work(kg)

"""The questions of all clients: who waits, who is answered by which worker, who has gone.

Each worker (:mod:`kgqa.server.worker`) has a thread here, which takes a question of the client
whose turn it is, and for the same worker what else waits for the same session, up to its share.
What needs no model (linking, paths, checks, plans) has threads of its own
(:mod:`kgqa.server.readers`), and does not wait for questions. The event loop does neither.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kgqa.api import KG, QA, Asked, Home, Turn, status
from kgqa.api.kg import DEFAULT_METHOD
from kgqa.errors import KgqaError, TimeLimitError, WorkerError
from kgqa.server.faults import BusyError, StoppingError, error_json, unexpected
from kgqa.server.guard import asking
from kgqa.server.kgs import ServedKgs
from kgqa.server.progress import ServerProgress
from kgqa.server.readers import Readers
from kgqa.server.turns import Turns, is_full
from kgqa.server.worker import ALL, Job, RemoteWorker, Worker, Workers, request_session, session_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from kgqa.server.guard import Client
    from kgqa.server.options import ServeOptions

T = TypeVar("T")

_LOG = logging.getLogger("kgqa.server")
LOOK_UPS = 20  # look-ups and plans that a client may ask for in the time of a question
_TOGETHER = 32  # questions of one session before another's turn
_END_SECONDS = 10.0  # that what runs is given when the server ends
_LOOK_SECONDS = 1.0  # between two looks whether a worker that waits is there
_AGAIN_SECONDS = 1.0  # before a worker that was lost is replaced

Event = tuple[str, dict[str, Any]]


class Waiting:
    """A client's question from arrival to answer; its ``events`` go to the event loop."""

    def __init__(self, job: Job, cached: tuple[Any, ...], client: Client) -> None:
        self.job = job
        self.cached = cached  # key of its answer, which begins with the KG's state
        self.client = client.name
        self._sees_all = client.opens_all
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.gone = False
        self.failure: KgqaError | None = None
        self.place: int | None = None  # of the worker that answers it
        self.lost = 0  # workers that ended while they had it
        self._loop = asyncio.get_running_loop()

    @property
    def deadline(self) -> float:
        """The time at which its time limit is over."""
        return self.job.deadline

    def tell(self, stage: str, known: Mapping[str, Any]) -> None:
        """Pass an event to the event loop, unless nobody waits for it; callable from any thread."""
        if not self.gone:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.events.put_nowait, (stage, dict(known)))

    def tell_loading(self, text: str) -> None:
        """Report what is being loaded, hiding the name of a KG that the client may not access."""
        self.tell("loading", {"text": text if self._sees_all else "loading"})

    def check(self) -> None:
        """Raise if the client has gone, or the time limit is over."""
        self.job.check(gone=self.gone)

    def fail(self, error: KgqaError) -> None:
        """Report an error, which ends the question."""
        self.failure = error
        self.tell("error", error_json(error))


class AnswerCache:
    """A least-recently-used cache of answers, up to ``most`` bytes of JSON."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()

    def get(self, key: tuple[Any, ...]) -> dict[str, Any] | None:
        """Return a copy of a cached answer, None if there is none."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            text = self._kept[key]
        answer: dict[str, Any] = json.loads(text)
        return answer

    def put(self, key: tuple[Any, ...], answer: dict[str, Any]) -> None:
        """Cache an answer, unless it is huge; drop least recently used ones beyond the limit."""
        if not self._most:
            return
        text = json.dumps(answer).encode()
        if len(text) > self._most // 4:
            return
        with self._lock:
            self._size += len(text) - len(self._kept.pop(key, b""))
            self._kept[key] = text
            while self._size > self._most:
                self._size -= len(self._kept.popitem(last=False)[1])


class Sessions:
    """The queue of questions and the workers; ``home`` opens the home of a KG (None: of all).

    ``kgs``: the served KGs, all by default. ``workers`` starts worker processes; without it
    questions are answered in a thread of this process.
    """

    def __init__(
        self,
        home: Callable[..., Home],
        options: ServeOptions,
        kgs: Sequence[str] = (),
        workers: Callable[[str | None], Workers] | None = None,
    ) -> None:
        self.options = options
        self.progress = ServerProgress(self._tell_loading_to_all)
        self.fault: KgqaError | None = None  # of the first session
        self.ready = False
        self.listed = ServedKgs(home, kgs)
        self.kgs = self.listed.all
        self.kg_named = self.listed.named
        self.cache = AnswerCache(options.cache_mb << 20)
        self.done: Counter[str] = Counter()  # questions by how they ended
        self._home = home
        self._homes: dict[str, Home] = {}
        self._make_workers = workers
        self._workers: Workers | None = None
        self._answering: dict[int, Worker | RemoteWorker] = {}  # by their places
        self._numbers = itertools.count(ALL + 1)
        self._waiting: list[Waiting] = []
        self._running: dict[int, Waiting] = {}
        self._turns = Turns()
        self._asked: dict[str, deque[float]] = {}  # when each client did
        self._changed = threading.Condition()
        self.stopping = False
        self._seconds = 1.0  # a question, lately
        count = options.worker_count if workers else 1
        self._threads = [
            threading.Thread(target=self._run, args=(place,), name="kgqa worker", daemon=True)
            for place in range(count)
        ]
        self._readers: dict[tuple[str, bool], Readers] = {}  # by KG, for plans or not
        self._reading: Counter[str] = Counter()  # by clients
        self._looked: dict[str, deque[float]] = {}  # when each client did

    def check(self) -> None:
        """Raise GraphError if the store cannot be read, or lacks a served KG."""
        self.listed.check()

    def start(self) -> None:
        """Start the workers, which load the models for the first KG."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Refuse waiting questions, let running ones finish, and close everything."""
        self.refuse()
        end = time.monotonic() + _END_SECONDS
        for thread in self._threads:
            thread.join(timeout=max(0.0, end - time.monotonic()))
        if self._workers is not None:
            for worker in list(self._answering.values()):
                worker.close()
            self._workers.close()
        for readers in self._readers.values():
            readers.stop()

    def refuse(self) -> None:
        """Refuse new and waiting questions."""
        with self._changed:
            self.stopping = True
            waiting, self._waiting = self._waiting, []
            self._changed.notify_all()
        for question in waiting:
            question.fail(StoppingError())

    # ── what there is ───────────────────────────────────────────────────────────────────────

    def status(self) -> dict[str, Any]:
        """Return the status of all KGs, including those hidden from clients. Raises GraphError.

        A client gets the part that :func:`kgqa.server.views.visible_status` selects.
        """
        return status(self._home(None))

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of waiting and running questions."""
        return {"waiting": len(self._waiting), "running": len(self._running)}

    @property
    def workers(self) -> int:
        """The present number of workers."""
        return len(self._answering)

    # ── questions ───────────────────────────────────────────────────────────────────────────

    async def ask(
        self,
        question: str,
        kg: str | None = None,
        method: str = DEFAULT_METHOD,
        entities: Sequence[str] = (),
        choices: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        *,
        after: Sequence[Turn] = (),
        reading: int | None = None,
        watched: bool = True,
    ) -> Waiting:
        """Add a question to the queue; :meth:`events` yields its events, a cached answer at once.

        Unless ``watched``, there is hardly more than the last event. ``after``: the earlier turns
        of the chat; ``reading``: which offered reading is meant, from 1.

        Raises UsageError, KGNotFoundError, BusyError, StoppingError.
        """
        given = dict(options or {})
        name, session, state = await self.in_time(self._bound, kg, method, given)
        asked = Asked(
            question, tuple(entities), tuple(choices), after=tuple(after), reading=reading
        )
        deadline = time.monotonic() + self.options.time_limit
        key = session_key(name, session)
        job = Job(next(self._numbers), name, method, given, asked, deadline, watched, key)
        # "last month" is of a day, which ends in other zones at other times
        day = time.strftime("%F %H:%M")[: 15 if session.options.zone else 10]
        client = asking.get()
        waiting = Waiting(job, (state, client.name, day, *key, asked), client)
        if (cached := self.cache.get(waiting.cached)) is not None:
            self.done["cached"] += 1
            waiting.tell("answer", cached)
            return waiting
        ahead = self._queue(waiting)
        if watched:
            waiting.tell("queued", {"ahead": ahead, "kg": name, "method": method})
        if self.progress.doing:
            waiting.tell_loading(self.progress.doing)
        return waiting

    def _bound(self, kg: str | None, method: str, given: dict[str, Any]) -> tuple[str, QA, str]:
        """Return the name of the KG, a session with its options but no store, and its version.

        Raises UsageError, KGNotFoundError, GraphError.
        """
        name = self.kg_named(kg)
        if name not in self._homes:
            self._homes[name] = self._home(name)
        session = request_session(self._homes[name], method, given, self.options)
        return name, session, self.kgs()[name].version

    def _queue(self, waiting: Waiting) -> int:
        """Queue a question, after removing abandoned and late ones; return the number ahead of it.

        Raises BusyError, StoppingError.
        """
        client = asking.get()
        with self._changed:
            if self.stopping:
                raise StoppingError
            now = time.monotonic()  # nobody has waited for these any more
            self._waiting = [
                question
                for question in self._waiting
                if not question.gone and question.deadline > now
            ]
            ahead = len(self._waiting)
            waiting_of = Counter(question.client for question in self._waiting)
            if is_full(waiting_of, client.name, self.options.max_queue):
                raise BusyError(ahead, max(1, min(60, round(ahead * self._seconds))))
            mine = [
                question
                for question in (*self._waiting, *self._running.values())
                if not question.gone
            ]
            held = sum(question.client == client.name for question in mine)
            if client.questions is not None and held >= client.questions:
                raise BusyError(held, max(1, round(self._seconds)), client.name)
            if client.per_minute is not None:
                _check_rate(self._asked.setdefault(client.name, deque()), client, client.per_minute)
            self._waiting.append(waiting)
            self._changed.notify_all()
        return ahead

    async def events(self, waiting: Waiting) -> AsyncIterator[Event]:
        """Yield a question's events: a name and its data, ``answer`` or ``error`` last.

        A client that stops listening frees the question's place.
        """
        try:
            while True:
                try:
                    async with asyncio.timeout(waiting.deadline - time.monotonic()):
                        event = await waiting.events.get()
                except TimeoutError:
                    waiting.failure = self._time_limit_error()
                    event = "error", error_json(waiting.failure)
                yield event
                if event[0] in ("answer", "error"):
                    return
        finally:
            with self._changed:
                waiting.gone = True
                if waiting in self._waiting:
                    self._waiting.remove(waiting)
                runs = self._running.get(waiting.job.number)
                worker = self._answering.get(waiting.place or 0) if runs else None
            if worker is not None:
                worker.leave(waiting.job.number)

    async def answer(self, waiting: Waiting) -> dict[str, Any]:
        """Return the answer as ``kgqa ask --json`` prints it. Raises the question's KgqaError."""
        entries: dict[str, Any] = {}
        async for _, known in self.events(waiting):
            if waiting.failure is not None:
                raise waiting.failure
            entries = known
        return entries

    async def in_time(self, look: Callable[..., T], *given: Any) -> T:
        """Run ``look``, which reads stores, within the time limit.

        Raises its error, TimeLimitError.
        """
        try:
            async with asyncio.timeout(self.options.time_limit):
                return await asyncio.to_thread(look, *given)
        except TimeoutError as error:
            if isinstance(error, KgqaError):
                raise
            raise self._time_limit_error() from None

    def _time_limit_error(self) -> TimeLimitError:
        """Return the error of a request that took too long."""
        return TimeLimitError(
            f"The request took longer than the {self.options.time_limit:g} s that it may take.",
            "Ask for fewer paths or hops with `k` and `hops`, or try again later.",
        )

    # ── the threads of the workers ──────────────────────────────────────────────────────────

    def _run(self, place: int) -> None:
        """Feed worker number ``place`` from the queue, and replace it if it dies; until stopped."""
        while not self.stopping:
            try:
                self._answering[place] = worker = self._start_worker()
                while (first := self._wait_for_first(place, worker)) is not None:
                    began, taken = time.monotonic(), [first]
                    worker.serve(first.job, partial(self._take, place, taken), self._tell)
                    seconds = (time.monotonic() - began) / len(taken) / len(self._threads)
                    self._seconds += 0.3 * (seconds - self._seconds)
            except KgqaError as error:
                self._requeue_lost(place, error)
            except BaseException as error:  # whatever ends it, the next question is answered
                self._requeue_lost(place, unexpected(error, "A worker failed."))
        if (last := self._answering.pop(place, None)) is not None:
            last.close()

    def _start_worker(self) -> Worker | RemoteWorker:
        """Start a worker, wait until its models are loaded, and return it."""
        names = list(self.kgs())
        first = names[0] if names else None
        with self._changed:
            if self._make_workers is not None and self._workers is None:
                self._workers = self._make_workers(first)
        if self._workers is None:
            local = Worker(self._home, self.options, self.progress, self._is_gone)
            fault = local.warm_up(first) if first is not None else None
            self._set_ready(fault)
            return local
        self.progress.doing = f"loading {first} and its models" if first else ""
        remote = self._workers.start()
        self._set_ready(remote.wait(self._tell))
        return remote

    def _set_ready(self, fault: KgqaError | None) -> None:
        """Record that models are loaded, or the fault."""
        self.progress.doing = ""
        self.fault = fault
        self.ready = fault is None

    def _is_gone(self, number: int) -> bool:
        """Return whether nobody waits any more for the question with this number."""
        question = self._running.get(number)
        return question is None or question.gone

    def _wait_for_first(self, place: int, worker: Worker | RemoteWorker) -> Waiting | None:
        """Wait for a question, mark it as running by worker ``place``, and return it.

        None when the server stops. Raises WorkerError if the idle worker ended.
        """
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting or self.stopping, _LOOK_SECONDS)
                if self.stopping:
                    return None
                worker.check()
                if self._waiting:
                    return self._mark_running(place, self._next_waiting())

    def _next_waiting(self) -> Waiting:
        """Return the waiting question of the client whose turn it is."""
        return min(self._waiting, key=lambda question: self._turns.claim(question.client))

    def _take(self, place: int, taken: list[Waiting]) -> Job | None:
        """Return a waiting question for the session of ``taken``, and mark it as running.

        None if there is none, enough are taken, or it is the turn of a client with nothing running.
        """
        with self._changed:
            every = len(self._waiting) + len(self._running)
            mine = sum(question.place == place for question in self._running.values())
            share = -(-every // len(self._threads))
            if len(taken) >= _TOGETHER or mine >= max(1, share) or not self._waiting:
                return None
            turn, key = self._next_waiting(), taken[0].job.key
            if turn.job.key != key and not self._turns.claim(turn.client)[0]:
                return None  # it is the turn of a client that has nothing running
            question = next((one for one in (turn, *self._waiting) if one.job.key == key), None)
            if question is not None:
                taken.append(self._mark_running(place, question))
            return None if question is None else question.job

    def _mark_running(self, place: int, question: Waiting) -> Waiting:
        """Move a question from waiting to running."""
        self._waiting.remove(question)
        self._running[question.job.number] = question
        self._turns.begin(question.client)
        question.place = place
        return question

    def _tell(self, number: int, stage: str, known: Any) -> None:
        """Pass a worker's event to its question; the last one ends it and caches its answer.

        ``number``: of the question, ``ALL`` for progress of all; ``known``: the event's data.
        """
        if number == ALL:
            self.progress.tell(known)
            return
        if stage not in ("answer", "error"):
            if (question := self._running.get(number)) is not None:
                question.tell(stage, known)
            return
        with self._changed:
            question = self._running.pop(number, None)
            if question is None:
                return
            self._turns.end(question.client)
        if stage == "error":
            self.done["gone" if question.gone else type(known).__name__] += 1
            question.fail(known)
            return
        self.ready, self.fault = True, None
        self.done["answered"] += 1
        entry, state = known
        try:
            if state and state == question.cached[0]:  # a database that others change has none
                self.cache.put(question.cached, entry)
        finally:  # whatever becomes of the copy, somebody waits
            question.tell("answer", entry)

    def _requeue_lost(self, place: int, error: KgqaError) -> None:
        """Queue the questions of the dead worker ``place`` again; fail those lost too often.

        Waits a little before the worker is replaced.
        """
        with self._changed:
            if not self.stopping:
                _LOG.error(str(error))
            if (lost := self._answering.pop(place, None)) is not None:
                lost.close()
            if not self._answering:
                self.ready, self.fault = False, error
            mine = [question for question in self._running.values() if question.place == place]
            for question in mine:
                del self._running[question.job.number]
                self._turns.end(question.client)
                question.place = None
                again = question.lost < len(self._threads)  # all may have been ended at once
                if (
                    isinstance(error, WorkerError)
                    and again
                    and not (question.gone or self.stopping)
                ):
                    question.lost += 1
                    self._waiting.insert(0, question)
                else:
                    self.done[type(error).__name__] += 1
                    question.fail(error)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.stopping, _AGAIN_SECONDS)

    def _tell_loading_to_all(self, line: str) -> None:
        """Report a line of loading progress to all questions."""
        for question in [*self._running.values(), *self._waiting]:
            question.tell_loading(line)

    # ── look-ups and plans ──────────────────────────────────────────────────────────────────

    async def read(self, kg: str | None, work: Callable[[KG], T], *, plan: bool = False) -> T:
        """Run ``work`` on a KG in one of its threads; return its result. Raises KgqaError.

        ``kg``: None for the only one; ``plan``: whether it runs a plan, which may take long and has
        threads of its own.
        """
        if self.stopping:
            raise StoppingError
        client = asking.get()
        if is_full(self._reading, client.name, self.options.max_queue):
            raise BusyError(self._reading.total(), 1)
        if client.questions is not None and self._reading[client.name] >= client.questions:
            raise BusyError(self._reading[client.name], 1, client.name)
        if client.per_minute is not None:
            looked = self._looked.setdefault(client.name, deque())
            _check_rate(looked, client, LOOK_UPS * client.per_minute)
        self._reading[client.name] += 1
        try:
            name = await self.in_time(self.kg_named, kg)
            readers = self._readers.setdefault(
                (name, plan),
                Readers(name, lambda: KG.of(self._home(name)), self.listed.is_replaced),
            )
            result: T = await readers.read(work, client.name, self.options.time_limit)
            return result
        except TimeoutError as error:
            if isinstance(error, KgqaError):
                raise
            raise self._time_limit_error() from None
        finally:
            self._reading[client.name] -= 1


def _check_rate(times: deque[float], client: Client, most: int) -> None:
    """Record a request of a client in ``times``.

    Raises BusyError if ``most`` were recorded in the last minute.
    """
    now = time.monotonic()
    while times and times[0] < now - 60:
        times.popleft()
    if len(times) >= most:
        raise BusyError(len(times), max(1, round(times[0] + 60 - now)), client.name)
    times.append(now)

"""The sessions behind every endpoint: KGs, methods and their models stay loaded, clients wait.

Models are computed with in one thread: two of them on the same cores would take turns anyway, and
so all sessions share what is loaded. That thread takes the client who waits longest, and answers
together whatever else waits for the same session. What needs no model (linking, paths, checks) has
a thread for each KG, and does not wait for questions. The event loop does neither.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from kgqa.api import KG, QA, Asked, Home, Models, Turn, status
from kgqa.api.kg import DEFAULT_METHOD
from kgqa.errors import KGNotFoundError, KgqaError, TimeLimitError, UsageError
from kgqa.server.faults import BusyError, RefusedError, StoppingError, error_json, unexpected
from kgqa.server.progress import ServerProgress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from kgqa.server.options import ServeOptions

T = TypeVar("T")

_LOG = logging.getLogger("kgqa.server")
_TOGETHER = 32  # questions of one session before another's turn
_MOST_SESSIONS = 16  # each beside its models is small
_END_SECONDS = 10.0  # that what runs is given when the server ends
_FRESH = 5.0  # seconds for which the list of KGs is believed
_MODELS = ("model", "adapter", "reasoner", "ranker", "encoder", "general_model")
_MOST = {"k": 100, "hops": 4, "cap": 300_000}  # that a request may ask for

Event = tuple[str, dict[str, Any]]


class Waiting:
    """A client's question from its arrival to its answer; its ``events`` end up in the loop."""

    def __init__(
        self, kg: str, session: QA, deadline: float, asked: Asked, *, watched: bool
    ) -> None:
        self.kg = kg
        self.session = session  # not yet bound to the KG
        self.asked = replace(asked, watch=self.tell if watched else None, stop=self.check)
        self.deadline = deadline
        self.key = _key(kg, session)
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.gone = False
        self.failure: KgqaError | None = None
        self._loop = asyncio.get_running_loop()

    def tell(self, stage: str, known: Mapping[str, Any]) -> None:
        """Pass an event on; called in any thread."""
        if not self.gone:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.events.put_nowait, (stage, dict(known)))

    def check(self) -> None:
        """Raise if nobody waits for the answer: the client has gone, or its time is over."""
        if self.gone:
            raise RefusedError(499, "The client went away.")
        if time.monotonic() > self.deadline:
            raise TimeLimitError("The question's time is over.", "Ask for fewer paths or hops.")

    def fail(self, error: KgqaError) -> None:
        """Pass an error on, which ends the question."""
        self.failure = error
        self.tell("error", error_json(error))


def _key(kg: str, session: QA) -> tuple[str, ...]:
    return kg, session.name, repr(session.options)


class Sessions:
    """All sessions of a server; ``home`` makes the home of a KG, None of them all.

    ``kgs`` are those that are served, all by default.
    """

    def __init__(
        self, home: Callable[..., Home], options: ServeOptions, kgs: Sequence[str] = ()
    ) -> None:
        self.options = options
        self.progress = ServerProgress(self._tell_all)
        self.fault: KgqaError | None = None  # of the first session
        self.ready = False
        self._models = Models(self._make_room)
        self._home = home
        self._homes: dict[str, Home] = {}
        self._served = list(kgs)
        self._listed: tuple[float, dict[str, Any]] | None = None
        self._list_lock = threading.Lock()
        self._waiting: list[Waiting] = []
        self._running: list[Waiting] = []
        self._changed = threading.Condition()
        self._stopping = False
        self._seconds = 1.0  # a question, lately
        # of the thread of the models alone
        self._kgs: dict[str, KG] = {}
        self._open: dict[tuple[str, ...], QA] = {}  # the least recently used first
        self._thread = threading.Thread(target=self._run, name="kgqa models", daemon=True)
        # of the threads of the KGs
        self._readers: dict[str, ThreadPoolExecutor] = {}
        self._read: dict[str, KG] = {}
        self._reading = 0

    def check(self) -> None:
        """Raise GraphError if the store cannot be read, or lacks a KG that is to be served."""
        self.kgs()
        for name in self._served:
            self.kg_named(name)

    def start(self) -> None:
        """Start the thread of the models, which loads those of the first KG."""
        self._thread.start()

    def stop(self) -> None:
        """Tell those who wait, let what runs end, and close everything."""
        self.refuse()
        self._thread.join(timeout=_END_SECONDS)
        for name, reader in self._readers.items():
            kg = self._read.pop(name, None)
            if kg is not None:
                reader.submit(kg.close)  # where it was opened
            reader.shutdown()

    def refuse(self) -> None:
        """Take no more questions, and tell those who wait."""
        with self._changed:
            self._stopping = True
            told, self._waiting = self._waiting, []
            self._changed.notify_all()
        for one in told:
            one.fail(StoppingError())

    # ── what there is ───────────────────────────────────────────────────────────────────────

    def kgs(self, *, again: bool = False) -> dict[str, Any]:
        """Return the served KGs' records by name, read now and then, or ``again``.

        Raises GraphError.
        """
        with self._list_lock:
            if again or self._listed is None or time.monotonic() - self._listed[0] > _FRESH:
                faults: list[KgqaError] = []
                found = {info.name: info for info in self._home(None).kgs(faults)}
                for fault in faults:
                    _LOG.warning(str(fault))
                names = self._served or list(found)
                found = {name: found[name] for name in names if name in found}
                self._listed = time.monotonic(), found
            return self._listed[1]

    def kg_named(self, name: str | None) -> str:
        """Return the KG that is meant, the only one by default. Raises UsageError, GraphError."""
        names = list(self.kgs())
        if name in names:
            return str(name)
        listed = f"There is: {', '.join(names)}." if names else "Load one: kgqa ingest freebase"
        if name is not None or not names:
            called = f"no KG named {name[:80]}" if name is not None else "no KG"
            raise KGNotFoundError(f"There is {called} here.", listed)
        if len(names) > 1:
            raise UsageError("Several KGs are served, and none is named.", f"Set `kg`. {listed}")
        return names[0]

    def status(self) -> dict[str, Any]:
        """Return what ``kgqa status`` says of the served KGs. Raises GraphError."""
        found = status(self._home(None))
        served = self.kgs()
        return found | {"kgs": [one for one in found["kgs"] if one["name"] in served]}

    @property
    def counts(self) -> dict[str, int]:
        """How many questions wait, and how many are being answered."""
        return {"waiting": len(self._waiting), "running": len(self._running)}

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
        watched: bool = True,
    ) -> Waiting:
        """Put a question into the queue; :meth:`events` gives what happens to it.

        Unless it is ``watched``, that is little more than its end.

        Raises UsageError, KGNotFoundError, BusyError, StoppingError.
        """
        name = await asyncio.to_thread(self.kg_named, kg)
        session = await asyncio.to_thread(self._session, name, method, dict(options or {}))
        deadline = time.monotonic() + self.options.time_limit
        asked = Asked(question, tuple(entities), tuple(choices), after=tuple(after))
        waiting = Waiting(name, session, deadline, asked, watched=watched)
        with self._changed:
            if self._stopping:
                raise StoppingError
            now = time.monotonic()  # nobody has waited for these any more
            self._waiting = [one for one in self._waiting if not one.gone and one.deadline > now]
            ahead = len(self._waiting)
            if ahead >= self.options.max_queue:
                raise BusyError(ahead, max(1, min(60, round(ahead * self._seconds))))
            self._waiting.append(waiting)
            self._changed.notify_all()
        waiting.tell("queued", {"ahead": ahead, "kg": name, "method": method})
        if self.progress.doing:
            waiting.tell("loading", {"text": self.progress.doing})
        return waiting

    async def events(self, waiting: Waiting) -> AsyncIterator[Event]:
        """Yield what happens to a question: a name and what is known, ``answer`` or ``error`` last.

        Who stops listening frees its place.
        """
        try:
            while True:
                try:
                    async with asyncio.timeout(waiting.deadline - time.monotonic()):
                        event = await waiting.events.get()
                except TimeoutError:
                    waiting.failure = self._too_long()
                    event = "error", error_json(waiting.failure)
                yield event
                if event[0] in ("answer", "error"):
                    return
        finally:
            waiting.gone = True
            with self._changed:
                if waiting in self._waiting:
                    self._waiting.remove(waiting)

    async def answer(self, waiting: Waiting) -> dict[str, Any]:
        """Return the answer as ``kgqa ask --json`` prints it. Raises the question's KgqaError."""
        found: dict[str, Any] = {}
        async for _, known in self.events(waiting):
            if waiting.failure is not None:
                raise waiting.failure
            found = known
        return found

    def _too_long(self) -> TimeLimitError:
        return TimeLimitError(
            f"The question took longer than the {self.options.time_limit:g} s that it may take.",
            "Ask for fewer paths or hops with `k` and `hops`, or try again later.",
        )

    def _is_replaced(self, kg: KG) -> bool:
        """Whether the store has another version of a KG than the one that is open.

        An open store sees an update or a new load by itself, and an attached database is live.
        """
        try:
            if kg.is_live:
                return False
        except KgqaError:  # attached to another database, perhaps
            return True

        def differs(listed: Any) -> bool:
            return listed is not None and listed.version != kg.info.version

        if not differs(self.kgs().get(kg.name)):
            return False
        return differs(self.kgs(again=True).get(kg.name))  # the list may be the older one

    def _home_of(self, kg: str) -> Home:
        if kg not in self._homes:
            self._homes[kg] = self._home(kg, progress=self.progress, models=self._models)
        return self._homes[kg]

    def _session(self, kg: str, method: str, options: dict[str, Any]) -> QA:
        """Return a session that is not bound to a KG, its options validated. Raises UsageError."""
        for name in _MODELS:
            value = options.get(name)
            harmless = value is None or (name == "adapter" and value == "none")
            if not harmless and value not in self.options.allow:
                raise UsageError(
                    f"A request may not set `{name}` to '{str(value)[:80]}' here.",
                    "Whoever runs the server allows models by name: kgqa serve --allow NAME.",
                )
        home = self._home_of(kg)
        session = QA(home, None, method, options)
        for name, most in _MOST.items():
            asked = getattr(session.options, name, None)
            if asked is not None and asked > most:
                raise UsageError(f"`{name}` is {asked:,} and may be {most} at most here.")
        fields = type(session.options).model_fields
        if "time_limit" in fields and method != DEFAULT_METHOD:  # for which it would mean gcr
            asked = getattr(session.options, "time_limit", None)
            mine = min(asked or self.options.time_limit, self.options.time_limit)
            session = QA(home, None, method, {**options, "time_limit": mine})
        return session

    # ── the thread of the models ────────────────────────────────────────────────────────────

    def _run(self) -> None:
        self._warm_up()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopping)
                if self._stopping:
                    break
                first = self._waiting[0]
            began, before = time.monotonic(), len(self._running)
            self._serve(first)
            done = len(self._running) - before
            if done:
                self._seconds += 0.3 * ((time.monotonic() - began) / done - self._seconds)
            self._running.clear()
        for name in list(self._kgs):
            self._close(name)

    def _warm_up(self) -> None:
        try:
            names = list(self.kgs())
            if names:
                with self.progress.task(f"loading {names[0]} and its models"):
                    session = self._session(names[0], DEFAULT_METHOD, {})
                    self._use(_key(names[0], session), session.on(self._kg(names[0]).store))
        except KgqaError as error:
            self.fault = error
            _LOG.error(str(error))
        except Exception as error:
            self.fault = unexpected(error)
            _LOG.exception("The first session could not be opened.")
        self.ready = self.fault is None

    def _serve(self, first: Waiting) -> None:
        """Answer the questions that wait for a session, those that come meanwhile too."""

        def pulled() -> Iterator[Any]:
            while (one := self._take(first.key)) is not None:
                yield one.asked

        done: set[int] = set()
        error: KgqaError = unexpected(RuntimeError())
        try:
            kg = self._kg(first.kg)
            session = self._open.pop(first.key, None) or first.session.on(kg.store)
            self._use(first.key, session)
            self.ready, self.fault = True, None
            with closing(session.as_completed(pulled())) as found:
                for number, answer in found:
                    done.add(number)
                    one = self._running[number]
                    if isinstance(answer, KgqaError):
                        one.fail(answer)
                    elif not one.gone:
                        one.tell("answer", answer.to_dict(kg.browser_url(answer)))
        except KgqaError as raised:
            error = raised
        except Exception as raised:
            error = unexpected(raised)
            _LOG.exception("A session of %s failed.", first.kg)
        if not self._running:  # it could not be opened: whoever waits for it is notified
            while self._take(first.key) is not None:
                pass
        left = [one for number, one in enumerate(self._running) if number not in done]
        if left:
            self._forget(first.key)
        for one in left:
            one.fail(error)

    def _take(self, key: tuple[str, ...]) -> Waiting | None:
        """Return the next question that waits for a session, None if it is another's turn."""
        with self._changed:
            if len(self._running) >= _TOGETHER:
                return None
            for one in self._waiting:
                if one.key == key:
                    self._waiting.remove(one)
                    self._running.append(one)
                    return one
        return None

    def _use(self, key: tuple[str, ...], session: QA) -> None:
        """Make a session the most recently used one, its models loaded."""
        self._open[key] = session
        for old in list(self._open)[:-_MOST_SESSIONS]:
            self._forget(old)
        try:
            _ = session.method
        except BaseException:
            self._forget(key)
            raise

    def _forget(self, key: tuple[str, ...]) -> None:
        session = self._open.pop(key, None)
        if session is not None:
            session.close()

    def _make_room(self) -> None:
        """Close the least recently used sessions with a KG-LLM, so that one more may be loaded.

        The one that is being used is the last, and stays.
        """
        for key in list(self._open)[:-1]:
            held = frozenset().union(*(one.kg_llms for one in self._open.values()))
            if len(held) < self.options.max_models:
                return
            if self._open[key].kg_llms:
                self._forget(key)

    def _kg(self, name: str) -> KG:
        """Return the KG, opened again if it was replaced since."""
        if name in self._kgs and self._is_replaced(self._kgs[name]):
            self._close(name)
        if name not in self._kgs:
            self._kgs[name] = KG.of(self._home_of(name))
        return self._kgs[name]

    def _close(self, name: str) -> None:
        for key in [key for key in self._open if key[0] == name]:
            self._forget(key)
        self._kgs.pop(name).close()

    def _tell_all(self, line: str) -> None:
        for one in [*self._running, *self._waiting]:
            one.tell("loading", {"text": line})

    # ── the threads of the KGs ──────────────────────────────────────────────────────────────

    async def read(self, kg: str | None, work: Callable[[KG], T]) -> T:
        """Return what ``work`` does with a KG, in the KG's own thread. Raises KgqaError."""
        if self._stopping:
            raise StoppingError
        if self._reading >= self.options.max_queue:
            raise BusyError(self._reading, 1)
        self._reading += 1
        try:
            name = await asyncio.to_thread(self.kg_named, kg)
            if name not in self._readers:
                self._readers[name] = ThreadPoolExecutor(1, f"kgqa {name}")
            run = asyncio.get_running_loop().run_in_executor
            async with asyncio.timeout(self.options.time_limit):
                return await run(self._readers[name], self._reader_run, name, work)
        except TimeoutError:
            raise self._too_long() from None
        finally:
            self._reading -= 1

    def _reader_run(self, name: str, work: Callable[[KG], T]) -> T:
        if name in self._read and self._is_replaced(self._read[name]):
            self._read.pop(name).close()
        if name not in self._read:
            self._read[name] = KG.of(self._home(name))
        return work(self._read[name])

"""What answers: sessions with their models, in a thread of the server or in processes of their own.

A worker takes a question, and with it whatever else waits for the same session. Worker processes
are forked from one that has loaded the models of the first KG and nothing else, so that they share
its memory; each opens the store itself.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from kgqa.api import KG, QA, Asked, Home, Models
from kgqa.api.kg import DEFAULT_METHOD
from kgqa.errors import KgqaError, TimeLimitError, UsageError, WorkerError, is_out_of_memory
from kgqa.server.faults import RefusedError, unexpected
from kgqa.server.kgs import ServedKgs
from kgqa.server.progress import ServerProgress, log_to_stderr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kgqa.server.options import ServeOptions

    Take: TypeAlias = "Callable[[], Job | None]"
    Tell: TypeAlias = "Callable[[int, str, Any], None]"

_LOG = logging.getLogger("kgqa.server")
_GRACE_SECONDS = 10.0  # after which a worker whose questions' time is over is killed
_LOOK_SECONDS = 5.0
_MOST_SESSIONS = 16  # each beside its models is small
_MODELS = ("model", "adapter", "reasoner", "ranker", "encoder", "general_model")
_LISTED = 20  # facts and counted things of a plan's row; POST /query gives as many as asked for
_MOST = {"k": 100, "hops": 4, "cap": 300_000, "budget": 4_096}  # that a request may ask for
ALL = 0  # not the number of a question: the message concerns all


@dataclass(frozen=True, slots=True)
class Job:
    """A question for a worker; ``deadline`` is on the clock that all processes share.

    ``key``: of its session.
    """

    number: int
    kg: str
    method: str
    options: dict[str, Any]
    asked: Asked
    deadline: float
    watched: bool
    key: tuple[str, ...]

    def check(self, *, gone: bool) -> None:
        """Raise if the client has gone, or the time limit is over."""
        if gone:
            raise RefusedError(499, "The client went away.")
        if time.monotonic() > self.deadline:
            raise TimeLimitError("The question's time is over.", "Ask for fewer paths or hops.")


def session_key(kg: str, session: QA) -> tuple[str, ...]:
    """Return the key of a session: questions with equal keys share it."""
    return kg, session.name, repr(session.options)


def request_session(
    home: Home, method: str, options: Mapping[str, Any], limits: ServeOptions
) -> QA:
    """Build a session for a request's options, without a KG.

    ``limits``: which models and amounts a request may set. Raises UsageError beyond them.
    """
    for name in _MODELS:
        value = options.get(name)
        harmless = value is None or (name == "adapter" and value == "none")
        if not harmless and value not in limits.allow:
            raise UsageError(
                f"A request may not set `{name}` here to a model that the server does not allow.",
                f"Leave out `{name}`, or ask whoever runs the server to allow that model.",
            )
    session = QA(home, None, method, dict(options))
    for name, most in _MOST.items():
        asked = getattr(session.options, name, None)
        if asked is not None and asked > most:
            raise UsageError(f"`{name}` is {asked:,} and may be {most} at most here.")
    fields = type(session.options).model_fields
    if "time_limit" in fields and method != DEFAULT_METHOD:  # for which it would mean gcr
        asked = getattr(session.options, "time_limit", None)
        mine = min(asked or limits.time_limit, limits.time_limit)
        session = QA(home, None, method, {**options, "time_limit": mine})
    return session


class Worker:
    """Sessions with loaded models, for one thread. ``is_gone``: whether nobody awaits a number."""

    def __init__(
        self,
        home: Callable[..., Home],
        options: ServeOptions,
        progress: ServerProgress,
        is_gone: Callable[[int], bool],
    ) -> None:
        self.options = options
        self.progress = progress
        self.exhausted = False  # its memory ran out, so that it should be replaced
        self._is_gone = is_gone
        self._home = home
        self._listed = ServedKgs(home)
        self._models = Models(self._make_room)
        self._homes: dict[str, Home] = {}
        self._kgs: dict[str, KG] = {}
        self._open: dict[tuple[str, ...], QA] = {}  # the least recently used first
        self._kept: dict[str, QA] = {}  # whose models the processes share
        self._kg_independent: list[Any] = []  # models that a replaced KG's next sessions take over

    def load(self, name: str) -> None:
        """Load the models for a KG, and nothing that holds a connection. Raises KgqaError."""
        kg = KG.of(self._home_of(name))
        with closing(kg):
            session = self._session(name, DEFAULT_METHOD, {}).on(kg.store)
            session.load()
            self._kept[name] = session

    def warm_up(self, name: str) -> KgqaError | None:
        """Open a KG and its default session; return the error (logged), None if all went well."""
        try:
            with self.progress.task(f"loading {name} and its models"):
                session = self._session(name, DEFAULT_METHOD, {})
                self._make_current(session_key(name, session), session.on(self._kg(name).store))
        except KgqaError as error:
            _LOG.error(str(error))
            return error
        except Exception as error:
            return unexpected(error, "The first session could not be opened.")
        return None

    def serve(self, first: Job, take: Take, tell: Tell) -> None:
        """Answer ``first`` and further questions of its session, which ``take`` returns until None.

        Each question ends by a ``tell`` of its number with ``answer`` (the answer, the KG's state)
        or ``error``.
        """
        running: list[Job] = []
        done: set[int] = set()
        error: KgqaError = unexpected(RuntimeError())
        key: tuple[str, ...] = ()

        def pulled() -> Iterator[Asked]:
            """Yield the questions as they are taken."""
            job: Job | None = first
            while job is not None:
                running.append(job)
                watch = partial(tell, job.number) if job.watched else None
                yield replace(job.asked, watch=watch, stop=partial(self._check_job, job))
                job = take()

        try:
            kg = self._kg(first.kg)
            key = first.key
            session = self._open.pop(key, None)
            if session is None:
                session = self._session(first.kg, first.method, first.options).on(kg.store)
            self._make_current(key, session)
            with closing(session.as_completed(pulled())) as results:
                for place, answer in results:
                    number = running[place].number
                    if isinstance(answer, KgqaError):
                        tell(number, "error", answer)
                    else:
                        state = "" if kg.is_live else kg.info.version
                        shown = answer.to_dict(kg.browser_url(answer), listed=_LISTED)
                        tell(number, "answer", (shown, state))
                    done.add(place)  # not before: an answer whose KG is gone by now is an error
        except KgqaError as raised:
            error = raised
        except BaseException as raised:  # a Rust library's panic is not an Exception
            error = unexpected(raised, f"A session of {first.kg} failed.")
            self.exhausted = is_out_of_memory(raised)
        if not running:  # it could not be opened: whoever waits for it is notified
            running = [first]
            while (job := take()) is not None:
                running.append(job)
        left = [job for place, job in enumerate(running) if place not in done]
        if left:
            self._forget(key)
        for job in left:
            tell(job.number, "error", error)

    def check(self) -> None:
        """Do nothing: a thread cannot have ended."""

    def leave(self, number: int) -> None:
        """Do nothing: ``is_gone`` tells that a question was abandoned."""

    def close(self) -> None:
        """Close all sessions and KGs."""
        for name in list(self._kgs):
            self._close(name)

    def _check_job(self, job: Job) -> None:
        """Raise if a job's client has gone, or its time is over."""
        job.check(gone=self._is_gone(job.number))

    def _home_of(self, kg: str) -> Home:
        """Return the home of a KG, built at first use."""
        if kg not in self._homes:
            self._homes[kg] = self._home(kg, progress=self.progress, models=self._models)
        return self._homes[kg]

    def _session(self, kg: str, method: str, options: Mapping[str, Any]) -> QA:
        """Build a session for a request."""
        return request_session(self._home_of(kg), method, options, self.options)

    def _make_current(self, key: tuple[str, ...], session: QA) -> None:
        """Make a session the most recently used one, load its models, and close surplus ones."""
        self._open[key] = session
        for old in list(self._open)[:-_MOST_SESSIONS]:
            self._forget(old)
        try:
            _ = session.method
        except BaseException:
            self._forget(key)
            raise

    def _forget(self, key: tuple[str, ...]) -> None:
        """Close a session."""
        session = self._open.pop(key, None)
        if session is not None:
            session.close()

    def _make_room(self) -> None:
        """Close the least recently used sessions with a KG-LLM before another is loaded.

        The session in use is the last, and stays.
        """
        for key in list(self._open)[:-1]:
            held = frozenset().union(*(session.kg_llms for session in self._open.values()))
            if len(held) < self.options.max_models:
                return
            if self._open[key].kg_llms:
                self._forget(key)

    def _kg(self, name: str) -> KG:
        """Return the open KG; if the store has a newer one, close it and open that."""
        if name in self._kgs and self._listed.is_replaced(self._kgs[name]):
            # held, or each process would load its own copy
            self._kg_independent = self._models.kg_independent()
            self._close(name)
            if (kept := self._kept.pop(name, None)) is not None:  # what was learned for it is old
                kept.close()
        if name not in self._kgs:
            self._kgs[name] = KG.of(self._home_of(name))
        return self._kgs[name]

    def _close(self, name: str) -> None:
        """Close a KG and its sessions."""
        for key in [key for key in self._open if key[0] == name]:
            self._forget(key)
        self._kgs.pop(name).close()


# ── processes ───────────────────────────────────────────────────────────────────────────────


class Workers:
    """Starts worker processes, forked from one that has loaded the models for the KG ``first``."""

    def __init__(self, home: Callable[..., Home], options: ServeOptions, first: str | None) -> None:
        self._given = home, options, first
        self._lock = threading.Lock()
        self._loaded: tuple[Connection, Any] | None = None

    def start(self) -> RemoteWorker:
        """Start a worker process. Raises WorkerError."""
        with self._lock:
            for _ in range(2):  # the process that forks may have ended, too
                if self._loaded is None:
                    self._loaded = self._load()
                control, process = self._loaded
                mine, other = multiprocessing.Pipe()
                try:
                    with other:
                        send_handle(control, other.fileno(), process.pid)
                    return RemoteWorker(mine)
                except OSError:
                    mine.close()
                    self.close()
        raise WorkerError("No worker process can be started.", "Try again later.")

    def _load(self) -> tuple[Connection, Any]:
        """Start the process that loads models and forks; return its connection and itself."""
        context = multiprocessing.get_context("spawn")
        mine, other = context.Pipe()
        process = context.Process(target=_load_and_fork, args=(other, *self._given), daemon=True)
        process.start()
        other.close()
        return mine, process

    def close(self) -> None:
        """End the forking process; workers end when their own connections close."""
        if self._loaded is not None:
            control, process = self._loaded
            self._loaded = None
            control.close()
            process.join(timeout=1)
            process.kill()


class RemoteWorker:
    """A worker process, controlled over a connection."""

    def __init__(self, link: Connection) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._pid = 0

    def wait(self, tell: Tell) -> KgqaError | None:
        """Wait until the models are loaded, passing progress to ``tell``; return the error or None.

        Raises WorkerError.
        """
        while len(given := self._receive()) > 2:
            tell(*given)
        fault: KgqaError | None
        self._pid, fault = given
        return fault

    def serve(self, first: Job, take: Take, tell: Tell) -> None:
        """See :meth:`Worker.serve`. Raises WorkerError if the worker is lost."""
        self._send(first)
        latest = first.deadline
        while (given := self._receive(latest + _GRACE_SECONDS)) is not None:
            if given == _TAKE:
                self._send(job := take())
                latest = max(latest, job.deadline) if job is not None else latest
            else:
                tell(*given)

    def check(self) -> None:
        """Raise WorkerError if the idle process has ended."""
        try:
            if self._link.poll(0):  # what it would not send then, or the end
                raise _lost_worker()
        except OSError:
            raise _lost_worker() from None

    def leave(self, number: int) -> None:
        """Tell the process to abandon a question."""
        with suppress(WorkerError):
            self._send(number)

    def close(self) -> None:
        """End the process."""
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        self._link.close()

    def _send(self, what: Any) -> None:
        """Send a message to the process. Raises WorkerError."""
        try:
            with self._lock:
                self._link.send(what)
        except OSError:
            raise _lost_worker() from None

    def _receive(self, end: float | None = None) -> Any:
        """Return the next message of the process. Raises WorkerError if it ended.

        A process that is silent at the time ``end`` is ended.
        """
        try:
            while not self._link.poll(_LOOK_SECONDS):
                if end is not None and time.monotonic() > end:  # it hangs where it checks nothing
                    self.close()
            return self._link.recv()
        except (EOFError, OSError):
            raise _lost_worker() from None


_TAKE = "take"


def _lost_worker() -> WorkerError:
    """Return the error of a worker process that ended."""
    return WorkerError("A worker process ended before its work was done.", "Ask again.")


def _load_and_fork(
    control: Connection, home: Callable[..., Home], options: ServeOptions, first: str | None
) -> None:
    """Load shared models, then fork a worker for each connection that ``control`` passes.

    ``first``: the KG whose models are loaded. Never returns: the process exits with the server.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its workers itself
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    # OpenMP with more threads than one does not survive a fork
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    log_to_stderr()
    gone: set[int] = set()
    worker = Worker(home, options, ServerProgress(), gone.__contains__)
    if first is not None and options.shares_models:
        try:
            worker.load(first)
        except Exception as error:  # which the workers report
            _LOG.debug("Nothing is shared: %s", error)
    gc.collect()
    gc.freeze()  # so that the collector does not write into what is shared
    while True:
        try:
            handle = recv_handle(control)
        except (EOFError, OSError):
            os._exit(0)
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            _run_worker(Connection(handle), worker, gone, first)
        os.close(handle)


def _run_worker(link: Connection, worker: Worker, gone: set[int], first: str | None) -> None:
    """Run the loop of a worker process until the server closes the connection.

    ``gone``: the numbers of abandoned questions, which this process fills; ``first``: the KG to
    open at once, None for none.
    """
    inbox: SimpleQueue[Job | None] = SimpleQueue()

    def listen() -> None:
        """Receive jobs and abandoned questions' numbers in a thread."""
        try:
            while True:
                what = link.recv()
                if isinstance(what, int):
                    gone.add(what)
                else:
                    inbox.put(what)
        except (EOFError, OSError):
            os._exit(0)

    sending = threading.Lock()  # what runs in a method's own threads tells, too

    def send(what: Any) -> None:
        """Send a message to the server."""
        with sending:  # two at once would mix their bytes
            link.send(what)

    def take() -> Job | None:
        """Request the next job of the session from the server."""
        send(_TAKE)
        return inbox.get()

    def tell(number: int, stage: str, known: Any) -> None:
        """Send a question's event to the server."""
        send((number, stage, known))

    threading.Thread(target=listen, daemon=True).start()
    try:
        _use_threads(max(1, (os.cpu_count() or 1) // worker.options.worker_count))
        worker.progress.tell = lambda line: tell(ALL, "loading", line)
        fault = worker.warm_up(first) if first is not None else None
        send((os.getpid(), fault))
        while True:
            job = inbox.get()
            assert job is not None
            worker.serve(job, take, tell)
            gone.clear()
            send(None)
            if worker.exhausted:
                return
    except BaseException:
        _LOG.exception("A worker process ends.")
    finally:
        os._exit(1)


def _use_threads(count: int) -> None:
    """Set the number of torch's threads, if torch is loaded."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and count > 1:
        torch.set_num_threads(count)

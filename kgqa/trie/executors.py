"""Work units (finished shards of some topic entities), made here, in processes or on a cluster.

Every executor gives the same units in the same order, a bounded number in flight; the process that
started the run enters what they give. Processes are spawned: a fork would share connections and
threads. Nodes of a Ray cluster need this kgqa and reach the graph: a Neo4j server, or an SQLite
file at the same path; the folder of the index they need not see. Nothing here imports a model
library, so that workers start at once and stay small.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from kgqa.errors import IndexFault, KgqaError, UsageError
from kgqa.graph.model import keys_array
from kgqa.paths.sample import Sample, sample_walk
from kgqa.paths.walk import joined_tables, walk
from kgqa.trie.index.manifest import SCHEMA_VERSION
from kgqa.trie.index.shard import encode_shard
from kgqa.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import PathTable, WalkRules
    from kgqa.trie.index.shard import NewShard
    from kgqa.trie.lexicon import PathLexicon

    Resources = Callable[[], tuple[GraphStore, PathLexicon]]
    Units = Generator["Unit", None, None]
    Running = TypeVar("Running")

_TOGETHER = 16, 512  # entities that are walked at once, at first and at most
_WALKED = 1 << 18  # paths that a walk should find; the next one has as many entities as that needs
_REMEMBERED = 200_000  # names after which those that were read are forgotten
PATHS_IN_SHARD = 1 << 20  # a unit with more gets several shards


@dataclass(frozen=True, slots=True)
class UnitSettings:
    """What is the same for all units of a run, entity keys being those of ``kg_version``."""

    rules: WalkRules
    cap: int
    sample: Sample | None
    kg_version: str


@dataclass(frozen=True, slots=True)
class Unit:
    """The shards of a unit's entities, and the ids of those that have more paths than the cap."""

    shards: list[NewShard]
    composed: list[str]
    without_paths: int


class Worker:
    """Makes units one after another with one store and one lexicon, in bounded memory."""

    def __init__(self, store: GraphStore, lexicon: PathLexicon) -> None:
        self.store = store
        self._lexicon = lexicon

    def work(self, topics: IntArray, settings: UnitSettings) -> Unit:
        """Return the shards of ``topics``, and the ids of those with too many paths.

        Raises IndexFault.
        """
        version = self.store.info.version
        if version != settings.kg_version:
            raise IndexFault(
                f"The graph {self.store.url} holds version {version[:12]} of the KG, not "
                f"{settings.kg_version[:12]}, for which this run was started.",
                "Every worker must read the same graph. If it was loaded again meanwhile, run the "
                "same command again.",
            )
        shards: list[NewShard] = []
        composed: list[str] = []
        without = 0
        held: list[tuple[IntArray, PathTable]] = []
        for keys, table, over in self._walks(topics, settings):
            composed += self.store.entities(over).ids if len(over) else []
            without += len(keys) - len(np.unique(table.topic))
            for part in _parts(keys, table):
                if held and _size(held) + len(part[1]) > PATHS_IN_SHARD:
                    shards.append(self._shard(held))
                held.append(part)
        if held:
            shards.append(self._shard(held))
        if self._lexicon.names > _REMEMBERED:
            self._lexicon.clear()
        return Unit(shards, composed, without)

    def _walks(
        self, topics: IntArray, settings: UnitSettings
    ) -> Iterator[tuple[IntArray, PathTable, IntArray]]:
        """Yield some of the topics at a time, their paths, and the topics with too many."""
        start, count = 0, _TOGETHER[0]
        while start < len(topics):
            keys = topics[start : start + count]
            start += count
            if settings.sample is None:
                table, over = walk(self.store, keys, settings.rules, settings.cap)
            else:
                table = sample_walk(self.store, keys, settings.rules, settings.sample)
                over = keys[:0]
            yield np.setdiff1d(keys, over, assume_unique=True), table, over
            wanted = _WALKED * len(keys) // max(1, len(table) + settings.cap * len(over))
            count = min(max(wanted, _TOGETHER[0]), 4 * count, _TOGETHER[1])

    def _shard(self, held: list[tuple[IntArray, PathTable]]) -> NewShard:
        """Return the shard of what is held, which then is not."""
        keys = np.concatenate([keys for keys, _ in held])
        table = joined_tables([table for _, table in held])
        held.clear()
        return encode_shard(self.store, self._lexicon, keys, table)


def _size(held: Iterable[tuple[IntArray, PathTable]]) -> int:
    return sum(len(table) for _, table in held)


def _parts(keys: IntArray, table: PathTable) -> Iterator[tuple[IntArray, PathTable]]:
    """Yield entities with their paths, as many as a shard may have; one by one if they are more."""
    if len(table) <= PATHS_IN_SHARD // 8:
        if len(keys):
            yield keys, table
        return
    for key in keys.tolist():
        yield keys_array([key]), table.of(key)


_AHEAD = 2  # units for each worker that are made or wait to be fetched


class Executor(Protocol):
    """Runs the units of a run."""

    def run(self, resources: Resources, units: Iterable[IntArray], settings: UnitSettings) -> Units:
        """Yield the result of each of ``units`` (topic keys, ascending), in order.

        ``resources`` opens a store and makes a lexicon, where units run: picklable for another
        process. Raises what a unit raises, and IndexFault if a worker is lost for good.
        """


def _in_order(
    units: Iterable[IntArray],
    start: Callable[[IntArray], Running],
    result: Callable[[Running], Unit],
    workers: int,
) -> Units:
    running: deque[Running] = deque()
    for topics in units:
        running.append(start(topics))
        if len(running) > _AHEAD * workers:
            yield result(running.popleft())
    while running:
        yield result(running.popleft())


# ── this machine ────────────────────────────────────────────────────────────────────────────────


class LocalExecutor:
    """Runs units in ``workers`` processes, or in this one if that is 1."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers

    def run(self, resources: Resources, units: Iterable[IntArray], settings: UnitSettings) -> Units:
        """Yield the result of each unit, in order. Raises IndexFault if a process dies."""
        if self.workers == 1:
            store, lexicon = resources()
            with store:
                worker = Worker(store, lexicon)
                for topics in units:
                    yield worker.work(topics, settings)
            return
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self.workers, context, _start_process, (resources,)) as pool:
            try:
                yield from _in_order(
                    units,
                    lambda topics: pool.submit(_work_in_process, topics, settings),
                    lambda future: future.result(),
                    self.workers,
                )
            except BrokenProcessPool:
                raise IndexFault(
                    "A worker process ended before its work was done.",
                    "What was written is kept: run the same command again, perhaps with fewer "
                    "`workers`.",
                ) from None
            finally:
                pool.shutdown(cancel_futures=True)


_resources: Resources | None = None
_worker: Worker | None = None


def _start_process(resources: Resources) -> None:
    global _resources
    # Ctrl-C reaches the whole group: the parent reports it once, a worker just ends
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the processes are the parallelism
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _resources = resources


def _end_with_parent() -> None:
    """Leave when the parent has: one that was killed cannot stop its workers."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _work_in_process(topics: IntArray, settings: UnitSettings) -> Unit:
    global _worker
    assert _resources is not None  # the initializer has run
    if _worker is None:  # opened here, so that its error reaches the user as a unit's does
        _worker = Worker(*_resources())
    return _worker.work(topics, settings)


# ── Ray ─────────────────────────────────────────────────────────────────────────────────────────

ADDRESS = "RAY_ADDRESS"  # the environment variable that Ray itself knows
_RETRIES = 3  # times a unit is begun again when its worker or node is lost
_CONNECT_S = 10.0  # until a port that is open must take a connection
_JOIN_S = 90.0  # until a cluster must have taken a driver in
_LOOK_S = 20.0  # how often a unit that does not arrive is looked after
_STORE_BYTES = 1 << 29  # of a Ray of our own, for the results that wait
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
# read when Ray is imported, on Linux too: 0 makes the loopback this machine's address
_ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_FORMAT = f"kgqa {__version__}, index format {SCHEMA_VERSION}"
_PROBE = (
    "import logging, sys, ray; ray.init(address=sys.argv[1], log_to_driver=False, "
    "logging_level=logging.ERROR)"
)


class RayExecutor:
    """Runs units on the cluster at ``address`` (``host:port``, ``auto``, or ``RAY_ADDRESS``).

    Without any a Ray of this machine is started on the loopback, with ``workers`` CPUs (None: all);
    elsewhere ``workers`` bounds the units at once. Raises UsageError without Ray, or if malformed.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        self._address = address or os.environ.get(ADDRESS) or None
        self._ray = _import_ray(alone=self._address is None)
        self._workers = workers
        if self._address and "://" in self._address:
            raise UsageError(
                f"kgqa cannot join a Ray cluster at {self._address}.",
                "Run kgqa on a machine of the cluster and give the head's HOST:PORT, or 'auto'.",
            )

    def run(self, resources: Resources, units: Iterable[IntArray], settings: UnitSettings) -> Units:
        """Yield the result of each unit, in order. Raises IndexFault."""
        ray = self._ray
        with self._joined() as cpus:
            shared = ray.put(resources)
            task = ray.remote(_work_on_node).options(
                num_cpus=1, max_retries=_RETRIES, scheduling_strategy="SPREAD"
            )
            # in a list, so that a worker which has the resources does not fetch them again
            yield from _in_order(
                units,
                lambda topics: task.remote([shared], topics, settings, _FORMAT),
                self._result,
                cpus,
            )

    @contextmanager
    def _joined(self) -> Iterator[int]:
        """Be a driver of the cluster inside ``with``; gives the number of units at once."""
        ray = self._ray
        if self._address:
            _check_answers(self._address)
            where: dict[str, Any] = {"address": self._address}
        else:
            where = {
                "address": "local",
                "num_cpus": self._workers,
                "include_dashboard": False,
                "object_store_memory": _STORE_BYTES,
                "_node_ip_address": "127.0.0.1",  # and so nothing listens anywhere else
            }
        try:
            ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise _not_joined(self._address, str(error)) from None
        try:
            cpus = self._cpus()
            if cpus < 1:
                raise IndexFault(
                    f"The Ray cluster at {self._address} has no CPU to work with.",
                    "Add a node to it: ray start --address HOST:PORT",
                )
            yield min(cpus, self._workers or cpus)
        finally:
            ray.shutdown()

    def _cpus(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0))

    def _result(self, reference: Any) -> Unit:
        ray = self._ray
        try:
            while not ray.wait([reference], timeout=_LOOK_S)[0]:
                if self._cpus() < 1:
                    raise IndexFault(
                        "The Ray cluster has lost all nodes that work.",
                        "What was written is kept: add nodes and run the same command again.",
                    )
            unit: Unit = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, KgqaError):
                raise error.cause from None
            raise IndexFault(
                f"A work unit failed on the Ray cluster: {_last_line(error)}.",
                "The nodes need the same kgqa and Python as this machine.",
            ) from None
        except ray.exceptions.RayError as error:
            raise IndexFault(
                f"A work unit was lost on the Ray cluster, and {_RETRIES} more attempts too: "
                f"{type(error).__name__}.",
                "What was written is kept: run the same command again. If nodes ran out of "
                "memory, give them fewer CPUs.",
            ) from None
        return unit


_held: tuple[str, Worker] | None = None


def _work_on_node(
    shared: list[Any], topics: IntArray, settings: UnitSettings, of_format: str
) -> Unit:
    global _held
    if of_format != _FORMAT:
        raise IndexFault(
            f"The Ray node {platform.node()} has {_FORMAT}, not {of_format}.",
            "Install the same kgqa on all nodes.",
        )
    name = shared[0].hex()
    if _held is None or _held[0] != name:
        if _held is not None:
            _held[1].store.close()
            _held = None
        resources: Resources = importlib.import_module("ray").get(shared[0])
        try:
            _held = name, Worker(*resources())
        except KgqaError as error:
            raise IndexFault(
                f"The Ray node {platform.node()} cannot open what it needs: {error.message}",
                "Every node has to reach the graph: an SQLite graph works only if its file lies at "
                "the same path on all nodes; otherwise load it into Neo4j and name that as "
                "`graph`.",
            ) from None
    return _held[1].work(topics, settings)


def _import_ray(*, alone: bool) -> Any:
    for name, value in (_QUIET | _ALONE if alone else _QUIET).items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise UsageError(
            "`engine` ray needs Ray, which is not installed.",
            "Install it: pip install 'kgqa[ray]'",
        ) from None


def _check_answers(address: str) -> None:
    """Raise IndexFault if no cluster answers, by a process that can be ended."""
    if address != "auto":
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise UsageError(
                f"{address!r} is not the address of a Ray cluster.",
                "Write HOST:PORT, as `ray start --head` shows it, or 'auto'.",
            )
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
        except (OSError, OverflowError) as error:
            raise _not_joined(address, str(error)) from None
    try:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE, address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=_JOIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _not_joined(address, f"no answer within {_JOIN_S:.0f} s") from None
    if probe.returncode:
        raise _not_joined(address, probe.stderr)


def _not_joined(address: str | None, reason: str) -> IndexFault:
    why = _last_line(reason)
    if address is None:
        return IndexFault(f"Ray cannot be started on this machine: {why}.", "Try `engine` local.")
    return IndexFault(
        f"No Ray cluster can be joined at {address}: {why}.",
        "kgqa has to run on a machine of the cluster; `ray status` shows whether it is up.",
    )


def _last_line(error: object) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300].rstrip(".")

"""Work on many items on a Ray cluster, or a Ray of this machine, results in order.

Nodes of a cluster need this kgqa, and reach the graph: a Neo4j server, or an SQLite file at the
same path; what the process that started the run writes they need not see.
"""

from __future__ import annotations

import importlib
import logging
import os
import platform
import socket
import subprocess
import sys
from collections import deque
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from kgqa.errors import KgqaError, UsageError, WorkerError
from kgqa.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from kgqa.parallel import Opened

_T = TypeVar("_T")
_R = TypeVar("_R")

ADDRESS = "RAY_ADDRESS"  # the environment variable that Ray itself knows
_RETRIES = 3  # times a unit is begun again when its worker or node is lost
_CONNECT_S = 10.0  # until a port that is open must take a connection
_JOIN_S = 90.0  # until a cluster must have taken a driver in
_LOOK_S = 20.0  # how often a unit that does not arrive is looked after
_STORE_BYTES = 1 << 29  # of a Ray of our own, for the results that wait
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
# read when Ray is imported, on Linux too: 0 makes the loopback this machine's address
_ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_AHEAD = 2  # items for each CPU that are worked on, or wait to be fetched
_PROBE = (
    "import logging, sys, ray; ray.init(address=sys.argv[1], log_to_driver=False, "
    "logging_level=logging.ERROR)"
)


class RayExecutor:
    """Runs work on the Ray cluster at ``address`` (``host:port``, ``auto``, or ``RAY_ADDRESS``).

    Without an address, Ray is started on this machine's loopback with ``workers`` CPUs (None: all);
    on a cluster ``workers`` bounds the units that run at once. Raises UsageError without Ray, or if
    malformed.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        self._address = address or os.environ.get(ADDRESS) or None
        self._ray = _import_ray(alone=self._address is None)
        self.workers = workers
        if self._address and "://" in self._address:
            raise UsageError(
                f"kgqa cannot join a Ray cluster at {self._address}.",
                "Run kgqa on a machine of the cluster and give the head's HOST:PORT, or 'auto'.",
            )

    def run(
        self, opened: Opened[_T, _R], items: Iterable[_T]
    ) -> Generator[_R | WorkerError, None, None]:
        """Yield the result of each item, in order, or a WorkerError if its work unit was lost.

        Joins the cluster, or starts Ray, and leaves it at the end.
        """
        ray = self._ray
        with self._cluster() as cpus:
            shared = ray.put(opened)
            task = ray.remote(_work_on_node).options(
                num_cpus=1, max_retries=_RETRIES, scheduling_strategy="SPREAD"
            )
            running: deque[Any] = deque()
            for item in items:
                # in a list, so that a worker which has opened it does not fetch it again
                running.append(task.remote([shared], item, __version__))
                if len(running) > _AHEAD * cpus:
                    yield self._result(running.popleft())
            while running:
                yield self._result(running.popleft())

    @contextmanager
    def _cluster(self) -> Iterator[int]:
        """Join the cluster, or start Ray, as a context; yields how many work units run at once.

        Raises WorkerError, and UsageError for a malformed address.
        """
        ray = self._ray
        if self._address:
            _check_answers(self._address)
            where: dict[str, Any] = {"address": self._address}
        else:
            where = {
                "address": "local",
                "num_cpus": self.workers,
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
                raise WorkerError(
                    f"The Ray cluster at {self._address} has no CPU to work with.",
                    "Add a node to it: ray start --address HOST:PORT",
                )
            yield min(cpus, self.workers or cpus)
        finally:
            ray.shutdown()

    def _cpus(self) -> int:
        """Return the number of CPUs of the cluster."""
        return int(self._ray.cluster_resources().get("CPU", 0))

    def _result(self, reference: Any) -> Any:
        """Wait for the result of a work unit; return a WorkerError if the unit was lost.

        Raises its KgqaError, and WorkerError if it failed otherwise or the cluster lost its nodes.
        """
        ray = self._ray
        try:
            while not ray.wait([reference], timeout=_LOOK_S)[0]:
                if self._cpus() < 1:
                    raise WorkerError(
                        "The Ray cluster has lost all nodes that work.",
                        "What was written is kept: add nodes and run the same command again.",
                    )
            return ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, KgqaError):
                raise error.cause from None
            raise WorkerError(
                f"A work unit failed on the Ray cluster: {_last_line(error)}.",
                "The nodes need the same kgqa and Python as this machine.",
            ) from None
        except ray.exceptions.RayError as error:
            return WorkerError(
                f"A work unit was lost on the Ray cluster, and {_RETRIES} more attempts too: "
                f"{type(error).__name__}.",
                "What was written is kept: run the same command again. If nodes ran out of "
                "memory, give them fewer CPUs.",
            )


_held: tuple[str, ExitStack, Callable[[Any], Any]] | None = None


def _work_on_node(shared: list[Any], item: Any, version: str) -> Any:
    """Process an item on a node, with the context opened once per process and run.

    ``shared``: a list of the reference to the context; ``version``: of kgqa on the caller's
    machine, which this one must equal. Raises WorkerError.
    """
    global _held
    if version != __version__:
        raise WorkerError(
            f"The Ray node {platform.node()} has kgqa {__version__}, not {version}.",
            "Install the same kgqa on all nodes.",
        )
    name = shared[0].hex()
    if _held is None or _held[0] != name:
        if _held is not None:
            _held[1].close()
            _held = None
        opened: Opened[Any, Any] = importlib.import_module("ray").get(shared[0])
        stack = ExitStack()
        try:
            _held = name, stack, stack.enter_context(opened())
        except KgqaError as error:
            raise WorkerError(
                f"The Ray node {platform.node()} cannot open what it needs: {error.message}",
                "Every node has to reach the graph: an SQLite graph works only if its file lies at "
                "the same path on all nodes; otherwise load it into Neo4j and name that as "
                "`graph`.",
            ) from None
    return _held[2](item)


def _import_ray(*, alone: bool) -> Any:
    """Import Ray with its environment settings; ``alone``: for a Ray of this machine alone.

    Raises UsageError if it is not installed.
    """
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
    """Raise WorkerError if no cluster answers; it is tried in a process that can be killed.

    Raises UsageError for a malformed address.
    """
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


def _not_joined(address: str | None, reason: str) -> WorkerError:
    """Return the error of a cluster that cannot be joined."""
    why = _last_line(reason)
    if address is None:
        return WorkerError(f"Ray cannot be started on this machine: {why}.", "Try `engine` local.")
    return WorkerError(
        f"No Ray cluster can be joined at {address}: {why}.",
        "kgqa has to run on a machine of the cluster; `ray status` shows whether it is up.",
    )


def _last_line(error: object) -> str:
    """Return the last line of an error's text, without a final dot; its type if it is empty."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300].rstrip(".")

"""On a real Ray the index is that of one process, byte by byte.

That is a Ray of two workers which kgqa starts, and a cluster of two nodes that is there already,
all on the loopback of this machine.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.trie.precomputed import CHECKOUT, build, files, write_graph
from tests.trie.ray_nodes import ONE_MACHINE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'kgqa[ray]'"
)

ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph") / "graph.sqlite"
    write_graph(path, 3_000)
    return path


@pytest.fixture(scope="module")
def local(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    tries = tmp_path_factory.mktemp("local")
    build(graph, tries)
    return files(tries)


class Started:
    """The processes under one that a test started, and where they listen."""

    def __init__(self, root: int) -> None:
        self._root = psutil.Process(root)
        self.seen: set[psutil.Process] = {self._root}
        self.listen: set[str] = set()

    def look(self) -> None:
        """Take in what runs now."""
        try:
            self.seen |= set(self._root.children(recursive=True))
        except psutil.NoSuchProcess:
            return
        for process in self.seen:
            try:
                held = process.net_connections("tcp")
            except (psutil.NoSuchProcess, psutil.AccessDenied):  # it has just ended
                continue
            self.listen |= {one.laddr.ip for one in held if one.status == psutil.CONN_LISTEN}

    def running(self) -> bool:
        """Whether the first of them still runs."""
        return runs(self._root)

    def assert_only_on_the_loopback(self) -> None:
        assert self.listen, "nothing was seen to listen"
        # as an IPv6 socket says it: ::ffff:127.0.0.1
        addresses = [ipaddress.ip_address(where.removeprefix("::ffff:")) for where in self.listen]
        assert all(address.is_loopback for address in addresses), self.listen

    def assert_ended(self) -> None:
        for _ in range(300):
            left = [process for process in self.seen if runs(process)]
            if not left:
                return
            time.sleep(0.2)
        names = [process.name() for process in left if runs(process)]
        for process in left:
            process.kill()
        raise AssertionError(f"what was started was not stopped: {names}")


def runs(process: psutil.Process) -> bool:
    """Whether a process has not ended; one that nobody has asked about yet (a zombie) has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass(frozen=True)
class Cluster:
    """A cluster of a head and another node that is there already; a joiner needs ``env``."""

    address: str
    head: str
    other: str
    env: dict[str, str]
    started: Started


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One for several tests: starting it costs the most. One of them kills its other node."""
    with of_two_nodes() as started:
        yield started


@contextmanager
def of_two_nodes() -> Iterator[Cluster]:
    # short, for a socket's path has a hundred characters at most; and no other's Ray is touched
    folder = tempfile.mkdtemp(prefix="ray")
    env = ENV | ONE_MACHINE | {"RAY_TMPDIR": folder}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.trie.ray_nodes"],
        cwd=CHECKOUT,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    started = Started(process.pid)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the cluster did not start"
        yield Cluster(**json.loads(line), env=env, started=started)
        started.look()
        started.assert_only_on_the_loopback()
    finally:
        started.look()
        process.communicate(timeout=120)
        shutil.rmtree(folder, ignore_errors=True)
        started.assert_ended()


def start(
    graph: Path, folder: Path, make: str, env: dict[str, str] = ENV, **more: Any
) -> subprocess.Popen[str]:
    spec: dict[str, Any] = {"graph": str(graph), "tries": str(folder / "tries"), "make": make}
    spec |= {"address": None, "workers": 2} | more
    return subprocess.Popen(
        [sys.executable, "-m", "tests.trie.precomputed", json.dumps(spec)],
        cwd=CHECKOUT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the exit code and the last line of what was written on stderr."""
    _, err = process.communicate(timeout=500)
    return process.returncode, err.strip().splitlines()[-1] if err.strip() else ""


def run(graph: Path, folder: Path, make: str) -> tuple[int, str]:
    return ended(start(graph, folder, make))


def run_on(cluster: Cluster, graph: Path, folder: Path, **more: Any) -> dict[str, list[int]]:
    """Precompute on the cluster; return the first keys of the units that each node began."""
    process = start(graph, folder, "on both nodes", cluster.env, address=cluster.address, **more)
    assert ended(process) == (0, "")
    return {
        note.name: [int(key) for key in note.read_text("ascii").split()]
        for note in (folder / "nodes").iterdir()
    }


def test_the_index_is_that_of_one_process(
    graph: Path, local: dict[str, bytes], tmp_path: Path
) -> None:
    process = start(graph, tmp_path, "works")
    started = Started(process.pid)
    while process.poll() is None:
        started.look()
        time.sleep(0.2)
    assert ended(process) == (0, "")
    assert files(tmp_path / "tries") == local
    started.assert_only_on_the_loopback()
    started.assert_ended()


@pytest.mark.long  # that a node dies, below, says it all but for what a cluster does after it
def test_a_cluster_of_two_nodes_shares_the_work_and_the_index_is_the_same(
    graph: Path, local: dict[str, bytes], tmp_path: Path
) -> None:
    with of_two_nodes() as cluster:  # another test may have killed a node of the shared one
        units = run_on(cluster, graph, tmp_path)
        assert units.keys() == {cluster.head, cluster.other}
        begun = [key for keys in units.values() for key in keys]
        assert len(begun) == len(set(begun)) > 2, "a unit is made once"
        assert files(tmp_path / "tries") == local
        assert cluster.started.running(), "a cluster that was joined goes on"


def test_a_node_that_does_not_see_the_graph_is_a_named_error(
    graph: Path, cluster: Cluster, tmp_path: Path
) -> None:
    process = start(graph, tmp_path, "sees nothing", cluster.env, address=cluster.address)
    code, said = ended(process)
    assert code == 1
    assert said.startswith("kgqa.errors.WorkerError: The Ray node")
    assert str(tmp_path / "elsewhere") in said
    assert "at the same path on all nodes" in said


def test_the_unit_of_a_node_that_dies_is_begun_again(
    graph: Path, local: dict[str, bytes], cluster: Cluster, tmp_path: Path
) -> None:
    units = run_on(cluster, graph, tmp_path, doomed=cluster.other)
    assert units.keys() == {cluster.head, cluster.other}
    lost = int((tmp_path / "lost").read_text("ascii"))
    begun = [key for keys in units.values() for key in keys]
    assert begun.count(lost) > 1, "the unit that the node was at"
    assert files(tmp_path / "tries") == local


@pytest.mark.long
def test_the_unit_of_a_lost_worker_is_begun_again(
    graph: Path, local: dict[str, bytes], tmp_path: Path
) -> None:
    assert run(graph, tmp_path, "dies once") == (0, "")
    assert (tmp_path / "died").exists()
    assert files(tmp_path / "tries") == local


@pytest.mark.long
def test_a_unit_that_is_lost_each_time_is_a_named_error(graph: Path, tmp_path: Path) -> None:
    code, said = run(graph, tmp_path, "dies")
    assert code == 1
    assert said.startswith("kgqa.errors.WorkerError: A work unit was lost on the Ray cluster")


def test_an_address_where_something_else_answers_is_an_error_and_no_hang(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kgqa import cluster
    from kgqa.errors import WorkerError

    monkeypatch.setattr(cluster, "_JOIN_S", 5.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        executor = cluster.RayExecutor(address)
        with pytest.raises(WorkerError, match=f"No Ray cluster can be joined at {address}"):
            build(graph, tmp_path, executor=executor)
    with pytest.raises(WorkerError, match="refused"):
        build(graph, tmp_path, executor=cluster.RayExecutor(address))

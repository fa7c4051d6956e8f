"""Workers on Ray that misbehave on purpose, and a cluster of two nodes on the loopback.

    python -m tests.trie.ray_nodes

starts the cluster, prints its address and nodes as one line of JSON, and stops it when stdin ends.
Ray replaces a loopback address by the machine's own, unless it has to keep to one machine:
both this process and the ones that join need what :data:`ONE_MACHINE` has in their environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from kgqa.graph.sqlite import SqliteStore
from tests.trie.precomputed import resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgqa.graph.model import Entities, IntArray, KGInfo
    from kgqa.trie.lexicon import PathLexicon

ONE_MACHINE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # it is called so on Linux too
_TRIES = 3  # to start a node: Ray waits 30 s for one, which a busy machine may not keep to
_DOOMED_AT = 5  # the unit of its node that never ends
_BOTH_S = 240.0  # until both nodes must have begun a unit


def resources_of(spec: dict[str, Any]) -> Callable[[], tuple[SqliteStore, PathLexicon]]:
    """What opens store and lexicon, with the misbehaviour that ``spec["make"]`` names."""
    folder = Path(spec["tries"]).parent
    return partial(_resources, Path(spec["graph"]), folder, spec["make"], spec.get("doomed"))


def _resources(
    graph: Path, folder: Path, make: str, doomed: str | None
) -> tuple[SqliteStore, PathLexicon]:
    import ray

    if not ray.is_initialized():  # the driver, before it joins the cluster
        return resources(graph)
    if make == "dies" or (make == "dies once" and _first(folder / "died")):
        os._exit(1)
    if make == "sees nothing":
        return SqliteStore(folder / "elsewhere" / "graph.sqlite"), resources(graph)[1]
    if make == "on both nodes":
        node = ray.get_runtime_context().get_node_id()
        return _Noting(graph, folder / "nodes", node, node == doomed), resources(graph)[1]
    return resources(graph)


class _Noting(SqliteStore):
    """Notes on which node each unit begins; the first waits for the other node to begin one too."""

    def __init__(self, graph: Path, notes: Path, node: str, doomed: bool) -> None:
        super().__init__(graph)
        notes.mkdir(exist_ok=True)
        self._notes, self._node, self._doomed, self._begun = notes, node, doomed, 0
        self._new_unit = False

    @property
    def info(self) -> KGInfo:  # a unit asks once, before all else
        self._new_unit = True
        return self._info

    @info.setter
    def info(self, info: KGInfo) -> None:
        self._info = info

    def entities(self, keys: IntArray) -> Entities:
        if self._new_unit:
            self._new_unit = False
            self._begin(int(keys[0]))
        return super().entities(keys)

    def _begin(self, first: int) -> None:
        with (self._notes / self._node).open("a", encoding="ascii") as note:
            note.write(f"{first}\n")
        end = time.monotonic() + _BOTH_S
        while len(list(self._notes.iterdir())) < 2:
            if time.monotonic() > end:
                raise RuntimeError("the work was not spread over both nodes")
            time.sleep(0.05)
        self._begun += 1
        if self._doomed and self._begun == _DOOMED_AT:  # the whole node, in the middle of a unit
            (self._notes.parent / "lost").write_text(f"{first}", encoding="ascii")
            os.kill(int(os.environ["RAY_RAYLET_PID"]), signal.SIGKILL)
            os._exit(1)


def _first(path: Path) -> bool:
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def main() -> None:
    """Run a cluster of a head and another node, with a CPU each, until stdin ends."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        head = _add(cluster, include_dashboard=False, no_monitor=True)
        other = _add(cluster)
        nodes = {"address": cluster.address, "head": head.node_id, "other": other.node_id}
        print(json.dumps(nodes), flush=True)
        sys.stdin.read()
    finally:
        started = psutil.Process().children(recursive=True)
        for node in list(cluster.worker_nodes):  # one that was killed has no one to ask
            cluster.remove_node(node, allow_graceful=False)
        if cluster.head_node is not None:
            cluster.remove_node(cluster.head_node, allow_graceful=False)
        for process in started:  # a node's agents look for it once a minute
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _add(cluster: Any, **options: Any) -> Any:
    for attempt in range(1, _TRIES + 1):
        try:
            return cluster.add_node(
                node_ip_address="127.0.0.1",
                num_cpus=1,
                object_store_memory=100 << 20,
                include_log_monitor=False,
                **options,
            )
        except Exception as error:  # Ray raises no narrower one
            if attempt == _TRIES:
                raise
            print(f"Trying again to start a node: {error}", file=sys.stderr)
    raise AssertionError("not reached")


if __name__ == "__main__":
    main()

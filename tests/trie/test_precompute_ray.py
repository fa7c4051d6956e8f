"""On a real Ray of two workers on this machine the index is that of one process, byte by byte."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.trie.precomputed import CHECKOUT, build, files, write_graph

if TYPE_CHECKING:
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


def start(graph: Path, folder: Path, make: str) -> subprocess.Popen[str]:
    spec: dict[str, Any] = {"graph": str(graph), "tries": str(folder / "tries"), "make": make}
    spec |= {"address": None, "workers": 2}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.trie.precomputed", json.dumps(spec)],
        cwd=CHECKOUT,
        env=ENV,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(graph: Path, folder: Path, make: str) -> tuple[int, str]:
    """Return the exit code and the last line of what was written on stderr."""
    process = start(graph, folder, make)
    _, err = process.communicate(timeout=500)
    return process.returncode, err.strip().splitlines()[-1] if err.strip() else ""


def test_the_index_is_that_of_one_process(
    graph: Path, local: dict[str, bytes], tmp_path: Path
) -> None:
    assert run(graph, tmp_path, "works") == (0, "")
    assert files(tmp_path / "tries") == local


def test_the_unit_of_a_lost_worker_is_begun_again(
    graph: Path, local: dict[str, bytes], tmp_path: Path
) -> None:
    assert run(graph, tmp_path, "dies once") == (0, "")
    assert (tmp_path / "died").exists()
    assert files(tmp_path / "tries") == local


def test_a_unit_that_is_lost_each_time_is_a_named_error(graph: Path, tmp_path: Path) -> None:
    code, said = run(graph, tmp_path, "dies")
    assert code == 1
    assert said.startswith("kgqa.errors.IndexFault: A work unit was lost on the Ray cluster")


def test_a_node_that_does_not_see_the_graph_is_a_named_error(graph: Path, tmp_path: Path) -> None:
    code, said = run(graph, tmp_path, "sees nothing")
    assert code == 1
    assert said.startswith("kgqa.errors.IndexFault: The Ray node")
    assert str(tmp_path / "elsewhere") in said
    assert "at the same path on all nodes" in said


def test_an_address_where_something_else_answers_is_an_error_and_no_hang(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kgqa.errors import IndexFault
    from kgqa.trie.engines import ray_cluster

    monkeypatch.setattr(ray_cluster, "_JOIN_S", 8.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        engine = ray_cluster.RayEngine(address)
        with pytest.raises(IndexFault, match=f"No Ray cluster can be joined at {address}"):
            build(graph, tmp_path, engine=engine)
    with pytest.raises(IndexFault, match="refused"):
        build(graph, tmp_path, engine=ray_cluster.RayEngine(address))

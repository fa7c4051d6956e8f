"""A pytest plugin: the session fixture ``neo4j_server``, a real Neo4j.

It is the server at KGQA_TEST_NEO4J_URI (with KGQA_TEST_NEO4J_USERNAME and _PASSWORD) where that is
set. Otherwise ``scripts/neo4j`` starts one on free ports in a fresh folder, with the jars that
earlier runs fetched, and stops it at the end. Where none can be had the tests that ask for it are
skipped with the reason; under CI=true they fail.

PYTEST_DONT_REWRITE, because test modules import it before it is known as a plugin.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kgqa.graph.neo4j import Neo4jConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).resolve().parents[2]
SCRIPT = CHECKOUT / "scripts" / "neo4j"


@dataclass(frozen=True)
class Neo4jServer:
    uri: str
    username: str
    password: str = field(repr=False)
    browser: str | None

    def connect(self) -> Neo4jConnection:
        return Neo4jConnection(self.uri, self.username, self.password)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def run_script(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run scripts/neo4j without the caller's own Neo4j settings."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("NEO4J_", "KGQA_"))}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=inherited | env,
        capture_output=True,
        text=True,
        timeout=600,
    )


def jars_folder() -> Path:
    return Path(os.environ.get("KGQA_NEO4J_HOME") or CHECKOUT / ".neo4j") / "jars"


@pytest.fixture(scope="session")
def neo4j_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neo4jServer]:
    uri = os.environ.get("KGQA_TEST_NEO4J_URI")
    if uri:
        username = os.environ.get("KGQA_TEST_NEO4J_USERNAME", "neo4j")
        password = os.environ.get("KGQA_TEST_NEO4J_PASSWORD", "")
        yield Neo4jServer(uri, username, password, os.environ.get("KGQA_TEST_NEO4J_BROWSER"))
        return
    home = tmp_path_factory.mktemp("neo4j")
    place = ["--home", str(home), "--jars", str(jars_folder())]
    bolt, http = free_ports(2)
    try:
        done = run_script("start", *place, "--bolt-port", str(bolt), "--http-port", str(http))
        if done.returncode != 0:
            told = done.stderr.strip().splitlines()
            reason = f"no Neo4j for the tests: {told[-1] if told else 'it could not be started'}"
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
        exports = dict(re.findall(r"^export (\w+)=(.*)$", done.stdout, re.MULTILINE))
        yield Neo4jServer(
            exports["NEO4J_URI"],
            exports["NEO4J_USERNAME"],
            (home / "password").read_text().strip(),
            exports["KGQA_NEO4J_BROWSER"],
        )
    finally:
        run_script("stop", *place)

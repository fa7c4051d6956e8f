"""A pytest plugin: the session fixture ``neo4j_server``, a real Neo4j.

It is the server at KGQA_TEST_NEO4J_URI (with KGQA_TEST_NEO4J_USERNAME and _PASSWORD) if that is
set. Otherwise ``scripts/neo4j`` starts one on free ports in a fresh folder, with the jars that
earlier runs fetched; it is stopped at the end of the run, also of one that is killed. If none
can be had the tests that ask for it are skipped with the reason; under CI=true they fail.

PYTEST_DONT_REWRITE, because test modules import it before it is known as a plugin.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kgqa.graph.neo4j import Neo4jConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).resolve().parents[2]
KEEPER = Path(__file__).with_name("neo4j_keeper.py")


@dataclass(frozen=True)
class Neo4jServer:
    uri: str
    username: str
    password: str = field(repr=False)
    browser: str | None

    def connect(self) -> Neo4jConnection:
        return Neo4jConnection(self.uri, self.username, self.password)


def ask(connection: Neo4jConnection, text: str, **parameters: Any) -> list[dict[str, Any]]:
    """Run any statement, as whoever owns the database would."""
    with connection.translated(), connection.session() as session:
        return [record.data() for record in session.run(text, parameters)]  # type: ignore[arg-type]


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def jars_folder() -> Path:
    return Path(os.environ.get("KGQA_NEO4J_HOME") or CHECKOUT / ".neo4j") / "jars"


@contextmanager
def running_neo4j(home: Path, *arguments: str) -> Iterator[dict[str, str]]:
    """Start a server of one's own in ``home`` on free ports; yield what it exports to shells.

    Skips the test, or fails it under CI=true, if none can be had. The server stops at the end of
    the block and when this process ends, by whatever: another process keeps it, see
    ``neo4j_keeper``.
    """
    home.mkdir(parents=True, exist_ok=True)
    if not (password := home / "password").exists():
        password.touch(0o600)  # one that a program could take for an option
        password.write_text(f"-{secrets.token_hex(16)}\n")
    bolt, http = free_ports(2)
    ports = ["--bolt-port", str(bolt), "--http-port", str(http)]
    keeper = subprocess.Popen(
        [sys.executable, str(KEEPER), str(home), "--jars", str(jars_folder()), *ports, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a signal to this one's group is not for the keeper
    )
    try:
        assert keeper.stdout is not None
        report = json.loads(keeper.stdout.readline() or '{"code": 1, "out": "", "err": ""}')
        if report["code"] != 0:
            said = report["err"].strip().splitlines()
            reason = f"no Neo4j for the tests: {said[-1] if said else 'it could not be started'}"
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
        yield dict(re.findall(r"^export (\w+)=(.*)$", report["out"], re.MULTILINE))
    finally:
        keeper.communicate()  # its standard input ends, so it stops the server


@pytest.fixture(scope="session")
def neo4j_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neo4jServer]:
    uri = os.environ.get("KGQA_TEST_NEO4J_URI")
    if uri:
        username = os.environ.get("KGQA_TEST_NEO4J_USERNAME", "neo4j")
        password = os.environ.get("KGQA_TEST_NEO4J_PASSWORD", "")
        yield Neo4jServer(uri, username, password, os.environ.get("KGQA_TEST_NEO4J_BROWSER"))
        return
    home = tmp_path_factory.mktemp("neo4j")
    with running_neo4j(home) as exports:
        yield Neo4jServer(
            exports["NEO4J_URI"],
            exports["NEO4J_USERNAME"],
            (home / "password").read_text().strip(),
            exports["KGQA_NEO4J_BROWSER"],
        )

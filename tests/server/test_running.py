"""What a server is run with: the examples of nginx and systemd, and the files for Docker."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml  # type: ignore[import-untyped]

from kgqa.config import Settings
from kgqa.server.api import PUBLIC
from kgqa.server.options import ServeOptions
from tests.graph.neo4j_server import free_ports
from tests.server.conftest import QUESTION, Served, ready, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).parents[2]
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")


@pytest.fixture
def behind(home: Path, model_cache: Path, tmp_path: Path) -> Iterator[tuple[Served, list[Served]]]:
    """nginx as in the example, before two servers."""
    if NGINX is None:
        pytest.skip("nginx is not installed (Debian: nginx-light)")
    text = (CHECKOUT / "examples" / "nginx.conf").read_text()
    (port,) = free_ports(1)
    given = home, model_cache, "--workers", "1", "--cache-mb", "0"
    with serving(*given) as first, serving(*given) as second:
        for old, new in (
            ("127.0.0.1:8081", first.url.removeprefix("http://")),
            ("127.0.0.1:8082", second.url.removeprefix("http://")),
            ("127.0.0.1:8080", f"127.0.0.1:{port}"),
            ("http {", "http { access_log off; client_body_temp_path body; proxy_temp_path sent;"),
        ):
            assert text.count(old) == 1
            text = text.replace(old, new)
        (tmp_path / "nginx.conf").write_text(text)
        for one in (first, second):
            ready(one)
        log = (tmp_path / "error.log").open("w")
        says = f"daemon off; pid {tmp_path}/pid; error_log stderr;"
        command = [NGINX, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-g", says]
        with log, subprocess.Popen(command, stderr=log) as nginx:
            front = Served(f"http://127.0.0.1:{port}", home, first.process)
            for _ in range(100):
                with socket.socket() as asked:
                    if asked.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            try:
                yield front, [first, second]
            finally:
                nginx.terminate()


def test_a_server_that_is_killed_behind_nginx_loses_no_question(
    behind: tuple[Served, list[Served]],
) -> None:
    front, servers = behind
    call = {"name": "link", "arguments": {"question": "checkout-api"}}
    mcp = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    accept = {"accept": "application/json, text/event-stream"}
    asked = [{"question": f"{QUESTION} please {number}"} for number in range(40)]

    def ask(body: dict[str, Any]) -> tuple[int, list[str]]:
        for tried in range(2):
            reply = front.post("/api/ask", body)
            if reply.status == 200:
                assert reply.json["question"] == body["question"]
                return tried, [answer["name"] for answer in reply.json["answers"]]
        raise AssertionError(reply.text)

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(ask, one) for one in asked]
        waiting[4].result()
        servers[0].process.kill()
        found = [one.result() for one in waiting]
        replies = [front.post("/mcp", mcp, **accept) for _ in range(4)]
    assert {tuple(names) for _, names in found} == {("Ada Birch",)}
    assert [one.status for one in replies] == [200] * 4  # no session that the dead server had
    kept = front.get("/health", x_request_id="mine")
    assert kept.headers["x-request-id"] == "mine"


def test_the_unit_starts_a_server_with_options_that_there_are() -> None:
    unit = configparser.RawConfigParser(strict=False, comment_prefixes=("#",))
    unit.optionxform = str  # type: ignore[method-assign, assignment]
    unit.read(CHECKOUT / "examples" / "kgqa.service")
    service = unit["Service"]
    flags = re.findall(r" --([a-z-]+)", service["ExecStart"])
    assert {flag.replace("-", "_") for flag in flags} <= set(ServeOptions.model_fields)
    name, _, folder = service["Environment"].partition("=")
    assert name.removeprefix("KGQA_").lower() in Settings.model_fields
    assert folder.endswith(service["StateDirectory"])  # all else is read-only to it
    assert service["KillMode"] == "mixed"  # a worker is not stopped before its question ends


def test_the_containers_fit_each_other_and_the_program() -> None:
    composed = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    serve, neo4j = composed["services"]["serve"], composed["services"]["neo4j"]
    assert serve["profiles"] == ["serve"]
    (needed,) = serve["depends_on"]
    assert composed["services"][needed] is neo4j
    assert neo4j["healthcheck"]["test"]
    port = str(ServeOptions.model_fields["port"].default)
    assert all(one.endswith(f":{port}") for one in serve["ports"])
    known = set(Settings.model_fields)
    for name in serve["environment"]:
        assert name.removeprefix("KGQA_").lower() in known, name
    named = {volume.partition(":")[0] for each in (serve, neo4j) for volume in each["volumes"]}
    assert {one for one in named if "/" not in one} == set(composed["volumes"])
    built = (CHECKOUT / "Dockerfile").read_text()
    assert f"EXPOSE {port}\n" in built
    (probed,) = re.findall(rf":{port}(/\w+)", built)
    assert probed in PUBLIC
    command = shlex.split(re.findall(r"^CMD \[(.*)\]", built, re.MULTILINE)[0].replace(",", " "))
    assert command[0] == "serve"
    assert {one[2:] for one in command if one.startswith("--")} <= set(ServeOptions.model_fields)

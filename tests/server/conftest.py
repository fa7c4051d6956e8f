"""A small KG with names that no page may believe, served by a real `kgqa serve`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAIT = 120_000.0  # milliseconds that the page may take; an instant on an idle machine
START_SECONDS = 300.0  # a few on an idle machine
SCRIPT = "<script>alert(1)</script>"
QUOTED = 'a "quoted" \\ & <b>bold</b> name'
HIDDEN = "mail\x1b[2J\u202eyaler\u200b\u2066"
TRIPLES = [
    ("checkout-api", "onCallEngineer", "Ada Birch"),
    ("checkout-api", "ownedBy", "Payments"),
    ("checkout-api", "dependsOn", "price-feed"),
    ("price-feed", "onCallEngineer", "Bo Lindt"),
    ("price-feed", "ownedBy", "Catalogue"),
    (SCRIPT, "ownedBy", "Payments"),
    (SCRIPT, "dependsOn", QUOTED),
    (HIDDEN, "ownedBy", "Catalogue"),
    ("Payments", "ledBy", "Cem Aydin"),
    ("Catalogue", "ledBy", "Dora Nagy"),
]
QUESTION = "who is the on call engineer of checkout-api"


@dataclass(frozen=True)
class Reply:
    """What a request gave."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True)
class Served:
    """A running server."""

    url: str
    home: Path
    process: subprocess.Popen[str]

    def get(self, path: str, query: dict[str, Any] | None = None, **headers: str) -> Reply:
        return self._send(path + (f"?{urlencode(query)}" if query else ""), None, headers)

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._send(path, data, {"content-type": "application/json"} | headers)

    def _send(self, path: str, data: bytes | None, headers: dict[str, str]) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data=data, headers=named)
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return Reply(reply.status, dict(reply.headers), reply.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, dict(error.headers), error.read().decode())


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the KG `services`."""
    import kgqa
    from kgqa.progress import Silent

    folder: Path = tmp_path_factory.mktemp("served")
    file = folder / "services.tsv"
    file.write_text("".join("\t".join(triple) + "\n" for triple in TRIPLES))
    kgqa.ingest("triples", file, kg="services", home=folder / "home", progress=Silent()).close()
    return folder / "home"


@contextmanager
def serving(
    home: Path, cache: Path, *flags: str, stderr: Any = subprocess.DEVNULL, **env: str
) -> Iterator[Served]:
    """Run `kgqa serve` until the end of the block."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KGQA_", "NEO4J_", "OPENAI_"))
    }
    command = [sys.executable, "-m", "kgqa", "serve", "--port", "0", "--json", *flags]
    process = subprocess.Popen(
        [*command, "--home", str(home)],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=clean | {"KGQA_CACHE": str(cache), "KGQA_DEVICE": "cpu"} | env,
    )
    try:
        assert process.stdout is not None
        yield Served(json.loads(process.stdout.readline())["url"].rstrip("/"), home, process)
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def ready(server: Served) -> None:
    """Wait until the models of a server are loaded."""
    end = time.monotonic() + START_SECONDS
    while (reply := server.get("/ready")).status != 200:
        assert time.monotonic() < end, reply.text
        assert "error" not in reply.json, reply.text
        time.sleep(0.2)


@pytest.fixture(scope="session")
def served(home: Path, model_cache: Path) -> Iterator[Served]:
    """A server with its models loaded."""
    from kgqa.errors import ModelNotFoundError
    from kgqa.models.locate import minilm_folder

    try:
        minilm_folder()
    except ModelNotFoundError as error:
        pytest.skip(error.message)
    with serving(home, model_cache) as server:
        ready(server)
        yield server


@pytest.fixture(scope="module")  # its event loop runs until it ends, and others have their own
def browser() -> Iterator[Any]:
    named = os.environ.get("KGQA_CHROMIUM")
    found = named or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        reason = "there is no Chromium: apt install chromium, or set KGQA_CHROMIUM"
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()

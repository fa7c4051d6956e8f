"""Oxigraph's server for tests, on a loopback port of its own, stopped by its process."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


def program() -> str | None:
    beside = Path(sys.executable).with_name("oxigraph")
    return str(beside) if beside.exists() else shutil.which("oxigraph")


@contextmanager
def serving(folder: Path, *files: Path, writable: bool = False) -> Iterator[str]:
    """Give the URL of an endpoint that holds some files."""
    command = program()
    if command is None:
        pytest.skip("the package oxigraph (its server) is not installed")
    place = folder / "oxigraph"
    if files:
        load = [command, "load", "--location", str(place), "--file", *map(str, files)]
        subprocess.run(load, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kind = "serve" if writable else "serve-read-only"
    serve = [command, kind, "--location", str(place), "--bind", f"127.0.0.1:{port}"]
    server = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        else:
            pytest.fail("oxigraph did not start")
        yield f"http://127.0.0.1:{port}/query"
    finally:
        server.terminate()
        server.wait(timeout=20)

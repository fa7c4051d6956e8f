"""Processes that kill themselves at a given moment, each in a session of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from tests.graph.neo4j_server import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Mapping


def start(
    module: str, spec: Mapping[str, Any], env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start ``python -m MODULE SPEC``; ``spec`` is given as JSON."""
    return subprocess.Popen(
        [sys.executable, "-m", module, json.dumps(spec)],
        cwd=CHECKOUT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(
    module: str, spec: Mapping[str, Any], env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a process to its end, which none that it started outlives."""
    process = start(module, spec, env)
    out, err = process.communicate(timeout=600)
    assert_ended(process.pid)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def assert_ended(group: int) -> None:
    """Wait until no process of a group is left."""
    for _ in range(600):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    os.killpg(group, signal.SIGKILL)
    raise AssertionError("A process outlived the one that started it.")

"""What a load does without permission to read or write, and beside another load.

The command runs in processes of its own. Full disks and other faults: ``tests.cli.test_struck``.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import Outcome
from tests.graph.neo4j_server import CHECKOUT
from tests.loading.dumps import (
    PLAIN,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

_PR_CAPBSET_DROP, _DAC_OVERRIDE, _DAC_READ_SEARCH = 24, 1, 2  # of Linux


def start(*arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
    """Start the real command in a process of its own."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("KGQA_", "NEO4J_"))}
    return subprocess.Popen(
        [sys.executable, "-c", "from kgqa.cli import main; main()", *map(str, arguments)],
        env={**inherited, "PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=options.pop("stdin", subprocess.DEVNULL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def outcome(process: subprocess.Popen[bytes], given: bytes | None = None) -> Outcome:
    out, err = process.communicate(given, timeout=300)
    return Outcome(process.returncode, out.decode(), err.decode())


def test_another_process_is_loading_the_same_kg(kgqa: Kgqa, tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = start("ingest", "freebase", "-", "--json", "--home", home, stdin=subprocess.PIPE)
    assert first.stdin is not None
    try:
        first.stdin.write(PLAIN)
        first.stdin.flush()
        for _ in range(1200):
            if (home / "freebase" / "ingest" / "scan").exists():
                break
            time.sleep(0.05)
        (tmp_path / "dump.nt").write_bytes(PLAIN)
        error = kgqa("ingest", "freebase", tmp_path / "dump.nt", "--home", home).error
        assert "Another command is writing to freebase" in error
        # a KG of another name is nobody else's business
        done = kgqa("ingest", "freebase", tmp_path / "dump.nt", "--kg", "two", "--home", home)
        assert done.code == 0
        result = outcome(first).json
        assert result["edges"] == 1
    finally:
        first.kill()
        first.wait()


def as_a_user() -> dict[str, Any]:
    """How a process is started for which files' permissions hold, even where we are root."""
    if os.geteuid() != 0:
        return {}
    if sys.platform != "linux":
        pytest.skip("root may do everything here")
    library = ctypes.CDLL(None, use_errno=True)

    def drop() -> None:
        for capability in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
            if library.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "a capability cannot be given up")

    return {"preexec_fn": drop}


def test_a_dump_that_may_not_be_read(tmp_path: Path) -> None:
    dump = tmp_path / "dump.nt"
    dump.write_bytes(PLAIN)
    dump.chmod(0)
    home = tmp_path / "home"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    error = outcome(start("ingest", "freebase", dump, "--home", home, **as_a_user())).error
    assert str(dump) in error
    assert "not readable" in error or "ermission" in error


@pytest.mark.parametrize("where", ["the home", "the folder above", "the KG's folder"])
def test_a_folder_that_may_not_be_written(tmp_path: Path, where: str) -> None:
    dump, home = tmp_path / "dump.nt", tmp_path / "home"
    dump.write_bytes(PLAIN)
    if where != "the folder above":
        home.mkdir()
    if where == "the KG's folder":
        home.chmod(0o777)
        (home / "freebase").mkdir(mode=0o555)
        (home / "freebase").chmod(0o555)
    if where == "the home":
        home.chmod(0o555)
    tmp_path.chmod(0o555)
    try:
        error = outcome(start("ingest", "freebase", dump, "--home", home, **as_a_user())).error
    finally:
        tmp_path.chmod(0o755)
        if home.exists():
            home.chmod(0o755)
    assert str(home) in error
    assert "ermission" in error

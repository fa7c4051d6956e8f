"""What `kgqa serve` refuses before it serves anything."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.cli.conftest import Kgqa


def test_where_others_reach_it_a_key_is_needed(kgqa: Kgqa, plain_home: Path) -> None:
    error = kgqa("serve", "--host", "0.0.0.0", "--port", "0", "--home", plain_home).error
    assert "KGQA_API_KEY" in error


def test_a_port_that_is_taken_and_a_kg_that_is_missing(kgqa: Kgqa, plain_home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        error = kgqa("serve", "--port", port, "--home", plain_home).error
        assert port in error
        assert "--port" in error
    error = kgqa("serve", "--port", "0", "--kg", "nothing", "--home", plain_home).error
    assert "no KG named nothing" in error
    assert (
        "no KG named nothing"
        in kgqa("serve", "--mcp", "--kg", "nothing", "--home", plain_home).error
    )
    assert "--max-queue" in kgqa("serve", "--max-queue", "0", "--home", plain_home).error


def test_its_packages_are_named_if_they_are_missing(
    kgqa: Kgqa, plain_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "kgqa[serve]" in kgqa("serve", "--home", plain_home).error

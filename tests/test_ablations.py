"""The script that compares methods and ablations: its ways are real commands."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kgqa.cli.app import app
from kgqa.registry import METHODS, Entry

WAYS: dict[str, tuple[str, str]] = runpy.run_path(
    str(Path(__file__).resolve().parent.parent / "scripts" / "bench_methods")
)["WAYS"]


@pytest.fixture
def unconstrained(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry("unconstrained", "scripts.benchmarks.unconstrained:Unconstrained")
    monkeypatch.setitem(METHODS._added, entry.name, entry)


@pytest.mark.usefixtures("unconstrained")
@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_a_command_that_eval_takes(way: str) -> None:
    """Read by the command line itself, which complains of the file only where flags are right."""
    flags = WAYS[way][1].split()
    done = CliRunner().invoke(app, ["eval", "jsonl", "no such file", "--kg", "x", *flags])
    assert done.exit_code != 2, done.output  # 2: the flags are wrong
    assert "DataError" in repr(done.exception), done.exception

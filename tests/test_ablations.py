"""The script of the ablations: its rows are real commands."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kgqa.cli.app import app
from kgqa.registry import METHODS, Entry

ROWS: dict[str, tuple[str, str]] = runpy.run_path(
    str(Path(__file__).resolve().parent.parent / "scripts" / "ablations")
)["ROWS"]


@pytest.fixture
def unconstrained(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry("unconstrained", "scripts.benchmarks.unconstrained:Unconstrained")
    monkeypatch.setitem(METHODS._added, entry.name, entry)


@pytest.mark.usefixtures("unconstrained")
@pytest.mark.parametrize("row", ROWS)
def test_every_row_is_a_command_that_eval_takes(row: str) -> None:
    """Read by the command line itself, which complains of the file only where flags are right."""
    flags = ROWS[row][1].split()
    done = CliRunner().invoke(app, ["eval", "jsonl", "no such file", "--kg", "x", *flags])
    assert done.exit_code != 2, done.output  # 2: the flags are wrong
    assert "DataError" in repr(done.exception), done.exception

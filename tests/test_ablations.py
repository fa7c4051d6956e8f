"""The script that compares methods and ablations: its ways are methods with options they have."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from kgqa.api.evaluation import evaluate
from kgqa.api.home import Home
from kgqa.errors import DataError
from kgqa.registry import METHODS, Entry

WAYS: dict[str, tuple[str, dict[str, Any]]] = runpy.run_path(
    str(Path(__file__).resolve().parent.parent / "scripts" / "bench_methods")
)["WAYS"]


@pytest.fixture
def unconstrained(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry("unconstrained", "scripts.benchmarks.unconstrained:Unconstrained")
    monkeypatch.setitem(METHODS._added, entry.name, entry)


@pytest.mark.usefixtures("unconstrained")
@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_a_method_with_options_that_it_has(way: str, tmp_path: Path) -> None:
    """The library complains of the file only where the options are right."""
    options = dict(WAYS[way][1])
    with pytest.raises(DataError, match="no such file"):
        evaluate(Home(tmp_path), None, "no such file", "jsonl", options.pop("method"), options)

"""What ``kgqa link`` says of its candidates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

QUESTION = "Where was Barack Obama born?"


def test_every_score_is_explained_by_its_parts(kgqa: Kgqa, plain_home: Path) -> None:
    done = kgqa("link", QUESTION, "--json", "--home", plain_home).json
    for candidate in done["candidates"]:
        total = math.fsum(candidate["parts"].values())
        assert math.isclose(candidate["score"], min(1.0, max(0.0, total)), abs_tol=1e-3)
        assert all(0.0 <= value <= 1.0 for value in candidate["features"].values())
        assert QUESTION[candidate["start"] : candidate["end"]] == candidate["mention"]


def test_the_table_names_the_features_that_count(kgqa: Kgqa, plain_home: Path) -> None:
    shown = kgqa("link", QUESTION, "--home", plain_home).out
    first = next(line for line in shown.splitlines() if line.startswith("*"))
    assert "Barack Obama" in first
    explained = shown[shown.index("what the scores are made of") :]
    assert "popularity" in explained
    assert "emphasis" in explained


def test_limit_is_how_many_are_shown(kgqa: Kgqa, plain_home: Path) -> None:
    done = kgqa("link", QUESTION, "--limit", "1", "--json", "--home", plain_home).json
    assert len(done["candidates"]) == 1

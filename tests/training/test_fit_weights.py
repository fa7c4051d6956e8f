"""The planner's weights: what a score is made of, and weights that fit lists of plans."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.planner.fit_weights import Logit, PlanList, first_right, read

if TYPE_CHECKING:
    from pathlib import Path

numbers = st.floats(-4, 4, allow_nan=False).map(lambda one: round(one, 3))


@given(st.tuples(numbers, numbers, numbers))
def test_a_traced_score_has_the_derivatives_of_its_weights(values: tuple[float, ...]) -> None:
    from scripts.planner.traced import Traced

    def score(a: float, b: float, c: float) -> float:
        return 2 * a - b * (c + 1) + max(a, -9.0) + (0.5 - c) * True

    found = score(*(Traced(one, row) for one, row in zip(values, np.eye(3), strict=True)))
    assert isinstance(found, Traced)
    assert float(found) == pytest.approx(score(*values))
    _, b, c = values
    assert found.by.tolist() == pytest.approx([3, -(c + 1), -b - 1])


def listed(right: int, *rows: list[float], database: str = "one") -> PlanList:
    features = np.array(rows)
    is_right = np.arange(len(rows)) == right
    return PlanList(database, features, features @ np.array([1.0, -0.5]), is_right)


def test_fitted_weights_put_right_plans_first_and_keep_their_signs() -> None:
    lists = [listed(1, [1.0, 0.0], [0.0, -1.0]) for _ in range(40)]
    present = np.array([1.0, -0.5])
    assert not first_right(lists, np.zeros(2)).any()
    fitted = Logit(lists, present, prior=3.0).fitted()
    assert first_right(lists, fitted - present).all()
    assert fitted[0] >= 0 >= fitted[1]


def test_a_list_without_a_right_or_a_wrong_plan_teaches_nothing(tmp_path: Path) -> None:
    row = {"database": "d", "plans": ["a", "b"], "scores": [2.0, 1.0], "same": [],
           "features": [{"idle_hop": 1.0}, {}]}  # fmt: skip
    rows = [{**row, "right": right} for right in ([], [0, 1], [1])]
    file = tmp_path / "lists.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    (one,) = read([file], ["bridge", "idle_hop"])
    assert one.right.tolist() == [False, True]
    assert one.features.tolist() == [[0, 1], [0, 0]]


def test_the_script_says_what_each_weight_does(tmp_path: Path) -> None:
    row = {"plans": ["a", "b"], "scores": [2.0, 1.0], "same": [], "right": [1],
           "features": [{"idle_hop": 1.0}, {}]}  # fmt: skip
    file = tmp_path / "lists.jsonl"
    rows = [{**row, "database": name} for name in ("a", "b", "c")]
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    run = [
        sys.executable,
        "-m",
        "scripts.planner.fit_weights",
        "--lists",
        str(file),
        "--folds",
        "3",
    ]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert "left out all: 3 lists" in said
    assert "idle_hop: -2.5 -> " in said

"""The reports of a run, and the tables that the terminal shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kgqa.errors import UsageError
from kgqa.evaluation.compare import compare
from kgqa.evaluation.report import (
    calibration,
    figure_rows,
    figure_tables,
    markdown,
    worst,
    write_report,
)
from tests.evaluation.runs import BAD, RECORDS, RIGHT, WRONG, figures_of

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {"file": "f.jsonl", "k": 10, "adapter": None}


def test_the_worst_failures_are_chosen_and_keep_the_order_of_the_file() -> None:
    path = {"text": "t", "score": -0.1, "relation_path": "t"}
    surer = WRONG.model_copy(update={"id": "q9", "paths": [path]})
    half = WRONG.model_copy(update={"id": "q8", "hit_at_k": 1.0, "f1": 0.5})
    assert [one.id for one in worst([RIGHT, half, WRONG, surer])] == ["q8", "q2", "q9"]
    many = [WRONG.model_copy(update={"id": f"{one:02}"}) for one in range(80)]
    assert [one.id for one in worst([half, *many, surer])] == [*(o.id for o in many[:49]), "q9"]


def test_calibration_is_of_every_confidence_and_its_error_is_the_distance() -> None:
    rows, error = calibration([(0.95, True), (1.0, True), (0.95, False), (0.15, False)])
    assert rows == [("0.1 to 0.2", "1", "15", "0"), ("0.9 to 1.0", "3", "97", "67")]
    assert error == pytest.approx((0.15 + abs(2.9 - 2)) / 4)
    assert calibration([]) == ([], 0.0)


def test_the_report_shows_scores_outcomes_and_failures(tmp_path: Path) -> None:
    records = [RECORDS[0].model_copy(update={"confidence": 0.9}), *RECORDS[1:]]
    written = write_report(tmp_path, figures_of(*records), records, SETTINGS).read_text("utf-8")
    for heading in ("Scores", "By hop", "By type", "Where questions ended", "Confidence"):
        assert f"\n## {heading}\n" in written
    assert "| 0.9 to 1.0 | 1 | 90 | 100 |" in written
    assert "Expected calibration error: 0.10." in written
    assert "- grounded paths: " in written
    assert "There is no path." in written
    assert re.search(r"\| Hits@1 \| 25\.0 \| \d", written)
    assert "| wrong tail | 1 | 25.0 |" in written
    assert "\\<script>" in written
    assert "f.jsonl, line 4: not JSON" in written
    assert "adapter" not in written  # a setting that was not set
    assert "questions took 2.00 s or less" in written


def test_a_report_over_no_answer_at_all_is_still_one(tmp_path: Path) -> None:
    found = figures_of(BAD)
    assert found["seconds"] == {"p50": None, "p95": None}
    write_report(tmp_path, found, [BAD], {})
    assert "malformed" in markdown(found, [BAD], {})


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"report\.md"):
        write_report(tmp_path / "none", figures_of(*RECORDS), RECORDS, SETTINGS)


def test_tables_for_the_terminal() -> None:
    figures = figures_of(*RECORDS)
    shown = figure_tables(figures)
    assert [one.title for one in shown] == [
        "Scores",
        "By hop",
        "By type",
        "Where questions ended",
    ]
    assert all(len(row) == len(one.heads) for one in shown for row in one.rows)
    assert shown[0].rows[0][:2] == ("Hits@1", "25.0")
    assert ("RoG hit", "25.0", "") in shown[0].rows
    assert "By type" not in [table.title for table in figure_tables(figures_of(BAD))]
    linking = dict.fromkeys(("first", "in_five", "in_linked", "all_linked"), 50.0)
    intervals = {name: [40.0, 60.0] for name in linking}
    figures["linking"] = {**linking, "intervals": intervals}
    figures["triplets"] = {"f1": 100.0, "precision": None, "recall": None, "ill": 0.0}
    rows = figure_rows(figures)
    assert ("linking: given entity first", "50.0", "40.0 to 60.0") in rows
    assert rows[-2:] == [("triplets: F1", "100.0", ""), ("triplets: ill", "0.0", "")]
    rows = compare({"q1": RIGHT}, {"q1": WRONG}).table().rows
    assert rows[0][:4] == ("Hits@1", "100.0", "0.0", "-100.0")


def test_a_report_obeys_nothing_in_a_name(tmp_path: Path) -> None:
    evil = "</td><script>alert(1)</script>\u202e\x1b[2J`|<img src=x onerror=alert(2)>"
    path = {"text": evil, "score": -0.1, "relation_path": evil, "shown": r"a -\> b -> ^r -> c"}
    failed = WRONG.model_copy(update={"question": evil, "id": evil, "paths": [path]})
    figures = {**figures_of(failed), "kg": evil, "method": evil}
    text = write_report(tmp_path, figures, [failed], {"file": evil}).read_text("utf-8")
    assert r"\u202e\x1b[2J" in text.replace(r"\\", "\\").replace(r"\[", "[")
    assert not set(text) & {"\u202e", "\x1b"}
    assert not re.search(r"(?<!\\)<(script|img)", text)

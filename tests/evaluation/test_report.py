"""The reports of a run, and the tables that the terminal shows."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from kgqa.errors import UsageError
from kgqa.evaluation.charts import calibration, calibration_chart, score_chart
from kgqa.evaluation.compare import compare
from kgqa.evaluation.report import (
    figure_rows,
    figure_tables,
    histogram,
    markdown,
    table,
    worst,
    write_reports,
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
    bins, error = calibration([(0.95, True), (1.0, True), (0.95, False), (0.15, False)])
    assert [one.questions for one in bins] == [1, 3]
    assert error == pytest.approx((0.15 + abs(2.9 - 2)) / 4)
    assert calibration([]) == ([], 0.0)
    drawn = calibration_chart(bins)
    assert drawn.count("<circle") == 2
    assert "3 questions, confidence 97 %, right 67 %" in drawn
    assert '<text x="610" y="17">50.0</text>' in score_chart([("Hits@1", 50.0, (40.0, 60.0))])


class Page(HTMLParser):
    """Every tag of a page with what it points to; fails if tags do not close."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag


def test_the_reports_show_scores_outcomes_and_failures(tmp_path: Path) -> None:
    records = [RECORDS[0].model_copy(update={"confidence": 0.9}), *RECORDS[1:]]
    text, page = write_reports(tmp_path, figures_of(*records), records, SETTINGS)
    html = page.read_text("utf-8")
    parser = Page()
    parser.feed(html)
    assert parser.open == []
    assert parser.links == []
    assert "script" not in parser.tags
    assert "://" not in html
    assert "url(" not in html
    assert html.index("<svg") < html.index("<table>")  # figures before tables
    assert "Expected calibration error: " in html
    assert "<dt>grounded paths</dt>" in html
    for heading in ("By hop", "By type", "Where questions ended", "Seconds a question"):
        assert re.search(f'<h2>{heading}</h2>\n<table>.*class="bar"', html)
    assert "&lt;script&gt;" in html
    assert "x -&gt; &lt;b&gt; -&gt; y" in html
    assert "There is no path." in html
    written = text.read_text("utf-8")
    assert re.search(r"\| Hits@1 \| 25\.0 \| \d", written)
    assert "| wrong tail | 1 | 25.0 |" in written
    assert "\\<script>" in written
    assert "f.jsonl, line 4: not JSON" in written
    assert "adapter" not in written  # a setting that was not set
    assert "questions took 2.00 s or less" in written
    assert "questions took 2.00 s or less" in html


def test_a_report_over_no_answer_at_all_is_still_one(tmp_path: Path) -> None:
    found = figures_of(BAD)
    assert found["seconds"] == {"p50": None, "p95": None}
    write_reports(tmp_path, found, [BAD], {})
    assert "malformed" in markdown(found, [BAD], {})


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"report\.md"):
        write_reports(tmp_path / "none", figures_of(*RECORDS), RECORDS, SETTINGS)


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
    assert "By type" not in [one.title for one in figure_tables(figures_of(BAD))]
    linking = dict.fromkeys(("first", "in_five", "in_linked", "all_linked"), 50.0)
    intervals = {name: [40.0, 60.0] for name in linking}
    figures["linking"] = {**linking, "intervals": intervals}
    figures["triplets"] = {"f1": 100.0, "precision": None, "recall": None, "ill": 0.0}
    rows = figure_rows(figures)
    assert ("linking: given entity first", "50.0", "40.0 to 60.0") in rows
    assert rows[-2:] == [("triplets: F1", "100.0", ""), ("triplets: ill", "0.0", "")]
    rows = compare({"q1": RIGHT}, {"q1": WRONG}).table().rows
    assert rows[0][:4] == ("Hits@1", "100.0", "0.0", "-100.0")


def test_percentages_are_drawn_and_hold_their_numbers() -> None:
    drawn = table(("outcome", "%"), [("<wrong>", "12.5"), ("right", "0.0")])
    assert '<td>&lt;wrong&gt;</td><td class="bar" style="--wide:12.5%">12.5</td>' in drawn
    steps = histogram([0.1, 0.2, 0.2, 100.0])
    assert sum(int(count) for _, count, _ in steps) == 4
    assert sum(float(percent) for *_, percent in steps) == 100.0
    assert len(histogram([0.0, 0.0])) == len(steps)


def test_a_report_obeys_nothing_in_a_name(tmp_path: Path) -> None:
    evil = "</td><script>alert(1)</script>\u202e\x1b[2J`|<img src=x onerror=alert(2)>"
    path = {"text": evil, "score": -0.1, "relation_path": evil, "shown": r"a -\> b -> ^r -> c"}
    failed = WRONG.model_copy(update={"question": evil, "id": evil, "paths": [path]})
    figures = {**figures_of(failed), "kg": evil, "method": evil}
    for file in write_reports(tmp_path, figures, [failed], {"file": evil}):
        text = file.read_text("utf-8")
        assert r"\u202e\x1b[2J" in text.replace(r"\\", "\\").replace(r"\[", "[")
        assert not set(text) & {"\u202e", "\x1b"}
        assert not re.search(r"(?<!\\)<(script|img)", text)
    page = Page()
    page.feed(text)
    assert "script" not in page.tags
    assert "img" not in page.tags

"""The figures of a run, and the reports that show them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from kgqa.evaluation.html_report import bars, histogram
from kgqa.evaluation.figures import summarise
from kgqa.evaluation.record import Record, bad_entry_record
from kgqa.questions import BadEntry

from kgqa.errors import UsageError
from kgqa.evaluation.compare import compare
from kgqa.evaluation.report import comparison_rows, figure_rows, markdown, worst, write_reports

if TYPE_CHECKING:
    from pathlib import Path

RIGHT = Record(
    "q1",
    "where?",
    "right",
    type="easy",
    hops=1,
    reachable=True,
    hits_at_1=1.0,
    hit_at_k=1.0,
    mrr=1.0,
    precision=1.0,
    recall=1.0,
    f1=1.0,
    path_recall=1.0,
    legacy={"gcr": {"hit": 1.0}, "rog": {"hit": 1.0}},
    answered=True,
    grounded=True,
    grounded_paths=1.0,
    seconds=1.0,
    forwards=8,
    general_llm={"model": "m", "calls": 2, "prompt_tokens": 10, "completion_tokens": 3},
)
WRONG = Record(
    "q2",
    "<script>alert(1)</script> | what?",
    "wrong tail",
    type="hard",
    hops=2,
    reachable=True,
    gold=["e.1"],
    gold_names=["`A`"],
    answers=["B & C"],
    answered=True,
    grounded_paths=1.0,
    gold_relation_paths=["a -> b"],
    paths=[{"text": "x -> <b> -> y", "score": -2.5, "relation_path": "b"}],
    seconds=3.0,
    forwards=10,
)
FAR = Record("q3", "who?", "not reachable", error="There is no path.", seconds=0.1)
BAD = bad_entry_record(BadEntry("f.jsonl", 4, "no JSON"))
RECORDS = [RIGHT, WRONG, FAR, BAD]
SETTINGS = {"file": "f.jsonl", "k": 10, "adapter": None}


def figures() -> dict:
    return summarise(RECORDS, kg="small", method="gcr", format="jsonl")


def test_every_question_is_in_the_denominator() -> None:
    found = figures()
    assert (found["questions"], found["answered"]) == (4, 2)
    assert found["hits_at_1"] == found["hit"] == found["f1"] == 25.0
    assert found["legacy"]["rog"]["hit"] == 25.0
    assert found["reachable"] == 50.0
    assert found["grounded_paths"] == found["faithful_of_correct"] == 100.0
    assert found["path_recall"] == 100.0  # of the questions that have gold relation paths
    assert found["accuracy"] is None
    assert found["outcomes"] == {
        "right": 1,
        "wrong tail": 1,
        "not reachable": 1,
        "malformed": 1,
    }
    assert found["by_hop"]["1"]["hits_at_1"] == 100.0
    assert found["by_hop"]["not reachable"]["questions"] == 2
    assert set(found["by_type"]) == {"easy", "hard"}
    low, high = found["intervals"]["hits_at_1"]
    assert 0.0 <= low < 25.0 < high <= 100.0
    assert found["seconds"] == {"p50": 2.0, "p95": 2.9}
    assert found["general_llm"] == RIGHT.general_llm
    json.dumps(found)


def test_a_malformed_line_of_a_multiple_choice_file_is_a_wrong_choice() -> None:
    records = [replace(RIGHT, accuracy=1.0), BAD]
    assert summarise(records, kg="k", method="m", format="f")["accuracy"] == 50.0


def test_the_worst_failures_are_the_surest_first_and_none_is_right() -> None:
    surer = replace(WRONG, id="q9", paths=[{"text": "t", "score": -0.1, "relation_path": "t"}])
    half = replace(WRONG, id="q8", hit_at_k=1.0, f1=0.5)
    assert [one.id for one in worst([RIGHT, half, WRONG, surer])] == ["q9", "q2", "q8"]
    assert len(worst([replace(WRONG, id=str(number)) for number in range(80)])) == 50


class Page(HTMLParser):
    """Every tag of a page with what it points to; fails where tags do not close."""

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
    text, page = write_reports(tmp_path, figures(), RECORDS, SETTINGS)
    html = page.read_text("utf-8")
    parser = Page()
    parser.feed(html)
    assert parser.open == []
    assert parser.links == []
    assert "script" not in parser.tags
    assert "://" not in html
    assert "url(" not in html
    assert parser.tags.count("svg") == 4  # outcomes, by hop, by type, seconds
    assert "&lt;script&gt;" in html
    assert "x -&gt; &lt;b&gt; -&gt; y" in html
    assert "There is no path." in html
    written = text.read_text("utf-8")
    assert re.search(r"\| Hits@1 \| 25\.0 \| \d", written)
    assert "| wrong tail | 1 | 25.0 |" in written
    assert "\\<script>" in written
    assert "f.jsonl, line 4: no JSON" in written
    assert "adapter" not in written  # a setting that was not set


def test_a_report_over_no_answer_at_all_is_still_one(tmp_path: Path) -> None:
    found = summarise([BAD], kg="k", method="m", format="f")
    assert found["seconds"] == {"p50": None, "p95": None}
    write_reports(tmp_path, found, [BAD], {})
    assert "malformed" in markdown(found, [BAD], {})


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"report\.md"):
        write_reports(tmp_path / "none", figures(), RECORDS, SETTINGS)


def test_rows_for_the_terminal() -> None:
    rows = figure_rows(figures())
    assert rows[0][:2] == ("Hits@1", "25.0")
    assert ("RoG hit", "25.0", "") in rows
    found = comparison_rows(compare({"q1": RIGHT}, {"q1": WRONG}))
    assert found[0][:4] == ("Hits@1", "100.0", "0.0", "-100.0")


def test_plots_carry_their_numbers() -> None:
    drawn = bars("Score", [("1 <hop>", 50.0, "50 of 2", (40.0, 60.0)), ("2", 0.0, "0 of 1", None)])
    assert 'aria-label="Score: 1 &lt;hop&gt; 50 of 2; 2 0 of 1"' in drawn
    assert drawn.count("<rect") == 2
    long = bars("Score", [("director_to_movie_to_language", 1.0, "1", None)])
    assert "<title>director_to_movie_to_language</title>director_to_movie_to_…" in long
    columns = histogram("Time", [0.1, 0.2, 0.2, 100.0], "s")
    counts = [int(one) for one in re.findall(r": (\d+)</title>", columns)]
    assert sum(counts) == 4
    assert histogram("Time", [], "s") == ""
    assert "<svg" in histogram("Time", [0.0, 0.0], "s")

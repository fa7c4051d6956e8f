"""Every example runs, and prints what it says it prints."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def printed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *args: str
) -> list[str]:
    monkeypatch.setattr(sys, "argv", [name, *args])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_own_graph_answers_with_paths(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed("own_graph", monkeypatch, capsys)
    assert "checkout-api -> onCallEngineer -> Ada Birch" in lines[1]
    assert "ledger-db -> ownedBy -> Payments -> teamLead -> Cleo Marsh" in lines[5]


@pytest.mark.model
def test_generate_writes_five_paths_with_ids(
    smollm_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed("generate", monkeypatch, capsys, str(smollm_folder))
    paths = [line for line in lines if " -> " in line]
    assert len(paths) == 5
    assert all(path.startswith("J. R. R. Tolkien -> ") for path in paths)
    assert lines[1].split()[0] == "m.041h0"


def test_methods_are_compared_question_by_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed("compare_methods", monkeypatch, capsys, "--questions", "6")
    assert lines[0].startswith("rank: Hits@1 ")
    assert lines[1].startswith("kg-cot: Hits@1 ")
    assert "95 % interval" in lines[2]


def test_medicine_shows_concept_ids(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed("medicine", monkeypatch, capsys)
    assert lines[0] == "492 concepts, 911 relations"
    assert any("C1333196 Gene_Encodes_Gene_Product " in line for line in lines)

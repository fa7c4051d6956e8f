"""What a terminal shows of a long task: how far it is, how fast, how long it will still take."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kgqa.progress import Rate

if TYPE_CHECKING:
    from collections.abc import Callable

TIME_LEFT = re.compile(r"(-:--:--|\d+:\d\d:\d\d)")


@pytest.fixture
def shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[int | None, str], str]:
    """Runs a task on what passes for a terminal; gives what was drawn, without its colours."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")

    def run(total: int | None, unit: str) -> str:
        from kgqa.cli.terminal import TerminalProgress

        ticks = iter(range(100))
        with TerminalProgress().task("precomputing tries", total, unit) as task:
            rate = Rate(task, unit, clock=lambda: float(next(ticks)))
            rate.advance(64)
            rate.advance(64)
        out, err = capsys.readouterr()
        assert out == ""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", err)

    return run


def test_a_task_with_a_total_shows_what_is_done_how_fast_and_the_time_left(
    shown: Callable[[int | None, str], str],
) -> None:
    last = [line for line in shown(1_000, "entities").splitlines() if line.strip()][-1]
    assert "128/1000 entities" in last
    assert "64 entities/s" in last
    assert TIME_LEFT.search(last)


@pytest.mark.parametrize("total", [None, 0])
def test_a_task_without_a_total_promises_no_time(
    shown: Callable[[int | None, str], str], total: int | None
) -> None:
    drawn = shown(total, "entities")
    assert "precomputing tries" in drawn
    assert "64 entities/s" in drawn
    assert not TIME_LEFT.search(drawn)

"""`kgqa ask --chat`: a prompt that stays, with commands that look closer."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import QUESTION

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

LINES = """/why
Who directed Apollo 13?
/why
/why 99
/paths
/paths Ron Howard
/paths Zaphod Qwxyz
Where does Zaphod Qwxyz live?
/nonsense
/help
/quit
Who directed Apollo 13?
"""


@pytest.mark.model
@pytest.mark.usefixtures("minilm")
def test_questions_and_commands_go_on_until_the_end(
    kgqa: Kgqa, plain_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(LINES))
    done = kgqa("ask", QUESTION, "--chat", "--method", "kg-cot", "--home", plain_home)
    assert done.code == 0, done.err
    first, _, rest = done.out.partition("Ron Howard")
    assert "Honolulu" in first  # asked on the command line
    assert done.out.count("because") == 2  # /quit comes before the last line
    assert "film.director.film" in rest  # the stored fact behind the answer
    assert "Ron Howard (m.0g2lq)" in rest
    assert "/paths [ENTITY]" in rest
    assert done.err.count("Zaphod") >= 2
    assert "The command /nonsense does not exist" in done.err
    assert "Traceback" not in done.err


def test_a_chat_is_for_people(kgqa: Kgqa, plain_home: Path) -> None:
    assert "Leave out --json" in kgqa("ask", "--chat", "--json", "--home", plain_home).error
    assert "A question is missing" in kgqa("ask", "--home", plain_home).error

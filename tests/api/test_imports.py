"""What a process imports to answer: no language models, data frames or drivers of servers."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import kgqa

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = ("torch", "transformers", "peft", "pandas", "sqlalchemy", "neo4j")
ASK = """
import sys, kgqa
with kgqa.open("staff", home=sys.argv[1]) as kg:
    answer = kg.ask("Where does Ann work?", method=sys.argv[2])
print(answer.best.name if answer.best else "", *(one for one in sys.argv[3:] if one in sys.modules))
"""


@pytest.mark.parametrize("method", ["rank", "auto"])
def test_a_question_about_own_triples_imports_no_language_model(
    tmp_path: Path, method: str
) -> None:
    triples = [("Ann", "works at", "Acme"), ("Ben", "works at", "Birch"), ("Ann", "age", "31")]
    kgqa.ingest("triples", triples, kg="staff", home=tmp_path).close()
    command = [sys.executable, "-c", ASK, str(tmp_path), method, *HEAVY]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["Acme"]

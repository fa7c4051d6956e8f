"""Questions in languages that the models do not know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kgqa
from kgqa.linking.language import foreign_language

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Wo wurde der Regisseur von Apollo 13 geboren?", "German"),
        ("¿Quién dirigió Apollo 13?", "Spanish"),
        ("Où est né Barack Obama ?", "French"),
        ("Qual é a capital do Brasil?", "Portuguese"),
        ("Chi ha diretto Apollo 13?", "Italian"),
        ("Wie heeft Apollo 13 geregisseerd?", "Dutch"),
        ("Кто снял Аполлон 13?", "Cyrillic letters"),
        ("北京的人口是多少", "Cjk letters"),
        ("Who directed La vita è bella?", None),
        ("Who is Владимир Путин?", None),
        ('"Wo die grünen Ameisen träumen" director', None),
        ("come and see director", None),
    ],
)
def test_language_of_a_question(question: str, language: str | None) -> None:
    assert foreign_language(question) == language


def english() -> Iterator[str]:
    for file in sorted(DATA.glob("own*/*/*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            yield json.loads(line)["question"]
    for line in (DATA / "sample_plain.jsonl").read_text("utf-8").splitlines():
        yield json.loads(line)["question"]


def test_no_english_question_is_taken_for_another_language() -> None:
    questions = list(english())
    assert len(questions) > 900
    assert [question for question in questions if foreign_language(question)] == []


def test_a_graph_of_that_language_is_asked(tmp_path: Path) -> None:
    german = [("Ada", "geboren in", "Bonn"), ("Bonn", "liegt in", "Deutschland")]
    question = "Wo wurde Ada geboren?"
    with kgqa.ingest("triples", german, kg="deutsch", home=tmp_path) as kg:
        kg.qa("rank")._check_language(kg.store, question)
    other = [("Ada", "place of birth", "Bonn")]
    with (
        kgqa.ingest("triples", other, kg="english", home=tmp_path) as kg,
        pytest.raises(kgqa.KgqaError, match="in German"),
    ):
        kg.ask(question)

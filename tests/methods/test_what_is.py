"""What kind of thing an entity is, by its own types; and of which rows an answer's facts are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kgqa
import kgqa.data

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.model
TABLES = Path(kgqa.data.__path__[0]) / "tables" / "bookshop"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    with kgqa.ingest("tables", TABLES, home=tmp_path_factory.mktemp("shop")) as kg:
        yield kg


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("What is The Salt Garden?", ["book"]),
        ("What kind of thing is Quayside?", ["branch"]),
        ("Who is Ada Winterbourne?", ["author"]),
        ("Is The Salt Garden a book?", ["yes"]),
        ("Is The Salt Garden an author?", []),
    ],
)
def test_a_things_table_says_what_it_is(shop: kgqa.KG, question: str, answers: list[str]) -> None:
    found = shop.ask(question)
    assert [ranked.name for ranked in found.answers] == answers
    assert answers or "another kind: book" in found.notes[0]


def test_other_questions_about_it_are_answered_by_paths(shop: kgqa.KG) -> None:
    for question in ("What is the price of The Salt Garden?", "Is The Salt Garden by Ada?"):
        assert shop.ask(question).search.kind != "types"


def test_a_fact_says_of_which_row_it_is(shop: kgqa.KG) -> None:
    answer = shop.ask("Who wrote The Salt Garden?")
    assert answer.best is not None
    (origin,) = answer.best.paths[0].groundings[0].origins
    file, _, row = origin.partition(", row ")
    line = (TABLES / file).read_text("utf-8").splitlines()[int(row) - 1]
    assert "The Salt Garden" in line
    (fact,) = answer.to_dict()["paths"][0]["edges"][0]["facts"]
    assert fact["properties"] == {"_file": file, "_row": int(row)}

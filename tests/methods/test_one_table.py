"""One table, as it is downloaded: its rows are called by what the question calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = """survived,who,boarding_town,fare,cabin_code,sailed
1,woman,Bremen,80.5,12,1911-04-10
0,man,Bremen,7.25,31,1911-04-10
1,child,Lisbon,21.0,12,1912-05-02
0,man,Lisbon,13.0,45,1911-04-10
1,woman,Lisbon,7.9,31,1912-05-02
0,woman,Bremen,8.1,77,1911-04-10
0,man,Bremen,9.5,45,1911-04-10
1,man,Lisbon,512.3,12,1912-05-02
0,child,Bremen,8.1,31,1911-04-10
0,man,Bremen,10.2,31,1911-04-10
1,woman,Lisbon,30.0,77,1912-05-02
0,man,Bremen,7.9,45,1911-04-10
"""


@pytest.fixture(scope="module")
def voyage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.QA]:
    folder = tmp_path_factory.mktemp("voyage")
    (folder / "voyage.csv").write_text(ROWS)
    with kgqa.ingest("tables", folder / "voyage.csv", home=folder / "home") as kg:
        yield kg.qa("query")


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("How many passengers survived?", {"5"}),
        ("How many women survived?", {"3"}),
        ("How many passengers boarded in Lisbon?", {"5"}),
        ("How many children were there?", {"2"}),
        ("What was the highest fare?", {"512.3"}),
    ],
)
def test_rows_are_what_the_question_calls_them(
    voyage: kgqa.QA, question: str, names: set[str]
) -> None:
    assert {one.name for one in voyage.ask(question).answers} == names


def test_codes_are_never_added_up(voyage: kgqa.QA) -> None:
    answer = voyage.ask("Which boarding town has the most cabins?")
    assert "sum" not in str(answer.plan)

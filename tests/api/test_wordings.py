"""The bundled bookshop asked in other words than its columns have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    with kgqa.ingest("tables", kg="shop", home=tmp_path_factory.mktemp("home")) as kg:
        yield kg


def names(kg: kgqa.KG, question: str) -> set[str]:
    return {ranked.name for ranked in kg.ask(question).answers}


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        ("the most affordable book", "the cheapest book"),
        ("books apart from novels", "Which books are not novels?"),
        ("all books except novels", "Which books are not novels?"),
        ("please count all books", "How many books are there?"),
        ("books thicker than 300 pages", "Which books have more than 300 pages?"),
        ("books with pages > 300", "Which books have more than 300 pages?"),
    ],
)
def test_other_words_of_one_meaning_have_one_answer(shop, said: str, plain: str) -> None:
    assert names(shop, said) == names(shop, plain) != set()


def test_the_answer_says_how_the_question_was_read(shop) -> None:
    answer = shop.ask("What's the most affordable book?")
    assert [ranked.name for ranked in answer.answers] == ["Slate"]
    assert answer.question == "What's the most affordable book?"
    assert answer.understood is not None
    assert answer.understood.question == "What's the cheapest book?"
    assert answer.understood.order[0].dimension == "price"
    assert answer.to_dict()["understood"]["text"] == str(answer.understood)


def test_novels_are_left_out_where_a_book_has_two_genres(shop) -> None:
    assert "Letters to a Lighthouse" not in names(shop, "books apart from novels")


def test_nothing_is_the_most_of_what_has_no_order(tmp_path) -> None:
    (tmp_path / "paint.csv").write_text("paint,price\nRed,10-20\nBlue,5-8\nGreen,100-120\n")
    with kgqa.ingest("tables", tmp_path / "paint.csv", home=tmp_path / "home") as kg:
        answer = kg.ask("Which paint has the highest price?")
    assert not answer.answers
    assert any("nothing says which" in note for note in answer.notes)

from __future__ import annotations

import pytest

from kgqa.understanding.canonical import canonical

OWN = {"book", "books", "pages", "page"}


@pytest.mark.parametrize(
    ("question", "read"),
    [
        ("What is the most affordable book?", "What is the cheapest book?"),
        ("I'd like the lowest-priced book, please.", "The cheapest book."),
        ("all books except for novels", "all books that are not novels"),
        ("Show every book but the novels.", "Show every book that are not novels."),
        ("stations with toilets but without a café", "stations with toilets but no café"),
        ("please count all books", "how many books"),
        ("Count the books that are in print", "How many books are in print"),
        ("books thicker than 300 pages", "books more than 300 pages"),
        ("Who owns no fewer than three parcels?", "Who owns at least three parcels?"),
        ("Who owns 3 or more parcels?", "Who owns at least 3 parcels?"),
        ("books with pages >= 300", "books with pages at least 300"),
        ("Which units haven’t been overhauled?", "Which units have not been overhauled?"),
        ("Who can't come?", "Who can not come?"),
    ],
)
def test_wordings_of_one_meaning_are_read_as_one(question: str, read: str) -> None:
    assert canonical(question, own=OWN).text == read


@pytest.mark.parametrize(
    "question",
    [
        "Who directed 'The Most Affordable Man'?",
        "Who wrote All Except Novels?",
        "Count Dracula's author",
        "Who is at the bridge over the river?",
        "the books over there",
        "Which is the cheapest book?",
        "Ann wrote it, didn't she?",
        "the palm house was Ann's wasn't it",
        "Isn't Bonn a city?",
    ],
)
def test_names_quotations_and_other_uses_stay(question: str) -> None:
    assert canonical(question, own=OWN).text == question


def test_a_word_of_the_graph_stays() -> None:
    assert canonical("the mean of each", own={"mean"}).text == "the mean of each"
    assert canonical("mean price", own={"price"}).text == "average price"


def test_a_wording_inside_a_name_of_the_graph_stays() -> None:
    asked: list[str] = []

    def names(texts: list[str]) -> list[str]:
        asked.extend(texts)
        return [text for text in texts if text == "books besides novels"]

    question = "who sang books besides novels"
    assert canonical(question, names=names).text == question
    assert "books besides novels" in asked
    assert canonical("who sang songs besides novels", names=names).changes


def test_what_was_changed_is_kept() -> None:
    read = canonical("most affordable book apart from novels")
    assert read.question == "most affordable book apart from novels"
    assert read.changes == (("most affordable", "cheapest"), ("apart from", "that are not"))

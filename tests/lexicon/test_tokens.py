from __future__ import annotations

import pytest

from kgqa.lexicon.tokens import tokens


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("lowest-priced books", ["lowest", "priced", "books"]),
        ("costs < 1,200.50 or ≥ 5%", ["costs", "<", "1,200.50", "or", "≥", "5%"]),
        ("Who can’t come?", ["who", "can", "not", "come"]),
        ("won't", ["will", "not"]),
        (
            "the publisher's books in the 1990s",
            ["the", "publisher's", "books", "in", "the", "1990s"],
        ),
    ],
)
def test_words_numbers_and_signs(question: str, words: list[str]) -> None:
    found = tokens(question)
    assert [token.word for token in found] == words
    assert all(token.start < token.end <= len(question) for token in found)


def test_capitals_and_quotation_marks_set_off_names() -> None:
    words = tokens('Count Dracula is not "more than this"')
    assert [token.word for token in words if token.name] == [
        "count",
        "dracula",
        "more",
        "than",
        "this",
    ]
    assert not any(token.name for token in tokens("WHO IS THE OLDEST"))

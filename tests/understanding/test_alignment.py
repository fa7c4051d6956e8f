from __future__ import annotations

from kgqa.understanding.alignment import residual
from kgqa.understanding.question import understood


def test_words_that_names_have_are_not_residual() -> None:
    read = understood("Which authors wrote thrillers published by Lantern Press?")
    assert residual(read, ["Author", "publishedBy", "authors of books"]) == ("wrote", "thriller")


def test_a_word_of_the_root_of_a_name_is_not_residual() -> None:
    read = understood("Which books were published?")
    assert residual(read, ["publisher", "book"]) == ()
    assert residual(read, ["country", "book"]) == ("published",)


def test_what_is_compared_or_ordered_is_no_residual() -> None:
    read = understood("the cheapest books that are not novels with more than 300 pages")
    assert residual(read, ["Book", "Genre novel", "pages"]) == ()

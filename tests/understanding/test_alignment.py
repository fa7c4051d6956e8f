from __future__ import annotations

from kgqa.understanding.alignment import Owner, align
from kgqa.understanding.question import understood


def test_a_word_has_one_owner_and_the_rest_is_residual() -> None:
    read = understood("Which authors wrote thrillers published by Lantern Press?")
    found = align(read, ["Author", "publishedBy", "authors of books"])
    assert found.owners == (
        Owner("author", "Author", "exact"),
        Owner("published", "publishedBy", "exact"),
    )
    assert found.residual == ("wrote", "thriller")


def test_a_derived_word_has_an_owner_if_no_name_has_the_word_itself() -> None:
    read = understood("Which books were published?")
    assert align(read, ["publisher", "book"]).owners == (
        Owner("book", "book", "exact"),
        Owner("published", "publisher", "derived"),
    )


def test_what_is_compared_or_ordered_is_no_residual() -> None:
    read = understood("the cheapest books that are not novels with more than 300 pages")
    assert align(read, ["Book", "Genre novel", "pages"]).residual == ()

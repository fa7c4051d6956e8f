from __future__ import annotations

import pytest

from kgqa.lexicon.entries import ANY, NUMBER, OWN, Entry, entries
from kgqa.understanding.canonical import canonical
from kgqa.understanding.question import Compared, understood

_AROUND = {"number": "7 pages", "word": "price", "verb": "are", "gerund": "being"}


def said(entry: Entry, wording: str) -> str:
    """Return a question that has a wording where its entry may stand."""
    before = sorted(entry.after)[-1] if any(entry.after) else "books"
    begin = "" if entry.first else f"which {before} "
    after = _AROUND[min(entry.before)] if entry.before else "" if entry.last else "novels"
    text = wording.replace(NUMBER, "7").replace(OWN, "pages").replace(ANY, "books")
    return f"{begin}{text} {after}".strip()


WORDINGS = [
    (entry, wording) for entry, wordings in entries().items() for wording in wordings if entry.says
]


@pytest.mark.parametrize(
    ("entry", "wording"), WORDINGS, ids=[f"{wording}" for _, wording in WORDINGS]
)
def test_a_synonym_of_its_entry_gives_the_same_understood(entry: Entry, wording: str) -> None:
    own = {"books", "pages", "novels", "price"}
    one = understood(canonical(said(entry, wording), own=own).text)
    other = understood(canonical(said(entry, entry.says), own=own).text)
    assert one == other
    assert str(one) == str(other)


def test_what_a_question_says_is_a_value() -> None:
    read = understood("How many books by Ann Li that are not novels have at least 300 pages?")
    assert (read.asks, read.of) == ("how many", "book")
    assert read.negations == ("novel",)
    assert read.comparisons == (Compared("at least", "300", "pages"),)
    assert read.names == ("Ann Li",)
    assert hash(read) == hash(understood(read.question))


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("What is the cheapest book?", "what: book; ordered: cheapest; words: book"),
        ("average price by publisher",
         "asks for: price; calculated: average; each: publisher; words: price, publisher"),
        ("Is she older than Bo?", "whether: older; refers back: she; names: Bo; words: older"),
        ("Which stations have toilets but no café?",
         "which: station; not: café; words: station, toilet, café"),
    ],
)  # fmt: skip
def test_it_prints_in_one_line(question: str, line: str) -> None:
    assert str(understood(question)) == line

from __future__ import annotations

import pytest

from kgqa.lexicon.entries import ANY, NUMBER, OWN, entries, longest
from kgqa.lexicon.tokens import tokens

ENTRIES = entries()


def test_no_wording_is_in_two_entries_that_may_stand_at_one_place() -> None:
    seen: dict[tuple[str, bool], list[frozenset[str]]] = {}
    for entry, wordings in ENTRIES.items():
        for wording in wordings:
            others = seen.setdefault((wording, entry.last), [])
            for before in others:
                assert before, wording
                assert entry.before, wording
                assert not before & entry.before, wording
            others.append(entry.before)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.kind}-{entry.says}")
def test_what_an_entry_says_repeats_what_each_wording_holds(entry) -> None:
    for wording in ENTRIES[entry]:
        for sign in (ANY, NUMBER, OWN):
            assert entry.says.count(sign) <= wording.split().count(sign), wording


def test_the_longest_wording_counts_and_a_name_is_none() -> None:
    words = tokens("all books except for those by Anne Over 7")
    match = longest(words, 2)
    assert match is not None
    assert (match.start, match.end, match.entry.says) == (2, 4, "that are not")
    assert longest(words, 7) is None


def test_a_comparison_stands_before_a_number_only() -> None:
    assert longest(tokens("over 300 pages"), 0) is not None
    assert longest(tokens("over the bridge"), 0) is None

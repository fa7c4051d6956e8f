"""Replies of a model, written by hand: what is a triplet of a paragraph and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.graph.names import normalise
from kgqa.loaders import text as tt
from kgqa.loaders.text import Rejected, Triplet, prompt, read_reply

TITLE = "Grey Heron (ship)"
SENTENCES = ("The Grey Heron was built in Varde in 1911.", "Its captain was Ida Moll-Ek.")


def reasons(reply: str, *, cut: bool = False) -> list[str]:
    return [one.reason for one in read_reply(reply, TITLE, SENTENCES, cut=cut).rejected]


def test_lines_become_triplets_with_their_sentences() -> None:
    drawn = read_reply(
        "Grey Heron | built in | Varde | 1\n\n  Grey Heron|year built|1911|1\r\n"
        "Grey Heron (ship) | captain | Ida  Moll-Ek | 2",
        TITLE,
        SENTENCES,
    )
    assert drawn.rejected == ()
    assert (drawn.lines, drawn.nothing) == (3, False)
    assert drawn.triplets == (
        Triplet("Grey Heron", "built in", "Varde", 0),
        Triplet("Grey Heron", "year built", "1911", 0),
        Triplet("Grey Heron (ship)", "captain", "Ida Moll-Ek", 1),
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Here are the facts:", tt.COLUMNS),
        ("| Grey Heron | built in | Varde | 1 |", tt.COLUMNS),
        ("Grey Heron | built in | Varde", tt.COLUMNS),
        ("Grey Heron |  | Varde | 1", tt.EMPTY),
        ("Grey Heron | built in | Varde | one", tt.NO_NUMBER),
        ("Grey Heron | built in | Varde | ²", tt.NO_NUMBER),
        ("Grey Heron | built in | Varde | -1", tt.NO_NUMBER),
        ("Grey Heron | built in | Varde | 999999999", tt.NO_NUMBER),
        ("Grey Heron | built in | Varde | 0", tt.NO_SENTENCE),
        ("Grey Heron | built in | Varde | 3", tt.NO_SENTENCE),
        (f"Grey Heron | {'so ' * 40} | Varde | 1", tt.TOO_LONG),
        (f"{'Grey ' * 60} | built in | Varde | 1", tt.TOO_LONG),
        ("Grey Heron | -> | Varde | 1", tt.NO_WORD),
        ("Grey Heron | built\x07in | Varde | 1", tt.NOT_TEXT),
        ("Grey Heron | built in | \ud800Varde | 1", tt.NOT_TEXT),
        ("Grey Heron | is | grey heron | 1", tt.TO_ITSELF),
        ("- Grey Goose | built in | Varde | 1", tt.NO_HEAD),
        ("Heron Grey | built in | Varde | 1", tt.NO_HEAD),
        ("Grey Heron | built in | Tolm | 1", tt.NO_TAIL),
        ("Grey Heron | built in | Vard | 1", tt.NO_TAIL),  # a part of a word is not a name
    ],
)
def test_a_line_of_another_form_is_rejected_with_its_reason(line: str, reason: str) -> None:
    drawn = read_reply(f"Grey Heron | built in | Varde | 1\n{line}", TITLE, SENTENCES)
    assert drawn.rejected == (Rejected(2, reason, line),)
    assert len(drawn.triplets) == 1


def test_none_says_that_there_is_no_fact_and_only_alone() -> None:
    assert read_reply(" None.\n", TITLE, SENTENCES).nothing
    assert reasons("none\nGrey Heron | built in | Varde | 1") == [tt.COLUMNS]
    empty = read_reply(" \n", TITLE, SENTENCES)
    assert (empty.lines, empty.nothing) == (0, False)


def test_the_last_line_of_a_reply_that_was_cut_is_not_trusted() -> None:
    line = "Grey Heron | built in | Varde | 1"  # it may have been 12
    assert reasons(f"{line}\n{line}", cut=True) == [tt.CUT]
    assert reasons("none", cut=True) == [tt.CUT]


def test_the_example_in_the_prompt_keeps_the_rules_that_it_shows() -> None:
    asked = prompt("", ["One."])
    example = asked[asked.index("Title:") : asked.index("Now this")]
    heading, *rest = [line for line in example.splitlines() if line]
    sentences = [line.partition(". ")[2] for line in rest if line[0].isdigit()]
    reply = "\n".join(line for line in rest if not line[0].isdigit())
    drawn = read_reply(reply, heading.removeprefix("Title: "), sentences)
    assert drawn.rejected == ()
    assert len(drawn.triplets) == 4


def test_the_prompt_numbers_the_sentences_under_the_title() -> None:
    assert prompt(TITLE, SENTENCES).endswith(
        f"Title: {TITLE}\n1. {SENTENCES[0]}\n2. {SENTENCES[1]}"
    )


PART = st.text(
    alphabet=st.one_of(st.characters(), st.sampled_from("|\n \tGreyHonVad12")), max_size=20
)


@given(st.lists(st.one_of(PART, st.tuples(PART, PART, PART, PART).map("|".join)), max_size=8))
def test_every_line_is_counted_once_and_every_triplet_stands_in_the_paragraph(
    lines: list[str],
) -> None:
    drawn = read_reply("\n".join(lines), TITLE, SENTENCES)
    counted = len(drawn.triplets) + len(drawn.rejected) + drawn.nothing
    assert counted == drawn.lines
    held = f" {normalise(TITLE)} | {normalise(' '.join(SENTENCES))} "
    for triplet in drawn.triplets:
        assert f" {normalise(triplet.head)} " in held
        assert f" {normalise(triplet.tail)} " in held
        assert 0 <= triplet.sentence < len(SENTENCES)
        assert normalise(triplet.relation)


NAMES = st.sampled_from(["Grey Heron", "Varde", "1911", "Ida Moll-Ek"])


@given(st.lists(st.tuples(NAMES, NAMES, st.integers(1, 2)), max_size=6))
def test_well_formed_lines_are_read_back_as_they_were_meant(
    facts: list[tuple[str, str, int]],
) -> None:
    facts = [fact for fact in facts if fact[0] != fact[1]]
    reply = "\n".join(f"{head} | is near | {tail} | {at}" for head, tail, at in facts)
    drawn = read_reply(reply, TITLE, SENTENCES)
    assert drawn.triplets == tuple(
        Triplet(head, "is near", tail, at - 1) for head, tail, at in facts
    )

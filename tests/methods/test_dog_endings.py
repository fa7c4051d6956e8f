"""Free text ends with a whole answer line, never inside a name, and where it goes in circles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.decoding.pieces import FreeText
from kgqa.methods.dog.answers import REPEATED, TIMES, answer_end, claimed, idle

SAYS = "So. Therefore, the answer is * "
TOLKIEN = "J. R. R. Tolkien"
CAPITAL = "Washington, D.C."


def line(text: str, *names: str) -> str | None:
    """The text up to the end of its answer line, None where that may go on."""
    end = answer_end(text, {name.casefold() for name in names})
    return None if end is None else text[:end]


@pytest.mark.parametrize(
    ("text", "names", "stands"),
    [
        # a full stop is known to be the end by what comes after it
        ("Bonn", (), None),
        ("Bonn.", (), None),
        ("Bonn. ", (), None),
        ("Bonn. It", (), "Bonn."),
        ("Bonn. <", (), "Bonn."),
        ("Bonn.\n", (), "Bonn."),
        ("Bonn\n", (), "Bonn"),
        ("Bonn\n\nTherefore", (), "Bonn"),
        ("3.5 million. It", (), "3.5 million."),
        # several answers
        ("Inn, and * Sava. Both", (), "Inn, and * Sava."),
        ("Inn. * Sava. Both", (), "Inn. * Sava."),
        ("Inn, and * ", (), None),
        # full stops in names that nothing is known of
        ("J. R", (), None),
        ("J. R. R. Tolkien", (), None),
        ("J. R. R. Tolkien. He", (), "J. R. R. Tolkien."),
        ("J.R.R. Tolkien. He", (), "J.R.R. Tolkien."),
        ("St. Louis. It", (), "St. Louis."),
        ("Mr. & Mrs. Smith. It", (), "Mr. & Mrs. Smith."),
        ("Washington, D.C. is", (), None),  # rather too long than half a name
        ("Washington, D.C. \n", (), "Washington, D.C. "),
        ("Bonn, and * St. Louis. It", (), "Bonn, and * St. Louis."),
        # and in names that are known
        ("J. R. R. Tolkien. He", (TOLKIEN,), "J. R. R. Tolkien."),
        ("washington, d.c. The", (CAPITAL,), "washington, d.c."),
        ("Washington, D.C.. The", (CAPITAL,), "Washington, D.C.."),
        ('"Washington, D.C. The', (CAPITAL,), '"Washington, D.C.'),
        ("Malcolm X. He", ("Malcolm X",), "Malcolm X."),
        ("Stop. Go. It", ("Stop. Go",), "Stop. Go."),
        ("Stop. G", ("Stop. Go",), None),
        ("Stop. Guess", ("Stop. Go",), "Stop."),
        ("Stop. G\n", ("Stop. Go",), "Stop."),
        ("Bonn, and * Stop. Go", ("Stop. Go",), None),
        # nothing is claimed yet
        ("", (), None),
        (" \n\n", (), None),
        (". , \n", (), None),
    ],
)
def test_the_answer_line_ends(text: str, names: tuple[str, ...], stands: str | None) -> None:
    assert line(SAYS + text, *names) == (None if stands is None else SAYS + stands)


@pytest.mark.parametrize(
    ("text", "stands"),
    [
        ("the answer is * Bonn. It", "the answer is * Bonn."),
        ("Therefore the final answer is: Bonn. It", "Therefore the final answer is: Bonn."),
        ("Therefore, the answers are\n* Bonn\n", "Therefore, the answers are\n* Bonn"),
        ("The answer is not in the graph. I look", None),  # a thought
        ("The answer is there. Therefore, the answer is * Alpha. I", "* Alpha."),
        ("Bonn is on the Rhine.\nThen", None),
    ],
)
def test_only_a_conclusion_is_one(text: str, stands: str | None) -> None:
    found = line(text)
    assert found is None if stands is None else found is not None and found.endswith(stands)


NAMES = st.lists(
    st.text("AbcX. ", min_size=1, max_size=12)
    .map(lambda one: " ".join(one.split()))
    .filter(lambda one: any(letter.isalnum() for letter in one) and not one.endswith(".")),
    min_size=1,
    max_size=3,
    unique_by=str.casefold,
)


@given(NAMES, st.sampled_from([".\n", "\n", ". It is so."]))
def test_a_known_name_is_never_cut(names: list[str], end: str) -> None:
    """However a text grows, what is read from it where it ends is a name that was written."""
    text = SAYS + names[0] + end
    known = [one.casefold() for one in names]
    for size in range(len(SAYS), len(text) + 1):
        at = answer_end(text[:size], known)
        if at is not None:
            said = claimed([FreeText((), text[:at], 0.0)])
            whole = claimed([FreeText((), SAYS + names[0], 0.0)])
            others = [claimed([FreeText((), SAYS + one, 0.0)]) for one in names]
            assert said == whole or said in others
            return
    # it may go on where another name begins like this, or by an abbreviation; never after a line
    assert end == ". It is so."


@given(st.text("AB.* \n", max_size=40))
def test_an_end_stands_whatever_follows(rest: str) -> None:
    """An end lies within the text, holds a name, and is the same for a longer text."""
    text = SAYS + rest
    at = answer_end(text)
    if at is None:
        return
    assert len(SAYS) < at < len(text)
    assert claimed([FreeText((), text[:at], 0.0)])
    assert answer_end(text + " And more. \n") == at


def test_circles_and_long_thoughts_end() -> None:
    assert idle(list(range(100)), 100) is None
    assert "100 tokens" in (idle(list(range(101)), 100) or "")
    for length in (1, 3, 8, 30):
        times = max(TIMES, -(-REPEATED // length))
        block = list(range(length))
        assert "repeated" in (idle([99, *block * times], 1_000) or "")
        assert idle([99, *block * times][:-1], 1_000) is None
        assert idle([99, *block * (times - 1), *block[:-1], 98], 1_000) is None
    assert idle([], 1) is None

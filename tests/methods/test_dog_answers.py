"""The line that a chain ends with, read as names and linked back to entities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.answers.answer import ScoredPath
from kgqa.decoding.span_markers import FreeText
from kgqa.methods.dog.answers import (
    REPEATED,
    TIMES,
    GraphNames,
    answer_end,
    claimed,
    idle,
    ranked,
    reached,
)
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import GroundedPath, Node, ground
from kgqa.paths.triplets import StoreTriplets, as_paths, joined_rows
from tests.graph.tables import entity, tables_of
from tests.trie.language import store_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.graph.sqlite import SqliteStore

FORM = PathFormat()


def said(text: str) -> list[str] | None:
    return claimed([FreeText((), text)])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Therefore, the answer is * Bonn.", ["Bonn"]),
        ("So. Therefore, the answer is * Inn, and * Sava.", ["Inn", "Sava"]),
        ("the answer is * A, * B, and * C", ["A", "B", "C"]),
        ("The answers are: * A and * B", ["A", "B"]),
        ("Therefore, the answer is Bonn.", ["Bonn"]),
        ("the answer is * M*A*S*H.", ["M*A*S*H"]),
        ("the answer is ** Bonn **.", ["Bonn"]),
        ('the answer is * "Bonn".', ["Bonn"]),
        ("the answer is * Bonn. \n\nQuestion: and the next?", ["Bonn"]),
        ("the answer is * Vienna. No: the answer is * Bonn.", ["Bonn"]),
        ("the answer is * Bonn, and * Bonn, and * BONN.", ["Bonn"]),
        ("the answer is * none.", []),
        ("the answer is * a -> b | c.", ["a -> b | c"]),
        ("the answer is * Sword and Stone, and * Me and", ["Sword and Stone", "Me and"]),
        ("the answer is", None),
        ("the answer is *", None),
        ("the answer is * . , ;", None),
        ("I do not know.", None),
        ("", None),
        ("They answered: it is Bonn.", None),
    ],
)
def test_the_answer_line_is_read(text: str, names: list[str] | None) -> None:
    assert said(text) == names


def test_the_last_text_that_claims_anything_counts() -> None:
    pieces = [FreeText((), "the answer is * A."), FreeText((), "no claim")]
    assert claimed(pieces) == ["A"]
    assert claimed([*pieces, FreeText((), "the answer is * B.")]) == ["B"]
    assert claimed([]) is None


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """Fidelio's composer and his birthplace; another Bonn, far better connected."""
    tables = tables_of(
        [
            entity("f", "Fidelio"),
            entity("b", "Ludwig van Beethoven"),
            entity("n", "Bonn"),
            entity("x", "Bonn"),
            entity("v", "Vienna"),
            *(entity(f"o{one}", f"other {one}") for one in range(4)),
        ],
        [
            ("f", "composer", "b"),
            ("b", "born", "n"),
            ("b", "died", "v"),
            *((f"o{one}", "in", "x") for one in range(4)),
        ],
    )
    with store_of(tables, tmp_path) as opened:
        yield opened


def chain(store: SqliteStore, count: int) -> ScoredPath:
    """The first ``count`` triplets from Fidelio to Bonn as a path."""
    f, b, n = store.keys_of(["f", "b", "n"]).tolist()
    names = store.relations().names
    steps = [2 * names.index("composer"), 2 * names.index("born")]
    rows = np.array([[f, steps[0], -1, -1, b], [b, steps[1], -1, -1, n]])[:count]
    edges = [path.edges[0] for path in ground(store, as_paths(rows), FORM) if path]
    text = " | ".join(f"{edge.head.name} -> {edge.relation} -> {edge.tail.name}" for edge in edges)
    return ScoredPath(text, -1.0, "", (GroundedPath(tuple(edges), text),))


def test_a_name_means_the_chains_entity_then_the_prompts_then_any(store: SqliteStore) -> None:
    near = joined_rows(StoreTriplets(store).around(store.keys_of(["b"])))
    names = GraphNames(store, near)
    path = chain(store, 2)
    bonn, vienna = Node("n", "Bonn"), Node("v", "Vienna")
    assert names.link(["Bonn", "Vienna", "Nowhere"], path) == [
        (bonn, True),
        (vienna, False),  # of the prompt's graph, in no triplet of the chain
        ("Nowhere", False),
    ]
    # not in the chain, nor better connected elsewhere: the prompt showed this one
    assert names.link(["bonn."], chain(store, 1)) == [(bonn, False)]
    composer = np.array([near[0]])
    assert names.link(["Fidelio"], path) == [(Node("f", "Fidelio"), False)]  # only asked about
    elsewhere = GraphNames(store, composer[:0].reshape(0, 5))
    assert elsewhere.link(["Bonn"], None) == [(Node("x", "Bonn"), False)]
    assert elsewhere.link(["not Bonn"], path) == [("not Bonn", False)], "a name is all of a text"


def test_what_was_reached_answers_for_a_chain_without_a_line(store: SqliteStore) -> None:
    assert reached(chain(store, 2)) == [(Node("n", "Bonn"), True)]
    assert reached(chain(store, 1)) == [(Node("b", "Ludwig van Beethoven"), True)]


def test_the_first_chain_answers_and_others_stand_behind() -> None:
    a, b, c = (Node(one, one.upper()) for one in "abc")
    answers, others = ranked(
        [(-1.0, [(a, True), (b, False)]), (-1.0, [(b, True)]), (-2.0, [(c, True), ("d", False)])]
    )
    assert [(answer.id, answer.grounded) for answer in answers] == [("b", True), ("a", True)]
    assert [(other.id, other.name, other.grounded) for other in others] == [
        ("c", "C", True),
        (None, "d", False),
    ]
    assert sum(one.score for one in [*answers, *others]) == pytest.approx(1.0)
    assert answers[0].score == pytest.approx(3 * answers[1].score)
    assert ranked([]) == ([], [])
    assert ranked([(-1.0, []), (-5.0, [(a, True)])])[0] == []


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
    known = [name.casefold() for name in names]
    for size in range(len(SAYS), len(text) + 1):
        at = answer_end(text[:size], known)
        if at is not None:
            said = claimed([FreeText((), text[:at])])
            whole = claimed([FreeText((), SAYS + names[0])])
            others = [claimed([FreeText((), SAYS + name)]) for name in names]
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
    assert claimed([FreeText((), text[:at])])
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

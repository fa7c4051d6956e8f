"""The line that a chain ends with, read as names and linked back to entities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kgqa.answers.answer import ScoredPath
from kgqa.decoding.pieces import FreeText
from kgqa.methods.dog.answers import GraphNames, claimed, ranked, reached
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
    return claimed([FreeText((), text, 0.0)])


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
    pieces = [FreeText((), "the answer is * A.", 0.0), FreeText((), "no claim", 0.0)]
    assert claimed(pieces) == ["A"]
    assert claimed([*pieces, FreeText((), "the answer is * B.", 0.0)]) == ["B"]
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
    text = " | ".join(f"{one.head.name} -> {one.relation} -> {one.tail.name}" for one in edges)
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
    assert elsewhere.link(["the city of Bonn"], path) == [(bonn, True)]


def test_what_was_reached_answers_for_a_chain_without_a_line(store: SqliteStore) -> None:
    assert reached(chain(store, 2)) == [(Node("n", "Bonn"), True)]
    assert reached(chain(store, 1)) == [(Node("b", "Ludwig van Beethoven"), True)]


def test_the_first_chain_answers_and_others_stand_behind() -> None:
    a, b, c = (Node(one, one.upper()) for one in "abc")
    answers, others = ranked(
        [(-1.0, [(a, True), (b, False)]), (-1.0, [(b, True)]), (-2.0, [(c, True), ("d", False)])]
    )
    assert [(one.id, one.grounded) for one in answers] == [("b", True), ("a", True)]
    assert [(one.id, one.name, one.grounded) for one in others] == [
        ("c", "C", True),
        (None, "d", False),
    ]
    assert sum(one.score for one in [*answers, *others]) == pytest.approx(1.0)
    assert answers[0].score == pytest.approx(3 * answers[1].score)
    assert ranked([]) == ([], [])
    assert ranked([(-1.0, []), (-5.0, [(a, True)])])[0] == []

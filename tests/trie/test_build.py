"""Paths are put in token order by their parts, and never in another order than their tokens'."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgqa.trie.arrays import Ordered, build_trie, in_order, sequences
from kgqa.trie.stored import JoinedSequences, _by_parts, all_joined, ordered_paths

CLOSING, LINK = 0, 1

TEXT = st.lists(st.integers(2, 5), min_size=1, max_size=7)
TEXT_WITH_LINKS = st.lists(st.integers(0, 5), min_size=1, max_size=7)


def paths_of(heads: list, relations: list, tails: list, rows: list) -> JoinedSequences:
    """Return paths over the parts given, ``rows`` of (head, relation, tail, …) as numbers."""
    parts = [*heads, *([LINK, *text, LINK] for text in relations), *tails, [CLOSING]]
    hops = max(len(row) // 2 for row in rows)
    number = np.full((len(rows), 2 * hops + 2), -1, np.int64)
    for at, (head, *after) in enumerate(rows):
        number[at, 0] = head % len(heads)
        for hop in range(len(after) // 2):
            relation, tail = after[2 * hop : 2 * hop + 2]
            number[at, 2 * hop + 1] = len(heads) + relation % len(relations)
            number[at, 2 * hop + 2] = len(heads) + len(relations) + tail % len(tails)
        number[at, -1] = len(parts) - 1
    return JoinedSequences(number, sequences(parts))


def some_paths(text: st.SearchStrategy) -> st.SearchStrategy[JoinedSequences]:
    texts = st.lists(text, min_size=1, max_size=6)
    number = st.integers(0, 5)
    row = st.integers(1, 4).flatmap(
        lambda hops: st.lists(number, min_size=2 * hops + 1, max_size=2 * hops + 1)
    )
    return st.builds(paths_of, texts, texts, texts, st.lists(row, min_size=1, max_size=12))


def same(one: Ordered, other: Ordered) -> None:
    assert one.lengths.tolist() == other.lengths.tolist()
    assert one.own.tolist() == other.own.tolist()
    assert one.number.tolist() == other.number.tolist()
    assert one.shared.tolist() == other.shared.tolist()


@given(some_paths(TEXT))
@example(
    paths_of([[2]], [[2]], [[3], [3, 4], [3, 4, 5, 2]], [[0, 0, 1, 0, 2], [0, 0, 0], [0, 0, 1]])
)
def test_parts_give_the_order_of_the_tokens(paths: JoinedSequences) -> None:
    """Names that begin other names do not matter: the parts decide, no sequence is sorted."""
    by_parts = _by_parts(paths)
    assert by_parts is not None
    same(by_parts, in_order(paths.joined()))


@given(some_paths(TEXT_WITH_LINKS))
@example(paths_of([[2]], [[2]], [[3], [3, 1, 2, 1, 3]], [[0, 0, 0, 0, 0], [0, 0, 1]]))
def test_names_that_hold_a_link_are_put_in_order_too(paths: JoinedSequences) -> None:
    same(ordered_paths(paths), in_order(paths.joined()))


@given(some_paths(TEXT), some_paths(TEXT))
def test_paths_of_several_entities_are_one_language(
    one: JoinedSequences, other: JoinedSequences
) -> None:
    both = all_joined([one, other])
    same(
        ordered_paths(both),
        in_order(
            sequences(
                [*map(one.__getitem__, range(len(one))), *map(other.__getitem__, range(len(other)))]
            )
        ),
    )


@given(st.lists(st.lists(st.sampled_from([0, 254, 255, 256, (1 << 32) - 1]), max_size=5)))
def test_any_tokens_are_put_in_order_with_little_memory_too(rows: list[list[int]]) -> None:
    distinct = sorted(set(map(tuple, rows)))
    with pytest.MonkeyPatch.context() as patch:
        for padded in (1 << 26, 0):
            patch.setattr("kgqa.trie.arrays._PADDED", padded)
            ordered = in_order(sequences(rows))
            assert [distinct[number] for number in ordered.number] == list(map(tuple, rows))
            assert ordered.lengths.tolist() == list(map(len, distinct))
            own = iter(ordered.own.tolist())
            above: tuple[int, ...] = ()
            for one, shared in zip(distinct, ordered.shared.tolist(), strict=True):
                assert one == (*above[:shared], *(next(own) for _ in one[shared:]))
                above = one
            assert list(own) == []


@given(st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=30))
def test_a_trie_holds_what_it_was_made_of(rows: list[list[int]]) -> None:
    ordered = in_order(sequences(rows))
    trie = build_trie(ordered)
    assert trie.nodes == ordered.nodes
    found = {}
    below = [(0, ())]
    for node, text in below:
        if trie.leaf[node] >= 0:
            found[text] = int(trie.leaf[node])
        tokens, first = trie.children(node)
        assert tokens.tolist() == sorted(set(tokens.tolist()))
        below += [(first + at, (*text, token)) for at, token in enumerate(tokens.tolist())]
    assert len(below) == trie.nodes
    assert found == {text: number for number, text in enumerate(sorted(set(map(tuple, rows))))}

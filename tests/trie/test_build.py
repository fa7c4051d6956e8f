"""Token sequences in order, and the trie made of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.trie.arrays import build_trie, in_order, sequences


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

"""Paths become keys of bytes and come back, however many relations and hops there are."""

from __future__ import annotations

import numpy as np
import pytest

from kgqa.paths.walk import FIRST, MEDIATOR, SECOND, TAIL, PathTable
from kgqa.trie.arrays import sequences
from kgqa.trie.index.marisa import opened, trie_of
from kgqa.trie.index.packed import (
    HOP,
    Dictionary,
    found_hops,
    read_texts,
    text_list,
    token_bytes,
    token_width,
    tokens_of,
)

HOPS = 3


def table_of(relations: int, tails: int) -> PathTable:
    """Each tail by each relation, half of those by a mediator; and longer paths of these hops."""
    dice = np.random.default_rng(relations)
    relation, tail = (part.ravel() for part in np.indices((relations, tails)))
    hop = np.empty((len(relation), 4), np.int64)
    hop[:, FIRST], hop[:, TAIL] = relation, 5 * tail
    hop[:, SECOND] = np.where(relation % 2, relation // 2, -1)
    hop[:, MEDIATOR] = np.where(relation % 2, 3 * tail + 1, -1)
    longer = dice.integers(0, len(hop), (200, HOPS))
    hops = np.full((len(hop) + len(longer), HOPS, 4), -1, np.int64)
    hops[: len(hop), 0] = hop
    hops[len(hop) :] = hop[longer]
    hops[-50:, -1] = -1
    hops = np.unique(hops, axis=0)
    return PathTable(np.zeros(len(hops), np.int64), (hops[:, :, TAIL] >= 0).sum(axis=1), hops)


@pytest.mark.parametrize(
    ("relations", "tails"),
    [(1, 1), (3, 5), (256, 2), (257, 3), (2, 257), (300, 300), (66_000, 1), (2, 66_000)],
)
def test_paths_come_back_from_their_keys(relations: int, tails: int) -> None:
    table = table_of(relations, tails)
    found = found_hops(table)
    texts = [np.arange(len(part)) for part in (found.pairs, found.tails)]
    data, coded = Dictionary.packed(found, *texts)
    keys = coded.keys(np.full(len(table), 9), found.number)
    known = Dictionary(data, max(map(len, texts)))
    number = known.hops(keys, HOPS)
    assert (known.steps(number) == table.hops).all()
    trie, _ = opened(trie_of(sorted(keys)).tobytes(), (1 + HOP * HOPS) ** 2)
    assert len(trie) == len(set(keys)) == len(table)
    for hop in np.unique(number[number >= 0])[:: max(1, relations * tails // 50)].tolist():
        code, relation = known.hop(hop), int(known.relation_of(np.array([hop]))[0])
        assert known.relation_at(code + bytes(3), 0) == (relation, len(known.code(relation)))
        assert known.code_length(code[0]) == len(known.code(relation))


@pytest.mark.parametrize("vocab_size", [300, 1 << 16, (1 << 16) + 1, 1 << 24, (1 << 24) + 1])
def test_texts_come_back_with_ids_of_two_three_and_four_bytes(vocab_size: int) -> None:
    most = vocab_size - 1
    rows = [[0], [0, 255, most], [0, 255, most, 1], [most], [most, 0]]
    width = token_width(vocab_size)
    assert width == max(2, (most.bit_length() + 7) // 8)
    each = token_bytes(sequences(rows), width)
    trie = trie_of(each)
    listed = read_texts(text_list(sequences(rows), width), width)
    stored = read_texts(trie.tobytes(), width)
    for texts, numbers in ((listed, range(5)), (stored, [trie[text] for text in each])):
        assert texts.count == 5
        found = tokens_of(texts.read([*numbers]), width)
        assert [found[at] for at in range(5)] == rows

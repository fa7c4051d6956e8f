"""From id paths to token sequences: parts tokenised once, joined by array operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgqa.paths.walk import FIRST, SECOND, TAIL, ranges
from kgqa.trie.arrays import Sequences

if TYPE_CHECKING:
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import PathTable
    from kgqa.trie.lexicon import PathLexicon


def path_tokens(store: GraphStore, table: PathTable, lexicon: PathLexicon) -> Sequences:
    """Return the token sequence of each path of ``table``, from opening to closing token."""
    if not len(table):
        return Sequences(np.empty(0, np.int64), np.zeros(1, np.int64))
    heads, head_of = np.unique(table.topic, return_inverse=True)
    there = table.hops[:, :, TAIL] >= 0
    taken = table.hops[there]
    pairs, pair_of = np.unique(taken[:, (FIRST, SECOND)], axis=0, return_inverse=True)
    tails, tail_of = np.unique(taken[:, TAIL], return_inverse=True)
    names = store.relations().names
    labels = [lexicon.form.relation(first, second, names) for first, second in pairs.tolist()]
    parts = [
        *lexicon.heads(names_of(store, heads)),
        *lexicon.relations(labels),
        *lexicon.tails(names_of(store, tails)),
        (lexicon.closing,),
    ]
    paths, hops = there.shape
    number = np.full((paths, 2 * hops + 2), -1, np.int64)
    number[:, 0] = head_of.reshape(-1)
    relation = np.full((paths, hops), -1, np.int64)
    relation[there] = len(heads) + pair_of.reshape(-1)
    tail = np.full((paths, hops), -1, np.int64)
    tail[there] = len(heads) + len(pairs) + tail_of.reshape(-1)
    number[:, 1:-1:2] = relation
    number[:, 2:-1:2] = tail
    number[:, -1] = len(parts) - 1
    part_lengths = np.array([len(part) for part in parts], np.int64)
    part_starts = np.cumsum(part_lengths) - part_lengths
    part_tokens = np.fromiter((token for part in parts for token in part), np.int64)
    used = number >= 0
    lengths = np.where(used, part_lengths[number], 0).sum(axis=1)
    order = number[used]
    tokens = part_tokens[ranges(part_starts[order], part_lengths[order])]
    return Sequences(tokens, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))


def names_of(store: GraphStore, keys: IntArray) -> list[str]:
    """Return the name of each key as it stands in a path: the id where there is no name."""
    entities = store.entities(keys)
    return [name or id_ for name, id_ in zip(entities.names, entities.ids, strict=True)]

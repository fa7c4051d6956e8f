"""A chain as a path of the answer: every triplet of it checked in the store, by id.

``edges`` are the triplets in their order, each read the way the chain went: from the end that had
been visited to the other one, so that the tail is what the triplet reached; ``facts`` hold it as it
is stored. An edge need not begin where the one before it ended: it begins anywhere the chain has
been. ``text`` is the triplets as they were written. What this does not do: keep the thoughts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.answer import ScoredPath
from kgqa.methods.dog.chains import BETWEEN, score
from kgqa.paths.ground import GroundedPath, ground
from kgqa.paths.triplets import as_paths, turned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.decoding.pieces import Span
    from kgqa.decoding.spans import Chain
    from kgqa.graph.store import GraphStore
    from kgqa.methods.dog.chains import Reading
    from kgqa.paths.ground import PathEdge
    from kgqa.trie.lexicon import PathLexicon


def chain_path(
    store: GraphStore,
    lexicon: PathLexicon,
    chain: Chain,
    readings: Sequence[Reading],
    start: Reading,
    closing: Sequence[int],
) -> ScoredPath | None:
    """Return the chain with its readings as groundings; None where none is in the graph.

    A reading stands only if each of its triplets is in the store, has the tokens that were written,
    and touches what was visited before it: whatever the constraint said. ``closing``: the tokens of
    the closing marker.
    """
    spans = chain.spans
    groundings = []
    for reading in readings:
        path = _grounded(store, lexicon, spans, reading, start, closing)
        if path is not None:
            groundings.append(path)
    if not groundings:
        return None
    best = groundings[0]
    return ScoredPath(best.text, score(chain), best.tail.name, tuple(groundings))


def _grounded(
    store: GraphStore,
    lexicon: PathLexicon,
    spans: Sequence[Span],
    reading: Reading,
    start: Reading,
    closing: Sequence[int],
) -> GroundedPath | None:
    if not spans or len(reading.triplets) != len(spans):
        return None
    rows = np.array(reading.triplets, np.int64)
    visited = set(start.visited)
    back = []
    for head, *_, tail in rows.tolist():
        if head not in visited and tail not in visited:
            return None
        back.append(head not in visited)
        visited |= {head, tail} & reading.visited  # a value is no place to go on from
    written = ground(store, as_paths(rows), lexicon.form)
    walked = rows.copy()
    walked[back] = turned(rows[back])
    as_walked = ground(store, as_paths(walked), lexicon.form)
    edges: list[PathEdge] = []
    texts = []
    for span, one, other in zip(spans, written, as_walked, strict=True):
        if one is None or other is None:
            return None
        parts = [(one.edges[0].relation, one.tail.name)]
        tokens = lexicon.sequence(one.head.name, parts)[:-1]
        if (*tokens, *closing) != span.hypothesis.tokens:
            return None
        texts.append(one.text)
        edges.append(other.edges[0])
    return GroundedPath(tuple(edges), BETWEEN.join(texts))

"""Decoded hypotheses back to the graph: only what is there by id, edge by edge, is shown.

What it does not do: decode, or make answers of paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgqa.answers.answer import ScoredPath
from kgqa.answers.evidence import evidence_of
from kgqa.paths.ground import ground

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.decoding.search import Hypothesis
    from kgqa.graph.store import GraphStore
    from kgqa.trie.constraint import Constraint
    from kgqa.trie.lexicon import PathLexicon


def ground_all(
    store: GraphStore,
    constraint: Constraint,
    lexicon: PathLexicon,
    hypotheses: Sequence[Hypothesis],
    written: Sequence[str] = (),
    covered: Sequence[Sequence[float]] = (),
) -> tuple[list[ScoredPath], list[str]]:
    """Return the hypotheses as paths whose every edge is in the store, and what was refused.

    ``written``: the answer that the model wrote after each, none where it writes none; the path's
    last entity stands for one that is missing or blank. ``covered``: the log-coverage at each token
    of each, where it was measured.
    A path is shown only if its ids are in the store *and* its tokens are those of its ids: an index
    that says something else than the graph is caught here, whatever its checksums say.
    """
    paths: list[ScoredPath] = []
    notes: list[str] = []
    for number, hypothesis in enumerate(hypotheses):
        found = ground(store, constraint.ground(hypothesis.state), lexicon.form)
        good, parts_of_best = [], None
        for path in found:
            if path is None:
                continue
            hops = [(edge.relation, edge.tail.name) for edge in path.edges]
            parts = lexicon.parts(path.head.name, hops)
            if tuple(token for part in parts for token in part) == hypothesis.tokens:
                good.append(path)
                parts_of_best = parts_of_best or parts
        if len(good) < len(found) or not good:
            text = lexicon.encoder.decode(hypothesis.tokens[:-1]).strip()
            notes.append(f"A path that the graph does not hold was left out: {text}")
        if parts_of_best:
            best = good[0]
            score = hypothesis.log_probability
            answer = written[number] if written else ""
            coverage, lost = None, 0.0
            if covered and covered[number]:
                coverage, lost = evidence_of(parts_of_best, len(lexicon.link), covered[number])
            told = answer or best.tail.name
            paths.append(ScoredPath(best.text, score, told, tuple(good), coverage, lost))
    return paths, notes

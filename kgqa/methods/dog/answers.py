"""The answers of chains: read from the line that a chain ends with, and linked back to entities.

The line is ``Therefore, the answer is * X, and * Y.`` A name means the entity of the chain's own
triplets that is called so, else one of the graph that stood in the prompt, else the best connected
entity of that name in the KG; only the first are grounded. A chain without such a line answers with
what its last triplet reached. What this does not do: write chains.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.answer import RankedAnswer
from kgqa.answers.naming import PathNames, form_of, in_graph
from kgqa.decoding.pieces import FreeText
from kgqa.paths.ground import Node
from kgqa.paths.triplets import END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.answers.answer import ScoredPath
    from kgqa.decoding.pieces import Span
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore

CLAIM = re.compile(r"\banswers?\s+(?:is|are)\b\s*:?", re.IGNORECASE)
STAR = re.compile(r"(?:^|(?<=\s))\*+(?=\s)")  # not the star inside M*A*S*H
_AND = re.compile(r"(?:[,;]\s*|\s+)and\s*$", re.IGNORECASE)
_NOTHING = frozenset({"none", "unknown", "not known"})


def claimed(pieces: Sequence[FreeText | Span]) -> list[str] | None:
    """Return the names that a chain says are the answer, each once; None where it says none.

    The last such line counts, and of it the text up to its end: triplets hold no claim. An answer
    of "none" is an empty list.
    """
    for piece in reversed(pieces):
        if not isinstance(piece, FreeText):
            continue
        claims = list(CLAIM.finditer(piece.text))
        if not claims:
            continue
        line = piece.text[claims[-1].end() :].strip().split("\n", 1)[0]
        names = names_of_line(line)
        if names is not None:
            return names
    return None


def names_of_line(line: str) -> list[str] | None:
    """Return the names after ``the answer is``, each once; None where there is none."""
    starred = STAR.split(line)
    parts = starred[1:] if len(starred) > 1 else starred
    names = [_name(part, last=at == len(parts) - 1) for at, part in enumerate(parts)]
    found = {form_of(name): name for name in reversed(names) if form_of(name)}
    if not found:
        return None
    return [found[one] for one in reversed(found) if one not in _NOTHING]


def _name(text: str, *, last: bool) -> str:
    text = text.strip()
    if not last:
        text = _AND.sub("", text).rstrip(" ,;")
    return text.rstrip(".,;").strip().strip("\"'`*").strip()


class GraphNames:
    """Links names to entities: of the chain, of the graph in the prompt, of the KG, in this order.

    ``rows``: the triplets of the prompt's graph, shape ``[n, 5]``.
    """

    def __init__(self, store: GraphStore, rows: IntArray) -> None:
        self._store = store
        found = store.entities(np.unique(rows[:, (0, END)]))
        self._known: dict[str, list[Node]] = {}
        for row, id_ in enumerate(found.ids):
            node = Node(id_, found.label(row))
            self._known.setdefault(form_of(node.name), []).append(node)

    def link(self, names: Sequence[str], path: ScoredPath | None) -> list[tuple[Node | str, bool]]:
        """Return for each name the entities that it means, and whether ``path`` reaches them.

        A name that means none stands for itself, not grounded. Raises GraphError.
        """
        chain = PathNames(path.groundings if path is not None else ())
        found: list[tuple[Node | str, bool]] = []
        for name in names:
            nodes = chain.exact(name) or chain.contained(name) or self._known.get(form_of(name), [])
            if not nodes:
                nodes = [node for node in in_graph(self._store, [name]) if node is not None]
            found += [(node, chain.is_grounded(node)) for node in nodes] or [(name, False)]
        return found


def reached(path: ScoredPath) -> list[tuple[Node | str, bool]]:
    """Return what the last triplet of a chain reached, under each of its readings."""
    ends = {one.tail.id: one.tail for one in path.groundings}
    return [(node, True) for node in ends.values()]


def ranked(
    chains: Sequence[tuple[float, Sequence[tuple[Node | str, bool]]]],
) -> tuple[list[RankedAnswer], list[RankedAnswer]]:
    """Return the first chain's answers, and those that only other chains give.

    ``chains``: the score of each, best first, and what it answers. An answer's score is the share
    that the chains which give it have of the probability of all, each chain's shared out among its
    answers; equal ones stay as they were written.
    """
    if not chains:
        return [], []
    top = max(one for one, _ in chains)
    weights = [math.exp(one - top) for one, _ in chains]
    total = math.fsum(weights)
    shares: dict[str, float] = {}
    shown: dict[str, tuple[Node | str, bool]] = {}
    for weight, (_, answers) in zip(weights, chains, strict=True):
        for what, grounded in answers:
            key = what.id if isinstance(what, Node) else f"\0{form_of(what)}"
            shares[key] = shares.get(key, 0.0) + weight / total / len(answers)
            if key not in shown or grounded:
                shown[key] = (what, grounded or shown.get(key, (what, False))[1])
    mine = {w.id if isinstance(w, Node) else f"\0{form_of(w)}" for w, _ in chains[0][1]}
    order = sorted(shown, key=lambda key: -shares[key])
    found = [(key in mine, _answer(*shown[key], shares[key])) for key in order]
    return [one for own, one in found if own], [one for own, one in found if not own]


def _answer(what: Node | str, grounded: bool, share: float) -> RankedAnswer:
    if isinstance(what, Node):
        return RankedAnswer(what.id, what.name, share, grounded)
    return RankedAnswer(None, what, share, grounded=False)

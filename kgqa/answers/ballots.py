"""What decoded paths vote for, where the model wrote an answer of its own after each of them.

A model that was trained to (``# Answer:``) says after a path what it takes the answer to be. Mostly
that is the path's end. Where it is another entity on the path, the path up to there counts instead:
its end is what the model means, and it is grounded as the whole was. Where it is none of them, the
path's vote is halved between its end, which the graph holds, and what was written, which it may not
hold: that one is known by name at best, and never grounded, unless another path ends there.

What it does not do: decode (``hypotheses``), or weigh (``aggregate``, ``vote``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kgqa.answers.naming import PathNames, in_graph, is_name_of
from kgqa.paths.ground import GroundedPath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.answers.answer import ScoredPath
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.paths.ground import Node

_HALF = math.log(2.0)


@dataclass(frozen=True, slots=True)
class Written:
    """An answer that was written after paths and that none of these paths holds.

    ``nodes``: the entities that it means, empty where no path and no entity is called so;
    ``grounded``: whether other paths end in them; ``name``: as it is shown; ``score``: the
    logarithm of its part of the probability of the paths after which it was written.
    """

    name: str
    nodes: tuple[Node, ...]
    grounded: bool
    score: float


@dataclass(frozen=True, slots=True)
class Ballots:
    """``paths`` as they count, and what was written beyond them."""

    paths: tuple[ScoredPath, ...]
    written: tuple[Written, ...] = ()


def cast(paths: Sequence[ScoredPath], form: PathFormat, store: GraphStore | None = None) -> Ballots:
    """Return what ``paths`` vote for; without hypotheses of their own it is the paths themselves.

    ``store``: where what no path holds is looked up by name, None for nowhere. ``form`` is the one
    that the paths are written in. The probabilities of all ballots sum to those of ``paths``.
    Raises GraphError.
    """
    counted: list[ScoredPath] = []
    beyond: dict[str, list[float]] = {}
    for path in paths:
        shortened = None if ends_so(path) else _up_to(path, form)
        if shortened is not None:
            counted.append(shortened)
        elif ends_so(path):
            counted.append(path)
        else:
            half = path.score - _HALF
            counted.append(replace(path, score=half))
            beyond.setdefault(path.hypothesis.strip(), []).append(half)
    if not beyond:
        return Ballots(tuple(counted))
    names = PathNames(one for path in paths for one in path.groundings)
    texts = list(beyond)
    looked_up = in_graph(store, texts) if store is not None else [None] * len(texts)
    written = []
    for text, known in zip(texts, looked_up, strict=True):
        nodes = tuple(names.exact(text)) or ((known,) if known is not None else ())
        grounded = bool(nodes) and all(names.is_grounded(node) for node in nodes)
        name = nodes[0].name if nodes else text
        written.append(Written(name, nodes, grounded, _log_sum(beyond[text])))
    return Ballots(tuple(counted), tuple(written))


def ends_so(path: ScoredPath) -> bool:
    """Return whether what was written after ``path``, if anything, is the path's end."""
    end = path.groundings[0].tail.name
    return not path.hypothesis.strip() or is_name_of(path.hypothesis, end)


def _up_to(path: ScoredPath, form: PathFormat) -> ScoredPath | None:
    """Return ``path`` up to the entity inside it that its hypothesis names, None if it names none.

    The topic entity is not inside: no path ends where it starts.
    """
    cut: dict[tuple[object, ...], GroundedPath] = {}
    for one in path.groundings:
        for place, edge in enumerate(one.edges[:-1], start=1):
            if is_name_of(path.hypothesis, edge.tail.name):
                edges = one.edges[:place]
                hops = [(each.relation, each.tail.name) for each in edges]
                short = GroundedPath(edges, form.path(one.head.name, hops))
                cut.setdefault(edges, short)  # several may be the same up to there
                break
    if not cut:
        return None
    groundings = tuple(cut.values())
    return replace(path, text=groundings[0].text, groundings=groundings)


def _log_sum(scores: Sequence[float]) -> float:
    top = max(scores)
    return top + math.log(math.fsum(math.exp(one - top) for one in scores))

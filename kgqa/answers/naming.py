"""Links what a model wrote to entities: those of its paths first, then by name in the KG.

Names are compared in the form that stores keep them in, accents folded besides. What a published
metric calls a match is another matter (:mod:`kgqa.evaluation`).

A model that was trained to (``# Answer:``) writes after a path what it takes the answer to be. If
it is another entity on the path, the path up to there counts instead. If it is none of them, the
path's vote is halved between its end and what was written, which is known by name at best, and
never grounded, unless another path ends there.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kgqa.display import path_parts
from kgqa.graph.names import normalise
from kgqa.linking.forms import folded
from kgqa.paths.ground import GroundedPath, Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kgqa.answers.answer import ScoredPath
    from kgqa.graph.store import GraphStore

# letters that have no accent to take away, and are often written without what marks them
_PLAIN = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"}
)
_LOG_2 = math.log(2)
_ARTICLE = re.compile(r"^(?:the|an?) (?=.)")


def form_of(text: str) -> str:
    """Return a text in the normal form for comparison with names.

    >>> form_of("  Hugo CHÁVEZ. ")
    'hugo chavez'
    """
    return normalise(folded(normalise(text)).translate(_PLAIN))


def is_name_of(text: str, name: str) -> bool:
    """Return whether ``text`` equals ``name``, ignoring accents and a leading article."""
    if text == name:
        return True
    written, known = form_of(text), form_of(name)
    return bool(known) and _bare(written) == _bare(known)


class PathNames:
    """The entities of grounded paths, by name.

    An entity is *grounded* if a path, or the beginning of one, ends in it. Topic entities are
    included, but are grounded only if another path ends in them.
    """

    def __init__(self, paths: Iterable[GroundedPath]) -> None:
        grounded_paths = list(paths)
        self._ends = _by_form(path.tail for path in grounded_paths)
        inner = [edge.tail for path in grounded_paths for edge in path.edges]
        self._inner = _by_form(inner)
        self._heads = _by_form(path.head for path in grounded_paths)
        self._grounded = {node.id for node in inner}

    def is_grounded(self, node: Node) -> bool:
        """Return whether a path, or a prefix of one, ends in ``node``."""
        return node.id in self._grounded

    def exact(self, text: str) -> list[Node]:
        """Return the entities named ``text``: ends of paths, else inner ones, else topics.

        [] if there are none; a leading article is ignored.
        """
        form = form_of(text)
        for spelling in (form, _bare(form)):
            for known in (self._ends, self._inner, self._heads):
                if value := known.get(spelling):
                    return list(value.values())
        return []


def in_graph(store: GraphStore, texts: Sequence[str]) -> list[Node | None]:
    """Return for each text the entity of that name or alias with the most edges, None for none.

    Ties go to the lowest key. Raises GraphError.
    """
    nodes: list[Node | None] = [None] * len(texts)
    forms = [normalise(text) for text in texts]
    asked = [number for number, form in enumerate(forms) if form]
    rows, keys = store.find_names([forms[number] for number in asked])
    if not len(keys):
        return nodes
    unique = np.unique(keys)
    degree = dict(zip(unique.tolist(), store.degrees(unique).tolist(), strict=True))
    best: dict[int, int] = {}
    for row, key in zip(rows.tolist(), keys.tolist(), strict=True):
        if row not in best or degree[key] > degree[best[row]]:
            best[row] = key
    entities = store.entities(np.array(list(best.values()), np.int64))
    for at, row in enumerate(best):
        nodes[asked[row]] = Node(entities.ids[at], entities.label(at))
    return nodes


class WrittenAnswer(NamedTuple):
    """An answer that was written after paths, none of which contains it.

    ``nodes``: the entities of that name, empty if there are none; ``grounded``: whether other paths
    end in them; ``name``: for display; ``score``: the log-probability of its share of the paths
    after which it was written.
    """

    name: str
    nodes: tuple[Node, ...]
    grounded: bool
    score: float


class Ballots(NamedTuple):
    """The ``paths`` as they are counted, and answers written that no path contains."""

    paths: tuple[ScoredPath, ...]
    written: tuple[WrittenAnswer, ...] = ()


def tally(paths: Sequence[ScoredPath], store: GraphStore | None = None) -> Ballots:
    """Count the votes of ``paths`` by their written hypotheses, otherwise by the paths' ends.

    ``store``: where written answers that no path contains are looked up by name; None: nowhere. The
    probabilities of all ballots sum to those of ``paths``. Raises GraphError.
    """
    counted: list[ScoredPath] = []
    beyond: dict[str, list[float]] = {}
    for path in paths:
        end = path.groundings[0].tail.name
        if not path.hypothesis.strip() or is_name_of(path.hypothesis, end):
            counted.append(path)
        elif (shortened := _up_to(path)) is not None:
            counted.append(shortened)
        else:
            half = path.score - _LOG_2
            counted.append(replace(path, score=half))
            beyond.setdefault(path.hypothesis.strip(), []).append(half)
    if not beyond:
        return Ballots(tuple(counted))
    names = PathNames(grounding for path in paths for grounding in path.groundings)
    texts = list(beyond)
    looked_up = in_graph(store, texts) if store is not None else [None] * len(texts)
    written = []
    for text, known in zip(texts, looked_up, strict=True):
        nodes = tuple(names.exact(text)) or ((known,) if known is not None else ())
        grounded = bool(nodes) and all(names.is_grounded(node) for node in nodes)
        name = nodes[0].name if nodes else text
        top = max(beyond[text])
        score = top + math.log(math.fsum(math.exp(other - top) for other in beyond[text]))
        written.append(WrittenAnswer(name, nodes, grounded, score))
    return Ballots(tuple(counted), tuple(written))


def _up_to(path: ScoredPath) -> ScoredPath | None:
    """Return the path cut at the entity that its hypothesis names, None if it names none inside.

    Groundings without it are dropped.
    """
    cut: dict[tuple[object, ...], GroundedPath] = {}
    for grounding in path.groundings:
        for place, edge in enumerate(grounding.edges[:-1], start=1):
            if is_name_of(path.hypothesis, edge.tail.name):
                edges = grounding.edges[:place]
                short = GroundedPath(edges, "".join(path_parts(edges)))
                cut.setdefault(edges, short)  # several may be the same up to there
                break
    if not cut:
        return None
    groundings = tuple(cut.values())
    return replace(path, text=groundings[0].text, groundings=groundings)


def _bare(form: str) -> str:
    """Return a normalised name without its leading article."""
    return _ARTICLE.sub("", form)


def _by_form(nodes: Iterable[Node]) -> Mapping[str, dict[str, Node]]:
    """Return nodes by normalised name, with and without article, then by id.

    Empty names are left out.
    """
    variants: dict[str, dict[str, Node]] = {}
    for node in nodes:
        form = form_of(node.name)
        for spelling in dict.fromkeys((form, _bare(form))):
            if spelling:
                variants.setdefault(spelling, {})[node.id] = node
    return variants

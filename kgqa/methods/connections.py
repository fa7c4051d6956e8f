"""Questions about two entities: how, and whether, they are connected, and what they share.

Such questions are not about a relation but about any: the shortest paths between the two answer
them, edge by edge, walked in both directions. A graph with a relation that is called so itself
("station A is connected to B") is asked for that relation instead.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.answer import YES, Findings, RankedAnswer, ScoredPath, SearchUse, Timings
from kgqa.answers.choices import paths_between
from kgqa.display import NOT_HERE, said_name
from kgqa.graph.model import Kind, keys_array
from kgqa.linking.masking import without_name
from kgqa.paths.ground import ground
from kgqa.paths.walk import FIRST, SECOND, TAIL, WalkRules
from kgqa.paths.words import relation_phrase
from kgqa.understanding.asked import asks_connection
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.answers.answer import TopicEntity
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.paths.ground import GroundedPath
    from kgqa.paths.walk import PathTable

WEIGHTS = weights("methods")
_FARTHEST = 4  # most hops between connected entities
_MAX_PATHS = 20  # most paths returned
_CALLED = ("connect", "link", "common")  # beginnings of relation names that these words mean


def connection_findings(
    store: GraphStore, question: str, topics: Sequence[TopicEntity], form: PathFormat
) -> Findings | None:
    """Answer a question about the connection of two topic entities; None for other questions.

    Raises GraphError.
    """
    kind = _kind_of(store, question, topics)
    if not kind:
        return None
    began = time.perf_counter()
    first, second = topics
    if kind == "common":
        paths = _in_common(store, first.key, second.key, form)
    else:
        paths = _shortest(store, first.key, second.key, form)
    pair = f"{said_name(first.name)} and {said_name(second.name)}"
    timings = Timings(ground=time.perf_counter() - began)
    if not paths:
        lacking = (
            f"{pair} have nothing in common that one fact of each says"
            if kind == "common"
            else f"no path of at most {_FARTHEST} hops connects {pair}"
        )
        return Findings(
            notes=(f"{NOT_HERE}: {lacking}.",), timings=timings, search=SearchUse("paths"),
            confidence=WEIGHTS["not_connected"],
        )  # fmt: skip
    ends = {first.id, second.id}
    between: dict[str | None, str] = {}
    for path in paths:
        for edge in path.edges:
            for node in (edge.head, edge.tail):
                if node.id not in ends:
                    between.setdefault(node.id, node.name)
    named: list[tuple[str | None, str]] = list(between.items())
    if kind == "whether":
        named = [(None, YES)]
    elif not named:  # a single fact connects them: its relation is the answer
        said = (path.edges[0].relation.removeprefix(form.inverse) for path in paths)
        named = [(None, name) for name in dict.fromkeys(said)]
    share = 1 / len(named)
    return Findings(
        answers=tuple(RankedAnswer(id_, name, share, True) for id_, name in named),
        paths=tuple(ScoredPath(path.text, 0.0, path.tail.name, (path,)) for path in paths),
        timings=timings,
        search=SearchUse("paths"),
        confidence=WEIGHTS["connected"] if kind != "common" else WEIGHTS["not_connected"],
    )


def _kind_of(store: GraphStore, question: str, topics: Sequence[TopicEntity]) -> str:
    """Return the kind of connection that a question asks for, "" for other questions."""
    if len({topic.key for topic in topics}) != 2 or len(topics) != 2:
        return ""
    masked = question
    for topic in topics:
        names = (topic.mention, topic.name, topic.id, *store.details(topic.key).aliases)
        masked = without_name(masked, [one for one in names if one], "x")
    kind = asks_connection(masked)
    called = {word for name in store.relations().names for word in relation_phrase(name).split()}
    meant = any(word.startswith(_CALLED) for word in called)  # the question asks for that relation
    return "" if meant and kind != "common" else kind


def _shortest(store: GraphStore, first: int, second: int, form: PathFormat) -> list[GroundedPath]:
    """Return the shortest paths between two entities.

    [] if they are more than ``_FARTHEST`` hops apart.
    """
    for hops in range(1, _FARTHEST + 1):
        rules = WalkRules(hops, "both")
        table, _ = paths_between(store, keys_array([first]), keys_array([second]), rules)
        if len(table):
            return _grounded(store, table, form)
    return []


def _in_common(store: GraphStore, first: int, second: int, form: PathFormat) -> list[GroundedPath]:
    """Return the paths of two facts through a shared entity, by one relation if possible.

    Entities come before values. [] if they share nothing.
    """
    rules = WalkRules(2, "both", types=False)
    table, _ = paths_between(store, keys_array([first]), keys_array([second]), rules)
    table = table.take(np.flatnonzero(table.length == 2))
    if not len(table):
        return []
    out, back = table.hops[:, 0], table.hops[:, 1]
    last = np.where(back[:, SECOND] >= 0, back[:, SECOND], back[:, FIRST])
    alike = out[:, FIRST] == last ^ 1  # out and back again by one relation
    values = store.entities(np.unique(out[:, TAIL]))
    numbers = values.keys[values.kinds == Kind.VALUE]
    things = ~np.isin(out[:, TAIL], numbers)
    for kept in (alike & things, things, alike):
        if kept.any():
            return _grounded(store, table.take(np.flatnonzero(kept)), form)
    return []


def _grounded(store: GraphStore, table: PathTable, form: PathFormat) -> list[GroundedPath]:
    """Return the first ``_MAX_PATHS`` paths of ``table``, without those that the store lacks."""
    rows = np.arange(min(len(table), _MAX_PATHS))
    return [path for path in ground(store, table.take(rows), form) if path is not None]

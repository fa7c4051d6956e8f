"""Triplets of chains: how many are the gold chain's, and how many are ill.

Both are figures of Decoding on Graphs (arXiv 2410.18415, sec. 4). Gold triplets are names, as
question files have them; whether a triplet is ill is decided by id, in the store. What this does
not do: judge answers (``metrics``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgqa.graph.model import Kind, keys_array
from kgqa.paths.format import PathFormat
from kgqa.reasoning.naming import form_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kgqa.graph.store import GraphStore
    from kgqa.paths.ground import GroundedPath, PathEdge

Triplet = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class TripletScores:
    """Precision, recall and F1 of a chain's triplets, from 0 to 1."""

    precision: float
    recall: float
    f1: float


def triplet_scores(
    store: GraphStore, gold: Iterable[Triplet], path: GroundedPath | None
) -> TripletScores | None:
    """Return how the triplets of a chain agree with the gold ones, None where there are no gold.

    Each counts once; names are compared in the form that models' answers are compared in. A chain
    that was not written (None) has no triplet. Raises GraphError.
    """
    relations = store.relations()
    names = dict(zip(relations.ids, relations.names, strict=True))
    wanted = {_formed(one) for one in gold}
    if not wanted:
        return None
    written = {_formed(_stored(edge, names)) for edge in path.edges} if path is not None else set()
    right = len(wanted & written)
    precision = right / len(written) if written else 0.0
    return TripletScores(precision, right / len(wanted), 2 * right / (len(wanted) + len(written)))


def ill_triplets(
    store: GraphStore, paths: Sequence[GroundedPath], topics: Iterable[str]
) -> tuple[int, int]:
    """Return how many triplets of ``paths`` are ill, and how many there are.

    A triplet is well-formed if every fact behind it is in the store and one of its ends is among
    ``topics`` (entity ids) or among the ends of the triplets before it that are no values. Nothing
    that a decoder kept is believed: all is looked up. Raises GraphError.
    """
    relations = {one: number for number, one in enumerate(store.relations().ids)}
    asked = frozenset(topics)
    ill = total = 0
    for path in paths:
        visited = set(asked)
        for edge in path.edges:
            total += 1
            ends = store.keys_of([edge.head.id, edge.tail.id])
            known = bool((ends >= 0).all()) and _stored_facts(store, edge, relations)
            if not known or not visited & {edge.head.id, edge.tail.id}:
                ill += 1
            if known:
                kinds = store.entities(ends).kinds.tolist()
                both = zip((edge.head.id, edge.tail.id), kinds, strict=True)
                visited |= {one for one, kind in both if kind != Kind.VALUE}
    return ill, total


def _stored_facts(store: GraphStore, edge: PathEdge, relations: dict[str, int]) -> bool:
    """Return whether the facts behind ``edge`` are stored, and lead from its head to its tail."""
    if not edge.facts or any(fact.predicate not in relations for fact in edge.facts):
        return False
    at = edge.head.id
    for fact in edge.facts:
        if at not in (fact.head, fact.tail):
            return False
        at = fact.tail if at == fact.head else fact.head
    if at != edge.tail.id:
        return False
    heads = store.keys_of([fact.head for fact in edge.facts])
    tails = store.keys_of([fact.tail for fact in edge.facts])
    if (heads < 0).any() or (tails < 0).any():
        return False
    predicates = keys_array([relations[fact.predicate] for fact in edge.facts])
    return bool(store.has_edges(heads, predicates, tails).all())


def _stored(edge: PathEdge, names: Mapping[str, str]) -> Triplet:
    """Return the triplet as it was written: in stored direction. ``names``: of predicates."""
    if not edge.inverse:
        return edge.head.name, edge.relation, edge.tail.name
    along = [names[fact.predicate] for fact in reversed(edge.facts)]
    return edge.tail.name, PathFormat().joiner.join(along), edge.head.name


def _formed(triplet: Triplet) -> Triplet:
    head, relation, tail = triplet
    return form_of(head), form_of(relation), form_of(tail)

"""The path language of topic entities, composed on the fly from one-hop tries over the graph.

It accepts the same language as a stored trie of the same rules, and costs what the decoder asks of
it, not what the language holds: relations out of the entities reached, then tails of a relation,
each a small trie made when a prefix gets there. One batch of states costs at most a few store
calls, whatever the number of states.

A prefix can stand for several things at once (entities that share a name, a name that is the prefix
of another, a name that contains the separator), so a state is a set of positions in such tries.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kgqa.errors import EmptyLanguageError
from kgqa.graph.model import Kind
from kgqa.paths.walk import (
    FIRST,
    SECOND,
    TAIL,
    PathTable,
    WalkRules,
    admissible,
    empty_paths,
    hops_out_of,
    ordered,
    ranges,
)
from kgqa.trie.arrays import TokenTrie, build_trie, in_order
from kgqa.trie.lazy import LazyConstraint, Position, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.trie.arrays import Sequences
    from kgqa.trie.lexicon import PathLexicon


@dataclass(slots=True)
class _Prefix:
    """Paths of ``depth`` hops that one text stands for; where they can go on is found when asked.

    ``topic`` is ``[n]``, ``hops`` ``[n, L, 4]``, ``onward`` whether a walk may leave the last
    entity (a value ends it).
    """

    depth: int
    topic: IntArray
    hops: IntArray
    onward: BoolArray
    relations: _Part | None = None

    def ends(self) -> IntArray:
        return self.topic if self.depth == 0 else self.hops[:, self.depth - 1, TAIL]


@dataclass(slots=True)
class _Relation:
    """A prefix with a relation chosen: its extended paths, whose tails are still open."""

    depth: int
    topic: IntArray
    hops: IntArray
    onward: BoolArray
    tails: _Part | None = None


@dataclass(slots=True)
class _Part:
    """A trie over the texts of one part of a path; what a text leads to is made when asked."""

    trie: TokenTrie
    lead: Callable[[int], _Prefix | _Relation]
    made: dict[int, _Prefix | _Relation] = field(default_factory=dict)

    def leads_to(self, leaf: int) -> _Prefix | _Relation:
        if leaf not in self.made:
            self.made[leaf] = self.lead(leaf)
        return self.made[leaf]


class ComposedConstraint(LazyConstraint[_Part, _Prefix]):
    """The language of all paths out of ``topics`` under ``rules``, never built as a whole.

    Raises EmptyLanguageError where the topics have no path at all. Not for use by several threads.
    """

    def __init__(
        self, store: GraphStore, topics: IntArray, rules: WalkRules, lexicon: PathLexicon
    ) -> None:
        self._store = store
        self._rules = rules
        self._lexicon = lexicon
        self._hops: dict[int, tuple[IntArray, IntArray]] = {}
        topics = np.unique(topics)
        root = _Prefix(
            0,
            topics,
            np.full((len(topics), rules.hops, 4), -1, np.int64),
            np.ones(len(topics), bool),
        )
        self._fetch([root])
        alive = np.array([len(self._hops[key][0]) > 0 for key in topics.tolist()], bool)
        if not alive.any():
            raise EmptyLanguageError(
                "The topic entities have no path, so there is nothing the model may write.",
                "Choose another entity (--entity), or look at this one with: kgqa paths ENTITY",
            )
        topics = topics[alive]
        heads = self._part(
            self._lexicon.heads(self._store, topics),
            lambda rows: _Prefix(0, topics[rows], root.hops[alive][rows], root.onward[alive][rows]),
        )
        super().__init__([heads], lexicon.closing)

    def ground(self, state: int) -> PathTable:
        """Return every id path that the text of the end ``state`` stands for."""
        prefixes = self._states[state].ended
        if not prefixes:
            return empty_paths(self._rules.hops)
        topic = np.concatenate([prefix.topic for prefix in prefixes])
        length = np.concatenate(
            [np.full(len(prefix.topic), prefix.depth, np.int64) for prefix in prefixes]
        )
        hops = np.concatenate([prefix.hops for prefix in prefixes])
        return ordered(PathTable(topic, length, hops))

    # ── inside ──────────────────────────────────────────────────────────────────────────────

    def _end(self, position: Position[_Part]) -> _Prefix | None:
        reached = _reached(position)
        return reached if isinstance(reached, _Prefix) and reached.depth > 0 else None

    def _closure(self, state: State[_Part, _Prefix]) -> list[Position[_Part]]:
        """Return the positions of ``state`` and the starts of the parts that may follow them."""
        positions = list(state.positions)
        for position in positions:  # grows while it is read
            reached = _reached(position)
            following = (
                reached.relations
                if isinstance(reached, _Prefix)
                else reached.tails
                if isinstance(reached, _Relation)
                else None
            )
            if following is not None:
                positions.append(Position(following, 0))
        return positions

    def _prepare(self, states: Sequence[State[_Part, _Prefix]]) -> None:
        """Make every part that may follow the positions of ``states``, for all in few calls."""
        while True:
            reached = [_reached(p) for state in states for p in self._closure(state)]
            prefixes = _distinct(
                item
                for item in reached
                if isinstance(item, _Prefix)
                and item.relations is None
                and item.depth < self._rules.hops
            )
            relations = _distinct(
                item for item in reached if isinstance(item, _Relation) and item.tails is None
            )
            if not prefixes and not relations:
                return
            if prefixes:
                self._fetch(prefixes)
                for prefix in prefixes:
                    prefix.relations = self._relations_of(prefix)
            if relations:
                self._name_tails(relations)

    def _fetch(self, prefixes: list[_Prefix]) -> None:
        """Read the hops out of every last entity that has not been left yet."""
        ends = np.unique(np.concatenate([prefix.ends()[prefix.onward] for prefix in prefixes]))
        new = np.array([key for key in ends.tolist() if key not in self._hops], np.int64)
        if not len(new):
            return
        hops = hops_out_of(self._store, new, self._rules)
        offsets = hops.offsets(len(new)).tolist()
        for number, key in enumerate(new.tolist()):
            part = slice(offsets[number], offsets[number + 1])
            self._hops[key] = (hops.hop[part], hops.kind[part].astype(np.int64))

    def _relations_of(self, prefix: _Prefix) -> _Part:
        ends = prefix.ends()
        rows = np.flatnonzero(prefix.onward)
        out = [self._hops[key] for key in ends[rows].tolist()]
        counts = np.array([len(hop) for hop, _ in out], np.int64)
        source = np.repeat(rows, counts)
        added = np.concatenate([hop for hop, _ in out]) if out else np.empty((0, 4), np.int64)
        kind = np.concatenate([kind for _, kind in out]) if out else np.empty(0, np.int64)
        topic, hops = prefix.topic[source], prefix.hops[source]
        good = admissible(topic, hops, prefix.depth, added)
        topic, hops, added, kind = topic[good], hops[good], added[good], kind[good]
        hops[:, prefix.depth] = added
        onward = kind != Kind.VALUE
        pairs, pair_of = np.unique(added[:, (FIRST, SECOND)], axis=0, return_inverse=True)
        texts = self._lexicon.relations(self._store, pairs)
        grouped = _Groups(pair_of.reshape(-1), len(pairs))

        def lead(numbers: IntArray) -> _Relation:
            rows = grouped.of(numbers)
            return _Relation(prefix.depth + 1, topic[rows], hops[rows], onward[rows])

        return self._part(texts, lead)

    def _name_tails(self, relations: list[_Relation]) -> None:
        ends = [relation.hops[:, relation.depth - 1, TAIL] for relation in relations]
        unique, at = np.unique(np.concatenate(ends), return_inverse=True)
        texts = self._lexicon.tails(self._store, unique)
        done = 0
        for relation, tails in zip(relations, ends, strict=True):
            mine, number = np.unique(at.reshape(-1)[done : done + len(tails)], return_inverse=True)
            done += len(tails)
            grouped = _Groups(number.reshape(-1), len(mine))
            relation.tails = self._part(texts.take(mine), _tails_lead(relation, grouped))

    def _part(
        self,
        texts: Sequences,
        lead: Callable[[IntArray], _Prefix | _Relation],
    ) -> _Part:
        """Return the trie over ``texts``; equal ones lead to one thing made by ``lead``."""
        ordered_texts = in_order(texts)
        grouped = _Groups(ordered_texts.number, len(ordered_texts))
        return _Part(build_trie(ordered_texts), lambda leaf: lead(grouped.one(leaf)))


def _tails_lead(relation: _Relation, grouped: _Groups) -> Callable[[IntArray], _Prefix]:
    def lead(numbers: IntArray) -> _Prefix:
        rows = grouped.of(numbers)
        return _Prefix(
            relation.depth, relation.topic[rows], relation.hops[rows], relation.onward[rows]
        )

    return lead


class _Groups:
    """Row numbers by group: ``group[i]`` is the group of row i."""

    def __init__(self, group: IntArray, groups: int) -> None:
        self._order = np.argsort(group, kind="stable")
        self._starts = np.searchsorted(group[self._order], np.arange(groups + 1))

    def one(self, group: int) -> IntArray:
        return self._order[self._starts[group] : self._starts[group + 1]]

    def of(self, groups: IntArray) -> IntArray:
        starts = self._starts[groups]
        return self._order[ranges(starts, self._starts[groups + 1] - starts)]


_Reached = TypeVar("_Reached", _Prefix, _Relation)


def _reached(position: Position[_Part]) -> _Prefix | _Relation | None:
    """Return what the text that ends at ``position`` leads to, None where none ends there."""
    leaf = position.leaf
    return None if leaf < 0 else position.part.leads_to(leaf)


def _distinct(items: Iterable[_Reached]) -> list[_Reached]:
    return list({id(item): item for item in items}.values())

"""Which hops the entities of a KG usually have, and what they lead to: statistics of a sample.

Small KGs are read whole. What is found depends on the KG's content alone, not on the questions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kgqa.graph.kept import kept_of, kept_of_endpoint
from kgqa.graph.model import Kind
from kgqa.graph.store import EndpointStore, LiveStore, in_id_order
from kgqa.paths.walk import (
    FIRST,
    SECOND,
    TAIL,
    Hops,
    PathTable,
    WalkRules,
    hops_out_of,
    order_of,
    ranges,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore

Hop: TypeAlias = "tuple[int, int]"
"""A relation as it is walked: its first step, and its second one or -1."""

_MADE_BY = ("paths/schema.py", "paths/walk.py", "graph/sqlite.py", "graph/sparql_store.py")
_LISTED = 200_000  # entities that are listed to take a sample of them
_SAMPLE = 4_000  # entities whose hops are looked at
_BLOCKS = 80  # places of a large KG where they are taken
_TOGETHER = 500  # of them in one call of the store
_MOST_EDGES = 5_000  # an entity with more is left out of the sample
_TOPICS = 4  # entities that have a relation
_EXAMPLES = 2  # names of what a relation leads to
_LIKE = 0.5  # part of their relations that two entities of one kind share (Jaccard)
_USUAL = 0.3  # part of a kind's entities that have a relation, from which it is usual


def backwards(hop: Hop) -> Hop:
    """Return a hop as walked from its other end.

    >>> backwards((4, -1)), backwards((4, 4))
    ((5, -1), (5, 5))
    """
    first, second = hop
    return (first ^ 1, -1) if second < 0 else (second ^ 1, first ^ 1)


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Sets of hops: their ``size``, how many entities have each (``count``), and their members.

    ``kind`` and ``hop`` are a row for each member: the set's number, and its hop's in ``hops``,
    which are in order; ``row`` is the number of each hop.
    """

    hops: list[Hop]
    row: dict[Hop, int]
    size: IntArray
    count: IntArray
    kind: IntArray
    hop: IntArray


class Schema:
    """Which sets of hops entities of ``store`` have under ``rules``, from a sample of entities."""

    def __init__(self, store: GraphStore, rules: WalkRules) -> None:
        """Sample the store; the sample is cached in the KG's folder. Raises GraphError.

        Not that of a live database, unless it is an endpoint, which is cached with its survey.
        """
        self.version = store.info.version
        self._kinds: Counter[frozenset[Hop]] = Counter()
        self._topics: dict[Hop, list[int]] = {}
        self._examples: dict[Hop, tuple[str, ...]] = {}
        kept = kept_of_endpoint(store) if isinstance(store, LiveStore) else kept_of(store)
        name = f"sample-{rules.direction}-{rules.mediators}-{rules.types}"
        if (found := kept.read(name, _MADE_BY)) is not None:
            self._from_json(found[1])
            return
        self._read(store, rules)
        kept.write(name, _MADE_BY, {}, self._to_json())

    def _to_json(self) -> list[Any]:
        """Return the sample as lists for JSON."""
        kinds = [[sorted(kind), count] for kind, count in self._kinds.items()]
        return [kinds, list(self._topics.items()), list(self._examples.items())]

    def _from_json(self, given: list[Any]) -> None:
        """Load a sample that :meth:`_to_json` wrote."""
        kinds, topics, examples = given
        self._kinds.update({frozenset(map(tuple, kind)): count for kind, count in kinds})
        self._topics = {tuple(hop): keys for hop, keys in topics}
        self._examples = {tuple(hop): tuple(names) for hop, names in examples}

    def _read(self, store: GraphStore, rules: WalkRules) -> None:
        """Sample entities: count their sets of hops, and keep examples of each hop.

        These are a few topics and tail names.
        """
        ends: dict[Hop, list[int]] = {}
        for keys in _sampled(store):
            hops = hops_out_of(store, keys, rules)
            if isinstance(store, EndpointStore):
                lengths = np.ones(len(hops.row), np.int64)
                order = order_of(PathTable(keys[hops.row], lengths, hops.hop[:, None]), store)
                hops = Hops(hops.row[order], hops.hop[order], hops.kind[order])
            pairs = hops.hop[:, (FIRST, SECOND)]
            starts = hops.offsets(len(keys))
            for row in range(len(keys)):
                here = slice(starts[row], starts[row + 1])
                own = list(map(tuple, pairs[here].tolist()))
                if own:
                    self._kinds[frozenset(own)] += 1
                for hop in set(own):
                    if len(topics := self._topics.setdefault(hop, [])) < _TOPICS:
                        topics.append(int(keys[row]))
                for hop, tail, kind in zip(
                    own, hops.hop[here, TAIL].tolist(), hops.kind[here].tolist(), strict=True
                ):
                    known = ends.setdefault(hop, [])
                    if len(known) < _EXAMPLES and tail not in known and kind != Kind.MEDIATOR:
                        known.append(tail)
        keys = np.unique(np.array([key for ends_of in ends.values() for key in ends_of], np.int64))
        entities = store.entities(keys)
        names = {key: entities.label(row) for row, key in enumerate(entities.keys.tolist())}
        self._examples = {hop: tuple(names[key] for key in keys) for hop, keys in ends.items()}

    def examples(self, hop: Hop) -> tuple[str, ...]:
        """Return up to two names of entities that ``hop`` leads to; () for an unknown hop."""
        return self._examples.get(hop, ())

    def hops(self) -> list[Hop]:
        """Return every hop of the sample, in order."""
        return sorted(self._topics)

    def common(self, most: int) -> list[Hop]:
        """Return up to ``most`` hops, those that most sampled entities have first."""
        return self._by_frequency[:most]

    @cached_property
    def _by_frequency(self) -> list[Hop]:
        """Return all hops, those of the most sampled entities first."""
        having: Counter[Hop] = Counter()
        for kind, count in self._kinds.items():
            having.update(dict.fromkeys(kind, count))
        return sorted(having, key=lambda hop: (-having[hop], hop))

    def topics(self, hop: Hop) -> list[int]:
        """Return the keys of a few sampled entities that have ``hop``; [] for an unknown hop."""
        return self._topics.get(hop, [])

    def both_ways(self, hop: Hop) -> bool:
        """Return whether some sampled entity has a hop's relation in both directions.

        Such as "follows". False for a hop through a mediator by two different relations.
        """
        if hop[1] not in (-1, hop[0]):  # two relations; a fact with properties has one
            return False
        return hop in self._there_and_back

    @cached_property
    def _there_and_back(self) -> frozenset[Hop]:
        """Return the hops that some sampled entity has in both directions."""
        return frozenset(hop for kind in self._kinds for hop in kind if backwards(hop) in kind)

    def missing(self, own: Iterable[Hop]) -> list[Hop]:
        """Return, in order, the hops that similar entities usually have and this one lacks.

        ``own``: the entity's hops. Similar sampled entities share most of them.
        """
        mine, kinds = frozenset(own), self._kinds_by_hop
        has = np.zeros(len(kinds.hops), bool)
        has[[row for hop in mine if (row := kinds.row.get(hop)) is not None]] = True
        shared = np.bincount(kinds.kind, has[kinds.hop], len(kinds.size))
        like = shared >= _LIKE * (kinds.size + len(mine) - shared)
        having = np.bincount(kinds.hop, (kinds.count * like)[kinds.kind], len(has))
        usual = having >= max(_USUAL * kinds.count[like].sum(), 1)
        return [kinds.hops[row] for row in np.flatnonzero(usual & ~has).tolist()]

    @cached_property
    def _kinds_by_hop(self) -> _Kinds:
        """Return the sets of hops as arrays, by which all are compared with one at once."""
        hops = sorted({hop for kind in self._kinds for hop in kind})
        row = {hop: at for at, hop in enumerate(hops)}
        size = np.array([len(kind) for kind in self._kinds], np.int64)
        return _Kinds(
            hops,
            row,
            size,
            np.array([*self._kinds.values()], np.int64),
            np.repeat(np.arange(len(size)), size),
            np.array([row[hop] for kind in self._kinds for hop in kind], np.int64),
        )


def _sampled(store: GraphStore) -> Iterator[IntArray]:
    """Yield blocks of entity keys spread over the KG, in the order of ids.

    Entities with too many edges are left out. A loaded graph and the same graph behind an endpoint
    give the same blocks, if all entities can be listed.
    """
    if isinstance(store, EndpointStore) or store.info.entities <= _LISTED:
        topics = in_id_order(store, store.topic_keys(-1, _LISTED))
        if len(topics) > _SAMPLE:
            places = np.linspace(0, len(topics), _BLOCKS, endpoint=False).astype(np.int64)
            topics = topics[ranges(places, np.full(_BLOCKS, _SAMPLE // _BLOCKS))]
        for start in range(0, len(topics), _TOGETHER):
            keys = topics[start : start + _TOGETHER]
            yield keys[store.degrees(keys) <= _MOST_EDGES]
        return
    count = store.info.next_key
    blocks = 1 if count <= _SAMPLE else _BLOCKS
    seen = -1
    for place in np.linspace(0, count, blocks, endpoint=False).astype(np.int64).tolist():
        after, left = max(place - 1, seen), _SAMPLE // blocks
        while left > 0:
            keys = store.topic_keys(after, min(left, _TOGETHER))
            if not len(keys):
                break
            after = seen = int(keys[-1])
            left -= len(keys)
            yield keys[store.degrees(keys) <= _MOST_EDGES]

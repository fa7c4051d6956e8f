"""What a graph is made of: batches of columns on the way in, flat integer arrays on the way out.

A ``key`` of an entity or a relation is the rank of its id (by code point) among all of the KG at
its load; what a change adds gets keys at the end, and the key of what it removes is never given
again. A *step* is a relation walked in a direction: ``2 * relation_key`` along it, ``+ 1`` against
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic.dataclasses import dataclass as checked_dataclass

from kgqa.graph.names import name_form_column
from kgqa.registry import Direction as Direction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    IntArray: TypeAlias = NDArray[np.int64]
    BoolArray: TypeAlias = NDArray[np.bool_]

_BATCH_ROWS = 50_000
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


class Kind(IntEnum):
    """The kind of a node. Walks pass through mediators and end at values."""

    ENTITY = 0
    MEDIATOR = 1
    VALUE = 2


ENTITY_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("name", pa.string()),  # null: nameless (a mediator)
        pa.field("aliases", pa.list_(pa.string())),
        pa.field("kind", pa.uint8(), nullable=False),  # a Kind
        pa.field("types", pa.list_(pa.string())),  # Freebase types, UMLS semantic types
        pa.field("properties", pa.string()),  # a JSON object, or null
    ]
)
RELATION_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),  # as it stands in a path's text
        pa.field("inverse", pa.string()),  # id of the relation that says the same the other way
    ]
)
EDGE_SCHEMA = pa.schema(
    [
        pa.field("head", pa.string(), nullable=False),
        pa.field("relation", pa.string(), nullable=False),
        pa.field("tail", pa.string(), nullable=False),
        pa.field("properties", pa.string()),  # a JSON object (weight, licence, …), or null
    ]
)

INCOMING_SCHEMA = pa.schema(
    [pa.field(name, pa.int64(), nullable=False) for name in ("head", "relation", "tail")]
)
KEYED_EDGE_SCHEMA = INCOMING_SCHEMA.append(pa.field("properties", pa.string()))
NAME_SCHEMA = pa.schema(
    [pa.field("norm", pa.string(), nullable=False), pa.field("key", pa.int64(), nullable=False)]
)


@dataclass(frozen=True, slots=True)
class EntityBatch:
    """Rows of ``ENTITY_SCHEMA``, in any order. An id may come again: its columns are merged.

    ``walked``: the properties that walks see, as edges to values; others are kept and shown. Long
    texts and embeddings are never walked. The values of a walked property that an id is given in
    several rows are united. ``by_id``: an entity of these rows that nothing names is called by its
    id, and a mediator of these rows that something names is an entity. ``by_iri``: by the last
    part of its id, where that is an IRI. ``unless_relation``: ids of relations among these rows
    are not nodes, if no other row says so.
    """

    rows: pa.RecordBatch
    walked: frozenset[str] = frozenset()
    by_id: bool = False
    by_iri: bool = False
    unless_relation: bool = False


@dataclass(frozen=True, slots=True)
class NameBatch:
    """Names of entities: columns id (string, or int64 for a mid), text (string), rank (int64).

    The text of the lowest rank below ``ALIAS`` is the name (the first by code point; that of an
    ``EntityBatch`` has rank 0). ``defines``: whether the id is an entity without another batch.
    """

    rows: pa.RecordBatch
    defines: bool = False


@dataclass(frozen=True, slots=True)
class TypeBatch:
    """Types of nodes: columns id (string, or int64 for a mid), type (string or dictionary)."""

    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class TypeRules:
    """Rules for types: a nameless mid of a type in ``mediators`` is a mediator.

    ``shown``: which types are kept.
    """

    mediators: frozenset[str]
    shown: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class RelationBatch:
    """Rows of ``RELATION_SCHEMA``; a relation that only edges name has its id as its name."""

    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class EdgeBatch:
    """Edges as in ``EDGE_SCHEMA``, in any order; ends (int64: mids) may come later.

    ``walked``: the properties that are qualifiers. All edges of a relation that has one are facts
    with an identity (:func:`kgqa.graph.schema.fact_id`), so parallel ones stay apart unless their
    properties are equal; of other equal edges one stays. Properties that are not walked (a weight,
    a source) are kept with their edge or fact.
    """

    rows: pa.RecordBatch
    walked: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ValueBatch:
    """Value nodes, in columns id and name; one that is the tail of no edge is left out."""

    rows: pa.RecordBatch


ALIAS = 1 << 40  # the rank of a text that is never the name
FALLBACK = (
    4 << 36
)  # ranks from here to ALIAS: of a text that is the name where no other is, or left out
Batch: TypeAlias = (
    EntityBatch | NameBatch | TypeBatch | TypeRules | ValueBatch | RelationBatch | EdgeBatch
)


@checked_dataclass(frozen=True, slots=True)
class KGInfo:
    """The meta record of a KG. Raises pydantic.ValidationError; unknown fields are ignored."""

    name: str
    source: str  # what was loaded: file names without folders, or "bundled sample"
    version: str  # hex SHA-256 of the content: equal in every store that holds the same KG
    direction: Direction  # the direction walks take by default
    entities: int
    mediators: int
    values: int
    relations: int
    edges: int
    loader: str = ""  # freebase, conceptnet, umls, triples
    licence: str = ""
    options: str = ""  # JSON: the loader's options that changes are read with, too
    given_keys: int = 0  # keys that entities were ever given, if not as many as there are nodes
    given_relations: int = 0  # the same for relations
    changed: int = 0  # edges added and removed since the load
    reified: tuple[str, ...] = ()  # relations whose edges are facts with an identity
    type_relations: tuple[str, ...] = ()  # those that say of what kind a thing is

    @property
    def nodes(self) -> int:
        """The number of nodes of every kind."""
        return self.entities + self.mediators + self.values

    @property
    def next_key(self) -> int:
        """One more than the greatest entity key ever assigned."""
        return self.given_keys or self.nodes

    @property
    def next_relation(self) -> int:
        """One more than the greatest relation key ever assigned."""
        return self.given_relations or self.relations


def normalised_names(nodes: pa.RecordBatch, start: int) -> pa.RecordBatch:
    """Return unique (norm, key) rows of entities' names and aliases; other nodes have none.

    ``start``: the key of the first node.
    """
    keys = pa.array(np.arange(start, start + len(nodes)))
    named = pc.equal(nodes.column("kind"), pa.scalar(Kind.ENTITY, pa.uint8()))
    rows, keys = nodes.filter(named), keys.filter(named)
    aliases = rows.column("aliases")
    owners = keys.take(pc.list_parent_indices(aliases))
    texts = pa.concat_arrays([rows.column("name"), pc.list_flatten(aliases)])
    keys = pa.concat_arrays([keys, owners])
    there = texts.is_valid()
    norms, keys = name_form_column(texts.filter(there)), keys.filter(there)
    there = pc.greater(pc.binary_length(norms), 0)
    table = pa.table([norms.filter(there), keys.filter(there)], schema=NAME_SCHEMA)
    unique = table.group_by(["norm", "key"]).aggregate([]).combine_chunks()
    batches = unique.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=NAME_SCHEMA)


@dataclass(frozen=True, slots=True)
class GraphTables:
    """A whole KG as in-memory Arrow tables: a :class:`kgqa.graph.store.GraphSource`.

    ``ENTITY_SCHEMA``, ``RELATION_SCHEMA`` sorted by id, so that a row's number is its key;
    ``KEYED_EDGE_SCHEMA``, unique, sorted by (head, relation, tail).
    """

    info: KGInfo
    nodes: pa.Table
    relations: pa.Table
    edges: pa.Table

    def node_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the nodes."""
        yield from self.nodes.to_batches(max_chunksize=_BATCH_ROWS)

    def edge_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the edges sorted by head."""
        yield from self.edges.to_batches(max_chunksize=_BATCH_ROWS)

    def incoming_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the edges sorted by tail."""
        by_tail = [("tail", "ascending"), ("relation", "ascending"), ("head", "ascending")]
        rows = self.edges.select(INCOMING_SCHEMA.names).sort_by(by_tail)
        yield from rows.to_batches(max_chunksize=_BATCH_ROWS)

    def name_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield (normalised name, key) rows of entities."""
        start = 0
        parts = []
        for batch in self.node_batches():
            parts.append(normalised_names(batch, start))
            start += len(batch)
        table = pa.Table.from_batches(parts, schema=NAME_SCHEMA)
        order = [("norm", "ascending"), ("key", "ascending")]
        yield from table.sort_by(order).to_batches(max_chunksize=_BATCH_ROWS)


@dataclass(frozen=True, slots=True)
class Entities:
    """Ids, names and kinds of some entities, in the requested order."""

    keys: IntArray
    ids: list[str]
    names: list[str | None]
    kinds: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int]) -> Entities:
        """Return the entities in some ``rows``, in their order."""
        ids, names = [self.ids[row] for row in rows], [self.names[row] for row in rows]
        return Entities(self.keys[rows], ids, names, self.kinds[rows])

    def label(self, row: int) -> str:
        """Return the name of the entity in ``row``, or its id if it has no name."""
        return self.names[row] or self.ids[row]


@dataclass(frozen=True, slots=True)
class EntityDetails:
    """Everything stored about one entity except its edges."""

    id: str
    name: str | None
    kind: Kind
    aliases: list[str]
    types: list[str]
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Relations:
    """Relations by key; ``inverses``: the id of the inverse relation, None if unknown.

    The id and the name of a relation that was removed with its last edge are empty.
    """

    ids: list[str]
    names: list[str]
    inverses: list[str | None]

    @classmethod
    def of(cls, rows: Iterable[tuple[int, str, str, str | None]], count: int) -> Relations:
        """Build ``count`` relations from rows (key, id, name, inverse); other keys have id ""."""
        columns: Relations = cls([""] * count, [""] * count, [None] * count)
        for key, id_, name, inverse in rows:
            columns.ids[key], columns.names[key], columns.inverses[key] = id_, name, inverse
        return columns

    @property
    def known(self) -> list[str]:
        """The ids of the relations that exist, without those of deleted relations ("")."""
        return [id_ for id_ in self.ids if id_]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Edges out of a frontier, whose index is ``row``, to ``target``.

    Sorted by (row, step, target). ``step``: the directed relation, 2 * relation, + 1 reversed;
    ``kind``: of the target.
    """

    row: IntArray
    step: IntArray
    target: IntArray
    kind: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def sorted(
        cls, row: IntArray, step: IntArray, target: IntArray, kind: NDArray[np.uint8]
    ) -> Adjacency:
        """Build an adjacency from edges in any order."""
        order = np.lexsort((target, step, row))
        return cls(row[order], step[order], target[order], kind[order])

    def take(self, kept: BoolArray) -> Adjacency:
        """Return the edges for which the mask ``kept`` is true."""
        if kept.all():
            return self
        return Adjacency(self.row[kept], self.step[kept], self.target[kept], self.kind[kept])

    @classmethod
    def merged(cls, one: Adjacency, other: Adjacency) -> Adjacency:
        """Merge the sorted edges ``one`` and ``other`` of two directions into one adjacency."""
        columns = [
            np.concatenate([getattr(side, name) for side in (one, other)])
            for name in ("row", "step", "target", "kind")
        ]
        row, step = columns[:2]
        # a step is of one direction alone, so targets stay in order; two runs are soon merged
        order = np.argsort(row * (int(step.max(initial=0)) + 1) + step, kind="stable")
        return cls(*(column[order] for column in columns))


_DENSE = 8  # times as many numbers in the range of keys as there are keys


def distinct(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct ``keys``, ascending, and each key's index among them.

    Keys that are distinct and ascending already are not sorted.
    """
    if len(keys) and (keys[1:] > keys[:-1]).all():
        return keys, np.arange(len(keys))
    low = int(keys.min(initial=0))
    span = int(keys.max(initial=0)) - low + 1
    if span <= _DENSE * len(keys):  # ticked off in a list of all numbers there may be
        there = np.zeros(span, np.bool_)
        there[keys - low] = True
        return np.flatnonzero(there) + low, (np.cumsum(there) - 1)[keys - low]
    unique, back = np.unique(keys, return_inverse=True)
    return unique, back


def keys_array(keys: Sequence[int] | IntArray) -> IntArray:
    """Return ``keys`` as an array of int64."""
    return np.asarray(keys, dtype=np.int64)

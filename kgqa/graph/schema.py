"""The schema of a KG: its types, their properties, and which relations lead from where to where.

A *property* is a typed value of an entity or of a fact. What a walk sees of it: a property of an
entity is an edge to a value node; a fact that has properties is a mediator with three kinds of
edges (from its head and to its tail by the fact's own relation, to its values by the properties'
names), so a property of a fact is a qualifier, as a Freebase mediator's is. Plans and Cypher see
the property graph itself. A loader says which properties are walked (``EntityBatch.walked``,
``EdgeBatch.walked``), and a load makes the values and mediators of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from kgqa.graph.amounts import NumberForm  # noqa: TC001 - pydantic reads it

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import IntArray

ROW = ("_file", "_row")  # of a table: where an entity or a fact stood
PROVENANCE = frozenset({*ROW, "source", "url"})
"""Properties of a fact that say where it came from: never walked, no part of its id."""

ValueType: TypeAlias = Literal[
    "integer", "float", "boolean", "date", "time", "datetime", "duration", "point", "text"
]
Value: TypeAlias = "bool | int | float | str"
"""A property's value as JSON has it: dates, times and durations as ISO 8601, a point as WKT."""


@dataclass(frozen=True, slots=True)
class Property:
    """A property of the entities of a type, or of the facts of a relation.

    ``many``: its value is a list, each member of ``type``. ``count``: how many have it.
    ``walked``: whether it is an edge for walks; long texts and embeddings are not. ``also``: what
    people call it. ``as_text``: values of ``type`` are kept as text, or some of them, and are read
    as what they say; ``unread``: how many of those seen are texts that say nothing of ``type``, and
    ``nulls`` how many are texts such as ``NULL`` that stand for no value. ``instants``: dates or
    times of which some say a distance from UTC, or a year before 1: their texts are in no order.
    ``form``: how texts are read as numbers. ``unordered``: texts with numbers in them that cannot
    be compared as numbers, nor put in an order as text.
    """

    name: str
    type: ValueType
    many: bool = False
    count: int = 0
    examples: tuple[Value, ...] = ()
    walked: bool = True
    also: tuple[str, ...] = ()
    description: str = ""
    as_text: bool = False
    unread: int = 0
    nulls: int = 0
    instants: bool = False
    form: NumberForm | None = None
    unordered: bool = False


@dataclass(frozen=True, slots=True)
class EntityType:
    """A class of entities: a Neo4j label, a Freebase type, a table.

    ``names``: the properties that are the entities' name and aliases, the name first; ``parts``:
    properties that are the name together, as a first and a last name. ``named_by``: the property
    that repeats the name, as a table's column of names does.
    """

    name: str
    count: int
    properties: tuple[Property, ...] = ()
    id_property: str | None = None
    names: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    description: str = ""
    parts: tuple[str, ...] = ()
    named_by: str = ""


@dataclass(frozen=True, slots=True)
class RelationPattern:
    """A relation (by id) from entities of one type to those of another; "" if it has none.

    ``kind``: the property of relationships of the type ``stored`` that says which relation each
    of them is, in a database that keeps several relations as one type.
    """

    relation: str
    head: str
    tail: str
    count: int
    properties: tuple[Property, ...] = ()
    also: tuple[str, ...] = ()
    description: str = ""
    stored: str = ""
    kind: str = ""

    @property
    def relationship_type(self) -> str:
        """The type of its relationships in Neo4j."""
        return self.stored or self.relation


@dataclass(frozen=True, slots=True)
class GraphSchema:
    """Types and relation patterns, most frequent first; ``sampled``: counts are estimates."""

    types: tuple[EntityType, ...]
    relations: tuple[RelationPattern, ...]
    sampled: bool = False


def described_schema(schema: GraphSchema, most: int = 20) -> dict[str, Any]:
    """Return a schema as JSON, with at most ``most`` types, relations and properties.

    A property has its type and an example; a relation has the types at its ends; ``more`` counts
    the types and relations left out.
    """

    def listed(properties: Sequence[Property]) -> list[dict[str, Any]]:
        """Return name, type and example of the first properties as JSON."""
        return [
            {
                "name": property_.name,
                "type": f"list of {property_.type}" if property_.many else property_.type,
            }
            | ({"example": property_.examples[0]} if property_.examples else {})
            for property_ in properties[:most]
        ]

    return {
        "types": [
            {"name": type_.name, "count": type_.count, "properties": listed(type_.properties)}
            | ({"description": type_.description} if type_.description else {})
            for type_ in schema.types[:most]
        ],
        "relations": [
            {
                "head": relation.head,
                "relation": relation.relation,
                "tail": relation.tail,
                "count": relation.count,
            }
            | ({"properties": listed(relation.properties)} if relation.properties else {})
            for relation in schema.relations[:most]
        ],
        "more": {
            "types": max(0, len(schema.types) - most),
            "relations": max(0, len(schema.relations) - most),
        },
        "sampled": schema.sampled,
    }


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of some relations at a frontier: row in it, relation key, other end, fact node or -1.

    Parallel facts are rows of their own. Sorted by (row, relation, other, fact).
    """

    row: IntArray
    relation: IntArray
    other: IntArray
    fact: IntArray


@runtime_checkable
class PropertyGraph(Protocol):
    """The property-graph methods of a store, beside :class:`kgqa.graph.store.GraphStore`.

    Methods raise ``GraphError`` only.
    """

    def schema(self) -> GraphSchema:
        """Return the schema; cached for each version."""

    def instances(self, type_: str) -> IntArray:
        """Return the keys of the entities of a type, ascending; "" is every entity."""

    def property_values(self, keys: IntArray, name: str) -> tuple[IntArray, list[Value]]:
        """Return (row, value) of the property ``name`` of entities or fact nodes, by row.

        Each member of a list is a row of its own, in the list's order.
        """

    def facts(self, keys: IntArray, relations: Sequence[int], *, inverse: bool) -> Facts:
        """Return the facts of ``relations`` whose head (``inverse``: tail) is in ``keys``."""


def fact_id(head: str, relation: str, tail: str, number: int | str = 0) -> str:
    """Return the id of the mediator that stands for a fact with properties.

    ``number`` tells parallel facts apart: a load takes a hash of their properties, so that an
    update gives a fact the same id. The id says which fact it is:

    >>> fact_id("Keanu Reeves", "ACTED_IN", "The Matrix")
    '["Keanu Reeves","ACTED_IN","The Matrix",0]'
    """
    return json.dumps([head, relation, tail, number], ensure_ascii=False, separators=(",", ":"))


def read_fact_id(id_: str) -> tuple[str, str, str] | None:
    """Parse a mediator's id into the fact's head, relation and tail; None if it is not a fact's.

    Ids are data of the graph: before showing them, check that these are the mediator's own ends.
    """
    if not id_.startswith('["'):
        return None
    try:
        parts = json.loads(id_)
    except ValueError:
        return None
    if len(parts) != 4 or not all(isinstance(part, str) for part in parts[:3]):
        return None
    head, relation, tail = parts[:3]
    return head, relation, tail

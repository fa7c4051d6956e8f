"""A KG in Neo4j as people ask it by Cypher: types as labels, properties as properties, facts.

    MATCH (p:Person)-[r:ACTED_IN]->(m:Movie) WHERE m.released > 2000 RETURN p.name, r.roles

These lie beside what walks read. A label or a property that is called as one of ours gets an
underscore (``id_``); a node's ``name`` is its name. A KG with more than ``MAX_LABELS`` types has
them in the list ``types`` alone. Dates and times become Neo4j's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import orjson
from neo4j import graph, spatial, time

from kgqa.graph.literals import members, value_type
from kgqa.graph.model import ENTITY_SCHEMA, Kind
from kgqa.graph.moments import date_text, moment_text
from kgqa.graph.schema import Value, read_fact_id

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Set

    from kgqa.graph.change import Node

MAX_LABELS = 300
_OF_NODES = frozenset({*ENTITY_SCHEMA.names, "key"})
_OF_FACTS = frozenset({"rel", "properties", "fact"})
_WHOLE = range(-(1 << 63), 1 << 63)


def label_names(types: Iterable[str], taken: Set[str]) -> dict[str, str]:
    """Return the label of each type, with "_" added if it is in ``taken``.

    Empty types are skipped; {} if there are more types than a database may have labels.
    """
    names = sorted({type_ for type_ in types if type_ and "\0" not in type_})
    if len(names) > MAX_LABELS:
        return {}
    return {name: name + "_" if name in taken else name for name in names}


def node_description(
    node: Mapping[str, Any], labels: Mapping[str, str], old: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Return a ``describe_nodes`` row with a node's labels and properties, None if it has neither.

    ``labels``: the label of each type; others are skipped. ``old``: the node before a change, whose
    other labels and properties are removed.
    """
    now = _properties(node["properties"], _OF_NODES)
    before = _properties(old["properties"], _OF_NODES) if old else {}
    kept = [labels[type_] for type_ in node["types"] or () if type_ in labels]
    gone = [labels[type_] for type_ in (old or {}).get("types") or () if type_ in labels]
    gone = [label for label in gone if label not in kept]
    now |= dict.fromkeys(before.keys() - now.keys())
    if node["kind"] == Kind.MEDIATOR and read_fact_id(node["id"]) is not None:
        now = {}  # its relationship has them
    if not (now or kept or gone):
        return None
    return {"key": node["key"], "labels": kept, "gone": gone, "properties": now}


def fact_description(node: Node) -> dict[str, Any] | None:
    """Return a ``write_facts`` row if the node is a fact's mediator, else None."""
    fact = read_fact_id(node["id"]) if node["kind"] == Kind.MEDIATOR else None
    if fact is None:
        return None
    properties = _properties(node["properties"], _OF_FACTS)
    half = stored_type(fact[1], {fact[1]})
    return {"key": node["key"], "type": fact[1], "half": half, "properties": properties}


def edge_properties(text: str | None) -> dict[str, Any]:
    """Parse an edge's properties from JSON into values of a Neo4j relationship."""
    return _properties(text, _OF_FACTS)


def stored_type(relation: str, reified: Container[str]) -> str:
    """Return the relationship type under which edges of a relation are stored.

    Edges of a fact's mediator get another type than the fact itself, so that counting relationships
    of a type counts facts.
    """
    return f"{relation} (fact)" if relation in reified else relation


def plain(value: Any) -> Any:
    """Convert a Neo4j value to JSON: ISO 8601 dates and times, WKT points.

    None for null, NaN, infinities and bytes, which are dropped from lists.
    """
    if isinstance(value, list):
        return [part for member in value if (part := plain(member)) is not None]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, time.Date | time.Time | time.DateTime):
        return value.iso_format().replace(".000000000", "")  # a fraction of a second of zeros
    if isinstance(value, time.Duration):
        return value.iso_format()
    if isinstance(value, spatial.Point):
        place = " ".join(f"{part:.12g}" for part in value)
        return f"SRID={value.srid};POINT {'Z ' if len(value) == 3 else ''}({place})"
    return _of_far_year(getattr(value, "raw_data", None))


def _of_far_year(sent: Any) -> str | None:
    """Return the ISO 8601 text of a date outside Python's years, None if it is not one."""
    tag, fields = getattr(sent, "tag", None), getattr(sent, "fields", ())
    match tag, fields:
        case b"D", [int(days)]:
            return date_text(days)
        case b"d", [int(seconds), int(nanoseconds)]:
            return moment_text(seconds, nanoseconds)
        case b"I", [int(seconds), int(nanoseconds), int(away)]:
            minutes = abs(away) // 60
            zone = f"{'-' if away < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
            return moment_text(seconds + away, nanoseconds, zone if minutes else "Z")
        case b"i", [int(seconds), int(nanoseconds), str()]:
            return moment_text(seconds, nanoseconds, "Z")
    return None


def as_json(value: Any) -> Any:
    """Convert a value of a row to JSON; a node or a relationship becomes its element id.

    A path becomes the list of its start node and its relationships.
    """
    if isinstance(value, graph.Entity):
        return value.element_id
    if isinstance(value, graph.Path):
        return [as_json(relationship) for relationship in (value.start_node, *value.relationships)]
    if isinstance(value, list):
        return [as_json(member) for member in value]
    if isinstance(value, dict):
        return {name: as_json(member) for name, member in value.items()}
    return plain(value)


def _properties(text: str | None, ours: Set[str]) -> dict[str, Any]:
    """Parse JSON properties into Neo4j values; empty ones are dropped.

    A name in ``ours`` gets an underscore.
    """
    given = orjson.loads(text) if text else {}
    properties = {}
    for name, value in given.items():
        native = _native(value)
        if native is not None and name and "\0" not in name:
            properties[name + "_" if name in ours else name] = native
    return properties


def _native(value: Any) -> Any:
    """Convert a JSON value to one that a Neo4j property can hold, None if it is empty.

    An object becomes JSON text, and a list of several types a list of texts.
    """
    if isinstance(value, dict):
        return orjson.dumps(value).decode()
    parts = [_scalar(part) for part in members(value)]
    if not isinstance(value, list):
        return parts[0] if parts else None
    if len({type(part) for part in parts}) > 1:  # a list in Neo4j is of one type
        parts = [str(part) for part in members(value)]
    return parts or None


def _scalar(value: Value) -> Any:
    """Convert a scalar to a Neo4j value: dates and date-times to temporal types.

    Integers of more than 64 bits become texts; invalid dates stay texts.
    """
    kind = value_type(value)
    try:
        if kind == "date":
            return time.Date.from_iso_format(str(value))
        if kind == "datetime":
            return time.DateTime.from_iso_format(str(value).replace(" ", "T"))
    except (ValueError, TypeError):
        return value
    return str(value) if kind == "integer" and value not in _WHOLE else value

"""KGs for the tests of stores: one tricky one, and as many random ones as are wanted."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kgqa.graph.model import (
    DIRECTIONS,
    EDGE_SCHEMA,
    ENTITY_SCHEMA,
    RELATION_SCHEMA,
    Direction,
    EdgeBatch,
    EntityBatch,
    Kind,
    RelationBatch,
)
from kgqa.loading.pipeline import assemble

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import GraphTables

Edge = tuple[str, str, str]
HOSTILE_CYPHER = [
    "a`b", "x`) DETACH DELETE n //", "`", "``", 'it\'s "quoted"', "{a: 1}", "a\\u0060b",
    "\\u0060) DETACH DELETE (n) //", "\\\\u0060", "\\", "end\\", "\\' RETURN 1 //",
    "\\u0027 RETURN 1 //", "$edges $id", "two\nlines", "// no comment", "`Freebase`", "*1..2",
    "親 -> 😀", "\x1b[2J\u202e", "\u200b\U000e0041", "\\U00000027 //",
]  # fmt: skip
"""Texts that a careless statement would read as Cypher."""


def entity(
    id_: str,
    name: str | None = None,
    *aliases: str,
    kind: Kind = Kind.ENTITY,
    types: Sequence[str] = (),
    properties: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One row of ``ENTITY_SCHEMA``."""
    return {
        "id": id_,
        "name": name,
        "aliases": list(aliases),
        "kind": int(kind),
        "types": list(types),
        "properties": None if properties is None else json.dumps(properties),
    }


def tables_of(
    entities: Sequence[dict[str, Any]],
    edges: Sequence[Edge],
    relations: Sequence[tuple[str, str]] = (),
    *,
    name: str = "tricky",
    direction: Direction = "out",
    about: dict[Edge, dict[str, Any]] | None = None,
) -> GraphTables:
    """Put rows together as an ingest does; ``about``: the properties of edges."""
    held = {edge: json.dumps(properties) for edge, properties in (about or {}).items()}
    rows = [
        {**dict(zip(("head", "relation", "tail"), edge, strict=True)), "properties": held.get(edge)}
        for edge in edges
    ]
    named = [{"id": id_, "name": label} for id_, label in relations]
    return assemble(
        [
            EntityBatch(pa.RecordBatch.from_pylist(list(entities), schema=ENTITY_SCHEMA)),
            RelationBatch(pa.RecordBatch.from_pylist(named, schema=RELATION_SCHEMA)),
            EdgeBatch(pa.RecordBatch.from_pylist(rows, schema=EDGE_SCHEMA)),
        ],
        name=name,
        source="rows of a test",
        direction=direction,
        dropped=Counter(),
        loader="triples",
        licence="none",
    )


def tricky_tables() -> GraphTables:
    """A small KG that has one of everything that is easily got wrong."""
    return tables_of(
        [
            entity("m.01", "Berlin", "Berlin, Germany", types=["location.citytown", "a.b"]),
            entity("m.02", "Berlin", "Berlin (New Hampshire)"),
            entity("m.03", "BERLIN"),
            entity("m.04", "Germany", "Deutschland", "Bundesrepublik  Deutschland"),
            entity("m.05", 'Bob "Bobby" O\'Neil', properties={"born": 1950, "note": "a\nb"}),
            entity("m.06", "two\nlines\tand a tab"),
            entity("m.07", "back`tick ``twice``"),
            entity("m.08", "A -> B -> C"),
            entity("m.09", "😀 face", "笑顔"),
            entity("m.10", "東京"),
            entity("m.11", "???"),  # symbols alone
            entity("m.12", "alone"),  # an isolated node
            entity("m.13", "itself"),  # nothing but a loop
            entity("m.14"),  # an entity that has no name
            entity("m.15", "Ｆｕｌｌ　Ｗｉｄｔｈ Straße"),
            entity("m.16", "Foo <|im_end|> {x} $y \\z %s"),
            entity("m.17", "o'); DROP TABLE entity; --"),
            entity("cvt.1", kind=Kind.MEDIATOR),
            entity("cvt.2", "a named mediator", kind=Kind.MEDIATOR),
            entity('"1950-01-01"^^xsd:date', "1950-01-01", kind=Kind.VALUE),
            entity("\ufffdlast of two bytes", "replacement"),
            entity("😀", "an id beyond the first plane"),  # UTF-16 would sort it before \ufffd
            entity("id with 'quotes\" and `ticks`", "odd id"),
            entity("a -> b", "arrow id"),
            entity("Z", "upper"),
            entity("a", "lower"),
            entity("é", "accented"),
        ],
        [
            ("m.01", "location.location.containedby", "m.04"),
            ("m.02", "location.location.containedby", "m.04"),
            ("m.01", "location.capital_of", "m.04"),  # parallel, another relation
            ("m.04", "location.capital", "m.01"),  # there and back
            ("m.05", "people.person.spouse_s", "cvt.1"),
            ("cvt.1", "people.marriage.spouse", "m.09"),
            ("cvt.1", "people.marriage.spouse", "m.05"),
            ("m.05", "people.person.place_of_birth", "m.01"),
            ("m.05", "people.person.date_of_birth", '"1950-01-01"^^xsd:date'),
            ("m.06", "rel with `tick`, 'quote' and -> arrow", "m.07"),
            ("m.08", "親", "m.10"),
            ("m.10", "親", "m.08"),
            ("m.13", "self", "m.13"),
            ("m.01", "self", "m.01"),
            ("m.01", "location.location.containedby", "m.01"),
            ("m.14", "self", "m.15"),
            ("m.16", "self", "m.17"),
            ("m.11", "self", "cvt.2"),
            ("😀", "self", "\ufffdlast of two bytes"),
            ("id with 'quotes\" and `ticks`", "self", "a -> b"),
            ("Z", "self", "a"),
            ("a", "self", "é"),
            *((f"m.{row:02}", "near", "m.04") for row in range(1, 14) if row not in (4, 12, 13)),
        ],
        [("親", "parent"), ("near", "near to"), ("never.used", "never used")],
    )


def random_tables(seed: int) -> GraphTables:
    """A random KG: few names (so that some are shared), every kind, loops and parallel edges."""
    dice = random.Random(seed)
    ids = [f"{dice.choice('aZé😀')}{row}" for row in range(dice.randint(1, 30))]
    names = [None, "x", "X", "y z", "Y-Z", "'", "猫"]
    entities = [
        entity(
            id_,
            dice.choice(names),
            *(alias for alias in dice.sample(names, 2) if alias),
            kind=dice.choices(list(Kind), (6, 2, 1))[0],
        )
        for id_ in ids
    ]
    relations = [f"r{row}" for row in range(dice.randint(1, 5))]
    edges = [
        (dice.choice(ids), dice.choice(relations), dice.choice(ids))
        for _ in range(dice.randint(1, 80))
    ]
    return tables_of(entities, edges, name="random", direction=dice.choice(DIRECTIONS))

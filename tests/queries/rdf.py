"""A graph in memory as RDF, for endpoints."""

from __future__ import annotations

from typing import Any

from kgqa.graph.attached import Attachment
from kgqa.graph.literals import XSD
from kgqa.graph.sparql_client import iri, literal
from kgqa.graph.sparql_profiles import LABELS, RDF_TYPE
from tests.queries.memory import Link, MemoryGraph, Thing, listed, schema_of

X = "http://x.org/"
RECORD = Attachment(
    "http://127.0.0.1/", "", "", labels=LABELS[:1], language="en", prefix=X, classes=(RDF_TYPE,)
)
DATATYPES = {"n": "integer", "x": "double", "day": "date", "flag": "boolean"}


def plain(graph: MemoryGraph, kinds: dict[str, str]) -> MemoryGraph:
    """Return a graph without what RDF cannot say: facts twice, and with properties."""
    links = [
        Link(*row)
        for row in dict.fromkeys((link.head, link.relation, link.tail) for link in graph.links)
    ]
    things = [
        Thing(
            thing.types,
            {
                name: sorted(set(value)) if isinstance(value, list) else value
                for name, value in thing.properties.items()
            },
        )
        for thing in graph.things
    ]
    return MemoryGraph(things, links, schema_of(things, links, kinds))


def triples(graph: MemoryGraph) -> str:
    """Return a graph as N-Triples."""
    lines = []
    for key, thing in enumerate(graph.things):
        subject = iri(f"{X}t{key}")
        lines += [f"{subject} {iri(RDF_TYPE)} {iri(X + type_)} ." for type_ in thing.types]
        lines.append(f"{subject} {iri(LABELS[0])} {literal(thing.name, 'en')} .")
        for name, value in thing.properties.items():
            for one in listed(value):
                lines.append(f"{subject} {iri(X + name)} {term(name, one)} .")
    for link in graph.links:
        ends = (iri(f"{X}t{end}") for end in (link.head, link.tail))
        lines.append(f" {iri(X + link.relation)} ".join(ends) + " .")
    return "\n".join(lines) + "\n"


def term(name: str, value: Any) -> str:
    """Return a value as a literal of the property's datatype."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    datatype = DATATYPES.get(name)
    return literal(text, None, XSD + datatype if datatype else None)

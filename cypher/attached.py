"""Statements that read a Neo4j database as it is: its own label and its own property for ids.

Their files are named ``attached_*`` and are written for the label ``Freebase`` and the property
``id``, both in backticks; :func:`attached` puts the real ones in, escaped. Nodes are looked up by
the id property, which an index makes fast; if there is none, ``by_reference`` looks them up by the
element id that a survey found, and still asks that the id be the same. All of them only read.
"""

from __future__ import annotations

import re
from functools import cache

from kgqa import cypher

_LABEL = "`Freebase`"
_PROPERTY = "`id`"
_LOOKUP = r"(?P<node>\w+)\.`id` = \$(?P<values>\w+)\[row\]"
_PLACES = re.compile(rf"{_LOOKUP}|{_LABEL}|{_PROPERTY}")


@cache
def attached(name: str, label: str, id_property: str, *, by_reference: bool = False) -> str:
    """Return the statement ``attached_<name>`` for a label and an id property.

    ``by_reference``: a look-up of ``$ids`` takes a parameter ``$ids_refs`` of element ids too.
    Raises ValueError if a name cannot stand in Cypher (see :func:`kgqa.cypher.escaped`).
    """
    safe_label, safe_property = quoted(label), quoted(id_property)

    def put(place: re.Match[str]) -> str:
        if place[0] == _LABEL:
            return safe_label
        if place[0] == _PROPERTY:
            return safe_property
        node, values = place["node"], place["values"]
        same = f"{node}.{safe_property} = ${values}[row]"
        return f"elementId({node}) = ${values}_refs[row] AND {same}" if by_reference else same

    # One pass, so that nothing that is put in is taken for a place to put something in.
    return _PLACES.sub(put, cypher.body_of(f"attached_{name}"))


def constraint_statement(label: str, id_property: str) -> str:
    """Return the statement that makes ids unique and quick to find; for the user to run."""
    return f"CREATE CONSTRAINT FOR (n:{quoted(label)}) REQUIRE n.{quoted(id_property)} IS UNIQUE"


def text_index_statement(label: str, *properties: str) -> str:
    """Return the statement that makes a full-text index of names; for the user to run."""
    each = ", ".join(f"n.{quoted(name)}" for name in properties)
    return f"CREATE FULLTEXT INDEX FOR (n:{quoted(label)}) ON EACH [{each}]"


def quoted(name: str) -> str:
    """Return ``name`` as a symbolic name of Cypher, in backticks.

    >>> quoted("a`b")
    '`a``b`'
    """
    return f"`{cypher.escaped(name)}`"

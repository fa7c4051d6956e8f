"""Statements that read a Neo4j database as it is; all of them only read.

Their files are named ``attached_*``. A label, a relationship type or a property cannot be a
parameter, so those that need one are written for the label (or type) ``Freebase`` and the property
``id``, both in backticks; :func:`attached` puts the real ones in, escaped.
"""

from __future__ import annotations

import re
from functools import cache

from kgqa import cypher

_PLACES = re.compile("`Freebase`|`id`")


@cache
def attached(name: str, label: str = "Freebase", property_: str = "id") -> str:
    """Return the statement ``attached_<name>`` for a label or type, and a property.

    Raises ValueError if a name cannot stand in Cypher (see :func:`kgqa.cypher.escaped`).
    """
    names = {"`Freebase`": quoted(label), "`id`": quoted(property_)}
    # One pass, so that nothing that is put in is taken for a place to put something in.
    return _PLACES.sub(lambda place: names[place[0]], cypher.body_of(f"attached_{name}"))


def quoted(name: str) -> str:
    """Return ``name`` as a symbolic name of Cypher, in backticks.

    >>> quoted("a`b")
    '`a``b`'
    """
    return f"`{cypher.escaped(name)}`"

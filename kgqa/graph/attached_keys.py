"""Keys of an attached graph, and its values as JSON has them.

A node's key is the number in its element id. A fact's, a relationship that has properties, is the
number in its own above ``FACTS``; a value's is a hash of its id above ``VALUES``. So keys mean the
same in every thread and process, and no table of them is kept on the way in.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from kgqa.graph.literals import is_walked, members, value_node
from kgqa.graph.model import Kind
from kgqa.graph.neo4j_native import plain

if TYPE_CHECKING:
    from kgqa.graph.schema import Value

FACTS = 1 << 61  # element ids of all store formats are smaller
VALUES = 1 << 62
NULLS = frozenset({"", "NULL", "null", "\\N"})  # texts that stand for no value


def kind_of(key: int) -> Kind:
    """Return the kind that a key is of; labelled mediators and values are entities here."""
    return Kind.ENTITY if key < FACTS else Kind.MEDIATOR if key < VALUES else Kind.VALUE


def value_key(id_: str) -> int:
    """Return the key of a value by its id.

    >>> value_key('"1999"^^xsd:integer') >= VALUES
    True
    """
    digest = hashlib.blake2b(id_.encode(errors="surrogatepass"), digest_size=8).digest()
    return VALUES | int.from_bytes(digest) >> 2


def walked(value: Any) -> list[tuple[str, str]]:
    """Return id and name of the value nodes that walks see of a property; of a list each.

    >>> walked(1999), walked("NULL"), walked(["Neo", "Neo"])
    ([('"1999"^^xsd:integer', '1999')], [], [('"Neo"', 'Neo')])
    """
    content = plain(value)
    if content is None or not is_walked(content):
        return []
    return list(
        dict.fromkeys(value_node(member) for member in members(content) if member not in NULLS)
    )


def values_of(value: Any) -> list[Value]:
    """Return the values of a property, each member of a list by itself, without nulls as text."""
    return [member for member in members(plain(value)) if member not in NULLS]

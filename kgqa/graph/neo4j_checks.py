"""What a KG must be like to be written to Neo4j, looked at before anything is written.

Everything is looked at by columns. What this does not do: ask a server; the caller says how many
relationship types its database has.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.write import GraphSource

MAX_TYPES = 65_535  # relationship types that one Neo4j database can hold
MAX_ID_BYTES = 8_000  # an index entry of Neo4j holds a little more
MIN_VERSION = (5, 26)
# Labels that mean something else here, so that no KG is named by them.
RESERVED_LABELS = (
    *("Entity", "Mediator", "Value"),
    *("KGMeta", "KGName", "KGRelation", "KGLoading", "KGDropping"),
)
_SHOWN_DOMAINS = 8


def label_for(kg: str) -> str:
    """Return the label that a KG's nodes have if no other KG has it.

    >>> label_for("freebase"), label_for("fb15k-237")
    ('Freebase', 'Fb15k-237')
    """
    return kg[:1].upper() + kg[1:]


def check_version(version: tuple[int, int], url: str) -> None:
    """Raise GraphError where the server is too old to be written to."""
    if version < MIN_VERSION:
        raise GraphError(
            f"Neo4j at {url} is version {version[0]}.{version[1]}.",
            "Loading needs 5.26 or newer.",
        )


def check_relations(source: GraphSource, others: int, url: str) -> None:
    """Raise GraphError where the relations cannot be relationship types of one database.

    ``others``: types that the database has already and that are not among these relations.
    """
    ids = source.relations.column("id")
    if len(ids) + others > MAX_TYPES:
        beside = f" and {url} {others:,} other relationship types" if others else ""
        raise GraphError(
            f"{source.info.name} has {len(ids):,} relations{beside}; one Neo4j database holds "
            f"{MAX_TYPES:,}. The domains with the most: {_domains(ids.to_pylist())}.",
            "Leave some of these domains out of the load, or use the embedded store.",
        )
    for chunk in ids.chunks:
        _check_ids("relation", chunk)


def check_entities(source: GraphSource) -> None:
    """Raise GraphError where an entity's id cannot be held by an index."""
    for batch in source.node_batches():
        _check_ids("entity", batch.column("id"))


def _domains(relations: Sequence[str]) -> str:
    counts = Counter(relation.partition(".")[0] for relation in relations)
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN_DOMAINS]
    return ", ".join(f"{name[:60]} ({count:,})" for name, count in most)


def _check_ids(what: str, ids: pa.Array) -> None:
    length = pc.binary_length(ids)
    wrong = pc.or_(pc.equal(length, 0), pc.greater(length, MAX_ID_BYTES))
    wrong = pc.or_(wrong, pc.match_substring(ids, "\0"))
    if pc.any(wrong).as_py():
        value = ids.filter(wrong)[0].as_py()
        raise GraphError(
            f"The {what} id {value[:60]!r} cannot be written to Neo4j: it is empty, "
            f"longer than {MAX_ID_BYTES:,} bytes or holds a NUL character.",
            "Leave it out of the load, or use the embedded store.",
        )

"""Properties that walks see: edges to values, and mediators for facts that have some.

This happens once, between the loaders and the stages of a load; an update does the same with what
it adds and removes. What a fact's mediator is called is decided by the fact alone, so neither the
order of the rows nor a later change gives it another id.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.literals import is_walked, members, value_node
from kgqa.graph.model import EDGE_SCHEMA, Batch, EdgeBatch, EntityBatch, Kind, ValueBatch
from kgqa.graph.schema import PROVENANCE, fact_id
from kgqa.loaders.base import edge_batch, entity_batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Set


_VALUE_SCHEMA = pa.schema([("id", pa.string()), ("name", pa.string())])


def entity_values(batch: EntityBatch) -> Iterator[Batch]:
    """Yield the value nodes of entities' walked properties, and the edges to them, if any."""
    if not batch.walked:
        return
    made = _FactBuilder()
    rows = batch.rows.filter(batch.rows.column("properties").is_valid())
    for id_, text in zip(*(rows.column(n).to_pylist() for n in ("id", "properties")), strict=True):
        made.values(id_, orjson.loads(text), batch.walked)
    yield from made.batches()


def reified(batch: EdgeBatch) -> set[str]:
    """Return the relations of which an edge in the batch has a qualifier: a walked property."""
    if not batch.walked:
        return set()
    rows = batch.rows.filter(batch.rows.column("properties").is_valid())
    columns = (rows.column(name).to_pylist() for name in ("relation", "properties"))
    relations: set[str] = set()
    for relation, text in zip(*columns, strict=True):
        if relation not in relations and _has_qualifier(orjson.loads(text), batch.walked):
            relations.add(relation)
    return relations


def fact_batches(rows: pa.RecordBatch, walked: Set[str]) -> Iterator[Batch]:
    """Convert facts (rows of ``EDGE_SCHEMA``) to mediators with their edges and value nodes.

    ``walked``: the properties that become edges to values; those on provenance never do.
    """
    made = _FactBuilder()
    walked = walked - PROVENANCE  # of a thing, its source and url are facts
    columns = (rows.column(name).to_pylist() for name in EDGE_SCHEMA.names)
    for head, relation, tail, text in zip(*columns, strict=True):
        properties = orjson.loads(text) if text else {}
        fact = fact_id(head, relation, tail, fact_number(properties))
        made.facts.append((fact, text))
        made.edges += [(head, relation, fact), (fact, relation, tail)]
        made.values(fact, properties, walked)
    yield from made.batches()


def expanded(batches: Iterable[Batch], relations: Set[str], ends: pa.Array) -> list[Batch]:
    """Convert the edges of ``relations`` in ``batches`` to facts with mediators.

    Other batches are returned as they are. ``ends``: the ids of nodes. A fact with another end
    stays an edge, and is dropped later.
    """
    given = list(batches)
    walked = frozenset[str]().union(*(b.walked for b in given if isinstance(b, EdgeBatch)))
    facts: list[Batch] = []
    for batch in given:
        if not isinstance(batch, EdgeBatch):
            facts.append(batch)
            continue
        rows = batch.rows
        if relations and pa.types.is_string(rows.column("head").type):
            names = pa.array(sorted(relations), pa.string())
            chosen = pc.is_in(rows.column("relation").cast(pa.string()), value_set=names)
            for end in ("head", "tail"):
                chosen = pc.and_(chosen, pc.is_in(rows.column(end), value_set=ends))
            facts += fact_batches(rows.filter(chosen), walked)
            rows = rows.filter(pc.invert(chosen))
        facts.append(EdgeBatch(rows))
    return facts


def _has_qualifier(properties: dict[str, Any], walked: Set[str]) -> bool:
    """Return whether some property of an edge is walked, and not just its provenance."""
    return any(
        name in walked and name not in PROVENANCE and is_walked(value)
        for name, value in properties.items()
    )


def fact_number(properties: dict[str, Any]) -> int | str:
    """Return what tells a fact from others with the same ends: a hash of its properties.

    0 if it has none but provenance and empty ones.
    """
    own = {n: v for n, v in properties.items() if n not in PROVENANCE and v not in (None, "", [])}
    if not own:
        return 0
    return hashlib.sha256(orjson.dumps(own, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]


class _FactBuilder:
    """Collects mediators, value nodes and edges, and builds batches of them."""

    def __init__(self) -> None:
        self.facts: list[tuple[str, str | None]] = []
        self.edges: list[tuple[str, str, str]] = []
        self._values: dict[str, str] = {}

    def values(self, owner: str, properties: dict[str, Any], walked: Set[str]) -> None:
        """Add the value nodes of an owner's walked properties, and edges to them.

        Other properties, and values too long to be edges, are skipped.
        """
        for name, value in properties.items():
            if name in walked and is_walked(value):
                for member in members(value):
                    id_, text = value_node(member)
                    self._values[id_] = text
                    self.edges.append((owner, name, id_))

    def batches(self) -> Iterator[Batch]:
        """Yield what was added as batches: facts' mediators, value nodes, edges."""
        if self.facts:
            ids, texts = zip(*self.facts, strict=True)
            yield entity_batch(ids, kind=[int(Kind.MEDIATOR)] * len(ids), properties=texts)
        if self._values:
            pairs = [list(self._values), list(self._values.values())]
            arrays = [pa.array(column, pa.string()) for column in pairs]
            yield ValueBatch(pa.RecordBatch.from_arrays(arrays, schema=_VALUE_SCHEMA))
        if self.edges:
            yield edge_batch(*zip(*self.edges, strict=True))

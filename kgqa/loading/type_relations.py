"""Which relations say of what kind a thing is: by their names, and by their tails.

Such a relation gives its heads types. Its edges stay, so that they can be checked; walks pass over
them (:class:`kgqa.paths.walk.WalkRules`), because a class joins all that are of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.model import ALIAS, TypeBatch
from kgqa.loaders.ntriples import RDF_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

SUBCLASS = "http://www.w3.org/2000/01/rdf-schema#subClassOf"
NO_RELATION_IS = "none"  # as the option that names the relations
_NAMES = frozenset(
    {"a", "type", "rdftype", "hastype", "istype", "instanceof", "isinstanceof", "isa", "isan"}
    | {"kind", "kindof", "iskindof", "isakindof", "typeof", "isatypeof", "class", "p31"}
)
_PROPERTY = re.compile(r"(https?://[^/]+)/prop/(?:[a-z-]+/)*(P[0-9]+)")
_MOST_CLASSES = 300
_NO_TEXT = pa.array([], pa.string())
_HIERARCHY = 0.1  # the part of the classes above which they are classified themselves


def is_named_so(relation: str) -> bool:
    """Return whether a relation's name says that it gives types.

    >>> is_named_so("instanceOf"), is_named_so("http://x.org/is%20a"), is_named_so("blood type")
    (True, True, False)
    """
    last = re.split(r"[/#:]", relation.rstrip("/#"))[-1] or relation
    return re.sub(r"%20|[^a-z0-9]", "", last.lower()) in _NAMES


def property_of(relation: str) -> str:
    """Return the id whose label names a relation in Wikidata and similar graphs, "" for others.

    >>> property_of("http://www.wikidata.org/prop/statement/P19")
    'http://www.wikidata.org/entity/P19'
    """
    match = _PROPERTY.fullmatch(relation)
    return f"{match[1]}/entity/{match[2]}" if match else ""


def classes_of(edges: Callable[[], Iterable[pa.RecordBatch]]) -> pa.Array | None:
    """Return the distinct tails of a relation's edges if they are few and are classes, else None.

    ``edges``: yields all edges (head, tail) at each call, for there may be more than memory holds.
    """
    tails, count = _NO_TEXT, 0
    for batch in edges():
        tails = pc.unique(pa.chunked_array([tails, batch.column("tail").cast(pa.string())]))
        count += len(batch)
        if len(tails) > _MOST_CLASSES:
            return None
    if not count or 3 * len(tails) > 2 * count:
        return None
    classified = _NO_TEXT
    for batch in edges():
        mine = batch.column("head").filter(pc.is_in(batch.column("head"), value_set=tails))
        classified = pc.unique(pa.chunked_array([classified, mine.cast(pa.string())]))
    return tails if len(classified) <= _HIERARCHY * len(tails) else None


@dataclass(frozen=True, slots=True)
class TypeRelations:
    """Which relations give types to their heads.

    Those ``given`` by id or name; if ``found``, also others with such a name whose tails are few
    and are classes, except ``settled`` ones: a change sees only some edges of these.
    """

    given: frozenset[str] = frozenset()
    found: bool = False
    settled: frozenset[str] = frozenset()

    @classmethod
    def chosen(cls, option: str | None) -> TypeRelations:
        """Parse the option ``type_relation``.

        None stands for RDF's own relation, and those with usual names whose tails are classes.
        """
        if option is None:
            return cls(frozenset({RDF_TYPE}), found=True)
        return cls(frozenset({option} - {NO_RELATION_IS}))

    def classes(
        self, called: Sequence[str], edges: Callable[[], Iterable[pa.RecordBatch]]
    ) -> pa.Array | None:
        """Return the classes that a relation's tails are, None if it does not give types.

        ``called``: its id, then its names; ``edges``: as in :func:`classes_of`.
        """
        if self.given.intersection(called):
            return tails_of(edges())
        if self.found and called[0] not in self.settled and any(map(is_named_so, called)):
            return classes_of(edges)
        return None


def tails_of(edges: Iterable[pa.RecordBatch]) -> pa.Array:
    """Return the distinct tails of edges."""
    tails = _NO_TEXT
    for batch in edges:
        tails = pc.unique(pa.chunked_array([tails, batch.column("tail").cast(pa.string())]))
    return tails


def first_names(names: Iterable[pa.RecordBatch], ids: pa.Array) -> dict[str, str]:
    """Return the first-ranked name of each of ``ids`` that has one; ``names``: id, text, rank."""
    names_of: dict[str, tuple[int, str]] = {}
    for batch in names if len(ids) else ():
        mine = batch.filter(pc.is_in(batch.column("id"), value_set=ids))
        for id_, text, rank in zip(*(column.to_pylist() for column in mine.columns), strict=True):
            if rank < ALIAS:
                names_of[id_] = min(names_of.get(id_, (rank, text)), (rank, text))
    return {id_: text for id_, (_, text) in names_of.items()}


def superclasses(edges: Iterable[pa.RecordBatch], classes: pa.Array) -> dict[str, set[str]]:
    """Return the transitive superclasses of each class; {} if ``edges`` are none.

    ``edges``: (subclass, class).
    """
    above: dict[str, set[str]] = {}
    for batch in edges:
        columns = (batch.column(name).to_pylist() for name in ("head", "tail"))
        for child, parent in zip(*columns, strict=True):
            above.setdefault(child, set()).add(parent)
    chains: dict[str, set[str]] = {}
    for class_ in classes.to_pylist() if above else ():
        seen: set[str] = set()
        waiting = [class_]
        while waiting:
            new = above.get(waiting.pop(), set()) - seen
            seen |= new
            waiting += new
        chains[class_] = seen - {class_}
    return chains


def type_batches(
    edges: Iterable[pa.RecordBatch], called: dict[str, str], above: dict[str, set[str]]
) -> Iterator[TypeBatch]:
    """Yield the types that edges (head, tail) give their heads, with superclasses.

    ``called``: names of classes by id; ``above``: superclasses by class.
    """
    classes = pa.array(list(called), pa.string())
    given = [[name, *(called[each] for each in above.get(id_, ()))] for id_, name in called.items()]
    names = pa.array(given, pa.list_(pa.string()))
    for batch in edges:
        types = names.take(pc.index_in(batch.column("tail"), value_set=classes))
        heads = batch.column("head").take(pc.list_parent_indices(types))
        columns = [heads, pc.list_flatten(types)]
        yield TypeBatch(pa.RecordBatch.from_arrays(columns, names=["id", "type"]))

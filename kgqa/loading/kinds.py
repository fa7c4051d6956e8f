"""Which relations say of what kind a thing is: by their names, and by their tails.

Such a relation gives its heads types. Its edges stay, so that they can be checked; walks pass over
them (:class:`kgqa.paths.walk.WalkRules`), because a class joins all that are of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.model import TypeBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

NO_RELATION_IS = "none"  # as the option that names the relations
_NAMES = frozenset(
    {"a", "type", "rdftype", "hastype", "istype", "instanceof", "isinstanceof", "isa", "isan"}
    | {"kind", "kindof", "iskindof", "isakindof", "typeof", "isatypeof", "class", "p31"}
)
_MOST_CLASSES = 300
_NO_TEXT = pa.array([], pa.string())
_HIERARCHY = 0.1  # the part of the classes above which they are classified themselves


def is_named_so(relation: str) -> bool:
    """Return whether a relation is called as those that say of what kind a thing is.

    >>> is_named_so("instanceOf"), is_named_so("http://x.org/is%20a"), is_named_so("blood type")
    (True, True, False)
    """
    last = re.split(r"[/#:]", relation.rstrip("/#"))[-1] or relation
    return re.sub(r"%20|[^a-z0-9]", "", last.lower()) in _NAMES


def classes_of(edges: Callable[[], Iterable[pa.RecordBatch]]) -> pa.Array | None:
    """Return the tails of a relation's edges (head, tail) if they are few and are classes.

    ``edges``: gives the edges anew at each call; there may be more than memory holds.
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


def tails_of(edges: Iterable[pa.RecordBatch]) -> pa.Array:
    """Return the distinct tails of edges."""
    found = _NO_TEXT
    for batch in edges:
        found = pc.unique(pa.chunked_array([found, batch.column("tail").cast(pa.string())]))
    return found


def class_names(names: Iterable[pa.RecordBatch], classes: pa.Array) -> dict[str, str]:
    """Return the name of each class, its id if it has none; ``names``: id, text, rank."""
    found: dict[str, tuple[int, str]] = {}
    for batch in names:
        mine = batch.filter(pc.is_in(batch.column("id"), value_set=classes))
        for id_, text, rank in zip(*(column.to_pylist() for column in mine.columns), strict=True):
            found[id_] = min(found.get(id_, (rank, text)), (rank, text))
    return {id_: found.get(id_, (0, id_))[1] for id_ in classes.to_pylist()}


def type_batches(edges: Iterable[pa.RecordBatch], called: dict[str, str]) -> Iterator[TypeBatch]:
    """Yield the types that edges (head, tail) give their heads."""
    for batch in edges:
        types = pa.array([called[one] for one in batch.column("tail").to_pylist()], pa.string())
        columns = [batch.column("head"), types]
        yield TypeBatch(pa.RecordBatch.from_arrays(columns, names=["id", "type"]))

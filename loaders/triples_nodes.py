"""What the triples and the files beside them say of nodes and relations, as batches.

An end of an edge is an entity. Without a name it is its own name, or a mediator if the rule says
so. What N-Triples say of a node (a label, a type) may come before or after the edges that show
whether it is a relation instead; until then it waits, on disk if it is much. Ids are never all in
memory.
"""

from __future__ import annotations

import re
import tempfile
from typing import TYPE_CHECKING, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.model import OWN_ID, Kind, NameBatch
from kgqa.loaders.batches import entity_batch
from kgqa.loaders.strings import NO_TEXT, mask_of, stripped
from kgqa.loaders.triples_rdf import LABELS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from kgqa.graph.model import Batch
    from kgqa.loaders.tables import Part
    from kgqa.loaders.triples_names import MediatorRule, Names

_WINDOW = 1 << 20  # ids that are gathered before repeated ones are removed
_IN_MEMORY = 64 << 20  # bytes of what waits; beyond, it lies on disk
_WAITING = pa.schema([("id", pa.string()), ("end", pa.bool_())])


class Nodes:
    """Gathers ids; a context manager, which removes its files.

    ``waits``: whether some of the sources are N-Triples, which may name nodes and relations.
    """

    def __init__(self, names: Names, mediators: MediatorRule, *, waits: bool) -> None:
        self.relations: dict[str, None] = {}
        self.any = False  # whether there is a node
        self._names = names
        self._mediators = mediators
        self._window = _Window(max(_WINDOW, len(names) // 2))
        self._described = _Window(_WINDOW)
        self._nodes = _Waiting(_WAITING) if waits else None
        self._labels = _Waiting(LABELS) if waits else None
        self._labelled: dict[str, str] = {}  # relations that N-Triples name
        self._named = NO_TEXT  # ids with a label that the rule of mediators names

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for waiting in (self._nodes, self._labels):
            if waiting is not None:
                waiting.close()

    def take(self, part: Part) -> Iterator[Batch]:
        """Take in what a block holds; yield entities from time to time."""
        for batch in part.edges:
            self.relations |= dict.fromkeys(batch.column("relation").dictionary.to_pylist())
        self.any |= bool(part.edges) or len(part.described) > 0
        for ids in self._window.add(part.ends):
            yield from self._found(ids, end=True)
        for ids in self._described.add(part.described):
            yield from self._found(ids, end=False)
        if self._labels is not None:
            for batch in part.labels:
                self._labels.append(batch)

    def rest(self) -> Iterator[Batch]:
        """Yield all other entities and names; ``relations`` must be whole."""
        for ids in self._window.rest():
            yield from self._found(ids, end=True)
        for ids in self._described.rest():
            yield from self._found(ids, end=False)
        if self._nodes is not None and self._labels is not None:
            yield from self._waited(self._nodes, self._labels)
        for batch in self._names.seen():
            if len(batch):
                yield NameBatch(batch)

    def relation_names(self) -> dict[str, str]:
        """Return the names of the relations: a label, the last part of an IRI, or the id."""
        known = {**self._labelled, **self._names.first_of(list(self.relations))}
        return {ident: known.get(ident) or _last_part(ident) for ident in self.relations}

    # -- inside ------------------------------------------------------------------------------

    def _found(self, ids: pa.Array, *, end: bool) -> Iterator[Batch]:
        if self._nodes is None:
            yield from self._entities(ids)
        else:
            ends = pa.array(np.full(len(ids), end))
            self._nodes.append(pa.RecordBatch.from_arrays([ids, ends], schema=_WAITING))

    def _entities(self, ids: pa.Array) -> Iterator[Batch]:
        if not len(ids):
            return
        named = self._names.named(ids)
        kinds = np.full(len(ids), Kind.ENTITY, dtype=np.uint8)
        if self._mediators.any:
            nameless = self._mediators.match(ids) & ~named
            if len(self._named):
                nameless &= ~mask_of(pc.is_in(ids, value_set=self._named))
            kinds[nameless] = Kind.MEDIATOR
            named |= nameless
        yield entity_batch(ids, kind=pa.array(kinds))
        own = ids.filter(pa.array(~named))
        if len(own):
            ranks = pa.array(np.full(len(own), OWN_ID, dtype=np.int64))
            yield NameBatch(pa.RecordBatch.from_arrays([own, stripped(own), ranks], schema=LABELS))

    def _waited(self, nodes: _Waiting, labels: _Waiting) -> Iterator[Batch]:
        relations = pa.array(list(self.relations), type=pa.string())
        labelled: dict[str, tuple[int, str]] = {}
        candidates = []
        for batch in labels.read():
            rows = batch.filter(pc.is_in(batch.column("id"), value_set=relations))
            for row in rows.to_pylist():
                found = row["rank"], row["text"]
                if row["rank"] < OWN_ID:
                    labelled[row["id"]] = min(labelled.get(row["id"], found), found)
            if self._mediators.any:
                ids = batch.column("id").filter(pc.less(batch.column("rank"), OWN_ID))
                candidates.append(pc.unique(ids.filter(pa.array(self._mediators.match(ids)))))
        self._labelled = {ident: text for ident, (_, text) in labelled.items()}
        if candidates:
            self._named = pc.unique(pa.chunked_array(candidates, type=pa.string()))
        ends: set[str] = set()  # relations that are ends of edges too
        for batch in nodes.read():
            ids, end = batch.column("id"), batch.column("end")
            relation = pc.is_in(ids, value_set=relations)
            ends.update(ids.filter(pc.and_(relation, end)).to_pylist())
            yield from self._entities(ids.filter(pc.or_(end, pc.invert(relation))))
        others = pa.array([each for each in self.relations if each not in ends], type=pa.string())
        for batch in labels.read():
            kept = batch.filter(pc.invert(pc.is_in(batch.column("id"), value_set=others)))
            if len(kept):
                yield NameBatch(kept)


class _Window:
    """Gathers ids, and gives them on, each once, when there are many."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held: list[pa.Array] = []
        self._count = 0

    def add(self, ids: pa.Array) -> Iterator[pa.Array]:
        if len(ids):
            self._held.append(ids)
            self._count += len(ids)
            if self._count > self._size:
                yield from self.rest()

    def rest(self) -> Iterator[pa.Array]:
        held, self._held, self._count = self._held, [], 0
        if held:
            yield pc.unique(pa.chunked_array(held))


class _Waiting:
    """Batches of one schema that are read back later, more than once."""

    def __init__(self, schema: pa.Schema) -> None:
        self._file = cast("IO[bytes]", tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115
        self._sink = pa.PythonFile(self._file, mode="w")
        self._stream: pa.RecordBatchStreamWriter | None = pa.ipc.new_stream(self._sink, schema)

    def append(self, batch: pa.RecordBatch) -> None:
        assert self._stream is not None
        self._stream.write_batch(batch)

    def read(self) -> Iterator[pa.RecordBatch]:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._file.seek(0)
        yield from pa.ipc.open_stream(pa.PythonFile(self._file, mode="r"))

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._file.close()


def _last_part(ident: str) -> str:
    if ident.startswith(("http://", "https://", "urn:")):
        return re.split(r"[/#:]", ident.rstrip("/#"))[-1] or ident
    return ident

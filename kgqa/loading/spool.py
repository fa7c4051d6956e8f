"""The scan: a loader's batches, written down as they come, in columns that later stages sort.

Ids stay as they are (text, or numbers for mids); relations and types become small integers. What it
does not do: decide which entities there are; that takes all batches.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.model import (
    ALIAS,
    EdgeBatch,
    EntityBatch,
    NameBatch,
    RelationBatch,
    TypeBatch,
    TypeRules,
    ValueBatch,
)
from kgqa.loading.columns import ColumnWriter, read_columns

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from kgqa.graph.model import Batch

NO_ID = "entity without an id"
NO_RELATION = "edge without a relation"
_STATE = "scan.json"
_ENTITY = pa.schema([("id", pa.string()), ("kind", pa.uint8()), ("properties", pa.string())])
_VALUE = pa.schema([("id", pa.string()), ("name", pa.string())])
_EDGE = ("head", "relation", "tail", "properties")


@dataclass(slots=True)
class Scanned:
    """What a scan left besides its columns."""

    relations: list[str] = field(default_factory=list)
    relation_names: dict[str, list[str]] = field(default_factory=dict)
    inverses: dict[str, str] = field(default_factory=dict)
    types: list[str] = field(default_factory=list)
    mediator_types: list[int] = field(default_factory=list)
    hidden_types: list[int] = field(default_factory=list)
    named_mids: bool = False


class Spool:
    """The columns of a scan, in a folder.

    Files: ``entities`` (id, kind, properties), ``names-*`` (id, text, rank), ``types-*`` (id,
    type), ``values`` (id, name), ``edges-*`` (head, relation, tail, perhaps properties); the star
    says ``mid`` for numbers and ``text`` for strings, for edges of both ends.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scanned = Scanned()
        self._relations: dict[str, int] = {}
        self._types: dict[str, int] = {}
        self._rules: TypeRules | None = None

    def write(self, batches: Iterable[Batch], dropped: Counter[str]) -> None:
        """Take all batches in; count what is no entity and no edge into ``dropped``."""
        self.folder.mkdir(parents=True, exist_ok=True)
        writers: dict[str, ColumnWriter] = {}
        try:
            for batch in batches:
                for name, rows in self._columns(batch, dropped):
                    if len(rows):
                        if name not in writers:
                            writers[name] = ColumnWriter(self.path(name), rows.schema)
                        writers[name].append(rows)
        finally:
            for writer in writers.values():
                writer.close()
        scanned = self.scanned
        scanned.relations, scanned.types = list(self._relations), list(self._types)
        if self._rules is not None:
            mediators, shown = self._rules.mediators, self._rules.shown
            for place, name in enumerate(scanned.types):
                if name in mediators:
                    scanned.mediator_types.append(place)
                if not shown(name):
                    scanned.hidden_types.append(place)
        state = {name: getattr(scanned, name) for name in Scanned.__slots__}
        (self.folder / _STATE).write_text(json.dumps(state), encoding="utf-8")

    @classmethod
    def open(cls, folder: Path) -> Spool:
        """Return the columns that an earlier scan wrote."""
        spool = cls(folder)
        state: dict[str, Any] = json.loads((folder / _STATE).read_text(encoding="utf-8"))
        spool.scanned = Scanned(**state)
        return spool

    def path(self, name: str) -> Path:
        """Return where a file of columns lies, if there is one."""
        return self.folder / f"{name}.arrow"

    def read(self, name: str) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a file of columns, none where there is no such file."""
        return read_columns(self.path(name))

    def edge_files(self) -> list[str]:
        """Return the names of the files that hold edges."""
        return sorted(path.stem for path in self.folder.glob("edges-*.arrow"))

    def _columns(self, batch: Batch, dropped: Counter[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
        if isinstance(batch, EdgeBatch):
            yield self._edges(batch.rows, dropped)
        elif isinstance(batch, NameBatch):
            rows = batch.rows
            self.scanned.named_mids |= batch.defines
            yield f"names-{_form(rows.column('id'))}", rows
        elif isinstance(batch, TypeBatch):
            ids = batch.rows.column("id")
            numbers = self._numbers(batch.rows.column("type"), self._types)
            rows = pa.RecordBatch.from_arrays([ids, numbers], names=["id", "type"])
            yield f"types-{_form(ids)}", rows
        elif isinstance(batch, ValueBatch):
            yield "values", batch.rows.cast(_VALUE)
        elif isinstance(batch, EntityBatch):
            yield from self._entities(batch.rows, dropped)
        elif isinstance(batch, RelationBatch):
            for row in batch.rows.to_pylist():
                self.scanned.relation_names.setdefault(row["id"], []).append(row["name"])
                if row["inverse"]:
                    self.scanned.inverses[row["id"]] = row["inverse"]
        else:
            self._rules = batch

    def _edges(self, rows: pa.RecordBatch, dropped: Counter[str]) -> tuple[str, pa.RecordBatch]:
        head, relation, tail, properties = (rows.column(name) for name in _EDGE)
        numbers = self._numbers(relation, self._relations)
        columns = {"head": head, "relation": numbers, "tail": tail}
        name = f"edges-{_form(head)}-{_form(tail)}"
        if properties.null_count < len(properties):
            columns["properties"] = properties
            name += "-about"
        batch = pa.RecordBatch.from_pydict(columns)
        bad = pc.less(numbers, 0)
        if lost := pc.sum(bad).as_py():
            dropped[NO_RELATION] += lost
            batch = batch.filter(pc.invert(bad))
        return name, batch

    def _entities(
        self, rows: pa.RecordBatch, dropped: Counter[str]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        ids = rows.column("id")
        good = pc.fill_null(pc.greater(pc.binary_length(ids), 0), False)
        if lost := len(rows) - int(pc.sum(good, min_count=0).as_py()):
            dropped[NO_ID] += lost
            rows = rows.filter(good)
            ids = rows.column("id")
        yield (
            "entities",
            pa.RecordBatch.from_arrays(
                [ids, rows.column("kind"), rows.column("properties")], schema=_ENTITY
            ),
        )
        names = rows.column("name")
        there = pc.fill_null(pc.greater(pc.binary_length(names), 0), False)
        yield "names-text", _names(ids.filter(there), names.filter(there), 0)
        owners, texts = _flat(ids, rows.column("aliases"))
        yield "names-text", _names(owners, texts, ALIAS)
        owners, types = _flat(ids, rows.column("types"))
        numbers = self._numbers(types, self._types)
        yield "types-text", pa.RecordBatch.from_arrays([owners, numbers], names=["id", "type"])

    def _numbers(self, column: pa.Array, known: dict[str, int]) -> pa.Array:
        """Return the number of each string in ``known``, which learns new ones; -1 for none."""
        if not isinstance(column, pa.DictionaryArray):
            column = column.dictionary_encode()
        places = [
            known.setdefault(text, len(known)) if text else -1
            for text in column.dictionary.to_pylist()
        ]
        table = np.array([*places, -1], dtype=np.int32)
        indices = column.indices.fill_null(len(places)).to_numpy(zero_copy_only=False)
        return pa.array(table[indices])


def _form(column: pa.Array) -> str:
    return "mid" if column.type == pa.int64() else "text"


def _names(ids: pa.Array, texts: pa.Array, rank: int) -> pa.RecordBatch:
    ranks = pa.array(np.full(len(ids), rank, dtype=np.int64))
    return pa.RecordBatch.from_arrays([ids, texts, ranks], names=["id", "text", "rank"])


def _flat(ids: pa.Array, lists: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return (id, text) of every text in the lists that is not empty."""
    owners, texts = ids.take(pc.list_parent_indices(lists)), pc.list_flatten(lists)
    there = pc.fill_null(pc.greater(pc.binary_length(texts), 0), False)
    return owners.filter(there), texts.filter(there)

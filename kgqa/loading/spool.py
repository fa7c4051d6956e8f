"""The scan: a loader's batches, written down as they come, in columns that later stages sort.

Ids stay as they are (text, or numbers for mids); relations and types become small integers. Which
entities there are is decided later: that takes all batches.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

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


class Scanned(BaseModel):
    """What a scan left besides its columns."""

    relations: list[str] = []
    relation_names: dict[str, list[str]] = {}
    inverses: dict[str, str] = {}
    types: list[str] = []
    mediator_types: list[int] = []
    hidden_types: list[int] = []
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
        """Write all batches; count entities and edges that are malformed into ``dropped``."""
        self.folder.mkdir(parents=True, exist_ok=True)
        writers: dict[str, ColumnWriter] = {}
        with ExitStack() as stack:
            for batch in batches:
                for name, rows in self._columns(batch, dropped):
                    if len(rows):
                        if name not in writers:
                            writer = ColumnWriter(self._path(name), rows.schema)
                            writers[name] = stack.enter_context(writer)
                        writers[name].append(rows)
        scanned, types = self.scanned, list(self._types)
        scanned.relations, scanned.types = list(self._relations), types
        if self._rules is not None:
            mediators, shown = self._rules.mediators, self._rules.shown
            scanned.mediator_types = [n for n, name in enumerate(types) if name in mediators]
            scanned.hidden_types = [n for n, name in enumerate(types) if not shown(name)]
        (self.folder / _STATE).write_text(scanned.model_dump_json(), encoding="utf-8")

    @classmethod
    def open(cls, folder: Path) -> Spool:
        """Return the columns that an earlier scan wrote."""
        spool = cls(folder)
        spool.scanned = Scanned.model_validate_json((folder / _STATE).read_bytes())
        return spool

    def read(self, name: str) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a file of columns, none if there is no such file."""
        return read_columns(self._path(name))

    def edge_files(self) -> list[str]:
        """Return the names of the files that hold edges."""
        return sorted(path.stem for path in self.folder.glob("edges-*.arrow"))

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.arrow"

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
                names = self.scanned.relation_names.setdefault(row["id"], [])
                if row["name"]:
                    names.append(row["name"])
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
        good = pc.greater_equal(numbers, 0)
        if lost := len(batch) - good.true_count:
            dropped[NO_RELATION] += lost
            batch = batch.filter(good)
        return name, batch

    def _entities(
        self, rows: pa.RecordBatch, dropped: Counter[str]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        good = _some(rows.column("id"))
        if lost := len(rows) - good.true_count:
            dropped[NO_ID] += lost
            rows = rows.filter(good)
        ids, names = rows.column("id"), rows.column("name")
        yield "entities", rows.select(_ENTITY.names).cast(_ENTITY)
        named = _some(names)
        yield "names-text", _names(ids.filter(named), names.filter(named), 0)
        yield "names-text", _names(*_flat(ids, rows.column("aliases")), ALIAS)
        owners, types = _flat(ids, rows.column("types"))
        numbers = self._numbers(types, self._types)
        yield "types-text", pa.RecordBatch.from_arrays([owners, numbers], names=["id", "type"])

    def _numbers(self, column: pa.Array, known: dict[str, int]) -> pa.Array:
        """Return the number of each string in ``known``, which takes new ones; -1 if empty."""
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
    return owners.filter(_some(texts)), texts.filter(_some(texts))


def _some(texts: pa.Array) -> pa.BooleanArray:
    return pc.fill_null(pc.greater(pc.binary_length(texts), 0), False)

"""The scan: a loader's batches, written down as they come, in columns that later stages sort.

Ids stay as they are (text, or numbers for mids); relations and types become small integers. Which
entities there are is decided later: that takes all batches.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

from kgqa.graph.model import (
    ALIAS,
    EDGE_SCHEMA,
    Batch,
    EdgeBatch,
    EntityBatch,
    Kind,
    NameBatch,
    RelationBatch,
    TypeBatch,
    TypeRules,
    ValueBatch,
)
from kgqa.graph.names import iri_names
from kgqa.loaders.base import lose
from kgqa.loading.columns import ColumnWriter, read_columns
from kgqa.loading.facts import entity_values, fact_batches, reified
from kgqa.loading.type_relations import (
    SUBCLASS,
    TypeRelations,
    first_names,
    property_of,
    superclasses,
    type_batches,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Set
    from pathlib import Path


NO_ID = "entity without an id"
NO_RELATION = "edge without a relation"
UNKNOWN_END = "edge with an unknown end"
# What rows say of an id besides its kind, as bits beside it: all rows of an id are united.
CALLED_BY_ID, MEDIATOR_IF_NAMELESS, CALLED_BY_IRI, UNLESS_RELATION = 4, 8, 16, 32
_STATE = "scan.json"
_FACTS = "facts"
_ENTITY = pa.schema([("id", pa.string()), ("kind", pa.uint8()), ("properties", pa.string())])
_VALUE = pa.schema([("id", pa.string()), ("name", pa.string())])
_EDGE = ("head", "relation", "tail", "properties")


class Scanned(BaseModel):
    """What a scan keeps besides its columns: names of relations and types, and flags."""

    relations: list[str] = []
    relation_names: dict[str, list[str]] = {}
    properties: list[str] = []  # ids that name further relations without being nodes
    inverses: dict[str, str] = {}
    types: list[str] = []
    mediator_types: list[int] = []
    hidden_types: list[int] = []
    named_mids: bool = False
    walked: list[str] = []  # properties of entities that walks see
    reified: list[str] = []  # relations whose edges are facts with an identity
    type_relations: dict[str, list[str]] = {}  # those that say of what kind a thing is: the kinds


class Spool:
    """The columns of a scan, in files of a folder.

    Files: ``entities`` (id, kind, properties), ``names-*`` (id, text, rank), ``types-*`` (id,
    type), ``values`` (id, name), ``edges-*`` (head, relation, tail, perhaps properties); the star
    is ``mid`` for numbers and ``text`` for strings, for edges of both ends. Properties that are
    walked have become edges here (:mod:`kgqa.loading.facts`).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scanned = Scanned()
        self._relations: dict[str, int] = {}
        self._types: dict[str, int] = {}
        self._rules: TypeRules | None = None

    def write(
        self,
        batches: Iterable[Batch],
        dropped: Counter[str],
        type_relations: TypeRelations = TypeRelations(),  # noqa: B008
    ) -> None:
        """Write all batches; malformed entities and edges are left out and counted in ``dropped``.

        Edges with qualifiers become facts, and relations that give types are found.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        relations: set[str] = set()  # that are reified
        walked: set[str] = set()

        def scanned() -> Iterator[tuple[str, pa.RecordBatch]]:
            """Yield (file name, rows) of the batches; set aside edges with walked properties."""
            for batch in batches:
                if isinstance(batch, EdgeBatch) and batch.walked:
                    relations.update(reified(batch))
                    walked.update(batch.walked)
                    yield _FACTS, batch.rows.cast(EDGE_SCHEMA)
                    continue
                yield from self._columns(batch, dropped)
                if isinstance(batch, EntityBatch) and batch.walked:
                    self.scanned.walked = sorted({*self.scanned.walked, *batch.walked})
                    for made in entity_values(batch):
                        yield from self._columns(made, dropped)

        self._append(scanned(), "")
        self.scanned.reified = sorted(relations)
        if self._path(_FACTS).exists():
            facts = self._fact_batches(relations, walked, dropped)
            self._append((c for made in facts for c in self._columns(made, dropped)), ".facts")
            self._path(_FACTS).unlink()
        self._name_relations()
        kinds = self._find_type_relations(type_relations)
        self._append((c for made in kinds for c in self._columns(made, dropped)), ".kinds")
        scanned_, types = self.scanned, list(self._types)
        scanned_.relations, scanned_.types = list(self._relations), types
        if self._rules is not None:
            mediators, shown = self._rules.mediators, self._rules.shown
            scanned_.mediator_types = [n for n, name in enumerate(types) if name in mediators]
            scanned_.hidden_types = [n for n, name in enumerate(types) if not shown(name)]
        (self.folder / _STATE).write_text(scanned_.model_dump_json(), encoding="utf-8")

    def _append(self, columns: Iterable[tuple[str, pa.RecordBatch]], part: str) -> None:
        """Append rows to the files that they name; ``part``: an ending of the files' names."""
        writers: dict[str, ColumnWriter] = {}
        with ExitStack() as stack:
            for name, rows in columns:
                if len(rows):
                    if name not in writers:
                        writer = ColumnWriter(self._path(name, part), rows.schema)
                        writers[name] = stack.enter_context(writer)
                    writers[name].append(rows)

    def _fact_batches(
        self, relations: Set[str], walked: Set[str], dropped: Counter[str]
    ) -> Iterator[Batch]:
        """Yield the edges set aside; those of reified relations as facts.

        Facts without a known end are left out and counted.
        """
        ids = [b.column("id") for name in ("entities", "values") for b in self.read(name)]
        known = pc.unique(pa.chunked_array(ids, pa.string()))
        reified_ = pa.array(sorted(relations), pa.string())
        for rows in chain(self._plain_edges(relations), self.read(_FACTS)):
            chosen = pc.is_in(rows.column("relation"), value_set=reified_)
            yield EdgeBatch(rows.filter(pc.invert(chosen)))
            facts = rows.filter(chosen)
            ends = (pc.is_in(facts.column(end), value_set=known) for end in ("head", "tail"))
            whole = pc.and_(*ends)
            if lost := len(facts) - whole.true_count:
                lose(dropped, UNKNOWN_END, lost, _shown(facts.filter(pc.invert(whole)).slice(0, 1)))
            yield from fact_batches(facts.filter(whole), walked)

    def _name_relations(self) -> None:
        """Name relations that no relation batch named by the first name of their ids, if any."""
        given = self.scanned.relation_names
        nameless = [relation for relation in self._relations if not given.get(relation)]
        described = {relation: property_of(relation) for relation in nameless}
        ids = pa.array(sorted({*nameless, *described.values()} - {""}), pa.string())
        named = first_names(self.read("names-text"), ids)
        for relation, by in described.items():
            if name := named.get(relation) or named.get(by):
                given[relation] = [name]
        self.scanned.properties = sorted(named.keys() & set(described.values()))

    def _find_type_relations(self, type_relations: TypeRelations) -> Iterator[Batch]:
        """Find the relations that give types; yield these types as batches."""
        named = self.scanned.relation_names
        for relation, number in self._relations.items():
            edges = partial(self._edges_of, number)
            classes = type_relations.classes((relation, *named.get(relation, ())), edges)
            if classes is None:
                continue
            chain_of = self._relations.get(SUBCLASS)
            of_classes = self._edges_of(chain_of) if chain_of is not None else ()
            above = superclasses(of_classes, classes)
            every = sorted({*classes.to_pylist()}.union(*above.values()))
            named_classes = first_names(self.read("names-text"), pa.array(every, pa.string()))
            words = iri_names(pa.array(every, pa.string()))[0].to_pylist()
            called = {
                id_: named_classes.get(id_) or word or id_
                for id_, word in zip(every, words, strict=True)
            }
            self.scanned.type_relations[relation] = sorted(set(called.values()))
            yield from type_batches(edges(), called, above)

    def _edges_of(self, relation: int) -> Iterator[pa.RecordBatch]:
        """Yield the edges of one relation, given by number, between text ids."""
        for name in self.edge_files():
            for rows in self.read(name) if name.startswith("edges-text-text") else ():
                yield rows.filter(pc.equal(rows.column("relation"), relation))

    def _plain_edges(self, relations: Set[str]) -> Iterator[pa.RecordBatch]:
        """Yield the edges of reified relations from other batches, and remove them from files."""
        numbers = [n for name, n in self._relations.items() if name in relations]
        if not numbers:
            return
        names = pa.array(list(self._relations), pa.string())
        for name in ("edges-text-text", "edges-text-text-about"):
            if not self._path(name).exists():
                continue
            left = self._path(name, ".left")
            with ExitStack() as stack:
                writer: ColumnWriter | None = None
                for rows in read_columns(self._path(name)):
                    chosen = pc.is_in(rows.column("relation"), pa.array(numbers, pa.int32()))
                    writer = writer or stack.enter_context(ColumnWriter(left, rows.schema))
                    writer.append(rows.filter(pc.invert(chosen)))
                    taken = rows.filter(chosen)
                    columns = {n: taken.column(n) for n in taken.schema.names}
                    columns["relation"] = names.take(columns["relation"])
                    columns.setdefault("properties", pa.nulls(len(taken), pa.string()))
                    yield pa.RecordBatch.from_pydict(columns).select(_EDGE).cast(EDGE_SCHEMA)
            left.replace(self._path(name))

    @classmethod
    def open(cls, folder: Path) -> Spool:
        """Open the columns of an earlier scan."""
        spool = cls(folder)
        spool.scanned = Scanned.model_validate_json((folder / _STATE).read_bytes())
        return spool

    def read(self, name: str) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a file of columns, none if the file does not exist."""
        for part in ("", ".facts", ".kinds"):
            yield from read_columns(self._path(name, part))

    def edge_files(self) -> list[str]:
        """Return the names of the files that hold edges."""
        names = {path.name.partition(".")[0] for path in self.folder.glob("edges-*.arrow")}
        return sorted(names)

    def _path(self, name: str, part: str = "") -> Path:
        """Return the path of a file of columns."""
        return self.folder / f"{name}{part}.arrow"

    def _columns(self, batch: Batch, dropped: Counter[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield (file name, rows) of one batch."""
        if isinstance(batch, EdgeBatch):
            yield self._edges(batch.rows, dropped)
        elif isinstance(batch, NameBatch):
            rows = batch.rows
            self.scanned.named_mids |= batch.defines
            yield f"names-{_id_form(rows.column('id'))}", rows
        elif isinstance(batch, TypeBatch):
            ids = batch.rows.column("id")
            numbers = self._numbers_of(batch.rows.column("type"), self._types)
            rows = pa.RecordBatch.from_arrays([ids, numbers], names=["id", "type"])
            yield f"types-{_id_form(ids)}", rows
        elif isinstance(batch, ValueBatch):
            yield "values", batch.rows.cast(_VALUE)
        elif isinstance(batch, EntityBatch):
            yield from self._entity_columns(batch, dropped)
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
        """Return the file name and rows of edges; edges without a relation are dropped."""
        head, relation, tail, properties = (rows.column(name) for name in _EDGE)
        numbers = self._numbers_of(relation, self._relations)
        columns = {"head": head, "relation": numbers, "tail": tail}
        name = f"edges-{_id_form(head)}-{_id_form(tail)}"
        if properties.null_count < len(properties):
            columns["properties"] = properties
            name += "-about"
        batch = pa.RecordBatch.from_pydict(columns)
        good = pc.greater_equal(numbers, 0)
        if lost := len(batch) - good.true_count:
            lose(dropped, NO_RELATION, lost, _shown(rows.filter(pc.invert(good)).slice(0, 1)))
            batch = batch.filter(good)
        return name, batch

    def _entity_columns(
        self, batch: EntityBatch, dropped: Counter[str]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield (file name, rows) of entities; those without an id are dropped."""
        rows = batch.rows
        good = _is_nonempty(rows.column("id"))
        if lost := len(rows) - good.true_count:
            lose(dropped, NO_ID, lost, rows.column("name").filter(pc.invert(good))[0].as_py() or "")
            rows = rows.filter(good)
        ids, names = rows.column("id"), rows.column("name")
        about = rows.select(_ENTITY.names).cast(_ENTITY)
        if batch.by_id:
            kinds = about.column("kind").to_numpy()
            kinds = np.where(kinds == Kind.ENTITY, CALLED_BY_ID, MEDIATOR_IF_NAMELESS)
            kinds += CALLED_BY_IRI * batch.by_iri + UNLESS_RELATION * batch.unless_relation
            about = about.set_column(1, _ENTITY.field("kind"), pa.array(kinds.astype(np.uint8)))
        yield "entities", about
        named = _is_nonempty(names)
        yield "names-text", _name_rows(ids.filter(named), names.filter(named), 0)
        yield "names-text", _name_rows(*_flattened(ids, rows.column("aliases")), ALIAS)
        owners, types = _flattened(ids, rows.column("types"))
        numbers = self._numbers_of(types, self._types)
        yield "types-text", pa.RecordBatch.from_arrays([owners, numbers], names=["id", "type"])

    def _numbers_of(self, column: pa.Array, known: dict[str, int]) -> pa.Array:
        """Return the number of each string in ``known``, adding new ones; -1 if null or empty."""
        if not isinstance(column, pa.DictionaryArray):
            column = column.dictionary_encode()
        places = [
            known.setdefault(text, len(known)) if text else -1
            for text in column.dictionary.to_pylist()
        ]
        table = np.array([*places, -1], dtype=np.int32)
        indices = column.indices.fill_null(len(places)).to_numpy(zero_copy_only=False)
        return pa.array(table[indices])


def _id_form(column: pa.Array) -> str:
    """Return "mid" for a column of numbers, "text" for one of strings."""
    return "mid" if column.type == pa.int64() else "text"


def _name_rows(ids: pa.Array, texts: pa.Array, rank: int) -> pa.RecordBatch:
    """Build rows (id, text, rank) of names with one rank."""
    ranks = pa.array(np.full(len(ids), rank, dtype=np.int64))
    return pa.RecordBatch.from_arrays([ids, texts, ranks], names=["id", "text", "rank"])


def _flattened(ids: pa.Array, lists: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return (id, text) of every nonempty text in the lists."""
    owners, texts = ids.take(pc.list_parent_indices(lists)), pc.list_flatten(lists)
    return owners.filter(_is_nonempty(texts)), texts.filter(_is_nonempty(texts))


def _is_nonempty(texts: pa.Array) -> pa.BooleanArray:
    """Return which texts are neither null nor empty."""
    return pc.fill_null(pc.greater(pc.binary_length(texts), 0), False)


def _shown(edges: pa.RecordBatch) -> str:
    """Return the first of some edges as text; mids, which are numbers here, are not shown."""
    cells = (edges.column(name)[0].as_py() for name in ("head", "relation", "tail"))
    return " ".join(cell for cell in cells if isinstance(cell, str))

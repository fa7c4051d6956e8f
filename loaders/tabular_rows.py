"""Rows of tables → entities and edges, as a mapping says. No row is lost without its name.

A row is an entity, an edge, or a line of the rejects file; a cell that points to nothing, or is not
of its column's type, is a line of it, too, and the rest of its row is kept.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import UsageError
from kgqa.graph.names import KEY_WORDS
from kgqa.lexicon.codes import codes_of, said_of_codes
from kgqa.loaders.base import Rejects, edge_batch, entity_batch, relation_batch
from kgqa.loaders.strings import json_objects, mask_of
from kgqa.loaders.tabular_mapping import ARRAY, ColumnMapping, TableMapping, spoken, words
from kgqa.loaders.tabular_values import LONG, as_json, date_form, members

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set

    from kgqa.graph.model import Batch, BoolArray, EdgeBatch, IntArray
    from kgqa.loaders.tabular_table import Table

_SLICE = 1 << 16  # rows that are put together at once
_TEXT = pa.string()
_NO_TEXT = pa.scalar(None, _TEXT)
_CODE = re.compile(r"[A-Z][a-z>]{1,3}[A-Z]")  # a relation called by a code: GaD


class Rows:
    """The rows of some tables, converted to entities and edges by their mappings."""

    def __init__(
        self, tables: Mapping[str, Table], mapping: Mapping[str, TableMapping], rejects: Rejects
    ) -> None:
        """Compute the id of every row. Raises UsageError if a mapping names missing columns."""
        self._tables = tables
        self._mapping = mapping
        self._rejects = rejects
        self._things: dict[str, list[pa.Array]] = {}
        self._labels: dict[str, list[pa.Table]] = {}  # type -> (thing, name)
        self._relations: set[str] = set()
        self._forms: dict[tuple[str, str], str] = {}
        self._targets: dict[str, tuple[pa.Array, pa.Array]] = {}
        for name in tables:
            _check(name, tables, mapping)
        self._ids = {
            name: self._ids_of(table, mapping[name])
            for name, table in tables.items()
            if _has_entities(mapping[name])
        }

    def batches(self) -> Iterator[Batch]:
        """Yield entities and edges of each table, then entities that are values, then relations."""
        for name, table in self._tables.items():
            mapped = self._mapping[name]
            for start in range(0, len(table), _SLICE):
                part = _TableSlice(table, mapped, start, min(start + _SLICE, len(table)))
                if name in self._ids:
                    ids = self._ids[name][part.start : part.end]
                    yield from self._entities(part, ids)
                if mapped.edge:
                    yield from self._row_edges(part)
                if name in self._ids:
                    yield from self._link_edges(part, ids)
        for type_, columns in self._things.items():
            prefix, names = f"{type_}/", pc.unique(pa.chunked_array(columns, _TEXT))
            ids = pc.binary_join_element_wise(prefix, names, "")
            alike = [row_ids for name, row_ids in self._ids.items()
                     if prefix.startswith(self._mapping[name].prefix)]  # fmt: skip
            if alike:  # some things have a row
                bare = pc.invert(pc.is_in(ids, value_set=pa.chunked_array(alike, _TEXT)))
                names, ids = names.filter(bare), ids.filter(bare)
            number = pc.match_substring_regex(names, "^[0-9]+$")  # an id, not a name
            called = pc.binary_join_element_wise(spoken(type_).capitalize(), names, " ")
            called = pc.if_else(number, called, names)
            aliases = None
            if labels := self._labels.get(type_):
                given = pa.concat_tables(labels).combine_chunks()
                said = given["name"].combine_chunks()
                said = said.take(pc.index_in(names, value_set=given["thing"].combine_chunks()))
                code = pc.and_(said.is_valid(), pc.match_substring_regex(names, r"\p{L}"))
                starts = np.append(0, np.cumsum(mask_of(code))).astype(np.int32)
                aliases = pa.ListArray.from_arrays(starts, names.filter(code))
                called = pc.coalesce(said, called)
            elif codes := codes_of(words(type_)[-1]):
                meant = said_of_codes(codes, names.to_pylist())
                aliases = pa.array([[one] if one else [] for one in meant], pa.list_(_TEXT))
            yield entity_batch(ids, name=called, aliases=aliases, types=[[type_]] * len(ids))
        relations = sorted(self._relations)
        said = [each if _CODE.fullmatch(each) else spoken(each) for each in relations]
        yield relation_batch(dict(zip(relations, said, strict=True)))

    # -- ids --------------------------------------------------------------------------------

    def _ids_of(self, table: Table, mapped: TableMapping) -> pa.Array:
        """Return the id of each row; null, and rejected, if its key is empty or repeats.

        A row that is an edge has null, too, and is not rejected.
        """
        rows = pa.array(table.rows).cast(_TEXT)
        if not mapped.key:
            return pc.binary_join_element_wise(mapped.prefix, rows, "")
        columns = [_texts(table.columns[name]) for name in mapped.key]
        keys = pc.binary_join_element_wise(*columns, "/") if len(columns) > 1 else columns[0]
        there = mask_of(keys.is_valid())
        if mapped.edge:  # rows of both kinds stand in one table
            there |= mask_of(_texts(table.columns[mapped.edge.head]).is_valid())
        said = ", ".join(mapped.key)
        for row in np.flatnonzero(~there).tolist():
            self._reject(table, row, f"no {said}")
        first = pc.index_in(keys, value_set=keys, skip_nulls=True)
        again = mask_of(pc.not_equal(first, pa.array(np.arange(len(keys), dtype=np.int32))))
        for row in np.flatnonzero(again).tolist():
            number = int(table.rows[first[row].as_py()])
            self._reject(table, row, f"the {said} of row {number} again")
        keys = pc.if_else(pa.array(~again), keys, _NO_TEXT)
        return pc.binary_join_element_wise(mapped.prefix, keys, "")

    def _target_ids(self, to: str) -> tuple[pa.Array, pa.Array]:
        """Return the values that a column may reference by ``to``, and the entity id of each."""
        if to not in self._targets:
            texts, ids = [], []
            for name, column in _referenced(to, self._mapping):
                if name not in self._ids:  # rows that are added later point to stored ones
                    continue
                row_ids = self._ids[name]
                mapped = self._mapping[name]
                if column:
                    cells = _texts(self._tables[name].columns[column])
                else:
                    cells = pc.utf8_slice_codeunits(row_ids, len(mapped.prefix))
                good = pc.and_(cells.is_valid(), row_ids.is_valid())
                texts.append(cells.filter(good))
                ids.append(row_ids.filter(good))
            empty = pa.array([], _TEXT)
            self._targets[to] = (
                pa.concat_arrays(texts) if texts else empty,
                pa.concat_arrays(ids) if ids else empty,
            )
        return self._targets[to]

    def _linked(
        self, part: _TableSlice, column: str, rows: IntArray, texts: pa.Array, kind: ColumnMapping
    ) -> pa.Array:
        """Return the id of the entity that each cell references; null, and rejected, if unresolved.

        ``rows``: the row of each cell of ``texts``; ``kind``: the column's mapping. Cells that are
        entities themselves are noted, to be written as such.
        """
        if kind.thing:
            self._things.setdefault(kind.thing, []).append(pc.unique(texts))
            if kind.called in part.table.columns:
                said = _texts(pa.chunked_array([part.cells(kind.called)])).take(pa.array(rows))
                pairs = pa.table([texts, said], names=["thing", "name"]).drop_null()
                self._labels.setdefault(kind.thing, []).append(pairs)
            return pc.binary_join_element_wise(f"{kind.thing}/", texts, "")
        values, ids = self._target_ids(kind.to)
        targets = ids.take(pc.index_in(texts, value_set=values))
        for name, key in _referenced(kind.to, self._mapping):
            if name not in self._ids and "/".join(self._mapping[name].key) in (key, ""):
                given = pc.binary_join_element_wise(self._mapping[name].prefix, texts, "")
                targets = pc.coalesce(targets, given)
        where = kind.to.rpartition(".")[0] or "thing"
        for place in np.flatnonzero(mask_of(targets.is_null())).tolist():
            reason = f"no {where} has the {column} {texts[place].as_py()!r:.60}"
            self._reject(part.table, part.start + int(rows[place]), reason)
        return targets

    # -- entities ---------------------------------------------------------------------------

    def _entities(self, part: _TableSlice, ids: pa.Array) -> Iterator[Batch]:
        """Yield batches of the entities of a slice, with names, aliases, types and properties."""
        mapped = part.mapped
        keys = pc.utf8_slice_codeunits(ids, len(mapped.prefix))
        names = _name(part, mapped, keys)
        coded = [key for key in mapped.key if key not in mapped.name]
        aliases = None
        if mapped.name and len(coded) == 1:  # a code that people may write: not a mere number
            code = pc.match_substring_regex(keys, r"\p{L}")
            starts = np.append(0, np.cumsum(mask_of(code))).astype(np.int32)
            aliases = pa.ListArray.from_arrays(starts, keys.filter(code))
        types = _types(part, mapped)
        named = mapped.name if len(mapped.name) == 1 else ()
        # a code of its own that people ask for: a SKU, a symbol; not ``customer_id``
        asked = {
            key
            for key in (coded if mapped.name and len(mapped.key) == 1 else ())
            if words(key)[-1] not in KEY_WORDS
            and (kind := mapped.columns.get(key)) is not None
            and kind.type in (None, "text")
        }
        properties, walked = self._properties(part, {*mapped.key, *named} - asked)
        about = {"name": names, "aliases": aliases, "types": types, "properties": properties}
        good = ids.is_valid()
        about = {name: column.filter(good) for name, column in about.items() if column is not None}
        yield replace(entity_batch(ids.filter(good), **about), walked=walked)

    def _properties(self, part: _TableSlice, shown: Set[str]) -> tuple[pa.Array, frozenset[str]]:
        """Return rows' properties and their source positions as JSON, and which become edges.

        Those of the columns ``shown`` do not: they are in the id or the name.
        """
        columns: dict[str, pa.Array] = {}
        walked = set()
        for name, kind in part.columns():
            if not kind.property:
                continue
            column = columns[kind.property] = self._json_column(part, name, kind)
            if name not in shown:
                walked.add(kind.property)
                if (pc.min(pc.utf8_length(column)).as_py() or LONG) < LONG:
                    self._relations.add(kind.property)
        return json_objects({**columns, **part.provenance()}, len(part)), frozenset(walked)

    def _json_column(self, part: _TableSlice, name: str, kind: ColumnMapping) -> pa.Array:
        """Return the cells of a column as JSON; cells of another type are rejected and null.

        ``kind``: the column's mapping.
        """
        cells = part.cells(name)
        type_ = kind.type or "text"
        form = kind.form or (type_ in ("date", "datetime") and self._form(part.table, name)) or ""
        if not kind.split and not pa.types.is_list(cells.type):
            column, lost = as_json(cells, type_, kind.decimal, form)
            for row in np.flatnonzero(lost).tolist():
                self._reject_cell(part, name, row, cells[row].as_py(), type_)
            return column
        rows, texts = members(cells, kind.split)
        values, lost = as_json(texts, type_, kind.decimal, form)
        owners = rows.to_numpy()
        for place in np.flatnonzero(lost).tolist():
            self._reject_cell(part, name, int(owners[place]), texts[place].as_py(), type_)
        kept = values.is_valid()
        owners = owners[mask_of(kept)]
        starts = np.searchsorted(owners, np.arange(len(part) + 1)).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(starts), values.filter(kept))
        joined = pc.binary_join_element_wise("[", pc.binary_join(lists, ", "), "]", "")
        return pc.if_else(pc.greater(pc.list_value_length(lists), 0), joined, _NO_TEXT)

    def _form(self, table: Table, name: str) -> str:
        """Return the date format of a whole column, since a slice may fit several formats."""
        if (table.name, name) not in self._forms:
            cells = table.columns[name].combine_chunks()
            texts = pc.list_flatten(cells) if pa.types.is_list(cells.type) else cells
            self._forms[table.name, name] = date_form(pc.unique(texts))
        return self._forms[table.name, name]

    def _reject_cell(self, part: _TableSlice, name: str, row: int, text: str, type_: str) -> None:
        """Reject a cell that is not of its column's type."""
        self._reject(
            part.table, part.start + row, f"the {name} {text!r:.60} is not of type {type_}"
        )

    # -- edges ------------------------------------------------------------------------------

    def _link_edges(self, part: _TableSlice, ids: pa.Array) -> Iterator[EdgeBatch]:
        """Yield the edges from entities, rows' ``ids``, to what their columns reference.

        Cells that reference nothing are skipped.
        """
        provenance = json_objects(part.provenance(), len(part))
        for name, kind in part.columns():
            if not kind.relation:
                continue
            rows, texts = members(part.cells(name), kind.split)
            tails = self._linked(part, name, rows.to_numpy(), texts, kind)
            heads = ids.take(rows)
            good = pc.and_(heads.is_valid(), tails.is_valid())
            if pc.any(good).as_py():
                self._relations.add(kind.relation)
                relation = pa.repeat(pa.scalar(kind.relation), len(heads))
                columns = [heads, relation, tails, provenance.take(rows)]
                yield edge_batch(*(column.filter(good) for column in columns))

    def _row_edges(self, part: _TableSlice) -> Iterator[EdgeBatch]:
        """Yield the edges that rows of a table of edges are; rows that lack an end are rejected."""
        edge = part.mapped.edge
        if edge is None:
            return
        ends: list[pa.Array] = []
        filled: list[BoolArray] = []
        for name in (edge.head, edge.tail):
            cells = part.cells(name)
            rows = np.flatnonzero(mask_of(cells.is_valid()))
            filled.append(mask_of(cells.is_valid()))
            targets = self._linked(part, name, rows, cells.drop_null(), part.mapped.columns[name])
            column = np.full(len(part), -1)
            column[rows] = np.arange(len(rows))
            ends.append(targets.take(pa.array(column, mask=column < 0)))
        if edge.types:
            relations = part.cells(edge.types)
        else:
            relations = pa.repeat(pa.scalar(edge.relation), len(part))
        lacking = ~(filled[0] & filled[1] & mask_of(relations.is_valid()))
        if part.mapped.key:  # rows without ends are things
            lacking &= filled[0] | filled[1]
        for row in np.flatnonzero(lacking).tolist():
            self._reject(part.table, part.start + row, "an end or the relation of an edge is empty")
        properties, walked = self._properties(part, frozenset())
        good = pc.and_(pc.and_(ends[0].is_valid(), ends[1].is_valid()), relations.is_valid())
        if good.true_count:
            self._relations.update(pc.unique(relations.filter(good)).to_pylist())
            columns = [ends[0], relations, ends[1], properties]
            batch = edge_batch(*(column.filter(good) for column in columns))
            yield replace(batch, walked=walked)

    def _reject(self, table: Table, row: int, reason: str) -> None:
        """Reject a row."""
        shown = {name: column[row].as_py() for name, column in table.columns.items()}
        text = json.dumps(shown, ensure_ascii=False)
        self._rejects.add(table.source, int(table.rows[row]), reason, text)


class _TableSlice:
    """Consecutive rows of a table, with the table's mapping."""

    def __init__(self, table: Table, mapped: TableMapping, start: int, end: int) -> None:
        self.table = table
        self.mapped = mapped
        self.start = start
        self.end = end
        self._cells: dict[str, pa.Array] = {}

    def __len__(self) -> int:
        return self.end - self.start

    def columns(self) -> Iterator[tuple[str, ColumnMapping]]:
        """Yield (name, mapping) of the mapped columns."""
        for name, kind in self.mapped.columns.items():
            if name in self.table.columns and not kind.skip:
                yield name, kind

    def cells(self, name: str) -> pa.Array:
        """Return the cells of a column."""
        if name not in self._cells:
            column = self.table.columns[name].slice(self.start, len(self)).combine_chunks()
            self._cells[name] = column
        return self._cells[name]

    def provenance(self) -> dict[str, pa.Array]:
        """Return source and row number of each row as columns of JSON."""
        file = json.dumps(self.table.source, ensure_ascii=False)
        rows = pa.array(self.table.rows[self.start : self.end]).cast(_TEXT)
        return {"_file": pa.repeat(pa.scalar(file), len(self)), "_row": rows}


def _check(name: str, tables: Mapping[str, Table], mapping: Mapping[str, TableMapping]) -> None:
    """Raise UsageError if a table's mapping is incomplete or contradicts its columns."""
    table = tables[name]
    if name not in mapping:
        raise UsageError(
            f"The mapping says nothing of the table {name}.",
            f"Add [{name}] to it, or leave out {table.source}.",
        )
    mapped = mapping[name]
    edge = mapped.edge
    ends = [edge.head, edge.tail] if edge else []
    named = [edge.types] if edge and edge.types else []
    named += [each.called for each in mapped.columns.values() if each.called]
    for column in (*mapped.key, *mapped.name, *mapped.types, *ends, *named):
        if column not in table.columns:
            raise UsageError(
                f"The mapping of {name} names the column {column!r}, which {table.source} lacks.",
                f"Its columns are: {', '.join(table.columns)}.",
            )
    if edge and not (edge.relation or edge.types):
        raise UsageError(
            f"The mapping says that rows of {name} are edges, and not of which relation.",
            'Name it in edge as relation = "…", or its column as types = "…".',
        )
    unknown = ColumnMapping()
    for column in {**mapped.columns, **dict.fromkeys(ends)}:
        kind = mapped.columns.get(column, unknown)
        is_end = column in ends
        if kind.skip and not is_end:
            continue
        if (kind.relation or is_end) and bool(kind.to) == bool(kind.thing):
            raise UsageError(
                f"The mapping does not say what {name}.{column} points to.",
                'Give it either to = "table.column" or thing = "Type".',
            )
        if (kind.to or kind.thing) and not (kind.relation or is_end):
            raise UsageError(
                f"The mapping does not say how {name}.{column} is related to what it points to.",
                'Give it relation = "…".',
            )
        if kind.to and not _resolves(kind.to, tables, mapping):
            raise UsageError(
                f"The mapping says that {name}.{column} points to {kind.to}, which is not there.",
                f"Name a table of things and its column: {', '.join(mapping)}.",
            )


def _resolves(to: str, tables: Mapping[str, Table], mapping: Mapping[str, TableMapping]) -> bool:
    """Return whether the column that ``to`` references exists."""
    return to.startswith("(") or any(
        name not in tables or column in tables[name].columns
        for name, column in _referenced(to, mapping)
    )


def _has_entities(mapped: TableMapping) -> bool:
    """Return whether a table's rows are entities, perhaps besides edges."""
    return mapped.edge is None or bool(mapped.key)


def _referenced(to: str, mapping: Mapping[str, TableMapping]) -> Iterator[tuple[str, str]]:
    """Yield (table, column) that ``to`` names; column "" for all keys of an id space."""
    if to.startswith("("):
        space = to.strip("()")
        for name, mapped in mapping.items():
            if _has_entities(mapped) and (mapped.space or "") == space:
                yield name, ""
        return
    name, _, column = to.rpartition(".")
    if name in mapping and _has_entities(mapping[name]):
        yield name, column


def _texts(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array of texts; lists are joined."""
    whole = column.combine_chunks()
    return pc.binary_join(whole, ARRAY) if pa.types.is_list(whole.type) else whole


def _name(part: _TableSlice, mapped: TableMapping, keys: pa.Array) -> pa.Array:
    """Return the name of each row: from its name columns, else its type and key."""
    type_ = spoken(mapped.type).capitalize()
    plain = pc.binary_join_element_wise(type_, keys, " ") if type_ else keys
    if not mapped.name:
        return plain
    columns = [_texts(pa.chunked_array([part.cells(name)])) for name in mapped.name]
    named = (
        pc.binary_join_element_wise(*columns, " ", null_handling="skip")
        if len(columns) > 1
        else columns[0]
    )
    return pc.coalesce(pc.if_else(pc.equal(named, ""), _NO_TEXT, named), plain)


def _types(part: _TableSlice, mapped: TableMapping) -> pa.Array:
    """Return the types of each row: the table's type, and values of its type columns."""
    first = [mapped.type] if mapped.type else []
    if not mapped.types:
        return pa.array([first] * len(part), pa.list_(_TEXT))
    types: list[list[str]] = [list(first) for _ in range(len(part))]
    for name in mapped.types:
        rows, texts = members(part.cells(name), mapped.columns[name].split or ARRAY)
        for row, text in zip(rows.to_pylist(), texts.to_pylist(), strict=True):
            types[row] += [type_ for type_ in text.split(":") if type_]
    return pa.array(types, pa.list_(_TEXT))

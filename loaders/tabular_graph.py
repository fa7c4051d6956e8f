"""Tables of nodes and of edges whose relation stands in a column, as graphs are exchanged.

KGX, Hetionet, PrimeKG, Gephi, OpenKE-like and other exports have a table of edges with a column
that names the relation, and mostly one of nodes, whose key the two ends come from. The ends are
found by the values that they share with that key, whatever their columns are called.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.lexicon.english import says_relation
from kgqa.loaders.tabular_mapping import (
    HEADS,
    TAILS,
    ColumnMapping,
    EdgeMapping,
    TableMapping,
    from_header,
    words,
)
from kgqa.loaders.tabular_table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_RELATIONS = (
    *("relation", "predicate", "relationship", "relationtype", "reltype", "edgetype", "metaedge"),
    *("interaction", "interactiontype", "edgelabel", "rel"),
)
_LESS_SURE = ("label", "type")  # of a table whose two ends are called so
_KINDS_OF_EDGE = {"directed", "undirected", "mutual", "edge", "link"}
_HEADS, _TAILS = (*HEADS, "x"), (*TAILS, "y")  # elsewhere they are coordinates
_NAMES = ("name", "label", "title", "preferredname", "entityname", "nodename", "displayname")
_TYPES = ("category", "categories", "type", "kind", "class", "nodetype", "entitytype", "label")
_SHARED = 0.85  # share of the values of an end that the key of the nodes has
_ONCE = 0.9  # share of the keys of nodes that differ; a key that comes again is a rejected row
_PREFIX = r"(^|\|)[A-Za-z][\w.-]*:"
_ALL_PREFIXED = r"^[A-Za-z][\w.-]*:[^|]*(\|[A-Za-z][\w.-]*:[^|]*)*$"
_ALL_CODES = r"^[A-Za-z][\w.-]*:[A-Z]*\d+$"
_IN_WORDS = r"^\p{Ll}[\p{L} _-]+$"  # as relations are, and names are not
_MANY = 200  # relations; more are values
_FEW_CLASSES = 10  # kinds of nodes that a short list of them may have
_GENERAL = 5  # types that may say only that there is a relation


def as_graph(tables: Sequence[Table]) -> tuple[list[Table], dict[str, TableMapping]]:
    """Find tables of nodes and edges among ``tables``; return all tables and their mappings.

    A table that has the attributes of both ends beside them (PrimeKG's ``x_id, x_name, …``) is
    split into one of nodes and one of edges. Tables with complete headers, neo4j-admin's and
    APOC's, are left to :func:`~kgqa.loaders.tabular_mapping.from_header`.
    """
    found: dict[str, TableMapping] = {}
    made: list[Table] = []
    stated: list[Table] = []
    for table in tables:
        if (mapping := from_header(table.name, list(table.columns))) is None:
            made += _split_nodes(table) or [table]
            continue
        stated.append(table)
        if mapping.edge is not None and (types := mapping.edge.types):
            relation = _specific_relation(table, types)
            if relation != types:
                mapping.columns.update({types: ColumnMapping(skip=True), relation: ColumnMapping()})
                edge = mapping.edge.model_copy(update={"types": relation})
                found[table.name] = mapping.model_copy(update={"edge": edge})
    for table in made:
        for relation in _relation_columns(table):
            if (ends := _ends(table, relation, made)) is not None:
                nodes, key, head, tail = ends
                _strip_prefix(table, relation)
                found[nodes.name] = _nodes_mapping(nodes, key)
                found[table.name] = _edges_mapping(table, relation, head, tail, nodes, key)
                break
    return [*made, *stated], found


def _bare_name(name: str) -> str:
    """Return a column's name in lowercase without punctuation."""
    return re.sub(r"[\W_]+", "", name.casefold())


def _relation_columns(table: Table) -> Iterator[str]:
    """Yield the columns that may hold the relation of each row, the most certain first."""
    by_name = {_bare_name(name): name for name in table.columns}
    codes: list[str] = []  # columns of codes, such as ``RO:0002434``
    for called in (*_RELATIONS, *_LESS_SURE):
        if (name := by_name.get(called)) is None:
            continue
        column = table.columns[name]
        if not pa.types.is_string(column.type):
            continue
        values = pc.unique(column).drop_null()
        kinds = {value.casefold() for value in values[:10].to_pylist()}
        if (other := _specific_relation(table, name)) != name:
            yield other
        if kinds <= _KINDS_OF_EDGE:
            continue
        if len(values) and _matching(values, _ALL_CODES) == 1.0:
            codes.append(name)
            continue
        said = _matching(values, r"\p{L}{2}") == 1.0  # not ``=`` and ``<`` of measured values
        if len(values) <= _MANY and (said or not len(values)):
            yield name
    yield from codes
    ends = [_called(list(table.columns), by_name, said) for said in (_HEADS, _TAILS)]
    if len(table.columns) == 3 and None not in ends:  # whatever it is called
        between = next(name for name in table.columns if name not in ends)
        column = table.columns[between]
        if pa.types.is_string(column.type):
            values = pc.unique(column).drop_null()
            if len(values) <= _MANY and _matching(values, _IN_WORDS) == 1.0:
                yield between


def _specific_relation(table: Table, relation: str) -> str:
    """Return the column that holds the specific relation, if column ``relation`` is general.

    Returns ``relation`` if no column does.
    """
    if not pa.types.is_string(table.columns[relation].type):
        return relation
    values = pc.unique(table.columns[relation])
    types = [words(str(value)) for value in values.to_pylist()] if len(values) <= _GENERAL else []
    for name, column in table.columns.items() if types else ():
        text = pa.types.is_string(column.type) and not column.null_count
        if name != relation and text and all(says_relation(words(name), of) for of in types):
            return name
    return relation


def _matching(values: pa.Array, pattern: str) -> float:
    """Return the fraction of values that match a pattern."""
    fits = pc.match_substring_regex(values, pattern)
    return float(pc.mean(fits.cast(pa.int8())).as_py() or 0.0)


def _ends(
    table: Table, relation: str, tables: Sequence[Table]
) -> tuple[Table, str, str, str] | None:
    """Find the node table that a table's edges join: (nodes, key, head column, tail column).

    None if fewer than two columns hold keys of one other table of ``tables``.
    """
    named = {_bare_name(name): name for name in table.columns}
    for nodes in tables:
        if nodes is table or not len(nodes):
            continue
        for key in nodes.columns:
            keys = nodes.columns[key]
            if not pa.types.is_string(keys.type) or keys.null_count:
                continue
            known = pc.unique(keys)
            if len(known) < _ONCE * len(keys):
                continue
            sharing = [
                name
                for name, column in table.columns.items()
                if name != relation and _is_among(column, known)
            ]
            if len(sharing) < 2:
                continue
            head = _called(sharing, named, _HEADS) or sharing[0]
            tail = _called([name for name in sharing if name != head], named, _TAILS)
            tail = tail or next(name for name in sharing if name != head)
            called = _called(sharing, named, _HEADS) is not None
            if not called and (len(sharing) > 2 or _bare_name(relation) in _LESS_SURE):
                continue
            return nodes, key, head, tail
    return None


def _called(columns: Sequence[str], named: Mapping[str, str], names: Sequence[str]) -> str | None:
    """Return the first of ``columns`` named as one of ``names``, or ending in one; else None.

    ``named``: the columns by their names without punctuation.
    """
    for name in names:
        for plain, column in named.items():
            is_called = plain in (name, f"{name}id", f"{name}index") or name in words(column)[-1:]
            if column in columns and is_called:
                return column
    return None


def _is_among(column: pa.ChunkedArray, known: pa.Array) -> bool:
    """Return whether most values of a text column are among ``known``; False for other columns."""
    if not pa.types.is_string(column.type) or column.null_count == len(column):
        return False
    shared = pc.is_in(column.drop_null(), value_set=known)
    return bool((pc.mean(shared.cast(pa.int8())).as_py() or 0.0) >= _SHARED)


def _strip_prefix(table: Table, name: str) -> None:
    """Remove a vocabulary's prefix (``biolink:``) from a column if all its values have it."""
    column = table.columns[name]
    is_text = pa.types.is_string(column.type)
    if is_text and _matching(pc.unique(column).drop_null(), _ALL_PREFIXED) == 1.0:
        table.columns[name] = pc.replace_substring_regex(column, _PREFIX, r"\1")


def _nodes_mapping(nodes: Table, key: str) -> TableMapping:
    """Return the mapping of a table of nodes with the key column ``key``."""
    named = {_bare_name(name): name for name in nodes.columns if name != key}
    name = _with_ending(named, _NAMES)
    kind = _with_ending({p: n for p, n in named.items() if n != name}, _TYPES)
    if kind is not None and pa.types.is_list(nodes.columns[kind].type):
        nodes.columns[kind] = pc.binary_join(nodes.columns[kind], "|")
    few = _FEW_CLASSES if name is not None and kind in map(named.get, _TYPES) else 1
    if kind is not None and not _are_classes(nodes.columns[kind], few):
        kind = None
    columns = {}
    if kind is not None:
        _strip_prefix(nodes, kind)
        split = "|" if _matching(pc.unique(nodes.columns[kind]).drop_null(), r"\|") else ""
        columns[kind] = ColumnMapping(split=split)
    for column in nodes.columns:
        if column not in (key, name, kind):
            columns[column] = _as_property(nodes, column)
    return TableMapping(
        type="" if kind is not None else "Node",
        key=(key,),
        name=(name,) if name is not None else (),
        types=(kind,) if kind is not None else (),
        space="",
        columns=columns,
    )


def _with_ending(named: Mapping[str, str], names: Sequence[str]) -> str | None:
    """Return the column whose bare name is one of ``names``, or ends in one; None if none.

    ``named``: the columns by their names without punctuation.
    """
    for name in names:
        if name in named:
            return named[name]
    return next((column for plain, column in named.items() if plain.endswith(tuple(names))), None)


def _are_classes(column: pa.ChunkedArray, few: int) -> bool:
    """Return whether a column has so few distinct values that they are classes.

    ``few``: a number of values that is few in a table of any length.
    """
    values = pc.unique(column).drop_null()
    return 0 < len(values) <= max(few, min(_MANY, len(column) // 2 + 1))


def _edges_mapping(
    table: Table, relation: str, head: str, tail: str, nodes: Table, key: str
) -> TableMapping:
    """Return the mapping of a table of edges, whose ends are keys of the table ``nodes``."""
    columns = {name: ColumnMapping(to=f"{nodes.name}.{key}") for name in (head, tail)}
    for column in table.columns:
        if column not in (head, tail, relation):
            is_type = _bare_name(column) in (*_RELATIONS, *_LESS_SURE)
            general = is_type and _specific_relation(table, column) == relation
            empty = general or _is_redundant(table, column)
            columns[column] = ColumnMapping(skip=True) if empty else _as_property(table, column)
    edge = EdgeMapping(head=head, tail=tail, types=relation)
    return TableMapping(edge=edge, columns=columns)


def _is_redundant(table: Table, name: str) -> bool:
    """Return whether a column of edges only numbers them, or states that they are edges."""
    if not pa.types.is_string(table.columns[name].type):
        return False
    values = pc.unique(table.columns[name]).drop_null()
    kinds = {value.casefold() for value in values[:10].to_pylist()}
    return kinds <= _KINDS_OF_EDGE or (_bare_name(name) == "id" and len(values) == len(table))


def _as_property(table: Table, name: str) -> ColumnMapping:
    """Return the mapping of a column as a property, with the type of its values."""
    from kgqa.loaders.tabular_values import date_form, value_type

    column = table.columns[name]
    if pa.types.is_list(column.type):
        return ColumnMapping(property=name)
    texts = pc.unique(column).drop_null()
    kind = value_type(texts)
    form = date_form(texts) if kind in ("date", "datetime") else ""
    return ColumnMapping(property=name, type=kind, form=form)


def _split_nodes(table: Table) -> list[Table] | None:
    """Split a table with attributes of both ends into nodes and edges; None for another table."""
    pairs = [("x", "y"), ("head", "tail"), ("subject", "object"), ("source", "target")]
    relation = next(_relation_columns(table), None)
    if relation is None:
        return None
    for head, tail in pairs:
        shared = [
            name[len(head) :]
            for name in table.columns
            if name.startswith(f"{head}_") and f"{tail}{name[len(head) :]}" in table.columns
        ]
        ids = [part for part in shared if part in ("_index", "_id", "_identifier", "_name")]
        if not ids or len(shared) < 2:
            continue
        columns: dict[str, pa.ChunkedArray] = {}
        for part in shared:
            both = [table.columns[head + part], table.columns[tail + part]]
            if both[0].type != both[1].type:
                return None
            columns[part[1:]] = pa.chunked_array([c for col in both for c in col.chunks])
        first = pc.index_in(columns[ids[0][1:]], value_set=pc.unique(columns[ids[0][1:]]))
        rows = np.unique(first.combine_chunks().to_numpy(zero_copy_only=False), return_index=True)[
            1
        ]
        nodes = {name: column.take(pa.array(np.sort(rows))) for name, column in columns.items()}
        ends = [head + ids[0], tail + ids[0]]
        others = [
            name
            for name in table.columns
            if name[len(head) :] not in shared and name[len(tail) :] not in shared
        ]
        edges = {name: table.columns[name] for name in (*ends, *others)}
        return [
            Table(f"{table.name} nodes", table.source, nodes, np.sort(rows) + 2),
            Table(table.name, table.source, edges, table.rows, broken=table.broken),
        ]
    return None

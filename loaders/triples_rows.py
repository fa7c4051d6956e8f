"""A table of triples: where head, relation and tail stand, what a cell may be, and its edges."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.graph.model import EDGE_SCHEMA
from kgqa.graph.names import is_storable
from kgqa.loaders.strings import (
    NO_TEXT,
    BlockReport,
    has_nul,
    is_text,
    json_objects,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kgqa.graph.model import IntArray

    Read = tuple[pa.Array, Mapping[int, str]]  # a column, and what is wrong with some of its rows
    ReadColumn = Callable[[int, bool], Read]  # by its place, as JSON or as ids and names


PARTS = ("head", "relation", "tail")
_CALLED = {  # what the columns are called, the likeliest name first, without _ and spaces
    "head": "head subject subj h s source src from start startid headentity entity1 node1 "
    "headid subjectid sourceid fromid srcid",
    "relation": "relation predicate rel pred r p property relationship reltype edgetype metaedge "
    "interaction interactiontype type label edge verb relationid predicateid",
    "tail": "tail object obj t o target dst to end endid tailentity destination entity2 node2 "
    "tailid objectid targetid toid dstid",
}
_SAYS = {part: tuple(called.split()) for part, called in _CALLED.items()}
_WORD = re.compile(r"[\W_]+")
_ID = re.compile(r"(?:^|[_\s-])(?:id|ID|Id)$|[a-z]I[dD]$|:[A-Z_]+(?:\(.*\))?$")
_NAMES = ("name", "title", "code", "key", "uuid")
_VALUE = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?|\d{4}-\d\d-\d\d.*")
_COLUMN_NAME = re.compile(r"[a-z][a-z _]*")
_NAME_LIKE = re.compile(r"[A-Z0-9]")
_KINDS_OF_EDGE = {"directed", "undirected", "mutual", "edge", "link"}
_CODE = re.compile(r"[\w.-]+:[a-z]*\d+")
_FEW = 2  # rows that say nothing of a column
_HINT = (
    "If a row is one thing, load it by `kgqa ingest tables`; if it is a triple, name the columns "
    "by `columns`, for instance relation,head,tail, with _ for one that is not wanted."
)


def places(names: Sequence[str]) -> tuple[int, int, int] | None:
    """Return the indices of head, relation and tail, None if one is missing or ambiguous."""
    by_part = _columns_by_part(names)
    return (
        (by_part["head"], by_part["relation"], by_part["tail"])
        if len(by_part) == len(PARTS)
        else None
    )


def _columns_by_part(names: Sequence[str]) -> dict[str, int]:
    """Return the column of head, relation and tail, without parts named by several columns."""
    plain = [_WORD.sub("", name.lower()) for name in names]
    by_part = {}
    for part in PARTS:
        called = next((name for name in _SAYS[part] if name in plain), None)
        if called is not None and plain.count(called) == 1:
            by_part[part] = plain.index(called)
    return by_part


def check_triples(rows: Sequence[Sequence[str]], source: str) -> None:
    """Raise DumpMalformedError if rows without a header are those of another kind of table."""
    if len(rows) < 2:
        return
    first, others = rows[0], rows[1:]
    count, often = Counter(map(len, rows)).most_common(1)[0]
    shown = ", ".join(first)[:80]
    if count != len(PARTS) and often > len(rows) // 2:
        raise DumpMalformedError(
            f"{source} is not a table of triples: its rows have {count} fields (the first one: "
            f"{shown}).",
            _HINT,
        )
    if len(_columns_by_part(first)) == len(PARTS) - 1:
        lacks = next(part for part in PARTS if part not in _columns_by_part(first))
        raise DumpMalformedError(
            f"The header of {source} ({shown}) does not say which column is the {lacks}.", _HINT
        )
    columns = list(zip(*(row for row in others if len(row) == len(first)), strict=True))
    for place, (cell, column) in enumerate(zip(first, columns, strict=False)):
        said = cell.strip()
        is_name = bool(_ID.search(said)) or said.lower() in _NAMES
        of_values = not _VALUE.fullmatch(said) and all(_VALUE.fullmatch(value) for value in column)
        if place == len(PARTS) - 1:  # tails are values in triples, too, but not each of a new head
            once = len(set(columns[0])) == len(column) > _FEW and first[1] not in columns[1]
            of_values = of_values and once
        if (is_name and cell not in column) or of_values:
            raise DumpMalformedError(
                f"The first row of {source} ({shown}) is the header of another table.", _HINT
            )


_ORDERED = 20  # rows from which their values say where the relation stands
_FEW_RELATIONS = 0.25  # for each row
_SHARED_ENDS = 0.3  # of the fewer values
HALF = "half of a surrogate pair in an escape"
SKIP = "_"  # a column that is not wanted
WHITESPACE = "whitespace"
QUOTED = (",", ";")  # these forms have quotes; in the others a quote is part of a name
_ENOUGH = 0.9  # share of lines that settles the delimiter
_AT_LEAST = 0.5  # share below which no delimiter is taken
_ENCODE = json.JSONEncoder(ensure_ascii=False, default=str, allow_nan=False).encode
DELIMITERS = ("\t", "|", ",", ";")
_RELATION = pa.dictionary(pa.int32(), pa.string())
EDGES = EDGE_SCHEMA.set(1, pa.field("relation", _RELATION, nullable=False))


class Columns:
    """The indices of a row's head, relation, tail and properties.

    ``count``: the number of columns. ``places``: of the three parts. ``others``: (index, name) of
    each property.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Find the parts among the columns' names.

        Raises UsageError if head, relation and tail are not among them once each.
        """
        parts = places(names)
        if parts is None:
            raise UsageError(
                f"The columns {', '.join(map(repr, names))} are not head, relation and tail.",
                "Name each of the three once in `columns`, for instance relation,head,tail;"
                f" write {SKIP} for a column that is not wanted. A table with a row for each thing "
                "is read by `kgqa ingest tables`.",
            )
        self.count = len(names)
        self.places = parts
        self.others = [
            (place, name.strip())
            for place, name in enumerate(names)
            if place not in parts and name.strip() not in (SKIP, "")
        ]


def is_header(fields: Sequence[str]) -> bool:
    """Return whether the fields name head, relation and tail (by any usual name)."""
    return places(fields) is not None


def is_header_of(fields: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether ``fields``, the first row, is a header although the user named the columns.

    Its cells are lowercase words that no other row has in the same column, where a column of the
    others has capitals or digits.
    """
    rows = [row for row in rows if len(row) == len(fields)]
    if not rows or not all(_COLUMN_NAME.fullmatch(cell.strip()) for cell in fields):
        return False
    columns = list(zip(*rows, strict=True))
    if any(cell in column for cell, column in zip(fields, columns, strict=True)):
        return False
    return any(all(_NAME_LIKE.search(cell) for cell in column) for column in columns)


def saying_relation(fields: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rename relation columns of a header that do not hold the relation in words.

    The column remains if no other one names the relation. Gephi writes Directed or Undirected in a
    column called Type, and the relation in Label; KGX has a column ``relation`` that is empty, or
    holds codes (``RO:0002434``), beside ``predicate``.
    """
    said = list(fields)
    while (parts := places(said)) is not None:
        at = parts[1]
        values = {row[at].strip().casefold() for row in rows if len(row) == len(fields)}
        if not values or not all(
            value in _KINDS_OF_EDGE or not value or _CODE.fullmatch(value) for value in values
        ):
            return said
        said[at] = f"edge {said[at].strip() or 'type'} kept"
    return list(fields)


def likely_order(rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Guess which of three columns without a header are head, relation and tail.

    The two ends share values in most graphs. If the first and last column share none, and two
    others do, beside a third of few values, the third is the relation; else the second is.
    """
    if len(rows) < _ORDERED:
        return PARTS
    first, second, third = (set(column) for column in zip(*rows, strict=True))
    if first & third:
        return PARTS
    for relation, one, other, order in (
        (first, second, third, ("relation", "head", "tail")),
        (third, first, second, ("head", "tail", "relation")),
    ):
        shared = len(one & other) / min(len(one), len(other))
        few = len(relation) <= _FEW_RELATIONS * len(rows) and len(relation) > 1
        if shared >= _SHARED_ENDS and few and not relation & (one | other):
            return order
    return PARTS


def check_relations(rows: Sequence[Sequence[str]], at: int, source: str) -> None:
    """Raise DumpMalformedError if relations are numbers although the ends are names.

    ``at``: the column of the relation.
    """
    cells = {place: [row[place] for row in rows] for place in range(len(PARTS))}
    numbers = {place: all(map(_VALUE.fullmatch, column)) for place, column in cells.items()}
    if numbers[at] and not all(numbers.values()):
        raise DumpMalformedError(
            f"{source} is an edge list without a relation: column {at + 1} holds numbers.",
            "Give it a column that names the relation, or say by `columns` what the three are.",
        )


def is_count(text: str) -> bool:
    """Return whether a line is only a number: a count of the lines that follow it."""
    text = text.strip()
    return text.isascii() and text.isdecimal()


def find_delimiter(records: Sequence[str], source: str) -> str:
    """Detect the delimiter that splits most records into the same number of fields, at least 3.

    Raises DumpMalformedError if none does so for half of them.
    """
    records = [record for record in records if record.strip()]
    shares: dict[str, float] = {}
    for delimiter in (*DELIMITERS, WHITESPACE):
        counts = Counter(len(split_record(record, delimiter)) for record in records)
        fields, often = counts.most_common(1)[0] if counts else (0, 0)
        shares[delimiter] = often / len(records) if fields >= len(PARTS) else 0.0
        if shares[delimiter] >= _ENOUGH:
            return delimiter
    best = max(shares, key=shares.__getitem__)
    if shares[best] >= _AT_LEAST:
        return best
    if not records:
        raise DumpMalformedError(f"{source} is empty.", "Give a file that has lines.")
    raise DumpMalformedError(
        f"No delimiter splits the lines of {source} into head, relation and tail"
        f" (line 1: {records[0][:80]!r}).",
        "Give it by `delimiter`, and the columns by `columns` if there are others; a table with a "
        "row for each thing is read by `kgqa ingest tables`.",
    )


def check_delimiter(delimiter: str) -> None:
    """Raise UsageError if a delimiter is not a single character."""
    if delimiter != WHITESPACE and (len(delimiter) != 1 or delimiter in "\r\n"):
        raise UsageError(
            f"The delimiter {delimiter!r} is not one character.", f"Or say {WHITESPACE!r}."
        )


def split_record(record: str, delimiter: str, *, quoted: bool = False) -> list[str]:
    """Split one record into fields, [] if its quotes are malformed.

    ``quoted``: whether quotes are syntax between any delimiters; between commas they are anyway.
    """
    if delimiter == WHITESPACE:
        return record.split()
    if delimiter not in QUOTED and not quoted:
        return record.split(delimiter)
    try:
        return next(csv.reader([record], delimiter=delimiter, strict=True))
    except csv.Error:
        return []


def texts_of(cells: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
    """Convert cells to ids or names; also return the faults by position.

    A missing cell, and a faulty one such as a list, is the empty text.
    """
    if set(map(type, cells)) <= {str}:
        return _written_column(cells, {}, "")
    faults = {
        place: f"{cell!r:.40} is neither an id nor a name"
        for place, cell in enumerate(cells)
        if isinstance(cell, bool | float | list | dict | bytes)
    }
    texts = [
        "" if cell is None or place in faults else str(cell) for place, cell in enumerate(cells)
    ]
    return _written_column(texts, faults, "")


def members_of(cells: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
    """Convert cells to JSON, null if missing; also return the faults by position."""
    return _written_column(list(map(written, cells)), {}, None)


def _written_column(
    texts: Sequence[str | None], faults: dict[int, str], missing: str | None
) -> tuple[pa.Array, dict[int, str]]:
    """Return texts as a column, with ``faults`` and those that cannot be encoded.

    ``missing``: what stands for a text that cannot be encoded.
    """
    try:
        return pa.array(texts, type=pa.string()), faults
    except UnicodeEncodeError:
        good = [is_storable(text or "") for text in texts]
        faults |= {place: HALF for place, fine in enumerate(good) if not fine}
        kept = [text if fine else missing for text, fine in zip(texts, good, strict=True)]
        return pa.array(kept, type=pa.string()), faults


def written(cell: Any) -> str | None:
    """Return a property's value as JSON, None if it is missing: null, "" or NaN."""
    if cell is None or cell == "" or cell != cell:  # NaN
        return None
    if type(cell) is int or (type(cell) is float and math.isfinite(cell)):
        return repr(cell)
    try:
        return _ENCODE(cell)
    except ValueError:  # a number that JSON does not have
        return _ENCODE(_with_finite_numbers(cell))


def _with_finite_numbers(value: Any) -> Any:
    """Replace infinities and NaN in a JSON value by their texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _with_finite_numbers(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_with_finite_numbers(each) for each in value]
    return value


@dataclass(slots=True)
class TriplesPart(BlockReport):
    """The statements of a block.

    ``edges``: batches of ``EDGES``. ``ends``: the distinct ids of their ends that are not values.
    From N-Triples alone come ``labels`` (id, text, rank), ``values`` (id, name), ``typed`` (edges
    that state a type) and ``described`` (ids, perhaps relations', with a name or a type).
    """

    edges: list[pa.RecordBatch] = field(default_factory=list)
    ends: pa.Array = field(default_factory=lambda: NO_TEXT)
    labels: list[pa.RecordBatch] = field(default_factory=list)
    values: list[pa.RecordBatch] = field(default_factory=list)
    described: pa.Array = field(default_factory=lambda: NO_TEXT)
    typed: list[pa.RecordBatch] = field(default_factory=list)

    def add_table(
        self,
        columns: Columns,
        read: ReadColumn,
        numbers: IntArray,
        line: Callable[[int], str],
        faults: Mapping[int, str] | None = None,
    ) -> None:
        """Add the rows of a table with the given columns; malformed ones are rejected.

        ``read`` returns a column as ids or names, or as JSON, null for a missing cell; with faults
        by row. ``faults``: rows known to be malformed. ``line`` returns a row as written in the
        file, for a reject; a blank one is counted. ``numbers``: the rows' line numbers.
        """
        reasons = dict(faults or {})
        parts: list[Any] = []
        by_name: dict[str, Any] = {}
        for place in columns.places:
            column, wrong = read(place, False)
            parts.append(column)
            reasons = {**wrong, **reasons}
        for place, name in columns.others:  # of two equal names the last one counts
            column, wrong = read(place, True)
            by_name[name] = pc.coalesce(column, by_name[name]) if name in by_name else column
            reasons = {**wrong, **reasons}
        bad = [("NUL character", has_nul(column)) for column in parts]
        bad += [(f"{name} is empty", ~is_text(c)) for name, c in zip(PARTS, parts, strict=True)]
        for reason, mask in bad:
            for row in np.flatnonzero(mask).tolist():
                reasons.setdefault(row, reason)
        kept = np.ones(len(numbers), dtype=np.bool_)
        for row, reason in sorted(reasons.items()):
            self.reject(int(numbers[row]), reason, line(row))
            kept[row] = False
        properties = json_objects(by_name, len(numbers))
        rows = [*parts, properties]
        add_edges(self.edges, *([c.filter(kept) for c in rows] if reasons else rows))

    def find_ends(self) -> None:
        """Set ``ends`` to the distinct ends of all edges that are not values.

        The heads of ``typed`` edges become ``described``, which makes no relation a node.
        """
        if self.edges or self.typed:
            heads = [batch.column("head") for batch in self.edges]
            ends = [*heads, *(batch.column("tail") for batch in self.edges + self.typed)]
            self.ends = pc.unique(pa.chunked_array(ends))
        if self.values:
            values = pc.unique(pa.chunked_array([batch.column("id") for batch in self.values]))
            self.ends = self.ends.filter(pc.invert(pc.is_in(self.ends, value_set=values)))


def add_edges(
    edges: list[pa.RecordBatch],
    head: pa.Array,
    relation: pa.Array,
    tail: pa.Array,
    properties: pa.Array,
) -> None:
    """Append a batch of ``EDGES`` made of columns of strings, unless it is empty."""
    if len(head):
        columns = [head, relation.dictionary_encode(), tail, properties]
        edges.append(pa.RecordBatch.from_arrays(columns, schema=EDGES))

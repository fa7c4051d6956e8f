"""N-Triples → triples, names, types and values: the lines of a block by columns.

A line goes by columns where one pattern, which knows no more than IRIs, a text in quotes and a
final dot, fits all of it; any other line is parsed by itself (``ntriples``). What it does not do:
say what a blank node is, which has no stable id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.model import ALIAS
from kgqa.loaders.blocks import decoded
from kgqa.loaders.ntriples import Literal, is_blank, parse
from kgqa.loaders.tables import BLANK
from kgqa.loaders.triples_delimited import lines_where
from kgqa.loaders.triples_literals import (
    EMPTY_TEXT,
    IRI,
    OTHER_LANGUAGE,
    SUFFIX,
    TEXT,
    read_literals,
)
from kgqa.loaders.triples_part import Part
from kgqa.loaders.triples_text import bad_lines, inside, is_utf8, mask_of, stripped
from kgqa.loaders.values import value_id, value_name

if TYPE_CHECKING:
    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.loaders.blocks import Block
    from kgqa.loaders.tables import Row
    from kgqa.loaders.triples_delimited import Record

NAMES = frozenset(
    {
        "http://www.w3.org/2000/01/rdf-schema#label",
        "http://www.w3.org/2004/02/skos/core#prefLabel",
        "http://schema.org/name",
        "http://xmlns.com/foaf/0.1/name",
    }
)
ALIAS_NAME = "http://www.w3.org/2004/02/skos/core#altLabel"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
LABELS = pa.schema([("id", pa.string()), ("text", pa.string()), ("rank", pa.int64())])
TYPES = pa.schema([("id", pa.string()), ("type", pa.string())])
VALUES = pa.schema([("id", pa.string()), ("name", pa.string())])

_LINE_FEED = 10
_TYPED, _EDGE, _NAME, _ALIAS = range(4)  # what a predicate's lines are for; a text is no type
_LINE = (
    rf"\A[ \t]*(?P<s>{IRI})[ \t]+(?P<p>{IRI})[ \t]+(?P<o>{IRI}|{TEXT}{SUFFIX}?)"
    r"[ \t]*\.[ \t]*\r*\n\z"
)


class RdfReader:
    """Reads blocks of N-Triples. ``language``: of the labels that are kept."""

    def __init__(self, language: str) -> None:
        self._language = language

    def read(self, block: Block, rank: int) -> Part:
        """Return what a block holds; a label's rank is ``rank`` and the number of its line."""
        part = Part(block.source)
        data = np.frombuffer(block.data, dtype=np.uint8)
        ends = np.flatnonzero(data == _LINE_FEED)
        content = pa.py_buffer(block.data)
        left = np.zeros(len(ends), dtype=np.bool_)
        if not is_utf8(content):
            left[bad_lines(data, ends)] = True
        offsets = np.zeros(len(ends) + 1, dtype=np.int32)
        offsets[1:] = ends + 1
        lines = pa.Array.from_buffers(
            pa.string(), len(ends), [None, pa.py_buffer(offsets), content]
        )
        rows = np.flatnonzero(~left)
        found = pc.extract_regex(lines.take(pa.array(rows)) if left.any() else lines, _LINE)
        fits = mask_of(found.is_valid())
        left[rows[~fits]] = True
        rows = rows[fits]
        found = found.filter(pa.array(fits))
        terms = [found.field(name) for name in ("s", "p", "o")]
        odd = self._by_columns(terms, rank + block.first + rows, part)
        left[rows[odd]] = True
        if left.any():
            self._by_hand(lines_where(block, left, ends), rank, part)
        part.find_ends()
        if part.values:
            values = pc.unique(pa.chunked_array([batch.column("id") for batch in part.values]))
            part.ends = part.ends.filter(pc.invert(pc.is_in(part.ends, value_set=values)))
        return part

    def _by_columns(self, terms: list[pa.Array], ranks: IntArray, part: Part) -> BoolArray:
        """Take terms in, as they stand in the file; return which rows are to be read by hand."""
        subject, predicate, found = terms
        subject = _inside(subject)
        encoded = predicate.dictionary_encode()
        predicates = _inside(encoded.dictionary)
        uses = np.array([_use(iri) for iri in predicates.to_pylist()], dtype=np.int8)
        use = uses[encoded.indices.to_numpy()] if len(uses) else np.empty(0, dtype=np.int8)
        iri = mask_of(pc.starts_with(found, "<"))
        typed = iri & (use == _TYPED)
        if typed.any():
            owners = subject.filter(pa.array(typed))
            kinds = _inside(found.filter(pa.array(typed)))
            part.types.append(pa.RecordBatch.from_arrays([owners, kinds], schema=TYPES))
            part.described = pc.unique(owners)
        edge = pa.array(iri & ~typed)
        heads = subject.filter(edge)
        relations = predicates.take(encoded.indices.filter(edge))
        part.add_columns(
            heads, relations, _inside(found.filter(edge)), pa.nulls(len(heads), pa.string())
        )
        odd = np.zeros(len(iri), dtype=np.bool_)
        literal = np.flatnonzero(~iri)
        if not len(literal):
            return odd
        texts = read_literals(found.take(pa.array(literal)), self._language, part.dropped)
        odd[literal[texts.odd]] = True
        rows = literal[texts.rows]
        use = use[rows]
        for kind in (_NAME, _ALIAS):
            chosen = use == kind
            if chosen.any():
                ids = subject.take(pa.array(rows[chosen]))
                text = stripped(texts.texts.filter(pa.array(chosen)))
                rank = ranks[rows[chosen]] if kind == _NAME else np.full(len(ids), ALIAS)
                batch = pa.RecordBatch.from_arrays([ids, text, pa.array(rank)], schema=LABELS)
                part.labels.append(batch)
                if kind == _NAME:
                    part.described = pc.unique(pa.chunked_array([part.described, ids]))
        other = pa.array(use <= _EDGE)
        if pc.any(other).as_py():
            ids, names = texts.values(other)
            part.values.append(pa.RecordBatch.from_arrays([ids, names], schema=VALUES))
            places = pa.array(rows).filter(other)
            relations = predicates.take(encoded.indices.take(places))
            nothing = pa.nulls(len(ids), pa.string())
            part.add_columns(subject.take(places), relations, ids, nothing)
        return odd

    def _by_hand(self, records: list[Record], rank: int, part: Part) -> None:
        rows: list[Row] = []
        labels: list[tuple[str, str, int]] = []
        types: list[tuple[str, str]] = []
        values: list[tuple[str, str]] = []
        described: list[str] = []
        for number, raw in records:
            if (line := decoded(number, raw, part.rejects)) is None:
                continue
            if is_blank(line):
                part.dropped[BLANK] += 1
                continue
            try:
                subject, predicate, found = parse(line)
            except ValueError as error:
                part.rejects.append((number, str(error), line))
                continue
            use = _use(predicate)
            if not isinstance(found, Literal):
                if use == _TYPED:
                    types.append((subject, found))
                    described.append(subject)
                else:
                    rows.append((subject, predicate, found, None))
            elif found.language not in (None, self._language):
                part.dropped[OTHER_LANGUAGE] += 1
            elif not found.text.strip():
                part.dropped[EMPTY_TEXT] += 1
            elif use == _NAME:
                labels.append((subject, found.text.strip(), rank + number))
                described.append(subject)
            elif use == _ALIAS:
                labels.append((subject, found.text.strip(), ALIAS))
            else:
                ident = value_id(found.text, found.language, found.datatype)
                values.append((ident, value_name(found.text, found.datatype)))
                rows.append((subject, predicate, ident, None))
        part.add_rows(rows)
        for batches, found_rows, schema in (
            (part.labels, labels, LABELS),
            (part.types, types, TYPES),
            (part.values, values, VALUES),
        ):
            if found_rows:
                columns = zip(*found_rows, strict=True)
                arrays = [
                    pa.array(column, type=each.type)
                    for column, each in zip(columns, schema, strict=True)
                ]
                batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
        if described:
            part.described = pc.unique(pa.chunked_array([part.described, pa.array(described)]))


def _use(predicate: str) -> int:
    if predicate in NAMES:
        return _NAME
    return {TYPE: _TYPED, ALIAS_NAME: _ALIAS}.get(predicate, _EDGE)


def _inside(terms: pa.Array) -> pa.Array:
    """Return IRIs without their brackets."""
    return inside(terms, 1, 1)

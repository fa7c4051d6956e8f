"""N-Triples → triples, names, types and values: the lines of a block by columns.

One pattern fits all of a line that is a triple; any other line is blank, a comment, or a reject.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.model import ALIAS
from kgqa.loaders.base import BLANK
from kgqa.loaders.delimited import lines_at, whole_lines
from kgqa.loaders.ntriples import OTHER_LANGUAGE, TRIPLE_LINE, is_blank, read_literals, why_not
from kgqa.loaders.strings import inside, is_text, mask_of
from kgqa.loaders.triples_rows import TriplesPart, add_edges

if TYPE_CHECKING:
    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.loaders.blocks import Block
    from kgqa.loaders.ntriples import Literals

NAMES = frozenset(
    {
        "http://www.w3.org/2000/01/rdf-schema#label",
        "http://www.w3.org/2004/02/skos/core#prefLabel",
        "http://schema.org/name",
        "http://xmlns.com/foaf/0.1/name",
    }
)
ALIAS_NAME = "http://www.w3.org/2004/02/skos/core#altLabel"
LABELS = pa.schema([("id", pa.string()), ("text", pa.string()), ("rank", pa.int64())])
VALUES = pa.schema([("id", pa.string()), ("name", pa.string())])
EMPTY_TEXT = "empty text"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_TYPE, _EDGE, _NAME, _ALIAS = range(4)  # what a predicate's lines are for
_OTHER_USES = {RDF_TYPE: _TYPE, ALIAS_NAME: _ALIAS}


def read_ntriples(block: Block, language: str, rank: int) -> TriplesPart:
    """Return what a block holds.

    ``language``: of the labels that are kept. A label's rank is ``rank`` and the number of its
    line.
    """
    part = TriplesPart(block.source)
    rows = np.flatnonzero(part.decodable(block))
    lines = whole_lines(block)
    if len(rows) < block.lines:
        lines = lines.take(pa.array(rows))
    found = pc.extract_regex(lines.view(pa.string()), TRIPLE_LINE)
    fits = mask_of(found.is_valid())
    for number, raw in lines_at(block, rows[~fits]):
        line = raw.decode()
        if is_blank(line):
            part.dropped[BLANK] += 1
        else:
            part.rejects.append((number, why_not(line), line))
    found = found.filter(pa.array(fits))
    numbers = block.first + rows[fits]
    terms = [found.field(name) for name in ("subject", "predicate", "object")]
    for place, reason in _take(part, terms, rank + numbers, language):
        [(number, raw)] = lines_at(block, numbers[place : place + 1] - block.first)
        part.rejects.append((number, reason, raw.decode()))
    part.find_ends()
    return part


def _take(
    part: TriplesPart, terms: list[pa.Array], ranks: IntArray, language: str
) -> list[tuple[int, str]]:
    """Take in triples by their terms; return which are rejected, and why."""
    subject, predicate, found = terms
    encoded = predicate.dictionary_encode()
    predicates = encoded.dictionary
    uses = np.array([_use(iri) for iri in predicates.to_pylist()], dtype=np.int8)
    use = uses[encoded.indices.to_numpy()] if len(uses) else np.empty(0, dtype=np.int8)
    iri = mask_of(pc.starts_with(found, "<"))
    part.described = pc.unique(subject.filter(pa.array(iri & (use == _TYPE))))
    for chosen, edges in ((iri & (use != _TYPE), part.edges), (iri & (use == _TYPE), part.typed)):
        rows = pa.array(chosen)
        relation = predicates.take(encoded.indices.filter(rows))
        tails, nothing = inside(found.filter(rows), 1, 1), pa.nulls(len(relation), pa.string())
        add_edges(edges, subject.filter(rows), relation, tails, nothing)
    texts = np.flatnonzero(~iri)
    if not len(texts):
        return []
    literals = read_literals(found.take(pa.array(texts)).cast(pa.binary()), language)
    part.dropped[OTHER_LANGUAGE] += literals.foreign
    filled = is_text(literals.texts)
    part.dropped[EMPTY_TEXT] += int(np.count_nonzero(~filled))
    kept = texts[literals.rows]
    for kind in (_NAME, _ALIAS):
        chosen = filled & (use[kept] == kind)
        if chosen.any():
            _add_labels(part, subject, literals, kept, chosen, ranks if kind == _NAME else None)
    chosen = filled & (use[kept] <= _EDGE)
    if chosen.any():
        ids, names = literals.values(chosen)
        part.values.append(pa.RecordBatch.from_arrays([ids, names], schema=VALUES))
        places = pa.array(kept[chosen])
        relation = predicates.take(encoded.indices.take(places))
        nothing = pa.nulls(len(ids), pa.string())
        add_edges(part.edges, subject.take(places), relation, ids, nothing)
    return [(int(texts[place]), reason) for place, reason in literals.faults]


def _add_labels(
    part: TriplesPart,
    subject: pa.Array,
    literals: Literals,
    rows: IntArray,
    chosen: BoolArray,
    ranks: IntArray | None,
) -> None:
    ids = subject.take(pa.array(rows[chosen]))
    texts = pc.utf8_trim_whitespace(literals.texts.filter(pa.array(chosen)))
    rank = np.full(len(ids), ALIAS) if ranks is None else ranks[rows[chosen]]
    part.labels.append(pa.RecordBatch.from_arrays([ids, texts, pa.array(rank)], schema=LABELS))
    if ranks is not None:
        part.described = pc.unique(pa.chunked_array([part.described, ids]))


def _use(predicate: str) -> int:
    return _NAME if predicate in NAMES else _OTHER_USES.get(predicate, _EDGE)

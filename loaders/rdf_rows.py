"""Statements of RDF as columns of terms, and what a column of them gives.

A term is written as N-Quads write it, so that kernels on columns read it: an IRI in angle brackets,
a blank node after ``_:``, a literal in quotes. The batches are those that N-Triples make
(:mod:`kgqa.loaders.ntriples`); what N-Triples lack is here: languages in an order of preference,
blank nodes, named graphs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.model import ALIAS
from kgqa.loaders.ntriples import (
    ALIAS_NAME,
    EMPTY_TEXT,
    LABELS,
    NAMES,
    OF_PROPERTIES,
    OF_PROPERTY,
    OTHER,
    OTHER_LANGUAGE,
    RANKS,
    RDF_TYPE,
    VALUES,
    preference,
    read_literals,
)
from kgqa.loaders.strings import is_text, mask_of
from kgqa.loaders.triples_rows import TriplesPart, add_edges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import BoolArray, IntArray

TERMS = pa.schema([(name, pa.string()) for name in ("subject", "predicate", "object", "graph")])
"""Statements: terms as N-Quads write them; graph: null in the default graph."""

_LITERAL = r'"(?:[^"\\]|\\.)*"(?:@[A-Za-z0-9-]+|\^\^<[^>]*>)?'
STATEMENT = (
    r"\A(?P<subject><[^>]*>|_:\S+) (?P<predicate><[^>]*>) "
    rf"(?P<object><[^>]*>|_:\S+|{_LITERAL})(?: (?P<graph><[^>]*>|_:\S+))? \.\n\z"
)
SYNONYMS = frozenset(
    {
        ALIAS_NAME,
        "http://www.geneontology.org/formats/oboInOwl#hasExactSynonym",
        "http://schema.org/alternateName",
        "https://schema.org/alternateName",
    }
)
LABEL_PROPERTIES = NAMES
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
INVERSE = f"{OWL}inverseOf"
_EVERYTHING = frozenset({f"<{OWL}NamedIndividual>", f"<{OWL}Thing>", f"<{RDFS}Resource>"})
EVERYTHING = "type that everything has"
_TYPE, _EDGE, _NAME, _ALIAS, _NOTHING = range(5)  # what a predicate's statements are for


@dataclass(slots=True)
class StatementsReader:
    """Sorts statements into parts; keeps inverse relations and other state of a whole load.

    ``language``: the wanted one. ``labels``: predicates whose texts are names.
    """

    language: str
    labels: frozenset[str]
    count: int = 0
    inverses: dict[str, str] = field(default_factory=dict)

    def take(self, part: TriplesPart, terms: pa.RecordBatch) -> None:
        """Add statements, rows of ``TERMS``, to a part as edges, types, labels and values.

        Statements on predicates, and types that every node has, are counted as dropped.
        """
        subject = _iris(terms.column("subject"))
        encoded = terms.column("predicate").dictionary_encode()
        predicates = _iris(encoded.dictionary)
        objects = terms.column("object")
        ranks = self.count + np.arange(len(terms))
        self.count += len(terms)
        uses = np.array([self._use_of(iri) for iri in predicates.to_pylist()], dtype=np.int8)
        use = uses[encoded.indices.to_numpy()] if len(uses) else np.empty(0, np.int8)
        literal = mask_of(pc.starts_with(objects, '"'))
        typed = ~literal & (use == _TYPE)
        if typed.any():
            of_all = typed & mask_of(pc.is_in(objects, pa.array(sorted(_EVERYTHING))))
            part.drop(EVERYTHING, of_all, subject)
            typed &= ~of_all
        self._note_inverses(subject, predicates, encoded.indices, objects, ~literal)
        part.described = pc.unique(subject.filter(pa.array(typed)))
        graphs = _graph_properties(terms.column("graph"))
        about = ~literal & (use == _NOTHING)
        part.drop(OF_PROPERTY, about, subject)
        plain = ~literal & (use != _TYPE) & ~about
        for chosen, edges in ((plain, part.edges), (typed, part.typed)):
            rows = pa.array(chosen)
            relation = predicates.take(encoded.indices.filter(rows))
            tails = _iris(objects.filter(rows))
            add_edges(edges, subject.filter(rows), relation, tails, graphs.filter(rows))
        texts = np.flatnonzero(literal)
        if len(texts):
            relations = predicates.take(encoded.indices.take(pa.array(texts)))
            columns = (subject.take(pa.array(texts)), relations, graphs.take(pa.array(texts)))
            kinds = use[texts].astype(np.int64)
            self._sort_literals(part, objects.take(pa.array(texts)), *columns, kinds, ranks[texts])

    def _sort_literals(
        self,
        part: TriplesPart,
        terms: pa.Array,
        subject: pa.Array,
        relation: pa.Array,
        graph: pa.Array,
        use: IntArray,
        ranks: IntArray,
    ) -> None:
        """Add statements with a literal to a part: names, aliases, and edges to values.

        Texts in other languages (of names, all are kept) and empty ones count as dropped; malformed
        ones are rejected. ``use`` and ``ranks``: of each statement.
        """
        literals = read_literals(terms.cast(pa.binary()), None)
        order = np.array([preference(tag, self.language) for tag, _ in literals.suffixes] or [0])
        class_ = order[literals.suffix]
        filled = is_text(literals.texts)
        if not filled.all():
            part.drop(EMPTY_TEXT, ~filled, subject.take(pa.array(literals.rows)))
        for place, reason in literals.faults:
            part.reject(int(ranks[place]), reason, terms[place].as_py().encode())
        use, rows = use[literals.rows], literals.rows
        foreign = class_ == OTHER
        part.drop(OTHER_LANGUAGE, filled & foreign & (use != _NAME), literals.texts)
        for kind in (_NAME, _ALIAS):
            chosen = filled & (use == kind) & (~foreign | (kind == _NAME))
            if chosen.any():
                rank = np.full(int(np.count_nonzero(chosen)), ALIAS)
                if kind == _NAME:
                    rank = class_[chosen] * RANKS + ranks[rows[chosen]]
                ids = self._add_labels(part, subject, literals.texts, rows, chosen, rank)
                if kind == _NAME:
                    part.described = pc.unique(pa.chunked_array([part.described, ids]))
        valued = filled & (use <= _EDGE) & ~foreign
        if valued.any():
            ids, names = literals.values(valued)
            part.values.append(pa.RecordBatch.from_arrays([ids, names], schema=VALUES))
            places = pa.array(rows[valued])
            columns = [column.take(places) for column in (subject, relation, graph)]
            add_edges(part.edges, columns[0], columns[1], ids, columns[2])

    def _add_labels(
        self,
        part: TriplesPart,
        subject: pa.Array,
        texts: pa.Array,
        rows: IntArray,
        chosen: BoolArray,
        rank: IntArray,
    ) -> pa.Array:
        """Add the texts under the mask ``chosen`` as names or aliases; return their subjects' ids.

        ``rows``: the subject's row of each text; ``rank``: of each chosen text, 0 the best.
        """
        ids = subject.take(pa.array(rows[chosen]))
        trimmed = pc.utf8_trim_whitespace(texts.filter(pa.array(chosen)))
        columns = [ids, trimmed, pa.array(rank)]
        part.labels.append(pa.RecordBatch.from_arrays(columns, schema=LABELS))
        return ids

    def _use_of(self, predicate: str) -> int:
        """Return how a predicate is used: for names, aliases, types or edges, or not at all."""
        if predicate in self.labels:
            return _NAME
        if predicate in OF_PROPERTIES:
            return _NOTHING
        return _ALIAS if predicate in SYNONYMS else _TYPE if predicate == RDF_TYPE else _EDGE

    def _note_inverses(
        self,
        subject: pa.Array,
        predicates: pa.Array,
        which: pa.Array,
        objects: pa.Array,
        iri: BoolArray,
    ) -> None:
        """Record both directions of each ``owl:inverseOf`` statement among the given ones.

        ``which``: each statement's index into ``predicates``; ``iri``: whether its object is an
        IRI.
        """
        place = predicates.index(INVERSE).as_py()
        if place >= 0:
            rows = pa.array(iri & (which.to_numpy() == place))
            pairs = (subject.filter(rows).to_pylist(), _iris(objects.filter(rows)).to_pylist())
            for relation, other in zip(*pairs, strict=True):
                self.inverses[relation] = other
                self.inverses.setdefault(other, relation)


def statements(rows: Sequence[tuple[str, str, str, str | None]]) -> pa.RecordBatch:
    """Convert rows of terms to a batch of ``TERMS``."""
    return pa.RecordBatch.from_arrays(
        [pa.array(column, pa.string()) for column in zip(*rows, strict=True)] or [[]] * 4,
        schema=TERMS,
    )


def _iris(terms: pa.Array) -> pa.Array:
    """Remove the brackets of IRIs; blank nodes stay as they are."""
    return pc.utf8_trim(terms, "<>") if len(terms) else terms


def _graph_properties(graph: pa.Array) -> pa.Array:
    """Return edge properties as JSON that name the edge's graph, null for the default graph."""
    if graph.null_count == len(graph):
        return graph
    encoded = graph.dictionary_encode()
    texts = [
        json.dumps({"graph": iri.strip("<>")}, ensure_ascii=False)
        for iri in encoded.dictionary.to_pylist()
    ]
    return pa.array(texts, pa.string()).take(encoded.indices)

"""Blank nodes of RDF: what lists and class expressions of OWL say, as edges.

A statement about a blank node is held until its file has been read, since what it belongs to may
come later. Then a list gives an edge to each member, a restriction ``someValuesFrom`` or
``hasValue`` the edge that it means, and the other blank nodes are mediators.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kgqa.loaders.ntriples import RDF_TYPE
from kgqa.loaders.rdf_rows import INVERSE, OWL, RDFS, TERMS, statements

if TYPE_CHECKING:
    from collections.abc import Iterator

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_FIRST, _REST, _NIL = f"<{_RDF}first>", f"<{_RDF}rest>", f"<{_RDF}nil>"
_TYPE, _SUBCLASS = f"<{RDF_TYPE}>", f"<{RDFS}subClassOf>"
_SOURCE = f"<{OWL}annotatedSource>"
_ON = f"<{OWL}onProperty>"
_INVERSE = f"<{INVERSE}>"
_BOTH = f"<{OWL}intersectionOf>"
_FILLERS = (f"<{OWL}someValuesFrom>", f"<{OWL}hasValue>")
_SAYING = frozenset({_SUBCLASS, f"<{OWL}equivalentClass>", _TYPE})
_STRUCTURE = frozenset(
    {_FIRST, _REST, _ON, _BOTH, _INVERSE, _SOURCE, *_FILLERS}
    | {f"<{OWL}{name}>" for name in ("unionOf", "complementOf", "oneOf", "allValuesFrom")}
)
UNSAID = "class expression that no edge can say"
AXIOM = "annotation of an axiom"
_DEEPEST = 50  # class expressions inside one another

_Row = tuple[str, str, str, "str | None"]


@dataclass(slots=True)
class BlankNodes:
    """Holds the statements of a file that have a blank node, and numbers these nodes.

    ``prefix`` makes the ids of one file differ from those of another; numbers follow the order of
    appearance, so that the same file gives the same ids.
    """

    prefix: str
    _numbers: dict[str, int] = field(default_factory=dict)
    _held: list[pa.RecordBatch] = field(default_factory=list)

    def hold(self, terms: pa.RecordBatch) -> pa.RecordBatch:
        """Hold back the statements of ``TERMS`` with a blank node as an end; return the others."""
        blank = pc.or_(
            pc.starts_with(terms.column("subject"), "_:"),
            pc.starts_with(terms.column("object"), "_:"),
        )
        graph = pc.fill_null(pc.starts_with(terms.column("graph"), "_:"), False)
        if not blank.true_count and not graph.true_count:
            return terms
        columns = [self._with_unique_ids(column) for column in terms.columns]
        terms = pa.RecordBatch.from_arrays(columns, schema=TERMS)
        self._held.append(terms.filter(blank))
        return terms.filter(pc.invert(blank))

    def _with_unique_ids(self, column: pa.Array) -> pa.Array:
        """Replace the labels of blank nodes in a column by ids unique to the file."""
        blank = pc.fill_null(pc.starts_with(column, "_:"), False)
        if not blank.true_count:
            return column
        encoded = column.filter(blank).dictionary_encode()
        numbers = self._numbers
        names = [
            f"_:{self.prefix}.{numbers.setdefault(label, len(numbers) + 1)}"
            for label in encoded.dictionary.to_pylist()
        ]
        return pc.replace_with_mask(column, blank, pa.array(names).take(encoded.indices))

    def resolved(self) -> Iterator[pa.RecordBatch | Counter[str]]:
        """Yield the statements that the held ones mean, and counts of dropped ones by reason.

        Lists and class expressions are replaced by what they mean; other blank nodes stay.
        """
        held, self._held = self._held, []
        structural = pa.array(sorted(_STRUCTURE))
        nodes: set[str] = set()  # blank ones that are lists or class expressions
        for terms in held:
            mine = terms.filter(pc.is_in(terms.column("predicate"), value_set=structural))
            nodes.update(t for t in mine.column("subject").to_pylist() if t.startswith("_:"))
        if not nodes:
            yield from held
            return
        known = pa.array(sorted(nodes))
        parts: dict[str, dict[str, str]] = {}
        mentions: list[_Row] = []
        for terms in held:
            inside = pc.is_in(terms.column("subject"), value_set=known)
            to = pc.and_(pc.is_in(terms.column("object"), value_set=known), pc.invert(inside))
            yield terms.filter(pc.invert(pc.or_(inside, to)))
            for subject, predicate, object_, _ in _rows(terms.filter(inside)):
                if predicate in _STRUCTURE:
                    parts.setdefault(subject, {}).setdefault(predicate, object_)
            mentions += _rows(terms.filter(to))
            inner = _rows(terms.filter(inside))  # a list that is in another node's statement
            mentions += [row for row in inner if row[1] not in _STRUCTURE and row[2] in nodes]
        expressions = _Expressions(parts)
        edges = [edge for row in mentions for edge in expressions.edges(row)]
        axioms = sum(_SOURCE in part for part in parts.values())
        yield Counter({UNSAID: expressions.unsaid, AXIOM: axioms})
        if edges:
            yield statements(edges)


def _rows(terms: pa.RecordBatch) -> list[_Row]:
    """Return the rows of a batch as tuples."""
    return list(zip(*(column.to_pylist() for column in terms.columns), strict=True))


@dataclass(slots=True)
class _Expressions:
    """Lists and OWL class expressions: the statements about each blank node."""

    parts: dict[str, dict[str, str]]
    unsaid: int = 0

    def edges(self, row: _Row, depth: int = 0) -> Iterator[_Row]:
        """Yield the statements meant by one whose object is a list or a class expression.

        A statement with another object is yielded as it is; one that means nothing is counted in
        ``unsaid``. ``depth``: of nesting, which is bounded.
        """
        subject, predicate, object_, graph = row
        part = self.parts.get(object_)
        if part is None or depth > _DEEPEST:
            yield row
        elif _FIRST in part:
            for member in self._members(object_):
                yield from self.edges((subject, predicate, member, graph), depth + 1)
        elif predicate not in _SAYING:
            self.unsaid += 1
        elif _BOTH in part:
            for member in self._members(part[_BOTH]):
                said = predicate if predicate == _TYPE else _SUBCLASS
                yield from self.edges((subject, said, member, graph), depth + 1)
        else:
            yield from self._restriction(subject, part, graph)

    def _restriction(self, subject: str, part: dict[str, str], graph: str | None) -> Iterator[_Row]:
        """Yield the edges that an OWL restriction means; count it in ``unsaid`` if it means none.

        ``part``: the restriction's values by predicate.
        """
        filler = next((part[name] for name in _FILLERS if name in part), None)
        relation = part.get(_ON)
        fillers = [] if filler is None else self._named_classes(filler)
        if relation is None or not fillers:
            self.unsaid += 1
            return
        forward = self.parts.get(relation, {}).get(_INVERSE)
        for each in fillers:
            if forward is None:
                yield subject, relation, each, graph
            elif not each.startswith('"'):
                yield each, forward, subject, graph

    def _named_classes(self, filler: str, depth: int = 0) -> list[str]:
        """Return the named classes of a filler: itself, or those of an intersection; else []."""
        part = self.parts.get(filler)
        if part is None:
            return [filler]
        if _BOTH not in part or depth > _DEEPEST:
            return []
        members = self._members(part[_BOTH])
        return [each for member in members for each in self._named_classes(member, depth + 1)]

    def _members(self, cell: str) -> Iterator[str]:
        """Yield the members of an RDF list; a cyclic list ends where it repeats."""
        seen: set[str] = set()
        while cell not in seen and cell in self.parts:
            seen.add(cell)
            part = self.parts[cell]
            if _FIRST in part:
                yield part[_FIRST]
            cell = part.get(_REST, _NIL)

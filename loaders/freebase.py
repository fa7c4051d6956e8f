"""The Freebase RDF dump: N-Triples of mids, types and predicates → entities and edges.

An entity is a mid (``m.…``, ``g.…``) that has a name in the wanted language. A nameless mid is a
mediator if one of its types is, and is left out otherwise, with its edges. Literals of kept
predicates are value nodes. What it does not do: bound its memory by less than the kept graph.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kgqa.graph.model import EDGE_SCHEMA, EdgeBatch, Kind
from kgqa.loaders.batches import BATCH_ROWS, entity_batches, relation_batches
from kgqa.loaders.filters import Filters, data_lines
from kgqa.loaders.lines import find_sources, nothing_read, read_lines
from kgqa.loaders.ntriples import TRIPLE, is_blank, unescape, why_not
from kgqa.loaders.values import value_id, value_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import Batch, Direction, IntArray
    from kgqa.loaders.base import Rejects, Report
    from kgqa.loaders.batches import EntityRow
    from kgqa.progress import Progress

NAMESPACES = ("http://rdf.freebase.com/ns/", "http://rdf.basekb.com/ns/")
LONGEST_TEXT = 200  # characters of a text that is still a value and no description
_FIRST, _FIRST_LENGTH = NAMESPACES[0], len(NAMESPACES[0])
_RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_MID = re.compile(r"[mg]\.[0-9a-z_]+")
_NONE = -1


class _Use(IntEnum):
    """What a predicate's lines are for."""

    NAME = 0
    LABEL = 1
    ALIAS = 2
    TYPE = 3
    MEDIATOR = 4
    EDGE = 5
    NOTHING = 6


_USES = {
    "type.object.name": _Use.NAME,
    _RDFS_LABEL: _Use.LABEL,
    "common.topic.alias": _Use.ALIAS,
    "type.object.type": _Use.TYPE,
    _RDF_TYPE: _Use.TYPE,
    "freebase.type_hints.mediator": _Use.MEDIATOR,
}


@dataclass(frozen=True, slots=True)
class FreebaseOptions:
    """How the dump is read.

    ``language``: of names, aliases and texts. ``filters``: a file in place of the bundled
    ``freebase_filters.txt``.
    """

    language: str = "en"
    filters: Path | None = None


class FreebaseLoader:
    """Reads Freebase dumps; see the module."""

    name = "freebase"
    direction: Direction = "out"
    licence = "CC-BY 2.5 (Freebase data dump, Google)"
    where = "https://developers.google.com/freebase (freebase-rdf-latest.gz, about 30 GB)"

    def __init__(self, options: FreebaseOptions | None = None) -> None:
        self.options = options or FreebaseOptions()
        self._filters = Filters(data_lines(self.options.filters or "freebase_filters.txt"))
        self._mediator_types = frozenset(data_lines("mediator_types.txt"))

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield relations, entities, then edges. Raises DumpNotFoundError, DumpMalformedError."""
        found = find_sources(sources, "Freebase dump")
        scan = _Scan(self.options.language, self._filters, self._mediator_types, report)
        for source in found:
            scan.take(source.name, read_lines(source, report, rejects, progress), rejects)
        if not scan.triples:
            raise nothing_read("a Freebase dump (N-Triples)", found, report)
        yield from scan.batches()


class _Scan:
    """Everything that one pass over the dump finds, by small integers."""

    def __init__(
        self, language: str, filters: Filters, mediator_types: frozenset[str], report: Report
    ) -> None:
        self.triples = 0
        self._language = language
        self._filters = filters
        self._mediator_types = set(mediator_types)
        self._report = report
        self._nodes: dict[str, int] = {}  # mid or value id → position
        self._names: dict[int, str] = {}
        self._labels: dict[int, str] = {}
        self._aliases: dict[int, list[str]] = {}
        self._types: dict[int, list[str]] = {}
        self._shared: dict[str, str] = {}  # one object for each type's name
        self._relations: dict[str, int] = {}
        self._heads, self._steps, self._tails = array("q"), array("q"), array("q")

    def take(self, source: str, lines: Iterable[tuple[int, str]], rejects: Rejects) -> None:
        """Take in the lines of one source."""
        # The loop runs once for each of the dump's lines: look-ups are kept local, a predicate
        # is understood once, and what is left out anyway is never taken apart.
        match_line = TRIPLE.fullmatch
        uses: dict[str, tuple[_Use, int, str]] = {}
        dropped: Counter[str] = Counter()
        language, nodes, node_of = self._language, self._nodes, self._node
        add_head, add_step, add_tail = self._heads.append, self._steps.append, self._tails.append
        for number, line in lines:
            match = match_line(line)
            if match is None:
                if is_blank(line):
                    dropped["blank line or comment"] += 1
                else:
                    rejects.add(source, number, why_not(line), line)
                continue
            self.triples += 1
            subject, predicate, iri, text, tag, datatype = match.groups()
            known = uses.get(predicate)
            if known is None:
                known = uses[predicate] = self._understand(predicate)
            use, relation, reason = known
            if use is _Use.NOTHING:
                dropped[reason] += 1
                continue
            if tag is not None and tag != language:
                dropped["other language"] += 1
                continue
            mid = subject[_FIRST_LENGTH:] if subject.startswith(_FIRST) else _local(subject)
            if use is _Use.MEDIATOR:
                if text == "true":
                    self._mediator_types.add(mid)
                continue
            head = nodes.get(mid, _NONE)
            if head == _NONE and (head := node_of(mid)) == _NONE:
                dropped["about the schema, not about an entity"] += 1
                continue
            if use is not _Use.EDGE:
                if why := self._describe(use, head, iri, text):
                    rejects.add(source, number, why, line)
                continue
            if iri is not None:
                mid = iri[_FIRST_LENGTH:] if iri.startswith(_FIRST) else _local(iri)
                tail = nodes.get(mid, _NONE)
                if tail == _NONE and (tail := node_of(mid)) == _NONE:
                    outside = mid.startswith(("http:", "https:"))
                    dropped["web address" if outside else "object is of the schema"] += 1
                    continue
            else:
                try:
                    tail = self._value(text, tag, datatype)
                except ValueError as error:
                    rejects.add(source, number, str(error), line)
                    continue
                if tail == _NONE:
                    dropped["long text, empty text or web address"] += 1
                    continue
            add_head(head)
            add_step(relation)
            add_tail(tail)
        self._report.dropped.update(dropped)

    def _understand(self, iri: str) -> tuple[_Use, int, str]:
        predicate = _local(iri)
        if (use := _USES.get(predicate)) is not None:
            return use, _NONE, ""
        if predicate is iri:
            return _Use.NOTHING, _NONE, "predicate outside Freebase's namespace"
        if not self._filters.keeps(predicate):
            return _Use.NOTHING, _NONE, "administrative predicate"
        return _Use.EDGE, self._relations.setdefault(predicate, len(self._relations)), ""

    def _node(self, mid: str) -> int:
        return self._nodes.setdefault(mid, len(self._nodes)) if _MID.fullmatch(mid) else _NONE

    def _describe(self, use: _Use, node: int, iri: str | None, text: str | None) -> str:
        """Take a name, alias or type; return why it is none, or nothing."""
        if use is _Use.TYPE:
            if iri is None:
                return "type is no IRI"
            kind = _local(iri)
            types = self._types.setdefault(node, [])
            if kind not in types:
                types.append(self._shared.setdefault(kind, kind))
            return ""
        if text is None:
            return "name is no text"
        try:
            name = unescape(text).strip()
        except ValueError as error:
            return str(error)
        if not name:
            return "name is empty"
        if use is _Use.LABEL:
            self._labels.setdefault(node, name)
        elif use is _Use.ALIAS or self._names.setdefault(node, name) != name:
            aliases = self._aliases.setdefault(node, [])
            if name not in aliases:
                aliases.append(name)
        return ""

    def _value(self, escaped: str, language: str | None, datatype: str | None) -> int:
        if len(escaped) >= LONGEST_TEXT * 12:  # no escape is longer than that
            return _NONE
        text = unescape(escaped)
        if not text.strip() or len(text) >= LONGEST_TEXT:
            return _NONE
        if text.startswith(("http://", "https://")):
            return _NONE
        ident = value_id(text, language, datatype)
        node = self._nodes.get(ident)
        if node is None:
            node = self._nodes[ident] = len(self._nodes)
            self._names[node] = value_name(text, datatype)
        return node

    def batches(self) -> Iterator[Batch]:
        """Yield what is kept; count what is not."""
        for node, label in self._labels.items():
            self._names.setdefault(node, label)
        kinds = self._kinds()
        heads, steps, tails = (
            _numbers(column) for column in (self._heads, self._steps, self._tails)
        )
        kept = (kinds[heads] != _NONE) & (kinds[tails] != _NONE)
        heads, steps, tails = heads[kept], steps[kept], tails[kept]
        # A value is worth a node only as the end of an edge.
        orphans = kinds == Kind.VALUE
        orphans[tails] = False
        kinds[orphans] = _NONE
        dropped = self._report.dropped
        dropped["edge to or from a nameless node"] += int((~kept).sum())
        dropped["nameless"] += len(kinds) - len(self._names) - int((kinds == Kind.MEDIATOR).sum())
        dropped += Counter()  # takes the zeros out

        used = set(np.unique(steps).tolist())
        predicates = list(self._relations)
        yield from relation_batches(
            (name, name) for key, name in enumerate(predicates) if key in used
        )
        yield from entity_batches(self._rows(kinds))
        ids = pa.array(list(self._nodes), type=pa.large_string())
        relations = pa.array(predicates, type=pa.string())
        for start in range(0, len(heads), BATCH_ROWS):
            rows = slice(start, start + BATCH_ROWS)
            columns = [
                ids.take(pa.array(heads[rows])).cast(pa.string()),
                relations.take(pa.array(steps[rows])),
                ids.take(pa.array(tails[rows])).cast(pa.string()),
            ]
            columns.append(pa.nulls(len(columns[0]), pa.string()))
            yield EdgeBatch(pa.RecordBatch.from_arrays(columns, schema=EDGE_SCHEMA))

    def _kinds(self) -> IntArray:
        """Return for each node its ``Kind``, or -1 where it is left out."""
        kinds = np.full(len(self._nodes), _NONE, dtype=np.int64)
        for node, types in self._types.items():
            if not self._mediator_types.isdisjoint(types):
                kinds[node] = Kind.MEDIATOR
        kinds[np.fromiter(self._names, dtype=np.int64, count=len(self._names))] = Kind.ENTITY
        for node, ident in enumerate(self._nodes):
            if ident[0] == '"':
                kinds[node] = Kind.VALUE
        return kinds

    def _rows(self, kinds: IntArray) -> Iterator[EntityRow]:
        shown = {kind: self._filters.keeps(kind) for kind in self._shared}
        for node, (ident, kind) in enumerate(zip(self._nodes, kinds.tolist(), strict=True)):
            if kind == _NONE:
                continue
            name = self._names.get(node)
            aliases = [alias for alias in self._aliases.get(node, ()) if alias != name]
            types = [kind for kind in self._types.get(node, ()) if shown[kind]]
            yield ident, name, aliases, Kind(kind), types, None


def _local(iri: str) -> str:
    """Return an IRI without Freebase's namespace, or the same object where it is in none."""
    for namespace in NAMESPACES:
        if iri.startswith(namespace):
            return iri[len(namespace) :]
    return iri


def _numbers(column: array[int]) -> IntArray:
    return np.frombuffer(column, dtype=np.int64) if column else np.empty(0, dtype=np.int64)

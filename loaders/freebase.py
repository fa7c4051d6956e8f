"""The Freebase RDF dump: N-Triples of mids, types and predicates → entities and edges.

An entity is a mid (``m.…``, ``g.…``) that has a name in the wanted language. A nameless mid is a
mediator if one of its types is, and is left out otherwise, with its edges. Literals of kept
predicates are value nodes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.freebase import FILTERS, MEDIATOR_TYPES, Filters, bundled
from kgqa.graph.mids import NO_MID, encode_mids
from kgqa.graph.model import (
    ALIAS,
    RELATION_SCHEMA,
    EdgeBatch,
    NameBatch,
    RelationBatch,
    TypeBatch,
    TypeRules,
    ValueBatch,
)
from kgqa.loaders.base import DumpFiles, Rejects, Report, data_lines
from kgqa.loaders.blocks import Block, find_sources, nothing_read, read_blocks
from kgqa.loaders.ntriples import (
    OTHER_LANGUAGE,
    Literals,
    match_line,
    read_literals,
)
from kgqa.loaders.strings import BlockReport, Fields, is_text, lines_at, mask_of, split_block
from kgqa.parallel import mapped
from kgqa.registry import Options, flag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kgqa.graph.model import Batch, BoolArray, Direction, IntArray
    from kgqa.progress import Progress

NAMESPACES = ("http://rdf.freebase.com/ns/", "http://rdf.basekb.com/ns/")
_RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_INVERSE = "http://www.w3.org/2002/07/owl#inverseOf"
_IRI = re.compile(rb'<[^<>"\s]+>')
LONGEST_TEXT = 200  # characters of a text that is still a value and not a description
ABOUT_SCHEMA = "about the schema, not about an entity"
_LEFT_OUT = "long text, empty text or web address"
_START = f"<{NAMESPACES[0]}".encode()
_TAB = 9
_CONTROL = re.compile("[\x01-\t]")


class Use(IntEnum):
    """What the lines of a predicate are used for."""

    NAME = 0
    LABEL = 1
    ALIAS = 2
    TYPE = 3
    MEDIATOR = 4
    INVERSE = 5
    EDGE = 6
    NOTHING = 7
    NO_IRI = 8


_USES = {
    "type.object.name": Use.NAME,
    _RDFS_LABEL: Use.LABEL,
    "common.topic.alias": Use.ALIAS,
    "type.object.type": Use.TYPE,
    _RDF_TYPE: Use.TYPE,
    "freebase.type_hints.mediator": Use.MEDIATOR,
    "type.property.reverse_property": Use.INVERSE,
    _INVERSE: Use.INVERSE,
}


def use_of(term: bytes, filters: Filters) -> tuple[Use, str]:
    """Return how a predicate is used, with its relation if it makes edges.

    For an unused predicate the text is the reason for leaving it out.
    """
    try:
        iri = term[1:-1].decode()
    except UnicodeDecodeError:
        return Use.NO_IRI, ""
    if not _IRI.fullmatch(term):
        return Use.NO_IRI, ""
    predicate = local(iri)
    if (use := _USES.get(predicate)) is not None:
        return use, ""
    if predicate is iri:
        return Use.NOTHING, "predicate outside Freebase's namespace"
    if not filters.keeps(predicate):
        return Use.NOTHING, "administrative predicate"
    return Use.EDGE, predicate


def local(iri: str) -> str:
    """Return an IRI without Freebase's namespace; an IRI of another one is returned unchanged."""
    for namespace in NAMESPACES:
        if iri.startswith(namespace):
            return iri[len(namespace) :]
    return iri


@lru_cache(1 << 16)
def local_name(term: bytes) -> str:
    """Return the IRI of a term in angle brackets without Freebase's namespace."""
    return local(term[1:-1].decode(errors="replace"))


@dataclass(slots=True)
class FreebasePart(BlockReport):
    """The statements of a block; ``triples`` counts the lines that are triples."""

    triples: int = 0
    batches: list[Batch] = field(default_factory=list)
    mediator_types: set[str] = field(default_factory=set)
    inverses: set[tuple[str, str]] = field(default_factory=set)


class BlockReader:
    """Parses blocks of a dump; threads may share one."""

    def __init__(self, language: str, filters: Filters) -> None:
        self._language = language
        self._use_of = cache(partial(use_of, filters=filters))

    def read(self, block: Block) -> FreebasePart:
        """Parse the statements of a block; lines without the dump's form are rejected."""
        part = FreebasePart(block.source)
        fields = split_block(block, "\t", 4)
        good = _well_formed(block, fields)
        rewritten, more = _parse_lines(block, [*fields.others, *fields.rows[~good].tolist()], part)
        columns = [column.filter(pa.array(good)) for column in fields.columns[:3]]
        for column, terms in zip(range(3), zip(*rewritten, strict=True), strict=False):
            added = pa.array(terms, pa.binary())
            columns[column] = pa.concat_arrays([columns[column], added])
        numbers = np.append(block.first + fields.rows[good], more).astype(np.int64)
        _BlockRows(self._use_of, self._language, part, numbers, *columns).take()
        return part


def _well_formed(block: Block, fields: Fields) -> BoolArray:
    """Return which lines have three terms and a dot, judged by the ends of the fields."""
    iris = [
        mask_of(pc.starts_with(column, b"<")) & mask_of(pc.ends_with(column, b">"))
        for column in fields.columns[:3]
    ]
    third = fields.columns[2]
    text = mask_of(pc.starts_with(third, b'"')) & mask_of(pc.greater(pc.binary_length(third), 1))
    good: BoolArray = iris[0] & iris[1] & (iris[2] | text)
    good &= mask_of(pc.equal(fields.columns[3], b"."))
    controls = np.flatnonzero(np.frombuffer(block.data, dtype=np.uint8) < _TAB)
    if len(controls):
        good &= ~np.isin(fields.rows, np.searchsorted(block.ends, controls))
    return good


def _parse_lines(
    block: Block, positions: list[int], part: FreebasePart
) -> tuple[list[tuple[bytes, bytes, bytes]], list[int]]:
    """Parse unusual lines by the pattern of a triple; return their terms and line numbers.

    Lines that do not match are rejected, and blank ones counted, in ``part``.
    """
    terms: list[tuple[bytes, bytes, bytes]] = []
    numbers: list[int] = []
    for number, raw in lines_at(block, sorted(positions)):
        if (match := match_line(part, number, raw)) is None:
            continue
        subject, predicate, iri, literal, tag, datatype = match.groups()
        suffix = f"@{tag}" if tag else f"^^<{datatype}>" if datatype else ""
        if _CONTROL.search(f"{subject}{predicate}{iri or suffix}"):
            part.rejects.append((number, "control character in an IRI", raw.decode()))
            continue
        if iri is None:  # a control character may stand in a text, but not in the dump's form
            plain = _CONTROL.sub(lambda control: f"\\u{ord(control[0]):04X}", literal)
        term = f"<{iri}>" if iri is not None else f'"{plain}"{suffix}'
        terms.append((f"<{subject}>".encode(), f"<{predicate}>".encode(), term.encode()))
        numbers.append(number)
    return terms, numbers


@dataclass(slots=True)
class _BlockRows:
    """The well-formed lines of a block as columns, to be sorted into a part."""

    use_of: Callable[[bytes], tuple[Use, str]]
    language: str
    part: FreebasePart
    numbers: IntArray
    subject: pa.Array
    predicate: pa.Array
    object: pa.Array

    def take(self) -> None:
        """Sort the lines by their predicates' uses into names, types, schema and edges."""
        predicates = self.predicate.dictionary_encode()
        uses = [self.use_of(term) for term in predicates.dictionary.to_pylist()]
        if not uses:
            return
        rows = np.arange(len(self.numbers))
        self.part.triples += len(rows)
        which = predicates.indices.to_numpy()
        kinds = np.array([use for use, _ in uses], dtype=np.uint8)
        counts = np.bincount(which, minlength=len(uses)).tolist()
        for place, ((use, reason), count) in enumerate(zip(uses, counts, strict=True)):
            if use == Use.NOTHING and count:
                self.part.dropped[reason] += count
                said = local_name(predicates.dictionary[place].as_py())
                self.part.examples.setdefault(reason, said)
        kind = kinds.take(which)
        self._reject_all(rows[kind == Use.NO_IRI], "predicate is not an IRI in angle brackets")
        self._add_schema(rows[kind == Use.MEDIATOR], rows[kind == Use.INVERSE])
        self._add_names(rows[kind <= Use.ALIAS], kind[kind <= Use.ALIAS])
        self._add_types(rows[kind == Use.TYPE])
        relations = pa.array([relation for _, relation in uses], type=pa.string())
        edge = kind == Use.EDGE
        self._add_relation_edges(rows[edge], pa.DictionaryArray.from_arrays(which[edge], relations))

    def _reject(self, row: int, reason: str) -> None:
        """Reject one line."""
        terms = [column[row].as_py() for column in (self.subject, self.predicate, self.object)]
        text = b"\t".join([*terms, b"."]).decode(errors="backslashreplace")
        self.part.rejects.append((int(self.numbers[row]), reason, text))

    def _reject_all(self, rows: IntArray, reason: str) -> None:
        """Reject several lines for one reason."""
        for row in rows.tolist():
            self._reject(row, reason)

    def _objects_of(self, rows: IntArray) -> pa.Array:
        """Return the objects of some lines."""
        return self.object.take(pa.array(rows))

    def _are_iris(self, rows: IntArray) -> BoolArray:
        """Return which lines have an IRI as object."""
        return mask_of(pc.starts_with(self._objects_of(rows), b"<"))

    def _subjects(self, rows: IntArray) -> IntArray:
        """Return the mids of lines' subjects, ``NO_MID`` (counted as dropped) for another one."""
        # A dump has the lines of an entity in a row, so most subjects are that of the line before.
        runs = pc.run_end_encode(self.subject.take(pa.array(rows)), run_end_type=pa.int32())
        ends = runs.run_ends.to_numpy()
        codes = np.repeat(_mids(runs.values)[0], np.diff(ends, prepend=0))
        if (without := codes == NO_MID).any():
            self.part.drop(ABOUT_SCHEMA, without, self.subject.take(pa.array(rows)))
        return codes

    def _literals(self, rows: IntArray) -> Literals:
        """Return the lines' literals in the wanted language or none; count others as dropped."""
        terms = self._objects_of(rows)
        literals = read_literals(terms, self.language)
        foreign = np.ones(len(rows), dtype=np.bool_)
        foreign[literals.rows] = False
        foreign[[place for place, _ in literals.faults]] = False
        self.part.drop(OTHER_LANGUAGE, foreign, terms)
        return literals

    def _add_names(self, rows: IntArray, uses: IntArray) -> None:
        """Add the names and aliases that lines state; reject IRIs, empty and malformed texts."""
        quoted = ~self._are_iris(rows)
        self._reject_all(rows[~quoted], "name is not text")
        rows, uses = rows[quoted], uses[quoted]
        literals = self._literals(rows)
        faulty = np.array([place for place, _ in literals.faults], dtype=np.int64)
        codes = np.full(len(rows), NO_MID, dtype=np.int64)
        read = np.sort(np.concatenate([literals.rows, faulty]))
        codes[read] = self._subjects(rows[read])
        for place, reason in literals.faults:
            if codes[place] != NO_MID:
                self._reject(int(rows[place]), reason)
        mids = codes[literals.rows]
        filled = is_text(literals.texts)
        self._reject_all(rows[literals.rows[~filled & (mids != NO_MID)]], "name is empty")
        kept = filled & (mids != NO_MID)
        uses = uses[literals.rows[kept]]
        ranks = np.array([0, 1, ALIAS])[uses]  # of Use.NAME, LABEL, ALIAS
        texts = pc.utf8_trim_whitespace(literals.texts.filter(pa.array(kept)))
        columns = [pa.array(mids[kept]), texts, pa.array(ranks)]
        batch = pa.RecordBatch.from_arrays(columns, names=["id", "text", "rank"])
        self.part.batches.append(NameBatch(batch, defines=True))

    def _add_types(self, rows: IntArray) -> None:
        """Add the types that lines state."""
        iris = self._are_iris(rows)
        self._reject_all(rows[~iris], "type is not an IRI")
        rows = rows[iris]
        mids = self._subjects(rows)
        kinds = self._objects_of(rows[mids != NO_MID]).dictionary_encode()
        names = pa.array([local_name(term) for term in kinds.dictionary.to_pylist()], pa.string())
        types = pa.DictionaryArray.from_arrays(kinds.indices, names)
        columns = [pa.array(mids[mids != NO_MID]), types]
        batch = pa.RecordBatch.from_arrays(columns, names=["id", "type"])
        self.part.batches.append(TypeBatch(batch))

    def _add_schema(self, mediators: IntArray, inverses: IntArray) -> None:
        """Add which types are mediators and which relations are inverses."""
        marked = mask_of(pc.starts_with(self._objects_of(mediators), b'"true"'))
        for subject in self.subject.take(pa.array(mediators[marked])).to_pylist():
            self.part.mediator_types.add(local_name(subject))
        iris = self._are_iris(inverses)
        self._reject_all(inverses[~iris], "inverse is not an IRI")
        for row in inverses[iris].tolist():
            ends = (self.subject[row].as_py(), self.object[row].as_py())
            self.part.inverses.add((local_name(ends[0]), local_name(ends[1])))

    def _add_relation_edges(self, rows: IntArray, relations: pa.DictionaryArray) -> None:
        """Add the edges to mids and to values that lines state; other objects count as dropped."""
        heads = self._subjects(rows)
        known = heads != NO_MID
        rows, heads, relations = rows[known], heads[known], relations.filter(pa.array(known))
        iris = self._are_iris(rows)
        objects = self._objects_of(rows[iris])
        tails, outside = _mids(objects)
        self.part.drop("web address", outside, objects)
        self.part.drop("object is of the schema", (tails == NO_MID) & ~outside, objects)
        kept = np.flatnonzero(iris)[tails != NO_MID]
        self._add_edges(
            heads[kept], relations.take(pa.array(kept)), pa.array(tails[tails != NO_MID])
        )
        places = np.flatnonzero(~iris)
        literals = self._literals(rows[places])
        for place, reason in literals.faults:
            self._reject(int(rows[places[place]]), reason)
        worth = _are_values(literals.texts)
        self.part.drop(_LEFT_OUT, ~worth, literals.texts)
        kept = places[literals.rows[worth]]
        if len(kept):
            ids, names = literals.values(worth)
            self._add_edges(heads[kept], relations.take(pa.array(kept)), ids)
            batch = pa.RecordBatch.from_arrays([ids, names], names=["id", "name"])
            self.part.batches.append(ValueBatch(batch))

    def _add_edges(self, heads: IntArray, relations: pa.Array, tails: pa.Array) -> None:
        """Add a batch of edges."""
        columns = [pa.array(heads), relations, tails, pa.nulls(len(heads), pa.string())]
        names = ["head", "relation", "tail", "properties"]
        self.part.batches.append(EdgeBatch(pa.RecordBatch.from_arrays(columns, names=names)))


def _are_values(texts: pa.Array) -> BoolArray:
    """Return which texts become value nodes: short, not blank, not web addresses."""
    worth = mask_of(pc.less(pc.utf8_length(texts), LONGEST_TEXT)) & is_text(texts)
    web = pc.or_(pc.starts_with(texts, "http://"), pc.starts_with(texts, "https://"))
    return worth & ~mask_of(web)


def _mids(terms: pa.Array) -> tuple[IntArray, BoolArray]:
    """Return the mid of each term, ``NO_MID`` if it has none, and which terms are web addresses."""
    encoded = terms.dictionary_encode()
    unique = encoded.dictionary
    codes = encode_mids(unique, len(_START), 1)
    # what does not begin as the dump's own terms do has no mid, or one in another namespace
    begins = mask_of(pc.starts_with(unique, _START))
    codes[~begins] = NO_MID
    outside = np.zeros(len(unique), dtype=np.bool_)
    for place in np.flatnonzero(~begins).tolist():
        name = local_name(unique[place].as_py())
        outside[place] = name.startswith(("http:", "https:"))
        if not outside[place]:
            codes[place] = encode_mids(pa.array([name]))[0]
    indices = encoded.indices.to_numpy()
    return codes[indices], outside[indices]


class FreebaseOptions(Options):
    """How a Freebase dump is read."""

    heading: ClassVar[str] = "freebase"

    language: str = flag("en", "Language of names, aliases and texts.")
    filters: Path | None = flag(
        None, "File of the predicates to leave out or keep, instead of the bundled list."
    )


class FreebaseLoader:
    """Reads Freebase dumps; see the module."""

    Options = FreebaseOptions
    name = "freebase"
    direction: Direction = "out"
    licence = "CC-BY 2.5 (Freebase data dump, Google)"
    where = "https://developers.google.com/freebase (freebase-rdf-latest.gz, about 30 GB)"
    dump = DumpFiles(("freebase-rdf-latest.gz", "freebase-rdf-*.gz", "freebase-rdf-*"))
    sample = "data/freebase/sample.nt.gz"
    lone_entities = True

    def __init__(self, options: FreebaseOptions | None = None) -> None:
        self.options = options or FreebaseOptions()
        given = self.options.filters
        self._filters = Filters(data_lines(given) if given else bundled(FILTERS))
        self._mediator_types = frozenset(bundled(MEDIATOR_TYPES))

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield names, types, values and edges, then type rules, mediators and relations.

        Raises DumpNotFoundError, DumpMalformedError.
        """
        files = find_sources(sources, "Freebase dump")
        reader = BlockReader(self.options.language, self._filters)
        mediator_types = set(self._mediator_types)
        inverses: dict[str, str] = {}
        triples = 0
        for part in mapped(reader.read, read_blocks(files, report, rejects, progress)):
            triples += part.triples
            mediator_types |= part.mediator_types
            for relation, inverse in part.inverses:
                inverses[relation] = inverse
                inverses.setdefault(inverse, relation)
            part.record(report, rejects)
            yield from part.batches
        if not triples:
            raise nothing_read("a Freebase dump (N-Triples)", files, report)
        yield TypeRules(frozenset(mediator_types), self._filters.keeps)
        pairs = sorted(
            pair for pair in inverses.items() if all(self._filters.keeps(each) for each in pair)
        )
        rows = [
            {"id": relation, "name": relation, "inverse": inverse} for relation, inverse in pairs
        ]
        yield RelationBatch(pa.RecordBatch.from_pylist(rows, schema=RELATION_SCHEMA))

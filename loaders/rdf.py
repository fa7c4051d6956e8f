"""RDF as it is: Turtle, TriG, N-Quads, N3, RDF/XML and JSON-LD, by ``pyoxigraph``.

What N-Triples give (:mod:`kgqa.loaders.ntriples`) is given here, too, by the same batches, and what
they cannot say beside it: labels in an order of languages, named graphs as a property of the edge,
lists, blank nodes as mediators, and restrictions of OWL as the edges that they mean. A relation is
called by its label. N-Triples alone are read several times faster by the loader ``triples``.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.graph.model import RELATION_SCHEMA, EdgeBatch, Kind, NameBatch, RelationBatch, ValueBatch
from kgqa.loaders.base import Rejects, Report, entity_batch
from kgqa.loaders.blocks import (
    Block,
    ByteStream,
    display_name,
    ending_of,
    find_sources,
    nothing_read,
)
from kgqa.loaders.ntriples import is_unnamed
from kgqa.loaders.rdf_blank import BlankNodes
from kgqa.loaders.rdf_rows import LABEL_PROPERTIES, STATEMENT, TERMS, StatementsReader
from kgqa.loaders.strings import mask_of, spans, whole_lines
from kgqa.loaders.triples import MediatorRule
from kgqa.loaders.triples_rows import TriplesPart
from kgqa.registry import Direction, Options, flag, option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import Batch
    from kgqa.progress import Progress

FORMATS = {
    ".ttl": "turtle",
    ".turtle": "turtle",
    ".trig": "trig",
    ".nt": "ntriples",
    ".ntriples": "ntriples",
    ".nq": "nquads",
    ".nquads": "nquads",
    ".n3": "n3",
    ".rdf": "rdfxml",
    ".owl": "rdfxml",
    ".rdfs": "rdfxml",
    ".xml": "rdfxml",
    ".jsonld": "jsonld",
    ".json-ld": "jsonld",
    ".json": "jsonld",
}
"""The endings of names, and the format that a file of such a name has."""

_OF_OXIGRAPH = {
    "turtle": "TURTLE",
    "trig": "TRIG",
    "ntriples": "N_TRIPLES",
    "nquads": "N_QUADS",
    "n3": "N3",
    "rdfxml": "RDF_XML",
    "jsonld": "JSON_LD",
}
_ONE_TREE = ("rdfxml", "jsonld")  # nothing can be read after a fault of these
_ONE_GRAPH = ("turtle", "ntriples", "rdfxml")
_AT_ONCE = 1 << 16  # statements that are worked on together
_MOST_FAULTS = 10_000  # in one file, one after another
_POSITION = re.compile(r"^Parser error (?:at|between) .*?: ")
UNREADABLE = "statement about a statement"
_REST_UNREAD = "; the rest of the file is not read"


class RdfOptions(Options):
    """How files of RDF are read."""

    heading: ClassVar[str] = "rdf"

    form: Literal["turtle", "trig", "ntriples", "nquads", "n3", "rdfxml", "jsonld"] | None = flag(
        None, "Format of the files (default: found from the ending or the first bytes)."
    )
    base: str | None = flag(None, "Base of relative IRIs (default: one made of the file's name).")
    labels: str | None = flag(None, "IRIs of further properties of names, separated by commas.")
    language: str = flag("en", "Language of labels and texts; its regions and untagged texts too.")
    direction: Direction = flag("both", "Direction in which paths may follow an edge.")
    type_relation: str | None = option(
        None,
        "Relation that gives types, or `none` (default: `rdf:type`, and others found by name and "
        "tails).",
    )
    mediators: str = option(
        "_:", "Pattern that matches the start of the ids that are mediators if they have no name."
    )


class RdfLoader:
    """Reads files of RDF; see the module."""

    Options = RdfOptions
    name = "rdf"
    licence = ""
    where = "your own files: kgqa ingest rdf FILE…"

    def __init__(self, options: RdfOptions | None = None) -> None:
        """Set the options. Raises UsageError if pyoxigraph is not installed."""
        self.options = options or RdfOptions()
        self.direction: Direction = self.options.direction
        if find_spec("pyoxigraph") is None:
            raise UsageError(
                "RDF is read by pyoxigraph, which is not installed.",
                'Install it: pip install "kgqa[rdf]". N-Triples need nothing: kgqa ingest triples.',
            )

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield edges, nodes, names and values as they are read; relations last.

        Raises DumpNotFoundError, DumpMalformedError.
        """
        options = self.options
        files = find_sources(sources, "RDF")
        extra = {iri.strip() for iri in (options.labels or "").split(",") if iri.strip()}
        reader = StatementsReader(options.language, LABEL_PROPERTIES | extra)
        mediators = MediatorRule(options.mediators)
        relations: dict[str, None] = {}
        total = sum(path.stat().st_size for path in files if path.exists())
        with progress.task("reading RDF", total or None, "bytes") as task, ExitStack() as stack:
            for source in files:
                stream = stack.enter_context(ByteStream(source, report, task))
                parser = _Parser(source, stream, options, rejects)
                for part in _read_parts(parser, reader):
                    part.record(report, rejects)
                    for edges in (*part.edges, *part.typed):
                        names = edges.column("relation").dictionary.to_pylist()
                        relations |= dict.fromkeys(names)
                    yield from _batches_of(part, mediators)
        if not reader.count:
            raise nothing_read("RDF", files, report, "Say its format by `form`.")
        inverses = {i: o for i, o in reader.inverses.items() if i in relations and o in relations}
        rows = [{"id": id_, "name": "", "inverse": other} for id_, other in inverses.items()]
        yield RelationBatch(pa.RecordBatch.from_pylist(rows, schema=RELATION_SCHEMA))


def _batches_of(part: TriplesPart, mediators: MediatorRule) -> Iterator[Batch]:
    """Convert a part's edges, nodes, labels and values to batches."""
    for edges in (*part.edges, *part.typed):
        yield EdgeBatch(edges)
    for ids, unless in ((part.ends, False), (part.described, True)):
        if len(ids):
            kinds = np.where(mediators.match(ids) | is_unnamed(ids), Kind.MEDIATOR, Kind.ENTITY)
            batch = entity_batch(ids, kind=pa.array(kinds.astype(np.uint8)))
            yield replace(batch, by_id=True, by_iri=True, unless_relation=unless)
    yield from map(NameBatch, part.labels)
    yield from map(ValueBatch, part.values)


def _read_parts(parser: _Parser, reader: StatementsReader) -> Iterator[TriplesPart]:
    """Yield parts of a file's statements; those about blank nodes come at its end."""
    blank = BlankNodes(parser.prefix)
    for terms, unread in parser.terms():
        part = TriplesPart(parser.name)
        part.dropped[UNREADABLE] += unread
        reader.take(part, blank.hold(terms))
        part.find_ends()
        yield part
    for resolved in blank.resolved():
        part = TriplesPart(parser.name)
        if isinstance(resolved, pa.RecordBatch):
            reader.take(part, resolved)
            part.find_ends()
        else:
            part.dropped.update(resolved)
        yield part


class _Parser:
    """Parses the statements of one file; malformed ones are rejected."""

    def __init__(
        self, source: Path, stream: ByteStream, options: RdfOptions, rejects: Rejects
    ) -> None:
        self.name = display_name(source)
        self.form = options.form or FORMATS.get(ending_of(source)) or guessed(stream.opening)
        self.prefix = hashlib.sha256(stream.opening).hexdigest()[:10]
        self._base = options.base or f"file:///{source.name}"
        self._stream = stream
        self._rejects = rejects

    def terms(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield batches of statements, each with the number of quoted-triple statements dropped."""
        import pyoxigraph

        format_ = getattr(pyoxigraph.RdfFormat, _OF_OXIGRAPH[self.form])
        options: dict[str, Any] = {"format": format_}
        if self.form not in ("ntriples", "nquads"):
            options["base_iri"] = self._base
        try:
            parsed = pyoxigraph.parse(cast("IO[bytes]", self._stream), **options)
        except ValueError as error:
            raise UsageError(
                f"The base {self._base!r} is not an IRI: {error}.", "Give one by `base`."
            ) from None
        nquads, statements = pyoxigraph.RdfFormat.N_QUADS, self._statements(parsed)
        while written := pyoxigraph.serialize(islice(statements, _AT_ONCE), format=nquads):
            block = Block(self.name, 1, written.count(b"\n"), written)
            plain = self.form in _ONE_GRAPH and b"<<" not in written
            yield _plain_columns(block) if plain else _columns(block)
        self._stream.check()

    def _statements(self, parsed: Iterator[Any]) -> Iterator[Any]:
        """Yield the well-formed statements of the parser; reject the malformed ones.

        Reading ends at a fault in RDF/XML or JSON-LD, or after several faults in a row.
        """
        faults = 0
        while True:
            try:
                if (row := next(parsed, None)) is None:
                    return
                faults = 0
                yield row
                yield from parsed
                return
            except SyntaxError as error:
                faults += 1
                lost = self.form in _ONE_TREE or faults >= _MOST_FAULTS
                self._reject(error, lost)
                if lost:
                    return
            except (ValueError, OSError) as error:
                self._stream.check()
                raise DumpMalformedError(
                    f"{self.name} cannot be read: {error}.", "Say its format by `form`."
                ) from None

    def _reject(self, error: SyntaxError, rest_lost: bool) -> None:
        """Reject a malformed statement; ``rest_lost``: the rest of the file cannot be read."""
        reason = _POSITION.sub("", error.msg or "not RDF").strip().rstrip(".")[:120]
        reason += _REST_UNREAD if rest_lost else ""
        self._rejects.add(self.name, error.lineno or 1, reason, f"column {error.offset or 1}")


def _plain_columns(block: Block) -> tuple[pa.RecordBatch, int]:
    """Split N-Triples as the serializer writes them into columns; the count is 0.

    For lines that have neither graphs nor quoted triples; much faster than :func:`_columns`.
    """
    blanks = np.flatnonzero(np.frombuffer(block.data, dtype=np.uint8) == ord(" "))
    starts, ends = np.append(0, block.ends[:-1] + 1), block.ends - len(" .")
    first = np.searchsorted(blanks, starts)  # only an object may have blanks
    marks = blanks[first], blanks[first + 1]
    places = ((starts, marks[0]), (marks[0] + 1, marks[1]), (marks[1] + 1, ends))
    columns = [spans(block.data, *place).view(pa.string()) for place in places]
    columns.append(pa.nulls(block.lines, pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=TERMS), 0


def _columns(block: Block) -> tuple[pa.RecordBatch, int]:
    """Split lines of N-Quads into columns of terms; also count lines with quoted triples."""
    matches = pc.extract_regex(whole_lines(block).view(pa.string()), STATEMENT)
    fits = mask_of(matches.is_valid())
    if not fits.all():
        matches = matches.filter(pa.array(fits))
    columns = [matches.field(name) for name in TERMS.names[:3]]
    graph = matches.field("graph")
    default = pc.equal(pc.binary_length(graph), 0)
    columns.append(pc.if_else(default, pa.scalar(None, pa.string()), graph))
    return pa.RecordBatch.from_arrays(columns, schema=TERMS), int(np.count_nonzero(~fits))


_XML = re.compile(rb"\s*<(?:\?xml|!DOCTYPE|!--|rdf:RDF|Ontology)")
_JSON = re.compile(rb"\s*[\[{]\s*[\"\]\[{}]")


def guessed(opening: bytes) -> str:
    """Guess a file's RDF format by its first bytes: RDF/XML, JSON-LD, else TriG.

    TriG includes every Turtle file, and every N-Quads file without named graphs.
    """
    if _XML.match(opening):
        return "rdfxml"
    if _JSON.match(opening):
        return "jsonld"
    first = next(
        (line for line in opening.splitlines() if line.strip()[:1] not in (b"", b"#")), b""
    )
    return "nquads" if first.startswith((b"<", b"_:")) and first.count(b"<") >= 3 else "trig"

"""Your own KG: files of triples, with names, types and mediators beside them where there are any.

An id without a name is its own name, so a KG of names needs nothing but its triples. What it does
not do: guess that two ids are one entity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.graph.model import DIRECTIONS, Direction, Kind
from kgqa.loaders.batches import edge_batches, entity_batches, relation_batches
from kgqa.loaders.filters import data_lines
from kgqa.loaders.lines import find_sources, nothing_read, read_lines
from kgqa.loaders.ntriples import Literal, is_blank, parse
from kgqa.loaders.tables import Columns, read_delimited, read_json_lines, read_parquet
from kgqa.loaders.values import value_id, value_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kgqa.graph.model import Batch
    from kgqa.loaders.base import Rejects, Report
    from kgqa.loaders.batches import EntityRow
    from kgqa.loaders.tables import Row
    from kgqa.progress import Progress

FORMS = ("delimited", "ntriples", "jsonl", "parquet")
_ENDINGS = {
    ".nt": "ntriples",
    ".ntriples": "ntriples",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
_NAME = frozenset(
    {
        "http://www.w3.org/2000/01/rdf-schema#label",
        "http://www.w3.org/2004/02/skos/core#prefLabel",
        "http://schema.org/name",
        "http://xmlns.com/foaf/0.1/name",
    }
)
_ALIAS = "http://www.w3.org/2004/02/skos/core#altLabel"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


@dataclass(frozen=True, slots=True)
class TriplesOptions:
    """How files of triples are read.

    ``form``: one of ``FORMS``; by the file's ending, or its first line, where it is None.
    ``delimiter``, ``columns``, ``header``: see ``tables.read_delimited``. ``names``, ``types`` and
    ``relation_names``: files of ``id TAB name``, an id again meaning an alias or a further type.
    ``mediators``: a pattern that the ids of nameless nodes match from their start, or a file of
    ids. ``language``: of the labels in N-Triples.
    """

    form: str | None = None
    delimiter: str | None = None
    columns: str | None = None
    header: bool | None = None
    names: Path | None = None
    types: Path | None = None
    relation_names: Path | None = None
    mediators: str | Path | None = None
    direction: Direction = "both"
    language: str = "en"


class TriplesLoader:
    """Reads files of triples; see the module."""

    name = "triples"
    licence = ""
    where = "your own files: kgqa ingest triples FILE…"

    def __init__(self, options: TriplesOptions | None = None) -> None:
        """Take the options. Raises UsageError where one has no sense."""
        self.options = options or TriplesOptions()
        if self.options.direction not in DIRECTIONS:
            raise UsageError(
                f"There is no direction {self.options.direction!r}.",
                f"Say one of {', '.join(DIRECTIONS)}.",
            )
        if self.options.form not in (None, *FORMS):
            raise UsageError(
                f"There is no form {self.options.form!r}.", f"Say one of {', '.join(FORMS)}."
            )
        if self.options.columns:
            Columns(self.options.columns.split(","))
        self.direction: Direction = self.options.direction

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield relation names, edges as they are read, then entities.

        Raises DumpNotFoundError, DumpMalformedError, and UsageError where an option does not fit.
        """
        found = find_sources(sources, "triples")
        is_mediator = _mediator_rule(self.options.mediators)
        nodes = _Nodes(self.options.language)

        def pairs(path: Path | None, what: str) -> Iterator[tuple[str, str]]:
            return _pairs(path, what, report, rejects, progress)

        for ident, name in pairs(self.options.names, "names"):
            nodes.add_name(ident, name)
        for ident, name in pairs(self.options.types, "types"):
            nodes.types.setdefault(ident, {})[name] = None
        relation_names = dict(pairs(self.options.relation_names, "relation names"))

        def edges() -> Iterator[Row]:
            for source in found:
                for row in self._rows(source, nodes, report, rejects, progress):
                    nodes.seen[row[0]] = nodes.seen[row[2]] = None
                    nodes.relations[row[1]] = None
                    yield row

        yield from edge_batches(edges())
        if not nodes.seen and not nodes.described:
            raise nothing_read("a triple", found, report)
        yield from relation_batches(
            (ident, relation_names.get(ident) or nodes.relation_name(ident))
            for ident in nodes.relations
        )
        yield from entity_batches(nodes.rows(is_mediator, report))

    def _rows(
        self,
        source: Path,
        nodes: _Nodes,
        report: Report,
        rejects: Rejects,
        progress: Progress,
    ) -> Iterator[Row]:
        options = self.options
        form = options.form or _form_of(source)
        if form == "parquet":
            return read_parquet(source, report, rejects, progress, options.columns)
        if form == "jsonl":
            return read_json_lines(source, report, rejects, progress)
        if form == "ntriples":
            return _ntriples(source, nodes, report, rejects, progress)
        return read_delimited(
            source, report, rejects, progress, options.delimiter, options.columns, options.header
        )


class _Nodes:
    """What the files say of nodes and relations besides the edges."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.seen: dict[str, None] = {}  # ends of edges, in the order they came
        self.relations: dict[str, None] = {}
        self.types: dict[str, dict[str, None]] = {}
        self.described: dict[str, None] = {}  # named or typed by the triples themselves
        self._names: dict[str, list[str]] = {}
        self._aliases: dict[str, list[str]] = {}
        self._values: dict[str, str] = {}

    def add_name(self, ident: str, name: str) -> None:
        names = self._names.setdefault(ident, [])
        if name not in names:
            names.append(name)

    def add_alias(self, ident: str, alias: str) -> None:
        self._aliases.setdefault(ident, []).append(alias)

    def add_value(self, literal: Literal) -> str:
        ident = value_id(literal.text, literal.language, literal.datatype)
        self._values[ident] = value_name(literal.text, literal.datatype)
        return ident

    def relation_name(self, ident: str) -> str:
        """Return a relation's label, the last part of its IRI, or its id."""
        if ident in self._names:
            return self._names[ident][0]
        if ident.startswith(("http://", "https://", "urn:")):
            return re.split(r"[/#:]", ident.rstrip("/#"))[-1] or ident
        return ident

    def rows(self, is_mediator: Callable[[str], bool], report: Report) -> Iterator[EntityRow]:
        """Yield every node of an edge, and those that the triples themselves name or type."""
        for ident in self.seen | self.described:
            if ident in self.seen or ident not in self.relations:
                yield self._row(ident, is_mediator)
        alone = self._names.keys() - self.seen.keys() - self.described.keys()
        if alone:
            report.dropped["name without an edge"] += len(alone)

    def _row(self, ident: str, is_mediator: Callable[[str], bool]) -> EntityRow:
        if ident in self._values:
            return ident, self._values[ident], None, Kind.VALUE, None, None
        names = self._names.get(ident, [])
        types = list(self.types.get(ident, ()))
        if not names and is_mediator(ident):
            return ident, None, None, Kind.MEDIATOR, types, None
        name = names[0] if names else ident.strip()
        others = dict.fromkeys([*names[1:], *self._aliases.get(ident, ())])
        return ident, name, [other for other in others if other != name], Kind.ENTITY, types, None


def _ntriples(
    source: Path, nodes: _Nodes, report: Report, rejects: Rejects, progress: Progress
) -> Iterator[Row]:
    for number, line in read_lines(source, report, rejects, progress):
        if is_blank(line):
            report.dropped["blank line or comment"] += 1
            continue
        try:
            subject, predicate, found = parse(line)
        except ValueError as error:
            rejects.add(source.name, number, str(error), line)
            continue
        if isinstance(found, Literal):
            if found.language not in (None, nodes.language):
                report.dropped["other language"] += 1
            elif not found.text.strip():
                report.dropped["empty text"] += 1
            elif predicate in _NAME:
                nodes.add_name(subject, found.text.strip())
                nodes.described[subject] = None
            elif predicate == _ALIAS:
                nodes.add_alias(subject, found.text.strip())
            else:
                yield subject, predicate, nodes.add_value(found), None
        elif predicate == _TYPE:
            nodes.types.setdefault(subject, {})[found] = None
            nodes.described[subject] = None
        else:
            yield subject, predicate, found, None


def _form_of(source: Path) -> str:
    name = source.name.removesuffix(".gz").removesuffix(".bz2").lower()
    return _ENDINGS.get(Path(name).suffix, "delimited")


def _pairs(
    path: Path | None, what: str, report: Report, rejects: Rejects, progress: Progress
) -> Iterator[tuple[str, str]]:
    """Yield (id, name) of a file's lines ``id TAB name``."""
    if path is None:
        return
    found = 0
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a file of {what}.")
    for number, line in read_lines(path, report, rejects, progress):
        if not line.strip():
            report.dropped["blank line or comment"] += 1
            continue
        ident, tab, name = line.partition("\t")
        name = name.strip()
        if tab and ident.strip() and name:
            found += 1
            yield ident, name
        else:
            rejects.add(path.name, number, f"no line of {what} (id TAB name)", line)
    if not found:
        raise DumpMalformedError(
            f"{path} holds no line of {what}.", "Each line is an id, a tab and a name."
        )


def _mediator_rule(mediators: str | Path | None) -> Callable[[str], bool]:
    if mediators is None:
        return lambda ident: False
    if isinstance(mediators, Path) or Path(mediators).is_file():
        return frozenset(data_lines(Path(mediators))).__contains__
    try:
        pattern = re.compile(mediators)
    except re.error as error:
        raise UsageError(
            f"The mediators {mediators!r} are neither a file nor a pattern: {error}.",
            r"A pattern for Freebase's ids is ^[mg]\.",
        ) from None
    return lambda ident: pattern.match(ident) is not None

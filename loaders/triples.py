"""Your own KG: files of triples, with names, types and mediators beside them if there are any.

An id without a name is its own name, so a KG of names needs nothing but its triples. Several files
or a folder of parts make one KG; each may be compressed, and one may be standard input (``-``).

- Delimited text: a header that says head, relation, tail (or subject, predicate, object, …) gives
  the columns, else they are head, relation, tail, or what ``columns`` says. Between commas or
  semicolons a field may stand in quotes, and hold line ends there.
- N-Triples bring names (``rdfs:label`` and its like), aliases (``skos:altLabel``) and types.
- JSON lines: objects with head, relation, tail, or arrays of three. Parquet: a row for a triple.
- Further columns are properties of the edge.

OpenKE's files are known by their names, ``train2id.txt`` and ``entity2id.txt``: a first line that
counts the others is known as such, and makes the name the first column of a file of names. Where
the relation stands in a table without a header, its values may say. Freebase as a table
of mids (FB-lite) is a file of triples with a file of names, and ``mediators`` says which mids are
not entities.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import UsageError
from kgqa.graph.model import EdgeBatch, Kind, NameBatch, TypeBatch, ValueBatch
from kgqa.loaders.base import Rejects, Report, data_lines, entity_batch, relation_batch
from kgqa.loaders.blocks import (
    STDIN,
    Block,
    display_name,
    ending_of,
    find_sources,
    nothing_read,
    read_blocks,
)
from kgqa.loaders.forms import N_TRIPLES, PARQUET
from kgqa.loaders.graphs import parted, read_graphs
from kgqa.loaders.ntriples import TRIPLE, is_blank, is_unnamed, read_ntriples
from kgqa.loaders.strings import mask_of
from kgqa.loaders.triples_cells import read_json, read_parquet
from kgqa.loaders.triples_pairs import read_pairs
from kgqa.loaders.triples_rows import PARTS, Columns, TriplesPart
from kgqa.loaders.triples_table import (
    Layout,
    find_layout,
    first_lines,
    opened,
    quoted_records,
    read_lines,
    read_records,
)
from kgqa.parallel import mapped
from kgqa.registry import Direction, Options, flag, option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.graph.model import Batch, BoolArray
    from kgqa.progress import Progress

_ENDINGS = {
    ".nt": "ntriples",
    ".ntriples": "ntriples",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".tsv": "delimited",
    ".csv": "delimited",
    ".tab": "delimited",
    ".txt": "delimited",
}
_OPENKE = re.compile(r"(?:train|valid|test)2id\.txt(?:\.gz|\.bz2|\.zst)?", re.IGNORECASE)
_OPENING = 20  # lines that a form is found from


class TriplesOptions(Options):
    """How files of triples are read."""

    heading: ClassVar[str] = "triples"

    form: Literal["delimited", "ntriples", "jsonl", "parquet"] | None = flag(
        None, "Format of the files (default: found from the ending or the first lines)."
    )
    columns: str | None = flag(
        None,
        "Names of the columns, separated by commas, with _ for one to skip (default: those of a "
        "header, or head,relation,tail).",
    )
    delimiter: str | None = flag(
        None,
        "Separator between fields: one character, or whitespace (default: found from the file).",
    )
    header: bool | None = option(
        None, "Whether the first line is a header (default: found from the file)."
    )
    names: Path | None = flag(
        None,
        "File of names: an id, a tab and a name on each line; further names of an id are aliases.",
    )
    types: Path | None = flag(None, "File of types: an id, a tab and a type on each line.")
    relation_names: Path | None = flag(
        None, "File of the relations' names: an id, a tab and a name on each line."
    )
    type_relation: str | None = flag(
        None,
        "Relation that gives types, or `none` (default: found by its name and its tails).",
    )
    mediators: str | Path | None = flag(
        None,
        "Ids that are mediators if they have no name: a pattern that matches the start of the id, "
        "or a file of ids.",
        union_mode="left_to_right",
    )
    direction: Direction = flag("both", "Direction in which paths may follow an edge.")
    language: str = option("en", "Language of the labels to keep from N-Triples.")


class TriplesLoader:
    """Reads files of triples; see the module."""

    Options = TriplesOptions
    name = "triples"
    licence = ""
    where = "your own files: kgqa ingest triples FILE…"

    def __init__(self, options: TriplesOptions | None = None) -> None:
        """Set the options. Raises UsageError if the columns lack a part of a triple."""
        self.options = options or TriplesOptions()
        if self.options.columns:
            Columns(self.options.columns.split(","))
        self.direction: Direction = self.options.direction

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield names and types, then edges with their ends as they are read, relations last.

        Raises DumpNotFoundError, DumpMalformedError, and UsageError if an option does not fit.
        """
        files, options = _openke_layout(_data_files(sources), self.options, progress)
        if options.form is None and options.delimiter is None:
            graphs, files = parted(files, "a file of triples", (N_TRIPLES, PARQUET))
            yield from read_graphs(graphs, report, rejects, progress)
            if not files:
                return
        mediators = MediatorRule(options.mediators)
        pairs = partial(read_pairs, report=report, rejects=rejects, progress=progress)
        for rows in pairs(options.names, "names"):
            yield NameBatch(rows.rename_columns(["id", "text", "rank"]))
        for rows in pairs(options.types, "types"):
            yield TypeBatch(pa.RecordBatch.from_arrays(rows.columns[:2], names=["id", "type"]))
        relation_names = _last_texts(pairs(options.relation_names, "relation names"))
        relations: dict[str, None] = {}
        is_anything = False
        layouts: list[Layout] = []  # of the first file whose columns no header names
        for source in files:
            for part in self._read_source(source, options, layouts, report, rejects, progress):
                part.record(report, rejects)
                is_anything |= bool(part.edges or part.typed or part.labels)
                for edges in (*part.edges, *part.typed):
                    relations |= dict.fromkeys(edges.column("relation").dictionary.to_pylist())
                    yield EdgeBatch(edges)
                for ids, unless in ((part.ends, False), (part.described, True)):
                    if len(ids):
                        is_mediator = mediators.match(ids) | is_unnamed(ids)
                        kinds = np.where(is_mediator, Kind.MEDIATOR, Kind.ENTITY)
                        batch = entity_batch(ids, kind=pa.array(kinds.astype(np.uint8)))
                        by_iri = ids[0].as_py().startswith("http")
                        yield replace(batch, by_id=True, by_iri=by_iri, unless_relation=unless)
                yield from map(NameBatch, part.labels)
                yield from map(ValueBatch, part.values)
        if not is_anything:
            hint = (
                "Name the columns by `columns`, with _ for one that is not wanted; a table with a "
                "row for each thing is read by `kgqa ingest tables`, prose by `kgqa ingest text`."
            )
            raise nothing_read("a triple", files, report, hint)
        yield relation_batch({id_: n for id_, n in relation_names.items() if id_ in relations})

    def _read_source(
        self,
        source: Path,
        options: TriplesOptions,
        layouts: list[Layout],
        report: Report,
        rejects: Rejects,
        progress: Progress,
    ) -> Iterator[TriplesPart]:
        """Read one source as parts, by the parser of its format."""
        form = options.form or _ENDINGS.get(ending_of(source))
        if form == "parquet":
            return read_parquet(source, report, progress, options.columns)
        before = report.lines
        blocks = read_blocks([source], report, rejects, progress, guess=True)
        if form is None:
            opening, blocks = opened(blocks)
            form = _form_of(opening) if opening else "delimited"
        if form == "ntriples":
            scope = "" if before == 0 else f"{source.name}/"  # of another file's blank nodes
            work = partial(read_ntriples, language=options.language, rank=before, scope=scope)
            return mapped(work, blocks)
        if form == "jsonl":
            return mapped(partial(read_json, columns=options.columns), blocks)
        layout, blocks = find_layout(
            blocks,
            display_name(source) if source == STDIN else str(source),
            options.delimiter,
            options.columns,
            options.header,
            likely="," if ".csv" in source.suffixes else "",
            alike=layouts[0] if layouts else None,
        )
        if not layouts and not options.columns and not layout.is_headed:
            layouts.append(layout)
            if (places := layout.columns.places) != (0, 1, 2):
                order = ",".join(PARTS[places.index(at)] for at in range(len(places)))
                self.options = self.options.model_copy(update={"columns": order})  # of an update
                progress.note(
                    f"{display_name(source)}: the columns are read as {order}, since "
                    "two of them share their values; `columns` gives another order."
                )
        if layout.quoted:
            quoted = quoted_records(blocks, layout.delimiter)
            return (read_records(*records, layout) for records in quoted)
        return mapped(partial(read_lines, layout=layout), blocks)


def _openke_layout(
    files: list[Path], options: TriplesOptions, progress: Progress
) -> tuple[list[Path], TriplesOptions]:
    """Adapt files and options to OpenKE's layout, recognised by its file names.

    Triples are numbers there, in the order head, tail, relation; their names are in two other
    files. Other files, and files with given columns or format, stay as they are.
    """
    triples = [file for file in files if _OPENKE.fullmatch(file.name)]
    if not triples or options.columns or options.form:
        return files, options
    given: dict[str, Any] = {"columns": "head,tail,relation"}
    for option_, called in (("names", "entity2id"), ("relation_names", "relation2id")):
        beside = next(triples[0].parent.glob(f"{called}.txt*"), None)
        if getattr(options, option_) is None and beside is not None:
            given[option_] = beside
    unread = [file.name for file in files if file not in (*triples, *given.values())]
    read = ", ".join(file.name for file in triples)
    progress.note(f"{read}: each line is read as head, tail and relation by number, as in OpenKE.")
    if unread:
        progress.note(f"Not read, since they hold no triples: {', '.join(unread)}.")
    return triples, options.model_copy(update=given)


def _data_files(sources: Sequence[Path]) -> list[Path]:
    """Return the files of the sources, without markers such as a folder's ``_SUCCESS``."""
    files = find_sources(sources, "triples")
    return [file for file in files if file in sources or file.name[0] != "_"] or files


def _last_texts(batches: Iterator[pa.RecordBatch]) -> dict[str, str]:
    """Return the text of each id; the last line of an id wins."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    return {row["id"]: row["text"] for row in sorted(rows, key=lambda row: row["line"])}


def _form_of(block: Block) -> str:
    """Detect the format of a block by its first lines: ntriples, jsonl or delimited."""
    for line in first_lines(block, _OPENING):
        line = line.strip()
        if is_blank(line):
            continue
        if TRIPLE.fullmatch(line):
            return "ntriples"
        if line[0] in "{[":
            try:
                json.loads(line)
            except (ValueError, RecursionError):
                continue
            return "jsonl"
        break
    return "delimited"


class MediatorRule:
    """Tells which nameless ids are mediators: by a pattern, or by a file of ids."""

    def __init__(self, mediators: str | Path | None) -> None:
        """Compile the option. Raises UsageError if it is neither, DumpNotFoundError."""
        self.any = mediators is not None
        self._ids: pa.Array | None = None
        self._pattern: re.Pattern[str] | None = None
        self._start: str | None = None
        if mediators is None:
            return
        if isinstance(mediators, Path) or Path(mediators).is_file():
            self._ids = pa.array(data_lines(Path(mediators)), type=pa.string())
            return
        if re.fullmatch(r"[\w:]+", mediators):  # the pattern of itself
            self._start = mediators
            return
        try:
            self._pattern = re.compile(mediators)
        except re.error as error:
            raise UsageError(
                f"The mediators {mediators!r} are neither a file nor a pattern: {error}.",
                r"A pattern for Freebase's ids is ^[mg]\.",
            ) from None

    def match(self, ids: pa.Array) -> BoolArray:
        """Return which ids (strings) match the rule."""
        if self._ids is not None:
            return mask_of(pc.is_in(ids, value_set=self._ids))
        if self._start is not None:
            return mask_of(pc.starts_with(ids, self._start))
        if self._pattern is None:
            return np.zeros(len(ids), dtype=np.bool_)
        pattern = self._pattern
        matches = (pattern.match(ident) is not None for ident in ids.to_pylist())
        return np.fromiter(matches, dtype=np.bool_, count=len(ids))

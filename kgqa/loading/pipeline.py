"""A load from end to end: a loader's batches, one sorted KG, one store.

Ids become keys, repeated rows become one, and the content gets its version. All of it is
independent of the order and the size of the batches, so the same dump always gives the same KG.

An id that comes again is one entity: its aliases and types are united; of several names the one of
the lowest rank stays, of those the first by code point, and the others become aliases; a mediator
or value in one row is one in all. Of several edges with the same ends and relation one stays: the
one with the greatest ``weight``, else the first by the text of its properties. What is left out is
counted by reason.

A stage is recorded after all its files are written, so it is done or it is not, and a stopped load
goes on there. One of other sources or options, or by another version, starts from the beginning.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
import zlib
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa
from pydantic import BaseModel, Field, ValidationError

from kgqa.errors import IngestError, KgqaError, first_line
from kgqa.files import writing
from kgqa.graph.model import ENTITY_SCHEMA, RELATION_SCHEMA, Batch, Direction, GraphTables, KGInfo
from kgqa.lexicon.tokens import last_part
from kgqa.loaders.base import Loader, Rejects, Report
from kgqa.loaders.blocks import STDIN
from kgqa.loaders.ntriples import OTHER_LANGUAGE
from kgqa.loading.columns import ColumnWriter
from kgqa.loading.edges import EdgeTable
from kgqa.loading.files import (
    EDGE_FILE_SCHEMA,
    EDGES,
    NODES,
    PLAIN_EDGE_SCHEMA,
    GraphFiles,
    finish,
    with_schema,
)
from kgqa.loading.nodes import NodeTable, collect_ids
from kgqa.loading.sources import Sources
from kgqa.loading.spool import Spool
from kgqa.loading.summary import UNUSED_RELATION, summary_of
from kgqa.loading.type_relations import NO_RELATION_IS, TypeRelations
from kgqa.progress import Progress, Silent
from kgqa.registry import Options

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Sequence

    from kgqa.graph.store import GraphWriter

StageName = Literal["scan", "edges"]
NAMES: tuple[StageName, ...] = get_args(StageName)
_FORMAT = 5  # of the stages' files
_BLOCK = 1 << 20
_RECORD = "stages.json"


class StageRecord(BaseModel):
    """The content of ``stages.json``. ``report``: what the ``done`` stages read and left out.

    ``files``: size and CRC-32 of each file that the last stage wrote.
    """

    fingerprint: str
    done: list[StageName] = []
    files: dict[str, tuple[int, int]] = {}
    report: Report = Field(default_factory=Report)


class Stages:
    """Completed stages of a load, recorded in its work folder ``folder``."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        """Read the record in ``folder``; start from scratch if it is of another load or damaged."""
        self.folder = folder
        self.damaged: Path | None = None  # a file of a stage that is done
        self.record = StageRecord(fingerprint=fingerprint)
        try:
            record = StageRecord.model_validate_json((folder / _RECORD).read_bytes())
            if record.fingerprint == fingerprint:
                files = ((folder / name, state) for name, state in record.files.items())
                self.damaged = next((file for file, was in files if _checksum(file) != was), None)
                if self.damaged is None:
                    self.record = record
        except (OSError, ValidationError):
            pass  # there is none, or none that can be used
        if self.last is None:
            self.clear()
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def last(self) -> StageName | None:
        """The last completed stage, None before the first."""
        return self.record.done[-1] if self.record.done else None

    def finish(self, name: StageName, *folders: Path) -> None:
        """Record a stage as done, after its files are completely written.

        ``folders``: the folders of the files that the next stage reads.
        """
        self.record.done.append(name)
        self.record.files = {
            path.relative_to(self.folder).as_posix(): _checksum(path)
            for folder in folders
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        part = self.folder / f".{_RECORD}.part"
        with part.open("w", encoding="utf-8") as file:
            file.write(self.record.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.folder / _RECORD)

    def clear(self) -> None:
        """Delete all files, the record first, so that it never lists a deleted file."""
        (self.folder / _RECORD).unlink(missing_ok=True)
        if self.folder.exists():
            shutil.rmtree(self.folder)


def _checksum(path: Path) -> tuple[int, int]:
    """Return size and CRC-32 of a file; (-1, 0) if it cannot be read."""
    crc = size = 0
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                crc, size = zlib.crc32(block, crc), size + len(block)
    except OSError:
        return -1, 0
    return size, crc


def fingerprint(loader: Loader, sources: Sequence[Path]) -> str:
    """Return a digest of a load: loader, options, and files with sizes and times.

    ``loader.identity``, if it exists, stands for what it reads with besides its options. Standard
    input has another digest each time.
    """
    options: Options | None = getattr(loader, "options", None)
    parts: list[object] = [_FORMAT, loader.name, repr(options), getattr(loader, "identity", "")]
    named = [value for _, value in options or () if isinstance(value, Path)]
    for source in (*named, *sources):
        if source == STDIN:
            parts.append(os.urandom(16).hex())  # a pipe cannot be read again
        parts += [_file_stamp(path) for path in _files_under(source)]
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def _files_under(source: Path) -> Iterator[Path]:
    """Yield the file itself, or all files in a folder, sorted."""
    if source.is_dir():
        yield from sorted(path for path in source.rglob("*") if path.is_file())
    elif source.exists():
        yield source


def _file_stamp(path: Path) -> tuple[str, int, int]:
    """Return path, size and modification time of a file."""
    status = path.stat()
    return str(path.absolute()), status.st_size, status.st_mtime_ns


WORK_FOLDER = "ingest"
REJECTS_FILE = "rejects.tsv"
_OF_FILES = ("form", "delimiter", "header", "names", "types", "relation_names", "limit", "mapping")


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The result of a load. ``dropped``: counts, by reason, of rows left out on purpose."""

    kg: str
    lines: int
    entities: int  # named things; mediators and values are counted apart
    edges: int
    mediators: int
    rejected: int
    rejects_file: str | None
    seconds: float
    dropped: dict[str, int] = field(default_factory=dict)
    taken: dict[str, Any] = field(default_factory=dict)


def load(
    loader: Loader,
    sources: Sources | Sequence[Path],
    kg: str,
    writer: GraphWriter,
    folder: Path,
    progress: Progress,
    work: Path | None = None,
) -> IngestResult:
    """Load ``sources`` as the KG named ``kg`` into the store of ``writer``.

    Stages are kept in the folder "ingest" of ``work`` (of ``folder`` if it is None) until the KG is
    stored: a stopped load continues after its last finished stage, if sources and options are the
    same. Malformed lines go to ``folder / "rejects.tsv"``. Nothing becomes visible before the whole
    KG is written. Raises IngestError if the dump holds no edge, another load of the KG is running,
    or the disk is full, and what loader and writer raise.
    """
    started = time.monotonic()
    if not isinstance(sources, Sources):
        sources = Sources(tuple(sources))
    work = (work or folder) / WORK_FOLDER
    try:
        with writing(folder, kg):
            stages = Stages(work, fingerprint(loader, sources.paths))
            if stages.last:
                progress.note(
                    f"Going on with the load of {kg} that was stopped after its stage"
                    f" “{stages.last}”."
                )
            if stages.damaged:
                progress.note(
                    f"{stages.damaged} is not as it was written: the load starts from scratch."
                )
            try:
                graph = _run_stages(loader, sources, kg, stages, folder, progress)
                writer.write(graph, progress)
                filtered = hasattr(loader, "dump")
                taken = summary_of(graph, stages.record.report, filtered=filtered)
            finally:
                if stages.last is None:  # nothing to go on from
                    stages.clear()
            stages.clear()
    except KgqaError:
        raise
    except OSError as error:
        # the system's own words: Arrow puts many more around them
        reason = os.strerror(error.errno) if error.errno else first_line(error)
        raise IngestError(
            f"{error.filename or work} cannot be read or written: {reason}.",
            "See that you may read the dump and write to the folder, and that the disk has room.",
        ) from None
    report = stages.record.report
    return IngestResult(
        kg=kg,
        lines=report.lines,
        entities=graph.info.entities,
        edges=graph.info.edges,
        mediators=graph.info.mediators,
        rejected=report.rejected,
        rejects_file=str(folder / REJECTS_FILE) if report.rejected else None,
        seconds=round(time.monotonic() - started, 3),
        dropped=dict(+report.dropped),
        taken=taken,
    )


def _run_stages(
    loader: Loader, sources: Sources, kg: str, stages: Stages, folder: Path, progress: Progress
) -> GraphFiles:
    """Run the stages that are not done (scan, nodes, edges); return the sorted graph."""
    scan, graph = stages.folder / "scan", stages.folder / "graph"
    last, report = stages.last, stages.record.report
    if last == "edges":
        return GraphFiles(graph).named(kg, sources.described)
    if last is None:
        _make_empty(scan)
        spool = Spool(scan)
        with closing(Rejects(folder / REJECTS_FILE, report)) as rejects:
            rejects.path.unlink(missing_ok=True)
            given = loader.read(sources.paths, report, rejects, progress)
            spool.write(given, report.dropped, type_relations_of(loader))
        for relation, kinds in spool.scanned.type_relations.items():
            progress.note(
                f"“{relation}” says of what kind a thing is ({', '.join(kinds[:5])}"
                f"{', …' if len(kinds) > 5 else ''}): these become types, and paths do not pass "
                "through them (`type_relation` decides otherwise)."
            )
        stages.finish("scan", scan)
    else:
        spool = Spool.open(scan)
    _make_empty(graph)
    info = empty_info(kg, sources.described, loader.direction, loader.name, loader.licence)
    info = replace(info, options=json.dumps(remembered(loader), sort_keys=True))
    language = getattr(getattr(loader, "options", None), "language", "")
    files = assemble_graph(spool, info, graph, report.dropped, progress, language)
    if files.info.edges == 0:
        stages.clear()
        raise _no_edges(loader, sources, report, folder / REJECTS_FILE)
    stages.finish("edges", graph)
    shutil.rmtree(scan, ignore_errors=True)
    return files


def remembered(loader: Loader) -> dict[str, Any]:
    """Return the options that were set and that an update reuses: all but those about files."""
    options = getattr(loader, "options", None)
    given = options.given() if isinstance(options, Options) else {}
    kept = {name: value for name, value in given.items() if name not in _OF_FILES}
    return {
        name: str(value.absolute()) if isinstance(value, Path) else value
        for name, value in kept.items()
    }


def type_relations_of(loader: Loader) -> TypeRelations:
    """Return the loader's setting for relations that give types."""
    options = getattr(loader, "options", None)
    return TypeRelations.chosen(getattr(options, "type_relation", NO_RELATION_IS))


def _make_empty(folder: Path) -> None:
    """Create a folder, without its former content."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)


def _no_edges(loader: Loader, sources: Sources, report: Report, rejects_path: Path) -> IngestError:
    """Return the error of a load without any edge, with the counts of rejected lines."""
    what = f"No {loader.name} edge was found in {sources.described} ({report.lines:,} lines"
    for counted, verb in ((report.reasons, "rejected"), (report.dropped, "left out")):
        if counted:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in counted.most_common(3))
            what += f"; {verb}: {reasons}"
    hint = "See that this is the dump that the loader reads."
    if report.rejected:
        hint = f"The rejected lines and why are in {rejects_path}."
    return IngestError(f"{what}), so nothing was loaded.", hint)


def assemble(
    batches: Iterable[Batch],
    *,
    name: str,
    source: str,
    direction: Direction,
    dropped: Counter[str],
    loader: str = "",
    licence: str = "",
    type_relations: TypeRelations = TypeRelations(),  # noqa: B008
) -> GraphTables:
    """Build a KG in memory from ``batches``, as a load does with files.

    ``dropped``: counts of left-out items by reason, which are added to.
    """
    info = empty_info(name, source, direction, loader, licence)
    with tempfile.TemporaryDirectory(prefix="kgqa-") as scratch:
        folder = Path(scratch) / "graph"
        spool = Spool(Path(scratch) / "scan")
        spool.write(batches, dropped, type_relations)
        folder.mkdir()
        return assemble_graph(spool, info, folder, dropped, Silent()).tables()


def empty_info(
    name: str, source: str, direction: Direction, loader: str = "", licence: str = ""
) -> KGInfo:
    """Return a meta record with source and direction, counts of 0 and no version."""
    return KGInfo(name, source, "", direction, 0, 0, 0, 0, 0, loader, licence)


def assemble_graph(
    spool: Spool,
    info: KGInfo,
    folder: Path,
    dropped: Counter[str],
    progress: Progress,
    language: str = "",
) -> GraphFiles:
    """Write sorted nodes, edges, relations and the meta record from a scan.

    Relations without an edge are left out and counted. ``language``: the wanted one of names, for
    the note on those that have a language.
    """
    with progress.task("finding the entities"):
        ids = collect_ids(spool)
    with (
        progress.task("sorting the names", len(ids), "nodes") as task,
        ColumnWriter(folder / NODES, ENTITY_SCHEMA) as writer,
    ):
        nodes = NodeTable(spool, ids, folder / "parts", dropped)
        for batch in nodes.batches():
            writer.append(batch)
            task.advance(len(batch))
    if language and (dropped[OTHER_LANGUAGE] or any(nodes.tags[1:])):
        tags = (
            "in a region of it",
            "for every language (mul)",
            "without a tag",
            "in another language",
        )
        said = f"in {language}", *tags
        counts = [f"{n:,} {what}" for n, what in zip(nodes.tags, said, strict=True) if n]
        progress.note(f"Names, by language: {', '.join(counts)}.")
    with progress.task("joining the edges"):
        table = EdgeTable(spool, ids, folder / "parts", dropped)
    plain = not any(name.endswith("-about") for name in spool.edge_files())
    schema = PLAIN_EDGE_SCHEMA if plain else EDGE_FILE_SCHEMA
    with (
        progress.task("sorting the edges", unit="edges") as task,
        ColumnWriter(folder / EDGES, schema) as writer,
    ):
        for batch in table.batches():
            writer.append(with_schema(batch, schema))
            task.advance(len(batch))
    shutil.rmtree(folder / "parts", ignore_errors=True)
    named, used = spool.scanned.relation_names, set(table.relations)
    if unused := len(named.keys() - used):
        dropped[UNUSED_RELATION] += unused
    names, inverses = [], []
    for relation in table.relations:
        given = (name for name in named.get(relation, ()) if name != relation)
        names.append(min(given, default=last_part(relation)))
        inverse = spool.scanned.inverses.get(relation)
        inverses.append(inverse if inverse in used else None)
    relations = pa.table([table.relations, names, inverses], schema=RELATION_SCHEMA)
    scanned = spool.scanned
    kinds = tuple(sorted(scanned.type_relations))
    info = replace(info, reified=tuple(scanned.reified), type_relations=kinds)
    with progress.task("finding the version"):
        return finish(folder, info, relations)

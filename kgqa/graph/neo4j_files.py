"""Import files of a KG: what ``neo4j-admin database import full`` reads (CSV of RFC 4180).

Rows with line breaks go to files of their own, which the importer reads much more slowly. What a
file cannot hold (an array element with the
delimiter, an array of one empty string, an edge's property of another type than others of its name)
is a patch, set over Bolt after the import.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path  # noqa: TC003 - pydantic reads it
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from kgqa.errors import GraphError, IngestError
from kgqa.files import write_whole
from kgqa.graph.model import Kind
from kgqa.graph.neo4j_native import edge_properties, stored_type
from kgqa.graph.neo4j_write import KIND_LABELS, RESERVED_LABELS, grouped_names, label_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kgqa.graph.store import GraphSource
    from kgqa.progress import Progress

ARRAY_DELIMITER = "\x1f"  # a control character that names do not hold; one that does is patched
MANIFEST = "files.json"
_KEY, _TEXT = pa.int64(), pa.string()
_SCHEMAS = {
    "nodes": pa.schema(
        {"key:ID": _KEY, "id": _TEXT, "name": _TEXT, "aliases:string[]": _TEXT, "kind:long": _KEY}
        | {"types:string[]": _TEXT, "properties": _TEXT, ":LABEL": _TEXT}
    ),
    "names": pa.schema({"load": _TEXT, "norm": _TEXT, "keys:long[]": _TEXT, ":LABEL": _TEXT}),
    "relations": pa.schema(
        {"load": _TEXT, "key:long": _KEY, "id": _TEXT, "name": _TEXT, "inverse": _TEXT}
        | {":LABEL": _TEXT}
    ),
    "edges": pa.schema(
        {":START_ID": _KEY, ":END_ID": _KEY, ":TYPE": _TEXT, "rel:long": _KEY, "properties": _TEXT}
    ),
}
_COLUMNS: dict[type, tuple[str, pa.DataType]] = {
    bool: ("boolean", pa.bool_()),
    int: ("long", pa.int64()),
    float: ("double", pa.float64()),
    str: ("string", pa.string()),
}
_MOST_COLUMNS = 20
_COLUMN = re.compile(r"\w+(?:[ -]\w+)*")  # names that a header can hold


@dataclass(frozen=True, slots=True)
class ImportFiles:
    """The import files of one KG in ``folder``, and their manifest ``files.json``.

    ``files``: file names of nodes, names, relations and edges, the header's first. ``counts``: rows
    of each. ``longest``: the greatest length of a row in bytes. ``patches``: ``{key, aliases,
    types}`` of nodes, null if nothing is to be set; ``edge_patches``: ``{head, tail, rel,
    properties}`` of edges, the last as JSON. ``load``: the load's id in names and relations.
    """

    folder: Path
    kg: str
    version: str  # the KG's
    label: str
    load: str
    files: dict[str, list[str]]
    multiline: list[str]
    counts: dict[str, int]
    longest: int
    size: int  # bytes of all files
    patches: list[dict[str, Any]]
    edge_patches: list[dict[str, Any]]
    schema: Literal[4] = 4  # of the manifest and of the files

    def paths(self, what: str) -> list[Path]:
        """Return the files of ``what`` (nodes, names, relations or edges), the header's first."""
        return [self.folder / name for name in self.files[what]]

    @property
    def database(self) -> str:
        """The name of the database to import into, unique to these files."""
        return f"{self.folder.name}-{self.load[:8]}"

    def save(self) -> None:
        """Write the manifest; without it the files count as unfinished."""
        content = TypeAdapter(ImportFiles).dump_json(self, exclude={"folder"}, indent=1)
        write_whole(self.folder / MANIFEST, content)

    def remove(self) -> None:
        """Delete the files, the manifest first."""
        for name in [MANIFEST, *(name for names in self.files.values() for name in names)]:
            (self.folder / name).unlink(missing_ok=True)


def finished_files(source: GraphSource, folder: Path) -> ImportFiles | None:
    """Return the import files of this version of the KG in ``folder``; None if incomplete."""
    try:
        record = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        import_files = ImportFiles(**{**record, "folder": folder})
        paths = [path for what in _SCHEMAS for path in import_files.paths(what)]
        if sum(path.stat().st_size for path in paths) != import_files.size:
            return None
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return (
        import_files
        if (import_files.kg, import_files.version) == (source.info.name, source.info.version)
        else None
    )


def write_import_files(source: GraphSource, folder: Path, progress: Progress) -> ImportFiles:
    """Write the import files, or reuse complete ones. Raises IngestError, GraphError."""
    import_files = finished_files(source, folder)
    if import_files is not None:
        progress.note(f"The import files in {folder} are finished already.")
        return import_files
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).unlink(missing_ok=True)
        done = _write(source, folder, progress)
        done.save()
    except OSError as error:
        raise IngestError(
            f"Import files cannot be written to {folder}: {error.strerror or error}.",
            "See that the disk has room and that you may write there.",
        ) from None
    return done


def _write(source: GraphSource, folder: Path, progress: Progress) -> ImportFiles:
    """Write all import files of a KG and their manifest."""
    info = source.info
    label = label_for(info.name)
    label = f"{label}_2" if label in RESERVED_LABELS else label
    if ARRAY_DELIMITER in label:
        raise GraphError(f"{info.name!r} cannot be imported: a control character is in its name.")
    load = uuid.uuid4().hex
    patches: list[dict[str, Any]] = []
    edge_patches: list[dict[str, Any]] = []
    columns = _edge_columns(source)
    written: dict[str, _CsvFiles] = {}

    def put(what: str, total: int | None, batches: Iterable[list[Any]]) -> None:
        """Write batches of columns to the CSV files of ``what``, with ``total`` for progress."""
        schema = _SCHEMAS[what]
        for name, kind in columns.items() if what == "edges" else ():
            called, type_ = _COLUMNS[kind]
            schema = schema.append(pa.field(f"{name}:{called}", type_))
        with (
            progress.task(f"Import files: {what}", total, what) as task,
            _CsvFiles(folder, what, schema) as files,
        ):
            written[what] = files
            for batch in batches:
                files.write(pa.RecordBatch.from_arrays(batch, schema=schema))
                task.advance(len(batch[0]))

    with ThreadPoolExecutor(1) as pool:  # the kernels let another thread run
        edges = pool.submit(put, "edges", info.edges, _edge_rows(source, columns, edge_patches))
        put("relations", info.relations, _relation_rows(source.relations, load))
        put("nodes", info.nodes, _node_rows(source.node_batches(), label, patches))
        put("names", None, _name_rows(grouped_names(source), load))
        edges.result()
    return ImportFiles(
        folder=folder,
        kg=info.name,
        version=info.version,
        label=label,
        load=load,
        files={what: files.names for what, files in written.items()},
        multiline=[name for files in written.values() for name in files.names[2:]],
        counts={what: files.rows for what, files in written.items()},
        longest=max(files.longest for files in written.values()),
        size=sum(path.stat().st_size for files in written.values() for path in files.paths()),
        patches=patches,
        edge_patches=edge_patches,
    )


class _CsvFiles:
    """CSV files of one table: a header, rows of one line, and rows with line breaks.

    ``longest``: the greatest length of a row in bytes.
    """

    def __init__(self, folder: Path, what: str, schema: pa.Schema) -> None:
        self.rows = self.longest = 0
        self.names = [f"{what}-header.csv"]
        self._folder, self._schema = folder, schema
        self._texts = [field.name for field in schema if field.type == _TEXT]
        self._parts = [f"{what}.csv", f"{what}-multiline.csv"]
        self._open = ExitStack()
        self._writers: dict[str, csv.CSVWriter] = {}
        for name in self._parts:
            (folder / name).unlink(missing_ok=True)
        (folder / self.names[0]).write_text(f"{','.join(schema.names)}\n", "utf-8")
        self._writer(self._parts[0])

    def paths(self) -> list[Path]:
        """Return the files that were written, the header's first."""
        return [self._folder / name for name in self.names]

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows; those with line breaks go to a file of their own."""
        if not len(batch):
            return
        self.rows += len(batch)
        lengths = (pc.max(pc.binary_length(batch[name])).as_py() or 0 for name in self._texts)
        self.longest = max(self.longest, 2 * sum(lengths) + 30 * len(self._schema))
        broken = np.zeros(len(batch), dtype=np.bool_)
        for name in self._texts:
            breaks = pc.match_substring_regex(batch[name], "[\r\n]")
            broken |= pc.fill_null(breaks, False).to_numpy(zero_copy_only=False)
        for name, chosen in zip(self._parts, (~broken, broken), strict=True):
            if chosen.any():
                self._writer(name).write_batch(batch.filter(pa.array(chosen)))

    def _writer(self, name: str) -> csv.CSVWriter:
        """Return the CSV writer of a file, which is created at the first call."""
        if name not in self._writers:
            self.names.append(name)
            file = self._open.enter_context(pa.OSFile(str(self._folder / name), "wb"))
            options = csv.WriteOptions(include_header=False)
            writer = csv.CSVWriter(file, self._schema, write_options=options)
            self._writers[name] = self._open.enter_context(writer)
        return self._writers[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


def _node_rows(
    batches: Iterable[pa.RecordBatch], label: str, patches: list[dict[str, Any]]
) -> Iterator[list[pa.Array]]:
    """Yield columns of node rows for the importer; add to ``patches`` what CSV cannot hold."""
    labels = (ARRAY_DELIMITER.join(["Entity", label, *KIND_LABELS[kind]]) for kind in Kind)
    shown = pa.array(labels, _TEXT)
    start = 0
    for part in batches:
        ids, names, aliases, kinds, types, properties = part.columns
        keys = pa.array(np.arange(start, start + len(part)))
        arrays = {"aliases": _array_column(aliases), "types": _array_column(types)}
        patches += _patches(part, keys, {name: held for name, (_, held) in arrays.items()})
        columns = [keys, ids, names, arrays["aliases"][0], kinds.cast(_KEY), arrays["types"][0]]
        yield [*columns, properties, shown.take(kinds)]
        start += len(part)


def _array_column(lists: pa.ListArray) -> tuple[pa.Array, pa.Array]:
    """Join lists into delimited text (null if empty); also return which lists it preserves."""
    elements = pc.list_flatten(lists)
    if elements.null_count:
        raise GraphError(
            "An alias or a type is null.", "Neo4j cannot hold it; load the dump again."
        )
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    text = pc.binary_join(lists, ARRAY_DELIMITER)
    # one empty string alone reads as no array at all; a delimiter within would make two of one
    between = pc.max_element_wise(pc.subtract(lengths, 1), 0)
    there = pc.fill_null(pc.count_substring(text, ARRAY_DELIMITER), 0)
    size = pc.fill_null(pc.binary_length(text), 0)
    held = pc.and_(pc.equal(there, between), pc.or_(pc.equal(lengths, 0), pc.greater(size, 0)))
    return pc.if_else(pc.and_(held, pc.greater(lengths, 0)), text, None), held


def _patches(
    part: pa.RecordBatch, keys: pa.Array, held: dict[str, pa.Array]
) -> Iterator[dict[str, Any]]:
    """Yield a patch for each node whose aliases or types the CSV cannot hold.

    ``held``: for each of the two columns, which rows the CSV holds.
    """
    rows = np.flatnonzero(
        ~np.logical_and(*(column.to_numpy(zero_copy_only=False) for column in held.values()))
    )
    for row in rows.tolist():
        patch: dict[str, Any] = {"key": keys[row].as_py()}
        for name, column in held.items():
            patch[name] = None if column[row].as_py() else part.column(name)[row].as_py()
        yield patch


def _name_rows(batches: Iterable[pa.RecordBatch], load: str) -> Iterator[list[pa.Array]]:
    """Yield columns of the rows of normalised names for the importer."""
    for part in batches:
        lists = part.column("keys")
        texts = pa.ListArray.from_arrays(lists.offsets, lists.values.cast(_TEXT))
        keys = pc.binary_join(texts, ARRAY_DELIMITER)
        loads, labels = (pa.repeat(pa.scalar(text), len(part)) for text in (load, "KGName"))
        yield [loads, part.column("norm"), keys, labels]


def _relation_rows(relations: pa.Table, load: str) -> Iterator[list[pa.Array]]:
    """Yield columns of the rows of relations for the importer."""
    keys = pa.array(np.arange(len(relations)))
    loads, labels = (pa.repeat(pa.scalar(text), len(keys)) for text in (load, "KGRelation"))
    named = [relations.column(name).combine_chunks() for name in ("id", "name", "inverse")]
    yield [loads, keys, *named, labels]


def _edge_rows(
    source: GraphSource, columns: dict[str, type], patches: list[dict[str, Any]]
) -> Iterator[list[pa.Array]]:
    """Yield columns of edge rows for the importer; add to ``patches`` what CSV cannot hold."""
    reified = source.info.reified
    ids = [stored_type(id_, reified) for id_ in source.relations.column("id").to_pylist()]
    types = pa.array(ids, _TEXT)
    for part in source.edge_batches():
        heads, relations, tails, properties = part.columns
        if properties.null_count == len(part):
            typed = [pa.nulls(len(part), _COLUMNS[kind][1]) for kind in columns.values()]
        else:
            natives = list(map(edge_properties, properties.to_pylist()))
            for row, native in enumerate(natives):
                if any(type(value) is not columns.get(name) for name, value in native.items()):
                    edge = part.slice(row, 1).to_pylist()[0]
                    patches.append({"rel": edge.pop("relation"), **edge})
            typed = []
            for name, kind in columns.items():
                values = (native.get(name) for native in natives)
                own = [value if type(value) is kind else None for value in values]
                typed.append(pa.array(own, _COLUMNS[kind][1]))
        yield [heads, tails, types.take(relations), relations, properties, *typed]


def _edge_columns(source: GraphSource) -> dict[str, type]:
    """Return the edge properties with a column of their own, from the first batch with any."""
    for part in source.edge_batches():
        texts = part.column("properties")
        if texts.null_count < len(texts):
            return _columns_of(map(edge_properties, texts.to_pylist()))
    return {}


def _columns_of(natives: Iterable[dict[str, Any]]) -> dict[str, type]:
    """Return the type of each edge property that gets a column: its most frequent one.

    Properties beyond ``_MOST_COLUMNS``, and those of other types, get none.
    """
    counts = Counter((name, type(value)) for plan in natives for name, value in plan.items())
    columns: dict[str, type] = {}
    for (name, kind), _ in counts.most_common():
        if kind in _COLUMNS and _COLUMN.fullmatch(name) and len(columns) < _MOST_COLUMNS:
            columns.setdefault(name, kind)
    return columns

"""Import files of a KG: what ``neo4j-admin database import full`` reads (CSV of RFC 4180).

Lines are joined by column kernels, a block a batch. Rows with line breaks go to files of their own,
which the importer reads much more slowly. What a file cannot hold (an array element with the
delimiter, an array of one empty string, an edge's property of another type than others of its name)
is a patch, set over Bolt after the import.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path  # noqa: TC003 - pydantic reads it
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from kgqa.errors import GraphError, IngestError
from kgqa.graph.files import write_whole
from kgqa.graph.model import Kind
from kgqa.graph.neo4j_native import edge_properties, stored_type
from kgqa.graph.neo4j_write import KIND_LABELS, RESERVED_LABELS, grouped_names, label_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kgqa.graph.store import GraphSource
    from kgqa.progress import Progress

ARRAY_DELIMITER = "\x1f"  # a control character that names do not hold; one that does is patched
MANIFEST = "files.json"
_BLOCK_BYTES = 64 << 20  # of columns that are joined into lines at once: offsets are 32 bits
_HEADERS = {
    "nodes": "key:ID,id,name,aliases:string[],kind:long,types:string[],properties,:LABEL",
    "names": "load,norm,keys:long[],:LABEL",
    "relations": "load,key:long,id,name,inverse,:LABEL",
    "edges": ":START_ID,:END_ID,:TYPE,rel:long,properties",
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
    """The import files of one KG in ``folder``, as ``files.json`` there records them.

    ``files``: names of each of nodes, names, relations and edges, the header's first. ``counts``:
    rows of each. ``longest``: bytes of a row. ``patches``: ``{key, aliases, types}`` of nodes, null
    if nothing is to be set; ``edge_patches``: ``{head, tail, rel, properties}`` of edges, the last
    as JSON. ``load``: the load's id in names and relations.
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
    schema: Literal[3] = 3  # of the manifest and of the files

    def paths(self, what: str) -> list[Path]:
        """Return the files of nodes, names, relations or edges, the header's first."""
        return [self.folder / name for name in self.files[what]]

    @property
    def database(self) -> str:
        """The name of the database for these files, and for no others."""
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
    """Return the import files that an earlier run finished for just this KG; None without any."""
    try:
        record = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        import_files = ImportFiles(**{**record, "folder": folder})
        paths = [path for what in _HEADERS for path in import_files.paths(what)]
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
    """Write the import files, or find finished ones. Raises IngestError, GraphError."""
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
    info = source.info
    label = label_for(info.name)
    label = f"{label}_2" if label in RESERVED_LABELS else label
    if ARRAY_DELIMITER in label:
        raise GraphError(f"{info.name!r} cannot be imported: a control character is in its name.")
    load = uuid.uuid4().hex
    patches: list[dict[str, Any]] = []
    edge_patches: list[dict[str, Any]] = []
    columns: dict[str, type] = {}  # of edges; found in the first that have properties
    written: dict[str, _Lines] = {}

    def put(what: str, total: int | None, blocks: Iterable[pa.Array]) -> None:
        with (
            progress.task(f"Import files: {what}", total, what) as task,
            _Lines(folder, what) as lines,
        ):
            written[what] = lines
            for block in blocks:
                lines.write(block)
                task.advance(len(block))
            if what == "edges":
                lines.add_columns(f"{name}:{_COLUMNS[kind][0]}" for name, kind in columns.items())

    with ThreadPoolExecutor(1) as pool:  # the kernels let another thread run
        edges = pool.submit(put, "edges", info.edges, _edge_lines(source, columns, edge_patches))
        put("relations", info.relations, _relation_lines(source.relations, load))
        put("nodes", info.nodes, _node_lines(source.node_batches(), label, patches))
        put("names", None, _name_lines(grouped_names(source), load))
        edges.result()
    return ImportFiles(
        folder=folder,
        kg=info.name,
        version=info.version,
        label=label,
        load=load,
        files={what: lines.names for what, lines in written.items()},
        multiline=[name for lines in written.values() for name in lines.multiline],
        counts={what: lines.rows for what, lines in written.items()},
        longest=max(lines.longest for lines in written.values()),
        size=sum(lines.size for lines in written.values()),
        patches=patches,
        edge_patches=edge_patches,
    )


class _Lines:
    def __init__(self, folder: Path, what: str) -> None:
        self.rows = self.longest = 0
        self.names = [f"{what}-header.csv", f"{what}.csv"]
        self.multiline: list[str] = []
        self._folder = folder
        self._broken_name = f"{what}-multiline.csv"
        (folder / self._broken_name).unlink(missing_ok=True)
        header = f"{_HEADERS[what]}\n".encode()
        (folder / self.names[0]).write_bytes(header)
        self.size = len(header)
        self._files: list[BinaryIO] = [(folder / self.names[1]).open("wb", buffering=0)]

    def write(self, lines: pa.Array) -> None:
        """Write lines, each with its end."""
        if not len(lines):
            return
        self.rows += len(lines)
        self.longest = max(self.longest, pc.max(pc.binary_length(lines)).as_py())
        block = _bytes_of(lines)
        data = np.frombuffer(block, dtype=np.uint8)
        if np.count_nonzero(data == 10) != len(lines) or (data == 13).any():  # breaks in fields
            broken = pc.or_(
                pc.greater(pc.count_substring(lines, "\n"), 1), pc.match_substring(lines, "\r")
            )
            self._put(self._broken_file(), _bytes_of(lines.filter(broken)))
            block = _bytes_of(lines.filter(pc.invert(broken)))
        self._put(self._files[0], block)

    def add_columns(self, more: Iterable[str]) -> None:
        """Name columns after the others in the header; a shorter row has none of them."""
        text = "".join(f",{label}" for label in more)
        header = self._folder / self.names[0]
        header.write_text(header.read_text().rstrip("\n") + text + "\n", "utf-8")
        self.size += len(text.encode())

    def _put(self, file: BinaryIO, block: memoryview) -> None:
        self.size += len(block)
        while block:  # a raw file may take a part only
            block = block[file.write(block) :]

    def _broken_file(self) -> BinaryIO:
        if not self.multiline:
            self.multiline.append(self._broken_name)
            self.names.append(self._broken_name)
            self._files.append((self._folder / self._broken_name).open("wb", buffering=0))
        return self._files[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()


def _bytes_of(lines: pa.Array) -> memoryview:
    if not len(lines):
        return memoryview(b"")
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)
    return memoryview(data)[ends[lines.offset] : ends[lines.offset + len(lines)]]


def _node_lines(
    batches: Iterable[pa.RecordBatch], label: str, patches: list[dict[str, Any]]
) -> Iterator[pa.Array]:
    kinds = pa.array([str(int(kind)) for kind in Kind])
    labels = (ARRAY_DELIMITER.join(["Entity", label, *KIND_LABELS[kind]]) for kind in Kind)
    shown = pa.array([_quoted(each) + "\n" for each in labels])
    start = 0
    for part in _blocks(batches):
        kind = part.column("kind").cast(pa.int32())
        keys = pa.array(np.arange(start, start + len(part)))
        arrays = {name: _array_column(part.column(name)) for name in ("aliases", "types")}
        patches += _patches(part, keys, {name: held for name, (_, held) in arrays.items()})
        yield _line(
            keys.cast(pa.string()),
            _quoted_column(part.column("id")),
            _quoted_column(part.column("name")),
            _quoted_column(arrays["aliases"][0]),
            kinds.take(kind),
            _quoted_column(arrays["types"][0]),
            _quoted_column(part.column("properties")),
            shown.take(kind),
        )
        start += len(part)


def _array_column(lists: pa.ListArray) -> tuple[pa.Array, pa.Array]:
    """Return the lists as delimited text, null where empty, and whether the text says the list."""
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
    rows = np.flatnonzero(
        ~np.logical_and(*(column.to_numpy(zero_copy_only=False) for column in held.values()))
    )
    for row in rows.tolist():
        patch: dict[str, Any] = {"key": keys[row].as_py()}
        for name, column in held.items():
            patch[name] = None if column[row].as_py() else part.column(name)[row].as_py()
        yield patch


def _name_lines(batches: Iterable[pa.RecordBatch], load: str) -> Iterator[pa.Array]:
    for part in _blocks(batches):
        lists = part.column("keys")
        offsets = lists.offsets
        flat = lists.values.cast(pa.string())
        keys = pc.binary_join(pa.ListArray.from_arrays(offsets, flat), ARRAY_DELIMITER)
        first, last = pa.scalar(_quoted(load)), pa.scalar('"KGName"\n')
        yield _line(first, _quoted_column(part.column("norm")), _quoted_column(keys), last)


def _relation_lines(relations: pa.Table, load: str) -> Iterator[pa.Array]:
    keys = pa.array(np.arange(relations.num_rows)).cast(pa.string())
    ids, names, inverses = (
        _quoted_column(relations.column(name).combine_chunks()).fill_null("")
        for name in ("id", "name", "inverse")
    )
    label = pa.scalar('"KGRelation"\n')
    yield _line(pa.scalar(_quoted(load)), keys, ids, names, inverses, label)


def _edge_lines(
    source: GraphSource, columns: dict[str, type], patches: list[dict[str, Any]]
) -> Iterator[pa.Array]:
    reified = source.info.reified
    ids = [stored_type(id_, reified) for id_ in source.relations.column("id").to_pylist()]
    middle = pa.array([f"{_quoted(id_)},{key}," for key, id_ in enumerate(ids)], pa.string())
    whole = pc.binary_join_element_wise(middle, "\n", "")
    for part in _blocks(source.edge_batches()):
        relation = part.column("relation")
        heads, tails = (part.column(name).cast(pa.string()) for name in ("head", "tail"))
        properties = part.column("properties")
        if properties.null_count == len(part):
            yield _line(heads, tails, whole.take(relation))
            continue
        natives = list(map(edge_properties, properties.to_pylist()))
        if not columns:
            columns |= _columns_of(natives)
        for row, native in enumerate(natives):
            if any(type(value) is not columns.get(name) for name, value in native.items()):
                place = {
                    "head": "head",
                    "tail": "tail",
                    "rel": "relation",
                    "properties": "properties",
                }
                patches.append({to: part.column(of)[row].as_py() for to, of in place.items()})
        fields = [_quoted_column(properties).fill_null("")]
        for name, kind in columns.items():
            typed = (native.get(name) for native in natives)
            values = [value if type(value) is kind else None for value in typed]
            column = pa.array(values, _COLUMNS[kind][1])
            fields.append(_quoted_column(column) if kind is str else column.cast(pa.string()))
        rows = pc.binary_join_element_wise(*fields, ",", null_handling="replace")
        last = pc.binary_join_element_wise(middle.take(relation), rows, "\n", "")
        yield _line(heads, tails, last)


def _columns_of(natives: Iterable[dict[str, Any]]) -> dict[str, type]:
    """Return the properties that get a column, with the type that most of their values have."""
    counts = Counter((name, type(value)) for plan in natives for name, value in plan.items())
    columns: dict[str, type] = {}
    for (name, kind), _ in counts.most_common():
        if kind in _COLUMNS and _COLUMN.fullmatch(name) and len(columns) < _MOST_COLUMNS:
            columns.setdefault(name, kind)
    return columns


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = len(batch)
        step = max(1, min(rows, 100_000, rows * _BLOCK_BYTES // max(batch.nbytes, 1)))
        for start in range(0, rows, step):
            yield batch.slice(start, step)


def _line(*columns: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*columns, ",", null_handling="replace")


def _quoted_column(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring(texts, '"')).as_py():
        texts = pc.replace_substring(texts, '"', '""')
    return pc.binary_join_element_wise('"', texts, '"', "")


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'

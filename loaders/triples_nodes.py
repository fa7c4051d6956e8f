"""Nodes and relations of triples: files of names and types, mediators, and what becomes a node.

Each line of a file of names or types is an id, a tab and a text. In OpenKE's ``entity2id.txt`` and
``relation2id.txt``, which begin with a line that counts the others, the text stands first.

An end of an edge is an entity. Without a name it is its own name, or a mediator if the rule says
so. What N-Triples say of a node (a label, a type) may come before or after the edges that show
whether it is a relation instead; until then it waits, on disk if it is much. Ids are never all in
memory.
"""

from __future__ import annotations

import re
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.graph.model import OWN_ID, Kind, NameBatch
from kgqa.loaders.base import data_lines, entity_batch
from kgqa.loaders.blocks import Block, read_blocks
from kgqa.loaders.delimited import lines_at, split_block
from kgqa.loaders.strings import NO_TEXT, is_text, mask_of, stripped
from kgqa.loaders.triples_rdf import LABELS
from kgqa.loaders.triples_rows import TriplesPart, is_count
from kgqa.loaders.triples_table import COUNT_LINE, first_lines, opened
from kgqa.parallel import mapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO

    from kgqa.graph.model import Batch, BoolArray
    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress

PAIR = pa.schema([("id", pa.string()), ("text", pa.string()), ("line", pa.int64())])
_SAMPLE = 1_000  # lines that say whether the text stands first
_ROWS = 1 << 18
_NAME_AND_ID = re.compile(r"(?m)^(.*\S)[^\S\n]+(\S+)[^\S\n]*$")
_WINDOW = 1 << 20  # ids that are gathered before repeated ones are removed
_IN_MEMORY = 64 << 20  # bytes of what waits; beyond, it lies on disk
_WAITING = pa.schema([("id", pa.string()), ("end", pa.bool_())])


def read_pairs(
    path: Path | None, what: str, report: Report, rejects: Rejects, progress: Progress
) -> Iterator[pa.RecordBatch]:
    """Yield batches of ``PAIR`` of a file's lines; nothing where there is no file.

    Raises DumpNotFoundError, DumpMalformedError where no line has the form, UsageError for a
    folder.
    """
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a file of {what}.", f"Name the file of {what}.")
    blocks = read_blocks([path], report, rejects, progress)
    opening, blocks = opened(blocks)
    count, text_first = _form(opening) if opening else (None, False)
    work = partial(_read, what=what, count=count, text_first=text_first)
    found = 0
    for part, rows in mapped(work, blocks):
        part.record(report, rejects)
        found += len(rows)
        yield rows
    if not found:
        raise DumpMalformedError(
            f"{path} holds no line of {what}.", "Each line is an id, a tab and a name."
        )


def _form(block: Block) -> tuple[int | None, bool]:
    """Return the number of the line that counts the others, and whether texts stand first."""
    lines = enumerate(first_lines(block, _SAMPLE))
    filled = [(place, line) for place, line in lines if line.strip()]
    if len(filled) < 2 or not is_count(filled[0][1]):
        return None, False
    text_first = all(is_count(line.split()[-1]) for _, line in filled[1:])
    return block.first + filled[0][0], text_first


def _read(
    block: Block, what: str, count: int | None, text_first: bool
) -> tuple[TriplesPart, pa.RecordBatch]:
    """Return what became of the lines of a block, and rows of ``PAIR``."""
    part = TriplesPart(block.source)
    view = _turned(block) if text_first else block
    fields = split_block(view, "\t", 2)
    wanted = part.decodable(block)
    if count is not None and 0 <= count - block.first < len(wanted):
        wanted[count - block.first] = False
        part.dropped[COUNT_LINE] += 1
    more = [(place, found) for place, found in fields.others.items() if found != 1]
    pairs = [raw.partition(b"\t") for _, raw in lines_at(view, [place for place, _ in more])]
    rows = np.concatenate([fields.rows, np.array([place for place, _ in more], dtype=np.int64)])
    kept = pa.array(wanted[rows])
    rows = rows[wanted[rows]]
    ids, texts = (
        pa.concat_arrays([column, pa.array([pair[at] for pair in pairs], pa.binary())])
        .filter(kept)
        .view(pa.string())
        for column, at in zip(fields.columns, (0, 2), strict=True)
    )
    good = is_text(ids) & is_text(texts)
    if text_first:
        good &= ~mask_of(pc.match_substring_regex(ids, r"[^0-9]"))
    form = "name and id" if text_first else "id TAB name"
    wanted[rows[good]] = False
    for number, raw in lines_at(block, np.flatnonzero(wanted)):
        part.reject(number, f"no line of {what} ({form})", raw.decode())
    kept = pa.array(good)
    columns = [ids.filter(kept), stripped(texts.filter(kept)), pa.array(block.first + rows[good])]
    return part, pa.RecordBatch.from_arrays(columns, schema=PAIR)


def _turned(block: Block) -> Block:
    """Return a block of lines of a name and an id as lines of an id, a tab and the name."""
    text = bytes(block.data).decode(errors="surrogateescape")
    data = _NAME_AND_ID.sub(r"\2\t\1", text).encode(errors="surrogateescape")
    return Block(block.source, block.first, block.lines, data)


class Names:
    """The names of a file, in memory: of each id its texts, the first one its name."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take batches of ``PAIR``."""
        table = pa.Table.from_batches(batches, schema=PAIR).combine_chunks()
        owners = table["id"].cast(pa.large_string()).combine_chunks().dictionary_encode()
        #: each id once
        self.ids: pa.Array = owners.dictionary
        self._owner = owners.indices
        self._texts = table["text"]
        self._lines = table["line"].combine_chunks()
        self._seen = np.zeros(len(self.ids), dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.ids)

    def named(self, ids: pa.Array) -> BoolArray:
        """Return which of ``ids`` (strings) have a name, and remember that they were seen."""
        if not len(self.ids):
            return np.zeros(len(ids), dtype=np.bool_)
        places = pc.index_in(ids.cast(pa.large_string()), value_set=self.ids)
        self._seen[places.drop_null().to_numpy()] = True
        return mask_of(places.is_valid())

    def first_of(self, ids: list[str]) -> dict[str, str]:
        """Return the name of those of ``ids`` that have one."""
        if not len(self.ids) or not ids:
            return {}
        wanted = pc.is_in(self.ids, value_set=pa.array(ids, type=pa.large_string()))
        rows = pc.indices_nonzero(wanted.take(self._owner))
        found: dict[str, tuple[int, str]] = {}
        columns = (self.ids.take(self._owner.take(rows)), self._texts.take(rows))
        lines = self._lines.take(rows).to_pylist()
        for ident, text, line in zip(*(c.to_pylist() for c in columns), lines, strict=True):
            found[ident] = min(found.get(ident, (line, text)), (line, text))
        return {ident: text for ident, (_, text) in found.items()}

    def seen(self) -> Iterator[pa.RecordBatch]:
        """Yield id, text and rank of all names of ids that were seen."""
        for start in range(0, len(self._owner), _ROWS):
            owner = self._owner.slice(start, _ROWS)
            mask = pa.array(self._seen[owner.to_numpy()])
            ids = self.ids.take(owner.filter(mask)).cast(pa.string())
            texts = self._texts.slice(start, _ROWS).filter(mask).combine_chunks()
            ranks = self._lines.slice(start, _ROWS).filter(mask)
            yield pa.RecordBatch.from_arrays([ids, texts, ranks], names=["id", "text", "rank"])

    def unseen(self, relations: list[str]) -> int:
        """Return how many ids were never seen and are not a relation either."""
        alone = self.ids.filter(pa.array(~self._seen))
        used = pc.is_in(alone, value_set=pa.array(relations, type=pa.large_string()))
        return len(alone) - (pc.sum(used).as_py() or 0)


class MediatorRule:
    """Which ids are a mediator's if they have no name: by a pattern, or by a file of ids."""

    def __init__(self, mediators: str | Path | None) -> None:
        """Take the option. Raises UsageError where it is neither, DumpNotFoundError."""
        self.any = mediators is not None
        self._ids: pa.Array | None = None
        self._pattern: re.Pattern[str] | None = None
        if mediators is None:
            return
        if isinstance(mediators, Path) or Path(mediators).is_file():
            self._ids = pa.array(data_lines(Path(mediators)), type=pa.string())
            return
        try:
            self._pattern = re.compile(mediators)
        except re.error as error:
            raise UsageError(
                f"The mediators {mediators!r} are neither a file nor a pattern: {error}.",
                r"A pattern for Freebase's ids is ^[mg]\.",
            ) from None

    def match(self, ids: pa.Array) -> BoolArray:
        """Return which ids (strings) the rule names."""
        if self._ids is not None:
            return mask_of(pc.is_in(ids, value_set=self._ids))
        if self._pattern is None:
            return np.zeros(len(ids), dtype=np.bool_)
        pattern = self._pattern
        found = (pattern.match(ident) is not None for ident in ids.to_pylist())
        return np.fromiter(found, dtype=np.bool_, count=len(ids))


class Nodes:
    """Gathers ids; a context manager, which removes its files.

    ``waits``: whether some of the sources are N-Triples, which may name nodes and relations.
    """

    def __init__(self, names: Names, mediators: MediatorRule, *, waits: bool) -> None:
        self.relations: dict[str, None] = {}
        self.any = False  # whether there is a node
        self._names = names
        self._mediators = mediators
        self._window = _Window(max(_WINDOW, len(names) // 2))
        self._described = _Window(_WINDOW)
        self._nodes = _Waiting(_WAITING) if waits else None
        self._labels = _Waiting(LABELS) if waits else None
        self._labelled: dict[str, str] = {}  # relations that N-Triples name
        self._named = NO_TEXT  # ids with a label that the rule of mediators names

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for waiting in (self._nodes, self._labels):
            if waiting is not None:
                waiting.close()

    def take(self, part: TriplesPart) -> Iterator[Batch]:
        """Take in what a block holds; yield entities from time to time."""
        for batch in part.edges:
            self.relations |= dict.fromkeys(batch.column("relation").dictionary.to_pylist())
        self.any |= bool(part.edges) or bool(part.labels) or len(part.described) > 0
        for ids in self._window.add(part.ends):
            yield from self._found(ids, end=True)
        for ids in self._described.add(part.described):
            yield from self._found(ids, end=False)
        if self._labels is not None:
            for batch in part.labels:
                self._labels.append(batch)

    def rest(self) -> Iterator[Batch]:
        """Yield all other entities and names; ``relations`` must be whole."""
        for ids in self._window.rest():
            yield from self._found(ids, end=True)
        for ids in self._described.rest():
            yield from self._found(ids, end=False)
        if self._nodes is not None and self._labels is not None:
            yield from self._waited(self._nodes, self._labels)
        for batch in self._names.seen():
            if len(batch):
                yield NameBatch(batch)

    def relation_names(self) -> dict[str, str]:
        """Return the names of the relations: a label, the last part of an IRI, or the id."""
        known = {**self._labelled, **self._names.first_of(list(self.relations))}
        return {ident: known.get(ident) or _last_part(ident) for ident in self.relations}

    # -- inside ------------------------------------------------------------------------------

    def _found(self, ids: pa.Array, *, end: bool) -> Iterator[Batch]:
        if self._nodes is None:
            yield from self._entities(ids)
        else:
            ends = pa.array(np.full(len(ids), end))
            self._nodes.append(pa.RecordBatch.from_arrays([ids, ends], schema=_WAITING))

    def _entities(self, ids: pa.Array) -> Iterator[Batch]:
        if not len(ids):
            return
        named = self._names.named(ids)
        kinds = np.full(len(ids), Kind.ENTITY, dtype=np.uint8)
        if self._mediators.any:
            nameless = self._mediators.match(ids) & ~named
            if len(self._named):
                nameless &= ~mask_of(pc.is_in(ids, value_set=self._named))
            kinds[nameless] = Kind.MEDIATOR
            named |= nameless
        yield entity_batch(ids, kind=pa.array(kinds))
        own = ids.filter(pa.array(~named))
        if len(own):
            ranks = pa.array(np.full(len(own), OWN_ID, dtype=np.int64))
            yield NameBatch(pa.RecordBatch.from_arrays([own, stripped(own), ranks], schema=LABELS))

    def _waited(self, nodes: _Waiting, labels: _Waiting) -> Iterator[Batch]:
        relations = pa.array(list(self.relations), type=pa.string())
        labelled: dict[str, tuple[int, str]] = {}
        candidates = []
        for batch in labels.read():
            rows = batch.filter(pc.is_in(batch.column("id"), value_set=relations))
            for row in rows.to_pylist():
                found = row["rank"], row["text"]
                if row["rank"] < OWN_ID:
                    labelled[row["id"]] = min(labelled.get(row["id"], found), found)
            if self._mediators.any:
                ids = batch.column("id").filter(pc.less(batch.column("rank"), OWN_ID))
                candidates.append(pc.unique(ids.filter(pa.array(self._mediators.match(ids)))))
        self._labelled = {ident: text for ident, (_, text) in labelled.items()}
        if candidates:
            self._named = pc.unique(pa.chunked_array(candidates, type=pa.string()))
        ends: set[str] = set()  # relations that are ends of edges too
        for batch in nodes.read():
            ids, end = batch.column("id"), batch.column("end")
            relation = pc.is_in(ids, value_set=relations)
            ends.update(ids.filter(pc.and_(relation, end)).to_pylist())
            yield from self._entities(ids.filter(pc.or_(end, pc.invert(relation))))
        others = pa.array([each for each in self.relations if each not in ends], type=pa.string())
        for batch in labels.read():
            kept = batch.filter(pc.invert(pc.is_in(batch.column("id"), value_set=others)))
            if len(kept):
                yield NameBatch(kept)


class _Window:
    """Gathers ids, and gives them on, each once, when there are many."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held: list[pa.Array] = []
        self._count = 0

    def add(self, ids: pa.Array) -> Iterator[pa.Array]:
        if len(ids):
            self._held.append(ids)
            self._count += len(ids)
            if self._count > self._size:
                yield from self.rest()

    def rest(self) -> Iterator[pa.Array]:
        held, self._held, self._count = self._held, [], 0
        if held:
            yield pc.unique(pa.chunked_array(held))


class _Waiting:
    def __init__(self, schema: pa.Schema) -> None:
        self._file = cast("IO[bytes]", tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115
        self._sink = pa.PythonFile(self._file, mode="w")
        self._stream: pa.RecordBatchStreamWriter | None = pa.ipc.new_stream(self._sink, schema)

    def append(self, batch: pa.RecordBatch) -> None:
        assert self._stream is not None
        self._stream.write_batch(batch)

    def read(self) -> Iterator[pa.RecordBatch]:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._file.seek(0)
        yield from pa.ipc.open_stream(pa.PythonFile(self._file, mode="r"))

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._file.close()


def _last_part(ident: str) -> str:
    if ident.startswith(("http://", "https://", "urn:")):
        return re.split(r"[/#:]", ident.rstrip("/#"))[-1] or ident
    return ident

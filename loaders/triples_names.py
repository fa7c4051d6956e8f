"""Files beside the triples: names and types of entities, names of relations, mediators.

Each line of names or types is an id, a tab and a text. In OpenKE's ``entity2id.txt`` and
``relation2id.txt``, which begin with a line that counts the others, the text stands first.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.loaders.blocks import Block, mapped, read_blocks
from kgqa.loaders.delimited import Fields, line_ends, lines_at
from kgqa.loaders.filters import data_lines
from kgqa.loaders.strings import is_text, mask_of, stripped
from kgqa.loaders.tables import Part, is_count
from kgqa.loaders.triples_table import COUNT_LINE, first_lines, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kgqa.graph.model import BoolArray
    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress

PAIR = pa.schema([("id", pa.string()), ("text", pa.string()), ("line", pa.int64())])
_SAMPLE = 1_000  # lines that say whether the text stands first
_ROWS = 1 << 18
_NAME_AND_ID = re.compile(r"(?m)^(.*\S)[^\S\n]+(\S+)[^\S\n]*$")


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
        report.dropped.update(part.dropped)
        for number, reason, text in sorted(part.rejects):
            rejects.add(path.name, number, reason, text)
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
) -> tuple[Part, pa.RecordBatch]:
    """Return what became of the lines of a block, and rows of ``PAIR``."""
    part = Part(block.source)
    view = _turned(block) if text_first else block
    fields = Fields(view, b"\t", 2, rest=True)
    ends = fields.line_ends if view is block else line_ends(block)
    wanted = part.decodable(block, ends)
    if count is not None and 0 <= count - block.first < len(wanted):
        wanted[count - block.first] = False
        part.dropped[COUNT_LINE] += 1
    rows = np.flatnonzero(wanted[fields.rows])
    ids, texts = (fields.column(place, rows).view(pa.string()) for place in (0, 1))
    good = is_text(ids) & is_text(texts)
    if text_first:
        good &= ~mask_of(pc.match_substring_regex(ids, r"[^0-9]"))
    form = "name and id" if text_first else "id TAB name"
    left = wanted.copy()
    left[fields.rows[rows[good]]] = False
    for number, raw in lines_at(block, ends, np.flatnonzero(left)):
        part.reject(number, f"no line of {what} ({form})", raw.decode())
    kept = pa.array(good)
    numbers = pa.array(block.first + fields.rows[rows[good]])
    columns = [ids.filter(kept), stripped(texts.filter(kept)), numbers]
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
        """Return how many ids were never seen and are no relation either."""
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

"""Beside triples: files of names and types, and which ids are a mediator's.

Each line of such a file is an id, a tab and a text. In OpenKE's ``entity2id.txt`` and
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
from kgqa.loaders.base import data_lines
from kgqa.loaders.blocks import Block, read_blocks
from kgqa.loaders.delimited import lines_at, split_block
from kgqa.loaders.strings import is_text, mask_of
from kgqa.loaders.triples_rows import TriplesPart, is_count
from kgqa.loaders.triples_table import COUNT_LINE, first_lines, opened
from kgqa.parallel import mapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kgqa.graph.model import BoolArray
    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress

PAIR = pa.schema([("id", pa.string()), ("text", pa.string()), ("line", pa.int64())])
_SAMPLE = 1_000  # lines that say whether the text stands first
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
    columns = [
        ids.filter(kept),
        pc.utf8_trim_whitespace(texts.filter(kept)),
        pa.array(block.first + rows[good]),
    ]
    return part, pa.RecordBatch.from_arrays(columns, schema=PAIR)


def _turned(block: Block) -> Block:
    """Return a block of lines of a name and an id as lines of an id, a tab and the name."""
    text = bytes(block.data).decode(errors="surrogateescape")
    data = _NAME_AND_ID.sub(r"\2\t\1", text).encode(errors="surrogateescape")
    return Block(block.source, block.first, block.lines, data)


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

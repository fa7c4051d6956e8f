"""Files beside the triples: names and types of entities, names of relations, mediators.

Each line of names or types is an id, a tab and a text. In OpenKE's ``entity2id.txt`` and
``relation2id.txt``, which begin with a line that counts the others, the text stands first. What it
does not do: know which of the ids are in the KG.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.loaders.blocks import decoded, mapped, read_blocks
from kgqa.loaders.fields import Fields
from kgqa.loaders.filters import data_lines
from kgqa.loaders.tables import BLANK, COUNT_LINE, is_count
from kgqa.loaders.triples_delimited import lines_of, lines_where, opened
from kgqa.loaders.triples_text import bad_lines, is_text, is_utf8, mask_of, spans, stripped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kgqa.graph.model import BoolArray
    from kgqa.loaders.base import Rejects, Report
    from kgqa.loaders.blocks import Block
    from kgqa.loaders.triples_delimited import Record
    from kgqa.progress import Progress

PAIR = pa.schema([("id", pa.string()), ("text", pa.string()), ("line", pa.int64())])
_SAMPLE = 1_000  # lines that say whether the text stands first
_ROWS = 1 << 18
_LINE_FEED = 10
# Patterns that mean the same, apart from what the second finds, to Arrow's kernels as to Python.
_PLAIN_PATTERN = re.compile(r"(?:[A-Za-z0-9_/:#=,;~%@!&'-]|\\[^\w\s]|[\[\]()^.*+?|])*")
_PYTHON_ONLY = re.compile(r"\(\?|\[\[|\[[^\]]*\[|\[\^?\]|[*+?][*+]")


@dataclass(slots=True)
class _Pairs:
    """What a block holds."""

    batches: list[pa.RecordBatch]
    dropped: Counter[str] = field(default_factory=Counter)
    rejects: list[tuple[int, str, str]] = field(default_factory=list)


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
    for pairs in mapped(work, blocks):
        report.dropped.update(pairs.dropped)
        for number, reason, text in pairs.rejects:
            rejects.add(path.name, number, reason, text)
        found += sum(len(batch) for batch in pairs.batches)
        yield from pairs.batches
    if not found:
        raise DumpMalformedError(
            f"{path} holds no line of {what}.", "Each line is an id, a tab and a name."
        )


def _form(block: Block) -> tuple[int | None, bool]:
    """Return the number of the line that counts the others, and whether texts stand first."""
    lines = [(n, raw.decode(errors="replace")) for n, raw in islice(lines_of(block), _SAMPLE)]
    lines = [(number, line) for number, line in lines if line.strip()]
    if len(lines) < 2 or not is_count(lines[0][1]):
        return None, False
    return lines[0][0], all(is_count(line.split()[-1]) for _, line in lines[1:])


def _read(block: Block, what: str, count: int | None, text_first: bool) -> _Pairs:
    content = pa.py_buffer(block.data)
    fields = Fields(block, b"\t", 2)
    good = np.ones(len(fields), dtype=np.bool_)
    if not is_utf8(content):
        ends = np.flatnonzero(fields.bytes == _LINE_FEED)
        good = ~np.isin(fields.rows, bad_lines(fields.bytes, ends))
    rows = np.flatnonzero(good)
    ids, texts = (
        spans(content, fields.start(place)[rows], fields.end(place)[rows]).view(pa.string())
        for place in (0, 1)
    )
    if text_first:
        ids, texts = stripped(texts), ids
    sure = is_text(ids) & is_text(texts)
    if text_first:
        sure &= ~mask_of(pc.match_substring_regex(ids, r"[^0-9]"))
    good[rows[~sure]] = False
    where = pa.array(sure)
    lines = pa.array(block.first + fields.rows[good])
    columns = [ids.filter(where), stripped(texts.filter(where)), lines]
    pairs = _Pairs([pa.RecordBatch.from_arrays(columns, schema=PAIR)])
    if len(fields.others) or not good.all():
        careful = np.ones(block.lines, dtype=np.bool_)
        careful[fields.rows[good]] = False
        ends = np.flatnonzero(fields.bytes == _LINE_FEED)
        _by_hand(lines_where(block, careful, ends), pairs, what, count, text_first)
    return pairs


def _by_hand(
    records: list[Record], pairs: _Pairs, what: str, count: int | None, text_first: bool
) -> None:
    found: list[tuple[str, str, int]] = []
    for number, raw in records:
        if (line := decoded(number, raw, pairs.rejects)) is None:
            continue
        if number == count:
            pairs.dropped[COUNT_LINE] += 1
            continue
        if not line.strip():
            pairs.dropped[BLANK] += 1
            continue
        if text_first:
            text, ident = [*line.rsplit(None, 1), ""][:2]
            ident = ident if is_count(ident) else ""
        else:
            ident, _, text = line.partition("\t")
        if ident.strip() and text.strip():
            found.append((ident, text.strip(), number))
        else:
            form = "name and id" if text_first else "id TAB name"
            pairs.rejects.append((number, f"no line of {what} ({form})", line))
    if found:
        columns = zip(*found, strict=True)
        arrays = [pa.array(c, type=each.type) for c, each in zip(columns, PAIR, strict=True)]
        pairs.batches.append(pa.RecordBatch.from_arrays(arrays, schema=PAIR))


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
        self._kernel = ""
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
        if _PLAIN_PATTERN.fullmatch(mediators) and not _PYTHON_ONLY.search(mediators):
            self._kernel = rf"\A(?:{mediators})"

    def match(self, ids: pa.Array) -> BoolArray:
        """Return which ids (strings) the rule names."""
        if self._ids is not None:
            return mask_of(pc.is_in(ids, value_set=self._ids))
        if self._pattern is None:
            return np.zeros(len(ids), dtype=np.bool_)
        if self._kernel:
            try:
                return mask_of(pc.match_substring_regex(ids, self._kernel))
            except pa.ArrowInvalid:  # a repeat of a repeat, which only Python knows
                self._kernel = ""
        pattern = self._pattern
        found = (pattern.match(ident) is not None for ident in ids.to_pylist())
        return np.fromiter(found, dtype=np.bool_, count=len(ids))

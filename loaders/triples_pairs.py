"""Files of pairs beside triples: an id and its name, its type, or a relation and its name.

Between tabs an id and a text, or with commas and quotes as tables have them; a header says which
columns these are, where there are more. OpenKE's files have the text first, and a count above.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.loaders.blocks import read_blocks
from kgqa.loaders.strings import is_text, lines_at, mask_of, whole_lines, why_undecodable
from kgqa.loaders.triples_rows import QUOTED, TriplesPart, is_count, split_record
from kgqa.loaders.triples_table import COUNT_LINE, HEADER, first_lines, opened, quoted_records
from kgqa.parallel import mapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.loaders.base import Rejects, Report
    from kgqa.loaders.blocks import Block
    from kgqa.loaders.triples_table import Record
    from kgqa.progress import Progress

PAIR = pa.schema([("id", pa.string()), ("text", pa.string()), ("line", pa.int64())])
_SAMPLE = 1_000  # lines that say whether the text stands first
_ID_FIRST = r"\A(?P<id>[^\t\n]*)\t(?P<text>[^\t\n]*)(?P<more>\t[^\n]*)?\n\z"
_TEXT_FIRST = r"\A(?P<text>[^\n]*\S)\s+(?P<id>[0-9]+)\s*\n\z"
_IDS = re.compile(r"(?:.*\W|)(?:ids?|identifier|entity|node|iri|uri|relation|predicate)", re.I)
_TEXTS = {
    "types": re.compile(r"(?:.*\W|)(?:types?|category|class|kind|labels?)", re.I),
    "": re.compile(r"(?:.*\W|)(?:names?|label|title|text)", re.I),
}


@dataclass(frozen=True, slots=True)
class _Pairs:
    """How a file of pairs is written: its delimiter, and which fields are id and text.

    ``skipped``: number and reason of a malformed first line. ``text_first``: each line is a text,
    blanks, and a number.
    """

    what: str
    delimiter: str = "\t"
    places: tuple[int, int] = (0, 1)
    skipped: tuple[int, str] = (0, "")
    text_first: bool = False


def read_pairs(
    path: Path | None, what: str, report: Report, rejects: Rejects, progress: Progress
) -> Iterator[pa.RecordBatch]:
    """Yield batches of ``PAIR`` from a file's lines; nothing if ``path`` is None.

    ``what``: what the texts are, such as names. A header says which columns are read; without one,
    the id comes first. Raises DumpNotFoundError, DumpMalformedError if no line has the form,
    UsageError for a folder.
    """
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a file of {what}.", f"Name the file of {what}.")
    blocks = read_blocks([path], report, rejects, progress, guess=True)
    opening, blocks = opened(blocks)
    form = _detect_form(opening, what) if opening else _Pairs(what)
    if form.delimiter in QUOTED:
        records = quoted_records(blocks, form.delimiter)
        parts: Iterator[tuple[TriplesPart, pa.RecordBatch]] = (
            _read_records(*held, form) for held in records
        )
    else:
        parts = mapped(partial(_read, form=form), blocks)
    rows_read = 0
    for part, rows in parts:
        part.record(report, rejects)
        rows_read += len(rows)
        yield rows
    if not rows_read:
        raise DumpMalformedError(
            f"{path} holds no line of {what}.", "Each line is an id, a tab and a name."
        )


def _detect_form(block: Block, what: str) -> _Pairs:
    """Detect how a file of pairs of ids and ``what`` is written, from its first block."""
    lines = enumerate(first_lines(block, _SAMPLE), block.first)
    filled = [(number, line) for number, line in lines if line.strip()]
    if len(filled) > 1 and is_count(filled[0][1]):
        text_first = all(is_count(line.split()[-1]) for _, line in filled[1:])
        return _Pairs(what, skipped=(filled[0][0], COUNT_LINE), text_first=text_first)
    texts = [line for _, line in filled]
    delimiter = "\t"
    if not any("\t" in line for line in texts):
        delimiter = next((d for d in QUOTED if texts and all(d in line for line in texts)), "\t")
    header = [name.strip() for name in split_record(texts[0] if texts else "", delimiter)]
    if places := _pair_columns(header, what):
        return _Pairs(what, delimiter, places, (filled[0][0], HEADER))
    return _Pairs(what, delimiter)


def _pair_columns(header: Sequence[str], what: str) -> tuple[int, int] | None:
    """Return the indices of id and text under a header, None if it is not a header."""
    header = [re.sub(r"[_.:-]+|(?<=[a-z])(?=[A-Z])", " ", name).strip() for name in header]
    named = _TEXTS.get(what, _TEXTS[""])
    ids = [at for at, name in enumerate(header) if _IDS.fullmatch(name)]
    texts = [at for at, name in enumerate(header) if at not in ids[:1] and named.fullmatch(name)]
    return (ids[0], texts[0]) if ids and texts else None


def _read(block: Block, form: _Pairs) -> tuple[TriplesPart, pa.RecordBatch]:
    """Parse the lines of a block; return their outcome, and rows of ``PAIR``.

    Lines without an id and a text are rejected.
    """
    part = TriplesPart(block.source)
    wanted = part.decodable(block)
    number, reason = form.skipped
    if 0 <= number - block.first < len(wanted) and reason:
        wanted[number - block.first] = False
        part.dropped[reason] += 1
    places = np.flatnonzero(wanted)
    lines = whole_lines(block).take(pa.array(places)).view(pa.string())
    if form.text_first or form.places == (0, 1):
        fields = pc.extract_regex(lines, _TEXT_FIRST if form.text_first else _ID_FIRST)
        there = mask_of(fields.is_valid())
        ids, texts = fields.field("id"), fields.field("text")
        more = is_text(fields.field("more")) if not form.text_first else np.zeros(0, np.bool_)
    else:
        cells = pc.split_pattern(pc.ascii_rtrim(lines, "\n"), form.delimiter)
        counts = pc.list_value_length(cells).to_numpy()
        there = counts > max(form.places)
        cells = pc.if_else(pa.array(there), cells, pa.scalar([""] * (max(form.places) + 1)))
        ids, texts = (pc.list_element(cells, at) for at in form.places)
        more = counts > 2
    if len(more):
        part.drop(f"further column of {form.what}", more, lines)
    texts = pc.utf8_trim_whitespace(texts)
    good = there & is_text(ids) & is_text(texts)
    for number, raw in lines_at(block, places[~good]):
        said = "name and id" if form.text_first else "id TAB name"
        part.reject(number, f"no line of {form.what} ({said})", raw)
    columns = [ids, texts, pa.array(block.first + places)]
    rows = pa.RecordBatch.from_arrays(columns, schema=PAIR)
    return part, rows.filter(pa.array(good))


def _read_records(
    source: str, records: Sequence[Record], form: _Pairs
) -> tuple[TriplesPart, pa.RecordBatch]:
    """Convert records with quoted fields; return their outcome, and rows of ``PAIR``.

    Records without an id and a text are rejected.
    """
    part, rows = TriplesPart(source), []
    for number, text, fields in records:
        if (number, HEADER) == form.skipped:
            part.dropped[HEADER] += 1
            continue
        if reason := why_undecodable(text.encode(errors="surrogateescape")):
            part.reject(number, reason, text.encode(errors="surrogateescape"))
            continue
        pair = [fields[at].strip() for at in form.places] if len(fields) > max(form.places) else []
        if isinstance(fields, str) or not all(pair) or not pair:
            reason = f"no line of {form.what} (id{form.delimiter}name)"
            part.reject(number, fields if isinstance(fields, str) else reason, text)
            continue
        if len(fields) > 2:
            part.dropped[f"further column of {form.what}"] += 1
            part.examples.setdefault(f"further column of {form.what}", text[:60])
        rows.append({"id": pair[0], "text": pair[1], "line": number})
    return part, pa.RecordBatch.from_pylist(rows, schema=PAIR)

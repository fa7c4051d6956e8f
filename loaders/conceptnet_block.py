"""One block of a ConceptNet dump, by columns: its edges, and why other lines are none.

What has the dump's exact form goes through kernels over the whole block, and only the last column
of lines that are kept is read as JSON. Everything else goes line by line (``conceptnet_lines``).
What it does not do: know what came in another block.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from kgqa.graph.model import EDGE_SCHEMA
from kgqa.loaders.conceptnet_lines import (
    ASSERTION,
    COLUMNS,
    CONCEPT,
    LEFT_OUT,
    OTHER_LANGUAGE,
    OTHER_SITE,
    RELATION,
    SYMMETRIC,
    TO_ITSELF,
    TOO_LIGHT,
    LeftOut,
    Rejected,
    read_line,
)
from kgqa.loaders.fields import Fields, as_text, cut

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.loaders.blocks import Block
    from kgqa.loaders.conceptnet_lines import Edge, Rules

    Words = NDArray[np.uint64]

_SLASH = ord("/")
_CONTROL = 10  # what separates fields and lines, and less
_ONE_BY_ONE = 8  # lines round a bad one that are read by themselves
_FOLDED = r"(?s)^(/c/[^/]+/[^/]+)/.*$"
_SPECIAL = r'["\\\x00-\x1f]'  # what JSON writes otherwise than it is
_ABOUT = pa.schema(
    [
        pa.field("weight", pa.float64()),
        pa.field("surfaceText", pa.string()),
        pa.field("license", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class BlockEdges:
    """What a block says: rows of EDGE_SCHEMA, and the other lines by what became of them.

    ``assertions`` counts the lines that are of the dump's form; ``rejected`` holds (line number,
    reason, text).
    """

    source: str
    edges: pa.RecordBatch
    assertions: int
    dropped: Counter[str]
    rejected: list[tuple[int, str, str]]


def read_block(block: Block, rules: Rules) -> BlockEdges:
    """Return what the lines of ``block`` say."""
    fields = Fields(block, b"\t", COLUMNS)
    dropped: Counter[str] = Counter()
    fast, rows = _sorted_out(fields, rules, dropped)
    assertions = int(np.count_nonzero(fast))
    edges, unsure = _edges(fields, rows, rules, dropped)
    assertions -= len(unsure)
    rejected: list[tuple[int, str, str]] = []
    found: list[Edge] = []
    single = fields.other_lines()
    single += _lines(fields, np.concatenate([np.flatnonzero(~fast), unsure]))
    for number, line in sorted(single):
        said = read_line(line, rules)
        if isinstance(said, Rejected):
            rejected.append((number, said.reason, line.decode(errors="backslashreplace")))
            continue
        if isinstance(said, LeftOut):
            dropped[said.reason] += 1
        else:
            found.append(said)
        assertions += bool(line.strip())
    if found:
        columns = zip(*found, strict=True)
        more = [pa.array(column, type=pa.string()) for column in columns]
        edges = pa.concat_batches([edges, pa.RecordBatch.from_arrays(more, schema=EDGE_SCHEMA)])
    return BlockEdges(block.source, edges, assertions, +dropped, rejected)


def _lines(fields: Fields, rows: IntArray) -> list[tuple[int, bytes]]:
    data = fields.block.data
    return [
        (fields.line_number(row), bytes(data[fields.starts[row] : fields.ends[row]]))
        for row in rows.tolist()
    ]


def _sorted_out(fields: Fields, rules: Rules, dropped: Counter[str]) -> tuple[BoolArray, IntArray]:
    """Return which lines are surely of the form, and the rows of those among them to be kept."""
    if len(fields.bytes) < 8:
        return np.zeros(len(fields), dtype=np.bool_), np.empty(0, dtype=np.int64)
    # the eight bytes from each place on, as one number
    words: Words = np.ndarray(
        (len(fields.bytes) - 7,), dtype="<u8", buffer=fields.block.data, strides=(1,)
    )
    last = len(words) - 1
    fine: BoolArray = fields.start(3) + len(LEFT_OUT) <= last
    starts = [np.minimum(fields.start(field), last) for field in range(4)]
    fine &= _begins(words, starts[0], ASSERTION) & _begins(words, starts[1], RELATION)
    elsewhere = _begins(words, starts[1], LEFT_OUT)
    elsewhere &= fields.end(1) - starts[1] == len(LEFT_OUT)
    ours = np.ones(len(fields), dtype=np.bool_)
    for end in (starts[2], starts[3]):
        known, concept = _concepts(fields.bytes, words, end, rules)
        ours &= known
        fine &= concept | elsewhere
    dropped[OTHER_SITE] += int(np.count_nonzero(fine & elsewhere))
    dropped[OTHER_LANGUAGE] += int(np.count_nonzero(fine & ~elsewhere & ~ours))
    return fine, np.flatnonzero(fine & ~elsewhere & ours)


def _concepts(
    data: NDArray[np.uint8], words: Words, starts: IntArray, rules: Rules
) -> tuple[BoolArray, BoolArray]:
    """Return which ends are in a wanted language, and which are surely concepts.

    Sure is a concept in a wanted language, or in one of two or three letters.
    """
    known = np.zeros(len(starts), dtype=np.bool_)
    termed = np.zeros(len(starts), dtype=np.bool_)
    for text in rules.starts:
        of_this = _begins(words, starts, text)
        after = data[np.minimum(starts + len(text), len(data) - 1)]
        termed |= of_this & (after > _CONTROL) & (after != _SLASH)
        known |= of_this
    others = np.flatnonzero(~known)
    first = words[starts[others]].astype("<u8").view(np.uint8).reshape(-1, 8)
    letters = (first > _CONTROL) & (first != _SLASH)
    of_two = (first[:, 5] == _SLASH) & letters[:, 6]
    of_three = letters[:, 5] & (first[:, 6] == _SLASH) & letters[:, 7]
    sure = _begins(words, starts[others], CONCEPT) & letters[:, 3] & letters[:, 4]
    termed[others] = sure & (of_two | of_three)
    return known, termed


def _begins(words: Words, starts: IntArray, text: bytes) -> BoolArray:
    """Return at which of ``starts`` the bytes ``text`` stand (False where the block ends)."""
    found = np.ones(len(starts), dtype=np.bool_)
    for place in range(0, len(text), 8):
        part = text[place : place + 8]
        at = starts + place
        found &= at < len(words)
        mask = np.uint64((1 << 8 * len(part)) - 1)
        wanted = np.uint64(int.from_bytes(part, "little"))
        found &= (words[np.minimum(at, len(words) - 1)] & mask) == wanted
    return found


def _edges(
    fields: Fields, rows: IntArray, rules: Rules, dropped: Counter[str]
) -> tuple[pa.RecordBatch, IntArray]:
    """Return the edges of ``rows``, and those rows that columns cannot read."""
    texts, read = zip(*(as_text(cut(fields.take(field, rows))) for field in (1, 2, 3)), strict=True)
    relation, head, tail = texts
    good = np.logical_and.reduce(read)
    if rules.fold:
        head, tail = _fold(head), _fold(tail)
    same = _mask(pc.equal(head, tail)) & good
    dropped[TO_ITSELF] += int(np.count_nonzero(same))
    sure = np.flatnonzero(good & ~same)
    weight, properties, known = _about(fields, rows[sure])
    unsure = np.concatenate([rows[~good], rows[sure[~known]]])
    kept = known
    if rules.least is not None:
        heavy = weight >= rules.least
        dropped[TOO_LIGHT] += int(np.count_nonzero(kept & ~heavy))
        kept = kept & heavy
    chosen = pa.array(sure[kept])
    head, relation, tail = (column.take(chosen) for column in (head, relation, tail))
    turned = pc.and_(pc.is_in(relation, pa.array(sorted(SYMMETRIC))), pc.less(tail, head))
    columns = [
        pc.if_else(turned, tail, head),
        relation,
        pc.if_else(turned, head, tail),
        properties.filter(pa.array(kept)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=EDGE_SCHEMA), unsure


def _fold(uris: pa.Array) -> pa.Array:
    longer = pc.greater(pc.count_substring(uris, "/"), 3)
    if not pc.any(longer).as_py():
        return uris
    folded = pc.replace_substring_regex(uris.filter(longer), _FOLDED, r"\1")
    return pc.replace_with_mask(uris, longer, folded)


def _about(fields: Fields, rows: IntArray) -> tuple[NDArray[np.float64], pa.Array, BoolArray]:
    """Return weight, properties (JSON text) and whether the last column was read, for ``rows``."""
    data = fields.bytes
    starts, ends = fields.start(4)[rows], fields.end(4)[rows]
    texts, plain = as_text(fields.take(4, rows))
    # One object a line: otherwise a count of rows would not show two objects in one line.
    plain &= (data[starts] == ord("{")) & (data[ends - 1] == ord("}"))
    for word in ("Inf", "NaN"):  # Arrow reads more as a number than JSON has
        plain &= ~_mask(pc.match_substring(texts, word))
    table = _read_json(texts if plain.all() else texts.filter(pa.array(plain)))
    if not plain.all():
        places = np.cumsum(plain) - 1
        table = table.take(pa.array(places, mask=~plain))
    weight, surface, licence = (table[name].combine_chunks() for name in _ABOUT.names)
    # a weight that is missing and one that is null look alike here
    numbers = pc.fill_null(weight, 0.0).to_numpy()
    known = _mask(pc.is_valid(weight)) & np.isfinite(numbers)
    coded = pc.fill_null(weight, 0.0).dictionary_encode()
    starts_of = [f'{{"weight": {number!r}' for number in coded.dictionary.to_pylist()]
    written = pa.array(starts_of, type=pa.string())
    properties = pc.binary_join_element_wise(
        written.take(coded.indices),
        _member("surfaceText", surface),
        _member("license", licence),
        pa.scalar("}"),
        "",
    )
    return numbers, properties, known


def _read_json(texts: pa.Array) -> pa.Table:
    """Return rows of _ABOUT for texts that each hold one line; nulls for what is odd JSON."""
    if not len(texts):
        return _ABOUT.empty_table()
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32)
    start, end = int(offsets[texts.offset]), int(offsets[texts.offset + len(texts)])
    try:
        table = pj.read_json(
            pa.BufferReader(texts.buffers()[2].slice(start, end - start)),
            read_options=pj.ReadOptions(use_threads=False, block_size=end - start + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=_ABOUT, unexpected_field_behavior="ignore"
            ),
        )
        if len(table) == len(texts):
            return table
    except pa.ArrowInvalid:
        pass
    if len(texts) <= _ONE_BY_ONE:
        return pa.table([pa.nulls(len(texts), field.type) for field in _ABOUT], schema=_ABOUT)
    half = len(texts) // 2  # a line that is no JSON does not take its whole block with it
    return pa.concat_tables([_read_json(texts.slice(0, half)), _read_json(texts.slice(half))])


def _member(name: str, values: pa.Array) -> pa.Array:
    """Return `, "name": "value"` for each value, as JSON writes it, and nothing for a null."""
    special = pc.fill_null(pc.match_substring_regex(values, _SPECIAL), False)
    written = pc.binary_join_element_wise(
        pa.scalar(f', "{name}": "'), values, pa.scalar('"'), "", null_handling="emit_null"
    )
    if pc.any(special).as_py():
        escaped = [
            f', "{name}": {json.dumps(value, ensure_ascii=False)}'
            for value in values.filter(special).to_pylist()
        ]
        written = pc.replace_with_mask(written, special, pa.array(escaped, type=pa.string()))
    return pc.fill_null(written, "")


def _mask(values: pa.Array) -> BoolArray:
    mask: BoolArray = values.to_numpy(zero_copy_only=False)
    return mask

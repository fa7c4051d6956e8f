"""JSON lines → triples: objects of the same keys by columns, any other line by itself.

Of each line it is proved by one pattern, made from the keys of a line before it, that it is an
object of exactly these keys in this order with plain values; its values are what the pattern takes
out. Any other line goes through a JSON parser. What it does not do: objects over several lines.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.loaders.blocks import decoded
from kgqa.loaders.tables import BLANK, PARTS, Columns, is_header, read_object
from kgqa.loaders.triples_delimited import lines_where
from kgqa.loaders.triples_part import Part, add_fields
from kgqa.loaders.triples_text import (
    bad_lines,
    each_once,
    inside,
    is_utf8,
    mask_of,
    plain_integers,
)

if TYPE_CHECKING:
    from kgqa.graph.model import BoolArray
    from kgqa.loaders.blocks import Block
    from kgqa.loaders.tables import Row
    from kgqa.loaders.triples_delimited import Record

_LINE_FEED = 10
_BLANKS = r"[ \t]*"
_VALUE = (
    r'(?:"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*"'
    r"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)"
)
_PLAIN_KEY = re.compile(r"[\w .:/@#$-]+")
_MOST_SHAPES = 4  # of the lines of a block; what has another goes by itself
_MOST_TRIES = 12


class JsonReader:
    """Reads blocks of JSON lines; several threads may use one at a time.

    ``columns``: what the values of a line that is an array are.
    """

    def __init__(self, columns: str | None = None) -> None:
        """Take the options. Raises UsageError where the columns are not head, relation, tail."""
        self._array = Columns(columns.split(",") if columns else PARTS)
        self._orders: dict[tuple[str, ...], Columns] = {}
        self._shapes: dict[tuple[str, ...] | None, str] = {}

    def read(self, block: Block) -> Part:
        """Return what the lines of a block hold."""
        part = Part(block.source)
        data = np.frombuffer(block.data, dtype=np.uint8)
        ends = np.flatnonzero(data == _LINE_FEED)
        careful = np.zeros(len(ends), dtype=np.bool_)
        content = pa.py_buffer(block.data)
        if not is_utf8(content):
            careful[bad_lines(data, ends)] = True
        offsets = np.zeros(len(ends) + 1, dtype=np.int32)
        offsets[1:] = ends + 1
        lines = pa.Array.from_buffers(
            pa.string(), len(ends), [None, pa.py_buffer(offsets), content]
        )
        left = ~careful
        known = list(self._shapes)
        shapes = tries = place = 0
        while shapes < _MOST_SHAPES and left.any():
            if known:
                keys = known.pop(0)
            else:
                rest = np.flatnonzero(left[place:])
                if not len(rest) or tries == _MOST_TRIES:
                    break
                place += int(rest[0])
                found = self._shape_of(lines[place].as_py())
                tries, place = tries + 1, place + 1
                if found is False:
                    continue
                keys = found
            shapes += 1
            rows = np.flatnonzero(left)
            taken = self._take(lines.take(pa.array(rows)), keys, part)
            left[rows[taken]] = False
        self._read_records(lines_where(block, careful | left, ends), part)
        part.find_ends()
        return part

    def _shape_of(self, line: str) -> tuple[str, ...] | Any | None:
        """Return the keys of a line, None for an array, False where columns cannot read it."""
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return False
        if isinstance(found, list):
            keys = None
            names = [_BLANKS] * self._array.count
            order, opening, closing = self._array, r"\[", r"\]"
        else:
            if not isinstance(found, dict) or not is_header(tuple(found)):
                return False
            keys = tuple(found)
            if not all(_PLAIN_KEY.fullmatch(key) for key in keys):
                return False
            names = [f'{_BLANKS}"{re.escape(key)}"{_BLANKS}:{_BLANKS}' for key in keys]
            order, opening, closing = Columns(keys), r"\{", r"\}"
            self._orders.setdefault(keys, order)
        if keys not in self._shapes:
            wanted = {*order.places, *(place for place, _ in order.others)}
            members = [
                name + (f"(?P<v{place}>{_VALUE})" if place in wanted else _VALUE) + _BLANKS
                for place, name in enumerate(names)
            ]
            listed = ",".join(members)
            self._shapes[keys] = rf"\A{_BLANKS}{opening}{listed}{closing}{_BLANKS}\r*\n\z"
        return keys

    def _take(self, lines: pa.Array, keys: tuple[str, ...] | None, part: Part) -> BoolArray:
        """Add the rows among ``lines`` that have a shape; return which they are."""
        found = pc.extract_regex(lines, self._shapes[keys])
        good = mask_of(found.is_valid())
        rows = np.flatnonzero(good)
        found = found.filter(pa.array(good))
        columns = self._array if keys is None else self._orders[keys]
        # What a part is, as text; rows where it is none are left over.
        parts = {place: _texts(found.field(f"v{place}")) for place in columns.places}
        sure = np.logical_and.reduce([mask_of(texts.is_valid()) for texts in parts.values()])
        members: dict[int, pa.Array] = {}
        for place, _ in columns.others:
            members[place], plain = _members(found.field(f"v{place}"))
            sure &= plain
        good[rows[~sure]] = False
        rows = rows[sure]
        kept = pa.array(sure)

        def text(place: int, mask: BoolArray | None) -> pa.Array:
            column = parts[place].filter(kept)
            return column if mask is None else column.filter(pa.array(mask))

        def member(place: int, mask: BoolArray) -> pa.Array:
            return members[place].filter(kept).filter(pa.array(mask))

        unsure = add_fields(part, columns, text, member)
        good[rows[unsure]] = False
        return good

    def _read_records(self, records: list[Record], part: Part) -> None:
        rows: list[Row] = []
        for number, raw in records:
            if (text := decoded(number, raw, part.rejects)) is None:
                continue
            if not text.strip():
                part.dropped[BLANK] += 1
                continue
            try:
                rows.append(read_object(text, self._orders, self._array))
            except ValueError as error:
                part.rejects.append((number, str(error), text))
        part.add_rows(rows)


def _texts(values: pa.Array) -> pa.Array:
    """Return JSON values that are strings or integers as text, null for others."""
    texts = inside(values, 1, 1)
    quoted = pc.starts_with(values, '"')
    if not pc.all(quoted).as_py():
        whole = pc.if_else(pa.array(plain_integers(values)), values, pa.scalar(None, pa.string()))
        texts = pc.if_else(quoted, texts, whole)
    return _changed(values, texts, pc.match_substring(values, "\\"), _unescaped)


def _members(values: pa.Array) -> tuple[pa.Array, BoolArray]:
    """Return JSON values as Python writes them, null for what is missing; and which were read."""
    sure = np.ones(len(values), dtype=np.bool_)
    missing = pc.or_(pc.equal(values, '""'), pc.equal(values, "null"))
    written = pc.if_else(missing, pa.scalar(None, pa.string()), values)
    plain = pc.starts_with(values, '"')
    plain = pc.and_not(plain, pc.match_substring(values, "\\"))
    for word in ("true", "false", "null"):
        plain = pc.or_(plain, pc.equal(values, word))
    odd = pc.and_not(pc.invert(plain), pa.array(plain_integers(values)))
    changed = _changed(values, written, odd, _rewritten)
    lost = mask_of(pc.and_(odd, changed.is_null()))
    sure[lost] = False
    return changed, sure


def _changed(values: pa.Array, texts: pa.Array, odd: pa.Array, change: Any) -> pa.Array:
    """Return ``texts`` with ``change`` of the value where it is odd."""
    if not pc.any(odd).as_py():
        return texts
    return pc.replace_with_mask(texts, odd, each_once(values.filter(odd), change))


def _unescaped(value: str) -> str | None:
    """Return the text of a JSON string, None where it is none or cannot stand in a file."""
    if value[0] != '"':
        return None
    text: str = json.loads(value)
    return text if _is_writable(text) and "\0" not in text else None


def _rewritten(value: str) -> str | None:
    """Return a JSON value as Python writes it, None where a closer look is due."""
    try:
        found = json.loads(value)
        text = json.dumps(found, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return None
    return text if _is_writable(text) and text != '""' else None


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

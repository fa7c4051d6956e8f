"""A row of a table of triples: where head, relation and tail stand, and what is no triple.

The columns' names, the header, the delimiter, and the rules for one row at a time, as text, as JSON
or as cells: this is what a row means. Whole files are read by columns (``triples_delimited``,
``triples_json``, ``triples_parquet``), with the same result. What it does not do: open files.
"""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from kgqa.errors import DumpMalformedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    Row: TypeAlias = tuple[str, str, str, str | None]  # head, relation, tail, properties as JSON

PARTS = ("head", "relation", "tail")
SKIP = "_"  # a column that is not wanted
BLANK = "blank line or comment"
HEADER = "header"
COUNT_LINE = "count of lines"
WHITESPACE = "whitespace"
QUOTED = (",", ";")  # these forms have quotes; in the others a quote is part of a name
_CALLED = {  # what the columns are called, the likeliest name first
    "head": ("head", "subject", "subj", "h", "s", "source"),
    "relation": ("relation", "predicate", "rel", "pred", "r", "p", "property"),
    "tail": ("tail", "object", "obj", "t", "o", "target"),
}
_ENOUGH = 0.9  # share of lines that settles the delimiter
_AT_LEAST = 0.5  # share without which a delimiter is none
_DELIMITERS = ("\t", "|", ",", ";")


class Columns:
    """Where a row's head, relation, tail and properties stand.

    ``count``: of columns. ``places``: of the three parts. ``others``: (place, name) of each
    property.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Take the columns' names, in their order.

        Raises UsageError where head, relation and tail are not among them once each.
        """
        places = _places(names)
        if places is None:
            raise UsageError(
                f"The columns {', '.join(map(repr, names))} are not head, relation and tail.",
                "Name each of the three once, for instance --columns relation,head,tail;"
                f" write {SKIP} for a column that is not wanted.",
            )
        self.count = len(names)
        self.places = places
        self.others = [
            (place, name.strip())
            for place, name in enumerate(names)
            if place not in places and name.strip() not in (SKIP, "")
        ]

    def row(self, fields: Sequence[Any]) -> Row:
        """Return a row's parts. Raises ValueError with the reason where it is no triple."""
        if len(fields) != self.count:
            raise ValueError(f"{len(fields)} fields in place of {self.count}")
        head, relation, tail = (_text(fields[place]) for place in self.places)
        if not (head and relation and tail):
            empty = PARTS[[head, relation, tail].index("")]
            raise ValueError(f"{empty} is empty")
        about = {name: fields[place] for place, name in self.others if not _missing(fields[place])}
        return head, relation, tail, _properties(about) if about else None


def is_header(fields: Sequence[str]) -> bool:
    """Return whether the fields say head, relation and tail (in any of their usual names)."""
    return _places(fields) is not None


def is_count(text: str) -> bool:
    """Return whether a line is a number and nothing else: how many lines follow it."""
    text = text.strip()
    return text.isascii() and text.isdecimal()


def _places(names: Sequence[str]) -> tuple[int, int, int] | None:
    """Return the places of head, relation and tail, None where one is missing or ambiguous."""
    plain = [name.strip().lower() for name in names]
    places = []
    for part in PARTS:
        called = next((name for name in _CALLED[part] if name in plain), None)
        if called is None or plain.count(called) != 1:
            return None
        places.append(plain.index(called))
    return places[0], places[1], places[2]


def find_delimiter(records: Sequence[str], source: str) -> str:
    """Return the delimiter that cuts most records into the same number of fields, three or more.

    Raises DumpMalformedError where none does so for half of them.
    """
    records = [record for record in records if record.strip()]
    shares: dict[str, float] = {}
    for delimiter in (*_DELIMITERS, WHITESPACE):
        split = splitter(delimiter)
        counts: Counter[int] = Counter()
        for record in records:
            try:
                counts[len(split(record))] += 1
            except (ValueError, csv.Error):
                counts[0] += 1
        fields, often = counts.most_common(1)[0] if counts else (0, 0)
        shares[delimiter] = often / len(records) if fields >= len(PARTS) else 0.0
        if shares[delimiter] >= _ENOUGH:
            return delimiter
    best = max(shares, key=shares.__getitem__)
    if shares[best] >= _AT_LEAST:
        return best
    if not records:
        raise DumpMalformedError(f"{source} is empty.", "Give a file that has lines.")
    raise DumpMalformedError(
        f"No delimiter cuts the lines of {source} into head, relation and tail"
        f" (line 1: {records[0][:80]!r}).",
        "Give it by --delimiter, and the columns by --columns if there are others.",
    )


def splitter(delimiter: str) -> Callable[[str], list[str]]:
    """Return what cuts a record into its fields; it raises ValueError or csv.Error.

    Raises UsageError where the delimiter is not one character.
    """
    if delimiter == WHITESPACE:
        return str.split
    if len(delimiter) != 1:
        raise UsageError(
            f"The delimiter {delimiter!r} is not one character.", f"Or say {WHITESPACE!r}."
        )
    if delimiter in QUOTED:

        def split(record: str) -> list[str]:
            fields = next(csv.reader([record], delimiter=delimiter, strict=True))
            return [field.strip() for field in fields]

        return split
    if delimiter == "\t":  # a field is what stands between tabs, to the letter
        return lambda record: record.split("\t")
    return lambda record: [field.strip() for field in record.split(delimiter)]


def read_object(text: str, orders: dict[tuple[str, ...], Columns], array: Columns) -> Row:
    """Return the triple of a JSON object with head, relation, tail, or of an array.

    ``orders`` remembers the columns of the keys that objects have; ``array``: the columns of an
    array. Raises ValueError with the reason where it is no triple.
    """
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    if isinstance(found, list):
        row = array.row(found)
    elif isinstance(found, dict):
        names = tuple(found)
        if names not in orders:
            if not is_header(names):
                raise ValueError("object without head, relation and tail")
            orders[names] = Columns(names)
        row = orders[names].row(list(found.values()))
    else:
        raise ValueError("neither a JSON object nor an array")
    try:
        "".join(part or "" for part in row).encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair in an escape") from None
    return row


def written(cell: Any) -> str | None:
    """Return the JSON of a property's value, None where it is missing."""
    if _missing(cell):
        return None
    try:
        return json.dumps(cell, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:  # a number that JSON does not have
        return json.dumps(_finite(cell), ensure_ascii=False, default=str)


def _properties(about: dict[str, Any]) -> str:
    members = (f"{json.dumps(k, ensure_ascii=False)}: {written(v)}" for k, v in about.items())
    return "{" + ", ".join(members) + "}"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value


def _missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell) or cell != cell  # NaN


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool | float | list | dict | bytes):
        raise ValueError(f"{cell!r:.40} is neither an id nor a name")
    text = str(cell)
    if "\0" in text:
        raise ValueError("NUL character")
    return text if text.strip() else ""

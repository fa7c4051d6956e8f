"""Triples in the forms people keep them: delimited text, JSON lines, Parquet → rows of strings.

Finds the delimiter, the header and the columns of head, relation and tail; further named columns
are an edge's properties. What it does not do: names, types, mediators; N-Triples.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.loaders.lines import read_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress

    Row: TypeAlias = tuple[str, str, str, str | None]  # head, relation, tail, properties as JSON

PARTS = ("head", "relation", "tail")
SKIP = "_"  # a column that is not wanted
_CALLED = {  # what the columns are called, the likeliest name first
    "head": ("head", "subject", "subj", "h", "s", "source"),
    "relation": ("relation", "predicate", "rel", "pred", "r", "p", "property"),
    "tail": ("tail", "object", "obj", "t", "o", "target"),
}
_SAMPLE = 100  # lines that the delimiter is found from
_ENOUGH = 0.9  # share of them that settles it
_AT_LEAST = 0.5  # share without which a delimiter is none
_DELIMITERS = ("\t", "|", ",", ";")
WHITESPACE = "whitespace"


class Columns:
    """Where a row's head, relation, tail and properties stand."""

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
        self._places = places
        self._others = [
            (place, name.strip())
            for place, name in enumerate(names)
            if place not in places and name.strip() not in (SKIP, "")
        ]

    def row(self, fields: Sequence[Any]) -> Row:
        """Return a row's parts. Raises ValueError with the reason where it is no triple."""
        if len(fields) != self.count:
            raise ValueError(f"{len(fields)} fields in place of {self.count}")
        head, relation, tail = (_text(fields[place]) for place in self._places)
        if not (head and relation and tail):
            empty = PARTS[[head, relation, tail].index("")]
            raise ValueError(f"{empty} is empty")
        about = {
            name: fields[place] for place, name in self._others if fields[place] not in ("", None)
        }
        return (
            head,
            relation,
            tail,
            json.dumps(about, ensure_ascii=False, default=str) if about else None,
        )


def is_header(fields: Sequence[str]) -> bool:
    """Return whether the fields say head, relation and tail (in any of their usual names)."""
    return _places(fields) is not None


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


def read_delimited(
    source: Path,
    report: Report,
    rejects: Rejects,
    progress: Progress,
    delimiter: str | None = None,
    columns: str | None = None,
    header: bool | None = None,
) -> Iterator[Row]:
    """Yield the triples of a delimited file.

    ``delimiter``: one character or "whitespace", found where it is None. ``columns``: the columns'
    names, comma-separated; without it a header says them, else they are head, relation, tail.
    ``header``: whether the first line is one, found where it is None.
    """
    lines = read_lines(source, report, rejects, progress)
    sample = list(islice(lines, _SAMPLE))
    split = _splitter(delimiter or find_delimiter([text for _, text in sample], source))
    order = Columns(columns.split(",")) if columns else None
    at_start = True
    for number, text in chain(sample, lines):
        if not text.strip():
            report.dropped["blank line or comment"] += 1
            continue
        try:
            fields = split(text)
            if at_start and (is_header(fields) if header is None else header):
                at_start = False
                report.dropped["header"] += 1
                order = order or Columns(fields)
                continue
            at_start = False
            order = order or Columns(PARTS)
            row = order.row(fields)
        except UsageError:
            raise
        except (ValueError, csv.Error) as error:
            rejects.add(source.name, number, str(error), text)
            continue
        yield row


def find_delimiter(lines: Sequence[str], source: Path) -> str:
    """Return the delimiter that cuts most lines into the same number of fields, three or more.

    Raises DumpMalformedError where none does so for half of the lines.
    """
    lines = [line for line in lines if line.strip()]
    shares: dict[str, float] = {}
    for delimiter in (*_DELIMITERS, WHITESPACE):
        split = _splitter(delimiter)
        counts: Counter[int] = Counter()
        for line in lines:
            try:
                counts[len(split(line))] += 1
            except (ValueError, csv.Error):
                counts[0] += 1
        fields, often = counts.most_common(1)[0] if counts else (0, 0)
        shares[delimiter] = often / len(lines) if fields >= len(PARTS) else 0.0
        if shares[delimiter] >= _ENOUGH:
            return delimiter
    best = max(shares, key=shares.__getitem__)
    if shares[best] >= _AT_LEAST:
        return best
    if not lines:
        raise DumpMalformedError(f"{source} is empty.", "Give a file that has lines.")
    raise DumpMalformedError(
        f"No delimiter cuts the lines of {source} into head, relation and tail"
        f" (line 1: {lines[0][:80]!r}).",
        "Give it by --delimiter, and the columns by --columns if there are others.",
    )


def _splitter(delimiter: str) -> Callable[[str], list[str]]:
    if delimiter == WHITESPACE:
        return str.split
    if len(delimiter) != 1:
        raise UsageError(
            f"The delimiter {delimiter!r} is not one character.", f"Or say {WHITESPACE!r}."
        )
    if delimiter in ",;":  # these forms have quotes; in the others a quote is part of a name

        def split(line: str) -> list[str]:
            fields = next(csv.reader([line], delimiter=delimiter, strict=True))
            return [field.strip() for field in fields]

        return split
    if delimiter == "\t":  # a field is what stands between tabs, to the letter
        return lambda line: line.split("\t")
    return lambda line: [field.strip() for field in line.split(delimiter)]


def read_json_lines(
    source: Path, report: Report, rejects: Rejects, progress: Progress
) -> Iterator[Row]:
    """Yield the triples of JSON lines: objects with head, relation, tail, or arrays of three."""
    orders: dict[tuple[str, ...], Columns] = {}
    for number, text in read_lines(source, report, rejects, progress):
        if not text.strip():
            report.dropped["blank line or comment"] += 1
            continue
        try:
            found = _json(text)
            if isinstance(found, list):
                yield Columns(PARTS).row(found)
                continue
            if not isinstance(found, dict):
                raise ValueError("neither a JSON object nor an array")
            names = tuple(found)
            if names not in orders:
                if not is_header(names):
                    raise ValueError("object without head, relation and tail")
                orders[names] = Columns(names)
            yield orders[names].row(list(found.values()))
        except ValueError as error:
            rejects.add(source.name, number, str(error), text)


def read_parquet(
    source: Path, report: Report, rejects: Rejects, progress: Progress, columns: str | None = None
) -> Iterator[Row]:
    """Yield the triples of a Parquet file; ``columns`` names its columns anew, in their order."""
    try:
        file = pq.ParquetFile(source)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DumpMalformedError(f"{source} is no Parquet file: {reason}.") from None
    with file, progress.task(f"reading {source.name}", file.metadata.num_rows, "rows") as task:
        order = Columns(columns.split(",") if columns else file.schema_arrow.names)
        number = 0
        try:
            for batch in file.iter_batches():
                for fields in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    number += 1
                    try:
                        row = order.row(fields)
                    except ValueError as error:
                        rejects.add(source.name, number, str(error), repr(fields))
                        continue
                    yield row
                task.advance(batch.num_rows)
        except (pa.ArrowInvalid, OSError) as error:
            reason = str(error).splitlines()[0]
            raise DumpMalformedError(
                f"{source} is damaged after row {number}: {reason}.", "Fetch it again."
            ) from None
        finally:
            report.lines += number


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError("no JSON") from None


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool | float | list | dict | bytes):
        raise ValueError(f"{cell!r:.40} is neither an id nor a name")
    text = str(cell)
    if "\0" in text:
        raise ValueError("NUL character")
    return text if text.strip() else ""

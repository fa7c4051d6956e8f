"""What the columns of a table of triples are called, and whether a table is one at all."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from kgqa.errors import DumpMalformedError

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTS = ("head", "relation", "tail")
_CALLED = {  # what the columns are called, the likeliest name first, without _ and spaces
    "head": "head subject subj h s source src from start startid headentity entity1 node1",
    "relation": "relation predicate rel pred r p property relationship reltype edgetype type label "
    "edge verb",
    "tail": "tail object obj t o target dst to end endid tailentity destination entity2 node2",
}
_SAYS = {part: tuple(called.split()) for part, called in _CALLED.items()}
_WORD = re.compile(r"[\W_]+")
_ID = re.compile(r"(?:^|[_\s-])(?:id|ID|Id)$|[a-z]I[dD]$|:[A-Z_]+(?:\(.*\))?$")
_NAMES = ("name", "title", "code", "key", "uuid")
_VALUE = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?|\d{4}-\d\d-\d\d.*")
_FEW = 2  # rows that say nothing of a column
_HINT = (
    "If a row is one thing, load it by `kgqa ingest tables`; if it is a triple, name the columns "
    "by `columns`, for instance relation,head,tail, with _ for one that is not wanted."
)


def places(names: Sequence[str]) -> tuple[int, int, int] | None:
    """Return the places of head, relation and tail, None if one is missing or ambiguous."""
    found = _found(names)
    return (found["head"], found["relation"], found["tail"]) if len(found) == len(PARTS) else None


def _found(names: Sequence[str]) -> dict[str, int]:
    plain = [_WORD.sub("", name.lower()) for name in names]
    found = {}
    for part in PARTS:
        called = next((name for name in _SAYS[part] if name in plain), None)
        if called is not None and plain.count(called) == 1:
            found[part] = plain.index(called)
    return found


def check_triples(rows: Sequence[Sequence[str]], source: str) -> None:
    """Raise DumpMalformedError if rows without a header of triples are those of another table."""
    if len(rows) < 2:
        return
    first, others = rows[0], rows[1:]
    count, often = Counter(map(len, rows)).most_common(1)[0]
    shown = ", ".join(first)[:80]
    if count != len(PARTS) and often > len(rows) // 2:
        raise DumpMalformedError(
            f"{source} is not a table of triples: its rows have {count} fields (the first one: "
            f"{shown}).",
            _HINT,
        )
    if len(_found(first)) == len(PARTS) - 1:
        lacks = next(part for part in PARTS if part not in _found(first))
        raise DumpMalformedError(
            f"The header of {source} ({shown}) does not say which column is the {lacks}.", _HINT
        )
    columns = list(zip(*(row for row in others if len(row) == len(first)), strict=True))
    for place, (cell, column) in enumerate(zip(first, columns, strict=False)):
        said = cell.strip()
        is_name = bool(_ID.search(said)) or said.lower() in _NAMES
        of_values = not _VALUE.fullmatch(said) and all(_VALUE.fullmatch(one) for one in column)
        if place == len(PARTS) - 1:  # tails are values in triples, too, but not each of a new head
            once = len(set(columns[0])) == len(column) > _FEW and first[1] not in columns[1]
            of_values = of_values and once
        if (is_name and cell not in column) or of_values:
            raise DumpMalformedError(
                f"The first row of {source} ({shown}) is the header of another table.", _HINT
            )

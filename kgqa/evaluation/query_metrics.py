"""Execution accuracy: whether the rows of a query are those of a gold query, as sets by column."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SHORT = 120  # characters of a property that may stand for its node


def cell_forms(cell: Any) -> frozenset[str]:
    """Return the texts that a cell may be compared by: of a node, each of its short properties."""
    if isinstance(cell, dict):
        values = [value for name, value in cell.items() if not name.startswith("_")]
        forms = {form for value in values for form in cell_forms(value)}
        return frozenset(form for form in forms if len(form) <= _SHORT)
    if isinstance(cell, list | tuple):
        inner = sorted(form for member in cell for form in cell_forms(member))
        return frozenset(["[" + "|".join(inner) + "]"])
    if cell is None:
        return frozenset(["null"])
    if isinstance(cell, bool):
        return frozenset([str(cell).lower()])
    text = re.sub(r"\s+", " ", str(cell)).strip().lower()
    try:
        return frozenset(
            [f"{round(float(text), 3):g}" if abs(float(text)) < 1e9 else f"{float(text):.6g}"]
        )
    except ValueError:
        date = re.fullmatch(r"(\d{4}-\d\d-\d\d)[ t](.+?)(?:\.0+)?z?", text)
        return frozenset([f"{date[1]} {date[2]}" if date else text])


def same_rows(given: Sequence[Sequence[Any]], gold: Mapping[str, Any]) -> bool:
    """Return whether ``given`` is right by ``gold``: ``rows`` with ``limit``, ``sure``, ``pool``.

    Some column of the first n + 1, where gold has n, has to equal some column of gold. What a limit
    leaves open may be any of the pool.
    """
    rows = gold["rows"]
    width = len(rows[0]) if rows else 0
    ours = [
        [cell_forms(row[column]) for row in given]
        for column in range(min(width + 1, len(given[0]) if given else 0))
    ]
    if not rows:
        return not given
    open_ = gold.get("limit") and gold.get("pool")
    for column in range(width):
        if open_:
            sure = [cell_forms(row[column]) for row in gold["sure"] or []]
            pool = [cell_forms(row[column]) for row in gold["pool"]]
            if any(_within(cells, sure, [*sure, *pool], len(rows)) for cells in ours):
                return True
        target = [cell_forms(row[column]) for row in rows]
        if any(_covers(cells, target) and _covers(target, cells) for cells in ours):
            return True
    return False


def _covers(some: Iterable[frozenset[str]], by: Sequence[frozenset[str]]) -> bool:
    """Return whether each of ``some`` has a form in common with one of ``by``."""
    every = frozenset().union(*by) if by else frozenset()
    return all(cells & every for cells in some)


def _within(
    ours: Sequence[frozenset[str]],
    sure: Sequence[frozenset[str]],
    pool: Sequence[frozenset[str]],
    size: int,
) -> bool:
    different = len(set(ours))
    return (
        bool(ours)
        and _covers(sure, ours)
        and _covers(ours, pool)
        and different <= size
        and (different == size or len(ours) == size or different >= len(set(pool)))
    )


def shape_of(cypher: str) -> str:
    """Return the shape of a gold query: its hops, and whether it aggregates or orders."""
    hops = len(re.findall(r"-\[[^\]]*\]-|--", cypher))
    parts = [f"{min(hops, 3)} hops"]
    if re.search(r"\b(count|sum|avg|min|max|size)\s*[({]", cypher, re.IGNORECASE):
        parts.append("aggregate")
    elif re.search(r"\border by\b", cypher, re.IGNORECASE):
        parts.append("order")
    if re.search(r"\bnot\b", cypher, re.IGNORECASE) and not re.search(
        r"is not null", cypher, re.IGNORECASE
    ):
        parts.append("not")
    return ", ".join(parts)

"""All rows of a query, in pages: a server may cut what it gives without a word.

What a pattern matches is counted, and read until that count is reached; a shortfall is an error.
Pages are of a query in a query, since Virtuoso sorts no more than its ``MaxSortedTopRows`` for a
``LIMIT`` with an ``OFFSET`` beside the ``ORDER BY``. It skips no rows of an inner ``DISTINCT``
without an order.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kgqa.errors import GraphError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.graph.sparql_client import SparqlClient

PAGE = 5_000  # rows of one reply: fewer than most servers' bound
MOST_ROWS = 1_000_000  # that one question about a frontier may have


def number(row: dict[str, Any], name: str = "n") -> int:
    """Parse the count ``name`` of a row. Raises GraphError if it is not a number."""
    text = row.get(name, {}).get("value", "")
    if not text.isdecimal():
        raise GraphError(f"The endpoint gave {text[:40]!r} as a count.")
    return int(text)


def count_of(client: SparqlClient, query: str) -> int:
    """Return how many rows a query has. Raises GraphError."""
    rows = client.select(_count_query(query))
    if len(rows) != 1:
        raise GraphError(f"The endpoint {client.url} does not count.")
    return number(rows[0])


def _count_query(query: str) -> str:
    """Return the query that counts the rows of ``query``."""
    return f"SELECT (COUNT(*) AS ?n)\nWHERE {{ {{ {query} }} }}"


class TooManyRowsError(GraphError):
    """A query has more rows than the limit."""


def all_rows(client: SparqlClient, query: str, most: int = MOST_ROWS) -> list[dict[str, Any]]:
    """Return all rows of a query, unordered; their count comes with the first page.

    Raises TooManyRowsError if there are more than ``most``, GraphError if fewer than counted
    arrive.
    """
    first = f"{{ {_count_query(query)} }} UNION {{ {query}\nLIMIT {PAGE} }}"
    rows = client.select(f"SELECT *\nWHERE {{ {first} }}")
    counts = [row for row in rows if "n" in row and len(row) == 1]  # a cut reply may lack it
    total = number(counts[0]) if counts else count_of(client, query)
    if total > most:
        raise TooManyRowsError(
            f"The endpoint {client.url} has {total:,} rows there, more than kgqa reads.",
            "Ask with fewer hops, or in the direction `out`.",
        )
    rows = [row for row in rows if row is not counts[0]] if counts else []
    if len(rows) == total:
        return rows
    rows = []
    for page in pages(client, query, order=_variables(query)):
        rows += page
        if len(rows) >= total:
            break
    if len(rows) != total:
        raise short(client, len(rows), total)
    return rows


def together(client: SparqlClient, queries: Sequence[str]) -> list[list[dict[str, Any]] | None]:
    """Run several queries in one request; return all rows of each, unordered.

    The rows of a query are None if they exceed a page or did not arrive, or if the server refuses
    the request. Raises StoreUnavailableError.
    """
    parts = []
    for at, one in enumerate(queries):
        given = f"SELECT ({at} AS ?of_) {_variables(one)}\nWHERE {{ {{ {one}\nLIMIT {PAGE} }} }}"
        counted = f"SELECT ({at} AS ?of_) (COUNT(*) AS ?rows_)\nWHERE {{ {{ {one} }} }}"
        parts += [f"{{ {counted} }}", f"{{ {given} }}"]
    found: list[list[dict[str, Any]]] = [[] for _ in queries]
    counts: dict[int, int] = {}
    try:
        for row in client.select(f"SELECT *\nWHERE {{ {' UNION '.join(parts)} }}"):
            at = number(row, "of_")
            if "rows_" in row:
                counts[at] = number(row, "rows_")
            elif at < len(found):
                del row["of_"]
                found[at].append(row)
    except StoreUnavailableError:
        raise
    except GraphError:  # one of them may be too much; each is then asked for by itself
        return [None] * len(queries)
    return [rows if counts.get(at) == len(rows) else None for at, rows in enumerate(found)]


def pages(client: SparqlClient, query: str, *, order: str = "") -> Iterator[list[dict[str, Any]]]:
    """Yield all rows of a query, page by page; ``order``: variables of ORDER BY.

    Raises GraphError if the server returns the same page repeatedly.
    """
    if not order and re.match(r"\s*SELECT\s+DISTINCT\b", query):
        order = _variables(query)
    if order:
        query = f"{query}\nORDER BY {order}"
    offset, before = 0, None
    while page := client.select(
        f"SELECT *\nWHERE {{ {{ {query} }} }}\nLIMIT {PAGE} OFFSET {offset}"
    ):
        if page == before and len(page) > 1:
            raise GraphError(f"The endpoint {client.url} gives the same page again and again.")
        widest = client.widest
        yield page
        if len(page) < min(PAGE, widest):  # the server gives more than that, so this is the last
            return
        before = page
        offset += len(page)


def _variables(query: str) -> str:
    """Return the variables that a query selects, joined by spaces."""
    return " ".join(re.findall(r"\?\w+", query.partition("WHERE")[0]))


def short(client: SparqlClient, got: int, total: int) -> GraphError:
    """Return the error of a reply with fewer rows than were counted."""
    return GraphError(
        f"The endpoint {client.url} gave {got:,} of {total:,} rows: it cuts its results, or "
        "changed meanwhile.",
        "Ask again; if it stays so, its limit of rows must be raised (Virtuoso: ResultSetMaxRows).",
    )

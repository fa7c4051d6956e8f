"""What is around the nodes of a frontier, as an endpoint gave it, kept until the next look.

A frontier is one query, whose count comes with it. Of a few nodes it brings their classes, texts
and names, too, and the edges of their mediators, so that these cost no request of their own. What
is expected to be asked for waits for the next request, and is read by it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kgqa.graph.literals import LONG_TEXT
from kgqa.graph.names import is_storable
from kgqa.graph.sparql_client import id_of, iri, term_of
from kgqa.graph.sparql_pages import (
    MOST_ROWS,
    PAGE,
    TooManyRowsError,
    all_rows,
    number,
    together,
)
from kgqa.graph.sparql_profiles import (
    ALIASES,
    class_path,
    rank_of,
    taken_filter,
    takes,
    walked_literal,
    wanted_language,
)
from kgqa.sparql import query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.attached import Attachment
    from kgqa.graph.model import Direction
    from kgqa.graph.sparql_client import SparqlClient

FEW = 100  # nodes up to which all about them is read
BATCH = 500  # terms of one query
_KEPT = 300_000  # edges

Edges: TypeAlias = "list[tuple[str, str]]"  # id of the relation, id of the other end


@dataclass(slots=True)
class About:
    """The classes, names and literals of one node."""

    types: list[str] = field(default_factory=list)
    literals: Edges = field(default_factory=list)  # of any length
    names: list[tuple[int, str]] = field(default_factory=list)  # with their ranks


class _Load(NamedTuple):
    """What one query reads: edges out of and into ids; ``whole``: and classes of the former."""

    out: list[str]
    into: list[str]
    whole: bool

    def without(self, others: Sequence[_Load]) -> _Load:
        """Return the part of this load that ``others`` do not read."""
        out = {id_ for one in others if one.whole or not self.whole for id_ in one.out}
        into = {id_ for one in others for id_ in one.into}
        return _Load(
            [id_ for id_ in self.out if id_ not in out],
            [id_ for id_ in self.into if id_ not in into],
            self.whole,
        )


def counted_degrees(client: SparqlClient, record: Attachment, ids: Sequence[str]) -> dict[str, int]:
    """Count the edges that touch each of some nodes and literals by queries. Raises GraphError."""
    degrees = dict.fromkeys(ids, 0)
    taken, walked = taken_filter(record), walked_literal(record)
    for start in range(0, len(ids), BATCH):
        terms = {id_: term_of(id_, record.prefix) for id_ in ids[start : start + BATCH]}
        sides = [query("degrees_in", nodes=" ".join(terms.values()), taken_predicate=taken)]
        if nodes := " ".join(term for id_, term in terms.items() if id_[:1] != '"'):
            sides.append(
                query("degrees_out", nodes=nodes, taken_predicate=taken, walked_literal=walked)
            )
        parts = " UNION ".join(f"{{ {side} }}" for side in sides)
        for row in all_rows(client, f"SELECT ?s ?n\nWHERE {{ {parts} }}"):
            if "s" in row:
                degrees[id_of(row["s"], record.prefix)] += number(row)
    return degrees


class NeighbourCache:
    """A cache of edges and literals by id, read in batches.

    Raises StoreUnavailableError, GraphError.
    """

    def __init__(self, client: SparqlClient, record: Attachment) -> None:
        self._client, self._record = client, record
        self._properties = [*record.labels, *ALIASES]
        self.out: dict[str, Edges] = {}
        self.into: dict[str, Edges] = {}
        self.about: dict[str, About] = {}
        self._expected: list[tuple[Sequence[str], Direction]] = []
        self._held = 0

    def clear(self) -> None:
        """Empty the cache."""
        for kept in (self.out, self.into, self.about):
            kept.clear()
        self._expected.clear()
        self._held = 0

    def has(self, id_: str) -> bool:
        """Return whether the cache holds at least one edge of an id."""
        return bool(self.out.get(id_) or self.into.get(id_))

    def edges(self, ids: Sequence[str], direction: Direction) -> tuple[dict[str, Edges], ...]:
        """Return (edges out of ids, edges into ids) by id, after reading those that are not cached.

        A direction that was not asked for may lack ids.
        """
        for start in range(0, len(ids), BATCH):
            some = ids[start : start + BATCH]
            sides = [self.out] * (direction != "in") + [self.into] * (direction != "out")
            if any(id_ not in side for side in sides for id_ in some):
                self.load(some, direction)
        found = tuple(
            {id_: side[id_] for id_ in ids if id_ in side} for side in (self.out, self.into)
        )
        if self._held > _KEPT:
            self.clear()
        return found

    def expect(self, ids: Sequence[str], direction: Direction) -> None:
        """Schedule a batch of ids' edges to be read together with the next request.

        Of a few ids, classes and names are read, too.
        """
        self._expected.append((ids, direction))

    def forget_expected(self) -> None:
        """Discard the scheduled reads."""
        self._expected.clear()

    def load(self, ids: Sequence[str], direction: Direction, most: int = MOST_ROWS) -> bool:
        """Read uncached edges of a batch of ids; return False if there are more than ``most`` rows.

        Scheduled edges are read with them. Raises TooManyRowsError instead if ``most`` is
        ``MOST_ROWS``, its default.
        """
        wanted = self._missing(ids, direction)
        beyond = True
        if _is_empty(wanted):
            return True
        if self._expected:
            self.read_expected(wanted)
            before, wanted = wanted, self._missing(ids, direction)
            beyond = before != wanted or not before.whole
            if _is_empty(wanted):
                return True
        try:
            self._add_rows(wanted, self._read(wanted, most, beyond=beyond))
        except TooManyRowsError:
            if most == MOST_ROWS:
                raise
            return False
        return True

    def read_expected(
        self, wanted: _Load | None = None, also: Sequence[str] = ()
    ) -> list[list[dict[str, Any]] | None]:
        """Read the scheduled edges and ``wanted``, and run the queries ``also``, in one request.

        Returns the rows of each query; None for rows that did not arrive completely, or if there is
        nothing to combine. Scheduled edges may not arrive either.
        """
        loads: list[_Load] = []
        for ids, direction in self._expected:
            loads.append(self._missing(ids, direction).without(loads))
        self._expected.clear()
        if wanted is not None:
            loads.append(wanted.without(loads))
        loads = [one for one in loads if not _is_empty(one)]
        queries = [self._query([*self._patterns(one), *self._edges_beyond(one)]) for one in loads]
        if not loads and len(also) < 2:
            return [None] * len(also)
        rows = together(self._client, [*queries, *also])
        for one, found in zip(loads, rows, strict=False):
            if found is not None:
                self._add_rows(one, found)
        return rows[len(loads) :]

    def _missing(self, ids: Sequence[str], direction: Direction) -> _Load:
        """Return the load of what is not cached of ids; nothing leads out of a literal."""
        whole = len(ids) <= FEW
        known = self.about if whole else self.out
        out = [id_ for id_ in dict.fromkeys(ids) if id_ not in known] if direction != "in" else []
        into = [id_ for id_ in dict.fromkeys(ids) if id_ not in self.into]
        for literal in [id_ for id_ in out if id_[:1] == '"']:
            self.out[literal], self.about[literal] = [], About()
        out = [id_ for id_ in out if id_[:1] != '"']
        return _Load(out, into if direction != "out" else [], whole)

    def _read(self, load: _Load, most: int, *, beyond: bool) -> list[dict[str, Any]]:
        """Read the rows of edges; ``beyond``: also edges out of nameless neighbours, if few."""
        sides = self._patterns(load)
        if beyond and (more := self._edges_beyond(load)):
            with contextlib.suppress(TooManyRowsError):
                return all_rows(self._client, self._query([*sides, *more]), min(most, PAGE))
        return all_rows(self._client, self._query(sides), most)

    def _patterns(self, load: _Load) -> list[str]:
        """Return the graph patterns of one load's query."""
        sides = [self._edges_out_pattern(load.out, whole=load.whole)] if load.out else []
        if load.out and load.whole:
            path = class_path(self._record)
            sides.append(query("classes_of", nodes=self._terms(load.out), type=path))
        return [*sides, self._edges_into_pattern(load.into)] if load.into else sides

    @staticmethod
    def _query(sides: Sequence[str]) -> str:
        """Return the query for the union of some graph patterns."""
        parts = " UNION ".join(f"{{ {side} }}" for side in sides)
        return f"SELECT ?s ?p ?o ?d\nWHERE {{ {parts} }}"

    def _add_rows(self, load: _Load, rows: Sequence[dict[str, Any]]) -> None:
        """Add the rows of one load to the cache."""
        self.out |= {id_: [] for id_ in load.out}
        self.into |= {id_: [] for id_ in load.into}
        if load.whole:
            self.about |= {id_: About() for id_ in load.out}
        self._held += len(rows)
        beyond: dict[str, Edges] = {}
        for row in rows:
            if row["d"]["value"] == "3":
                self._add_edge_beyond(row, beyond)
            else:
                self._add_row(row)
        self.out = beyond | self.out

    def _terms(self, ids: Sequence[str]) -> str:
        """Return ids as SPARQL terms, joined by spaces."""
        return " ".join(term_of(id_, self._record.prefix) for id_ in ids)

    def _edges_out_pattern(self, ids: Sequence[str], *, whole: bool) -> str:
        """Return the pattern of edges out of ids; ``whole``: with names and literals."""
        record = self._record
        taken, walked = taken_filter(record), walked_literal(record)
        if whole:
            names = ", ".join(map(iri, self._properties))
            taken, walked = f"?p IN ({names}) || ({taken})", wanted_language("?o", record.language)
        return query(
            "edges_out", nodes=self._terms(ids), taken_predicate=taken, walked_literal=walked
        )

    def _edges_into_pattern(self, ids: Sequence[str]) -> str:
        """Return the pattern of edges into ids."""
        taken = taken_filter(self._record)
        return query("edges_in", nodes=self._terms(ids), taken_predicate=taken)

    def _edges_beyond(self, load: _Load) -> list[str]:
        """Return the pattern of edges out of nameless neighbours, in a list of 0 or 1."""
        record = self._record
        if not (load.out and load.whole and record.mediators.pattern):
            return []
        beyond = query(
            "edges_beyond",
            nodes=self._terms(load.out),
            labels="|".join(map(iri, record.labels)),
            wanted_language=wanted_language("?l", record.language),
            taken_predicate=taken_filter(record),
            walked_literal=walked_literal(record),
        )
        return [beyond]

    def _add_edge_beyond(self, row: dict[str, Any], beyond: dict[str, Edges]) -> None:
        """Add one row of a mediator's edges to ``beyond``."""
        prefix = self._record.prefix
        edges = beyond.setdefault(id_of(row["s"], prefix), [])
        if "o" in row and is_storable(other := id_of(row["o"], prefix)):
            edges.append((row["p"]["value"].removeprefix(prefix), other))

    def _add_row(self, row: dict[str, Any]) -> None:
        """Add a row to the cache: an edge, a class, a name or a literal; skip excluded edges."""
        prefix = self._record.prefix
        predicate, other = row["p"]["value"], id_of(row["o"], prefix)
        id_, relation = id_of(row["s"], prefix), predicate.removeprefix(prefix)
        if not is_storable(other):
            return
        taken = takes(self._record, predicate) and predicate not in self._properties
        if row["d"]["value"] == "1":
            if taken and id_ in self.into:
                self.into[id_].append((relation, other))
            return
        if id_ not in self.out:
            return
        about = self.about.get(id_, About())
        if row["d"]["value"] == "2":
            about.types.append(other)
            return
        if predicate in self._properties:
            term = {"l": row["o"], "p": row["p"]}
            rank = rank_of(term, self._properties, self._record.language)
            about.names.append((rank, row["o"]["value"].strip()))
            return
        if taken:
            if other[:1] == '"':
                about.literals.append((relation, other))
            if other[:1] != '"' or len(row["o"]["value"]) <= LONG_TEXT:
                self.out[id_].append((relation, other))


def _is_empty(load: _Load) -> bool:
    """Return whether a load reads nothing."""
    return not (load.out or load.into)

"""The result of a plan: rows, and for each row the facts that it is based on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kgqa.paths.ground import Fact, Node
from kgqa.queries.plan import NodeRef
from kgqa.tabular import Tabular

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from kgqa.graph.schema import Value
    from kgqa.queries.plan import Plan

Cell: TypeAlias = "Node | Value | tuple[Value, ...] | None"
RUNNERS_UP = 3


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """The limits of a plan's execution; it fails beyond them.

    ``solutions``: of its pattern, in memory; ``rows``: of the result; ``seconds``: of execution.
    ``first``: return this many of the rows instead of failing when there are more than ``rows``.
    """

    rows: int = 10_000
    first: int | None = None
    solutions: int = 2_000_000
    seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Held:
    """A property value of a node or a fact (by id), as evidence."""

    id: str
    property: str
    value: Value


@dataclass(frozen=True, slots=True)
class Counted:
    """The set behind an aggregate: its size, and its members: nodes or values."""

    aggregate: str
    size: int
    members: tuple[Node | Value, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of a row: stored facts (all verified), property values, and aggregated sets.

    ``nodes``: those in the row, and the ends of the facts and owners of the properties listed.
    ``facts_in_all``: their number, if not all are listed.
    """

    facts: tuple[Fact, ...]
    held: tuple[Held, ...] = ()
    counted: tuple[Counted, ...] = ()
    nodes: tuple[Node, ...] = ()
    facts_in_all: int = 0


class EvidenceSource(Protocol):
    """Provides the evidence of a result's rows."""

    def evidence(self, row: int, limit: int | None) -> Evidence:
        """Return the evidence of row ``row`` with at most ``limit`` facts and members.

        None: all.
        """


@dataclass(frozen=True, slots=True)
class _Kept:
    """Evidence that was loaded before."""

    rows: tuple[Evidence, ...]

    def evidence(self, row: int, limit: int | None) -> Evidence:
        """Return the evidence of a row, cut to ``limit`` facts and members."""
        found = self.rows[row]
        counted = (replace(one, members=one.members[:limit]) for one in found.counted)
        return replace(
            found, facts=found.facts[:limit], held=found.held[:limit], counted=tuple(counted)
        )


@dataclass(frozen=True, slots=True, weakref_slot=True)
class QueryResult(Tabular):
    """The rows of a plan in its order.

    ``rows``: one cell for each of ``columns``; ``tied``: rows beyond the limit that tie with the
    last one in the plan's order; ``runners_up``: the rows after those; ``names``: of the entities
    whose ids the plan contains; ``rows_in_all``: the number of rows, if not all are given.
    """

    plan: Plan
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    tied: tuple[tuple[Cell, ...], ...] = ()
    runners_up: tuple[tuple[Cell, ...], ...] = ()
    cypher: str = ""
    sparql: str = ""
    source: EvidenceSource | None = field(default=None, repr=False, compare=False)
    names: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    rows_in_all: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def value(self) -> Value | None:
        """The value of a 1 × 1 result, such as a count; None for other results."""
        if len(self.rows) != 1 or len(self.columns) != 1:
            return None
        cell = self.rows[0][0]
        return None if isinstance(cell, Node | tuple) else cell

    @property
    def sentence(self) -> str:
        """The plan as an English sentence."""
        from kgqa.queries.sentence import sentence

        return sentence(self.plan, self.names)

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each column in words: "record low", "number of movies"."""
        from kgqa.queries.sentence import labels

        return labels(self.plan)

    def keep(self) -> None:
        """Load and keep the evidence of all rows, for use after the store is closed.

        Raises GraphError.
        """
        if not isinstance(self.source, _Kept):
            rows = tuple(map(self.evidence, range(len(self) + len(self.tied))))
            object.__setattr__(self, "source", _Kept(rows))

    def evidence(self, row: int, limit: int | None = None) -> Evidence:
        """Return the evidence of a row; tied rows are numbered after the others.

        ``limit``: most facts and members, None: all. Raises IndexError without such a row,
        GraphError if a fact has gone meanwhile.
        """
        if not 0 <= row < len(self.rows) + len(self.tied) or self.source is None:
            raise IndexError(row)
        return self.source.evidence(row, limit)

    def counted_ids(self, limit: int) -> list[str | None]:
        """Return the ids of up to ``limit`` members of each set that the first row counts.

        None for a value. Raises GraphError.
        """
        sets = [one.members for one in self.evidence(0, limit).counted]
        return [one.id if isinstance(one, Node) else None for some in sets for one in some]

    def to_dict(self, limit: int | None = 20) -> dict[str, Any]:
        """Return the result as a JSON object, with the evidence of each row.

        ``limit``: facts and members listed for each row, None: all. Raises GraphError.
        """
        from kgqa.queries.sentence import node_words

        rows = []
        for number, row in enumerate([*self.rows, *self.tied]):
            found = self.evidence(number, limit)
            rows.append(
                {
                    "values": [_cell(cell) for cell in row],
                    "facts": [fact.to_dict() for fact in found.facts],
                    "facts_in_all": found.facts_in_all,
                    "properties": [asdict(held) for held in found.held],
                    "counted": [
                        {
                            "aggregate": one.aggregate,
                            "size": one.size,
                            "members": [_cell(member) for member in one.members],
                        }
                        for one in found.counted
                    ],
                }
            )
        words = node_words(self.plan, self.names)
        return {
            "plan": str(self.plan),
            "sentence": self.sentence,
            "cypher": self.cypher,
            "sparql": self.sparql,
            "pattern": [
                {
                    "head": self.plan.text_of(NodeRef(hop.source)),
                    "relation": hop.relation,
                    "tail": self.plan.text_of(NodeRef(hop.target)),
                    "inverse": hop.inverse,
                    "words": [words[hop.source], words[hop.target]],
                }
                for hop in self.plan.hops
            ],
            "columns": list(self.columns),
            "labels": list(self.labels),
            "rows": rows[: len(self)],
            "rows_in_all": self.rows_in_all or len(self),
            "tied": rows[len(self) :],
            "runners_up": [[_cell(cell) for cell in row] for row in self.runners_up],
        }

    def plain_rows(self) -> list[list[Any]]:
        """Return the rows with entities as names and tuples as lists."""
        return [[_plain(cell) for cell in row] for row in self.rows]

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table with entities as names.

        A column of several types, or with integers of more than 64 bits, becomes text.
        """
        import pyarrow as pa

        columns = []
        for place in range(len(self.columns)):
            cells = [row[place] for row in self.plain_rows()]
            try:
                columns.append(pa.array(cells))
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # of several types, huge
                columns.append(pa.array([None if cell is None else str(cell) for cell in cells]))
        return pa.Table.from_arrays(columns, names=list(self.columns))


def _cell(cell: Cell) -> Any:
    """Return a cell for JSON: an entity as an object."""
    return asdict(cell) if isinstance(cell, Node) else _plain(cell)


def _plain(cell: Cell) -> Any:
    """Return a cell with an entity as its name, a tuple as a list."""
    if isinstance(cell, Node):
        return cell.name
    return list(cell) if isinstance(cell, tuple) else cell

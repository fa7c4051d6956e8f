"""A plan: a query over a whole graph as an immutable value, with a canonical text form.

A plan is a pattern of nodes and hops, comparisons that each solution has to satisfy, parts that it
must not have (``without``), groups with aggregates, an order, a limit, and what is given:

>>> from kgqa.queries.text import parse_plan
>>> plan = parse_plan("Product <ORDERS Order|desc count Order|limit 5|give Product,count Order")
>>> print(plan)
Product <ORDERS Order | desc count Order | limit 5 | give Product, count Order
>>> plan.hops[0]
Hop(source=0, relation='ORDERS', target=1, inverse=True, repeated=False, either=False)

What a plan means is written down in :mod:`kgqa.queries.execute`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast, get_args

from kgqa.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kgqa.graph.schema import Value

Operator: TypeAlias = Literal[
    "=", "<>", "<", "<=", ">", ">=",
    "contains", "starts with", "ends with", "in", "missing",
    "not contains", "not starts with", "not ends with", "not in", "not missing",
    "missing or <=", "missing or >", "missing or >=", "is a", "is no",
]  # fmt: skip
NOT_OF_CLASS: Final = "is no"
AggregateKind: TypeAlias = Literal["count", "sum", "average", "least", "most"]
Sign: TypeAlias = Literal["+", "-", "*", "/"]
Part: TypeAlias = Literal["", "size", "year", "quarter", "month", "day"]
OPERATORS: tuple[str, ...] = get_args(Operator)
AGGREGATES: tuple[str, ...] = get_args(AggregateKind)
PARTS: tuple[str, ...] = get_args(Part)[1:]
TEXT_OPERATORS = ("contains", "starts with", "ends with")
OPEN = "missing or "  # of a bound that also holds without a value: what has not ended
CLAUSES = ("without", "by", "asc", "desc", "skip", "limit", "give", "then")
_WORDS = "where and contains starts ends with in missing not true false"
KEYWORDS = frozenset({*CLAUSES, *AGGREGATES, *PARTS, *_WORDS.split()})
ANY = "*"  # the text of a node of no particular class
NAME = r"[^\W\d][\w/:-]*"
_NAME = re.compile(NAME)


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A reference to a node of the plan, by its number."""

    node: int


@dataclass(frozen=True, slots=True)
class HopRef:
    """A reference to the fact behind a hop of the plan, by the hop's number."""

    hop: int


@dataclass(frozen=True, slots=True)
class PropertyRef:
    """A reference to a property of a node or fact; ``part``: of a date, or the size of a list."""

    owner: NodeRef | HopRef
    name: str
    part: Part = ""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A number calculated from two operands, such as a revenue or a delay."""

    left: Operand
    operator: Sign
    right: Operand


Operand: TypeAlias = "NodeRef | HopRef | PropertyRef | Arithmetic | float"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A number over a group: a ``count`` of distinct members, or a sum, average, least or most."""

    kind: AggregateKind
    of: Operand


Item: TypeAlias = "NodeRef | HopRef | PropertyRef | Arithmetic | Aggregate | float"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition ``left operator right``; of an aggregate, a condition on groups.

    ``right``: one value, several for ``in`` and ``not in``, none for ``missing``; or an operand, or
    the average of a property over all members of a node's class, whatever the plan's conditions.
    For ``is a`` and its negation it is a second class of the node.
    """

    left: Item
    operator: Operator
    right: tuple[Value, ...] | PropertyRef | Arithmetic | Aggregate = ()

    @property
    def negated(self) -> bool:
        """Whether the operator is the negation of another one, as ``<>`` and ``not in``."""
        return self.operator in ("<>", NOT_OF_CLASS) or self.operator.startswith("not ")

    @property
    def affirmed(self) -> Operator:
        """The operator without a negation."""
        same = {"<>": "=", NOT_OF_CLASS: "is a"}
        plain = same.get(self.operator, self.operator.removeprefix("not "))
        return cast("Operator", plain)


@dataclass(frozen=True, slots=True)
class Hop:
    """A relation from one node of the plan to another.

    ``inverse``: the facts lead from ``target`` to ``source``. ``repeated``: a chain of one or more
    facts of the relation. ``either``: facts in either direction, for a symmetric relation.
    """

    source: int
    relation: str
    target: int
    inverse: bool = False
    repeated: bool = False
    either: bool = False

    @property
    def ends(self) -> tuple[int, int]:
        """The nodes at both ends, the source first."""
        return self.source, self.target


@dataclass(frozen=True, slots=True)
class Without:
    """A negated pattern: hops from a node of the plan, with their own comparisons."""

    hops: tuple[Hop, ...]
    where: tuple[Comparison, ...] = ()


@dataclass(frozen=True, slots=True)
class Sort:
    """A sort key of the rows."""

    by: Item
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A query as a value. Raises PlanError if its parts are inconsistent.

    ``nodes``: the class of each node ("" is any), first those of ``hops``, then those of
    ``without``; hops are numbered through ``hops`` and then ``without``. ``group``: the grouping of
    aggregates; if it equals ``default_group``, the text leaves it out. ``first``: the plan whose
    output nodes are the permitted values of node 0. ``skip``: the number of first rows left out.
    """

    nodes: tuple[str, ...]
    hops: tuple[Hop, ...] = ()
    where: tuple[Comparison, ...] = ()
    without: tuple[Without, ...] = ()
    group: tuple[Operand, ...] = ()
    order: tuple[Sort, ...] = ()
    limit: int | None = None
    give: tuple[Item, ...] = (NodeRef(0),)
    first: Plan | None = None
    skip: int = 0

    def __post_init__(self) -> None:
        reached = {0}
        for chain in [self.hops, *(part.hops for part in self.without)]:
            inner = set(reached)
            for hop in chain:
                if hop.source not in inner:
                    raise PlanError("A hop of the plan starts at a node that nothing leads to.")
                inner.add(hop.target)
            if not chain and chain is not self.hops:
                raise PlanError("What a plan is to be without has no hop.")
            if chain is self.hops:
                reached = inner
        ends = list(dict.fromkeys([0, *(hop.target for hop in self.all_hops)]))
        if ends != list(range(len(self.nodes))):
            raise PlanError("The nodes of a plan are numbered as its hops lead to them.")
        plain = tuple(
            comparison for comparison in self.where if not isinstance(comparison.left, Aggregate)
        )
        object.__setattr__(self, "where", plain + self.having)
        if not self.give:
            raise PlanError("A plan gives nothing.", "Add what it is to give: `| give Movie`.")
        if self.limit is not None and self.limit < 1:
            raise PlanError("The limit of a plan is at least 1.")
        if self.skip and (self.skip < 0 or not self.order):
            raise PlanError("A plan leaves out the first rows of an order, and has none.")
        outer = set(self.refs)
        items = [*self.give, *self.group, *(sort.by for sort in self.order)]
        self._check_refs([*items, *self.where], outer)
        for number, part in enumerate(self.without):
            joined = {NodeRef(end) for hop in part.hops for end in (hop.source, hop.target)}
            own = {*map(HopRef, self.hops_without(number))}
            self._check_refs(part.where, outer | joined | own)
            if any(isinstance(comparison.left, Aggregate) for comparison in part.where):
                raise PlanError("What a plan is to be without has no groups to compare.")
        if self.group and not self.grouped:
            raise PlanError("A plan has groups, but counts or adds up nothing in them.")
        if self.grouped:
            for item in [*self.give, *(sort.by for sort in self.order)]:
                if not isinstance(item, Aggregate) and not self._in_group(item):
                    raise PlanError(
                        f"{self.text_of(item)} has more than one value in a group.",
                        f"Group by it, too: `| by {', '.join(map(self.text_of, self.group))}"
                        f"{', ' if self.group else ''}{self.text_of(item)}`.",
                    )
        if self.first is not None:
            given = self.first.give[0]
            if len(self.first.give) != 1 or not isinstance(given, NodeRef):
                raise PlanError("What comes before `then` gives the nodes to go on from.")
            if self.nodes[0] != self.first.nodes[given.node]:
                raise PlanError(
                    "What comes after `then` starts with the class that comes before it."
                )

    def _in_group(self, item: Item) -> bool:
        """Return whether an item has one value in each group."""
        if item in self.group or isinstance(item, float | int):
            return True
        if isinstance(item, PropertyRef):
            return item.owner in self.group
        return isinstance(item, Arithmetic) and all(map(self._in_group, (item.left, item.right)))

    def _check_refs(self, items: Iterable[object], there: set[NodeRef | HopRef]) -> None:
        """Raise PlanError if an item refers outside ``there``, or to a repeated hop's fact."""
        for ref in (ref for item in items for ref in owners(item)):
            if ref not in there:
                raise PlanError("A plan speaks of a node or hop that is not in its pattern.")
            if isinstance(ref, HopRef) and self.all_hops[ref.hop].repeated:
                raise PlanError(
                    f"{quoted_name(self.all_hops[ref.hop].relation)} is repeated, so it is not one "
                    "fact that a plan can speak of.",
                    "Count or give the nodes that it leads to.",
                )

    @property
    def all_hops(self) -> tuple[Hop, ...]:
        """The hops of the pattern, then those of each ``without``."""
        return (*self.hops, *(hop for part in self.without for hop in part.hops))

    @property
    def refs(self) -> list[NodeRef | HopRef]:
        """The nodes and hops of the pattern, without those of ``without``."""
        return [*map(NodeRef, range(self.pattern_size)), *map(HopRef, range(len(self.hops)))]

    def hops_without(self, number: int) -> range:
        """Return the numbers of the hops of part ``number`` of ``without``."""
        start = len(self.hops) + sum(len(part.hops) for part in self.without[:number])
        return range(start, start + len(self.without[number].hops))

    @property
    def is_bare(self) -> bool:
        """Whether the plan is a whole class without any condition."""
        return not (self.hops or self.where or self.without or self.order or self.first)

    @property
    def pattern_size(self) -> int:
        """The number of nodes of the pattern, without those of ``without``."""
        return 1 + max((hop.target for hop in self.hops), default=0)

    @property
    def grouped(self) -> bool:
        """Whether the plan has an aggregate."""
        return any(isinstance(item, Aggregate) for item in self.items())

    def items(self) -> list[Item]:
        """Return the items of the output and the order, and the left sides of all comparisons."""
        compared = [comparison.left for comparison in self.where]
        return [*self.give, *(sort.by for sort in self.order), *compared]

    @property
    def having(self) -> tuple[Comparison, ...]:
        """The conditions on groups, whose left sides are aggregates."""
        return tuple(
            comparison for comparison in self.where if isinstance(comparison.left, Aggregate)
        )

    def text_of(self, item: object) -> str:
        """Return the text of a part of the plan."""
        return _Writer(self).item(item)

    def __str__(self) -> str:
        return _Writer(self).plan()


def leaves(item: object) -> Iterator[NodeRef | HopRef | PropertyRef]:
    """Yield the nodes, facts and properties that an item, operand or comparison contains."""
    match item:
        case NodeRef() | HopRef() | PropertyRef():
            yield item
        case Arithmetic() | Comparison():
            yield from leaves(item.left)
            yield from leaves(item.right)
        case Aggregate():
            yield from leaves(item.of)


def owners(item: object) -> Iterator[NodeRef | HopRef]:
    """Yield the nodes and facts (hops) in an item; for a property, its owner."""
    for leaf in leaves(item):
        yield leaf.owner if isinstance(leaf, PropertyRef) else leaf


def refs_of(item: object) -> list[NodeRef | HopRef]:
    """Return the distinct nodes and facts that an item refers to."""
    return list(dict.fromkeys(owners(item)))


def chains_of(hops: tuple[Hop, ...]) -> tuple[tuple[Hop, ...], ...]:
    """Return the hops as chains, in order.

    A hop that does not start where the one before it ends starts a new chain.
    """
    chains: list[list[Hop]] = []
    for hop in hops:
        if chains and chains[-1][-1].target == hop.source:
            chains[-1].append(hop)
        else:
            chains.append([hop])
    return tuple(map(tuple, chains))


def chain_nodes(hops: tuple[Hop, ...]) -> list[list[int]]:
    """Return the node numbers along each chain of hops, in order."""
    return [[chain[0].source, *(hop.target for hop in chain)] for chain in chains_of(hops)]


def default_group(
    give: Iterable[Item], order: Iterable[Sort], having: Iterable[Comparison]
) -> tuple[Operand, ...]:
    """Return the grouping of aggregates if the plan states none; () without aggregates.

    It is the nodes and facts whose properties are output or ordered by, so that two people of one
    name stay two; but where just these are counted, the values: orders are counted by country.
    """
    aggregates = [
        comparison.left for comparison in having if isinstance(comparison.left, Aggregate)
    ]
    plain: list[Operand] = []
    for item in [*give, *(sort.by for sort in order)]:
        if isinstance(item, Aggregate):
            aggregates.append(item)
        else:
            plain.append(item)
    if not aggregates:
        return ()
    counted = {owner for item in aggregates for owner in owners(item)}
    group: dict[Operand, None] = {}
    for item in plain:
        for part in (
            [item.owner] if isinstance(item, PropertyRef) and item.owner not in counted else [item]
        ):
            group[part] = None
    return tuple(group)


def quoted_name(name: str, *, of_property: bool = False) -> str:
    """Return the name of a class, relation or property in the syntax of plans.

    >>> print(quoted_name("Order"), quoted_name("order details"), quoted_name("a]b"))
    Order [order details] [a]]b]
    """
    if _NAME.fullmatch(name) and (of_property or name.casefold() not in KEYWORDS):
        return name
    return "[" + name.replace("]", "]]") + "]"


def quoted_value(value: Value) -> str:
    """Return a value in the syntax of plans: JSON."""
    return json.dumps(value, ensure_ascii=False)


class _Writer:
    """Writes the text of a plan; a second node of a class is ``Class#2``."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._nodes = numbered([quoted_name(name) if name else ANY for name in plan.nodes])
        self._hops = numbered([quoted_name(hop.relation) for hop in plan.all_hops])

    def plan(self) -> str:
        """Return the text of the plan."""
        return " | ".join([*self._body(), "give " + ", ".join(map(self.item, self._plan.give))])

    def _body(self) -> list[str]:
        """Return the clauses of the text before ``give``."""
        plan = self._plan
        if plan.first is None:
            parts = [self._pattern(self._nodes[0])]
        else:
            before = _Writer(plan.first)
            start = before.item(plan.first.give[0])
            parts = [*before._body(), f"then {self._pattern(start)}"]
        parts += map(self._comparison, plan.where[: len(plan.where) - len(plan.having)])
        for part in plan.without:
            text = f"without {self._chains(part.hops)}"
            where = " and ".join(map(self._comparison, part.where))
            parts.append(f"{text} where {where}" if where else text)
        if plan.group != default_group(plan.give, plan.order, plan.having):
            parts.append("by " + ", ".join(map(self.item, plan.group)))
        parts += map(self._comparison, plan.having)
        parts += (
            f"{'desc' if sort.descending else 'asc'} {self.item(sort.by)}" for sort in plan.order
        )
        if plan.skip:
            parts.append(f"skip {plan.skip}")
        if plan.limit is not None:
            parts.append(f"limit {plan.limit}")
        return parts

    def item(self, item: object) -> str:
        """Return an item, an operand, a comparison or an order as text."""
        match item:
            case NodeRef(node):
                return self._nodes[node]
            case HopRef(hop):
                name = self._hops[hop]
                return f"{name}>" if name in self._nodes else name
            case PropertyRef(owner, name, part):
                text = f"{self.item(owner)}.{quoted_name(name, of_property=True)}"
                return f"{part} {text}" if part else text
            case Arithmetic(left, operator, right):
                return f"({self.item(left)} {operator} {self.item(right)})"
            case Aggregate(kind, of):
                return f"{kind} {self.item(of)}"
            case Comparison():
                return self._comparison(item)
            case _:
                return quoted_value(item)  # type: ignore[arg-type]

    def _pattern(self, start: str) -> str:
        """Return the text of the pattern, which begins with ``start``."""
        return start + self._chains(self._plan.hops)[len(self._nodes[0]) :]

    def _chains(self, hops: tuple[Hop, ...]) -> str:
        """Return the text of hops as chains, joined by "&"; node 0 if there are none."""
        if not hops:
            return self._nodes[0]
        seen = {0}
        texts: list[str] = []
        for chain in chains_of(hops):
            text = self._nodes[chain[0].source]
            for hop in chain:
                name = quoted_name(hop.relation) + "*" * hop.repeated
                target = self._nodes[hop.target]
                # in the first chain a name that comes again is another node
                closing = not texts and hop.target in seen and "#" not in target[-3:]
                text += " <" if hop.inverse or hop.either else " "
                text += f"{name}> " if hop.either or not hop.inverse else f"{name} "
                text += f"{target}#1" if closing else target
                seen.add(hop.target)
            texts.append(text)
        return " & ".join(texts)

    def _comparison(self, comparison: Comparison) -> str:
        """Return the text of a comparison."""
        quoted = quoted_name if comparison.affirmed == "is a" else quoted_value
        right = (
            ", ".join(map(quoted, comparison.right))  # type: ignore[arg-type]
            if isinstance(comparison.right, tuple)
            else self.item(comparison.right)
        )
        return f"{self.item(comparison.left)} {comparison.operator} {right}".rstrip()


def numbered(names: list[str]) -> list[str]:
    """Return names with ``#2`` and so on appended to repeated ones."""
    seen: dict[str, int] = {}
    texts = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        texts.append(f"{name}#{seen[name]}" if seen[name] > 1 else name)
    return texts

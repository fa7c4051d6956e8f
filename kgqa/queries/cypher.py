"""Translates a plan to Cypher: one read-only statement for Neo4j 5.

Names of the schema stand in backticks where they are more than letters, and values are literals:
neither can be read as Cypher. What the statement means is what :mod:`kgqa.queries.execute` says;
where Cypher's own habits differ, the statement says more:

- along a chain nodes are different (``<>``), which Cypher asks of relationships only;
- each chain is a ``MATCH`` of its own, as one relationship may be in two chains;
- null comes last in every order, and text is compared by ``toLower`` for ``contains``;
- dates are compared as ISO 8601 text, which fits dates of every type and dates kept as text, but as
  ``datetime()`` where a distance from UTC or a year before 1 is among them;
- durations are compared by their seconds, which Cypher compares in an order only;
- text such as ``NULL`` counts as a missing value, also in an order;
- a sum or an average takes each thing once, and a division by 0 gives no value.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from kgqa import cypher
from kgqa.display import visible
from kgqa.errors import PlanError
from kgqa.graph.moments import has_zone
from kgqa.graph.schema import Property
from kgqa.queries.check import SchemaIndex, check
from kgqa.queries.groups import required, wants_empty
from kgqa.queries.plan import (
    OPEN,
    Aggregate,
    Arithmetic,
    Comparison,
    HopRef,
    NodeRef,
    Plan,
    PropertyRef,
    chain_nodes,
    owners,
    refs_of,
)
from kgqa.queries.values import DATE_PARTS, DATES, MOMENTS, interval_texts, lasting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kgqa.graph.schema import GraphSchema
    from kgqa.queries.plan import Hop, Item, Operator

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEXT = {"contains": "CONTAINS", "starts with": "STARTS WITH", "ends with": "ENDS WITH"}
_FUNCTIONS = {"least": "min", "most": "max", "sum": "sum", "average": "avg"}
_NULLS = r"['', 'NULL', 'null', '\\N']"  # texts in exports for a missing value
_CASTS = {"integer": "toInteger", "float": "toFloat"}  # conversions of numbers stored as text
_ELEMENT = re.compile(r"#\d+")  # the id of an attached node without an id property
_WHOLE = 1 << 63  # the bound of integers in Cypher


def cypher_of(plan: Plan, schema: GraphSchema | SchemaIndex) -> str:
    """Translate ``plan`` to one read-only statement of Cypher, which runs in Neo4j Browser.

    Raises PlanError if the plan does not fit the schema or needs several statements.
    """
    index = schema if isinstance(schema, SchemaIndex) else SchemaIndex(schema)
    check(plan, index)
    return "\n".join(_Statement(plan, index, count(1)).lines())


def _literal(value: Any) -> str:
    """Return a value, or a list of them, as a literal."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _WHOLE:
        value = float(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, str):
        return cypher.literal(value)
    return str(value).lower().replace("e+", "e")


def quoted(name: str) -> str:
    """Return a name in Cypher syntax, in backticks if necessary."""
    return name if _PLAIN.fullmatch(name) else _in_backticks(name)


def _in_backticks(name: str) -> str:
    """Return a name in backticks. Raises PlanError for a NUL character."""
    if "\0" in name:
        raise PlanError(f"Cypher has no way to write {visible(name)}, which holds a NUL.")
    return f"`{cypher.escaped(name)}`"


class _Statement:
    """Writes the Cypher of one plan: names of variables, clauses and expressions."""

    def __init__(self, plan: Plan, index: SchemaIndex, numbers: Iterator[int]) -> None:
        """``numbers``: of the variables, shared with the plan that this one continues."""
        self.plan, self.index, self._numbers = plan, index, numbers
        self.nodes = [self._variable(name) for name in plan.nodes]
        self.hops = [self._variable(hop.relation) for hop in plan.all_hops]
        self.members: dict[PropertyRef, str] = {}
        self.named: dict[Any, str] = {}  # items that a WITH has given a name
        self.averages: dict[Aggregate, str] = {}
        self.bound: set[int] = set()
        self.pairs = self._pairs(plan.hops)

    def _variable(self, name: str) -> str:
        """Return a new variable named after a class or relation."""
        plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        plain = plain if plain[:1].isalpha() else "node"
        return f"{plain}{next(self._numbers)}"

    # -- the statement -----------------------------------------------------------------------

    def lines(self, start: str = "") -> list[str]:
        """Return the lines of the statement.

        ``start``: the variable for the one output node of a plan that another plan continues.
        """
        plan = self.plan
        lines = []
        if plan.first is not None:
            before = _Statement(plan.first, self.index, self._numbers)
            lines = before.lines(start=self.nodes[0])
            self.bound.add(0)
        lines += self._averages()
        lines += self._matches()
        lines += self._unwind(
            [item for item in plan.group if self._many(item)]
            + [
                item.of
                for item in plan.items()
                if isinstance(item, Aggregate) and self._many(item.of)
            ]
        )
        lines += self._grouped() if plan.grouped else self._rows()
        given = list(zip(plan.give, [start] if start else self._columns(), strict=True))
        distinct = "" if self.named or plan.grouped else "DISTINCT "
        texts = [f"{self.item(item)} AS {name}" for item, name in given]
        lines.append(f"{'WITH' if start else 'RETURN'} {distinct}{', '.join(texts)}")
        if distinct or not start:
            self.named |= dict(given)
        order = self._order()
        if order and (plan.order or plan.limit is not None):
            lines.append("ORDER BY " + ", ".join(order))
        if plan.skip:
            lines.append(f"SKIP {plan.skip}")
        if plan.limit is not None:
            lines.append(f"LIMIT {plan.limit}")
        return lines

    def _averages(self) -> list[str]:
        """Return the lines that compute, for comparisons, averages over whole classes.

        [] if no comparison needs one.
        """
        found = [
            comparison.right
            for comparison in self.plan.where
            if isinstance(comparison.right, Aggregate)
        ]
        if found and self.plan.first is not None:
            raise PlanError("This plan cannot be written as one statement of Cypher.")
        lines: list[str] = []
        for one in dict.fromkeys(found):
            (owner,) = owners(one)
            text = f"avg({self.item(one.of)}) AS {(name := self._variable(one.kind))}"
            lines.append(f"MATCH {self._node(owner.node)}")  # type: ignore[union-attr]
            lines.append("WITH " + ", ".join([*self.averages.values(), text]))
            self.averages[one] = name
        return lines

    def _columns(self) -> list[str]:
        """Return the column names of the output, all different."""
        names: list[str] = []
        for item in self.plan.give:
            name = _in_backticks(self.plan.text_of(item))
            while name in names:
                name = f"{name[:-1]}'`"
            names.append(name)
        return names

    # -- patterns ----------------------------------------------------------------------------

    def _matches(self) -> list[str]:
        """Return the MATCH and WHERE clauses of the pattern, with all comparisons on its parts."""
        plan = self.plan
        where = [
            comparison for comparison in plan.where if not isinstance(comparison.left, Aggregate)
        ]
        required_ = (required(plan) if wants_empty(plan) else None) or plan.refs
        nodes = {ref.node for ref in required_ if isinstance(ref, NodeRef)}
        needed = {ref.hop for ref in required_ if isinstance(ref, HopRef)}
        optional = [number for number in range(len(plan.hops)) if number not in needed]
        if optional and 0 in self.bound and 0 not in nodes:
            raise PlanError("This plan cannot be written as one statement of Cypher.")
        chains = self._chains_of(sorted(needed))
        lone = (
            nodes
            - {end for number in needed for end in self.plan.all_hops[number].ends}
            - self.bound
        )
        parts: list[tuple[list[int], list[int]]] = [([node], []) for node in sorted(lone)]
        parts += [(self._chain_nodes(chain), chain) for chain in chains]
        lines: list[str] = []
        reached: set[int] = set()
        for place, (ends, chain) in enumerate(parts or [([0], [])]):
            path = self._path(chain) if chain else self._node(ends[0])
            self.bound |= set(ends)
            reached |= set(chain)
            bound = {*map(NodeRef, self.bound), *map(HopRef, reached)}
            now = [comparison for comparison in where if bound.issuperset(owners(comparison))]
            where = [comparison for comparison in where if comparison not in now]
            conditions = [*self._different(), *map(self.comparison, now)]
            if place + 1 >= len(parts):
                conditions += map(self._without, range(len(plan.without)))
            if parts:
                lines.append(f"MATCH {path}")
            elif conditions:
                lines.append(f"WITH {self.nodes[0]}")
            lines += self._where(conditions)
        if optional:
            lines += self._optional(optional, where)
        return lines

    def _optional(self, optional: list[int], where: list[Comparison]) -> list[str]:
        """Return the OPTIONAL MATCH of hops whose absence makes an empty group, with its WHERE.

        ``optional``: numbers of the hops; ``where``: comparisons on them. Raises PlanError.
        """
        chains = self._chains_of(optional)
        relations = [self.plan.hops[number].relation for number in optional]
        if len(chains) > 1 and len(set(relations)) < len(relations):
            raise PlanError("This plan cannot be written as one statement of Cypher.")
        paths = []
        for chain in chains:
            paths.append(self._path(chain))
            self.bound |= set(self._chain_nodes(chain))
        conditions = self._different() + [self.comparison(comparison) for comparison in where]
        return ["OPTIONAL MATCH " + ", ".join(paths), *self._where(conditions)]

    def _chains_of(self, numbers: Sequence[int]) -> list[list[int]]:
        """Return the hops ``numbers`` split into connected pieces, each for one path pattern.

        Relationships of one Cypher pattern are different. Those of a chain are, as its nodes are;
        but not where it returns to a node, nor those of a repeated relation.
        """
        chains: list[list[int]] = []
        for number in numbers:
            hop = self.plan.all_hops[number]
            last = chains[-1] if chains else []
            if (
                last
                and last[-1] == number - 1
                and self.plan.all_hops[last[-1]].target == hop.source
                and hop.target not in self._chain_nodes(last)
                and not hop.repeated
                and not self.plan.all_hops[last[-1]].repeated
            ):
                last.append(number)
            else:
                chains.append([number])
        return chains

    def _chain_nodes(self, chain: Sequence[int]) -> list[int]:
        """Return the nodes along a chain of hops."""
        hops = [self.plan.all_hops[number] for number in chain]
        return [hops[0].source, *(hop.target for hop in hops)]

    def _node(self, node: int, known: Iterable[int] = ()) -> str:
        """Return the pattern of a node, with its label unless it is known."""
        class_ = self.plan.nodes[node]
        label = f":{quoted(class_)}" if class_ and node not in known else ""
        return f"({self.nodes[node]}{label})"

    def _path(self, chain: Sequence[int]) -> str:
        """Return the path pattern of a chain of hops.

        Only nodes that are not bound yet get a label.
        """
        known = set(self.bound)
        start = self.plan.all_hops[chain[0]].source
        text = self._node(start, known)
        known.add(start)
        for number in chain:
            hop = self.plan.all_hops[number]
            step = self._step(self.hops[number], hop)
            text += step if hop.either else f"<{step}" if hop.inverse else f"{step}>"
            text += self._node(hop.target, known)
            known.add(hop.target)
        return text

    def _step(self, name: str, hop: Hop) -> str:
        """Return the relationship pattern of a hop, without arrows; ``name``: its variable."""
        pattern = self.index.relations[hop.relation][0]
        type_ = quoted(pattern.relationship_type)
        kind = quoted(pattern.kind) if pattern.kind else ""
        said = ""
        if pattern.stored:
            said = f" {{{kind}: {_literal(hop.relation)}}}"
        elif pattern.kind and hop.repeated:
            raise PlanError("This plan cannot be written as one statement of Cypher.")
        elif pattern.kind:  # the type's other relationships, without a relation's name
            known = self.index.said_by(hop.relation)
            said = f" WHERE NOT coalesce({name}.{kind}, '') IN {_literal(known)}"
        return f"-[:{type_}*{said}]-" if hop.repeated else f"-[{name}:{type_}{said}]-"

    def _different(self) -> list[str]:
        """Return conditions that nodes of one chain bound so far differ.

        Each pair is written once.
        """
        pairs = [pair for pair in self.pairs if set(pair) <= self.bound]
        self.pairs = [pair for pair in self.pairs if pair not in pairs]
        return [f"{self.nodes[one]} <> {self.nodes[other]}" for one, other in pairs]

    def _pairs(self, hops: tuple[Hop, ...]) -> list[tuple[int, int]]:
        """Return the pairs of nodes in one chain that could be the same node, by their classes."""
        classes = self.plan.nodes
        chains = chain_nodes(hops)
        return list(
            dict.fromkeys(
                (node, other)
                for nodes in map(list, map(dict.fromkeys, chains))
                for place, other in enumerate(nodes)
                for node in nodes[:place]
                if self.index.may_be_one(classes[node], classes[other])
            )
        )

    def _without(self, number: int) -> str:
        """Return the NOT EXISTS condition of part ``number`` of ``without``."""
        part = self.plan.without[number]
        bound, pairs, lines = set(self.bound), self.pairs, []
        self.pairs = self._pairs(part.hops)
        for chain in self._chains_of(self.plan.hops_without(number)):
            lines.append("MATCH " + self._path(chain))
            self.bound |= set(self._chain_nodes(chain))
        conditions = self._different()
        conditions += [self.comparison(comparison) for comparison in part.where]
        self.bound, self.pairs = bound, pairs
        return "NOT EXISTS { " + " ".join([*lines, *self._where(conditions)]) + " }"

    @staticmethod
    def _where(conditions: list[str]) -> list[str]:
        """Return a WHERE clause of all ``conditions``, or no line."""
        return ["WHERE " + "\n  AND ".join(conditions)] if conditions else []

    # -- rows and groups ---------------------------------------------------------------------

    def _many(self, item: object) -> bool:
        """Return whether an item is a property with several values."""
        return (
            isinstance(item, PropertyRef)
            and not item.part
            and self.index.property_of(self.plan, item).many
        )

    def _unwind(self, items: Sequence[Any]) -> list[str]:
        """Return UNWIND clauses that turn lists into one row a member, null for an empty list.

        Later clauses use the member for the list.
        """
        lines = []
        for item in dict.fromkeys(items):
            name = self._variable("member")
            lines.append(f"UNWIND coalesce({self.item(item)}, [null]) AS {name}")
            self.members[item] = name
        return lines

    def _rows(self) -> list[str]:
        """Return the WITH clause that makes rows of an ungrouped plan distinct, with sort keys.

        [] if RETURN DISTINCT suffices. Rows that have only nulls are dropped.
        """
        plan = self.plan
        extra = [sort for sort in plan.order if sort.by not in plan.give or self._many(sort.by)]
        plain = all(isinstance(item, PropertyRef | Arithmetic | float | int) for item in plan.give)
        if not extra and not plain:
            return []
        keys = {sort.by: (sort, self.best(sort.by, sort.descending)) for sort in extra}
        with_ = self._named(dict.fromkeys(plan.give))  # a clause cannot use its own names
        if not extra:
            with_[0] = f"DISTINCT {with_[0]}"
        for sort, text in keys.values():
            name = self._variable("by")
            with_.append(f"{'max' if sort.descending else 'min'}({text}) AS {name}")
            self.named[sort.by, "by"] = name
        values = [self.named[item] for item in plan.give if not isinstance(item, float | int)]
        some = " OR ".join(f"{name} IS NOT NULL" for name in dict.fromkeys(values))
        return ["WITH " + ", ".join(with_), *([f"WHERE {some}"] if plain and values else [])]

    def _named(self, items: Iterable[Item]) -> list[str]:
        """Return items for a WITH clause; later clauses then use the names recorded here."""
        texts, names = [], {}
        for item in items:
            text = self.item(item)
            if isinstance(item, NodeRef | HopRef) or item in self.members:
                name = text
                texts.append(name)
            else:
                name = self._variable(getattr(item, "name", "") or "value")
                texts.append(f"{text} AS {name}")
            names[item] = name
        self.named |= names
        return texts

    def _grouped(self) -> list[str]:
        """Return the WITH clauses that group rows and compute aggregates."""
        plan = self.plan
        aggregates = list(
            dict.fromkeys(item for item in plan.items() if isinstance(item, Aggregate))
        )
        lines = []
        sensitive = [aggregate for aggregate in aggregates if aggregate.kind in ("sum", "average")]
        sets = {tuple(refs_of(aggregate)) for aggregate in aggregates}
        once = (not plan.hops or (len(plan.hops) == 1 and sets <= {(HopRef(0),)})) and not (
            self.members
        )
        lists = bool(sensitive) and not once
        if lists and len(sets) == 1 and not self.members:
            refs = dict.fromkeys([ref for item in plan.group for ref in owners(item)] + list(*sets))
            lines.append("WITH DISTINCT " + ", ".join(self.item(ref) for ref in refs))
            lists = False
        counted = [
            (self._aggregate(aggregate, lists), self._variable(aggregate.kind))
            for aggregate in aggregates
        ]
        with_ = self._named(plan.group) + [f"{text} AS {name}" for text, name in counted]
        self.named |= dict(zip(aggregates, (name for _, name in counted), strict=True))
        lines.append("WITH " + ", ".join(with_))
        conditions = [self.comparison(comparison) for comparison in plan.having]
        if plan.group and all(isinstance(item, PropertyRef | Arithmetic) for item in plan.group):
            some = " OR ".join(f"{self.named[item]} IS NOT NULL" for item in plan.group)
            conditions.append(f"({some})" if conditions else some)
        return [*lines, *self._where(conditions)]

    def _aggregate(self, aggregate: Aggregate, lists: bool) -> str:
        """Return the expression of an aggregate.

        ``lists``: sum values over distinct owners, which the pattern may repeat.
        """
        text = self.item(aggregate.of)
        if aggregate.kind == "count":
            return f"count(DISTINCT {text})"
        kind = self.index.kind(self.plan, aggregate.of)
        text = self._ordered(text, kind)
        if aggregate.kind in ("least", "most") or not lists:
            return f"{_FUNCTIONS[aggregate.kind]}({text})"
        of = ", ".join(self.item(ref) for ref in refs_of(aggregate))
        each = f"collect(DISTINCT {{of: [{of}], value: {text}}})"
        numbers = f"[one IN {each} WHERE one.value IS NOT NULL | one.value]"
        total = f"reduce(total = 0, number IN {numbers} | total + number)"
        if aggregate.kind == "sum":
            return total
        return f"CASE size({numbers}) WHEN 0 THEN null ELSE toFloat({total}) / size({numbers}) END"

    # -- order -------------------------------------------------------------------------------

    def _order(self) -> list[str]:
        """Return the sort expressions: the plan's order, then the output for a stable order."""
        texts = []
        for sort in self.plan.order:
            name = self.named.get((sort.by, "by")) or self.best(sort.by, sort.descending)
            never_null = isinstance(sort.by, Aggregate) and sort.by.kind in ("count", "sum")
            if sort.descending and not never_null:
                texts.append(f"{name} IS NULL")
            texts.append(f"{name} DESC" if sort.descending else name)
        for item in self.plan.give:
            if isinstance(item, NodeRef):
                texts += [self._called(item), f"elementId({self.item(item)})"]
            elif not isinstance(item, HopRef | float | int):
                name = self.item(item)
                texts += [] if f"{name} DESC" in texts else [name]
        return list(dict.fromkeys(texts))

    def best(self, item: Item, descending: bool) -> str:
        """Return a row's sort key by an item; of a list its greatest or least member.

        ``descending``: the greatest.
        """
        if isinstance(item, NodeRef):
            return self._called(item)
        text = self.item(item)
        kind = self.index.kind(self.plan, item)
        if kind is not None and kind.many and item not in self.members:
            if kind.instants or kind.type == "duration":
                raise PlanError("This plan cannot be written as one statement of Cypher.")
            sign = ">" if descending else "<"
            return (
                f"reduce(best = head({text}), one IN {text} | "
                f"CASE WHEN one {sign} best THEN one ELSE best END)"
            )
        if isinstance(item, PropertyRef) and kind is not None and kind.type == "text":
            if isinstance(item.owner, HopRef) or item.name not in self._names(item.owner):
                return f"CASE WHEN {text} IN {_NULLS} THEN null ELSE {text} END"
            return text
        if isinstance(item, PropertyRef) and item not in self.named:
            return self._ordered(text, kind)
        return text

    @staticmethod
    def _ordered(text: str, kind: Property | None) -> str:
        """Return the expression that sorts a property's values: dates as instants or ISO text.

        ``text``: the expression of the values; ``kind``: the property, None for others, which are
        unchanged. Raises PlanError.
        """
        if kind is None or kind.type not in (*MOMENTS, "duration"):
            return text
        if (kind.unread and (kind.instants or kind.type == "duration")) or (
            kind.many and kind.type == "duration"
        ):
            raise PlanError("This plan cannot be written as one statement of Cypher.")
        if kind.type == "duration":
            return f"duration(toString({text}))"
        if not kind.instants:
            return f"toString({text})"
        if kind.type == "time":
            return f"time(toString({text}))"
        return f"datetime(replace(toString({text}), ' ', 'T'))"

    def _compared(self, text: str, kind: Property | None) -> str:
        """Return the expression by which values of a property are compared: a duration as seconds.

        ``text``, ``kind``: as for :meth:`_ordered`.
        """
        ordered = self._ordered(text, kind)
        if kind is None or kind.type != "duration":
            return ordered
        return (
            f"[one IN [{ordered}] | one.months * 2629746 + one.days * 86400 + one.seconds "
            "+ one.nanosecondsOfSecond / 1e9][0]"
        )

    def _called(self, item: NodeRef) -> str:
        """Return the expression of a node's display name."""
        names = self._name_texts(item)
        return names[0] if len(names) == 1 else f"coalesce({', '.join(names)})"

    def _name_texts(self, item: NodeRef) -> list[str]:
        """Return expressions for the names and id of a node, the preferred name first."""
        node, class_ = self.item(item), self.plan.nodes[item.node]
        types = [self.index.types[class_]] if class_ else self.index.schema.types
        parts = [type_.parts for type_ in types if type_.parts]
        names = [] if parts and self._names(item) == ["name"] else self._names(item)
        joined = [" + ' ' + ".join(f"{node}.{quoted(one)}" for one in some) for some in parts]
        return [*joined, *(f"{node}.{quoted(name)}" for name in names)]

    def _is_one_of(self, item: NodeRef, values: list[str]) -> list[str]:
        """Return conditions, any of which suffices, that a node's name or id is one of ``values``.

        An attached node's id is ``Label:value`` of the label's id property, or ``#`` and the number
        in its element id; our own nodes have a property ``id``.
        """
        class_ = self.plan.nodes[item.node]
        types = [self.index.types[class_]] if class_ else self.index.schema.types
        own = not any(type_.names or type_.parts or type_.id_property for type_ in types)
        numbers = [] if own else [value[1:] for value in values if _ELEMENT.fullmatch(value)]
        labels = tuple(f"{type_.name}:" for type_ in types if type_.id_property)
        texts = [
            next((value.removeprefix(label) for label in labels if value.startswith(label)), value)
            for value in values
            if value[1:] not in numbers
        ]
        names = [*self._name_texts(item), *([f"{self.item(item)}.id"] if own else [])]
        put = _literal(texts) if texts else ""
        tests = [f"{name} IN {put}" for name in names] if texts else []
        if numbers:
            number = f"split(elementId({self.item(item)}), ':')[2]"
            tests.append(f"{number} IN {_literal(numbers)}")
        return tests

    def _names(self, item: NodeRef) -> list[str]:
        """Return the properties that hold a node's names, the preferred one first."""
        class_ = self.plan.nodes[item.node]
        types = [self.index.types[class_]] if class_ else self.index.schema.types
        names = [name for type_ in types for name in type_.names[:1]]
        ids = [type_.id_property for type_ in types if type_.id_property]
        return list(dict.fromkeys([*names, *ids])) or ["name"]

    # -- expressions -------------------------------------------------------------------------

    def item(self, item: Any) -> str:
        """Return an item as a Cypher expression."""
        if item in self.named:
            return self.named[item]
        if item in self.members:
            return self.members[item]
        match item:
            case NodeRef(node):
                return self.nodes[node]
            case HopRef(hop):
                return self.hops[hop]
            case PropertyRef(owner, name, part):
                text = f"{self.item(owner)}.{quoted(name)}"
                kept = self.index.property_of(self.plan, item)
                if part == "size":
                    return f"size({text})"
                if kept.form is not None and not kept.form.plain:
                    raise PlanError("This plan cannot be written as one statement of Cypher.")
                if kept.as_text and kept.type in _CASTS and not part:
                    return f"{_CASTS[kept.type]}{'List' * kept.many}({text})"
                if part:
                    start, length = DATE_PARTS[part]
                    if kept.instants and kept.type in DATES:
                        return f"{self._ordered(text, kept)}.{part}"
                    text = f"toInteger(substring(toString({text}), {start}, {length}))"
                    return f"({text} + 2) / 3" if part == "quarter" else text
                return text
            case Arithmetic(left, operator, right):
                if (kinds := self._dates(item)) is not None:
                    return self._days(item, *kinds)
                one, two = self.item(left), self.item(right)
                if operator != "/":
                    return f"({one} {operator} {two})"
                return f"CASE {two} WHEN 0 THEN null ELSE toFloat({one}) / {two} END"
            case float() | int():
                return _literal(item)
        raise TypeError(item)

    def _dates(self, item: Arithmetic) -> tuple[Property, Property] | None:
        """Return the properties of a difference of two dates, None for another calculation."""
        later, earlier = (self.index.kind(self.plan, one) for one in (item.left, item.right))
        if later is None or earlier is None or later.type not in DATES:
            return None
        return later, earlier

    def _days(self, item: Arithmetic, later: Property, earlier: Property) -> str:
        """Return the expression of the days between two dates. Raises PlanError."""
        if later.unread or earlier.unread:
            raise PlanError("This plan cannot be written as one statement of Cypher.")
        end, start = (
            f"datetime(replace(toString({self.item(one)}), ' ', 'T'))"
            for one in (item.left, item.right)
        )
        return f"(duration.inSeconds({start}, {end}).seconds / 86400.0)"

    def comparison(self, comparison: Comparison) -> str:
        """Return a comparison, with its negation, as a Cypher condition."""
        if isinstance(comparison.left, NodeRef) and comparison.affirmed == "is a":
            (class_,) = comparison.right  # type: ignore[misc]
            return (
                f"{'NOT ' * comparison.negated}{self.item(comparison.left)}:{quoted(str(class_))}"
            )
        if isinstance(comparison.left, NodeRef):
            tests = self._is_one_of(comparison.left, list(map(str, comparison.right)))  # type: ignore[arg-type]
            if comparison.negated:
                return f"NOT ({' OR '.join(f'coalesce({test}, false)' for test in tests)})"
            return f"({' OR '.join(tests)})" if len(tests) > 1 else tests[0]
        text = self.item(comparison.left)
        kind = self.index.kind(self.plan, comparison.left)
        if comparison.affirmed == "missing":
            if kind is not None and kind.type == "text" and not kind.many:
                return f"{'NOT ' * comparison.negated}coalesce({text}, '') IN {_NULLS}"
            return f"{text} IS {'NOT ' * comparison.negated}NULL"
        if comparison.operator.startswith(OPEN):
            plain = replace(
                comparison, operator=cast("Operator", comparison.operator.removeprefix(OPEN))
            )
            return f"({text} IS NULL OR {self.comparison(plain)})"
        many = kind is not None and kind.many and comparison.left not in self.named
        test = self._test("one" if many else text, comparison, kind)
        if many:
            return f"{'none' if comparison.negated else 'any'}(one IN {text} WHERE {test})"
        if not comparison.negated:
            return test
        if comparison.operator == "<>" and test.count(" = ") == 1 and test.startswith(f"{text} = "):
            return test.replace(" = ", " <> ", 1)
        return f"NOT {test}" if " OR " not in test else f"NOT ({test})"

    def _test(self, text: str, comparison: Comparison, kind: Property | None) -> str:
        """Return a comparison of the expression ``text`` without its negation."""
        operator, type_ = comparison.affirmed, kind.type if kind else "text"
        if not isinstance(comparison.right, tuple):
            right = comparison.right
            other = self.averages[right] if isinstance(right, Aggregate) else self.item(right)
            if operator in _TEXT:
                return f"toLower({text}) {_TEXT[operator]} toLower({other})"
            of_other = None if isinstance(right, Aggregate) else self.index.kind(self.plan, right)
            if type_ in MOMENTS and kind and of_other and kind.instants != of_other.instants:
                kind, of_other = replace(kind, instants=True), replace(of_other, instants=True)
            return f"{self._compared(text, kind)} {operator} {self._compared(other, of_other)}"
        values = comparison.right
        if kind is not None and type_ in MOMENTS:
            tests = [self._in_interval(text, operator, str(v), kind) for v in values]
            return tests[0] if len(tests) == 1 else "(" + " OR ".join(tests) + ")"
        if operator in _TEXT:
            lowered = _literal(str(values[0]).lower())
            return f"toLower({text}) {_TEXT[operator]} {lowered}"
        if kind is not None and type_ == "duration":
            mine = self._compared(text, replace(kind, many=False))
            sizes = [self._compared(_literal(v), Property("", "duration")) for v in values]
            if operator == "in":
                return f"{mine} IN [{', '.join(sizes)}]"
            return f"{mine} {operator} {sizes[0]}"
        if operator == "in":
            return f"{text} IN {_literal(list(values))}"
        return f"{text} {operator} {_literal(values[0])}"

    def _in_interval(self, text: str, operator: str, literal: str, kind: Property) -> str:
        """Return a comparison of a date or time with an interval, such as a year."""
        text, start, end = self._span(text, literal, kind)
        match operator:
            case "<" | ">=":
                return f"{text} {operator} {start}"
            case "<=":
                return f"{text} < {end}"
            case ">":
                return f"{text} >= {end}"
        return f"{start} <= {text} < {end}"

    def _span(self, text: str, literal: str, kind: Property) -> tuple[str, str, str]:
        """Return the expressions of a date or time and of the interval's start and end."""
        first, after = interval_texts(literal)
        start = _literal(first)
        if not kind.instants:
            return f"toString({text})", start, _literal(after)
        if kind.type == "time":
            raise PlanError("This plan cannot be written as one statement of Cypher.")
        text, form = self._ordered(text, kind), "datetime"
        if not has_zone(literal):  # compared as local clock time
            text, form = f"localdatetime({text})", "localdatetime"
        start = f"{form}({start})"
        if not after.endswith("~"):
            return text, start, f"{form}({_literal(after)})"
        return text, start, f"{start} + duration('PT{lasting(literal) or '0.000000001'}S')"

"""Translates a plan to SPARQL 1.1: one read-only statement for any endpoint.

Names of the schema are IRIs, values are literals: both are written by the client's two functions
alone, so neither can be read as SPARQL. What the statement means is what
:mod:`kgqa.queries.execute` says; where SPARQL's own habits differ, the statement says more:

- every node is an IRI, and along a chain nodes are different (``!=``);
- a thing that is named is looked up first, and stands there by its IRI;
- dates are compared as ISO 8601 text, which fits dates of every datatype, and text by ``LCASE``
  for ``contains``; a text has the wanted language, or none;
- what is missing comes last in every order, and rows that are equal in it go by their names;
- a sum or an average takes each thing once, and a division by 0 gives no value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from kgqa.errors import GraphError, PlanError
from kgqa.graph.literals import XSD
from kgqa.graph.sparql_client import iri, literal
from kgqa.graph.sparql_profiles import RDF_TYPE, class_path, wanted_language
from kgqa.lexicon.tokens import last_part
from kgqa.queries.check import NUMBERS, SchemaIndex, check
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
    leaves,
    owners,
    refs_of,
)
from kgqa.queries.values import DATE_PARTS, DATES, interval_texts

if TYPE_CHECKING:
    from kgqa.graph.attached import Attachment
    from kgqa.graph.schema import GraphSchema, Property, Value
    from kgqa.queries.plan import Hop, Item, Sort

Called: TypeAlias = Callable[[Sequence[str]], list[str]]
"""Returns the ids of the things that are called, or have the id of, one of some texts."""

_KNOWN = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": XSD,
    "owl": "http://www.w3.org/2002/07/owl#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "schema": "http://schema.org/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dbo": "http://dbpedia.org/ontology/",
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
    "ns": "http://rdf.freebase.com/ns/",
}
_IRI = re.compile(r"(.+[/#])([A-Za-z][\w-]*(?:\.\w+)?)", re.ASCII)  # servers differ with more dots
_TEXT = {"contains": "CONTAINS", "starts with": "STRSTARTS", "ends with": "STRENDS"}
_FUNCTIONS = {"least": "MIN", "most": "MAX"}
_READ_HERE = ("datetime", "time", "duration")  # which cannot be compared as texts
_NOTHING = "1/0"  # an expression that has no value
_LAST = {  # what comes after every value of numbers, and of texts, where the least is taken
    True: f'"INF"^^{iri(XSD + "double")}',
    False: literal("\U0010ffff"),
}
_FIRST = {True: f'"-INF"^^{iri(XSD + "double")}', False: '""'}
_MOST_LABELS = 10


class NotOneStatementError(PlanError):
    """Raised for a plan that one SPARQL statement cannot express."""

    def __init__(self) -> None:
        super().__init__(
            "This plan cannot be written as one statement of SPARQL.",
            "Run it: its rows are the same, from several queries.",
        )


@dataclass(frozen=True, slots=True)
class Sparql:
    """A SPARQL statement; ``columns``: the variable of each item of output and order.

    ``sorts``: the variable of each sort key: a name variable for a node, "" for an unordered one.
    """

    text: str
    columns: dict[Any, str]
    sorts: tuple[str, ...]


def sparql_of(
    plan: Plan,
    schema: GraphSchema | SchemaIndex,
    record: Attachment,
    called: Called,
    *,
    limit: int | None = None,
    bare: bool = False,
    whole: bool = False,
) -> Sparql:
    """Translate ``plan`` to SPARQL that can be run as it stands.

    ``limit``: of rows, in place of the plan's limit and ``skip``; ``bare``: without ORDER BY;
    ``whole``: IRIs without prefixes. Raises PlanError if the plan does not fit the schema,
    NotOneStatementError if it needs several statements.
    """
    index = schema if isinstance(schema, SchemaIndex) else SchemaIndex(schema)
    check(plan, index)
    writer = _Writer(record, called, whole=whole)
    query = _Query(plan, index, writer)
    if limit is not None:
        query.limit, query.skip = limit, 0
    lines = query.lines(bare=bare)
    sorts = (
        name or (query.names.get(sort.by, "") if isinstance(sort.by, NodeRef) else "")
        for sort, name in zip(plan.order, query.sorts, strict=True)
    )
    text = "\n".join(lines)
    return Sparql("\n".join([*writer.header(text), text]), query.columns, tuple(sorts))


def solutions_of(
    plan: Plan,
    index: SchemaIndex,
    record: Attachment,
    called: Called,
    part: Sequence[NodeRef | HopRef],
    only: dict[int, list[str]],
) -> tuple[str, dict[NodeRef, str]]:
    """Return the graph pattern for the solutions of a plan's part, and each node's variable.

    ``part``: its nodes and hops; ``only``: the permitted ids of some nodes. Raises PlanError,
    NotOneStatementError.
    """
    if any(plan.hops[ref.hop].either for ref in part if isinstance(ref, HopRef)):
        raise NotOneStatementError
    writer = _Writer(record, called, whole=True)
    query = _Query(replace(plan, first=None), index, writer)
    query.only = only
    block = query.pattern(part)
    nodes = {ref: query.nodes[ref.node] for ref in part if isinstance(ref, NodeRef)}
    names = " ".join(nodes.values())
    return f"{{ SELECT DISTINCT {names} WHERE {{ {' '.join(block.lines)} }} }}", nodes


class _Writer:
    """Writes terms and variables of one statement; ``whole``: without prefixes."""

    def __init__(self, record: Attachment, called: Called, *, whole: bool = False) -> None:
        self.record, self.called, self._whole = record, called, whole
        self._prefixes: dict[str, str] = {}  # by namespace
        self._names = {"n"}  # which the store counts by

    def term(self, id_: str) -> str:
        """Return the IRI of an id, with a prefix where possible."""
        full = id_ if ":" in id_ else self.record.prefix + id_
        try:
            written = iri(full)
        except GraphError as error:
            raise PlanError(str(error)) from None
        match = None if self._whole else _IRI.fullmatch(full)
        if match is None:
            return written
        space, local = match.groups()
        if space not in self._prefixes:
            known = {namespace: name for name, namespace in _KNOWN.items()}
            others = len(self._prefixes.keys() - known.keys())
            self._prefixes[space] = known.get(space) or f"n{others + 1}"
        return f"{self._prefixes[space]}:{local}"

    def shorter(self, text: str) -> str:
        """Return SPARQL text with its IRIs shortened by prefixes."""
        return text if self._whole else re.sub(r"<([^<>]*)>", lambda m: self.term(m[1]), text)

    def header(self, text: str) -> list[str]:
        """Return the PREFIX declarations that ``text`` needs."""
        found = sorted(
            (name, space) for space, name in self._prefixes.items() if f"{name}:" in text
        )
        return [f"PREFIX {name}: {iri(space)}" for name, space in found]

    def variable(self, name: str) -> str:
        """Return a new variable named after a class, relation or property."""
        words = re.findall(r"[A-Za-z0-9]+", last_part(name).rpartition(".")[2])
        plain = "".join(word[:1].upper() + word[1:] for word in words)
        plain = plain[:1].lower() + plain[1:] if plain[:1].isalpha() else "value"
        number, found = 1, plain
        while found in self._names:
            number += 1
            found = f"{plain}{number}"
        self._names.add(found)
        return f"?{found}"


@dataclass(slots=True)
class _Block:
    """A group graph pattern: its lines, and the variables of properties bound in it."""

    outer: _Block | None = None
    lines: list[str] = field(default_factory=list)
    values: dict[PropertyRef, str] = field(default_factory=dict)
    sure: set[PropertyRef] = field(default_factory=set)  # those that every solution has

    def variable(self, ref: PropertyRef) -> str | None:
        """Return the variable of a property, None if no block, this or an outer one, binds it."""
        found = self.values.get(ref)
        return self.outer.variable(ref) if found is None and self.outer is not None else found

    def has(self, ref: PropertyRef) -> bool:
        """Return whether every solution has a value of the property."""
        return ref in self.sure or (self.outer is not None and self.outer.has(ref))


class _Query:
    """Writes the SPARQL of one plan: patterns, expressions and selections."""

    def __init__(self, plan: Plan, index: SchemaIndex, writer: _Writer, given: str = "") -> None:
        self.plan, self.index, self.writer = plan, index, writer
        self.limit, self.skip = plan.limit, plan.skip
        own = plan.give[0].node if given and isinstance(plan.give[0], NodeRef) else -1
        self.nodes = [
            given if node == own else writer.variable(class_ or "thing")
            for node, class_ in enumerate(plan.nodes)
        ]
        self.only: dict[int, list[str]] = {}
        self.columns: dict[Any, str] = {}
        self.sorts: list[str] = []
        self.names: dict[NodeRef, str] = {}
        self.named: dict[NodeRef, str] = {}  # the aggregate that chooses a node's name
        self.values: dict[Any, str] = {}  # variables of what is added up, once selected

    # -- the pattern -------------------------------------------------------------------------

    def pattern(self, part: Sequence[NodeRef | HopRef]) -> _Block:
        """Return the pattern of the nodes and hops in ``part``, with all comparisons on them alone.

        Also the parts of ``without`` that start in it.
        """
        plan = self.plan
        block = _Block()
        nodes = [ref.node for ref in part if isinstance(ref, NodeRef)]
        hops = [ref.hop for ref in part if isinstance(ref, HopRef)]
        bound = set(part)
        where = [
            one
            for one in plan.where
            if not isinstance(one.left, Aggregate) and bound.issuperset(owners(one))
        ]
        self._bind(block, nodes, hops, where)
        for number, without in enumerate(plan.without):
            ends = {end for hop in without.hops for end in (hop.source, hop.target)}
            spoken = {node for node in ends if node < plan.pattern_size}
            spoken |= {
                ref.node
                for one in without.where
                for ref in owners(one)
                if isinstance(ref, NodeRef) and ref.node < plan.pattern_size
            }
            if spoken <= set(nodes):
                self._leave_out(block, number)
        return block

    def _bind(
        self, block: _Block, nodes: Sequence[int], hops: Sequence[int], where: list[Comparison]
    ) -> None:
        """Write the class, name and hop patterns of nodes and hops, and the comparisons ``where``.

        Raises NotOneStatementError for a node that nothing restricts.
        """
        free = []
        for node in nodes:
            held = self._given(block, node, where)
            class_ = self.plan.nodes[node]
            if class_:
                path = class_path(self.writer.record)
                path = "a" if path == iri(RDF_TYPE) else self.writer.shorter(path)
                block.lines.append(f"{self.nodes[node]} {path} {self.writer.term(class_)} .")
            elif not held and not any(node in self.plan.all_hops[hop].ends for hop in hops):
                raise NotOneStatementError
            if not held:
                free.append(self.nodes[node])
        block.lines += [self._step(number) for number in hops]
        if free:
            block.lines.append(f"FILTER({' && '.join(f'isIRI({name})' for name in free)})")
        self._differ(block, self.plan.hops, set(nodes))
        for one in where:
            if not _names(one):
                self.compare(block, one)

    def _given(self, block: _Block, node: int, where: Sequence[Comparison]) -> bool:
        """Restrict a node to the earlier plan's result, permitted ids, or entities of a name.

        Return whether any of these restricts it.
        """
        held = False
        name = self.nodes[node]
        if node == 0 and self.plan.first is not None:
            inner = _Query(self.plan.first, self.index, self.writer, given=name)
            block.lines += ["{", *_indented(inner.lines(alone=True)), "}"]
            held = True
        if node in self.only:
            block.lines.append(self._among(name, self.only[node]))
            held = True
        for one in where:
            if one.left == NodeRef(node) and _names(one):
                block.lines.append(self._among(name, self._called(one)))
                held = True
        return held

    def _among(self, name: str, ids: Sequence[str]) -> str:
        """Return the clause that restricts a variable to ids.

        Without ids, a clause that is always false.
        """
        terms = " ".join(map(self.writer.term, ids))
        return f"VALUES {name} {{ {terms} }}" if ids else "FILTER(false)"

    def _called(self, one: Comparison) -> list[str]:
        """Return the ids of the entities that a comparison names.

        Raises NotOneStatementError for a name without letters and digits.
        """
        texts = [str(value) for value in one.right]  # type: ignore[union-attr]
        if not all(any(map(str.isalnum, text)) for text in texts):
            raise NotOneStatementError  # such names are in no index
        return self.writer.called(texts)

    def _step(self, number: int) -> str:
        """Return the triple pattern of a hop."""
        hop = self.plan.all_hops[number]
        name = self.writer.term(hop.relation)
        ends = self.nodes[hop.source], self.nodes[hop.target]
        if hop.either:
            return f"{{ {ends[0]} {name} {ends[1]} }} UNION {{ {ends[1]} {name} {ends[0]} }}"
        head, tail = self.facts(number)
        return f"{head} {name}{'+' * hop.repeated} {tail} ."

    def facts(self, number: int) -> tuple[str, str]:
        """Return the variables of head and tail of a hop's facts.

        Raises NotOneStatementError if the hop is ``either``.
        """
        hop = self.plan.all_hops[number]
        if hop.either:
            raise NotOneStatementError  # which way the facts lead, is said by each
        ends = self.nodes[hop.source], self.nodes[hop.target]
        return (ends[1], ends[0]) if hop.inverse else ends

    def _differ(self, block: _Block, hops: tuple[Hop, ...], bound: set[int]) -> None:
        """Write filters that two ``bound`` nodes of one chain, which could coincide, differ."""
        classes = self.plan.nodes
        pairs = {
            tuple(sorted((node, other)))
            for nodes in chain_nodes(hops)
            for place, other in enumerate(nodes)
            for node in nodes[:place]
            if node != other and {node, other} <= bound
        }
        for one, other in sorted(pairs):
            if self.index.schema.sampled or self.index.may_be_one(classes[one], classes[other]):
                block.lines.append(f"FILTER({self.nodes[one]} != {self.nodes[other]})")

    def _leave_out(self, block: _Block, number: int) -> None:
        """Write the FILTER NOT EXISTS of part ``number`` of ``without`` into ``block``."""
        part = self.plan.without[number]
        inner = _Block(block)
        hops = self.plan.hops_without(number)
        ends = dict.fromkeys(end for hop in hops for end in self.plan.all_hops[hop].ends)
        new = [node for node in ends if node >= self.plan.pattern_size]
        self._bind(inner, new, hops, [])
        inner.lines = [line for line in inner.lines if " != " not in line]
        self._differ(inner, part.hops, set(ends))
        for one in part.where:
            if isinstance(one.left, NodeRef) and _names(one):
                inner.lines.append(self._among(self.nodes[one.left.node], self._called(one)))
            else:
                self.compare(inner, one)
        block.lines += ["FILTER NOT EXISTS {", *_indented(inner.lines), "}"]

    # -- properties and expressions ----------------------------------------------------------

    def held(self, block: _Block, ref: PropertyRef, *, sure: bool) -> str:
        """Return the variable of a property; writes the pattern that binds it if it is not bound.

        ``sure``: drop solutions without a value.
        """
        ref = replace(ref, part="")
        name = block.variable(ref)
        if name is None:
            name = self.writer.variable(ref.name)
            block.values[ref] = name
            line = self._triple(ref, name)
            block.lines.append(line if sure else f"OPTIONAL {{ {line} }}")
        elif sure and not block.has(ref):
            block.lines.append(f"FILTER(BOUND({name}))")
        if sure:
            block.sure.add(ref)
        return name

    def _triple(self, ref: PropertyRef, name: str) -> str:
        """Return the pattern that binds a property's value to the variable ``name``."""
        kind = self.index.property_of(self.plan, ref)
        if isinstance(ref.owner, HopRef) or kind.unread or kind.type in _READ_HERE:
            raise NotOneStatementError
        read = kind.as_text and kind.type in NUMBERS
        value = self.writer.variable(f"{ref.name} text") if read else name
        text = f"{self.nodes[ref.owner.node]} {self.writer.term(ref.name)} {value}"
        if kind.type not in (*NUMBERS, "date", "boolean"):
            text += f" FILTER({wanted_language(value, self.writer.record.language)})"
        elif ref.name in self.index.relations:
            text += f" FILTER(isLiteral({value}))"
        if read:
            cast = self.writer.term(XSD + ("integer" if kind.type == "integer" else "double"))
            return f"{text} BIND({cast}(STR({value})) AS {name}) FILTER(BOUND({name}))"
        return f"{text} ." if text.endswith(value) else text

    def expression(self, block: _Block, item: Any, *, sure: bool = False) -> str:
        """Return an item as an expression; ``sure``: rows without its property are dropped."""
        match item:
            case NodeRef(node):
                return self.nodes[node]
            case HopRef(hop):
                head, tail = self.facts(hop)
                return f'CONCAT(STR({head}), " ", STR({tail}))'
            case PropertyRef(part=part):
                kind = self.index.property_of(self.plan, item)
                if part == "size" and kind.many:
                    return self._size(block, item, sure=sure)
                name = self.held(block, item, sure=sure)
                return _part(self.value(name, kind), part, self.writer.term(XSD + "integer"))
            case Arithmetic(left, operator, right):
                if any(
                    kind is not None and kind.type == "date"
                    for kind in (self.index.kind(self.plan, side) for side in (left, right))
                ):
                    raise NotOneStatementError  # SPARQL 1.1 subtracts numbers alone
                one = self.expression(block, left, sure=sure)
                two = self.expression(block, right, sure=sure)
                if operator != "/":
                    return f"({one} {operator} {two})"
                return f"IF({two} = 0, {_NOTHING}, {one} / {two})"
            case float() | int():
                return str(item) if isinstance(item, int) else repr(item)
        raise TypeError(item)

    @staticmethod
    def value(name: str, kind: Property) -> str:
        """Return the expression by which a property's variable is compared."""
        return name if kind.type in (*NUMBERS, "boolean") else f"STR({name})"

    def _size(self, block: _Block, ref: PropertyRef, *, sure: bool) -> str:
        """Return the variable for the number of values of a property; writes its subselection.

        ``sure``: drop solutions without a value.
        """
        name = block.variable(ref)
        if name is None:
            member = self.writer.variable(ref.name)
            name = block.values[ref] = self.writer.variable("size")
            owner = self.nodes[ref.owner.node]  # type: ignore[union-attr]
            inner = self._triple(replace(ref, part=""), member)
            text = (
                f"SELECT {owner} (COUNT({member}) AS {name}) WHERE {{ {inner} }} GROUP BY {owner}"
            )
            block.lines.append(f"{'' if sure else 'OPTIONAL '}{{ {text} }}")
        elif sure and not block.has(ref):
            block.lines.append(f"FILTER(BOUND({name}))")
        if sure:
            block.sure.add(ref)
        return name

    def many(self, item: object) -> bool:
        """Return whether an item is a property that may have several values."""
        return (
            isinstance(item, PropertyRef)
            and item.part != "size"
            and self.index.property_of(self.plan, item).many
        )

    # -- comparisons -------------------------------------------------------------------------

    def compare(self, block: _Block, one: Comparison) -> None:
        """Write the filter of a comparison.

        Solutions without a value are dropped, unless its operator accepts a missing one.
        """
        if isinstance(one.left, NodeRef):
            name = self.nodes[one.left.node]
            if one.affirmed == "is a":
                (class_,) = one.right  # type: ignore[misc]
                path = self.writer.shorter(class_path(self.writer.record))
                there = f"EXISTS {{ {name} {path} {self.writer.term(str(class_))} }}"
                block.lines.append(f"FILTER {'NOT ' * one.negated}{there}")
                return
            ids = self._called(one)
            if ids:
                terms = ", ".join(map(self.writer.term, ids))
                block.lines.append(f"FILTER({name} NOT IN ({terms}))")
            return
        if self.many(one.left):
            self._compare_members(block, one)
            return
        kind = self.index.kind(self.plan, one.left)
        if one.affirmed == "missing":
            text = self.expression(block, one.left, sure=one.negated)
            if not one.negated:
                whole = text.startswith("?") and text[1:].isalnum()
                there = f"BOUND({text})" if whole else f"COALESCE({text} = {text}, false)"
                block.lines.append(f"FILTER(!{there})")
            elif isinstance(one.left, PropertyRef) and one.left.part:
                block.lines.append(f"FILTER({text} = {text})")
            return
        if one.operator.startswith(OPEN):
            bound = replace(one, operator=one.operator.removeprefix(OPEN))  # type: ignore[arg-type]
            text = self.expression(block, one.left)
            test = self._test(block, text, bound, kind)
            block.lines.append(f"FILTER(!{_is_there(text)} || {test})")
            return
        text = self.expression(block, one.left, sure=True)
        test = self._test(block, text, one, kind)
        block.lines.append(f"FILTER(!({test}))" if one.negated else f"FILTER({test})")

    def _compare_members(self, block: _Block, one: Comparison) -> None:
        """Write the filter of a comparison with a list: some member, or none, satisfies it.

        Raises NotOneStatementError for an operator that accepts a missing value.
        """
        ref = one.left
        if one.operator.startswith(OPEN):
            raise NotOneStatementError
        assert isinstance(ref, PropertyRef)
        kind = self.index.property_of(self.plan, ref)
        name = self.writer.variable(ref.name)
        triple = self._triple(replace(ref, part=""), name)
        if one.affirmed == "missing" and not ref.part:
            block.lines.append(f"FILTER {'' if one.negated else 'NOT '}EXISTS {{ {triple} }}")
            return
        value = _part(self.value(name, kind), ref.part, self.writer.term(XSD + "integer"))
        there = f"{triple} FILTER({value} = {value})" if ref.part else triple
        if one.affirmed == "missing":
            block.lines.append(f"FILTER {'' if one.negated else 'NOT '}EXISTS {{ {there} }}")
            return
        test = self._test(block, value, one, self.index.kind(self.plan, ref))
        if one.negated:
            block.lines.append(f"FILTER EXISTS {{ {there} }}")
        block.lines.append(f"FILTER {'NOT ' * one.negated}EXISTS {{ {triple} FILTER({test}) }}")

    def _test(self, block: _Block, text: str, one: Comparison, kind: Property | None) -> str:
        """Return a comparison of the expression ``text`` without its negation.

        ``one``: the comparison; ``kind``: the property of its left side, None for a number.
        """
        operator, type_ = one.affirmed, kind.type if kind else "text"
        if not isinstance(one.right, tuple):
            if isinstance(one.right, Aggregate):
                other = self._average(block, one.right)
            else:
                other = self.expression(block, one.right, sure=True)
            if operator in _TEXT:
                return f"{_TEXT[operator]}(LCASE({text}), LCASE({other}))"
            return f"{text} {operator} {other}"
        values = one.right
        if type_ in DATES:
            return " || ".join(_in_interval(text, operator, str(value)) for value in values)
        if operator in _TEXT:
            return f"{_TEXT[operator]}(LCASE({text}), {literal(str(values[0]).lower())})"
        if operator == "in":
            return f"{text} IN ({', '.join(map(_value, values))})"
        return f"{text} {operator} {_value(values[0])}"

    def _average(self, block: _Block, one: Aggregate) -> str:
        """Return the variable of the average of a property over a whole class.

        Writes the subselection that computes it.
        """
        of = one.of
        assert isinstance(of, PropertyRef)
        assert isinstance(of.owner, NodeRef)
        class_ = self.plan.nodes[of.owner.node]
        if not class_:
            raise NotOneStatementError
        alone = Plan((class_,), give=(replace(of, owner=NodeRef(0)),))
        inner = _Query(alone, self.index, self.writer)
        held = _Block()
        inner._bind(held, [0], [], [])
        value = inner.expression(held, alone.give[0], sure=True)
        name = self.writer.variable("average")
        lines = [
            f"SELECT (AVG({value}) AS {name}) WHERE {{ SELECT DISTINCT {inner.nodes[0]} {value}",
            f"WHERE {{ {' '.join(held.lines)} }} }}",
        ]
        block.lines += ["{", *_indented(lines), "}"]
        return name

    # -- rows --------------------------------------------------------------------------------

    def lines(self, *, alone: bool = False, bare: bool = False) -> list[str]:
        """Return the lines of the statement.

        ``alone``: only the one output node, for a plan that continues this one; ``bare``: with a
        limit, but without ORDER BY.
        """
        plan = self.plan
        ordered = self.limit is not None or bool(plan.order)
        select = self._grouped() if plan.grouped else self._distinct()
        named_ = ordered and not bare and self.writer.record.labels
        nodes = [*plan.give, *(sort.by for sort in plan.order)] if named_ else []
        named = [item for item in dict.fromkeys(nodes) if isinstance(item, NodeRef)]
        lines = select.lines() if not named else self._with_names(select, named)
        if ordered and not bare:
            lines.append(f"ORDER BY {' '.join(self._order(select))}")
        if self.limit is not None:
            lines.append(f"LIMIT {self.limit}")
        if self.skip:
            lines.append(f"OFFSET {self.skip}")
        if alone:
            given = self.columns[plan.give[0]]
            lines = [
                f"SELECT DISTINCT {given} WHERE {{",
                *_indented(["{", *_indented(lines), "}"]),
                "}",
            ]
        return lines

    def _distinct(self) -> _Select:
        """Return the selection of the distinct rows of an ungrouped plan."""
        plan = self.plan
        block = self.pattern(plan.refs)
        select = _Select(block)
        kinds = dict.fromkeys(item for item in plan.give if not isinstance(item, float | int))
        if not kinds or any(self.many(item) or isinstance(item, HopRef) for item in kinds):
            raise NotOneStatementError
        self._project(select, list(kinds))
        given = {item for item in kinds if isinstance(item, NodeRef)}
        for sort in plan.order:
            if isinstance(sort.by, NodeRef):
                if sort.by not in kinds:
                    raise NotOneStatementError
            elif sort.by not in self.columns:
                if not self.many(sort.by) and set(refs_of(sort.by)) <= given:
                    self._project(select, [sort.by], rows=False)
                else:
                    self._project_best(select, sort)
        self.sorts = [self._sorted_by(sort) for sort in plan.order]
        return select

    def _sorted_by(self, sort: Sort) -> str:
        """Return the variable of a sort key's values, "" for a node, which is sorted by name."""
        if isinstance(sort.by, NodeRef):
            return ""
        return self.columns.get((sort.by, sort.descending)) or self.columns[sort.by]

    def _project(self, select: _Select, items: Sequence[Item], *, rows: bool = True) -> None:
        """Add items to a selection; ``rows``: drop solutions in which none of them has a value."""
        block = select.block
        plain = not any(isinstance(item, NodeRef | HopRef) for item in items) and rows
        sure = plain and len(items) == 1
        found = []
        for item in items:
            text = self.expression(block, item, sure=sure)
            found.append(text)
            if isinstance(item, HopRef):
                raise NotOneStatementError
            if re.fullmatch(r"\?\w+", text):
                name = text
            else:
                name = self.writer.variable(_called_like(item))
            select.add(name, text)
            self.columns[item] = name
            if not sure and self._may_lack(block, item):
                select.open.add(name)
        if sure and self._may_lack(block, items[0]):
            block.lines.append(f"FILTER({_is_there(found[0])})")
        elif plain and not sure and items:
            block.lines.append(f"FILTER({' || '.join(map(_is_there, found))})")

    def _project_best(self, select: _Select, sort: Sort) -> None:
        """Add the least or greatest value that a row is sorted by."""
        kind = self.index.kind(self.plan, sort.by)
        numeric = kind is not None and kind.type in NUMBERS
        text = self.expression(select.block, sort.by)
        name = self.writer.variable("most" if sort.descending else "least")
        if self._may_lack(select.block, sort.by):
            ends = _FIRST if sort.descending else _LAST
            text = f"COALESCE({text}, {ends[numeric]})"
        select.add(name, f"{'MAX' if sort.descending else 'MIN'}({text})", aggregate=True)
        self.columns[sort.by, sort.descending] = name

    def _may_lack(self, block: _Block, item: object) -> bool:
        """Return whether an item may be unbound in a solution."""
        return (isinstance(item, Arithmetic) and "/" in self.plan.text_of(item)) or any(
            isinstance(leaf, PropertyRef)
            and (leaf.part not in ("", "size") or not block.has(leaf))
            and not (leaf.part == "size" and block.has(replace(leaf, part="")))
            for leaf in leaves(item)
        )

    # -- groups ------------------------------------------------------------------------------

    def _grouped(self) -> _Select:
        """Return the selection of groups with their aggregates."""
        plan = self.plan
        aggregates = list(dict.fromkeys(i for i in plan.items() if isinstance(i, Aggregate)))
        keys = list(
            dict.fromkeys(
                item
                for item in [*plan.group, *plan.give, *(sort.by for sort in plan.order)]
                if not isinstance(item, Aggregate | float | int)
            )
        )
        later = [item for item in keys if item not in plan.group]
        members = {item for item in plan.group if self.many(item)}
        if any(map(self.many, later)) or members & {aggregate.of for aggregate in aggregates}:
            raise NotOneStatementError
        sets = {tuple(refs_of(aggregate)) for aggregate in aggregates}
        summed = any(aggregate.kind in ("sum", "average") for aggregate in aggregates)
        if summed and len(sets) > 1:
            select = self._joined(aggregates, keys)
        else:
            select = _Select(self._group_pattern())
            self._project(select, list(plan.group))
            self._project(select, later, rows=False)
            for one in self._once(select, aggregates) if summed else aggregates:
                self._aggregate(select, one)
            for group in plan.having:
                text = select.texts[self.columns[group.left]]
                select.having.append(self._holds(text, group))
        self.sorts = [self._sorted_by(sort) for sort in plan.order]
        return select

    def _group_pattern(self) -> _Block:
        """Return the pattern of a grouped plan.

        Counted parts are optional if it has empty groups.
        """
        plan = self.plan
        needed = required(plan) if wants_empty(plan) else None
        if needed is None:
            return self.pattern(plan.refs)
        block = self.pattern([ref for ref in plan.refs if ref in needed])
        rest = [ref for ref in plan.refs if ref not in needed]
        if not rest:
            return block
        inner = _Block(block)
        where = [
            one
            for one in plan.where
            if not isinstance(one.left, Aggregate) and not needed.issuperset(owners(one))
        ]
        nodes = [ref.node for ref in rest if isinstance(ref, NodeRef)]
        self._bind(inner, nodes, [ref.hop for ref in rest if isinstance(ref, HopRef)], where)
        inner.lines = [line for line in inner.lines if " != " not in line]
        before = len(block.lines)
        self._differ(block, plan.hops, set(range(plan.pattern_size)))
        different = [line for line in block.lines[before:] if line not in block.lines[:before]]
        del block.lines[before:]
        for item in [one.of for one in plan.items() if isinstance(one, Aggregate)]:
            for leaf in leaves(item):
                if isinstance(leaf, PropertyRef) and leaf.owner not in needed:
                    self.expression(inner, leaf)
        block.lines += ["OPTIONAL {", *_indented([*inner.lines, *different]), "}"]
        block.values |= inner.values
        return block

    def _once(self, select: _Select, aggregates: Sequence[Aggregate]) -> list[Aggregate]:
        """Wrap the pattern in a subselection with each summed owner once in a group.

        Returns the aggregates that it is made for.
        """
        block = select.block
        names = [name for ref in refs_of(aggregates[0]) for name in self._names_of(ref)]
        texts = dict(select.texts)
        values: dict[Any, str] = {}
        for aggregate in aggregates:
            if not isinstance(aggregate.of, NodeRef | HopRef):
                text = self.expression(block, aggregate.of)
                name = values.get(aggregate.of) or self.writer.variable("value")
                values[aggregate.of] = name
                texts[name] = text
        given = [name if name == text else f"({text} AS {name})" for name, text in texts.items()]
        chosen = " ".join(dict.fromkeys([*given, *names]))
        inner = [f"SELECT DISTINCT {chosen}", "WHERE {", *_indented(block.lines), "}"]
        select.block = _Block(lines=["{", *_indented(inner), "}"])
        select.texts = {name: name for name in select.texts}
        self.values = values
        return list(aggregates)

    def _names_of(self, ref: NodeRef | HopRef) -> tuple[str, ...]:
        """Return the variables of a node, or of a hop's head and tail."""
        return (self.nodes[ref.node],) if isinstance(ref, NodeRef) else self.facts(ref.hop)

    def _aggregate(self, select: _Select, one: Aggregate) -> None:
        """Add an aggregate to a selection."""
        text = self.values.get(one.of) or self.expression(select.block, one.of)
        if not text.startswith("?"):  # an error in it would be one of the whole aggregate
            value = self.writer.variable("value")
            select.block.lines.append(f"BIND({text} AS {value})")
            text = value
        kind = self.index.kind(self.plan, one.of)
        numeric = kind is not None and kind.type in NUMBERS
        name = self.writer.variable(one.kind)
        match one.kind:
            case "count":
                text = f"COUNT(DISTINCT {text})"
            case "sum":
                text = f"SUM(COALESCE({text}, 0))"
            case "average":
                text = f"SUM(COALESCE({text}, 0)) / COUNT({text})"
            case _:
                ends = _LAST if one.kind == "least" else _FIRST
                best = f"{_FUNCTIONS[one.kind]}(COALESCE({text}, {ends[numeric]}))"
                text = f"IF(COUNT({text}) = 0, {_NOTHING}, {best})"
        if one.kind not in ("count", "sum"):
            select.open.add(name)
        select.add(name, text, aggregate=True)
        self.columns[one] = name

    def _joined(self, aggregates: Sequence[Aggregate], keys: Sequence[Item]) -> _Select:
        """Return a selection that joins aggregates over different sets, each in a subselection."""
        plan = self.plan
        nodes = list(plan.group)
        if not all(isinstance(item, NodeRef) for item in nodes):
            raise NotOneStatementError
        outer = _Select(_Block(), distinct=True)
        for item in nodes:
            outer.add(name := self.expression(outer.block, item), name)
            self.columns[item] = name
        for refs in dict.fromkeys(tuple(refs_of(aggregate)) for aggregate in aggregates):
            mine = [aggregate for aggregate in aggregates if tuple(refs_of(aggregate)) == refs]
            select = _Select(self._group_pattern())
            self._project(select, nodes)
            self.values = {}
            for one in self._once(select, mine):
                self._aggregate(select, one)
                outer.add(self.columns[one], self.columns[one])
                outer.open |= select.open
            outer.block.lines += ["{", *_indented(select.lines()), "}"]
        self._project(outer, [item for item in keys if item not in nodes], rows=False)
        for group in plan.having:
            outer.block.lines.append(f"FILTER({self._holds(self.columns[group.left], group)})")
        return outer

    def _holds(self, text: str, one: Comparison) -> str:
        """Return the condition of a comparison on groups; ``text``: the aggregate's expression."""
        if "missing" in one.operator:
            raise NotOneStatementError
        test = self._test(_Block(), text, one, self.index.kind(self.plan, one.left))
        return f"!({test})" if one.negated else test

    # -- order -------------------------------------------------------------------------------

    def _order(self, select: _Select) -> list[str]:
        """Return the ORDER BY expressions: the plan's order, then the output for a stable order."""
        texts = []
        for sort, name in zip(self.plan.order, self.sorts, strict=True):
            text = name or self._name(sort.by)
            if name in select.open:
                texts.append(f"(!BOUND({name}))")
            texts.append(f"DESC({text})" if sort.descending else text)
        for item in self.plan.give:
            if isinstance(item, NodeRef):
                texts += [self._name(item), self.nodes[item.node]]
            elif item in self.columns:
                name = self.columns[item]
                texts += [f"(!BOUND({name}))"] if name in select.open else []
                texts += [] if f"DESC({name})" in texts else [name]
        return list(dict.fromkeys(texts))

    def _name(self, item: Any) -> str:
        """Return the expression that a node is sorted by: its name, or its id."""
        node = self.nodes[item.node]
        prefix = self.writer.record.prefix
        id_ = f"STRAFTER(STR({node}), {literal(prefix)})" if prefix else f"STR({node})"
        # Virtuoso has no variable of an aggregate inside an expression: the aggregate itself
        return f"COALESCE({self.named[item]}, {id_})" if item in self.named else id_

    def _with_names(self, select: _Select, named: Sequence[NodeRef]) -> list[str]:
        """Return the lines of a selection extended by the names of nodes."""
        lines = ["{", *_indented(select.lines()), "}"]
        texts = []
        for item in named:
            node = self.nodes[item.node]
            ranked = self.writer.variable("ranked name")
            self.names[item] = self.writer.variable(f"{node[1:]} name")
            lines += self._ranked(node, ranked)
            start = 2 + (len(self.writer.record.labels) > 1)
            self.named[item] = f"SUBSTR(MIN({ranked}), {start})"
            texts.append(f"({self.named[item]} AS {self.names[item]})")
        keys = " ".join(select.texts)
        return [
            f"SELECT {keys} {' '.join(texts)}",
            "WHERE {",
            *_indented(lines),
            "}",
            f"GROUP BY {keys}",
        ]

    def _ranked(self, node: str, ranked: str) -> list[str]:
        """Return the pattern that binds a node's names with their preference."""
        record = self.writer.record
        labels = record.labels[:_MOST_LABELS]
        label = self.writer.variable("label")
        tag = f"LANG({label})"
        other = f'IF({tag} = "", "3", IF({tag} = "mul", "2", "1"))'
        texts = [f'IF(LCASE({tag}) = {literal(record.language.lower())}, "0", {other})']
        lines = [f"{node} {self.writer.term(labels[0])} {label}"]
        if len(labels) > 1:
            property_, rank = self.writer.variable("property"), self.writer.variable("rank")
            pairs = " ".join(f'({self.writer.term(one)} "{at}")' for at, one in enumerate(labels))
            lines = [
                f"VALUES ({property_} {rank}) {{ {pairs} }}",
                f"{node} {property_} {label}",
            ]
            texts.append(rank)
        lines.append(f"FILTER(isLiteral({label}) && {wanted_language(label, record.language)})")
        lines.append(f"BIND(CONCAT({', '.join(texts)}, STR({label})) AS {ranked})")
        return ["OPTIONAL {", *_indented(lines), "}"]


@dataclass(slots=True)
class _Select:
    """A SELECT: an expression for each variable; ``open``: variables that may be unbound."""

    block: _Block
    distinct: bool = False
    texts: dict[str, str] = field(default_factory=dict)
    aggregates: set[str] = field(default_factory=set)
    having: list[str] = field(default_factory=list)
    open: set[str] = field(default_factory=set)

    def add(self, name: str, text: str, *, aggregate: bool = False) -> None:
        """Add a variable with its expression to the SELECT."""
        self.texts[name] = text
        if aggregate:
            self.aggregates.add(name)

    def lines(self) -> list[str]:
        """Return the lines of the SELECT."""
        grouped = bool(self.aggregates)
        keys = {name: text for name, text in self.texts.items() if name not in self.aggregates}
        chosen = [
            name if name == text or (grouped and name in keys) else f"({text} AS {name})"
            for name, text in self.texts.items()
        ]
        lines = [
            f"SELECT {'' if grouped else 'DISTINCT '}{' '.join(chosen)}",
            "WHERE {",
            *_indented(self.block.lines),
            "}",
        ]
        if grouped and keys:
            by = (name if name == text else f"({text} AS {name})" for name, text in keys.items())
            lines.append(f"GROUP BY {' '.join(by)}")
        if self.having:
            lines.append(f"HAVING({' && '.join(f'({one})' for one in self.having)})")
        return lines


def _names(one: Comparison) -> bool:
    """Return whether a comparison is with the name or id of a node."""
    return isinstance(one.left, NodeRef) and one.operator in ("=", "in")


def _indented(lines: Sequence[str]) -> list[str]:
    """Return lines indented by two spaces."""
    return [f"  {line}" for line in lines]


def _called_like(item: object) -> str:
    """Return the name for an item's variable."""
    if isinstance(item, PropertyRef):
        return item.part if item.part and item.part != "size" else item.name
    return "value"


def _is_there(text: str) -> str:
    """Return the condition that an expression is bound."""
    match = re.fullmatch(r"(?:STR\()?(\?\w+)\)?", text)
    return f"BOUND({match[1]})" if match else f"COALESCE({text} = {text}, false)"


def _part(text: str, part: str, cast: str) -> str:
    """Return the expression for a date's part or a text's length; ``text`` itself for "".

    ``cast``: to an integer.
    """
    if not part:
        return text
    if part == "size":
        return f"STRLEN({text})"
    start, length = DATE_PARTS[part]
    form = literal({0: "^[0-9]{4}", 5: "^[0-9-]{5}[0-9]{2}", 8: "^[0-9-]{8}[0-9]{2}"}[start])
    digits = f'{cast}(IF(REGEX({text}, {form}), SUBSTR({text}, {start + 1}, {length}), ""))'
    return f"{cast}(FLOOR(({digits} + 2) / 3))" if part == "quarter" else digits


def _value(value: Value) -> str:
    """Return a value as a SPARQL literal."""
    if isinstance(value, bool):
        return str(value).lower()
    return literal(value) if isinstance(value, str) else repr(value)


def _in_interval(text: str, operator: str, span: str) -> str:
    """Return the SPARQL condition that a date compares with an interval, such as a year."""
    if "T" in span or span[:1] == "-":
        raise NotOneStatementError  # by a clock, or before year 1: not compared as texts
    start, end = map(literal, interval_texts(span))
    match operator:
        case "<" | ">=":
            return f"{text} {operator} {start}"
        case "<=":
            return f"{text} < {end}"
        case ">":
            return f"{text} >= {end}"
    return f"{text} >= {start} && {text} < {end}"

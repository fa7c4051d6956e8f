"""Plans as the KG-LLM learns to write them, of Cypher that others wrote and of made schemas.

What one chain of hops cannot say, or names what the schema lacks, is left out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kgqa.errors import PlanError
from kgqa.graph.schema import EntityType, GraphSchema, Property, RelationPattern
from kgqa.linking.literals import stated
from kgqa.methods.query_writer import plan_literals
from kgqa.paths.words import relation_phrase
from kgqa.queries.plan import (
    Aggregate,
    Comparison,
    Hop,
    HopRef,
    NodeRef,
    Plan,
    PropertyRef,
    Sort,
    Without,
    default_group,
)
from planner.examples import Words, stem
from planner.gold import CypherReader, schema_relations, split_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from random import Random

    from kgqa.queries.language import PlanLanguage, PlanLiterals
    from planner.gold import PlanGold

_TYPES = {"INTEGER": "integer", "FLOAT": "float", "DATE": "date", "DATE_TIME": "datetime",
          "BOOLEAN": "boolean", "POINT": "point"}  # fmt: skip
_KINDS = {"number": "float", "date": "date", "yes or no": "boolean"}
_AGGREGATES = {"count": "count", "sum": "sum", "avg": "average", "min": "least", "max": "most"}
_CALL = re.compile(r"(count|sum|avg|min|max)\s*\(\s*(?:DISTINCT\s+)?([\w.*`]+)\s*\)", re.I)
_COUNTED = re.compile(r"(?:count|size)\s*[({]\s*(.*?)\s*[)}]\s*", re.I)
_COMPARED = re.compile(
    r"(.+?)\s*(<>|<=|>=|=|<|>|\bCONTAINS\b|\bSTARTS_WITH\b|\bENDS_WITH\b)\s*(.+)", re.I
)
_WRAPPED = re.compile(
    r"\b(?:toLower|toUpper|date|datetime|trim|toInteger|toFloat)\s*\(([^()]*)\)", re.I
)
_WORDED = {"contains": "contains", "starts_with": "starts with", "ends_with": "ends with"}
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_GIVEN, _HOPS = 3, 3
_ELSEWHERE = 0.25  # part of the values that another property has, too


def plan_of(cypher: str, relations: Iterable[tuple[str, str, str]]) -> Plan | None:
    """Return a query as a plan of one chain; None if it is not one."""
    try:
        return _Writer(cypher, list(relations)).plan()
    except (KeyError, ValueError, IndexError, PlanError, StopIteration):
        return None


class _Writer(CypherReader):
    """Reads a query, and puts its chain, conditions, groups and order together as a plan."""

    def __init__(self, cypher: str, relations: list[tuple[str, str, str]]) -> None:
        number = iter(range(99))
        named = re.sub(r"(?<![\w`])\(\s*(?=[:)])", lambda _: f"(x{next(number)}", cypher)
        super().__init__(re.sub(r"-\[\s*(?=:)", lambda _: f"-[y{next(number)}", named), relations)

    def plan(self) -> Plan:
        if re.search(r"\b(OR|XOR|CASE|OPTIONAL)\b|collect\s*\(|LIMIT.*MATCH", self._text, re.I):
            raise ValueError
        if self.read() is None:
            raise ValueError
        edges = self._chain()
        first = edges[0][0] if edges else next(iter(self._class))
        self._nodes = {first: 0}
        self._links: dict[str, int] = {}
        hops = []
        for at, (source, relation, target, inverse, name) in enumerate(edges):
            self._nodes[target] = len(self._nodes)
            self._links[name] = at
            hops.append(Hop(self._nodes[source], relation, self._nodes[target], inverse))
        parts = []
        for head, of, tail, name, denied in self._edges:
            if denied:
                inverse = head not in self._nodes
                source, target = (tail, head) if inverse else (head, tail)
                self._nodes[target] = len(self._nodes)
                (relation,) = {hop[1] for hop in self._hops((head, of, tail, name, denied))}
                parts.append(
                    Without((Hop(self._nodes[source], relation, self._nodes[target], inverse),))
                )
        classes = []
        for variable in self._nodes:
            (class_,) = self._class[variable]
            classes.append(class_)
        where = [
            self._inlined(place, text) for place, text in self._alias.items() if place[0] == "\0"
        ]
        order: list[Sort] = []
        give: list[Any] = []
        limit = None
        for clause, body in self._clauses():
            if clause == "WHERE":
                found = map(self._condition, re.split(r"\bAND\b", body, flags=re.I))
                where += [one for one in found if one]
            elif clause == "ORDER" and not order:
                words = split_list(body)[0].split()
                down = words[-1].upper().startswith("DESC")
                ends = words[-1].upper() in ("DESC", "ASC", "DESCENDING", "ASCENDING")
                text = " ".join(words[:-1] if ends else words)
                order = [Sort(self._item(text), down)]
            elif clause == "LIMIT":
                limit = int(body.strip())
            elif clause == "RETURN":
                give = list(dict.fromkeys(map(self._item, self._items(body))))[:_GIVEN]
        having = [one for one in where if isinstance(one.left, Aggregate)]
        plain = [one for one in where if one not in having]
        return Plan(
            tuple(classes), tuple(hops), tuple(dict.fromkeys([*plain, *having])), tuple(parts),
            default_group(give, order, having), tuple(order), limit, tuple(give),
        )  # fmt: skip

    def _chain(self) -> list[tuple[str, str, str, bool, str]]:
        """Return the edges in turn, each (source, relation, target, inverse, name)."""
        left: list[tuple[str, str, str, str]] = []
        for edge in self._edges:
            head, _, tail, name, denied = edge
            found = {hop[1] for hop in self._hops(edge)}
            if denied or not found:
                continue
            if any(one[3] == name for one in left):  # of an undirected one the first that fits
                continue
            (relation,) = found
            left.append((head, relation, tail, name))
        if len(left) > _HOPS or (not left and len(self._class) != 1):
            raise ValueError
        ends = [one for edge in left for one in (edge[0], edge[2])]
        once = [one for one in dict.fromkeys(ends) if ends.count(one) == 1]
        if left and (len(once) != 2 or len(set(ends)) != len(left) + 1):
            raise ValueError
        if not left:
            return []
        given = self._answer_variable()
        at = given if given in once else once[0]
        chain = []
        while left:
            edge = next(one for one in left if at in (one[0], one[2]))
            left.remove(edge)
            head, relation, tail, name = edge
            inverse = at == tail
            chain.append((at, relation, head if inverse else tail, inverse, name))
            at = chain[-1][2]
        return chain

    def _answer_variable(self) -> str:
        body = next(body for clause, body in self._clauses() if clause == "RETURN")
        return next((one for one in re.findall(r"\w+", body) if one in self._class), "")

    def _item(self, text: str) -> Any:
        text = self._resolved(text).strip()
        if match := _CALL.fullmatch(text):
            kind, inner = _AGGREGATES[match[1].lower()], match[2]  # type: ignore[index]
            return Aggregate(kind, self._last() if inner == "*" else self._operand(inner))  # type: ignore[arg-type]
        if (match := _COUNTED.fullmatch(text)) and "-" in match[1]:
            inside = [one for one in re.findall(r"\w+", match[1]) if one in self._class]
            return Aggregate("count", NodeRef(self._nodes[inside[-1]]))
        return self._operand(text)

    def _last(self) -> NodeRef:
        return NodeRef(max(self._nodes.values()))

    def _operand(self, text: str) -> Any:
        name, _, property_ = _WRAPPED.sub(r"\1", text).strip().partition(".")
        ref = NodeRef(self._nodes[name]) if name in self._nodes else HopRef(self._links[name])
        return PropertyRef(ref, property_.strip("`")) if property_ else ref

    def _condition(self, text: str) -> Comparison | None:
        text = _WRAPPED.sub(r"\1", _WRAPPED.sub(r"\1", text)).strip()
        denied = re.match(r"NOT\b(?!.*-)", text, re.I)
        text = re.sub(r"^NOT\s+", "", text, flags=re.I) if denied else text
        if re.search(r"IS\s+NOT\s+NULL", text, re.I) or "-" in text.split("'")[0].split('"')[0]:
            counted = re.match(r"((?:count|size)\s*[({].*[)}])\s*([<>=]+)\s*(\d+)", text, re.I)
            if counted:
                return Comparison(self._item(counted[1]), counted[2], (int(counted[3]),))  # type: ignore[arg-type]
            return None  # that it is there, or a pattern
        if match := re.fullmatch(r"(\S+)\s+IS\s+NULL", text, re.I):
            return Comparison(self._operand(match[1]), "missing")
        match = _COMPARED.fullmatch(text)
        if match is None:
            raise ValueError
        left, operator, right = match[1], match[2].lower(), match[3]
        if re.fullmatch(r"[\d.]+", left.strip()):
            left, operator, right = right, _FLIPPED.get(operator, operator), left
        operator = _WORDED.get(operator, operator)
        if denied:
            operator = {"=": "<>"}.get(operator, f"not {operator}")
        value = _literal(right)
        item = self._item(left)
        if isinstance(item, HopRef):
            raise ValueError
        return Comparison(item, operator, (value,))  # type: ignore[arg-type]

    def _inlined(self, place: str, text: str) -> Comparison:
        name, _, property_ = place[1:].partition(".")
        return Comparison(
            self._operand(f"{name}.{property_}"), "=", (_literal(text.partition(":")[2]),)
        )


def _literal(text: str) -> str | int | float | bool:
    text = text.strip()
    if match := re.fullmatch(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", text):
        return next(one for one in match.groups() if one is not None).replace("\\", "")
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return float(text)


def schema_of(schema: Mapping[str, Any]) -> GraphSchema:
    """Return a schema of ``schemas.json``."""

    def properties(owner: str, owners: Mapping[str, Any]) -> tuple[Property, ...]:
        return tuple(
            Property(one["property"], _TYPES.get(one.get("type", ""), "text"),  # type: ignore[arg-type]
                     many=one.get("type") == "LIST")
            for one in owners.get(owner, ())
        )  # fmt: skip

    types = tuple(
        EntityType(name, 100, properties(name, schema["node_props"]))
        for name in sorted(schema["node_props"])
    )
    relations = tuple(
        RelationPattern(type_, head, tail, 100, properties(type_, schema.get("rel_props") or {}))
        for head, type_, tail in schema_relations(schema)
    )
    return GraphSchema(types, relations)


def renamed_schema(schema: GraphSchema, name: Mapping[str, str]) -> GraphSchema:
    """Return a schema with other names."""

    def others(properties: Sequence[Property]) -> tuple[Property, ...]:
        return tuple(replace(one, name=name.get(one.name, one.name)) for one in properties)

    return GraphSchema(
        tuple(
            replace(one, name=name[one.name], properties=others(one.properties))
            for one in schema.types
        ),
        tuple(
            replace(one, relation=name[one.relation], head=name[one.head], tail=name[one.tail],
                    properties=others(one.properties))
            for one in schema.relations
        ),
    )  # fmt: skip


def renamed_plan(plan: Plan, name: Mapping[str, str]) -> Plan:
    """Return a plan with other names of classes, relations and properties."""

    def item(one: Any) -> Any:
        if isinstance(one, PropertyRef):
            return replace(one, name=name.get(one.name, one.name))
        if isinstance(one, Aggregate):
            return replace(one, of=item(one.of))
        if isinstance(one, Comparison):
            return replace(one, left=item(one.left))
        if isinstance(one, Sort):
            return replace(one, by=item(one.by))
        if isinstance(one, Hop):
            return replace(one, relation=name[one.relation])
        if isinstance(one, Without):
            return Without(tuple(map(item, one.hops)))
        return one

    parts = {
        part: tuple(map(item, getattr(plan, part)))
        for part in ("hops", "where", "without", "group", "order", "give")
    }
    return replace(plan, nodes=tuple(name[one] for one in plan.nodes), **parts)


def exchanged(
    schema: GraphSchema, nouns: Sequence[str], random: Random
) -> tuple[dict[str, str], Words]:
    """Return other names for a schema's, in their style, and the words to exchange."""
    names = {one.name for one in schema.types} | {one.relation for one in schema.relations}
    names |= {one.name for kind in (*schema.types, *schema.relations) for one in kind.properties}
    words = sorted({word for name in names for word in relation_phrase(name).split()})
    renamed = {
        stem(word): random.choice(nouns)
        for word in words
        if len(word) > 3 and random.random() < 0.5
    }

    def other(match: re.Match[str]) -> str:
        word = match.group()
        new = renamed.get(stem(word), word.lower()).replace(" ", "_")
        return new.upper() if word.isupper() else new.title() if word[0].isupper() else new

    pieces = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
    found: dict[str, str] = {}
    for name in sorted(names):
        new = pieces.sub(other, name)
        found[name] = name if new in found.values() or new in names else new
    return found, Words({}, renamed)


def literals_of(question: str, plan: Plan, schema: GraphSchema, random: Random) -> PlanLiterals:
    """Return what ``question`` states, as a graph that has the plan's values would find it.

    Now and then another property has the same value.
    """
    texts: dict[tuple[str, str], tuple[str, ...]] = {}
    for one in plan.where:
        right = one.right if isinstance(one.right, tuple) and one.operator in ("=", "<>") else ()
        for value in right:
            if isinstance(value, str) and value.lower() in question.lower():
                texts[_owned(plan, one.left)] = (value,)
                type_ = random.choice(schema.types)
                others = [one.name for one in type_.properties if one.type == "text"]
                if others and random.random() < _ELSEWHERE:
                    texts.setdefault((type_.name, random.choice(others)), (value,))
    order = random.sample(sorted(texts), len(texts))
    return plan_literals(stated(question), {owned: texts[owned] for owned in order})


def _owned(plan: Plan, item: Any) -> tuple[str, str]:
    if isinstance(item, PropertyRef):
        if isinstance(item.owner, NodeRef):
            return plan.nodes[item.owner.node], item.name
        return plan.all_hops[item.owner.hop].relation, item.name
    return plan.nodes[item.node], ""


def made_schema(
    kinds: Mapping[tuple[str, str], str], hops: Iterable[tuple[str, str, str]]
) -> GraphSchema:
    """Return the schema of an invented domain, its entities known by their names."""
    hops = list(hops)
    classes = sorted({one for one, _ in kinds} | {end for hop in hops for end in (hop[0], hop[2])})
    return GraphSchema(
        tuple(
            EntityType(name, 100, tuple(
                Property(property_, _KINDS.get(kind, "text"))  # type: ignore[arg-type]
                for (owner, property_), kind in kinds.items() if owner == name
            ))
            for name in classes
        ),
        tuple(RelationPattern(relation, head, tail, 100) for head, relation, tail in hops),
    )  # fmt: skip


def made_plan(question: str, gold: PlanGold) -> Plan | None:
    """Return the plan of a question made over an invented domain, or of people's about one."""
    try:
        return _made_plan(question, gold)
    except (KeyError, ValueError, StopIteration, PlanError):
        return None


def _made_plan(question: str, gold: PlanGold) -> Plan:
    (answer,) = gold.answer
    read = stated(question)
    hops: list[Hop] = []
    nodes, at = [answer], answer
    left = dict(gold.hops)
    parts: tuple[Without, ...] = ()
    while left:
        hop = next(one for one in left if at in (one[0], one[2]))
        del left[hop]
        inverse = hop[2] == at and (hop[0] != at or gold.hops[hop])
        at = hop[0] if inverse else hop[2]
        nodes.append(at)
        hops.append(Hop(len(nodes) - 2, hop[1], len(nodes) - 1, inverse))
    if gold.without:
        parts, hops = (Without(tuple(hops)),), []

    def place(class_: str) -> NodeRef:
        return NodeRef(len(nodes) - 1 - nodes[::-1].index(class_))

    numbers = [one for one in read.literals if isinstance(one.value, int | float)]
    where: list[Comparison] = []
    for (owner, name), value in gold.conditions.items():
        ref = PropertyRef(place(owner), name)
        if value:
            where.append(Comparison(ref, "=", (value,)))
        else:
            where += [Comparison(ref, one.operator, (one.value,)) for one in numbers]  # type: ignore[arg-type]
            if not numbers:
                raise ValueError
    of: Any = None
    if gold.counted:
        (counted,) = gold.counted
        of = Aggregate("count", place(counted))
    elif gold.aggregated:
        ((owner, name),) = gold.aggregated
        of = Aggregate(_AGGREGATES[gold.aggregate], PropertyRef(place(owner), name))  # type: ignore[arg-type]
    give: list[Any] = [NodeRef(0)]
    order: list[Sort] = []
    down = gold.direction == "desc"
    if gold.having:
        operator, value = (numbers[0].operator, numbers[0].value) if numbers else (">", 1)
        where.append(Comparison(of, operator, (value,)))  # type: ignore[arg-type]
    elif gold.aggregate == "group":
        give.append(of)
        order = [Sort(of, down)] if gold.direction != "none" else []
    elif of is not None:
        rest = [one for one in nodes[1:] if len(nodes) > 1 and gold.aggregate == "avg"]
        give = [place(rest[-1]), of] if rest and not gold.conditions else [of]
    if gold.order:
        ((owner, name),) = gold.order
        order = [Sort(PropertyRef(place(owner), name), down)]
    if gold.given:
        ((owner, name),) = gold.given
        give = ([] if gold.conditions else give) + [PropertyRef(place(owner), name)]
    limit = None
    if gold.limit:
        limit = read.limit or next((int(one.value) for one in numbers), 1)
    having = [one for one in where if isinstance(one.left, Aggregate)]
    return Plan(
        tuple(nodes), tuple(hops), tuple(where), parts, default_group(give, order, having),
        tuple(order), limit, tuple(give),
    )  # fmt: skip


def parts_of(plan: Plan) -> set[object]:
    """Return what a plan names of a schema, as :func:`kgqa.methods.query_writer.nearest` has it."""
    found: set[object] = {one for one in plan.nodes if one}
    for hop in plan.all_hops:
        head, tail = plan.nodes[hop.source], plan.nodes[hop.target]
        found.add((tail, hop.relation, head) if hop.inverse else (head, hop.relation, tail))
    items = [*plan.items(), *plan.group]
    for one in [*items, *(one.of for one in items if isinstance(one, Aggregate))]:
        if isinstance(one, PropertyRef):
            found.add(_owned(plan, one))
    return found


def written(language: PlanLanguage, text: str) -> list[str] | None:
    """Return the options that write a plan's text; None if it is not in the language."""
    state, taken = language.start(), []
    while not language.is_end(state):
        rest = text[len(state.text) :]
        fit = [
            (option, after)
            for option, after in language.options(state)
            if rest.startswith(option) and (option or not rest)
        ]
        if not fit:
            return None
        option, state = max(fit, key=lambda one: len(one[0]))
        taken.append(option)
    return taken[:-1]

"""What the KG-LLM learns plans from: Cypher that others wrote, and made questions over schemas.

What one chain of hops cannot say, or names what the schema lacks, is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kgqa.errors import PlanError
from kgqa.linking.literals import stated
from kgqa.methods.query_words import stem
from kgqa.methods.query_writer import plan_literals
from kgqa.paths.words import relation_phrase
from kgqa.queries.plan import (
    KEYWORDS,
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
from scripts.planner.examples import GENERIC
from scripts.planner.gold import CypherReader, split_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

    from kgqa.graph.schema import GraphSchema
    from kgqa.queries.language import Owned, PlanLanguage, PlanLiterals
    from scripts.planner.gold import PlanGold

_AGGREGATES = {"count": "count", "sum": "sum", "avg": "average", "min": "least", "max": "most"}
_CALL = re.compile(r"(count|sum|avg|min|max)\s*\(\s*(?:DISTINCT\s+)?([\w.*`]+)\s*\)", re.I)
_COUNTED = re.compile(r"(?:count|size)\s*[({]\s*(.*?)\s*[)}]\s*", re.I)
_COMPARED = re.compile(
    r"(.+?)\s*(<>|<=|>=|=|<|>|\bCONTAINS\b|\bSTARTS_WITH\b|\bENDS_WITH\b)\s*(.+)", re.I
)
_WRAPPED = re.compile(
    r"\b(?:toLower|toUpper|date|datetime|trim|toInteger|toFloat)\s*\(([^()]*)\)", re.I
)
_UNSAID = re.compile(r"\b(OR|XOR|CASE|OPTIONAL)\b|collect\s*\(|LIMIT.*MATCH", re.I)
_GIVEN, _HOPS = 3, 3
_ELSEWHERE = 0.25  # part of the values that another property has, too


def plan_of(cypher: str, relations: Iterable[tuple[str, str, str]]) -> Plan | None:
    """Return a query as a plan of one chain; None if it is not one."""
    number = iter(range(99))
    named = re.sub(r"(?<![\w`])\(\s*(?=[:)])", lambda _: f"(x{next(number)}", cypher)
    try:
        return _Writer(named, list(relations)).plan()
    except (KeyError, ValueError, IndexError, PlanError, StopIteration):
        return None


class _Writer(CypherReader):
    """Reads a query, and puts its chain, conditions, groups and order together as a plan."""

    def plan(self) -> Plan:
        if _UNSAID.search(self._text) or self.read() is None:
            raise ValueError
        edges = self._chain()
        self._nodes = {edges[0][0] if edges else next(iter(self._class)): 0}
        self._links = {edge[4]: at for at, edge in enumerate(edges)}
        hops = [self._hop(*edge[:4]) for edge in edges]
        parts = []
        for head, of, tail, name, denied in self._edges:
            if denied:
                (relation,) = {hop[1] for hop in self._hops((head, of, tail, name, denied))}
                if head in self._nodes:
                    hop = self._hop(head, relation, tail, False)
                else:
                    hop = self._hop(tail, relation, head, True)
                parts.append(Without((hop,)))
        where = [
            self._condition(f"{place[1:]} = {text.partition(':')[2].strip()}")
            for place, text in self._alias.items()
            if place[0] == "\0"
        ]
        order: list[Sort] = []
        give: list[Any] = []
        limit = None
        for clause, body in self._clauses():
            if clause == "WHERE":
                where += map(self._condition, re.split(r"\bAND\b", body, flags=re.I))
            elif clause == "ORDER" and not order:
                *words, last = split_list(body)[0].split()
                if last.upper() not in ("DESC", "ASC", "DESCENDING", "ASCENDING"):
                    words.append(last)
                order = [Sort(self._item(" ".join(words)), last.upper().startswith("DESC"))]
            elif clause == "LIMIT":
                limit = int(body.strip())
            elif clause == "RETURN":
                give = list(dict.fromkeys(map(self._item, self._items(body))))[:_GIVEN]
        classes = []
        for variable in self._nodes:
            (class_,) = self._class[variable]
            classes.append(class_)
        return _plan(classes, hops, where, parts, order, limit, give)

    def _hop(self, source: str, relation: str, target: str, inverse: bool) -> Hop:
        self._nodes[target] = len(self._nodes)
        return Hop(self._nodes[source], relation, self._nodes[target], inverse)

    def _chain(self) -> list[tuple[str, str, str, bool, str]]:
        """Return the edges in turn, each (source, relation, target, inverse, name)."""
        left: dict[str, tuple[str, str, str]] = {}
        for head, of, tail, name, denied in self._edges:
            known = {hop[1] for hop in self._hops((head, of, tail, name, denied))}
            if known and not denied and name not in left:  # undirected, it is there twice
                (relation,) = known
                left[name] = (head, relation, tail)
        ends = [end for edge in left.values() for end in (edge[0], edge[2])]
        once = [end for end in dict.fromkeys(ends) if ends.count(end) == 1]
        if left and (len(once) != 2 or len(set(ends)) != len(left) + 1):
            raise ValueError
        if len(left) > _HOPS or (not left and len(self._class) != 1):
            raise ValueError
        body = next(body for clause, body in self._clauses() if clause == "RETURN")
        given = next((word for word in re.findall(r"\w+", body) if word in self._class), "")
        at, chain = given if given in once else next(iter(once), ""), []
        while left:
            name = next(name for name, edge in left.items() if at in (edge[0], edge[2]))
            head, relation, tail = left.pop(name)
            inverse = at == tail
            chain.append((at, relation, head if inverse else tail, inverse, name))
            at = chain[-1][2]
        return chain

    def _item(self, text: str) -> Any:
        text = self._resolved(text).strip()
        if match := _CALL.fullmatch(text):
            of = NodeRef(max(self._nodes.values())) if match[2] == "*" else self._operand(match[2])
            return Aggregate(_AGGREGATES[match[1].lower()], of)  # type: ignore[arg-type]
        if (match := _COUNTED.fullmatch(text)) and "-" in match[1]:
            inside = [word for word in re.findall(r"\w+", match[1]) if word in self._class]
            return Aggregate("count", NodeRef(self._nodes[inside[-1]]))
        return self._operand(text)

    def _operand(self, text: str) -> Any:
        name, _, property_ = _WRAPPED.sub(r"\1", text).strip().partition(".")
        ref = NodeRef(self._nodes[name]) if name in self._nodes else HopRef(self._links[name])
        return PropertyRef(ref, property_.strip("`")) if property_ else ref

    def _condition(self, text: str) -> Comparison | None:
        text = _WRAPPED.sub(r"\1", text).strip()
        denied = re.match(r"NOT\b(?!.*-)", text, re.I)
        text = re.sub(r"^NOT\s+", "", text, flags=re.I) if denied else text
        if re.search(r"IS\s+NOT\s+NULL|^[^'\"]*-[-\[]", text, re.I):
            counted = re.match(r"((?:count|size)\s*[({].*[)}])\s*([<>=]+)\s*(\d+)", text, re.I)
            if counted:
                return Comparison(self._item(counted[1]), counted[2], (int(counted[3]),))  # type: ignore[arg-type]
            return None  # that it is there, or a pattern
        if match := re.fullmatch(r"(\S+)\s+IS\s+NULL", text, re.I):
            return Comparison(self._operand(match[1]), "missing")
        match = _COMPARED.fullmatch(text)
        if match is None:
            raise ValueError
        left, operator, right = match[1], match[2].lower().replace("_", " "), match[3]
        if denied:
            operator = {"=": "<>"}.get(operator, f"not {operator}")
        return Comparison(self._item(left), operator, (_literal(right),))  # type: ignore[arg-type]


def _plan(
    nodes: Sequence[str], hops: Sequence[Hop], where: Iterable[Comparison | None],
    without: Sequence[Without], order: Sequence[Sort], limit: int | None, give: Sequence[Any],
) -> Plan:  # fmt: skip
    every = [comparison for comparison in dict.fromkeys(where) if comparison]
    having = [comparison for comparison in every if isinstance(comparison.left, Aggregate)]
    return Plan(
        tuple(nodes), tuple(hops), tuple(sorted(every, key=having.__contains__)), tuple(without),
        default_group(give, order, having), tuple(order), limit, tuple(give),
    )  # fmt: skip


def _literal(text: str) -> str | int | float | bool:
    text = text.strip()
    if match := re.fullmatch(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", text):
        return next(group for group in match.groups() if group is not None).replace("\\", "")
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def renamed_words(random: Random, schema: GraphSchema, nouns: Sequence[str]) -> dict[str, str]:
    """Return nouns that words of a schema are exchanged for, by the words' stems."""
    names = {part.name for part in schema.types} | {part.relation for part in schema.relations}
    owners: list[Any] = [*schema.types, *schema.relations]
    names |= {property_.name for owner in owners for property_ in owner.properties}
    words = {stem(word) for name in names for word in relation_phrase(name).split()}
    words = {word for word in words if len(word) > 3} - GENERIC - KEYWORDS
    taken = [word for word in sorted(words) if random.random() < 0.5]
    return dict(zip(taken, random.sample(nouns, len(taken)), strict=True))


def literals_of(question: str, plan: Plan, schema: GraphSchema, random: Random) -> PlanLiterals:
    """Return what ``question`` states, as a graph that has the plan's values would find it.

    Now and then another property has the same value.
    """
    texts: dict[Owned, tuple[str, ...]] = {}
    for comparison in plan.where:
        right = (
            comparison.right
            if isinstance(comparison.right, tuple) and comparison.operator in ("=", "<>")
            else ()
        )
        for value in right:
            if isinstance(value, str) and value.lower() in question.lower():
                texts[_owned(plan, comparison.left)] = (value,)
                type_ = random.choice(schema.types)
                others = [
                    property_.name for property_ in type_.properties if property_.type == "text"
                ]
                if others and random.random() < _ELSEWHERE:
                    texts.setdefault((type_.name, random.choice(others)), (value,))
    order = random.sample(sorted(texts), len(texts))
    return plan_literals(stated(question), {owned: texts[owned] for owned in order})


def _owned(plan: Plan, item: Any) -> Owned:
    if isinstance(item, NodeRef):
        return plan.nodes[item.node], ""
    if isinstance(item.owner, NodeRef):
        return plan.nodes[item.owner.node], item.name
    return plan.all_hops[item.owner.hop].relation, item.name


def made_plan(question: str, gold: PlanGold) -> Plan | None:
    """Return the plan of a question made over an invented domain, or of people's about one."""
    try:
        return _made_plan(question, gold)
    except (KeyError, ValueError, StopIteration, PlanError):
        return None


def _made_plan(question: str, gold: PlanGold) -> Plan:
    (at,) = gold.answer
    read, nodes, left = stated(question), [at], dict(gold.hops)
    hops: list[Hop] = []
    while left:
        hop = next(hop for hop in left if at in (hop[0], hop[2]))
        inverse = hop[2] == at and (hop[0] != at or left[hop])
        del left[hop]
        at = hop[0] if inverse else hop[2]
        hops.append(Hop(len(nodes) - 1, hop[1], len(nodes), inverse))
        nodes.append(at)

    def place(class_: str) -> NodeRef:
        return NodeRef(len(nodes) - 1 - nodes[::-1].index(class_))

    def property_(owned: Iterable[Owned]) -> PropertyRef:
        ((owner, name),) = owned
        return PropertyRef(place(owner), name)

    numbers = [literal for literal in read.literals if isinstance(literal.value, int | float)]
    where: list[Comparison] = []
    for owned, value in gold.conditions.items():
        right = (
            [("=", value)] if value else [(literal.operator, literal.value) for literal in numbers]
        )
        if not right:
            raise ValueError
        where += [Comparison(property_([owned]), sign, (given,)) for sign, given in right]  # type: ignore[arg-type]
    of: Any = None
    if gold.counted:
        (counted,) = gold.counted
        of = Aggregate("count", place(counted))
    elif gold.aggregated:
        of = Aggregate(_AGGREGATES[gold.aggregate], property_(gold.aggregated))  # type: ignore[arg-type]
    give: list[Any] = [NodeRef(0)]
    order: list[Sort] = []
    down = gold.direction == "desc"
    if gold.having:
        sign, value_ = (numbers[0].operator, numbers[0].value) if numbers else (">", 1)
        where.append(Comparison(of, sign, (value_,)))  # type: ignore[arg-type]
    elif gold.aggregate == "group":
        give.append(of)
        order = [Sort(of, down)] if gold.direction != "none" else []
    elif of is not None:
        rest = gold.aggregate == "avg" and not gold.conditions and nodes[1:]
        give = [place(rest[-1]), of] if rest else [of]
    if gold.order:
        order = [Sort(property_(gold.order), down)]
    if gold.given:
        give = [*([] if gold.conditions else give), property_(gold.given)]
    limit = None
    if gold.limit:
        limit = read.limit or next((int(literal.value) for literal in numbers), 1)
    parts = (Without(tuple(hops)),) if gold.without else ()
    return _plan(nodes, () if parts else hops, where, parts, order, limit, give)


def parts_of(plan: Plan) -> set[object]:
    """Return what a plan names of a schema, as :func:`kgqa.methods.query_writer.nearest` has it."""
    parts: set[object] = {node for node in plan.nodes if node}
    for hop in plan.all_hops:
        head, tail = plan.nodes[hop.source], plan.nodes[hop.target]
        parts.add((tail, hop.relation, head) if hop.inverse else (head, hop.relation, tail))
    items = [*plan.items(), *plan.group]
    inside = [item.of for item in items if isinstance(item, Aggregate)]
    parts |= {_owned(plan, item) for item in [*items, *inside] if isinstance(item, PropertyRef)}
    return parts


def written(language: PlanLanguage, text: str) -> list[str] | None:
    """Return the options that write a plan's text; None if it is not in the language."""
    state, taken = language.start(), []
    while not language.is_end(state):
        rest = text[len(state.text) :]
        fit = [
            option
            for option in language.options(state)
            if rest.startswith(option[0]) and (option[0] or not rest)
        ]
        if not fit:
            return None
        option, state = max(fit, key=lambda option: len(option[0]))
        taken.append(option)
    return taken[:-1]

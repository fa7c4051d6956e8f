"""The parser of plans from their text form.

The grammar, in which names are those of the schema:

    plan    = [plan "| then"] pattern {"|" clause}
    pattern = chain {"&" chain}                     a chain after the first starts at a known node
    chain   = node {hop node}
    hop     = relation ">"  |  "<" relation         with "*" after the name: one or more times over
            | "<" relation ">"                      one way or the other
    node    = class ["#" number]  |  "*"            of any class
    clause  = item operator value {"," value}       operators: see kgqa.queries.plan
            | item operator operand                 two properties compared
            | item operator "average" node "." property   that of all of the class
            | item ["not"] "missing"
            | item "missing or" ("<=" | ">" | ">=") value
            | node ("is a" | "is no") class         of that class, too, or not
            | "without" chain {"&" chain} ["where" clause {"and" clause}]
            | "by" operand {"," operand}
            | ("asc" | "desc") item
            | ("skip" | "limit") number             rows left out at the beginning, rows given
            | "give" item {"," item}
    item    = operand | aggregate operand           count, sum, average, least, most
    operand = node | relation | owner "." property | part owner "." property
            | operand ("+" | "-" | "*" | "/") operand | "(" operand ")" | number

``part``: size, year, quarter, month, day. A name with other characters than letters, digits and
``_ / : -``, and one that is a word of the grammar, stands in brackets, ``]`` in it doubled. A value
is a number, ``true``, ``false``, or text in double or single quotes, with JSON's escapes. A class
that comes again in the first chain is another node (``#2``); in later ones it is the same node.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, cast

from kgqa.display import visible
from kgqa.errors import PlanError
from kgqa.queries.plan import (
    AGGREGATES,
    ANY,
    CLAUSES,
    KEYWORDS,
    NAME,
    OPERATORS,
    PARTS,
    Aggregate,
    Arithmetic,
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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kgqa.graph.schema import Value
    from kgqa.queries.plan import AggregateKind, Item, Operand, Operator, Part, Sign

_BRACKETS = r"\[(?:[^\]]|\]\])+\]"
_TOKEN = re.compile(
    rf"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
  | (?P<either><(?P<either_name>{NAME}|{_BRACKETS})>)
  | (?P<back><(?P<back_name>{NAME}|{_BRACKETS})\*?)
  | (?P<on>(?<!\.)(?P<on_name>{NAME}|{_BRACKETS})(?:\#\d+)?\*?>(?![=\d"'-]))
  | (?P<name>(?:{NAME}|{_BRACKETS})(?:\#\d+)?|\*\#\d+)
  | (?P<sign><>|<=|>=|[-=<>|&.,()+*/])
    )""",
    re.VERBOSE | re.DOTALL,
)
_DEEPEST = 50  # parentheses in parentheses


@dataclass(frozen=True, slots=True)
class _Token:
    """A token of a plan's text, with its kind and position."""

    kind: str  # string, number, either, back, on, name, sign, end
    text: str
    start: int


_OTHER_LANGUAGES = ("MATCH", "SELECT", "RETURN", "WITH", "CALL", "OPTIONAL")


def parse_plan(text: str) -> Plan:
    """Parse ``text`` as a plan. Raises PlanError with the place of the error."""
    first = text.split(maxsplit=1)[:1]
    if first and (first[0] in _OTHER_LANGUAGES or first[0] in (*AGGREGATES, "give")):
        raise PlanError(
            f"A plan starts with a class, not with {first[0]!r}.",
            "For instance: Book | desc Book.price | limit 3 | give Book, Book.price. "
            f"A class called {first[0]} is written [{first[0]}].",
        )
    return _Parser(text).plan()


def _tokens(text: str) -> list[_Token]:
    """Split a plan's text into tokens. Raises PlanError."""
    tokens, at, text = [], 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise PlanError(
                f"The plan cannot be read at {visible(text[at : at + 30].strip())!r}.",
                "A name with other characters than letters and digits stands in brackets: "
                "[order details]; text stands in quotes.",
            )
        kind = cast("str", found.lastgroup)
        kind = kind.removesuffix("_name")
        tokens.append(_Token(kind, found[kind], found.start(kind)))
        at = found.end()
    return [*tokens, _Token("end", "", at)]


def _name(text: str) -> str:
    """Return a name without its brackets."""
    return text[1:-1].replace("]]", "]") if text.startswith("[") else text


class _Parser:
    """A recursive-descent parser of one plan."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0

    def plan(self) -> Plan:
        """Parse the whole text as a plan, with all plans before ``then``. Raises PlanError."""
        first: Plan | None = None
        while True:
            self._nodes: list[str] = []
            self._hops: list[Hop] = []
            start = None
            if first is not None:
                start = first.nodes[cast("NodeRef", first.give[0]).node]
            self._chain(first=True, start=start)
            while self._take("&"):
                self._chain()
            plan = self._clauses(first)
            if not self._then:
                return plan
            first = plan

    def _clauses(self, first: Plan | None) -> Plan:
        """Parse the clauses after a pattern; return the plan of pattern and clauses.

        ``first``: the plan before `then`, None if there is none.
        """
        hops = tuple(self._hops)
        where: list[Comparison] = []
        without: list[Without] = []
        group: list[Operand] | None = None
        order: list[Sort] = []
        skip, limit = 0, None
        give: list[Item] = []
        self._then = False
        while self._take("|"):
            word = self._keyword(*CLAUSES)
            if word == "then":
                if give:
                    self._fail("`give` comes after `then`")
                give, self._then = [self._peek_node()], True
                break
            if word == "without":
                without.append(self._without())
            elif word == "by":
                group = [*(group or []), *(self._operand() for _ in self._list())]
            elif word in ("asc", "desc"):
                order.append(Sort(self._item(), word == "desc"))
            elif word == "skip":
                skip = self._whole("skip")
            elif word == "limit":
                limit = self._whole("limit")
            elif word == "give":
                give += [self._item() for _ in self._list()]
            else:
                where.append(self._comparison())
        if not self._then and self._token.kind != "end":
            self._fail("expected `|` and a further clause")
        given = tuple(give) or (NodeRef(0),)
        having = [one for one in where if isinstance(one.left, Aggregate)]
        return Plan(
            nodes=tuple(self._nodes),
            hops=hops,
            where=tuple(where),
            without=tuple(without),
            group=default_group(given, order, having) if group is None else tuple(group),
            order=tuple(order),
            limit=limit,
            give=given,
            first=first,
            skip=skip,
        )

    def _chain(self, *, first: bool = False, start: str | None = None) -> int:
        """Parse a chain of hops, add its nodes and hops, and return its start node.

        ``first``: it is the pattern's first chain; ``start``: the class that the plan before `then`
        gives, None for the first plan.
        """
        if first:
            name, number = self._class()
            if start is not None and name != start:
                self._fail(f"expected the class {start}")
            if number not in (None, 1) and start is None:
                self._fail("the first node has no number")
            self._nodes.append(name)
            source = 0
        else:
            source = self._node(self._class(), new=False)
        begin = source
        while self._token.kind in ("either", "back", "on"):
            token = self._next()
            inverse, either = token.kind == "back", token.kind == "either"
            text = token.text[inverse or either : None if inverse else -1]
            relation = _name(text.removesuffix("*"))
            target = self._node(self._class(), new=first)
            repeated = text.endswith("*")
            self._hops.append(Hop(source, relation, target, inverse, repeated, either))
            source = target
        return begin

    def _node(self, node: tuple[str, int | None], *, new: bool) -> int:
        """Return the number of a node given as (class, number in class, from 1).

        ``new``: without a number it is a new node, otherwise the first of its class. A missing node
        is added.
        """
        name, number = node
        there = [index for index, known in enumerate(self._nodes) if known == name]
        if number is None:
            number = len(there) + 1 if new else 1
        if number <= len(there):
            return there[number - 1]
        if number > len(there) + 1:
            self._fail(f"{name or ANY}#{number - 1} is missing before {name or ANY}#{number}")
        self._nodes.append(name)
        return len(self._nodes) - 1

    def _class(self) -> tuple[str, int | None]:
        """Parse a class and the number after ``#``; "" for ``*``, any class; None for no number."""
        token = self._next()
        if token.text == ANY:
            return "", None
        if token.kind != "name":
            self._fail("expected a class", token)
        return self._reference(token.text)

    def _reference(self, text: str) -> tuple[str, int | None]:
        """Split a name into the name and the number after ``#``, None if it has none."""
        found = re.fullmatch(r"(.*?)(?:#(\d{1,4}))?", text, re.DOTALL)
        if found is None or (found[1].casefold() in KEYWORDS) or found[2] == "0":
            self._fail("expected a name", hint=f"`{text}` as a name is written [{text}].")
        return "" if found[1] == ANY else _name(found[1]), int(found[2]) if found[2] else None

    def _peek_node(self) -> NodeRef:
        """Return the node that the chain after `then` starts with, without consuming it."""
        at = self._at
        owner = self._owner()
        if not isinstance(owner, NodeRef):
            self._fail("expected a class after `then`")
        self._at = at
        return owner

    def _without(self) -> Without:
        """Parse a ``without`` clause: hops, and their conditions."""
        start, nodes = len(self._hops), len(self._nodes)
        while True:
            token = self._token
            if self._chain() >= nodes:
                self._fail("what a plan is to be without starts at a node of its pattern", token)
            if not self._take("&"):
                break
        where = []
        if self._keyword("where"):
            where.append(self._comparison())
            while self._keyword("and"):
                where.append(self._comparison())
        return Without(tuple(self._hops[start:]), tuple(where))

    def _comparison(self) -> Comparison:
        """Parse a comparison: operand, operator, and a value, several after "in", or an operand."""
        left = self._item()
        start = self._token
        negated = bool(self._keyword("not"))
        if isinstance(left, NodeRef) and self._token.text.casefold() == "is":
            self._next()
            return self._membership(left)
        if word := self._keyword("missing", "contains", "starts", "ends", "in"):
            if word in ("starts", "ends") and not self._keyword("with"):
                self._fail(f"expected `with` after `{word}`")
            operator = "not " * negated + word + (" with" if word in ("starts", "ends") else "")
            if word == "missing" and self._token.text.casefold() == "or":
                self._next()
                operator += f" or {self._next().text}"
        else:
            operator = self._next().text
        if operator not in OPERATORS:
            hint = "Operators: " + ", ".join(OPERATORS)
            if isinstance(left, Aggregate):
                hint = "To give a number: `| give " + self._text[: start.start][-40:].strip() + "`."
            self._fail("expected an operator", start, hint)
        found = cast("Operator", operator)
        if found.endswith("missing"):
            return Comparison(left, found)
        token = self._token
        named = token.kind in ("on", "name") or token.text == ANY
        if named and token.text.casefold() not in ("true", "false"):
            right = self._item()
            if not isinstance(right, PropertyRef | Arithmetic | Aggregate):
                self._fail("expected a value or a property", token, "Text stands in quotes.")
            return Comparison(left, found, right)
        if token.text == "(":
            return Comparison(left, found, cast("Arithmetic", self._operand()))
        values = tuple(self._value() for _ in self._list())
        if len(values) > 1 and not found.endswith("in"):
            self._fail(f"`{found}` takes one value", token, "Several stand after `in`.")
        return Comparison(left, found, values)

    def _membership(self, left: NodeRef) -> Comparison:
        """Parse "a Class" or "no Class" after "is"; return the comparison with ``left``."""
        said = self._next()
        if said.text.casefold() not in ("a", "no"):
            self._fail("expected `a` or `no` after `is`", said)
        operator = cast("Operator", f"is {said.text.casefold()}")
        return Comparison(left, operator, (self._class()[0],))

    def _value(self) -> Value:
        """Parse a literal: number, string or truth value."""
        token = self._next()
        if token.kind == "number":
            return cast("Value", json.loads(token.text))
        if token.kind == "string":
            inner = token.text[1:-1]
            if token.text[0] == "'":
                inner = re.sub(r"(?<!\\)((?:\\\\)*)\"", r'\1\\"', inner.replace("\\'", "'"))
            try:
                return cast("str", json.loads(f'"{inner}"', strict=False))
            except ValueError:
                self._fail("expected text with JSON's escapes", token)
        if token.text.casefold() in ("true", "false"):
            return token.text.casefold() == "true"
        return self._fail("expected a value", token, "Text stands in quotes.")

    def _item(self) -> Item:
        """Parse an aggregate or an operand."""
        if kind := self._keyword(*AGGREGATES):
            return Aggregate(cast("AggregateKind", kind), self._operand())
        return self._operand()

    def _operand(self, signs: tuple[str, ...] = ("+-", "*/")) -> Operand:
        """Parse an arithmetic expression; ``signs``: its operators, the weakest first."""
        if not signs:
            return self._atom()
        left = self._operand(signs[1:])
        while self._token.kind == "sign" and self._token.text in signs[0]:
            sign = cast("Sign", self._next().text)
            left = Arithmetic(left, sign, self._operand(signs[1:]))
        return left

    def _atom(self) -> Operand:
        """Parse parentheses, a number, a property, or a part of one."""
        if self._take("("):
            self._depth += 1
            if self._depth > _DEEPEST:
                self._fail(f"more than {_DEEPEST} parentheses in one another")
            inside = self._operand()
            self._depth -= 1
            if not self._take(")"):
                self._fail("expected `)`")
            return inside
        if self._token.kind == "number":
            return float(self._next().text)
        part = self._keyword(*PARTS)
        owner = self._owner()
        if not self._take("."):
            if part:
                self._fail(f"expected a property for `{part}`")
            return owner
        token = self._next()
        if token.kind != "name" or ("#" in token.text and token.text[-1] != "]"):
            self._fail("expected a property", token)
        return PropertyRef(owner, _name(token.text), cast("Part", part))

    def _owner(self) -> NodeRef | HopRef:
        """Parse a reference to a node or a hop of the pattern."""
        token = self._next()
        if token.kind not in ("name", "on") and token.text != ANY:
            self._fail("expected a class, relation or property", token)
        text = token.text
        name, number = ("", None) if text == ANY else self._reference(text.removesuffix(">"))
        nodes = [index for index, known in enumerate(self._nodes) if known == name]
        hops = [index for index, hop in enumerate(self._hops) if hop.relation == name]
        place = (number or 1) - 1
        if token.kind != "on" and place < len(nodes):
            return NodeRef(nodes[place])
        if name and place < len(hops):
            return HopRef(hops[place])
        known = dict.fromkeys([*self._nodes, *(hop.relation for hop in self._hops)])
        return self._fail(
            f"{text} is not in the pattern",
            token,
            f"The pattern has {', '.join(name or ANY for name in known)}.",
        )

    def _whole(self, what: str) -> int:
        """Parse a whole number after the word ``what``."""
        token = self._next()
        if not re.fullmatch(r"\d{1,9}", token.text):
            self._fail(f"expected a whole number after `{what}`", token)
        return int(token.text)

    def _list(self) -> Iterator[None]:
        """Yield once for each element of a list separated by commas, before it is parsed."""
        yield
        while self._take(","):
            yield

    @property
    def _token(self) -> _Token:
        """The next token, not consumed."""
        return self._tokens[self._at]

    def _next(self) -> _Token:
        """Consume the next token and return it."""
        token = self._token
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _take(self, sign: str) -> bool:
        """Consume ``sign`` if it is next; return whether it was."""
        if self._token.kind == "sign" and self._token.text == sign:
            self._at += 1
            return True
        return False

    def _keyword(self, *words: str) -> str:
        """Consume the next token if it is one of ``words``; return it, or ""."""
        if self._token.kind == "name" and self._token.text.casefold() in words:
            return self._next().text.casefold()
        return ""

    def _fail(self, what: str, token: _Token | None = None, hint: str = "") -> NoReturn:
        """Raise PlanError with the place of the error."""
        token = token or self._token
        place = f"at {visible(token.text)!r}" if token.text else "at its end"
        before = visible(self._text[: token.start][-40:].strip())
        after = f", after {before!r}" if before else ""
        raise PlanError(f"The plan cannot be read {place}{after}: {what}.", hint)

"""The formal language of all plans over a schema, as a decoding constraint.

It is put together from the schema and from what a question states, in two grains. *Options* are
what may come next in a plan's text (a class, a hop, a clause, an operator, a literal), for a model
that scores; *tokens* are the same for a model that writes (:class:`PlanConstraint`). A plan's
tokens are those of its options, joined. It fails closed: every text of it is a plan that fits the
schema, and a literal stands only where it can hold.

The language is smaller than the algebra: one chain of at most ``hops`` hops, clauses in the order
in which :mod:`kgqa.queries.plan` writes them, and no arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kgqa.errors import PlanError
from kgqa.paths.walk import empty_paths
from kgqa.queries.check import NUMBERS, ORDERED, SchemaIndex, check
from kgqa.queries.plan import (
    ANY,
    TEXT_OPERATORS,
    Aggregate,
    NodeRef,
    Plan,
    PropertyRef,
    quoted_name,
    quoted_value,
)
from kgqa.queries.text import parse_plan
from kgqa.queries.values import DATES
from kgqa.trie.constraint import Expansion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kgqa.graph.model import BoolArray
    from kgqa.graph.schema import GraphSchema, Property, Value
    from kgqa.paths.walk import PathTable
    from kgqa.trie.lexicon import TokenEncoder

Owned: TypeAlias = tuple[str, str]
"""A class or relation and a property of it; "" as the property: what the things are called."""

_START, _PATTERN, _WHERE, _WITHOUT, _HAVING, _ORDER, _LIMIT, _GIVE, _END = range(9)
_GIVEN = 3  # items that a plan of the language gives at most
_COMPARISONS = 4  # that it has at most
_COMPARED = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class PlanLiterals:
    """The literals of a question that a plan may contain.

    ``texts``: stored values that occur in the question, by the class or relation and the property
    that hold them; ``words``: arguments for ``contains`` and similar operators.
    """

    numbers: tuple[int | float, ...] = ()
    dates: tuple[str, ...] = ()
    texts: Mapping[Owned, tuple[str, ...]] = field(default_factory=dict)
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanState:
    """A prefix of a plan's text. ``open``: the kind of literal that must complete a comparison."""

    text: str = ""
    stage: int = _START
    open: str = ""


Option: TypeAlias = tuple[str, PlanState]
_Places: TypeAlias = frozenset[tuple[PlanState, tuple[int, ...]]]


class PlanLanguage:
    """All plans of at most ``hops`` hops over a schema, with the literals of a question."""

    def __init__(
        self, schema: GraphSchema, stated: PlanLiterals | None = None, *, hops: int = 3
    ) -> None:
        self.index = SchemaIndex(schema)
        self.stated = stated or PlanLiterals()
        self._hops = hops
        self._options: dict[PlanState, tuple[Option, ...]] = {}

    def start(self) -> PlanState:
        """Return the state before the first option."""
        return PlanState()

    def is_end(self, state: PlanState) -> bool:
        """Return whether ``state`` is a complete plan after its end."""
        return state.stage == _END

    def plan(self, state: PlanState) -> Plan:
        """Parse the plan of an end state. Raises PlanError for another state."""
        if not self.is_end(state):
            raise PlanError("The plan is not finished.")
        return parse_plan(state.text)

    def options(self, state: PlanState) -> tuple[Option, ...]:
        """Return the texts that may follow, with the states after them; "" ends the plan.

        () after the end.
        """
        if state not in self._options:
            self._options[state] = tuple(dict(self._following(state)).items())
        return self._options[state]

    def _following(self, state: PlanState) -> Iterator[Option]:
        """Yield the texts that may follow ``state``, with the states after them."""
        if state.stage == _END:
            return
        if state.stage == _START:
            classes = [type_.name for type_ in self.index.schema.types]
            starts = [quoted_name(name) if name else ANY for name in classes]
            yield from (self._option(state, start, _PATTERN) for start in starts)
            return
        if state.open:
            yield from self._literals(state)
            return
        plan = self._plan(state.text)
        if state.stage == _GIVE:
            yield "", replace(state, stage=_END)
            if len(plan.give) < _GIVEN:
                yield from self._given(state, plan, ",")
            return
        if state.stage == _PATTERN and len(plan.hops) < self._hops:
            steps = self._steps(plan, plan.hops[-1].target if plan.hops else 0)
            yield from (self._option(state, step, _PATTERN) for step in steps)
        if state.stage <= _WHERE and len(plan.where) < _COMPARISONS:
            there = {
                (plan.text_of(comparison.left), comparison.operator) for comparison in plan.where
            }
            for text, kind, owned in self._fields(plan):
                yield from self._comparisons(state, text, kind, owned, there)
        if state.stage < _WITHOUT:
            yield from (self._option(state, text, _WITHOUT) for text in self._withouts(plan))
        counted = [f"count {plan.text_of(ref)}" for ref in plan.refs] if plan.hops else []
        if state.stage < _HAVING and self.stated.numbers:
            for text in counted:
                for operator in _COMPARED:
                    yield from self._begin(state, f" | {text} {operator}", _HAVING, "count")
        if state.stage < _ORDER:
            for text in [*self._sortable(plan), *counted, *self._numbers(plan, ("sum", "average"))]:
                for word in ("desc", "asc"):
                    yield self._option(state, f" | {word} {text}", _ORDER)
        if state.stage < _LIMIT:
            whole = [
                number for number in self.stated.numbers if isinstance(number, int) and number > 0
            ]
            for number in dict.fromkeys([1, *whole]):
                yield self._option(state, f" | limit {number}", _LIMIT)
        yield from self._given(state, plan, " | give")

    # -- steps -------------------------------------------------------------------------------

    @staticmethod
    def _option(state: PlanState, text: str, stage: int, open_: str = "") -> Option:
        """Return the option of ``text`` after a state: the text, and the state that it leads to.

        ``open_``: the kind of literal that must follow it.
        """
        return text, PlanState(state.text + text, stage, open_)

    def _begin(self, state: PlanState, text: str, stage: int, open_: str) -> Iterator[Option]:
        """Yield the option of a comparison's beginning ``text``.

        Nothing if no literal can complete it. ``open_``: the kind of literal that must.
        """
        option = self._option(state, text, stage, open_)
        if any(True for _ in self._literals(option[1])):
            yield option

    def _plan(self, text: str) -> Plan:
        """Parse and check a prefix as a complete plan, which outputs its first node."""
        plan = parse_plan(text)
        check(plan, self.index)
        return plan

    def _steps(self, plan: Plan, node: int) -> Iterator[str]:
        """Yield the texts of hops from a node to a new node, in both directions."""
        for pattern in self.index.schema.relations:
            name = quoted_name(pattern.relation)
            for here, there, step in (
                (pattern.head, pattern.tail, f"{name}>"),
                (pattern.tail, pattern.head, f"<{name}"),
            ):
                if plan.nodes[node] in ("", here):
                    again = plan.nodes.count(there) + 1
                    number = f"#{again}" if again > 1 else ""
                    target = quoted_name(there) if there else ANY
                    yield f" {step} {target}{number}"

    def _withouts(self, plan: Plan) -> Iterator[str]:
        """Yield the texts of one-hop ``without`` clauses."""
        for node in range(plan.pattern_size):
            start = plan.text_of(NodeRef(node))
            yield from (f" | without {start}{step}" for step in self._steps(plan, node))

    def _fields(self, plan: Plan) -> Iterator[tuple[str, Property | None, Owned]]:
        """Yield the text, property and owner of each property in the pattern, and each node's name.

        A name has None as property, and "" as the property's name.
        """
        for ref in plan.refs:
            if isinstance(ref, NodeRef):
                owner = plan.nodes[ref.node]
                properties = self.index.properties(owner)
                yield plan.text_of(ref), None, (owner, "")
            else:
                hop = plan.hops[ref.hop]
                owner = hop.relation
                properties = self.index.hop_properties(hop, plan.nodes)
            for name, found in properties.items():
                yield plan.text_of(PropertyRef(ref, name)), found, (owner, name)

    def _comparisons(
        self,
        state: PlanState,
        text: str,
        kind: Property | None,
        owned: Owned,
        there: Collection[tuple[str, str]],
    ) -> Iterator[Option]:
        """Yield the possible comparisons of a property or a node's name ``text``.

        ``kind``: the property, None for a name; ``there``: (text, operator) of comparisons in the
        plan, which are not repeated.
        """
        held = self.stated.texts.get(owned, ())
        found: list[tuple[str, str]] = []
        if kind is None or kind.type == "text":
            found += [(operator, "\0".join(held)) for operator in ("=", "<>") if held]
        type_ = "" if kind is None else kind.type
        if type_ == "text" and self.stated.words:
            found += [(operator, "\0".join(self.stated.words)) for operator in TEXT_OPERATORS]
        elif type_ in (*NUMBERS, *DATES):
            found += [(operator, type_) for operator in _COMPARED]
        elif type_ == "boolean":
            found.append(("=", type_))
        for operator, literals in found:
            if (text, operator) not in there:
                yield from self._begin(state, f" | {text} {operator}", _WHERE, literals)
        if kind is not None:
            for operator in ("missing", "not missing"):
                if (text, operator) not in there:
                    yield self._option(state, f" | {text} {operator}", _WHERE)

    def _literals(self, state: PlanState) -> Iterator[Option]:
        """Yield the literals that may follow an operator."""
        values: Sequence[Value]
        kind = state.open
        if kind == "boolean":
            values = (True, False)
        elif kind in (*NUMBERS, "count"):
            whole = kind != "float"
            values = [
                number for number in self.stated.numbers if not whole or isinstance(number, int)
            ]
        elif kind in DATES:
            values = self.stated.dates
        else:
            values = kind.split("\0")
        for value in values:
            yield self._option(state, f" {quoted_value(value)}", state.stage)

    def _sortable(self, plan: Plan) -> list[str]:
        """Return the texts of properties that rows can be ordered by."""
        return [
            text
            for text, kind, _ in self._fields(plan)
            if kind is not None and kind.type in ORDERED and not kind.unordered
        ]

    def _numbers(self, plan: Plan, kinds: Sequence[str]) -> list[str]:
        """Return the texts of aggregates over numeric properties."""
        return [
            f"{kind} {text}"
            for text, found, _ in self._fields(plan)
            if found is not None and found.type in NUMBERS and not found.many
            for kind in kinds
        ]

    def _given(self, state: PlanState, plan: Plan, lead: str) -> Iterator[Option]:
        """Yield the items that may be output after ``lead``, "," or " | give"; none twice."""
        refs = [plan.text_of(ref) for ref in plan.refs]
        nodes = refs[: plan.pattern_size]
        counted = [f"count {text}" for text in refs]
        used = [plan.text_of(item) for item in plan.items() if isinstance(item, Aggregate)]
        fields = [text for text, kind, _ in self._fields(plan) if kind is not None]
        numbers = self._numbers(plan, ("sum", "average", "least", "most"))
        there = {plan.text_of(item) for item in plan.give} if lead == "," else set()
        for text in dict.fromkeys([*nodes, *fields, *used, *counted, *numbers]):
            if text not in there:
                yield self._option(state, f"{lead} {text}", _GIVE)


class PlanConstraint:
    """A plan language as tokens: a :class:`kgqa.trie.constraint.Constraint`.

    Several options may begin with the same tokens, so a state is a set of positions in tries of
    options; states are numbered as they are reached.
    """

    paths = None

    def __init__(self, language: PlanLanguage, encoder: TokenEncoder) -> None:
        self.language = language
        self._encoder = encoder
        self._tries: dict[PlanState, _Node] = {}
        first: _Places = frozenset([(language.start(), ())])
        self._sets = [first]
        self._numbers = {first: 0}

    def start(self) -> int:
        """Return the state before the first token."""
        return 0

    def expand(self, states: Sequence[int]) -> Expansion:
        """Return the moves out of every one of ``states``."""
        rows: list[tuple[int, int, int]] = []
        for row, state in enumerate(states):
            moves: dict[int, set[tuple[PlanState, tuple[int, ...]]]] = {}
            for at, tokens in self._sets[state]:
                node = self._trie(at)
                for token in tokens:
                    node = node.below[token]
                for token, below in node.below.items():
                    reached = moves.setdefault(token, set())
                    if below.below:
                        reached.add((at, (*tokens, token)))
                    reached.update((after, ()) for after in below.ends)
            rows += [(row, token, self._number(moves[token])) for token in sorted(moves)]
        columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
        return Expansion(columns[:, 0], columns[:, 1], columns[:, 2])

    def is_end(self, states: Sequence[int]) -> BoolArray:
        """Return which of ``states`` stand after a closing token. Shape ``[len(states)]``."""
        ends = [any(map(self.language.is_end, self._states(state))) for state in states]
        return np.array(ends, dtype=np.bool_)

    def plan(self, state: int) -> Plan:
        """Parse the plan of an end state. Raises PlanError."""
        ends = [one for one in self._states(state) if self.language.is_end(one)]
        return self.language.plan(ends[0] if ends else self.language.start())

    def ground(self, state: int) -> PathTable:
        """Return no paths: a plan is not a path; see :meth:`plan`."""
        return empty_paths(0)

    def _states(self, state: int) -> list[PlanState]:
        """Return the plan states that a token state has completed, without begun options."""
        return [at for at, tokens in self._sets[state] if not tokens]

    def _number(self, places: set[tuple[PlanState, tuple[int, ...]]]) -> int:
        """Return the number of a set of trie positions, a new one if need be."""
        frozen = frozenset(places)
        if frozen not in self._numbers:
            self._numbers[frozen] = len(self._sets)
            self._sets.append(frozen)
        return self._numbers[frozen]

    def _trie(self, state: PlanState) -> _Node:
        """Return the token trie of a plan state's options."""
        if state not in self._tries:
            root = _Node()
            options = self.language.options(state)
            texts = self._encoder.encode([text for text, _ in options])
            for (text, after), tokens in zip(options, texts, strict=True):
                node = root
                for token in tokens if text else [self._encoder.eos_id]:
                    node = node.below.setdefault(int(token), _Node())
                node.ends.append(after)
            self._tries[state] = root
        return self._tries[state]


@dataclass(slots=True)
class _Node:
    """A trie node: its children by token, and the plan states after the options that end in it."""

    below: dict[int, _Node] = field(default_factory=dict)
    ends: list[PlanState] = field(default_factory=list)

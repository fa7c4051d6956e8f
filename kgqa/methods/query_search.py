"""The plans that a question may mean, best first: search over a schema by the plan scorer's odds.

Every plan is put together from what the schema holds, so none can be wrong in kind. A plan's score
is the sum of the log-odds of the roles that it gives to the parts of the schema, the
log-probabilities of what it is as a whole, and how well it accounts for what the question states.
Stages, each with a beam: patterns (classes and hops around what is asked for), conditions, then
aggregate, order, limit and what is given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING

from kgqa.errors import PlanError
from kgqa.graph.schema import Property
from kgqa.linking.asked import asks_best
from kgqa.methods.query_classes import ClassWords
from kgqa.models.plan_scorer import Part
from kgqa.paths.words import relation_phrase
from kgqa.queries.check import NUMBERS, SchemaIndex, check, operators
from kgqa.queries.groups import wants_empty
from kgqa.queries.plan import (
    Aggregate,
    AggregateKind,
    Comparison,
    Hop,
    HopRef,
    Item,
    NodeRef,
    Operand,
    Plan,
    PropertyRef,
    Sort,
    Without,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kgqa.graph.schema import GraphSchema
    from kgqa.linking.literals import Stated, Stating
    from kgqa.models.plan_scorer import PlanScores

PATTERNS, CONDITIONS, PLANS = 14, 6, 12  # beams
_MOST_HOPS = 3
_MOST_PARTS = 320  # of a schema that are read
_MOST_ODDS = 7.0
_HAS_VALUE = 2.5  # added where the graph holds the value that is stated
_NOT_HELD = -1.5  # where it does not
_UNUSED = {"quoted": -5.0, "name": -12.0, "value": -4.5, "number": -3.5, "date": -4.0}
_OF_PLAIN = 0.4  # what the odds of a class count if it has no name of its own
_NEAR = 8.0  # what a class's nearness to a question counts, if it has no name of its own
_TOLD = -8.0  # to give or count what the question names
_OF_EACH = -2.0  # a number of each thing of a class, where the question names one of another
_AGAIN = -3.5  # a hop that is there already
_SAID, _UNSAID = 1.0, -4.0  # a relation whose words the question has, beside one that has none
_PARALLEL = -3.0  # a second relation between two classes, if it has none of the question's words
_OF_WORD = 2.0  # a relation that the question has a word of, between classes without a name
_OF_NOUN = 2.0  # and if what is asked for is called by it: "the sponsors"
_UNUSED_PLAIN = 1.7  # times what it costs to pass over what is stated
_WHOLE_END = 0.8  # of a relation's facts that end in one class, so that others are of it, too
_SAME = 0.5  # two relations between the same two things
_ANYTHING = -2.0  # something of no class
_SECOND = -0.5  # another thing of a class that is there already
_LIMITED = -1.2  # log-odds from which a superlative without a number means one
_TYPES = {
    "integer": "number", "float": "number", "date": "date", "datetime": "date", "time": "date",
    "duration": "number", "boolean": "yes or no", "point": "place", "text": "text",
}  # fmt: skip
_NO = re.compile(
    r"\b(no|not|without|never|nobody|no one|missing|lack\w*|none|non|neither)\b|n't\b", re.I
)
_EACH = re.compile(r"\b(each|every|per|by|respective\w*)\b", re.I)
_AVERAGE = re.compile(r"\b(?:average|mean)\b", re.I)
_TOTAL = re.compile(r"\b(?:total|sum of|altogether|all together|add up to|together)\b", re.I)
_AFFIRMED = ("=", "<", "<=", ">", ">=", "in", "contains", "starts with", "ends with", "not missing")
_IN_VAIN = -6.0  # a superlative, an average or a negation that a plan has nothing for
_FUNCTIONS: dict[str, AggregateKind] = {
    "sum": "sum",
    "avg": "average",
    "min": "least",
    "max": "most",
}
Owned = tuple[str, str, str]  # "class" or "relation", its name, the property's
ENTITY = "entity"  # in place of "class": what is equal to an id, not a property


@dataclass(frozen=True, slots=True)
class FoundValue:
    """A text of the question that properties hold: as it is stored, for each of ``fields``.

    Of entities called so their ids.
    """

    start: int
    end: int
    fields: Mapping[Owned, tuple[str, ...]]
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan with its score, larger is better."""

    plan: Plan
    score: float


class SchemaParts:
    """A schema as parts in words, for the scorer."""

    def __init__(self, schema: GraphSchema, called: ClassWords | None = None) -> None:
        self.index = SchemaIndex(schema)
        self.called = called or ClassWords()
        nouns = self.called.nouns
        self.classes = {
            one.name: f"class {_words(nouns.get(one.name, one.name), one.also)}"
            for one in schema.types
        }
        self.hops: dict[tuple[str, str, str], str] = {}
        self.owner_of: dict[str, str] = {}  # a class that has a property
        self.properties: dict[Owned, tuple[Property, str]] = {}
        ends = {end for one in schema.relations for end in (one.head, one.tail)}
        if "" in ends or not schema.types:
            self.classes[""] = "class thing"
            self.properties[ENTITY, "", "name"] = Property("name", "text"), "text thing : name"
        for type_ in schema.types:
            if not type_.names:
                noun = nouns.get(type_.name) or relation_phrase(type_.name)
                text = f"text {noun} : name"
                self.properties[ENTITY, type_.name, "name"] = Property("name", "text"), text
            for one in type_.properties:
                self._add("class", type_.name, one)
        for pattern in schema.relations:
            hop = (pattern.head, pattern.relation, pattern.tail)
            heads = [
                nouns.get(end) or relation_phrase(end) if end else "thing"
                for end in (pattern.head, pattern.tail)
            ]
            words = _words(pattern.relation, pattern.also)
            self.hops[hop] = f"link {heads[0]} {words} {heads[1]}"
            for one in pattern.properties:
                self._add("relation", pattern.relation, one)

    @property
    def words(self) -> list[str]:
        """All parts in words."""
        properties = (text for _, text in self.properties.values())
        return [*self.classes.values(), *self.hops.values(), *properties]

    def _add(self, kind: str, owner: str, one: Property) -> None:
        type_ = "list" if one.many else _TYPES[one.type]
        noun = (kind == "class" and self.called.nouns.get(owner)) or relation_phrase(owner)
        text = f"{type_} {noun} : {_words(one.name, one.also)}"
        self.properties.setdefault((kind, owner, one.name), (one, text))
        if kind == "class":
            self.owner_of.setdefault(one.name, owner)

    def read(self, question: str, values: Sequence[FoundValue]) -> tuple[list[Part], list[object]]:
        """Return parts with what each stands for; of a large schema those near the question."""
        held: dict[Owned, str] = {}
        for value in values:
            for owned in value.fields:
                held.setdefault(owned, question[value.start : value.end].strip("'\"").lower())
        parts: list[tuple[float, Part, object]] = []
        asked = {_stem(word) for word in re.findall(r"\w+", question.lower())}

        def near(text: str) -> float:
            return float(len(asked & {_stem(word) for word in text.split()}))

        for name, text in self.classes.items():
            parts.append((2 + near(text), Part("class", text), name))
        for hop, text in self.hops.items():
            parts.append((0.5 + near(text), Part("hop", text), hop))
        for owned, (_, text) in self.properties.items():
            value_text = held.get(owned, "")
            shown = f"{text} = {value_text[:60]}" if value_text else text
            parts.append((near(text) + 3 * bool(value_text), Part("property", shown), owned))
        if len(parts) > _MOST_PARTS:
            kept = set(nlargest(_MOST_PARTS, range(len(parts)), key=lambda at: parts[at][0]))
            parts = [one for at, one in enumerate(parts) if at in kept]
        return [part for _, part, _ in parts], [ref for _, _, ref in parts]


@dataclass(frozen=True, slots=True)
class _Pattern:
    nodes: tuple[str, ...]
    hops: tuple[Hop, ...]
    score: float
    away: tuple[int, ...] = (0,)

    def key(self) -> tuple[object, ...]:
        return self.nodes, frozenset(
            (one.source, one.relation, one.inverse, self.nodes[one.target]) for one in self.hops
        )


@dataclass(frozen=True, slots=True)
class _Place:
    """A property of a node or a hop of a pattern."""

    ref: PropertyRef
    property: Property
    owned: Owned


@dataclass(frozen=True, slots=True)
class _State:
    where: tuple[Comparison, ...] = ()
    used: frozenset[Owned] = frozenset()
    having: Comparison | None = None
    score: float = 0.0


@dataclass(slots=True)
class PlanSearch:
    """The search for one question; ``scores`` are of the parts that ``refs`` name."""

    question: str
    parts: SchemaParts
    refs: Sequence[object]
    scores: PlanScores
    stated: Stated
    values: Sequence[FoundValue]
    classes: dict[str, Sequence[float]] = field(default_factory=dict)
    hops: dict[tuple[str, str, str], Sequence[float]] = field(default_factory=dict)
    properties: dict[Owned, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plain = bool(self.parts.called.nouns)
        for ref, odds in zip(self.refs, self.scores.parts, strict=True):
            row = [max(-_MOST_ODDS, min(_MOST_ODDS, float(one))) for one in odds]
            if isinstance(ref, str):
                self.classes[ref] = [_OF_PLAIN * one for one in row] if plain else row
            elif ref in self.parts.hops:
                self.hops[ref] = row
            else:
                self.properties[ref] = row  # type: ignore[index]
        self._whole = self.scores.whole
        self._plain = bool(self.parts.called.nouns)
        self._weigh_parallel()

    def _weigh_parallel(self) -> None:
        """Of relations between the same two classes prefer those that the question has a word of.

        Which of a pair's relations is likelier in itself, the scorer knows from other graphs alone.
        """
        words = re.findall(r"[a-z]+", self.question.lower())
        pairs: dict[frozenset[str], list[tuple[str, str, str]]] = {}
        for hop in self.hops:
            pairs.setdefault(frozenset((hop[0], hop[2])), []).append(hop)
        self._said = {hop: _says(words, hop[1]) for hop in self.hops}
        if self._plain:  # the classes' names say less there
            rest = _ASKED.sub("", self.question, count=1) if _ASKED.match(self.question) else ""
            first = re.findall(r"[a-z]+", rest.lower())[:2]
            for hop, (used, *others) in self.hops.items():
                more = _OF_WORD * self._said[hop] + _OF_NOUN * _says(first, hop[1])
                self.hops[hop] = [used + more, *others]
        for hops in pairs.values():
            said = any(self._said[hop] for hop in hops)
            for hop in hops if len({one[1] for one in hops}) > 1 and said else ():
                used, *others = self.hops[hop]
                self.hops[hop] = [used + (_SAID if self._said[hop] else _UNSAID), *others]

    _plain: bool = False  # whether classes are what relations make them
    _said: dict[tuple[str, str, str], bool] = field(default_factory=dict)
    _whole: dict[str, dict[str, float]] = field(default_factory=dict)

    def plans(self, most: int = PLANS) -> list[Candidate]:
        """Return at most ``most`` plans, the best first; all of them fit the schema."""
        found: dict[str, Candidate] = {}
        for pattern in self._patterns():
            places = list(self._places(pattern))
            for state in self._conditions(pattern, places):
                for one in self._wholes(pattern, places, state):
                    text = str(one.plan)
                    if text not in found or found[text].score < one.score:
                        found[text] = one
        weighed = [
            replace(one, score=one.score + self._in_vain(one.plan)) for one in found.values()
        ]
        if self._plain:
            weighed = [replace(one, plan=self._widened(one.plan)) for one in weighed]
        ranked = sorted(weighed, key=lambda one: (-one.score, str(one.plan)))
        fit = (one for one in ranked if self._fits(one.plan))
        return list(islice(fit, most))

    def _fits(self, plan: Plan) -> bool:
        try:
            check(plan, self.parts.index)
        except PlanError:
            return False
        return True

    def _widened(self, plan: Plan) -> Plan:
        """Return a plan without the classes of nodes whose hops say what they are."""
        shares: dict[int, float] = {}
        for number, hop in enumerate(plan.all_hops):
            for node, head in ((hop.source, not hop.inverse), (hop.target, hop.inverse)):
                if number >= len(plan.hops) and node < plan.pattern_size:
                    continue  # what there must not be says nothing of it
                patterns = self.parts.index.relations[hop.relation]
                ends = [(one.head if head else one.tail, one.count) for one in patterns]
                mine = sum(count for end, count in ends if end == plan.nodes[node])
                share = mine / max(1, sum(count for _, count in ends))
                shares[node] = max(shares.get(node, 0.0), share)
        given = {one.node for one in (*plan.give, *plan.group) if isinstance(one, NodeRef)}
        given |= {one.of.node for one in plan.items()
                  if isinstance(one, Aggregate) and isinstance(one.of, NodeRef)}  # fmt: skip
        least = 2.0 if wants_empty(plan) else _WHOLE_END
        nodes = [
            "" if node in shares and (node not in given or shares[node] >= least) else name
            for node, name in enumerate(plan.nodes)
        ]
        wide = replace(plan, nodes=tuple(nodes))
        return wide if self._fits(wide) else plan

    def _in_vain(self, plan: Plan) -> float:
        """Return what it costs that a plan leaves out what the question's words ask for."""
        kinds = {item.kind for item in plan.items() if isinstance(item, Aggregate)}
        cost = 0.0
        if asks_best(self.question) and not plan.order and not kinds & {"least", "most"}:
            cost += _IN_VAIN
        if _AVERAGE.search(self.question) and "average" not in kinds:
            cost += _IN_VAIN
        if _TOTAL.search(self.question) and "sum" not in kinds:
            cost += 0.5 * _IN_VAIN
        denied = plan.without or any(one.operator not in _AFFIRMED for one in plan.where)
        if _NO.search(self.question) and not denied:
            cost += _IN_VAIN
        return cost

    # -- patterns ----------------------------------------------------------------------------

    def _patterns(self) -> list[_Pattern]:
        whole = self._whole["hops"]

        def worth(pattern: _Pattern) -> float:
            return pattern.score + self._place_for(pattern)

        nouns, near = self.parts.called.nouns, self.parts.called.near(self.question)
        level = [
            _Pattern(
                (name,), (),
                odds[0] + odds[1] + _named(self.question, nouns.get(name, name))
                + _NEAR * near.get(name, 0.0),
            )
            for name, odds in self.classes.items()
        ]  # fmt: skip
        if "" in self.classes:  # nobody asks for everything
            level = [replace(one, score=_ANYTHING) if one.nodes == ("",) else one for one in level]
        level = nlargest(PATTERNS, level, key=lambda one: one.score)
        every: dict[tuple[object, ...], _Pattern] = {}
        for hops in range(_MOST_HOPS + 1):
            for one in level:
                nothing = _ANYTHING * 2 if one.nodes == ("",) else 0.0
                total = replace(one, score=one.score + whole[str(min(hops, 3))] + nothing)
                every.setdefault(one.key(), total)
            if hops < _MOST_HOPS:
                longer = (more for one in level for more in self._longer(one))
                unique: dict[tuple[object, ...], _Pattern] = {}
                for one in nlargest(4 * PATTERNS, longer, key=worth):
                    unique.setdefault(one.key(), one)
                level = list(unique.values())[:PATTERNS]
        return nlargest(PATTERNS, every.values(), key=worth)

    def _place_for(self, pattern: _Pattern) -> float:
        """Return what it is worth that the values of the question have a place in a pattern."""
        classes = {*pattern.nodes, *(hop.relation for hop in pattern.hops)}
        worth = 0.0
        for value in self.values:
            held = any(owner in classes for _, owner, _ in value.fields)
            worth += _HAS_VALUE if held else self._unused(value)
        return worth

    def _unused(self, value: FoundValue) -> float:
        """Return what it costs to pass over a value: an entity's name is seldom said in vain."""
        named = value.start > 0 and self.question[value.start].isupper()
        entity = any(kind == ENTITY for kind, *_ in value.fields)
        return _UNUSED["quoted" if value.quoted else "name" if named and entity else "value"]

    def _longer(self, pattern: _Pattern) -> Iterator[_Pattern]:
        nodes = pattern.nodes
        between = {(hop.source, hop.relation, hop.target) for hop in pattern.hops}
        walked = {
            (hop.relation, frozenset((nodes[hop.source], nodes[hop.target])))
            for hop in pattern.hops
        }
        for (head, relation, tail), odds in self.hops.items():
            again = (relation, frozenset((head, tail))) in walked
            worth = _AGAIN if again else odds[0]  # a part's odds count once
            if not self._said[head, relation, tail] and not again:
                ends = frozenset((head, tail))
                worth += _PARALLEL * any(two == ends for _, two in walked)
            turned = _turn(self.question, relation) if head == tail else 0.0
            for at, name in enumerate(nodes):
                for inverse, near, far in ((False, head, tail), (True, tail, head)):
                    if near != name or far not in self.classes:
                        continue
                    score = (
                        pattern.score + worth + (0 if again else _side(odds[1] + turned, inverse))
                    )
                    for other in range(at + 1, len(nodes)):  # both relations between the same two
                        if nodes[other] == far and (at, relation, other) not in between:
                            hop = Hop(at, relation, other, inverse)
                            yield replace(pattern, hops=(*pattern.hops, hop), score=score + _SAME)
                    score += self.classes[far][0] if far not in nodes else _SECOND
                    hop = Hop(at, relation, len(nodes), inverse)
                    yield _Pattern(
                        (*pattern.nodes, far), (*pattern.hops, hop), score,
                        (*pattern.away, pattern.away[at] + 1),
                    )  # fmt: skip

    def _places(self, pattern: _Pattern) -> Iterator[_Place]:
        for node, name in enumerate(pattern.nodes):
            for one in self.parts.index.properties(name).values():
                owner = name or self.parts.owner_of.get(one.name, "")
                if (owned := ("class", owner, one.name)) in self.properties:
                    yield _Place(PropertyRef(NodeRef(node), one.name), one, owned)
        for number, hop in enumerate(pattern.hops):
            for one in self.parts.index.hop_properties(hop, pattern.nodes).values():
                if (owned := ("relation", hop.relation, one.name)) in self.properties:
                    yield _Place(PropertyRef(HopRef(number), one.name), one, owned)

    # -- conditions --------------------------------------------------------------------------

    def _conditions(self, pattern: _Pattern, places: Sequence[_Place]) -> list[_State]:
        states = [_State()]
        for value in self.values:
            states = self._best(
                self._with_value(one, value, pattern.nodes, places) for one in states
            )
        spans = [(one.start, one.end) for one in self.values]
        for literal in self.stated.literals:
            if any(start < literal.end and literal.start < end for start, end in spans):
                continue
            states = self._best(self._with_literal(one, literal, pattern, places) for one in states)
        return self._best(self._with_flags(one, places) for one in states)

    @staticmethod
    def _best(options: Iterator[Iterator[_State]]) -> list[_State]:
        every = (state for some in options for state in some)
        return nlargest(CONDITIONS, every, key=lambda one: one.score)

    def _add(
        self, state: _State, place: _Place, operator: str, value: object, bonus: float
    ) -> _State:
        odds = 0.0 if place.owned in state.used else self.properties[place.owned][0]
        one = Comparison(place.ref, operator, (value,))  # type: ignore[arg-type]
        return replace(
            state, where=(*state.where, one), used=state.used | {place.owned},
            score=state.score + odds + bonus,
        )  # fmt: skip

    def _with_value(
        self,
        state: _State,
        value: FoundValue,
        nodes: Sequence[str],
        places: Sequence[_Place],
    ) -> Iterator[_State]:
        yield replace(state, score=state.score + self._unused(value))
        before = self.question[max(0, value.start - 24) : value.start]
        denied = re.search(
            r"\b(not|n't|except|excluding|outside|other than|non)\W+(?:\w+\W+){0,2}$", before, re.I
        )
        for place in places:
            if place.owned in value.fields:
                stored = value.fields[place.owned]
                again = _HAS_VALUE - 3.0 * any(one.left == place.ref for one in state.where)
                yield self._add(state, place, "<>" if denied else "=", stored[0], again)
        for node, name in enumerate(nodes):
            if stored := value.fields.get((ENTITY, name, "name"), ()):
                ref = NodeRef(node)
                again = _HAS_VALUE - 3.0 * any(one.left == ref for one in state.where)
                operator = "<>" if denied else "="
                if len(stored) > 1:
                    operator = "not in" if denied else "in"
                odds = self.properties.get((ENTITY, name, "name"), (0.0,))[0]
                one = Comparison(ref, operator, stored)  # type: ignore[arg-type]
                score = state.score + odds + again
                yield replace(state, where=(*state.where, one), score=score)

    def _with_literal(
        self, state: _State, literal: Stating, pattern: _Pattern, places: Sequence[_Place]
    ) -> Iterator[_State]:
        kind = "quoted" if literal.kind == "text" else literal.kind
        times = _UNUSED_PLAIN if self._plain else 1.0
        yield replace(state, score=state.score + times * _UNUSED[kind])
        for place in places:
            type_ = place.property.type
            if literal.kind == "number":
                if type_ in NUMBERS:
                    yield self._add(state, place, literal.operator, literal.value, 0.0)
                elif type_ in ("date", "datetime") and _is_year(literal.value):
                    yield self._add(state, place, literal.operator, f"{literal.value}", 0.5)
            elif literal.kind == "date":
                if type_ in ("date", "datetime"):
                    yield self._add(state, place, literal.operator, literal.value, 0.5)
                elif type_ == "integer" and len(str(literal.value)) == 4:
                    yield self._add(state, place, literal.operator, int(literal.value), 0.0)
            elif type_ == "text" and literal.operator in operators(type_):
                if literal.operator != "=":
                    yield self._add(state, place, literal.operator, literal.value, 0.0)
                else:
                    yield self._add(state, place, "contains", literal.value, _NOT_HELD)
        if literal.kind == "number" and state.having is None and len(pattern.nodes) > 1:
            for node in range(1, len(pattern.nodes)):
                name = pattern.nodes[node]
                number = Aggregate("count", NodeRef(node))
                count = Comparison(number, literal.operator, (literal.value,))  # type: ignore[arg-type]
                after = self.question[literal.end : literal.end + 40]
                bonus = _named(after, name) if name in self.classes else 0.0
                score = state.score + self.classes[name][2] + bonus
                score += self._whole["having"]["yes"] - self._whole["having"]["no"]
                yield replace(state, having=count, score=score)

    def _with_flags(self, state: _State, places: Sequence[_Place]) -> Iterator[_State]:
        """Yield conditions without a literal: what is true or not, what is missing or there."""
        yield state
        for place in places:
            odds = self.properties[place.owned][0]
            if place.owned in state.used or odds < -1:
                continue
            denied = bool(_NO.search(self.question))
            if place.property.type == "boolean":
                yield self._add(state, place, "=", not denied, 0.0)
            elif odds > 0.5:
                operator = "missing" if denied else "not missing"
                one = Comparison(place.ref, operator)  # type: ignore[arg-type]
                yield replace(
                    state, where=(*state.where, one), used=state.used | {place.owned},
                    score=state.score + 0.5 * odds - 0.5,
                )  # fmt: skip

    # -- aggregate, order, limit, what is given ----------------------------------------------

    def _wholes(
        self, pattern: _Pattern, places: Sequence[_Place], state: _State
    ) -> Iterator[Candidate]:
        base = pattern.score + state.score
        for aggregate, odds in self._aggregates(pattern, places, state):
            plain = isinstance(aggregate, NodeRef)
            grouped = not plain and not isinstance(aggregate, _Total)
            score = base + odds
            orders: list[tuple[Item | None, bool, float]] = [
                (None, False, self._whole["direction"]["none"])
            ]
            for name, descending in (("desc", True), ("asc", False)):
                logp = self._whole["direction"][name]
                if grouped:
                    orders.append((aggregate.item, descending, logp + 0.5))  # type: ignore[union-attr]
                if plain:
                    for place in places:
                        weight = self.properties[place.owned][1]
                        superlative = _superlative(self.question, place.property, descending)
                        weight += superlative
                        weight += 0.7 if superlative > 0 and place.ref.owner == NodeRef(0) else 0
                        if (
                            weight > -4
                            and not place.property.many
                            and place.property.type not in ("boolean", "point", "duration")
                        ):
                            orders.append((place.ref, descending, logp + weight))
            for by, descending, weight in nlargest(4, orders, key=lambda one: one[2]):
                plan = self._plan(pattern, places, state, aggregate, by, descending)
                if plan is not None:
                    told = self._names_itself(state) and not any(
                        isinstance(one, PropertyRef) for one in plan.give
                    )
                    yield Candidate(plan, score + weight + _TOLD * told)
        yield from self._without(pattern, state, base)

    def _aggregates(
        self, pattern: _Pattern, places: Sequence[_Place], state: _State
    ) -> Iterator[tuple[NodeRef | _Total | _Grouped, float]]:
        whole = self._whole["aggregate"]
        having = self._whole["having"]["no"]
        answer = pattern.nodes[0]
        if state.having is not None:
            assert isinstance(state.having.left, Aggregate)
            weight = max(whole["group"], whole["none"]) + having
            yield _Grouped(NodeRef(0), state.having.left), weight
            return
        yield NodeRef(0), whole["none"] + having
        yield (
            _Total(Aggregate("count", NodeRef(0))),
            whole["count"] + 0.5 * self.classes[answer][2] + having,
        )
        for node in range(1, len(pattern.nodes)):
            odds = self.classes[pattern.nodes[node]][2]
            yield (
                _Grouped(NodeRef(0), Aggregate("count", NodeRef(node))),
                whole["group"] + odds + having,
            )
        for place in places:
            row = self.properties[place.owned]
            if row[2] > -2 and place.ref.owner == NodeRef(0) and not self._is_name(place):
                odds = self.classes[answer][2] + row[2]
                yield (
                    _Grouped(place.ref, Aggregate("count", NodeRef(0))),
                    whole["group"] + odds + having - 1,
                )
            if row[3] < -2:
                continue
            for name, kind in _FUNCTIONS.items():
                if place.property.many or (
                    place.property.type not in NUMBERS and name in ("sum", "avg")
                ):
                    continue
                item = Aggregate(kind, place.ref)
                odds = whole[name] + row[3] + having
                each = bool(_EACH.search(self.question))
                if place.ref.owner != NodeRef(0):
                    apart = 0.0 if each or _asks_who(self.question) else self._named_apart(state)
                    yield _Grouped(NodeRef(0), item), odds + apart
                    if not each:
                        yield _Total(item), odds - 0.7
                else:
                    yield _Total(item), odds - 0.7 * each
                    for other in places:
                        if (
                            other.ref.owner == NodeRef(0)
                            and self.properties[other.owned][2] > -1
                            and each
                        ):
                            yield _Grouped(other.ref, item), odds + self.properties[other.owned][2]

    def _named_apart(self, state: _State) -> float:
        """Return what it costs to ask about each thing of the first class where another is named.

        "The average rating of Cloud Atlas" is one number, not one of each reviewer.
        """
        named = {
            one.left if isinstance(one.left, NodeRef) else one.left.owner
            for one in state.where
            if one.operator == "=" and isinstance(one.left, NodeRef | PropertyRef)
        }
        return _OF_EACH if named and NodeRef(0) not in named else 0.0

    def _is_name(self, place: _Place) -> bool:
        kind, owner, name = place.owned
        return (
            kind == "class"
            and owner in self.parts.index.types
            and name in self.parts.index.types[owner].names
        )

    def _plan(
        self, pattern: _Pattern, places: Sequence[_Place], state: _State,
        aggregate: NodeRef | _Total | _Grouped, by: Item | None, descending: bool,
    ) -> Plan | None:  # fmt: skip
        limit = self.stated.limit
        if limit is None and by is not None:
            odds = self._whole["limit"]["yes"] - self._whole["limit"]["no"]
            said = self._plain and asks_best(self.question)
            limit = 1 if odds > _LIMITED or said else None
        where = state.where
        if state.having is not None:
            where = (*where, state.having)
        group: tuple[Operand, ...] = ()
        if isinstance(aggregate, _Total):
            give: list[Item] = [aggregate.item]
            limit = None
        else:
            give = [NodeRef(0)]
            if isinstance(aggregate, _Grouped):
                give, group = [aggregate.by], (aggregate.by,)
            given = [
                place
                for place in places
                if self.properties[place.owned][2] > 0.0
                and place.ref not in give
                and not (place.ref.owner == NodeRef(0) and self._is_name(place))
                and (not group or place.ref.owner == group[0])
            ]
            given.sort(key=lambda one: -self.properties[one.owned][2])
            if isinstance(aggregate, _Grouped):
                give.append(aggregate.item)
            elif given and self._asks_property(given[0], state):
                give = []
            give += [place.ref for place in given[:3]]
            if isinstance(by, PropertyRef) and by not in give and by.owner == NodeRef(0):
                give.append(by)
        order = () if by is None else (Sort(by, descending),)
        try:
            return Plan(pattern.nodes, pattern.hops, where, (), group, order, limit, tuple(give))
        except PlanError:
            return None

    def _asks_property(self, place: _Place, state: _State) -> bool:
        """Return whether a property is asked for, not the things that have it."""
        named = self._names_itself(state) and place.ref.owner == NodeRef(0)
        return named or names_class(self.question, place.property.name)

    @staticmethod
    def _names_itself(state: _State) -> bool:
        """Return whether the question names the things that a plan gives."""
        return any(one.left == NodeRef(0) and one.operator in ("=", "in") for one in state.where)

    def _without(self, pattern: _Pattern, state: _State, base: float) -> Iterator[Candidate]:
        """Yield the plan whose last hop is what there must not be."""
        if not pattern.hops or state.having is not None:
            return
        last = pattern.hops[-1]
        node = len(pattern.nodes) - 1
        head, tail = pattern.nodes[last.source], pattern.nodes[last.target]
        if last.inverse:
            head, tail = tail, head
        odds = self.hops.get((head, last.relation, tail), (0.0, 0.0, -_MOST_ODDS))[2]
        whole = self._whole["without"]["yes"] - self._whole["without"]["no"]
        inner = tuple(
            one
            for one in state.where
            if _owner(one) in (NodeRef(node), HopRef(len(pattern.hops) - 1))
        )
        outer = tuple(one for one in state.where if one not in inner)
        score = (
            base
            + odds
            + whole
            + self._whole["aggregate"]["none"]
            + self._whole["direction"]["none"]
        )
        if _NO.search(self.question):
            score += 2.0
        without = (Without((last,), inner),)
        for give, extra in (
            ((NodeRef(0),), 0.0),
            (
                (Aggregate("count", NodeRef(0)),),
                self._whole["aggregate"]["count"] - self._whole["aggregate"]["none"],
            ),
        ):
            counting = isinstance(give[0], Aggregate)
            limit = None if counting else self.stated.limit
            try:
                plan = Plan(pattern.nodes, pattern.hops[:-1], outer, without, (), (), limit, give)
            except PlanError:
                continue
            yield Candidate(plan, score + extra)


@dataclass(frozen=True, slots=True)
class _Total:
    item: Aggregate


@dataclass(frozen=True, slots=True)
class _Grouped:
    by: NodeRef | PropertyRef
    item: Aggregate


def _owner(one: Comparison) -> object:
    return one.left.owner if isinstance(one.left, PropertyRef) else None


def _side(odds: float, inverse: bool) -> float:
    """Return the log-probability of the side of a hop that the answer is at."""
    import math

    return -math.log1p(math.exp(-odds if inverse else odds))


def _asks_who(question: str) -> bool:
    return bool(re.match(r"\W*(?:who|which|what)\b", question, re.IGNORECASE))


_IRREGULAR = {"wrote": "writ", "written": "wr", "taught": "teach", "bought": "buy", "sold": "sell"}


def _says(words: Sequence[str], relation: str) -> bool:
    """Return whether one of the question's words is of a relation's: acted, actors."""
    for word in relation_phrase(relation).split():
        stem = word[: max(3, len(word) - 3)] if len(word) > 4 else word
        starts = tuple(one for one in (stem, _IRREGULAR.get(word, "")) if one)
        if len(word) > 3 and any(one.startswith(starts) for one in words):
            return True
    return False


def _turn(question: str, relation: str) -> float:
    """Return the log-odds that what is asked for is at a relation's tail, both of one class.

    "Who follows x" asks for the head, "whom does x follow" and "the most followers" for the tail.
    """
    word = max(relation_phrase(relation).split(), key=len)
    stem = re.escape(word[: max(3, len(word) - 2)])
    if agent := re.search(rf"\b{stem}\w*(?:er|or)s?\b", question, re.IGNORECASE):
        counted = re.search(
            r"\b(?:most|fewest|number|count|many|more|least)\b", question[: agent.start()], re.I
        )
        return 3.0 if counted else -3.0
    if re.search(rf"\b(?:does|do|did)\b.*\b{stem}|\b{stem}\w*ed by\b", question, re.IGNORECASE):
        return 3.0
    return -2.0 if re.search(rf"\b{stem}", question, re.IGNORECASE) else 0.0


_LATE = re.compile(r"\b(?:young|new|late)est\b|\bmost recent(?:ly)?\b", re.IGNORECASE)
_EARLY = re.compile(r"\b(?:old|earli)est\b", re.IGNORECASE)
_MUCH = re.compile(
    r"\b(?:high|larg|great|long|bigg|heavi|tall|b)est\b|\b(?:maximum|most expensive)\b", re.I
)
_LITTLE = re.compile(
    r"\b(?:low|small|short|cheap|light|few|l)est\b|\b(?:least|fewest|minimum)\b", re.IGNORECASE
)
_TIME = re.compile(
    r"date|year|born|birth|time|founded|created|released?|since|start|began|opened|established",
    re.I,
)


def _superlative(question: str, property_: Property, descending: bool) -> float:
    """Return what the question's superlative is worth for an order by a property.

    The oldest has the earliest date of birth, but the greatest age.
    """
    late, early = bool(_LATE.search(question)), bool(_EARLY.search(question))
    dated = property_.type in ("date", "datetime") or bool(_TIME.search(property_.name))
    if late != early:
        if not dated and not re.search(r"\bage\b", relation_phrase(property_.name)):
            return -1.0
        first_is_high = late == dated
        return 2.5 if descending == first_is_high else -2.5
    much, little = bool(_MUCH.search(question)), bool(_LITTLE.search(question))
    return 0.0 if much == little else 1.0 if descending == much else -1.0


def _is_year(value: object) -> bool:
    return isinstance(value, int) and 1000 <= value <= 2200


def _stem(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and len(word) > 3 else word


def _words(name: str, also: Sequence[str]) -> str:
    return " ".join([relation_phrase(name), *(f"or {one}" for one in also[:2])])


_ASKED = re.compile(
    r"^\W*(?:which|what|list|show(?: me)?|find|name|who|how many|give(?: me)?|identify|get|display"
    r"|count|return)(?:\s+(?:are|is|all|the|of|any|me|first|top|different|unique|names?|titles?"
    r"|\d+|one|two|three|four|five|ten))*\s+",
    re.IGNORECASE,
)


_PERSON_WORDS = """
person people man woman human individual employee user customer client actor actress director author
writer member student teacher player artist character officer contact patient doctor agent owner
manager staff scientist researcher politician reviewer child parent friend worker driver singer
"""
_PERSONS = frozenset(_PERSON_WORDS.split())


def _named(question: str, name: str) -> float:
    """Return what it is worth that the question's first noun is called as a class is, or "who"."""
    words = relation_phrase(name).split()
    if re.match(r"\W*who\b", question, re.IGNORECASE):
        return 1.5 if words and words[-1] in _PERSONS else 0.0
    return 1.5 if names_class(question, name) else 0.0


def names_class(question: str, name: str) -> bool:
    """Return whether a question's first noun is called as a class is.

    >>> names_class("List the first 3 ship cities", "ShipCity"), names_class("Who is she?", "Who")
    (True, False)
    """
    words = relation_phrase(name).split()
    if not words or re.match(r"\W*who\b", question, re.IGNORECASE):
        return False
    rest = _ASKED.sub("", question, count=1) if _ASKED.match(question) else question
    first = [_stem(word) for word in re.findall(r"[a-z]+", rest.lower())[: len(words)]]
    return first == [_stem(word) for word in words]

"""Searches for the plans that a question may mean, the best first by the plan scorer's odds.

Every plan is put together from what the schema holds, so none can be wrong in kind. A plan's score
is the sum of the log-odds of the roles that it gives to the parts of the schema, the
log-probabilities of what it is as a whole, and how well it accounts for what the question states.
Stages, each with a beam: patterns (classes and hops around the requested class), conditions, then
aggregate, order, limit and what is given.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from kgqa.errors import PlanError
from kgqa.lexicon.english import words
from kgqa.lexicon.lemmas import stem
from kgqa.paths.words import relation_phrase
from kgqa.planning.aggregates import HOW_MANY, ScoredPlan, WholeSearch
from kgqa.planning.conditions import ConditionSearch
from kgqa.planning.fact_words import FactWords
from kgqa.planning.patterns import PatternSearch
from kgqa.planning.question_words import (
    EXTREME,
    NO,
    PARTICIPLE,
    TOTAL,
    is_dated,
    measures,
    stems,
)
from kgqa.queries.check import check
from kgqa.queries.groups import wants_empty
from kgqa.queries.plan import (
    NOT_OF_CLASS,
    Aggregate,
    Arithmetic,
    Comparison,
    HopRef,
    Item,
    NodeRef,
    Plan,
    PropertyRef,
    leaves,
    owners,
)
from kgqa.understanding.asked import asks_best, asks_repeated, asks_times, asks_when
from kgqa.weights import weights

if TYPE_CHECKING:
    from kgqa.graph.schema import Property
    from kgqa.planning.evidence import QuestionReading

WEIGHTS = weights("planning")
PLANS = 12
_WHAT = re.compile(r"\W*what(?:'s| is| was| are| were)\b(?! the name)", re.IGNORECASE)
_WHOLE_END = 0.8  # part of a relation's facts from which its class is implied
# and what begins with "not", if a value follows
_DENIED = ("<>", "missing", "missing or <=", NOT_OF_CLASS)


def _denies(one: Comparison) -> bool:
    """Return whether a comparison is negated; one with 0 denies nothing."""
    is_no = isinstance(one.right, tuple) and any(each is False for each in one.right)
    return is_no or one.operator in _DENIED or (one.negated and one.affirmed != "missing")


class PlanSearch:
    """The plan search of one question.

    1. Generate patterns of classes and hops (:class:`PatternSearch`).
    2. Add sets of conditions to each (:class:`ConditionSearch`).
    3. Complete them with aggregates, orders and outputs (:class:`WholeSearch`).
    4. Correct the scores by the words that a plan ignores, and keep the best plans that fit.
    """

    def __init__(self, reading: QuestionReading) -> None:
        self._read = reading

    def plans(self, most: int = PLANS) -> list[ScoredPlan]:
        """Return up to ``most`` plans that fit the schema, the best first."""
        found: dict[Plan, ScoredPlan] = {}
        read = self._read
        facts = FactWords(read.question, read.bare, read.parts.index, read.today)
        conditions, wholes = ConditionSearch(self._read), WholeSearch(self._read)
        for pattern in PatternSearch(self._read).patterns():
            places = list(self._read.places(pattern))
            for state in conditions.conditions(pattern, places):
                for whole in wholes.wholes(pattern, places, state):
                    one = replace(whole, plan=facts.meant(whole.plan))
                    if one.plan not in found or found[one.plan].score < one.score:
                        found[one.plan] = replace(one, denied=state.denied)
        weighed = [
            replace(one, score=one.score + vain, vain=vain)
            for one in found.values()
            for vain in [self._in_vain(one.plan, one.denied)]
        ]
        if asks_repeated(self._read.question):
            weighed = [replace(one, plan=self._repeated(one.plan)) for one in weighed]
        unique: dict[Plan, ScoredPlan] = {}  # the best candidate of each plan
        for one in sorted(weighed, key=lambda one: -one.score):
            if self._read.plain:
                wide = replace(one, plan=self._widened(one.plan), nouns=self._nouns(one.plan))
            else:
                plan = self._valued(self._open_ended(one.plan))
                wide = replace(one, plan=plan, nouns=self._also(plan))
            if wide.plan not in unique and self._fits(wide.plan):
                unique[wide.plan] = wide
                if len(unique) == most:
                    break
        return list(unique.values())

    def _fits(self, plan: Plan) -> bool:
        """Return whether a plan fits the schema."""
        try:
            check(plan, self._read.parts.index)
        except PlanError:
            return False
        return True

    def _nouns(self, plan: Plan) -> tuple[str, ...]:
        """Return the everyday names of a plan's classes, "" for one without."""
        nodes = [*plan.nodes, *(plan.first.nodes[:1] if plan.first else ())]
        return tuple("" if node in self._read.nameless else self._read.noun(node) for node in nodes)

    def _also(self, plan: Plan) -> tuple[str, ...]:
        """Return the synonyms of all classes of a plan."""
        types = self._read.parts.index.types
        return tuple(name for node in plan.nodes if node in types for name in types[node].also)

    def _widened(self, plan: Plan) -> Plan:
        """Return the plan without class restrictions that its hops imply.

        Unchanged if the new plan would not fit the schema.
        """
        if plan.first is not None:
            return plan
        shares: dict[int, float] = {}
        for number, hop in enumerate(plan.all_hops):
            for node, head in ((hop.source, not hop.inverse), (hop.target, hop.inverse)):
                if number >= len(plan.hops) and node < plan.pattern_size:
                    continue  # a negated hop implies no class
                patterns = self._read.parts.index.relations[hop.relation]
                ends = [
                    (pattern.head if head else pattern.tail, pattern.count) for pattern in patterns
                ]
                mine = sum(count for end, count in ends if end == plan.nodes[node])
                share = mine / max(1, sum(count for _, count in ends))
                shares[node] = max(shares.get(node, 0.0), share)
        given = {one.node for one in (*plan.give, *plan.group) if isinstance(one, NodeRef)}
        given |= {item.of.node for item in plan.items()
                  if isinstance(item, Aggregate) and isinstance(item.of, NodeRef)}  # fmt: skip
        least = 2 if wants_empty(plan) else _WHOLE_END
        nodes = [
            "" if node in shares and (node not in given or shares[node] >= least) else name
            for node, name in enumerate(plan.nodes)
        ]
        wide = replace(plan, nodes=tuple(nodes))
        return wide if self._fits(wide) else plan

    def _open_ended(self, plan: Plan) -> Plan:
        """Return the plan with hops that end in any class, unless the question names the class.

        Moderators are users and streams: a relation leads to several classes, and the question
        names none of them. Otherwise the plan is unchanged.
        """
        if plan.first is not None or plan.without or not plan.hops:
            return plan
        used: set[object] = {
            leaf.owner
            for item in (*plan.items(), *plan.group, *plan.where)
            for leaf in leaves(item)
            if isinstance(leaf, PropertyRef)
        }
        used |= {*plan.give}
        nodes = list(plan.nodes)
        for hop in plan.hops:
            leaf, name = NodeRef(hop.target), plan.nodes[hop.target]
            if leaf in used or any(one.source == hop.target for one in plan.hops):
                continue
            if not name or len({*self._read.class_words(name)}) >= nodes.count(name):
                continue
            ends = {
                relation.head if hop.inverse else relation.tail
                for relation in self._read.parts.index.relations[hop.relation]
                if plan.nodes[hop.source] == (relation.tail if hop.inverse else relation.head)
            }
            if len(ends) > 1:
                nodes[hop.target] = ""
        wide = replace(plan, nodes=tuple(nodes)) if nodes != list(plan.nodes) else plan
        return wide if self._fits(wide) else plan

    def _valued(self, plan: Plan) -> Plan:
        """Return the plan with a requested property before its owner, if the owner has no name.

        Otherwise unchanged.
        """
        type_ = self._read.parts.index.types.get(plan.nodes[0])
        if type_ is None or type_.names or len(plan.give) < 2 or plan.first is not None:
            return plan
        owner, value, *rest = plan.give
        if owner != NodeRef(0) or not isinstance(value, PropertyRef) or value.owner != owner:
            return plan
        property_ = self._read.parts.index.properties(plan.nodes[0]).get(value.name)
        when = asks_when(self._read.question) and property_ is not None and is_dated(property_)
        said = self._read.mentions.of(value.name) and not self._read.class_words(plan.nodes[0])
        if when or (said and _WHAT.match(self._read.question)):
            return replace(plan, give=(value, owner, *rest))
        return plan

    def _in_vain(self, plan: Plan, denied: int = 0) -> float:
        """Return the penalty for cues of the question, as a superlative, that the plan ignores.

        ``denied``: how many comparisons of the plan are negated already.
        """
        heeded = self._heeded(plan)
        cost = sum(penalty for cue, penalty in self._cues.items() if not heeded[cue])
        denied += len(plan.without) + sum(map(_denies, plan.where))
        said = sum(1 for _ in NO.finditer(self._read.bare)) - ("anymore" in self._read.bare)
        if said and not 0 < denied <= said:  # one "not" negates one condition
            cost += WEIGHTS["denial_left_out"]
        named = {one.left for one in plan.where if one.operator == "="}
        if any(isinstance(one, Aggregate) and one.of in named for one in plan.give):
            cost += WEIGHTS["count_of_named_thing"]  # a single entity
        if not self._read.plain:
            spoken = {word for name in self._names(plan) for word in stems(name)}
            nouns = {*map(stem, measures(self._read.question))} & self._measurable
            # "the most votes", where votes are a number
            cost += WEIGHTS["measure_left_out"] * len(nouns - spoken)
        cost += WEIGHTS["idle_hop"] * self._idles(plan)
        cost += WEIGHTS["mention_left_out"] * self._unsaid(plan)
        if plan.is_bare and not plan.group:  # it selects nothing
            cost += WEIGHTS["property_left_out"] * self._unsaid_properties(plan)
        return cost

    @cached_property
    def _cues(self) -> dict[str, float]:
        """What the question asks of its plan, with the penalty if the plan does not heed it."""
        read, question = self._read, self._read.question
        found = {
            "order": asks_best(question) * WEIGHTS["superlative_left_out"] * (1 + read.is_measured)
            + bool(EXTREME.search(question)) * WEIGHTS["extreme_left_out"],
            "number": bool(HOW_MANY.match(question)) * WEIGHTS["how_many_left_out"],
            "average": read.asks_average * WEIGHTS["average_left_out"],
            "average bound": bool(read.averaged) * WEIGHTS["average_bound_left_out"],
            "total": bool(TOTAL.search(question)) * WEIGHTS["total_left_out"],
            "total of column": bool(TOTAL.search(question)) * WEIGHTS["total_of_column"],
            "time": self._asks_when * WEIGHTS["when_left_out"],
            "how often": asks_times(question) * WEIGHTS["how_often_left_out"],
            "groups": bool(read.of_each) * WEIGHTS["groups_left_out"],
            "choice": bool(read.choice) * WEIGHTS["choice_left_out"],
            "other": bool(read.others) * WEIGHTS["other_left_out"],
            "revenue": read.revenue * WEIGHTS["revenue_left_out"],
            "bound": bool(read.named_before) * WEIGHTS["bound_left_out"],
            "event": bool(self._events) * WEIGHTS["event_left_out"],
        }
        return {cue: penalty for cue, penalty in found.items() if penalty}

    def _heeded(self, plan: Plan) -> dict[str, bool]:
        """Return which of the cues of :attr:`_cues` a plan heeds."""
        given = [one for one in plan.give if isinstance(one, Aggregate)]
        kinds = {item.kind for item in plan.items() if isinstance(item, Aggregate)}
        totals = any("total" in relation_phrase(name).split() for name in self._names(plan))
        return {
            "order": bool(plan.order or kinds & {"least", "most"}),
            "number": self._answers_how_many(plan),
            "average": "average" in kinds,
            "average bound": any(isinstance(one.right, Aggregate) for one in plan.where),
            "total": "sum" in kinds or totals,
            "total of column": "sum" in kinds or not totals,
            "time": any(
                is_dated(one) and (not self._dates or one.name in self._dates)
                for one in self._given(plan)
            ),
            "how often": any(isinstance(one.of, HopRef) for one in given),
            "groups": self._groups_each(plan),
            "choice": any(
                one.operator == "in" and isinstance(one.right, tuple)
                and NodeRef(0) in owners(one.left) and self._read.choice & {*one.right}
                for one in plan.where
            ),
            "other": not any(plan.nodes.count(other) == 1 for other in self._read.others),
            "revenue": any(one.kind == "sum" or isinstance(one.of, Arithmetic) for one in given),
            "bound": all(names & self._compared(plan) for names in self._read.named_before),
            "event": all({*self._names(plan)} & owners for owners in self._events),
        }  # fmt: skip

    @staticmethod
    def _compared(plan: Plan) -> set[str]:
        """Return the names of the properties that a plan compares."""
        where = [*plan.where, *(one for part in plan.without for one in part.where)]
        where += plan.first.where if plan.first else ()
        return {leaf.name for one in where for leaf in leaves(one) if isinstance(leaf, PropertyRef)}

    @staticmethod
    def _answers_how_many(plan: Plan) -> bool:
        """Return whether a plan may give a number of something.

        It calculates one, or gives a property of what it names or finds: the passengers of a trip,
        but not of all trips of a named boat.
        """
        if any(isinstance(one, Aggregate) for one in plan.give):
            return True
        named = [one.left for one in plan.where if one.operator == "="]
        owners_ = [one.owner for one in plan.give if isinstance(one, PropertyRef)]
        others = NodeRef(0) in named and all(one not in named for one in owners_)
        return bool(owners_) and not others

    @cached_property
    def _measurable(self) -> set[str]:
        """The stemmed words in names of properties and classes."""
        names = [*self._read.classes, *(name for _, _, name in self._read.properties)]
        return {word for one in names if one for word in stems(one)}

    @cached_property
    def _dates(self) -> dict[str, set[str]]:
        """The dates whose names the question has whole, with the classes that have them.

        Names of any date, as "date" and "year", are left out, and words for a class.
        """
        read, found = self._read, dict[str, set[str]]()
        classes = set().union(*read.class_mentions.values())
        for kind, owner, name in read.properties if not read.plain else ():
            if kind != "class" or {*relation_phrase(name).split()} <= words("timed"):
                continue
            said = read.mentions.share(name, owner) == 1 and {*read.mentions.of(name)} - classes
            if said and is_dated(read.parts.properties[kind, owner, name][0]):
                found.setdefault(name, set()).add(owner)
        return found

    @cached_property
    def _events(self) -> list[set[str]]:
        """For each verb of the question that is the name of a date, the classes that have it.

        What was borrowed has a loan, if that is what says when something was borrowed.
        """
        return [
            owners for name, owners in self._dates.items()
            if PARTICIPLE.fullmatch(relation_phrase(name))
        ]  # fmt: skip

    @cached_property
    def _asks_when(self) -> bool:
        """Whether the question asks for a time and the graph has dates."""
        asked = asks_when(self._read.question) and not self._read.plain
        known = self._read.parts.properties.values()
        return asked and any(is_dated(one) for one, _ in known)

    def _given(self, plan: Plan) -> list[Property]:
        """Return the properties in a plan's output; unknown ones are left out."""
        index = self._read.parts.index
        found = [index.kind(plan, one) for one in plan.give if isinstance(one, PropertyRef)]
        return [one for one in found if one is not None]

    def _idles(self, plan: Plan) -> int:
        """Return the number of unmentioned hops that serve no condition or output.

        0 for plain triples.
        """
        if plan.first is not None or plan.without or self._read.plain:
            return 0
        items: list[object] = [plan.give[0]]
        items += (side for one in plan.where for side in (one.left, one.right))
        items += [one.by for one in plan.order if not self._is_of_second(plan, one.by)]
        items += [one for one in plan.give[1:] if self._is_asked(plan, one)]
        used: set[object] = {owner for item in items for owner in owners(item)}
        used |= {NodeRef(hop.source) for hop in plan.hops}
        relations = [hop.relation for hop in plan.hops]
        idle = 0
        for number, hop in enumerate(plan.hops):
            name, source = plan.nodes[hop.target], plan.nodes[hop.source]
            # the words of a class, or of a property, say no relation that is called like it
            words = {*self._read.mentions.of(hop.relation)} - {*self._read.class_words(source)}
            words -= self._read.of_compared
            said = bool(words) and relations.count(hop.relation) == 1
            round_ = len(plan.hops) > 1 and name == source and not said
            if round_ or not (said or used & {NodeRef(hop.target), HopRef(number)}):
                named = {*self._read.class_words(name)} - self._read.of_compared
                idle += plan.nodes.count(name) > 1 or not named
        return idle

    @staticmethod
    def _is_of_second(plan: Plan, item: Item) -> bool:
        """Return whether an order is by a property of the second of two nodes of one class."""
        owner = item.owner if isinstance(item, PropertyRef) else None
        return isinstance(owner, NodeRef) and plan.nodes.count(plan.nodes[owner.node]) > 1

    def _is_asked(self, plan: Plan, item: Item) -> bool:
        """Return whether the question mentions a further output column.

        True if the column is not a property of a node.
        """
        if not isinstance(item, PropertyRef) or not isinstance(item.owner, NodeRef):
            return True
        type_ = self._read.parts.index.types.get(plan.nodes[item.owner.node])
        named = type_ is not None and item.name in (type_.names or ("name", "title"))
        return not named and bool(self._read.mentions.of(item.name))

    def _unsaid(self, plan: Plan) -> int:
        """Return the number of mentioned classes and relations that a plan lacks."""
        said = self._said(plan)
        return sum(not words & said for words in self._read.schema_mentions)

    def _unsaid_properties(self, plan: Plan) -> int:
        """Return how many fully mentioned properties of the requested class a plan lacks."""
        type_ = self._read.parts.index.types.get(plan.nodes[0])
        if type_ is None or self._read.plain:
            return 0
        mentions, said = self._read.mentions, self._said(plan)
        return sum(
            mentions.share(property_.name, type_.name) == 1
            and not said & {*mentions.of(property_.name, type_.name)}
            for property_ in type_.properties
            if property_.name not in type_.names
        )

    def _said(self, plan: Plan) -> set[int]:
        """Return the positions of the words that a plan's names explain.

        The classes of plain triples have names of our own making, which explain nothing.
        """
        made = {*plan.nodes} if self._read.plain else set()
        names = [name for name in self._names(plan) if name not in made]
        return {at for name in names for at in self._read.mentions.of(name)}

    def _names(self, plan: Plan) -> list[str]:
        """Return the names of the classes, relations and properties in a plan."""
        items = [*plan.items(), *plan.group, *plan.where]
        names = [
            leaf.name for item in items for leaf in leaves(item) if isinstance(leaf, PropertyRef)
        ]
        for one in (plan, plan.first) if plan.first else (plan,):
            names += [str(each.right[0]) for each in one.where
                      if each.affirmed == "is a" and isinstance(each.right, tuple)]  # fmt: skip
            names += [*one.nodes, *(hop.relation for hop in one.all_hops)]
        return names

    def _groups_each(self, plan: Plan) -> bool:
        """Return whether a plan groups as the question's "per" or "by" asks."""
        read, mentions = self._read, self._read.mentions
        if plan.first is not None:
            return True
        said: set[int] = set()
        for one in plan.give:  # the average freight per order is that of all orders
            of = one.of if isinstance(one, Aggregate) and one.kind == "average" else None
            if isinstance(of, PropertyRef) and isinstance(of.owner, NodeRef) and not plan.group:
                said |= {*read.class_words(plan.nodes[of.owner.node])}
        for one in plan.group:
            if isinstance(one, NodeRef):
                said |= {*read.class_words(plan.nodes[one.node])}
            elif isinstance(one, PropertyRef):
                said |= {*mentions.of(one.part or one.name)}
        return bool(said & read.of_each)

    def _repeated(self, plan: Plan) -> Plan:
        """Return the plan with each relation within one class repeated: one or more hops of it."""
        hops = tuple(
            replace(hop, repeated=plan.nodes[hop.source] == plan.nodes[hop.target])
            for hop in plan.hops
        )
        with suppress(PlanError):
            return replace(plan, hops=hops)
        return plan

"""Graph patterns that a question may be about: classes and hops from the requested class on."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from heapq import heappop, heappush, nlargest
from typing import TYPE_CHECKING

from kgqa.planning.evidence import Pattern, QuestionReading
from kgqa.planning.question_words import named, names_class, says, turn
from kgqa.planning.schema_parts import ENTITY
from kgqa.queries.plan import Hop
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Iterator

WEIGHTS = weights("planning")
PATTERNS = 14  # patterns kept: the beam's width
_MOST_HOPS = 3
_LONGEST_BRIDGE = 4  # hops
_COMMON = 3  # hops added to a way through a node that many share


class PatternSearch:
    """Generates the patterns of one reading by beam search over hops."""

    def __init__(self, reading: QuestionReading) -> None:
        self._read = reading
        self._ways: dict[str, dict[str, list[tuple[str, bool, str]]]] = {}

    def patterns(self) -> list[Pattern]:
        """Return up to ``PATTERNS`` patterns with the best scores, best first."""
        whole = self._read.whole["hops"]

        def worth(pattern: Pattern) -> float:
            """Return a pattern's score with that of its place for the question's values."""
            return pattern.score + self._place_for(pattern)

        near = self._read.parts.called.near(self._read.question)
        level = [
            Pattern(
                (name,), (),
                odds[0] + odds[1] + WEIGHTS["class_similarity"] * near.get(name, 0.0)
                + max(named(self._read.question, one) for one in self._read.called_class(name))
                + WEIGHTS["class_holds_noun"] * (name in self._read.held_by)
                + WEIGHTS["main_class"] * (self._read.asks_items and name == self._read.main_class),
            )
            for name, odds in self._read.classes.items()
        ]  # fmt: skip
        level = [
            replace(one, score=one.score + self._of_values(one.nodes[0], literally=True))
            for one in level
        ]
        if "" in self._read.classes:  # a question seldom asks for entities of any class
            level = [
                replace(one, score=WEIGHTS["any_class"]) if one.nodes == ("",) else one
                for one in level
            ]
        level = nlargest(PATTERNS, level, key=lambda one: one.score)
        every: dict[tuple[object, ...], Pattern] = {}
        for hops in range(_MOST_HOPS + 1):
            for one in level:
                nothing = WEIGHTS["any_class_alone"] * (one.nodes == ("",))
                alone = one.nodes[0] in self._read.parts.value_nodes and not hops
                nothing += WEIGHTS["values_alone"] * alone
                walked = hops - len({*one.nodes[1:]} & self._read.columns)
                total = replace(one, score=one.score + whole[str(min(walked, 3))] + nothing)
                known = every.get(one.key())
                if known is None or known.score < total.score:  # a bridge, or hop by hop
                    every[one.key()] = total
            if hops < _MOST_HOPS:
                longer = (more for one in level for more in self._longer(one))
                unique: dict[tuple[object, ...], Pattern] = {}
                for one in nlargest(4 * PATTERNS, longer, key=worth):
                    unique.setdefault(one.key(), one)
                level = list(unique.values())[:PATTERNS]
        return nlargest(PATTERNS, every.values(), key=worth)

    def _of_values(self, name: str, *, literally: bool = False) -> float:
        """Score a class of nodes that only hold values: "the cheapest" of a price; 0 for others.

        ``literally``: a mention counts only in the relation's own words, and a missing one as a
        penalty.
        """
        relation = self._read.parts.value_nodes.get(name)
        if relation is None:
            return 0.0
        if literally:  # "the cheapest" means the owner of a price
            said = says(self._read.mentions.words, relation)
            return WEIGHTS["values_asked"] * (1 if said else -1)
        return WEIGHTS["values_said"] * bool(self._read.mentions.of(relation))

    def _place_for(self, pattern: Pattern) -> float:
        """Score a pattern by whether its classes hold the question's values and groups."""
        classes = {*pattern.nodes, *(hop.relation for hop in pattern.hops)}
        worth = 0.0
        for value in self._read.values:
            held = any(owner in classes for _, owner, _ in value.fields)
            worth += WEIGHTS["class_holds_value"] if held else self._read.unused(value)
        each = self._read.each
        return worth + (WEIGHTS["each_left_out"] if each and not each & {*pattern.nodes} else 0.0)

    @cached_property
    def _steps(self) -> dict[str, list[tuple[str, bool, str, bool, float]]]:
        """The hops from each class: relation, inverse, target, whether mentioned, and fan-out."""
        index = self._read.parts.index
        size = {name: max(1, one.count) for name, one in index.types.items()}
        steps: dict[str, list[tuple[str, bool, str, bool, float]]] = {}
        for one in index.schema.relations:
            if {one.head, one.tail} <= self._read.classes.keys():
                onward, back = (one.count / size.get(end, 1) for end in (one.head, one.tail))
                said = self._read.said.get((one.head, one.relation, one.tail), False)
                steps.setdefault(one.head, []).append((one.relation, False, one.tail, said, onward))
                steps.setdefault(one.tail, []).append((one.relation, True, one.head, said, back))
        return steps

    def _bridges(self, start: str) -> dict[str, list[tuple[str, bool, str]]]:
        """Return, by mentioned class, the best way of two or more hops that leads to it.

        Clients and loans meet at accounts. The shortest way through unmentioned classes is best; of
        equal ones that whose relations the question mentions, then that of the smaller fan-out. A
        node that two others both point to joins them less than a node that points to both.
        """
        if start in self._ways:
            return self._ways[start]
        mentioned = self._read.mentioned
        found: dict[str, list[tuple[str, bool, str]]] = {}
        heap: list[tuple[int, int, float, list[tuple[str, bool, str]]]] = [(0, 0, 1.0, [])]
        seen: set[tuple[str, bool]] = set()
        while heap and len(found) < len(mentioned - {start}):
            cost, unsaid, fan, way = heappop(heap)
            end, onward = (way[-1][2], not way[-1][1]) if way else (start, False)
            if (end, onward) in seen or (way and end == start):
                continue
            seen.add((end, onward))
            if way and end in mentioned:
                found.setdefault(end, way)
                continue
            for relation, inverse, to, said, times in self._steps.get(end, ()):
                common = onward and inverse
                if (common and end in self._read.columns) or len(way) == _LONGEST_BRIDGE:
                    continue
                further = (
                    cost + 1 + _COMMON * common,
                    unsaid - said,
                    fan * times,
                    [*way, (relation, inverse, to)],
                )
                heappush(heap, further)
        self._ways[start] = {to: way for to, way in found.items() if len(way) > 1}
        return self._ways[start]

    def _bridged(self, pattern: Pattern) -> Iterator[Pattern]:
        """Yield the pattern extended by each way to a mentioned class that it lacks."""
        for at, name in enumerate(pattern.nodes):
            for far, way in self._bridges(name).items():
                if far not in pattern.nodes:
                    nodes, hops, away, source = pattern.nodes, pattern.hops, pattern.away, at
                    for relation, inverse, to in way:
                        hops = (*hops, Hop(source, relation, len(nodes), inverse))
                        away = (*away, away[source] + 1)
                        source, nodes = len(nodes), (*nodes, to)
                    odds = self._read.classes[far][0] + WEIGHTS["bridge"] * (len(way) - 1)
                    again = [to for _, _, to in way if to == name]
                    odds += WEIGHTS["second_round_about"] * sum(
                        not self._is_said_twice(to) for to in again
                    )
                    yield Pattern(nodes, hops, pattern.score + odds, away)

    def _longer(self, pattern: Pattern) -> Iterator[Pattern]:
        """Yield the pattern extended by a way to a mentioned class, or by one hop."""
        yield from self._bridged(pattern)
        nodes, question = pattern.nodes, self._read.question
        walked = {
            (hop.relation, frozenset((nodes[hop.source], nodes[hop.target])))
            for hop in pattern.hops
        }
        for (head, relation, tail), odds in self._read.hops.items():
            again = any(relation == name for name, _ in walked)
            # the log-odds of a relation count once
            worth = self._again(nodes, relation, head, tail) if again else odds[0]
            ends = frozenset((head, tail))
            if not again and any(two == ends for _, two in walked):
                both = self._says_both(relation, ends, walked)
                worth = worth if both else min(worth, 0.0) + WEIGHTS["parallel_again"]
            phrase = self._read.phrases[head, relation, tail]
            turned = turn(question, phrase) if head == tail or self._read.plain else 0.0
            for at, name in enumerate(nodes):
                for inverse, near, far in ((False, head, tail), (True, tail, head)):
                    if near != name or far not in self._read.classes:
                        continue
                    side = 0 if again else _side(odds[1] + turned, inverse)
                    score = pattern.score + worth + side
                    if inverse and not (at or name):  # "official language" leads to languages
                        noun = phrase.split()[-1]
                        score += WEIGHTS["relation_names_answer"] * names_class(question, noun)
                    hop = Hop(at, relation, len(nodes), inverse)
                    yield from self._with_hop(pattern, hop, far, score)

    def _again(self, nodes: tuple[str, ...], relation: str, head: str, tail: str) -> float:
        """Return the log-odds of a relation that a pattern already has.

        ``nodes``: the pattern's. The question may name a further entity of the class ``head`` or
        ``tail`` where things have several of them: "with toilets and no café".
        """
        named = any(
            sum((ENTITY, end, "name") in value.fields for value in self._read.values)
            > max(1, nodes.count(end))
            and any(step[0] == relation and step[2] == end and step[4] > 1 for step in steps)
            for end, steps in (
                (tail, self._steps.get(head, ())), (head, self._steps.get(tail, ()))
            )
        )  # fmt: skip
        return 0.0 if named else WEIGHTS["relation_again"]

    def _says_both(
        self, relation: str, ends: frozenset[str], walked: set[tuple[str, frozenset[str]]]
    ) -> bool:
        """Return whether the question mentions ``relation`` and the walked ones of its classes.

        ``ends``: the classes; relations of them that are not walked are left out.
        """
        return all(
            said
            for (head, name, tail), said in self._read.said.items()
            if frozenset((head, tail)) == ends and (name == relation or (name, ends) in walked)
        )

    def _is_said_twice(self, class_: str) -> bool:
        """Return whether the question mentions a class twice, or another of it.

        True for plain triples, whose classes have no names of their own.
        """
        if self._read.plain or not class_:
            return True
        said = len(self._read.class_words(class_))
        return said > 1 or bool(self._read.others_said or self._read.others)

    def _with_hop(self, pattern: Pattern, hop: Hop, far: str, score: float) -> Iterator[Pattern]:
        """Yield a pattern with a hop to a later node of the class ``far``, and to a new one.

        ``score``: the pattern's with the hop, but without its class.
        """
        nodes = pattern.nodes
        between = {(one.source, one.relation, one.target) for one in pattern.hops}
        for other in range(hop.source + 1, len(nodes)):  # both relations between the same two
            if nodes[other] == far and (hop.source, hop.relation, other) not in between:
                back = replace(hop, target=other)
                yield replace(pattern, hops=(*pattern.hops, back), score=score)
        if far in nodes:
            before = {nodes[one.source] for one in pattern.hops if one.target == hop.source}
            again = far in before and far != nodes[hop.source] and not self._is_said_twice(far)
            score += WEIGHTS["second_round_about"] if again else WEIGHTS["second_of_class"]
        else:
            score += self._read.classes[far][0] + self._of_values(far)
        away = (*pattern.away, pattern.away[hop.source] + 1)
        yield Pattern((*nodes, far), (*pattern.hops, hop), score, away)


def _side(odds: float, inverse: bool) -> float:
    """Return the log-probability that the answer is on this side of a hop.

    ``odds``: log-odds that it is at the head; ``inverse``: this side is the tail.
    """
    return log_sigmoid(odds if inverse else -odds)


def log_sigmoid(odds: float) -> float:
    """Return the log-probability of log-odds."""
    return -math.log1p(math.exp(-odds))

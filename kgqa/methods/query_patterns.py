"""The patterns that a question may be about: classes and hops around what it asks for."""

from __future__ import annotations

from dataclasses import replace
from heapq import nlargest
from typing import TYPE_CHECKING

from kgqa.methods.query_reading import Pattern, Reading
from kgqa.methods.query_words import named, names_class, says, turn
from kgqa.queries.plan import Hop

if TYPE_CHECKING:
    from collections.abc import Iterator

PATTERNS = 14  # beam
_MOST_HOPS = 3
_HAS_VALUE = 2.5  # added where the graph holds the value that is stated
_NEAR = 8.0  # what a class's nearness to a question counts, if it has no name of its own
_AGAIN = -3.5  # a hop that is there already
_PARALLEL = -3.0  # a second relation between two classes, if it has none of the question's words
_SAME = 0.5  # two relations between the same two things
_NOT_EACH = -8.0  # there is nothing of what a number is asked of each of
_ANYTHING = -2.0  # something of no class
_CALLED = 3.0  # something of no class that a relation calls as the question does: languages
_SECOND = -0.5  # another thing of a class that is there already


class PatternSearch:
    """The patterns of one reading."""

    def __init__(self, reading: Reading) -> None:
        self._read = reading

    def patterns(self) -> list[Pattern]:
        """Return the best patterns."""
        whole = self._read.whole["hops"]

        def worth(pattern: Pattern) -> float:
            return pattern.score + self._place_for(pattern)

        near = self._read.parts.called.near(self._read.question)
        level = [
            Pattern(
                (name,), (),
                odds[0] + odds[1] + _NEAR * near.get(name, 0.0)
                + max(named(self._read.question, one) for one in (name, self._read.noun(name))),
            )
            for name, odds in self._read.classes.items()
        ]  # fmt: skip
        level = [
            replace(one, score=one.score + self._of_values(one.nodes[0], literally=True))
            for one in level
        ]
        if "" in self._read.classes:  # nobody asks for everything
            level = [replace(one, score=_ANYTHING) if one.nodes == ("",) else one for one in level]
        level = nlargest(PATTERNS, level, key=lambda one: one.score)
        every: dict[tuple[object, ...], Pattern] = {}
        for hops in range(_MOST_HOPS + 1):
            for one in level:
                nothing = _ANYTHING * 2 if one.nodes == ("",) else 0.0
                nothing -= _CALLED * (one.nodes[0] in self._read.parts.value_nodes and not hops)
                walked = hops - len({*one.nodes[1:]} & self._read.columns)
                total = replace(one, score=one.score + whole[str(min(walked, 3))] + nothing)
                every.setdefault(one.key(), total)
            if hops < _MOST_HOPS:
                longer = (more for one in level for more in self._longer(one))
                unique: dict[tuple[object, ...], Pattern] = {}
                for one in nlargest(4 * PATTERNS, longer, key=worth):
                    unique.setdefault(one.key(), one)
                level = list(unique.values())[:PATTERNS]
        return nlargest(PATTERNS, every.values(), key=worth)

    def _of_values(self, name: str, *, literally: bool = False) -> float:
        """Return what it is worth that a node of values is there: "the cheapest" of a price."""
        relation = self._read.parts.value_nodes.get(name)
        if relation is None:
            return 0.0
        if literally:  # "the cheapest" is no price, but what has one
            return _CALLED * says(self._read.mentions.words, relation) or -_CALLED
        return _CALLED if self._read.mentions.of(relation) else 0.0

    def _place_for(self, pattern: Pattern) -> float:
        """Return what it is worth that the values of the question have a place in a pattern."""
        classes = {*pattern.nodes, *(hop.relation for hop in pattern.hops)}
        worth = 0.0
        for value in self._read.values:
            held = any(owner in classes for _, owner, _ in value.fields)
            worth += _HAS_VALUE if held else self._read.unused(value)
        each = self._read.each
        return worth + (_NOT_EACH if each and not each & {*pattern.nodes} else 0.0)

    def _longer(self, pattern: Pattern) -> Iterator[Pattern]:
        nodes = pattern.nodes
        between = {(hop.source, hop.relation, hop.target) for hop in pattern.hops}
        walked = {
            (hop.relation, frozenset((nodes[hop.source], nodes[hop.target])))
            for hop in pattern.hops
        }
        plain = self._read.plain
        for (head, relation, tail), odds in self._read.hops.items():
            again = any(relation == name for name, _ in walked)
            worth = _AGAIN if again else odds[0]  # a part's odds count once
            ends = frozenset((head, tail))
            if not again and any(two == ends for _, two in walked):
                both = all(
                    said
                    for one, said in self._read.said.items()
                    if frozenset((one[0], one[2])) == ends
                    and (one[1] == relation or (one[1], ends) in walked)
                )
                worth = worth if both else min(worth, 0.0) + _PARALLEL
            phrase = self._read.phrases[head, relation, tail]
            turned = turn(self._read.question, phrase) if head == tail or plain else 0.0
            for at, name in enumerate(nodes):
                for inverse, near, far in ((False, head, tail), (True, tail, head)):
                    if near != name or far not in self._read.classes:
                        continue
                    score = (
                        pattern.score + worth + (0 if again else _side(odds[1] + turned, inverse))
                    )
                    if inverse and not (at or name):  # "official language" leads to languages
                        noun = phrase.split()[-1]
                        score += _CALLED * names_class(self._read.question, noun)
                    for other in range(at + 1, len(nodes)):  # both relations between the same two
                        if nodes[other] == far and (at, relation, other) not in between:
                            hop = Hop(at, relation, other, inverse)
                            yield replace(pattern, hops=(*pattern.hops, hop), score=score + _SAME)
                    if far in nodes:
                        score += _SECOND
                    else:
                        score += self._read.classes[far][0] + self._of_values(far)
                    hop = Hop(at, relation, len(nodes), inverse)
                    yield Pattern(
                        (*pattern.nodes, far), (*pattern.hops, hop), score,
                        (*pattern.away, pattern.away[at] + 1),
                    )  # fmt: skip


def _side(odds: float, inverse: bool) -> float:
    """Return the log-probability of the side of a hop that the answer is at."""
    import math

    return -math.log1p(math.exp(-odds if inverse else odds))

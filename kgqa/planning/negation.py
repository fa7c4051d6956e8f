"""Negation: which values, comparisons and hops of a plan a question denies.

What must not be of a thing's own property is a comparison that does not hold ("not serviced since
2023" is serviced before). What must not be of another thing is an absence: a book that is a novel
and a drama is one of the novels, so "not novels" are the books *without* an edge to them, never the
books with an edge to something else.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from kgqa.lexicon.english import words
from kgqa.planning.two_step_plans import renumbered

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kgqa.planning.evidence import Pattern
    from kgqa.queries.plan import Comparison, Hop

_NEGATOR = (
    r"(?:\bnot\b|\bno\b(?!\.)|n't\b|\bnever\b|\bwithout\b|\bexcept\b|\bexcluding\b|\boutside\b"
    r"|\bother than\b|\bapart from\b|\bnon\b|\bneither\b|\bnor\b)"
)
_NEAR = 3  # most words between a negation and its value
_FAR = 5  # and its number or date, which has comparing words before it
_BEFORE = 60  # characters before the value that are searched
_WORD = r"[\w'’-]+\W+"
_TURN = r"(?:and|or|but|that|who|whom|which|whose|where|with)\b"  # the beginning of another clause
_DENIED = re.compile(rf"{_NEGATOR}\W+((?:(?!{_TURN}){_WORD}){{0,{_NEAR}}})$", re.IGNORECASE)
_DENIED_FAR = re.compile(
    rf"(?:\bnot\b|n't\b|\bnever\b)\W+(?:(?!{_TURN}){_WORD}){{0,{_FAR}}}$", re.IGNORECASE
)
OPPOSITE = {">=": "<", ">": "<=", "<=": ">", "<": ">="}


def denies(question: str, start: int) -> bool:
    """Return whether a question negates the value that begins at ``start``.

    >>> question = "Who speaks Danish and does not speak Finnish?"
    >>> denies(question, question.index("Danish")), denies(question, question.index("Finnish"))
    (False, True)
    """
    return bool(_DENIED.search(question[max(0, start - _BEFORE) : start]))


def denies_name(question: str, mention: str) -> bool:
    """Return whether a question denies the entity that it mentions in these words.

    >>> denies_name("Who speaks Danish and not Finnish?", "finnish"), denies_name("Not Ann?", "Bo")
    (True, False)
    """
    start = question.lower().find(mention.lower()) if mention else -1
    return start > 0 and denies(question, start)


def denies_itself(question: str, start: int) -> bool:
    """Return whether a negator stands right before the value that begins at ``start``.

    "Owners that are not Ann" are other owners; "not owned by Ann" is said of ships. An article,
    "from" or "in" may be between.

    >>> denies_itself("Which owners are not Ann?", 21), denies_itself("Not owned by Ann?", 13)
    (True, False)
    """
    match = _DENIED.search(question[max(0, start - _BEFORE) : start])
    return match is not None and {*match[1].lower().split()} <= {"the", "a", "an", "from", "in"}


def denies_verb(question: str, end: int) -> bool:
    """Return whether the verb of the name that ends at ``end`` is denied.

    >>> denies_verb("Which games did Ann not win?", 19), denies_verb("By Ann, nobody knows", 6)
    (True, False)
    >>> denies_verb("games that Ann didn't win", 14)
    True
    """
    after = question[end:].lower().split()[:2]
    negated = [word for word in after if word in ("not", "never") or word[-3:] in ("n't", "n’t")]
    follows = question[end : end + 1] == " "
    return follows and bool(negated) and (after[0] in negated or after[0] in words("verbs"))


def denies_comparison(question: str, start: int) -> bool:
    """Return whether a question negates the comparison whose words begin at ``start``.

    >>> question = "Which bikes have not been serviced since 2023?"
    >>> denies_comparison(question, question.index("since"))
    True
    """
    return bool(_DENIED_FAR.search(question[max(0, start - _BEFORE) : start]))


def absence(hops: Sequence[Hop], nodes: Collection[int], kept: Collection[int]) -> set[int] | None:
    """Return the indices of the hops to negate so that ``nodes`` are absent.

    They are the hops to the nodes and beyond, and earlier hops that lead only there. ``kept``:
    nodes that the question also mentions otherwise. None if no hop leads to a node, as to the first
    one, or two hops lead to one.
    """
    into = {hop.target: number for number, hop in enumerate(hops)}
    if len(into) < len(hops) or not into.keys() >= {*nodes}:
        return None
    inside = {into[node] for node in nodes}
    while more := {
        number
        for number, hop in enumerate(hops)
        if number not in inside and any(hop.source == hops[one].target for one in inside)
    }:
        inside |= more
    while more := {
        into[source]
        for source in {hops[one].source for one in inside} - {0, *kept}
        if into[source] not in inside
        and all(n in inside for n, hop in enumerate(hops) if hop.source == source)
    }:
        inside |= more
    return inside


def with_last(
    pattern: Pattern, where: Sequence[Comparison], last: Collection[int]
) -> tuple[Pattern, tuple[Comparison, ...]]:
    """Renumber a pattern so that the hops ``last`` (indices) come last.

    Also return the comparisons ``where``, renumbered.
    """
    order = sorted(range(len(pattern.hops)), key=lambda one: one in last)
    nodes, hops = {0: 0}, {}
    for new, old in enumerate(order):
        hop = pattern.hops[old]
        nodes.setdefault(hop.source, len(nodes))
        nodes.setdefault(hop.target, len(nodes))
        hops[old] = new, replace(hop, source=nodes[hop.source], target=nodes[hop.target])
    back = sorted(nodes, key=lambda one: nodes[one])
    turned = replace(
        pattern,
        nodes=tuple(pattern.nodes[one] for one in back),
        hops=tuple(hops[old][1] for old in order),
        away=tuple(pattern.away[one] for one in back),
    )
    return turned, tuple(renumbered(one, nodes, hops) for one in where)

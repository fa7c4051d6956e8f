"""Gold plans of the questions of invented domains, as chains."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from scripts.planner.chains import Chain, ChainSchema, numbers_in, words_of

if TYPE_CHECKING:
    from scripts.planner.chains import Condition, Field, Item, Pattern
    from scripts.planner.examples import MadeSchema
    from scripts.planner.gold import PlanGold

_COMPARED = (
    (
        r"more than|over |above|greater|after|exceed|higher than|longer|later|since|bigger|larger",
        ">",
    ),
    (r"at least|or more|minimum", ">="),
    (r"less than|under |below|fewer|before|lower than|shorter|earlier|smaller", "<"),
    (r"at most|or less|maximum", "<="),
)
NUMBER = re.compile(r"-?\d+(\.\d+)?")


def schema_of_domain(domain: MadeSchema) -> ChainSchema:
    """Return the schema of an invented domain."""
    classes = {name: {"name": "STRING"} for name in domain.classes}
    for (owner, own), kind in domain.kinds.items():
        classes[owner][own] = "FLOAT" if kind == "number" else "DATE"
    return ChainSchema(classes, domain.hops, {})


def chain_of_gold(question: str, gold: PlanGold) -> Chain | None:
    """Return the plan of a question of an invented domain; None if it is not one chain."""
    names: list[str] = []
    hops: list[tuple[str, str]] = []
    for hop, at_tail in gold.hops.items():
        if hop in gold.without:
            continue
        start, end = (hop[0], hop[2]) if at_tail else (hop[2], hop[0])
        if names and names[-1] != start:
            return None
        names = [*(names or [start]), end]
        hops.append((hop[1], ">" if at_tail else "<"))
    answers = sorted(gold.answer)
    if not answers:
        return None
    names = names or [answers[0]]
    answer = names[-1] if names[-1] in answers else answers[0]
    if answer not in names:
        return None
    try:
        return _gold_chain(question, gold, (tuple(names), tuple(hops)), answer).turned()
    except ValueError:
        return None


def _gold_chain(question: str, gold: PlanGold, pattern: Pattern, answer: str) -> Chain:
    """Return the plan over its pattern. Raises ValueError if it speaks of anything else."""
    names, numbers = pattern[0], numbers_in(question)
    place = len(names) - 1 - names[::-1].index(answer)
    thing: Item = (None, ("n", place, ""))

    def of(owned: tuple[str, str]) -> Field:
        return "n", names.index(owned[0]), owned[1]

    conditions: set[Condition] = set()
    for owned, value in gold.conditions.items():
        if not value and not numbers:
            raise ValueError
        named = owned[1] == "name"
        compared = ("=", value) if named else (_compared(question), numbers[0] if numbers else "")
        if not compared[1]:
            raise ValueError
        conditions.add((of(owned), *compared))
    counted = sorted(gold.counted)
    of_count = ("n", names.index(counted[0]) if counted[:1] and counted[0] in names else place, "")
    small = [int(one) for one in numbers if one.isdigit() and 1 < int(one) <= 100]
    made = Chain(pattern, thing, frozenset(conditions))
    if gold.limit:
        made = replace(made, limit=small[0] if small else 1)
    if gold.without:
        hop = min(gold.without)
        way, other = ("<", hop[0]) if gold.hops[hop] else (">", hop[2])
        made = replace(made, without=f"{way} {words_of(hop[1])} {way} {words_of(other)}")
    if gold.aggregate == "count":
        return replace(made, give=("count", of_count))
    if gold.aggregate == "group" and gold.having:
        number = (_compared(question), numbers[0]) if numbers else (">", "1")
        return replace(made, having=("count", of_count, *number))
    if gold.aggregate == "group":
        order = (gold.direction, "count", of_count) if gold.direction != "none" else None
        also: Item | None = None if gold.limit else ("count", of_count)
        return replace(made, order=order, also=also)
    if gold.aggregate != "none":
        return replace(made, give=(gold.aggregate, of(min(gold.aggregated))))
    if gold.order:
        way = gold.direction if gold.direction != "none" else "desc"
        made = replace(made, order=(way, None, of(min(gold.order))))
    return replace(made, give=(None, of(min(gold.given)))) if gold.given else made


def _compared(question: str) -> str:
    for words, operator in _COMPARED:
        if re.search(words, question, re.IGNORECASE):
            return operator
    return "="

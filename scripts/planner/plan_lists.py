"""Lists of plans for a question, gold first, the others as an enumeration makes them.

Gold is of people's and models' questions with Cypher, and of the questions of invented domains. A
negative differs from it in one thing: another hop, one too many or too few, another comparison,
order, limit or aggregate, or something else that is given. Of part of the questions the schema's
words are exchanged for others, in question and plans alike, so that no schema is learnt by heart.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kgqa.planning.question_words import stem
from scripts.planner.chains import (
    Chain,
    ChainSchema,
    canonical,
    condition_options,
    give_options,
    numbers_in,
    order_options,
    quoted_in,
    words_of,
)
from scripts.planner.cypher_chains import chain_of
from scripts.planner.examples import GENERIC, MadeSchema, collection, exchanged, nouns_of
from scripts.universal.domains import DOMAINS, HELD_OUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from random import Random

    from scripts.planner.chains import Condition, Field, Item, Pattern
    from scripts.planner.gold import PlanGold

Asked = tuple[str, Chain, ChainSchema]
MOST_OF_ONE = 700  # questions of one database
_OTHERS = 7  # of a list, besides gold
_OTHERS_MADE = 6
_RENAMED = 0.4  # part of the lists whose schema is called otherwise
_MADE = 0.55  # lists of invented domains for each of a database
_WORDS = (
    "where order ascending descending limit give count sum average least most having without "
    "contains starts ends with all missing true false"
)
_KEYWORDS = frozenset(_WORDS.split())
_ELSE = {
    ">": ("<", ">=", "="), "<": (">", "<=", "="), "=": ("contains", "<>", ">"),
    ">=": (">", "<="), "<=": ("<", ">="), "contains": ("=", "starts with"),
    "starts with": ("contains", "="), "<>": ("=",),
}  # fmt: skip
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


class Listed(NamedTuple):
    """A question with plans in words, of which the first ``right`` are gold."""

    question: str
    plans: list[str]
    right: int = 1


class PlanLists:
    """The lists of databases and domains; ``aside`` are the databases that are checked on."""

    def __init__(self, data: Path, aside: Sequence[str], random: Random) -> None:
        self._random = random
        schemas, rows = collection(data)
        read = {name: ChainSchema.of_json(schema) for name, schema in schemas.items()}
        asked: dict[str, list[Asked]] = defaultdict(list)
        for row in rows:
            schema = read.get(row["database"])
            chain = schema and chain_of(row["cypher"], schema)
            if schema is not None and chain:
                asked[row["database"]].append((row["question"], chain, schema))
        self.counts = {name: len(some) for name, some in asked.items()}
        made: dict[bool, list[tuple[MadeSchema, ChainSchema]]] = {True: [], False: []}
        for file in sorted(DOMAINS.glob("*.json")):
            domain = MadeSchema(file)
            made[file.stem in HELD_OUT].append((domain, schema_of_domain(domain)))
        self._taught = made[False]
        self._nouns = nouns_of([domain for domain, _ in self._taught])
        self._learnt = []
        for name, some in asked.items():
            random.shuffle(some)
            if name not in aside:
                self._learnt += some[:MOST_OF_ONE]
        others = [one for name in aside for one in asked[name]]
        self.checks = {
            "databases": [self._list(one, 11) for one in others[:50]],
            "domains": [self._list(self._made(made[True]), 11) for _ in range(40)],
        }

    def lists(self) -> Iterator[Listed]:
        """Yield lists to learn from, without end."""
        random = self._random
        while True:
            random.shuffle(self._learnt)
            for asked in self._learnt:
                listed = self._list(asked, _OTHERS)
                if random.random() < _RENAMED:
                    listed = self.renamed(listed)
                if len({*listed.plans}) == len(listed.plans) > 2:
                    yield listed
                if random.random() < _MADE:
                    listed = self._list(self._made(self._taught), _OTHERS_MADE)
                    if len(listed.plans) > 2:
                        yield listed

    def _made(self, domains: Sequence[tuple[MadeSchema, ChainSchema]]) -> Asked:
        while True:
            domain, schema = self._random.choice(domains)
            asked = domain.asked(self._random)
            if asked is None:
                continue
            question, gold = asked
            if " between " in question and not all(gold.conditions.values()):
                continue
            if (chain := chain_of_gold(question, gold)) is not None:
                return question, chain, schema

    def _list(self, asked: Asked, most: int) -> Listed:
        question, chain, schema = asked
        random = self._random
        kinds = Others(random, question, chain, schema).kinds()
        shares = (2, 2, 2, 2, 1)
        first = [one for kind, many in zip(kinds, shares, strict=True) for one in kind[:many]]
        rest = [one for kind, many in zip(kinds, shares, strict=True) for one in kind[many:]]
        random.shuffle(first)
        random.shuffle(rest)
        if random.random() < 0.3:
            first = rest[:2] + first
        texts = dict.fromkeys([chain.words(), *(one.words() for one in first + rest)])
        return Listed(question, list(texts)[: most + 1])

    def renamed(self, listed: Listed) -> Listed:
        """Return a list whose schema is called otherwise, in its question and plans alike."""
        text = " ".join(listed.plans)
        values = " ".join(re.findall(r"(?:=|contains|starts with|<>) ([^;]+)", text)).lower()
        words = {*re.findall(r"[a-z]{4,}", text)} - _KEYWORDS - GENERIC
        words -= {*re.findall(r"[a-z]+", values)}
        other = {
            stem(word): self._random.choice(self._nouns)
            for word in sorted(words)
            if self._random.random() < 0.6
        }
        for word in _KEYWORDS:
            other.pop(stem(word), None)
        return Listed(
            exchanged(listed.question, other),
            [exchanged(one, other) for one in listed.plans],
            listed.right,
        )


class Others:
    """The plans that a question does not mean, by kind."""

    def __init__(self, random: Random, question: str, chain: Chain, schema: ChainSchema) -> None:
        self._random, self._chain, self._schema = random, chain, schema
        values = [value for _, _, value in chain.conditions]
        texts = [one for one in values if not NUMBER.fullmatch(one)]
        texts = [one for one in texts if one.lower() not in ("true", "false", "")]
        self._texts = list(dict.fromkeys([*quoted_in(question), *texts]))
        numbers = [one for one in values if NUMBER.fullmatch(one)]
        self._numbers = list(dict.fromkeys([*numbers_in(question), *numbers]))

    def kinds(self) -> tuple[list[Chain], ...]:
        """Return plans with another pattern, comparison, given thing, order, or limit."""
        kinds = (
            self._patterns(), self._conditions(), self._given(), self._orders(), self._limits()
        )  # fmt: skip
        for kind in kinds:
            self._random.shuffle(kind)
        return kinds

    def _some(self, of: Sequence[Pattern], most: int) -> list[Pattern]:
        pool = [one for one in of if one != self._chain.pattern]
        return self._random.sample(pool, min(most, len(pool)))

    def _patterns(self) -> list[Chain]:
        chain, schema = self._chain, self._schema
        names, hops = chain.pattern
        size = len(names)
        parts = {
            canonical((names[start:end], hops[start : end - 1]))[0]
            for start in range(size)
            for end in range(start + 1, size + 1)
        } - {chain.pattern}
        shorter = sorted(one for one in parts if len(one[0]) >= size - 1 or len(one[0]) == 1)
        beside = [
            one
            for part in shorter or [chain.pattern]
            for one in schema.extended(part)
            if len(one[0]) <= max(2, size)
        ]
        same = [one for one in beside if sorted(one[0]) == sorted(names)]
        longer, smallest = schema.extended(chain.pattern), schema.smallest()
        chosen = ((same, 2), (shorter, 2), (longer, 2), (beside, 2), (smallest, 1))
        return [self._moved(one) for pool, most in chosen for one in self._some(pool, most)]

    def _moved(self, pattern: Pattern) -> Chain:
        """Return the plan over another pattern: its parts are found again by their classes."""
        chain = self._chain
        names, hops = chain.pattern
        relations = [relation for relation, _ in pattern[1]]

        def of(field: Field | None) -> Field | None:
            if field is None:
                return None
            kind, at, own = field
            if kind == "n":
                there = names[at] in pattern[0]
                return ("n", pattern[0].index(names[at]), own) if there else None
            relation = hops[at][0]
            return ("r", relations.index(relation), own) if relation in relations else None

        def item(one: Item | None) -> Item | None:
            if one is None or one[1] is None:
                return one
            return (one[0], of(one[1])) if of(one[1]) else None

        last = len(pattern[0]) - 1
        order, having = chain.order, chain.having
        if order:
            other = item((order[1], order[2]))
            counted = order[1] == "count" and last
            order = (
                (order[0], *other)
                if other
                else (order[0], "count", ("n", last, ""))
                if counted
                else None
            )
        if having:
            other = item((having[0], having[1]))
            having = (having[0], other[1], *having[2:]) if other else None
        given = item(chain.give) or (None, ("n", self._random.randrange(last + 1), ""))
        kept = frozenset(
            (moved, op, value)
            for field, op, value in chain.conditions
            if (moved := of(field)) is not None
        )
        return replace(
            chain, pattern=pattern, conditions=kept, give=given, also=item(chain.also),
            order=order, having=having,
        )  # fmt: skip

    def _conditions(self) -> list[Chain]:
        chain, random = self._chain, self._random
        options = condition_options(self._schema, chain.pattern, self._texts, self._numbers)
        made: list[frozenset[Condition]] = []
        for one in chain.conditions:
            field, op, value = one
            rest = chain.conditions - {one}
            made.append(rest)
            hard = [other for other in options if other[2] == value and other[0] != field]
            for other in random.sample(hard, min(2, len(hard))):
                same = (other[0], op, value) if random.random() < 0.7 else other
                made.append(rest | {same})
            made += [rest | {(field, another, value)} for another in _ELSE.get(op, ())[:2]]
        compared = {field for field, _, _ in chain.conditions}
        more = [one for one in options if one[0] not in compared]
        made += [chain.conditions | {one} for one in random.sample(more, min(2, len(more)))]
        return [replace(chain, conditions=one) for one in made]

    def _orders(self) -> list[Chain]:
        chain, random = self._chain, self._random
        size, order = len(chain.pattern[0]), chain.order
        options = order_options(self._schema, chain.pattern)
        random.shuffle(options)
        made: list[Chain] = []
        if order:
            way = "asc" if order[0] == "desc" else "desc"
            made = [replace(chain, order=None), replace(chain, order=(way, *order[1:]))]
            options = [one for one in options if one[0] == order[0] and one != order][:3]
        made += [replace(chain, order=one) for one in (options if order else options[:2])]
        if chain.having:
            kind, field, op, value = chain.having
            made.append(replace(chain, having=None))
            other = _ELSE.get(op, ("=",))[0]
            made.append(replace(chain, having=(kind, field, other, value)))
            counted: list[Field] = [("n", at, "") for at in range(size)]
            made += [
                replace(chain, having=("count", one, op, value))
                for one in [one for one in counted if one != field][:2]
            ]
        elif size > 1 and self._numbers:
            at = random.randrange(size)
            value = random.choice(self._numbers)
            having = ("count", ("n", at, ""), random.choice([">", "="]), value)
            made.append(replace(chain, having=having))
        return made

    def _given(self) -> list[Chain]:
        chain, (kind, field) = self._chain, self._chain.give
        options = give_options(self._schema, chain.pattern)
        self._random.shuffle(options)
        owner = field[:2] if field else None

        def is_other(one: Item) -> bool:  # a thing or its name is one answer
            alike = one[0] is None and kind is None and one[1] and one[1][:2] == owner
            return one != chain.give and not alike

        others = [one for one in options if is_other(one)]
        things = [one for one in others if one[1] and one[1][0] == "n" and not one[1][2]]
        near = [
            one
            for one in options
            if field and one[1] and one != chain.give and one[1][:2] == owner
            if (one[1][2] and field[2]) or one[0] != kind
        ]
        made = [replace(chain, give=one) for one in things[:2] + near[:2] + others[:2]]
        if len(chain.pattern[0]) > 1 and kind == "count" and not chain.also:
            made.append(replace(chain, give=(None, field)))
        return [one for one in made if one.give[1] is not None]

    def _limits(self) -> list[Chain]:
        small = [int(one) for one in self._numbers if one.isdigit() and 0 < int(one) <= 100]
        limits = [one for one in dict.fromkeys([None, 1, *small]) if one != self._chain.limit][:2]
        made = [replace(self._chain, limit=one) for one in limits]
        return made + [replace(self._chain, without="")] * (2 if self._chain.without else 0)


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

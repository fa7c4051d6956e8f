"""What the planner proposes for questions with gold plans: which of its plans, if any, is gold.

The databases are schemas without rows, so a question's values are found where gold compares with
them, and sometimes in another text property, too.
"""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from kgqa.planning.evidence import Reading
from kgqa.planning.plan_words import plan_words
from kgqa.planning.schema_parts import FoundValue, SchemaParts
from kgqa.planning.search import PlanSearch
from kgqa.planning.whole_rank import MORE_PLANS
from kgqa.understanding.asked import as_of, as_superlative
from kgqa.understanding.literals import stated
from scripts.planner.chains import words_of

if TYPE_CHECKING:
    from kgqa.graph.schema import GraphSchema
    from kgqa.models.plan_scorer import PlanScorer
    from kgqa.planning.schema_parts import Owned
    from scripts.planner.chains import Chain

_ALSO_ELSEWHERE = 0.15  # text properties that a value may be in, besides gold's
_NAMES = frozenset(("name", "title", "label", "id", "key"))
_NO_TEXT = re.compile(r"-?\d+(\.\d+)?|true|false|", re.IGNORECASE)
_HOP = re.compile(r" (?=[<>] )")


class Proposed(NamedTuple):
    """A plan in words with its score, its hops, its unasked words, and whether it is gold."""

    words: str
    score: float
    unasked: tuple[int, int]
    is_gold: bool


class Proposer:
    """The planner on one schema without rows."""

    def __init__(self, schema: GraphSchema, scorer: PlanScorer) -> None:
        self._parts, self._scorer = SchemaParts(schema), scorer
        properties = self._parts.properties.items()
        self._texts = [owned for owned, (one, _) in properties if one.type == "text"]

    def plans(self, question: str, gold: Chain) -> list[Proposed]:
        """Return the planner's plans, scored without the cost of what is unasked.

        Raises ModelError.
        """
        random, question = Random(question), as_of(as_superlative(question))
        literals = stated(question)
        quoted = {
            str(literal.value): (literal.start, literal.end)
            for literal in literals.literals
            if literal.kind == "text"
        }
        found: list[FoundValue] = []
        lacking: dict[str, set[Owned]] = {}
        for value, owned in _held(gold).items():
            also = [other for other in self._texts if random.random() < _ALSO_ELSEWHERE]
            fields = dict.fromkeys([owned, *also], (value,))
            if value in quoted:
                lacking[value] = {*self._texts} - fields.keys()
                found.append(FoundValue(*quoted[value], fields, quoted=True))
            elif (start := question.lower().find(value.lower())) >= 0:
                found.append(FoundValue(start, start + len(value), fields))
        found.sort(key=lambda value: value.start)
        texts, refs = self._parts.read(question, found)
        scores = self._scorer.read(question, texts)._replace(unasked=(0.0, 0.0))
        search = PlanSearch(Reading(question, self._parts, refs, scores, literals, found, lacking))
        wanted = _key(gold.words(), gold)
        made: dict[str, Proposed] = {}
        for plan in search.plans(MORE_PLANS):
            words = plan_words(plan.plan)
            is_gold = _key(words, gold) == wanted
            row = Proposed(words, plan.score, search.unasked(plan.plan), is_gold)
            made.setdefault(words, row)
        return list(made.values())


def _held(gold: Chain) -> dict[str, Owned]:
    """Return the texts that gold compares with, each with its property."""
    held: dict[str, Owned] = {}
    names, hops = gold.pattern
    for (kind, at, own), operator, value in sorted(gold.conditions, key=str):
        if operator in ("=", "<>", "has") and not _NO_TEXT.fullmatch(value):
            owner = ("class", names[at]) if kind == "n" else ("relation", hops[at][0])
            held[value] = (*owner, own)
    return held


def _key(text: str, gold: Chain) -> str:
    """Return what two plans in words share if they give the same: a thing, or its name.

    What a plan counts over one hop is the same by either end; a plan may leave a class open.
    """
    chain, *parts = text.lower().split(" ; ")
    wanted, walked = (_HOP.split(each) for each in (gold.words().lower().split(" ; ")[0], chain))
    if len(walked) == len(wanted):
        chain = " ".join(
            gold_part if part.endswith("any") and gold_part.startswith(part[:-3]) else part
            for part, gold_part in zip(walked, wanted, strict=True)
        )
    classes = list(dict.fromkeys(map(words_of, gold.pattern[0])))
    kept = []
    for part in parts:
        said = part.replace(" of all", "")
        if len(classes) < 3:
            said = re.sub(r"\bcount of .*", "count", said)
        if said.startswith("give "):
            said = said.split(" , ")[0]
            for name in classes:
                rest = said.removeprefix(f"give {name} ").split()
                if said.startswith(f"give {name} ") and len(rest) < 3 and {*rest} & _NAMES:
                    said = f"give {name}"
        kept.append(" ".join(said.split()))
    return " ; ".join([chain, *sorted(kept)])

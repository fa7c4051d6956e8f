"""What the plan scorer learns from: questions of people and models, and made ones over schemas.

Three sources: questions with Cypher over databases whose schemas are known, the words of classes
and properties exchanged for others now and then, so that no schema is learnt by heart; the people's
questions of the invented domains (:mod:`universal.domains`); and questions made from templates
over the schemas of these domains (``tests/data/training/query_templates.json``: forms of questions,
what they need of a schema: h a hop, p a property, x a name, w none of, and their gold).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgqa.models.plan_scorer import WHOLE, Part
from kgqa.paths.words import relation_phrase
from scripts.planner.gold import PlanGold, plan_gold, schema_relations
from scripts.universal.domains import DATA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from random import Random

Hop = tuple[str, str, str]
Owned = tuple[str, str]
_MADE_KINDS = ("number", "number", "date", "text", "yes or no")
_FEWEST, _MOST = 8, 20  # parts that a question is shown with
_RENAMED = 0.5  # part of the questions whose schema is called otherwise
_MARKED = 0.9  # part of the conditions on text whose value is known to be the graph's
_FALSELY = 0.03  # part of the other properties that are marked so
_WORDS = "name date number count average type time title user users text list value score order"
GENERIC = frozenset(_WORDS.split())
TEMPLATES: list[tuple[str, str, dict[str, Any]]] = [
    (form, group["needs"], group["gold"])
    for group in json.loads((DATA / "query_templates.json").read_text("utf-8"))
    for form in group["forms"]
]
_NUMERIC = {"INTEGER": "number", "FLOAT": "number", "DATE": "date", "DATE_TIME": "date"}
_OTHER = {"BOOLEAN": "yes or no", "LIST": "list", "POINT": "place", "STRING": "text"}


@dataclass(frozen=True, slots=True)
class Example:
    """A question with parts of a schema: 0 or 1 for each role of each, and what the whole is."""

    question: str
    parts: list[Part]
    roles: list[tuple[float, ...]]
    whole: dict[str, int]


class Words:
    """The parts of a schema in words; ``renamed``: words that are exchanged, by their stems."""

    def __init__(
        self, kinds: Mapping[Owned, str], renamed: Mapping[str, str] | None = None
    ) -> None:
        self._kinds = kinds
        self._renamed = renamed or {}

    def name(self, name: str) -> str:
        """Return a name in words."""
        words = relation_phrase(name).split()
        return " ".join(self._renamed.get(stem(word), word) for word in words)

    def class_(self, name: str) -> Part:
        """Return a class in words."""
        return Part("class", f"class {self.name(name)}")

    def hop(self, hop: Hop) -> Part:
        """Return a relation between two classes in words."""
        head, relation, tail = hop
        words = f"link {self.name(head)} {relation_phrase(relation)} {self.name(tail)}"
        return Part("hop", words)

    def property(self, owned: Owned, value: str = "") -> Part:
        """Return a property of a class or a relation in words, with a value of the question's."""
        owner, name = owned
        kind, stated = self._kinds.get(owned, "text"), f" = {value.lower()}" if value else ""
        return Part("property", f"{kind} {self.name(owner)} : {self.name(name)}{stated}")

    def question(self, text: str) -> str:
        """Return a question with words exchanged as those of the schema are."""

        def other(match: re.Match[str]) -> str:
            word = match.group()
            new = self._renamed.get(stem(word))
            if new is None:
                return word
            plural = word.lower().endswith("s") and not word.lower().endswith("ss")
            return new + "s" if plural else new

        return re.sub(r"[A-Za-z]+", other, text) if self._renamed else text


def stem(word: str) -> str:
    """Return a word without its plural, in small letters."""
    word = word.lower()
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss") and len(word) > 3:
        word = word[:-1]
    return word[:-1] + "ie" if word.endswith("y") else word


class Database:
    """A database of ``schemas.json`` with its questions; ``unread``: how many are not read."""

    def __init__(self, schema: Mapping[str, Any], rows: Sequence[Mapping[str, str]]) -> None:
        self.relations = schema_relations(schema)
        self.classes = sorted(schema["node_props"])
        self.kinds: dict[Owned, str] = {}
        for owners in (schema["node_props"], schema.get("rel_props") or {}):
            for owner, properties in owners.items():
                for one in properties:
                    kind = one.get("type", "STRING")
                    self.kinds[owner, one["property"]] = {**_NUMERIC, **_OTHER}.get(kind, "text")
        relations = self.relations
        read = [(row["question"], plan_gold(row["cypher"], relations)) for row in rows]
        self.questions = [(question, gold) for question, gold in read if gold is not None]
        self.unread = len(read) - len(self.questions)

    def example(
        self,
        random: Random,
        question: str,
        gold: PlanGold,
        nouns: Sequence[str] = (),
        phrases: Sequence[str] = (),
    ) -> Example:
        """Return an example; with ``nouns``, words of the schema may be exchanged for some.

        ``phrases``: of relations that are added as if the schema had them.
        """
        renamed: dict[str, str] = {}
        if nouns and random.random() < _RENAMED:
            for name in (*self.classes, *(name for _, name in self.kinds)):
                for word in relation_phrase(name).split():
                    if len(word) > 3 and word not in GENERIC and random.random() < 0.7:
                        renamed.setdefault(stem(word), random.choice(nouns))
        hops, kinds = list(self.relations), dict(self.kinds)
        if phrases:  # other relations and properties of the same classes, as graphs have them
            for head, _, tail in random.choices(sorted(gold.hops) or hops, k=random.randint(0, 5)):
                ends = (head, tail) if random.random() < 0.7 else (tail, head)
                hops.append((ends[0], random.choice(phrases), ends[1]))
            for owner in random.choices(sorted(gold.classes), k=random.randint(0, 4)):
                kinds.setdefault((owner, random.choice(phrases)), random.choice(_MADE_KINDS))
        words = Words(kinds, renamed)
        return _example(
            random, words.question(question), gold, words, self.classes, hops, list(kinds)
        )


def _example(
    random: Random,
    question: str,
    gold: PlanGold,
    words: Words,
    classes: Sequence[str],
    hops: Sequence[Hop],
    properties: Sequence[Owned],
) -> Example:
    used = {*gold.conditions, *gold.order, *gold.given, *gold.aggregated}
    near = {*gold.classes, *(hop[1] for hop in gold.hops)}
    gold_parts: list[tuple[Part, tuple[float, ...]]] = []
    others: list[tuple[float, Part, tuple[float, ...]]] = []

    def add(part: Part, roles: Sequence[bool], is_gold: bool, weight: float) -> None:
        row = tuple(map(float, roles))
        if is_gold:
            gold_parts.append((part, row))
        else:
            others.append((random.random() ** (1 / weight), part, row))

    for name in classes:
        roles = (name in gold.classes, name in gold.answer, name in gold.counted)
        add(words.class_(name), roles, roles[0], 3.0)
    for hop in hops:
        roles = (hop in gold.hops, gold.hops.get(hop, False), hop in gold.without)
        add(words.hop(hop), roles, roles[0], 3.0 if {hop[0], hop[2]} & gold.classes else 1.0)
    for owned in properties:
        value = gold.conditions.get(owned, "")
        if not (value and value.lower() in question.lower() and random.random() < _MARKED):
            value = ""
        elif owned[1] not in question.lower():
            value = (
                question[at : at + len(value)]
                if (at := question.lower().find(value.lower())) >= 0
                else value
            )
        if owned not in used and random.random() < _FALSELY:
            value = random.choice(question.rstrip("?.").split())
        roles4 = (
            owned in gold.conditions, owned in gold.order, owned in gold.given,
            owned in gold.aggregated,
        )  # fmt: skip
        add(words.property(owned, value), roles4, owned in used, 3.0 if owned[0] in near else 1.0)
    count = max(random.randint(_FEWEST, _MOST) - len(gold_parts), 3)
    chosen = gold_parts + [(part, row) for _, part, row in sorted(others, reverse=True)[:count]]
    random.shuffle(chosen)
    whole = {
        "aggregate": WHOLE["aggregate"].index(gold.aggregate),
        "direction": WHOLE["direction"].index(gold.direction),
        "having": int(gold.having),
        "limit": int(gold.limit),
        "without": int(bool(gold.without)),
        "hops": min(len({hop[1] for hop in gold.hops}), 3),
    }
    return Example(question, [one for one, _ in chosen], [row for _, row in chosen], whole)


class MadeSchema:
    """An invented domain as a property graph's schema: what is counted or dated is a property."""

    def __init__(self, file: Path) -> None:
        content = json.loads(file.read_text("utf-8"))
        self.types: dict[str, dict[str, Any]] = content["types"]
        values = {
            name: one["is"]
            for name, one in self.types.items()
            if one.get("is") in ("date", "year", "quantity", "money", "number")
        }
        self.nouns = [
            noun for one in self.types.values() for noun in one["nouns"] if noun.isalpha()
        ]
        self.classes = [name for name in self.types if name not in values]
        self.relations = {one["name"]: one for one in content["relations"]}
        self.chains = content["two_hops"]
        self.hops: list[Hop] = []
        self.kinds: dict[Owned, str] = {}
        for one in content["relations"]:
            if one["head"] in values:
                continue
            if one["tail"] in values:
                kind = "date" if values[one["tail"]] in ("date", "year") else "number"
                self.kinds[one["head"], one["name"]] = kind
            else:
                self.hops.append((one["head"], one["name"], one["tail"]))
        for name in self.classes:
            self.kinds[name, "name"] = "text"

    def example(self, random: Random) -> Example | None:
        """Return a question of people's, or one made of a template."""
        asked = self.asked(random)
        if asked is None:
            return None
        words = Words(self.kinds)
        return _example(random, *asked, words, self.classes, self.hops, list(self.kinds))

    def asked(self, random: Random) -> tuple[str, PlanGold] | None:
        """Return a question with what it uses of the schema."""
        return self._peoples(random) if random.random() < 0.5 else self._made(random)

    def _name(self, random: Random, type_: str) -> str:
        return str(random.choice(self.types[type_]["names"]))

    def _peoples(self, random: Random) -> tuple[str, PlanGold]:
        if self.chains and random.random() < 0.3:
            chain = random.choice(self.chains)
            steps, texts = chain["path"], chain["questions"]
        else:
            one = random.choice(list(self.relations.values()))
            back = random.random() < 0.4 and bool(one.get("backward"))
            steps = [("^" if back else "") + one["name"]]
            texts = one["backward" if back else "forward"]
        gold = PlanGold()
        at = ""
        for place, step in enumerate(steps):
            one = self.relations[step.lstrip("^")]
            back = step.startswith("^")
            start, end = (one["tail"], one["head"]) if back else (one["head"], one["tail"])
            if place == 0:
                topic = start
            at = end
            if end not in self.classes:
                gold.given.add((start, one["name"]))
                gold.classes.add(start)
                at = start
            elif start not in self.classes:
                gold.conditions[end, one["name"]] = ""
                gold.classes.add(end)
            else:
                gold.classes |= {start, end}
                gold.hops[one["head"], one["name"], one["tail"]] = not back
        gold.answer.add(at)
        if topic in self.classes:
            name = self._name(random, topic)
            gold.conditions[topic, "name"] = name
        elif self.types[topic]["names"]:
            name = self._name(random, topic)
        return random.choice(texts).replace("{x}", name), gold

    def _noun(self, random: Random, type_: str, plural: bool = True) -> str:
        noun = str(random.choice(self.types[type_]["nouns"]))
        return plural_of(noun) if plural else noun

    def _made(self, random: Random) -> tuple[str, PlanGold] | None:
        numbers = [owned for owned in self.kinds if owned[1] != "name"]
        form, needs, setting = random.choice(TEMPLATES)
        gold = PlanGold(**{key: value for key, value in setting.items() if key != "role"})
        fill: dict[str, str] = {"n": str(random.randint(2, 10)), "k": _number(random)}
        if "h" in needs:
            if not self.hops:
                return None
            hop = random.choice(self.hops)
            back = random.random() < 0.5
            a, b = (hop[2], hop[0]) if back else (hop[0], hop[2])
            if a == b:
                return None
            gold.hops[hop] = back
            gold.classes |= {a, b}
            gold.answer.add(a)
            fill |= {"B": self._noun(random, b), "b": self._noun(random, b, False)}
            if gold.aggregate in ("count", "group") or gold.having:
                gold.counted.add(b)
            if "w" in needs:
                gold.without.add(hop)
            if "x" in needs:
                fill["x"] = self._name(random, b)
                gold.conditions[b, "name"] = fill["x"]
                if gold.aggregate == "count":
                    gold.counted = {a}
            fill["r"] = relation_phrase(hop[1])
        elif "p" in needs:
            if not numbers:
                return None
            a = random.choice(numbers)[0]
        else:
            a = random.choice(self.classes)
        if "p" in needs:
            own = [owned for owned in numbers if owned[0] == a]
            if not own:
                return None
            owned = random.choice(own)
            if "number" in needs and self.kinds[owned] != "number":
                return None
            fill["p"] = relation_phrase(owned[1])
            role = setting["role"]
            if role == "conditions":
                gold.conditions[owned] = ""
            else:
                getattr(gold, role).add(owned)
        gold.classes.add(a)
        gold.answer.add(a)
        if gold.aggregate == "count" and not gold.counted:
            gold.counted.add(a)
        fill |= {"A": self._noun(random, a), "a": self._noun(random, a, False)}
        return form.format(**fill), gold


def plural_of(noun: str) -> str:
    """Return the plural of an English noun, by rule."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def _number(random: Random) -> str:
    return random.choice(
        [str(random.randint(2, 100)), f"{random.randint(1, 900)},000",
         str(random.randint(1950, 2024)), f"{random.randint(1, 90) / 10}",
         f"{random.randint(1, 20)} million"]
    )  # fmt: skip

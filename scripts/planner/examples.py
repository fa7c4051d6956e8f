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
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kgqa.graph.schema import EntityType, GraphSchema, Property, RelationPattern
from kgqa.models.plan_scorer import WHOLE, Kind, Part
from kgqa.paths.words import relation_phrase
from kgqa.planning.question_words import stem
from kgqa.planning.schema_parts import SchemaParts
from scripts.planner.gold import PlanGold, plan_gold, schema_relations
from scripts.universal.domains import DATA, DOMAINS, HELD_OUT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from random import Random

    from kgqa.graph.schema import ValueType

Owned = tuple[str, str]
ASIDE = ("twitch", "bluesky")  # databases that are only checked on
_MADE_TYPES: tuple[ValueType, ...] = ("float", "float", "date", "text", "boolean")
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
_TYPES: dict[str, ValueType] = {
    "INTEGER": "integer", "FLOAT": "float", "DATE": "date", "DATE_TIME": "datetime",
    "BOOLEAN": "boolean", "POINT": "point",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Example:
    """A question with parts of a schema: 0 or 1 for each role of each, and what the whole is."""

    question: str
    parts: list[Part]
    roles: list[tuple[float, ...]]
    whole: dict[str, int]


def collection(data: Path) -> tuple[dict[str, dict[str, Any]], list[dict[str, str]]]:
    """Return the schemas of databases, and questions (database, question, cypher) about them."""
    schemas = json.loads((data / "schemas.json").read_text("utf-8"))
    text = (data / "train.jsonl").read_text("utf-8")
    return schemas, [json.loads(line) for line in text.strip().split("\n")]


def schema_of(schema: Mapping[str, Any]) -> GraphSchema:
    """Return a schema of ``schemas.json``."""

    def properties(owner: str, owners: Mapping[str, Any]) -> tuple[Property, ...]:
        return tuple(
            Property(row["property"], _TYPES.get(row.get("type", ""), "text"),
                     many=row.get("type") == "LIST")
            for row in owners.get(owner, ())
        )  # fmt: skip

    types = [
        EntityType(name, 100, properties(name, schema["node_props"]), names=("name",))
        for name in sorted(schema["node_props"])
    ]
    relations = [
        RelationPattern(
            relation, head, tail, 100, properties(relation, schema.get("rel_props") or {})
        )
        for head, relation, tail in schema_relations(schema)
    ]
    return GraphSchema(tuple(types), tuple(relations))


class Database:
    """A database of ``schemas.json`` with its questions; ``unread``: how many are not read."""

    def __init__(self, schema: Mapping[str, Any], rows: Sequence[Mapping[str, str]]) -> None:
        self.schema = schema_of(schema)
        relations = schema_relations(schema)
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
        schema, renamed = self.schema, dict[str, str]()
        if nouns and random.random() < _RENAMED:
            owners = [*schema.types, *schema.relations]
            names = [type_.name for type_ in schema.types]
            names += [property_.name for owner in owners for property_ in owner.properties]
            for word in " ".join(map(relation_phrase, names)).split():
                if len(word) > 3 and word not in GENERIC and random.random() < 0.7:
                    renamed.setdefault(stem(word), random.choice(nouns))
        if phrases:  # other relations and properties of the same classes, as graphs have them
            hops = sorted(gold.hops) or [
                (pattern.head, "", pattern.tail) for pattern in schema.relations
            ]
            relations, added = list(schema.relations), defaultdict[str, list[Property]](list)
            for head, _, tail in random.choices(hops, k=random.randint(0, 5)):
                ends = (head, tail) if random.random() < 0.7 else (tail, head)
                relations.append(RelationPattern(random.choice(phrases), *ends, 100))
            for owner in random.choices(sorted(gold.classes), k=random.randint(0, 4)):
                made = Property(random.choice(phrases), random.choice(_MADE_TYPES))
                added[owner].append(made)
            types = [
                replace(type_, properties=(*type_.properties, *added[type_.name]))
                for type_ in schema.types
            ]
            schema = GraphSchema(tuple(types), tuple(relations))
        return _example(random, question, gold, schema, renamed)


def exchanged(text: str, renamed: Mapping[str, str]) -> str:
    """Return a text with words exchanged, in names as in sentences; ``renamed``: by their stems."""

    def other(match: re.Match[str]) -> str:
        word = match.group()
        bare = stem(word.lower())
        if bare not in renamed:
            return word
        new = renamed[bare] + "s" * (bare != word.lower() and word[-1] in "sS")
        return new.upper() if word.isupper() else new.title() if word[0].isupper() else new

    return re.sub(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", other, text) if renamed else text


def _example(
    random: Random,
    question: str,
    gold: PlanGold,
    schema: GraphSchema,
    renamed: Mapping[str, str] | None = None,
) -> Example:
    shown, renamed = SchemaParts(schema), renamed or {}
    question = exchanged(question, renamed)
    used = {*gold.conditions, *gold.order, *gold.given, *gold.aggregated}
    near = {*gold.classes, *(hop[1] for hop in gold.hops)}
    gold_parts: list[tuple[Part, tuple[float, ...]]] = []
    others: list[tuple[float, Part, tuple[float, ...]]] = []

    def add(
        kind: Kind, text: str, roles: Sequence[bool], is_gold: bool, weight: float, value: str = ""
    ) -> None:
        stated = f" = {value.lower()}" if value else ""
        part, row = Part(kind, exchanged(text, renamed) + stated), tuple(map(float, roles))
        if is_gold:
            gold_parts.append((part, row))
        else:
            others.append((random.random() ** (1 / weight), part, row))

    for name, text in shown.classes.items():
        roles = (name in gold.classes, name in gold.answer, name in gold.counted)
        add("class", text, roles, roles[0], 3.0)
    for hop, text in shown.hops.items():
        roles = (hop in gold.hops, gold.hops.get(hop, False), hop in gold.without)
        weight = 3.0 if {hop[0], hop[2]} & gold.classes else 1.0
        add("hop", text, roles, roles[0], weight)
    for (_, owner, name), (_, text) in shown.properties.items():
        owned = (owner, name)
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
            owned in gold.conditions,
            owned in gold.order,
            owned in gold.given,
            owned in gold.aggregated,
        )
        weight = 3.0 if owner in near else 1.0
        add("property", text, roles4, owned in used, weight, value)
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
    return Example(question, [part for part, _ in chosen], [row for _, row in chosen], whole)


class MadeSchema:
    """An invented domain as a property graph's schema: what is counted or dated is a property."""

    def __init__(self, file: Path) -> None:
        content = json.loads(file.read_text("utf-8"))
        self.types: dict[str, dict[str, Any]] = content["types"]
        values = {
            name: type_["is"]
            for name, type_ in self.types.items()
            if type_.get("is") in ("date", "year", "quantity", "money", "number")
        }
        self.nouns = [
            noun for type_ in self.types.values() for noun in type_["nouns"] if noun.isalpha()
        ]
        self.classes = [name for name in self.types if name not in values]
        self.relations = {relation["name"]: relation for relation in content["relations"]}
        self.chains = content["two_hops"]
        self.kinds: dict[Owned, str] = {}  # of properties but names: date or number
        patterns = []
        for name, relation in self.relations.items():
            head, tail = relation["head"], relation["tail"]
            if head not in values and tail in values:
                kind = "date" if values[tail] in ("date", "year") else "number"
                self.kinds[head, name] = kind
            elif head not in values:
                patterns.append(RelationPattern(name, head, tail, 100))
        self.hops = [(pattern.head, pattern.relation, pattern.tail) for pattern in patterns]
        types = [
            EntityType(name, 100, self._properties(name), names=("name",)) for name in self.classes
        ]
        self.schema = GraphSchema(tuple(types), tuple(patterns))

    def _properties(self, class_: str) -> tuple[Property, ...]:
        own = [(name, kind) for (owner, name), kind in self.kinds.items() if owner == class_]
        typed = [Property(name, "date" if kind == "date" else "float") for name, kind in own]
        return *typed, Property("name", "text")

    def example(self, random: Random) -> Example | None:
        """Return a question of people's, or one made of a template."""
        asked = self.asked(random)
        return asked and _example(random, *asked, self.schema)

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
            relation = random.choice(list(self.relations.values()))
            back = random.random() < 0.4 and bool(relation.get("backward"))
            steps = [("^" if back else "") + relation["name"]]
            texts = relation["backward" if back else "forward"]
        gold = PlanGold()
        at = ""
        for place, step in enumerate(steps):
            relation = self.relations[step.lstrip("^")]
            back = step.startswith("^")
            start, end = (
                (relation["tail"], relation["head"])
                if back
                else (relation["head"], relation["tail"])
            )
            if place == 0:
                topic = start
            at = end
            if end not in self.classes:
                gold.given.add((start, relation["name"]))
                gold.classes.add(start)
                at = start
            elif start not in self.classes:
                gold.conditions[end, relation["name"]] = ""
                gold.classes.add(end)
            else:
                gold.classes |= {start, end}
                gold.hops[relation["head"], relation["name"], relation["tail"]] = not back
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
            if not self.kinds:
                return None
            a = random.choice(list(self.kinds))[0]
        else:
            a = random.choice(self.classes)
        if "p" in needs:
            own = [owned for owned in self.kinds if owned[0] == a]
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


def taught_domains() -> list[MadeSchema]:
    """Return the invented domains but those held out."""
    files = sorted(DOMAINS.glob("*.json"))
    return [MadeSchema(file) for file in files if file.stem not in HELD_OUT]


def nouns_of(domains: Sequence[MadeSchema]) -> list[str]:
    """Return the nouns of domains that words of other schemas are exchanged for."""
    return sorted({noun.lower() for made in domains for noun in made.nouns if 3 < len(noun) < 12})


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

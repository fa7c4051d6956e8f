"""A schema as parts in words, the input of the plan scorer, and the values of a question."""

from __future__ import annotations

import re
from collections import Counter
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from kgqa.graph.kept import kept_of_endpoint
from kgqa.graph.quantities import UNITS
from kgqa.graph.schema import Property
from kgqa.lexicon.lemmas import stem
from kgqa.models.plan_scorer import Part
from kgqa.paths.words import relation_phrase
from kgqa.planning.calculated import calculated
from kgqa.planning.class_names import ClassWords
from kgqa.planning.question_words import stems
from kgqa.planning.time_spans import with_durations
from kgqa.queries.check import NUMBERS, SchemaIndex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from kgqa.graph.schema import GraphSchema, Value
    from kgqa.queries.join import QueryStore
    from kgqa.queries.plan import Sign

_MADE_BY = ("planning/schema_parts.py", "graph/sparql_store.py")
_MOST_PARTS = 320  # parts of a schema that are scored
_MOST_PAIRS = 12  # pairs of classes for one relation
_LOOKED_AT = 20  # entities of a class tested for names
_NEARLY_ALL = 0.9  # part of a relation's heads or tails in its typical class
_TYPES = {
    "integer": "number", "float": "number", "date": "date", "datetime": "date", "time": "date",
    "duration": "number", "boolean": "yes or no", "point": "place", "text": "text",
}  # fmt: skip
Owned = tuple[str, str, str]  # "class" or "relation", its name, the property's name
ENTITY = "entity"  # in place of "class": the text names an entity


@dataclass(frozen=True, slots=True)
class FoundValue:
    """A text of the question that is stored as a value, with its stored form in ``fields``.

    For names of entities, ``fields`` has their ids; ``things``: ids, by class, of entities that
    have the text as a name property. ``steps``: the relations of each such entity by its id, each
    with whether the entity is the tail; entities with very many edges are missing. ``holds``:
    values, by class and property, of an entity that the question compares with.
    """

    start: int
    end: int
    fields: Mapping[Owned, tuple[str, ...]]
    quoted: bool = False
    steps: Mapping[str, frozenset[tuple[str, bool]]] = field(default_factory=dict)
    holds: Mapping[tuple[str, str], Value] = field(default_factory=dict)
    things: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def entities(self, class_: str, steps: AbstractSet[tuple[str, bool]]) -> tuple[str, ...]:
        """Return the ids of the named entities of a class that have all the relations ``steps``.

        ``steps``: (relation, whether the entity is its tail). Entities whose relations are unknown
        are included.
        """
        ids = self.fields.get((ENTITY, class_, "name"), ())
        return tuple(id_ for id_ in ids if steps <= self.steps.get(id_, steps))


class SchemaParts:
    """A schema as parts in words for the plan scorer; ``value_nodes``: see :func:`value_nodes`."""

    def __init__(
        self,
        schema: GraphSchema,
        called: ClassWords | None = None,
        value_nodes: Mapping[str, str] | None = None,
    ) -> None:
        self.index = SchemaIndex(schema)
        self.lasting = False  # whether it has the durations of :meth:`with_durations`
        self.made_of: dict[str, tuple[str, Sign, str]] = {}  # numbers of :meth:`with_calculated`
        self.repeated = ""  # the property of the names of :attr:`rows`, if several have the same
        self.value_nodes = value_nodes or {}
        self.called = called or ClassWords()
        self.classes = {
            one.name: "class "
            + _words(
                self.called.nouns.get(one.name, one.name),
                [also for also in one.also if also != one.named_by],
            )
            for one in schema.types
        }
        self.hops: dict[tuple[str, str, str], str] = {}
        self.owner_of: dict[str, str] = {}  # a class that has a property
        self.properties: dict[Owned, tuple[Property, str]] = {}
        ends = {end for relation in schema.relations for end in (relation.head, relation.tail)}
        if "" in ends or not schema.types:
            self.classes[""] = "class thing"
            self.properties[ENTITY, "", "name"] = Property("name", "text"), "text thing : name"
        for type_ in schema.types:
            if not type_.names:
                text = f"text {self._noun(type_.name)} : name"
                self.properties[ENTITY, type_.name, "name"] = Property("name", "text"), text
            for one in type_.properties:
                self._add("class", type_.name, one)
        for pattern in schema.relations:
            hop = (pattern.head, pattern.relation, pattern.tail)
            words = _words(pattern.relation, pattern.also)
            head, tail = self._noun(pattern.head), self._noun(pattern.tail)
            self.hops[hop] = f"link {head} {words} {tail}"
            for one in pattern.properties:
                self._add("relation", pattern.relation, one)

    @cached_property
    def with_durations(self) -> SchemaParts:
        """The parts in which what begins and ends has a duration (:mod:`.time_spans`)."""
        schema = with_durations(self.index.schema)
        if schema == self.index.schema:
            return self
        parts = SchemaParts(schema, self.called, self.value_nodes)
        parts.lasting, parts.repeated = True, self.repeated
        return parts

    def with_calculated(self, question: str) -> tuple[str, SchemaParts]:
        """Return a question, and the parts with the number of two properties that it asks for.

        Both as they are if it asks for none (:mod:`.calculated`).
        """
        found = calculated(question, self.index.schema)
        if found is None:
            return question, self
        parts = SchemaParts(found.schema, self.called, self.value_nodes)
        parts.lasting, parts.repeated = self.lasting, self.repeated
        parts.made_of = {found.name: found.made_of}
        return found.question, parts

    def without(self, names: AbstractSet[str]) -> SchemaParts:
        """Return the parts without the properties called one of ``names``."""
        if not names:
            return self
        rest = copy(self)
        rest.properties = {key: one for key, one in self.properties.items() if key[2] not in names}
        for name in ("stems", "numbered"):  # of all properties
            rest.__dict__.pop(name, None)
        return rest

    def is_only_number(self, owned: Owned) -> bool:
        """Return whether a property is the only single number of its class or relation."""
        numbers = [
            other
            for other, (property_, _) in self.properties.items()
            if other[:2] == owned[:2] and property_.type in NUMBERS and not property_.many
        ]
        return numbers == [owned]

    @cached_property
    def subclasses(self) -> set[str]:
        """The classes all of whose properties and relations a larger class has as well."""
        features: dict[str, set[object]] = {
            type_.name: {("has", each.name) for each in type_.properties}
            for type_ in self.index.schema.types
        }
        for pattern in self.index.schema.relations:
            for one, other in ((pattern.head, pattern.tail), (pattern.tail, pattern.head)):
                if one and other:
                    features[one].add((pattern.relation, one == pattern.head, other))
        types = self.index.schema.types
        return {
            type_.name
            for type_ in types
            if features[type_.name]
            and any(
                other.count > type_.count and features[type_.name] <= features[other.name]
                for other in types
            )
        }

    @cached_property
    def rows(self) -> str:
        """The class of the rows of a lone table, "" for other graphs.

        All other classes are values of its columns.
        """
        heads = {one.head for one in self.index.schema.relations}
        others = self.index.types.keys() - heads
        heads -= self.subclasses
        alone = len(heads) == 1 and not any(self.index.types[one].properties for one in others)
        return min(heads) if alone else ""

    @cached_property
    def numbered(self) -> frozenset[str]:
        """The last words of numeric properties, in the singular: "two room flats" have rooms."""
        numbers = (one.name for one, _ in self.properties.values() if one.type in NUMBERS)
        nouns = {relation_phrase(one).rpartition(" ")[2] for one in numbers}
        return frozenset(stem(one) for one in nouns if one not in UNITS)

    @property
    def names(self) -> set[str]:
        """The schema's names of classes, relations and properties."""
        owned = {name for *_, name in self.properties}
        return {*self.index.types, *self.index.relations, *owned}

    @property
    def words(self) -> list[str]:
        """The texts of all classes, relations and properties."""
        properties = (text for _, text in self.properties.values())
        return [*self.classes.values(), *self.hops.values(), *properties]

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stemmed words of all parts."""
        return frozenset(stem(word) for text in self.words for word in text.split())

    def _noun(self, class_: str) -> str:
        """Return a class's everyday name, "thing" for any class."""
        return self.called.nouns.get(class_) or relation_phrase(class_) if class_ else "thing"

    def _add(self, kind: str, owner: str, one: Property) -> None:
        """Add a property, in words, of a class or relation ``owner``.

        ``kind``: which of the two.
        """
        type_ = "list" if one.many else _TYPES[one.type]
        noun = (kind == "class" and self.called.nouns.get(owner)) or relation_phrase(owner)
        text = f"{type_} {noun} : {_words(one.name, one.also)}"
        self.properties.setdefault((kind, owner, one.name), (one, text))
        if kind == "class":
            self.owner_of.setdefault(one.name, owner)

    def read(self, question: str, values: Sequence[FoundValue]) -> tuple[list[Part], list[object]]:
        """Return the parts to score for a question in words, and the schema's parts they stand for.

        Those are classes, hops or properties. Of a large schema only the nearest ones.
        """
        held: dict[Owned, str] = {}
        for value in values:
            for owned in value.fields:
                held.setdefault(owned, question[value.start : value.end].strip("'\"").lower())
        asked = {stem(word) for word in re.findall(r"\w+", question.lower())}

        def near(text: str) -> float:
            """Return how many words a text shares with the question."""
            return float(len(asked & {stem(word) for word in text.split()}))

        def near_hop(hop: tuple[str, str, str]) -> float:
            """Return how many words a hop shares with the question."""
            return near(self.hops[hop]) + near(relation_phrase(hop[1]))

        classes, hops, properties = list(self.classes), list(self.hops), list(self.properties)
        if self.is_large:
            classes, hops, properties = self._chosen(asked)
        texts = {name: self._class_text(name, asked) for name in classes}
        parts: list[tuple[float, Part, object]] = [
            (2 + near(text), Part("class", text), name) for name, text in texts.items()
        ]
        parts += [(0.5 + near_hop(hop), Part("hop", self.hops[hop]), hop) for hop in hops]
        for owned in properties:
            text, value_text = self.properties[owned][1], held.get(owned, "")
            shown = f"{text} = {value_text[:60]}" if value_text else text
            parts.append((near(text) + 3 * bool(value_text), Part("property", shown), owned))
        if len(parts) > _MOST_PARTS:
            kept = set(nlargest(_MOST_PARTS, range(len(parts)), key=lambda at: parts[at][0]))
            parts = [one for at, one in enumerate(parts) if at in kept]
        return [part for _, part, _ in parts], [ref for _, _, ref in parts]

    def _class_text(self, name: str, asked: AbstractSet[str]) -> str:
        """Return a class in words, with its name column if the question mentions that."""
        named = self.index.types[name].named_by if name in self.index.types else ""
        said = bool(named) and {*stems(named)} <= asked
        return f"{self.classes[name]} or {relation_phrase(named)}" if said else self.classes[name]

    @property
    def is_large(self) -> bool:
        """Whether the schema is too large to score all parts."""
        return len(self.classes) + len(self.hops) + len(self.properties) > _MOST_PARTS

    @cached_property
    def _typical(self) -> dict[tuple[str, str], str]:
        """The smallest class that has nearly all of each property or end of a relation.

        Keys are ("has", property), ("head", relation) and ("tail", relation).
        """
        size = {type_.name: type_.count for type_ in self.index.schema.types}
        counts: dict[tuple[str, str], dict[str, int]] = {}
        for pattern in self.index.schema.relations:
            for side, name in (("head", pattern.head), ("tail", pattern.tail)):
                of = counts.setdefault((side, pattern.relation), {})
                of[name] = max(of.get(name, 0), pattern.count)
        for kind, owner, name in self.properties:
            if kind == "class":
                of = counts.setdefault(("has", name), {})
                of[owner] = self.properties[kind, owner, name][0].count
        found = {}
        for key, of in counts.items():
            fit = [one for one in of if of[one] >= _NEARLY_ALL * max(of.values())]
            found[key] = min(fit, key=lambda one: size.get(one, 0))
        return found

    def _chosen(self, asked: set[str]) -> tuple[list[str], list[tuple[str, str, str]], list[Owned]]:
        """Return the classes, hops and properties of a large schema to score for a question.

        ``asked``: its words as stems. They belong to typical classes, and to classes that the
        question names; of several with one name, the one with the most entities.
        """
        size = {type_.name: type_.count for type_ in self.index.schema.types}
        typical = {*self._typical.values()}
        named = {class_ for class_ in self.classes if {*stems(class_)} <= asked}
        first: dict[str, str] = {}
        for name in sorted(
            typical | named, key=lambda one: (one not in typical, -size.get(one, 0), one)
        ):
            first.setdefault(relation_phrase(name), name)
        classes = dict.fromkeys(first.values())  # in this order: of equal ones the first counts
        hops: dict[tuple[str, ...], Any] = {}
        pairs: Counter[str] = Counter()
        for hop in self.hops:  # those of most facts first
            most = [size.get(self._typical[side, hop[1]], 0) for side in ("head", "tail")]
            fit = {hop[0], hop[2]} <= classes.keys() and not (
                size.get(hop[0], 0) > most[0] or size.get(hop[2], 0) > most[1]  # too broad
            )
            if fit and pairs[hop[1]] < _MOST_PAIRS:
                pairs[hop[1]] += 1
                hops.setdefault((hop[0], relation_phrase(hop[1]), hop[2]), hop)
        properties: dict[tuple[str, ...], Owned] = {}
        for owned in sorted(self.properties, key=lambda one: -self.properties[one][0].count):
            if owned[0] == "relation" or owned[1] in classes:
                properties.setdefault((*owned[:2], relation_phrase(owned[2])), owned)
        return list(classes), list(hops.values()), list(properties.values())


def value_nodes(store: QueryStore, schema: GraphSchema) -> dict[str, str]:
    """Return the classes of unnamed nodes that hold one entity's values, and their relations.

    A price of an amount and a currency is such a node; the relation is the one that leads to it. {}
    for a very large schema. An endpoint's result is cached with its survey. Raises GraphError.
    """
    kept = kept_of_endpoint(store)
    if (held := kept.read("value-nodes", _MADE_BY)) is not None:
        return dict(held[1])
    size = {type_.name: type_.count for type_ in schema.types}
    found = {}
    for one in schema.types if len(schema.types) < _MOST_PARTS else ():
        into = [pattern for pattern in schema.relations if pattern.tail == one.name]
        most = max(into, key=lambda pattern: pattern.count, default=None)
        if one.names or not one.properties or len({pattern.relation for pattern in into}) != 1:
            continue
        if most and most.count == one.count <= size.get(most.head, 0):
            some = store.entities(store.instances(one.name)[:_LOOKED_AT])
            names = zip(some.names, some.ids, strict=True)
            if all(not name or (name == id_ and re.search(r"\d", name)) for name, id_ in names):
                found[one.name] = most.relation
    kept.write("value-nodes", _MADE_BY, {}, found)
    return found


def _words(name: str, also: Sequence[str]) -> str:
    """Return a name in words, with up to two of its synonyms ``also``."""
    return " ".join([relation_phrase(name), *(f"or {relation_phrase(one)}" for one in also[:2])])

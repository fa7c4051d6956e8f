"""A graph of plain triples as one of classes and properties, so that plans can be made over it.

A relation whose tails are nearly all quantities or dates ("118 min", "€20,000", "16 October 2024")
or yes and no is a *property* of its heads, as a number, an ISO date or a boolean. A *class* is what
a relation's heads, or tails, are: such sets of entities belong together if they overlap, unless the
heads of two relations have nothing in common, or only what nearly all have. An entity is of one
class, the one that most of its relations say. Classes are called as their entities' ids are
(``…/branch/1``), as their names say, or else by the relations that make them up.

The entities and facts are the store's own: what a plan gives is as true as on any other graph.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from kgqa.graph.quantities import UNITS, read_value
from kgqa.graph.schema import EntityType, GraphSchema, Property, RelationPattern
from kgqa.paths.words import relation_phrase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import EntityDetails, IntArray
    from kgqa.graph.schema import Value, ValueType
    from kgqa.queries.join import QueryStore

_MOST_RELATIONS = 400
_MOST_EDGES = 1_500_000
_READ = 0.8  # of a relation's tails that must be quantities, so that it is a property
_TOGETHER = 0.5  # of the smaller of two sets that must be in the other, so that they are one class
_APART = 0.1  # at most so much of the heads of two relations that are of different classes
_FEW = 4  # heads of a relation that says that two classes are different
_WIDE = 0.75  # of a class that a relation's heads, or tails, are, so that it tells nothing apart
_SHARE = 0.03  # of a relation's facts from one class to another that are a pattern of it
_SAID = 0.3  # of a class's names that have a word, so that the class is called so
_IN_TEXT = 6  # relations that describe a class
_LITTLE = "the and for with from that this into over und der die van von della"
_LITTLE_WORDS = frozenset(_LITTLE.split())
_BESIDE = frozenset(
    ["of", "for", "against", "to", "from", "with", "on", "through", "into", "over", "along", "as"]
)
_SEGMENT = re.compile(r"(?:.*[/#])?([A-Za-z][A-Za-z_ -]*?)[-_/:# ]?\d+[A-Za-z]?")
_FLAGS = {"yes": True, "no": False, "true": True, "false": False}
_NOUN = re.compile(r"(?<![\w@.])(?:[^\W\d_]{4,}(?![\w@:]|\.\w)|[^\W\d_]{3}$)")  # of no address
_NUMBER = re.compile(r"\d[\d.,\s]*\d|\d")


def queryable(store: QueryStore) -> QueryStore:
    """Return a store, or if it has no classes and is not large one that has them."""
    version = store.info.version
    if _TYPED.get(store) == version:
        return store
    view = _VIEWS.get(id(store))
    if view is not None and view.base is store and view.version == version:
        return cast("QueryStore", view)
    schema = store.schema()
    said: Counter[bool] = Counter()  # facts of what has a type, and of what has none
    for pattern in schema.relations:
        said[bool(pattern.head)] += pattern.count
    for type_ in schema.types:
        said[bool(type_.name)] += sum(one.count for one in type_.properties)
    large = len(store.relations().ids) > _MOST_RELATIONS or store.info.edges > _MOST_EDGES
    if large or said[True] >= said[False]:
        _TYPED[store] = version
        return store
    _VIEWS.clear()
    _VIEWS[id(store)] = PlainGraph(store, schema)
    return cast("QueryStore", _VIEWS[id(store)])


class PlainGraph:
    """A store of plain triples with the classes and properties of its relations."""

    def __init__(self, store: QueryStore, schema: GraphSchema) -> None:
        self.base, self.version = store, store.info.version
        ids = store.relations().ids
        every = np.flatnonzero([bool(one) for one in ids]).astype(np.int64)
        keys = store.instances("")
        facts = store.facts(keys, every.tolist(), inverse=False)
        self._heads, self._relation, self._tails = keys[facts.row], facts.relation, facts.other
        self._ids = ids
        self._names = store.entities(np.unique(self._tails))
        self._values: dict[str, dict[int, Value]] = {}  # by relation, by key of the tail
        self._properties: dict[str, Property] = {}
        self._read_properties(every)
        self._keys = np.unique(np.concatenate([keys, self._tails]))  # on a server's store far apart
        self._class_of = _classes(self._slots(every), len(self._keys))
        self._entities = store.entities(keys)
        self._join_ids()
        self._schema = self._made(schema)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    def schema(self) -> GraphSchema:
        """Return the schema that was found."""
        return self._schema

    def instances(self, type_: str) -> IntArray:
        """Return the keys of the entities of a type, ascending; "" is every entity."""
        if not type_:
            return self.base.instances("")
        if type_ not in self._numbers:  # one that is stated
            return self.base.instances(type_)
        there: IntArray = self._keys[self._class_of == self._numbers[type_]]
        return there

    def details(self, key: int) -> EntityDetails:
        """Return an entity with its class."""
        found = self.base.details(key)
        number = int(self._classes_of(np.array([key]))[0])
        types = [name for name, one in self._numbers.items() if one == number]
        return replace(found, types=types) if types else found

    def property_values(self, keys: IntArray, name: str) -> tuple[IntArray, list[Value]]:
        """Return (row, value) of a property of entities, by row."""
        if name not in self._values:
            return self.base.property_values(keys, name)
        read = self._values[name]
        facts = self.base.facts(keys, [self._ids.index(name)], inverse=False)
        kept = [place for place, tail in enumerate(facts.other.tolist()) if tail in read]
        return facts.row[kept], [read[int(facts.other[place])] for place in kept]

    # -- what the relations are --------------------------------------------------------------

    def _read_properties(self, relations: IntArray) -> None:
        name_of = dict(zip(self._names.keys.tolist(), self._names.names, strict=True))
        goes_on = set(np.unique(self._heads).tolist())
        for relation in relations.tolist():
            tails = self._tails[self._relation == relation].tolist()
            if not tails or sum(one in goes_on for one in tails) > (1 - _READ) * len(tails):
                continue
            texts = {one: name_of.get(one) or "" for one in dict.fromkeys(tails)}
            found = _read(texts)
            if found is None or sum(one in found[1] for one in tails) < _READ * len(tails):
                continue
            type_, values = found
            name = self._ids[relation]
            self._values[name] = values
            examples = tuple(dict.fromkeys(list(values.values())[:3]))
            self._properties[name] = Property(name, type_, False, len(tails), examples)

    def _slots(self, relations: IntArray) -> list[_Slot]:
        found = []
        for relation in relations.tolist():
            here = self._relation == relation
            name = self._ids[relation]
            sides = [(True, self._heads)]
            if name not in self._properties:
                sides.append((False, self._tails))
            for is_head, ends in sides:
                places = np.searchsorted(self._keys, np.unique(ends[here]))
                found.append(_Slot(name, is_head, places))
        return [one for one in found if len(one.keys)]

    def _classes_of(self, keys: IntArray) -> IntArray:
        """Return the class number of each key, -1 for a key without relations."""
        places = np.searchsorted(self._keys, keys).clip(max=max(0, len(self._keys) - 1))
        if not len(self._keys):
            return np.full(len(keys), -1, dtype=np.int64)
        return np.where(self._keys[places] == keys, self._class_of[places], -1)

    def _join_ids(self) -> None:
        """Join the classes whose ids begin with the same word."""
        first: dict[str, int] = {}
        for number, places in self._members().items():
            if word := _of_ids([self._entities.ids[place] for place in places]):
                into = first.setdefault(word, number)
                self._class_of[self._class_of == number] = into

    def _members(self) -> dict[int, list[int]]:
        """Return the places in ``_entities`` of each class, the largest first."""
        found: dict[int, list[int]] = {}
        for place, number in enumerate(self._classes_of(self._entities.keys).tolist()):
            if number >= 0:
                found.setdefault(number, []).append(place)
        return dict(sorted(found.items(), key=lambda one: (-len(one[1]), one[0])))

    def _made(self, schema: GraphSchema) -> GraphSchema:
        stored = {one.name: one for type_ in schema.types for one in type_.properties}
        stored.update(self._properties)
        used: dict[int, Counter[str]] = {}  # properties by class
        patterns: Counter[tuple[str, int, int]] = Counter()
        total: Counter[str] = Counter()
        of_head, of_tail = self._classes_of(self._heads), self._classes_of(self._tails)
        as_head: dict[int, Counter[str]] = {}
        as_tail: dict[int, Counter[str]] = {}
        triples = np.stack([self._relation, of_head, of_tail], axis=1)
        for (relation, head, tail), count in zip(
            *(part.tolist() for part in np.unique(triples, axis=0, return_counts=True)), strict=True
        ):
            name = self._ids[relation]
            total[name] += count
            as_head.setdefault(head, Counter())[name] += count
            if name in stored:
                used.setdefault(head, Counter())[name] += count
            else:
                patterns[name, head, tail] += count
                as_tail.setdefault(tail, Counter())[name] += count
        self._numbers: dict[str, int] = {}
        types = []
        for number, places in self._members().items():
            words = described(as_head.get(number, Counter()), as_tail.get(number, Counter()))
            ids, names = ([every[place] for place in places]
                          for every in (self._entities.ids, self._entities.names))  # fmt: skip
            said = _common_word([name or "" for name in names])
            said = "" if said in self._numbers else said
            name = _of_ids([id_ or "" for id_ in ids]) or said or words[0]
            while name in self._numbers:
                name += " 2"
            self._numbers[name] = number
            own = [one for one, count in used.get(number, Counter()).items()
                   if count >= _SHARE * total[one]]  # fmt: skip
            properties = tuple(replace(stored[one], count=used[number][one]) for one in own)
            also = tuple(
                one for one in dict.fromkeys([said, ", ".join(words)]) if one and one != name
            )
            types.append(EntityType(name, len(ids), properties, also=also))
        for one in schema.types:
            if one.name and one.name not in self._numbers:
                here = self._relation[np.isin(self._heads, self.base.instances(one.name))]
                counts = Counter(self._ids[number] for number in here.tolist())
                more = [replace(read, count=counts[name]) for name, read in self._properties.items()
                        if counts[name]]  # fmt: skip
                types.append(replace(one, properties=(*one.properties, *more)))
        called = {number: name for name, number in self._numbers.items()}
        relations = [
            RelationPattern(name, called[head], called[tail], count)
            for (name, head, tail), count in patterns.most_common()
            if count >= _SHARE * total[name] and {head, tail} <= called.keys()  # not mediators
        ]
        return GraphSchema(tuple(types), tuple(relations), schema.sampled)


_VIEWS: dict[int, PlainGraph] = {}  # the last one
_TYPED: WeakKeyDictionary[QueryStore, str] = WeakKeyDictionary()  # versions that need no view


@dataclass(frozen=True, slots=True)
class _Slot:
    """The entities that a relation's heads are, or its tails, by their places."""

    relation: str
    head: bool
    keys: IntArray


def _classes(slots: Sequence[_Slot], count: int) -> IntArray:
    """Return each entity's class number, -1 without relations. Shape ``[count]``."""
    class_of = np.full(count, -1, dtype=np.int64)
    if not slots:
        return class_of
    within = np.zeros((len(slots), count), dtype=np.float32)
    for row, slot in enumerate(slots):
        within[row, slot.keys] = 1
    shared = within @ within.T
    sizes = shared.diagonal()
    smaller = np.minimum.outer(sizes, sizes)
    likeness = shared / (sizes[:, None] + sizes[None, :] - shared)
    heads = np.array([slot.head and len(slot.keys) >= _FEW for slot in slots])
    apart = (shared <= _APART * smaller) & heads[:, None] & heads[None, :]
    groups = {number: [number] for number in range(len(slots))}
    group_of = list(range(len(slots)))
    rows, columns = np.nonzero(np.triu(shared >= _TOGETHER * smaller, 1))
    order = np.argsort(-likeness[rows, columns], kind="stable")
    for one, two in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        first, second = group_of[one], group_of[two]
        if first == second or apart[np.ix_(groups[first], groups[second])].any():
            continue
        groups[first] += groups[second]
        for slot_ in groups.pop(second):
            group_of[slot_] = first
    numbers = {group: number for number, group in enumerate(groups)}
    votes = np.zeros((len(numbers), count), dtype=np.float32)
    for row, slot in enumerate(slots):
        # a set of few says more of its members than one of many
        votes[numbers[group_of[row]], slot.keys] += (2 if slot.head else 1) + 1 / len(slot.keys)
    there = votes.max(axis=0) > 0
    class_of[there] = votes.argmax(axis=0)[there]
    for number in np.unique(class_of[there]).tolist():
        _split(class_of, number, slots, within)
    return class_of


def _split(
    class_of: IntArray, number: int, slots: Sequence[_Slot], within: NDArray[np.float32]
) -> None:
    """Split a class whose members share only near-universal relations.

    Rivers and cities have a country; what else rivers have, no city has.
    """
    members = np.flatnonzero(class_of == number)
    sizes = within[:, members].sum(axis=1)
    own = np.flatnonzero((sizes > 0) & (sizes < _WIDE * len(members)))
    parts: list[tuple[set[int], list[int]]] = []
    for row in own.tolist():
        keys, rows = set(members[within[row, members] > 0].tolist()), [row]
        for part in [one for one in parts if one[0] & keys]:
            parts.remove(part)
            keys, rows = keys | part[0], [*part[1], *rows]
        parts.append((keys, rows))
    kinds = [
        keys
        for keys, rows in parts
        if len(rows) > 1
        and any(slots[row].head and sizes[row] >= max(_FEW - 1, _TOGETHER * len(keys))
                for row in rows)
    ]  # fmt: skip
    for keys in sorted(kinds, key=len)[:-1]:
        class_of[sorted(keys)] = class_of.max() + 1


def _read(texts: dict[int, str]) -> tuple[ValueType, dict[int, Value]] | None:
    """Return the common type of the texts and their values, None without a common type.

    Amounts of one unit are numbers of it, of several the base unit's.
    """
    flags = {key: _FLAGS[text.lower()] for key, text in texts.items() if text.lower() in _FLAGS}
    if len(flags) == len(texts):
        return "boolean", dict(flags)
    read = {key: value for key, text in texts.items() if (value := read_value(text)) is not None}
    days = {key: value.days for key, value in read.items() if value.days and value.amount is None}
    if 2 * len(days) > len(read):
        return "date", {key: _iso(*span) for key, span in days.items()}
    amounts = {key: value for key, value in read.items() if value.amount is not None}
    if not amounts:
        return None
    written = {_NUMBER.sub("", texts[key]).strip().lower() for key in amounts}
    units = {UNITS.get(one, ("", 1.0))[1] for one in written}
    times = units.pop() if len(units) == 1 else 1.0
    numbers = {key: round(value.amount / times, 9) for key, value in amounts.items()}  # type: ignore[operator]
    if all(one.is_integer() for one in numbers.values()):
        return "integer", {key: int(one) for key, one in numbers.items()}
    return "float", dict(numbers)


def _iso(first: float, last: float) -> str:
    start, end = date.fromordinal(int(first)), date.fromordinal(int(last))
    text = start.isoformat()
    return text if start == end else text[:7] if start.month == end.month else text[:4]


def _of_ids(ids: Sequence[str]) -> str:
    """Return the word that most ids of a class begin with: ``…/branch/1``."""
    found = Counter(match[1].strip() for id_ in ids if (match := _SEGMENT.fullmatch(id_)))
    word, count = next(iter(found.most_common(1)), ("", 0))
    return word if len(word) > 3 and 2 * count > len(ids) else ""


def _common_word(names: Sequence[str]) -> str:
    """Return the word that many names of a class have: Grand Alder Hotel, Hotel Breakwater."""
    found = Counter(
        word for name in names for word in dict.fromkeys(_NOUN.findall(name.lower()))
        if word not in _LITTLE_WORDS
    )  # fmt: skip
    word, count = next(iter(found.most_common(1)), ("", 0))
    return word if count >= max(2, _SAID * len(names)) else ""


_AGENTS = {"written": "writer", "made": "maker", "built": "builder", "led": "leader",
           "bought": "buyer", "drawn": "artist", "taught": "teacher"}  # fmt: skip
_DOES = {**_AGENTS, "wrote": "writer", "directs": "director", "supervises": "supervisor",
         "acted": "actor", "directed": "director", "supplies": "supplier"}  # fmt: skip
_VERB = re.compile(
    r"((?:manag|own|lead|follow|employ|writ|mak|sell|buy|play|produc|work|train|us|lov|know)e?|like)"
    r"(?:s|d|ed)"
)  # whose heads are who does it


def described(as_head: Counter[str], as_tail: Counter[str]) -> list[str]:
    """Return names for a class from its relations, the most telling first.

    >>> described(Counter(running_time=30), Counter(directed_by=40))
    ['director', 'running time']
    """
    nouns: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for name, count in as_tail.items():
        noun = _noun(phrase := relation_phrase(name))
        (nouns if noun else others)[noun or phrase] += count
    heads = [relation_phrase(name) for name, _ in as_head.most_common(_IN_TEXT)]
    tails = [word for word, _ in nouns.most_common(_IN_TEXT)]
    agents = [] if tails else [one for one in map(_agent, heads[:1]) if one]
    made = [] if tails or heads else [f"what they {word}" for word in others if _agent(word)]
    return [*tails, *agents, *heads, *made, *(word for word, _ in others.most_common(2))] or [
        "thing"
    ]


def _agent(phrase: str) -> str:
    """Return the agent noun of a verb ("writes": "writer"), "" for other words.

    >>> [_agent(one) for one in ("manages", "acted in", "wrote", "plays for", "running time")]
    ['manager', 'actor', 'writer', 'player', '']
    """
    verb, *rest = phrase.split()
    match = _VERB.fullmatch(verb)
    if rest not in ([], ["in"], ["for"], ["at"]) or not (match or verb in _DOES):
        return ""
    return _DOES.get(verb) or match[1].removesuffix("e") + "er"  # type: ignore[index]


def _noun(phrase: str) -> str:
    """Return the noun that a relation gives its tail, "" if its words have none."""
    words = phrase.split()
    if len(words) == 1 and _agent(phrase):
        return ""
    if words[0] in ("has", "have", "is", "was") and len(words) > 1:
        words = words[1:]
    if words[-1] == "by" and len(words) > 1:
        verb = words[-2]
        if verb in _AGENTS:
            return _AGENTS[verb]
        if verb.endswith("ed"):
            return verb[:-2] + ("or" if verb.endswith(("cted", "ated")) else "er")
        return " ".join(words[:-1])
    if words in (["a"], ["an"], ["instance", "of"]):
        return "kind"
    if words[-1] in ("in", "at"):
        return f"place {phrase}"
    return "" if words[-1] in _BESIDE else " ".join(words)

"""Infers classes and properties from plain triples, so that query plans can be made for them.

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
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import TypeAdapter

from kgqa.graph.amounts import NumberForm
from kgqa.graph.kept import kept_of
from kgqa.graph.model import keys_array
from kgqa.graph.quantities import UNITS, read_value
from kgqa.graph.schema import EntityType, GraphSchema, Property, RelationPattern, Value
from kgqa.paths.words import relation_phrase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kgqa.graph.kept import Arrays
    from kgqa.graph.model import Entities, EntityDetails, IntArray
    from kgqa.graph.schema import ValueType
    from kgqa.queries.join import QueryStore

_MOST_RELATIONS = 400
_MOST_EDGES = 1_500_000  # most edges read from a server
_TRIED = 5_000  # entities sampled to find a name or a type
_MAYBE = 0.7  # part of a sample that must parse before all are parsed
_READ = 0.8  # part of a relation's facts with parsed tails that makes a property
_TOGETHER = 0.5  # overlap, relative to the smaller set, that joins two classes
_APART = 0.1  # most overlap of the heads of relations of different classes
_FEW = 4  # heads of a relation that separates classes, at least
_WIDE = 0.75  # part of a class above which a relation is near-universal
_SHARE = 0.03  # part of a relation's facts that makes a schema pattern
_SAID = 0.3  # part of a class's names with a word that names the class
_IN_TEXT = 6  # most relations in a class's name
_LITTLE = "the and for with from that this into over und der die van von della"
_LITTLE_WORDS = frozenset(_LITTLE.split())
_BESIDE = frozenset(
    ["of", "for", "against", "to", "from", "with", "on", "through", "into", "over", "along", "as"]
)
_SEGMENT = re.compile(r"(?:.*[/#])?([A-Za-z][A-Za-z_ -]*?)[-_/:# ]?\d+[A-Za-z]?")
_MADE_BY = (
    "queries/implicit_classes.py",
    "graph/properties.py",
    "graph/amounts.py",
    "graph/quantities.py",
    "paths/words.py",
    "lexicon/english.toml",
)
_FLAGS = {"yes": True, "no": False, "true": True, "false": False}
_NOUN = re.compile(r"(?<![\w@.])(?:[^\W\d_]{4,}(?![\w@:]|\.\w)|[^\W\d_]{3}$)")  # of no address
_NUMBER = re.compile(r"\d[\d.,\s]*\d|\d")


def queryable(store: QueryStore) -> QueryStore:
    """Return a store with classes: ``store`` itself, or a view of it with inferred classes.

    Classes are inferred where most facts have none and the store is not too large. The last view is
    cached for the thread.
    """
    version = store.info.version
    if _MINE.typed.get(store) == version:
        return store
    view = _MINE.view
    if view is not None and view.base is store and view.version == version:
        return cast("QueryStore", view)
    schema = store.schema()
    said: Counter[bool] = Counter()  # facts of entities with a type, and without
    for pattern in schema.relations:
        said[bool(pattern.head)] += pattern.count
    for type_ in schema.types:
        said[bool(type_.name)] += sum(property_.count for property_ in type_.properties)
    most = getattr(store, "most_read", _MOST_EDGES)
    large = len(store.relations().ids) > _MOST_RELATIONS or store.info.edges > most
    if large or said[True] >= said[False]:
        _MINE.typed[store] = version
        return store
    _MINE.view = view = PlainGraph(store, schema)
    return cast("QueryStore", view)


class PlainGraph:
    """A store of plain triples with inferred classes and properties."""

    def __init__(self, store: QueryStore, schema: GraphSchema) -> None:
        self.base, self.version = store, store.info.version
        self._ids = store.relations().ids
        kept = kept_of(store)
        found = _kept_classes(kept.read("classes", _MADE_BY))
        if found is None:
            found = _Classing(store, schema).found()
            kept.write("classes", _MADE_BY, *_to_keep(found))
        self._found = found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    def schema(self) -> GraphSchema:
        """Return the inferred schema."""
        return self._found.schema

    def instances(self, type_: str) -> IntArray:
        """Return the keys of the entities of a class, ascending; of all entities for ""."""
        if type_ not in self._found.numbers:  # "", or one that is stated
            return self.base.instances(type_)
        there: IntArray = self._found.keys[self._found.class_of == self._found.numbers[type_]]
        return there

    def details(self, key: int) -> EntityDetails:
        """Return an entity's details, its types replaced by its inferred class if it has one."""
        found = self.base.details(key)
        place = int(np.searchsorted(self._found.keys, key))
        known = place < len(self._found.keys) and self._found.keys[place] == key
        number = int(self._found.class_of[place]) if known else -1
        types = [name for name, one in self._found.numbers.items() if one == number]
        return replace(found, types=types) if types else found

    def property_values(self, keys: IntArray, name: str) -> tuple[IntArray, list[Value]]:
        """Return (row, value) pairs of a property of entities, by row."""
        if name not in self._found.values:
            return self.base.property_values(keys, name)
        read, values = self._found.values[name]
        facts = self.base.facts(keys, [self._ids.index(name)], inverse=False)
        places = np.minimum(np.searchsorted(read, facts.other), len(read) - 1)
        kept = read[places] == facts.other
        return facts.row[kept], [values[place] for place in places[kept].tolist()]


@dataclass(frozen=True, slots=True)
class _Found:
    """The classes and properties inferred from plain triples.

    ``keys``: of entities with relations, ascending (on a server's store far apart); ``class_of``:
    each entity's class number, -1 for none; ``numbers``: class numbers by name; ``values``: the
    tails of each property, ascending, with their values.
    """

    schema: GraphSchema
    keys: IntArray
    class_of: NDArray[np.int32]
    numbers: dict[str, int]
    values: dict[str, tuple[IntArray, list[Value]]]


class _Classing:
    """Infers classes and properties from all triples of a store.

    1. Relations whose tails mostly parse as values of one type become properties.
    2. Entities that are heads or tails of the same relations are clustered to classes.
    3. Classes whose ids begin with the same word are joined.
    4. Classes get names from their ids, their names or their relations.
    """

    def __init__(self, store: QueryStore, schema: GraphSchema) -> None:
        self._store, self._stated = store, schema
        self._ids = store.relations().ids
        every = np.flatnonzero([bool(id_) for id_ in self._ids]).astype(np.int64)
        entities = store.instances("")
        facts = store.facts(entities, every.tolist(), inverse=False)
        self._keys = np.unique(np.concatenate([entities, facts.other]))
        self._entities = np.searchsorted(self._keys, entities)
        # entities are indices into these keys from here on
        self._heads, self._relation = self._entities[facts.row], facts.relation
        self._tails = np.searchsorted(self._keys, facts.other)
        order = np.argsort(self._relation, kind="stable")
        ends = np.searchsorted(self._relation[order], np.arange(len(self._ids) + 1))
        self._of = {one: order[ends[one] : ends[one + 1]] for one in every.tolist()}
        self._values: dict[str, tuple[IntArray, list[Value]]] = {}
        self._properties: dict[str, Property] = {}
        self._read_properties()
        self._class_of = _classes(self._slots(), len(self._keys))
        self._join_ids()

    def found(self) -> _Found:
        """Return the inferred classes and properties."""
        schema, numbers = self._made()
        class_of = self._class_of.astype(np.int32)
        return _Found(schema, self._keys, class_of, numbers, self._values)

    def _read_properties(self) -> None:
        """Find the relations that are properties, and parse their tails."""
        goes_on = np.zeros(len(self._keys), np.bool_)
        goes_on[self._heads] = True
        for relation, places in self._of.items():
            tails, first, counts = np.unique(
                self._tails[places], return_index=True, return_counts=True
            )
            order = np.argsort(first)  # in reading order
            tails, counts = tails[order], counts[order]
            if not len(places) or counts[goes_on[tails]].sum() > (1 - _READ) * len(places):
                continue
            some = tails[:: max(1, len(tails) // _TRIED)]
            if len(tails) > 2 * _TRIED and not self._is_read(some, np.ones(len(some)), _MAYBE):
                continue
            if read := self._is_read(tails, counts, _READ):
                type_, values, unit = read
                name = self._ids[relation]
                places_ = keys_array(sorted(values))
                self._values[name] = self._keys[places_], [values[at] for at in places_.tolist()]
                examples = tuple(dict.fromkeys(list(values.values())[:3]))
                is_number = type_ in ("integer", "float")
                form = NumberForm(type_, unit=unit) if unit and is_number else None  # type: ignore[arg-type]
                self._properties[name] = Property(
                    name, type_, False, len(places), examples, form=form
                )

    def _is_read(
        self, tails: IntArray, counts: NDArray[Any], least: float
    ) -> tuple[ValueType, dict[int, Value], str] | None:
        """Return the type that most of a relation's tails parse as, their values by tail, the unit.

        ``counts``: facts of each tail. None if the facts with a parsed tail are fewer than the
        fraction ``least``.
        """
        entities = self._store.entities(self._keys[tails])
        texts = dict(zip(tails.tolist(), (name or "" for name in entities.names), strict=True))
        found = _read(texts)
        if found is None:
            return None
        read = counts[np.isin(tails, keys_array(list(found[1])))].sum()
        return found if read >= least * counts.sum() else None

    def _slots(self) -> list[_Slot]:
        """Return the head side of each relation, and the tail side unless it is a property.

        Empty sides are left out.
        """
        found = []
        for relation, places in self._of.items():
            name = self._ids[relation]
            found.append(_Slot(name, True, np.unique(self._heads[places])))
            if name not in self._properties:
                found.append(_Slot(name, False, np.unique(self._tails[places])))
        return [one for one in found if len(one.keys)]

    def _join_ids(self) -> None:
        """Join classes whose members' ids begin with the same word."""
        first: dict[str, int] = {}
        for number, places in self._members().items():
            some = self._sample(places)
            if word := _of_ids(some.ids):
                into = first.setdefault(word, number)
                self._class_of[self._class_of == number] = into

    def _sample(self, places: IntArray) -> Entities:
        """Return a class's entities, or a sample of a large class to find a name from."""
        return self._store.entities(self._keys[places[:: max(1, len(places) // _TRIED)]])

    def _members(self) -> dict[int, IntArray]:
        """Return the members of each class as indices of keys, the largest class first.

        Entities without a class are left out.
        """
        of = self._class_of[self._entities]
        order = np.argsort(of, kind="stable")
        numbers, starts = np.unique(of[order], return_index=True)
        parts = np.split(self._entities[order], starts[1:])
        found = [one for one in zip(numbers.tolist(), parts, strict=True) if one[0] >= 0]
        return dict(sorted(found, key=lambda one: (-len(one[1]), one[0])))

    def _made(self) -> tuple[GraphSchema, dict[str, int]]:
        """Return the inferred schema, and the number of each class by name."""
        stored = {
            property_.name: property_
            for type_ in self._stated.types
            for property_ in type_.properties
        }
        stored.update(self._properties)
        used: dict[int, Counter[str]] = {}  # properties by class
        patterns: Counter[tuple[str, int, int]] = Counter()
        total: Counter[str] = Counter()
        as_head: dict[int, Counter[str]] = {}
        as_tail: dict[int, Counter[str]] = {}
        for relation, head, tail, count in self._by_class():
            name = self._ids[relation]
            total[name] += count
            as_head.setdefault(head, Counter())[name] += count
            if name in stored:
                used.setdefault(head, Counter())[name] += count
            else:
                patterns[name, head, tail] += count
                as_tail.setdefault(tail, Counter())[name] += count
        numbers: dict[str, int] = {}
        types = []
        for number, places in self._members().items():
            heads, tails = (of.get(number, Counter()) for of in (as_head, as_tail))
            words = described(heads, tails, total)
            some = self._sample(places)
            said = _common_word([name or "" for name in some.names])
            said = "" if said in numbers else said
            name = _of_ids([id_ or "" for id_ in some.ids]) or said or words[0]
            while name in numbers:
                name += " 2"
            numbers[name] = number
            own = [one for one, count in used.get(number, Counter()).items()
                   if count >= _SHARE * total[one]]  # fmt: skip
            properties = tuple(replace(stored[one], count=used[number][one]) for one in own)
            also = tuple(
                one for one in dict.fromkeys([said, ", ".join(words)]) if one and one != name
            )
            types.append(EntityType(name, len(places), properties, also=also))
        types += self._stated_types(numbers)
        called = {number: name for name, number in numbers.items()}
        relations = [
            RelationPattern(name, called[head], called[tail], count)
            for (name, head, tail), count in patterns.most_common()
            if count >= _SHARE * total[name] and {head, tail} <= called.keys()  # not mediators
        ]
        return GraphSchema(tuple(types), tuple(relations), self._stated.sampled), numbers

    def _by_class(self) -> list[tuple[int, int, int, int]]:
        """Count facts by classes; return sorted (relation, heads' class, tails' class, count)."""
        size = int(self._class_of.max(initial=0)) + 2  # -1 is a class here
        codes = self._relation * size + self._class_of[self._heads] + 1
        codes = codes * size + self._class_of[self._tails] + 1
        unique, counts = np.unique(codes, return_counts=True)
        columns = (unique // size**2, unique // size % size - 1, unique % size - 1, counts)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def _stated_types(self, numbers: dict[str, int]) -> list[EntityType]:
        """Return the types that the graph itself states, with the inferred properties added.

        Types whose names ``numbers`` has, those of inferred classes, are left out.
        """
        types = []
        for type_ in self._stated.types:
            if type_.name and type_.name not in numbers:
                mine = np.isin(self._keys, self._store.instances(type_.name))
                here = self._relation[mine[self._heads]]
                counts = Counter(self._ids[number] for number in here.tolist())
                more = [replace(read, count=counts[name]) for name, read in self._properties.items()
                        if counts[name]]  # fmt: skip
                types.append(replace(type_, properties=(*type_.properties, *more)))
        return types


class _Mine(threading.local):
    """Thread-local cache: the last inferred view, and the versions of stores that need none."""

    def __init__(self) -> None:
        self.view: PlainGraph | None = None
        self.typed: WeakKeyDictionary[QueryStore, str] = WeakKeyDictionary()


_MINE = _Mine()
_SCHEMA = TypeAdapter(GraphSchema)
_VALUES = TypeAdapter(list[Value])


def _to_keep(found: _Found) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Convert inferred classes to arrays and JSON content, for the cache."""
    arrays: dict[str, NDArray[Any]] = {"keys": found.keys, "class_of": found.class_of}
    arrays |= {str(at): keys for at, (keys, _) in enumerate(found.values.values())}
    values = {name: each for name, (_, each) in found.values.items()}
    schema = _SCHEMA.dump_python(found.schema, mode="json")
    return arrays, {"schema": schema, "numbers": found.numbers, "values": values}


def _kept_classes(kept: tuple[Arrays, Any] | None) -> _Found | None:
    """Return the inferred classes from the cache's content, None if missing or malformed."""
    if kept is None:
        return None
    arrays, content = kept
    with suppress(ValueError, KeyError):
        values = {}
        for at, (name, each) in enumerate(content["values"].items()):
            values[name] = arrays[str(at)], _VALUES.validate_python(each)
        schema = _SCHEMA.validate_python(content["schema"])
        fits = all(len(keys) == len(each) > 0 for keys, each in values.values())
        keys, class_of = arrays["keys"], arrays["class_of"]
        if fits and keys.shape == class_of.shape:
            return _Found(schema, keys, class_of, content["numbers"], values)
    return None


@dataclass(frozen=True, slots=True)
class _Slot:
    """One side of a relation: the entities that are its heads, or its tails."""

    relation: str
    head: bool
    keys: IntArray


def _classes(slots: Sequence[_Slot], count: int) -> IntArray:
    """Cluster ``count`` entities by their slots; return each one's class number, ``[count]``.

    -1 for an entity that is in no slot.
    """
    class_of = np.full(count, -1, dtype=np.int64)
    if not slots:
        return class_of
    set_of, within, times = _sets_of_slots(slots, count)
    shared = ((within * times.astype(np.float64)) @ within.T).astype(np.float32)
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
    votes = np.zeros((len(numbers), len(times)), dtype=np.float32)
    for row, slot in enumerate(slots):
        # a small set is more informative than a large one
        weight = (2 if slot.head else 1) + 1 / len(slot.keys)
        votes[numbers[group_of[row]], within[row] > 0] += weight
    class_of_set = np.where(votes.max(axis=0) > 0, votes.argmax(axis=0), -1)
    for number in np.unique(class_of_set[class_of_set >= 0]).tolist():
        _split(class_of_set, number, slots, within, times)
    there = set_of >= 0
    class_of[there] = class_of_set[set_of[there]]
    return class_of


def _sets_of_slots(
    slots: Sequence[_Slot], count: int
) -> tuple[IntArray, NDArray[np.float32], IntArray]:
    """Group entities by their set of slots.

    Returns each entity's set ``[count]`` (-1 for none), the slots of each set
    ``[len(slots), sets]``, and the entities in each set ``[sets]``. Entities are many and sets few.
    Sets are in the order of their first entities.
    """
    marks = np.random.default_rng(0).integers(1, 1 << 63, len(slots), dtype=np.uint64)
    mark_of = np.zeros(count, np.uint64)
    for mark, slot in zip(marks, slots, strict=True):
        mark_of[slot.keys] += mark
    there = np.flatnonzero(mark_of)
    _, first, back, times = np.unique(
        mark_of[there], return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    set_of = np.full(count, -1, np.int64)
    set_of[there] = place[back]
    within = np.zeros((len(slots), len(first)), dtype=np.float32)
    for row, slot in enumerate(slots):
        within[row, set_of[slot.keys]] = 1
    return set_of, within, times[order]


def _split(
    class_of: IntArray,
    number: int,
    slots: Sequence[_Slot],
    within: NDArray[np.float32],
    times: IntArray,
) -> None:
    """Split the class ``number`` in place if its members share only near-universal relations.

    Rivers and cities have a country; what else rivers have, no city has. ``class_of``: of each set
    of slots, ``within`` its slots, ``times`` its entities.
    """
    members = np.flatnonzero(class_of == number)
    sizes = within[:, members] @ times[members].astype(np.float64)
    own = np.flatnonzero((sizes > 0) & (sizes < _WIDE * times[members].sum()))
    parts: list[tuple[set[int], list[int]]] = []
    for row in own.tolist():
        sets, rows = set(members[within[row, members] > 0].tolist()), [row]
        for part in [part for part in parts if part[0] & sets]:
            parts.remove(part)
            sets, rows = sets | part[0], [*part[1], *rows]
        parts.append((sets, rows))
    kinds = []
    for sets, rows in parts:
        size = int(times[sorted(sets)].sum())
        least = max(_FEW - 1, _TOGETHER * size)
        if len(rows) > 1 and any(slots[row].head and sizes[row] >= least for row in rows):
            kinds.append((size, sets))
    for _, sets in sorted(kinds, key=lambda kind: kind[0])[:-1]:
        class_of[sorted(sets)] = class_of.max() + 1


def _read(texts: dict[int, str]) -> tuple[ValueType, dict[int, Value], str] | None:
    """Parse ``texts`` by key as booleans, dates or numbers; return type, parsed values and unit.

    Unparsable texts are dropped; None if nothing parses. Amounts of one unit become numbers of it,
    of several units numbers of the base unit. The unit is "" for other values.
    """
    flags = {key: _FLAGS[text.lower()] for key, text in texts.items() if text.lower() in _FLAGS}
    if len(flags) == len(texts):
        return "boolean", dict(flags), ""
    read = {key: value for key, text in texts.items() if (value := read_value(text)) is not None}
    days = {key: value.days for key, value in read.items() if value.days and value.amount is None}
    if 2 * len(days) > len(read):
        return "date", {key: _iso(*span) for key, span in days.items()}, ""
    amounts = {key: value for key, value in read.items() if value.amount is not None}
    if not amounts:
        return None
    written = {_NUMBER.sub("", texts[key]).strip().lower() for key in amounts}
    bases, units = zip(*(UNITS.get(one, ("", 1.0)) for one in written), strict=True)
    alike = len({*units}) == 1
    times = units[0] if alike else 1.0
    unit = "" if len({*bases}) > 1 else min(written) if alike else bases[0]
    numbers = {key: round(value.amount / times, 9) for key, value in amounts.items()}  # type: ignore[operator]
    if all(number.is_integer() for number in numbers.values()):
        return "integer", {key: int(one) for key, one in numbers.items()}, unit
    return "float", dict(numbers), unit


def _iso(first: float, last: float) -> str:
    """Return two ordinal days as one ISO day, month or year that contains both."""
    start, end = date.fromordinal(int(first)), date.fromordinal(int(last))
    text = start.isoformat()
    return text if start == end else text[:7] if start.month == end.month else text[:4]


def _of_ids(ids: Sequence[str]) -> str:
    """Return the word that begins most ids of a class: ``…/branch/1``; "" if there is none."""
    found = Counter(match[1].strip() for id_ in ids if (match := _SEGMENT.fullmatch(id_)))
    word, count = next(iter(found.most_common(1)), ("", 0))
    return word if len(word) > 3 and 2 * count > len(ids) else ""


def _common_word(names: Sequence[str]) -> str:
    """Return the word that many names of a class share, as Grand Alder Hotel, Hotel Breakwater.

    "" if there is none.
    """
    found = Counter(
        word
        for name in names
        for word in dict.fromkeys(_NOUN.findall(name.lower()))
        if word not in _LITTLE_WORDS
    )
    word, count = next(iter(found.most_common(1)), ("", 0))
    return word if count >= max(2, _SAID * len(names)) else ""


_NO_KIND = frozenset(["part", "kind", "type", "made", "instance", "subclass", "because"])
_AGENTS = {"written": "writer", "made": "maker", "built": "builder", "led": "leader",
           "bought": "buyer", "drawn": "artist", "taught": "teacher"}  # fmt: skip
_DOES = {**_AGENTS, "wrote": "writer", "directs": "director", "supervises": "supervisor",
         "acted": "actor", "directed": "director", "supplies": "supplier"}  # fmt: skip
_VERB = re.compile(
    r"((?:manag|own|lead|follow|employ|writ|mak|sell|buy|play|produc|work|train|us|lov|know)e?|like)"
    r"(?:s|d|ed)"
)  # relations whose heads are the agents


def described(
    as_head: Counter[str], as_tail: Counter[str], total: Counter[str] | None = None
) -> list[str]:
    """Return candidate names for a class, the best first, from its members' relations.

    ``as_head``, ``as_tail``: how many facts of each relation they are the head or tail of.
    ``total``: how many there are in all, by default those of ``as_head``.

    >>> described(Counter(running_time=30), Counter(directed_by=40))
    ['director', 'running time']
    >>> described(Counter({"vintage of": 9, "aged in": 8}), Counter())[0]
    'vintage'
    """
    nouns: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for name, count in as_tail.items():
        noun = _noun(phrase := relation_phrase(name))
        (nouns if noun else others)[noun or phrase] += count
    for name, count in as_head.items():
        noun = _noun_of_head(relation_phrase(name))
        if noun and 2 * count > (total or as_head)[name]:  # else others are called so, too
            nouns[noun] += count
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


def _noun_of_head(phrase: str) -> str:
    """Return the noun by which a relation calls its heads, "" if it calls them by none.

    >>> [_noun_of_head(one) for one in ("vintage of", "is part of", "made of", "date of birth")]
    ['vintage', '', '', '']
    """
    noun, _, rest = phrase.partition(" ")
    return noun if rest == "of" and noun not in _NO_KIND and noun[-2:] != "ed" else ""


def _noun(phrase: str) -> str:
    """Return the noun that a relation phrase implies for its tails, "" if it implies none."""
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

"""A stored KG as a property graph: its schema, its properties, its facts; the same on each store.

A property is one that a node's JSON holds. Beside those, a relation to values is a property of its
heads, and so is a relation whose tails' names all read as numbers or dates. A fact with walked
properties lies there as a mediator (:mod:`kgqa.graph.schema`), which is known by its edges, never
by its id alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import orjson
from pydantic import TypeAdapter

from kgqa.errors import GraphError
from kgqa.graph.amounts import MISSING, READ, NumberForm, NumberTexts, is_amount
from kgqa.graph.kept import Kept
from kgqa.graph.literals import (
    LONG_TEXT,
    cast_values,
    common_type,
    is_walked,
    members,
    read_value,
    value_type,
)
from kgqa.graph.model import Kind, distinct, keys_array
from kgqa.graph.moments import needs_reading
from kgqa.graph.schema import (
    ROW,
    EntityType,
    Facts,
    GraphSchema,
    Property,
    PropertyGraph,
    RelationPattern,
    Value,
    ValueType,
    read_fact_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from kgqa.graph.model import Adjacency, Direction, Entities, IntArray, KGInfo, Relations

    Described: TypeAlias = tuple[int, str, str | None, int, tuple[str, ...], str | None]

_ALL = 600_000  # nodes of a KG that is read whole for its schema; of a larger one so many
_CHUNK = 20_000  # nodes that are read at once
_LOOKED_AT = 20  # entities of a type, whether a property is their name
_PLAIN_NAMES = ("name", "title", "label")  # say nothing of what has them
_OURS = frozenset(ROW)  # which nobody asks for
_EXAMPLES = 3
_SURVEY_BY = (
    "graph/properties.py",
    "graph/amounts.py",
    "graph/literals.py",
    "graph/quantities.py",
    "graph/schema.py",
    "lexicon/english.toml",
)


class StoredPropertyGraph(PropertyGraph, ABC):
    """A ``PropertyGraph`` computed from a store's neighbours, entities and node rows."""

    info: KGInfo
    kept_in: Path | None = None  # where what is computed from it lies
    _survey: Surveyed | None = None

    @property
    def kept(self) -> Kept:
        """The cache of what was computed from this version of the KG."""
        return Kept(self.kept_in, self.info.version)

    def prepare(self) -> None:
        """Build what makes a scan of the whole KG faster; by default nothing."""

    @abstractmethod
    def described(self, keys: IntArray) -> Iterable[Described]:
        """Return key, id, name, kind, types and properties (JSON) of the ``keys`` that exist."""

    @abstractmethod
    def neighbours(self, keys: IntArray, direction: Direction) -> Adjacency:
        """Return the edges of ``keys``, as :class:`kgqa.graph.store.GraphStore` does."""

    def edges_of(self, keys: IntArray, relations: IntArray, *, inverse: bool) -> Adjacency:
        """Return the edges of ascending ``keys`` whose relation is one of ``relations``.

        ``inverse``: edges into the keys, not out of them.
        """
        near = self.neighbours(keys, "in" if inverse else "out")
        return near.take(np.isin(near.step, relations * 2 + int(inverse)))

    @abstractmethod
    def entities(self, keys: IntArray) -> Entities:
        """Return ids, names and kinds."""

    @abstractmethod
    def relations(self) -> Relations:
        """Return all relations."""

    def schema(self) -> GraphSchema:
        """Return the schema; cached for each version."""
        return self._current_survey().schema

    def property_values(self, keys: IntArray, name: str) -> tuple[IntArray, list[Value]]:
        """Return (row, value) of the property ``name`` of entities or fact nodes, by row.

        Each member of a list is a row of its own, in the list's order. Texts that are not numbers
        in a numeric property are dropped.
        """
        survey = self._current_survey()
        keys = keys_array(keys)
        rows: list[int] = []
        values: list[Value] = []
        form = survey.numbers.get(name)
        if name in survey.by_edges:
            rows, values = self._edge_values(keys, *survey.by_edges[name], form)
        if name not in survey.stored:  # facts may have a property that is called as a relation is
            return keys_array(rows), values
        asked, places = np.unique(keys, return_inverse=True)
        rows_of = np.split(np.argsort(places, kind="stable"), np.cumsum(np.bincount(places))[:-1])
        mark = orjson.dumps(name).decode()  # most nodes of a mixed set lack it
        for key, *_, text in self.described(asked):
            if text is None or (mark not in text and "\\" not in text):
                continue
            cast = cast_values(members(_object(text).get(name)), form)
            for row in rows_of[int(np.searchsorted(asked, key))].tolist() if cast else ():
                rows += [row] * len(cast)
                values += cast
        order = np.argsort(keys_array(rows), kind="stable")
        return keys_array(rows)[order], [values[place] for place in order.tolist()]

    def facts(self, keys: IntArray, relations: Sequence[int], *, inverse: bool) -> Facts:
        """Return the facts of ``relations`` whose head (``inverse``: tail) is in ``keys``."""
        keys = keys_array(keys)
        asked, places = distinct(keys)
        direction: Direction = "in" if inverse else "out"
        near = self.edges_of(asked, keys_array(relations), inverse=inverse)
        near = near.take(near.kind != Kind.VALUE)
        row, step, other = near.row, near.step, near.target
        middle = near.kind == Kind.MEDIATOR
        fact = np.full(len(row), -1, dtype=np.int64)
        nodes = np.unique(other[middle])
        nodes = nodes[self._are_fact_ids(nodes)]
        if len(nodes):
            other = other.copy()
            ends = self.neighbours(nodes, direction)
            # through a fact the same relation goes on, the same way, to its one other end
            far = {
                (node, step): target
                for node, step, target in zip(
                    nodes[ends.row].tolist(), ends.step.tolist(), ends.target.tolist(), strict=True
                )
            }
            for place in np.flatnonzero(middle).tolist():
                end = far.get((int(other[place]), int(step[place])))
                if end is not None:
                    fact[place], other[place] = other[place], end
            # what else leads to a fact node is not a fact of the graph
            ends_here = np.isin(other, nodes) & (fact < 0)
            row, step, other, fact = (c[~ends_here] for c in (row, step, other, fact))
        if asked is keys and not len(nodes):  # in order as they are
            return Facts(row, step // 2, other, fact)
        order = np.argsort(places, kind="stable")
        counts = np.bincount(places, minlength=len(asked))
        starts = np.cumsum(counts) - counts
        again = counts[row]
        within = np.arange(again.sum()) - np.repeat(np.cumsum(again) - again, again)
        rows = order[np.repeat(starts[row], again) + within]
        columns = [rows, *(np.repeat(column, again) for column in (step // 2, other, fact))]
        sort = np.lexsort(columns[::-1])
        return Facts(*(keys_array(column[sort]) for column in columns))

    def _are_fact_ids(self, keys: IntArray) -> Any:
        """Return which keys are mediators of facts, by the form of their ids."""
        if not len(keys):
            return np.zeros(0, dtype=np.bool_)
        ids = self.entities(keys).ids
        return np.fromiter((id_.startswith('["') for id_ in ids), np.bool_, len(ids))

    def _edge_values(
        self, keys: IntArray, relation: int, named: bool, form: NumberForm | None
    ) -> tuple[list[int], list[Value]]:
        """Return (row, value) of the tails of a relation, which the schema shows as a property.

        ``named``: tails may be entities, whose names are the values; else only value nodes count.
        Tails that are not numbers are dropped if ``form`` is given.
        """
        asked, places = np.unique(keys, return_inverse=True)
        near = self.neighbours(asked, "out")
        kept = near.step == 2 * relation
        tails = self.entities(np.unique(near.target[kept]))
        read = {
            int(key): value
            for key, id_, name, kind in zip(
                tails.keys.tolist(), tails.ids, tails.names, tails.kinds.tolist(), strict=True
            )
            if named or kind == Kind.VALUE
            for value in cast_values([_value_of(id_, name, kind)], form)
        }
        by_row: dict[int, list[Value]] = {}
        for row, target in zip(near.row[kept].tolist(), near.target[kept].tolist(), strict=True):
            if target in read:  # else it is not a number, or a thing
                by_row.setdefault(row, []).append(read[target])
        rows, values = [], []
        for row, place in enumerate(places.tolist()):
            for value in by_row.get(place, ()):
                rows.append(row)
                values.append(value)
        return rows, values

    def _current_survey(self) -> Surveyed:
        """Return the survey of this version: cached, on disk, or computed now."""
        known = self._survey
        if known is None or known.version != self.info.version:
            known = self._kept_survey()
            if known is None:
                self.prepare()
                made = _Survey(self)
                parts = (made.schema, made.stored, made.by_edges, made.numbers)
                known = self._survey = Surveyed(self.info.version, *parts)
                some = made.some_of_each()
                types = tuple(self._named(one, some[one.name]) for one in known.schema.types)
                known = replace(known, schema=replace(known.schema, types=types))
                self.kept.write("schema", _SURVEY_BY, {}, _SURVEYED.dump_python(known, mode="json"))
            self._survey = known
        return known

    def _named(self, type_: EntityType, keys: IntArray) -> EntityType:
        """Return a type with the text property that repeats its entities' names, if there is one.

        The property's words become another name of the type: rows named by a column ``appointee``
        are appointees. ``keys``: some entities of the type, by which this is judged.
        """
        texts = [each for each in type_.properties if each.type == "text" and not each.many]
        names = self.entities(keys).names if texts else []
        for one in texts:
            rows, values = self.property_values(keys, one.name)
            same = [names[row] == value for row, value in zip(rows.tolist(), values, strict=True)]
            if all(same) and len(same) * 2 > len(keys):
                also = () if one.name in _PLAIN_NAMES else (one.name,)
                return replace(type_, named_by=one.name, also=(*type_.also, *also))
        return type_

    def _kept_survey(self) -> Surveyed | None:
        """Return the survey cached on disk, None if there is none or it cannot be parsed."""
        kept = self.kept.read("schema", _SURVEY_BY)
        with suppress(ValueError):
            return None if kept is None else _SURVEYED.validate_python(kept[1])
        return None


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The schema of one version, and where and how each property is read.

    ``stored``: properties in nodes' JSON; ``by_edges``: properties that are relations: the
    relation's key and whether all its tails are values; ``numbers``: how numeric texts are parsed.
    """

    version: str
    schema: GraphSchema
    stored: set[str]
    by_edges: dict[str, tuple[int, bool]]
    numbers: dict[str, NumberForm]


_SURVEYED = TypeAdapter(Surveyed)


def _object(text: str) -> dict[str, Any]:
    """Parse a node's properties from JSON. Raises GraphError."""
    try:
        content = orjson.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise GraphError("The properties of a node do not read.", "Load the KG again.")
    return content


def _value_of(id_: str, name: str | None, kind: int) -> Value:
    """Return the scalar of a value node, or the name of an entity (its id if it has none)."""
    return read_value(id_)[0] if kind == Kind.VALUE else (name or id_)


@dataclass(slots=True)
class _ValueCounts:
    """Statistics of a property's values; ``texts``: those of its texts."""

    owners: int = 0
    types: Counter[ValueType] = field(default_factory=Counter)
    texts: NumberTexts = field(default_factory=NumberTexts)
    examples: dict[Value, None] = field(default_factory=dict)
    many: bool = False
    walked: bool = True
    instants: bool = False

    def add(self, value: Any, times: int = 1) -> None:
        """Count a value that occurs ``times`` times; each member of a list is counted."""
        self.walked &= is_walked(value)
        self.many |= isinstance(value, list)
        self.owners += times
        for member in members(value):
            kind = value_type(member)
            self.types[kind] += times
            if isinstance(member, str):
                self.instants |= kind in ("date", "datetime", "time") and needs_reading(member)
                if kind == "text":
                    self.texts.add(member, times)
                if len(member) > LONG_TEXT:
                    continue
            if len(self.examples) < _EXAMPLES:
                self.examples.setdefault(member)

    def merge(self, other: _ValueCounts) -> None:
        """Add the statistics ``other`` of more values of the property."""
        self.types += other.types
        self.texts.merge(other.texts)
        self.owners += other.owners
        self.many |= other.many
        self.walked &= other.walked
        self.instants |= other.instants
        for example in list(other.examples)[: _EXAMPLES - len(self.examples)]:
            self.examples.setdefault(example)

    def form(self, name: str) -> NumberForm | None:
        """Return how all texts are parsed as numbers, None if they are not numbers."""
        others = set(self.types) - {"text"}
        if not self.types["text"] or others - {"integer", "float"}:
            return None
        return self.texts.form(name, others)

    def named(self, name: str, also: tuple[str, ...], form: NumberForm | None) -> Property:
        """Build the schema's property from the statistics.

        ``also``: its other names; ``form``: how its texts are parsed as numbers, None if they are
        not.
        """
        kind = form.type if form else common_type([*self.types] or ["text"])
        examples = tuple(cast_values(list(self.examples), form))
        return Property(
            name,
            kind,
            self.many,
            self.owners,
            examples,
            self.walked,
            also,
            as_text=form is not None,
            instants=self.instants,
            form=form,
            unordered=kind == "text" and self.texts.unordered,
        )


class _Survey:
    """One scan of a whole KG that derives its schema."""

    def __init__(self, store: StoredPropertyGraph) -> None:
        """Scan the KG, or a sample of a large one, and derive schema and property sources."""
        self._store = store
        self._relations = store.relations()
        count = store.info.next_key
        self._sets: dict[tuple[str, ...], int] = {(): 0}
        self._set_of = np.full(count, -1, dtype=np.int32)
        self._kind = np.zeros(count, dtype=np.uint8)
        self._fact = np.zeros(count, dtype=np.bool_)
        self._types: Counter[tuple[int, int]] = Counter()  # (set of types, kind): nodes
        self._of_types: dict[int, dict[str, _ValueCounts]] = {}  # by set of types, by property
        self._of_facts: dict[int, dict[str, _ValueCounts]] = {}  # by group of facts, by property
        self._texts: dict[int, str] = {}  # properties of fact nodes, until their ends are known
        self._reads: set[int] = set()  # entities that are called as a value is written
        self._missing: set[int] = set()  # or by a word for no value
        sampled = store.info.nodes > _ALL
        edges = self._read(sampled)
        self.stored = {name for type_ in self._of_types.values() for name in type_}
        self.by_edges: dict[
            str, tuple[int, bool]
        ] = {}  # relation, whether all its tails are values
        patterns = self._patterns(*self._literal_edges(*edges))
        self.stored |= {name for fact in self._of_facts.values() for name in fact}
        self.numbers = self._number_forms()
        self.schema = GraphSchema(self._entity_types(), self._relation_patterns(patterns), sampled)

    # -- reading -----------------------------------------------------------------------------

    def _read(self, sampled: bool) -> tuple[IntArray, IntArray, IntArray]:
        """Scan the nodes, or a sample; return their edges as heads, relations and tails."""
        count = self._store.info.next_key
        starts = np.arange(0, count, _CHUNK)
        if sampled:
            starts = starts[:: -(-len(starts) // (_ALL // _CHUNK))]
        parts = [(keys_array([]),) * 3]
        for start in starts.tolist():
            keys = np.arange(start, min(start + _CHUNK, count), dtype=np.int64)
            self._describe(keys, count=True)
            near = self._store.neighbours(keys, "out")
            parts.append((keys[near.row], near.step // 2, near.target))
            if sampled:
                far = np.unique(near.target)
                self._describe(far[self._set_of[far] < 0], count=False)
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]

    def _describe(self, keys: IntArray, *, count: bool) -> None:
        """Record each node's types and kind and, with ``count``, the statistics of its properties.

        A fact's mediator is recorded with its properties and not counted.
        """
        for key, id_, name, kind, types, text in self._store.described(keys):
            number = self._sets.setdefault(types, len(self._sets))
            self._set_of[key], self._kind[key] = number, kind
            if kind == Kind.MEDIATOR and read_fact_id(id_) is not None:
                self._fact[key] = True
                if text:
                    self._texts[key] = text
                continue
            if kind == Kind.ENTITY and name:
                if name.lower() in MISSING:
                    self._missing.add(key)
                elif value_type(name) != "text" or is_amount(name):
                    self._reads.add(key)
            if count:
                self._types[number, kind] += 1
                if text:
                    type_ = self._of_types.setdefault(number, {})
                    for each, value in _object(text).items():
                        if members(value) and each not in _OURS:
                            type_.setdefault(each, _ValueCounts()).add(value)

    # -- properties that are edges -----------------------------------------------------------

    def _literal_edges(
        self, heads: IntArray, relations: IntArray, tails: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Turn relations to values and value-like names into properties; return the other edges."""
        to_value = self._kind[tails] == Kind.VALUE
        reads = np.zeros(len(self._kind), dtype=np.bool_)
        reads[list(self._reads)] = True
        missing = np.zeros(len(self._kind), dtype=np.bool_)
        missing[list(self._missing)] = True
        total = np.bincount(relations[~missing[tails]], minlength=len(self._relations))
        read = np.bincount(relations[reads[tails]], minlength=len(self._relations))
        named = (total > 0) & (read >= READ * total)
        literal = to_value | named[relations]
        kept = literal & ~self._fact[heads]
        names = np.array([*self._relations.ids, ""], dtype=object)
        for relation in np.unique(relations[kept]).tolist():
            name = str(names[relation])
            if name in self.stored:
                continue
            self.by_edges[name] = relation, bool(named[relation])
            mine = np.flatnonzero(kept & (relations == relation))
            ends = self._store.entities(np.unique(tails[mine]))
            value = {
                int(key): _value_of(*rest)
                for key, *rest in zip(
                    ends.keys.tolist(), ends.ids, ends.names, ends.kinds.tolist(), strict=True
                )
            }
            owners: dict[int, int] = Counter()
            for head, tail in zip(heads[mine].tolist(), tails[mine].tolist(), strict=True):
                number = int(self._set_of[head])
                values = self._of_types.setdefault(number, {}).setdefault(name, _ValueCounts())
                owners[head] += 1
                values.many |= owners[head] > 1
                values.add(value[tail])
                values.owners -= owners[head] > 1
        rest = ~literal
        return heads[rest], relations[rest], tails[rest]

    # -- relations and facts -----------------------------------------------------------------

    def _patterns(
        self, heads: IntArray, relations: IntArray, tails: IntArray
    ) -> Counter[tuple[int, int, int]]:
        """Count facts by (types of the head, relation, types of the tail), and their properties.

        Relations that state types are skipped.
        """
        ids = self._relations.ids
        types = [ids.index(id_) for id_ in self._store.info.type_relations if id_ in ids]
        others = ~np.isin(relations, types)
        heads, relations, tails = heads[others], relations[others], tails[others]
        into, out_of = self._fact[tails], self._fact[heads]
        ends = {
            (fact, relation): tail
            for fact, relation, tail in zip(
                *(c[out_of].tolist() for c in (heads, relations, tails)), strict=True
            )
        }
        patterns: Counter[tuple[int, int, int]] = Counter()
        for head, relation, fact in zip(
            *(c[into].tolist() for c in (heads, relations, tails)), strict=True
        ):
            end = ends.get((fact, relation))
            if end is None:
                continue
            group = (int(self._set_of[head]), relation, int(self._set_of[end]))
            patterns[group] += 1
            if fact in self._texts:
                named = self._of_facts.setdefault(relation, {})
                for name, value in _object(self._texts[fact]).items():
                    if members(value) and name not in _OURS:
                        named.setdefault(name, _ValueCounts()).add(value)
        plain = ~into & ~out_of
        if plain.any():
            sets = len(self._sets)
            packed = self._set_of[heads[plain]].astype(np.int64) * len(self._relations)
            packed = (packed + relations[plain]) * sets + self._set_of[tails[plain]]
            codes, counts = np.unique(packed, return_counts=True)
            for code, times in zip(codes.tolist(), counts.tolist(), strict=True):
                head_relation, tail_set = divmod(code, sets)
                head_set, relation = divmod(head_relation, len(self._relations))
                patterns[head_set, relation, tail_set] += times
        return patterns

    # -- the schema --------------------------------------------------------------------------

    def some_of_each(self) -> dict[str, IntArray]:
        """Return ascending keys of a few entities of each type; those without a type under ""."""
        order = np.argsort(self._set_of, kind="stable")
        bounds = np.searchsorted(self._set_of[order], np.arange(len(self._sets) + 1))
        found: dict[str, list[IntArray]] = {"": []}
        for types, (first, last) in zip(self._sets, pairwise(bounds), strict=True):
            for type_ in types:
                few = order[first : min(first + _LOOKED_AT, last)]
                found.setdefault(type_, []).append(few)
        return {
            type_: np.sort(np.concatenate([keys_array([]), *few]))[:_LOOKED_AT]
            for type_, few in found.items()
        }

    def _number_forms(self) -> dict[str, NumberForm]:
        """Return how the texts of each numeric property are parsed, over all types together."""
        together: dict[str, _ValueCounts] = {}
        for type_ in (*self._of_types.values(), *self._of_facts.values()):
            for name, values in type_.items():
                together.setdefault(name, _ValueCounts()).merge(values)
        forms = {name: values.form(name) for name, values in together.items()}
        return {name: form for name, form in forms.items() if form is not None}

    def _entity_types(self) -> tuple[EntityType, ...]:
        """Build the types with their counts and properties, most frequent first."""
        by_number = {number: types for types, number in self._sets.items()}
        counts: Counter[str] = Counter()
        properties: dict[str, dict[str, _ValueCounts]] = {}
        for (number, kind), count in self._types.items():
            names = by_number[number] or (("",) if kind == Kind.ENTITY else ())
            counts.update(dict.fromkeys(names, count))
        for number, by_name in self._of_types.items():
            for type_ in by_number[number] or ("",):
                mine = properties.setdefault(type_, {})
                for name, values in by_name.items():
                    mine.setdefault(name, _ValueCounts()).merge(values)
        if len(counts) > 1 and not properties.get(""):
            del counts[""]
        return tuple(
            EntityType(type_, count, self._properties(properties.get(type_, {})))
            for type_, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        )

    def _properties(self, by_name: dict[str, _ValueCounts]) -> tuple[Property, ...]:
        """Build schema properties from statistics by name, most frequent first."""
        names = dict(zip(self._relations.ids, self._relations.names, strict=True))
        made = []
        for name, values in by_name.items():
            also = (names[name],) if names.get(name, name) != name else ()
            values.walked &= name in names
            made.append(values.named(name, also, self.numbers.get(name)))
        return tuple(sorted(made, key=lambda property_: (-property_.count, property_.name)))

    def _relation_patterns(
        self, patterns: Counter[tuple[int, int, int]]
    ) -> tuple[RelationPattern, ...]:
        """Build the relation patterns from counts by sets of types, most frequent first."""
        by_number = {number: types or ("",) for types, number in self._sets.items()}
        counts: Counter[tuple[str, int, str]] = Counter()
        for (head, relation, tail), count in patterns.items():
            for type_ in by_number.get(head, ("",)):
                for other in by_number.get(tail, ("",)):
                    counts[type_, relation, other] += count
        of_facts = {key: self._properties(fact) for key, fact in self._of_facts.items()}
        ids, names = self._relations.ids, self._relations.names
        rows = sorted(counts.items(), key=lambda row: (-row[1], ids[row[0][1]], row[0]))
        return tuple(
            RelationPattern(
                ids[relation],
                head,
                tail,
                count,
                of_facts.get(relation, ()),
                (names[relation],) if names[relation] != ids[relation] else (),
            )
            for (head, relation, tail), count in rows
        )

"""What is read of an attached database, by keys: nodes, facts, values, and their properties.

A property of a node is an edge to a value node, and a relationship of a type that has properties is
a mediator (:mod:`kgqa.graph.schema`); both are made as they are read. A node's key is the number in
its element id. A fact's, a relationship that has properties, is the number in its own above
``FACTS``; a value's is a hash of its id above ``VALUES``. So keys mean the same in every thread and
process, and no table of them is kept.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.cypher.attached import attached
from kgqa.errors import EntityNotFoundError, GraphError
from kgqa.graph.literals import cast_values, is_walked, members, value_node
from kgqa.graph.model import Entities, Kind, Relations, keys_array
from kgqa.graph.neo4j import READ_TIMEOUT, Neo4jConnection
from kgqa.graph.neo4j_native import as_json, plain
from kgqa.graph.neo4j_store import CHUNK
from kgqa.graph.schema import Value, fact_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import neo4j

    from kgqa.graph.amounts import NumberForm
    from kgqa.graph.attached import Attachment, Node, Survey
    from kgqa.graph.model import IntArray, KGInfo

FACTS = 1 << 61  # element ids of all store formats are smaller
VALUES = 1 << 62
NULLS = frozenset({"", "NULL", "null", "\\N"})  # texts that stand for no value


def kind_of(key: int) -> Kind:
    """Return the kind by a key's range; nodes labelled as mediators or values count as entities."""
    return Kind.ENTITY if key < FACTS else Kind.MEDIATOR if key < VALUES else Kind.VALUE


def value_key(id_: str) -> int:
    """Return the key of a value node: a hash of its id above ``VALUES``.

    >>> value_key('"1999"^^xsd:integer') >= VALUES
    True
    """
    digest = hashlib.blake2b(id_.encode(errors="surrogatepass"), digest_size=8).digest()
    return VALUES | int.from_bytes(digest) >> 2


def walked(value: Any) -> list[tuple[str, str]]:
    """Return (id, name) of the value nodes of a property: one for each distinct list member.

    Nulls, texts that stand for null, and values too long to be edges give none.

    >>> walked(1999), walked("NULL"), walked(["Neo", "Neo"])
    ([('"1999"^^xsd:integer', '1999')], [], [('"Neo"', 'Neo')])
    """
    content = plain(value)
    if content is None or not is_walked(content):
        return []
    return list(
        dict.fromkeys(value_node(member) for member in members(content) if member not in NULLS)
    )


def values_of(value: Any) -> list[Value]:
    """Return a property's values as a list of scalars, without texts that stand for null."""
    return [member for member in members(plain(value)) if member not in NULLS]


_OWN = ("KGMeta", "KGDropping", "KGLoading", "KGName", "KGRelation")  # kgqa's records, no nodes


def selection_of(record: Attachment, labels: set[str], types: set[str]) -> dict[str, list[str]]:
    """Return query parameters that select nodes and relationships by the record.

    ``labels`` and ``types``: those of the database, to tell what a name in ``only`` refers to.
    """
    return {
        "labels": [name for name in record.only if name in labels or name not in types],
        "hidden": [*record.skip, *_OWN],
        "types": [name for name in record.only if name in types],
        "untaken": list(record.skip),
    }


@dataclass(frozen=True, slots=True)
class NamedNode:
    """A node's id, name, other names, types, and the kind that its labels give it."""

    id: str
    name: str | None
    kind: Kind
    others: tuple[str, ...]
    types: tuple[str, ...]


class NodeReader:
    """Reads nodes and names them by the record's rules; ``state``: the database's, as read."""

    def __init__(
        self, connection: Neo4jConnection, record: Attachment, survey: Survey, state: str
    ) -> None:
        self.connection, self.record, self.state = connection, record, state
        self.naming = {**survey.types, **record.types}
        labels = {type_.name for type_ in survey.schema.types}
        self.selection = selection_of(
            record,
            labels | set(record.types),
            {relation.relationship_type for relation in survey.schema.relations},
        )
        wanted = {
            name
            for naming in self.naming.values()
            for name in (*naming.name, *naming.parts, naming.id)
            if name
        }
        if record.mediators.property:
            wanted.add(record.mediators.property)
        self.names = sorted(wanted)
        self.mediator = asdict(record.mediators)
        self._place = {name: place for place, name in enumerate(self.names)}
        self._order = {type_.name: place for place, type_ in enumerate(survey.schema.types)}

    def stream(self, limit: int) -> Iterator[Node]:
        """Yield up to ``limit`` nodes with their names and degrees."""
        taken = {name: self.selection[name] for name in ("labels", "hidden")}
        for row in self.connection.stream(
            attached("nodes"), names=self.names, limit=limit, **taken
        ):
            columns = (row[name] for name in ("keys", "labels", "named", "degrees"))
            for key, labels, values, degree in zip(*columns, strict=True):
                node = self.named(key, labels, values)
                yield key, node.id, node.name, node.kind, degree, list(node.others)

    def named(self, key: int, labels: Sequence[str], values: Sequence[Any]) -> NamedNode:
        """Return a node with its id and names; ``values``: its properties ``self.names``, in order.

        The id is from the first label that gives one, the name likewise; labels of fewer nodes come
        first. Without either, both are made from the key; a mediator has no name.
        """
        own = sorted(labels, key=lambda label: (-self._order.get(label, -1), label))
        kind = self._kind(labels, values)
        id_, name = "", None
        others: dict[str, None] = {}
        for label in own:
            naming = self.naming.get(label)
            if naming is None:
                continue
            if not id_ and naming.id and (text := _text(values[self._place[naming.id]])):
                id_, number = f"{label}:{text}", text
                if not naming.name and not naming.parts:
                    name = name or f"{label} {number}"
                elif naming.id not in naming.name and re.search(r"[^\W\d]", text):
                    others[text] = None
            together = [_text(values[self._place[part]]).strip() for part in naming.parts]
            name = name or " ".join(filter(None, together)) or None
            for place, property_ in enumerate(naming.name):
                held = members(plain(values[self._place[property_]]))
                for member in without_tags(held) if "__" in property_ else held:
                    if place or name is not None:
                        others[str(member)] = None
                    else:
                        name = str(member).strip() or None
        id_ = id_ or f"#{key}"
        if kind == Kind.MEDIATOR:
            name = None
        elif name is None:
            name = f"{own[0] if own else 'Node'} {key}"
        others.pop(name or "", None)
        return NamedNode(id_, name, kind, tuple(others), tuple(sorted(labels)))

    def _kind(self, labels: Sequence[str], values: Sequence[Any]) -> Kind:
        """Return whether a node is a value, a mediator or an entity, by the record's rules."""
        rule = self.record.mediators
        if self.record.values and self.record.values in labels:
            return Kind.VALUE
        if rule.label and rule.label in labels:
            return Kind.MEDIATOR
        if rule.property:
            value = values[self._place[rule.property]]
            if isinstance(value, str) and re.fullmatch(rule.pattern, value):
                return Kind.MEDIATOR
        return Kind.ENTITY


_TAGGED = re.compile(r"(.*)@([A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*)", re.DOTALL)


def without_tags(values: Sequence[Value]) -> list[Value]:
    """Remove language tags from names, and put English names first.

    >>> without_tags(["Herz@de", "Heart@en-GB", "Cor", "Heart@en"])
    ['Heart', 'Heart', 'Cor', 'Herz']
    """

    def place(tag: str | None) -> int:
        """Return the rank of a language tag: English, a region's, ``mul``, none, another."""
        if tag is None:
            return 3
        return [tag == "en", tag.startswith("en-"), tag == "mul", False, True].index(True)

    read = [_TAGGED.fullmatch(str(value)) for value in values]
    named = [
        (place(match[2].lower() if match else None), match[1] if match else value)
        for match, value in zip(read, values, strict=True)
    ]
    return [value for _, value in sorted(named, key=lambda one: one[0])]


def _text(value: Any) -> str:
    """Return an id or name as text; "" for null and for types that cannot be one."""
    content = plain(value)
    return "" if content is None or isinstance(content, list | bool | float) else str(content)


KEPT = 200_000  # nodes, facts and values that are remembered of one state


class StateChangedError(GraphError):
    """The database changed while a question was read from it; asking again may succeed."""


class AttachedReader:
    """Reads and caches one state of an attached database, as its record and survey describe."""

    record: Attachment
    survey: Survey
    nodes: NodeReader
    info: KGInfo

    def __init__(self, connection: Neo4jConnection, folder: Path) -> None:
        self.connection, self.folder = connection, folder
        self.url = connection.url
        self.moved = False
        self._closed = True
        self._state = ""

    def start(self, names: list[str], spoken: list[str], prefixes: Sequence[str]) -> None:
        """Empty the caches and set the relations for a new state of the database.

        ``names`` and ``spoken``: relations' ids and names; ``prefixes``: the text before the number
        in the element ids of nodes and of relationships.
        """
        self._relations = Relations(names, spoken, [None] * len(names))
        self._steps = {name: 2 * key for key, name in enumerate(names)}
        self._prefixes = prefixes
        self._known: dict[int, NamedNode] = {}
        self._facts: dict[int, tuple[int, str, int, dict[str, Any]]] = {}
        self._values: dict[int, tuple[str, str]] = {}
        self._older: dict[int, tuple[str, str]] = {}  # values of some questions ago
        self._read_walked()

    def has_moved(self) -> bool:
        """Return whether the database changed since :meth:`refresh`."""
        if not self.moved:
            self.moved = self._current_state() != self._state
        return self.moved

    def _current_state(self) -> str:
        """Ask the server for the present state of the database."""
        return self.connection.read_marked("RETURN 1", {}, timeout=READ_TIMEOUT)[1]

    def ask(
        self, name: str, *names: str, timeout: float = READ_TIMEOUT, **parameters: Any
    ) -> list[neo4j.Record]:
        """Run one of the package's named statements, with ``names`` quoted in it; return its rows.

        ``timeout``: in seconds. Raises GraphError.
        """
        return self.read(attached(name, *names), parameters, timeout=timeout)

    def read(
        self,
        statement: str,
        parameters: dict[str, Any],
        *,
        timeout: float = READ_TIMEOUT,
        limit: int | None = None,
    ) -> list[neo4j.Record]:
        """Run a read-only statement; return at most ``limit`` rows, and note a change of state.

        ``timeout``: in seconds. Raises GraphError.
        """
        if self._closed:
            raise GraphError(f"The store of {self.info.name} in {self.url} is closed.")
        rows, state = self.connection.read_marked(
            statement, parameters, timeout=timeout, limit=limit
        )
        self.moved |= state != self._state
        return rows

    def run(
        self,
        cypher: str,
        parameters: dict[str, Any],
        limit: int = 1_000,
        timeout: float = READ_TIMEOUT,
    ) -> list[dict[str, Any]]:
        """Run a read-only statement; return up to ``limit`` rows.

        See :class:`kgqa.graph.store.CypherStore`.
        """
        rows = self.read(cypher, parameters, timeout=timeout, limit=limit)
        return [as_json(dict(row)) for row in rows]

    # ── nodes, facts and values ─────────────────────────────────────────────────────────────

    def refs(self, keys: Sequence[int]) -> list[str]:
        """Return the element ids of nodes and facts, given their keys."""
        node, relationship = self._prefixes
        return [f"{node}:{key}" if key < FACTS else f"{relationship}:{key - FACTS}" for key in keys]

    @property
    def taken(self) -> dict[str, Any]:
        """The query parameters that select the labels of this KG."""
        return {name: self.nodes.selection[name] for name in ("labels", "hidden")}

    @property
    def taken_types(self) -> dict[str, Any]:
        """The query parameters that select the relationship types of this KG."""
        return {name: self.nodes.selection[name] for name in ("types", "untaken")}

    def entities(self, keys: IntArray) -> Entities:
        """Return ids, names and kinds of ``keys``. Raises EntityNotFoundError.

        If the database changed, a deleted node has the id ``#key`` instead.
        """
        keys = keys_array(keys)
        ids: list[str] = []
        names: list[str | None] = []
        kinds: list[int] = []
        wanted = dict.fromkeys(keys.tolist())
        facts = self.facts_of([key for key in wanted if FACTS <= key < VALUES])
        ends = [end for fact in facts.values() for end in (fact[0], fact[2])]
        self._name_nodes([*(key for key in wanted if key < FACTS), *ends])
        for key in keys.tolist():
            gone = key not in self._known if key < FACTS else key < VALUES and key not in facts
            if gone and self.has_moved():  # whoever asks reads the next state, or says that
                id_, name, kind = f"#{key}", None, kind_of(key)
            elif key >= VALUES:
                id_, name = self._value(key)
                kind = Kind.VALUE
            elif key >= FACTS:
                if key not in facts:
                    raise self._unknown_key(key)
                head, type_, tail, _ = facts[key]
                known = (self._known.get(end) for end in (head, tail))
                head_id, tail_id = (node.id if node else "" for node in known)
                id_, name = fact_id(head_id, type_, tail_id, self.refs([key])[0]), None
                kind = Kind.MEDIATOR
            else:
                node = self.node(key)
                id_, name, kind = node.id, node.name, node.kind
            ids.append(id_)
            names.append(name)
            kinds.append(kind)
        return Entities(keys, ids, names, np.asarray(kinds, dtype=np.uint8))

    def node(self, key: int) -> NamedNode:
        """Return a node, from the cache or the server. Raises EntityNotFoundError if deleted."""
        try:
            return self._known[key]
        except KeyError:
            raise self._unknown_key(key) from None

    def _name_nodes(self, keys: Sequence[int]) -> None:
        """Read uncached nodes among ``keys`` into the cache; deleted nodes are skipped."""
        if len(self._known) > KEPT:
            self._known.clear()
        wanted = [key for key in dict.fromkeys(keys) if key not in self._known]
        for start in range(0, len(wanted), CHUNK):
            some = wanted[start : start + CHUNK]
            (answer,) = self.ask(
                "entities", ids=self.refs(some), names=self.nodes.names, **self.taken
            )
            for row, labels, values in zip(*answer.values(), strict=True):
                self._known[some[row]] = self.nodes.named(some[row], labels, values)

    def there(self, keys: Sequence[int]) -> dict[int, NamedNode]:
        """Return the existing nodes among ``keys``, by key."""
        self._name_nodes(keys)
        return {key: self._known[key] for key in keys if key in self._known}

    def relations(self) -> Relations:
        """Return all relations: relationship types and walked properties."""
        return self._relations

    def step(self, name: str) -> int:
        """Return the directed relation of ``name``: 2 * its key, without + 1 for the reverse.

        Raises StateChangedError if the relation is new.
        """
        try:
            return self._steps[name]
        except KeyError:
            self.moved = True
            raise StateChangedError(
                f"The database in {self.url} has something new in it: {name}.",
                "Ask again.",
            ) from None

    def facts_of(
        self, keys: Sequence[int], *, again: bool = False
    ) -> dict[int, tuple[int, str, int, dict[str, Any]]]:
        """Return (head, relation, tail, properties) of each fact among ``keys`` that still exists.

        ``again``: query the server even for cached facts.
        """
        facts = {} if again else {key: self._facts[key] for key in keys if key in self._facts}
        wanted = [key for key in dict.fromkeys(keys) if key not in facts]
        if len(self._facts) > KEPT:
            self._facts.clear()
        for start in range(0, len(wanted), CHUNK):
            some = wanted[start : start + CHUNK]
            for row in self.ask(
                "facts", ids=self.refs(some), kinds=self.kinds, **self.taken, **self.taken_types
            ):
                if row["type"] in self._reified:
                    relation = self.relation_of(row["type"], row["kind"])
                    held = self.qualifiers(relation, row["properties"])
                    values = (row["head"], relation, row["tail"], held)
                    facts[some[row["row"]]] = self._facts[some[row["row"]]] = values
        return facts

    def relation_of(self, type_: str, kind: Any) -> str:
        """Return the relation of a relationship: ``kind`` if the survey knows it, else its type.

        ``kind``: the value of the property that names the relation, if the type has one.
        """
        property_ = self.kinds.get(type_)
        known = property_ is not None and isinstance(kind, str)
        return kind if known and self._stored.get(kind) == (type_, property_) else type_

    def stored(self, relation: str) -> tuple[str, str, str, list[str]]:
        """Return how a relation is stored: (type, kind property, its value, other values).

        The kind property names the relation of each relationship of the type; it is "" if the type
        is the relation. If the value is "", the last element lists the values of the type's other
        relations.
        """
        if relation in self._stored:
            return (*self._stored[relation], relation, [])
        kind = self.kinds.get(relation, "")
        known = [name for name, stored in self._stored.items() if stored == (relation, kind)]
        return relation, kind, "", known

    def is_reified(self, relation: str) -> bool:
        """Return whether relationships of a relation have properties, so are fact nodes."""
        return self.stored(relation)[0] in self._reified

    def qualifiers(self, relation: str, held: dict[str, Any]) -> dict[str, Any]:
        """Return a relationship's properties ``held`` without the one that names its relation."""
        kind = self.stored(relation)[1]
        return self.typed([relation], {name: held[name] for name in held if name != kind})

    def intern(self, id_: str, name: str) -> int:
        """Cache the id and name of a value node under its key; return the key."""
        key = value_key(id_)
        known = self._values.setdefault(key, self._older.get(key) or (id_, name))
        if known[0] != id_:
            raise GraphError(f"Two values of {self.url} cannot be distinguished: {id_}.")
        return key

    def knows_value(self, key: int) -> bool:
        """Return whether the id of a value's key is cached."""
        return key in self._values or key in self._older

    def forget_values(self) -> None:
        """Drop the older half of a large cache of values; called between questions."""
        if len(self._values) > KEPT:
            self._values, self._older = {}, self._values

    def _value(self, key: int) -> tuple[str, str]:
        """Return id and name of a cached value node. Raises EntityNotFoundError."""
        found = self._values.get(key) or self._older.get(key)
        if found is None:
            raise self._unknown_key(key)
        return found

    def _unknown_key(self, key: int) -> EntityNotFoundError:
        """Return the error of a key that no entity has now."""
        return EntityNotFoundError(
            f"The KG {self.info.name} has no entity with key {key} now.", "Look it up by its id."
        )

    # ── which properties are taken and walked ───────────────────────────────────────────────

    def _read_walked(self) -> None:
        """Index the survey's schema: reified types, kind properties, and walked properties."""
        schema = self.survey.schema
        self._reified = frozenset(
            each.relationship_type for each in schema.relations if each.properties
        )
        self.kinds = {each.relationship_type: each.kind for each in schema.relations if each.kind}
        self._stored = {
            each.relation: (each.stored, each.kind)
            for each in schema.relations
            if each.relationship_type != each.relation
        }
        self._of_labels = {
            type_.name: {each.name: each.walked for each in type_.properties}
            for type_ in schema.types
        }
        self._of_types: dict[str, dict[str, bool]] = {}
        for relation in schema.relations:
            self._of_types.setdefault(relation.relation, {}).update(
                {each.name: each.walked for each in relation.properties}
            )
        self._numbers: dict[str, dict[str, NumberForm]] = {}  # kept as text, by label or type
        for owner, properties in (
            *((type_.name, type_.properties) for type_ in schema.types),
            *((relation.relation, relation.properties) for relation in schema.relations),
        ):
            for each in properties:
                if each.form is not None:
                    self._numbers.setdefault(owner, {})[each.name] = each.form
        seen: dict[str, bool] = {}
        for held in self._of_labels.values():
            for name, walks in held.items():
                seen[name] = seen.get(name, False) or walks
        self.unwalked = sorted(name for name, walks in seen.items() if not walks)

    def taken_properties(self, labels: Iterable[str], held: dict[str, Any]) -> dict[str, Any]:
        """Return a node's included properties, with plain numbers parsed from text."""
        labels = list(labels)
        if skip := self.record.skip:
            held = {
                name: value
                for name, value in held.items()
                if not any(f"{label}.{name}" in skip for label in labels)
            }
        return self.typed(labels, held)

    def typed(self, owners: Iterable[str], held: dict[str, Any]) -> dict[str, Any]:
        """Return properties with plain numbers parsed from text; amounts with units are unchanged.

        ``owners``: the labels, or the type, whose surveyed properties say which texts are numbers.
        """
        read = self.number_forms(owners)
        for name in read.keys() & held.keys():
            if not read[name].plain:  # an amount is shown as it is written
                continue
            value = held[name]
            numbers = cast_values(members(value), read[name])
            if numbers and len(numbers) == len(members(value)):
                held = {**held, name: numbers if isinstance(value, list) else numbers[0]}
        return held

    def number_forms(self, owners: Iterable[str]) -> dict[str, NumberForm]:
        """Return how the texts of each numeric property are parsed; other properties are missing.

        ``owners``: a node's labels, or a relationship's type.
        """
        forms: dict[str, NumberForm] = {}
        for owner in owners if self._numbers else ():
            forms |= self._numbers.get(owner, {})
        return forms

    def walked_properties(
        self, labels: Sequence[str], held: dict[str, Any]
    ) -> list[tuple[str, Any]]:
        """Return (name, value) of a node's properties that are edges; nulls are dropped."""
        known = [label for label in labels if label in self._of_labels]
        naming = self.nodes.naming

        def is_walked(name: str) -> bool:
            """Return whether every label that knows the property has it as an edge."""
            # the id of one label may look like a key of other nodes to another
            own = [label for label in known if naming[label].id == name] or known
            return all(self._of_labels[label].get(name, True) for label in own)

        return [
            (name, value)
            for name, value in self.taken_properties(labels, held).items()
            if value is not None and is_walked(name)
        ]

    def walked_qualifiers(self, type_: str, held: dict[str, Any]) -> list[tuple[str, Any]]:
        """Return (name, value) of a fact's properties that are edges and not excluded."""
        known = self._of_types.get(type_, {})
        return [
            (name, value)
            for name, value in held.items()
            if known.get(name, True) and not self.record.hides(self.stored(type_)[0], name)
        ]

    def shown(self, held: dict[str, Any]) -> dict[str, Any]:
        """Return properties as JSON values; values that JSON cannot hold are dropped."""
        values = {name: plain(value) for name, value in held.items()}
        return {name: value for name, value in values.items() if value is not None}

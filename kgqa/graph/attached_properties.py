"""An attached database as a property graph: schema, instances, properties, facts, and plans run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.graph.attached_keys import FACTS, VALUES, values_of
from kgqa.graph.literals import cast_values, members
from kgqa.graph.model import keys_array
from kgqa.graph.neo4j import READ_TIMEOUT
from kgqa.graph.neo4j_native import as_json, plain
from kgqa.graph.schema import Facts, GraphSchema, Property

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import neo4j

    from kgqa.graph.attached import Attachment, Called, Naming
    from kgqa.graph.attached_cache import Survey
    from kgqa.graph.attached_nodes import NamedNode, NodeReader
    from kgqa.graph.model import Entities, IntArray, Relations
    from kgqa.graph.schema import Value, ValueType

_CHUNK = 20_000  # nodes that one statement is given


class AttachedPropertyGraph(ABC):
    """A ``PropertyGraph`` over a database; what a store gives it is abstract."""

    record: Attachment
    survey: Survey
    nodes: NodeReader
    _reified: list[str]

    @abstractmethod
    def read(
        self,
        statement: str,
        parameters: dict[str, Any],
        *,
        timeout: float = READ_TIMEOUT,
        limit: int | None = None,
    ) -> list[neo4j.Record]:
        """Return the rows of a statement that reads."""

    @abstractmethod
    def ask(
        self, name: str, *names: str, timeout: float = READ_TIMEOUT, **parameters: Any
    ) -> list[neo4j.Record]:
        """Return the rows of a statement of this project."""

    @abstractmethod
    def refs(self, keys: Sequence[int]) -> list[str]:
        """Return element ids."""

    @abstractmethod
    def relations(self) -> Relations:
        """Return all relations."""

    @abstractmethod
    def facts_of(
        self, keys: Sequence[int], *, again: bool = False
    ) -> dict[int, tuple[int, str, int, dict[str, Any]]]:
        """Return facts by key."""

    @abstractmethod
    def entities(self, keys: IntArray) -> Entities:
        """Return ids, names and kinds."""

    @abstractmethod
    def there(self, keys: Sequence[int]) -> dict[int, NamedNode]:
        """Return those of the nodes ``keys`` that are there now."""

    @abstractmethod
    def step(self, name: str) -> int:
        """Return the step along a relation."""

    @abstractmethod
    def intern(self, id_: str, name: str) -> int:
        """Return the key of a value, which is known from now on."""

    @abstractmethod
    def knows_value(self, key: int) -> bool:
        """Return whether a value was met in this state."""

    @property
    @abstractmethod
    def taken(self) -> dict[str, Any]:
        """The parameters that say which nodes are taken."""

    @property
    @abstractmethod
    def taken_types(self) -> dict[str, Any]:
        """The parameters that say which relationships are taken."""

    def run(
        self,
        cypher: str,
        parameters: dict[str, Any],
        limit: int = 1_000,
        timeout: float = READ_TIMEOUT,
    ) -> list[dict[str, Any]]:
        """See :class:`kgqa.graph.store.CypherStore`."""
        rows = self.read(cypher, parameters, timeout=timeout, limit=limit)
        return [as_json(dict(row)) for row in rows]

    def schema(self) -> GraphSchema:
        """Return the schema that the survey found, with what people call things."""
        graph_schema, record = self.survey.schema, self.record

        def called(properties: Iterable[Property], one: Naming | Called | None) -> Any:
            words = one.properties if one is not None else {}
            return tuple(
                replace(each, also=words[each.name].also, description=words[each.name].description)
                if each.name in words
                else each
                for each in properties
            )

        types = []
        for type_ in graph_schema.types:
            naming = record.types.get(type_.name)
            given: Any = {"also": naming.also, "description": naming.description} if naming else {}
            types.append(replace(type_, properties=called(type_.properties, naming), **given))
        relations = []
        for pattern in graph_schema.relations:
            words = record.relations.get(pattern.relation)
            given = {"also": words.also, "description": words.description} if words else {}
            relations.append(
                replace(pattern, properties=called(pattern.properties, words), **given)
            )
        return GraphSchema(tuple(types), tuple(relations), graph_schema.sampled)

    def instances(self, type_: str) -> IntArray:
        """Return the keys of the entities of a type, ascending; "" is every entity."""
        if type_:
            types = [row["key"] for row in self.ask("instances", type_, **self.taken)]
        else:
            rows = self.ask("nodes", names=[], limit=(1 << 62), **self.taken)
            types = [key for row in rows for key in row["keys"]]
        return np.unique(keys_array(types))

    def property_values(self, keys: IntArray, name: str) -> tuple[IntArray, list[Value]]:
        """Return (row, value) of the property ``name`` of entities or fact nodes, by row."""
        listed = keys_array(keys).tolist()
        nodes = list(dict.fromkeys(key for key in listed if key < FACTS))
        held: dict[int, list[Value]] = {}
        for start in range(0, len(nodes), _CHUNK):
            some = nodes[start : start + _CHUNK]
            for each in self.ask("values", ids=self.refs(some), names=[name], **self.taken):
                properties = self.taken_properties(each["labels"], {name: each["values"][0]})
                read = self._number_types(each["labels"]).get(name)
                held[some[each["row"]]] = cast_values(values_of(properties.get(name)), read)
        for key, (_, type_, _, properties) in self.facts_of(
            [key for key in listed if FACTS <= key < VALUES]
        ).items():
            if not self.record.hides(type_, name):
                read = self._number_types([type_]).get(name)
                held[key] = cast_values(values_of(properties.get(name)), read)
        rows: list[int] = []
        values: list[Value] = []
        for row, key in enumerate(listed):
            for value in held.get(key, ()):
                rows.append(row)
                values.append(value)
        return keys_array(rows), values

    def facts(self, keys: IntArray, relations: Sequence[int], *, inverse: bool) -> Facts:
        """Return the facts of ``relations`` whose head (``inverse``: tail) is in ``keys``."""
        listed = keys_array(keys).tolist()
        names = self.relations().ids
        place = {names[relation]: relation for relation in relations}
        distinct = list(dict.fromkeys(key for key in listed if key < FACTS))
        at: dict[int, list[int]] = {}
        for row, key in enumerate(listed):
            at.setdefault(key, []).append(row)
        edges: list[tuple[int, int, int, int]] = []
        for start in range(0, len(distinct), _CHUNK):
            some = distinct[start : start + _CHUNK]
            rows = self.ask(
                "neighbours_in" if inverse else "neighbours_out",
                ids=self.refs(some),
                reified=[],
                walking=False,
                unwalked=[],
                mediator=self.nodes.mediator,
                value=self.record.values,
                **self.taken,
                types=list(place),
                untaken=self.taken_types["untaken"],
            )
            for near in rows:
                for type_, number, other, _, _ in near["edges"]:
                    fact = FACTS + number if type_ in self._reified_set else -1
                    edges += [(each, place[type_], other, fact) for each in at[some[near["row"]]]]
        table = np.array(sorted(edges), dtype=np.int64).reshape(-1, 4)
        return Facts(*(table[:, column] for column in range(4)))

    # ── which properties are taken and walked ───────────────────────────────────────────────

    def _read_walked(self) -> None:
        schema = self.survey.schema
        self._reified_set = frozenset(self._reified)
        self._of_labels = {
            type_.name: {each.name: each.walked for each in type_.properties}
            for type_ in schema.types
        }
        self._of_types: dict[str, dict[str, bool]] = {}
        for relation in schema.relations:
            self._of_types.setdefault(relation.relation, {}).update(
                {each.name: each.walked for each in relation.properties}
            )
        self._numbers: dict[str, dict[str, ValueType]] = {}  # kept as text, by label or type
        for owner, properties in (
            *((type_.name, type_.properties) for type_ in schema.types),
            *((relation.relation, relation.properties) for relation in schema.relations),
        ):
            for each in properties:
                if each.as_text and each.type in ("integer", "float"):
                    self._numbers.setdefault(owner, {})[each.name] = each.type
        seen: dict[str, bool] = {}
        for held in self._of_labels.values():
            for name, is_walked in held.items():
                seen[name] = seen.get(name, False) or is_walked
        self.unwalked = sorted(name for name, is_walked in seen.items() if not is_walked)

    def taken_properties(self, labels: Iterable[str], held: dict[str, Any]) -> dict[str, Any]:
        """Return the properties of a node that no label of it leaves out, numbers as numbers."""
        labels = list(labels)
        if skip := self.record.skip:
            held = {
                name: value
                for name, value in held.items()
                if not any(f"{label}.{name}" in skip for label in labels)
            }
        return self.typed(labels, held)

    def typed(self, owners: Iterable[str], held: dict[str, Any]) -> dict[str, Any]:
        """Return properties with the numbers that are kept as text; other texts stay."""
        read = self._number_types(owners)
        for name in read.keys() & held.keys():
            value = held[name]
            numbers = cast_values(members(value), read[name])
            if numbers and len(numbers) == len(members(value)):
                held = {**held, name: numbers if isinstance(value, list) else numbers[0]}
        return held

    def _number_types(self, owners: Iterable[str]) -> dict[str, ValueType]:
        number_types: dict[str, ValueType] = {}
        for owner in owners if self._numbers else ():
            number_types |= self._numbers.get(owner, {})
        return number_types

    def walked_properties(
        self, labels: Sequence[str], held: dict[str, Any]
    ) -> list[tuple[str, Any]]:
        """Return the properties of a node that are edges to values."""
        known = [label for label in labels if label in self._of_labels]
        naming = self.nodes.naming

        def is_walked(name: str) -> bool:
            # the id of one label may look like a key of other nodes to another
            own = [label for label in known if naming[label].id == name] or known
            return all(self._of_labels[label].get(name, True) for label in own)

        return [
            (name, value)
            for name, value in self.taken_properties(labels, held).items()
            if value is not None and is_walked(name)
        ]

    def walked_qualifiers(self, type_: str, held: dict[str, Any]) -> list[tuple[str, Any]]:
        """Return the properties of a fact that are edges to values."""
        known = self._of_types.get(type_, {})
        return [
            (name, value)
            for name, value in held.items()
            if known.get(name, True) and not self.record.hides(type_, name)
        ]

    def shown(self, held: dict[str, Any]) -> dict[str, Any]:
        """Return properties as JSON has them; what JSON has not is left out."""
        values = {name: plain(value) for name, value in held.items()}
        return {name: value for name, value in values.items() if value is not None}

"""Nodes of an attached database: which are taken, and their ids, names and kinds."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kgqa.cypher.attached import attached
from kgqa.graph.literals import members
from kgqa.graph.model import Kind
from kgqa.graph.neo4j_native import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.graph.attached import Attachment
    from kgqa.graph.attached_cache import Node, Survey
    from kgqa.graph.neo4j import Neo4jConnection

_OWN = ("KGMeta", "KGDropping", "KGLoading", "KGName", "KGRelation")  # kgqa's records, no nodes


def selection_of(record: Attachment, labels: set[str], types: set[str]) -> dict[str, list[str]]:
    """Return the parameters that say what is taken: labels and types, and those left out."""
    return {
        "labels": [name for name in record.only if name in labels or name not in types],
        "hidden": [*record.skip, *_OWN],
        "types": [name for name in record.only if name in types],
        "untaken": list(record.skip),
    }


@dataclass(frozen=True, slots=True)
class NamedNode:
    """A node: its id, name and other names, the kind of its labels, and its types."""

    id: str
    name: str | None
    kind: Kind
    others: tuple[str, ...]
    types: tuple[str, ...]


class NodeReader:
    """Names of nodes as the record has them. ``state``: only for who keeps it."""

    def __init__(
        self, connection: Neo4jConnection, record: Attachment, survey: Survey, state: str
    ) -> None:
        self.connection, self.record, self.state = connection, record, state
        self.naming = {**survey.types, **record.types}
        labels = {type_.name for type_ in survey.schema.types}
        self.selection = selection_of(
            record,
            labels | set(record.types),
            {relation.relation for relation in survey.schema.relations},
        )
        wanted = {
            name for naming in self.naming.values() for name in (*naming.name, naming.id) if name
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
        """Return a node from its labels and the values of ``names``.

        It is known by the first of its labels that gives an id, and named by the first that gives
        a name; labels of fewer nodes say more.
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
                if not naming.name:
                    name = name or f"{label} {number}"
                elif naming.id not in naming.name and re.search(r"[^\W\d]", text):
                    others[text] = None
            for place, property_ in enumerate(naming.name):
                for member in members(plain(values[self._place[property_]])):
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


def _text(value: Any) -> str:
    content = plain(value)
    return "" if content is None or isinstance(content, list | bool | float) else str(content)

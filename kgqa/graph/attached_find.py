"""Look-ups in an attached database: by id, by name, by value. What is found is there now."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kgqa.errors import GraphError
from kgqa.graph.attached_reader import FACTS, AttachedReader, value_key
from kgqa.graph.literals import members, read_value
from kgqa.graph.model import Kind, keys_array
from kgqa.graph.names import is_storable, name_form
from kgqa.graph.neo4j_store import text_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.attached import SurveyFile

_LOOK_UP = 2.0  # seconds that one look-up by name may take on the server
_SCANNED = 100_000  # nodes of a label that may be looked through without an index
_MOST = 1_000  # nodes that one look-up finds
_VARIANTS = (str, str.title, str.upper, str.capitalize)
_ALIKE = ({"integer", "float"}, {"date", "datetime"})  # types of which one holds the other


class NameFinder:
    """Look up nodes by the names in the survey, and on the server where that may be outdated."""

    def __init__(self, file: SurveyFile, reader: AttachedReader) -> None:
        """Keep the survey and the reader, and the properties that name nodes, by label."""
        self._file, self._reader, self._nodes = file, reader, reader.nodes
        self._is_current = file.survey.state == reader.nodes.state
        counts = {type_.name: type_.count for type_ in file.survey.schema.types}
        whole = file.survey.named >= sum(counts.values())
        self._complete = whole and self._is_current
        indexed = file.survey.indexed
        self._named_by = [
            (label, property_)
            for label, naming in reader.nodes.naming.items()
            for property_ in naming.name
            if (label, property_) in indexed or counts.get(label, 0) <= _SCANNED
        ]

    def keys_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the keys of ids that exist: of a node (``Label:value``), a fact or a value.

        Ids that are unknown, or that several nodes share, are missing from the result.
        """
        keys: dict[str, int] = {}
        values: dict[tuple[str, str], dict[str, str]] = {}
        nodes: dict[str, int] = {}
        facts: dict[str, int] = {}
        for id_ in dict.fromkeys(filter(is_storable, ids)):
            if id_.startswith('["'):
                if (number := _fact_number(id_)) is not None:
                    facts[id_] = FACTS + number
            elif id_.startswith('"'):
                key = value_key(id_)
                if self._reader.knows_value(key) or self.having(0, id_):
                    keys[id_] = key
            elif id_.startswith("#"):
                if id_[1:].isdecimal() and len(id_) < 20:
                    nodes[id_] = int(id_[1:])
            else:
                for place, mark in enumerate(id_):
                    naming = self._nodes.naming.get(id_[:place]) if mark == ":" else None
                    if naming is not None and naming.id:
                        values.setdefault((id_[:place], naming.id), {})[id_] = id_[place + 1 :]
        for (label, property_), wanted in values.items():
            texts: list[Any] = list(wanted.values())
            texts += [
                int(text) for text in texts if text.lstrip("-").isdecimal() and len(text) < 19
            ]
            for row in self._nodes_with_value(label, property_, texts):
                nodes_here = [id_ for id_, text in wanted.items() if text == str(row["value"])]
                for id_ in nodes_here:
                    # an id that several nodes have names none of them
                    nodes[id_] = -1 if id_ in nodes and nodes[id_] != row["key"] else row["key"]
        there = self._reader.there([key for key in nodes.values() if key >= 0])
        keys |= {id_: key for id_, key in nodes.items() if key in there and there[key].id == id_}
        held = self._reader.facts_of(list(facts.values()))
        if held:
            entities = self._reader.entities(keys_array(list(held)))
            named = dict(zip(held, entities.ids, strict=True))
            keys |= {id_: key for id_, key in facts.items() if named.get(key) == id_}
        return keys

    def find(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return (position in ``names``, key) of the entities that bear a name now, sorted."""
        forms = {place: form for place, name in enumerate(names) if (form := name_form(name))}
        positions, keys = self._file.find_names(list(forms.values()))
        places = list(forms)
        pairs = {
            (places[position], key)
            for position, key in zip(positions.tolist(), keys.tolist(), strict=True)
        }
        if not self._complete:
            at: dict[str, list[int]] = {}
            for place, form in forms.items():
                at.setdefault(form, []).append(place)
            hits = self._keys_by_name_on_server([names[place] for place in forms])
            for key, node in self._reader.there(list(hits)).items():
                for text in (node.name or "", *node.others):
                    pairs.update((place, key) for place in at.get(name_form(text), ()))
        if not self._is_current:
            there = self._reader.there([key for _, key in pairs])
            pairs = {
                (place, key)
                for place, key in pairs
                if (named_node := there.get(key)) is not None
                and forms[place] in map(name_form, (named_node.name or "", *named_node.others))
            }
        return sorted(pairs)

    def _keys_by_name_on_server(self, names: Sequence[str]) -> set[int]:
        """Query the server for nodes with one of these names, in several cases; return their keys.

        Labels whose query fails or takes too long are skipped.
        """
        variants = sorted({change(name) for name in names for change in _VARIANTS})
        numbers: set[int] = set()
        for label, property_ in self._named_by:
            try:
                rows = self._nodes_with_value(label, property_, variants, timeout=_LOOK_UP)
            except GraphError:  # too slow here; the survey is on its way
                continue
            numbers.update(row["key"] for row in rows)
        return numbers

    def _nodes_with_value(
        self,
        label: str,
        property_: str,
        values: Sequence[Any],
        statement: str = "by_value",
        timeout: float = 10.0,
    ) -> list[Any]:
        """Query the server for nodes of a label whose property has one of ``values``.

        At most ``_MOST`` are returned. ``statement``: which named statement compares the values.
        """
        return self._reader.ask(
            statement,
            label,
            property_,
            timeout=timeout,
            values=list(values),
            limit=_MOST,
            **self._reader.taken,
        )

    def suggest(self, text: str, limit: int, *, prefix: bool = False) -> list[int]:
        """Return up to ``limit`` keys of existing entities with a name like ``text``, best first.

        ``prefix``: each word of ``text`` may be the beginning of a name's word.
        """
        keys = self._file.suggest(text, max(limit, 0), prefix=prefix).tolist()
        if not self._complete and (query := text_query(text, prefix=prefix)):
            for index in self._file.survey.text_indexes:
                try:
                    (row,) = self._reader.ask(
                        "suggest", timeout=_LOOK_UP, index=index.name, query=query, limit=limit
                    )
                except GraphError:
                    continue
                keys += row["keys"]
        there = self._reader.there(keys) if not self._complete else dict.fromkeys(keys)
        return [key for key in dict.fromkeys(keys) if key in there][: max(limit, 0)]

    def topic_keys(self, after: int, limit: int) -> list[int]:
        """Return up to ``limit`` keys above ``after`` of existing entities that have an edge."""
        keys = self._file.topic_keys(after, limit).tolist()
        return keys if self._is_current else list(self._reader.there(keys))

    def having(self, row: int, id_: str) -> list[tuple[int, int, int, int]]:
        """Find the nodes that have a value: the edges into the value node with id ``id_``.

        Each edge is (``row``, directed relation 2 * relation + 1, the node's key, its kind). A
        property without an index is searched only on labels of few nodes.
        """
        value, kind = read_value(id_)
        edges: list[tuple[int, int, int, int]] = []
        if value == id_:  # not in the form of a value's id, which is quoted
            return edges
        for label in self._file.survey.schema.types:
            for each in label.properties:
                indexed = (label.name, each.name) in self._file.survey.indexed
                comparable = (
                    kind == each.type
                    or {kind, each.type} in _ALIKE
                    or ((each.type == "text" or each.as_text) and isinstance(value, str))
                )
                if not (each.walked and comparable and (indexed or label.count <= _SCANNED)):
                    continue
                statement = "by_member" if each.many else "by_value"
                if kind != "text" and (each.as_text or isinstance(value, str)):
                    statement = "by_reading"
                rows = self._nodes_with_value(label.name, each.name, [value], statement)
                step = self._reader.step(each.name) + 1
                edges += [(row, step, node["key"], int(Kind.ENTITY)) for node in rows]
        if edges:
            self._reader.intern(id_, str(next(iter(members(value)), id_)))
        return edges


def _fact_number(id_: str) -> int | None:
    """Parse the relationship's number out of a fact's id; None if the id is malformed."""
    try:
        parts = json.loads(id_)
    except ValueError:
        return None
    if not isinstance(parts, list) or len(parts) != 4 or not isinstance(parts[3], str):
        return None
    number = parts[3].rpartition(":")[2]
    return int(number) if number.isdecimal() and len(number) < 20 else None

"""Change an existing KG by triples to add and triples to remove.

The KG becomes what a load of its own triples, without the removed ones and with the added ones,
would give. To that end the nodes that the triples name are read from the store and go, beside the
added triples, through the stages of a load; the result is compared with the stored graph. Keys
never change: those of new entities and relations follow the greatest one that was ever given.

What the store holds is all that is known of the KG: what a load left out (an edge of a nameless
node, a name in another language) does not come back.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.change import GraphChange, GraphChanger, KeyedEdge, Node, chained
from kgqa.graph.literals import members, value_node
from kgqa.graph.mids import NO_MID, decode_mids, encode_mids
from kgqa.graph.model import (
    ALIAS,
    ENTITY_SCHEMA,
    EdgeBatch,
    EntityBatch,
    Kind,
    NameBatch,
    RelationBatch,
    TypeBatch,
    TypeRules,
    ValueBatch,
    keys_array,
)
from kgqa.graph.names import iri_names
from kgqa.graph.schema import Value, fact_id, read_fact_id
from kgqa.loaders.base import Loader, Rejects, Report, edge_batch, entity_batch
from kgqa.loaders.triples import MediatorRule
from kgqa.loaders.triples_pairs import read_pairs
from kgqa.loading.edges import REPEATED, preference
from kgqa.loading.facts import entity_values, expanded, fact_number, reified
from kgqa.loading.pipeline import REJECTS_FILE, assemble, type_relations_of
from kgqa.registry import LOADERS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kgqa.graph.model import Batch, GraphTables, IntArray, KGInfo
    from kgqa.graph.store import GraphStore
    from kgqa.loading.type_relations import TypeRelations
    from kgqa.progress import Progress

    Triple = tuple[str, str, str]

NO_EDGE = "edge to remove that is not there"
NO_NAME = "name to remove that is not there"
NO_PROPERTY = "property to remove that is not there"
NO_TYPE = "type to remove that is not there"
_CHUNK = 20_000  # nodes whose edges are read at once
_NAMES = pa.schema([("id", pa.string()), ("text", pa.string()), ("rank", pa.int64())])


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """The result of a change: numbers of ``added`` and ``removed`` edges, the new ``version``.

    ``missing``: items to remove that the KG lacks; ``dropped``: counts by reason of what was left
    out.
    """

    kg: str
    lines: int
    added: int
    removed: int
    entities_added: int
    entities_removed: int
    version: str
    rejected: int
    rejects_file: str | None
    dropped: dict[str, int]
    missing: list[str]


def update(
    store: GraphStore,
    changer: GraphChanger,
    adding: Loader,
    removing: Loader,
    added: Sequence[Path],
    removed: Sequence[Path],
    folder: Path,
    progress: Progress,
    *,
    names: Path | None = None,
    remove_names: Path | None = None,
    before: Callable[[GraphChange], None] = lambda _: None,
) -> UpdateResult:
    """Change the KG in ``store`` by the triples that two loaders read from files.

    ``names`` and ``remove_names``: files of ids and names that are added and removed. ``before`` is
    called with the change before it is made. Lines that are malformed go to ``folder /
    "rejects.tsv"``. Errors of the loaders and the store propagate.
    """
    report = Report()
    removal, missing = Removal(), list[str]()
    with closing(Rejects(folder / REJECTS_FILE, report)) as rejects:
        rejects.path.unlink(missing_ok=True)
        read = adding.read(added, report, rejects, progress) if added else ()
        batches = list(_with_text_ids(read))
        batches += _read_names(names, report, rejects, progress)
        if removed:
            removal.take(_with_text_ids(removing.read(removed, report, rejects, progress)))
        removal.take(_read_names(remove_names, report, rejects, progress), from_table=True)
    rule = MediatorRule(getattr(getattr(adding, "options", None), "mediators", None))
    with progress.task("finding what changes"):
        plan = _Builder(store, changer, report.dropped, missing, rule, type_relations_of(adding))
        planned = plan.change(batches, removal)
    before(planned)
    if planned.info.version != planned.before.version:
        with progress.task("changing the graph"):
            changer.apply(planned)
    return UpdateResult(
        kg=planned.info.name,
        lines=report.lines,
        added=len(planned.edges) - len(planned.known_edges),
        removed=len(planned.removed_edges),
        entities_added=planned.info.next_key - planned.before.next_key,
        entities_removed=len(planned.removed_nodes),
        version=planned.info.version,
        rejected=report.rejected,
        rejects_file=str(rejects.path) if report.rejected else None,
        dropped=dict(+report.dropped),
        missing=missing,
    )


def _read_names(
    path: Path | None, report: Report, rejects: Rejects, progress: Progress
) -> list[NameBatch]:
    """Read a file of ids and names as name batches; [] if ``path`` is None."""
    pairs = read_pairs(path, "names", report, rejects, progress)
    return [NameBatch(rows.rename_columns(_NAMES.names)) for rows in pairs]


@dataclass(slots=True)
class Removal:
    """The edges, names and types to remove, by ids."""

    edges: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)  # properties
    names: dict[tuple[str, str], bool] = field(default_factory=dict)  # whether from a table
    aliases: dict[tuple[str, str], None] = field(default_factory=dict)  # that are never names
    types: dict[tuple[str, str], None] = field(default_factory=dict)
    properties: dict[tuple[str, str], list[Value]] = field(default_factory=dict)

    def take(self, batches: Iterable[Batch], *, from_table: bool = False) -> None:
        """Add what a loader reads to the removal.

        ``from_table``: it is a table of names, without which an alias becomes the name.
        """
        for batch in batches:
            if isinstance(batch, EdgeBatch):
                names = ("head", "relation", "tail", "properties")
                columns = (batch.rows.column(name).to_pylist() for name in names)
                for *edge, text in zip(*columns, strict=True):
                    given = self.edges.setdefault(tuple(edge), [])
                    given += [text] if text else []
            elif isinstance(batch, NameBatch):
                never = pc.greater_equal(batch.rows.column("rank"), ALIAS)
                self.aliases |= dict.fromkeys(_pairs(batch.rows.filter(never), "text"))
                stated = batch.rows.filter(pc.invert(never))
                self.names |= dict.fromkeys(_pairs(stated, "text"), from_table)
            elif isinstance(batch, TypeBatch):
                self.types |= dict.fromkeys(_pairs(batch.rows, "type"))
            elif isinstance(batch, EntityBatch):
                rows = batch.rows.filter(batch.rows.column("properties").is_valid())
                for id_, text in _pairs(rows, "properties"):
                    for name, value in json.loads(text).items():
                        self.properties.setdefault((id_, name), []).extend(members(value))

    def ids(self) -> set[str]:
        """Return the ids of all nodes in the removal."""
        ends = {end for head, _, tail in self.edges for end in (head, tail)}
        values = {
            value_node(value)[0] for members_of in self.properties.values() for value in members_of
        }
        owners = (*self.names, *self.aliases, *self.types, *self.properties)
        return ends | values | {id_ for id_, _ in owners}


def _has_lone_entities(loader: str) -> bool:
    """Return whether a loader's sources define entities, even ones without edges."""
    entry = next((each for each in LOADERS.entries() if each.name == loader), None)
    return entry is not None and bool(getattr(entry.load(), "lone_entities", False))


class _Builder:
    """Builds the change of a stored KG from batches to add and a removal."""

    def __init__(
        self,
        store: GraphStore,
        changer: GraphChanger,
        dropped: Counter[str],
        missing: list[str],
        mediators: MediatorRule,
        kinds: TypeRelations,
    ) -> None:
        self._store = store
        self._changer = changer
        self._dropped = dropped
        self._missing = missing
        self._mediators = mediators
        self._kinds = kinds
        self._info: KGInfo = store.info
        self._defined = _has_lone_entities(self._info.loader)
        self._relations = store.relations()
        self._relation_key = {id_: key for key, id_ in enumerate(self._relations.ids) if id_}
        self._keys: dict[str, int] = {}  # of stored nodes
        self._old: dict[int, Node] = {}  # those of them that were read, as they are
        self._nodes: dict[int, Node] = {}  # as they will be
        self._vanished: set[int] = set()

    def change(self, added: list[Batch], removal: Removal) -> GraphChange:
        """Build the change.

        1. Turn edges of reified relations, added and removed, into facts.
        2. Read the nodes concerned; remove names, types and values from them.
        3. Merge them with the added batches by the stages of a load, and assign keys.
        4. Determine edges to write and to remove, nodes left without edges, unused relations.
        """
        reified_ = self._reified_relations(added, removal)
        if reified_:
            ends = sorted(set[str]().union(*map(_ids_of, added)))
            given = [_ids_of(b) for b in added if isinstance(b, EntityBatch | ValueBatch)]
            there = zip(ends, self._store.keys_of(ends).tolist(), strict=True)
            defined = set[str]().union(*given, (id_ for id_, key in there if key >= 0))
            added = expanded(added, reified_, pa.array(sorted(defined), pa.string()))
        named = _named_ids(added)
        ids = sorted(removal.ids().union(*map(_ids_of, added)))
        keys = self._store.keys_of(ids)
        self._keys = {id_: key for id_, key in zip(ids, keys.tolist(), strict=True) if key >= 0}
        self._read(keys[keys >= 0])
        gone = self._remove_names(removal)
        tables = self._merged(added, removal, named)
        kinds = {*self._info.type_relations, *tables.info.type_relations}
        self._info = replace(self._info, type_relations=tuple(sorted(kinds)))
        edges, known, relations = self._edges_to_write(tables, gone)
        gone |= self._edges_of(self._vanished)
        gone -= edges.keys()
        self._remove_isolated(gone, edges, known)
        dead = self._vanished
        new_edges = edges.keys() - known
        left = self._changer.unused(
            sorted({edge[1] for edge in gone} - {edge[1] for edge in new_edges}), gone
        )
        relations += self._without_inverses(left, relations)
        nodes = [
            node
            for key, node in sorted(self._nodes.items())
            if key not in dead and node != self._old.get(key)
        ]
        touched = {node["key"] for node in nodes} | dead
        return self._with_record(
            GraphChange(
                self._info,
                self._info,
                nodes,
                {key: self._old[key] for key in sorted(touched & self._old.keys())},
                edges,
                known,
                sorted(gone),
                sorted(dead),
                relations,
                left,
            )
        )

    def _reified_relations(self, added: list[Batch], removal: Removal) -> set[str]:
        """Return the reified relations; replace facts in ``removal`` by their stored edges.

        The edges of a relation that gets its first qualifier now are removed, and added as facts.
        """
        known = set(self._info.reified)
        for edge, stored in fact_edges(self._store, removal.edges, known).items():
            del removal.edges[edge]
            removal.edges |= {triple: [] for triple in stored}
        new = set[str]().union(*(reified(b) for b in added if isinstance(b, EdgeBatch))) - known
        for batch in plain_edges(self._store, self._changer, new):
            columns = [batch.rows.column(name).to_pylist() for name in ("head", "relation", "tail")]
            removal.edges |= {edge: [] for edge in zip(*columns, strict=True)}
            added.append(batch)
        self._info = replace(self._info, reified=tuple(sorted(known | new)))
        return known | new

    def _read(self, keys: IntArray) -> None:
        """Read nodes from the store by key, unless they were read."""
        unread = keys_array(sorted(set(keys.tolist()) - self._old.keys()))
        for node in self._changer.nodes(unread):
            self._old[node["key"]] = node
            self._nodes[node["key"]] = dict(node)

    # -- what is removed ---------------------------------------------------------------------

    def _remove_names(self, removal: Removal) -> set[KeyedEdge]:
        """Remove names, types and values from nodes; return the keys of the edges to remove.

        What the KG lacks is recorded as missing.
        """
        kinds = set(self._info.type_relations)
        for head, relation, tail in removal.edges if kinds else ():
            node, of = self._node(head), self._node(tail)
            if relation in kinds and node and of:
                node["types"] = [kept for kept in node["types"] if kept != (of["name"] or tail)]
        for id_, text in removal.types:
            node = self._node(id_)
            if node is None or text not in node["types"]:
                self._note_missing(NO_TYPE, f"{id_} {text}")
            else:
                node["types"] = [kept for kept in node["types"] if kept != text]
        for id_, text in (*removal.names, *removal.aliases):
            node = self._node(id_)
            is_name = (id_, text) in removal.names
            if node is not None and is_name and text == node["name"] and not _is_unnamed(node):
                node["name"] = None
            elif node is not None and text in node["aliases"]:
                node["aliases"] = [kept for kept in node["aliases"] if kept != text]
            else:
                self._note_missing(NO_NAME, f"{id_} {text}")
        keyed = {edge: self._edge_key(*edge) for edge in removal.edges}
        gone = self._stored_edges(keyed.values())
        for edge, keys in keyed.items():
            if keys not in gone:
                self._note_missing(NO_EDGE, " -> ".join(edge))
        # properties that are not walked have no edge
        return gone | self._stored_edges(self._remove_values(removal))

    def _remove_values(self, removal: Removal) -> list[KeyedEdge | None]:
        """Remove values from nodes' properties; return the keys of the edges to them.

        None for a value without an edge; a value that the KG lacks is recorded as missing.
        """
        edges = []
        for (id_, name), values in removal.properties.items():
            node = self._node(id_)
            given = json.loads(node["properties"] or "{}") if node else {}
            left = [member for member in members(given.get(name)) if member not in values]
            for value in values:
                if node is not None and value in members(given.get(name)):
                    edges.append(self._edge_key(id_, name, value_node(value)[0]))
                else:
                    self._note_missing(NO_PROPERTY, f"{id_} {name} {value}")
            if node is not None and name in given:
                given[name] = left if isinstance(given[name], list) else None
                given = {key: value for key, value in given.items() if value not in (None, [])}
                text = json.dumps(given, ensure_ascii=False, sort_keys=True) if given else None
                node["properties"] = text
        return edges

    def _node(self, id_: str) -> Node | None:
        """Return the node of an id, None if the KG lacks it."""
        return self._nodes.get(self._keys.get(id_, -1))

    def _edge_key(self, head: str, relation: str, tail: str) -> KeyedEdge | None:
        """Return an edge's keys, None if the KG lacks an end or the relation."""
        keys = self._keys.get(head), self._relation_key.get(relation), self._keys.get(tail)
        return None if None in keys else keys  # type: ignore[return-value]

    def _stored_edges(self, edges: Iterable[KeyedEdge | None]) -> set[KeyedEdge]:
        """Return which of ``edges`` the store has; None is skipped."""
        asked = [edge for edge in edges if edge is not None]
        columns = map(keys_array, zip(*asked, strict=True)) if asked else ()
        there = self._store.has_edges(*columns).tolist() if asked else ()
        return {edge for edge, is_there in zip(asked, there, strict=True) if is_there}

    def _note_missing(self, reason: str, text: str) -> None:
        """Record that the KG lacks ``text``, which was to be removed, under ``reason``."""
        self._dropped[reason] += 1
        self._missing.append(text)

    # -- what is added -----------------------------------------------------------------------

    def _merged(self, added: Sequence[Batch], removal: Removal, named: set[str]) -> GraphTables:
        """Merge the stored nodes with the added ones, by the stages of a load.

        ``named``: the ids that the added batches name.
        """
        unnamed: dict[str, bool] = {}  # ids that lost a name, and whether an alias takes its place
        for (id_, _), from_table in removal.names.items():
            unnamed[id_] = unnamed.get(id_, False) or from_table
        every = [self._nodes[key] for key in self._keys.values()]
        nameless = [n for n in every if n["name"] is None and n["kind"] != Kind.VALUE]
        by_rule = self._mediators.match(pa.array([n["id"] for n in nameless], pa.string()))
        rule = {n["id"] for n, match in zip(nameless, by_rule.tolist(), strict=True) if match}
        as_mids = encode_mids(pa.array([n["id"] for n in every], pa.string()))
        ids = [node["id"] for node in every]
        called = dict(zip(ids, iri_names(pa.array(ids, pa.string()))[0].to_pylist(), strict=True))
        sure: list[Node] = []
        by_id: list[Node] = []  # named by their ids, or mediators, if nothing names them
        by_iri: list[Node] = []  # those that are named by the last parts of their ids
        names: list[tuple[str, str, int]] = []
        for node, mid in zip(every, as_mids.tolist(), strict=True):
            id_, name, kind = node["id"], node["name"], node["kind"]
            lost = id_ in unnamed and name is None and kind == Kind.ENTITY
            if lost and self._defined and mid != NO_MID and id_ not in named:
                continue  # nothing says any more that it is an entity
            own = _is_unnamed(node) or lost or kind == Kind.MEDIATOR
            kind = Kind.MEDIATOR if lost and id_ in rule else kind
            is_web = id_.startswith(("http://", "https://"))
            is_by_iri = (kind == Kind.ENTITY and name and name == called[id_]) or (lost and is_web)
            where = by_iri if is_by_iri else by_id if own else sure
            where.append({**node, "kind": kind, "name": None, "aliases": []})
            alias_rank = 0 if lost and unnamed[id_] and kind == Kind.ENTITY else ALIAS
            names += [(id_, text, alias_rank) for text in node["aliases"]]
            if name is not None and not is_by_iri and not _is_unnamed(node):
                names.append((id_, name, 0))
        fresh: list[Batch] = [
            EntityBatch(pa.RecordBatch.from_pylist(_rows(sure), schema=ENTITY_SCHEMA)),
            EntityBatch(pa.RecordBatch.from_pylist(_rows(by_id), schema=ENTITY_SCHEMA), by_id=True),
            EntityBatch(
                pa.RecordBatch.from_pylist(_rows(by_iri), schema=ENTITY_SCHEMA),
                by_id=True,
                by_iri=True,
            ),
            NameBatch(_rows_as_batch(names, _NAMES)),
        ]
        there = pa.array([node["id"] for node in every], pa.string())
        info = self._info
        kinds = self._kinds
        return assemble(
            chain(fresh, *(_without_known(batch, there) for batch in added)),
            name=info.name,
            source=info.source,
            direction=info.direction,
            dropped=self._dropped,
            type_relations=replace(
                kinds,
                given=kinds.given.union(info.type_relations),
                settled=frozenset(self._relation_key),
            ),
        )

    def _edges_to_write(
        self, tables: GraphTables, gone: set[KeyedEdge]
    ) -> tuple[dict[KeyedEdge, str | None], set[KeyedEdge], list[tuple[int, str, str, str | None]]]:
        """Set the new nodes; return edges to write, which of them exist, and changed relations.

        Edges that would not change are left out; those written again are taken out of ``gone``, the
        edges to remove.
        """
        keys = []
        next_key = self._info.next_key
        for row in tables.nodes.to_pylist():
            key = self._keys.get(row["id"], -1)
            if key < 0:
                key, next_key = next_key, next_key + 1
            lists = {name: list(row[name] or ()) for name in ("aliases", "types")}
            self._nodes[key] = {**row, **lists, "key": key}
            keys.append(key)
        self._vanished = set(self._keys.values()) - set(keys)
        numbers, relations = self._relation_keys(tables.relations.to_pylist())
        columns = [tables.edges.column(name).to_pylist() for name in tables.edges.column_names]
        edges = {
            (keys[head], numbers[relation], keys[tail]): text
            for head, relation, tail, text in zip(*columns, strict=True)
        }
        first = self._info.next_relation
        old = (e for e in edges if max(e[0], e[2]) < self._info.next_key and e[1] < first)
        there = sorted(self._stored_edges(old))
        known = set()
        for edge, now in zip(there, self._changer.properties(there), strict=True):
            text = edges[edge] if edge in gone else min(edges[edge], now, key=preference)
            self._dropped[REPEATED] += edge not in gone
            gone.discard(edge)
            if text == now:
                del edges[edge]
            else:
                edges[edge] = text
                known.add(edge)
        return edges, known, relations

    def _relation_keys(
        self, rows: Sequence[dict[str, Any]]
    ) -> tuple[list[int], list[tuple[int, str, str, str | None]]]:
        """Return each relation's key, and rows of new relations and of those with a new inverse."""
        numbers, changed = [], []
        next_key = self._info.next_relation
        for row in rows:
            key = self._relation_key.get(row["id"], -1)
            name, inverse = row["name"], row["inverse"]
            if key < 0:
                key, next_key = next_key, next_key + 1
                changed.append((key, row["id"], name, inverse))
            else:
                now = self._relations
                name, inverse = now.names[key], inverse or now.inverses[key]
                if inverse != now.inverses[key]:
                    changed.append((key, row["id"], name, inverse))
            numbers.append(key)
        return numbers, changed

    # -- what that leaves --------------------------------------------------------------------

    def _edges_of(self, keys: Iterable[int]) -> set[KeyedEdge]:
        """Return every edge that touches one of ``keys``."""
        near = keys_array(sorted(keys))
        edges = self._store.neighbours(near, "both")
        rows = zip(
            near[edges.row].tolist(), edges.step.tolist(), edges.target.tolist(), strict=True
        )
        return {(t, s // 2, n) if s % 2 else (n, s // 2, t) for n, s, t in rows}

    def _remove_isolated(
        self, gone: set[KeyedEdge], edges: dict[KeyedEdge, str | None], known: set[KeyedEdge]
    ) -> None:
        """Remove nodes that lose their last edge, unless they may exist without one.

        ``gone``: the edges to remove; ``edges``: those to write; ``known``: which of these exist.
        """
        new = [edge for edge in edges if edge not in known]
        kept = {end for edge in new for end in (edge[0], edge[2])}
        lost = Counter(end for head, _, tail in gone for end in {head, tail})
        at_risk = {*lost, *(key for key, node in self._nodes.items() if node != self._old.get(key))}
        there = {key for key in at_risk if key < self._info.next_key}
        near = keys_array(sorted(there - kept - self._vanished))
        degrees = self._store.degrees(near).tolist()
        alone = [
            key for key, degree in zip(near.tolist(), degrees, strict=True) if degree == lost[key]
        ]
        self._read(keys_array(alone))
        self._vanished |= {key for key in alone if not self._stays(self._nodes[key], lost[key])}

    def _stays(self, node: Node, lost: int) -> bool:
        """Return whether a node without edges stays in the KG; ``lost``: the edges it loses."""
        if node["kind"] == Kind.VALUE:
            return not lost
        if node["kind"] == Kind.MEDIATOR and lost and read_fact_id(node["id"]) is not None:
            return False
        if self._defined or (not lost and node == self._old[node["key"]]):
            return True
        named = node["name"] is not None and not _is_unnamed(node)
        return bool(named or node["types"] or node["properties"])

    def _without_inverses(
        self, left: Sequence[int], changed: Sequence[tuple[int, str, str, str | None]]
    ) -> list[tuple[int, str, str, str | None]]:
        """Return rows, without an inverse, of the relations whose inverse loses its last edge.

        ``left``: the relations that lose their last edge; ``changed``: rows that are written
        anyway.
        """
        now = self._relations
        gone = {now.ids[key] for key in left}
        done = {row[0] for row in changed}
        return [
            (key, now.ids[key], now.names[key], None)
            for key, inverse in enumerate(now.inverses)
            if inverse in gone and key not in done and key not in left
        ]

    def _with_record(self, change: GraphChange) -> GraphChange:
        """Return the change with the new meta record, or the old one if nothing changes."""
        info = self._info
        kinds = Counter(node["kind"] for node in change.nodes)
        kinds.subtract(node["kind"] for node in change.old.values())
        new_edges = len(change.edges) - len(change.known_edges)
        new_nodes = [node["key"] for node in change.nodes if node["key"] >= info.next_key]
        first = info.next_relation
        new_relations = [row[0] for row in change.relations if row[0] >= first]
        ids = {key: node["id"] for key, node in (self._old | self._nodes).items()}
        by_id = dict(enumerate(self._relations.ids))
        by_id |= {row[0]: row[1] for row in change.relations}
        lacking = {end for edge in change.removed_edges for end in (edge[0], edge[2])} - ids.keys()
        missing = keys_array(sorted(lacking))
        ids |= dict(zip(missing.tolist(), self._store.entities(missing).ids, strict=True))
        content = [
            sorted(
                [ids[head], by_id[rel], ids[tail], text or ""]
                for (head, rel, tail), text in change.edges.items()
            ),
            sorted([ids[head], by_id[rel], ids[tail]] for head, rel, tail in change.removed_edges),
            [[node[name] for name in ENTITY_SCHEMA.names] for node in change.nodes],
            [ids[key] for key in change.removed_nodes],
            [list(row) for row in change.relations],
            list(change.removed_relations),
        ]
        # edges that were left out may still make the later ones of their relation facts
        if not any(content) and info == self._store.info:
            return change
        return replace(
            change,
            info=replace(
                info,
                version=chained(info.version, content),
                entities=info.entities + kinds[Kind.ENTITY],
                mediators=info.mediators + kinds[Kind.MEDIATOR],
                values=info.values + kinds[Kind.VALUE],
                relations=info.relations + len(new_relations) - len(change.removed_relations),
                edges=info.edges + new_edges - len(change.removed_edges),
                given_keys=info.next_key + len(new_nodes),
                given_relations=first + len(new_relations),
                changed=info.changed + new_edges + len(change.removed_edges),
            ),
        )


def _is_unnamed(node: Node) -> bool:
    """Return whether an entity is named by its id, for lack of a name."""
    return bool(node["kind"] == Kind.ENTITY and node["name"] == node["id"].strip())


def _rows(nodes: Iterable[Node]) -> list[Node]:
    """Return nodes with the columns of ``ENTITY_SCHEMA`` alone."""
    return [{name: node[name] for name in ENTITY_SCHEMA.names} for node in nodes]


def _rows_as_batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Build a batch of a schema from rows."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, type=of.type) for column, of in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _pairs(rows: pa.RecordBatch, name: str) -> Iterable[tuple[str, str]]:
    """Yield (id, ``name``) of the rows of a batch."""
    return zip(rows.column("id").to_pylist(), rows.column(name).to_pylist(), strict=True)


def _with_text_ids(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield batches with mids as texts, and entities for the mids that a load makes nodes."""
    given = list(batches)
    rules = [batch.mediators for batch in given if isinstance(batch, TypeRules)]
    mediators = pa.array(sorted(frozenset().union(*rules)), pa.string())
    for batch in given:
        if isinstance(batch, RelationBatch | TypeRules):
            yield batch
            continue
        rows = batch.rows
        mids = [
            n
            for n in ("id", "head", "tail")
            if n in rows.schema.names and rows.schema.field(n).type == pa.int64()
        ]
        for name in mids:
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, name, decode_mids(rows.column(name).to_numpy()))
        yield replace(batch, rows=rows)
        if mids and isinstance(batch, NameBatch):
            named = pc.less(rows.column("rank"), ALIAS)
            yield entity_batch(pc.unique(rows.column("id").filter(named)))
        elif mids and isinstance(batch, TypeBatch):
            types = rows.column("type").cast(pa.string())
            ids = pc.unique(rows.column("id").filter(pc.is_in(types, value_set=mediators)))
            kinds = [int(Kind.MEDIATOR)] * len(ids)
            yield replace(entity_batch(ids, kind=kinds), by_id=True)


def _ids_of(batch: Batch) -> set[str]:
    """Return the ids of all nodes in a batch."""
    made = list(entity_values(batch)) if isinstance(batch, EntityBatch) else []
    return {
        id_
        for each in (batch, *made)
        if not isinstance(each, RelationBatch | TypeRules)
        for name in (("head", "tail") if isinstance(each, EdgeBatch) else ("id",))
        for id_ in pc.unique(each.rows.column(name)).to_pylist()
    }


def _named_ids(batches: Iterable[Batch]) -> set[str]:
    """Return the ids of all nodes that batches name; aliases do not count."""
    ids: set[str] = set()
    for batch in batches:
        if isinstance(batch, NameBatch):
            rows = batch.rows.filter(pc.less(batch.rows.column("rank"), ALIAS))
            ids.update(rows.column("id").to_pylist())
        elif isinstance(batch, EntityBatch):
            rows = batch.rows.filter(pc.greater(pc.binary_length(batch.rows.column("name")), 0))
            ids.update(rows.column("id").to_pylist())
    return ids


def _without_known(batch: Batch, there: pa.Array) -> Iterator[Batch]:
    """Yield a batch of an addition without redefining the nodes that exist (``there``).

    The kind of these, and whether their ids are their names, is known.
    """
    if not isinstance(batch, EntityBatch):
        yield batch
        return
    known = pc.is_in(batch.rows.column("id"), value_set=there)
    yield replace(batch, rows=batch.rows.filter(pc.invert(known)))
    rows = batch.rows.filter(known)
    kinds = pa.array([int(Kind.ENTITY)] * len(rows), pa.uint8())
    rows = rows.set_column(rows.schema.get_field_index("kind"), ENTITY_SCHEMA.field("kind"), kinds)
    yield replace(batch, rows=rows, by_id=False)


def fact_edges(
    store: GraphStore, edges: Mapping[Triple, list[str]], reified: Collection[str]
) -> dict[Triple, list[Triple]]:
    """Return, for each of ``edges``, the stored edges of the facts that it means.

    An edge with properties (JSON) means the fact with these properties, one without means all facts
    between its ends. Edges that mean no stored fact are missing; ``reified``: the relations that
    have facts.
    """
    asked = [edge for edge in edges if edge[1] in reified]
    heads = sorted({head for head, _, _ in asked})
    keys = store.keys_of(heads)
    there = keys[keys >= 0]
    near = store.neighbours(there, "out")
    kept = near.kind == Kind.MEDIATOR
    nodes = np.unique(near.target[kept])
    ids = store.entities(nodes).ids
    between: dict[Triple, list[int]] = {}
    by_id = dict(zip(ids, nodes.tolist(), strict=True))
    for id_, key in by_id.items():
        if (fact := read_fact_id(id_)) is not None:
            between.setdefault(fact, []).append(key)
    stored: dict[Triple, list[Triple]] = {}
    for edge in asked:
        facts = between.get(edge, [])
        if edges[edge]:
            own = {fact_id(*edge, fact_number(orjson.loads(text))) for text in edges[edge]}
            facts = [by_id[id_] for id_ in sorted(own & by_id.keys())]
        if facts:
            stored[edge] = list(_edges_touching(store, facts))
    return stored


def _edges_touching(store: GraphStore, keys: list[int]) -> Iterator[Triple]:
    """Yield the stored edges of some nodes as (head, relation, tail) ids."""
    near = store.neighbours(keys_array(keys), "both")
    own, others = store.entities(keys_array(keys)).ids, store.entities(near.target).ids
    relations = store.relations().ids
    for row, step, other in zip(near.row.tolist(), near.step.tolist(), others, strict=True):
        ends = (other, own[row]) if step % 2 else (own[row], other)
        yield ends[0], relations[step // 2], ends[1]


def plain_edges(
    store: GraphStore, changer: GraphChanger, relations: Collection[str]
) -> Iterator[EdgeBatch]:
    """Yield all stored edges of ``relations``, which had no walked properties so far."""
    known = store.relations().ids
    numbers = [key for key, id_ in enumerate(known) if id_ in relations]
    if not numbers:
        return
    for start in range(0, store.info.next_key, _CHUNK):
        keys = np.arange(start, min(start + _CHUNK, store.info.next_key), dtype=np.int64)
        near = store.neighbours(keys, "out")
        kept = np.isin(near.step // 2, numbers)
        heads, steps, tails = keys[near.row[kept]], near.step[kept] // 2, near.target[kept]
        if not len(heads):
            continue
        edges = list(zip(heads.tolist(), steps.tolist(), tails.tolist(), strict=True))
        yield edge_batch(
            store.entities(heads).ids,
            [known[step] for step in steps.tolist()],
            store.entities(tails).ids,
            changer.properties(edges),
        )

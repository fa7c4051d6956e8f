"""Batches of a loader, in any order, become one sorted KG.

Ids become keys, repeated rows become one, and the content gets its version. All of it is
independent of the order and the size of the batches, so the same dump always gives the same KG.

An id that comes again is one entity: its aliases and types are united; of several names the one of
the lowest rank stays, of those the first by code point, and the others become aliases; a mediator
or value in one row is one in all. Of several edges with the same ends and relation one stays: the
one with the greatest ``weight``, else the first by the text of its properties. What is left out is
counted by reason.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kgqa.graph.model import RELATION_SCHEMA, KGInfo, Kind
from kgqa.loading.edges import EdgeTable
from kgqa.loading.files import FileWriter, GraphFiles
from kgqa.loading.ids import collect_ids
from kgqa.loading.nodes import NodeTable
from kgqa.loading.spool import Spool
from kgqa.loading.stages import NodeSummary
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable

    from kgqa.graph.model import Batch, Direction, GraphTables
    from kgqa.loading.ids import IdTable
    from kgqa.loading.spool import Scanned
    from kgqa.progress import Progress

UNUSED_RELATION = "relation without an edge"


def assemble(
    batches: Iterable[Batch],
    *,
    name: str,
    source: str,
    direction: Direction,
    dropped: Counter[str],
) -> GraphTables:
    """Return the KG that ``batches`` describe, in memory. A load does the same with files."""
    info = empty_info(name, source, direction)
    with tempfile.TemporaryDirectory(prefix="kgqa-") as scratch:
        folder = Path(scratch) / "graph"
        spool = Spool(Path(scratch) / "scan")
        spool.write(batches, dropped)
        ids, nodes = assemble_nodes(spool, folder, dropped, Silent())
        return assemble_edges(spool, info, ids, nodes, folder, dropped, Silent()).tables()


def empty_info(
    name: str, source: str, direction: Direction, loader: str = "", licence: str = ""
) -> KGInfo:
    """Return a record that says where a KG comes from, with counts of 0 and no version."""
    return KGInfo(name, source, "", direction, 0, 0, 0, 0, 0, loader, licence)


def assemble_nodes(
    spool: Spool, folder: Path, dropped: Counter[str], progress: Progress
) -> tuple[IdTable, NodeSummary]:
    """Write the nodes; return their ids, and what :func:`assemble_edges` must know of them."""
    writer = FileWriter(folder)
    with progress.task("finding the entities"):
        ids = collect_ids(spool)
    with progress.task("sorting the names", len(ids), "nodes") as task:
        table = NodeTable(spool, ids, folder / "parts", dropped)
        for rows in writer.nodes(table.batches()):
            task.advance(rows)
    kinds = np.bincount(table.kinds, minlength=len(Kind)).tolist()
    return ids, NodeSummary(kinds=kinds, digests=writer.digests)


def assemble_edges(
    spool: Spool,
    info: KGInfo,
    ids: IdTable,
    nodes: NodeSummary,
    folder: Path,
    dropped: Counter[str],
    progress: Progress,
) -> GraphFiles:
    """Write edges, relations and the record, beside the nodes that are there."""
    writer = FileWriter(folder)
    with progress.task("joining the edges"):
        table = EdgeTable(spool, ids, folder / "parts", dropped)
    with_properties = any(name.endswith("-about") for name in spool.edge_files())
    count = 0
    with progress.task("sorting the edges", unit="edges") as task:
        for rows in writer.edges(table.batches(), with_properties):
            count += rows
            task.advance(rows)
    if unused := len(spool.scanned.relation_names.keys() - set(table.relations)):
        dropped[UNUSED_RELATION] += unused
    entities, mediators, values = nodes.kinds
    info = replace(
        info,
        entities=entities,
        mediators=mediators,
        values=values,
        relations=len(table.relations),
        edges=count,
    )
    writer.finish(_relations(spool.scanned, table.relations), info, nodes.digests)
    shutil.rmtree(folder / "parts", ignore_errors=True)
    return GraphFiles(folder)


def _relations(scanned: Scanned, used: list[str]) -> pa.Table:
    names = [
        min((n for n in scanned.relation_names.get(relation, ()) if n != relation), default=relation)
        for relation in used
    ]
    known = set(used)
    inverses = [scanned.inverses.get(relation) for relation in used]
    inverses = [inverse if inverse in known else None for inverse in inverses]
    return pa.table([used, names, inverses], schema=RELATION_SCHEMA)

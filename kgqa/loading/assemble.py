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
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kgqa.graph.model import ENTITY_SCHEMA, RELATION_SCHEMA, KGInfo
from kgqa.loading.columns import ColumnWriter
from kgqa.loading.edges import EdgeTable
from kgqa.loading.files import (
    EDGE_FILE_SCHEMA,
    EDGES,
    NODES,
    PLAIN_EDGE_SCHEMA,
    GraphFiles,
    finish,
    with_schema,
)
from kgqa.loading.ids import collect_ids
from kgqa.loading.nodes import NodeTable
from kgqa.loading.spool import Spool
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable

    from kgqa.graph.model import Batch, Direction, GraphTables
    from kgqa.loading.ids import IdTable
    from kgqa.progress import Progress

UNUSED_RELATION = "relation without an edge"


def assemble(
    batches: Iterable[Batch],
    *,
    name: str,
    source: str,
    direction: Direction,
    dropped: Counter[str],
    loader: str = "",
    licence: str = "",
) -> GraphTables:
    """Return the KG that ``batches`` describe, in memory. A load does the same with files."""
    info = empty_info(name, source, direction, loader, licence)
    with tempfile.TemporaryDirectory(prefix="kgqa-") as scratch:
        folder = Path(scratch) / "graph"
        spool = Spool(Path(scratch) / "scan")
        spool.write(batches, dropped)
        ids = assemble_nodes(spool, folder, dropped, Silent())
        return assemble_edges(spool, info, ids, folder, dropped, Silent()).tables()


def empty_info(
    name: str, source: str, direction: Direction, loader: str = "", licence: str = ""
) -> KGInfo:
    """Return a record that says where a KG comes from, with counts of 0 and no version."""
    return KGInfo(name, source, "", direction, 0, 0, 0, 0, 0, loader, licence)


def assemble_nodes(
    spool: Spool, folder: Path, dropped: Counter[str], progress: Progress
) -> IdTable:
    """Write the nodes; return their ids."""
    folder.mkdir(parents=True, exist_ok=True)
    with progress.task("finding the entities"):
        ids = collect_ids(spool)
    with (
        progress.task("sorting the names", len(ids), "nodes") as task,
        ColumnWriter(folder / NODES, ENTITY_SCHEMA) as writer,
    ):
        for batch in NodeTable(spool, ids, folder / "parts", dropped).batches():
            writer.append(batch)
            task.advance(len(batch))
    return ids


def assemble_edges(
    spool: Spool,
    info: KGInfo,
    ids: IdTable,
    folder: Path,
    dropped: Counter[str],
    progress: Progress,
) -> GraphFiles:
    """Write edges, relations and the record, beside the nodes that are there."""
    with progress.task("joining the edges"):
        table = EdgeTable(spool, ids, folder / "parts", dropped)
    plain = not any(name.endswith("-about") for name in spool.edge_files())
    schema = PLAIN_EDGE_SCHEMA if plain else EDGE_FILE_SCHEMA
    with (
        progress.task("sorting the edges", unit="edges") as task,
        ColumnWriter(folder / EDGES, schema) as writer,
    ):
        for batch in table.batches():
            writer.append(with_schema(batch, schema))
            task.advance(len(batch))
    shutil.rmtree(folder / "parts", ignore_errors=True)
    named, used = spool.scanned.relation_names, set(table.relations)
    if unused := len(named.keys() - used):
        dropped[UNUSED_RELATION] += unused
    names, inverses = [], []
    for relation in table.relations:
        names.append(min((n for n in named.get(relation, ()) if n != relation), default=relation))
        inverse = spool.scanned.inverses.get(relation)
        inverses.append(inverse if inverse in used else None)
    relations = pa.table([table.relations, names, inverses], schema=RELATION_SCHEMA)
    with progress.task("finding the version"):
        return finish(folder, info, relations)

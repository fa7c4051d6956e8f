"""Graph files as they are: GraphML, GEXF, node-link JSON, Cytoscape, APOC's exports, OBO."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from kgqa.errors import DumpMalformedError
from kgqa.loaders.base import edge_batch, entity_batch, relation_batch
from kgqa.loaders.blocks import find_sources, nothing_read
from kgqa.loaders.forms import GRAPHS, Form, check_form
from kgqa.loaders.graph_files import Edge, Node, read_graph
from kgqa.registry import Direction, Options, flag, option

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kgqa.graph.model import Batch
    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress

_NUMBERS = frozenset({"id", "key"})  # of edges, that say nothing of them
_SHORT = 80  # characters of a text that is walked
_BATCH = 50_000  # nodes and edges that are put together at once
UNNAMED = "related to"
_WANTED = "a graph file (GraphML, GEXF, node-link JSON, Cytoscape, an APOC export, OBO)"


class GraphOptions(Options):
    """How graph files are read."""

    heading: ClassVar[str] = "graph"

    relation: str = flag(UNNAMED, "Relation of the edges that have none in the file.")
    direction: Direction = option("both", "Direction in which paths may follow an edge.")


class GraphLoader:
    """Reads graph files; see the module."""

    Options = GraphOptions
    name = "graph"
    licence = ""
    where = "your own files: kgqa ingest graph FILE…"

    def __init__(self, options: GraphOptions | None = None) -> None:
        self.options = options or GraphOptions()
        self.direction: Direction = self.options.direction

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield the nodes and edges of the files. Raises DumpNotFoundError, DumpMalformedError."""
        files = find_sources(sources, "graph")
        graphs, others = parted(files, _WANTED)
        if others:
            raise DumpMalformedError(
                f"{others[0]} is not {_WANTED}.",
                "Tables are read by `kgqa ingest tables`, triples by `kgqa ingest triples`.",
            )
        yield from read_graphs(graphs, report, rejects, progress, self.options.relation)
        if not report.lines:
            raise nothing_read("a node or an edge", files, report)


def parted(
    files: Sequence[Path], wanted: str, takes: Sequence[Form] = ()
) -> tuple[dict[Path, Form], list[Path]]:
    """Split files into graph files with their formats, and other files.

    ``wanted``: what the loader of the others reads, as a noun for the error; ``takes``: their
    formats. Raises DumpNotFoundError, DumpMalformedError for a file of any other format.
    """
    graphs, others = {}, []
    for file in files:
        form = check_form(file, wanted, (*takes, *GRAPHS))
        if form in GRAPHS:
            graphs[file] = form
        else:
            others.append(file)
    return graphs, others


def read_graphs(
    graphs: Mapping[Path, Form],
    report: Report,
    rejects: Rejects,
    progress: Progress,
    unnamed: str = UNNAMED,
) -> Iterator[Batch]:
    """Read graph files as batches; note each file's format in ``progress``.

    ``unnamed``: the relation of edges without one. Raises DumpMalformedError.
    """
    relations: dict[str, None] = {}
    for file, form in graphs.items():
        progress.note(f"{file.name} is {form.name}.")
        parts = read_graph(file, form, report, rejects)
        while held := list(islice(parts, _BATCH)):
            nodes = [part for part in held if isinstance(part, Node)]
            edges = [part for part in held if isinstance(part, Edge)]
            for edge in edges:
                edge.relation = edge.relation or unnamed
            relations |= dict.fromkeys(edge.relation for edge in edges)
            yield from _batches_of(nodes, edges)
    yield relation_batch({relation: relation for relation in relations})


def _batches_of(nodes: Sequence[Node], edges: Sequence[Edge]) -> Iterator[Batch]:
    """Build batches of nodes, of the edges' ends (so that each end exists), and of edges."""
    if nodes:
        batch = entity_batch(
            [node.id for node in nodes],
            name=[node.name or node.id for node in nodes],
            aliases=[node.aliases or None for node in nodes],
            types=[node.types or None for node in nodes],
            properties=[_json(node.properties) for node in nodes],
        )
        yield replace(batch, walked=_walked_names(nodes))
    if edges:
        ends = dict.fromkeys(end for edge in edges for end in (edge.head, edge.tail))
        yield replace(entity_batch(list(ends)), by_id=True)
        rows = edge_batch(
            [edge.head for edge in edges],
            [edge.relation for edge in edges],
            [edge.tail for edge in edges],
            [_json(edge.properties) for edge in edges],
        )
        yield replace(rows, walked=_walked_names(edges) - _NUMBERS)


def _walked_names(parts: Sequence[Node] | Sequence[Edge]) -> frozenset[str]:
    """Return the properties that become edges to values: those that are never lists or long."""
    seen: dict[str, bool] = {}
    for part in parts:
        for name, value in part.properties.items():
            short = isinstance(value, int | float) or (
                isinstance(value, str) and len(value) <= _SHORT
            )
            seen[name] = seen.get(name, True) and short
    return frozenset(name for name, short in seen.items() if short)


def _json(properties: dict[str, object]) -> str | None:
    """Format properties as JSON, None if there are none."""
    return json.dumps(properties, ensure_ascii=False) if properties else None

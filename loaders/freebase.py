"""The Freebase RDF dump: N-Triples of mids, types and predicates → entities and edges.

An entity is a mid (``m.…``, ``g.…``) that has a name in the wanted language. A nameless mid is a
mediator if one of its types is, and is left out otherwise, with its edges. Literals of kept
predicates are value nodes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kgqa.graph.model import RELATION_SCHEMA, RelationBatch, TypeRules
from kgqa.loaders.base import DumpFiles, data_lines
from kgqa.loaders.blocks import find_sources, nothing_read, read_blocks
from kgqa.loaders.freebase_block import BlockReader, Filters
from kgqa.parallel import mapped
from kgqa.registry import Options, option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.graph.model import Batch, Direction
    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress

FILTERS = "freebase_filters.txt"


class FreebaseOptions(Options):
    """How a Freebase dump is read."""

    language: str = option(
        "en", "Language of names, aliases and texts.", flag=True, group="freebase"
    )
    filters: Path | None = option(
        None,
        "File of the predicates to leave out or keep, instead of the bundled list.",
        flag=True,
        group="freebase",
    )


class FreebaseLoader:
    """Reads Freebase dumps; see the module."""

    Options = FreebaseOptions
    name = "freebase"
    direction: Direction = "out"
    licence = "CC-BY 2.5 (Freebase data dump, Google)"
    where = "https://developers.google.com/freebase (freebase-rdf-latest.gz, about 30 GB)"
    dump = DumpFiles(("freebase-rdf-latest.gz", "freebase-rdf-*.gz", "freebase-rdf-*"))
    sample = "data/freebase/sample.nt.gz"
    lone_entities = True

    def __init__(self, options: FreebaseOptions | None = None) -> None:
        self.options = options or FreebaseOptions()
        self._filters = Filters(data_lines(self.options.filters or FILTERS))
        self._mediator_types = frozenset(data_lines("mediator_types.txt"))

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield names, types, values and edges as they come, then what types and relations mean.

        Raises DumpNotFoundError, DumpMalformedError.
        """
        found = find_sources(sources, "Freebase dump")
        reader = BlockReader(self.options.language, self._filters)
        mediator_types = set(self._mediator_types)
        inverses: dict[str, str] = {}
        triples = 0
        for part in mapped(reader.read, read_blocks(found, report, rejects, progress)):
            triples += part.triples
            mediator_types |= part.mediator_types
            for one, other in part.inverses:
                inverses[one] = other
                inverses.setdefault(other, one)
            part.record(report, rejects)
            yield from part.batches
        if not triples:
            raise nothing_read("a Freebase dump (N-Triples)", found, report)
        yield TypeRules(frozenset(mediator_types), self._filters.keeps)
        pairs = sorted(
            pair for pair in inverses.items() if all(self._filters.keeps(each) for each in pair)
        )
        columns = [[one for one, _ in pairs], [one for one, _ in pairs], [two for _, two in pairs]]
        yield RelationBatch(
            pa.RecordBatch.from_arrays(
                [pa.array(column, type=pa.string()) for column in columns], schema=RELATION_SCHEMA
            )
        )

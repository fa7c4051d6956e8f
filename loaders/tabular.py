"""Tables as they are: one row is one thing.

What the tables mean (keys, links, types) is found from names and values, said in a line for each
table, and written to ``mapping.toml`` beside the KG, to be corrected and given back.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.loaders.base import lose
from kgqa.loaders.blocks import nothing_read
from kgqa.loaders.forms import TABLES
from kgqa.loaders.graphs import parted, read_graphs
from kgqa.loaders.tabular_files import read_tables, table_files, unzipped
from kgqa.loaders.tabular_graph import as_graph
from kgqa.loaders.tabular_infer import describes_schema, infer
from kgqa.loaders.tabular_mapping import TableMapping, found_by, read_mapping, written
from kgqa.loaders.tabular_rows import Rows
from kgqa.loaders.tabular_values import why_no_date
from kgqa.loaders.triples_rows import PARTS, is_header
from kgqa.registry import Direction, Options, flag, option

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kgqa.graph.model import Batch
    from kgqa.loaders.base import Rejects, Report
    from kgqa.loaders.tabular_table import Table
    from kgqa.progress import Progress

MAPPING_FILE = "mapping.toml"
SKIPPED = "column"
_SHOWN = 20  # columns in a message
OF_SCHEMA = "row of a table that describes the columns of the others"


class TablesOptions(Options):
    """How tables are read as a graph."""

    heading: ClassVar[str] = "tables"

    mapping: Path | None = flag(
        None,
        "A mapping.toml that a load wrote and you edited (default: inferred from the tables).",
    )
    direction: Direction = option("both", "Direction in which paths may follow an edge.")


class TablesLoader:
    """Reads tables; see the module."""

    Options = TablesOptions
    name = "tables"
    licence = ""
    where = "your own files: kgqa ingest tables FOLDER"
    sample = "data/tables/bookshop"

    def __init__(self, options: TablesOptions | None = None) -> None:
        self.options = options or TablesOptions()
        self.direction: Direction = self.options.direction

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield the entities and edges of the tables.

        Raises DumpNotFoundError, DumpMalformedError, UsageError.
        """
        with TemporaryDirectory(prefix="kgqa-") as folder:  # for what zip archives hold
            named = [file for source in sources for file in table_files(source, progress)]
            files = unzipped(named, Path(folder), progress)
            yield from self._read(sources, files, report, rejects, progress)

    def _read(
        self,
        sources: Sequence[Path],
        files: list[Path],
        report: Report,
        rejects: Rejects,
        progress: Progress,
    ) -> Iterator[Batch]:
        """Read graph files and tables, infer the tables' mapping, and yield their batches."""
        graphs, files = parted(files, "a table", TABLES)
        yield from read_graphs(graphs, report, rejects, progress)
        if not files and report.lines:
            return
        tables = read_tables(files, progress)
        if not any(len(table) for table in tables):
            headers = [", ".join(table.columns) for table in tables if table.columns]
            if not headers:
                raise nothing_read("a row", sources, report)
            raise DumpMalformedError(
                f"{tables[0].source} holds a header and no row: {headers[0][:80]}.",
                "Give a table with a row of names and rows below it.",
            )
        _check_not_triples(tables)
        for table in tables:
            report.lines += len(table) + len(table.broken)
            for broken in table.broken:
                rejects.add(table.source, *broken)
        given = read_mapping(self.options.mapping) if self.options.mapping is not None else {}
        for table in [each for each in tables if each.name not in given]:
            if describes_schema(table, tables):
                tables.remove(table)
                lose(report.dropped, OF_SCHEMA, len(table), table.source)
        tables, graph = as_graph(tables)
        mapping = self._mapping(tables, rejects, progress, graph)
        for table in tables:
            _report_mapping(table, mapping.get(table.name), report)
        named = {table.name: table for table in tables}
        yield from Rows(named, mapping, rejects).batches()

    def _mapping(
        self,
        tables: Sequence[Table],
        rejects: Rejects,
        progress: Progress,
        graph: Mapping[str, TableMapping],
    ) -> dict[str, TableMapping]:
        """Return the mapping of the tables, given by the user or inferred.

        Writes it beside the rejects file. ``graph``: the mapping of tables that are a graph's nodes
        and edges, which replaces the inferred one.
        """
        path = rejects.path.with_name(MAPPING_FILE)  # the KG's folder, where updates find it
        given = self.options.mapping
        mapping = {**infer(tables), **graph} if given is None else read_mapping(given)
        for table in tables if given is not None else ():
            pointed = (
                each.to.split(".", 1) for m in mapping.values() for each in m.columns.values()
            )
            own = [at for name, at in (to for to in pointed if len(to) == 2) if name == table.name]
            for column in (*(mapping[table.name].columns if table.name in mapping else ()), *own):
                table.compose(column)
        if given is not None:
            is_own = path.exists() and path.samefile(
                given
            )  # of an update, whose tables may have less
            _check_columns(tables, mapping, given, progress if is_own else None)
        if given is None or not path.exists() or not path.samefile(given):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(written(mapping), encoding="utf-8")
        if given is not None:
            return mapping
        for table in tables:
            if table.mended:
                progress.note(
                    f"{table.source}: {table.mended:,} rows had an unquoted delimiter in a field, "
                    "and were mended."
                )
            _note_ambiguous_dates(table, mapping[table.name], progress)
        progress.note(f"This is written to {path}: edit it, and load again with --mapping {path}")
        return mapping


def _note_ambiguous_dates(table: Table, mapping: TableMapping, progress: Progress) -> None:
    """Note the columns that stay text because their dates can be read in two ways."""
    for name, column in mapping.columns.items():
        cells = table.columns[name]
        if column.type != "text" or not pa.types.is_string(cells.type):
            continue
        if why := why_no_date(pc.unique(cells)):
            progress.note(
                f"{table.source}: {name} {why}: it stays text. "
                'Say it in the mapping, for instance: type = "date", form = "%d/%m/%Y".'
            )


def _report_mapping(table: Table, mapping: TableMapping | None, report: Report) -> None:
    """Record in ``report`` how a table's entities are named, and which columns are left out."""
    if mapping is None:
        return
    if not mapping.edge or mapping.type:
        report.taken[mapping.type or table.name] = found_by(mapping)
    edge = mapping.edge
    used = {*mapping.key, *mapping.name, *mapping.types}
    used |= {edge.head, edge.tail, edge.types} if edge else set()
    used |= {name for name, column in mapping.columns.items() if not column.skip}
    used |= {column.called for column in mapping.columns.values()}
    for name in table.columns:
        if name not in used:
            lose(report.dropped, SKIPPED, 1, f"{name} of {table.source}")


def _check_columns(
    tables: Sequence[Table],
    mapping: dict[str, TableMapping],
    path: Path,
    progress: Progress | None,
) -> None:
    """Report the mapped columns that tables lack: to ``progress``, or raise UsageError if None.

    ``path``: the mapping file, which the message names.
    """
    for table in tables:
        columns = mapping[table.name].columns if table.name in mapping else {}
        lacking = [
            name
            for name, kind in columns.items()
            if name not in table.columns and name not in table.left_out and not kind.skip
        ]
        if not lacking:
            continue
        shown = [*lacking[:_SHOWN], f"and {len(lacking) - _SHOWN:,} more"][: len(lacking)]
        said = f"{path.name} names columns that {table.source} lacks: {', '.join(shown)}."
        hint = f"Its columns are: {', '.join(table.columns)}."
        if progress is None:
            raise UsageError(said, hint)
        progress.note(f"{said} {hint}")


def _check_not_triples(tables: Sequence[Table]) -> None:
    """Raise DumpMalformedError if a table is one of triples, with a header or without."""
    for table in tables:
        names = list(table.columns)
        is_row = len(names) == len(PARTS) and any(
            pc.is_in(pa.scalar(name), value_set=column.combine_chunks()).as_py()
            for name, column in table.columns.items()
            if pa.types.is_string(column.type)
        )
        if is_row or (len(tables) == 1 and is_header(names)):
            raise DumpMalformedError(
                f"{table.source} is a table of triples: {', '.join(names)}.",
                f"Load it by: kgqa ingest triples {table.source} (for an update, set `loader` to "
                "triples). Tables begin with a row of names.",
            )

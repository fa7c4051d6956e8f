"""A load from end to end: a loader's batches, one KG, one store.

What it does not do: find the dump (``sources``) or choose the store (``kgqa.graph.open``).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kgqa.errors import IngestError, KgqaError
from kgqa.ingest.assemble import assemble
from kgqa.ingest.sources import Sources
from kgqa.loaders.base import Rejects, Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.write import GraphWriter
    from kgqa.loaders.base import Loader
    from kgqa.progress import Progress

REJECTS_FILE = "rejects.tsv"


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What a load did. ``dropped`` counts by reason what was left out on purpose."""

    kg: str
    lines: int
    entities: int  # named things; mediators and values are counted apart
    edges: int
    mediators: int
    rejected: int
    rejects_file: str | None
    seconds: float
    dropped: dict[str, int] = field(default_factory=dict)


def ingest(
    loader: Loader,
    sources: Sources | Sequence[Path],
    kg: str,
    writer: GraphWriter,
    folder: Path,
    progress: Progress,
) -> IngestResult:
    """Load ``sources`` as the KG named ``kg`` through ``writer``.

    Lines that are not of the dump's form go to ``folder / "rejects.tsv"`` (that of an earlier load
    is removed first). Nothing becomes visible before the whole KG is written. Raises IngestError
    where the dump holds no edge, and what loader and writer raise.
    """
    started = time.monotonic()
    if not isinstance(sources, Sources):
        sources = Sources(tuple(Path(path) for path in sources))
    report = Report()
    rejects_path = folder / REJECTS_FILE
    rejects = Rejects(rejects_path, report)
    try:
        rejects_path.unlink(missing_ok=True)
        tables = assemble(
            loader.read(sources.paths, report, rejects, progress),
            name=kg,
            source=sources.described,
            direction=loader.direction,
            dropped=report.dropped,
            loader=loader.name,
            licence=loader.licence,
        )
    except KgqaError:
        raise
    except OSError as error:
        where = error.filename or sources.described
        raise IngestError(
            f"{where} cannot be read or written: {error.strerror or error}.",
            "See that you may read the dump and write to the folder, and that the disk has room.",
        ) from None
    finally:
        rejects.close()
    if tables.info.edges == 0:
        raise IngestError(*_nothing(loader, sources, report, rejects_path))
    writer.write(tables, progress)
    return IngestResult(
        kg=kg,
        lines=report.lines,
        entities=tables.info.entities,
        edges=tables.info.edges,
        mediators=tables.info.mediators,
        rejected=report.rejected,
        rejects_file=str(rejects_path) if report.rejected else None,
        seconds=round(time.monotonic() - started, 3),
        dropped=dict(report.dropped),
    )


def _nothing(
    loader: Loader, sources: Sources, report: Report, rejects_path: Path
) -> tuple[str, str]:
    """Return message and hint for a dump in which there is no edge."""
    what = f"No {loader.name} edge was found in {sources.described} ({report.lines:,} lines"
    for counted, verb in ((report.reasons, "rejected"), (report.dropped, "left out")):
        if counted:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in counted.most_common(3))
            what += f"; {verb}: {reasons}"
    message = f"{what}), so nothing was loaded."
    if report.rejected:
        return message, f"The rejected lines and why are in {rejects_path}."
    return message, "See that this is the dump that the loader reads."

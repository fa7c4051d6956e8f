"""What every loader shares: the interface, the report of a load, the file of rejected lines."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import IO

    from kgqa.graph.model import Batch, Direction
    from kgqa.progress import Progress

_SHOWN = 500  # characters of a rejected line that are kept


@dataclass(slots=True)
class Report:
    """What a load saw.

    ``dropped`` counts, by reason, what is well-formed and left out on purpose; a rejected line does
    not have the dump's form, and stands in the rejects file.
    """

    lines: int = 0
    rejected: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)


class Rejects:
    """The file of rejected lines: source, line number, reason and the line, tab-separated.

    Opened at the first reject; a load without one leaves no file.
    """

    def __init__(self, path: Path, report: Report) -> None:
        self.path = path
        self._report = report
        self._file: IO[str] | None = None

    def add(self, source: str, line: int, reason: str, text: str) -> None:
        """Count and write one rejected line (``line`` counts from 1)."""
        self._report.rejected += 1
        self._report.reasons[reason] += 1
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("w", encoding="utf-8", errors="backslashreplace")
            self._file.write("source\tline\treason\ttext\n")
        shown = text.rstrip("\r\n")[:_SHOWN].encode("unicode_escape").decode("ascii")
        self._file.write(f"{source}\t{line}\t{reason}\t{shown}\n")

    def close(self) -> None:
        """Finish the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class Loader(Protocol):
    """Reads one kind of dump: the interface of the classes in ``kgqa.registry.LOADERS``.

    A package adds a loader by an entry point in the group ``kgqa.loaders``: its name is the
    loader's, its value a class with the attributes below, an attribute ``Options`` (a model derived
    from :class:`kgqa.registry.Options`, every field made by ``option``), an ``__init__`` that takes
    an object of that model, and :meth:`read`. ``kgqa.ingest(name, source, field=value)`` and the
    command line then work for it as for the built-in ones.
    """

    name: str  # as in the registry
    direction: Direction  # the direction in which paths take this KG's edges by default
    licence: str  # the dump's licence, in a few words
    where: str  # where users who have no dump find one

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield the dump's batches. May read the sources more than once.

        Counts into ``report``; writes lines that do not have the dump's form to ``rejects``.
        Raises DumpNotFoundError, DumpMalformedError.
        """

"""The ConceptNet 5 assertions dump: five tab-separated columns, the last one JSON.

A concept with a part of speech or a sense folds to its term (``/c/en/test/n`` → ``/c/en/test``)
unless senses are kept. An edge of a symmetric relation goes from the end that comes first, so that
it and its mirror image are one. The dump goes by in blocks, and edges that come again are left for
whoever takes them. What it does not do: keep other languages, or links to other sites.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import UsageError
from kgqa.graph.model import EdgeBatch, EntityBatch
from kgqa.loaders.batches import entity_batch, relation_batch
from kgqa.loaders.blocks import STDIN, mapped, read_blocks
from kgqa.loaders.conceptnet_block import read_block
from kgqa.loaders.conceptnet_lines import Rules, read_languages
from kgqa.loaders.sources import find_sources, nothing_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import Batch, Direction
    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress

_BEFORE_TERM = r"^/c/[^/]+/"


@dataclass(frozen=True, slots=True)
class ConceptnetOptions:
    """How the dump is read.

    ``language``: the one both ends of an edge are in, or several with commas between them.
    ``senses``: ``fold`` makes a concept with a part of speech or a sense its term, ``keep`` leaves
    it an entity of its own. ``min_weight``: assertions of less weight are left out.
    """

    language: str = "en"
    senses: Literal["fold", "keep"] = "fold"
    min_weight: float | None = None


class ConceptnetLoader:
    """Reads ConceptNet assertions; see the module."""

    name = "conceptnet"
    direction: Direction = "both"
    licence = "CC BY-SA 4.0 (ConceptNet 5)"
    where = "https://github.com/commonsense/conceptnet5/wiki/Downloads (conceptnet-assertions)"

    def __init__(self, options: ConceptnetOptions | None = None) -> None:
        """Take options. Raises UsageError where one has no sense."""
        self.options = options or ConceptnetOptions()
        if self.options.senses not in ("fold", "keep"):
            raise UsageError(
                f"Senses cannot be {self.options.senses!r}.", "Say fold (the default) or keep."
            )
        least = self.options.min_weight
        if least is not None and not math.isfinite(least):
            raise UsageError(f"The least weight cannot be {least}.", "Give a number, as 1.0.")
        languages = read_languages(self.options.language)
        self._rules = Rules(languages, self.options.senses == "fold", least)

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield entities and edges of each block, relations at the end.

        A source may be ``-``, standard input. Raises DumpNotFoundError, DumpMalformedError.
        """
        found = _found(sources)
        relations: dict[str, None] = {}
        assertions = 0
        blocks = read_blocks(found, report, rejects, progress)
        for read in mapped(partial(read_block, rules=self._rules), blocks):
            assertions += read.assertions
            report.dropped.update(read.dropped)
            for number, reason, text in read.rejected:
                rejects.add(read.source, number, reason, text)
            if len(read.edges):
                relations |= dict.fromkeys(pc.unique(read.edges["relation"]).to_pylist())
                yield _entities(read.edges)
                yield EdgeBatch(read.edges)
        if not assertions:
            raise nothing_read("a ConceptNet assertion (five tab-separated columns)", found, report)
        yield relation_batch({uri: uri.removeprefix("/r/") for uri in relations})


def _found(sources: Sequence[Path]) -> list[Path]:
    what = "ConceptNet assertions"
    if STDIN not in sources:
        return find_sources(sources, what)
    parts = ([source] if source == STDIN else find_sources([source], what) for source in sources)
    return [path for part in parts for path in part]


def _entities(edges: pa.RecordBatch) -> EntityBatch:
    """Return the ends of ``edges``, each once."""
    ends = pc.unique(pa.chunked_array([edges["head"], edges["tail"]]))
    terms = pc.replace_substring_regex(ends, _BEFORE_TERM, "")
    names = pc.replace_substring(terms, "_", " ")
    sensed = pc.match_substring(names, "/")
    if pc.any(sensed).as_py():  # "test/n/wikt/en 1" → "test (n, wikt, en 1)"
        bracketed = pc.replace_substring_regex(
            names.filter(sensed), r"(?s)^([^/]*)/(.*)$", r"\1 (\2)"
        )
        bracketed = pc.replace_substring(bracketed, "/", ", ")
        names = pc.replace_with_mask(names, sensed, bracketed)
    return entity_batch(ends, name=names)

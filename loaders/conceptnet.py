"""The ConceptNet 5 assertions dump: five tab-separated columns, the last one JSON.

A concept with a part of speech or a sense folds to its term (``/c/en/test/n`` → ``/c/en/test``)
unless senses are kept. An edge of a symmetric relation goes from the end that comes first, so that
it and its mirror image are one. Edges that come again are left to the caller.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import UsageError
from kgqa.graph.model import EdgeBatch, EntityBatch
from kgqa.loaders.batches import entity_batch, relation_batch
from kgqa.loaders.blocks import mapped, read_blocks
from kgqa.loaders.conceptnet_block import Rules, read_block
from kgqa.loaders.options import ConceptnetOptions
from kgqa.loaders.sources import find_sources, nothing_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import Batch, Direction
    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress

_LANGUAGE = re.compile(r"[a-z][a-z_-]*")
_BEFORE_TERM = r"^/c/[^/]+/"


class ConceptnetLoader:
    """Reads ConceptNet assertions; see the module."""

    Options = ConceptnetOptions
    name = "conceptnet"
    direction: Direction = "both"
    licence = "CC BY-SA 4.0 (ConceptNet 5)"
    where = "https://github.com/commonsense/conceptnet5/wiki/Downloads (conceptnet-assertions)"

    def __init__(self, options: ConceptnetOptions | None = None) -> None:
        """Take options. Raises UsageError if a language is not one of ConceptNet's."""
        self.options = options or ConceptnetOptions()
        languages = read_languages(self.options.language)
        fold = self.options.senses == "fold"
        self._rules = Rules(languages, fold, self.options.min_weight)

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield entities and edges of each block, relations at the end.

        A source may be ``-``, standard input. Raises DumpNotFoundError, DumpMalformedError.
        """
        found = find_sources(sources, "ConceptNet assertions")
        relations: dict[str, None] = {}
        assertions = 0
        blocks = read_blocks(found, report, rejects, progress)
        for read in mapped(partial(read_block, rules=self._rules), blocks):
            assertions += read.assertions
            report.dropped.update(+read.dropped)
            for number, reason, text in read.rejected:
                rejects.add(read.source, number, reason, text)
            if len(read.edges):
                relations |= dict.fromkeys(pc.unique(read.edges["relation"]).to_pylist())
                yield _entities(read.edges)
                yield EdgeBatch(read.edges)
        if not assertions:
            raise nothing_read("a ConceptNet assertion (five tab-separated columns)", found, report)
        yield relation_batch({uri: uri.removeprefix("/r/") for uri in relations})


def read_languages(text: str) -> tuple[str, ...]:
    """Return the languages of a list with commas. Raises UsageError if one is malformed.

    >>> read_languages("en, de")
    ('en', 'de')
    """
    languages = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for language in languages:
        if not _LANGUAGE.fullmatch(language):
            raise UsageError(
                f"{language!r} is not a language of ConceptNet.",
                "Give its code, or several with commas between them: en or en,de.",
            )
    return languages


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

"""The ConceptNet 5 assertions dump: five tab-separated columns, the last one JSON.

A concept with a part of speech or a sense folds to its term (``/c/en/test/n`` → ``/c/en/test``)
unless senses are kept. An edge of a symmetric relation goes from the end that comes first, so that
it and its mirror image are one. Edges that come again are left to the caller.

Blocks are read by columns. A line is looked at only as far as it takes to know what becomes of it:
the JSON of a line in another language may be anything.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import UsageError
from kgqa.graph.model import EDGE_SCHEMA, EdgeBatch, EntityBatch
from kgqa.graph.names import is_storable
from kgqa.loaders.base import DumpFiles, Rejects, Report, edge_batch, entity_batch, relation_batch
from kgqa.loaders.blocks import Block, find_sources, nothing_read, read_blocks
from kgqa.loaders.strings import (
    BLANK,
    BlockReport,
    as_text,
    json_value,
    lines_at,
    mask_of,
    split_block,
    why_undecodable,
)
from kgqa.parallel import mapped
from kgqa.registry import Options, flag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import Batch, BoolArray, Direction
    from kgqa.progress import Progress

_LANGUAGE = re.compile(r"[a-z][a-z_-]*")
_BEFORE_TERM = r"^/c/[^/]+/"
COLUMNS = 5
SYMMETRIC = frozenset(
    f"/r/{name}"
    for name in (
        "RelatedTo",
        "Synonym",
        "Antonym",
        "DistinctFrom",
        "LocatedNear",
        "SimilarTo",
        "EtymologicallyRelatedTo",
    )
)
"""ConceptNet 5.7's symmetric relations: an edge and its mirror image mean the same."""

OTHER_SITE = "link to another site"
OTHER_LANGUAGE = "other language"
TO_ITSELF = "edge from a term to itself"
TOO_LIGHT = "weight below the least"
_ELSEWHERE = b"/r/ExternalURL"
_CONCEPT = r"\A/c/[^/]+/[^/]+"
_FOLDED = r"(?s)^(/c/[^/]+/[^/]+)/.*$"
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode

NO_EDGES = pa.RecordBatch.from_pylist([], schema=EDGE_SCHEMA)


class ConceptnetOptions(Options):
    """How ConceptNet's assertions are read."""

    heading: ClassVar[str] = "conceptnet"

    language: str = flag("en", "Language of both ends of an edge; separate several with commas.")
    senses: Literal["fold", "keep"] = flag(
        "fold",
        "Join concepts that differ only in part of speech or sense into one term, or keep them.",
    )
    min_weight: float | None = flag(
        None, "Minimum weight of the assertions to keep.", allow_inf_nan=False
    )


class ConceptnetLoader:
    """Reads ConceptNet assertions; see the module."""

    Options = ConceptnetOptions
    name = "conceptnet"
    direction: Direction = "both"
    licence = "CC BY-SA 4.0 (ConceptNet 5)"
    where = "https://github.com/commonsense/conceptnet5/wiki/Downloads (conceptnet-assertions)"
    dump = DumpFiles(
        ("conceptnet-assertions-5.7.0.csv.gz", "*assertions*.csv.gz", "*assertions*.csv*")
    )
    sample = "data/conceptnet/assertions.csv.gz"

    def __init__(self, options: ConceptnetOptions | None = None) -> None:
        """Set the options. Raises UsageError if a language is not one of ConceptNet's."""
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
        files = find_sources(sources, "ConceptNet assertions")
        relations: dict[str, None] = {}
        assertions = 0
        blocks = read_blocks(files, report, rejects, progress)
        for read in mapped(partial(read_block, rules=self._rules), blocks):
            assertions += read.assertions
            read.record(report, rejects)
            if len(read.edges):
                relations |= dict.fromkeys(pc.unique(read.edges["relation"]).to_pylist())
                yield _entities(read.edges)
                yield EdgeBatch(read.edges)
        if not assertions:
            raise nothing_read("a ConceptNet assertion (five tab-separated columns)", files, report)
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
                "Give its code, or several separated by commas: en or en,de.",
            )
    return languages


def _entities(edges: pa.RecordBatch) -> EntityBatch:
    """Build the entities at the ends of edges, named after their concepts' terms."""
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


@dataclass(frozen=True, slots=True)
class Rules:
    """Filters of assertions.

    ``languages``: of both ends of an edge. ``fold``: whether a concept with a part of speech or a
    sense becomes its term. ``least``: the smallest weight.
    """

    languages: tuple[str, ...]
    fold: bool
    least: float | None


@dataclass(slots=True)
class BlockEdges(BlockReport):
    """The edges of a block as rows of EDGE_SCHEMA, and the outcome of its other lines.

    ``assertions`` counts the lines of the dump's form.
    """

    edges: pa.RecordBatch = field(default_factory=lambda: NO_EDGES)
    assertions: int = 0


def read_block(block: Block, rules: Rules) -> BlockEdges:
    """Parse a block of assertions; return its edges, and its left-out lines by reason.

    ``rules``: which languages and weights to keep.
    """
    part = BlockEdges(block.source)
    fields = split_block(block, "\t", COLUMNS)
    for position, count in fields.others.items():
        _reject_lines(part, block, [position], f"{count} columns in place of {COLUMNS}")
    ends = [fields.columns[place] for place in (2, 3)]
    concept = mask_of(pc.match_substring_regex(ends[0], _CONCEPT))
    concept &= mask_of(pc.match_substring_regex(ends[1], _CONCEPT))
    relation = fields.columns[1]
    left = np.ones(len(fields.rows), dtype=np.bool_)

    wanted = [f"/c/{language}/".encode() for language in rules.languages]
    for reason, good, is_form in (
        ("first column is not an assertion (/a/…)", _begins(fields.columns[0], b"/a/"), True),
        ("second column is not a relation (/r/…)", _begins(relation, b"/r/"), True),
        (OTHER_SITE, ~mask_of(pc.equal(relation, _ELSEWHERE)), False),
        ("an end is not a concept (/c/language/term)", concept, True),
        (OTHER_LANGUAGE, _begins(ends[0], *wanted) & _begins(ends[1], *wanted), False),
    ):
        if is_form:
            _reject_lines(part, block, fields.rows[left & ~good].tolist(), reason)
        else:
            part.drop(reason, left & ~good, fields.columns[0])
        left &= good
    numbers, abouts = fields.rows[left], fields.columns[4].filter(pa.array(left))
    raw = [column.filter(pa.array(left)) for column in (ends[0], relation, ends[1])]
    (head, relation, tail), decoded = zip(*map(as_text, raw), strict=True)
    good = np.logical_and.reduce(decoded)
    for place in np.flatnonzero(~good).tolist():
        reasons = (why_undecodable(column[place].as_py()) for column in raw)
        _reject_lines(part, block, [int(numbers[place])], next(filter(None, reasons)))
    if rules.fold:
        head, tail = _fold(head), _fold(tail)
    different = mask_of(pc.not_equal(head, tail))
    part.drop(TO_ITSELF, good & ~different, head)
    kept_rows: list[int] = []
    properties: list[str] = []
    sure = np.flatnonzero(good & different)
    for place, about in zip(sure.tolist(), abouts.take(sure).to_pylist(), strict=True):
        try:
            weight, text = _read_metadata(about)
        except ValueError as error:
            _reject_lines(part, block, [int(numbers[place])], str(error))
            continue
        if rules.least is not None and weight < rules.least:
            part.dropped[TOO_LIGHT] += 1
            part.examples.setdefault(TOO_LIGHT, f"{head[place]} {relation[place]} {tail[place]}")
            continue
        kept_rows.append(place)
        properties.append(text)
    chosen = pa.array(kept_rows, type=pa.int64())
    head, relation, tail = (column.take(chosen) for column in (head, relation, tail))
    turned = pc.and_(pc.is_in(relation, pa.array(sorted(SYMMETRIC))), pc.less(tail, head))
    ends = [pc.if_else(turned, tail, head), pc.if_else(turned, head, tail)]
    part.edges = edge_batch(ends[0], relation, ends[1], properties).rows
    part.assertions = block.lines - len(part.rejects) - part.dropped[BLANK]
    return part


def _reject_lines(part: BlockEdges, block: Block, positions: Sequence[int], reason: str) -> None:
    """Reject the lines of a block at ``positions``, which count from its first line."""
    for number, raw in lines_at(block, positions):
        part.reject(number, reason, raw)


def _begins(values: pa.Array, *starts: bytes) -> BoolArray:
    """Return which values start with one of ``starts``."""
    mask: BoolArray = np.logical_or.reduce(
        [mask_of(pc.starts_with(values, start)) for start in starts]
    )
    return mask


def _fold(uris: pa.Array) -> pa.Array:
    """Remove part of speech and sense from concepts: ``/c/en/test/n`` → ``/c/en/test``."""
    longer = pc.greater(pc.count_substring(uris, "/"), 3)
    if not pc.any(longer).as_py():
        return uris
    folded = pc.replace_substring_regex(uris.filter(longer), _FOLDED, r"\1")
    return pc.replace_with_mask(uris, longer, folded)


def _read_metadata(raw: bytes) -> tuple[float, str]:
    """Parse the JSON column; return the weight (1 if absent) and the edge's properties as JSON.

    Raises ValueError with the fault.
    """
    try:
        about = json_value(raw)
    except ValueError:
        raise ValueError(why_undecodable(raw) or "last column is not JSON") from None
    if not isinstance(about, dict):
        raise ValueError("last column is not a JSON object")
    weight = about.get("weight", 1.0)
    try:
        weight = math.nan if isinstance(weight, bool | str) else float(weight)
    except (TypeError, OverflowError):
        weight = math.nan
    if not math.isfinite(weight):
        raise ValueError("weight is not a number")
    properties = f'{{"weight": {weight!r}'  # written by hand: an encoder's call a row costs more
    for name in ("surfaceText", "license"):
        if (value := about.get(name)) is not None:
            properties += f', "{name}": {_ENCODE(value)}'
    properties += "}"
    if not is_storable(properties):
        raise ValueError("last column holds half of a character (a lone surrogate)")
    return weight, properties

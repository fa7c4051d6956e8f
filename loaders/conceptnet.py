"""The ConceptNet 5 assertions dump: five tab-separated columns, the last one JSON.

A concept with a part of speech or a sense folds to its term (``/c/en/test/n`` → ``/c/en/test``),
and what then is the same edge is one edge with the greatest weight. What it does not do: keep
other languages, or links to other sites.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgqa.graph.model import Kind
from kgqa.loaders.batches import edge_batches, entity_batches, relation_batches
from kgqa.loaders.lines import find_sources, nothing_read, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import Batch, Direction
    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress

_COLUMNS = 5
_LEFT_OUT = "/r/ExternalURL"
_KEPT = ("weight", "surfaceText", "license")


@dataclass(frozen=True, slots=True)
class ConceptnetOptions:
    """How the dump is read. ``language``: the one both ends of an edge are in."""

    language: str = "en"


class ConceptnetLoader:
    """Reads ConceptNet assertions; see the module."""

    name = "conceptnet"
    direction: Direction = "both"
    licence = "CC BY-SA 4.0 (ConceptNet 5)"
    where = "https://github.com/commonsense/conceptnet5/wiki/Downloads (conceptnet-assertions)"

    def __init__(self, options: ConceptnetOptions | None = None) -> None:
        self.options = options or ConceptnetOptions()

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield relations, entities, then edges. Raises DumpNotFoundError, DumpMalformedError."""
        found = find_sources(sources, "ConceptNet assertions")
        start = f"/c/{self.options.language}/"
        edges: dict[tuple[str, str, str], tuple[float, str]] = {}
        dropped: Counter[str] = Counter()
        assertions = 0
        for source in found:
            for number, line in read_lines(source, report, rejects, progress):
                if not line.strip():
                    dropped["blank line or comment"] += 1
                    continue
                why, relation, head, tail, about = _take_apart(line)
                if why:
                    rejects.add(source.name, number, why, line)
                    continue
                assertions += 1
                if relation == _LEFT_OUT:
                    dropped["link to another site"] += 1
                elif not (head.startswith(start) and tail.startswith(start)):
                    dropped["other language"] += 1
                elif (head := _fold(head)) == (tail := _fold(tail)):
                    dropped["edge from a term to itself"] += 1
                else:
                    key = (head, relation, tail)
                    weight = float(about["weight"])
                    before = edges.get(key)
                    if before is not None:
                        dropped["same edge again, the heavier kept"] += 1
                    if before is None or weight > before[0]:
                        kept = {name: about[name] for name in _KEPT if about.get(name) is not None}
                        edges[key] = (weight, json.dumps(kept, ensure_ascii=False))
        report.dropped.update(dropped)
        if not assertions:
            raise nothing_read("a ConceptNet assertion (five tab-separated columns)", found, report)
        yield from _batches(edges)


def _batches(edges: dict[tuple[str, str, str], tuple[float, str]]) -> Iterator[Batch]:
    relations = dict.fromkeys(relation for _, relation, _ in edges)
    terms = dict.fromkeys(end for head, _, tail in edges for end in (head, tail))
    yield from relation_batches((uri, uri.removeprefix("/r/")) for uri in relations)
    yield from entity_batches((uri, _name(uri), None, Kind.ENTITY, None, None) for uri in terms)
    yield from edge_batches((*key, about) for key, (_, about) in edges.items())


def _take_apart(line: str) -> tuple[str, str, str, str, dict[str, Any]]:
    """Return (reason why it is no assertion or nothing, relation, head, tail, what is known)."""
    fields = line.split("\t")
    if len(fields) != _COLUMNS:
        return f"{len(fields)} columns in place of {_COLUMNS}", "", "", "", {}
    assertion, relation, head, tail, text = fields
    if not assertion.startswith("/a/"):
        return "first column is no assertion (/a/…)", "", "", "", {}
    if not relation.startswith("/r/"):
        return "second column is no relation (/r/…)", "", "", "", {}
    # Ends of ExternalURL are URLs; everything else joins concepts.
    if relation != _LEFT_OUT and not (_is_concept(head) and _is_concept(tail)):
        return "an end is no concept (/c/language/term)", "", "", "", {}
    try:
        about = json.loads(text)
    except ValueError:
        return "last column is no JSON", "", "", "", {}
    if not isinstance(about, dict):
        return "last column is no JSON object", "", "", "", {}
    weight = about.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        return "weight is no number", "", "", "", {}
    return "", relation, head, tail, {**about, "weight": weight}


def _is_concept(uri: str) -> bool:
    parts = uri.split("/", 4)
    return len(parts) >= 4 and parts[0] == "" and parts[1] == "c" and all(parts[2:4])


def _fold(uri: str) -> str:
    return "/".join(uri.split("/", 4)[:4])


def _name(uri: str) -> str:
    return uri.split("/")[3].replace("_", " ")

"""What the loader of tables gives, before any store."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kgqa.graph.model import EdgeBatch, EntityBatch
from kgqa.loaders import make_loader
from kgqa.loaders.base import Rejects, Report
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass
class Read:
    """``edges``: (head, relation, tail, properties); ``properties`` of entities by id."""

    folder: Path
    report: Report = field(default_factory=Report)
    entities: dict[str, dict[str, Any]] = field(default_factory=dict)
    edges: list[tuple[str, str, str, dict[str, Any]]] = field(default_factory=list)
    walked: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def names(self, type_: str) -> set[str]:
        rows = self.entities.values()
        return {row["name"] for row in rows if type_ in (row["types"] or ())}

    def properties(self, id_: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.entities[id_]["properties"] or "{}")
        return {name: value for name, value in found.items() if name[0] != "_"}

    def triples(self, relation: str) -> set[tuple[str, str]]:
        return {
            (self.entities[head]["name"], self.entities[tail]["name"])
            for head, said, tail, _ in self.edges
            if said == relation
        }

    def rejects(self) -> list[list[str]]:
        path = self.folder / "kg" / "rejects.tsv"
        if not path.exists():
            return []
        return [line.split("\t") for line in path.read_text("utf-8").splitlines()[1:]]

    @property
    def mapping(self) -> Path:
        return self.folder / "kg" / "mapping.toml"


class _Noted(Silent):
    def __init__(self, notes: list[str]) -> None:
        self.note = notes.append  # type: ignore[method-assign]


def read_tables(folder: Path, files: Mapping[str, str] | list[Path], **options: Any) -> Read:
    """Write texts to files, if these are not there, and read them as tables."""
    sources = files if isinstance(files, list) else [folder / name for name in files]
    if not isinstance(files, list):
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    read = Read(folder)
    rejects = Rejects(folder / "kg" / "rejects.tsv", read.report)
    with closing(rejects):
        loader = make_loader("tables", **options)
        batches = loader.read(sources, read.report, rejects, _Noted(read.notes))
        for batch in batches:
            if isinstance(batch, EntityBatch):
                read.entities |= {row["id"]: row for row in batch.rows.to_pylist()}
                read.walked |= batch.walked
            elif isinstance(batch, EdgeBatch):
                read.edges += [
                    (row["head"], row["relation"], row["tail"], json.loads(row["properties"]))
                    for row in batch.rows.to_pylist()
                ]
    return read

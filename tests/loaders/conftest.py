from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kgqa.graph.model import Kind
from kgqa.loaders import make_loader
from kgqa.loaders.base import Rejects, Report
from kgqa.loading.pipeline import assemble, type_relations_of
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Callable

SHARED = Path(os.environ.get("KGQA_SHARED", Path(__file__).parents[3] / "shared")) / "data"


@dataclass
class Loaded:
    """Everything a load gave."""

    entities: dict[str, dict[str, Any]]
    relations: dict[str, str]
    edge_rows: list[tuple[str, str, str, str | None]]
    report: Report
    rejects: list[list[str]]

    @property
    def edges(self) -> set[tuple[str, str, str]]:
        return {row[:3] for row in self.edge_rows}

    @property
    def facts(self) -> dict[tuple[str, str, str], Any]:
        """The facts by their ends, with their properties, edges or mediators."""
        found: dict[tuple[str, str, str], Any] = {}
        tails: dict[str, list[tuple[str, str]]] = {}
        heads: dict[str, str] = {}
        for head, relation, tail, about in self.edge_rows:
            if head.startswith("["):
                tails.setdefault(head, []).append((relation, tail))
            elif tail.startswith("["):
                heads[tail] = head
            elif self.entities[tail]["kind"] != Kind.VALUE:
                found[head, relation, tail] = json.loads(about or "null")
        for fact, head in heads.items():
            for relation, tail in tails[fact]:
                if self.entities[tail]["kind"] != Kind.VALUE:
                    about = self.entities[fact]["properties"]
                    found[head, relation, tail] = json.loads(about or "null")
        return found

    def names(self) -> dict[str, str | None]:
        return {ident: row["name"] for ident, row in self.entities.items()}

    def kinds(self) -> Counter[str]:
        return Counter(Kind(row["kind"]).name for row in self.entities.values())

    def properties(self, head: str, relation: str, tail: str) -> Any:
        [about] = [row[3] for row in self.edge_rows if row[:3] == (head, relation, tail)]
        return json.loads(about or "null")


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Loaded]:
    def load(name: str, *sources: Path, **options: Any) -> Loaded:
        report = Report()
        rejects = Rejects(tmp_path / "rejects.tsv", report)
        loader = make_loader(name, **options)
        try:
            tables = assemble(
                loader.read(sources, report, rejects, Silent()),
                name=name,
                source="a test",
                direction=loader.direction,
                dropped=report.dropped,
                type_relations=type_relations_of(loader),
            )
        finally:
            rejects.close()
        for table in (tables.nodes, tables.relations, tables.edges):
            table.validate(full=True)
        ids = tables.nodes["id"].to_pylist()
        relations = tables.relations["id"].to_pylist()
        heads, steps, tails, about = (column.to_pylist() for column in tables.edges.columns)
        loaded = Loaded(
            {row["id"]: row for row in tables.nodes.to_pylist()},
            dict(zip(relations, tables.relations["name"].to_pylist(), strict=True)),
            [
                (ids[head], relations[step], ids[tail], text)
                for head, step, tail, text in zip(heads, steps, tails, about, strict=True)
            ],
            report,
            [],
        )
        if rejects.path.exists():
            lines = rejects.path.read_text(encoding="utf-8").splitlines()[1:]
            loaded.rejects = [line.split("\t") for line in lines]
        # What every consumer relies on: no edge hangs in the air, every relation has a name.
        for head, relation, tail in loaded.edges:
            assert head in loaded.entities
            assert tail in loaded.entities
            assert relation in loaded.relations
        assert report.rejected == len(loaded.rejects) == report.reasons.total()
        return loaded

    return load


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str, *lines: str | bytes, end: str = "\n") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = [line.encode() if isinstance(line, str) else line for line in lines]
        path.write_bytes(b"".join(line + end.encode() for line in raw))
        return path

    return write


@pytest.fixture
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"no data at {SHARED} (KGQA_SHARED)")
    return SHARED

"""What a load says it took, against counts of the same files by a reader that knows no loader."""

from __future__ import annotations

import csv
import random
import sqlite3
import tomllib
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import networkx as nx
import pytest

import kgqa
from tests.loaders.conftest import SHARED

if TYPE_CHECKING:
    from pathlib import Path

    Tables = dict[str, list[dict[str, str]]]

MISSING = ("", "NA", "NULL")


def read_csv(folder: Path) -> Tables:
    tables = {}
    for path in folder.glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            tables[path.stem] = list(csv.DictReader(file))
    return tables


def read_database(path: Path) -> Tables:
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        return {
            name: [
                {key: "" if row[key] is None else str(row[key]) for key in row.keys()}  # noqa: SIM118
                for row in db.execute(f'SELECT * FROM "{name}"')
            ]
            for name in names
        }


@pytest.mark.parametrize("name", ["flights", "elements/elements.db"])
def test_each_row_and_each_cell_of_real_tables_is_in_the_kg_or_rejected(
    tmp_path: Path, name: str
) -> None:
    source = SHARED / "real" / name
    if not source.exists():
        pytest.skip(f"no data at {source} (KGQA_SHARED)")
    tables = read_csv(source) if source.is_dir() else read_database(source)
    with kgqa.ingest("tables", source, kg="t", home=tmp_path) as kg:
        assert kg.loaded is not None
        taken = kg.loaded["taken"]
        lines = kg.loaded["lines"]
    mapping = tomllib.loads((tmp_path / "t" / "mapping.toml").read_text("utf-8"))
    assert lines == sum(map(len, tables.values()))
    types = {each["name"]: each["count"] for each in taken["types"]}
    rejected = Counter(
        {each["reason"]: each["count"] for each in taken["left_out"] if each["rejected"]}
    )
    related: Counter[str] = Counter()
    for table, said in mapping.items():
        rows = tables[table]
        if "edge" in said:
            related[said["edge"]["relation"]] += len(rows)
            continue
        assert types[said["type"]] == len(rows)
        for column, kind in said["columns"].items():
            assert column in rows[0] or "/" in column
            if "relation" in kind and "split" not in kind:
                parts = column.split("/")
                filled = (all(row[part] not in MISSING for part in parts) for row in rows)
                related[kind["relation"]] += sum(filled)
    assert related
    found = Counter({each["name"]: each["count"] for each in taken["relations"]})
    lost = sum(count for reason, count in rejected.items() if reason.startswith("no "))
    assert sum(related.values()) == sum(found[name] for name in related) + lost
    assert lost <= sum(each["count"] for each in taken["left_out"])


def graph_of(seed: int) -> nx.MultiDiGraph:
    """A graph of the shape of Hetionet: kinds of nodes, relations by code, no edge twice."""
    chance = random.Random(seed)
    graph = nx.MultiDiGraph()
    kinds = ("Gene", "Disease", "Compound")
    for number in range(60):
        kind = kinds[number % 3]
        graph.add_node(f"{kind}::{number}", name=f"{kind} {number} of {seed}", kind=kind)
    nodes = list(graph)
    for _ in range(200):
        head, tail = chance.sample(nodes, 2)
        relation = f"{head[0]}{chance.choice('abr')}{tail[0]}"
        graph.add_edge(head, tail, key=relation, relation=relation)
    return graph


def write_hetionet(graph: nx.MultiDiGraph, folder: Path) -> tuple[str, list[Path]]:
    nodes = [f"{id_}\t{about['name']}\t{about['kind']}" for id_, about in graph.nodes(data=True)]
    edges = [f"{head}\t{relation}\t{tail}" for head, tail, relation in graph.edges(keys=True)]
    for name, rows in (
        ("nodes.tsv", ["id\tname\tkind", *nodes]),
        ("edges.sif", ["source\tmetaedge\ttarget", *edges]),
    ):
        (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    return "tables", [folder]


def write_primekg(graph: nx.MultiDiGraph, folder: Path) -> tuple[str, list[Path]]:
    places = {id_: str(place) for place, id_ in enumerate(graph)}
    with (folder / "kg.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        parts = ("index", "id", "type", "name", "source")
        writer.writerow(["relation", *(f"{end}_{part}" for end in "xy" for part in parts)])
        for head, tail, relation in graph.edges(keys=True):
            ends = (
                (places[end], end, graph.nodes[end]["kind"], graph.nodes[end]["name"], "none")
                for end in (head, tail)
            )
            writer.writerow([relation, *(cell for end in ends for cell in end)])
    return "tables", [folder]


def write_graphml(graph: nx.MultiDiGraph, folder: Path) -> tuple[str, list[Path]]:
    nx.write_graphml(graph, folder / "g.graphml")
    return "graph", [folder / "g.graphml"]


def write_obo(graph: nx.MultiDiGraph, folder: Path) -> tuple[str, list[Path]]:
    lines = ["format-version: 1.2", "ontology: made", ""]
    for id_, about in graph.nodes(data=True):
        lines += ["[Term]", f"id: {id_}", f"name: {about['name']}", f"namespace: {about['kind']}"]
        lines += [f"relationship: {key} {tail} ! x" for _, tail, key in graph.edges(id_, keys=True)]
        lines.append("")
    (folder / "g.obo").write_text("\n".join(lines), encoding="utf-8")
    return "graph", [folder / "g.obo"]


@pytest.mark.parametrize("write", [write_hetionet, write_primekg, write_graphml, write_obo])
def test_a_graph_in_the_forms_of_the_field_keeps_its_counts(tmp_path: Path, write: Any) -> None:
    graph = graph_of(7)
    (tmp_path / "files").mkdir()
    loader, sources = write(graph, tmp_path / "files")
    with kgqa.ingest(loader, *sources, kg="t", home=tmp_path / "home") as kg:
        assert kg.loaded is not None
        taken = kg.loaded["taken"]
    linked = [id_ for id_ in graph if write is not write_primekg or graph.degree(id_)]
    types = Counter(graph.nodes[id_]["kind"] for id_ in linked)
    assert {each["name"]: each["count"] for each in taken["types"]} == types
    relations = Counter(relation for *_, relation in graph.edges(keys=True))
    assert {each["name"]: each["count"] for each in taken["relations"]} == relations
    assert not taken["warnings"]
    assert not any(each["rejected"] for each in taken["left_out"])

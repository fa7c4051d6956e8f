"""The bundled sample is what its README says, and its questions have the answers it gives.

Reads the files as they lie, without the project's own loaders, so that a fault there cannot hide
one here.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT / "kgqa" / "data"
SHARED = Path(os.environ.get("KGQA_SHARED", ROOT.parent / "shared"))
NS = "http://rdf.freebase.com/ns/"
LINE = re.compile(
    r"<http[^>]+>\t<http[^>]+>\t(<http[^>]+>|\"(?:[^\"\\]|\\.)*\"(?:@\w\S*|\^\^<\S+>)?)\t\."
)
KGS = ("freebase", "conceptnet", "umls")
needs_shared = pytest.mark.skipif(
    not (SHARED / "data").is_dir(), reason=f"no public data sets at {SHARED} (KGQA_SHARED)"
)

Edges = dict[tuple[str, str], set[str]]


def unzipped(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in file]


def questions(kg: str) -> list[dict[str, Any]]:
    text = (DATA / kg / "questions.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def node(term: str) -> str:
    if term.startswith("<"):
        return term[1:-1].removeprefix(NS)
    return term.replace("^^<http://www.w3.org/2001/XMLSchema#", "^^xsd:").removesuffix(">")


@pytest.fixture(scope="module")
def dump() -> list[str]:
    return unzipped(DATA / "freebase" / "sample.nt.gz")


@pytest.fixture(scope="module")
def triples(dump: list[str]) -> list[tuple[str, str, str]]:
    found = []
    for line in dump:
        if LINE.fullmatch(line):
            head, predicate, tail, _ = line.split("\t")
            found.append((node(head), node(predicate), node(tail)))
    return found


def edges_of(kg: str, triples: list[tuple[str, str, str]]) -> Edges:
    rows: list[tuple[str, str, str]] = []
    if kg == "freebase":
        rows = triples
    elif kg == "conceptnet":
        for line in unzipped(DATA / kg / "assertions.csv.gz"):
            _, relation, head, tail, _ = line.split("\t")
            rows.append((head, relation, tail))
    else:
        for line in (DATA / kg / "META" / "MRREL.RRF").read_text(encoding="utf-8").splitlines():
            fields = line.split("|")
            rows.append((fields[4], fields[7], fields[0]))
    edges: Edges = defaultdict(set)
    for head, relation, tail in rows:
        edges[head, relation].add(tail)
        if kg != "freebase":
            edges[tail, f"^{relation}"].add(head)
    return edges


def ends(edges: Edges, way: tuple[str, ...], path: list[str]) -> set[str]:
    if not path:
        return {way[-1]}
    at = {way[-1]}
    for half in path[0].split(".."):
        at = {end for start in at for end in edges.get((start, half), set())}
    return {end for step in at - {*way} for end in ends(edges, (*way, step), path[1:])}


def test_all_together_stays_small() -> None:
    samples = [DATA / folder for folder in ("freebase", "conceptnet", "umls")]
    files = [file for folder in samples for file in folder.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 3_000_000


def test_the_readme_names_every_licence() -> None:
    text = (DATA / "README.md").read_text(encoding="utf-8")
    for words in ("CC BY 2.5", "CC BY-SA 4.0", "CC BY 4.0", "public domain", "NCI Thesaurus"):
        assert words in text, words


@pytest.mark.parametrize("kg", KGS)
def test_answers_are_exactly_where_the_path_leads(
    kg: str, triples: list[tuple[str, str, str]]
) -> None:
    edges = edges_of(kg, triples)
    for row in questions(kg):
        assert row["hops"] == len(row["relation_path"]), row["question"]
        reached = ends(edges, (row["topic_entities"][0],), row["relation_path"])
        expected = reached if row["relation_path"] else set()
        assert set(row["answers"]) == expected, row["question"]
        assert len(set(row["answers"])) == len(row["answers"]), row["question"]
        assert bool(row["answers"]) == (row["hops"] > 0), row["question"]


def test_umls_rows_are_of_public_domain_sources_only() -> None:
    meta = DATA / "umls" / "META"

    def column(table: str, number: int) -> set[str]:
        text = (meta / f"{table}.RRF").read_text(encoding="utf-8")
        return {line.split("|")[number] for line in text.splitlines()}

    assert column("MRCONSO", 11) == column("MRREL", 10) == column("MRDEF", 4) == {"NCI"}
    assert column("MRSAB", 3) == column("MRRANK", 1) == {"NCI", "MTH"}
    assert column("MRSAB", 11) == column("MRSAB", 12) == {""}
    assert column("MRREL", 0) | column("MRREL", 4) == column("MRCONSO", 0) == column("MRSTY", 0)
    assert column("MRDEF", 0) <= column("MRCONSO", 0)


@needs_shared
def test_no_question_is_a_benchmarks() -> None:
    field = re.compile(
        r'"(?:question|text|RawQuestion|ProcessedQuestion|stem)": "((?:[^"\\]|\\.)*)"'
    )
    asked = set()
    for pattern in ("*/*.json", "*/*.jsonl"):
        for file in (SHARED / "data").glob(pattern):
            asked.update(field.findall(file.read_text(encoding="utf-8")))
    for file in (*(SHARED / "data").glob("metaqa/*/*"), *(SHARED / "data").glob("pathquestion/*")):
        lines = file.read_text(encoding="utf-8").splitlines()
        asked.update(line.split("\t")[0] for line in lines)
    assert len(asked) > 10_000

    def plain(text: str) -> str:
        return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()

    theirs = {plain(text) for text in asked}
    ours = {plain(row["question"]) for kg in KGS for row in questions(kg)}
    assert not ours & theirs

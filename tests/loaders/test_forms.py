"""What a file is: nothing is taken for what it is not, and the error names the form."""

from __future__ import annotations

import bz2
import gzip
from typing import TYPE_CHECKING, Any

import pytest

from kgqa.errors import DumpMalformedError, DumpNotFoundError
from kgqa.loaders.forms import form_of

if TYPE_CHECKING:
    from pathlib import Path

UNPACKS = bz2.BZ2Decompressor
TURTLE = "@prefix ex: <http://ex.org/> .\nex:a ex:b ex:c ;\n    ex:d 4 .\n"
OTHERS: dict[str, tuple[str | bytes, str]] = {
    "a.ttl": (TURTLE, "Turtle"),
    "a.tsv": (TURTLE, "Turtle"),
    "a.trig": ("@prefix ex: <http://ex.org/> .\nex:g { ex:a ex:b ex:c }\n", "TriG"),
    "a.nq": ("<a> <b> <c> <d> .\n", "N-Quads"),
    "a.owl": ('<?xml version="1.0"?>\n<rdf:RDF xmlns:rdf="x"></rdf:RDF>\n', "RDF/XML"),
    "a.jsonld": ('{"@context": {}, "@id": "x"}\n', "JSON-LD"),
    "a.gml": ("graph [\n  directed 1\n]\n", "GML"),
    "a.dot": ('digraph g {\n  a -> b [label="r"];\n}\n', "DOT"),
    "a.net": ('*Vertices 2\n1 "a"\n2 "b"\n*Arcs\n1 2\n', "Pajek"),
    "a.mtx": ("%%MatrixMarket matrix coordinate real general\n1 1 1\n", "Matrix Market"),
    "a.yaml": ("- name: Ann Lee\n  city: New York\n- name: Bo Ray\n  city: Ulm\n", "YAML"),
    "a.html": ("<!DOCTYPE html>\n<html><body>a b c</body></html>\n", "web page"),
    "a.xml": ("<?xml version='1.0'?>\n<things><a>1</a></things>\n", "XML"),
    "a.ini": ("[main]\nname = x\nother = y\n", "settings"),
    "a.sql": ("CREATE TABLE a (b INT);\nINSERT INTO a VALUES (1);\n", "SQL"),
    "a.cypher": ("CREATE (a:Person {name: 'Ann'});\n", "Cypher"),
    "a.edgelist": ("Ann Bo {}\nBo Cy {}\nCy Di {}\n", "edge list"),
    "weights.txt": ("Ann Bo 0.5\nBo Cy 1.5\nCy Di 2\n", "edge list"),
    "poem.txt": ("Rivers run slow\nClouds drift by\nBirds fly south\nNights grow long\n", "prose"),
    "rhyme.txt": ("Roses are red\nViolets are blue\nSugar is sweet\nSo are you\n", "prose"),
    "letter.txt": ("Dear reader of this letter,\nI write to you today.\nYours, Bo\n", "prose"),
    "a.pdf": (b"%PDF-1.4\n...", "PDF"),
    "a.zip": (b"PK\x03\x04\x14\0...", "zip"),
    "a.bin": (bytes(range(32)) * 20, "binary"),
    "a.ipynb": ('{"cells": [], "nbformat": 4}', "notebook"),
    "a.geojson": ('{"type": "FeatureCollection", "features": []}', "GeoJSON"),
    "a.fasta": (">seq1\nACGTACGT\n", "FASTA"),
    "verse.txt": (
        "O harbour light, O harbour light,\nyou burn so low, you burn so bright;\n"
        "the nets are dry, the sails are white.\nThe gulls sleep on, the tide is late,\n",
        "prose",
    ),
    "a.nex": ("#NEXUS\nBEGIN TAXA;\n  DIMENSIONS NTAX=2;\nEND;\n", "NEXUS"),
    "a.css": ("p {\n  color: red;\n}\nb {\n  top: 0;\n}\n", "statements"),
    "a.bib": ("@book{ray2001,\n  title = {Salt},\n}\n", "BibTeX"),
    "a.ris": ("TY  - BOOK\nTI  - Salt\nER  - \n", "RIS"),
    "a.ged": ("0 HEAD\n1 SOUR x\n0 @I1@ INDI\n", "GEDCOM"),
    "a.mmd": ("graph TD\n  A --> B\n", "Mermaid"),
    "a.arff": ("@RELATION people\n\n@attribute age numeric\n@data\n3\n", "ARFF"),
    "a.tex": ("\\begin{table}\nAnn & 3\n", "LaTeX"),
    "a.md": ("# People\n\n| name | age |\n|---|:-:|\n| Ann | 3 |\n", "Markdown"),
    "a.pl": ("parent(ann, bo).\nparent(bo, cy).\nold(X) :- parent(X, Y).\n", "Prolog"),
    "a.puml": ("@startuml\nA -> B\n@enduml\n", "PlantUML"),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("loader", ["triples", "tables"])
def test_another_form_is_refused_by_its_name(load: Any, write: Any, name: str, loader: str) -> None:
    content, called = OTHERS[name]
    text = content if isinstance(content, bytes) else content.encode()
    with pytest.raises(DumpMalformedError, match=called) as caught:
        load(loader, write(name, text.removesuffix(b"\n")))
    assert caught.value.hint


def test_the_hint_names_the_command_that_reads_it(load: Any, write: Any) -> None:
    with pytest.raises(DumpMalformedError, match="Turtle") as caught:
        load("triples", write("kg.txt", *TURTLE.splitlines()))
    assert "kgqa ingest rdf" in caught.value.hint
    with pytest.raises(DumpMalformedError) as caught:
        load("tables", write("letter.txt", *str(OTHERS["letter.txt"][0]).splitlines()))
    assert "kgqa ingest text" in caught.value.hint


@pytest.mark.parametrize(
    "lines",
    [
        ["a r b", "b r c"],
        ["n1 worksFor n2", "n3 livesIn n4"],
        ["ann knows bob", "bob knows cid", "cid likes ann"],
        ["0 1 0", "2 3 1", "4 5 2"],
        ["head relation tail", "ann knows bob"],
        ["Ann Lee\tknows\tBo Ray"],
        ["id,name", "1,Ann", "2,Bo"],
        ["title", "The Salt Garden of Words", "Orange Season in the North"],
    ],
)
def test_what_is_a_table_stays_one(write: Any, lines: list[str]) -> None:
    assert form_of(write("kg.csv" if lines[0] == "title" else "kg.txt", *lines)) is None


def test_a_packed_file_is_looked_into(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(TURTLE.encode()))
    form = form_of(path)
    assert form is not None
    assert form.name == "a Turtle file"


def test_what_is_not_there_or_empty_is_an_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty.tsv"
    for content in (b" \n", b"\xef\xbb\xbf", b"\xff\xfe", b"\xef\xbb\xbf \n", "\u2028\n".encode()):
        empty.write_bytes(content)
        with pytest.raises(DumpMalformedError, match="empty"):
            form_of(empty)
    with pytest.raises(DumpNotFoundError, match="cannot be read"):
        form_of(tmp_path / "missing")


def test_what_begins_with_blank_lines_is_told_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("\n" * 300 + '{"a": 1}\n{"a": 2}\n')
    assert form_of(path) is None


def test_a_packed_file_is_unpacked_no_further_than_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked: list[int] = []

    class Counted:
        def __init__(self) -> None:
            self._of = UNPACKS()

        def decompress(self, data: bytes, most: int = -1) -> bytes:
            content = self._of.decompress(data, most)
            unpacked.append(len(content))
            return content

    monkeypatch.setattr(bz2, "BZ2Decompressor", Counted)
    path = tmp_path / "a.tsv.bz2"
    path.write_bytes(bz2.compress(b"a\tb\tc\n" * 1_000_000))
    assert form_of(path) is None
    assert max(unpacked) < 1 << 20

"""Relations that say of what kind a thing is: found, made types, checked, and not walked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import kgqa
from kgqa.loading.type_relations import classes_of, is_named_so

if TYPE_CHECKING:
    from pathlib import Path

RIVERS = """York	type	town
Bedford	type	town
Ely	type	city
Ouse	type	river
Cam	type	river
York	lies on	Ouse
Bedford	lies on	Ouse
Ely	lies on	Cam
"""


def rivers(folder: Path, **options: object) -> kgqa.KG:
    """A KG of rivers and towns."""
    source = folder / "rivers.tsv"
    source.write_text(RIVERS, encoding="utf-8")
    return kgqa.ingest("triples", source, kg="rivers", home=folder, **options)


def texts(kg: kgqa.KG, entity: str) -> set[str]:
    return {path.text for path in kg.paths(entity, hops=2).paths}


def test_kinds_are_types_that_are_checked_and_not_walked(tmp_path: Path) -> None:
    with rivers(tmp_path) as kg:
        assert texts(kg, "Cam") == {"Cam -> ^lies on -> Ely"}
        assert kg.check("York -> type -> town")
        assert not kg.check("York -> type -> city")
        assert kg.info.type_relations == ("type",)
        [key] = kg.store.keys_of(["York"]).tolist()
        assert kg.store.details(key).types == ["town"]


def test_an_update_gives_and_takes_types(tmp_path: Path) -> None:
    (tmp_path / "more.tsv").write_text("Ripon\ttype\tcity\nRipon\tlies on\tUre\n", encoding="utf-8")
    (tmp_path / "less.tsv").write_text("York\ttype\ttown\n", encoding="utf-8")
    with rivers(tmp_path) as kg:
        kg.update(tmp_path / "more.tsv", remove=tmp_path / "less.tsv")
        keys = kg.store.keys_of(["Ripon", "York"]).tolist()
        assert [kg.store.details(key).types for key in keys] == [["city"], []]
        assert texts(kg, "Ripon") == {"Ripon -> lies on -> Ure"}


def test_rdf_types_are_types_that_are_checked_and_answer(tmp_path: Path) -> None:
    is_a = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    lines = [
        f'<x:York> {label} "York" .',
        f'<x:Ouse> {label} "Ouse" .',
        f'<x:town> {label} "town" .',
        "<x:York> <x:liesOn> <x:Ouse> .",
        f"<x:York> {is_a} <x:town> .",
        f"<x:Ouse> {is_a} <x:River> .",
    ]
    (tmp_path / "rivers.nt").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "more.nt").write_text(f"<x:Ely> {is_a} <x:city> .\n", encoding="utf-8")
    with kgqa.ingest("triples", tmp_path / "rivers.nt", kg="rivers", home=tmp_path) as kg:
        assert kg.check("York -> type -> town")
        assert not kg.check("Ouse -> type -> town")
        assert texts(kg, "Ouse") == {"Ouse -> ^x:liesOn -> York"}
        best = kg.ask("What is York?").best
        assert best is not None
        assert best.name == "town"
        kg.update(tmp_path / "more.nt")
        keys = kg.store.keys_of(["x:York", "x:Ouse", "x:Ely"]).tolist()
        types = [kg.store.details(key).types for key in keys]
        assert types == [["town"], ["x:River"], ["x:city"]]


def test_an_update_notices_a_relation_of_kinds(tmp_path: Path) -> None:
    rows = [line for line in RIVERS.splitlines(keepends=True) if "type" in line]
    (tmp_path / "kinds.tsv").write_text("".join(rows), encoding="utf-8")
    (tmp_path / "rivers.tsv").write_text("York\tlies on\tOuse\n", encoding="utf-8")
    with kgqa.ingest("triples", tmp_path / "rivers.tsv", kg="rivers", home=tmp_path) as kg:
        kg.update(tmp_path / "kinds.tsv")
        assert kg.info.type_relations == ("type",)
        assert kg.store.details(kg.store.keys_of(["York"])[0]).types == ["town"]


def test_an_option_decides_otherwise(tmp_path: Path) -> None:
    with rivers(tmp_path, type_relation="none") as kg:
        assert "Cam -> type -> river" in texts(kg, "Cam")
    with rivers(tmp_path, type_relation="lies on") as kg:
        assert kg.info.type_relations == ("lies on",)


@pytest.mark.parametrize(
    ("relation", "is_so"),
    [
        ("rdf:type", True),
        ("instance_of", True),
        ("Is A", True),
        ("http://www.wikidata.org/prop/direct/P31", True),
        ("soil type", False),
        ("class of 1999", False),
    ],
)
def test_names_of_such_relations(relation: str, is_so: bool) -> None:
    assert is_named_so(relation) == is_so


def test_a_hierarchy_of_terms_is_no_set_of_classes() -> None:
    terms = [(f"t{n}", f"t{n // 2}") for n in range(2, 60)]
    few = [(f"x{n}", f"c{n % 4}") for n in range(60)]
    for rows, are in ((terms, False), (few, True)):
        heads, tails = zip(*rows, strict=True)
        batch = pa.RecordBatch.from_pydict({"head": heads, "tail": tails})
        assert (classes_of(lambda batch=batch: [batch]) is not None) == are

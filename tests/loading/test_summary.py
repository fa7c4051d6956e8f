"""What a load says it took for what, and what it left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kgqa

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def taken(tmp_path: Path, loader: str, **files: str) -> dict[str, Any]:
    sources = []
    for name, text in files.items():
        sources.append(tmp_path / name.replace("_", "."))
        sources[-1].write_text(text, encoding="utf-8")
    with kgqa.ingest(loader, *sources, kg="t", home=tmp_path / "home") as kg:
        assert kg.loaded is not None
        found: dict[str, Any] = kg.loaded["taken"]
        return found


def test_types_relations_and_properties_are_told_with_what_they_were_found_by(
    tmp_path: Path,
) -> None:
    found = taken(
        tmp_path,
        "tables",
        authors_csv="author_id,name,born\n1,Ann,1950\n2,Bob,1960\n",
        books_csv="isbn,title,author_id,price\n11,Slate,1,6.5\n12,Chalk,2,7.5\n13,Clay,2,8\n",
    )
    types = {each["name"]: (each["count"], each["found"]) for each in found["types"]}
    assert types["Author"] == (2, "key author_id, called by name")
    assert types["Book"] == (3, "key isbn, called by title")
    [author] = found["relations"]
    assert author == {"name": "author", "count": 3, "head": "Book", "tail": "Author"}
    properties = {each["name"]: (each["count"], each["type"]) for each in found["properties"]}
    assert properties["born"] == (2, "integer")
    assert properties["price"] == (3, "float")
    assert found["warnings"] == []


def test_a_property_has_the_type_of_all_its_values(tmp_path: Path) -> None:
    given = {
        "length": ['"8"^^<http://www.w3.org/2001/XMLSchema#integer>'] * 2
        + ['"6.5"^^<http://www.w3.org/2001/XMLSchema#double>'],
        "note": ['"8"^^<http://www.w3.org/2001/XMLSchema#integer>', '"long"', '"2001-02-03"'],
    }
    lines = [
        f"<http://x.org/{n}> <http://x.org/{name}> {value} .\n"
        for name, values in given.items()
        for n, value in enumerate(values)
    ]
    found = taken(tmp_path, "triples", kg_nt="".join(lines))
    assert {p["name"]: p["type"] for p in found["properties"]} == {
        "length": "float",
        "note": "text",
    }


def test_what_is_left_out_is_told_by_kind_with_an_example_and_much_is_a_warning(
    tmp_path: Path,
) -> None:
    rows = "".join(f"t{n}\tr\th{n}\n" for n in range(6))
    found = taken(tmp_path, "triples", kg_tsv=f"head\trelation\ttail\n{rows}only\ttwo\n")
    kinds = {each["reason"]: each for each in found["left_out"]}
    assert kinds["2 fields in place of 3"]["example"] == "kg.tsv, line 8: only two"
    assert kinds["header"] == {"reason": "header", "count": 1, "example": "", "rejected": False}
    [warning] = found["warnings"]
    assert warning.startswith("12% of 8 lines were rejected: 2 fields in place of 3")


def test_every_kind_of_loss_has_an_example(tmp_path: Path) -> None:
    label, seen = "<http://www.w3.org/2000/01/rdf-schema#label>", "<http://x.org/seen>"
    ann, bob = "<http://x.org/ann>", "<http://x.org/bob>"
    lines = [
        f'{ann} {label} "Ann"@en .',
        f'{ann} {label} "Anna"@de .',
        f'{bob} {label} "Bobík"@cs .',
        f"{ann} {seen} {bob} .",
        f"{ann} {seen} {bob} .",
        f'{ann} {seen} "" .',
        f'{ann} {seen} "heute"@de .',
        f"{ann} {seen}",
    ]
    names = tmp_path / "names.tsv"
    names.write_text("http://x.org/nobody\tNobody\n", encoding="utf-8")
    for form, options in (("triples", {"names": names}), ("rdf", {})):
        path = tmp_path / "g.nt"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        with kgqa.ingest(form, path, kg="t", home=tmp_path / form, **options) as kg:
            assert kg.loaded is not None
            left = {each["reason"]: each["example"] for each in kg.loaded["taken"]["left_out"]}
        assert all(left.values()), left
        assert left["repeated edge"] == "http://x.org/ann http://x.org/seen http://x.org/bob"
        assert left["other language"] in ("Anna", "heute")


def test_a_line_says_in_which_language_names_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    names = [("a", '"Ann"@en-GB'), ("b", '"Bob"@en'), ("c", '"Cid"'), ("d", '"Dora"@cs')]
    lines = [f"<http://x.org/{id_}> {label} {name} ." for id_, name in names]
    lines += [f"<http://x.org/{id_}> <http://x.org/knows> <http://x.org/a> ." for id_ in "bcd"]
    with caplog.at_level("INFO"):
        taken(tmp_path, "triples", g_nt="\n".join(lines) + "\n")
    said = (
        "Names, by language: 1 in en, 1 in a region of it, 1 without a tag, 1 in another language"
    )
    assert said in caplog.text


def test_values_that_nothing_has_are_one_kind(tmp_path: Path) -> None:
    found = taken(
        tmp_path,
        "tables",
        cities_csv="city_id,name\n" + "".join(f"{n},City {n}\n" for n in range(30)),
        people_csv="person_id,name,city_id\n1,Ann,1\n2,Bob,77\n3,Cid,88\n4,Dee,2\n5,Eve,3\n",
    )
    [kind] = [each for each in found["left_out"] if each["rejected"]]
    assert (kind["count"], "…" in kind["reason"]) == (2, True)


def test_what_the_data_call_void_is_told_and_is_no_warning(tmp_path: Path) -> None:
    terms = "[Term]\nid: G:1\nname: one\n\n[Term]\nid: G:2\nname: two\nis_a: G:1\n\n"
    old = "[Term]\nid: G:3\nname: old\nis_obsolete: true\n"
    found = taken(tmp_path, "graph", g_obo=f"format-version: 1.2\n\n{terms}{old}")
    [left] = found["left_out"]
    assert (left["reason"], left["example"], found["warnings"]) == ("obsolete term", "G:3", [])


def test_a_relation_that_is_a_code_keeps_its_letters(tmp_path: Path) -> None:
    found = taken(
        tmp_path,
        "tables",
        nodes_tsv="id\tname\tkind\nG1\tA1BG\tGene\nD1\tflu\tDisease\n",
        edges_tsv="source\tmetaedge\ttarget\nG1\tGaD\tD1\nD1\tlocatedIn\tG1\n",
    )
    assert {each["name"] for each in found["relations"]} == {"GaD", "located in"}


def test_keys_that_come_again_are_one_kind_and_no_property_is_told_twice(tmp_path: Path) -> None:
    rows = "1,Ann,1.5\n2,Bob,2.5\n3,Cid,3.5\n4,Dee,4.5\n" * 2
    nodes = f"id,name,body_mass\n{rows}"
    found = taken(tmp_path, "tables", birds_csv=nodes.replace("1,Ann,1.5", "5,Eve,5.5", 1))
    names = [each["name"] for each in found["properties"]]
    assert names.count("body mass") + names.count("body_mass") == 1

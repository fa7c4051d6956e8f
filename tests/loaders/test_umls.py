from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kgqa.errors import DumpMalformedError, DumpNotFoundError, UsageError
from kgqa.loaders import make_loader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.loaders.conftest import Loaded

    Load = Callable[..., Loaded]
    Write = Callable[..., Path]


def name(cui: str, text: str, **fields: str) -> str:
    known = {"LAT": "ENG", "TS": "P", "STT": "PF", "ISPREF": "Y", "SAB": "NCI", "TTY": "PT"}
    known |= {"SUPPRESS": "N"} | fields
    order = "LAT,TS,LUI,STT,SUI,ISPREF,AUI,SAUI,SCUI,SDUI,SAB,TTY,CODE,STR,SRL,SUPPRESS,CVF"
    known["STR"] = text
    return "|".join([cui, *(known.get(column, "") for column in order.split(","))]) + "|"


def relation(
    cui1: str, rel: str, cui2: str, rela: str = "", sab: str = "NCI", suppress: str = "N"
) -> str:
    return f"{cui1}|A{cui1}|AUI|{rel}|{cui2}|A{cui2}|AUI|{rela}|R1||{sab}|{sab}|||{suppress}||"


CONCEPTS = [name("C1", "Mesna"), name("C2", "Cystitis"), name("C3", "Drug")]


def edges_of(loaded: Loaded) -> set[tuple[str, str, str]]:
    return {edge for edge in loaded.edges if edge[1] != "has_semantic_type"}


def test_a_row_says_what_the_second_concept_is_to_the_first(load: Load, write: Write) -> None:
    folder = write("M/MRCONSO.RRF", *CONCEPTS).parent
    # CUI1 cystitis, CUI2 mesna: mesna may treat cystitis. CUI1 mesna, CUI2 drug: drug is parent.
    write(
        "M/MRREL.RRF",
        relation("C2", "RO", "C1", "may_treat"),
        relation("C1", "PAR", "C3"),
        relation("C1", "XR", "C2"),
        relation("C1", "RO", "C3", suppress="O"),
        relation("C1", "RO", "C9"),
    )
    loaded = load("umls", folder)
    assert edges_of(loaded) == {("C1", "may_treat", "C2"), ("C1", "CHD", "C3")}
    assert loaded.relations["CHD"] == "child of"
    assert loaded.report.dropped == {
        "stated not to be related": 1,
        "suppressed relation": 1,
        "relation with a concept without a name": 1,
    }


@pytest.mark.parametrize("documented", [True, False], ids=["by MRDOC", "by the bundled list"])
def test_inverse_rows_are_one_edge_whichever_comes_first(
    load: Load, write: Write, documented: bool
) -> None:
    folder = write("M/MRCONSO.RRF", *CONCEPTS).parent
    rows = [
        relation("C2", "RO", "C1", "may_treat"),
        relation("C1", "RO", "C2", "may_be_treated_by"),
        relation("C1", "RO", "C2", "may_be_treated_by", sab="MSH"),
        relation("C2", "RO", "C1", "may_treat", sab="MSH"),
        relation("C1", "PAR", "C3"),
        relation("C3", "CHD", "C1"),
        relation("C1", "SIB", "C2"),
        relation("C2", "SIB", "C1"),
        relation("C1", "SY", "C1"),
    ]
    if documented:
        write(
            "M/MRDOC.RRF",
            "RELA|may_treat|rela_inverse|may_be_treated_by|",
            "RELA|may_be_treated_by|rela_inverse|may_treat|",
            "RELA|may_treat|expanded_form|May treat|",
        )
    for order in (rows, rows[::-1]):
        write("M/MRREL.RRF", *order)
        loaded = load("umls", folder)
        assert edges_of(loaded) == {
            ("C1", "may_treat", "C2"),
            ("C1", "CHD", "C3"),
            ("C1", "SIB", "C2"),
        }
        assert loaded.properties("C1", "may_treat", "C2") == {"sources": ["MSH", "NCI"]}
        dropped = loaded.report.dropped
        assert dropped["relation of a concept to itself"] == 1
        assert dropped["inverse of a loaded row"] + dropped["same relation again"] == 5
        assert dropped["inverse of a loaded row"] >= 2


def test_a_mirrored_row_that_is_missing_loses_nothing(load: Load, write: Write) -> None:
    folder = write("M/MRCONSO.RRF", *CONCEPTS).parent
    write("M/MRREL.RRF", relation("C3", "CHD", "C1"), relation("C2", "PAR", "C3"))
    assert edges_of(load("umls", folder)) == {("C1", "CHD", "C3"), ("C2", "CHD", "C3")}


def test_the_preferred_name_is_the_best_ranked_unsuppressed_english_one(
    load: Load, write: Write
) -> None:
    folder = write(
        "M/MRCONSO.RRF",
        name("C1", "Cold variant", SAB="MSH", TTY="EN", ISPREF="N", STT="VO"),
        name("C1", "Common cold", SAB="MSH", TTY="MH"),
        name("C1", "Cold", SAB="MSH", TTY="EN"),
        name("C1", "Rhume", LAT="FRE", SAB="XX", TTY="PT"),
        name("C1", "Obsolete cold", SAB="XX", TTY="PT", SUPPRESS="O"),
        name("C2", "zebra", SAB="ZZ", TTY="PT", TS="S"),
        name("C2", "antelope", SAB="ZZ", TTY="PT", TS="P"),
        name("C3", "nur Deutsch", LAT="GER"),
    ).parent
    write("M/MRRANK.RRF", "0400|XX|PT|N|", "0300|MSH|MH|N|", "0200|MSH|EN|N|", "0001|MSH|MH|Y|")
    loaded = load("umls", folder)
    assert loaded.names() == {"C1": "Common cold", "C2": "antelope"}
    assert loaded.entities["C1"]["aliases"] == ["Cold", "Cold variant"]
    assert dict(loaded.report.dropped) == {"other language": 2, "suppressed name": 1}


def test_types_definitions_and_the_semantic_network(load: Load, write: Write) -> None:
    folder = write("2024AA/META/MRCONSO.RRF", *CONCEPTS).parent.parent
    write("2024AA/META/MRSTY.RRF", "C2|T047|B2.2|Disease or Syndrome|AT1||", "C9|T047|B|D|A||")
    write(
        "2024AA/META/MRDEF.RRF",
        "C2|A1|AT1||OLD|Outdated.|O||",
        "C2|A1|AT1||NCI|Inflammation of the bladder.|N||",
    )
    write(
        "2024AA/NET/SRDEF",
        "STY|T038|Biologic Function|B|A state.||NULL||biof||",
        "STY|T047|Disease or Syndrome|B2|A condition.||NULL||dsyn||",
        "RL|T151|affects|R3|Produces an effect.||||AF|affected_by|",
    )
    write(
        "2024AA/NET/SRSTR",
        "Disease or Syndrome|isa|Biologic Function|D|",
        "Disease or Syndrome|affects|Biologic Function|D|",
        "Biologic Function|isa||D|",
    )
    loaded = load("umls", folder)
    assert loaded.edges == {("C2", "has_semantic_type", "T047"), ("T047", "isa", "T038")}
    assert loaded.entities["C2"]["types"] == ["Disease or Syndrome"]
    assert json.loads(loaded.entities["C2"]["properties"]) == {
        "definition": "Inflammation of the bladder.",
        "definition_source": "NCI",
    }
    assert loaded.entities["T047"]["name"] == "Disease or Syndrome"
    assert loaded.entities["T151"]["types"] == ["Semantic Relation"]


def test_columns_are_where_the_release_says(load: Load, write: Write) -> None:
    folder = write("M/MRCONSO.RRF", "Mesna|N|C1|ENG|P|PF|Y|NCI|PT|").parent
    columns = "STR,SUPPRESS,CUI,LAT,TS,STT,ISPREF,SAB,TTY"
    files = write("M/MRFILES.RRF", f"MRCONSO.RRF|Names|{columns}|9|1|1|")
    assert load("umls", folder).names() == {"C1": "Mesna"}
    write("M/MRCOLS.RRF", "CUI|x||1|1|1|MRCONSO.RRF|char(8)|")
    with pytest.raises(DumpMalformedError, match="name different columns for MRCONSO"):
        load("umls", folder)
    folder.joinpath("MRCOLS.RRF").unlink()
    files.write_text("MRCONSO.RRF|Names|CUI,STR|2|1|1|\n")
    with pytest.raises(DumpMalformedError, match="has no column LAT"):
        load("umls", folder)


def test_rows_with_other_fields_are_rejected(load: Load, write: Write) -> None:
    path = write("MRCONSO.RRF", CONCEPTS[0], "C2|ENG|P|", "", CONCEPTS[2] + "more|")
    loaded = load("umls", path)
    assert loaded.names() == {"C1": "Mesna"}
    assert [row[:3] for row in loaded.rejects] == [
        ["MRCONSO.RRF", "2", "3 fields in place of 18"],
        ["MRCONSO.RRF", "4", "19 fields in place of 18"],
    ]


def test_a_folder_without_a_release_says_so(load: Load, write: Write) -> None:
    folder = write("M/MRREL.RRF", relation("C1", "RO", "C2")).parent
    with pytest.raises(DumpNotFoundError, match=r"MRCONSO\.RRF is missing in"):
        load("umls", folder)
    with pytest.raises(DumpNotFoundError, match="is not a UMLS release"):
        load("umls", folder / "nowhere")
    write("M/MRCONSO.RRF", "a,b,c")
    with pytest.raises(DumpMalformedError, match="1 fields in place of 18"):
        load("umls", folder)


def test_a_name_without_a_rank_gives_way_to_one_with_a_rank(load: Load, write: Write) -> None:
    folder = write(
        "M/MRCONSO.RRF",
        name("C0000001", "aaa unranked", SAB="ZZ", TTY="PT"),
        name("C0000001", "zzz ranked", SAB="MSH", TTY="MH", TS="S", STT="VO", ISPREF="N"),
        name("C0000001", "", SAB="MSH", TTY="MH"),
        name("C0000001", " \u00a0", SAB="MSH", TTY="MH"),
        name("", "nobody"),
    ).parent
    write("M/MRRANK.RRF", "0001|MSH|MH|N|", "x|ZZ|PT|N|")
    loaded = load("umls", folder)
    assert loaded.names() == {"C0000001": "zzz ranked"}
    assert loaded.report.dropped == {"empty name": 2, "name without a concept": 1}


def test_ids_of_any_form_stand_side_by_side(load: Load, write: Write) -> None:
    # NCI's own releases have CL and six digits beside C and seven.
    ids = ["C0000001", "CL123456", "C9999999", "D1234567", "C123456x", "c0000001", "Cörrd7", "C1"]
    folder = write("M/MRCONSO.RRF", *(name(id_, f"name of {id_}") for id_ in ids)).parent
    pairs = [(id_, other) for id_ in ids for other in ids if id_ < other]
    write(
        "M/MRREL.RRF",
        *(relation(other, "SIB", one) for one, other in pairs),
        *(relation(one, "SIB", other) for one, other in pairs),
        *(relation(one, "PAR", other) for one, other in pairs),
    )
    loaded = load("umls", folder)
    assert loaded.names() == {id_: f"name of {id_}" for id_ in ids}
    assert edges_of(loaded) == {
        edge for one, other in pairs for edge in [(one, "SIB", other), (one, "CHD", other)]
    }


def test_only_some_sources(load: Load, write: Write) -> None:
    folder = write(
        "M/MRCONSO.RRF",
        name("C0000001", "Mesna"),
        name("C0000001", "Mesna of MeSH", SAB="MSH"),
        name("C0000002", "Cystitis"),
        name("C0000003", "Drug", SAB="MSH"),
    ).parent
    write(
        "M/MRREL.RRF",
        relation("C0000002", "RO", "C0000001", "may_treat"),
        relation("C0000002", "RO", "C0000001", "may_treat", sab="MSH"),
        relation("C0000001", "PAR", "C0000003"),
        relation("C0000001", "SIB", "C0000002", sab="MSH"),
    )
    write(
        "M/MRDEF.RRF",
        "C0000001|A1|AT1||MSH|Of MeSH.|N||",
        "C0000001|A1|AT1||NCI|Of NCI.|N||",
    )
    write("M/MRSTY.RRF", "C0000001|T121|A1|Pharmacologic Substance|AT1||")
    loaded = load("umls", folder, sources="NCI")
    assert loaded.entities["C0000001"]["aliases"] == []
    assert edges_of(loaded) == {("C0000001", "may_treat", "C0000002")}
    assert loaded.properties("C0000001", "may_treat", "C0000002") == {"sources": ["NCI"]}
    assert json.loads(loaded.entities["C0000001"]["properties"])["definition"] == "Of NCI."
    assert ("C0000001", "has_semantic_type", "T121") in loaded.edges
    assert loaded.report.dropped == {"other source": 5, "relation with a concept without a name": 1}
    assert set(load("umls", folder, sources=" NCI ,MSH").names()) == {
        "C0000001",
        "C0000002",
        "C0000003",
        "T121",
    }


def test_a_source_that_the_release_has_not_is_named_with_those_near_it(
    load: Load, write: Write
) -> None:
    folder = write("M/MRCONSO.RRF", *CONCEPTS).parent
    row = "||NCI_2014|{}|National Cancer Institute" + "|" * 21
    write("M/MRSAB.RRF", row.format("NCI"), row.format("SNOMEDCT_US"), row.format("MSH"))
    assert len(load("umls", folder, sources="NCI").entities) == 3
    with pytest.raises(UsageError, match=r"no source SNOMEDCT, nci\..*: NCI, SNOMEDCT_US\."):
        load("umls", folder, sources="nci,SNOMEDCT,MSH")
    with pytest.raises(UsageError, match="list of UMLS sources is empty"):
        make_loader("umls", sources=" ,")


def test_known_facts_of_a_real_release(load: Load, shared: Path) -> None:
    loaded = load("umls", shared / "umls")
    names = {ident: row["name"] for ident, row in loaded.entities.items()}
    facts = {(names[h], r, names[t]) for h, r, t in edges_of(loaded)}
    treated = {(h, t) for h, r, t in facts if r == "may_treat"}
    assert ("Mesna", "Cystitis") in treated
    assert ("Acetylcysteine", "Drug Toxicity") in treated
    assert ("Cystitis", "Mesna") not in treated
    assert ("Mesna", "ingredient_of", "Mesna 400 MG Oral Tablet") in facts
    assert not any(h.startswith("Mesna 400 MG") for h, r, _ in facts if r == "ingredient_of")
    assert ("Disease or Syndrome", "isa", "Pathologic Function") in facts
    assert not {"may_be_treated_by", "has_ingredient", "inverse_isa", "PAR", "RB"} & set(
        loaded.relations
    )


def test_a_real_release_agrees_with_a_count_of_its_rows(load: Load, shared: Path) -> None:
    loaded = load("umls", shared / "umls")

    def rows(file: str) -> list[list[str]]:
        text = (shared / "umls" / file).read_text(encoding="utf-8")
        return [row.split("|") for row in text.split("\n") if row]

    cuis = {row[0] for row in rows("MRCONSO.RRF") if row[16] == "N"}
    concepts = {ident for ident in loaded.entities if ident.startswith("C")}
    assert concepts == cuis
    # Whatever the direction, what is related in the release is related in the graph.
    related = {
        frozenset((row[0], row[4]))
        for row in rows("MRREL.RRF")
        if row[0] != row[4] and {row[0], row[4]} <= cuis
    }
    ours = {frozenset((h, t)) for h, _, t in loaded.edges if {h, t} <= cuis}
    assert ours == related
    # Each of our edges is a row, read from the second concept to the first.
    stated = {(row[4], row[7] or row[3], row[0]) for row in rows("MRREL.RRF")}
    assert {edge for edge in loaded.edges if {edge[0], edge[2]} <= cuis} <= stated
    # Half of the distinct facts: each stands there from either end.
    facts = {edge for edge in stated if edge[0] != edge[2] and {edge[0], edge[2]} <= cuis}
    edges = sum(1 for edge in loaded.edges if {edge[0], edge[2]} <= cuis)
    assert edges == len(facts) / 2
    types = {(row[0], row[1]) for row in rows("MRSTY.RRF") if row[0] in cuis}
    assert {(h, t) for h, r, t in loaded.edges if r == "has_semantic_type"} == types
    preferred = {
        row[0]: row[14]
        for row in rows("MRCONSO.RRF")
        if (row[2], row[4], row[6], row[16]) == ("P", "PF", "Y", "N")
    }
    strings: dict[str, set[str]] = {}
    for row in rows("MRCONSO.RRF"):
        if row[16] == "N":
            strings.setdefault(row[0], set()).add(row[14])
    for cui, known in strings.items():
        entity = loaded.entities[cui]
        assert {entity["name"], *entity["aliases"]} == known
    stating: dict[frozenset[str], set[str]] = {}
    for row in rows("MRREL.RRF"):
        stating.setdefault(frozenset((row[0], row[4])), set()).add(row[10])
    united: dict[frozenset[str], set[str]] = {}
    for head, _, tail, about in loaded.edge_rows:
        if {head, tail} <= cuis:
            united.setdefault(frozenset((head, tail)), set()).update(
                json.loads(about or "{}")["sources"]
            )
    assert united == {pair: stating[pair] for pair in related}
    defined = {row[0] for row in rows("MRDEF.RRF") if row[0] in cuis}
    assert {cui for cui in cuis if loaded.entities[cui]["properties"]} == defined
    agree = sum(loaded.entities[cui]["name"] == text for cui, text in preferred.items())
    assert agree >= 0.99 * len(preferred)
    assert loaded.report.rejected == 0

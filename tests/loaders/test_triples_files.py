"""Files of triples as people have them: in parts, compressed, from other programs, with names."""

from __future__ import annotations

import bz2
import gzip
import io
import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.graph.model import Kind
from kgqa.loaders import blocks
from kgqa.loaders.triples import MediatorRule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.loaders.conftest import Loaded

    Load = Callable[..., Loaded]
    Write = Callable[..., Path]

LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
ALT = "<http://www.w3.org/2004/02/skos/core#altLabel>"
KIND = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


@pytest.fixture(params=["whole", "small blocks"])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "small blocks":
        monkeypatch.setattr(blocks, "BLOCK_BYTES", 16)


pytestmark = pytest.mark.usefixtures("_blocks")


@pytest.mark.parametrize("gap", ["\t", " "])
def test_openke_files_as_they_are(load: Load, write: Write, gap: str) -> None:
    loaded = load(
        "triples",
        write("train2id.txt", "3", *(gap.join(row) for row in ("010", "121", "200"))),
        columns="head,tail,relation",
        names=write("entity2id.txt", "3", "/m/a\t0", f"/m/b{gap}1", "New York\t2"),
        relation_names=write("relation2id.txt", "2", "/p/is_in\t0", f"/p/has{gap}1"),
    )
    assert loaded.names() == {"0": "/m/a", "1": "/m/b", "2": "New York"}
    assert loaded.relations == {"0": "/p/is_in", "1": "/p/has"}
    assert loaded.edges == {("0", "0", "1"), ("1", "1", "2"), ("2", "0", "0")}
    assert loaded.report.dropped == {"count of lines": 3}
    assert loaded.report.rejected == 0


def test_openke_files_are_known_by_their_names(load: Load, write: Write, tmp_path: Path) -> None:
    write("fb/entity2id.txt", "2", "/m/a\t0", "/m/b\t1")
    write("fb/relation2id.txt", "1", "/p/is_in\t0")
    write("fb/type_constrain.txt", "1", "0\t2\t1\t0")
    write("fb/valid2id.txt", "1", "1 0 0")
    train = write("fb/train2id.txt", "1", "0 1 0")
    for given, edges in (
        (train, {("0", "0", "1")}),
        (train.parent, {("0", "0", "1"), ("1", "0", "0")}),
    ):
        loaded = load("triples", given)
        assert loaded.names() == {"0": "/m/a", "1": "/m/b"}
        assert loaded.relations == {"0": "/p/is_in"}
        assert loaded.edges == edges


@pytest.mark.parametrize("order", ["relation,head,tail", "head,tail,relation"])
def test_values_say_where_the_relation_stands(load: Load, write: Write, order: str) -> None:
    triples = [(f"n{at}", f"likes{at % 3}", f"n{at + 1}") for at in range(30)]
    places = [("head", "relation", "tail").index(part) for part in order.split(",")]
    rows = ["\t".join(row[at] for at in places) for row in triples]
    loaded = load("triples", write("kg.tsv", *rows), write("more.tsv", rows[0]))
    assert loaded.edges == {*triples}
    plain = ["\t".join((head, "likes", tail)) for head, _, tail in triples]
    assert {relation for _, relation, _ in load("triples", write("p.tsv", *plain)).edges} == {
        "likes"
    }


def test_a_list_of_edges_with_weights_is_refused(load: Load, write: Write) -> None:
    rows = [f"n{at}\tn{at + 1}\t{at % 4 + 1}" for at in range(30)]
    with pytest.raises(DumpMalformedError, match="edge list without a relation: column 3"):
        load("triples", write("kg.tsv", *rows))
    ids = [f"{at}\t{at + 1}\t{900 + at % 4}" for at in range(30)]
    assert ("0", "900", "1") in load("triples", write("ids.tsv", *ids)).edges


def test_a_count_before_names_whose_ids_stand_first(load: Load, write: Write) -> None:
    names = write("names.tsv", "2", "a\tAnn", "b\t7")
    loaded = load("triples", write("kg.tsv", "a\tr\tb"), names=names)
    assert loaded.names() == {"a": "Ann", "b": "7"}
    assert loaded.report.dropped == {"count of lines": 1}


def test_names_that_are_numbers_stay_names(load: Load, write: Write) -> None:
    loaded = load("triples", write("kg.tsv", "a\tr\t1"), names=write("n.tsv", "a\t1", "1\t2"))
    assert loaded.names() == {"a": "1", "1": "2"}
    assert loaded.entities["a"]["aliases"] == []


def test_the_first_name_in_a_file_is_the_name(load: Load, write: Write) -> None:
    names = write(
        "n.tsv", "a\tZoe ", "a\t Ann\tB", "b\tx", "a\tZoe", "a\ta", b"a\t\xff", "c", "\td"
    )
    loaded = load("triples", write("kg.tsv", "a\tr\tb", "b\tr\tc"), names=names)
    assert loaded.names() == {"a": "Zoe", "b": "x", "c": "c"}
    assert loaded.entities["a"]["aliases"] == ["Ann", "a"]
    assert [row[1:3] for row in loaded.rejects] == [
        ["6", "not UTF-8 (invalid start byte)"],
        ["7", "no line of names (id TAB name)"],
        ["8", "no line of names (id TAB name)"],
    ]


def test_the_last_name_of_a_relation_counts(load: Load, write: Write) -> None:
    names = write("r.tsv", "r\t x\t1", "r\ty", "s\tz")
    loaded = load("triples", write("kg.tsv", "a\tr\tb"), relation_names=names)
    assert loaded.relations == {"r": "y"}


def test_a_folder_of_parts_each_in_its_own_compression(load: Load, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    header = b"head,relation,tail\n"
    (folder / "part-0.csv.gz").write_bytes(gzip.compress(header + b"a,r,b\n"))
    (folder / "part-1.csv.bz2").write_bytes(bz2.compress(header + b"b,r,c\n"))
    zst = pa.BufferOutputStream()
    with pa.CompressedOutputStream(zst, "zstd") as sink:
        sink.write(header + b'c,r,"d\ne"\n')
    (folder / "part-2.csv.zst").write_bytes(zst.getvalue().to_pybytes())
    (folder / "part-3.jsonl").write_bytes(b'["d","r","e"]\n')
    pq.write_table(
        pa.table({"head": [1], "relation": ["r"], "tail": ["e"]}), folder / "part-4.parquet"
    )
    for mark in ("_SUCCESS", "._hidden"):
        (folder / mark).touch()
    loaded = load("triples", folder)
    assert {(head, tail) for head, _, tail in loaded.edges} == {
        ("a", "b"),
        ("b", "c"),
        ("c", "d\ne"),
        ("d", "e"),
        ("1", "e"),
    }
    assert loaded.report.dropped == {"header": 3}
    assert loaded.report.lines == 9


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("a\tr\tb\n", {("a", "r", "b")}),
        ("# x\n<a:s> <a:p> <a:o> .\n", {("a:s", "a:p", "a:o")}),
        ('\n{"head": "a", "relation": "r", "tail": "b"}\n', {("a", "r", "b")}),
        ('["a", "r", "b"]', {("a", "r", "b")}),
        ("[a] r b\n{c} r d\n", {("[a]", "r", "b"), ("{c}", "r", "d")}),
    ],
)
def test_standard_input_tells_its_form(
    load: Load,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    edges: set[tuple[str, str, str]],
) -> None:
    path = write("kg", text, end="")  # a file without an ending, too
    assert load("triples", path).edges == edges
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode())))
    monkeypatch.setattr("sys.stdin", stdin)
    assert load("triples", path.__class__("-")).edges == edges


def test_parquet_is_not_read_from_standard_input(load: Load, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read from standard input"):
        load("triples", tmp_path.__class__("-"), form="parquet")


def test_a_line_end_in_quotes_is_part_of_a_name(load: Load, write: Write) -> None:
    loaded = load(
        "triples",
        write(
            "kg.csv",
            "head,relation,tail,note",
            'a,r,"b',
            ' ""and"" c","x',
            "",
            'y"',
            '"a",r,c,',
            '5" disk,r,d,"open',
            "e,r,f,",
        ),
    )
    assert loaded.edges == {("a", "r", 'b\n "and" c'), ("a", "r", "c"), ("e", "r", "f")}
    assert loaded.properties("a", "r", 'b\n "and" c') == {"note": "x\n\ny"}
    assert [row[1:3] for row in loaded.rejects] == [["7", "unexpected end of data"]]
    assert loaded.report.lines == 8


def test_the_delimiter_is_found_behind_line_ends_in_quotes(load: Load, write: Write) -> None:
    rows = [f'{name},r,"one\ntwo\nthree\nfour"' for name in "abc"]
    loaded = load("triples", write("kg.csv", "\n".join(rows)))
    assert {head for head, _, _ in loaded.edges} == {"a", "b", "c"}
    assert loaded.report.rejected == 0


def test_labels_name_entities_and_relations_wherever_they_stand(load: Load, write: Write) -> None:
    loaded = load(
        "triples",
        write(
            "kg.nt",
            f'<x:p> {LABEL} "lies in" .',
            f'<x:p> {ALT} "is in" .',
            "<x:q> <x:sub> <x:p> .",
            f'<x:1> {LABEL} "Paris" .',
            "<x:1> <x:p> <x:2> .",
            "<x:2> <x:q> <x:3> .",
            f'<x:q> {LABEL} "has" .',
            f'<x:2> {LABEL} "France" .',
            f'<x:2> {LABEL} "Republic" .',
            f'<x:3> {ALT} "third" .',
            f"<x:4> {KIND} <x:T> .",
            f'<x:r> {LABEL} "no one\'s" .',
        ),
        names=write("names.tsv", "x:1\tParis, France", "x:p\tlies within", "x:0\tnobody"),
    )
    assert loaded.names() == {
        "x:1": "Paris, France",
        "x:2": "France",
        "x:3": "x:3",
        "x:4": "x:4",
        "x:T": "x:T",
        "x:p": "lies within",
        "x:q": "has",
        "x:r": "no one's",
    }
    assert loaded.entities["x:1"]["aliases"] == ["Paris"]
    assert loaded.entities["x:2"]["aliases"] == ["Republic"]
    assert loaded.entities["x:3"]["aliases"] == ["third"]
    assert loaded.entities["x:4"]["types"] == ["x:T"]
    own = {"x:p": "lies within", "x:q": "has", "x:sub": "x:sub"}
    assert {id_: name for id_, name in loaded.relations.items() if id_[0] == "x"} == own
    assert loaded.report.dropped == {"name of an unknown entity": 1}


def test_a_relation_with_a_label_is_no_entity(load: Load, write: Write) -> None:
    lines = [f'<x:p> {LABEL} "lies in" .', f"<x:p> {KIND} <x:Property> .", "<x:1> <x:p> <x:2> ."]
    for order in (lines, lines[::-1]):
        loaded = load("triples", write("kg.nt", *order))
        assert set(loaded.entities) == {"x:1", "x:2", "x:Property"}
        assert loaded.relations == {"x:p": "lies in"}
        assert loaded.edges == {("x:1", "x:p", "x:2")}
        dropped = {"type of an unknown entity": 1, "edge with an unknown end": 1}
        assert loaded.report.dropped == dropped  # it is a relation


def test_a_label_anywhere_makes_a_mediator_an_entity(load: Load, write: Write) -> None:
    lines = [
        "<x:1> <x:p> <x:m.1> .",
        "<x:m.1> <x:q> <x:m.2> .",
        f'<x:m.2> {LABEL} "Named" .',
        f"<x:m.3> {KIND} <x:T> .",
        '<x:m.1> <x:q> "1"^^<x:t> .',
    ]
    for order in (lines, lines[::-1]):
        loaded = load("triples", write("kg.nt", *order), mediators=r"x:m\.")
        kinds = {ident: Kind(row["kind"]).name for ident, row in loaded.entities.items()}
        assert kinds == {
            "x:1": "ENTITY",
            "x:m.1": "MEDIATOR",
            "x:m.2": "ENTITY",
            "x:m.3": "MEDIATOR",
            "x:T": "ENTITY",
            '"1"^^<x:t>': "VALUE",
        }
        assert loaded.names()["x:m.1"] is None


def test_columns_say_what_json_arrays_hold(load: Load, write: Write) -> None:
    path = write("kg.jsonl", '["a", "b", "r", 0.5]', '["a", "b", "r"]')
    loaded = load("triples", path, columns="head,tail,relation,weight")
    assert loaded.edges == {("a", "r", "b")}
    assert loaded.properties("a", "r", "b") == {"weight": 0.5}
    assert [row[2] for row in loaded.rejects] == ["3 fields in place of 4"]


def test_half_a_surrogate_in_json_is_rejected(load: Load, write: Write) -> None:
    loaded = load("triples", write("kg.jsonl", r'["\ud800", "r", "b"]', '["a", "r", "b"]'))
    assert loaded.edges == {("a", "r", "b")}
    assert [row[1:3] for row in loaded.rejects] == [["1", "half of a surrogate pair in an escape"]]


def test_files_of_names_that_cannot_be_meant(load: Load, write: Write, tmp_path: Path) -> None:
    path = write("kg.tsv", "a\tr\tb")
    with pytest.raises(DumpMalformedError, match="holds no line of names"):
        load("triples", path, names=write("names.tsv", "a"))
    with pytest.raises(UsageError, match="is a folder"):
        load("triples", path, types=tmp_path)


IDS = ["m.1", "m.", "g.x", "M.1", "mm", "a|b", "1", "٣", "x\nm.1", "", "é", "m.1\n", "[", "ab"]


PATTERNS = [r"^[mg]\.", r"m\.|1", "m.1$", r"\d", r"(?i)M\.", "a|", ".b", "x.m", "[^m]", "é"]
PATTERNS += [r"\[", "a*+b", "m{1}", "[[]", r"\w", "(m|g).", "m.?", "^^m", "x$"]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.filterwarnings("ignore:Possible nested set")
def test_a_pattern_means_what_it_means_to_python(pattern: str) -> None:
    expected = [re.match(pattern, ident) is not None for ident in IDS]
    assert MediatorRule(pattern).match(pa.array(IDS)).tolist() == expected


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        ("n.csv", ["id,name,type", 'a,"York, UK",city', "b,Zoe,person"]),
        ("n.tsv", ["entity_id\tentity_type\tentity_name", "a\tcity\tYork, UK", "b\tperson\tZoe"]),
        ("n.csv", ["name;nodeId", "York, UK;a", "Zoe;b"]),
        ("n.csv", ['a,"York, UK"', 'b,"Zoe"']),
    ],
)
def test_a_header_says_which_columns_of_a_file_of_names_are_read(
    load: Load, write: Write, file: str, lines: list[str]
) -> None:
    loaded = load("triples", write("kg.tsv", "a\tr\tb"), names=write(file, *lines))
    assert loaded.names() == {"a": "York, UK", "b": "Zoe"}
    assert loaded.report.rejected == 0


def test_labels_of_wikidata_s_properties_name_relations(load: Load, write: Write) -> None:
    w, label = "http://www.wikidata.org", "<http://www.w3.org/2000/01/rdf-schema#label>"
    statement = f"<{w}/entity/statement/s1>"
    loaded = load(
        "triples",
        write(
            "w.nt",
            f'<{w}/entity/P19> {label} "place of birth"@en .',
            f'<{w}/entity/P19> {label} "Geburtsort"@de .',
            f"<{w}/entity/P19> <http://wikiba.se/ontology#directClaim> <{w}/prop/direct/P19> .",
            f"<{w}/entity/Q1> <{w}/prop/direct/P19> <{w}/entity/Q2> .",
            f"<{w}/entity/Q1> <{w}/prop/P19> {statement} .",
            f"{statement} <{w}/prop/statement/P19> <{w}/entity/Q2> .",
            f'<{w}/entity/Q1> {label} "Mira"@de .',
            f'<{w}/entity/Q1> {label} "Myra"@fr .',
            f'<{w}/entity/Q2> {label} "Hamar"@de .',
            f'<{w}/entity/Q2> {label} "Hamar, Norway"@en-GB .',
        ),
    )
    assert {*loaded.relations.values()} == {"place of birth"}
    assert {name for name in loaded.names().values() if name} == {"Mira", "Hamar, Norway"}
    assert not any(row["aliases"] for row in loaded.entities.values())
    assert loaded.kinds() == {"ENTITY": 2, "MEDIATOR": 1}
    assert loaded.report.dropped["statement on how a property is written"] == 1
    assert loaded.report.dropped["other language"] == 2  # Myra, Hamar in German

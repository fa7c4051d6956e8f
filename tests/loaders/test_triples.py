from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgqa.errors import DumpMalformedError, DumpNotFoundError, UsageError
from kgqa.graph.model import Kind
from kgqa.loaders import make_loader
from kgqa.registry import LOADERS, Entry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.loaders.conftest import Loaded

    Load = Callable[..., Loaded]
    Write = Callable[..., Path]

FACTS = {("Ann Lee", "knows", "Bob, Jr."), ("Bob, Jr.", "lives in", 'The "Oaks"')}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("plain.txt", ["Ann Lee\tknows\tBob, Jr.", 'Bob, Jr.\tlives in\tThe "Oaks"']),
        ("bars.txt", ["Ann Lee|knows|Bob, Jr.", 'Bob, Jr.|lives in|The "Oaks"']),
        (
            "quoted.csv",
            [
                'Ann Lee, knows,"Bob, Jr."'.replace(", knows", ",knows"),
                '"Bob, Jr.",lives in,"The ""Oaks"""',
            ],
        ),
        (
            "header.tsv",
            ["Tail\tHead\tRelation", "Bob, Jr.\tAnn Lee\tknows", 'The "Oaks"\tBob, Jr.\tlives in'],
        ),
        (
            "spo.tsv",
            [
                "object\tsubject\tpredicate",
                "Bob, Jr.\tAnn Lee\tknows",
                'The "Oaks"\tBob, Jr.\tlives in',
            ],
        ),
        (
            "lines.jsonl",
            [
                '{"head": "Ann Lee", "relation": "knows", "tail": "Bob, Jr."}',
                r'["Bob, Jr.", "lives in", "The \"Oaks\""]',
            ],
        ),
    ],
)
def test_the_same_facts_in_many_forms(
    load: Load, write: Write, name: str, lines: list[str]
) -> None:
    loaded = load("triples", write(name, *lines, end="\r\n"))
    assert loaded.edges == FACTS
    assert loaded.names()["Bob, Jr."] == "Bob, Jr."
    assert loaded.report.rejected == 0


def test_parquet(load: Load, tmp_path: Path) -> None:
    path = tmp_path / "kg.parquet"
    columns = {"tail": ["b", None, "c"], "weight": [0.5, 1, 2], "head": ["a", "b", "b"]}
    pq.write_table(pa.table({**columns, "relation": ["r", "r", "r"]}), path)
    loaded = load("triples", path)
    assert loaded.edges == {("a", "r", "b"), ("b", "r", "c")}
    assert loaded.properties("a", "r", "b") == {"weight": 0.5}
    assert [row[1:3] for row in loaded.rejects] == [["2", "tail is empty"]]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DumpMalformedError, match="is not a Parquet file"):
        load("triples", path)


def test_words_parted_by_spaces(load: Load, write: Write) -> None:
    loaded = load("triples", write("kg.txt", "a r b", "b   r c", "c r too many"))
    assert loaded.edges == {("a", "r", "b"), ("b", "r", "c")}
    assert [row[1:3] for row in loaded.rejects] == [["3", "4 fields in place of 3"]]


def test_columns_say_the_order(load: Load, write: Write) -> None:
    path = write("kg.tsv", "knows\tAnn\tBob\t0.7\tx")
    loaded = load("triples", path, columns="relation,head,tail,weight,_")
    assert loaded.edges == {("Ann", "knows", "Bob")}
    assert loaded.properties("Ann", "knows", "Bob") == {"weight": "0.7"}


def test_a_further_column_never_takes_the_place_of_a_part(load: Load, write: Write) -> None:
    loaded = load("triples", write("kg.csv", "head,relation,tail,source", "a,r,b,web"))
    assert loaded.edges == {("a", "r", "b")}
    assert loaded.properties("a", "r", "b") == {"source": "web"}


def test_a_first_line_of_words_is_a_header_only_if_it_says_so(load: Load, write: Write) -> None:
    path = write("kg.tsv", "head\tpart of\tbody", "x\ty\tz")
    assert ("head", "part of", "body") in load("triples", path).edges
    assert load("triples", path, header=True, columns="head,relation,tail").edges == {
        ("x", "y", "z")
    }


def test_names_types_and_relation_names_stand_beside_the_triples(load: Load, write: Write) -> None:
    loaded = load(
        "triples",
        write("kg.tsv", "/m/1\t/a/b\t/m/2"),
        names=write("names.tsv", "/m/1\tParis", "/m/1\tLutetia", "/m/9\tNobody", "broken"),
        types=write("types.tsv", "/m/1\tcity", "/m/1\tplace", "/m/9\tghost"),
        relation_names=write("relations.tsv", "/a/b\tlies in"),
    )
    assert loaded.names() == {"/m/1": "Paris", "/m/2": "/m/2"}
    assert loaded.entities["/m/1"]["aliases"] == ["Lutetia"]
    assert loaded.entities["/m/1"]["types"] == ["city", "place"]
    assert loaded.relations == {"/a/b": "lies in"}
    assert loaded.report.dropped == {"name of an unknown entity": 1, "type of an unknown entity": 1}
    assert [row[:3] for row in loaded.rejects] == [
        ["names.tsv", "4", "no line of names (id TAB name)"]
    ]


def test_mediators_by_pattern_and_by_file(load: Load, write: Write) -> None:
    path = write("kg.tsv", "Ann\thas\tm.01", "m.01\tis\tm.02", "m.02\tx\tAnn m.y")
    names = write("names.tsv", "m.02\tNamed")
    for mediators in (r"[mg]\.", write("mediators.txt", "m.01", "m.02")):
        loaded = load("triples", path, names=names, mediators=mediators)
        assert loaded.names() == {"Ann": "Ann", "m.01": None, "m.02": "Named", "Ann m.y": "Ann m.y"}
        assert loaded.entities["m.01"]["kind"] == Kind.MEDIATOR


def test_ntriples_bring_their_own_names_types_and_values(load: Load, write: Write) -> None:
    label, sub = (
        "<http://www.w3.org/2000/01/rdf-schema#label>",
        "<http://www.w3.org/2004/02/skos/core#altLabel>",
    )
    kind = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    integer = "<http://www.w3.org/2001/XMLSchema#integer>"
    loaded = load(
        "triples",
        write(
            "kg.nt",
            f'<http://x.org/1> {sub} "Lutetia" .',
            f'<http://x.org/1> {label} "Paris"@en .',
            f'<http://x.org/1> {label} "Parigi"@it .',
            f"<http://x.org/1> {kind} <http://x.org/City> .",
            "<http://x.org/1> <http://x.org/v#liesIn> <http://x.org/2> .",
            f'<http://x.org/1> <http://x.org/v#born> "250"^^{integer} .',
            "<http://x.org/1> <http://x.org/v#liesIn> _:b .",
        ),
    )
    assert loaded.names() == {
        "http://x.org/1": "Paris",
        "http://x.org/2": "http://x.org/2",
        "http://x.org/City": "City",
        '"250"^^xsd:integer': "250",
        "_:b": None,
    }
    assert loaded.entities["_:b"]["kind"] == Kind.MEDIATOR
    assert loaded.entities["http://x.org/1"]["aliases"] == ["Lutetia"]
    assert loaded.entities["http://x.org/1"]["types"] == ["City"]
    assert ("http://x.org/1", kind[1:-1], "http://x.org/City") in loaded.edges
    assert loaded.entities['"250"^^xsd:integer']["kind"] == Kind.VALUE
    assert loaded.relations["http://x.org/v#liesIn"] == "liesIn"
    assert not loaded.rejects


def test_damaged_lines_are_rejected_and_counted(load: Load, write: Write) -> None:
    loaded = load(
        "triples",
        write("kg.tsv", "a\tr\tb", "a\tr", "a\t\tb", "a\tr\tb\tc", "", "a\0\tr\tb", b"\xff\tr\tb"),
    )
    assert loaded.edges == {("a", "r", "b")}
    assert [row[2] for row in loaded.rejects] == [
        "2 fields in place of 3",
        "relation is empty",
        "4 fields in place of 3",
        "NUL character",
        "not UTF-8 (invalid start byte)",
    ]
    assert loaded.report.lines == 7
    loaded = load(
        "triples", write("kg.jsonl", '["a","r","b"]', "{", '{"head": "a"}', "3", '["a",1.5,"c"]')
    )
    assert [row[2] for row in loaded.rejects] == [
        "no JSON",
        "object without head, relation and tail",
        "neither a JSON object nor an array",
        "1.5 is neither an id nor a name",
    ]


def test_blanks_at_the_edges_of_a_field_are_no_part_of_an_id(load: Load, write: Write) -> None:
    loaded = load("triples", write("kg.tsv", "dog \tr\tdog"))
    assert loaded.names() == {"dog": "dog"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"direction": "up"}, "`direction` of the loader triples cannot be 'up'"),
        ({"form": "turtle"}, "`form` of the loader triples cannot be 'turtle'"),
        ({"columns": "head,tail"}, "are not head, relation and tail"),
        ({"columns": "head,head,relation,tail"}, "are not head, relation and tail"),
        ({"colour": "red"}, "`colour` does not belong to the loader triples"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_loader("triples", **options)


def test_a_loader_of_another_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_loader.py").write_text(
        "from kgqa.registry import Options, option\n"
        "class TheirOptions(Options):\n"
        "    size: int = option(1, 'How much.')\n"
        "class TheirLoader:\n"
        "    Options = TheirOptions\n"
        "    def __init__(self, options): self.options = options\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    added: dict[str, Entry] = {"theirs": Entry("theirs", "their_loader:TheirLoader")}
    monkeypatch.setattr(LOADERS, "_added", added)
    loader: Any = make_loader("theirs", size="3")
    assert loader.options.size == 3
    with pytest.raises(UsageError, match="`width` does not belong to the loader theirs"):
        make_loader("theirs", width=3)


def test_sources_that_cannot_be_meant(load: Load, write: Write) -> None:
    good = write("kg.tsv", "a\tr\tb")
    with pytest.raises(UsageError, match="neither a file nor a pattern"):
        load("triples", good, mediators="(")
    with pytest.raises(UsageError, match="is not one character"):
        load("triples", good, delimiter="::")
    with pytest.raises(DumpMalformedError, match="No delimiter splits the lines"):
        load("triples", write("prose.txt", "word", "another"))
    with pytest.raises(DumpMalformedError, match="is empty"):
        load("triples", write("empty.tsv"))
    with pytest.raises(DumpMalformedError, match="4 fields in place of 3"):
        load("triples", write("four.tsv", "a\tb\tc\td"))
    with pytest.raises(DumpNotFoundError, match=r"nowhere\.tsv"):
        load("triples", good, names=good.with_name("nowhere.tsv"))
    with pytest.raises(UsageError, match="The loader 'wikidata' does not exist"):
        make_loader("wikidata")

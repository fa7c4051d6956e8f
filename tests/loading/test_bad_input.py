"""What a load does with input that is not what it should be.

Either the load ends well, and each line that is not in the KG is reported with its number and
reason; or it ends with one clear line on stderr, exit code 1, and what was there before still
serves.
"""

from __future__ import annotations

import gzip
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kgqa as package
from kgqa.graph.neo4j_write import Neo4jWriter
from kgqa.graph.open import open_store
from kgqa.loaders import blocks
from kgqa.progress import Silent
from tests.loading.dumps import (
    BASE,
    EDGE,
    MANY,
    NAME,
    NS,
    PLAIN,
    assert_nothing_lost,
    dump_of,
    line,
    rejects_of,
    visible,
)

if TYPE_CHECKING:
    from tests.cli.conftest import Kgqa
    from tests.graph.neo4j_server import Neo4jServer

DATA = Path(package.__file__).parent / "data"
BOM = b"\xef\xbb\xbf"


# -- loads that end well ------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A dump, and what must come of it besides what its first three lines say."""

    name: str
    content: bytes
    file: str = "dump.nt"
    lines: int = 3
    rejects: tuple[tuple[int, str], ...] = ()
    dropped: dict[str, int] = field(default_factory=dict)
    entities: int = 2
    edges: int = 1
    names: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, list[str]] = field(default_factory=dict)


def with_lines(name: str, *more: str | bytes, end: bytes = b"\n", **expected: Any) -> Case:
    """A case of the three good lines and ``more``."""
    return Case(name, dump_of([*BASE, *more], end), lines=3 + len(more), **expected)


def rejected(name: str, row: str | bytes, reason: str) -> Case:
    """A case in which one more line is rejected, and a good one after it is not."""
    return with_lines(name, row, line("m.02", EDGE, "m.01"), rejects=((4, reason),), edges=2)


def named(name: str, written: str, shown: str) -> Case:
    """A case of an odd name."""
    row = line("m.03", NAME, f'"{written}"@en')
    return with_lines(name, row, entities=3, names={"m.03": shown})


def latin(subject: str, predicate: str, end: str) -> bytes:
    """A line with a byte in place of ``?`` that is not UTF-8."""
    return line(subject, predicate, end).encode().replace(b"?", b"\xfc")


ABOUT_SCHEMA = "about the schema, not about an entity"
CASES = [
    # files
    Case("nothing wrong", PLAIN),
    Case("no last line end", PLAIN[:-1]),
    Case("a file name with spaces and quotes", PLAIN, "my 'dump' (1) – ü.nt"),
    # lines
    with_lines("blank lines and comments", "", "  ", "# comment",
               dropped={"blank line or comment": 3}),
    with_lines("spaces for tabs", line("m.02", EDGE, "m.01").replace("\t", "  "), edges=2),
    with_lines("a comment behind a triple", line("m.02", EDGE, "m.01") + " # why", edges=2),
    with_lines("a lone carriage return in a text", line("m.03", NAME, '"a\rb"@en'), entities=3,
               names={"m.03": "a\rb"}),
    rejected("carriage returns alone", "\r".join(BASE), "final dot|three terms"),
    rejected("missing dot", line("m.02", EDGE, "m.01")[:-2], "final dot is missing"),
    rejected("two dots", line("m.02", EDGE, "m.01") + ".", "text after the final dot"),
    rejected("four terms", line("m.02", EDGE, "m.01")[:-1] + f"<{NS}m.01>\t.", "more than three"),
    rejected("no object", f"<{NS}m.02>\t<{NS}{EDGE}>\t.", "object is missing"),
    rejected("NUL bytes", b"\0" * 40, "NUL"),
    rejected("a NUL byte in a name", line("m.03", NAME, '"a\0b"@en'), "NUL"),
    rejected("a NUL byte by an escape", line("m.03", NAME, r'"a\u0000b"@en'), "NUL"),
    rejected("a control character in a predicate", line("m.02", "a.\x01b", "m.01"), "control char"),
    with_lines("a control character in a name", line("m.03", NAME, '"a\x01b"@en'), entities=3,
               names={"m.03": "a\x01b"}),
    rejected("one megabyte of nonsense", b"x" * (1 << 20), "subject is not an IRI"),
    with_lines("a name of a megabyte", line("m.03", NAME, '"' + "n" * (1 << 20) + '"@en'),
               entities=3, names={"m.03": "n" * (1 << 20)}),
    rejected("nonsense", "once upon a time", "subject is not an IRI"),
    rejected("a subject without brackets", f"m.02\t<{NS}{EDGE}>\t<{NS}m.01>\t.", "subject is not"),
    rejected("a predicate without brackets", f"<{NS}m.02>\t{EDGE}\t<{NS}m.01>\t.",
             "predicate is not"),
    rejected("a space in a predicate", line("m.02", "film. sequel", "m.01"),
             "predicate is not an IRI"),
    rejected("an object without brackets", f"<{NS}m.02>\t<{NS}{EDGE}>\tm.01\t.",
             "object is neither"),
    rejected("a blank node", f"_:b1\t<{NS}{EDGE}>\t<{NS}m.01>\t.", "blank node as subject"),
    rejected("a text that is not closed", line("m.03", NAME, '"open@en'), "not closed"),
    # encodings
    rejected("a name that is not UTF-8", latin("m.03", NAME, '"M?ller"@en'),
             "not UTF-8"),
    rejected("a predicate that is not UTF-8", latin("m.02", "film.?", "m.01"),
             "predicate is not an IRI"),
    with_lines("a mid that is not UTF-8", latin("m.?", EDGE, "m.01"),
               dropped={ABOUT_SCHEMA: 1}),
    with_lines("an object that is not UTF-8", latin("m.02", EDGE, "m.?"),
               dropped={"object is of the schema": 1}),
    with_lines("a name in another language that is not UTF-8",
               latin("m.03", NAME, '"M?ller"@de'),
               dropped={"other language": 1}),
    rejected("a value that is not UTF-8", latin("m.01", "a.b.c", '"?"'),
             "not UTF-8"),
    rejected("a whole line of another encoding", "Ünï".encode("utf-16"), "not UTF-8|NUL"),
    rejected("an unknown escape", line("m.03", NAME, r'"a\qb"@en'), "unknown escape"),
    rejected("a cut escape", line("m.03", NAME, r'"a\u00"@en'), "unknown escape"),
    rejected("half a surrogate pair", line("m.03", NAME, r'"a\uD800b"@en'), "half of a surrogate"),
    rejected("an escape beyond Unicode", line("m.03", NAME, r'"\U00110000"@en'), "beyond the last"),
    named("a whole surrogate pair", r"\uD83D\uDE00", "\U0001f600"),
    rejected("an unknown escape in a value", line("m.01", "a.b.c", r'"a\qb"'), "unknown escape"),
    # names
    named("quotes", r"\"Weird Al\" O'Neil", "\"Weird Al\" O'Neil"),
    named("line ends in a name", r"two\nlines\r\n", "two\nlines"),
    named("backticks", "a `tick` ``twice``", "a `tick` ``twice``"),
    named("an arrow", "A -> B -> C", "A -> B -> C"),
    named("a tab in a name", "a\tb", "a\tb"),
    named("a tab by an escape", r"a\tb", "a\tb"),
    named("Cypher in a name", "'}) DETACH DELETE n //", "'}) DETACH DELETE n //"),
    named("SQL in a name", "'); DROP TABLE entity; --", "'); DROP TABLE entity; --"),
    named("a quote before an at", r"\"@abc", '"@abc'),
    with_lines("a name without a tag that ends like one", line("m.03", NAME, r'"x \"@abc"'),
               entities=3, names={"m.03": 'x "@abc'}),
    rejected("a name of blanks", line("m.03", NAME, '"   "@en'), "name is empty"),
    rejected("an empty name", line("m.03", NAME, '""@en'), "name is empty"),
    rejected("a name that is an IRI", line("m.03", NAME, f"<{NS}m.01>"), "name is not text"),
    rejected("a type that is a text", line("m.01", "type.object.type", '"film"'),
             "type is not an IRI"),
    rejected("a type of the schema that is a text", line("film.film", "type.object.type", '"x"'),
             "type is not an IRI"),
    with_lines("several names", *[line("m.01", NAME, f'"{text}"@en') for text in ("B", "A", "B")],
               names={"m.01": "A"}, aliases={"m.01": ["B", "One"]}),
    # ids and edges
    with_lines("a mid that is too long", line("m.0123456789ab", NAME, '"x"@en'),
               dropped={ABOUT_SCHEMA: 1}),
    with_lines("a mid with capitals", line("m.0ABC", NAME, '"x"@en'), dropped={ABOUT_SCHEMA: 1}),
    with_lines("a mid with nothing behind the dot", line("m.", NAME, '"x"@en'),
               dropped={ABOUT_SCHEMA: 1}),
    with_lines("self loops", line("m.01", EDGE, "m.01"), edges=2),
    with_lines("repeated lines", *BASE, *BASE, dropped={"repeated edge": 2}),
    with_lines("an edge without a known end",
               line("m.01", EDGE, "m.09"), line("m.09", EDGE, "m.01"),
               dropped={"edge to or from a nameless node": 2}),
    with_lines("an entity in no language that is wanted", line("m.03", NAME, '"Drei"@de'),
               line("m.01", EDGE, "m.03"),
               dropped={"other language": 1, "edge to or from a nameless node": 1}),
    with_lines("a node that has nothing but an alias", line("m.03", "common.topic.alias", '"x"@en'),
               line("m.01", EDGE, "m.03"),
               dropped={"name of an unknown entity": 1, "edge to or from a nameless node": 1}),
    with_lines("types and nothing else", line("m.03", "type.object.type", "film.film"),
               dropped={"nameless": 1}),
    with_lines("a value of a nameless node", line("m.03", "a.b.c", '"1"'),
               dropped={"edge to or from a nameless node": 1}),
    with_lines("an id that looks like Cypher", line("m.01`})-[:x]->()//", NAME, '"x"@en'),
               dropped={ABOUT_SCHEMA: 1}),
    with_lines("predicates with odd characters", line("m.01", "a.`b`]-()//DETACH", "m.02"),
               line("m.01", "a.'b';--", "m.02"), line("m.01", "a.%s{}$x\\", "m.02"), edges=4),
    with_lines("a web address", line("m.01", "a.b.c", "<http://example.org/x>"),
               dropped={"web address": 1}),
    with_lines("what the schema says of itself",
               line("film.x", "freebase.type_hints.mediator", '"true"'),
               line(EDGE, "type.property.reverse_property", "film.film.prequel"),
               dropped={"relation without an edge": 1}),
]  # fmt: skip


WRONG_LINES = [case for case in CASES if case.rejects and len(case.content) < 10_000]


@pytest.mark.parametrize(
    "case", [case for case in CASES if case not in WRONG_LINES], ids=lambda case: case.name
)
def test_a_load_that_ends_well_reports_every_line(kgqa: Kgqa, tmp_path: Path, case: Case) -> None:
    dump, home = tmp_path / case.file, tmp_path / "home"
    dump.write_bytes(case.content)
    done = kgqa("ingest", "freebase", dump, "--json", "--home", home)
    result = done.json
    assert "Traceback" not in done.err
    assert (result["lines"], result["rejected"]) == (case.lines, len(case.rejects))
    assert (result["entities"], result["edges"]) == (case.entities, case.edges)
    assert result["dropped"] == case.dropped
    found = rejects_of(result)
    for (number, reason), row in zip(case.rejects, found, strict=True):
        assert row[:2] == [dump.name, str(number)]
        assert any(each in row[2] for each in reason.split("|")), row[2]
    assert_nothing_lost([dump], result)
    with open_store(home) as store:
        for ident, name in {"m.02": "Two", **case.names}.items():
            details = store.details(int(store.keys_of([ident])[0]))
            assert (details.id, details.name) == (ident, name)
            assert details.aliases == case.aliases.get(ident, [])
    assert not (home / "freebase" / "ingest").exists()  # nothing is kept of the stages


def test_a_line_that_is_longer_than_any_may_be(
    kgqa: Kgqa, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "LONGEST_LINE", 1 << 20)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 16)
    dump = tmp_path / "dump.nt"
    # its end is the end of a block: what follows it must still be read
    dump.write_bytes(b"z" * ((1 << 21) - 1) + b"\n" + PLAIN)
    result = kgqa("ingest", "freebase", dump, "--json", "--home", tmp_path / "home").json
    assert (result["lines"], result["edges"], result["rejected"]) == (4, 1, 1)
    [row] = rejects_of(result)
    assert row[1:3] == ["1", "line longer than 1 MB"]
    assert_nothing_lost([dump], result)


def test_many_kinds_of_damage_in_one_dump_do_not_hide_each_other(
    kgqa: Kgqa, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4096)
    rows: list[bytes] = [*dump_of(BASE).splitlines()]
    expected: list[tuple[int, str]] = []
    for round_ in range(30):
        for case in WRONG_LINES:
            rows.append(case.content.split(b"\n")[3])
            expected.append((len(rows), case.rejects[0][1]))
        rows.append(line("m.01", f"film.round_{round_}.x", "m.02").encode())
    dump = tmp_path / "dump.nt"
    dump.write_bytes(dump_of(rows))
    result = kgqa("ingest", "freebase", dump, "--json", "--home", tmp_path / "home").json
    assert result["edges"] == 31
    found = sorted((int(row[1]), row[2]) for row in rejects_of(result))
    for (number, said), (line_number, reason) in zip(found, expected, strict=True):
        assert number == line_number
        assert any(each in said for each in reason.split("|")), (said, reason)
    assert_nothing_lost([dump], result)


def test_several_files_each_with_its_own_line_numbers(kgqa: Kgqa, tmp_path: Path) -> None:
    dumps = [tmp_path / name for name in ("one.nt", "two.nt.gz")]
    dumps[0].write_bytes(PLAIN + b"bad\n")
    dumps[1].write_bytes(gzip.compress(BOM + b"bad\n" + dump_of([line("m.02", EDGE, "m.01")])))
    result = kgqa("ingest", "freebase", *dumps, "--json", "--home", tmp_path / "home").json
    assert (result["lines"], result["edges"]) == (6, 2)
    assert [row[:2] for row in rejects_of(result)] == [["one.nt", "4"], ["two.nt.gz", "1"]]
    assert_nothing_lost(dumps, result)


# -- loads that cannot be -----------------------------------------------------------------------


def cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


FAILURES: list[tuple[str, str, bytes, str]] = [
    ("cut gzip", "dump.gz", cut(gzip.compress(MANY)), "is cut short"),
    ("an empty .gz", "dump.gz", b"", "is empty"),
    ("an empty file", "dump.nt", b"", "is empty"),
    ("an empty gzip", "dump.gz", gzip.compress(b""), "is empty"),
    ("a byte order mark alone", "dump.nt", BOM, "empty"),
    ("comments alone", "dump.nt", b"# one\n\n# two\n", "None of the 3 lines"),
    ("NUL bytes alone", "dump.nt", b"\0" * 100_000, "NUL"),
    ("random bytes", "dump.nt", bytes((n * n * 7919 >> 3) % 256 for n in range(50_000)),
     "None of the"),
    ("carriage returns alone", "dump.nt", PLAIN.replace(b"\n", b"\r"), "None of the 1 lines"),
    ("names and no edge", "dump.nt", dump_of(BASE[:2]), "No freebase edge"),
    ("edges and no name", "dump.nt", dump_of(BASE[2:]), "No freebase edge"),
    ("types and nothing else", "dump.nt", dump_of([line("m.01", "type.object.type", "a.b")]),
     "No freebase edge"),
    ("tab-separated values", "dump.tsv", b"m.01\tr\tm.02\n" * 9, "None of the 9 lines"),
    ("a web page", "dump.nt", b"<html><head>\n<title>404</title>\n", "None of the 2 lines"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "content", "said"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES]
)
def test_a_load_that_cannot_be_is_one_line_and_what_was_there_serves(
    kgqa: Kgqa, tmp_path: Path, file: str, content: bytes, said: str
) -> None:
    home = tmp_path / "home"
    (tmp_path / "older.nt").write_bytes(PLAIN)
    assert kgqa("ingest", "freebase", tmp_path / "older.nt", "--home", home).code == 0
    before = visible(home)
    assert len(before) == 1
    dump = tmp_path / file
    dump.write_bytes(content)
    done = kgqa("ingest", "freebase", dump, "--json", "--home", home)
    assert done.out == ""
    assert dump.name in done.error
    assert said in done.error
    assert visible(home) == before


KINDS = ("freebase", "conceptnet", "umls", "triples")


def files_of(kind: str, folder: Path) -> Path:
    """A good file or folder of a kind."""
    if kind == "freebase":
        (folder / "other.nt").write_bytes(PLAIN)
        return folder / "other.nt"
    if kind == "conceptnet":
        raw = gzip.decompress((DATA / "conceptnet" / "assertions.csv.gz").read_bytes())
        (folder / "other.csv").write_bytes(b"".join(raw.splitlines(True)[:50]))
        return folder / "other.csv"
    if kind == "umls":
        return Path(shutil.copytree(DATA / "umls" / "META", folder / "META"))
    (folder / "other.tsv").write_bytes(b"a\tlikes\tb\n" * 5)
    return folder / "other.tsv"


@pytest.mark.parametrize("given", KINDS)
@pytest.mark.parametrize("kind", ["freebase", "conceptnet", "umls"])
def test_each_loader_given_the_file_of_another(
    kgqa: Kgqa, tmp_path: Path, kind: str, given: str
) -> None:
    if kind == given:
        pytest.skip("its own file is no wrong one")
    error = kgqa("ingest", kind, files_of(given, tmp_path), "--home", tmp_path / "home").error
    assert any(named in error for named in (str(tmp_path), "other", "META", "MRCOLS.RRF"))
    assert visible(tmp_path / "home") == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["missing", "empty folder", "folder of another kind"])
def test_a_source_that_is_no_dump(kgqa: Kgqa, tmp_path: Path, kind: str, what: str) -> None:
    source = tmp_path / "source"
    if what != "missing":
        source.mkdir()
    if what == "folder of another kind":
        (source / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
    error = kgqa("ingest", kind, source, "--home", tmp_path / "home").error
    assert "source" in error or "picture.png" in error
    assert visible(tmp_path / "home") == []


@pytest.mark.neo4j
def test_odd_predicates_and_names_are_no_cypher(
    kgqa: Kgqa, neo4j_server: Neo4jServer, tmp_path: Path
) -> None:
    """What is written into Neo4j is text, whatever it looks like."""
    predicates = ["a.`b`]-()//DETACH", "a.'b';--", "a.%s{}$x\\", "a.``", "a.\\u0060", "a.`)-[r]-(x"]
    rows = [line("m.01", predicate, "m.02") for predicate in predicates]
    rows.append(line("m.03", NAME, '"`}) DETACH DELETE n // $x \\"\\\\"@en'))
    dump = tmp_path / "dump.nt"
    dump.write_bytes(dump_of([*BASE, *rows]))
    server = ("--graph", neo4j_server.uri, "--home", tmp_path / "home", "--kg", "oddtest")
    account = {"NEO4J_USERNAME": neo4j_server.username, "NEO4J_PASSWORD": neo4j_server.password}
    result = kgqa("ingest", "freebase", dump, "--json", *server, **account).json
    assert (result["entities"], result["edges"]) == (3, 1 + len(predicates))
    secrets = {"username": neo4j_server.username, "password": neo4j_server.password}
    with open_store(neo4j_server.uri, "oddtest", **secrets) as store:
        assert store.relations().ids == sorted([*predicates, EDGE])
        keys = store.keys_of(["m.01", "m.02", "m.03"])
        assert store.entities(keys).names == ["One", "Two", '`}) DETACH DELETE n // $x "\\']
        assert len(store.neighbours(keys, "out")) == 1 + len(predicates)
    with neo4j_server.connect() as connection:
        Neo4jWriter(connection).drop("oddtest", Silent())

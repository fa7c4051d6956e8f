"""Reading a Freebase dump by columns is the same as reading it line by line.

The rules, for one line, are in ``freebase_lines``: what blocks give must be just that, for any
lines and wherever blocks end.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kgqa.graph.mids import decode_mids
from kgqa.graph.model import EdgeBatch, NameBatch, ValueBatch
from kgqa.loaders.base import Rejects, Report
from kgqa.loaders.blocks import Block, read_blocks
from kgqa.loaders.freebase import (
    BlockReader,
    Filters,
    FreebasePart,
)
from kgqa.parallel import mapped
from kgqa.progress import Silent
from tests.loaders.freebase_lines import (
    BASEKB,
    FILTERS,
    INVERSE,
    LABEL,
    NS,
    RDF_TYPE,
    XSD,
    Read,
    by_lines,
    in_form,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# -- what the blocks give -----------------------------------------------------------------------


def rows_of(part: FreebasePart) -> Iterable[tuple[Any, ...]]:
    names: dict[str, str] = {}  # of values
    for batch in part.batches:
        if isinstance(batch, ValueBatch):
            names |= dict(zip(*(column.to_pylist() for column in batch.rows.columns), strict=True))
    for batch in part.batches:
        if isinstance(batch, ValueBatch):
            continue
        columns = [
            (
                decode_mids(column.to_numpy())
                if column.type == pa.int64() and name != "rank"
                else column
            )
            for name, column in zip(batch.rows.schema.names, batch.rows.columns, strict=True)
        ]
        for row in zip(*(column.to_pylist() for column in columns), strict=True):
            if not isinstance(batch, EdgeBatch):
                yield ("name" if isinstance(batch, NameBatch) else "type"), *row
            elif row[2] in names:
                yield "value", *row[:3], names[row[2]]
            else:
                yield "edge", *row[:3]


def by_columns(data: bytes, size: int, language: str) -> tuple[Read, int, int]:
    """Read a dump in blocks of ``size`` bytes; also return lines and triples."""
    read, triples = Read(), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dump.nt"
        path.write_bytes(data)
        report = Report()
        rejects = Rejects(Path(folder) / "rejects.tsv", report)
        reader = BlockReader(language, Filters(FILTERS))
        blocks = read_blocks([path], report, rejects, Silent(), size)
        for part in mapped(reader.read, blocks):
            read.kept.update(rows_of(part))
            read.dropped.update(part.dropped)
            read.rejects += [(line, reason) for line, reason, _ in part.rejects]
            read.mediators |= part.mediator_types
            read.inverses |= part.inverses
            triples += part.triples
            for line, _, text in part.rejects:
                raw = data.split(b"\n")[line - 1].rstrip(b"\r")
                if in_form(raw):  # others are shown as they were rewritten
                    assert text == raw.decode(errors="backslashreplace")
    read.dropped += Counter()  # without the zeros
    return read, report.lines, triples


def assert_same(data: bytes, size: int, language: str = "en") -> None:
    expected = by_lines(data, language)
    found, lines, triples = by_columns(data, size, language)
    assert found.kept == expected.kept
    assert found.dropped == expected.dropped
    assert sorted(found.rejects) == sorted(expected.rejects)
    assert found.mediators == expected.mediators
    assert found.inverses == expected.inverses
    found.schema = expected.schema
    assert lines == data.count(b"\n") == found.lines == expected.lines
    assert triples <= lines


# -- dumps ----------------------------------------------------------------------------------------

_MIDS = [f"<{NS}{mid}>" for mid in ("m.01", "m.02", "g.1q_x", "m.0123456789a")]
_SUBJECTS = st.sampled_from(
    [
        *_MIDS * 4,
        f"<{BASEKB}m.01>",
        "<m.01>",
        f"<{NS}film.film>",
        f"<{NS}m.UPPER>",
        f"<{NS}m.0123456789abc>",
        f"<{NS}m.>",
        f"<{NS}m.0 1>",
        "<http://example.org/m.01>",
        f"<{NS}m.01>".replace("rdf", "xdf"),  # as long as the dump's own
        f"<{NS}m.01>".replace("http:", "httq:"),
        "<a>",
        "<>",
        "_:blank",
        "plain",
        f"<{NS}m.01",
        f"<{NS}m.\udcff01>",  # a byte that is not UTF-8
        f"<{NS}m.0ü>",
    ]
)
_PREDICATES = st.sampled_from(
    [
        *[f"<{NS}{name}>" for name in
          ("type.object.name", "common.topic.alias", "type.object.type", "film.film.sequel",
           "type.kept.x", "type.key", "user.x.y", "film.`odd`]->()", "a\u00a0b.c")] * 3,
        f"<{LABEL}>",
        f"<{RDF_TYPE}>",
        f"<{NS}freebase.type_hints.mediator>",
        f"<{NS}type.property.reverse_property>",
        f"<{INVERSE}>",
        "<http://rdf.freebase.com/key/en>",
        f"<{NS}film.\udcff>",
        f"<{NS}film film>",
        "film.film.sequel",
        f"<{BASEKB}film.film.sequel>",
    ]
)  # fmt: skip
_TEXT = st.lists(
    st.sampled_from(
        ["a", "B", " ", "ü", "東", r"\"", r"\n", r"\u00FC", r"\uD83D\uDE00", r"\uD800", r"\q", "\\",
         '"', "\t", "\r", "@", "@en", '"@en', '"@de', "\x01", "\0", "http://", "\udcff", "1", "-",
         r"\U0001F600", r"\U00110000", r"\t", "x" * 70, "\x1c", "\u00a0", "> .", "`"]
    ),
    max_size=6,
).map("".join)  # fmt: skip
_SUFFIX = st.sampled_from(
    ["@en", "@en", "@en", "@de", "@en-GB", "@a-very-long-language", "", "", f"^^<{XSD}date>",
     f"^^<{XSD}double>", "^^<http://x/y z>", "^^x", "@", "@1", "@e\u00fc"]
)  # fmt: skip
_OBJECTS = st.one_of(
    st.builds('"{}"{}'.format, _TEXT, _SUFFIX),
    st.builds(
        '"{}"{}'.format, st.sampled_from(["One", "1968-01-01", "5.30", "true", "", " "]), _SUFFIX
    ),
    _SUBJECTS,
    st.sampled_from(
        ["<http://en.wikipedia.org/>", f"<{NS}film.performance>", f"<{NS}/m/01>", '"', '""']
    ),
    st.builds('"{}'.format, _TEXT),
)
_GAP = st.sampled_from(["\t"] * 12 + [" ", "\t\t", " \t", ""])
_END = st.sampled_from(
    ["\t."] * 12 + [" .", ".", "", "\t. # why", "\t.\t", "\t..", "\t.\r", "\t. x"]
)
_TRIPLES = st.builds("{}{}{}{}{}{}".format, _SUBJECTS, _GAP, _PREDICATES, _GAP, _OBJECTS, _END)
_ODD = st.sampled_from(
    ["", " ", "# a comment", "nonsense", "\t\t\t", "\t\t\t.", "\0", "<a>\t<b>\t<c>", "\udcff", "\r",
     "<\t<\t<\t.", "<>\t<>\t<>\t.", "\ufeff", "."]
)  # fmt: skip
_LINES = st.lists(st.one_of(_TRIPLES, _TRIPLES, _TRIPLES, _ODD), max_size=25)


def dump_of(lines: Sequence[str], end: str = "\n") -> bytes:
    text = "".join(line + end for line in lines)
    return text.encode(errors="surrogateescape")


def line(subject: str, predicate: str, end: str) -> str:
    predicate = predicate if ":" in predicate else NS + predicate
    return f"<{NS}{subject}>\t<{predicate}>\t{end}\t."


@given(_LINES, st.sampled_from([4, 30, 100, 1 << 20]), st.sampled_from(["\n", "\r\n"]))
@example([line("m.01", "type.object.name", r'"x \"@abc"')], 100, "\n")  # no tag: a quote in a text
@example([line("m.01", "type.object.name", '"\x01"@en')], 100, "\n")
@example([line("m.01", "film.\x01", f"<{NS}m.02>")], 100, "\n")
@example([line("film.film", "type.object.type", '"no IRI"')], 100, "\n")
@example([line("m.01", "film.f.g", '"1"'), "", line("m.01", "film.f.g", '"tab\there"@en')], 9, "\n")
@example(
    [line("m.01", "film.f.g", '"1"'), line("m.01", "film.f.g", '"2"').replace("rdf", "xdf")],
    999,
    "\n",
)  # of equal length, in another namespace
@example([line("film.f", INVERSE, '"ü')], 100, "\n")  # cut within a character of two bytes
@settings(max_examples=400)
def test_a_dump_read_by_columns_is_the_dump_read_by_lines(
    lines: list[str], size: int, end: str
) -> None:
    data = dump_of(lines, end)
    utf16 = 5 * data.count(0) > len(data)  # by the places of its zeros it may be
    if not data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")) and not utf16:
        assert_same(data, size)


@given(st.lists(st.builds(line, st.sampled_from(["m.01", "m.02", "g.9"]),
                          st.sampled_from(["type.object.name", LABEL, "film.f.motto"]),
                          st.builds('"{}"@{}'.format, st.sampled_from(["One", r"\"Two\""]),
                                    st.sampled_from(["en", "de", "zh-Hant", "eng", "e"]))),
                min_size=1, max_size=12),
       st.sampled_from(["en", "de", "zh-Hant", "e", "a-very-long-language"]))  # fmt: skip
@settings(max_examples=100)
def test_any_language_can_be_the_wanted_one(lines: list[str], language: str) -> None:
    assert_same(dump_of(lines), 1 << 20, language)


def test_several_threads_may_use_one_reader() -> None:
    reader = BlockReader("en", Filters(FILTERS))
    blocks = []
    for number in range(40):
        lines = [line(f"m.{number}", f"film.x{number % 7}.y", f"<{NS}m.{n}>") for n in range(30)]
        data = dump_of(lines)
        blocks.append(Block("a test", 1, len(lines), data))
    found = list(mapped(reader.read, blocks, workers=4))
    for number, part in enumerate(found):
        rows = list(rows_of(part))
        expected = [("edge", f"m.{number}", f"film.x{number % 7}.y", f"m.{n}") for n in range(30)]
        assert rows == expected

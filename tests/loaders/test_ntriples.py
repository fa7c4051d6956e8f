"""Lines of N-Triples: which are triples, why others are not, and what a block of them gives.

``one_by_one`` writes down once more, for one line, what reading by columns must agree with.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.graph.literals import value_id, value_name
from kgqa.graph.model import ALIAS
from kgqa.loaders.blocks import Block
from kgqa.loaders.ntriples import (
    ALIAS_NAME,
    NAMES,
    OTHER,
    RANKS,
    RDF_TYPE,
    TRIPLE,
    is_blank,
    preference,
    read_ntriples,
    unescape,
    why_not,
)

XSD = "http://www.w3.org/2001/XMLSchema#"


def parse(line: str) -> tuple[str, str, str | tuple[str, str | None, str | None]]:
    """Return a triple, a literal as (text, language, datatype). Raises ValueError."""
    match = TRIPLE.fullmatch(line)
    if match is None:
        raise ValueError(why_not(line))
    subject, predicate, iri, text, language, datatype = match.groups()
    return subject, predicate, iri if iri is not None else (unescape(text), language, datatype)


@pytest.mark.parametrize(
    ("line", "triple"),
    [
        ("<a:s>\t<a:p>\t<a:o>\t.", ("a:s", "a:p", "a:o")),
        ("  <a:s>   <a:p>  <a:o>  .  ", ("a:s", "a:p", "a:o")),
        ("<a:s> <a:p> <a:o>.", ("a:s", "a:p", "a:o")),
        ("<a:s> <a:p> <a:o> . # why", ("a:s", "a:p", "a:o")),
        ('<a:s>\t<a:p>\t"x"@en\t.', ("a:s", "a:p", ("x", "en", None))),
        ('<a:s> <a:p> "x"@zh-Hant .', ("a:s", "a:p", ("x", "zh-Hant", None))),
        ('<a:s> <a:p> "" .', ("a:s", "a:p", ("", None, None))),
        (
            f'<a:s> <a:p> "1968"^^<{XSD}gYear> .',
            ("a:s", "a:p", ("1968", None, f"{XSD}gYear")),
        ),
        (
            r'<a:s> <a:p> "say \"hi\" > <b> . \\" .',
            ("a:s", "a:p", ('say "hi" > <b> . \\', None, None)),
        ),
        (r'<a:s> <a:p> "\ud30c\U0001F600\n\t" .', ("a:s", "a:p", ("파😀\n\t", None, None))),
        (r'<a:s> <a:p> "\uD83D\uDE00" .', ("a:s", "a:p", ("😀", None, None))),
    ],
)
def test_a_triple_in_any_layout(line: str, triple: object) -> None:
    assert parse(line) == triple


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("<a:s>\t<a:p>\t<a:o>", "final dot is missing"),
        ('<a:s> <a:p> "x"@en', "final dot is missing"),
        ("<a:s> <a:p> .", "object is missing"),
        ("<a:s> <a:p>", "object is missing"),
        ("<a:s> <a:p> ns/m.0y2rd7 .", "object is neither an IRI nor a text in quotes"),
        ("s p o .", "subject is not an IRI in angle brackets"),
        ("<a:s> p <a:o> .", "predicate is not an IRI in angle brackets"),
        ('<a:s> <a:p> "open .', "text is not closed by a quote"),
        (r'<a:s> <a:p> "a\qb" .', "unknown escape in the text"),
        (r'<a:s> <a:p> "a\u12" .', "unknown escape in the text"),
        (r'<a:s> <a:p> "\uD83D" .', "half of a surrogate pair in an escape"),
        (r'<a:s> <a:p> "\UFFFFFFFF" .', "escape beyond the last code point"),
        (r'<a:s> <a:p> "a\u0000b" .', "NUL character"),
        ('<a:s> <a:p> "a\0b" .', "NUL character"),
        ('<a:s> <a:p> "x"@ .', "language tag or datatype is malformed"),
        ('<a:s> <a:p> "x"^^xsd:date .', "language tag or datatype is malformed"),
        ("<a:s> <a:p> <a:o> <a:g> .", "more than three terms"),
        ("<a:s> <a:p> <a:o> . <a:s>", "text after the final dot"),
        ("_:b1 <a:p> <a:o> .", "blank node as subject"),
        ("<a:s> <a:p> _:b1 .", "blank node as object"),
        ("\ufeff<a:s> <a:p> <a:o> .", "subject is not an IRI in angle brackets"),
    ],
)
def test_what_is_not_a_triple_says_why(line: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        parse(line)


def test_blank_lines_and_comments_are_not_faults() -> None:
    assert all(is_blank(line) for line in ("", "   ", "\t", "# a comment", "  # another"))
    assert not is_blank("<a:s> <a:p> <a:o> .")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_escaping_a_text_and_reading_it_is_the_text(text: str) -> None:
    plain = "".join({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"}.get(c, c) for c in text)
    coded = "".join(f"\\U{ord(c):08X}" for c in text)
    pairs = "".join(
        f"\\u{unit:04x}" for unit in memoryview(text.encode("utf-16-le")).cast("H").tolist()
    )
    for escaped in (plain, coded, pairs):
        assert unescape(escaped) == text
        assert parse(f'<a:s> <a:p> "{escaped}" .') == ("a:s", "a:p", (text, None, None))


@given(st.text(alphabet='<>ab:" .\\@^_#\tu0n', max_size=40))
def test_every_line_is_a_triple_or_has_a_reason(line: str) -> None:
    if TRIPLE.fullmatch(line):
        return
    with pytest.raises(ValueError, match=r"\w"):
        parse(line)


def one_by_one(lines: list[bytes], language: str) -> dict[str, Any]:
    """Read lines as ``parse`` does, one at a time."""
    found: dict[str, Any] = {
        name: [] for name in ("edges", "typed", "labels", "values", "described", "rejects")
    }
    dropped: Counter[str] = Counter()
    for number, raw in enumerate(lines, 1):
        try:
            line = raw.decode()
        except UnicodeDecodeError as error:
            shown = raw.decode(errors="backslashreplace")
            found["rejects"].append((number, f"not UTF-8 ({error.reason})", shown))
            continue
        if is_blank(line):
            dropped["blank line or comment"] += 1
            continue
        try:
            subject, predicate, term = parse(line)
        except ValueError as error:
            found["rejects"].append((number, str(error), line))
            continue
        if isinstance(term, str):
            found["typed" if predicate == RDF_TYPE else "edges"].append(
                (subject, predicate, term, None)
            )
            if predicate == RDF_TYPE:
                found["described"].append(subject)
            continue
        text, tag, datatype = term
        if preference(tag, language) == OTHER and predicate not in NAMES:
            dropped["other language"] += 1
            continue
        if not text.strip():
            dropped["empty text"] += 1
        elif predicate in NAMES:
            rank = preference(tag, language) * RANKS + 100 + number
            found["labels"].append((subject, text.strip(), rank))
            found["described"].append(subject)
        elif predicate == ALIAS_NAME:
            found["labels"].append((subject, text.strip(), ALIAS))
        else:
            value = value_id(text, tag, datatype)
            found["values"].append((value, value_name(text, datatype)))
            found["edges"].append((subject, predicate, value, None))
    ends = [end for edge in found["edges"] for end in (edge[0], edge[2])]
    ends += [tail for _, _, tail, _ in found["typed"]]
    found["ends"] = {end for end in ends if end not in dict(found["values"])}
    found["described"] = set(found["described"])
    return {**{k: v if isinstance(v, set) else sorted(v) for k, v in found.items()}, "n": dropped}


def by_columns(lines: list[bytes], language: str, size: int) -> dict[str, Any]:
    """Read blocks of ``size`` lines."""
    parts = []
    for first in range(0, len(lines), size):
        chosen = lines[first : first + size]
        data = b"".join(line + b"\n" for line in chosen)
        parts.append(read_ntriples(Block("kg", first + 1, len(chosen), data), language, 100))
    found: dict[str, Any] = {
        name: sorted(
            tuple(row.values())
            for part in parts
            for batch in getattr(part, name)
            for row in batch.to_pylist()
        )
        for name in ("edges", "typed", "labels", "values")
    }
    found["ends"] = {end for part in parts for end in part.ends.to_pylist()}
    found["described"] = {each for part in parts for each in part.described.to_pylist()}
    found["rejects"] = sorted(reject for part in parts for reject in part.rejects)
    return {**found, "n": +sum((part.dropped for part in parts), Counter[str]())}


PREDICATES = st.sampled_from(["p", "q", f"{XSD}date", RDF_TYPE, ALIAS_NAME, *sorted(NAMES)[:2]])
IRIS = st.text(st.sampled_from("ab\u00e9/#\u3000\x85\x1c\ufeff\\"), min_size=1, max_size=3)
LETTERS = ["a", "é", " ", "\t", "\u3000", "\x0b", ".", "<b>", "1", "5.0", "\0", '"', "\\"]
ESCAPES = [r"\"", r"\\", r"\n", r"\u00e9", r"\ud83d\ude00", r"\ud83d", r"\u0000", r"\q"]
ESCAPES += [r"\U0001F600", r"\U00110000"]
BODIES = st.lists(st.sampled_from(LETTERS + ESCAPES), max_size=4).map("".join)
SUFFIXES = st.sampled_from(
    ["", "", "@en", "@de", "@en-GB", "@", f"^^<{XSD}integer>", f"^^<{XSD}dateTime>", "^^<x>", "^^x"]
)
OBJECTS = IRIS.map(lambda iri: f"<{iri}>") | st.builds('"{}"{}'.format, BODIES, SUFFIXES)
GAPS = st.sampled_from([" ", "\t", "  ", "", "\u00a0"])
ENDS = st.sampled_from([" .", "\t.", ".", "", " . ", " . # why", " .."])
NT_LINES = st.one_of(
    st.builds("<{}> <{}>{}{}{}".format, IRIS, PREDICATES, GAPS, OBJECTS, ENDS),
    st.builds("<{}> <{}> {} .".format, st.sampled_from("abc"), PREDICATES, OBJECTS),
    st.sampled_from(["", " ", "# x", "_:a <p> <b>", "<a> <p> .", '<a> <p> "x"@en @de .']),
).map(lambda text: text.encode()) | st.sampled_from([b"<a> <p> <\xff> .", b'<a> <p> "\xc3" .'])


@settings(max_examples=500)
@given(st.lists(NT_LINES, max_size=12), st.sampled_from(["en", "de", "en-GB"]), st.integers(1, 12))
def test_lines_by_columns_are_the_lines_one_by_one(
    lines: list[bytes], language: str, size: int
) -> None:
    assert by_columns(lines, language, size) == one_by_one(lines, language)


def test_kernels_know_the_white_space_that_ends_an_iri() -> None:
    white = [chr(code) for code in range(0x110000) if chr(code).isspace() and chr(code) != "\n"]
    lines = [f"<a{each}b> <p> <c> .".encode() for each in white]
    assert by_columns(lines, "en", 5) == one_by_one(lines, "en")
    assert len(by_columns(lines, "en", 5)["rejects"]) == len(white)

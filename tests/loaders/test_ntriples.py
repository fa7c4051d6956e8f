from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.loaders.ntriples import TRIPLE, Literal, is_blank, parse, unescape

XSD = "http://www.w3.org/2001/XMLSchema#"


@pytest.mark.parametrize(
    ("line", "triple"),
    [
        ("<a:s>\t<a:p>\t<a:o>\t.", ("a:s", "a:p", "a:o")),
        ("  <a:s>   <a:p>  <a:o>  .  ", ("a:s", "a:p", "a:o")),
        ("<a:s> <a:p> <a:o>.", ("a:s", "a:p", "a:o")),
        ("<a:s> <a:p> <a:o> . # why", ("a:s", "a:p", "a:o")),
        ('<a:s>\t<a:p>\t"x"@en\t.', ("a:s", "a:p", Literal("x", "en"))),
        ('<a:s> <a:p> "x"@zh-Hant .', ("a:s", "a:p", Literal("x", "zh-Hant"))),
        ('<a:s> <a:p> "" .', ("a:s", "a:p", Literal(""))),
        (
            f'<a:s> <a:p> "1968"^^<{XSD}gYear> .',
            ("a:s", "a:p", Literal("1968", None, f"{XSD}gYear")),
        ),
        (r'<a:s> <a:p> "say \"hi\" > <b> . \\" .', ("a:s", "a:p", Literal('say "hi" > <b> . \\'))),
        (r'<a:s> <a:p> "\ud30c\U0001F600\n\t" .', ("a:s", "a:p", Literal("파😀\n\t"))),
        (r'<a:s> <a:p> "\uD83D\uDE00" .', ("a:s", "a:p", Literal("😀"))),
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
        ("s p o .", "subject is no IRI in angle brackets"),
        ("<a:s> p <a:o> .", "predicate is no IRI in angle brackets"),
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
        ("\ufeff<a:s> <a:p> <a:o> .", "subject is no IRI in angle brackets"),
    ],
)
def test_what_is_no_triple_says_why(line: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        parse(line)


def test_blank_lines_and_comments_are_no_faults() -> None:
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
        assert parse(f'<a:s> <a:p> "{escaped}" .') == ("a:s", "a:p", Literal(text))


@given(st.text(alphabet='<>ab:" .\\@^_#\tu0n', max_size=40))
def test_every_line_is_a_triple_or_has_a_reason(line: str) -> None:
    if TRIPLE.fullmatch(line):
        return
    with pytest.raises(ValueError, match=r"\w"):
        parse(line)

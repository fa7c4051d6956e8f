"""Kernels on columns of strings give what Python gives for each."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from kgqa.loaders.strings import has_nul, inside, is_text, json_objects, json_strings

WHITE = [chr(code) for code in range(0x110000) if chr(code).isspace()]
TEXTS = st.lists(
    st.text(st.sampled_from([*WHITE, "a", "é", "\0", "\x7f", "\u200b", "\ufeff", "\u180e"])),
    max_size=9,
)


@given(TEXTS)
@example(WHITE)
@example([f"a{white}" for white in WHITE])
@example([f"{white}a" for white in WHITE])
def test_white_space_is_what_python_says(texts: list[str]) -> None:
    for column in (pa.array(texts, pa.string()), pa.array(["x", *texts, "y"], pa.string())[1:-1]):
        assert is_text(column).tolist() == [bool(text.strip()) for text in texts]
        assert has_nul(column).tolist() == ["\0" in text for text in texts]


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))))
def test_strings_are_written_as_json_writes_them(texts: list[str | None]) -> None:
    expected = [json.dumps(text, ensure_ascii=False) if text else None for text in texts]
    written = json_strings(pa.array(texts, pa.string()))
    assert written.to_pylist() == expected
    objects = json_objects({'a"': written, "b": written}, len(texts)).to_pylist()
    about = [{'a"': text, "b": text} if text else None for text in texts]
    assert objects == [json.dumps(each, ensure_ascii=False) if each else None for each in about]


@given(st.lists(st.text(st.characters(max_codepoint=127)), max_size=5), st.integers(0, 3))
def test_texts_without_their_ends(texts: list[str], size: int) -> None:
    found = inside(pa.array(texts, pa.string()), size, size).to_pylist()
    for text, short in zip(texts, found, strict=True):
        assert len(text) < 2 * size or short == text[size : len(text) - size]

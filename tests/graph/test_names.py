"""Names are compared in one form, whether one is normalised or a column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from kgqa.graph import names as module
from kgqa.graph.model import ENTITY_SCHEMA, Kind, normalised_names
from kgqa.graph.names import name_form, name_form_column, normalise, normalised_column

NAMES = st.text(max_size=12) | st.text("aZ09 _-.'\x1c\x7f\tßİſÅ\u212b", max_size=12)


@given(st.lists(NAMES))
@example(
    [
        "->",
        "--",
        ' " ',
        "😀",
        "§ §",
        "",
        " ",
        "_",
        "A_b",
        "don't",
        "Straße",
        "İ",
        "\x1cx\x1f",
        "ﬁ",
        "Ⅻ",
        "x\x00y",
    ]
)
@example(["only", "ASCII"])
def test_a_column_has_the_form_of_each_name(names: list[str]) -> None:
    column = name_form_column(pa.array(names, type=pa.string()))
    assert column.to_pylist() == [name_form(name) for name in names]
    column = normalised_column(pa.array(names, type=pa.string()))
    assert column.to_pylist() == [normalise(name) for name in names]


@given(NAMES)
@example("->")
@example("😀")
@example("\udc80")
def test_a_form_is_that_of_the_words_or_of_the_symbols_alone(name: str) -> None:
    form, words = name_form(name), normalise(name)
    assert form == words or not words
    assert bool(form) == bool(name.split()) or name == "\udc80"
    assert name_form(form) == form or not form.isascii()


@given(NAMES)
def test_normalising_again_changes_nothing(name: str) -> None:
    once = normalise(name)
    assert normalise(once) == once or not once.isascii()
    assert once == once.strip()
    assert "  " not in once


def test_forms_of_short_texts_alone_are_remembered() -> None:
    module._short.cache_clear()
    short, long = "Zoë's  Café ", "a long text, " * 1_000
    for _ in range(3):
        assert normalise(short) == "zoë s café"
        assert normalise(long) == ("a long text " * 1_000).strip()
    assert module._short.cache_info()[:2] == (2, 1)
    assert module._short.cache_info().currsize == 1


def test_names_and_aliases_of_entities_alone() -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "name": "The Name", "aliases": ["Alias", "the-name", "???"], "kind": 0},
        {"id": "b", "name": None, "aliases": ["Other"], "kind": 0},
        {"id": "c", "name": "A mediator", "aliases": ["M"], "kind": int(Kind.MEDIATOR)},
        {"id": "d", "name": "1968", "aliases": None, "kind": int(Kind.VALUE)},
        {"id": "e", "name": "", "aliases": [], "kind": 0},
        {"id": "f", "name": "alias", "aliases": None, "kind": 0},
    ]
    full = [row | {"types": None, "properties": None} for row in rows]
    batch = pa.RecordBatch.from_pylist(full, schema=ENTITY_SCHEMA)
    found = normalised_names(batch, 100).to_pylist()
    assert sorted((row["norm"], row["key"]) for row in found) == [
        ("???", 100),
        ("alias", 100),
        ("alias", 105),
        ("other", 101),
        ("the name", 100),
    ]


def test_a_slice_of_nodes_has_its_own_names() -> None:
    rows = [
        {"id": f"e{n}", "name": f"n{n}", "aliases": [f"a{n}", f"b{n}"], "kind": 0}
        | {"types": None, "properties": None}
        for n in range(6)
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=ENTITY_SCHEMA).slice(2, 2)
    found = normalised_names(batch, 2).to_pylist()
    expected = [(f"{x}{n}", n) for x in "abn" for n in (2, 3)]
    assert sorted((row["norm"], row["key"]) for row in found) == sorted(expected)


def test_no_nodes_have_no_names() -> None:
    assert len(normalised_names(pa.RecordBatch.from_pylist([], schema=ENTITY_SCHEMA), 0)) == 0

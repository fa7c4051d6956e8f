"""The phrases of relations: bundled ones of a schema, else the words of a relation's name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kgqa.errors import DataError
from kgqa.paths.phrases import PHRASES_FILE, phrases_of, read_phrases, write_phrases
from tests.graph.tables import entity, tables_of
from tests.trie.language import store_of

if TYPE_CHECKING:
    from pathlib import Path

EDGES = [("a", "may_treat", "b"), ("a", "UsedFor", "b"), ("a", "onCallEngineer", "b")]


@pytest.mark.parametrize(
    ("loader", "phrases"),
    [
        ("umls", {"used for", "on call engineer", "is a drug that may treat"}),
        ("conceptnet", {"is used for", "on call engineer", "may treat"}),
        ("triples", {"used for", "on call engineer", "may treat"}),
    ],
)
def test_a_schema_has_bundled_phrases(tmp_path: Path, loader: str, phrases: set[str]) -> None:
    tables = tables_of([entity("a"), entity("b")], EDGES)
    tables = replace(tables, info=replace(tables.info, loader=loader))
    with store_of(tables, tmp_path) as store:
        assert {first for first, *_ in phrases_of(store, None)} == phrases
        write_phrases(tmp_path / PHRASES_FILE, store, [("one", "more"), ("two",), ("three",)])
        assert phrases_of(store, tmp_path) == [("one", "more"), ("two",), ("three",)]


def test_a_line_without_a_phrase_is_named(tmp_path: Path) -> None:
    (tmp_path / "my.tsv").write_text("# note\nowns\tis owner of\n\nlikes\t\n")
    with pytest.raises(DataError, match=r"my\.tsv, line 4: 'likes' has no phrase"):
        read_phrases(tmp_path / "my.tsv")
    with pytest.raises(DataError, match="cannot be read"):
        read_phrases(tmp_path / "none.tsv")

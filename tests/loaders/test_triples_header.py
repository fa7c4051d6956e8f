"""Headers of triples by any of their usual names, and tables that are not triples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kgqa.errors import DumpMalformedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.loaders.conftest import Loaded


@pytest.mark.parametrize(
    "header",
    [
        "source,target,type",
        "from,to,relationship",
        "Start ID,end_id,rel_type",
        ":START_ID,:END_ID,:TYPE",
        "subject,object,predicate",
        "node1,node2,interaction",
        "head_id,tail_id,relation",
        "subject_id,object_id,predicate_id",
    ],
)
def test_usual_names_are_known_in_any_order(
    load: Callable[..., Loaded], tmp_path: Path, header: str
) -> None:
    (tmp_path / "t.csv").write_text(f"{header}\nAda,London,born in\nBob,Ada,knows\n")
    loaded = load("triples", tmp_path / "t.csv")
    assert loaded.edges == {("Ada", "born in", "London"), ("Bob", "knows", "Ada")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,name,born\n1,Ada,1815\n2,Bob,1820\n", "is the header of another table"),
        (
            "name,city,born\nAda,London,1815\nBob,Paris,1820\nCy,Rome,1830\n",
            "is the header of another",
        ),
        ("film,year,stars\nHeat,1995,5\nUp,2009,4\nBig,1988,3\n", "is the header of another"),
        ("source,target,weight\na,b,1\nb,c,2\n", "does not say which column is the relation"),
        ("id,name,city,born\n1,Ada,London,1815\n2,Bob,Paris,1820\n", "its rows have 4 fields"),
    ],
)
def test_another_table_is_an_error_that_names_its_loader(
    load: Callable[..., Loaded], tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DumpMalformedError, match=said) as raised:
        load("triples", tmp_path / "t.csv")
    assert "kgqa ingest tables" in raised.value.hint


def test_triples_without_a_header_stay_triples(load: Callable[..., Loaded], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Ada,born in,London\nAda,born,1815\nBob,born,1820\n")
    assert len(load("triples", tmp_path / "t.csv").edges) == 3


def test_the_relation_is_the_column_that_says_it_in_words(
    load: Callable[..., Loaded], tmp_path: Path
) -> None:
    """As KGX writes edges: ``relation`` is empty, or holds codes."""
    rows = "a1\trelated_to\t\tb1\na2\ttreats\t\tb2\n"
    (tmp_path / "empty.tsv").write_text(f"subject\tpredicate\trelation\tobject\n{rows}")
    assert load("triples", tmp_path / "empty.tsv").edges == {
        ("a1", "related_to", "b1"),
        ("a2", "treats", "b2"),
    }
    rows = "a1\trelated_to\tRO:0002\tb1\na2\ttreats\tRO:HOM0003\tb2\n"
    (tmp_path / "codes.tsv").write_text(f"subject\tpredicate\trelation\tobject\n{rows}")
    loaded = load("triples", tmp_path / "codes.tsv")
    assert {relation for _, relation, _ in loaded.edges} >= {"related_to", "treats"}

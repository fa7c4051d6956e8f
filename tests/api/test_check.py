"""Whether a statement is in the graph: every form of it, both directions, shared names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kgqa
from kgqa.errors import EntityNotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

TRIPLES = """a1\tknows\tb
a2\tlikes\tb
b\tlives in\tc
m1\tpartner\tb
a1\tmarriage\tm1
"""
NAMES = "a1\tAnn\na2\tAnn\nb\tBert\nc\tCork\n"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    folder = tmp_path_factory.mktemp("people")
    (folder / "people.tsv").write_text(TRIPLES, "utf-8")
    (folder / "names.tsv").write_text(NAMES, "utf-8")
    with kgqa.ingest(
        "triples",
        folder / "people.tsv",
        names=folder / "names.tsv",
        mediators="m",
        home=folder / "home",
    ) as kg:
        yield kg


@pytest.mark.parametrize(
    ("statement", "heads"),
    [
        (("Ann", "knows", "Bert"), ["a1"]),
        (("Ann", "likes", "b"), ["a2"]),
        (("Bert", "^likes", "Ann"), ["b"]),
        ([("Ann", "knows", "Bert"), ("Bert", "lives in", "Cork")], ["a1"]),
        ("Ann -> likes -> Bert -> lives in -> Cork", ["a2"]),
        ("Ann -> marriage..partner -> Bert", ["a1"]),
    ],
)
def test_a_statement_that_is_there(people: kgqa.KG, statement: Any, heads: list[str]) -> None:
    found = people.check(statement)
    assert found
    assert [path.head.id for path in found.paths] == heads
    assert all(edge.facts for path in found.paths for edge in path.edges)
    assert found.to_dict()["found"] is True


@pytest.mark.parametrize(
    ("statement", "missing"),
    [
        (("Bert", "knows", "Ann"), "Bert -> knows -> Ann"),
        (("a2", "knows", "Bert"), "a2 -> knows -> Bert"),
        (("Ann", "hates", "Bert"), "Ann -> hates -> Bert"),
        ("Ann -> knows -> Bert -> knows -> Ann", "Bert -> knows -> Ann"),
        ([("a1", "knows", "b"), ("a2", "likes", "b")], "a2 -> likes -> b"),
    ],
)
def test_a_statement_that_is_not_there(people: kgqa.KG, statement: Any, missing: str) -> None:
    found = people.check(statement)
    assert not found
    assert found.missing == missing
    assert found.to_dict()["paths"] == []


def test_a_path_of_paths_is_there_and_a_changed_one_is_not(people: kgqa.KG) -> None:
    for path in people.paths("a1", hops=2).paths:
        assert people.check(path)
        assert people.check({"edges": [edge.to_dict() for edge in path.edges]})
        edge = path.edges[0]
        assert not people.check((edge.head.id, f"no {edge.relation}", edge.tail.id))


@pytest.mark.parametrize(
    "wrong", ["", "Ann", "Ann -> knows", "Ann -> -> Bert", [], [("a", "b")], 7]
)
def test_a_malformed_statement(people: kgqa.KG, wrong: Any) -> None:
    with pytest.raises(UsageError, match="is not a statement"):
        people.check(wrong)


def test_a_name_that_the_kg_lacks(people: kgqa.KG) -> None:
    with pytest.raises(EntityNotFoundError, match="Zoe"):
        people.check(("Zoe", "knows", "Bert"))

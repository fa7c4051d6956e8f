"""Looking at a trie: the one in the index or one built from the graph, said and alike."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kgqa.api import index as api_index

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

OBAMA = "m.02mjmr"
KEYS = {"entity", "source", "paths", "sequences", "nodes", "tokens", "branching"}


def text_of(line: str) -> str:
    """The text behind a line of tokens whose text needs no backslash."""
    return re.sub(r"\{\d+\}|\|", "", line)


def test_the_trie_is_the_same_from_the_index_and_from_the_graph(
    kgqa: Kgqa, home: Path, plain_home: Path
) -> None:
    command = ("tries", "export", OBAMA, "--limit", "7", "--json", "--home")
    stored, built = kgqa(*command, home), kgqa(*command, plain_home)
    assert "the one in the index" in stored.err
    assert "no trie index. The trie is built from the graph" in built.err
    assert set(stored.json) == KEYS | {"lines"}
    assert (stored.json["source"], built.json["source"]) == ("shard", "graph")
    assert stored.json | {"source": None} == built.json | {"source": None}
    assert len(stored.json["lines"]) == 7
    assert stored.json["entity"] == {"id": OBAMA, "name": "Barack Obama"}


def test_the_lines_are_the_paths(kgqa: Kgqa, home: Path) -> None:
    trie = kgqa("tries", "export", OBAMA, "--limit", "100000", "--json", "--home", home).json
    paths = kgqa("paths", OBAMA, "--limit", "100000", "--json", "--home", home).json
    plain = {path["text"] for path in paths["paths"] if not re.search(r"[{}|\\]", path["text"])}
    assert len(plain) > 10
    end = r"<\im_end\>"  # the closing token, its bars gone with those between tokens
    lines = {text_of(line).removeprefix(" ").removesuffix(end) for line in trie["lines"]}
    assert plain <= lines
    assert len(trie["lines"]) == trie["sequences"] <= trie["paths"] == paths["total"]
    assert trie["nodes"] <= 1 + trie["tokens"]
    levels = trie["branching"]["levels"]
    assert sum(level["nodes"] for level in levels) == trie["nodes"]
    assert sum(level["children"] for level in levels) == trie["nodes"] - 1


def test_other_hops_are_built_from_the_graph(kgqa: Kgqa, home: Path) -> None:
    done = kgqa("tries", "export", OBAMA, "--hops", "1", "--home", home)
    assert "does not fit: it has hops 2, not 1. The trie is built from the graph" in done.err
    assert "token sequences for" in done.out


def test_too_many_paths_are_an_error_never_a_part_of_them(
    kgqa: Kgqa, plain_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_index, "MOST_SHOWN", 20)
    error = kgqa("tries", "export", OBAMA, "--home", plain_home).error
    assert "more than 20 paths" in error
    assert "--hops" in error


def test_an_entity_that_has_no_path_is_named(kgqa: Kgqa, tmp_path: Path) -> None:
    triples = tmp_path / "tiny.tsv"
    triples.write_text("a\tlikes\tb\n", encoding="utf-8")
    assert kgqa("ingest", "triples", triples, "--home", tmp_path / "home").code == 0
    command = ("tries", "export", "b", "--direction", "out", "--home", tmp_path / "home")
    assert "b (b) has no path of at most" in kgqa(*command).error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("export", "Nobody At All"), "Nobody At All"),
        (("export", OBAMA, "--limit", "0"), "--limit"),
        (("export", OBAMA, "--preset", "nope"), "nope"),
        (("import", OBAMA), "import"),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    kgqa: Kgqa, home: Path, arguments: tuple[str, ...], said: str
) -> None:
    assert said in kgqa("--home", home, "tries", *arguments).error


def test_paths_tells_how_big_the_trie_in_the_index_is(kgqa: Kgqa, home: Path) -> None:
    (found,) = kgqa("paths", OBAMA, "--json", "--home", home).json["tries"]
    exported = kgqa("tries", "export", OBAMA, "--json", "--home", home).json
    assert (found["paths"], found["nodes"]) == (exported["paths"], exported["nodes"])
    assert (found["hops"], found["model"] != "") == (2, True)
    assert 0 < found["bytes"] < 100 * found["paths"] + 10_000
    assert f"{found['paths']:,} paths of at most 2 hops" in kgqa("paths", OBAMA, "--home", home).out
    assert kgqa("paths", "Hawaii", "--json", "--home", home).json["tries"] == []


def test_a_shared_name_means_the_best_connected_entity_and_names_the_others(
    kgqa: Kgqa, tmp_path: Path
) -> None:
    names, edges, where = tmp_path / "names.tsv", tmp_path / "edges.tsv", tmp_path / "home"
    names.write_text("p1\tParis\np2\tParis\n", "utf-8")
    edges.write_text("p1\tcapital of\tf\np1\tlocated in\te\np2\tlocated in\tt\n", "utf-8")
    made = kgqa("ingest", "triples", edges, "--names", names, "--kg", "towns", "--home", where)
    assert made.code == 0, made.err
    done = kgqa("tries", "export", "Paris", "--hops", "1", "--home", where)
    assert 'Interpreted "Paris" as p1, the best connected one; others: "Paris" (p2).' in " ".join(
        done.err.split()
    )

"""`kgqa attach` of a SPARQL endpoint: which of its graphs is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.graph.sparql_server import serving

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

X = "http://x.org/"


def test_graph_names_a_named_graph_and_no_second_store(kgqa: Kgqa, tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    (tmp_path / "two.trig").write_text(f"@prefix : <{X}> . :g {{ :a :b :c }} :h {{ :c :b :d }}")
    with serving(tmp_path, tmp_path / "two.trig") as url:
        home = tmp_path / "home"
        empty = kgqa("attach", url, "--kg", "all", KGQA_HOME=home)
        assert (empty.code, "--named-graph asks one" in empty.err) == (1, True)
        done = kgqa("attach", url, "--graph", f"{X}h", "--kg", "one", KGQA_HOME=home)
        assert (done.code, f"(graph {X}h)" in done.out) == (0, True)
        both = kgqa("attach", url, "--graph", "neo4j://127.0.0.1:1", KGQA_HOME=home)
        assert (both.code, "are two places" in both.err) == (1, True)

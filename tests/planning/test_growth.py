"""What a question costs is bounded by what it mentions, not by how large the schema is."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench_schema"


def test_a_larger_schema_has_no_more_words_looked_up(tmp_path: Path) -> None:
    loader = SourceFileLoader("bench_schema", str(SCRIPT))
    spec = spec_from_loader("bench_schema", loader)
    assert spec is not None
    bench = module_from_spec(spec)
    loader.exec_module(bench)
    small, large = (bench.measure(relations, 3, tmp_path) for relations in (250, 750))
    assert small["answers"][0] == large["answers"][0] == "3"
    assert 0 < large["stems"] < 1.2 * small["stems"]

"""Parquet files and the parts of a stopped load with changed bytes: named errors, or the load."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kgqa
from kgqa.errors import KgqaError

if TYPE_CHECKING:
    from pathlib import Path


def changed(content: bytes, dice: random.Random) -> bytes:
    found = bytearray(content)
    for _ in range(dice.choice([1, 1, 2, 5])):
        found[dice.randrange(len(found))] = dice.randrange(256)
    return bytes(found)


@pytest.mark.parametrize("count", [12, pytest.param(200, marks=pytest.mark.long)])
def test_a_parquet_file_of_any_bytes(tmp_path: Path, count: int) -> None:
    file = tmp_path / "kg.parquet"
    columns = {"head": ["a", "b"] * 50, "relation": ["r"] * 100, "tail": ["c", "d"] * 50}
    pq.write_table(pa.table(columns), file)
    whole, dice = file.read_bytes(), random.Random(count)
    loaded = 0
    for _ in range(count):
        file.write_bytes(changed(whole, dice))
        try:
            kgqa.ingest("triples", file, home=tmp_path / "home").close()
            loaded += 1
        except KgqaError:
            pass
    assert loaded < count


@pytest.mark.parametrize("count", [5, pytest.param(60, marks=pytest.mark.long)])
def test_parts_of_a_stopped_load_of_any_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    file, home = tmp_path / "kg.tsv", tmp_path / "home"
    file.write_text("".join(f"head {n}\tr\ttail {n}\n" for n in range(200)))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with kgqa.ingest("triples", file, home=tmp_path / "whole") as kg:
        version = kg.info.version
    dice = random.Random(count)
    for _ in range(count):
        with monkeypatch.context() as patch:
            patch.setattr("kgqa.loading.pipeline.EdgeTable", stop)
            with pytest.raises(KeyboardInterrupt):
                kgqa.ingest("triples", file, home=home)
        parts = sorted(path for path in (home / "kg").rglob("*") if path.is_file())
        parts = [path for path in parts if path.stat().st_size and "lock" not in path.name]
        part = dice.choice(parts)
        part.write_bytes(changed(part.read_bytes(), dice))
        with kgqa.ingest("triples", file, home=home) as kg:  # it starts from scratch
            assert (kg.info.entities, kg.info.edges) == (400, 200)
            assert kg.info.version == version

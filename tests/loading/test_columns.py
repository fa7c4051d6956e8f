"""Columns on disk: buckets keep every row once, spill at their bound, and hold no more."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kgqa.loading.columns import Buckets, ColumnWriter, gathered, read_columns

_SCHEMA = pa.schema([("key", pa.int64()), ("row", pa.int64())])


def rows_of(keys: list[int], first: int = 0) -> pa.RecordBatch:
    columns = [pa.array(keys, type=pa.int64()), pa.array(np.arange(first, first + len(keys)))]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def pairs(batches: list[pa.RecordBatch]) -> list[tuple[int, int]]:
    return [(row["key"], row["row"]) for batch in batches for row in batch.to_pylist()]


def batches_of(sizes: list[list[int]]) -> list[pa.RecordBatch]:
    starts = np.cumsum([0, *map(len, sizes)]).tolist()
    return [rows_of(keys, start) for keys, start in zip(sizes, starts, strict=False)]


@given(
    st.integers(1, 40).flatmap(
        lambda keys: st.tuples(
            st.just(keys),
            st.integers(1, keys + 5),
            st.lists(st.lists(st.integers(0, keys - 1), max_size=12), max_size=12),
        )
    ),
    st.sampled_from([0, 64, 1 << 20]),
)
@example((3, 1, []), 0)
@settings(max_examples=150)
def test_every_row_is_in_the_bucket_of_its_key_in_the_order_it_came(
    shape: tuple[int, int, list[list[int]]], memory: int
) -> None:
    keys, span, sizes = shape
    with tempfile.TemporaryDirectory() as folder:
        buckets = Buckets(Path(folder) / "buckets", keys, span, memory)
        assert buckets.count == -(-keys // span)
        for rows in batches_of(sizes):
            buckets.add(rows.column("key").to_numpy(), rows)
        given_rows = [pair for rows in batches_of(sizes) for pair in pairs([rows])]
        for bucket in range(buckets.count):
            expected = [pair for pair in given_rows if pair[0] // span == bucket]
            assert pairs(buckets.take(bucket)) == expected
            assert buckets.take(bucket) == []
        assert list((Path(folder) / "buckets").iterdir()) == []  # what was taken is gone


def test_rows_beyond_the_bound_go_to_disk_and_no_more_are_held(tmp_path: Path) -> None:
    rows = rows_of([0, 5, 9])
    bound = 10 * rows.nbytes
    buckets = Buckets(tmp_path / "b", keys=10, span=5, memory=bound)
    written = 0
    for _ in range(100):
        buckets.add(rows.column("key").to_numpy(), rows)
        held = sum(batch.nbytes for each in buckets._held for batch in each)
        assert held <= bound + rows.nbytes
        written = sum(path.stat().st_size for path in (tmp_path / "b").iterdir())
    assert written > 80 * rows.nbytes  # of a hundred batches no more than the last ten are held
    assert [len(pairs(buckets.take(bucket))) for bucket in range(2)] == [100, 200]


def test_files_that_an_earlier_run_left_are_not_read(tmp_path: Path) -> None:
    for run in range(2):
        buckets = Buckets(tmp_path / "b", keys=2, span=1, memory=0)
        buckets.add(np.array([0, 1]), rows_of([0, 1], first=10 * run))
        if run == 0:
            continue  # stopped before anything was read
        assert pairs(buckets.take(0) + buckets.take(1)) == [(0, 10), (1, 11)]


@pytest.mark.parametrize("sizes", [[], [3], [0, 2, 0, 5], [1] * 20])
def test_a_file_of_columns_gives_back_its_batches(tmp_path: Path, sizes: list[int]) -> None:
    path = tmp_path / "columns.arrow"
    assert list(read_columns(path)) == []
    with ColumnWriter(path, _SCHEMA) as writer:
        for size in sizes:
            writer.append(rows_of(list(range(size))))
    assert writer.rows == sum(sizes)
    assert [len(batch) for batch in read_columns(path)] == sizes


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 20))
def test_gathering_keeps_rows_and_order_and_holds_about_as_many_as_asked(
    sizes: list[int], rows: int
) -> None:
    batches = batches_of([[0] * size for size in sizes])
    found = list(gathered(batches, rows))
    assert all(0 < len(batch) < rows + 9 for batch in found)
    assert pairs(found) == pairs(batches)
    assert all(len(batch) >= rows for batch in found[:-1])

"""Columns on disk: append batches to a file, read them back in order, split them into buckets.

What a load cannot hold in memory lies in such files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kgqa.closing import Closing
from kgqa.parallel import mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from kgqa.graph.model import IntArray

CHUNK_ROWS = 1 << 20


class ColumnWriter(Closing):
    """Appends batches of one schema to a file; closed by ``close`` or ``with``."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.rows = 0
        self._file = pa.OSFile(str(path), "wb")
        self._stream = pa.ipc.new_stream(self._file, schema)

    def append(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        self.rows += len(batch)
        self._stream.write_batch(batch)

    def close(self) -> None:
        """Close the file."""
        try:
            self._stream.close()
        finally:  # a full disk
            self._file.close()


def read_columns(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file in the order of appending; nothing if it does not exist."""
    if not path.exists():
        return
    with pa.OSFile(str(path), "rb") as file, pa.ipc.open_stream(file) as stream:
        yield from stream


def gathered(batches: Iterable[pa.RecordBatch], rows: int = CHUNK_ROWS) -> Iterator[pa.RecordBatch]:
    """Regroup rows into batches of at least ``rows`` each, the last one with the rest."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += len(batch)
        if count >= rows:
            yield joined(held)
            held, count = [], 0
    if count:
        yield joined(held)


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches of one schema."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


class Buckets:
    """Rows partitioned by key range, each part small enough to be sorted in memory.

    Up to ``memory`` bytes are held in memory, the rest in a file for each bucket. ``span``: the
    number of keys of a bucket.
    """

    def __init__(self, folder: Path, keys: int, span: int, memory: int = 32 << 20) -> None:
        self.span = span
        self.count = max(1, -(-keys // span))
        self._folder = folder
        self._memory = memory
        self._bytes = 0
        self._held: list[list[pa.RecordBatch]] = [[] for _ in range(self.count)]
        self._spilled = [False] * self.count
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, keys: IntArray, rows: pa.RecordBatch) -> None:
        """Add rows to the buckets of their keys."""
        if not len(rows):
            return
        self._bytes += rows.nbytes
        if self.count == 1:
            self._held[0].append(rows)
        else:
            bucket = (keys // self.span).astype(np.uint16 if self.count < 1 << 16 else np.int64)
            order = np.argsort(bucket, kind="stable")
            rows = rows.take(pa.array(order))
            present, starts = np.unique(bucket[order], return_index=True)
            ends = [*starts[1:].tolist(), len(order)]
            for which, start, end in zip(present.tolist(), starts.tolist(), ends, strict=True):
                self._held[which].append(rows.slice(start, end - start))
        if self._bytes > self._memory:
            self._spill()

    def take(self, bucket: int) -> list[pa.RecordBatch]:
        """Return the rows of a bucket in the order of addition, and empty it."""
        held, self._held[bucket] = self._held[bucket], []
        if self._spilled[bucket]:
            path = self._path(bucket)
            with pa.OSFile(str(path), "rb") as file:
                before: list[pa.RecordBatch] = []
                while file.tell() < file.size():
                    with pa.ipc.open_stream(file) as stream:
                        before += list(stream)
            path.unlink()
            self._spilled[bucket] = False
            held = before + held
        return held

    def each(self, work: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield ``work(rows)`` of each bucket with rows, in order, and empty the buckets."""

        def worked_on(bucket: int) -> pa.RecordBatch | None:
            """Apply ``work`` to one bucket; None if it has no rows."""
            held = self.take(bucket)
            return work(joined(held)) if held else None

        yield from (rows for rows in mapped(worked_on, range(self.count)) if rows is not None)

    def _path(self, bucket: int) -> Path:
        """Return the file of a bucket."""
        return self._folder / f"{bucket}.arrow"

    def _spill(self) -> None:
        """Append all rows in memory to the buckets' files."""
        for bucket, held in enumerate(self._held):
            if held:
                batch = joined(held)
                mode = "ab" if self._spilled[bucket] else "wb"
                with (
                    pa.OSFile(str(self._path(bucket)), mode) as file,
                    pa.ipc.new_stream(file, batch.schema) as stream,
                ):
                    stream.write_batch(batch)
                self._spilled[bucket] = True
                self._held[bucket] = []
        self._bytes = 0

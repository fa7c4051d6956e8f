"""JSON lines: one record a line, whatever its texts hold, and a torn line harms no other.

U+2028, U+2029 and U+0085 are text in JSON and ends of lines to many readers, ``str.splitlines``
among them; so they are written as escapes, and lines are read by their line feeds alone.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_BREAKS = re.compile("[\x7f\x85\u2028\u2029\ud800-\udfff]")


def record_line(record: Mapping[str, Any]) -> str:
    r"""Format a record as one JSON line.

    >>> record_line({"question": "one\u2028two\n"})
    '{"question": "one\\u2028two\\n"}\n'
    """
    text = json.dumps(record, ensure_ascii=False)
    return _BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def append_record(path: Path, record: Mapping[str, Any]) -> None:
    """Append a record to a file, created readable by its owner alone. Raises OSError.

    It is a single write, so that several processes may append. An incomplete last line of an
    earlier process is left as a line of its own; a line that this process cannot write completely
    is removed.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(handle).st_size
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        line = b"\n" * torn + record_line(record).encode()
        if (written := os.write(handle, line)) < len(line):
            if os.fstat(handle).st_size == size + written:  # nobody else has written since
                os.ftruncate(handle, size)
            raise OSError(28, os.strerror(28))  # a disk that is full takes only a part
    finally:
        os.close(handle)


def read_records(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield (line number from 1, record) of each line that is not blank, None for a damaged one.

    A line that is not a JSON object is damaged. Raises OSError.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            yield number, record if isinstance(record, dict) else None

"""Questions that people judged: right answers as ``learn --questions`` and ``eval`` read them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kgqa.errors import UsageError
from kgqa.records import append_record, read_records, record_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LOG = logging.getLogger("kgqa.api")
_FILE = "approved.jsonl"
_MOST = 10_000_000  # bytes


def approve(
    folder: Path,
    question: str,
    topic_entities: Sequence[str],
    answers: Sequence[str],
    plan: str | None = None,
    *,
    right: bool = True,
) -> int:
    """Save a question with its answers; return how many questions have right ones.

    ``question``: as it was resolved, so that it stands alone; no ``answers``: it is not in the KG.
    Answers that are not ``right`` are saved as ``wrong`` until right ones are given. Raises
    UsageError.
    """
    line: dict[str, Any] = {"question": question, "topic_entities": [*topic_entities]}
    line["answers" if right else "wrong"] = [*answers]
    if plan:
        line["plan"] = plan
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _FILE
    if path.exists() and path.stat().st_size > _MOST:
        raise UsageError(
            f"{_FILE} is full: {_MOST:,} bytes.", "Whoever runs the server moves it away."
        )
    try:
        append_record(path, line)
    except OSError as error:
        raise UsageError(
            f"The answer cannot be kept in {_FILE}: {error.strerror or error}.",
            "Whoever runs the server makes room, or checks who may write there.",
        ) from None
    return approved(folder).count("\n")


def _is_judged(line: dict[str, Any]) -> bool:
    """Return whether a saved line has the fields of a judged question, of the right types."""
    lists = [line[name] for name in ("topic_entities", "answers", "wrong") if name in line]
    return isinstance(line.get("question"), str) and all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists
    )


def approved(folder: Path, *, right: bool = True) -> str:
    """Return the saved lines with right answers (or with wrong ones), the last of each question.

    Damaged lines are skipped, with a warning in the log; "" if nothing was saved.
    """
    path = folder / _FILE
    kept: dict[Any, dict[str, Any]] = {}
    for number, line in read_records(path) if path.exists() else ():
        if line is None or not _is_judged(line):
            _LOG.warning("%s, line %d is damaged, and is passed over.", path, number)
            continue
        key = line["question"], *map(str, line.get("topic_entities", ()))
        kept.pop(key, None)
        kept[key] = line
    kind = "answers" if right else "wrong"
    return "".join(record_line(line) for line in kept.values() if kind in line)

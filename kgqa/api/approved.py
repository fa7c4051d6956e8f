"""Questions that people judged: right answers as ``learn --questions`` and ``eval`` read them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from kgqa.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
    """Keep a question with its answers; returns how many have right ones. Raises UsageError.

    ``question``: as it was resolved, so that it stands alone; no ``answers``: it is not in the KG.
    Those that are not ``right`` are kept as ``wrong`` until right ones are given.
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
    # one write, so that several servers may append to it
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as file:
        file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
    return len(approved(folder).splitlines())


def approved(folder: Path, *, right: bool = True) -> str:
    """Return the lines with right answers, or with wrong ones; of a question the last one."""
    path = folder / _FILE
    lines: dict[Any, str] = {}
    for text in path.read_text("utf-8").splitlines() if path.exists() else ():
        line = json.loads(text)
        key = line["question"], *line["topic_entities"]
        lines.pop(key, None)
        lines[key] = text
    kind = "answers" if right else "wrong"
    return "".join(f"{text}\n" for text in lines.values() if kind in json.loads(text))

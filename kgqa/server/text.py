"""An answer's JSON as readable text, for chats and for MCP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgqa.display import visible
from kgqa.errors import EmptyLanguageError, EntityNotFoundError, LinkingError

if TYPE_CHECKING:
    from collections.abc import Mapping

UNANSWERABLE = (LinkingError, EntityNotFoundError, EmptyLanguageError)
"""Errors that say something about the question, and not about the request."""
_ANSWERS, _PATHS = 10, 5


def answer_text(found: Mapping[str, Any]) -> str:
    """Return the answers, the paths behind them, and the notes, as lines."""
    answers, paths = found["answers"], found["paths"]
    if not answers:
        return "\n\n".join(["The facts found do not answer the question.", *found["notes"]])
    names = [visible(one["name"]) + ("" if one["grounded"] else " (in no path)") for one in answers]
    first = ", ".join(names[:_ANSWERS])
    if len(names) > _ANSWERS:
        first += f" and {len(names) - _ANSWERS} more"
    if found["confidence"] is not None:
        first += f" (confidence {min(round(100 * found['confidence']), 99)} %)"
    behind = list(dict.fromkeys(place for one in answers for place in one["paths"]))[:_PATHS]
    lines = [f"- {visible(paths[place]['text'])}" for place in behind]
    for one in answers[:_ANSWERS]:
        lines += [
            f"- {visible(each['asked'])}: {visible(each['text'])}" for each in one["conditions"]
        ]
    parts = [first]
    if lines:
        parts.append("\n".join(["Paths, each edge checked in the graph:", *lines]))
    return "\n\n".join([*parts, *found["notes"]])

"""The fixed split of a benchmark: a fifth of its questions is never trained on."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from kgqa.errors import DataError

if TYPE_CHECKING:
    from kgqa.questions.base import QuestionFile

Split: TypeAlias = Literal["all", "validation", "rest"]


def is_held_out(question_id: str) -> bool:
    """Return whether a question belongs to the fixed fifth that is never trained on."""
    digest = hashlib.sha256(question_id.encode()).digest()
    return int.from_bytes(digest[:4], "big") % 5 == 0


def split_of(file: QuestionFile, split: Split) -> QuestionFile:
    """Return the held-out fifth (``validation``) or the rest. Raises DataError if empty."""
    if split == "all":
        return file
    chosen = [one for one in file.questions if is_held_out(one.id) == (split == "validation")]
    if not chosen:
        raise DataError(f"No question of the file is in the split '{split}'.", "Leave out `split`.")
    return replace(file, questions=chosen, split=split)

"""What kind of answer a question asks for, by its words: English."""

from __future__ import annotations

import re

_WHETHER = re.compile(
    r"\W*(?:(?:so|and|but)\W+)?(?:is|are|was|were|am|do|does|did|has|have|had|can|could|will|would"
    r"|isn't|aren't|wasn't|weren't|don't|doesn't|didn't|hasn't|haven't)\b(?! there\b)",
    re.IGNORECASE,
)
_SOMETHING_ELSE = re.compile(
    r"\b(?:or|who|whom|whose|which|what|what's|where|when|why|how|any\w*|some\w*|tell|know|ever)\b",
    re.IGNORECASE,
)


def asks_whether(question: str) -> bool:
    """Return whether a question asks if something holds, and so for a yes.

    Not "is there a …", nor what names a choice or asks for something in a side clause.

    >>> asks_whether("Is Bonn the capital of Germany?"), asks_whether("Is it Bonn or Berlin?")
    (True, False)
    >>> asks_whether("Which is it?"), asks_whether("Do you know who runs Bonn?")
    (False, False)
    """
    return bool(_WHETHER.match(question)) and not _SOMETHING_ELSE.search(question)

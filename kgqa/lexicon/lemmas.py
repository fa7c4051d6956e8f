"""Singular forms of English words: one rule for all, with the irregular words that matter.

A dictionary (simplemma's English table) costs 0.22 CPU seconds and 40 MB at the first question,
more than everything else that a cold start reads of English; its answers differ in irregular verbs.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kgqa.lexicon.english import english

_IES = re.compile(r"(\w+?)(?:ies|ie)")
_ES = re.compile(r"(\w+(?:ch|sh|ss|x|zz|us))es")


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Return the singular form, normalised, of a word.

    >>> [stem(one) for one in ("movies", "movie", "branches", "people", "buses", "classes")]
    ['movy', 'movy', 'branch', 'person', 'bus', 'class']
    """
    plurals: dict[str, str] = english()["plurals"]
    if word in plurals:
        return plurals[word]
    if len(word) > 4 and (match := _IES.fullmatch(word)):
        return f"{match[1]}y"
    if len(word) > 4 and (match := _ES.fullmatch(word)):
        return match[1]
    if word.endswith(("ss", "us")):
        return word
    return word[:-1] if word.endswith("s") and len(word) > 3 else word


@lru_cache(maxsize=1)
def _verbs() -> dict[str, str]:
    """Return the first form of each irregular form of a verb."""
    table: dict[str, str] = english()["verbs"]
    return {form: verb for verb, forms in table.items() for form in forms.split()}


def verb(word: str) -> str:
    """Return the first form of an irregular verb, other words as they are.

    >>> verb("made"), verb("walked")
    ('make', 'walked')
    """
    return _verbs().get(word, word)

"""Text → sentences, by punctuation and a few known abbreviations, and long texts → parts.

What it does not do: know a language; a sentence cut at the wrong place is still the text's own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# what ends a sentence, with the quotes and brackets that close after it
_END = re.compile(r"(?:[.!?…]+[\"'”’»)\]]*\s+|[。！？]+[」』”’）]*\s*)")
_BEFORE = re.compile(r"(\S+)$")
_LOWER = re.compile(r"[a-zß-öø-ÿ]")
_INITIALS = re.compile(r"(?:[A-Za-z]\.)+|\d{1,3}\.")
# fmt: off
_ABBREVIATIONS = frozenset((
    "mr.", "mrs.", "ms.", "dr.", "prof.", "st.", "sr.", "jr.", "rev.", "hon.", "gen.", "col.",
    "capt.", "lt.", "sgt.", "gov.", "sen.", "vs.", "etc.", "ca.", "approx.", "fig.", "vol.",
    "pp.", "ed.", "eds.", "inc.", "ltd.", "co.", "corp.", "dept.", "univ.", "jan.", "feb.",
    "mar.", "apr.", "jun.", "jul.", "aug.", "sep.", "sept.", "oct.", "nov.", "dec.",
))
# fmt: on


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text, their white space made single spaces.

    >>> sentences_of("Dr. Moll met J. R. Ek in 1901. They sailed!  Where to?")
    ['Dr. Moll met J. R. Ek in 1901.', 'They sailed!', 'Where to?']
    """
    text = " ".join(text.split())
    found, start = [], 0
    for match in _END.finditer(text):
        end = match.end()
        if end >= len(text) or _goes_on(text[start : match.end()].rstrip(), text[end]):
            continue
        found.append(text[start:end].strip())
        start = end
    rest = text[start:].strip()
    return [*found, rest] if rest else found


def in_parts(sentences: Sequence[str], most: int) -> Iterator[tuple[str, ...]]:
    """Yield sentences in parts of at most ``most`` characters, a longer one alone in its part."""
    part: list[str] = []
    size = 0
    for sentence in sentences:
        if part and size + len(sentence) > most:
            yield tuple(part)
            part, size = [], 0
        part.append(sentence)
        size += len(sentence) + 1
    if part:
        yield tuple(part)


def _goes_on(before: str, after: str) -> bool:
    """Return whether a full stop ends no sentence: an abbreviation, an initial, a small letter."""
    if not before.endswith("."):
        return False
    last = _BEFORE.search(before)
    word = last[1].lstrip("(\"'“‘«[") if last else ""
    if word.casefold() in _ABBREVIATIONS or _LOWER.match(after):
        return True
    return _INITIALS.fullmatch(word) is not None

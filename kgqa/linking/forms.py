"""Variants of names in questions (plurals, demonyms, misspellings), and partial matches.

Articles, plurals, abbreviations and adjectives become names that are looked up exactly, so that
they work alike in every store. In a part of a name, words count whatever their order and accents;
initials, nicknames and small differences of spelling count too. ``kgqa.linking.linker`` weighs both
below the text as it stands.
"""

from __future__ import annotations

import unicodedata
from difflib import SequenceMatcher
from functools import lru_cache

from kgqa.lexicon.vocabulary import (
    ABBREVIATIONS,
    COMMON,
    FUNCTION,
    NOT_LANGUAGES,
    PLACES,
    RELIGIONS,
    WORD_ABBREVIATIONS,
    same_person,
)
from kgqa.weights import weights

WEIGHTS = weights("linking")
_LONG = 7  # letters of a name that may have a slip
_SPELT = 4  # letters of the shortest word that may be spelt otherwise


def other_forms(form: str, *, language: bool = False) -> dict[str, float]:
    """Return other normalised names that ``form`` may stand for, each with a likelihood in 0..1.

    ``language``: the question is about a language, so that "german" stands rather for the language
    than for the country.

    >>> other_forms("german")
    {'germany': 1.0, 'german language': 0.75, 'germans': 1.0, 'the german': 1.0}
    """
    weights: dict[str, float] = dict.fromkeys(ABBREVIATIONS.get(form, ()), 1.0)
    weights |= dict.fromkeys(RELIGIONS.get(form, ()), 1.0)
    place = PLACES.get(form)
    if language and form not in NOT_LANGUAGES and " " not in form:
        weights[f"{form} language"] = 1.0
    if place is not None:
        weights[place] = WEIGHTS["language_country"] if language else 1.0
        if form not in NOT_LANGUAGES:
            weights.setdefault(f"{form} language", WEIGHTS["people_language"])
    words = form.split()
    for position, word in enumerate(words):
        full = WORD_ABBREVIATIONS.get(word)
        if full is not None and len(words) > 1:
            weights[" ".join([*words[:position], full, *words[position + 1 :]])] = 1.0
    plain = folded(form)
    if plain != form:
        weights.setdefault(plain, 1.0)
    if " of " in form and " of the " not in form:
        weights.setdefault(form.replace(" of ", " of the ", 1), 1.0)
    last = words[-1] if words else ""
    if len(last) > 3 and last.isascii():
        singular = last[:-1] if last.endswith("s") and not last.endswith("ss") else None
        weights.setdefault(" ".join([*words[:-1], singular or f"{last}s"]), 1.0)
    if words and words[0] != "the":
        weights.setdefault(f"the {form}", 1.0)
    weights.pop(form, None)
    return weights


def folded(form: str) -> str:
    """Return a normalised name without accents on Latin, Greek and Cyrillic letters.

    >>> folded("hugo chávez")
    'hugo chavez'
    """
    if form.isascii():
        return form
    kept: list[str] = []
    base = ""
    for character in unicodedata.normalize("NFD", form):
        if unicodedata.combining(character):
            if base < "\u0530":  # marks of other scripts are letters of their own
                continue
        else:
            base = character
        kept.append(character)
    return unicodedata.normalize("NFC", "".join(kept))


def partial_coverage(mention: str, name: str) -> float:
    """Return the fraction of ``name``'s words in ``mention``; 0 if it has words of no such form.

    Both are normalised; accents do not count. Beside an equal word, a nickname counts whole, and an
    initial or a slightly different spelling half. 1 means the same words or nicknames, in any
    order. If the mention has the whole name with one more word inside, the fraction is that of the
    mention's words.

    >>> partial_coverage("hitler", "adolf hitler")
    0.5
    >>> partial_coverage("leif ericson", "leif eriksson")
    0.75
    >>> partial_coverage("tolkiens", "christopher tolkien")
    0.5
    >>> partial_coverage("barack hussein obama", "barack obama")
    0.6666666666666666
    """
    words = folded(mention).split()
    held = set(folded(name).split())
    asked = {word if word in held or word[:-1] not in held else word[:-1] for word in words}
    same = asked & held
    if not same:
        return 0.0
    if same == held and len(held) > 1 and len(asked) == len(held) + 1:
        return len(held) / len(asked) if words[0] in held and words[-1] in held else 0.0
    near = 0.0
    left = held - same
    for word in sorted(asked - same):
        alike = max(left, key=lambda other: (_likeness(word, other), other), default="")
        if not alike or _likeness(word, alike) < WEIGHTS["alike"]:
            return 0.0
        left.discard(alike)
        near += 1.0 if same_person(word, alike) else WEIGHTS["alike_word"]
    return (len(same) + near) / len(held)


def is_misspelt(word: str, name: str) -> bool:
    """Return whether a word is a misspelling of a long name of one word.

    >>> is_misspelt("paracetmol", "paracetamol"), is_misspelt("german", "germany")
    (True, False)
    """
    long = min(len(word), len(name)) >= _LONG and " " not in name and word[0] == name[0]
    apart = word[:-1] != name and name[:-1] != word
    return long and apart and _likeness(word, name) >= WEIGHTS["slip"]


@lru_cache(maxsize=50_000)
def _likeness(word: str, other: str) -> float:
    """Return the similarity of two words, in 0..1; initials and nicknames match their words."""
    if len(word) == 1:
        return 1.0 if word[0] == other[0] else 0.0
    if same_person(word, other):
        return 1.0
    if word in COMMON or word in FUNCTION or min(len(word), len(other)) < _SPELT:
        return 0.0
    # a slip at the start is rare, and a code with another digit is another code
    if word[0] != other[0] or any(map(str.isdigit, word + other)):
        return 0.0
    return SequenceMatcher(None, word, other, autojunk=False).ratio()

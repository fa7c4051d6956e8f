"""Detects questions in languages other than English, which the models here do not know.

Its small words say so. A graph that is in that language itself may share the question's words, and
is asked.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from kgqa.graph.names import normalise
from kgqa.lexicon.vocabulary import FUNCTION
from kgqa.paths.words import relation_phrase

if TYPE_CHECKING:
    from kgqa.graph.store import GraphStore

_WORD = re.compile(r"[^\W\d_]+")
_NAME = re.compile(r"[\"“„«](.*?)[\"”“»]")
_ENGLISH_TOO = frozenset({"come", "comment", "care", "hang"})
_LEAST = 2  # words of another language, or one at the beginning that no name is
_MIN_LETTERS = 4  # letters of such a word
_MOST_RELATIONS = 1_000  # of a KG whose relations' words are compared


@lru_cache(maxsize=1)
def _languages() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Return the question words, and all words, of each language by name, English included."""
    text = files("kgqa").joinpath("data", "linking", "languages.toml").read_text("utf-8")
    return {
        name: (
            frozenset(words["asks"].split()),
            frozenset(f"{words['asks']} {words['small']}".split()),
        )
        for name, words in tomllib.loads(text).items()
    }


def foreign_language(question: str) -> str | None:
    """Return the language, or the script, of a question that is not in English; else None.

    >>> foreign_language("Wer hat Apollo 13 gedreht und wer spielt die Hauptrolle?")
    'German'
    >>> foreign_language("Who directed La vita è bella?") is None
    True
    """
    words = [word.casefold() for word in _WORD.findall(_NAME.sub(" ", question))]
    languages = _languages()
    english, _ = languages["English"]
    scripts = [script for word in words if (script := _script(word)) != "LATIN"]
    if 2 * len(scripts) > len(words) and not english.intersection(words):
        return f"{max(scripts, key=scripts.count).capitalize()} letters"
    best, most = None, 0
    for name, (asks, every) in languages.items():
        asking = [at for at, word in enumerate(words) if word in asks]
        if name == "English" or not asking or any(word in english - every for word in words):
            continue
        own = sum(word in every for word in words)
        sure = asking[0] < 2 and _is_only_foreign(words[asking[0]])  # "in welcher …"
        if own > max(most, sum(word in FUNCTION - every for word in words)) and (
            own >= _LEAST or sure
        ):
            best, most = name, own
    return best


def _is_only_foreign(word: str) -> bool:
    """Return whether a foreign question word differs from every English one."""
    return not word.isascii() or (len(word) >= _MIN_LETTERS and word not in _ENGLISH_TOO)


def speaks(store: GraphStore, question: str, language: str) -> bool:
    """Return whether a KG's relations have the script, or words, of a question in ``language``."""
    names = store.relations().names[:_MOST_RELATIONS]
    if language.endswith(" letters"):
        script = language.removesuffix(" letters").upper()
        return any(_script(name) == script for name in names)
    small = _languages()[language][1]
    asked = {word for word in normalise(question).split() if len(word) > 2} - small - FUNCTION
    known = {word for name in names for word in normalise(relation_phrase(name)).split()}
    return any(word in known for word in asked)


def _script(text: str) -> str:
    """Return the script of the first letter, from its Unicode name."""
    letter = next((mark for mark in text if mark.isalpha()), "a")
    return unicodedata.name(letter, "LATIN").split()[0]

"""English word lists for entity linking, from ``kgqa/lexicon/linking.toml``.

``FUNCTION`` words never make a mention by themselves ("who is the"); ``COMMON`` words may name an
entity but seldom do in a question ("name", "film", "capital"), so a lower-case mention of nothing
else is marked down.
"""

from __future__ import annotations

from kgqa.lexicon.tables import tables_of

_DATA = tables_of("linking.toml")


def _meanings(text: str) -> dict[str, tuple[str, ...]]:
    """Parse lines of ``meaning: word word; meaning: word``; return the meanings of each word.

    An underscore in a word stands for a space.
    """
    meanings: dict[str, tuple[str, ...]] = {}
    for entry in text.strip().replace("\n", ";").split(";"):
        meaning, _, words = entry.partition(":")
        for word in (line.replace("_", " ") for line in words.split()):
            meanings[word] = (*meanings.get(word, ()), meaning.strip())
    return meanings


FUNCTION = frozenset(_DATA["function"].split())
COMMON = frozenset(_DATA["common"].split()) - FUNCTION
UNSPACED_FUNCTION = frozenset(_DATA["unspaced_function"].split())
SYNONYMS = {word: meant[-1] for word, meant in _meanings(_DATA["synonyms"]).items()}
PLACES = {word: meant[-1] for word, meant in _meanings(_DATA["demonyms"]).items()}
RELIGIONS = _meanings(_DATA["religions"])
GENDERS = {word: meant[-1] for word, meant in _meanings(_DATA["genders"]).items()}
NOT_LANGUAGES = frozenset(_DATA["not_languages"].split())
ABBREVIATIONS: dict[str, list[str]] = _DATA["abbreviations"]
WORD_ABBREVIATIONS: dict[str, str] = _DATA["word_abbreviations"]

_FIRST_NAMES = _meanings(_DATA["nicknames"])


def same_person(word: str, other: str) -> bool:
    """Return whether one normalised first name may stand for the other.

    >>> same_person("teddy", "theodore"), same_person("ted", "abraham")
    (True, False)
    """
    return other in _FIRST_NAMES.get(word, ()) or word in _FIRST_NAMES.get(other, ())

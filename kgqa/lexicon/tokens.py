"""The tokenisation of questions: words, numbers and signs with their spans.

A contracted "n't" is a word of its own, a hyphen separates words, and what stands in quotation
marks is marked, since it is never read as English.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kgqa.lexicon.english import words

_TOKEN = re.compile(
    r"(?P<sign>[<>]=?|[≤≥])"
    r"|(?P<number>(?:[$€£]\s?)?\d(?:[\d.,]*\d)?%?)(?!\w)"
    r"|(?P<word>[^\W_]+?(?=n['’]t\b)|n['’]t\b|[^\W_]+(?:['’](?!t\b)[^\W_]+)?)"
)
_QUOTED = re.compile(
    r"“[^“”]+”|«[^«»]+»|「[^「」]+」|\"[^\"]+\"|(?<!\w)['‘](?:[^'‘’]|(?<=\w)['’](?=\w))+['’](?!\w)"
)
_NOT = ("n't", "n’t")


@dataclass(frozen=True, slots=True)
class Token:
    """A word, number or sign: ``question[start:end]``; ``word``: in lower case.

    ``name``: it is part of a name, marked by quotation marks or by a capital inside a sentence.
    ``contracted``: it is the "n't" of the word before it.
    """

    word: str
    start: int
    end: int
    number: bool = False
    name: bool = False
    contracted: bool = False


def tokens(question: str) -> list[Token]:
    """Split a question into tokens.

    >>> [token.word for token in tokens("Which books aren't novels, or over €1,200?")]
    ['which', 'books', 'are', 'not', 'novels', 'or', 'over', '€1,200']
    >>> [token.word for token in tokens("Is 'No way' by Ann Li?") if token.name]
    ['no', 'way', 'ann', 'li']
    """
    quoted = [match.span() for match in _QUOTED.finditer(question)]
    mixed = any(character.islower() for character in question)
    found: list[Token] = []
    for match in _TOKEN.finditer(question):
        start, end = match.span()
        text = match[0]
        contracted = text.lower() in _NOT
        word = "not" if contracted else text.lower()
        inside = any(first <= start and end <= last for first, last in quoted)
        raised = mixed and bool(found) and text[0].isupper() and word != "i"
        number = match["number"] is not None or word in words("numbers")
        word = _whole(word, question[end : end + 3])
        found.append(Token(word, start, end, number, inside or raised, contracted))
    if len(found) > 1 and found[1].name and question[found[0].start].isupper():
        named = question[found[1].start].isupper() and found[0].word not in words("small")
        found[0] = replace(found[0], name=named or found[0].name)
    return found


def _whole(word: str, after: str) -> str:
    """Return the full verb before "n't": "ca" is "can", "wo" is "will"."""
    if after.lower() not in _NOT:
        return word
    return {"ca": "can", "wo": "will", "sha": "shall"}.get(word, word)


def last_part(relation: str) -> str:
    """Return the name in a relation's id: the last part of an IRI, otherwise the id.

    >>> last_part("http://x.org/knows"), last_part("people.person.gender")
    ('knows', 'people.person.gender')
    """
    if relation.startswith(("http://", "https://", "urn:")):
        return re.split(r"[/#:]", relation.rstrip("/#"))[-1] or relation
    return relation

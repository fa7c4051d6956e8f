"""One line of N-Triples: into its terms, or a reason why it is none.

Lenient where real dumps are: several spaces or tabs between terms, any character in an IRI but
white space, quotes and angle brackets. Strict where a fact would be lost or changed: the final
dot, quotes, escapes. What it does not do: blank nodes (they have no stable id), or know what a
predicate means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_IRI = r'<([^<>"\s]+)>'
_TEXT = r'"([^"\\\x00]*(?:\\(?:[tbnrf"\'\\]|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})[^"\\\x00]*)*)"'
_TAG = r"@([A-Za-z]+(?:-[A-Za-z0-9]+)*)"
TRIPLE = re.compile(
    rf"[ \t]*{_IRI}[ \t]+{_IRI}[ \t]+(?:{_IRI}|{_TEXT}(?:{_TAG}|\^\^{_IRI})?)[ \t]*\.[ \t]*(?:#.*)?"
)
"""Groups: subject, predicate, object IRI or None, text (still escaped), language, datatype."""

_ESCAPE = re.compile(r"\\(?:([tbnrf\"'\\])|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
_LETTERS = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal of N-Triples, unescaped. At most one of ``language`` and ``datatype`` is given."""

    text: str
    language: str | None = None
    datatype: str | None = None


def is_blank(line: str) -> bool:
    """Return whether a line is empty or a comment, and so rightly holds no triple."""
    start = line.lstrip(" \t")
    return not start or start[0] == "#"


def parse(line: str) -> tuple[str, str, str | Literal]:
    """Return (subject, predicate, object) of one line, IRIs without their brackets.

    Raises ValueError with the reason where the line is no triple.
    """
    match = TRIPLE.fullmatch(line)
    if match is None:
        raise ValueError(why_not(line))
    subject, predicate, iri, text, language, datatype = match.groups()
    if iri is not None:
        return subject, predicate, iri
    return subject, predicate, Literal(unescape(text), language, datatype)


def unescape(text: str) -> str:
    r"""Return ``text`` with ``\n``, ``\"``, ``\uXXXX``, … resolved; surrogate pairs are joined.

    Raises ValueError where what results is no text: half a surrogate pair, NUL, no code point.

    >>> unescape(r"Mine G\u00fcng\u00F6r \"x\"")
    'Mine Güngör "x"'
    """
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_resolve, text)
    if _HALF.search(plain):
        plain = _SURROGATES.sub(_join, plain)
        if _HALF.search(plain):
            raise ValueError("half of a surrogate pair in an escape")
    if "\0" in plain:
        raise ValueError("NUL character")
    return plain


def _resolve(match: re.Match[str]) -> str:
    letter, short, long = match.groups()
    if letter:
        return _LETTERS[letter]
    code = int(short or long, 16)
    if code > 0x10FFFF:
        raise ValueError("escape beyond the last code point")
    return chr(code)


def _join(match: re.Match[str]) -> str:
    return match[0].encode("utf-16", "surrogatepass").decode("utf-16")


_START = re.compile(rf"[ \t]*{_IRI}")
_NEXT = re.compile(rf"[ \t]+{_IRI}")
_OPEN = re.compile(r'[ \t]+"((?:[^"\\]|\\.)*)(")?')
_SUFFIX = re.compile(rf"(?:{_TAG}(?=[\s.]|$)|\^\^{_IRI})?")


def why_not(line: str) -> str:
    """Return the reason why a line does not match ``TRIPLE``: a phrase, the same for its like."""
    if "\0" in line:
        return "NUL character"
    if line.lstrip(" \t").startswith("_:"):
        return "blank node as subject"
    match = _START.match(line)
    if match is None:
        return "subject is no IRI in angle brackets"
    place = match.end()
    match = _NEXT.match(line, place)
    if match is None:
        return "predicate is no IRI in angle brackets"
    place = match.end()
    rest = line[place:].strip()
    if rest in ("", "."):
        return "object is missing"
    if rest.startswith("_:"):
        return "blank node as object"
    if match := _NEXT.match(line, place):
        place = match.end()
    elif match := _OPEN.match(line, place):
        if match[2] is None:
            return "text is not closed by a quote"
        if "\\" in _ESCAPE.sub("", match[1]):
            return "unknown escape in the text"
        place = match.end()
        suffix = _SUFFIX.match(line, place)
        place = suffix.end() if suffix else place
        if line[place : place + 1] in ("@", "^"):
            return "language tag or datatype is malformed"
    else:
        return "object is neither an IRI nor a text in quotes"
    rest = line[place:].strip()
    if not rest:
        return "final dot is missing"
    return "more than three terms" if rest[0] != "." else "text after the final dot"

"""One line of N-Triples: the pattern of a triple, escapes, and why a line is not a triple.

Lenient where real dumps are: several spaces or tabs between terms, any character in an IRI but
white space, quotes and angle brackets. Strict where a fact would be lost or changed: the final
dot, quotes, escapes. Blank nodes are refused, since they have no stable id.
"""

from __future__ import annotations

import re

# Characters in place of \s, so that Python and Arrow's kernels read the same from the patterns.
_SPACE = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
_IRI = rf'<([^<>"{_SPACE}]+)>'
_TEXT = r'"([^"\\\x00]*(?:\\(?:[tbnrf"\'\\]|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})[^"\\\x00]*)*)"'
_TAG = r"@([A-Za-z]+(?:-[A-Za-z0-9]+)*)"
_SUFFIX = rf"(?:{_TAG}|\^\^{_IRI})?"
_REST = r"[ \t]*\.[ \t]*(?:#.*)?"
TRIPLE = re.compile(rf"[ \t]*{_IRI}[ \t]+{_IRI}[ \t]+(?:{_IRI}|{_TEXT}{_SUFFIX}){_REST}")
"""Groups: subject, predicate, object IRI or None, text (still escaped), language, datatype."""

SUFFIX = re.compile(_SUFFIX)
"""What follows a literal's last quote. Groups: language, datatype."""


def _without_groups(pattern: str) -> str:
    return re.sub(r"(?<!\\)\((?!\?)", "(?:", pattern)


TRIPLE_LINE = (
    rf"\A[ \t]*<(?P<subject>{_without_groups(_IRI)[1:-1]})>[ \t]+"
    rf"<(?P<predicate>{_without_groups(_IRI)[1:-1]})>[ \t]+"
    rf"(?P<object>{_without_groups(f'{_IRI}|{_TEXT}{_SUFFIX}')}){_REST}\n\z"
)
"""``TRIPLE`` for Arrow's kernels: a line with its line feed; the object with its own marks."""

_ESCAPE = re.compile(r"\\(?:([tbnrf\"'\\])|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
_LETTERS = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")


def is_blank(line: str) -> bool:
    """Return whether a line is empty or a comment, and so rightly holds no triple."""
    start = line.lstrip(" \t")
    return not start or start[0] == "#"


def unescape(text: str) -> str:
    r"""Return ``text`` with ``\n``, ``\"``, ``\uXXXX``, … resolved; surrogate pairs are joined.

    Raises ValueError if the result is not a text: half a surrogate pair, NUL, no code point.

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
_END_OF_TEXT = re.compile(rf"(?:{_TAG}(?=[\s.]|$)|\^\^{_IRI})?")


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
        suffix = _END_OF_TEXT.match(line, place)
        place = suffix.end() if suffix else place
        if line[place : place + 1] in ("@", "^"):
            return "language tag or datatype is malformed"
    else:
        return "object is neither an IRI nor a text in quotes"
    rest = line[place:].strip()
    if not rest:
        return "final dot is missing"
    return "more than three terms" if rest[0] != "." else "text after the final dot"

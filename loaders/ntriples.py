"""N-Triples: the pattern of a triple, escapes, why a line is not a triple, and columns of literals.

Lenient where real dumps are: several spaces or tabs between terms, any character in an IRI but
white space, quotes and angle brackets. Strict where a fact would be lost or changed: the final
dot, quotes, escapes. Blank nodes are refused, since they have no stable id. A column's literals
are split at their last quote; what follows it (a language or a datatype) is understood once for all
that share it, and only a text with a backslash or a quote in it is looked at by itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.literals import is_renamed, value_id, value_name
from kgqa.loaders.delimited import as_text, spans
from kgqa.loaders.strings import each_once, has_nul, mask_of, offsets_of

if TYPE_CHECKING:
    from kgqa.graph.model import BoolArray, IntArray

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
OTHER_LANGUAGE = "other language"
_QUOTE = ord('"')


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
        return "subject is not an IRI in angle brackets"
    place = match.end()
    match = _NEXT.match(line, place)
    if match is None:
        return "predicate is not an IRI in angle brackets"
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


@dataclass(frozen=True, slots=True)
class Literals:
    """The literals of a column that are in the wanted language, or in none.

    ``rows``: their places in the column. ``texts``: without escapes. ``suffixes``: (language,
    datatype) of each suffix, and ``suffix`` which of them a text has. ``foreign``: how many are in
    another language. ``faults``: place and reason of what is not a literal.
    """

    rows: IntArray
    texts: pa.Array
    suffixes: list[tuple[str | None, str | None]]
    suffix: IntArray
    foreign: int
    faults: list[tuple[int, str]]

    def values(self, chosen: BoolArray) -> tuple[pa.Array, pa.Array]:
        """Return ids and names of some texts as values."""
        texts, suffix = self.texts.filter(pa.array(chosen)), self.suffix[chosen]
        ends = pa.array([value_id("", *each)[1:] for each in self.suffixes], type=pa.string())
        ids = pc.binary_join_element_wise('"', texts, ends.take(pa.array(suffix)), "")
        names = texts
        for place, (_, datatype) in enumerate(self.suffixes):
            if is_renamed(datatype) and (suffix == place).any():
                there = pa.array(suffix == place)
                found = each_once(texts.filter(there), partial(value_name, datatype=datatype))
                names = pc.replace_with_mask(names, there, found)
        return ids, names


def read_literals(terms: pa.Array, language: str) -> Literals:
    """Return what is kept of a column of terms (binary) that all start with a quote."""
    places, content = offsets_of(terms)
    starts, ends = places[:-1], places[1:]
    quotes = np.flatnonzero(content[places[0] : places[-1]] == _QUOTE) + places[0]
    last = quotes[np.searchsorted(quotes, ends) - 1] if len(terms) else quotes
    coded = spans(content, last + 1, ends).dictionary_encode()
    understood = [_suffix_of(raw) for raw in coded.dictionary.to_pylist()]
    suffix = coded.indices.to_numpy().astype(np.int64)
    wanted = np.array([each is None or each[0] in (None, language) for each in understood], bool)
    sound = np.array([each is not None for each in understood], dtype=np.bool_)
    if len(terms):
        wanted, sound = wanted[suffix], sound[suffix] & (last > starts)
        wanted |= last <= starts
    rows = np.flatnonzero(wanted)
    texts, decoded = as_text(
        spans(content, starts[rows] + 1, np.maximum(last[rows], starts[rows] + 1))
    )
    good = sound[rows] & decoded & ~has_nul(texts)
    odd = mask_of(pc.match_substring(texts, "\\")) | mask_of(pc.match_substring(texts, '"')) | ~good
    faults: list[tuple[int, str]] = []
    if odd.any():
        changed = []
        for place in np.flatnonzero(odd).tolist():
            row = int(rows[place])
            try:
                changed.append(_text_of(terms[row].as_py()))
                good[place] = True
            except ValueError as error:
                faults.append((row, str(error)))
                changed.append("")
                good[place] = False
        texts = pc.replace_with_mask(texts, pa.array(odd), pa.array(changed, type=pa.string()))
    suffixes = [each or (None, None) for each in understood]
    kept = rows[good]
    foreign = len(terms) - len(rows)
    return Literals(kept, texts.filter(pa.array(good)), suffixes, suffix[kept], foreign, faults)


def _suffix_of(raw: bytes) -> tuple[str | None, str | None] | None:
    """Return language and datatype, None for what is neither."""
    match = SUFFIX.fullmatch(raw.decode(errors="surrogateescape"))
    return (match[1], match[2]) if match else None


def _text_of(term: bytes) -> str:
    """Return the text of one literal. Raises ValueError with the reason why it is not one."""
    try:
        line = f"<s>\t<p>\t{term.decode()}\t."
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 ({error.reason})") from None
    match = TRIPLE.fullmatch(line)
    if match is None:
        raise ValueError(why_not(line))
    return unescape(match[4])

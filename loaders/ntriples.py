"""N-Triples: the pattern of a triple, escapes, why a line is not a triple, and columns of literals.

Lenient where real dumps are: several spaces or tabs between terms, any character in an IRI but
white space, quotes and angle brackets. Strict where a fact would be lost or changed: the final
dot, quotes, escapes. Blank nodes keep their labels as ids, and are mediators. A column's literals
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
from kgqa.graph.model import ALIAS, FALLBACK
from kgqa.loaders.strings import (
    BLANK,
    BlockReport,
    as_text,
    each_once,
    has_nul,
    inside,
    is_text,
    lines_at,
    mask_of,
    offsets_of,
    spans,
    whole_lines,
    why_undecodable,
)
from kgqa.loaders.triples_rows import TriplesPart, add_edges

if TYPE_CHECKING:
    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.loaders.blocks import Block

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
_WANTED, _REGION, MUL, _UNTAGGED, OTHER = range(5)
RANKS = FALLBACK // OTHER  # statements of a preference
_QUOTE = ord('"')


def _without_groups(pattern: str) -> str:
    """Turn the capturing groups of a pattern into non-capturing ones."""
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


def preference(tag: str | None, wanted: str) -> int:
    """Return a language tag's rank of preference, 0 the best.

    The ``wanted`` tag, its regions, ``mul`` (every language), no tag, any other language.

    >>> [preference(tag, "en") for tag in ("en", "en-GB", "mul", None, "de")]
    [0, 1, 2, 3, 4]
    """
    if tag is None:
        return _UNTAGGED
    tag, wanted = tag.lower(), wanted.lower()
    if tag == wanted:
        return _WANTED
    if tag.startswith(f"{wanted}-"):
        return _REGION
    return MUL if tag == "mul" else OTHER


def is_unnamed(ids: pa.Array) -> BoolArray:
    """Return which ids are those of pure connecting nodes: blank nodes, Wikidata's statements."""
    blank = mask_of(pc.starts_with(ids, "_:"))
    return blank | mask_of(pc.match_substring(ids, "/entity/statement/"))


def is_blank(line: str) -> bool:
    """Return whether a line is empty or a comment, so that it validly holds no triple."""
    start = line.lstrip(" \t")
    return not start or start[0] == "#"


def unescape(text: str) -> str:
    r"""Resolve the escapes ``\n``, ``\"``, ``\uXXXX``, … in ``text``; join surrogate pairs.

    Raises ValueError if the result is not a text: half a surrogate pair, NUL, no code point.

    >>> unescape(r"Mine G\u00fcng\u00F6r \"x\"")
    'Mine Güngör "x"'
    """
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_resolve, text)
    if _HALF.search(plain):
        plain = _SURROGATES.sub(_join_surrogates, plain)
        if _HALF.search(plain):
            raise ValueError("half of a surrogate pair in an escape")
    if "\0" in plain:
        raise ValueError("NUL character")
    return plain


def _resolve(match: re.Match[str]) -> str:
    """Return the character of one escape sequence. Raises ValueError."""
    letter, short, long = match.groups()
    if letter:
        return _LETTERS[letter]
    code = int(short or long, 16)
    if code > 0x10FFFF:
        raise ValueError("escape beyond the last code point")
    return chr(code)


def _join_surrogates(match: re.Match[str]) -> str:
    """Return the character of a surrogate pair."""
    return match[0].encode("utf-16", "surrogatepass").decode("utf-16")


_START = re.compile(rf"[ \t]*{_IRI}")
_NEXT = re.compile(rf"[ \t]+{_IRI}")
_OPEN = re.compile(r'[ \t]+"((?:[^"\\]|\\.)*)(")?')
_END_OF_TEXT = re.compile(rf"(?:{_TAG}(?=[\s.]|$)|\^\^{_IRI})?")


def why_not(line: str) -> str:
    """Return why a line does not match ``TRIPLE``, as a phrase common to all such lines."""
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


def match_line(part: BlockReport, number: int, raw: bytes) -> re.Match[str] | None:
    """Match a line against ``TRIPLE``; reject or count another line, and return None."""
    text = raw.decode(errors="backslashreplace")
    if reason := why_undecodable(raw):
        part.rejects.append((number, reason, text))
    elif match := TRIPLE.fullmatch(text):
        return match
    elif is_blank(text):
        part.dropped[BLANK] += 1
    else:
        part.rejects.append((number, why_not(text), text))
    return None


@dataclass(frozen=True, slots=True)
class Literals:
    """The literals of a column in the wanted language or without a language.

    ``rows``: their positions in the column. ``texts``: unescaped. ``suffixes``: the distinct
    (language, datatype) pairs, and ``suffix`` the index of each text's. ``foreign``: the number of
    literals in other languages. ``faults``: position and reason of each malformed literal.
    """

    rows: IntArray
    texts: pa.Array
    suffixes: list[tuple[str | None, str | None]]
    suffix: IntArray
    foreign: int
    faults: list[tuple[int, str]]

    def values(self, chosen: BoolArray) -> tuple[pa.Array, pa.Array]:
        """Return ids and names of the value nodes of the texts under the mask ``chosen``."""
        texts, suffix = self.texts.filter(pa.array(chosen)), self.suffix[chosen]
        ends = pa.array([value_id("", *each)[1:] for each in self.suffixes], type=pa.string())
        ids = pc.binary_join_element_wise('"', texts, ends.take(pa.array(suffix)), "")
        names = texts
        written = ~mask_of(pc.ascii_is_decimal(texts))  # not in digits alone, which are the name
        for place, (_, datatype) in enumerate(self.suffixes):
            if is_renamed(datatype) and (written & (suffix == place)).any():
                there = pa.array(written & (suffix == place))
                renamed = each_once(texts.filter(there), partial(value_name, datatype=datatype))
                names = pc.replace_with_mask(names, there, renamed)
        return ids, names


def read_literals(terms: pa.Array, language: str | None) -> Literals:
    """Parse a column of terms (binary) that all start with a quote; malformed ones are faults.

    ``language``: the only tag kept; texts without a tag are kept, too. None keeps all.
    """
    places, content = offsets_of(terms)
    starts, ends = places[:-1], places[1:]
    quotes = np.flatnonzero(content[places[0] : places[-1]] == _QUOTE) + places[0]
    last = quotes[np.searchsorted(quotes, ends) - 1] if len(terms) else quotes
    coded = spans(content, last + 1, ends).dictionary_encode()
    understood = [_suffix_of(raw) for raw in coded.dictionary.to_pylist()]
    suffix = coded.indices.to_numpy().astype(np.int64)
    wanted = np.array(
        [language is None or each is None or each[0] in (None, language) for each in understood],
        dtype=np.bool_,
    )
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
    """Parse a literal's suffix into (language, datatype); None if malformed."""
    match = SUFFIX.fullmatch(raw.decode(errors="surrogateescape"))
    return (match[1], match[2]) if match else None


def _text_of(term: bytes) -> str:
    """Return the unescaped text of one literal. Raises ValueError with the fault."""
    try:
        line = f"<s>\t<p>\t{term.decode()}\t."
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 ({error.reason})") from None
    match = TRIPLE.fullmatch(line)
    if match is None:
        raise ValueError(why_not(line))
    return unescape(match[4])


NAMES = frozenset(
    {
        "http://www.w3.org/2000/01/rdf-schema#label",
        "http://www.w3.org/2004/02/skos/core#prefLabel",
        "http://schema.org/name",
        "https://schema.org/name",
        "http://xmlns.com/foaf/0.1/name",
    }
)
ALIAS_NAME = "http://www.w3.org/2004/02/skos/core#altLabel"
LABELS = pa.schema([("id", pa.string()), ("text", pa.string()), ("rank", pa.int64())])
VALUES = pa.schema([("id", pa.string()), ("name", pa.string())])
EMPTY_TEXT = "empty text"
_WRITTEN = ("Value", "ValueNormalized")
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_WIKIBASE = "http://wikiba.se/ontology#"
OF_PROPERTIES = frozenset(
    _WIKIBASE + name
    for name in (
        *("claim", "directClaim", "directClaimNormalized", "novalue", "propertyType"),
        *(f"{of}{as_}" for of in ("statement", "qualifier", "reference") for as_ in _WRITTEN),
        *("statementProperty", "qualifier", "reference"),
    )
)
"""Predicates that say how Wikidata writes a property; that it has a label says more."""

OF_PROPERTY = "statement on how a property is written"
_TYPE, _EDGE, _NAME, _ALIAS, _NOTHING = range(5)  # what a predicate's lines are for
_OTHER_USES = {RDF_TYPE: _TYPE, ALIAS_NAME: _ALIAS, **dict.fromkeys(OF_PROPERTIES, _NOTHING)}


_LABEL = rf'(_:[^<>"{_SPACE}]+)'
_BLANK_TRIPLE = re.compile(
    rf"[ \t]*(?:{_IRI}|{_LABEL})[ \t]+{_IRI}[ \t]+"
    rf"(?:({_without_groups(_IRI)})|{_LABEL}|({_without_groups(_TEXT + _SUFFIX)})){_REST}"
)


def _with_blank_node(raw: bytes, scope: str) -> tuple[str, str, str] | None:
    """Split a line with a blank node into subject, predicate and object; None for another line.

    A blank node's id is its label, which is unique within one file only: ``scope`` prefixes those
    of further files.
    """
    try:
        match = _BLANK_TRIPLE.fullmatch(raw.decode().rstrip("\n"))
    except UnicodeDecodeError:
        return None
    if match is None or "\0" in match[0]:
        return None
    subject, blank, predicate, iri, other, text = match.groups()
    head = subject or f"_:{scope}{blank[2:]}"
    return head, predicate, iri or text or f"<_:{scope}{other[2:]}>"


def read_ntriples(block: Block, language: str, rank: int, scope: str = "") -> TriplesPart:
    """Parse the statements of a block.

    ``language``: of the texts that are kept, with its regions, those of every language (``mul``)
    and those without one; of an entity's labels the first of these is its name, else any. A label's
    rank is that order, then ``rank`` and the number of its line. ``scope``: prefixes the ids of the
    file's blank nodes.
    """
    part = TriplesPart(block.source)
    matches = pc.extract_regex(whole_lines(block).view(pa.string()), TRIPLE_LINE)
    fits = mask_of(matches.is_valid())
    rows: list[tuple[str, str, str, int]] = []
    for number, raw in lines_at(block, np.flatnonzero(~fits)):
        if b"_:" in raw and (row := _with_blank_node(raw, scope)):
            rows.append((*row, number))
        else:
            match_line(part, number, raw)
    matches = matches.filter(pa.array(fits))
    numbers = block.first + np.flatnonzero(fits)
    terms = [matches.field(name) for name in ("subject", "predicate", "object")]
    if rows:
        *columns, at = zip(*rows, strict=True)
        terms = [
            pa.concat_arrays([term, pa.array(column, type=pa.string())])
            for term, column in zip(terms, columns, strict=True)
        ]
        numbers = np.concatenate([numbers, np.array(at, dtype=np.int64)])
    for place, reason in _sort_triples(part, terms, rank + numbers, language):
        [(number, raw)] = lines_at(block, numbers[place : place + 1] - block.first)
        part.rejects.append((number, reason, raw.decode()))
    part.find_ends()
    return part


def _sort_triples(
    part: TriplesPart, terms: list[pa.Array], ranks: IntArray, language: str
) -> list[tuple[int, str]]:
    """Add triples, given as columns of terms, to a part; return (position, reason) of rejects.

    Labels of an entity in any language are kept with a rank; other texts in other languages, and
    empty texts, are counted as dropped.
    """
    subject, predicate, objects = terms
    encoded = predicate.dictionary_encode()
    predicates = encoded.dictionary
    uses = np.array([_use_of(iri) for iri in predicates.to_pylist()], dtype=np.int8)
    use = uses[encoded.indices.to_numpy()] if len(uses) else np.empty(0, dtype=np.int8)
    iri = mask_of(pc.starts_with(objects, "<"))
    part.described = pc.unique(subject.filter(pa.array(iri & (use == _TYPE))))
    about = iri & (use == _NOTHING)
    part.drop(OF_PROPERTY, about, subject)
    plain = iri & (use != _TYPE) & ~about
    for chosen, edges in ((plain, part.edges), (iri & (use == _TYPE), part.typed)):
        rows = pa.array(chosen)
        relation = predicates.take(encoded.indices.filter(rows))
        tails, nothing = inside(objects.filter(rows), 1, 1), pa.nulls(len(relation), pa.string())
        add_edges(edges, subject.filter(rows), relation, tails, nothing)
    texts = np.flatnonzero(~iri)
    if not len(texts):
        return []
    literals = read_literals(objects.take(pa.array(texts)).cast(pa.binary()), None)
    order = np.array([preference(tag, language) for tag, _ in literals.suffixes] or [0])
    preferred = order[literals.suffix]
    kept = texts[literals.rows]
    foreign = (preferred == OTHER) & (use[kept] != _NAME)  # of names the best one is taken
    part.drop(OTHER_LANGUAGE, foreign, literals.texts)
    filled = is_text(literals.texts)
    if (empty := ~filled & ~foreign).any():
        part.drop(EMPTY_TEXT, empty, subject.take(pa.array(kept)))
    filled &= ~foreign
    ranks = ranks.copy()
    ranks[kept] += preferred * RANKS
    for kind in (_NAME, _ALIAS):
        chosen = filled & (use[kept] == kind)
        if chosen.any():
            _add_labels(part, subject, literals, kept, chosen, ranks if kind == _NAME else None)
    chosen = filled & (use[kept] <= _EDGE)
    if chosen.any():
        ids, names = literals.values(chosen)
        part.values.append(pa.RecordBatch.from_arrays([ids, names], schema=VALUES))
        places = pa.array(kept[chosen])
        relation = predicates.take(encoded.indices.take(places))
        nothing = pa.nulls(len(ids), pa.string())
        add_edges(part.edges, subject.take(places), relation, ids, nothing)
    return [(int(texts[place]), reason) for place, reason in literals.faults]


def _add_labels(
    part: TriplesPart,
    subject: pa.Array,
    literals: Literals,
    rows: IntArray,
    chosen: BoolArray,
    ranks: IntArray | None,
) -> None:
    """Add the texts under the mask ``chosen`` as labels; without ``ranks`` they are aliases.

    ``rows``: the subject's row of each text.
    """
    ids = subject.take(pa.array(rows[chosen]))
    texts = pc.utf8_trim_whitespace(literals.texts.filter(pa.array(chosen)))
    rank = np.full(len(ids), ALIAS) if ranks is None else ranks[rows[chosen]]
    part.labels.append(pa.RecordBatch.from_arrays([ids, texts, pa.array(rank)], schema=LABELS))
    if ranks is not None:
        part.described = pc.unique(pa.chunked_array([part.described, ids]))


def _use_of(predicate: str) -> int:
    """Return how a predicate is used: for names, aliases, types or edges."""
    return _NAME if predicate in NAMES else _OTHER_USES.get(predicate, _EDGE)

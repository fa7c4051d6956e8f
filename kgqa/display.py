r"""Text on its way out: nothing in a name, a question or an error is interpreted by what shows it.

Terminals obey control characters; bidi controls reorder what stands beside them; zero-width
characters make two names look alike. All are shown as escapes (``\x1b``, ``\u202e``). The JSON
contract stays exact: there they are JSON's own escapes, which every reader turns back.
"""

from __future__ import annotations

import html
import json
import re
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Unicode's categories Cc, Cf, Cs, Zl and Zp and its Default_Ignorable_Code_Point; but the joiners
# of Arabic and Indic scripts, between their letters, are spelling
_HIDDEN = re.compile(
    r"(?!(?<=[\u0620-\u0dff])[\u200c\u200d](?=[\u0620-\u0dff]))"
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\ud800-\udfff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# what could be taken for a path's own arrows, in any script, or for the end of Markdown's code
_MARKS = re.compile(
    "`|(?<= )[|](?= )"
    "|[\u2190-\u21ff\u279c-\u27be\u27f0-\u27ff\u2900-\u297f\u2b00-\u2bff\U0001f800-\U0001f8ff]"
    r"|(?<=[-=~_|\u00ad\u02d7\u1806\u2010-\u2015\u2043\u2053\u207b\u208b\u2212\u2500-\u257f\u2796\u30fc"
    r"\ufe58\ufe63\uff0d])\s*[>\u00bb\u02c3\u203a\u227b\u2329\u232a\u276d-\u2771\u27e9\u3009\ufe65\uff1e]"
)
# what could be taken for a quoted half of a relation, or for the bar between two paths
_UNCLEAR = re.compile(r'[.^]"|^[|](?= |$)|(?<= )[|]$')
_SIGNS = frozenset('`|>"')  # one of which every mark has in printable ASCII
_FORMULA = re.compile("[ \n]*[=+@\t\r\uff1d\uff0b\uff0d\uff20-]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_PLAIN_ID = re.compile(r"[\w.:/#-]{1,80}")  # is not a sentence
_SENTENCE = 2_000  # characters of a note
LONGEST = 200  # characters of a name in a text for others' programs


def visible(text: str) -> str:
    r"""Return ``text`` on one line, with an escape for each invisible or control character.

    >>> visible("a\x1b[31mb\u202e c\n")
    'a\\x1b[31mb\\u202e c\\n'
    """
    return _HIDDEN.sub(_escape, text)


def escape_hidden(text: str) -> str:
    r"""Return ``text`` with JSON's escape for each invisible or control character.

    Cypher's strings have the same escapes.

    >>> escape_hidden("a\u202eb")
    'a\\u202eb'
    """
    return _HIDDEN.sub(lambda hidden: _json_escape(hidden[0]), text)


def as_html(value: object) -> str:
    """Escape ``value`` for HTML text or an attribute's value."""
    return html.escape(visible(str(value)), quote=True)


def as_csv_cell(value: Any) -> Any:
    """Return a value as a cell of CSV; a text that looks like a formula gets an apostrophe.

    A spreadsheet would run it: names are untrusted. A numeric text is unchanged.

    >>> as_csv_cell("=1+1"), as_csv_cell("-40"), as_csv_cell(-40)
    ("'=1+1", '-40', -40)
    """
    if not isinstance(value, str) or not _FORMULA.match(value) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def json_text(value: Any, *, ascii_only: bool = False) -> str:
    """Return ``value`` as JSON on one line; what a terminal would interpret is escaped in it."""
    return escape_hidden(json.dumps(value, ensure_ascii=ascii_only))


def shown_name(name: str, most: int = 0) -> str:
    r"""Return a name as a part of a path or message: unchanged if plain, else quoted.

    Quoted, it is a JSON string: a path's punctuation, hidden characters and line breaks are
    escaped. ``most``: the number of characters to show; 0 shows all, any other number quotes every
    name.

    >>> shown_name("Ada King"), shown_name("^a -> b\n"), shown_name("Ada King", 3)
    ('Ada King', '"^a -\\u003e b\\n"', '"Ada"… (8 characters)')
    """
    plain = name == name.strip() and name[:1] not in ("", "^", '"')
    most_names = name.isascii() and name.isprintable() and _SIGNS.isdisjoint(name)
    marked = not most_names and any(one.search(name) for one in (_HIDDEN, _MARKS, _UNCLEAR))
    if plain and not most and not marked:
        return name
    text = json.dumps(name[:most] if most else name, ensure_ascii=False)
    text = _without_marks(escape_hidden(text))
    return f"{text}… ({len(name):,} characters)" if 0 < most < len(name) else text


def said_name(name: str) -> str:
    """Return a name as quoted in a sentence, shortened if it is long.

    A name is untrusted text: a reader of the sentence must see where it ends.
    """
    return shown_name(name, LONGEST)


def said_entity(name: str, id_: str) -> str:
    """Return an entity as shown in a sentence: its quoted name, and its id."""
    return f"{said_name(name)} ({id_ if _PLAIN_ID.fullmatch(id_) else said_name(id_)})"


def markdown(text: str) -> str:
    r"""Escape a sentence for Markdown: no link, image, HTML or path is interpreted.

    A very long one is cut.

    >>> markdown("see ![it](http://x) <b> a -> b")
    'see !\\[it\\](http://x) \\<b> a -\\u003e b'
    """
    cut = text if len(text) <= _SENTENCE else f"{text[:_SENTENCE]}… ({len(text):,} characters)"
    return re.sub(r"[\[\]<]", r"\\\g<0>", _without_marks(visible(cut), "`"))


def shown_relation(edge: Any, most: int = 0) -> str:
    """Return the relation of a path's edge as text; ``^`` marks one against its direction.

    ``edge``: has ``head``, ``relation`` and ``facts``, the stored triples behind it in order (or
    ``meant``, which goes before); ``most``: as in :func:`shown_name`.
    """
    facts = getattr(edge, "meant", ()) or edge.facts
    halves = edge.relation.split("..") if len(facts) == 2 else [edge.relation]
    if len(halves) != len(facts):
        return shown_name(edge.relation, most)
    at, shown = edge.head.id, []
    for half, fact in zip(halves, facts, strict=True):
        against = fact.head != at
        at = fact.head if against else fact.tail
        marked = against and half.startswith("^")
        shown.append(f"^{shown_name(half[1:], most)}" if marked else shown_name(half, most))
    return "..".join(shown)


def path_parts(edges: Iterable[Any], most: int = 0) -> list[str]:
    """Split a path's text: texts between relations and the relations themselves, alternating.

    An edge that does not begin where the one before it ended follows a bar. ``most``: as in
    :func:`shown_name`.
    """
    parts, at = [""], None
    for edge in edges:
        if edge.head.id != at:
            parts[-1] += f"{' | ' if at is not None else ''}{shown_name(edge.head.name, most)}"
        at = edge.tail.id
        parts[-1] += " -> "
        parts += [shown_relation(edge, most), f" -> {shown_name(edge.tail.name, most)}"]
    return parts


def path_text(edges: Iterable[Mapping[str, Any]], most: int = 0) -> str:
    """Format a path as text, given its edges as JSON; ``most``: as in :func:`shown_name`."""
    read = (json.loads(json.dumps(edge), object_hook=_as_object) for edge in edges)
    return "".join(path_parts(read, most))


def code_span(shown: str) -> str:
    """Return quoted names in a Markdown code span, in which nothing is interpreted."""
    return f"`{shown}`"


def read_name(shown: str) -> str:
    """Parse a name that :func:`shown_name` quoted; any other text is returned unchanged."""
    if shown.startswith('"') and shown.endswith('"'):
        with suppress(ValueError):
            return str(json.loads(shown, strict=False))
    return shown


def _without_marks(text: str, but: str = "") -> str:
    """Escape the punctuation of paths in a text, except the character ``but``."""
    return _MARKS.sub(
        lambda mark: mark[0] if mark[0] == but else mark[0][:-1] + _json_escape(mark[0][-1]), text
    )


def _as_object(known: dict[str, Any]) -> Any:
    """Convert a JSON edge, fact or node to an object with attributes; other dicts stay."""
    return SimpleNamespace(**known) if known.keys() & {"id", "relation", "predicate"} else known


def _json_escape(mark: str) -> str:
    """Return the JSON escape of a character."""
    escape = json.dumps(mark)[1:-1]
    return escape if len(escape) > 1 else f"\\u{ord(mark):04x}"  # one that JSON may leave as it is


def _escape(hidden: re.Match[str]) -> str:
    """Return the escape of a hidden character as Python writes it."""
    if hidden[0] in "\t\n\r":
        return json.dumps(hidden[0])[1:-1]
    code = ord(hidden[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


NOT_HERE, NO = "Not in this graph", "No:"
LIVE = "Read as it is now from"  # begins the note of what has no version
REFUSED = (NOT_HERE, NO)  # what the note of a refusal begins with
NO_EVIDENCE = "This graph seems to hold no answer"


def refusal(notes: Sequence[str], confidence: float | None) -> str:
    """Return a sentence that the graph has no answer and how sure that is, from its notes.

    The first note that refuses is taken; without one, a general sentence.

    >>> refusal(['Not in this graph: "Ada" has no fact that answers this.'], 0.97)
    'Not in this graph (fairly sure): "Ada" has no fact that answers this.'
    >>> refusal(['No: it is "-26", not "26".'], 0.97)
    'No (fairly sure): it is "-26", not "26".'
    >>> refusal([], 0.2)
    'No answer: the facts found are not evidence enough.'
    """
    why = next((note for note in notes if note.startswith(REFUSED)), "")
    if why and confidence is not None:
        sure = "fairly sure" if confidence >= 0.9 else "probably" if confidence >= 0.7 else "unsure"
        return why.replace(":", f" ({sure}):", 1)
    return why or "No answer: the facts found are not evidence enough."


def first_of(in_all: int, given: int) -> str:
    """Return a note that only the first ``given`` of ``in_all`` answers are given."""
    return f"There are {in_all:,} in all; {given:,} of them are given."
